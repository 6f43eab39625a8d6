//! What operators mean, apart from computing them: which type a result has, which shape, how operands meet.
//!
//! Pure functions over types and sizes. The operators, the graph and the compiler ask here, so that no rule is written
//! twice. Everything follows eager PyTorch.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(test)]
extern crate std;

mod dims;
mod layout;
mod promote;
pub mod shapes;
mod sizes;

/// The signatures of all operators that the official runtime has, one in a line, as torch writes them.
pub const OFFICIAL_OPERATORS: &str = include_str!("../operators.txt");

/// The signatures of operators that only this runtime has.
pub const FURTHER_OPERATORS: &str = include_str!("../further.txt");

pub use dims::{normalize_dim, normalize_dims};
pub use layout::Layout;
pub use promote::{Operand, promote, promote_types, to_floating};
pub use shapes::ShapeError;
pub use sizes::{MAX_RANK, Sizes};
