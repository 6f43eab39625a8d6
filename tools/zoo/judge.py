"""Whether a program gives what PyTorch does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import blocks
import eager_program
import numpy as np
from place import Refused, sentence, sequences
from row import arrays

# What runs a program on the official runtime.
OFFICIAL = Path(__file__).parents[1] / "official_agrees.py"
# Tolerances for quantised programs.
COARSE = ["--rtol", "4e-2", "--atol", "1e-1"]
# Decibels by which a program may be noisier than the one that it is compared with. ggml rounds the scales of its blocks, too.
MARGIN, MARGIN_OF_BLOCKS = 2, 5


def compare(place, compiled, wanted, tolerances, record):
    """Golden values against those of the program; the largest error is relative to the largest golden value."""
    exact = place.command("check", "--rtol", "0", "--atol", "0", compiled, *wanted)[1]
    record["error"] = largest_error(exact, wanted)
    ok, printed, complaint = place.command("check", *tolerances, compiled, *wanted)
    if not ok:
        lines = [line for line in printed.splitlines() if line.startswith("FAIL")]
        lines = [re.sub(r"^FAIL \S*\.pte", "", line).strip(": ") for line in lines]
        raise Refused((" ".join(lines[:2]) or sentence(complaint))[:600])


def largest_error(printed, wanted):
    by_label = {golden.name.removesuffix(".npz").partition(".")[2]: golden for golden in wanted}
    largest = 0.0
    for line in printed.splitlines():
        if not (found := re.match(r"FAIL \S+\.pte(?: \[(.*?)\])?: out(\d+) largest error (\S+) at", line)):
            continue
        with np.load(by_label[found[1] or ""]) as golden:
            values = golden[f"out{found[2]}"].astype(np.float64)
        most = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        largest = max(largest, float(found[3]) / most if most else float(found[3]))
    return largest


def runs(place, compiled, record):
    """Runs only; for results that small differences change entirely."""
    ok, printed, complaint = place.command("check", "--rtol", "1e30", "--atol", "1e30", compiled, *place.goldens())
    # Other sizes are such a change, too.
    errors = [
        line for line in printed.splitlines() if "FAIL" in line and " differ)" not in line and "has sizes" not in line
    ]
    if not ok and (errors or not printed):
        raise Refused(sentence(complaint) or errors[0])
    record["compared"] = False


def quantised(place, compiled, arguments, record, jumps):
    """A program on integers against eager PyTorch on the same weights and grids, which the one without a backend has."""
    plain = compiled.parent / "plain" / "model.pte"
    plain.parent.mkdir(exist_ok=True)
    place.compile(plain, *arguments)
    wanted, decibels = eager(place, plain)
    record["decibels"] = decibels
    if jumps:
        return runs(place, compiled, record)
    try:
        compare(place, plain, wanted, COARSE, {})
    except Refused as error:
        noise_alone(place, plain, wanted, decibels, Refused(f"without a backend: {error}"))
    try:
        compare(place, compiled, wanted, COARSE, record)
    except Refused as error:
        # It may still agree with the official runtime, or differ by noise alone.
        record["as"] = "official" if officially(place, compiled) else "noise"
        if record["as"] == "noise":
            noise_alone(place, compiled, wanted, decibels, error)


def officially(place, compiled):
    """Whether the official runtime gives the same with a program of one method, on its first run."""
    [*methods], [[golden, *_], *_] = zip(*sequences(place.goldens()).items())
    if methods != [None]:
        return False
    folder = compiled.with_name("official")
    folder.mkdir(exist_ok=True)
    shutil.copy(compiled, folder / "model.pte")
    with np.load(golden) as inputs:
        given = {key: inputs[key] for key in inputs.files if key.startswith("in")}
    np.savez(folder / "model.npz", **given, **run(place, compiled, golden))
    arguments = [f"--rtol={COARSE[1]}", f"--atol={COARSE[3]}", folder / "model.pte"]
    try:
        return subprocess.run([sys.executable, OFFICIAL, *arguments], capture_output=True, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def eager(place, plain):
    """Golden files of a quantised program in eager PyTorch, and how far it is above its noise in decibels."""
    made, noise = [], Noise()
    for method, sequence in sequences(place.goldens()).items():
        try:
            outputs = list(eager_program.run(plain.read_bytes(), method, sequence))
        except Exception as error:
            text = " ".join([type(error).__name__, str(error), *getattr(error, "__notes__", [])])
            raise Refused(f"eager PyTorch on the quantised program: {text[:300]}") from error
        for golden, found in zip(sequence, outputs):
            with np.load(golden) as wanted:
                inputs = {key: wanted[key] for key in wanted.files if key.startswith("in")}
                noise.add(wanted, arrays(found, "out"))
            made.append(plain.with_name(golden.name))
            np.savez(made[-1], **inputs, **arrays(found, "out"))
    return made, noise.decibels()


def noise_alone(place, compiled, wanted, decibels, error):
    """Lets a program pass that differs from the golden one as two do that are equally far from the floating-point one.

    Which layers become integers depends on the backend, and roundings fall differently where sums are made in another
    order. Each run has a new session here, so that a program that keeps something cannot be judged in this way.
    """
    own, apart = Noise(), Noise()
    for method, sequence in sequences(wanted).items():
        for golden in sequence:
            outputs = run(place, compiled, golden, method)
            with np.load(golden) as quantised, np.load(place.folder / golden.name) as floating:
                own.add(floating, outputs)
                apart.add(quantised, outputs)
    # Two programs with noise of their own are apart by twice the power of one.
    if decibels is None or min(own.decibels(), apart.decibels() + 3) < decibels - MARGIN:
        raise Refused(f"{error} ({own.decibels()} dB; without a backend {decibels} dB)")


def in_blocks(place, compiled, row, kind, record):
    """A program on ggml's blocks against eager PyTorch on weights rounded as much, by a typical row: where a model chooses among
    experts, rounding may let it choose another one for some rows."""
    own, expected = Rows(), Rows()
    rounded = blocks.golden(row, kind)
    for method, sequence in sequences(place.goldens()).items():
        # Only the first run is one of a new session.
        with np.load(sequence[0]) as floating:
            own.add(floating, run(place, compiled, sequence[0], method))
            found = rounded[method or "forward"][0]
            expected.add(floating, {key: found[key] for key in found if key.startswith("out")})
    record["decibels"], record["expected"] = own.decibels(), expected.decibels()
    if record["decibels"] is not None and record["decibels"] < (record["expected"] or 99) - MARGIN_OF_BLOCKS:
        raise Refused(f"{record['decibels']} dB above its noise; PyTorch on rounded weights {record['expected']} dB")


def run(place, compiled, golden, method=None):
    """The results of one run."""
    found = compiled.with_name("found.npz")
    method = ["--method", method] if method else []
    ok, _, complaint = place.command("run", compiled, "--input", golden, "--output", found, *method)
    if not ok:
        raise Refused(sentence(complaint))
    with np.load(found) as outputs:
        return dict(outputs)


class Rows:
    """How far rows of results are above their noise, in decibels."""

    def __init__(self):
        self.ratios = []

    def add(self, wanted, found):
        for name in found:
            golden, own = wanted[name].astype(np.float64), found[name].astype(np.float64)
            if wanted[name].dtype.kind != "f" or golden.shape != own.shape or not golden.size or not golden.ndim:
                continue
            signal, noise = np.square(golden).sum(-1), np.square(golden - own).sum(-1)
            noisy = np.isfinite(signal) & np.isfinite(noise) & (noise > 0) & (signal > 0)
            self.ratios += (10 * np.log10(signal[noisy] / noise[noisy])).tolist()

    def decibels(self):
        return round(float(np.median(self.ratios)), 1) if self.ratios else None


class Noise:
    """Squares of results and of their errors, by result."""

    def __init__(self):
        self.signal, self.noise = {}, {}

    def add(self, wanted, found):
        for name in found:
            golden, own = wanted[name], found[name]
            if golden.dtype.kind != "f" or golden.shape != own.shape:
                continue
            golden, own = golden.astype(np.float64), own.astype(np.float64)
            finite = np.isfinite(golden) & np.isfinite(own)
            self.signal[name] = self.signal.get(name, 0.0) + np.square(golden[finite]).sum()
            self.noise[name] = self.noise.get(name, 0.0) + np.square(golden[finite] - own[finite]).sum()

    def decibels(self):
        """The worst result's, or None without noise."""
        pairs = [(self.signal[name], self.noise[name]) for name in self.signal]
        ratios = [10 * np.log10(signal / noise) for signal, noise in pairs if signal > 0 and noise > 0]
        return round(float(min(ratios)), 1) if ratios else None
