//! The circular functions and their inverses.
//!
//! `x = q pi + r` with |r| at most `pi / 2`. For the sine `q` is whole, for the cosine it lies between two whole numbers, and
//! both are the sine of `r`, a polynomial, but for the sign. The tangent counts halves, so that |r| is at most `pi / 4`. `pi`
//! is split into four parts of so few bits that `q` times each is exact, as long as `2 q` has at most twelve: that is up to
//! [`NEAR`]. Beyond, `2 / pi` is needed to hundreds of bits, and its product with `x` is taken modulo 4 in whole numbers.
use super::{Fused, ROUND, polynomial, size_bits, slices, sqrt, with_sign};
use core::f32::consts::{FRAC_1_PI, FRAC_2_PI, FRAC_PI_2, PI};

/// Up to here the four parts of `pi` serve.
const NEAR: f32 = 6000.0;
/// `pi`: 8, 12, 12 bits, and the rest.
const PARTS: [f32; 4] = [3.140_625, 0.000_967_502_6, 1.509_906_7e-7, 5.126_688e-12];
/// What `FRAC_PI_2` lacks.
const FRAC_PI_2_LOW: f32 = -4.371_139e-8;

/// `x - q pi`
#[inline(always)]
fn rest(x: f32, q: f32) -> f32 {
    PARTS.iter().fold(x, |rest, part| q.fused(-part, rest))
}

/// [`rest`], rounded once: the quotient at a pole has no room for more.
#[inline(always)]
fn exact_rest(x: f32, q: f32) -> f32 {
    let exact = q.fused(-PARTS[1], q.fused(-PARTS[0], x));
    let rounded = q.fused(-PARTS[2], exact);
    // What rounding lost comes back with the last part.
    let lost = q.fused(-PARTS[2], exact - rounded);
    rounded + q.fused(-PARTS[3], lost)
}

/// The sine of |r| up to `pi / 2`, with the other sign if the lowest bit of `flips` is set.
#[inline(always)]
fn sine(r: f32, flips: u32) -> f32 {
    let square = r * r;
    let tail = polynomial!(square; -0.166_666_6, 0.008_333_069, -0.000_198_097_67, 2.606_046_8e-6);
    f32::from_bits((r * square).fused(tail, r).to_bits() ^ flips << 31)
}

/// The sine of |x| up to [`NEAR`].
#[inline(always)]
fn sin_near(x: f32) -> f32 {
    let shifted = x.fused(FRAC_1_PI, ROUND);
    let sine = sine(rest(x, shifted - ROUND), shifted.to_bits());
    if x == 0.0 { x } else { sine }
}

/// The cosine of |x| up to [`NEAR`]: the sine of `x + pi / 2`.
#[inline(always)]
fn cos_near(x: f32) -> f32 {
    let shifted = x.fused(FRAC_1_PI, 0.5) + ROUND;
    sine(rest(x, shifted - ROUND - 0.5), shifted.to_bits())
}

/// The tangent of |x| up to [`NEAR`].
#[inline(always)]
fn tan_near(x: f32) -> f32 {
    let shifted = x.fused(FRAC_2_PI, ROUND);
    let r = exact_rest(x, 0.5 * (shifted - ROUND));
    let square = r * r;
    let tail = polynomial!(square;
        0.333_333_5, 0.133_326_53, 0.054_061_066, 0.021_276_06, 0.010_852_174, 6.821_113e-5, 0.004_387_073
    );
    let tangent = (r * square).fused(tail, r);
    let signed = if shifted.to_bits() & 1 == 0 { tangent } else { -1.0 / tangent };
    if x == 0.0 { x } else { signed }
}

/// For every `f32` exponent from 1.0 on: 96 bits of `2 / pi` times that power of two, modulo 4, as (high 64, low 32).
static TURNS: [(u64, u64); 128] = {
    let digits: [u32; 8] =
        [0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab, 0xdebb_c561];
    let mut table = [(0, 0); 128];
    let mut exponent = 0;
    while exponent < 128 {
        // An f32 is m * 2^(exponent - 23) with a whole m; bit 0 of the window weighs 2.
        let mut high = 0u64;
        let mut low = 0u64;
        let mut bit = 0;
        while bit < 96 {
            // The digits start at the weight 1/2.
            let at = exponent as i32 - 23 - 2 + bit;
            let one = if at < 0 { 0 } else { (digits[at as usize / 32] >> (31 - at % 32)) & 1 } as u64;
            if bit < 64 {
                high |= one << (63 - bit);
            } else {
                low |= one << (95 - bit);
            }
            bit += 1;
        }
        table[exponent] = (high, low);
        exponent += 1;
    }
    table
};

