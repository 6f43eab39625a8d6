//! Powers of e and what is made of them.
//!
//! `x = n ln 2 + r` with a whole `n` and |r| at most half of `ln 2`; `e^r` is a polynomial, `2^n` goes into the exponent
//! bits. `ln 2` is split into a part with so few bits that `n` times it is exact, and the rest.
use super::{Fused, ROUND, at_most, limit, polynomial, size_bits, slices, with_sign};

/// 355/512.
pub(super) const LN_2_HIGH: f32 = 0.693_359_4;
pub(super) const LN_2_LOW: f32 = -2.121_944_4e-4;

const TWO_TO_MINUS_64: f32 = 1.0 / (1u128 << 64) as f32;

/// `n` of the module's text, in the low bits, and `r`.
#[inline(always)]
fn reduce(x: f32) -> (u32, f32) {
    let shifted = x.fused(core::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    (shifted.to_bits(), n.fused(-LN_2_LOW, n.fused(-LN_2_HIGH, x)))
}

/// `2^(n + more)`, for `n` in the low bits and a sum from -126 to 127.
#[inline(always)]
fn power_of_two(n: u32, more: i32) -> f32 {
    // All but the low bits are shifted out.
    f32::from_bits((n << 23).wrapping_add(((127 + more) as u32) << 23))
}

/// `e^r - 1` for |r| up to 0.35.
#[inline(always)]
fn expm1_near_zero(r: f32) -> f32 {
    let tail = polynomial!(r; 0.499_999_97, 0.166_665_46, 0.041_667_435, 0.008_366_265, 0.001_387_067_5);
    (r * r).fused(tail, r)
}

/// `e^r` for |r| up to 0.35.
#[inline(always)]
fn near_one(r: f32) -> f32 {
    polynomial!(r; 1.0, 1.0, 0.499_999_94, 0.166_665_2, 0.041_668_393, 0.008_368_781, 0.001_381_446_5)
}

/// `2 e^r` for |r| up to 0.35.
#[inline(always)]
fn near_two(r: f32) -> f32 {
    polynomial!(r; 2.0, 2.0, 0.999_999_9, 0.333_330_4, 0.083_336_786, 0.016_737_562, 0.002_762_893)
}

/// `e^r * 2^n` for `n` from -150 to 128: results from subnormal to infinite. One factor of two is kept back for the upper
/// end; at the lower end `2^-64` is.
#[inline(always)]
fn scaled(r: f32, n: u32, low: bool) -> f32 {
    let power = power_of_two(n, -1).to_bits();
    let raised = f32::from_bits(if low { power.wrapping_add(64 << 23) } else { power });
    let result = near_two(r) * raised;
    if low { result * TWO_TO_MINUS_64 } else { result }
}

/// `e^x`
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = limit(x, -104.0, 89.0);
    let (n, r) = reduce(x);
    scaled(r, n, x < -86.0)
}

/// The largest |x| for which [`exp_finite`] serves.
const MODERATE: f32 = 87.0;

/// `e^x` for |x| up to 87, where neither end is near: the power goes into the exponent bits of the rest.
#[inline(always)]
fn exp_finite(x: f32) -> f32 {
    let (n, r) = reduce(x);
    f32::from_bits(near_one(r).to_bits().wrapping_add(n << 23))
}

/// [`exp_finite`] by fewer operations and within 3 units in the last place, 6 for the smallest and largest results.
#[inline(always)]
fn exp_near(x: f32) -> f32 {
    let (n, near) = reduced_near(x);
    f32::from_bits(near.to_bits().wrapping_add(n << 23))
}

/// `n` of the module's text, in the low bits, and `e^r` by fewer operations than [`reduce`] and [`near_one`] take.
#[inline(always)]
fn reduced_near(x: f32) -> (u32, f32) {
    let shifted = x.fused(core::f32::consts::LOG2_E, ROUND);
    let r = (shifted - ROUND).fused(-core::f32::consts::LN_2, x);
    let near = polynomial!(r; 1.0, 1.0, 0.499_992_28, 0.166_671_17, 0.041_890_65, 0.008_312_467);
    (shifted.to_bits(), near)
}

