//! The operators: rows of a table over the kernels
