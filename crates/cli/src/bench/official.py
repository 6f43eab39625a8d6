"""Times a program on the official runtime: MODEL INPUTS.npz METHOD THREADS SECONDS WARM_UP [DATA.ptd].

Prints one line of JSON. Of the arrays those named in0, in1, ... count. Memory is in MiB: of the process before the load, and
at most. The first run is counted by itself, those of WARM_UP seconds after it not at all.
"""

import json
import pathlib
import resource
import statistics
import sys
import time

import numpy as np
import torch
from executorch.extension.pybindings import portable_lib

model, inputs, method, threads, seconds, warm_up, *data = sys.argv[1:]
torch.set_num_threads(int(threads))
portable_lib._unsafe_reset_threadpool(int(threads))
with np.load(inputs) as arrays:
    names = sorted((name for name in arrays.files if name.startswith("in")), key=lambda name: int(name[2:]))
    inputs = [torch.from_numpy(arrays[name]) for name in names]


def timed(body):
    start = time.perf_counter()
    result = body()
    return (time.perf_counter() - start) * 1e3, result


before = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
load, module = timed(lambda: portable_lib._load_for_executorch(model, *data))
first, _ = timed(lambda: module.run_method(method, inputs, clone_outputs=False))
start = time.perf_counter()
while time.perf_counter() - start < float(warm_up):
    module.run_method(method, inputs, clone_outputs=False)
times, start = [], time.perf_counter()
while len(times) < 5 or (len(times) < 500 and time.perf_counter() - start < float(seconds)):
    times.append(timed(lambda: module.run_method(method, inputs, clone_outputs=False))[0])
print(json.dumps({
    "load_ms": load, "first_ms": first, "min_ms": min(times), "median_ms": statistics.median(times), "runs": len(times),
    "before_rss_mb": before / 2**20, "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
}))