/// `e^x` for `x` up to 0, with 0 in place of subnormal results: what a softmax needs, faster than [`exp`] and within 3 units
/// in the last place, 6 for the smallest results.
#[inline(always)]
pub fn decay(x: f32) -> f32 {
    let (n, near) = reduced_near(x);
    if x < -87.0 { 0.0 } else { near * power_of_two(n, 0) }
}

/// `e^x / 2`, finite where a hyperbolic function is.
#[inline(always)]
fn half_exp(x: f32) -> f32 {
    let x = limit(x, -104.0, 89.6);
    let (n, r) = reduce(x);
    scaled(r, n.wrapping_sub(1), x < -86.0)
}

/// `2^x`
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = limit(x, -150.0, 128.25);
    let shifted = x + ROUND;
    scaled((x - (shifted - ROUND)) * core::f32::consts::LN_2, shifted.to_bits(), x < -125.0)
}

/// `e^x - 1`, without loss near zero.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let (n, r) = reduce(limit(x, -20.0, 88.8));
    // Half of the result, because 2^128 is not a number.
    let power = power_of_two(n, -1);
    let result = power.fused(expm1_near_zero(r), power - 0.5) * 2.0;
    if x == 0.0 { x } else { result }
}

/// [`ROUND`] that leaves the bits of an exponent, not of a number.
const ROUND_TO_EXPONENT: f32 = ROUND + 127.0;

/// `(e^2x - 1) / 2` of the size of a number, which is taken as 9.5 from there on.
#[inline(always)]
fn half_expm1_of_double(x: f32) -> f32 {
    let size = at_most(x.abs(), 9.5);
    // The reduction of `2x`, with half of its `r`. What `n` times `ln 2` lacks is lost in the larger results.
    let shifted = size.fused(2.0 * core::f32::consts::LOG2_E, ROUND_TO_EXPONENT);
    let r = (shifted - ROUND_TO_EXPONENT).fused(-0.5 * core::f32::consts::LN_2, size);
    let power = f32::from_bits(shifted.to_bits() << 23);
    let tail = polynomial!(r; 1.0, 0.666_661_74, 0.333_339_78, 0.133_863_97, 0.044_388_007);
    let near_zero = (r * r).fused(tail, r);
    power.fused(near_zero, power.fused(0.5, -0.5))
}

/// The hyperbolic tangent of `x`: `h / (h + 1)` where `h = (e^2x - 1) / 2`. From 9.1 on it is 1.
#[inline(always)]
fn tanh_from(h: f32, x: f32) -> f32 {
    with_sign(h / (h + 1.0), x)
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    tanh_from(half_expm1_of_double(x), x)
}

/// Vectors of [`tanh`] are taken a few side by side: it is one long chain of operations that ends with a division.
const TOGETHER: usize = 32;

#[inline(always)]
fn tanh_together(x: &[f32; TOGETHER], out: &mut [f32; TOGETHER]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = half_expm1_of_double(x);
    }
    for (out, &x) in out.iter_mut().zip(x) {
        *out = tanh_from(*out, x);
    }
}

/// [`tanh`] of all of `x`.
#[inline(always)]
pub fn tanh_all(x: &[f32], out: &mut [f32]) {
    let (groups, rest) = x.as_chunks();
    let (out_groups, out_rest) = out.as_chunks_mut();
    for (out, x) in out_groups.iter_mut().zip(groups) {
        tanh_together(x, out);
    }
    for (out, &x) in out_rest.iter_mut().zip(rest) {
        *out = tanh(x);
    }
}

