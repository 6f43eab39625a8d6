"""Loaded programs.

A :class:`Model` is shared: one copy of the weights, whatever runs. A :class:`Session` is what one caller changes: the
memory of a method, and what the method keeps between runs. Calling a model uses a session of its own per method, one
caller at a time; threads that shall run at once make one session each. Runs do not hold the interpreter's lock.
"""

from __future__ import annotations

import os
import threading
import warnings as _warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, BinaryIO, NoReturn, Union, cast

from . import _sconce
from ._arrays import give, lend, torch_of
from ._error import INVALID_PROGRAM, Error
from ._numbers import count
from ._nesting import LEAF, Nesting, Node, flatten, parse, unflatten

#: How a zip archive begins, as torch.export.save writes it.
_ZIP = b"PK\x03\x04"

#: What a program is loaded from.
Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO]


@dataclass(frozen=True)
class TensorInfo:
    """A tensor that a method takes or gives."""

    #: The element type by PyTorch's name, such as ``float32``.
    dtype: str
    #: The sizes; the largest ones where the tensor is dynamic.
    shape: tuple[int, ...]
    #: Whether sizes may be smaller than ``shape``.
    dynamic: bool
    #: Dimensions from the outermost to the innermost in memory.
    dim_order: tuple[int, ...]
    #: Bytes at most.
    nbytes: int
    #: Whether the program has a place for it.
    planned: bool
    #: The element type by its number in files.
    code: int
    #: What the export called it; ``None`` if the program does not say.
    name: str | None = None

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The smallest and largest size of each dimension. Programs record no lower bounds: they are 0 if dynamic."""
        return tuple((0 if self.dynamic else size, size) for size in self.shape)


@dataclass(frozen=True)
class ValueInfo:
    """A value that is no tensor: a number, truth value or string fixed at export, or nothing."""

    #: ``int``, ``float``, ``bool``, ``str``, ``list`` or ``none``.
    kind: str
    #: The value that the program recorded.
    value: int | float | bool | str | None
    #: As of a tensor; programs record none.
    name: str | None = None


@dataclass(frozen=True)
class MethodMeta:
    """What is known about a method before it runs."""

    #: Its name.
    name: str
    #: What it takes, flat.
    inputs: tuple[TensorInfo | ValueInfo, ...]
    #: What it gives, flat.
    outputs: tuple[TensorInfo | ValueInfo, ...]
    #: The backends that parts of it are delegated to, one per part.
    backends: tuple[str, ...]
    #: How its arguments nest: positional ones and keywords; ``None`` if the program does not say.
    input_nesting: Nesting | None
    #: How its results nest.
    output_nesting: Nesting | None


def _info(value: _sconce.Value) -> TensorInfo | ValueInfo:
    if value["kind"] != "tensor":
        return ValueInfo(value["kind"], value["value"])
    nbytes = value["itemsize"]
    for size in value["shape"]:
        nbytes *= size
    return TensorInfo(
        value["dtype"],
        value["shape"],
        value["dynamic"],
        value["dim_order"],
        nbytes,
        value["planned"],
        value["code"],
        value["name"],
    )


def _meta(description: _sconce.Description) -> MethodMeta:
    inputs = tuple(map(_info, description["inputs"]))
    outputs = tuple(map(_info, description["outputs"]))
    nestings = (parse(description["input_nesting"]), parse(description["output_nesting"]))
    # A text that speaks of other values than the method has is no help.
    taken = nestings[0] if nestings[0] is not None and _is_call(nestings[0], len(inputs)) else None
    given = nestings[1] if nestings[1] is not None and nestings[1].leaves == len(outputs) else None
    return MethodMeta(description["name"], inputs, outputs, tuple(description["backends"]), taken, given)


def _is_call(nesting: Nesting, inputs: int) -> bool:
    """Whether it is a pair of positional arguments and keywords."""
    if not isinstance(nesting, Node) or nesting.kind != "tuple" or nesting.leaves != inputs:
        return False
    kinds = [child.kind if isinstance(child, Node) else "" for child in nesting.children]
    return len(kinds) == 2 and kinds[0] in ("tuple", "list") and kinds[1] == "dict"


class Session:
    """A method with the memory for running it. Two threads that call one session take turns."""

    def __init__(self, session: _sconce.Session, meta: MethodMeta) -> None:
        self._session = session
        self.meta = meta
        call = meta.input_nesting
        #: Positional arguments and keywords.
        self._call = cast("tuple[Node, Node]", call.children) if isinstance(call, Node) else None
        self._takes_flat = self._call is not None and all(child is LEAF for child in self._call[0].children)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the method. Arguments and results nest as those of the exported module; where the program records the
        names of its inputs, arguments can be given by them.

        Results are arrays of NumPy, or tensors of torch if one of the inputs is one; they own their memory.
        """
        flat = self._flatten(args, kwargs)
        outputs = self.run_flat(flat)
        nesting = self.meta.output_nesting
        if nesting is not None:
            return unflatten(nesting, iter(outputs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run_flat(self, inputs: Iterable[Any], torch: ModuleType | None = None) -> list[Any]:
        """Runs the method with inputs in a row, and gives its outputs in a row; as tensors if ``torch`` is given."""
        flat = list(inputs)
        torch = torch or torch_of(flat)
        return [give(output, torch) for output in self._session.run([lend(value) for value in flat])]

    @property
    def nbytes(self) -> int:
        """Bytes that the session takes."""
        return self._session.bytes()

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        name = self.meta.name
        if self._call is None:
            return self._in_a_row(args, kwargs, len(self.meta.inputs))
        arguments, keywords = self._call
        own = {key: value for key, value in kwargs.items() if key in (keywords.keys or ())}
        if self._takes_flat and len(own) < len(kwargs):
            others = {key: value for key, value in kwargs.items() if key not in own}
            args = tuple(self._in_a_row(args, others, len(arguments.children)))
        elif len(own) < len(kwargs):
            self._refuse([key for key in kwargs if key not in own])
        # Inputs in a row are taken as such; the runtime tells if there are too few.
        in_a_row = self._takes_flat or len(args) == len(self.meta.inputs) != len(arguments.children)
        if in_a_row and not own:
            return list(args)
        return [
            *flatten(arguments, args, f"the arguments of `{name}`"),
            *flatten(keywords, own, f"the keywords of `{name}`"),
        ]

    def _in_a_row(self, args: tuple[Any, ...], kwargs: dict[str, Any], places: int) -> list[Any]:
        """Arguments by position, then by the names of the first inputs."""
        if not kwargs:
            return list(args)
        names = [info.name for info in self.meta.inputs[:places]]
        unknown = [key for key in kwargs if key not in names]
        if unknown:
            self._refuse(unknown)
        given = [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)]
        twice = [key for key in kwargs if key in names[: len(args)]]
        missing = [name or f"number {at}" for at, name in enumerate(names) if at >= len(args) and name not in kwargs]
        if twice or missing:
            problem = f"gets {', '.join(twice)} twice" if twice else f"lacks its input {', '.join(missing)}"
            raise TypeError(f"`{self.meta.name}` {problem}")
        return given

    def _refuse(self, keys: list[str]) -> NoReturn:
        """Says that there are no inputs of these names."""
        names = [info.name for info in self.meta.inputs if info.name is not None]
        called = f"its inputs are {', '.join(names)}" if names else "the program records no names for its inputs"
        raise TypeError(f"`{self.meta.name}` takes no keyword {', '.join(keys)}: {called}")

    def __repr__(self) -> str:
        return f"<sconce.Session of `{self.meta.name}`, {self.nbytes} bytes>"


class Model:
    """A loaded program; make one with :func:`load`."""

    def __init__(self, module: _sconce.Module) -> None:
        self._module = module
        self._metas: dict[str, MethodMeta] = {}
        self._sessions: dict[str, Session] = {}
        self._making = threading.Lock()

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its methods."""
        return tuple(self._module.methods)

    @property
    def threads(self) -> int:
        """Threads that a run uses, the caller's included."""
        return self._module.threads

    def method_meta(self, method: str = "forward") -> MethodMeta:
        """What a method takes and gives."""
        if method not in self._metas:
            self._metas[method] = _meta(self._module.describe(method))
        return self._metas[method]

    def session(self, method: str = "forward", *, threads: int | None = None) -> Session:
        """A new session of a method, for one thread, with its own state; the weights are shared.

        Its runs use the model's threads, or ``threads`` of their own; 0 stands for one per physical core.
        """
        threads = count("threads", threads)
        warning = _sconce.too_many_threads(threads or 0)
        if warning is not None:
            _warnings.warn(warning, stacklevel=2)
        return Session(self._module.session(method, threads), self.method_meta(method))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs ``forward`` in the model's own session; see :meth:`Session.__call__`."""
        return self._own_session("forward")(*args, **kwargs)

    def run(self, method: str, inputs: Sequence[Any] = (), keywords: dict[str, Any] | None = None) -> Any:
        """Runs any method in the model's own session of it. What a method keeps between runs is kept."""
        return self._own_session(method)(*inputs, **(keywords or {}))

    def _own_session(self, method: str) -> Session:
        session = self._sessions.get(method)
        if session is None:
            with self._making:
                session = self._sessions.get(method) or self.session(method)
                self._sessions[method] = session
        return session

    def __repr__(self) -> str:
        return f"<sconce.Model of {self._module.name}: {', '.join(self.methods)}>"


def load(
    source: Source,
    *,
    threads: int | None = None,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    exact: bool = False,
    copy: bool = False,
    lazy: bool = False,
    plan: bool = True,
    packed: bool = True,
    memory_limit: int | None = None,
    instruction_limit: int | None = None,
    instructions: str | None = None,
    rounding: str = "xnnpack",
) -> Model:
    """Loads a program.

    Args:
        source: A path, the program's bytes, or a file that is open for reading. A path is mapped, not read: the file
            must not change while the model lives, or ``copy`` must be true.
        threads: Threads that a run uses, the caller's included; as many as there are physical cores if not given, or 0.
            Of very many, only a few per processor are used, with a warning.
        data: Files with data from beside the program (``.ptd``).
        exact: Leaves out methods that round more than plain sums of products, such as Winograd's.
        copy: Reads files into memory instead of mapping them.
        lazy: Loads even when operators or backends are missing; making a session reports them then.
        plan: Whether the CPU engine plans runs of operators as one. Otherwise each runs by itself, which is slower.
        packed: Whether ``MODEL.packed.ptd`` beside ``MODEL.pte`` is used.
        memory_limit: Most bytes that one session may take.
        instruction_limit: Most instructions that one run may execute.
        instructions: The instruction set of the kernels, one of :func:`instruction_sets`; the whole process uses one.
        rounding: How sums, products and means of bytes are rounded in what was delegated to XNNPACK: as there
            (``"xnnpack"``), or as the quantised program in Python does (``"pytorch"``).

    Raises:
        Error: The file is not a program, or asks for operators or backends that this build lacks; all of them are
            named. Of a file that is not there it is a FileNotFoundError, too.
    """
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    elif not isinstance(source, (str, bytes, os.PathLike)):
        source = _read(source)
    if data is None:
        data = []
    elif isinstance(data, (str, os.PathLike)):
        data = [data]
    if (given := _archive(source)) is not None:
        sentence = f"{given} is an exported program: compile it first, sconce.load(sconce.compile({given!r}))"
        raise Error(sentence, INVALID_PROGRAM)
    module = _sconce.Module(
        source if isinstance(source, bytes) else os.fspath(source),
        threads=count("threads", threads),
        data=[os.fspath(path) for path in data],
        exact=exact,
        copy=copy,
        lazy=lazy,
        plan=plan,
        packed=packed,
        memory_limit=count("memory_limit", memory_limit),
        instruction_limit=count("instruction_limit", instruction_limit),
        instructions=instructions,
        rounding=rounding,
    )
    for warning in module.warnings:
        _warnings.warn(warning, stacklevel=2)
    return Model(module)


def _archive(source: bytes | str | os.PathLike[str]) -> str | None:
    """What to call a source that is an archive of torch, and no program."""
    if isinstance(source, bytes):
        return "archive" if source[:4] == _ZIP else None
    try:
        with open(source, "rb") as file:
            return os.fspath(source) if file.read(4) == _ZIP else None
    except OSError:
        # The loader says what is wrong with it.
        return None


def _read(source: Any) -> bytes:
    if not hasattr(source, "read"):
        kind = type(source).__name__
        raise TypeError(f"a program is loaded from a path, bytes or an open file, not from a value of type {kind}")
    return bytes(source.read())
