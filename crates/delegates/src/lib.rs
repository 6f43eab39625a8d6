//! What of a program runs on an engine: the backends that it asks for by name, and runs of its calls ([`calls`]).
//!
//! A payload is a graph, not code for one device: a backend reads the payload of its format into a graph and gives it to
//! an engine.
//!
//! | name in the program | payload | engine |
//! |---|---|---|
//! | `XnnpackBackend` | `format::xnnpack` | CPU |
//! | `GgmlBackend` (feature `ggml`) | `format::ggml` | ggml |
#![forbid(unsafe_code)]

pub mod calls;
mod engine;
#[cfg(feature = "ggml")]
pub mod ggml;
pub mod xnnpack;

#[cfg(feature = "ggml")]
pub use ggml::GgmlBackend;
pub use xnnpack::XnnpackBackend;
