//! Powers of e and what is made of them.
//!
//! `x = n ln 2 + r` with a whole `n` and |r| at most half of `ln 2`; `e^r` is a polynomial, `2^n` goes into the exponent
//! bits. `ln 2` is split into a part with so few bits that `n` times it is exact, and the rest.
use super::{Fused, ROUND, at_most, limit, polynomial, with_sign};

/// 355/512.
pub(super) const LN_2_HIGH: f32 = 0.693_359_4;
pub(super) const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `n` and `r` of the module's text.
#[inline(always)]
fn reduce(x: f32) -> (i32, f32) {
    let shifted = x.fused(core::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let whole = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    (whole, n.fused(-LN_2_LOW, n.fused(-LN_2_HIGH, x)))
}

/// `2^n` for `n` from -126 to 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `e^r - 1` for |r| up to 0.35.
#[inline(always)]
fn expm1_near_zero(r: f32) -> f32 {
    let tail = polynomial!(r; 0.5, 0.166_666_66, 0.041_666_36, 0.008_333_39, 0.001_394_072_1, 0.000_198_458_85);
    (r * r).fused(tail, r)
}

/// `e^r` for |r| up to 0.35.
#[inline(always)]
fn near_one(r: f32) -> f32 {
    let tail = polynomial!(r; 0.499_999_94, 0.166_665_2, 0.041_668_393, 0.008_368_781, 0.001_381_446_5);
    1.0 + (r * r).fused(tail, r)
}

/// `e^r * 2^n`, with results from subnormal to infinite: the power is applied in two halves, neither of which is.
#[inline(always)]
fn scaled(r: f32, n: i32) -> f32 {
    let half = n >> 1;
    near_one(r) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `e^x`
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let (n, r) = reduce(limit(x, -104.0, 90.0));
    scaled(r, n)
}

/// `e^x` for |x| up to 87, where neither end is near.
#[inline(always)]
fn exp_moderate(x: f32) -> f32 {
    let (n, r) = reduce(x);
    near_one(r) * power_of_two(n)
}

/// `e^x / 2`, finite where a hyperbolic function is.
#[inline(always)]
fn half_exp(x: f32) -> f32 {
    let (n, r) = reduce(limit(x, -104.0, 90.0));
    scaled(r, n.wrapping_sub(1))
}

/// `2^x`
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = limit(x, -150.0, 129.0);
    let shifted = x + ROUND;
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    scaled((x - (shifted - ROUND)) * core::f32::consts::LN_2, n)
}

/// `e^x - 1`, without loss near zero.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let (n, r) = reduce(limit(x, -20.0, 88.8));
    // Half of the result, because 2^128 is not a number.
    let power = power_of_two(n.wrapping_sub(1));
    let result = power.fused(expm1_near_zero(r), power - 0.5) * 2.0;
    if x == 0.0 { x } else { result }
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let (size, square) = (x.abs(), x * x);
    let tail = polynomial!(square; -0.333_333, 0.133_319_24, -0.053_783_827, 0.020_795_964, -0.005_895_15);
    let near = if x == 0.0 { x } else { (x * square).fused(tail, x) };
    let far = 1.0 - 2.0 / (exp_moderate(2.0 * at_most(size, 10.0)) + 1.0);
    if size < 0.6 { near } else { with_sign(far, x) }
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

/// `x * sigmoid(x)`
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
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
    let far = 1.0 - exp_moderate(-exponent);
    if size < 0.9 { near } else { with_sign(far, x) }
}

/// The Gaussian error linear unit, `x * P(normal <= x)`.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// [`gelu`] approximated by a hyperbolic tangent, as some models were trained.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + tanh(0.797_884_6 * (x + 0.044_715 * x * x * x)))
}
