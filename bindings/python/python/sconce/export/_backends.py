"""Who lowers for which backend.

This package lowers to programs without a backend, which its runtime plans itself, and to those that its compiler has.
The others belong to the official package: where it is installed, with what the backend needs, it is asked.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _sconce
from .._compile import compile


@dataclass(frozen=True)
class Official:
    """A backend of the official package."""

    #: What must be installed.
    packages: tuple[str, ...]
    #: How to get it.
    remedy: str
    #: Makes its partitioner.
    partitioner: Callable[[], Any]
    #: A variable of the environment that must say where the vendor's tools are.
    variable: str = ""


def _xnnpack() -> Any:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return XnnpackPartitioner()


def _coreml() -> Any:
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner

    return CoreMLPartitioner()


def _mps() -> Any:
    from executorch.backends.apple.mps.partition import MPSPartitioner
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    return MPSPartitioner([CompileSpec("use_fp16", bytes([False]))])


def _vulkan() -> Any:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return VulkanPartitioner({"texture_limits": (2048, 2048, 2048), "force_fp16": True})


def _qnn() -> Any:
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
    )

    options = generate_htp_compiler_spec(use_fp16=True)
    return QnnPartitioner(generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=options))


def _arm() -> Any:
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner

    return EthosUPartitioner(EthosUCompileSpec("ethos-u55-128"))


_OFFICIAL = {
    "xnnpack": Official(("executorch.backends.xnnpack",), "pip install executorch", _xnnpack),
    "coreml": Official(
        ("executorch.backends.apple.coreml", "coremltools"), "pip install executorch coremltools", _coreml
    ),
    "mps": Official(
        ("executorch.backends.apple.mps",), "pip install an executorch that still has MPS, or use coreml", _mps
    ),
    "vulkan": Official(("executorch.backends.vulkan",), "pip install executorch", _vulkan),
    "qnn": Official(
        ("executorch.backends.qualcomm",),
        "pip install executorch, and set QNN_SDK_ROOT to Qualcomm's AI Engine Direct SDK",
        _qnn,
        "QNN_SDK_ROOT",
    ),
    "arm": Official(
        ("executorch.backends.arm", "tosa_serializer", "ethosu"),
        "pip install executorch ethos-u-vela tosa-tools",
        _arm,
    ),
}

#: All that may be asked for.
NAMES = ("portable", *_OFFICIAL)

#: Those of a command without arguments.
DEFAULT = ("xnnpack", "coreml", "mps", "vulkan")


def missing(backend: str) -> str | None:
    """What to install for a backend, or ``None`` if it is there."""
    if backend == "portable" or backend in _sconce.compiler_backends():
        return None
    official = _OFFICIAL[backend]
    there = all(map(_installed, official.packages)) and (not official.variable or official.variable in os.environ)
    return None if there else official.remedy


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def lower(exported: Any, backend: str) -> bytes:
    """The program of an exported module, for a backend that is there."""
    if backend == "portable":
        return compile(exported, backends=())
    if backend in _sconce.compiler_backends():
        return compile(exported, backends=(backend,))
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    settings = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=backend in ("xnnpack", "coreml"))
    partitioner = [_OFFICIAL[backend].partitioner()]
    edge = to_edge_transform_and_lower(exported, partitioner=partitioner, compile_config=settings)
    return edge.to_executorch().buffer
