#!/usr/bin/env python3
"""Compares the outputs of quantised programs with those of the official runtime, in steps of the output's scale.

    agree_official.py SCONCE FILE.pte...

The inputs come from the golden `NAME.npz` beside each program. The step of an output is the smallest distance between two
of its values as the official runtime gives them. Ends with code 1 if fewer than 99.9 % of the outputs of a program are
within one step.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", help="path of the sconce command")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.pte")
    options = parser.parse_args()
    print("| program | outputs | step | equal | within one step | largest difference in steps |")
    print("|---|---:|---:|---:|---:|---:|")
    agree = True
    for file in options.files:
        for theirs, ours in zip(official(file), own(options.sconce, file), strict=True):
            agree &= row(file.stem, theirs.astype(np.float64), ours.astype(np.float64))
    sys.exit(0 if agree else 1)


def row(name, theirs, ours):
    values = np.unique(theirs)
    step = np.diff(values).min() if len(values) > 1 else 1.0
    distance = np.abs(theirs - ours) / step
    # Both sides round to float32 after the step was taken.
    within = np.mean(distance < 1.01)
    print(
        f"| {name} | {theirs.size} | {step:.3g} | {np.mean(distance < 0.01):.2%} | {within:.2%} | {distance.max():.1f} |",
        flush=True,
    )
    return within >= 0.999


def official(file):
    import torch
    from executorch.extension.pybindings import portable_lib

    with np.load(file.with_suffix(".npz")) as golden:
        names = sorted((name for name in golden.files if name.startswith("in")), key=lambda name: int(name[2:]))
        inputs = [torch.from_numpy(golden[name]) for name in names]
    module = portable_lib._load_for_executorch(str(file))
    return [output.numpy() for output in module.forward(inputs)]


def own(sconce, file):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "outputs.npz"
        golden = file.with_suffix(".npz")
        command = [sconce, "run", str(file), "--input", str(golden), "--output", str(output)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(output) as outputs:
            return [outputs[f"out{index}"] for index in range(len(outputs.files))]


if __name__ == "__main__":
    main()
