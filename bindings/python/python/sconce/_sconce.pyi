"""The extension module; the package wraps all of it."""

from typing import Any, TypedDict

__version__: str

class Value(TypedDict, total=False):
    kind: str
    name: str | None
    value: int | float | bool | str | None
    dtype: str
    code: int
    itemsize: int
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamic: bool
    planned: bool

class Description(TypedDict):
    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    input_nesting: str
    output_nesting: str
    backends: list[str]

class Tensor:
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class Module:
    def __new__(
        cls,
        source: bytes | str,
        *,
        threads: int | None = None,
        data: list[str] = ...,
        exact: bool = False,
        copy: bool = False,
        lazy: bool = False,
        plan: bool = True,
        packed: bool = True,
        memory_limit: int | None = None,
        instruction_limit: int | None = None,
        instructions: str | None = None,
        rounding: str = "xnnpack",
    ) -> Module: ...
    @property
    def name(self) -> str: ...
    @property
    def methods(self) -> list[str]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def threads(self) -> int: ...
    def describe(self, method: str) -> Description: ...
    def session(self, method: str, threads: int | None = None) -> Session: ...

class Session:
    def run(self, inputs: list[Any]) -> list[Tensor | int | float | bool | str | None]: ...
    def bytes(self) -> int: ...

def compile(
    archive: bytes,
    backends: list[str] = ...,
    quantize: str | None = None,
    calibrate: list[list[Any]] | None = None,
    group_size: int | None = None,
) -> bytes: ...
def compiler_backends() -> list[str]: ...
def too_many_threads(asked: int) -> str | None: ...
def operator_names() -> list[str]: ...
def backend_names() -> list[str]: ...
def instruction_sets() -> list[str]: ...
def choices_of_ggml(archive: bytes) -> list[tuple[str, str | None]]: ...
def lower_for_ggml(archive: bytes, quantize: str | None = None) -> tuple[bytes, list[tuple[str, bytes]]]: ...
def payloads_of_ggml(program: bytes) -> list[tuple[str, int, str]]: ...
