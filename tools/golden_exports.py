"""What `golden_pt2.py` and `golden_flow.py` share: cases, written as exported programs with eager PyTorch's values."""

import copy
import io
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import export, save
from torch.utils._pytree import tree_leaves


@dataclass
class Case:
    module: torch.nn.Module
    # Inputs of runs that follow one another; the module is exported with the first.
    runs: list[tuple]
    dynamic: Any = None
    # Exported as Python's compiler sees it, which keeps what the other way leaves out.
    strict: bool = False
    # Exported after `run_decompositions()`.
    decomposed: bool = False
    # Written a second time as NAME_core, after `run_decompositions()`.
    core: bool = False


def arrays(values, name):
    plain = lambda value: value.detach().resolve_conj().resolve_neg().contiguous().numpy() if isinstance(value, torch.Tensor) else np.array(value)
    return {f"{name}{i}": plain(value).copy() for i, value in enumerate(tree_leaves(values))}


def goldens(module, runs):
    """The arrays of each run: what goes in before the run may change it, and what comes out."""
    for run in runs:
        inputs = arrays(run, "in")
        with torch.no_grad():
            yield inputs | arrays(module(*run), "out")


def exported(module, inputs, decomposed=False):
    """The bytes of an exported program."""
    program = export(module, inputs, strict=False)
    file = io.BytesIO()
    save(program.run_decompositions() if decomposed else program, file)
    return file.getvalue()


def main(cases, label):
    """Writes OUT/NAME.pt2 beside NAME.LABEL.npz; `label` makes LABEL with its dot of a case and the number of a run."""
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "golden", "pt2")
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    for name, case in cases():
        eager = copy.deepcopy(case.module.eval())
        program = export(case.module, case.runs[0], dynamic_shapes=case.dynamic, strict=case.strict)
        programs = {name: program.run_decompositions() if case.decomposed else program}
        if case.core:
            programs[f"{name}_core"] = program.run_decompositions()
        values = list(goldens(eager, case.runs))
        for name, program in programs.items():
            for node in program.graph.nodes:
                node.meta.pop("stack_trace", None)
            save(program, f"{out}/{name}.pt2")
            for number, golden in enumerate(values):
                np.savez_compressed(f"{out}/{name}{label(case, number)}.npz", **golden)
            print(name, os.path.getsize(f"{out}/{name}.pt2"))
