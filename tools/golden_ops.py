#!/usr/bin/env python3
"""Exports PyTorch's own operator samples, one program each, with what eager PyTorch answers.

    golden_ops.py --out DIR [--form pte|pt2|core] [--dtypes float32,...] [--samples N] [--jobs N] [NAME...]

PyTorch tests its operators with a database of sample inputs (`op_db`): shapes, broadcasting, empty and zero-dim tensors,
negative dims, NaN. Every sample of the named operators (all of them if none is named) that the official exporter can
lower without delegates becomes `NAME.DTYPE.I.pte` with `NAME.DTYPE.I.npz` beside it, as `sconce check DIR` reads them.
With the form `pt2` it is an exported program as `torch.export` gives it, with `core` one after `run_decompositions()`.
Of the samples of an operator and a type, N are taken evenly. A sample whose values depend on chance is left out, and so
is one whose outputs are not tensors or numbers, or not specified. What could not be exported, and why, is written to
`DIR/skipped.txt`.
"""

import argparse
import collections
import contextlib
import io
import logging
import multiprocessing
import os
import pathlib
import signal
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from golden_export import Case, Run, array, build
from golden_exports import exported

DTYPES = {
    name: getattr(torch, name)
    for name in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()
}
SECONDS_PER_SAMPLE = 40
# Of equal elements, which are frequent in short types, any may be the one whose position is given.
UNSPECIFIED = {"kthvalue", "topk", "sort", "argsort", "msort"}
# PyTorch computes positions in the short type here, which is not worth following.
IMPRECISE = {"grid_sampler_2d", "grid_sampler_3d", "nn_functional_grid_sample"}


class NoChance(TorchDispatchMode):
    """Refuses operators that draw random numbers."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise ValueError("the values depend on chance")
        return func(*args, **(kwargs or {}))


class Sampled(torch.nn.Module):
    """An operator with everything but its tensors fixed."""

    def __init__(self, op, structure, leaves):
        super().__init__()
        self.op, self.structure = op, structure
        self.fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = tree_unflatten(leaves, self.structure)
        return self.op(*args, **kwargs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--form", choices=["pte", "pt2", "core"], default="pte")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,float64,int64,int32,int8,uint8,bool")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    known = {name_of(op) for op in op_db}
    if unknown := set(options.names) - known:
        sys.exit(f"no such operator: {', '.join(sorted(unknown))}")
    wanted = [i for i, op in enumerate(op_db) if not options.names or name_of(op) in options.names]
    where = (options.samples, options.form, options.out)
    jobs = [(i, dtype, *where) for i in wanted for dtype in options.dtypes.split(",")]
    totals = collections.Counter()
    with multiprocessing.Pool(options.jobs, maxtasksperchild=20) as pool:
        with open(options.out / "skipped.txt", "a") as skipped:
            for done, (counts, reasons) in enumerate(pool.imap_unordered(export_samples, jobs), 1):
                totals.update(counts)
                skipped.writelines(f"{reason}\n" for reason in reasons)
                skipped.flush()
                print(f"\r{done} of {len(jobs)}: {dict(totals)}", end="", flush=True)
    print()


def name_of(op):
    parts = [op.name, op.variant_test_name]
    return "-".join(part for part in parts if part).replace(".", "_").replace(" ", "_")


def export_samples(job):
    index, dtype, count, form, out = job
    ending = "pte" if form == "pte" else "pt2"
    op = op_db[index]
    counts, reasons = collections.Counter(), []
    short = dtype not in ("float32", "float64")
    left_out = short and name_of(op) in UNSPECIFIED | IMPRECISE
    if DTYPES[dtype] not in op.supported_dtypes("cpu") or left_out:
        return counts, reasons
    torch.manual_seed(0)
    try:
        samples = list(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
    except Exception as error:
        return counts, [f"{name_of(op)}.{dtype}: no samples: {first_line(error)}"]
    taken = min(count, len(samples))
    for i in (k * len(samples) // taken for k in range(taken)):
        stem = f"{name_of(op)}.{dtype}.{i}"
        if (out / f"{stem}.{ending}").exists():
            counts["kept"] += 1
            continue
        try:
            with time_limit(SECONDS_PER_SAMPLE), contextlib.redirect_stderr(io.StringIO()):
                program, values = export_sample(op, samples[i], form)
        except BaseException as error:
            counts["skipped"] += 1
            reasons.append(f"{stem}: {first_line(error)}")
            continue
        np.savez_compressed(out / f"{stem}.npz", **values)
        (out / f"{stem}.{ending}").write_bytes(program)
        counts["written"] += 1
    return counts, reasons


def export_sample(op, sample, form):
    leaves, structure = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    model = Sampled(op.op, structure, leaves)
    outputs = run(model, tensors)
    values = {f"in{i}": array(tensor) for i, tensor in enumerate(tensors)}
    values |= {f"out{i}": array(value) for i, value in enumerate(outputs)}
    if form != "pte":
        return exported(model, tensors, decomposed=form == "core"), values
    return build(Case(model, [Run(tensors)]), [outputs])["pte"], values


def run(model, tensors):
    with torch.no_grad(), NoChance():
        given = [tensor.clone() for tensor in tensors]
        outputs = tree_flatten(model(*given))[0]
    if not all(torch.equal(a, b) for a, b in zip(given, tensors) if not a.isnan().any()):
        raise ValueError("it changes its inputs")
    for value in outputs:
        if not isinstance(value, (torch.Tensor, int, float, bool)):
            raise TypeError(f"an output of type {type(value).__name__}")
    return outputs


@contextlib.contextmanager
def time_limit(seconds):
    def stop(*_):
        raise TimeoutError(f"longer than {seconds} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"


if __name__ == "__main__":
    main()
