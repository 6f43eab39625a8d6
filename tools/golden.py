#!/usr/bin/env python3
"""Exports the golden programs with the official exporter and stores what eager PyTorch answers.

    golden.py [--out DIR] [NAME...]      regenerates the named programs, or all of them

Each case of `golden_cases.CASES` becomes `NAME.pte` (plus `NAME.ptd` when it keeps constants outside, and `NAME.bpte`
when it is also bundled) with one `.npz` per run beside it:

    NAME.npz                one run of `forward`
    NAME.SUFFIX.npz         several runs of `forward`: sizes (`b1`, `b3`) in any order, or `step0`, `step1`, ...,
                            which follow one another on one session because the program keeps state
    NAME.METHOD.npz         one run of another method (`NAME.METHOD.SUFFIX.npz` for several)

An `.npz` holds `in0, in1, ...` and `out0, out1, ...`: logical row-major values, numbered over the flattened inputs and
outputs. Inputs that are not tensors are left out but keep their number; outputs that are not tensors are stored as
zero-dim arrays (int64, float64, bool), and None is left out. bfloat16 is stored as the uint16 of its bits.

Everything is seeded, so the same packages (`requirements.txt`) write the same bytes. Every program is then run on the
official runtime, and the agreement is printed; where that runtime is known to differ from PyTorch, or cannot run a
program, the case says so in its `official` note and PyTorch's numbers stand.
"""

import argparse
import copy
import logging
import multiprocessing
import os
import pathlib
import sys
import warnings
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

import golden_cases
from golden_export import array, build

DEFAULT_OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"

FORK = multiprocessing.get_context("fork")

# (rtol, atol) by dtype, as `sconce check` compares.
TOLERANCES = {
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.float16: (5e-3, 1e-3),
    torch.bfloat16: (2e-2, 1e-2),
    torch.complex64: (1e-4, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    unknown = set(options.names) - set(golden_cases.CASES)
    if unknown:
        sys.exit(f"no such golden program: {', '.join(sorted(unknown))}; there are {', '.join(golden_cases.CASES)}")
    torch.set_num_threads(1)
    surprises = 0
    for name in options.names or golden_cases.CASES:
        surprises += not generate(name, folder(name, options.out))
    write_readme(options.out)
    if surprises:
        sys.exit(f"{surprises} programs behaved on the official runtime otherwise than their case says")


def folder(name, out):
    """Programs that need a backend lie in a folder of its name."""
    out = out / "xnnpack" if name.startswith("xnnpack") else out
    out.mkdir(parents=True, exist_ok=True)
    return out


def generate(name, out):
    """Writes the files of one case; true when the official runtime behaves as the case says."""
    torch.manual_seed(zlib.crc32(name.encode()))
    make = golden_cases.CASES[name]
    case = make()
    for old in out.glob(f"{name}.*"):
        if old.name.split(".")[0] == name:
            old.unlink()
    expected = list(run_eagerly(case))
    files = build(case, expected)
    for extension, data in files.items():
        (out / f"{name}.{extension}").write_bytes(data)
    for run, outputs in zip(case.runs, expected):
        np.savez_compressed(out / f"{name}.{run.stem}npz", **golden_arrays(run, outputs))
    verdict = official_verdict(files, case, expected)
    sizes = " ".join(f"{extension} {len(data)}" for extension, data in files.items())
    as_noted = (verdict == "agrees") == (make.official is None)
    print(f"{name}: {sizes} bytes; official runtime {verdict}{'' if as_noted else '  <-- not as noted'}", flush=True)
    return as_noted


def run_eagerly(case):
    """The outputs of every run, in order, on one copy of the model, so that its buffers carry over between steps."""
    models = {method: copy.deepcopy(model) for method, model in case.models.items()}
    for run in case.runs:
        if run.method in case.constants:
            outputs = case.constants[run.method]
        else:
            args = copy.deepcopy(run.args)
            with torch.no_grad():
                outputs = models[run.method](*args)
            outputs = [args[i] for i in case.mutated_inputs], outputs
        yield [copy.deepcopy(leaf) for leaf in tree_leaves(outputs)]


def golden_arrays(run, outputs):
    inputs = {f"in{i}": array(leaf) for i, leaf in enumerate(run.leaves) if isinstance(leaf, torch.Tensor)}
    return inputs | {f"out{i}": array(leaf) for i, leaf in enumerate(outputs) if leaf is not None}


def official_verdict(files, case, expected):
    """"agrees", or how the official runtime departs from the expected outputs. It runs in a process of its own, since a
    failed check inside that runtime ends the process."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=lambda: sender.send(run_officially(files, case, expected)))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return "ends its process"
    finally:
        process.join()


def run_officially(files, case, expected):
    from executorch.extension.pybindings import portable_lib

    try:
        module = portable_lib._load_for_executorch_from_buffer(files["pte"], files.get("ptd"))
        for run, outputs in zip(case.runs, expected):
            difference = first_difference(outputs, module.run_method(run.method, run.leaves))
            if difference:
                return f"differs: {run.stem}{difference}"
    except Exception as error:
        return "cannot run it: " + str(error).strip().split("\n")[0]
    return "agrees"


def first_difference(expected, actual):
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for i, (want, got) in enumerate(zip(expected, actual)):
        if not isinstance(want, torch.Tensor):
            if want != got:
                return f"out{i} is {got} instead of {want}"
        elif want.dtype != got.dtype or want.shape != got.shape:
            return f"out{i} is {got.dtype} {list(got.shape)} instead of {want.dtype} {list(want.shape)}"
        elif not close(want, got):
            return f"out{i} is off by {(want.double() - got.double()).abs().max().item():.3g}"
    return None


def close(want, got):
    if want.dtype not in TOLERANCES or want.numel() == 0:
        return torch.equal(want, got)
    rtol, atol = TOLERANCES[want.dtype]
    wide = torch.complex128 if want.dtype.is_complex else torch.float64
    want, got = want.to(wide), got.to(wide)
    atol *= max(1.0, want.abs().nan_to_num(0).max().item())
    return torch.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)


def write_readme(out):
    lines = [
        "# Golden programs",
        "",
        "Small programs written by the official exporter, and the values eager PyTorch computes for them. Made by",
        "`tools/golden.py`, which also describes the file names and the `.npz` keys; regenerate rather than edit.",
        "The official runtime agrees with every one of them unless the line says otherwise.",
        "",
        "| program | what it covers |",
        "|---|---|",
    ]
    for name, make in golden_cases.CASES.items():
        note = f" *Official runtime: {make.official}.*" if make.official else ""
        path = (folder(name, out) / name).relative_to(out)
        lines.append(f"| `{path}` | {make.covers}{note} |")
    (out / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
