//! Arithmetic on slices.
//!
//! Nothing here knows about tensors, files or dtype tags: a kernel takes plain slices, a small description of the
//! geometry, an [`Isa`] token that says which instructions it may use, and a [`Parallel`] that says on how many
//! threads. One body per family is written as ordinary loops and compiled once per instruction set
//! ([`Isa::vectorize`]); only the matrix product ([`gemm`], [`packed`]), the transforms of [`winograd`] and depthwise
//! convolution ([`depthwise`]) have hand-placed vector instructions, and other convolution is a matrix product whose right
//! operand is gathered on the fly ([`conv`]).
//!
//! Kernels trust their caller in one respect only: geometry and slice lengths must agree. They check that with
//! assertions at the entry, so a mistake is a panic with a sentence, never a wrong access.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![allow(clippy::too_many_arguments, reason = "kernels take slices and geometry apart, as their callers hold them")]

pub mod attention;
pub mod boxes;
pub mod bytes;
pub mod cast;
pub mod conv;
pub mod copy;
pub mod deform;
pub mod delta_rule;
pub mod depthwise;
pub mod element;
pub mod epilogue;
pub mod factor;
pub mod gemm;
pub mod grid;
pub mod index;
pub mod isa;
pub mod map;
pub mod math;
pub mod norm;
pub mod packed;
pub mod pool;
pub mod reduce;
pub mod regions;
pub mod resize;
pub mod scan;
pub mod softmax;
pub mod special;
pub mod split;
pub mod table;
mod taps;
#[cfg(test)]
mod testing;
pub mod view;
pub mod windows;
pub mod winograd;

pub use element::{Bool, Complex, Compute, Element, Float, Number, convert};
pub use isa::Isa;
pub use sconce_parallel::{Parallel, Serial};
