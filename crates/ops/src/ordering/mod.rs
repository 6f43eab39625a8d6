//! Order along a dimension: sorting, the largest, the middle, places in a sorted row, running sums, counts.
//!
//! Elements of every type are compared by *keys*: int64 numbers that are ordered as the elements are, with NaN above all.
//! A line, the elements along the dimension, is loaded as keys; its positions are arranged; values are copied by position.
//! So nothing is compiled per element type, and any memory order will do.
pub(crate) mod counting;
pub(crate) mod running;
pub(crate) mod searching;
pub(crate) mod sorting;
pub(crate) mod unique;

use crate::elementwise::{CHUNK, Load, loader};
use crate::operands::shape_fault;
use crate::strided::{View, layout};
use sconce_core::{Call, Fault, ScalarType, Shape, Tensor};
use sconce_kernels::Isa;
use sconce_schema::{Layout, ShapeError, normalize_dim};

/// The key of NaN.
pub(crate) const NAN: i64 = i64::MAX;

/// The key of a floating-point number; both zeros have the same.
#[inline(always)]
pub(crate) fn real_key(x: f64) -> i64 {
    let bits = (x + 0.0).to_bits() as i64;
    let ordered = if bits < 0 { bits ^ i64::MAX } else { bits };
    if x.is_nan() { NAN } else { ordered }
}

/// How elements of a type become keys.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// The number itself.
    Whole(Load<i64>),
    /// Unsigned numbers of 64 bits are signed ones with the first bit the other way round.
    Unsigned(Load<i64>),
    /// See [`real_key`].
    Real(Load<f64>),
}

impl Keys {
    /// For elements of a type in `data`; with `real`, whole numbers count as floating-point numbers.
    pub(crate) fn new(argument: usize, dtype: ScalarType, data: &[u8], real: bool) -> Result<Self, Fault> {
        match dtype {
            _ if real || !dtype.is_integral(true) => loader(argument, dtype, data).map(Keys::Real),
            ScalarType::UInt64 => loader(argument, dtype, data).map(Keys::Unsigned),
            _ => loader(argument, dtype, data).map(Keys::Whole),
        }
    }

    /// The keys of elements `step` apart from element `at` on.
    pub(crate) fn load(&self, data: &[u8], at: usize, step: usize, into: &mut [i64]) {
        let isa = Isa::detect();
        match self {
            Keys::Whole(load) => load(isa, data, at, step, into),
            Keys::Unsigned(load) => {
                load(isa, data, at, step, into);
                into.iter_mut().for_each(|key| *key ^= i64::MIN);
            }
            Keys::Real(load) => {
                let mut buffer = [0.0; CHUNK];
                for (chunk, into) in into.chunks_mut(CHUNK).enumerate() {
                    let numbers = &mut buffer[..into.len()];
                    load(isa, data, at + chunk * CHUNK * step, step, numbers);
                    isa.vectorize(
                        #[inline(always)]
                        || into.iter_mut().zip(&*numbers).for_each(|(key, &x)| *key = real_key(x)),
                    );
                }
            }
        }
    }
}

/// A tensor as lines along a dimension.
pub(crate) struct Lines<'c> {
    pub(crate) x: View<'c>,
    pub(crate) axis: usize,
    /// Elements of a line.
    pub(crate) n: usize,
    /// From one element of a line to the next.
    pub(crate) step: usize,
    /// Where the lines start.
    pub(crate) starts: Layout,
}

impl<'c> Lines<'c> {
    /// Lines along the dimension in an argument.
    pub(crate) fn along(call: &Call<'_>, x: Tensor<'c>, argument: usize) -> Result<Self, Fault> {
        let axis = axis(call, &x.shape, argument)?;
        let x = View::from(x);
        let (starts, step) = across(&x.layout, axis);
        let n = x.layout.sizes.get(axis).copied().unwrap_or(1);
        Ok(Self { x, axis, n, step, starts })
    }

    /// All elements as one line, in memory order.
    pub(crate) fn all(x: Tensor<'c>) -> Self {
        let (n, starts) = (x.numel(), layout(&Shape::SCALAR));
        Self { x: View::from(x), axis: 0, n, step: 1, starts }
    }
}

/// The dimension in an argument; a tensor without dimensions has one for this purpose.
fn axis(call: &Call<'_>, shape: &Shape, argument: usize) -> Result<usize, Fault> {
    let (dim, rank) = (call.int(argument)?, shape.rank());
    normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank }).map_err(|error| shape_fault(error).at(argument))
}

/// Where lines along a dimension start, and the step along it.
fn across(layout: &Layout, axis: usize) -> (Layout, usize) {
    (layout.keep(|dim, _| dim != axis), layout.strides().get(axis).copied().unwrap_or(0))
}
