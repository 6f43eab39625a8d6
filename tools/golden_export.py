"""From a golden case to the bytes of its files: what a case is made of, and the way through the official exporter.

A `Case` is a set of methods (each a module), the runs whose values are recorded, and the exporter's options. The first
run of a method supplies its example inputs. `build` exports, lowers and serialises; the few files the exporter has no
option for (`finish`) are written by its own serialiser from the same program.
"""

import copy
from dataclasses import dataclass, field
from typing import Any, Callable

import executorch.kernels.quantized  # registers the out variants of quantized_decomposed
import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.tensor import ALIGNMENT
from torch.export import export
from torch.utils._pytree import tree_flatten


class Model(torch.nn.Module):
    """A module whose forward is a function: parts become submodules, parameters or buffers by their type."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, torch.nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.eval().requires_grad_(False)

    def forward(self, *args):
        return self.body(self, *args)


@dataclass
class Run:
    """One recorded run: its arguments, and what tells its `.npz` from the others of the case."""

    args: tuple
    suffix: str = ""
    method: str = "forward"

    @property
    def leaves(self):
        return tree_flatten(self.args)[0]

    @property
    def stem(self):
        parts = [self.method if self.method != "forward" else "", self.suffix]
        return "".join(part + "." for part in parts if part)


@dataclass
class Case:
    models: Any
    runs: list
    dynamic: Any = None
    xnnpack: bool = False
    config: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    finish: Callable = lambda program: bytes(program.buffer)
    bundled: bool = False
    mutated_inputs: tuple = ()  # positions; the exporter returns what they became before the outputs proper

    def __post_init__(self):
        if not isinstance(self.models, dict):
            self.models = {"forward": self.models}

    def first_run(self, method):
        return next(run for run in self.runs if run.method == method)


def array(leaf):
    """A value as it stands in an `.npz`."""
    if not isinstance(leaf, torch.Tensor):
        return np.array(leaf)
    leaf = leaf.detach().resolve_conj().resolve_neg().contiguous()
    return leaf.view(torch.uint16).numpy() if leaf.dtype == torch.bfloat16 else leaf.numpy()


def build(case, expected):
    """The case's files by extension; `expected` are the eager outputs of its runs."""
    exported = {}
    for method, model in case.models.items():
        arguments = copy.deepcopy(case.first_run(method).args)
        shapes = None if case.dynamic is None else (case.dynamic,)
        exported[method] = export(copy.deepcopy(model), arguments, dynamic_shapes=shapes, strict=False)
    edge = to_edge_transform_and_lower(
        exported,
        partitioner=[XnnpackPartitioner()] if case.xnnpack else [],
        constant_methods=case.constants or None,
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    program = edge.to_executorch(ExecutorchBackendConfig(**case.config))
    files = {"pte": case.finish(program)}
    if program._tensor_data:
        [external] = program._tensor_data.values()
        files["ptd"] = bytes(external)
    if case.bundled:
        files["bpte"] = bundle(program, case, expected)
    return files


def bundle(program, case, expected):
    tests = [MethodTestCase(inputs=run.leaves, expected_outputs=outputs) for run, outputs in zip(case.runs, expected)]
    bundled = BundledProgram(program, [MethodTestSuite(method_name="forward", test_cases=tests)])
    return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))


def without_segments(program):
    """The layout of old files: constants inside the FlatBuffer, neither segments nor an extended header."""
    flatbuffer = _program_to_flatbuffer(program.executorch_program, constant_tensor_alignment=ALIGNMENT)
    return bytes(flatbuffer.data)


def with_short_paths(program):
    """Stack traces carry absolute file names of the exporting machine; this keeps only the last part."""
    emitted = copy.deepcopy(program.executorch_program)
    for plan in emitted.execution_plan:
        for chain in plan.chains:
            for frames in chain.stacktrace or []:
                for frame in frames.items:
                    frame.filename = frame.filename.rsplit("/", 1)[-1]
    return bytes(serialize_pte_binary(PTEFile(program=emitted), extract_delegate_segments=True))
