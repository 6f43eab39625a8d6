"""Which nodes ggml computes."""

from __future__ import annotations

import dataclasses

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from sconce import _sconce
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ._archive import archive
from ._backend import QUANTIZE, GgmlBackend

# Operators that ggml computes whole.
KEPT = [
    torch.ops.aten.linear.default,
    torch.ops.aten.rms_norm.default,
    torch.ops.aten.layer_norm.default,
    torch.ops.aten.scaled_dot_product_attention.default,
    torch.ops.aten.silu.default,
    torch.ops.aten.hardswish.default,
]


@dataclasses.dataclass
class GgmlQuantConfig:
    """Weights of linear layers and embeddings in blocks: q8_0, q4_0, q4_k, q5_k or q6_k."""

    quant_type: str = "q8_0"


class _Supported(OperatorSupportBase):
    def __init__(self, refused: dict[str, str]):
        self.refused = refused

    def is_node_supported(self, submodules, node) -> bool:
        return node.op == "call_function" and node.name not in self.refused


class GgmlPartitioner(Partitioner):
    """Gives ggml what it computes; the rest stays. ``refused`` says why, by the names of nodes."""

    def __init__(self, quant_config: GgmlQuantConfig | None = None):
        super().__init__()
        specs = [CompileSpec(QUANTIZE, quant_config.quant_type.lower().encode())] if quant_config else []
        self.delegation_spec = DelegationSpec(GgmlBackend.__name__, specs)
        self.refused: dict[str, str] = {}

    def ops_to_not_decompose(self, program: ExportedProgram):
        return KEPT, None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.refused = dict(_sconce.refused_by_ggml(archive(exported_program)))
        proposer = CapabilityBasedPartitioner(
            exported_program.graph_module, _Supported(self.refused), allows_single_node_partition=True
        )
        tags = {}
        for part in proposer.propose_partitions():
            tag = f"ggml_{part.id}"
            for node in part.nodes:
                node.meta["delegation_tag"] = tag
            tags[tag] = self.delegation_spec
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)
