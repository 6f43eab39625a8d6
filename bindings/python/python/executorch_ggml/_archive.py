"""Programs of the official exporter as archives that the compiler reads."""

from __future__ import annotations

import copy
import io

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.dim_order_utils import get_memory_format
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

# What the edge dialect says in its own words, in torch's.
ORDERED = {
    "dim_order_ops::_clone_dim_order": torch.ops.aten.clone.default,
    "dim_order_ops::_to_dim_order_copy": torch.ops.aten._to_copy.default,
}

# What the archive keeps of what is known about nodes.
KNOWN = ("val", "stack_trace", "nn_module_stack")

# Stands for branches, loops and what another backend computes.
_library = torch.library.Library("executorch_ggml", "DEF")
_library.define("elsewhere(Tensor[] inputs) -> Tensor[]")


def archive(program: ExportedProgram) -> bytes:
    """The program with torch's own operators, saved. Weights that are not there are made up."""
    graph_module = copy.deepcopy(program.graph_module)
    for node, original in zip(graph_module.graph.nodes, program.graph.nodes):
        # Copies of nodes that are called as something of Python, such as `input`, get other names.
        node.name = original.name
    _say_plainly(graph_module)
    parameters = program.graph_signature.parameters
    plain = ExportedProgram(
        root=graph_module,
        graph=graph_module.graph,
        graph_signature=program.graph_signature,
        state_dict={name: _there(tensor, name in parameters) for name, tensor in program.state_dict.items()},
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants={name: _there(one) for name, one in program.constants.items()},
        verifiers=[torch._export.verifier.Verifier],
    )
    file = io.BytesIO()
    torch.export.save(plain, file)
    return file.getvalue()


def operator(node: Node) -> object:
    """What a node calls; the edge dialect's operators wrap torch's."""
    return node.target._op if isinstance(node.target, EdgeOpOverload) else node.target


def _say_plainly(module: GraphModule) -> None:
    """Lets all nodes call what torch and the compiler know."""
    for node in module.graph.nodes:
        node.meta = {key: value for key, value in node.meta.items() if key in KNOWN}
        if node.op != "call_function":
            continue
        node.target = operator(node)
        if isinstance(node.target, HigherOrderOperator):
            node.target = torch.ops.executorch_ggml.elsewhere.default
            node.args, node.kwargs = (list(filter(is_tensor, node.all_input_nodes)),), {}
        elif isinstance(node.target, OpOverload):
            _name_plainly(node)
    for node in list(module.graph.nodes):
        if node.op == "get_attr" and not node.users:
            module.graph.erase_node(node)
    module.delete_all_unused_submodules()
    module.recompile()


def _name_plainly(node: Node) -> None:
    """A view in the place of its copy, and a memory format in the place of an order of dimensions, if there is one."""
    if torch.Tag.view_copy in node.target.tags:
        packet = getattr(torch.ops.aten, node.target._schema.name.removeprefix("aten::").removesuffix("_copy"))
        node.target = getattr(packet, node.target._overloadname)
    elif node.target.name() in ORDERED:
        try:
            order = {"memory_format": get_memory_format(node.kwargs.get("dim_order"))}
        except AssertionError:
            return
        node.target = ORDERED[node.target.name()]
        node.kwargs = {**{key: value for key, value in node.kwargs.items() if key == "dtype"}, **order}


def is_tensor(node: Node) -> bool:
    """Whether a node gives one tensor."""
    return isinstance(node.meta.get("val"), torch.Tensor)


def _there(tensor: object, is_parameter: bool = False) -> object:
    """A tensor with elements: partitioners get programs without."""
    if not isinstance(tensor, FakeTensor):
        return tensor
    # Not 0, which the compiler might find nothing to do for.
    number = 0.5 if tensor.dtype.is_floating_point or tensor.dtype.is_complex else 1
    made = torch.full(tensor.shape, number, dtype=tensor.dtype)
    return torch.nn.Parameter(made, requires_grad=False) if is_parameter else made
