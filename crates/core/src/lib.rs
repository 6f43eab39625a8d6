//! The runtime: tensors, values, arenas, programs, methods, kernels and backends; no_std, no heap
