"""``python -m executorch_ggml.dump_ir model.pte``: what a program delegated to ggml, as text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import sconce
from sconce import _sconce


def dump(program: bytes) -> str:
    """Every payload of a program: a line for each tensor, after those that it is computed from."""
    payloads = _sconce.payloads_of_ggml(program)
    parts = [f"{method}, delegate {place}\n{text}" for method, place, text in payloads]
    return "\n".join(parts) if parts else "nothing is delegated to ggml\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m executorch_ggml.dump_ir", description=dump.__doc__)
    parser.add_argument("program", type=Path, help="a .pte file")
    path = parser.parse_args(arguments).program
    try:
        print(dump(path.read_bytes()), end="")
    except (OSError, sconce.Error) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
