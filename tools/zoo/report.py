"""The page of the zoo, from its results."""

import importlib
import re
from collections import Counter

import models
from flows import FLOWS, GGML

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
| int8, int8-dynamic, int4 | how far the quantised program is above its noise, in decibels; largest error against eager PyTorch on the same quantised program; right is 4e-2 relative and 1e-1 of the largest result. `nothing`: no layer became integers; `official`: more than that, but the same as the official runtime; `noise`: more, but as far as two programs of that noise are apart; `runs`: results jump at small differences, so that they are not compared |
| official | whether the official runtime makes the same of the int8 program, bit for bit; else how many outputs are equal, and below the table the first operator that differs, which is one in float32. `refused`: it does not run there |
| speed | against the official runtime |

"""
ABBREVIATED = 160


def page(records):
    rows = {family: [key for key, _ in models.rows([family], [])] for family in models.FAMILIES}
    present = {key for keys in rows.values() for key in keys}
    records = {name: record for name, record in records.items() if name[0] in present}
    shown = [flow for flow in (FLOWS + GGML)[1:] if any(name == flow.name for _, name in records)]
    lines = [HEAD + summary(records), ""]
    for family, keys in rows.items():
        keys = [key for key in keys if (key, "export") in records]
        if not keys:
            continue
        title = importlib.import_module(f"models.{family}").TITLE
        own = [flow for flow in shown if not flow.families or family in flow.families]
        names = " | ".join(flow.name for flow in own)
        lines += [f"## {title}: `{family}`", "", f"| model | kind | parameters | calls | {names} | speed |"]
        lines += ["|---|---|---:|---:" + "|---" * len(own) + "|---|"]
        reasons = []
        for key in keys:
            lines.append(line(key, records, own, reasons))
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
            if explanation := record.get("first") or record.get("unloaded"):
                why.setdefault(short(explanation), []).append(flow.name)
        else:
            cells.append("**no**")
            why.setdefault(reason(record), []).append(flow.name)
    if exported and not exported["ok"]:
        why[reason(exported)] = ["export"]
        cells = ["**no**"] * len(shown)
    reasons += [f"* {name}, {', '.join(flows)}: {text}" for text, flows in why.items()]
    parameters = f"{exported['parameters']:,}" if exported.get("ok") else ""
    calls = records.get((key, "portable"), {}).get("calls", "")
    kinds = ", ".join(exported.get("kinds", []))
    return f"| {name} | {kinds} | {parameters} | {calls} | {' | '.join(cells)} | |"


def wrong(text):
    """Pairs of row and flow that a page has as wrong."""
    pairs, family, columns = set(), "", []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if heading := re.fullmatch(r"## .*`(\w+)`", line):
            family = heading[1]
        elif line.startswith("| model |"):
            columns = cells
        elif family and line.startswith("| "):
            pairs |= {(f"{family}/{cells[0]}", flow) for flow, cell in zip(columns, cells) if cell == "**no**"}
    return pairs


def reason(record):
    # Where a machine keeps its files is of no interest.
    return short(re.sub(r"/\S*/([^/\s]+)", r"\1", record["reason"]).removesuffix(" 0 passed, 1 failed"))


def short(text):
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= ABBREVIATED else text[:ABBREVIATED] + "..."


def figures(record):
    """What a flow that went well has to show."""
    if "parameters" in record:
        return f"{record['parameters']:,} parameters"
    if "unloaded" in record:
        return "refused"
    if "equal" in record:
        return "equal" if record["equal"] == 1 else f"{record['equal']:.2%}"
    parts = []
    if "integers" in record and not record["integers"]:
        parts.append("nothing")
    elif record.get("decibels") is not None:
        parts.append(f"{record['decibels']:.0f} dB")
    elif record["delegated"]:
        parts.append(f"{record['delegated']}/{record['calls']}")
    if "compared" in record:
        parts.append("runs")
    elif "error" in record:
        parts.append(f"{record['error']:.0e}" if record["error"] else "0")
    if "as" in record:
        parts.append(record["as"])
    return ", ".join(parts)


def counts(records):
    right = Counter(flow for (_, flow), record in records.items() if record["ok"])
    every = Counter(flow for _, flow in records)
    flows = [flow.name for flow in FLOWS + GGML if every[flow.name]]
    return ", ".join(f"{flow} {right[flow]} of {every[flow]}" for flow in flows)


def summary(records):
    exported = [record for (_, flow), record in records.items() if flow == "export"]
    kinds = Counter(kind for record in exported for kind in record.get("kinds", []))
    kinds = ", ".join(f"{count} with {kind}" for kind, count in sorted(kinds.items()))
    return f"{len(exported)} models ({kinds}). Right: {counts(records)}."
