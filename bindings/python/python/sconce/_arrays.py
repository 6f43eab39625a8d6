"""Arrays and tensors on their way into a run and out of it, without copies.

The extension reads and gives memory by ``__array_interface__``. What is not NumPy's is brought there and back: tensors
of torch share their memory with an array, and bfloat16, which NumPy lacks, is an array of its bits that says so.
torch is never imported here; it is used when the caller has it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy

from ._sconce import Tensor


class _BFloat16:
    """The bits of bfloat16 elements, under the type string that the extension knows."""

    def __init__(self, bits: numpy.ndarray) -> None:
        self._bits = bits

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {**self._bits.__array_interface__, "typestr": "bfloat16"}

    def copy(self) -> _BFloat16:
        """The same elements side by side."""
        return _BFloat16(self._bits.copy())


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def torch_of(values: list[Any]) -> ModuleType | None:
    """torch, if one of the values is a tensor of it."""
    return sys.modules["torch"] if any(is_torch(value) for value in values) else None


def lend(value: Any) -> Any:
    """A value as the extension takes it: anything array-like as an array, the rest is left alone.

    Always an array, even of what has an ``__array_interface__`` itself: a scalar of NumPy does not keep the memory that
    its own speaks of.
    """
    if isinstance(value, numpy.ndarray):
        return _native(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_torch(value):
        return _lend_torch(value)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return _native(numpy.asarray(value))
    return numpy.from_dlpack(value) if hasattr(value, "__dlpack__") else value


def _native(array: numpy.ndarray) -> Any:
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        return _BFloat16(array.view(numpy.uint16))
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _lend_torch(tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        raise ValueError(f"a tensor on {tensor.device} cannot be an input: pass tensor.cpu()")
    torch = sys.modules["torch"]
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return _BFloat16(tensor.view(torch.int16).numpy())
    return tensor.numpy()


def give(value: Any, torch: ModuleType | None) -> Any:
    """An output of the extension as an array, or as a tensor of torch; both use the memory of the result."""
    if not isinstance(value, Tensor):
        return value
    array = numpy.asarray(value)
    if torch is not None:
        tensor = torch.from_numpy(array)
        return tensor if value.dtype == str(array.dtype) else tensor.view(getattr(torch, value.dtype))
    if value.dtype == "bfloat16":
        bfloat16 = _ml_bfloat16()
        return array if bfloat16 is None else array.view(bfloat16)
    return array


def _ml_bfloat16() -> Any:
    """The element type that the package ml_dtypes gives NumPy, if it is installed."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return None
    return bfloat16
