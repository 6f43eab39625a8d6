//! Joins the graphs of a program with the engines that run them.
//!
//! | module | the one thing it knows |
//! |---|---|
//! | `part` | a function of a payload, or a run of calls, as a delegate |
//! | `cut` | which engine gets which nodes |
//! | `rooms` | where values are between engines, and between calls |
//! | `constants` | where a program has the constants of a graph |
//! | [`GraphBackend`] | a format of payloads under the name that programs ask for |
//! | [`OrElse`] | what runs a payload where a vendor's library does not |
//! | `ggml` (feature `ggml`) | the payloads that the ggml library takes whole |
//!
//! No engine is named here: whoever loads a program brings a list of them ([`Engines`]), best first. What none of the first
//! takes, the last one gets.
#![forbid(unsafe_code)]

mod backend;
mod constants;
mod cut;
#[cfg(feature = "ggml")]
pub mod ggml;
mod or_else;
mod part;
mod rooms;
#[cfg(test)]
mod testing;

pub use backend::{GraphBackend, Imported, has_varying_sizes};
#[cfg(feature = "ggml")]
pub use ggml::GgmlBackend;
pub use or_else::OrElse;
pub use part::Part;
use sconce_graph::engine::{Engine, Options};
use std::fmt;
use std::sync::Arc;

/// Engines in the order in which nodes are offered to them, and how they are to run graphs.
#[derive(Clone)]
pub struct Engines {
    /// The engines; the last one takes the rest.
    pub list: Vec<Arc<dyn Engine>>,
    /// The options of the load.
    pub options: Options,
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|engine| engine.name())).finish()
    }
}
