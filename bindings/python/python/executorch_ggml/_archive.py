"""Programs of the official exporter as archives that the compiler reads."""

from __future__ import annotations

import copy
import io

import torch
from torch.export import ExportedProgram


def archive(program: ExportedProgram) -> bytes:
    """The program with torch's own operators, saved."""
    graph_module = copy.deepcopy(program.graph_module)
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            # The edge dialect wraps operators; `_op` is what it wraps.
            node.target = getattr(node.target, "_op", node.target)
            node.meta = {key: value for key, value in node.meta.items() if key in ("val", "stack_trace", "nn_module_stack")}
    graph_module.recompile()
    plain = ExportedProgram(
        root=graph_module,
        graph=graph_module.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[torch._export.verifier.Verifier],
    )
    file = io.BytesIO()
    torch.export.save(plain, file)
    return file.getvalue()
