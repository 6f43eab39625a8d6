"""What each flow does with a row: export, then compile, load, run and judge.

| flow | compiled | compared with |
|---|---|---|
| `export` | by torch | |
| `portable`, `xnnpack`, `ggml` | by the command, for that backend | eager PyTorch |
| `int8`, `int8-dynamic`, `int4` | with that quantisation, for XNNPACK | eager PyTorch on the quantised program (`eager_program.py`) |
| `q8_0`, `q4_0`, `q4_k`, `q5_k`, `q6_k` | with these blocks, for ggml | eager PyTorch on weights that went through such blocks |

A flow gives a record: `ok`, `reason` if not, and what the report shows.
"""

import json
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import eager_program
import numpy as np
import torch
from row import array, arrays, goldens
from torch.export.pt2_archive._package import package_pt2

# Seconds that one call of the command may take.
PATIENCE = 120
# The largest export that is kept.
LARGEST = 100 << 20
# Tolerances for quantised programs.
COARSE = ["--rtol", "4e-2", "--atol", "1e-1"]


class Refused(Exception):
    """Why a flow does not work, in a sentence."""


@dataclass
class Flow:
    name: str
    # Arguments of `sconce compile`.
    arguments: list[str] = field(default_factory=list)
    quantised: bool = False


FLOWS = [
    Flow("export"),
    Flow("portable"),
    Flow("xnnpack", ["--backend", "xnnpack"]),
    Flow("int8", ["--quantize", "int8"], True),
    Flow("int8-dynamic", ["--quantize", "int8-dynamic"], True),
    Flow("int4", ["--quantize", "int4"], True),
]


