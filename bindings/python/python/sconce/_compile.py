"""From PyTorch to a program.

Whatever is given becomes a ``.pt2`` archive in memory, which the compiler reads. torch is imported when it is needed:
for an archive that lies on disk it is not.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _sconce
from ._error import INVALID_ARGUMENT, OPERATOR_MISSING, Error

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
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> bytes:
    """Compiles a PyTorch module to the bytes of a program.

    Args:
        module: A module, which is exported with ``torch.export.export``; an exported program; a mapping from method
            names to those; or an archive as ``torch.export.save`` writes it, by path or as bytes.
        example_inputs: What the module is called with for the export; of a mapping, all modules.
        backends: Backends that parts of the program are delegated to; all that the compiler has if not given, none if
            empty.
        quantize: A scheme by which the compiler quantises; none if not given.
        dynamic_shapes: Which sizes may vary, as ``torch.export.export`` takes it.
        strict: Whether torch traces the module's bytecode.

    Raises:
        Error: The compiler cannot do it; the sentence names the operator and the line of Python it came from.
    """
    asked = _sconce.compiler_backends() if backends is None else list(backends)
    if isinstance(module, (str, os.PathLike)):
        return _sconce.compile(Path(module).read_bytes(), asked, quantize)
    if isinstance(module, bytes):
        return _sconce.compile(module, asked, quantize)
    modules = module if isinstance(module, Mapping) else {"forward": module}
    programs = {name: _export(one, example_inputs, dynamic_shapes, strict) for name, one in modules.items()}
    return compile_programs(programs, asked, quantize)


def compile_programs(programs: Mapping[str, Any], backends: Sequence[str], quantize: str | None = None) -> bytes:
    """Compiles exported programs by method name.

    Operators that the compiler has no rule for are taken apart by torch, if that helps. Not before: the compiler knows
    more about whole ones.
    """
    if not programs:
        raise Error("there is no method to compile: the mapping is empty", INVALID_ARGUMENT)
    try:
        return _sconce.compile(_save(programs), list(backends), quantize)
    except Error as error:
        if error.code != OPERATOR_MISSING:
            raise
        whole = error
    apart = {name: program.run_decompositions() for name, program in programs.items()}
    try:
        return _sconce.compile(_save(apart), list(backends), quantize)
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
