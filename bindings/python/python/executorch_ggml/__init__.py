"""ggml as a backend of the official exporter.

>>> from executorch.exir import to_edge_transform_and_lower
>>> from executorch_ggml import GgmlPartitioner
>>> program = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()]).to_executorch()

What ggml computes is decided, and put into its payload, by Sconce's compiler: each call hands it the graph as an archive.
Needs the packages ``executorch`` and ``torch``.
"""

from ._backend import GgmlBackend
from ._partitioner import GgmlPartitioner, GgmlQuantConfig

__all__ = ["GgmlBackend", "GgmlPartitioner", "GgmlQuantConfig"]
