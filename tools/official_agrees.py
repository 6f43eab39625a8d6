#!/usr/bin/env python3
"""Runs programs on the official runtime and compares with golden outputs, as `sconce check` does on this one.

    official_agrees.py [--library=BACKEND.so] [--rtol=X] [--atol=X] FILE.pte|FOLDER...

The golden `NAME.npz` beside `NAME.pte` holds in0, in1, ... and out0, out1, ...; a folder stands for all its programs that
have one. A value is right if |a - b| <= atol * max(1, largest |golden|) + rtol * |b|, with tolerances that depend on the
element type; integers and bools must be equal, shapes and types too. Closes with 'N passed, N failed'; ends with code 1 if
something failed. Needs the packages executorch and torch.

A program can end the process that runs it, so all run in another one, which starts again after such an end.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

# Relative and absolute tolerance by element type; all others must be equal.
TOLERANCES = {
    "torch.float32": (1e-4, 1e-5),
    "torch.float64": (1e-7, 1e-7),
    "torch.float16": (5e-3, 1e-3),
    "torch.bfloat16": (2e-2, 1e-2),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="FILE.pte|FOLDER")
    parser.add_argument("--rtol", type=float, help="relative tolerance for all types")
    parser.add_argument("--atol", type=float, help="absolute tolerance for all types")
    parser.add_argument("--library", help="a shared library to load first, for the backends that it registers")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    files = [file for path in options.paths for file in programs(path)]
    failed = 0
    for file, complaint in check(files, sys.argv[1:]):
        failed += bool(complaint)
        if complaint:
            print(f"{file.stem}: {complaint}", flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def programs(path):
    if path.is_dir():
        return sorted(file for file in path.glob("*.pte") if file.with_suffix(".npz").exists())
    return [path]


def check(files, arguments):
    """Pairs of a file and what is wrong with it, empty if nothing is."""
    flags = [argument for argument in arguments if argument.startswith("--")]  # with their values: --rtol=0.1
    worker = None
    for file in files:
        if worker is None:
            command = [sys.executable, __file__, "--worker", *flags]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            worker.stdin.write(f"{file}\n")
            worker.stdin.flush()
            answer = worker.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer:
            yield file, json.loads(answer)
        else:
            yield file, f"the runtime ended with code {worker.wait()}"
            worker = None
    if worker:
        worker.stdin.close()
        worker.wait()


def work(options):
    import ctypes
    import os

    if options.library:
        from executorch.extension.pybindings import portable_lib  # noqa: F401  (the runtime that it registers with)

        ctypes.CDLL(options.library)
    # The runtime logs to standard output, too; answers go out on a copy of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            complaint = complain(pathlib.Path(line.strip()), options)
        except Exception as error:
            complaint = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        answers.write(json.dumps(complaint) + "\n")
        answers.flush()


def complain(file, options):
    """What is wrong with the outputs of a program."""
    import torch
    from executorch.extension.pybindings import portable_lib

    with np.load(file.with_suffix(".npz")) as golden:
        arrays = dict(golden)
    module = portable_lib._load_for_executorch(str(file))
    meta = module.method_meta("forward")
    inputs = [given(arrays, index, meta) for index in range(meta.num_inputs())]
    outputs = module.run_method("forward", inputs)
    for index, output in enumerate(outputs):
        if f"out{index}" not in arrays:
            continue
        if not isinstance(output, torch.Tensor):
            output = torch.tensor(output)
        complaint = compare(output, as_tensor(arrays[f"out{index}"], output.dtype), options)
        if complaint:
            return f"out{index} {complaint}"
    return ""


def given(arrays, index, meta):
    """An input: a tensor, or a number where the program takes one."""
    array = arrays.get(f"in{index}")
    try:
        dtype = meta.input_tensor_meta(index).dtype()
    except Exception:
        return array.item() if array is not None else 0
    import torch
    from executorch.exir.scalar_type import ScalarType

    bfloat = dtype == int(ScalarType.BFLOAT16)
    return as_tensor(array, torch.bfloat16 if bfloat else None)


def as_tensor(array, dtype):
    """An array as a tensor; 16 bits stand for bfloat16 where the program has that."""
    import torch

    array = np.asarray(array)
    if dtype == torch.bfloat16 and array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape)


def compare(output, golden, options):
    if output.shape != golden.shape or output.dtype != golden.dtype:
        return f"is {output.dtype} {list(output.shape)}, not {golden.dtype} {list(golden.shape)}"
    tolerance = TOLERANCES.get(str(golden.dtype))
    if tolerance is None:
        wrong = output != golden
    else:
        rtol = tolerance[0] if options.rtol is None else options.rtol
        atol = tolerance[1] if options.atol is None else options.atol
        output, golden = output.double(), golden.double()
        finite = golden[golden.isfinite()]
        largest = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
        near = (output - golden).abs() <= atol * largest + rtol * golden.abs()
        wrong = ~(near | (output == golden) | (output.isnan() & golden.isnan()))
    count = int(wrong.sum())
    if not count:
        return ""
    first = wrong.flatten().nonzero()[0].item()
    a, b = output.flatten()[first].item(), golden.flatten()[first].item()
    return f"has {count} of {wrong.numel()} elements wrong, the first {a:.9g} instead of {b:.9g}"


if __name__ == "__main__":
    main()
