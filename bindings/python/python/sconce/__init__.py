"""Run ExecuTorch programs (``.pte``), whoever exported them, and compile PyTorch modules to such programs.

>>> model = sconce.load("model.pte")
>>> scores = model(image)

Running needs NumPy alone. Compiling (:func:`compile`, or :func:`to_edge_transform_and_lower` with the names of the
official package) needs torch, which is imported when it is called.
"""

from __future__ import annotations

from ._compile import compile
from ._error import Error
from ._model import MethodMeta, Model, Session, TensorInfo, ValueInfo, load
from ._sconce import __version__, instruction_sets
from .exir import XnnpackPartitioner, to_edge, to_edge_transform_and_lower
from .runtime import Runtime

__all__ = [
    "Error",
    "MethodMeta",
    "Model",
    "Runtime",
    "Session",
    "TensorInfo",
    "ValueInfo",
    "XnnpackPartitioner",
    "__version__",
    "compile",
    "instruction_sets",
    "load",
    "to_edge",
    "to_edge_transform_and_lower",
]
