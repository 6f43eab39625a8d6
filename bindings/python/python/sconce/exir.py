"""The names by which the official package compiles, over this package's compiler.

A script changes its imports and nothing else::

    from sconce.exir import XnnpackPartitioner, to_edge_transform_and_lower

    exported = torch.export.export(module, example_inputs)
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    program.save("model.pte")

Nothing is compiled before ``to_executorch``. A partitioner stands for the backend it partitions for; what else it is
told is kept and not used. A program without its backend computes the same on this runtime, so one that the compiler
lacks is a warning.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Union

from . import _sconce
from ._compile import compile_programs
from ._error import INVALID_ARGUMENT, NOT_SUPPORTED, Error
from ._model import load

__all__ = [
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "XnnpackPartitioner",
    "to_edge",
    "to_edge_transform_and_lower",
]

#: The backends that partitioners, this package's and the official one's, stand for, by the names of their classes.
_BACKENDS = {
    "XnnpackPartitioner": "xnnpack",
    "XnnpackFloatingPointPartitioner": "xnnpack",
    "XnnpackQuantizedPartitioner": "xnnpack",
    "XnnpackDynamicallyQuantizedPartitioner": "xnnpack",
}

Partitioners = Union[Any, Sequence[Any], Mapping[str, Sequence[Any]], None]


class XnnpackPartitioner:
    """Asks for the backend XNNPACK. Takes what the official partitioner takes."""

    def __init__(
        self,
        configs: Sequence[type] | None = None,
        config_precisions: Any = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        self.configs = configs
        self.config_precisions = config_precisions
        self.per_op_mode = per_op_mode
        self.verbose = verbose
        self.settings = settings


class _Settings:
    """Settings of the official compiler. They are kept, and those given are told not to be used."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)
        if settings:
            names = ", ".join(settings)
            warnings.warn(f"{type(self).__name__}: {names}: this compiler decides that itself", stacklevel=2)


class EdgeCompileConfig(_Settings):
    """How the official compiler checks and lowers operators; here without effect."""

    def __init__(self, **settings: Any) -> None:
        # Checks of a form that programs never have here: leaving them out changes nothing.
        silent = {"_check_ir_validity", "_skip_dim_order"}
        super().__init__(**{name: value for name, value in settings.items() if name not in silent})
        self.__dict__.update(settings)


class ExecutorchBackendConfig(_Settings):
    """How the official compiler plans memory and writes files; here without effect."""


