//! Run ExecuTorch programs (`.pte`), whoever exported them.
//!
//! ```no_run
//! # fn main() -> Result<(), sconce::Error> {
//! let module = sconce::Module::load("model.pte")?;
//! let image = sconce::Tensor::from_slice(&[0.0f32; 3 * 224 * 224], &[1, 3, 224, 224])?;
//! let outputs = module.forward(&[(&image).into()])?;
//! let scores = outputs[0].tensor()?.as_slice::<f32>()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Module`] is immutable and shared: program, weights, resolved operators, delegates. A [`Session`] is what one
//! caller changes: planned memory, mutable buffers, values. Threads that each have a session run without locks over one
//! copy of the weights; [`Module::forward`] and [`Module::run`] are the easy doors, with a session of each method behind a mutex.

#[cfg(feature = "engine")]
mod ahead;
mod blocks;
mod buffer;
#[cfg(feature = "compiler")]
pub mod compile;
mod describe;
mod error;
mod external;
mod folding;
mod instructions;
mod layout;
mod lending;
mod map;
mod module;
mod options;
#[cfg(feature = "engine")]
mod packs;
mod prepared;
mod registry;
mod session;
mod tensor;
mod threads;

pub use blocks::Needs;
pub use buffer::Buffer;
pub use describe::describe;
pub use error::Error;
pub use instructions::{instruction_set, instruction_sets};
pub use layout::reorder;
pub use module::{Module, PackedWeights, PlannedCalls, Source};
pub use options::{Limits, Options};
#[cfg(feature = "engine")]
pub use packs::packed_beside;
pub use registry::{Registry, get_backend_class, register_backend, register_kernel};
/// The form of what engines run, for those who write engines and readers of payloads.
#[cfg(feature = "engine")]
pub use sconce_graph as graph;
pub use session::{Outputs, Session, Snapshot};
pub use tensor::{Element, Input, Tensor, Value};
pub use threads::{most_threads, too_many_threads};

pub use half::{bf16, f16};
/// What the ggml backend runs, for runtimes that are not this one.
#[cfg(feature = "ggml")]
pub use sconce_backends::ggml;
/// The runtime's own types, for those who write kernels and backends.
pub use sconce_core as core;
pub use sconce_core::{Code, ScalarType};
/// The readers and writers of program files.
pub use sconce_format as format;
pub use sconce_graph::engine::Rounding;
/// A tensor's bytes as elements, for those who write kernels.
pub use sconce_kernels::view;

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
