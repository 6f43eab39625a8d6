"""Parts of a program as payloads."""

from __future__ import annotations

from typing import final

from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from sconce import _sconce
from torch.export import ExportedProgram

from ._archive import archive

QUANTIZE = "ggml_quant_type"


@final
class GgmlBackend(BackendDetails):
    """Lowers a part that :class:`GgmlPartitioner` cut out."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        quantize = next((spec.value.decode() for spec in compile_specs if spec.key == QUANTIZE), None)
        payload, data = _sconce.lower_for_ggml(archive(edge_program), quantize)
        store = NamedDataStore()
        for key, content in data:
            store.add_named_data(key, content, alignment=64)
        return PreprocessResult(
            processed_bytes=payload,
            debug_handle_map={},
            data_store_output=store.get_named_data_store_output(),
        )
