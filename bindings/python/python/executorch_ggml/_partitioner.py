"""Which nodes ggml computes.

The compiler says so, over the whole program at once. What it says is about single nodes; where parts meet the rest of the
program, :func:`_stranded` has the last word.
"""

from __future__ import annotations

import dataclasses
import logging
from weakref import WeakKeyDictionary

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from sconce import _sconce
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ._archive import archive, is_tensor, operator
from ._backend import QUANTIZE, GgmlBackend

# Operators that ggml computes whole.
WHOLE = [
    torch.ops.aten.linear.default,
    torch.ops.aten.rms_norm.default,
    torch.ops.aten.layer_norm.default,
    torch.ops.aten.group_norm.default,
    torch.ops.aten.scaled_dot_product_attention.default,
    torch.ops.aten.silu.default,
    torch.ops.aten.hardswish.default,
    torch.ops.aten.hardsigmoid.default,
    torch.ops.aten.max_pool2d.default,
]

# Elements that ggml gives.
GIVEN = (torch.float32, torch.bool)


@dataclasses.dataclass
class GgmlQuantConfig:
    """Weights of linear layers and embeddings in blocks: q8_0, q4_0, q4_k, q5_k or q6_k."""

    quant_type: str = "q8_0"


class _Supported(OperatorSupportBase):
    def __init__(self, refused: dict[str, str]):
        self.refused = refused

    def is_node_supported(self, submodules, node: Node) -> bool:
        return node.op == "call_function" and node.name not in self.refused


class GgmlPartitioner(Partitioner):
    """Gives ggml what it computes; the rest stays. ``refused`` says why, by the names of nodes."""

    def __init__(self, quant_config: GgmlQuantConfig | None = None):
        super().__init__()
        specs = [CompileSpec(QUANTIZE, quant_config.quant_type.lower().encode())] if quant_config else []
        self.delegation_spec = DelegationSpec(GgmlBackend.__name__, specs)
        self.refused: dict[str, str] = {}
        # By program, because it is asked several times.
        self.whole: WeakKeyDictionary[ExportedProgram, list] = WeakKeyDictionary()

    def ops_to_not_decompose(self, program: ExportedProgram):
        """Those that ggml computes whole wherever they are in the program."""
        if program not in self.whole:
            self.whole[program] = _whole(program)
        return self.whole[program], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        taken, self.refused = _chosen(exported_program)
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and not all(map(_in_rows, [node, *node.all_input_nodes])):
                self.refused.setdefault(node.name, "a tensor does not lie row by row")
        taken -= self.refused.keys()
        parts = self._parts(exported_program)
        while stranded := {name: why for nodes in parts for name, why in _stranded(nodes, taken)}:
            self.refused.update(stranded)
            parts = self._parts(exported_program)
        parts = [nodes for nodes in parts if not taken.isdisjoint(node.name for node in nodes)]
        tags = {}
        for number, nodes in enumerate(parts):
            tag = f"ggml_{number}"
            for node in nodes:
                node.meta["delegation_tag"] = tag
            tags[tag] = self.delegation_spec
        tag_constant_data(exported_program)
        for name, reason in self.refused.items():
            logging.info("ggml leaves %s: %s", name, reason)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)

    def _parts(self, program: ExportedProgram) -> list[list[Node]]:
        proposer = CapabilityBasedPartitioner(
            program.graph_module, _Supported(self.refused), allows_single_node_partition=True
        )
        return [list(part.nodes) for part in proposer.propose_partitions()]


def _whole(program: ExportedProgram) -> list:
    """The operators that need not be taken apart; in the edge dialect, where that is over, those that are gone.

    None, if a tensor comes in another order, because then others will.
    """
    if not all(_in_rows(node) for node in program.graph.nodes if node.op == "placeholder"):
        return []
    calls = [node for node in program.graph.nodes if node.op == "call_function" and operator(node) in WHOLE]
    if any(operator(node) is not node.target for node in calls):
        split = set(map(operator, calls))
    else:
        refused = _chosen(program)[1] if calls else {}
        split = {node.target for node in calls if node.name in refused}
    branches = [one for one in program.graph_module.modules() if isinstance(one, GraphModule)][1:]
    split.update(operator(node) for branch in branches for node in branch.graph.nodes)
    return [one for one in WHOLE if one not in split]


def _chosen(program: ExportedProgram) -> tuple[set[str], dict[str, str]]:
    """The names of nodes that ggml computes, and of those that it does not, with the reason.

    The compiler does without some nodes: copies, what is known already, what is the same as another. They are neither, and
    go where their neighbours go.
    """
    chosen = _sconce.choices_of_ggml(archive(program))
    refused = {name: reason for name, reason in chosen if name and reason is not None}
    return {name for name, _ in chosen} - refused.keys(), refused


def _in_rows(node: Node) -> bool:
    """Whether the tensor that a node gives, if it does, has its dimensions in memory in their order."""
    return not is_tensor(node) or list(node.meta["val"].dim_order()) == list(range(node.meta["val"].dim()))


def _stranded(part: list[Node], taken: set[str]):
    """Nodes that cannot stay in a part because of what crosses its border."""
    inside = set(part)
    for node in part:
        sources = [source for source in node.all_input_nodes if source not in inside]
        leaves = any(user not in inside for user in node.users)
        if not all(map(is_tensor, sources)):
            yield node.name, "it needs a number that is no tensor from outside of its part"
        if leaves and not is_tensor(node):
            yield node.name, "a number that is no tensor, or several results at once, are needed outside of its part"
        if node.name in taken:
            continue
        if leaves and is_tensor(node) and node.meta["val"].dtype not in GIVEN:
            yield node.name, f"ggml does not give {node.meta['val'].dtype}"
        if any(source.op == "call_function" and source.name not in taken for source in sources):
            yield node.name, "it was to be known beforehand, but what it reads stays"
