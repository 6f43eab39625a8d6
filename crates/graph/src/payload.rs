//! What a program has for a backend: bytes that say what to compute.
//!
//! Payloads are of three kinds, and each has its place:
//!
//! | kind | is | example |
//! |---|---|---|
//! | a graph in a format of its own | a [`Payload`]: it is read into [`Function`]s, which any [`Engine`](crate::engine::Engine) runs | XNNPACK |
//! | a stream of commands that is run as it is | a runner (`sconce_core::Runner`) over bytes, without a heap | the programs of an NPU |
//! | what a vendor's library takes whole | a backend (`sconce_core::Backend`) that hands it over | ggml |
//!
//! Nothing in a payload is trusted. A reader checks every count and offset before it uses it; what it gives holds to the rules
//! of [`Function::verify`]; and it makes no more than [`MOST_BYTES`] of a byte, in time that goes with the bytes. What many
//! entries of a payload share is not copied for each of them without a limit. All formats are tried for this on broken
//! payloads.

mod verify;

use crate::graph::Graph;
use std::fmt;

/// Most bytes ([`Function::bytes`]) that a reader makes of one byte of a payload, all functions together.
pub const MOST_BYTES: usize = 256;

/// A format of payloads that are graphs.
pub trait Payload: Send + Sync {
    /// The name of the backend that programs ask for.
    fn backend(&self) -> &'static str;

    /// Reads a payload. Constants stay where they are: the graphs refer to them.
    fn read(&self, payload: &[u8], context: &Context<'_>) -> Result<Vec<Function>, Unreadable>;
}

/// What a reader may ask about the program around a payload.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The method whose delegate it is.
    pub method: &'a str,
    /// What the exporter told the backend, by key.
    pub spec: &'a dyn Fn(&str) -> Option<&'a [u8]>,
    /// Bytes by name, of the program's data and of the data files beside it.
    pub data: &'a dyn Fn(&str) -> Option<&'a [u8]>,
}

impl Context<'_> {
    /// Of a payload by itself.
    pub const NONE: Context<'static> = Context { method: "forward", spec: &|_| None, data: &|_| None };
}

/// One thing that a payload computes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// Its name, where a payload has several; that of the program's method.
    pub name: String,
    /// What is computed.
    pub graph: Graph,
    /// For each input of the graph, what is passed.
    pub inputs: Vec<Binding>,
    /// For each output of the graph, what becomes of it.
    pub outputs: Vec<Binding>,
    /// What outlives a call. Every session has its own.
    pub state: Vec<State>,
}

impl Function {
    /// A graph without state, whose inputs and outputs are those of the call, in order.
    pub fn of(graph: Graph) -> Self {
        let all = |count: usize| (0..count).map(Binding::Argument).collect();
        let (inputs, outputs) = (all(graph.inputs.len()), all(graph.outputs.len()));
        Self { graph, inputs, outputs, ..Self::default() }
    }

    /// Whether the graph's inputs and outputs are just those of the call.
    pub fn is_plain(&self) -> bool {
        let plain = |bound: &[Binding]| bound.iter().enumerate().all(|(place, own)| *own == Binding::Argument(place));
        plain(&self.inputs) && plain(&self.outputs)
    }
}

/// What an input or an output of a graph is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// An input, or an output, of the call, by number.
    Argument(usize),
    /// What outlives the call, by number: it is read as the call finds it, and written for the next one.
    State(usize),
}

/// Something that outlives a call.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Its bytes before the first call; zeros where they end early.
    pub initial: Vec<u8>,
}

/// Why a payload cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Where, as far as it is known: a node, a value, an offset.
    pub place: String,
    /// What is wrong there, in words that follow the place.
    pub reason: String,
}

impl Unreadable {
    /// At a place.
    pub fn at(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { place: place.to_string(), reason: reason.to_string() }
    }
}

impl From<String> for Unreadable {
    fn from(reason: String) -> Self {
        Self { place: String::new(), reason }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.is_empty() {
            true => f.write_str(&self.reason),
            false => write!(f, "{}: {}", self.place, self.reason),
        }
    }
}

impl std::error::Error for Unreadable {}
