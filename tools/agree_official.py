#!/usr/bin/env python3
"""Counts the outputs of quantised programs that are the same as the official runtime's.

    agree_official.py SCONCE FILE.pte...

The inputs come from the golden `NAME.npz` beside each program; without one they are drawn. Ends with code 1 if an output is
another. Where a quantised export `NAME.pt2` lies beside the program, the first value that differs is named: the export is
lowered once more by the official exporter, with every value that it makes of integers as an output.
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
    print("| program | outputs | equal | largest difference in steps |")
    print("|---|---:|---:|---:|")
    agree = True
    for file in options.files:
        inputs = inputs_of(file)
        rows = [row(file.stem, *pair) for pair in zip(*both(options.sconce, file, inputs), strict=True)]
        if not all(rows):
            agree = False
            if file.with_suffix(".pt2").exists():
                print(f"{file.stem}: {first_difference(options.sconce, file.with_suffix('.pt2'), inputs)}", flush=True)
    sys.exit(0 if agree else 1)


def row(name, theirs, ours):
    theirs, ours = theirs.astype(np.float64), ours.astype(np.float64)
    equal = np.mean((theirs == ours) | (np.isnan(theirs) & np.isnan(ours)))
    # The step is the smallest distance between two values as the official runtime gives them.
    values = np.unique(theirs[np.isfinite(theirs)])
    step = np.diff(values).min() if len(values) > 1 else 1.0
    largest = np.nanmax(np.abs(theirs - ours) / step, initial=0.0)
    print(f"| {name} | {theirs.size} | {equal:.2%} | {largest:.1f} |", flush=True)
    return equal == 1.0


def inputs_of(file):
    import torch

    golden = file.with_suffix(".npz")
    if golden.exists():
        with np.load(golden) as arrays:
            names = sorted((name for name in arrays.files if name.startswith("in")), key=lambda name: int(name[2:]))
            return [torch.from_numpy(arrays[name]) for name in names]
    from executorch.extension.pybindings import portable_lib

    torch.manual_seed(0)
    module = portable_lib._load_for_executorch(str(file))
    meta = module.method_meta("forward")
    return [torch.randn(meta.input_tensor_meta(index).sizes()) for index in range(meta.num_inputs())]


def both(sconce, file, inputs):
    """The outputs of the official runtime and of this one."""
    from executorch.extension.pybindings import portable_lib

    theirs = [output.numpy() for output in portable_lib._load_for_executorch(str(file)).forward(inputs)]
    with tempfile.TemporaryDirectory() as folder:
        given, found = pathlib.Path(folder) / "inputs.npz", pathlib.Path(folder) / "outputs.npz"
        np.savez(given, **{f"in{index}": value.numpy() for index, value in enumerate(inputs)})
        command = [sconce, "run", str(file), "--input", str(given), "--output", str(found)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(found) as outputs:
            return theirs, [outputs[f"out{index}"] for index in range(len(outputs.files))]


def first_difference(sconce, export, inputs):
    """Which operator of a quantised export makes the first value that differs, and by how much."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    graph = torch.export.load(export).module().graph
    output = next(node for node in graph.nodes if node.op == "output")
    made = {}
    for node in graph.nodes:
        if "dequantize_per_tensor" in str(node.target) and node.args[0].op == "call_function":
            made.setdefault(node.args[0], node)
    with graph.inserting_before(output):
        shown = [graph.call_function(node.target, node.args, node.kwargs) for node in made.values()]
    output.args = (tuple(shown),)
    graph.set_codegen(torch.fx.graph.CodeGen())
    module = torch.fx.GraphModule(torch.export.load(export).module(), graph)
    edge = to_edge_transform_and_lower(
        torch.export.export(module, tuple(inputs)),
        partitioner=[XnnpackPartitioner()],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "values.pte"
        program.write_bytes(edge.to_executorch().buffer)
        for node, theirs, ours in zip(made, *both(sconce, program, inputs), strict=True):
            if not np.array_equal(theirs, ours, equal_nan=True):
                scale = float(node.args[1])
                steps = np.abs(theirs - ours).max() / scale
                count = np.count_nonzero(theirs != ours)
                return f"{node.args[0].target} ({node.args[0].name}) is the first: {count} of {theirs.size}, {steps:.1f} steps"
    return "no single value differs when all are outputs"


if __name__ == "__main__":
    main()
