"""Numbers that callers give."""

from __future__ import annotations

import operator
from typing import Any

from ._error import INVALID_ARGUMENT, Error

#: More than any machine has of anything; what Rust takes.
_MOST = 2**63 - 1


def count(name: str, value: Any) -> int | None:
    """A keyword that says how many; ``None`` stays.

    Raises:
        Error: It is negative.
        TypeError: It is no whole number.
    """
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
    if number < 0:
        raise Error(f"{name} is {number}, it must not be negative", INVALID_ARGUMENT)
    return min(number, _MOST)
