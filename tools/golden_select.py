#!/usr/bin/env python3
"""Picks from exported samples the few that cover every operator with every element type.

    golden_select.py FOLDER... --to DIR

The folders are those of `golden_ops.py`. Programs are looked at in the order of their names; one is copied to DIR, with
its values, if it calls an operator with an element type that no program before it did.
"""

import argparse
import pathlib
import shutil

from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import KernelCall, Tensor


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    covered, taken = set(), 0
    for folder in options.folders:
        for program in sorted(folder.glob("*.pte")):
            new = calls(program) - covered
            if new:
                covered |= new
                taken += 1
                for file in (program, program.with_suffix(".npz")):
                    shutil.copy(file, options.to)
    print(f"{taken} programs, {len({name for name, _ in covered})} operators, {len(covered)} with their types")


def calls(program):
    """The operators that a program calls, each with every element type among its tensors."""
    found = set()
    for plan in deserialize_pte_binary(program.read_bytes()).program.execution_plan:
        for instruction in (instruction for chain in plan.chains for instruction in chain.instructions):
            call = instruction.instr_args
            if isinstance(call, KernelCall):
                operator = plan.operators[call.op_index]
                values = (plan.values[argument].val for argument in call.args)
                types = {value.scalar_type for value in values if isinstance(value, Tensor)}
                found |= {(f"{operator.name}.{operator.overload}", str(element)) for element in types}
    return found


if __name__ == "__main__":
    main()
