//! Elementary functions of `f32`, written so that loops over them vectorise.
//!
//! Each function widens its argument to `f64`, evaluates a polynomial good to about 1e-11 and rounds once at the end.
//! That buys three things for half the vector width: results within a hair of correctly rounded, subnormal results and
//! overflow for free (they are ordinary in `f64`), and code short enough to check by eye. There is no branch: special
//! cases are selected at the end. Functions of `f64` come from `libm`.
//!
//! [`Math`] names the functions for kernels that are generic over the compute type.
use crate::element::Float;

#[cfg(test)]
mod tests;

/// `polynomial!(x; c0, c1, ...)` is `c0 + c1 * x + ...`, written out so that nothing is left to unroll.
macro_rules! polynomial {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => { $c + $x * polynomial!($x; $($rest),+) };
}

/// Adding and subtracting this rounds to the nearest whole number, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Limits to `low..=high`; NaN stays.
#[inline(always)]
fn limit(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `x = n * ln 2 + r`: returns `2^n` and `e^r - 1`. For |x| up to 700.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let shifted = x * core::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_147_180_369_123_8 - n * 1.908_214_929_270_587_7e-10;
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let tail = polynomial!(r;
        1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0,
        1.0 / 362_880.0, 1.0 / 3_628_800.0
    );
    (power, r * tail)
}

#[inline(always)]
fn exp_wide(x: f64) -> f64 {
    let (power, rest) = exp_parts(limit(x, -700.0, 700.0));
    power + power * rest
}

#[inline(always)]
fn expm1_wide(x: f64) -> f64 {
    let (power, rest) = exp_parts(limit(x, -700.0, 700.0));
    power * rest + (power - 1.0)
}

/// The natural logarithm of `1 + f` for `f` within (-0.3, 0.42).
#[inline(always)]
fn log_near_one(f: f64) -> f64 {
    let s = f / (2.0 + f);
    let square = s * s;
    s * polynomial!(square; 2.0, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0)
}

/// `x = 2^n * m` with `m` between the roots of 1/2 and 2, for positive normal `x`.
#[inline(always)]
fn log_parts(x: f64) -> (f64, f64) {
    let root_half = core::f64::consts::FRAC_1_SQRT_2.to_bits();
    let shifted = x.to_bits().wrapping_sub(root_half);
    let n = (shifted as i64 >> 52) as f64;
    let m = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(root_half));
    (n, m)
}

/// The natural logarithm and its special cases.
#[inline(always)]
fn log_wide(x: f64) -> f64 {
    let (n, m) = log_parts(x);
    let finite = n * core::f64::consts::LN_2 + log_near_one(m - 1.0);
    let positive = if x == f64::INFINITY { x } else { finite };
    let not_negative = if x == 0.0 { f64::NEG_INFINITY } else { positive };
    if x >= 0.0 { not_negative } else { f64::NAN }
}

/// `e^x`
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    exp_wide(x.into()) as f32
}

/// `2^x`
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    exp_wide(f64::from(x) * core::f64::consts::LN_2) as f32
}

/// `e^x - 1`, without loss near zero.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    keep_zero(x, expm1_wide(x.into()))
}

/// The result, or `x` itself where that is a zero (whose sign the arithmetic loses).
#[inline(always)]
fn keep_zero(x: f32, result: f64) -> f32 {
    if x == 0.0 { x } else { result as f32 }
}

/// The natural logarithm.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    log_wide(x.into()) as f32
}

/// The natural logarithm of `1 + x`, without loss near zero.
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let wide = f64::from(x);
    let small = wide > -0.25 && wide < 0.4;
    let near = log_near_one(if small { wide } else { 0.0 });
    let far = log_wide(1.0 + wide);
    keep_zero(x, if small { near } else { far })
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    (log_wide(x.into()) * core::f64::consts::LOG2_E) as f32
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    (log_wide(x.into()) * core::f64::consts::LOG10_E) as f32
}

/// `x^y`, with the special cases of C.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let (base, exponent) = (f64::from(x), f64::from(y));
    // Beyond 2^24 every f32 is an even whole number.
    let bounded = limit(exponent, -16_777_216.0, 16_777_216.0);
    let whole = bounded as i64;
    let is_whole = whole as f64 == bounded;
    let odd = is_whole && whole & 1 == 1;
    // Infinity times a logarithm of zero must not become NaN, so both factors are finite here.
    let log = limit(log_wide(base.abs()), -1e4, 1e4);
    let magnitude = exp_wide(limit(exponent, -1e38, 1e38) * log);
    let negative = base.is_sign_negative();
    let signed = if negative && odd { -magnitude } else { magnitude };
    let defined = if base < 0.0 && !is_whole && base > f64::NEG_INFINITY { f64::NAN } else { signed };
    let minus_one = base == -1.0 && exponent.abs() == f64::INFINITY;
    (if y == 0.0 || x == 1.0 || minus_one { 1.0 } else { defined }) as f32
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let doubled = expm1_wide(limit(f64::from(x) * 2.0, -80.0, 80.0));
    keep_zero(x, doubled / (doubled + 2.0))
}