/// [`tanh`] of every element.
#[inline(always)]
pub fn tanh_in_place(values: &mut [f32]) {
    let (groups, rest) = values.as_chunks_mut();
    for group in groups {
        let x = *group;
        tanh_together(&x, group);
    }
    for x in rest {
        *x = tanh(*x);
    }
}

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh(x: f32) -> f32 {
    let (size, square) = (x.abs(), x * x);
    let tail = polynomial!(square; 0.166_666_67, 0.008_333_35, 0.000_198_361_6, 2.816_951_3e-6);
    let near = if x == 0.0 { x } else { (x * square).fused(tail, x) };
    let half = half_exp(size);
    if size < 1.0 { near } else { with_sign(half - 0.25 / half, x) }
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh(x: f32) -> f32 {
    let half = half_exp(x.abs());
    half + 0.25 / half
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    // Of the two exponentials the one that is at most 1.
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// [`sigmoid`] of |x| up to [`MODERATE`].
#[inline(always)]
fn sigmoid_moderate(x: f32) -> f32 {
    1.0 / (1.0 + exp_near(-x))
}

/// `x * sigmoid(x)`
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// [`silu`] of |x| up to [`MODERATE`].
#[inline(always)]
fn silu_moderate(x: f32) -> f32 {
    x / (1.0 + exp_near(-x))
}

slices! {
    exp, exp_all, exp_in_place: exp_finite, (size_bits, MODERATE.to_bits());
    sigmoid, sigmoid_all, sigmoid_in_place: sigmoid_moderate, (size_bits, MODERATE.to_bits());
    silu, silu_all, silu_in_place: silu_moderate, (size_bits, MODERATE.to_bits());
}

/// The error function: a polynomial near zero, beyond that 1 less a power of e whose exponent is one.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let (size, square) = (x.abs(), x * x);
    let near = x + x * polynomial!(square;
        0.128_379_15, -0.376_125_25, 0.112_821_41, -0.026_778_908, 0.005_011_962, -0.000_609_035_8
    );
    // From 3.92 on the result is 1.
    let bounded = at_most(size, 3.95);
    let exponent = polynomial!(bounded;
        -0.000_163_490_46, 1.129_460_5, 0.633_458_44, 0.108_155_936, -0.025_038_311, 0.004_139_97, -0.000_427_991_4,
        2.053_116_8e-5
    );
    let (n, r) = reduce(-exponent);
    let far = 1.0 - near_one(r) * power_of_two(n, 0);
    if size < 0.9 { near } else { with_sign(far, x) }
}

/// `2^-x` for `x` up to 125.
#[inline(always)]
fn halvings(x: f32) -> f32 {
    let shifted = ROUND - x;
    let r = (shifted - ROUND) + x;
    let near = polynomial!(r;
        1.0, -0.693_147_24, 0.240_226_52, -0.055_503_104, 0.009_617_693, -0.001_340_664_3, 0.000_155_946_78
    );
    near * power_of_two(shifted.to_bits(), 0)
}

/// The Gaussian error linear unit, `x * P(normal <= x)`. What is missing from `x` or from 0 is `|x| P(normal > |x|)`, and
/// the logarithm (to base 2) of that probability is a polynomial.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    // Beyond, nothing is missing.
    let size = at_most(x.abs(), 11.5);
    let exponent = polynomial!(size;
        -7.344_543e-8, 1.151_109_1, 0.459_171_5, 0.052_626_308, -0.007_281_949, 0.000_328_728_14, 9.635_748_6e-5,
        -1.824_462_7e-5, 8.828_048e-7
    );
    let missing = 0.5 * size * halvings(exponent);
    (if x > 0.0 { x } else { 0.0 }) - missing
}

/// [`gelu`] approximated by a hyperbolic tangent, as some models were trained: `0.5 (1 + tanh(y))` is `sigmoid(2 y)`.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let cubic = (x * x).fused(0.044_715, 1.0) * x;
    x * sigmoid(1.595_769 * cubic)
}
