"""From PyTorch to a program.

Whatever is given becomes a ``.pt2`` archive in memory, which the compiler reads. torch is imported when it is needed:
for an archive that lies on disk it is not.
"""

from __future__ import annotations

import errno
import io
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _sconce
from ._arrays import lend
from ._error import INVALID_ARGUMENT, NO_ACCESS, OPERATOR_MISSING, Error, FileNotFound
from ._numbers import count

if TYPE_CHECKING:
    import torch

    #: One thing that becomes a method.
    Exportable = Union[torch.nn.Module, torch.export.ExportedProgram]


def compile(
    module: Exportable | Mapping[str, Exportable] | str | os.PathLike[str] | bytes,
    example_inputs: Sequence[Any] | None = None,
    *,
    backends: Sequence[str] | None = None,
    quantize: str | None = None,
    calibrate: Iterable[Any] | None = None,
    group_size: int | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> bytes:
    """Compiles a PyTorch module to the bytes of a program.

    Args:
        module: A module, which is exported with ``torch.export.export``; an exported program; a mapping from method
            names to those; or an archive as ``torch.export.save`` writes it, by path or as bytes.
        example_inputs: What the module is called with for the export; of a mapping, all modules.
        backends: Backends that parts of the program are delegated to; all that this build can run if not given, none
            if empty.
        quantize: A scheme by which the compiler quantises, none if not given: ``int8`` (weights and activations, fixed by
            ``calibrate``), ``int8-dynamic`` or ``int4`` (weights of linear layers).
        calibrate: Calls like those that the program will see, for ``quantize``: of each a tuple of what the module is
            called with, or the only thing. Without them there are the inputs of the export alone.
        group_size: Neighbours in a row of a weight that share a scale, for ``int4``; 32 if not given.
        dynamic_shapes: Which sizes may vary, as ``torch.export.export`` takes it.
        strict: Whether torch traces the module's bytecode.

    Raises:
        Error: The compiler cannot do it; the sentence names the operator and the line of Python it came from.
    """
    asked = _runnable() if backends is None else [backends] if isinstance(backends, str) else list(backends)
    quantization = _quantization(quantize, calibrate, group_size)
    if isinstance(module, (str, os.PathLike)):
        return quantization.compile(_read(Path(module)), asked)
    if isinstance(module, bytes):
        return quantization.compile(module, asked)
    modules = module if isinstance(module, Mapping) else {"forward": module}
    programs = {name: _export(one, example_inputs, dynamic_shapes, strict) for name, one in modules.items()}
    return compile_programs(programs, asked, quantization)


def _runnable() -> list[str]:
    """The compiler's backends that this build runs, too: those of programs have the same name and ``Backend``."""
    here = {name.lower() for name in _sconce.backend_names()}
    return [name for name in _sconce.compiler_backends() if f"{name}backend" in here]


@dataclass(frozen=True)
class Quantization:
    """What to make integers of; nothing if there is no scheme."""

    scheme: str | None = None
    calls: list[list[Any]] | None = None
    group_size: int | None = None

    def compile(self, archive: bytes, backends: Sequence[str]) -> bytes:
        """Compiles an archive with it."""
        return _sconce.compile(archive, list(backends), self.scheme, self.calls, self.group_size)


def _quantization(scheme: str | None, calibrate: Iterable[Any] | None, group_size: int | None) -> Quantization:
    if scheme is None and (calibrate is not None or group_size is not None):
        raise Error("calibrate and group_size are for quantize: name a scheme, such as int8", INVALID_ARGUMENT)
    calls = None if calibrate is None else [_call(call) for call in calibrate]
    if calls is not None and not calls:
        raise Error("there are no calls to calibrate with", INVALID_ARGUMENT)
    if scheme == "int8" and calls is None:
        warnings.warn("calibrated with the inputs of the export only: pass real ones as calibrate", stacklevel=3)
    return Quantization(scheme, calls, count("group_size", group_size))


def _call(call: Any) -> list[Any]:
    """The inputs of a call in a row."""
    if isinstance(call, Mapping):
        raise TypeError("a call of calibrate is a tuple of what the module is called with, not a mapping")
    return [lend(value) for value in _leaves(call)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [value]


def _read(path: Path) -> bytes:
    """An archive on disk."""
    try:
        return path.read_bytes()
    except OSError as error:
        kind = FileNotFound if error.errno == errno.ENOENT else Error
        raise kind(f"cannot read {path}: {os.strerror(error.errno or 0)}", NO_ACCESS) from None


def compile_programs(
    programs: Mapping[str, Any], backends: Sequence[str], quantization: Quantization = Quantization()
) -> bytes:
    """Compiles exported programs by method name.

    Operators that the compiler has no rule for are taken apart by torch, if that helps. Not before: the compiler knows
    more about whole ones.
    """
    if not programs:
        raise Error("there is no method to compile: the mapping is empty", INVALID_ARGUMENT)
    try:
        return quantization.compile(_save(programs), backends)
    except Error as error:
        if error.code != OPERATOR_MISSING:
            raise
        whole = error
    apart = {name: program.run_decompositions() for name, program in programs.items()}
    try:
        return quantization.compile(_save(apart), backends)
    except Error:
        raise whole from None


def _export(module: Any, example_inputs: Any, dynamic_shapes: Any, strict: bool) -> Any:
    """The exported program of a module, or what is one already."""
    import torch

    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"only modules, exported programs and archives are compiled, not {type(module).__name__}")
    if example_inputs is None:
        raise TypeError("a module is exported by calling it: pass example_inputs, a tuple of what it takes")
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if module.training:
        warnings.warn("the module is in training mode and is compiled as such: call module.eval() before", stacklevel=3)
    inputs = tuple(example_inputs)
    return torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes, strict=strict)


def _save(programs: Mapping[str, Any]) -> bytes:
    """The archive of exported programs by method name."""
    import torch

    archive = io.BytesIO()
    if list(programs) == ["forward"]:
        torch.export.save(programs["forward"], archive)
    else:
        from torch.export.pt2_archive._package import package_pt2

        package_pt2(archive, exported_programs=dict(programs))
    return archive.getvalue()
