#!/usr/bin/env python3
"""Counts the outputs of quantised programs that are the same as the official runtime's.

    agree_official.py SCONCE FILE.pte...

The inputs come from the golden `NAME.npz` beside each program; without one they are drawn. Ends with code 1 if an output is
another. Where an export `NAME.pt2` lies beside the program, the first value that differs is named: the export is lowered
once more with its values as outputs. If it is quantised, that does the official exporter; if not, `sconce compile
--quantize int8`, calibrated with the inputs.
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

# What becomes part of the operator before it, which would be another one if its own result were an output.
FOLDED = {"relu", "relu_", "relu6", "hardtanh", "hardtanh_", "clamp", "clamp_", "batch_norm", "dropout"}


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
        pairs = list(zip(*both(options.sconce, file, inputs), strict=True))
        for theirs, ours in pairs:
            equal, steps = compare(theirs, ours)
            print(f"| {file.stem} | {theirs.size} | {equal:.2%} | {steps:.1f} |", flush=True)
        if not all(compare(*pair)[0] == 1 for pair in pairs):
            agree = False
            if file.with_suffix(".pt2").exists():
                first = first_difference(options.sconce, file.with_suffix(".pt2"), inputs)
                print(f"{file.stem}: {first or 'no value differs when all are outputs'}", flush=True)
    sys.exit(0 if agree else 1)


def compare(theirs, ours):
    """The part of the values that is equal, and the largest difference in steps of their grid."""
    theirs, ours = theirs.astype(np.float64), ours.astype(np.float64)
    equal = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    if equal.all():
        return 1.0, 0.0
    return np.mean(equal), np.nanmax(np.abs(theirs - ours) / (grid(theirs) or 1.0), initial=0.0)


def grid(values):
    """The step of values that are numbers of at most 8 bits times one step, as far as it can be seen."""
    different = np.unique(values[np.isfinite(values)])
    if len(different) < 2:
        return None
    step = np.diff(different).min()
    numbers = different / step
    return step if np.ptp(numbers) < 255.5 and np.abs(numbers - numbers.round()).max() < 0.01 else None


def inputs_of(file):
    import official_agrees
    import torch
    from executorch.extension.pybindings import portable_lib

    meta = portable_lib._load_for_executorch(str(file)).method_meta("forward")
    golden = file.with_suffix(".npz")
    if golden.exists():
        with np.load(golden) as arrays:
            return [official_agrees.given(arrays, index, meta) for index in range(meta.num_inputs())]
    torch.manual_seed(0)
    return [torch.randn(meta.input_tensor_meta(index).sizes()) for index in range(meta.num_inputs())]


def both(sconce, file, inputs):
    """The outputs of the official runtime and of this one."""
    from executorch.extension.pybindings import portable_lib

    theirs = [array(output) for output in portable_lib._load_for_executorch(str(file)).forward(inputs)]
    with tempfile.TemporaryDirectory() as folder:
        given, found = write(inputs, folder), pathlib.Path(folder) / "outputs.npz"
        command = [sconce, "run", str(file), "--input", str(given), "--output", str(found)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(found) as outputs:
            return theirs, [outputs[f"out{index}"] for index in range(len(theirs))]


def array(value):
    """A value as it stands in an `.npz`."""
    import torch

    value = torch.as_tensor(value)
    return (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).numpy()


def write(inputs, folder):
    file = pathlib.Path(folder) / "inputs.npz"
    np.savez(file, **{f"in{index}": array(value) for index, value in enumerate(inputs)})
    return file


@dataclasses.dataclass
class Difference:
    """The first value of a program that is another one on the official runtime."""

    operator: str
    name: str
    size: int
    count: int
    steps: float
    # Whether all of its numbers lie on a grid of 8 bits.
    on_grid: bool

    def __str__(self):
        unit = "steps" if self.on_grid else "of its size, in float32"
        by = f"{self.count} of {self.size}, at most {self.steps:.1g} {unit}"
        return f"{self.operator} ({self.name}) is the first: {by}"


def first_difference(sconce, export, inputs, *calibration):
    """The first value of an export, in the order in which they are computed, that differs; None if there is none."""
    import torch

    module = torch.export.load(export).module()
    quantised = any("dequantize_per_tensor" in str(node.target) for node in module.graph.nodes)
    made = (of_integers if quantised else of_operators)(module.graph)
    output = next(node for node in module.graph.nodes if node.op == "output")
    with module.graph.inserting_before(output):
        again = [module.graph.call_function(node.target, node.args, node.kwargs) for node in made.values() if quantised]
    output.args = (tuple(again or made),)
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    shown = torch.export.export(torch.fx.GraphModule(module, module.graph), tuple(inputs))
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "values.pte"
        if quantised:
            lower(shown, program)
        else:
            compile(sconce, shown, program, calibration or [write(inputs, folder)])
        for node, theirs, ours in zip(made, *both(sconce, program, inputs), strict=True):
            if compare(theirs, ours)[0] < 1:
                return difference(node, theirs, ours)
    return None


def of_integers(graph):
    """The values of a quantised graph that are made of integers, each with what makes numbers of them."""
    made = {}
    for node in graph.nodes:
        if "dequantize_per_tensor" in str(node.target) and node.args[0].op == "call_function":
            made.setdefault(node.args[0], node)
    return made


def of_operators(graph):
    """The values of a graph that can be outputs without changing how they are computed."""
    import torch

    def word(node):
        return str(node.target).removeprefix("aten.").partition(".")[0]

    made = [node for node in graph.nodes if node.op == "call_function"]
    tensors = [node for node in made if isinstance(node.meta.get("val"), torch.Tensor)]
    return {node: node for node in tensors if not any(word(user) in FOLDED for user in node.users)}


def lower(exported, program):
    """Writes a program by the official exporter."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], compile_config=config)
    program.write_bytes(edge.to_executorch().buffer)


def compile(sconce, exported, program, calibration):
    """Writes a program by this compiler."""
    import torch

    export = program.with_suffix(".pt2")
    torch.export.save(exported, export)
    command = [sconce, "compile", export, "-o", program, "--backend", "xnnpack", "--quantize", "int8", "--calibrate"]
    subprocess.run([*map(str, command), *map(str, calibration)], check=True, capture_output=True)


def difference(node, theirs, ours):
    theirs, ours = theirs.astype(np.float64), ours.astype(np.float64)
    step = grid(theirs)
    largest = np.nanmax(np.abs(theirs - ours))
    # A few numbers may seem to lie on a grid.
    on_grid = step is not None and largest > step / 2
    steps = largest / (step if on_grid else np.nanmax(np.abs(theirs)) or 1.0)
    return Difference(str(node.target), node.name, theirs.size, np.count_nonzero(theirs != ours), steps, on_grid)


if __name__ == "__main__":
    main()
