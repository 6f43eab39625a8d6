//! The ggml engine: graphs computed by the ggml library.
//!
//! ```text
//! format::ggml::Graph ── Model (constants on a device) ── Session (threads, states, plans) ── ggml_cgraph
//! ```
//!
//! The payload of the delegate is already a graph of what ggml computes, so the engine takes it as it is. To teach it an
//! operation: a row in `format::ggml::Op`, and an arm in `compute` that says it in terms of ggml.
//!
//! | module | what it knows |
//! |---|---|
//! | `sys` | ggml as safe types; all unsafe code |
//! | `compute` | operations in terms of ggml's |
//! | `model` | constants, states, plans for sizes |
//! | `quantize` | weights in blocks of small integers |
#![cfg(feature = "ggml")]

mod compute;
mod model;
mod quantize;
mod sys;

pub use model::{Error, Model, Options, Session, devices};
pub use quantize::quantize;
