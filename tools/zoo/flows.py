"""What each flow does with a row: export, then compile, load, run and judge.

| flow | compiled | compared with |
|---|---|---|
| `export` | by torch | |
| `portable`, `xnnpack`, `ggml` | by the command, for that backend | eager PyTorch |
| `int8`, `int8-dynamic`, `int4` | so quantised, for XNNPACK | eager PyTorch on the same program (`eager_program.py`) |
| `official` | as `int8` | the official runtime on the same program, bit for bit (`official.py`) |
| `q8_0`, `q4_0`, `q4_k`, `q5_k`, `q6_k` | with these blocks, for ggml | eager PyTorch on rounded weights (`blocks.py`) |

A flow gives a record: `ok`, `reason` if not, and what the report shows.
"""

import copy
import io
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import judge
import numpy as np
import official
import torch
from blocks import BLOCKS
from place import Refused
from row import arrays, goldens
from torch.export.pt2_archive._package import package_pt2

# The largest export that is kept.
LARGEST = 100 << 20
# An export that shows what the command was built with.
SAMPLE = Path(__file__).parents[2] / "tests" / "golden" / "pt2" / "encoder.pt2"


@dataclass
class Flow:
    name: str
    # Arguments of `sconce compile`.
    arguments: list[str] = field(default_factory=list)
    # The families that it is for; all if empty.
    families: tuple[str, ...] = ()

    @property
    def on_integers(self):
        return self.name.startswith("int")

    @property
    def calibrated(self):
        return "int8" in self.arguments


FLOWS = [
    Flow("export"),
    Flow("portable"),
    Flow("xnnpack", ["--backend", "xnnpack"]),
    Flow("int8", ["--quantize", "int8"]),
    Flow("int8-dynamic", ["--quantize", "int8-dynamic"]),
    Flow("int4", ["--quantize", "int4"]),
    Flow("official", ["--quantize", "int8"]),
]
LANGUAGES = ("languages", "mixtures")
GGML = [Flow("ggml", ["--backend", "ggml"], LANGUAGES)]
GGML += [Flow(name, ["--backend", "ggml", "--quantize", name], LANGUAGES) for name in BLOCKS]


def available(place):
    """The flows that the command was built for."""
    place.folder.mkdir(parents=True, exist_ok=True)
    output = place.folder / "sample.pte"
    ggml = place.command("compile", SAMPLE, "-o", output, "--backend", "ggml", "--quantize", "q8_0")[0]
    output.unlink(missing_ok=True)
    return FLOWS + GGML if ggml else FLOWS


def carry_out(flow, row, place):
    """The record of a flow."""
    start = time.time()
    try:
        record = export(row, place) if flow.name == "export" else program(flow, row, place)
        record["ok"] = True
    except Refused as error:
        record = {"ok": False, "reason": str(error)}
    record["seconds"] = round(time.time() - start, 1)
    return record


def export(row, place):
    shutil.rmtree(place.folder, ignore_errors=True)
    place.folder.mkdir(parents=True)
    methods, programs, files = row.methods(), {}, {}
    for name, method in methods.items():
        options = {"dynamic_shapes": method.dynamic, "strict": method.strict}
        programs[name] = torch.export.export(method.module, method.runs[0], **options)
        files[name] = io.BytesIO()
        torch.export.save(programs[name], files[name])
    if len(programs) > 1:
        package_pt2(str(place.model), exported_programs=programs)
    else:
        place.model.write_bytes(files["forward"].getvalue())
    if place.model.stat().st_size > LARGEST:
        raise Refused("the row is of no use: the export has more than 100 MB")
    # Runs change buffers, which the saved programs have as they are at first.
    labels = {name: f".{name}" if len(methods) > 1 else "" for name in methods}
    found = [run(place, method, files[name], labels[name]) for name, method in methods.items()]
    if max(largest for largest, _ in found) < 1e-3:
        raise Refused("the row is of no use: its results vanish")
    weights = {id(own): own.numel() for method in methods.values() for own in method.module.parameters()}
    kinds = {
        "dynamic": any(method.dynamic is not None for method in methods.values()),
        "methods": len(methods) > 1,
        "state": any(changes for _, changes in found),
    }
    return {"parameters": sum(weights.values()), "kinds": [kind for kind, own in kinds.items() if own]}


def run(place, method, file, label):
    """Writes golden files; the largest result, and whether buffers have changed."""
    state = [(buffer, buffer.clone()) for buffer in method.module.buffers()]
    first, largest = copy.deepcopy(method.runs[0]), 0.0
    for number, golden in enumerate(goldens(method.module, method.runs)):
        largest = max(largest, shows(golden))
        step = "" if len(method.runs) == 1 else f".step{number}"
        np.savez(place.folder / f"model{label}{step}.npz", **golden)
        if number == 0:
            faithful(file, first, golden)
    return largest, not all(buffer.equal(before) for buffer, before in state)


def faithful(file, inputs, golden):
    """Refuses a row whose export computes something else than the module, when torch runs it."""
    file.seek(0)
    try:
        exported = torch.export.load(file).module()
    except Exception:
        # There are programs that torch writes and does not read.
        return
    with torch.no_grad():
        found = arrays(exported(*inputs), "out")
    for name, own in found.items():
        wanted = golden[name].astype(np.float64)
        if wanted.shape != own.shape or not np.allclose(own, wanted, 1e-3, 1e-3 * np.abs(wanted).max(initial=1), True):
            raise Refused("the row is of no use: torch exports something else than it runs")


def shows(golden):
    """The largest result of a run, which must be made of numbers."""
    results = [golden[name] for name in golden if name.startswith("out")]
    if any(result.dtype == object for result in results):
        raise Refused("the row is of no use: a result is neither tensor nor number")
    if any(result.dtype.kind == "f" and not np.isfinite(result).any() for result in results if result.size):
        raise Refused("the row is of no use: a result has no finite numbers")
    return max((float(np.nanmax(np.abs(result.astype(np.float64)))) for result in results if result.size), default=0.0)


def program(flow, row, place):
    if not place.model.exists():
        raise Refused("there is no export")
    folder = place.folder / flow.name
    folder.mkdir(exist_ok=True)
    # Golden files belong to the program of their name.
    compiled = folder / "model.pte"
    arguments = flow.arguments + (["--calibrate", *place.calibration()] if flow.calibrated else [])
    try:
        delegated = flow.on_integers or flow.calibrated
        record = place.compile(compiled, *arguments, *(["--backend", "xnnpack"] if delegated else []))
        if flow.name == "official":
            official.compare(place, compiled, record)
        elif flow.on_integers:
            judge.quantised(place, compiled, arguments, record, row.jumps)
        elif flow.name in BLOCKS:
            judge.in_blocks(place, compiled, row, flow.name, record)
        else:
            judge.compare(place, compiled, place.goldens(), judge.COARSE if row.quantised else [], record)
        return record
    finally:
        shutil.rmtree(folder, ignore_errors=True)
