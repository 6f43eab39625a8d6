//! The form in which every delegate payload and every exported program meets.
//!
//! A [`Graph`] is a list of nodes in the order in which they may run, over values that are named by number. A value has
//! a [`Type`]: what its elements are (plain numbers, or quantised with their parameters) and its sizes. A node has an
//! operation from one table ([`Op`]), the values it reads and the values it makes, and a short list of steps taken on
//! each result before it is stored ([`Then`]): that is how fusion is written down.
//!
//! ```text
//! %0: float32[1, 224, 224, 3] = input
//! %1: float32[32, 3, 3, 3] = constant "weight"
//! %2: float32[32] = constant "bias"
//! %3: float32[1, 112, 112, 32] = conv2d %0, %1, %2 {stride: [2, 2], padding: [1, 1, 1, 1], ...} then clamp {low: 0, high: 6}
//! output %3
//! ```
//!
//! Conventions: images are channels-last, `[batch, height, width, channels]`, and a filter is `[out, height, width, in
//! / groups]`; importers put transposes around what is laid out otherwise, and passes take out those that cancel.
//! Sizes in a graph are those the exporter saw, or bounds: an engine binds the sizes of the inputs it is given, and
//! [`infer`] tells all others. Constants are references ([`Source`]) to bytes that stay where they are; whoever runs a
//! graph resolves them.
//!
//! A pass is a function from graph to number of changes ([`passes`]); [`verify`] states what holds between passes; the
//! text above parses back ([`parse`]) and is what the tests of passes are written in.
#![forbid(unsafe_code)]

pub mod engine;
mod excerpt;
mod graph;
mod infer;
pub mod memory;
mod op;
pub mod passes;
pub mod payload;
mod text;
mod types;
mod verify;

pub use graph::{Constant, ConstantId, Constants, Graph, Node, Origin, Source, Then, Value, ValueId};
pub use infer::{Shape, Shapes, infer, result_shapes};
pub use op::{Combine, Comparison, Function, Layout, Op, Reduction};
pub use text::{ParseError, Parser, parse};
pub use types::{Dim, Element, Quantized, Scheme, Storage, Symbol, Type};
pub use verify::{Invalid, verify};
