//! The extension module behind the Python package `sconce`.
//!
//! Rust does here only what Python cannot: it loads programs, reads the memory of arrays where they lie, runs without
//! the interpreter's lock, and compiles. Whatever is convenience (nested inputs, torch, bfloat16 as NumPy has it, the
//! official package's names) is Python, in `python/sconce`. Inputs and outputs pass this border as flat lists.
//!
//! | module | what it knows |
//! |---|---|
//! | `array` | an array's memory as a tensor, and a tensor as an array; all unsafe code |
//! | `input` | Python objects as inputs of a method |
//! | `model` | modules and sessions |
//! | `meta` | what a method takes and gives |
//! | `compile` | exported programs to programs |
//! | `ggml` | parts of programs as payloads of ggml, for the official exporter |
//! | `error` | errors as `sconce.Error` |

mod array;
mod compile;
mod error;
mod ggml;
mod input;
mod meta;
mod model;

/// What `sconce` is made of; see its stubs in `_sconce.pyi`.
#[pyo3::pymodule]
mod _sconce {
    #[pymodule_export]
    use crate::array::Tensor;
    #[pymodule_export]
    use crate::compile::{compile, compiler_backends};
    #[pymodule_export]
    use crate::ggml::{choices_of_ggml, lower_for_ggml, payloads_of_ggml};
    #[pymodule_export]
    use crate::model::{Module, Session, backend_names, instruction_sets, operator_names, too_many_threads};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
