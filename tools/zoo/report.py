"""The page of the zoo, from its results."""

import importlib
from collections import Counter

import models
from flows import FLOWS

HEAD = """# The zoo

Architectures of every kind, small ones with seeded weights: exported by PyTorch, compiled in every way, run, and compared
with eager PyTorch. This page is written by

```sh
python tools/zoo --sconce target/release/sconce --work target/zoo --docs docs/zoo.md
```

which goes on where it was interrupted; `--row FAMILY/NAME` runs one row. [`tools/zoo`](../tools/zoo) has a line for each.

| column | meaning |
|---|---|
| kind | `dynamic`: sizes that the caller chooses, several of them run; `state`: buffers that a run changes, several runs on one session; `methods`: several in one program |
| calls | of operators, after lowering without a backend |
| portable | largest error, relative to the largest result of eager PyTorch; right is what `sconce check` accepts by default |
| xnnpack | calls that XNNPACK runs, of all; largest error |
| int8, int8-dynamic, int4 | how far the quantised program is above its noise, in decibels; largest error against eager PyTorch on the same quantised program; right is 4e-2 relative and 1e-1 of the largest result. `runs`: results jump at small differences, so that they are not compared |
| speed | against the official runtime |

"""
ABBREVIATED = 160


def page(records):
    shown = FLOWS[1:]
    lines = [HEAD, summary(records), ""]
    for family in models.FAMILIES:
        rows = list(dict.fromkeys(key for key, _ in records if key.startswith(f"{family}/")))
        if not rows:
            continue
        title = importlib.import_module(f"models.{family}").TITLE
        names = " | ".join(flow.name for flow in shown)
        lines += [f"## {title}", "", f"| model | kind | parameters | calls | {names} | speed |"]
        lines += ["|---|---|---:|---:" + "|---" * len(shown) + "|---|"]
        reasons = []
        for key in rows:
            lines.append(line(key, records, shown, reasons))
        lines += ["", *reasons, *([""] if reasons else [])]
    return "\n".join(lines).rstrip() + "\n"


def line(key, records, shown, reasons):
    name, exported = key.partition("/")[2], records.get((key, "export"), {})
    cells, why = [], {}
    for flow in shown:
        record = records.get((key, flow.name))
        if record is None:
            cells.append("")
        elif record["ok"]:
            cells.append(figures(record))
        else:
            cells.append("**no**")
            why.setdefault(reason(record), []).append(flow.name)
    if exported and not exported["ok"]:
        why[reason(exported)] = ["export"]
    reasons += [f"* {name}, {', '.join(flows)}: {text}" for text, flows in why.items()]
    parameters = f"{exported['parameters']:,}" if exported.get("ok") else ""
    calls = records.get((key, "portable"), {}).get("calls", "")
    kinds = ", ".join(exported.get("kinds", []))
    return f"| {name} | {kinds} | {parameters} | {calls} | {' | '.join(cells)} | |"


def reason(record):
    text = record["reason"].replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= ABBREVIATED else text[:ABBREVIATED] + "..."


def figures(record):
    """What a flow that went well has to show."""
    if "error" not in record:
        return "runs" if "compared" in record else f"{record.get('parameters', 0):,} parameters"
    parts = [f"{record['error']:.0e}"]
    if "decibels" in record:
        parts.insert(0, "no noise" if record["decibels"] is None else f"{record['decibels']:.0f} dB")
    elif record["delegated"]:
        parts.insert(0, f"{record['delegated']}/{record['calls']}")
    return ", ".join(parts)


def counts(records):
    right = Counter(flow for (_, flow), record in records.items() if record["ok"])
    every = Counter(flow for _, flow in records)
    return ", ".join(f"{flow.name} {right[flow.name]} of {every[flow.name]}" for flow in FLOWS if every[flow.name])


def summary(records):
    exported = [record for (_, flow), record in records.items() if flow == "export"]
    kinds = Counter(kind for record in exported for kind in record.get("kinds", []))
    kinds = ", ".join(f"{count} with {kind}" for kind, count in sorted(kinds.items()))
    return f"{len(exported)} models ({kinds}). Right: {counts(records)}."