class ExecutorchProgramManager:
    """A compiled program."""

    def __init__(self, buffer: bytes, methods: set[str], config_methods: set[str]) -> None:
        #: The program's bytes.
        self.buffer = buffer
        #: The names of the methods that were exported.
        self.methods = methods
        #: The names of the methods that give a constant.
        self.config_methods = config_methods

    def write_to_file(self, open_file: BinaryIO) -> None:
        """Writes the program to a file that is open for writing."""
        open_file.write(self.buffer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to a file, whose name ends in ``.pte``."""
        if Path(path).suffix != ".pte":
            raise ValueError(f"the name of a program ends in .pte, that of {os.fspath(path)} does not")
        Path(path).write_bytes(self.buffer)

    def write_tensor_data_to_file(self, outdir: str | os.PathLike[str]) -> None:
        """Writes the data from beside the program: there is none, all of it is inside."""

    def load(self, **options: Any) -> Any:
        """Loads the program, with the options of :func:`sconce.load`."""
        return load(self.buffer, **options)


class EdgeProgramManager:
    """Exported programs, by method name, that are to be compiled to one program."""

    def __init__(self, programs: dict[str, Any], constants: dict[str, Any], backends: list[str]) -> None:
        self._programs = programs
        self._constants = constants
        self._backends = backends

    @property
    def methods(self) -> set[str]:
        """The names of the methods that were exported."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """The names of the methods that give a constant."""
        return set(self._constants)

    def exported_program(self, method_name: str = "forward") -> Any:
        """The exported program of a method."""
        return self._programs[method_name]

    def transform(self, passes: Any, compile_config: EdgeCompileConfig | None = None) -> EdgeProgramManager:
        """Passes work on the official compiler's form of a program: none are taken."""
        _refuse_passes(passes)
        return self

    def to_backend(self, partitioner: Partitioners) -> EdgeProgramManager:
        """The same programs, delegated to one more backend."""
        asked = _backends_of(partitioner, self._programs)
        return EdgeProgramManager(self._programs, self._constants, list(dict.fromkeys([*self._backends, *asked])))

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Compiles."""
        constants = {name: _constant_program(value) for name, value in self._constants.items()}
        buffer = compile_programs({**self._programs, **constants}, _available(self._backends))
        return ExecutorchProgramManager(buffer, self.methods, self.config_methods)


def to_edge_transform_and_lower(
    programs: Any,
    transform_passes: Any = None,
    partitioner: Partitioners = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Takes an exported program, or several by method name, for :meth:`EdgeProgramManager.to_executorch` to compile.

    Args:
        programs: A ``torch.export.ExportedProgram``, which becomes ``forward``, or a dictionary of them.
        transform_passes: Not taken: passes work on the official compiler's form of a program.
        partitioner: For which backends; a list, or a dictionary of lists by method name.
        constant_methods: Numbers, strings, tensors, and tuples of them, for methods that give just these.
        compile_config: Accepted.
        generate_etrecord: Not taken: there is no form in between to record.
    """
    _refuse_passes(transform_passes)
    if generate_etrecord:
        raise Error("this compiler writes no ETRecord; leave generate_etrecord away", NOT_SUPPORTED)
    named = dict(programs) if isinstance(programs, Mapping) else {"forward": programs}
    constants = dict(constant_methods or {})
    twice = sorted(set(named) & set(constants))
    if twice:
        raise Error(
            f"a program has one method of a name: {', '.join(twice)} is also a constant method", INVALID_ARGUMENT
        )
    return EdgeProgramManager(named, constants, _backends_of(partitioner, named))


def to_edge(
    programs: Any,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """As :func:`to_edge_transform_and_lower`, for scripts that call ``to_backend`` afterwards."""
    return to_edge_transform_and_lower(programs, None, None, constant_methods, compile_config, generate_etrecord)


def _refuse_passes(passes: Any) -> None:
    if passes:
        raise Error("this compiler takes no passes: transform the module or the exported program", NOT_SUPPORTED)


def _backends_of(partitioner: Partitioners, programs: Mapping[str, Any]) -> list[str]:
    """The backends that partitioners stand for."""
    if isinstance(partitioner, Mapping):
        by_method = {name: _backends_of(partitioner.get(name), {}) for name in programs}
        if len({tuple(asked) for asked in by_method.values()}) > 1:
            raise Error(f"all methods are compiled for the same backends, not {by_method}", NOT_SUPPORTED)
        return next(iter(by_method.values()), [])
    if partitioner is None:
        return []
    asked = []
    for one in partitioner if isinstance(partitioner, Sequence) else [partitioner]:
        names = [kind.__name__ for kind in type(one).__mro__]
        backend = next((_BACKENDS[name] for name in names if name in _BACKENDS), None)
        if backend is None:
            known = ", ".join(_BACKENDS)
            raise Error(
                f"{names[0]} partitions for a backend that only its own package knows; here: {known}", NOT_SUPPORTED
            )
        asked.append(backend)
    return list(dict.fromkeys(asked))


def _available(backends: Sequence[str]) -> list[str]:
    """Those that the compiler has."""
    there = set(_sconce.compiler_backends())
    for name in backends:
        if name not in there:
            warnings.warn(
                f"the compiler does not delegate to {name} yet; the runtime's engine runs these parts", stacklevel=3
            )
    return [name for name in backends if name in there]


def _constant_program(value: Any) -> Any:
    """The exported program of a method that takes nothing and gives a value."""
    import torch

    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if isinstance(value, torch.Tensor):
                self.register_buffer("value", value)
            else:
                self.value = value

        def forward(self) -> Any:
            return self.value

    return torch.export.export(Constant(), (), strict=False)
