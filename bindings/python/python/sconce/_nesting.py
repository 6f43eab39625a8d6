"""How the inputs and outputs of a method nest.

A program's inputs and outputs are flat; beside them lies a text that says which tuples, lists and dictionaries they
came from. Two ways of writing it exist: the JSON of torch's tree specifications, and the compact text of a C++
library::

    [1, {"type": "builtins.tuple", "context": "null", "children_spec": [...]}]
    T2#1#2($,D2#1#1('a':$,'b':$))

Both are read into :class:`Node` and :data:`LEAF`. The text comes from a file and is not trusted: types are looked up
among those that are loaded, nothing is imported, and what cannot be read counts as absent.
"""

from __future__ import annotations

import json
import re
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from ._error import INVALID_ARGUMENT, Error


@dataclass(frozen=True)
class Node:
    """A container."""

    #: ``tuple``, ``list``, ``dict``, ``OrderedDict``, ``defaultdict``, ``deque``, ``namedtuple``, or anything else.
    kind: str
    #: What is in it.
    children: tuple[Nesting, ...]
    #: The keys of a dictionary, or the names of an object's parts, one per child.
    keys: tuple[Any, ...] | None = None
    #: The full name of a type that is not Python's own.
    name: str = ""

    @property
    def leaves(self) -> int:
        """How many values it holds, at any depth."""
        return sum(1 if child is LEAF else child.leaves for child in self.children)


class _Leaf:
    """A value."""

    leaves = 1

    def __repr__(self) -> str:
        return "LEAF"


LEAF = _Leaf()
Nesting = Union[Node, _Leaf]

#: Kinds whose parts go by key.
_MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict, "defaultdict": dict}


def parse(text: str) -> Nesting | None:
    """Reads either way of writing; ``None`` when there is nothing, or nothing that can be read."""
    try:
        if text.startswith("["):
            protocol, spec = json.loads(text)
            return _from_json(spec) if protocol == 1 else None
        return _Compact(text).read() if text else None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None


def _from_json(spec: dict[str, Any]) -> Nesting:
    full_name, context = spec["type"], spec["context"]
    if full_name is None:
        return LEAF
    children = tuple(_from_json(child) for child in spec["children_spec"])
    kind = full_name.rpartition(".")[2] if full_name.startswith(("builtins.", "collections.")) else full_name
    if kind == "namedtuple":
        return Node(kind, children, name=str(context))
    if kind == "defaultdict":
        context = context["dict_context"]
    elif isinstance(context, str):
        context = json.loads(context)
    keys = tuple(context) if isinstance(context, list) and len(context) == len(children) else None
    if kind in _MAPPINGS and keys is None:
        raise ValueError(f"{len(children)} parts without as many keys")
    return Node(kind, children, keys, "" if kind != full_name else full_name)


class _Compact:
    """A reader of the compact text."""

    KINDS = {"T": "tuple", "L": "list", "N": "namedtuple", "D": "dict", "C": "custom"}
    HEAD = re.compile(r"([TLND]|C\(([^)]*)\))(\d+)((?:#\d+)*)")
    KEY = re.compile(r"(?:'([^']*)'|(-?\d+)):")

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def read(self) -> Nesting:
        nesting = self.nesting()
        if self.at != len(self.text):
            raise ValueError("text after the end")
        return nesting

    def nesting(self) -> Nesting:
        if self.text.startswith("$", self.at):
            self.at += 1
            return LEAF
        head = self.HEAD.match(self.text, self.at)
        if head is None:
            raise ValueError("no container")
        self.at = head.end()
        kind, count = self.KINDS[head[1][0]], int(head[3])
        children, keys = [], []
        for index in range(count):
            self.expect("," if index else "(")
            if kind == "dict":
                keys.append(self.key())
            children.append(self.nesting())
        if count:
            self.expect(")")
        elif self.text.startswith("()", self.at):
            self.at += 2
        return Node(kind, tuple(children), tuple(keys) if kind == "dict" else None, head[2] or "")

    def key(self) -> str | int:
        key = self.KEY.match(self.text, self.at)
        if key is None:
            raise ValueError("no key")
        self.at = key.end()
        return key[1] if key[2] is None else int(key[2])

    def expect(self, text: str) -> None:
        if not self.text.startswith(text, self.at):
            raise ValueError(f"no {text!r}")
        self.at += len(text)


def flatten(nesting: Nesting, value: Any, place: str) -> list[Any]:
    """The values in a container, in the order of the method's inputs."""
    if not isinstance(nesting, Node):
        return [value]
    flat: list[Any] = []
    for child, part, where in zip(nesting.children, _parts(nesting, value, place), _places(nesting, place)):
        flat += flatten(child, part, where)
    return flat


def _places(node: Node, place: str) -> Iterator[str]:
    return (f"{place}[{key!r}]" for key in node.keys or range(len(node.children)))


def _parts(node: Node, value: Any, place: str) -> Sequence[Any]:
    """What is in a container, in the order of the method's inputs."""
    if isinstance(value, Mapping) and node.keys is not None and set(value) == set(node.keys):
        return [value[key] for key in node.keys]
    sequence = isinstance(value, (Sequence, deque)) and not isinstance(value, (str, bytes))
    if node.kind not in _MAPPINGS and sequence and len(value) == len(node.children):
        return list(value)
    if node.name and node.keys is not None and all(hasattr(value, str(key)) for key in node.keys):
        return [getattr(value, key) for key in node.keys]
    raise Error(f"{place} must be {_describe(node)}, not {_describe_value(value)}", INVALID_ARGUMENT)


def _describe(node: Node) -> str:
    kind = node.name or node.kind
    if node.keys is not None:
        return f"a {kind} with {', '.join(map(repr, node.keys)) or 'no keys'}"
    return f"a {kind} of {len(node.children)}"


def _describe_value(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return f"a {kind} with {', '.join(map(repr, value)) or 'no keys'}"
    return f"a {kind} of {len(value)}" if isinstance(value, (tuple, list, deque)) else f"a value of type {kind}"


def unflatten(nesting: Nesting, values: Iterator[Any]) -> Any:
    """The container of these values."""
    if not isinstance(nesting, Node):
        return next(values)
    parts = [unflatten(child, values) for child in nesting.children]
    if nesting.kind == "list":
        return parts
    if nesting.kind == "deque":
        return deque(parts)
    if nesting.kind == "namedtuple":
        fields = _namedtuple(nesting.name, len(parts))
        return tuple(parts) if fields is None else fields(*parts)
    if nesting.kind == "tuple" or nesting.keys is None:
        return tuple(parts)
    if nesting.kind == "defaultdict":
        return defaultdict(None, zip(nesting.keys, parts))
    return _MAPPINGS.get(nesting.kind, dict)(zip(nesting.keys, parts))


def _namedtuple(name: str, fields: int) -> Any:
    """The named tuple of this name, if the process has one with as many fields."""
    module, _, path = name.rpartition(".")
    found: Any = sys.modules.get(module)
    found = getattr(found, path, None)
    torch_tree: Any = sys.modules.get("torch.utils._pytree")
    if found is None and torch_tree is not None:
        found = getattr(torch_tree, "SERIALIZED_TYPE_TO_PYTHON_TYPE", {}).get(name)
    named = isinstance(found, type) and issubclass(found, tuple) and len(getattr(found, "_fields", ())) == fields
    return found if named else None
