#!/usr/bin/env python3
"""Times single operators of about a million elements: the official runtime, eager PyTorch, sconce, and a plain copy.

    bench_operators.py SCONCE [--rounds N] [--threads N] [NAME...]

Every case of `CASES` is exported by the official exporter as a program of its own, with inputs that the caller keeps, so
that no runtime copies them. Rounds alternate between the four, and the fastest round of each counts. The copy moves as
many bytes as the operator reads and writes together. Prints a table; times are in milliseconds.
"""

import argparse
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.extension.pybindings import portable_lib

from golden_export import Case, Model, Run, build

N = 1 << 20
F = torch.nn.functional


def real(*shape):
    return torch.randn(shape)


def positive(*shape):
    return torch.rand(shape) * 4 + 0.1


def square(function, make=real):
    return function, lambda: (make(1024, 1024),)


def pair(function, make=real):
    return function, lambda: (make(1024, 1024), make(1024, 1024))


CASES = {
    "add": pair(torch.add),
    "sub": pair(torch.sub),
    "mul": pair(torch.mul),
    "div": pair(torch.div, positive),
    "maximum": pair(torch.maximum),
    "add one number": square(lambda x: x + 1.5),
    "add a row": (torch.add, lambda: (real(1024, 1024), real(1024))),
    "clamp": square(lambda x: torch.clamp(x, -0.5, 0.5)),
    "relu": square(torch.relu),
    "compare": pair(torch.gt),
    "where": (torch.where, lambda: (real(1024, 1024) > 0, real(1024, 1024), real(1024, 1024))),
    "add int64": pair(torch.add, lambda *shape: torch.randint(-99, 99, shape)),
    "add float16": pair(torch.add, lambda *shape: torch.randn(shape).half()),
    "float32 to float16": square(lambda x: x.to(torch.float16)),
    "abs": square(torch.abs),
    "sqrt": square(torch.sqrt, positive),
    "rsqrt": square(torch.rsqrt, positive),
    "exp": square(torch.exp),
    "log": square(torch.log, positive),
    "sin": square(torch.sin),
    "cos": square(torch.cos),
    "tanh": square(torch.tanh),
    "sigmoid": square(torch.sigmoid),
    "erf": square(torch.erf),
    "gelu": square(F.gelu),
    "gelu tanh": square(lambda x: F.gelu(x, approximate="tanh")),
    "silu": square(F.silu),
    "hardswish": square(F.hardswish),
    "pow": pair(torch.pow, positive),
    "atan": square(torch.atan),
    "log1p": square(torch.log1p, positive),
    "sum": square(torch.sum),
    "sum of rows": square(lambda x: x.sum(1)),
    "sum of columns": square(lambda x: x.sum(0)),
    "mean": square(lambda x: x.mean(1)),
    "amax": square(lambda x: x.amax(1)),
    "argmax": square(lambda x: x.argmax(1)),
    "var": square(lambda x: x.var(1)),
    "softmax": square(lambda x: torch.softmax(x, 1)),
    "log softmax": square(lambda x: torch.log_softmax(x, 1)),
    "softmax over columns": square(lambda x: torch.softmax(x, 0)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (1024,), w, b), lambda: (real(1024, 1024), real(1024), real(1024))),
    "group norm": (lambda x, w, b: F.group_norm(x, 8, w, b), lambda: (real(4, 64, 64, 64), real(64), real(64))),
    "batch norm": (
        lambda x, m, v: F.batch_norm(x, m, v), lambda: (real(4, 64, 64, 64), real(64), positive(64)),
    ),
    "transpose": square(lambda x: x.t().contiguous()),
    "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda: (real(4, 64, 64, 64),)),
    "cat": (lambda x, y: torch.cat([x, y], 1), lambda: (real(1024, 512), real(1024, 512))),
    "slice": (lambda x: x[:, 3:1027] + 0, lambda: (real(1024, 1030),)),
    "expand": (lambda x: x.expand(1024, 1024) + 0, lambda: (real(1024, 1),)),
    "embedding": (F.embedding, lambda: (torch.randint(0, 4096, (4096,)), real(4096, 256))),
    "index select": (lambda x, i: torch.index_select(x, 0, i), lambda: (real(1024, 1024), torch.randperm(1024))),
    "gather": (lambda x, i: torch.gather(x, 1, i), lambda: (real(1024, 1024), torch.randint(0, 1024, (1024, 1024)))),
    "pad": square(lambda x: F.pad(x, (3, 3, 2, 2))),
    "cumsum": square(lambda x: torch.cumsum(x, 1)),
    "sort": square(lambda x: torch.sort(x, 1)),
    "topk": square(lambda x: torch.topk(x, 8)),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (real(1, 64, 128, 128),)),
    "average pool": (lambda x: F.avg_pool2d(x, 3, 2, 1), lambda: (real(1, 64, 128, 128),)),
    "bilinear": (
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), lambda: (real(1, 64, 64, 64),),
    ),
    "mm": (torch.mm, lambda: (real(256, 256), real(256, 256))),
    "linear": (F.linear, lambda: (real(256, 512), real(512, 512), real(512))),
    "bmm": (torch.bmm, lambda: (real(16, 128, 64), real(16, 64, 128))),
    "quantize": square(
        lambda x: torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
    ),
    "dequantize": square(
        lambda x: torch.ops.quantized_decomposed.dequantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8),
        lambda *shape: torch.randint(-128, 127, shape, dtype=torch.int8),
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    if unknown := set(options.names) - set(CASES):
        sys.exit(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    torch.set_num_threads(options.threads)
    portable_lib._unsafe_reset_threadpool(options.threads)
    print("| operator | official | eager | sconce | copy | official / sconce | eager / sconce | sconce / copy |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for name in options.names or CASES:
        official, eager, sconce, copy = measure(*CASES[name], options)
        beside = f"{official / sconce:.1f}x" if official < float("inf") else "cannot run it"
        print(
            f"| {name} | {official:.3f} | {eager:.3f} | {sconce:.3f} | {copy:.3f} | {beside} "
            f"| {eager / sconce:.2f}x | {sconce / copy:.2f} |",
            flush=True,
        )


def measure(function, make, options):
    torch.manual_seed(0)
    inputs = make()
    model = Model(lambda self, *args: function(*args))
    with torch.no_grad():
        outputs = model(*inputs)
    planning = MemoryPlanningPass(alloc_graph_input=False)
    program = build(Case(model, [Run(inputs)], config={"memory_planning_pass": planning}), [[outputs]])["pte"]
    tensors = [*inputs, *(outputs if isinstance(outputs, tuple) else [outputs])]
    moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors) // 2
    module = official_module(program, inputs)
    source, target = np.ones(moved, np.uint8), np.zeros(moved, np.uint8)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        file = pathlib.Path(folder) / "program.pte"
        file.write_bytes(program)
        np.savez(file.with_suffix(".npz"), **{f"in{i}": tensor.numpy() for i, tensor in enumerate(inputs)})
        contestants = [
            lambda: fastest(lambda: module.forward(inputs, clone_outputs=False)) if module else float("inf"),
            lambda: fastest(lambda: model(*inputs)),
            lambda: sconce_fastest(options, file),
            lambda: fastest(lambda: np.copyto(target, source)),
        ]
        rounds = [[time_it() for time_it in contestants] for _ in range(options.rounds)]
    return [min(times) for times in zip(*rounds)]


def official_module(program, inputs):
    """The program on the official runtime, or nothing where that cannot run it."""
    try:
        module = portable_lib._load_for_executorch_from_buffer(program)
        module.forward(inputs, clone_outputs=False)
        return module
    except RuntimeError:
        return None


def fastest(run, seconds=0.25):
    """Milliseconds of the fastest call within some time, of at least three."""
    run()
    best, end, calls = float("inf"), time.perf_counter() + seconds, 0
    while calls < 3 or time.perf_counter() < end:
        started = time.perf_counter()
        run()
        best, calls = min(best, time.perf_counter() - started), calls + 1
    return best * 1e3


def sconce_fastest(options, file):
    command = [options.sconce, "bench", str(file), "--threads", str(options.threads), "--seconds", "0.25", "--json"]
    [measured] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return measured["min_ms"]


if __name__ == "__main__":
    main()
