//! Graphs as text, one statement per line.
//!
//! ```text
//! %0: float32[1, n <= 128, 64] = input
//! %1: int8{scale: 0.5, zero: -3}[64] = constant 16..80
//! %2: float32[1, 128] = linear %0, %1 then add %3, clamp {low: 0, high: 6}
//! output %2
//! ```
//!
//! Values are numbered as the graph numbers them; a parsed graph numbers them in the order in which they appear.
//! Constants of their own are written as bytes, `constant [1, 255]`; scales are constants too, named `@0`, and stand
//! before the values that use them: `@0 = "scales"`.

mod parse;
mod print;

pub use parse::{ParseError, Parser, parse};
pub(crate) use print::Attribute;

#[cfg(test)]
mod tests;
