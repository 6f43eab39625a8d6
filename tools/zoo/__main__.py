"""A zoo of architectures: each is exported, compiled in every way, run, and compared with eager PyTorch.

    python tools/zoo --sconce target/release/sconce --work target/zoo [--family F]... [--row FAMILY/NAME]... [--flow F]...
                     [--docs docs/zoo.md] [--known docs/zoo.md] [--limit-seconds N] [--stale] [--again]

Each row runs in a process of its own, one after the other, with limits of time and memory. Results are lines of
WORK/results.jsonl; what is there is not done again, so that an interrupted run goes on where it was. `--stale` repeats
what an older command made, `--again` everything that is selected. Ends with code 1 if a flow of a selected row is wrong,
unless the page of `--known` has it as wrong too.
"""

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import models
import official
import report
import torch
from flows import available, carry_out
from place import Place, known

# What one row may take.
SECONDS, BYTES = 300, 10 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sconce", required=True, help="path of the command")
    parser.add_argument("--work", required=True, type=Path, help="where exports and results are kept")
    parser.add_argument("--family", action="append", default=[], help="only this family")
    parser.add_argument("--row", action="append", default=[], metavar="FAMILY/NAME", help="only this row")
    parser.add_argument("--flow", action="append", default=[], help="only this flow")
    parser.add_argument("--docs", type=Path, help="writes the results as a page")
    parser.add_argument("--known", type=Path, help="a page whose failures are no reason to end with code 1")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"), help="begins no row after this time")
    parser.add_argument("--stale", action="store_true", help="also repeats what another version of the command did")
    parser.add_argument("--again", action="store_true", help="forgets what is known of the selected rows")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = options.work / "results.jsonl"
    version = hashlib.sha256(Path(options.sconce).read_bytes()).hexdigest()[:12]
    accepted = report.wrong(options.known.read_text()) if options.known else set()
    flows = available(Place(options.sconce, options.work))
    flows = [flow for flow in flows if flow.name in [*(options.flow or [flow.name]), "export"]]
    failed, start = set(), time.time()
    warm()
    for key, row in models.rows(options.family, options.row):
        if options.again:
            forget(results, key, options.flow)
        attempts = 0
        while (missing := to_do(flows, known(results), key, options, version)) and attempts < len(flows):
            if time.time() - start > options.limit_seconds:
                print("the time is up; the same command goes on from here")
                sys.exit(finish(options, results, failed))
            attempts += 1
            visit(key, row, missing, options, version, results)
        failed |= {name for name, record in known(results).items() if name[0] == key and not record["ok"]} - accepted
    sys.exit(finish(options, results, failed))


def warm():
    """Loads what every export needs, which the processes of the rows then have."""
    program = torch.export.export(torch.nn.Linear(1, 1), (torch.zeros(1, 1),), strict=False)
    torch.export.save(program, io.BytesIO())
    official.warm()


def to_do(flows, records, key, options, version):
    """The flows of a row that are not known yet."""

    def done(flow):
        record = records.get((key, flow.name))
        return record and (flow.name == "export" or not options.stale or record["version"] == version)

    exported = records.get((key, "export"))
    if exported and not exported["ok"]:
        return []
    family = key.partition("/")[0]
    return [flow for flow in flows if not done(flow) and (not flow.families or family in flow.families)]


def forget(results, key, flows):
    records = known(results)
    kept = [own for (name, flow), own in records.items() if name != key or (flows and flow not in flows)]
    results.write_text("".join(json.dumps(own) + "\n" for own in kept))


def visit(key, row, missing, options, version, results):
    """Carries out flows of a row in another process, and writes down how that ended if it did not end well."""
    begun = options.work / "begun"
    common = {"row": key, "version": version}
    arguments = (row, missing, Place(options.sconce, options.work / key), results, begun, common)
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join(SECONDS)
    late = process.is_alive()
    if late:
        process.kill()
        process.join()
    if late or process.exitcode:
        how = f"takes more than {SECONDS} s" if late else f"ended the process with {process.exitcode}"
        write(
            results, common | {"flow": begun.read_text(), "ok": False, "reason": how, "seconds": SECONDS if late else 0}
        )


def work(row, flows, place, results, begun, common):
    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    for flow in flows:
        begun.write_text(flow.name)
        try:
            record = carry_out(flow, row, place)
        except Exception as error:
            traceback.print_exc()
            text = " ".join(str(error).split())[:300]
            record = {"ok": False, "reason": f"{type(error).__name__}: {text}", "seconds": 0}
        write(results, common | {"flow": flow.name} | record)
        if flow.name == "export" and not record["ok"]:
            break
    sys.stdout.flush()
    os._exit(0)


def write(results, record):
    with results.open("a") as file:
        file.write(json.dumps(record) + "\n")
    said = report.figures(record) if record["ok"] else f"no: {record['reason']}"
    print(f"{record['row']:<40} {record['flow']:<13} {record['seconds']:>6} s  {said}", flush=True)


def finish(options, results, failed):
    if options.docs:
        options.docs.write_text(report.page(known(results)))
    print(report.counts(known(results)))
    for row, flow in sorted(failed):
        print(f"wrong: {row}, {flow}")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
