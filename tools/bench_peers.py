#!/usr/bin/env python3
"""Times ONNX Runtime and OpenVINO beside `sconce bench`, on the same models in the same minutes.

    bench_peers.py SCONCE --onnx FOLDER FILE.pte...   table of the three, alternating

Each round is a fresh process, so no side inherits another's caches, and a slow spell of the machine falls on all. The
median is that over the rounds of the median of each round; the fastest run is that of all rounds. All sides compute in
float32 with the same number of threads, one inference at a time. Needs onnxruntime, openvino and numpy.

NAME.pte has its golden `NAME.npz` beside it, inputs in0, in1, ... and outputs out0, ..., and the folder has NAME.onnx, the
same model as `torch.onnx.export` writes it. Before the table, both other runtimes must give the golden outputs; how far off
they are is printed, as a part of the largest golden value.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import pathlib
import statistics
import subprocess
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", help="path of the sconce command")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.pte")
    parser.add_argument("--onnx", type=pathlib.Path, required=True, help="folder of the same models for the others")
    parser.add_argument("--threads", type=int, default=1, help="threads of all sides (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side (default 3)")
    parser.add_argument("--seconds", type=float, default=3, help="how long a round measures (default 3)")
    parser.add_argument("--warm-up", type=float, default=0, help="how long a round runs before it measures (default 0)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="how far off outputs may be (default 1e-4)")
    options = parser.parse_args()
    check(options)
    comparison_table(options)


def onnx_of(options, file):
    return options.onnx / f"{file.stem}.onnx"


def in_process(function, *arguments):
    """What the function returns, run in a fresh process."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as process:
        return process.submit(function, *arguments).result()


def arrays_of(file, prefix):
    """The golden arrays named in0, in1, ... or out0, out1, ..., in order."""
    import numpy as np

    with np.load(file.with_suffix(".npz")) as arrays:
        names = [name for name in arrays.files if name.startswith(prefix)]
        return [arrays[name] for name in sorted(names, key=lambda name: int(name[len(prefix):]))]


def check(options):
    """Compares the outputs of both other runtimes with the golden ones."""
    for file in options.files:
        for title, load in PEERS.items():
            error = in_process(peer_error, load, options, file)
            print(f"{file.stem}: {title} is off by {error:.1e}", flush=True)
            if not error <= options.tolerance:
                sys.exit(f"{title} does not agree on {file.stem}")
    print()


def peer_error(load, options, file):
    """The largest difference from a golden output, as a part of that output's largest value."""
    import numpy as np

    run, outputs = load(options, file)
    run()
    errors = []
    for golden, value in zip(arrays_of(file, "out"), outputs(), strict=True):
        difference = np.abs(golden - value).max()
        errors.append(float(difference / (np.abs(golden).max() or 1)))
    return max(errors)


def comparison_table(options):
    """Medians with their ratios, and the ratios of the fastest runs; geometric means of the ratios at the end."""
    print(f"{options.threads} thread(s), {options.rounds} alternating rounds, milliseconds: other runtime / sconce\n")
    print("| program | " + " | ".join(f"{title} / sconce | ratio | fastest ratio" for title in PEERS) + " |")
    print("|---" + "|---:" * 3 * len(PEERS) + "|", flush=True)
    ratios = []
    for file in options.files:
        ours, theirs = [], {title: [] for title in PEERS}
        for _ in range(options.rounds):
            for title, load in PEERS.items():
                theirs[title].append(in_process(peer_round, load, options, file))
            ours.append(sconce_round(options, file))
        own, cells, row = middle(ours), [], []
        for rounds in theirs.values():
            pair = [middle(rounds) / own, fastest(rounds) / fastest(ours)]
            cells.append(f"{middle(rounds):.2f} / {own:.2f} | {pair[0]:.2f}x | {pair[1]:.2f}x")
            row += pair
        ratios.append(row)
        print(f"| {file.stem} | {' | '.join(cells)} |", flush=True)
    means = [f"{statistics.geometric_mean(column):.2f}x" for column in zip(*ratios)]
    pairs = [" | ".join(means[first : first + 2]) for first in range(0, len(means), 2)]
    print("| geometric mean | | " + " | | ".join(pairs) + " |")


def middle(rounds):
    return statistics.median(measured["median_ms"] for measured in rounds)


def fastest(rounds):
    return min(measured["min_ms"] for measured in rounds)


def sconce_round(options, file):
    command = [options.sconce, "bench", file, "--threads", options.threads, "--seconds", options.seconds, "--json"]
    command += ["--warm-up", options.warm_up]
    finished = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    [measured] = json.loads(finished.stdout)
    return measured


def peer_round(load, options, file):
    """Times another runtime, after one run that does not count."""
    run, _ = load(options, file)
    run()
    start = time.perf_counter()
    while time.perf_counter() - start < options.warm_up:
        run()
    times, start = [], time.perf_counter()
    while len(times) < 5 or (len(times) < 500 and time.perf_counter() - start < options.seconds):
        before = time.perf_counter()
        run()
        times.append((time.perf_counter() - before) * 1e3)
    return {"min_ms": min(times), "median_ms": statistics.median(times)}


# Loading a model gives two functions: one that runs it on the golden inputs, one that returns the outputs of the last
# run. The first copies nothing into or out of the runtime.


def load_onnxruntime(options, file):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(onnx_of(options, file), settings, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for argument, value in zip(session.get_inputs(), arrays_of(file, "in"), strict=True):
        binding.bind_cpu_input(argument.name, value)
    for result in session.get_outputs():
        binding.bind_output(result.name)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def load_openvino(options, file):
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": options.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(onnx_of(options, file), "CPU", settings)
    request = compiled.create_infer_request()
    for index, value in enumerate(arrays_of(file, "in")):
        request.set_input_tensor(index, openvino.Tensor(value))
    return lambda: request.infer(share_outputs=True), lambda: [tensor.data for tensor in request.output_tensors]


PEERS = {"ONNX Runtime": load_onnxruntime, "OpenVINO": load_openvino}


if __name__ == "__main__":
    main()
