"""Times a program on the official runtime: MODEL INPUTS.npz METHOD THREADS WARM_UP [DATA.ptd].

Of the arrays those named in0, in1, ... count. Prints a line of JSON about loading and the first run, which is counted by
itself; then, for each line SECONDS FEWEST MOST that it reads, runs for that long or so often, and prints a line with the
times. Runs of WARM_UP seconds after the first one are not counted. Memory is in MiB: of the process before the load, and at
most.
"""

import json
import pathlib
import resource
import sys
import time

import numpy as np
import torch
from executorch.extension.pybindings import portable_lib

model, inputs, method, threads, warm_up, *data = sys.argv[1:]
torch.set_num_threads(int(threads))
portable_lib._unsafe_reset_threadpool(int(threads))
with np.load(inputs) as arrays:
    names = sorted((name for name in arrays.files if name.startswith("in")), key=lambda name: int(name[2:]))
    inputs = [torch.from_numpy(arrays[name]) for name in names]


def timed(body):
    start = time.perf_counter()
    result = body()
    return (time.perf_counter() - start) * 1e3, result


def run():
    return timed(lambda: module.run_method(method, inputs, clone_outputs=False))[0]


before = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
load, module = timed(lambda: portable_lib._load_for_executorch(model, *data))
first = run()
start = time.perf_counter()
while time.perf_counter() - start < float(warm_up):
    run()
print(json.dumps({"load_ms": load, "first_ms": first, "before_rss_mb": before / 2**20}), flush=True)
for line in sys.stdin:
    seconds, fewest, most = map(float, line.split())
    times, start = [], time.perf_counter()
    while len(times) < fewest or (len(times) < most and time.perf_counter() - start < seconds):
        times.append(run())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(json.dumps({"times_ms": times, "peak_rss_mb": peak}), flush=True)
