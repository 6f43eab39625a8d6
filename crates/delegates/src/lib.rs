//! What of a program runs on an engine: the backends that it asks for by name, and runs of its calls ([`calls`]).
//!
//! A payload is a graph, not code for one device: a backend reads the payload of its format into a graph and gives it to
//! an engine.
//!
//! | name in the program | payload | engine |
//! |---|---|---|
//! | `XnnpackBackend` | `format::xnnpack` | CPU |
#![forbid(unsafe_code)]

pub mod calls;
mod engine;
pub mod xnnpack;

pub use xnnpack::XnnpackBackend;
