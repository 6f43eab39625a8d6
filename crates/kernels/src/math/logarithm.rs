//! Logarithms, what is made of them, and general powers.
//!
//! `x = 2^n m` with `m` between the roots of 1/2 and 2; the logarithm of `m` is a polynomial in `m - 1`, which is exact.
//! General powers and the inverse hyperbolic functions need more bits between their two halves than `f32` has, and are
//! computed in `f64`.
use super::exponential::{LN_2_HIGH, LN_2_LOW};
use super::{Fused, limit_wide, polynomial, slices, sqrt_wide, with_sign};

/// What the reductions count `n` in: they take it from the bits where it is.
const STEP: f32 = 1.0 / (1 << 23) as f32;

/// `n` in [`STEP`]s and `m - 1` of the module's text, for positive normal `x`.
#[inline(always)]
fn reduce_normal(x: f32) -> (f32, f32) {
    let root_half = core::f32::consts::FRAC_1_SQRT_2.to_bits();
    let n = x.to_bits().wrapping_sub(root_half) & !0x7f_ffff;
    (n as i32 as f32, f32::from_bits(x.to_bits().wrapping_sub(n)) - 1.0)
}

/// [`reduce_normal`] for positive finite `x`.
#[inline(always)]
fn reduce(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let (n, f) = reduce_normal(if subnormal { x * 8_388_608.0 } else { x });
    (if subnormal { n - 23.0 / STEP } else { n }, f)
}

/// The logarithm of `1 + f` less `f`, for `f` from the reduction.
#[inline(always)]
fn log_near_one(f: f32) -> f32 {
    (f * f)
        * polynomial!(f;
            -0.5, 0.333_333_3, -0.250_008_2, 0.200_012_42, -0.166_234_09, 0.142_015_8, -0.131_596_1, 0.127_622_17,
            -0.076_364_39
        )
}

/// The result where there is one: infinite at the ends, NaN for negative numbers.
#[inline(always)]
fn of_positive(x: f32, result: f32) -> f32 {
    let positive = if x == f32::INFINITY { x } else { result };
    let not_negative = if x == 0.0 { f32::NEG_INFINITY } else { positive };
    if x >= 0.0 { not_negative } else { f32::NAN }
}

/// From the two parts of the reduction.
#[inline(always)]
fn log_of((n, f): (f32, f32)) -> f32 {
    n.fused(LN_2_HIGH * STEP, f + n.fused(LN_2_LOW * STEP, log_near_one(f)))
}

/// The natural logarithm.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    of_positive(x, log_of(reduce(x)))
}

/// [`log`] of positive normal numbers.
#[inline(always)]
fn log_normal(x: f32) -> f32 {
    log_of(reduce_normal(x))
}

/// How far behind the smallest positive normal number the bits are: all others come behind the largest.
#[inline(always)]
fn behind_normal(x: f32) -> u32 {
    x.to_bits().wrapping_sub(f32::MIN_POSITIVE.to_bits())
}

slices! {
    log, log_all, log_in_place: log_normal, (behind_normal, behind_normal(f32::MAX));
}

/// The natural logarithm of `1 + x`, without loss near zero.
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    // What the sum lost.
    let lost = if x > 1.0 { 1.0 - (sum - x) } else { x - (sum - 1.0) };
    let result = log_of(reduce(sum)) + lost / sum;
    if x == 0.0 { x } else { of_positive(sum, result) }
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    let (n, f) = reduce(x);
    let rest = log_near_one(f);
    // Of 1.4427 only the part behind the point is rounded.
    let fraction = core::f32::consts::LOG2_E - 1.0;
    of_positive(x, n.fused(STEP, ((rest * fraction + f * fraction) + rest) + f))
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    let (n, f) = reduce(x);
    let rest = log_near_one(f);
    // The factor of `f` and that of `n` are split so that the large parts lose nothing: 7/16 and 77/256.
    let low = core::f64::consts::LOG10_E as f32;
    let split = (core::f64::consts::LOG10_E - 0.4375) as f32;
    let small = f * split + rest * low + n * ((core::f64::consts::LOG10_2 - 0.300_781_25) as f32 * STEP);
    of_positive(x, (small + f * 0.4375) + n * (0.300_781_25 * STEP))
}

/// Adding and subtracting this rounds an `f64` to the nearest whole number, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `e^x`, good to 1e-9.
#[inline(always)]
fn exp_wide(x: f64) -> f64 {
    let x = limit_wide(x, -700.0, 700.0);
    let shifted = x.fused(core::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.fused(-core::f64::consts::LN_2, x);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let tail = polynomial!(r;
        1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0
    );
    power.fused(r * tail, power)
}

/// The natural logarithm, good to 1e-11 of itself.
#[inline(always)]
fn log_wide(x: f64) -> f64 {
    let root_half = core::f64::consts::FRAC_1_SQRT_2.to_bits();
    let shifted = x.to_bits().wrapping_sub(root_half);
    // A small whole number becomes a float in the low bits of one.
    let n = f64::from_bits(ROUND.to_bits().wrapping_add_signed(shifted as i64 >> 52)) - ROUND;
    let f = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(root_half)) - 1.0;
    let s = f / (2.0 + f);
    let square = s * s;
    let near = s * polynomial!(square; 2.0, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0);
    let finite = n.fused(core::f64::consts::LN_2, near);
    let positive = if x == f64::INFINITY { x } else { finite };
    let not_negative = if x == 0.0 { f64::NEG_INFINITY } else { positive };
    if x >= 0.0 { not_negative } else { f64::NAN }
}

/// `x^y`, with the special cases of C.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let (base, exponent) = (f64::from(x), f64::from(y));
    // Beyond 2^24 every f32 is an even whole number.
    let bounded = limit_wide(exponent, -16_777_216.0, 16_777_216.0);
    let shifted = bounded + ROUND;
    let is_whole = shifted - ROUND == bounded;
    let odd = is_whole && shifted.to_bits() & 1 == 1;
    // Infinity times a logarithm of zero must not become NaN, so both factors are finite here.
    let log = limit_wide(log_wide(base.abs()), -1e4, 1e4);
    let magnitude = exp_wide(limit_wide(exponent, -1e38, 1e38) * log);
    let negative = base.is_sign_negative();
    let signed = if negative && odd { -magnitude } else { magnitude };
    let defined = if base < 0.0 && !is_whole && base > f64::NEG_INFINITY { f64::NAN } else { signed };
    let minus_one = base == -1.0 && exponent.abs() == f64::INFINITY;
    (if y == 0.0 || x == 1.0 || minus_one { 1.0 } else { defined }) as f32
}

/// Below this a function that starts as `x` is `x`.
const TINY: f32 = 1.0 / 4096.0;

/// The inverse hyperbolic sine.
#[inline(always)]
pub fn asinh(x: f32) -> f32 {
    let size = f64::from(x.abs());
    let result = log_wide(size + sqrt_wide(size * size + 1.0)) as f32;
    if x.abs() < TINY { x } else { with_sign(result, x) }
}

/// The inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh(x: f32) -> f32 {
    let wide = f64::from(x);
    let result = log_wide(wide + sqrt_wide(wide * wide - 1.0)) as f32;
    if x < 1.0 { f32::NAN } else { result }
}

/// The inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh(x: f32) -> f32 {
    let size = f64::from(x.abs());
    let result = 0.5 * log_wide((1.0 + size) / (1.0 - size));
    if x.abs() < TINY { x } else { with_sign(result as f32, x) }
}
