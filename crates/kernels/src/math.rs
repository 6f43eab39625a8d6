//! Elementary functions of `f32`, written so that loops over them vectorise.
//!
//! Every function is plain arithmetic in `f32`: the argument is reduced to a short interval, a polynomial is evaluated
//! there (fitted for least relative error), and the result is put together again. There is no branch: special cases are
//! selected at the end. Results are within 2 units in the last place of the correctly rounded value on the whole range
//! (the tests walk it), most within 1. Fused multiplication is used where it is fast, but nothing relies on it. Functions
//! of `f64` come from `libm`.
//!
//! Special cases cost as much as the polynomial and are rare. So the functions that models call most have forms for slices
//! (`exp_all` and its like into another slice, `exp_in_place` and its like) that look at the arguments of a block and compute
//! as if there were no special cases where there are none. Those of the sigmoid and of silu, the activations of many models, are
//! within 5 units.
//!
//! [`Math`] names the functions for kernels that are generic over the compute type.
use crate::element::Float;

mod circular;
mod exponential;
mod logarithm;
#[cfg(test)]
mod tests;

pub use circular::{
    acos, asin, atan, atan2, cos, cos_all, cos_in_place, sin, sin_all, sin_in_place, tan, tan_all, tan_in_place,
};
pub use exponential::{
    cosh, decay, erf, exp, exp_all, exp_in_place, exp2, expm1, gelu, gelu_tanh, sigmoid, sigmoid_all, sigmoid_in_place,
    silu, silu_all, silu_in_place, sinh, tanh, tanh_all, tanh_in_place,
};
pub use logarithm::{acosh, asinh, atanh, log, log_all, log_in_place, log1p, log2, log10, pow};

/// Adding and subtracting this rounds to the nearest whole number, ties to even, which is then in the low bits; for
/// numbers below 2^22.
pub const ROUND: f32 = 12_582_912.0;

/// `polynomial!(x; c0, c1, ...)` is `c0 + c1 * x + ...`, written out so that nothing is left to unroll.
macro_rules! polynomial {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => { $crate::math::Fused::fused($crate::math::polynomial!($x; $($rest),+), $x, $c) };
}
use polynomial;

/// `self * factor + summand`, rounded once where the machine can.
trait Fused {
    fn fused(self, factor: Self, summand: Self) -> Self;
}

macro_rules! fused {
    ($($type:ty),*) => {$(
        impl Fused for $type {
            #[inline(always)]
            fn fused(self, factor: Self, summand: Self) -> Self {
                // Every vector unit of these has the instruction; elsewhere it would be a slow call.
                #[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
                return self.mul_add(factor, summand);
                #[cfg(not(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64"))))]
                return self * factor + summand;
            }
        }
    )*};
}
fused!(f32, f64);

/// The smaller one; NaN stays.
#[inline(always)]
fn at_most(x: f32, high: f32) -> f32 {
    if x > high { high } else { x }
}

/// Limits to `low..=high`; NaN stays.
#[inline(always)]
fn limit(x: f32, low: f32, high: f32) -> f32 {
    at_most(if x < low { low } else { x }, high)
}

/// [`limit`] of an `f64`.
#[inline(always)]
fn limit_wide(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// A number that is not negative, with the sign of `sign`.
#[inline(always)]
fn with_sign(x: f32, sign: f32) -> f32 {
    f32::from_bits(x.to_bits() | sign.to_bits() & 1 << 31)
}

/// The bits of `|x|`, which are ordered as the numbers are, with NaN above all.
#[inline(always)]
fn size_bits(x: f32) -> u32 {
    x.to_bits() & !(1 << 31)
}

/// Elements that [`by_blocks`] and [`in_place_by_blocks`] take together.
const BLOCK: usize = 2048;

/// `out[i] = usual(x[i])`. Blocks with an element whose `measure` is above `limit` are computed again, by `any`.
#[inline(always)]
fn by_blocks(
    x: &[f32],
    out: &mut [f32],
    (measure, limit): (impl Fn(f32) -> u32, u32),
    usual: impl Fn(f32) -> f32,
    any: impl Fn(f32) -> f32,
) {
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let mut largest = 0;
        for (out, &x) in out.iter_mut().zip(x) {
            largest = largest.max(measure(x));
            *out = usual(x);
        }
        if largest > limit {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = any(x);
            }
        }
    }
}

