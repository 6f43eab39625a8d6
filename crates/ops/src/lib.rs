//! The operators, as tables.
//!
//! An operator is a row: its name, how many arguments a call has, which of them it writes, the function that runs it and,
//! where it needs scratch, the function that says how much. Rows live beside the body of their family; [`TABLES`] lists
//! the families. To add an operator, add a row to its family (or a family to the list) and a golden program that uses it.
//!
//! A body reads its arguments from the [`Call`](sconce_core::Call), checks them, asks `sconce-schema` for types and
//! shapes, takes its outputs and hands plain slices to `sconce-kernels`. The element type is looked at once per call
//! (`typed`); element-wise operators share one engine (`elementwise`) in which only three types compute.
#![no_std]
#![forbid(unsafe_code)]

mod attention;
mod batch_statistics;
mod complex;
mod complex_functions;
mod convolution;
mod convolution_backward;
mod copies;
mod dense;
mod detection;
mod distance;
mod distributions;
mod elementwise;
#[cfg(feature = "fft")]
mod fft;
mod fill;
mod fractional_pooling;
mod grid_sampler;
mod grouped;
mod indexing;
mod linalg;
mod linear;
mod llama;
mod normalization;
mod norms;
mod operands;
mod ordering;
mod pad;
mod pooling;
mod prim;
mod products;
mod quantized;
mod quantized_weights;
mod random;
mod real;
mod reduction;
mod remap;
mod resize;
mod softmax;
mod strided;
mod typed;

pub use dense::reorder;
pub use fill::seed_random;
use sconce_core::{Args, Op};

/// All operators, by family.
pub static TABLES: &[&[Op]] = &[
    prim::OPS,
    elementwise::unary::OPS,
    elementwise::binary::OPS,
    elementwise::functions::OPS,
    elementwise::polynomials::OPS,
    elementwise::compare::OPS,
    elementwise::select::OPS,
    elementwise::gated::OPS,
    complex::OPS,
    copies::OPS,
    copies::join::OPS,
    copies::rearrange::OPS,
    fill::OPS,
    random::OPS,
    distributions::OPS,
    pad::OPS,
    indexing::advanced::OPS,
    indexing::along::OPS,
    indexing::meeting::OPS,
    indexing::bags::OPS,
    indexing::segments::OPS,
    indexing::masked::OPS,
    linear::OPS,
    #[cfg(feature = "fft")]
    fft::OPS,
    products::OPS,
    grouped::OPS,
    linalg::OPS,
    distance::OPS,
    attention::OPS,
    convolution::OPS,
    convolution_backward::OPS,
    pooling::OPS,
    fractional_pooling::OPS,
    normalization::OPS,
    batch_statistics::OPS,
    softmax::OPS,
    reduction::OPS,
    norms::OPS,
    resize::OPS,
    grid_sampler::OPS,
    detection::OPS,
    ordering::sorting::OPS,
    ordering::searching::OPS,
    ordering::running::OPS,
    ordering::counting::OPS,
    ordering::unique::OPS,
    quantized::OPS,
    quantized_weights::OPS,
    llama::OPS,
    llama::delta_rule::OPS,
    llama::experts::OPS,
    llama::hadamard::OPS,
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

/// The row of one operator, for a table with only what a program needs: the linker then drops all others.
///
/// ```
/// static OPS: &[sconce_core::Op] = &[sconce_ops::op("aten::add.out"), sconce_ops::op("aten::relu.out")];
/// assert_eq!(OPS[1].name, "aten::relu.out");
/// ```
///
/// # Panics
/// When there is no such operator; in a `static`, that is an error at compile time.
pub const fn op(name: &str) -> Op {
    let mut table = 0;
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            if same(TABLES[table][row].name, name) {
                return TABLES[table][row];
            }
            row += 1;
        }
        table += 1;
    }
    panic!("this build has no operator of this name")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
