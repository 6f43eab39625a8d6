"""What all tests share: where the golden programs are, and whether there is torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy
import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
GOLDEN = REPOSITORY / "tests" / "golden"
DIGITS = REPOSITORY / "examples" / "digits"

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def golden(name: str) -> tuple[list[numpy.ndarray], list[numpy.ndarray]]:
    """The inputs and outputs of a golden program's run, in a row."""
    with numpy.load(GOLDEN / f"{name}.npz") as arrays:
        numbered = {key: arrays[key] for key in arrays.files}

    def row(prefix: str) -> list[numpy.ndarray]:
        keys = sorted((key for key in numbered if key.startswith(prefix)), key=lambda key: int(key[len(prefix) :]))
        return [numbered[key] for key in keys]

    return row("in"), row("out")
