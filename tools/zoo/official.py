"""Whether the official runtime makes the same of a quantised program, bit for bit, and if not, which operator differs first."""

import multiprocessing
import sys
from pathlib import Path

from place import Refused

sys.path.insert(0, str(Path(__file__).parents[1]))
import agree_official

# Seconds that all of it may take.
PATIENCE = 240


def warm():
    """Loads what every comparison needs, which the processes of the rows then have."""
    from executorch.extension.pybindings import portable_lib  # noqa: F401


def compare(place, compiled, record):
    """The first run of a program's only method. What the official runtime ends is another process."""
    sending, receiving = multiprocessing.Pipe()[::-1]
    process = multiprocessing.get_context("fork").Process(target=answer, args=(place, compiled, sending))
    process.start()
    sending.close()
    try:
        found = receiving.recv() if receiving.poll(PATIENCE) else f"takes more than {PATIENCE} s"
    except EOFError:
        process.join()
        found = f"the official runtime ended with {process.exitcode}"
    process.kill()
    process.join()
    if isinstance(found, str):
        record["unloaded"] = found
        return
    record |= found
    if record.get("first") and record["integers_differ"]:
        raise Refused(f"{record['equal']:.2%} of the outputs are the official runtime's; {record['first']}")


def answer(place, compiled, sending):
    try:
        sending.send(judge(place, compiled))
    except Exception as error:
        sending.send(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def judge(place, compiled):
    golden = place.goldens()[0]
    compiled.with_suffix(".npz").symlink_to(golden)
    inputs = agree_official.inputs_of(compiled)
    pairs = list(zip(*agree_official.both(place.sconce, compiled, inputs), strict=True))
    size = sum(theirs.size for theirs, _ in pairs)
    equal = sum(agree_official.compare(*pair)[0] * pair[0].size for pair in pairs) / max(size, 1)
    if equal == 1:
        return {"equal": 1.0}
    try:
        first = agree_official.first_difference(place.sconce, place.model, inputs, golden)
    except Exception as error:
        said = f"the first operator that differs is not known: {' '.join(str(error).split())[:200]}"
        return {"equal": equal, "first": said, "integers_differ": False}
    said = str(first) if first else "no value differs when all are outputs"
    return {"equal": equal, "first": said, "integers_differ": first is not None and first.on_grid}