/// `x = q * pi / 2 + r` with |r| at most 1: returns the quadrant `q` modulo 4 and `r`.
#[inline(always)]
fn quadrant_far(x: f32) -> (u64, f64) {
    let bits = x.to_bits();
    let exponent = (bits >> 23) & 0xff;
    let (high, low) = TURNS[(exponent.wrapping_sub(127) & 127) as usize];
    let mantissa = u64::from(bits & 0x7f_ffff | 0x80_0000);
    // Turns of a quarter circle modulo 4, as a fraction of 2^62.
    let turns = mantissa.wrapping_mul(high).wrapping_add(mantissa.wrapping_mul(low) >> 32);
    let quarter = turns.wrapping_add(1 << 61) >> 62;
    let rest = turns.wrapping_sub(quarter << 62) as i64 as f64 * (core::f64::consts::FRAC_PI_2 / (1u64 << 62) as f64);
    // Below one there is nothing to reduce: the polynomials hold that far.
    let reduced = x.abs() >= 1.0;
    let backwards = bits >> 31 == 1;
    let (quarter, rest) = if backwards { (quarter.wrapping_neg(), -rest) } else { (quarter, rest) };
    if reduced { (quarter & 3, rest) } else { (0, x.into()) }
}

/// The sine at `quarters` of a turn further, for any `x`.
#[inline(always)]
fn sine_far(x: f32, quarters: u64) -> f64 {
    let (quarter, r) = quadrant_far(x);
    let quarter = quarter + quarters;
    let square = r * r;
    let odd =
        r * polynomial!(square; 1.0, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0);
    let even = polynomial!(square;
        1.0, -1.0 / 2.0, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0
    );
    let value = if quarter & 1 == 0 { odd } else { even };
    let signed = if quarter & 2 == 0 { value } else { -value };
    if x.abs() < f32::INFINITY { signed } else { f64::NAN }
}

macro_rules! circular {
    ($($(#[$doc:meta])* $name:ident, $all:ident, $in_place:ident: near $near:ident, far |$x:ident| $far:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($x: f32) -> f32 {
            if $x.abs() <= NEAR { $near($x) } else { $far }
        }

        slices! { $name, $all, $in_place: $near, (size_bits, NEAR.to_bits()); }
    )*};
}
circular! {
    /// The sine.
    sin, sin_all, sin_in_place: near sin_near, far |x| sine_far(x, 0) as f32;
    /// The cosine.
    cos, cos_all, cos_in_place: near cos_near, far |x| sine_far(x, 1) as f32;
    /// The tangent.
    tan, tan_all, tan_in_place: near tan_near, far |x| (sine_far(x, 0) / sine_far(x, 1)) as f32;
}

/// The arc tangent of `t` from 0 to 1.
#[inline(always)]
fn atan_unit(t: f32) -> f32 {
    let square = t * t;
    let tail = polynomial!(square;
        -0.333_333, 0.199_985_5, -0.142_642_4, 0.109_521_81, -0.084_034_37, 0.057_957_36, -0.031_177_614, 0.010_914_481,
        -0.001_793_593_9
    );
    (t * square).fused(tail, t)
}

/// `pi / 2 - angle`
#[inline(always)]
fn complement(angle: f32) -> f32 {
    FRAC_PI_2 - (angle - FRAC_PI_2_LOW)
}

/// The arc tangent.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    let size = x.abs();
    let steep = size > 1.0;
    let angle = atan_unit(if steep { 1.0 / size } else { size });
    with_sign(if steep { complement(angle) } else { angle }, x)
}

/// The angle of the point (`x`, `y`).
#[inline(always)]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (rise, run) = (y.abs(), x.abs());
    let steep = rise > run;
    let (small, large) = if steep { (run, rise) } else { (rise, run) };
    let slope = if small == large { 1.0 } else { small / large };
    let slope = if large == 0.0 { 0.0 } else { slope };
    let angle = atan_unit(slope);
    let angle = if steep { complement(angle) } else { angle };
    let angle = if x.is_sign_negative() { PI - (angle - 2.0 * FRAC_PI_2_LOW) } else { angle };
    if x.is_nan() || y.is_nan() { f32::NAN } else { with_sign(angle, y) }
}

/// The arc sine of `s`, whose square is `square`, up to 0.5.
#[inline(always)]
fn asin_small(s: f32, square: f32) -> f32 {
    let tail = polynomial!(square;
        0.166_666_6, 0.075_005_04, 0.044_516_955, 0.031_807_717, 0.014_438_604, 0.037_516_452
    );
    (s * square).fused(tail, s)
}

/// Whether |x| is above 0.5, and the arc sine of |x| if not, of the root of `(1 - |x|) / 2` if so.
#[inline(always)]
fn asin_parts(x: f32) -> (bool, f32) {
    let size = x.abs();
    let large = size > 0.5;
    let square = if large { 0.5 * (1.0 - size) } else { size * size };
    (large, asin_small(if large { sqrt(square) } else { size }, square))
}

/// The arc sine.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let (large, part) = asin_parts(x);
    with_sign(if large { complement(2.0 * part) } else { part }, x)
}

/// The arc cosine.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let (large, part) = asin_parts(x);
    let signed = with_sign(part, x);
    let beyond = if x < 0.0 { PI - (2.0 * part - 2.0 * FRAC_PI_2_LOW) } else { 2.0 * part };
    if large { beyond } else { complement(signed) }
}
