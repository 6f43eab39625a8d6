"""Compile time and planned memory beside the official exporter, on the same exported programs.

usage: bench_compile.py SCONCE MODEL.pt2... [--backend xnnpack|portable]

For each program: the official `to_edge_transform_and_lower` and `to_executorch` once, in this process, after a small program
that loads what they need; `sconce compile` (the whole process, from the file to the program) before and after it, the
slower of both. Prints a table with the ratio of the times, the planned bytes of both and the number of delegates.
"""

import argparse
import logging
import os
import re
import subprocess
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower


def official(program, backend):
    partitioners = [XnnpackPartitioner()] if backend == "xnnpack" else []
    config = EdgeCompileConfig(_check_ir_validity=False)
    start = time.perf_counter()
    lowered = to_edge_transform_and_lower(program, partitioner=partitioners, compile_config=config).to_executorch()
    seconds = time.perf_counter() - start
    plan = lowered.executorch_program.execution_plan[0]
    return seconds, sum(plan.non_const_buffer_sizes), len(plan.delegates)


def ours(sconce, path, backend):
    with tempfile.TemporaryDirectory() as folder:
        command = [sconce, "compile", path, "--backend", backend, "-o", os.path.join(folder, "program.pte")]
        start = time.perf_counter()
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - start
    planned = sum(map(int, re.findall(r": (\d+) bytes of planned memory", output)))
    parts = [int(line.split()[1]) for line in output.splitlines() if line.startswith("xnnpack ")]
    return seconds, planned, sum(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce")
    parser.add_argument("models", nargs="+", metavar="MODEL.pt2")
    parser.add_argument("--backend", choices=["xnnpack", "portable"], default="xnnpack")
    options = parser.parse_args()
    official(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), options.backend)
    print("| model | official s | sconce s | ratio | official planned bytes | sconce | official delegates | sconce |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for path in options.models:
        before = ours(options.sconce, path, options.backend)
        seconds, planned, delegates = official(torch.export.load(path), options.backend)
        after = ours(options.sconce, path, options.backend)
        own = max(before[0], after[0])
        name = os.path.basename(path).removesuffix(".pt2").removesuffix("_pt2")
        row = [name, f"{seconds:.1f}", f"{own:.2f}", f"{seconds / own:.0f}x", planned, before[1], delegates, before[2]]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
