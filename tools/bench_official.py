#!/usr/bin/env python3
"""Times programs on the official runtime and on `sconce bench`, on the same machine in the same minutes.

    bench_official.py SCONCE FILE.pte...             table of both, alternating: official, sconce, official, sconce, ...
    bench_official.py SCONCE --scaling FILE.pte...   how well sconce's second thread is used, against two processes

Each round is a fresh process, so neither side inherits the other's caches, and a slow spell of the machine falls on
both. Every program needs its golden `NAME.npz` beside it: it supplies the official runtime's inputs, all tensors.
Programs are brought into the file cache before each round, or out of it with --cold. The median is that over the rounds
of the median of each round; the fastest run, the fastest load to first output and the least memory are those of all
rounds. Memory is what the process holds at most, in MiB, less what it held before the load (on the official side,
Python with PyTorch). Weights that `sconce pack` packed beside a program are used. The last column is what `sconce
inspect --plan --profile` says: how much of the rate at which the kernels multiply numbers in the nearest cache the
whole program reaches (Winograd's method counts as the plain products it stands for).

The scaling mode compares a second thread with the most a second core can give: it runs one 1-thread process, two
1-thread processes at once, then one 2-thread process. With t the latencies, those of the two processes taken together,

    speed-up   = t(1 thread) / t(2 threads)
    ceiling    = 2 t(1 thread) / t(two processes)
    efficiency = speed-up / ceiling
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

# What `sconce bench --compare` runs too.
OFFICIAL = pathlib.Path(__file__).resolve().parent.parent / "crates" / "cli" / "src" / "bench" / "official.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", help="path of the sconce command")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.pte")
    parser.add_argument("--threads", type=int, default=1, help="threads of both sides (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side (default 3)")
    parser.add_argument("--seconds", type=float, default=3, help="how long a round measures (default 3)")
    parser.add_argument("--warm-up", type=float, default=0, help="how long a round runs before it measures (default 0)")
    parser.add_argument("--exact", action="store_true", help="pass --exact to sconce")
    parser.add_argument("--cold", action="store_true", help="take each program out of the file cache before every round")
    parser.add_argument("--scaling", action="store_true", help="compare two threads with two processes")
    options = parser.parse_args()
    if options.scaling:
        scaling_table(options)
    else:
        comparison_table(options)


def comparison_table(options):
    """Medians, fastest runs, load to first output and memory, with their ratios; geometric means of these at the end."""
    print(f"{options.threads} thread(s), {options.rounds} alternating rounds, milliseconds: official / sconce\n")
    print("| program | median | ratio | fastest run | ratio | load to first output | ratio | memory | ratio | of peak |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    ratios = []
    for file in options.files:
        official, ours = [], []
        for _ in range(options.rounds):
            for rounds, measure in [(official, official_round), (ours, sconce_round)]:
                (forget if options.cold else remember)(file)
                rounds.append(measure(file, options))
        pairs = [
            [middle(rounds, "median_ms") for rounds in (official, ours)],
            [min(round["min_ms"] for round in rounds) for rounds in (official, ours)],
            [min(round["load_ms"] + round["first_ms"] for round in rounds) for rounds in (official, ours)],
            [min(round["peak_rss_mb"] for round in rounds) for rounds in (official, ours)],
        ]
        ratios.append([theirs / own for theirs, own in pairs])
        cells = [f"{theirs:.2f} / {own:.2f} | {theirs / own:.2f}x" for theirs, own in pairs]
        print(f"| {file.stem} | {' | '.join(cells)} | {of_peak(options, file):.0f} % |", flush=True)
    means = [statistics.geometric_mean(column) for column in zip(*ratios)]
    print("| geometric mean | | " + " | | ".join(f"{mean:.2f}x" for mean in means) + " | |")


def scaling_table(options):
    print(f"{options.rounds} rounds, milliseconds\n")
    print("| program | of | 1 thread | two processes | 2 threads | speed-up | ceiling | efficiency |")
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for file in options.files:
        alone, together, threaded = [], [], []
        for _ in range(options.rounds):
            alone.append(finish_sconce(start_sconce(options, file, 1)))
            pair = [start_sconce(options, file, 1) for _ in range(2)]
            together.extend(finish_sconce(process) for process in pair)
            threaded.append(finish_sconce(start_sconce(options, file, 2)))
        # The fastest run says what the code can do, the median what this machine let it do.
        for name, key, best in [("fastest runs", "min_ms", min), ("medians", "median_ms", statistics.median)]:
            one, shared, two = (best(round[key] for round in rounds) for rounds in (alone, together, threaded))
            ceiling = 2 * one / shared
            print(
                f"| {file.stem} | {name} | {one:.3f} | {shared:.3f} | {two:.3f} | {one / two:.2f}x | {ceiling:.2f}x "
                f"| {100 * one / two / ceiling:.0f} % |",
                flush=True,
            )


def middle(rounds, key):
    return statistics.median(measured[key] for measured in rounds)


def forget(file):
    """Takes a program and what lies beside it out of the file cache."""
    for path in file.parent.glob(file.stem + ".*"):
        with open(path, "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(file):
    """Brings a program and what lies beside it into the file cache: some systems drop what nobody read for a minute."""
    for path in file.parent.glob(file.stem + ".*"):
        path.read_bytes()


def sconce_round(file, options):
    return finish_sconce(start_sconce(options, file, options.threads))


def start_sconce(options, file, threads):
    command = [options.sconce, "bench", file, "--threads", threads, "--seconds", options.seconds, "--json"]
    command += ["--warm-up", options.warm_up] + ["--exact"] * options.exact
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)


def finish_sconce(process):
    output, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)} failed with code {process.returncode}")
    [measured] = json.loads(output)
    return less_before(measured)


def of_peak(options, file):
    """Percent of the peak, over all plans of the program."""
    command = [options.sconce, "inspect", "--plan", "--profile", "--threads", str(options.threads), str(file)]
    finished = subprocess.run(command + ["--exact"] * options.exact, stdout=subprocess.PIPE, text=True, check=True)
    plans = re.findall(r"steps, ([0-9.]+) ms, .*?, ([0-9]+) % of peak", finished.stdout)
    total = sum(float(time) for time, _ in plans)
    return sum(float(time) * float(share) for time, share in plans) / total if total else 0.0


def official_round(file, options):
    external = file.with_suffix(".ptd")
    command = [
        sys.executable, OFFICIAL, file, file.with_suffix(".npz"), "forward", options.threads, options.warm_up,
        *[external] * external.exists(),
    ]
    finished = subprocess.run(
        list(map(str, command)), input=f"{options.seconds} 5 500\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if finished.returncode != 0:
        sys.exit(f"the official runtime failed on {file}:\n{finished.stderr.strip()[-2000:]}")
    begun, turn = map(json.loads, finished.stdout.strip().split("\n")[-2:])
    times = turn.pop("times_ms")
    measured = {"min_ms": min(times), "median_ms": statistics.median(times), "runs": len(times)}
    return less_before(begun | turn | measured)


def less_before(measured):
    measured["peak_rss_mb"] -= measured["before_rss_mb"]
    return measured


if __name__ == "__main__":
    main()
