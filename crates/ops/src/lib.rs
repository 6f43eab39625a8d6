//! The operators, as tables.
//!
//! An operator is a row: its name, how many arguments a call has, which of them it writes, the function that runs it and,
//! where it needs scratch, the function that says how much. Rows live beside the body of their family; [`TABLES`] lists
//! the families. To add an operator, add a row to its family (or a family to the list) and a golden program that uses it.
//!
//! A body reads its arguments from the [`Call`](sconce_core::Call), checks them, asks `sconce-schema` for types and
//! shapes, takes its outputs and hands plain slices to `sconce-kernels`. The element type is looked at once per call
//! ([`typed`]); element-wise operators share one engine ([`elementwise`]) in which only three types compute.
#![no_std]
#![forbid(unsafe_code)]

mod convolution;
mod copies;
mod dense;
mod elementwise;
mod fill;
mod indexing;
mod linear;
mod normalization;
mod operands;
mod pad;
mod pooling;
mod prim;
mod real;
mod reduction;
mod remap;
mod resize;
mod softmax;
mod strided;
mod typed;

pub use fill::seed_random;
use sconce_core::{Args, Op};

/// All operators, by family.
pub static TABLES: &[&[Op]] = &[
    prim::OPS,
    elementwise::unary::OPS,
    elementwise::binary::OPS,
    elementwise::compare::OPS,
    elementwise::select::OPS,
    elementwise::gated::OPS,
    copies::OPS,
    copies::join::OPS,
    copies::rearrange::OPS,
    fill::OPS,
    pad::OPS,
    indexing::advanced::OPS,
    indexing::along::OPS,
    indexing::masked::OPS,
    linear::OPS,
    convolution::OPS,
    pooling::OPS,
    normalization::OPS,
    softmax::OPS,
    reduction::OPS,
    resize::OPS,
];

/// For operators without scratch.
fn no_scratch(_args: &Args<'_>) -> usize {
    0
}

/// Rows of an operator table: `"name" [arguments] writes [indices] => run`, and `scratch f` where there is some.
macro_rules! ops {
    ($($name:literal [$arity:literal] writes [$($write:literal),*] $(scratch $scratch:expr,)? => $run:expr;)*) => {
        &[$(sconce_core::Op {
            name: $name,
            arity: $arity,
            writes: sconce_core::writes(&[$($write),*]),
            scratch: crate::ops!(@scratch $($scratch)?),
            run: $run,
        }),*]
    };
    (@scratch) => { crate::no_scratch };
    (@scratch $scratch:expr) => { $scratch };
}
use ops;
