"""Where the files of a row are, the command, and what is known from earlier runs."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Seconds that one call of the command may take.
PATIENCE = 120


class Refused(Exception):
    """Why a flow does not work, in a sentence."""


@dataclass
class Place:
    sconce: str
    folder: Path

    @property
    def model(self):
        return self.folder / "model.pt2"

    def goldens(self):
        return sorted(self.folder.glob("model*.npz"), key=step)

    def calibration(self):
        """Golden files as the command wants them, with the method where there are several."""
        found = sequences(self.goldens())
        return [f"{method}={own}" if method else own for method, sequence in found.items() for own in sequence]

    def command(self, *arguments):
        """Whether the command succeeded, what it printed, and what it complained about."""
        line = [self.sconce, *map(str, arguments)]
        try:
            done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Refused(f"`sconce {arguments[0]}` takes more than {PATIENCE} s") from None
        if done.returncode < 0 or "panicked at" in done.stderr:
            last = " ".join(done.stderr.split())[-300:]
            raise Refused(f"`sconce {arguments[0]}` ended with {done.returncode}: {last}")
        return done.returncode == 0, done.stdout, done.stderr

    def compile(self, output, *arguments):
        """Compiles the row's export; a record of what the command says about the program."""
        ok, printed, complaint = self.command("compile", self.model, "-o", output, *arguments)
        if not ok:
            raise Refused(sentence(complaint))
        calls = dict(re.findall(r"^(\w+) +(?:\d+ +)?(\d+)$", printed, re.MULTILINE))
        integers = re.search(r"^(\d+) calls on integers", printed, re.MULTILINE)
        every = int(calls.get("all", 0))
        record = {
            "calls": every,
            "delegated": every - int(calls.get("operators", every)),
            "bytes": output.stat().st_size,
            "planned": sum(map(int, re.findall(r": (\d+) bytes of planned memory", printed))),
        }
        return record | ({"integers": int(integers[1])} if integers else {})


def step(golden):
    """Sorts golden files by method and number."""
    number = re.search(r"step(\d+)", golden.name)
    return golden.name.split(".")[1], int(number[1]) if number else 0


def sequences(goldens):
    """Golden files of runs that follow one another, by method; the only method has no name."""
    found = {}
    for golden in goldens:
        label = golden.name.split(".")[1]
        method = None if label == "npz" or re.fullmatch(r"step\d+", label) else label
        found.setdefault(method, []).append(golden)
    return found


def sentence(complaint):
    """An error of the command without the names of files."""
    lines = [line for line in complaint.splitlines() if line.strip() and not line.startswith("warning:")]
    return re.sub(r"\S*/model\.pt2: ", "", " ".join(lines).removeprefix("error: "))[:600]


def known(results):
    """Records by row and flow, the last ones of each."""
    records = {}
    if results.exists():
        for line in results.read_text().splitlines():
            record = json.loads(line)
            records[record["row"], record["flow"]] = record
    return records
