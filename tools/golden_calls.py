#!/usr/bin/env python3
"""Writes golden programs of a single operator call, for the operators that the official exporter decomposes.

    golden_calls.py [--out DIR] [NAME...]      regenerates the programs of the named operators, or all of them

Each row of `golden_call_rows.ROWS` becomes `NAME.pte` and `NAME.npz` (keys as `golden.py` describes them), NAME being
the operator's name with `_` between its parts and the row's tag behind it. The program is put together from the
official schema's dataclasses and written by the official serialiser:

    inputs     the tensor arguments, in order
    call       one KernelCall: the arguments in the order of the operator's signature (`crates/schema/operators.txt`), then the
               value it returns: the out tensor again, a list of several outs, or a value of its own
    outputs    what the call changes: arguments that are state, then the outs or the returned number

State is a planned tensor with initial data of its own, since a program may not write to its inputs. Planned tensors lie
one behind the other. Everything else (numbers, lists, names, None) is a constant value of the program.

Every program is then run on the official runtime, and what does not agree is printed; where that is known the row says
so in `official`, and PyTorch's numbers stand.
"""

import argparse
import logging
import os
import pathlib
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
from executorch.exir import schema
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.tensor import scalar_type_enum
from torch.utils._pytree import tree_leaves

import golden_call_rows
from golden import official_verdict
from golden_export import Case, Run, array

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "tests" / "golden" / "calls"
ALIGNMENT = 16


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if unknown := set(options.names) - {row.operator for row in golden_call_rows.ROWS}:
        sys.exit(f"no row calls {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    signatures = read_signatures()
    rows = [row for row in golden_call_rows.ROWS if not options.names or row.operator in options.names]
    surprises = sum(not generate(row, signatures[row.operator], options.out) for row in rows)
    print(f"{len(rows)} programs of {len({row.operator for row in rows})} operators")
    if surprises:
        sys.exit(f"{surprises} programs behaved on the official runtime otherwise than their row says")


def read_signatures():
    """The arguments of every official operator; None where the list has but the name."""
    lines = (ROOT / "crates" / "schema" / "operators.txt").read_text().splitlines()
    signatures = {}
    for line in lines:
        if line and not line.startswith("#"):
            signatures[line.split("(")[0]] = torch._C.parse_schema(line).arguments if "(" in line else None
    return signatures


def generate(row, signature, out):
    """Writes the files of a row; true when the official runtime behaves as the row says."""
    inputs = [leaf for leaf in tree_leaves(row.args) if isinstance(leaf, torch.Tensor)]
    states, results = evaluate(row, signature)
    program = Builder(row, signature, results).serialize()
    outputs = states + ([] if row.returns_nothing else list(tree_leaves(results)))
    values = {f"in{i}": array(leaf) for i, leaf in enumerate(inputs)}
    values |= {f"out{i}": array(leaf) for i, leaf in enumerate(outputs)}
    (out / f"{row.name}.pte").write_bytes(program)
    np.savez_compressed(out / f"{row.name}.npz", **values)
    verdict = official_verdict({"pte": program}, Case({}, [Run(tuple(inputs))]), [outputs])
    as_noted = (verdict == "agrees") == (row.official is None)
    if verdict != "agrees" or not as_noted:
        print(f"{row.name}: official runtime {verdict}{'' if as_noted else '  <-- not as noted'}", flush=True)
    return as_noted


def evaluate(row, signature):
    """What the call makes of its state, and what it returns."""
    args = [arg.initial.clone() if isinstance(arg, golden_call_rows.State) else arg for arg in row.args]
    named = {}
    if row.eager is None:
        named = {known.name: arg for known, arg in zip(signature, args) if known.kwarg_only}
    with torch.no_grad():
        results = (row.eager or functional(row.operator))(*args[: len(args) - len(named)], **named)
    states = [now for now, arg in zip(args, row.args) if isinstance(arg, golden_call_rows.State)]
    return states, results


def functional(operator):
    """PyTorch's form of an out variant that returns its result."""
    namespace, _, name = operator.partition("::")
    name, _, overload = name.partition(".")
    overload = overload.removesuffix("out").removesuffix("_") or "default"
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


class Builder:
    """A program that is growing: values, the planned memory they need, and the initial data of state."""

    def __init__(self, row, signature, results):
        self.values, self.inputs, self.outputs = [], [], []
        self.mutable_data = [schema.Buffer(storage=b"")]
        self.planned = 0
        self.operator = row.operator
        types = [known.real_type for known in signature or []]
        self.call = [self.argument(arg, kind) for arg, kind in zip(row.args, types or [None] * len(row.args))]
        shown = len(self.outputs)
        self.results(results, signature or [], row.bound)
        if row.returns_nothing:
            del self.outputs[shown:]

    def argument(self, arg, kind):
        """The index of the value that stands for an argument of this type."""
        if isinstance(arg, golden_call_rows.State):
            self.outputs.append(self.state(arg.initial))
            return self.outputs[-1]
        if isinstance(arg, torch.Tensor):
            self.inputs.append(self.tensor(arg))
            return self.inputs[-1]
        if isinstance(arg, (list, tuple)) and arg and isinstance(arg[0], torch.Tensor):
            return self.add(schema.TensorList([self.argument(item, None) for item in arg]))
        return self.constant(arg, kind)

    def constant(self, arg, kind):
        if arg is None:
            return self.add(schema.Null())
        if isinstance(arg, torch.dtype):
            return self.add(schema.Int(int(scalar_type_enum(arg))))
        if isinstance(arg, (list, tuple)):
            if arg and isinstance(arg[0], bool):
                return self.add(schema.BoolList(list(arg)))
            return self.add(schema.IntList([self.number(item) for item in arg]))
        if isinstance(arg, str):
            return self.add(schema.String(arg))
        return self.number(float(arg) if str(kind) in ["float", "Optional[float]"] else arg)

    def number(self, number):
        if isinstance(number, bool):
            return self.add(schema.Bool(number))
        return self.add(schema.Int(number) if isinstance(number, int) else schema.Double(number))

    def results(self, results, signature, bound):
        """Appends the outs and the returned value to the call."""
        outs = [known for known in signature if known.is_out]
        if not isinstance(results, (list, tuple)):
            index = self.result(results, bound)
            self.call += [index, index] if outs else [index]
            return
        items = [self.result(result, bound) for result in results]
        is_list = len(outs) == 1
        self.call += [self.add(schema.TensorList(items))] if is_list else items
        self.call.append(self.add(schema.TensorList(items)))

    def result(self, result, bound):
        if isinstance(result, torch.Tensor):
            index = self.tensor(result if bound is None else result.new_empty(bound), dynamic=bound is not None)
        else:
            index = self.number(type(result)())
        self.outputs.append(index)
        return index

    def state(self, initial):
        self.mutable_data.append(schema.Buffer(storage=initial.numpy().tobytes()))
        return self.tensor(initial, data_buffer=len(self.mutable_data) - 1)

    def tensor(self, like, data_buffer=0, dynamic=False):
        """A planned tensor behind those that are there."""
        dynamism = schema.TensorShapeDynamism
        index = self.add(
            schema.Tensor(
                scalar_type=scalar_type_enum(like.dtype),
                storage_offset=0,
                sizes=list(like.shape),
                dim_order=list(range(like.dim())),
                requires_grad=False,
                layout=0,
                data_buffer_idx=data_buffer,
                allocation_info=schema.AllocationDetails(1, self.planned, 0),
                shape_dynamism=dynamism.DYNAMIC_BOUND if dynamic else dynamism.STATIC,
            )
        )
        bytes_needed = max(like.numel() * like.element_size(), 1)
        self.planned += -(-bytes_needed // ALIGNMENT) * ALIGNMENT
        return index

    def add(self, value):
        self.values.append(schema.EValue(value))
        return len(self.values) - 1

    def serialize(self):
        name, _, overload = self.operator.partition(".")
        call = schema.Instruction(schema.KernelCall(op_index=0, args=self.call))
        plan = schema.ExecutionPlan(
            name="forward",
            container_meta_type=schema.ContainerMetadata("", ""),
            values=self.values,
            inputs=self.inputs,
            outputs=self.outputs,
            chains=[schema.Chain(inputs=[], outputs=[], instructions=[call], stacktrace=None)],
            operators=[schema.Operator(name=name, overload=overload)],
            delegates=[],
            non_const_buffer_sizes=[0, max(self.planned, ALIGNMENT)],
        )
        program = schema.Program(
            version=0,
            execution_plan=[plan],
            constant_buffer=[schema.Buffer(storage=b"")],
            backend_delegate_data=[],
            segments=[],
            constant_segment=schema.SubsegmentOffsets(segment_index=0, offsets=[]),
        )
        state = self.mutable_data if len(self.mutable_data) > 1 else None
        return bytes(serialize_pte_binary(PTEFile(program=program, mutable_data=state)))


if __name__ == "__main__":
    main()
