"""The names by which the official package runs programs, over this package's runtime.

A script that says ``from executorch.runtime import Runtime`` says ``from sconce.runtime import Runtime`` instead::

    program = Runtime.get().load_program("model.pte")
    outputs = program.load_method("forward").execute([image])

Inputs and outputs are in a row, as there. Outputs are tensors of torch where inputs are, or where there is torch and no
input says otherwise; without torch they are arrays of NumPy. Files are always verified in full.
"""

from __future__ import annotations

import enum
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import _sconce
from ._error import NOT_SUPPORTED, Error
from ._model import MethodMeta as _Meta
from ._model import Model, Session, Source, load
from ._model import TensorInfo as _Info

__all__ = [
    "BackendRegistry",
    "Method",
    "MethodMeta",
    "OperatorRegistry",
    "Program",
    "Runtime",
    "TensorInfo",
    "Verification",
]


class Verification(enum.Enum):
    """How much of a file is verified. Here, all of it either way."""

    Minimal = 0
    InternalConsistency = 1


class TensorInfo:
    """A tensor that a method takes or gives."""

    def __init__(self, info: _Info) -> None:
        self._info = info

    def sizes(self) -> tuple[int, ...]:
        """The sizes, the largest ones if they vary."""
        return self._info.shape

    def dtype(self) -> int:
        """The element type, by its number in files."""
        return self._info.code

    def is_memory_planned(self) -> bool:
        """Whether the program has a place for it."""
        return self._info.planned

    def nbytes(self) -> int:
        """Bytes at most."""
        return self._info.nbytes

    def __repr__(self) -> str:
        sizes, planned = list(self.sizes()), self.is_memory_planned()
        return f"TensorInfo(sizes={sizes}, dtype={self._info.dtype}, planned={planned}, nbytes={self.nbytes()})"


class MethodMeta:
    """What is known about a method before it runs."""

    def __init__(self, meta: _Meta) -> None:
        self._meta = meta

    def name(self) -> str:
        """Its name."""
        return self._meta.name

    def num_inputs(self) -> int:
        """How many inputs it takes."""
        return len(self._meta.inputs)

    def num_outputs(self) -> int:
        """How many outputs it gives."""
        return len(self._meta.outputs)

    def num_attributes(self) -> int:
        """How many tensors can be had by name; none."""
        return 0

    def input_tensor_meta(self, index: int) -> TensorInfo:
        """The tensor that an input is."""
        return self._tensor("input", self._meta.inputs, index)

    def output_tensor_meta(self, index: int) -> TensorInfo:
        """The tensor that an output is."""
        return self._tensor("output", self._meta.outputs, index)

    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """Raises: there are no attributes."""
        return self._tensor("attribute", (), index)

    def _tensor(self, what: str, infos: Sequence[Any], index: int) -> TensorInfo:
        if not 0 <= index < len(infos):
            raise IndexError(f"`{self.name()}` has {len(infos)} {what}(s), there is no number {index}")
        if not isinstance(infos[index], _Info):
            raise Error(f"{what} {index} of `{self.name()}` is no tensor but a value of kind {infos[index].kind}")
        return TensorInfo(infos[index])

    def __repr__(self) -> str:
        def tensors(infos: Sequence[Any]) -> str:
            return ", ".join(repr(TensorInfo(info)) if isinstance(info, _Info) else info.kind for info in infos)

        meta = self._meta
        return (
            f"MethodMeta(name='{meta.name}', num_inputs={self.num_inputs()}, inputs=[{tensors(meta.inputs)}], "
            f"num_outputs={self.num_outputs()}, outputs=[{tensors(meta.outputs)}])"
        )


class Method:
    """A method that is ready to run. What it keeps between runs is kept."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def execute(self, inputs: Sequence[Any] = ()) -> list[Any]:
        """Runs the method with its inputs in a row, and gives its outputs in a row."""
        inputs = list(inputs)
        undecided = all(value is None or isinstance(value, (bool, int, float, str)) for value in inputs)
        return self._session.run_flat(inputs, sys.modules.get("torch") if undecided else None)

    def __call__(self, *inputs: Any) -> list[Any]:
        """Runs the method with its inputs as arguments."""
        return self.execute(inputs)

    @property
    def metadata(self) -> MethodMeta:
        """What the method takes and gives."""
        return MethodMeta(self._session.meta)


class Program:
    """A loaded program."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._loaded: dict[str, Method] = {}

    @property
    def method_names(self) -> set[str]:
        """The names of its methods."""
        return set(self._model.methods)

    def load_method(self, name: str) -> Method:
        """A method, the same one every time."""
        if name not in self._loaded:
            self._check(name)
            self._loaded[name] = Method(self._model.session(name))
        return self._loaded[name]

    def metadata(self, method_name: str) -> MethodMeta:
        """What a method takes and gives; does not load it."""
        self._check(method_name)
        return MethodMeta(self._model.method_meta(method_name))

    def _check(self, name: str) -> None:
        if name not in self._model.methods:
            raise KeyError(f"the program has no method `{name}`; it has {', '.join(self._model.methods)}")

    def write_etdump_result_to_file(self, etdump_path: str, debug_buffer_path: str) -> None:
        """Raises: see :meth:`Runtime.load_program`."""
        raise Error(_NO_ETDUMP, NOT_SUPPORTED)


_NO_ETDUMP = "runs are not recorded as ETDump here; `sconce inspect MODEL.pte --plan --profile` shows where time goes"


class BackendRegistry:
    """The backends that programs may be delegated to."""

    @property
    def registered_backend_names(self) -> list[str]:
        """Their names."""
        return _sconce.backend_names()

    def is_available(self, backend_name: str) -> bool:
        """Whether there is one of this name."""
        return backend_name in _sconce.backend_names()


class OperatorRegistry:
    """The operators that programs may use."""

    @property
    def operator_names(self) -> set[str]:
        """Their names, such as ``aten::add.out``."""
        return set(_sconce.operator_names())


class Runtime:
    """The runtime of this process."""

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def get() -> Runtime:
        """The one there is."""
        return Runtime()

    def __init__(self) -> None:
        self.backend_registry = BackendRegistry()
        self.operator_registry = OperatorRegistry()

    def load_program(
        self,
        data: Source,
        *,
        verification: Verification = Verification.InternalConsistency,
        enable_etdump: bool = False,
        debug_buffer_size: int = 0,
        data_path: str | os.PathLike[str] | None = None,
    ) -> Program:
        """Loads a program from a path, bytes, or a file that is open for reading.

        Args:
            data: The program.
            verification: Accepted; files are always verified in full.
            enable_etdump: Must be false.
            debug_buffer_size: For ``enable_etdump``.
            data_path: A file with data from beside the program.
        """
        if enable_etdump:
            raise Error(_NO_ETDUMP, NOT_SUPPORTED)
        return Program(load(data, data=data_path))