@dataclass
class Place:
    """Where a row's files are, and the command."""

    sconce: str
    folder: Path

    @property
    def model(self):
        return self.folder / "model.pt2"

    def goldens(self):
        return sorted(self.folder.glob("model*.npz"), key=step)

    def command(self, *arguments):
        """Output of the command, and whether it succeeded."""
        try:
            done = subprocess.run(
                [self.sconce, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise Refused(f"`sconce {arguments[0]}` takes more than {PATIENCE} s") from None
        if done.returncode < 0 or "panicked at" in done.stderr:
            last = " ".join(done.stderr.split())[-300:]
            raise Refused(f"`sconce {arguments[0]}` ended with {done.returncode}: {last}")
        return done.returncode == 0, done.stdout, done.stderr


def step(golden):
    number = re.search(r"step(\d+)", golden.name)
    return golden.name.split(".")[1], int(number[1]) if number else 0


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
    methods = row.methods()
    programs, kinds, largest = {}, set(), 0.0
    for name, method in methods.items():
        options = {"dynamic_shapes": method.dynamic, "strict": method.strict}
        own = torch.export.export(method.module, method.runs[0], **options)
        programs[name] = own
        if method.dynamic is not None:
            kinds.add("dynamic")
        if own.graph_signature.buffers_to_mutate:
            kinds.add("state")
    if len(programs) > 1:
        kinds.add("methods")
        package_pt2(str(place.model), exported_programs=programs)
    else:
        torch.export.save(programs["forward"], str(place.model))
    if place.model.stat().st_size > LARGEST:
        raise Refused("the row is of no use: the export has more than 100 MB")
    # Runs change buffers, which the saved programs have as they are at first.
    for name, method in methods.items():
        for number, golden in enumerate(goldens(method.module, method.runs)):
            largest = max(largest, shows(golden))
            label = ("" if len(methods) == 1 else f".{name}") + ("" if len(method.runs) == 1 else f".step{number}")
            np.savez(place.folder / f"model{label}.npz", **golden)
    if largest < 1e-3:
        raise Refused(f"the row is of no use: its results are all below {largest:.1e}")
    weights = {id(own): own.numel() for method in methods.values() for own in method.module.parameters()}
    return {"parameters": sum(weights.values()), "kinds": sorted(kinds)}


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
    calibration = ["--calibrate", *place.goldens()] if flow.name == "int8" else []
    try:
        backend = ["--backend", "xnnpack"] if flow.quantised else []
        record = compile_with(place, compiled, [*flow.arguments, *backend, *calibration])
        wanted = place.goldens()
        if flow.quantised:
            wanted, record["decibels"] = quantised(flow, place, folder, calibration)
        if row.jumps and flow.quantised:
            runs(place, compiled, record)
        else:
            compare(place, compiled, wanted, COARSE if flow.quantised else [], record)
        return record
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compile_with(place, output, arguments):
    ok, printed, complaint = place.command("compile", place.model, "-o", output, *arguments)
    if not ok:
        raise Refused(sentence(complaint))
    calls = dict(re.findall(r"^(\w+) +(?:\d+ +)?(\d+)$", printed, re.MULTILINE))
    planned = sum(map(int, re.findall(r": (\d+) bytes of planned memory", printed)))
    every = int(calls.get("all", 0))
    return {
        "calls": every,
        "delegated": every - int(calls.get("operators", every)),
        "bytes": output.stat().st_size,
        "planned": planned,
    }


def sentence(complaint):
    lines = [line for line in complaint.splitlines() if line.strip() and not line.startswith("warning:")]
    text = " ".join(lines).removeprefix("error: ")
    return re.sub(r"\S*/model\.pt2: ", "", text)[:600]


def compare(place, compiled, wanted, tolerances, record):
    """Golden values against those of the program; the largest error is relative to the largest golden value."""
    exact = place.command("check", "--rtol", "0", "--atol", "0", compiled, *wanted)[1]
    record["error"] = largest_error(exact, wanted)
    ok, printed, complaint = place.command("check", *tolerances, compiled, *wanted)
    if not ok:
        lines = [re.sub(r"^FAIL \S*\.pte", "", line).strip(": ") for line in printed.splitlines()]
        raise Refused((" ".join(lines[:2]) or sentence(complaint))[:600])


def largest_error(printed, wanted):
    by_label = {golden.name.removesuffix(".npz").partition(".")[2]: golden for golden in wanted}
    largest = 0.0
    for line in printed.splitlines():
        if not (found := re.match(r"FAIL \S+\.pte(?: \[(.*?)\])?: out(\d+) largest error (\S+) at", line)):
            continue
        with np.load(by_label[found[1] or ""]) as arrays:
            values = arrays[f"out{found[2]}"].astype(np.float64)
        most = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        largest = max(largest, float(found[3]) / most if most else float(found[3]))
    return largest


def runs(place, compiled, record):
    """Runs only; for results that small differences change entirely."""
    ok, printed, complaint = place.command("check", "--rtol", "1e30", "--atol", "1e30", compiled, *place.goldens())
    mismatch = [line for line in printed.splitlines() if "FAIL" in line and "elements differ" not in line]
    if not ok and (mismatch or not printed):
        raise Refused(sentence(complaint) or mismatch[0])
    record["compared"] = False


def quantised(flow, place, folder, calibration):
    """Golden files of the quantised program in eager PyTorch, and how far it is from the floating-point one in decibels."""
    plain = folder / "plain.pte"
    compile_with(place, plain, [*flow.arguments, *calibration])
    made, signal, noise = [], {}, {}
    for method, sequence in sequences(place.goldens()).items():
        try:
            outputs = list(eager_program.run(plain.read_bytes(), method, sequence))
        except Exception as error:
            text = " ".join([type(error).__name__, str(error), *getattr(error, "__notes__", [])])
            raise Refused(f"eager PyTorch on the quantised program: {text[:300]}") from error
        for golden, found in zip(sequence, outputs):
            with np.load(golden) as wanted:
                inputs = {key: wanted[key] for key in wanted.files if key.startswith("in")}
                measure(wanted, found, signal, noise)
            made.append(folder / golden.name)
            np.savez(made[-1], **inputs, **arrays(found, "out"))
    ratios = [10 * np.log10(signal[key] / noise[key]) for key in signal if noise[key] > 0 and signal[key] > 0]
    return made, round(float(min(ratios)), 1) if ratios else None


def sequences(goldens):
    """Golden files of runs that follow one another, by method; the only method has no name."""
    found = {}
    for golden in goldens:
        label = golden.name.split(".")[1]
        method = None if label == "npz" or re.fullmatch(r"step\d+", label) else label
        found.setdefault(method, []).append(golden)
    return found


def measure(wanted, found, signal, noise):
    """Adds the squares of the results and of their errors, by result."""
    for number, result in enumerate(found):
        golden, own = wanted[f"out{number}"], array(result)
        if golden.dtype.kind != "f" or golden.shape != own.shape:
            continue
        golden, own = golden.astype(np.float64), own.astype(np.float64)
        finite = np.isfinite(golden) & np.isfinite(own)
        signal[number] = signal.get(number, 0.0) + np.square(golden[finite]).sum()
        noise[number] = noise.get(number, 0.0) + np.square(golden[finite] - own[finite]).sum()


def known(results):
    """Records by row and flow, the last ones of each."""
    records = {}
    if results.exists():
        for line in results.read_text().splitlines():
            record = json.loads(line)
            records[record["row"], record["flow"]] = record
    return records
