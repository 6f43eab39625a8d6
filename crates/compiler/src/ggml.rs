//! What ggml runs.
//!
//! To teach it an operator, add a row to a table in `rows`: the operator's name and a function that says it in the
//! operations of the payload, or in words why it cannot. That function decides what is taken, too: each call is rehearsed
//! on a payload that is thrown away, so what was chosen can be lowered. What the operations mean to ggml is the engine's
//! business (`sconce-ggml`, module `compute`).
//!
//! ggml computes with float32. Truth values are numbers there, and int64 only comes in as indices, which the engine checks;
//! everything else is left to others.
//!
//! | module | what it knows |
//! |---|---|
//! | `builder` | values, sizes that depend on inputs, constants |
//! | `rows` | operators |
//! | `weights` | names of weights that stay in a GGUF file |
//!
//! Linear layers and embeddings can have weights in blocks of small integers ([`Blocks`]). A buffer that a method keeps, and
//! that one call writes into, stays on the device.

mod builder;
mod rows;
mod weights;

pub use weights::{Found, Order, Stored, Weights};

use crate::Error;
use crate::ir::{Call, Constants, Delegate, Function, ValueId};
use crate::partition::{Choice, Part, Partitioner};
use builder::Builder;
use sconce_format::ggml::Element;

/// Rows of numbers as blocks of an element type.
pub type Quantizer = fn(Element, usize, &[f32]) -> Result<Vec<u8>, String>;

/// How weights become blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// The elements. Weights whose rows are no whole blocks of it become [`Element::Q8_0`], or stay numbers.
    pub element: Element,
    /// Makes the blocks.
    pub quantizer: Quantizer,
}

/// The partitioner for ggml.
#[derive(Clone, Debug, Default)]
pub struct Ggml {
    /// How weights of linear layers and embeddings become blocks; without it, they stay numbers.
    pub blocks: Option<Blocks>,
    /// Weights that stay in a file of their own, as they are there.
    pub weights: Option<Weights>,
}

impl Partitioner for Ggml {
    fn name(&self) -> &str {
        "ggml"
    }

    fn keeps(&self, operator: &str) -> bool {
        rows::find(operator).is_some()
    }

    fn select(&self, function: &Function, constants: &Constants<'_>) -> Vec<Choice> {
        let choose = |call: &Call| match nodes(&mut Builder::rehearsal(function, constants), call) {
            Ok(()) => Choice::Take,
            Err(reason) => Choice::Refuse(reason),
        };
        function.body.calls.iter().map(choose).collect()
    }

    fn lower(&self, part: &Part<'_>) -> Result<Delegate, Error> {
        let mut builder = Builder::new(part, self.blocks, self.weights.as_ref()).map_err(Error::unsupported)?;
        for call in &part.calls {
            nodes(&mut builder, call).map_err(|reason| at(call, reason))?;
        }
        builder.finish().map_err(Error::unsupported)
    }

    fn needs_sizes(&self) -> bool {
        true
    }

    fn holds(&self, call: &Call, state: ValueId) -> bool {
        rows::puts(call) == Some(state)
    }
}

/// The operators that ggml can compute; whether it does depends on the call.
pub fn operators() -> impl Iterator<Item = &'static str> {
    rows::names()
}

/// Adds what a call computes.
fn nodes(builder: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let name = call.operator().ok_or("it is no operator")?;
    let nodes = rows::find(name).ok_or("ggml has no such operator")?;
    builder.check(call)?;
    nodes(builder, call)
}

fn at(call: &Call, reason: String) -> Error {
    let source = call.source.as_deref();
    let trace = source.map_or("", |source| &source.stack_trace);
    Error::unsupported(reason).at(call.operator().unwrap_or(""), trace)
}

#[cfg(test)]
mod tests;