/// `1 / (1 + e^-x)`
#[inline(always)]
fn sigmoid_wide(x: f64) -> f64 {
    1.0 / (1.0 + exp_wide(-x))
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    sigmoid_wide(x.into()) as f32
}

/// `x * sigmoid(x)`
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    (f64::from(x) * sigmoid_wide(x.into())) as f32
}

/// `erf(x)` for |x| up to 1, by its series.
#[inline(always)]
fn erf_small(x: f64) -> f64 {
    let square = x * x;
    x * polynomial!(square;
        core::f64::consts::FRAC_2_SQRT_PI, -0.376_126_389_031_837_54, 0.112_837_916_709_551_26,
        -0.026_866_170_645_131_252, 0.005_223_977_625_442_188, -0.000_854_832_702_345_085_3,
        0.000_120_553_329_817_896_64, -1.492_565_035_840_625e-5, 1.646_211_436_588_924_7e-6,
        -1.636_584_469_123_492_4e-7, 1.480_719_281_587_921_7e-8, -1.229_055_530_171_792_7e-9,
        9.422_759_064_650_411e-11
    )
}

/// `1 - erf(z)` for `z` of at least 1: `e^(-z^2)` times a polynomial in `1 / (1 + z / 2)`, fitted up to 10.5.
#[inline(always)]
fn erfc_large(z: f64) -> f64 {
    let z = if z > 10.5 { 10.5 } else { z };
    let t = 1.0 / (1.0 + 0.5 * z);
    exp_wide(-z * z)
        * t
        * polynomial!(t;
            0.282_095_200_426_457_26, 0.282_080_319_514_296_9, 0.247_059_471_043_097_4, 0.174_247_713_747_484_08,
            0.095_792_089_876_348_49, -0.051_281_849_273_742_57, 0.063_990_224_954_730_38,
            -0.245_485_026_791_390_15, 0.135_642_987_490_931_63, 0.123_847_022_607_376_7, -0.154_270_535_589_766_34,
            0.046_341_775_826_521_99
        )
}

/// The error function.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let (wide, size) = (f64::from(x), f64::from(x.abs()));
    // Both are computed everywhere; where one does not hold the other is selected.
    let small = erf_small(wide);
    let large = 1.0 - erfc_large(size);
    let signed = if wide < 0.0 { -large } else { large };
    // NaN fails the comparison and is passed on by `signed`.
    keep_zero(x, if size < 1.0 { small } else { signed })
}

/// The Gaussian error linear unit, `x * P(normal <= x)`.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let wide = f64::from(x);
    let z = wide * core::f64::consts::FRAC_1_SQRT_2;
    let size = z.abs();
    let near = 1.0 + erf_small(z);
    let tail = erfc_large(size);
    let far = if z < 0.0 { tail } else { 2.0 - tail };
    let share = if size < 1.0 { near } else { far };
    (0.5 * wide * share) as f32
}

/// [`gelu`] approximated by a hyperbolic tangent, as some models were trained.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let wide = f64::from(x);
    let inner = 0.797_884_560_802_865_4 * (wide + 0.044715 * wide * wide * wide);
    (wide * sigmoid_wide(2.0 * inner)) as f32
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
fn quadrant(x: f32) -> (u64, f64) {
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

/// The sine at `quarters` of a turn further.
#[inline(always)]
fn sine(x: f32, quarters: u64) -> f64 {
    let (quarter, r) = quadrant(x);
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

/// The sine.
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    sine(x, 0) as f32
}

/// The cosine.
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    sine(x, 1) as f32
}

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
    floor => libm::floorf, |x| libm::floor(x);
    /// The smallest whole number not below.
    ceil => libm::ceilf, |x| libm::ceil(x);
    /// The whole part.
    trunc => libm::truncf, |x| libm::trunc(x);
    /// The nearest whole number, ties to even.
    round => libm::rintf, |x| libm::rint(x);
}

/// The square root.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    libm::sqrtf(x)
}

#[inline(always)]
fn sqrt_wide(x: f64) -> f64 {
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    libm::sqrt(x)
}