/// `x = usual(x)` for every element, or `x = any(x)` in blocks with an element whose `measure` is above `limit`.
#[inline(always)]
fn in_place_by_blocks(
    values: &mut [f32],
    (measure, limit): (impl Fn(f32) -> u32, u32),
    usual: impl Fn(f32) -> f32,
    any: impl Fn(f32) -> f32,
) {
    for block in values.chunks_mut(BLOCK) {
        let largest = block.iter().fold(0, |largest: u32, &x| largest.max(measure(x)));
        if largest > limit {
            block.iter_mut().for_each(|x| *x = any(*x));
        } else {
            block.iter_mut().for_each(|x| *x = usual(*x));
        }
    }
}

/// Both forms for slices of functions that have a `usual` form for elements with a `measure` up to `limit`.
macro_rules! slices {
    ($($name:ident, $all:ident, $in_place:ident: $usual:ident, ($measure:expr, $limit:expr);)*) => {$(
        #[doc = concat!("[`", stringify!($name), "`] of all of `x`.")]
        #[inline(always)]
        pub fn $all(x: &[f32], out: &mut [f32]) {
            $crate::math::by_blocks(x, out, ($measure, $limit), $usual, $name);
        }

        #[doc = concat!("[`", stringify!($name), "`] of every element.")]
        #[inline(always)]
        pub fn $in_place(values: &mut [f32]) {
            $crate::math::in_place_by_blocks(values, ($measure, $limit), $usual, $name);
        }
    )*};
}
use slices;

macro_rules! math {
    ($($(#[$doc:meta])* $name:ident => $narrow:path, |$x:ident| $wide:expr;)*) => {
        /// The elementary functions of a compute type.
        pub trait Math: Float {
            $($(#[$doc])* fn $name(self) -> Self;)*
            /// `self^exponent`
            fn pow(self, exponent: Self) -> Self;
        }

        impl Math for f32 {
            $(#[inline(always)] fn $name(self) -> Self { $narrow(self) })*
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self { pow(self, exponent) }
        }

        impl Math for f64 {
            $(#[inline(always)] fn $name(self) -> Self { let $x = self; $wide })*
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self { libm::pow(self, exponent) }
        }
    };
}
math! {
    /// `e^x`
    exp => exp, |x| libm::exp(x);
    /// `e^x` for `x` up to 0, with 0 in place of subnormal results.
    decay => decay, |x| libm::exp(x);
    /// `2^x`
    exp2 => exp2, |x| libm::exp2(x);
    /// `e^x - 1`
    expm1 => expm1, |x| libm::expm1(x);
    /// The natural logarithm.
    log => log, |x| libm::log(x);
    /// The natural logarithm of `1 + x`.
    log1p => log1p, |x| libm::log1p(x);
    /// The logarithm to base 2.
    log2 => log2, |x| libm::log2(x);
    /// The logarithm to base 10.
    log10 => log10, |x| libm::log10(x);
    /// The hyperbolic tangent.
    tanh => tanh, |x| libm::tanh(x);
    /// `1 / (1 + e^-x)`
    sigmoid => sigmoid, |x| 1.0 / (1.0 + libm::exp(-x));
    /// `x * sigmoid(x)`
    silu => silu, |x| x / (1.0 + libm::exp(-x));
    /// The error function.
    erf => erf, |x| libm::erf(x);
    /// The Gaussian error linear unit.
    gelu => gelu, |x| 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
    /// [`gelu`] approximated by a hyperbolic tangent.
    gelu_tanh => gelu_tanh, |x| {
        0.5 * x * (1.0 + libm::tanh(0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)))
    };
    /// The sine.
    sin => sin, |x| libm::sin(x);
    /// The cosine.
    cos => cos, |x| libm::cos(x);
    /// The square root.
    sqrt => sqrt, |x| sqrt_wide(x);
    /// The largest whole number not above.
    floor => floor, |x| libm::floor(x);
    /// The smallest whole number not below.
    ceil => ceil, |x| libm::ceil(x);
    /// The whole part.
    trunc => libm::truncf, |x| libm::trunc(x);
    /// The nearest whole number, ties to even.
    round => round_ties_even, |x| libm::rint(x);
}

/// Functions for which there is an instruction, and a call where there is no operating system.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident $fallback:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(x: f32) -> f32 {
            #[cfg(feature = "std")]
            return x.$name();
            #[cfg(not(feature = "std"))]
            libm::$fallback(x)
        }
    )*};
}
instructions! {
    /// The square root.
    sqrt sqrtf;
    /// The largest whole number not above.
    floor floorf;
    /// The smallest whole number not below.
    ceil ceilf;
    /// The nearest whole number, ties to even.
    round_ties_even rintf;
}

#[inline(always)]
fn sqrt_wide(x: f64) -> f64 {
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    libm::sqrt(x)
}
