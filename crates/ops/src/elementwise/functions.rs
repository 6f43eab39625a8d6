//! Rare functions of one, two or three numbers.
//!
//! Unlike their neighbours, which are compiled as loops, these are called through a pointer for every element and compute
//! in `f64` (whole numbers in `i64`), so that a row costs its function and nothing else. The result is rounded once, to
//! the output's type.
use super::binary::{source, two, two_of_type};
use super::{Source, each1, each2, each3, run};
use crate::operands::broadcast_sizes;
use crate::ops;
use crate::typed::unsupported;
use core::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};
use libm::{erfc, exp, exp2, expm1, log, log1p, tanh};
use sconce_core::{Call, Fault, Op, Scalar, ScalarType, Tensor};
use sconce_kernels::{Bool, special};

/// Rare functions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::erfc.out" [3] writes [1] => |call| one(call, 1, &erfc);
    "aten::erfinv.out" [3] writes [1] => |call| one(call, 1, &special::erfinv);
    "aten::exp2.out" [3] writes [1] => |call| one(call, 1, &exp2);
    "aten::lgamma.out" [3] writes [1] => |call| one(call, 1, &libm::lgamma);
    "aten::digamma.out" [3] writes [1] => |call| one(call, 1, &special::digamma);
    "aten::polygamma.out" [4] writes [2] => polygamma;
    "aten::i0.out" [3] writes [1] => |call| one(call, 1, &special::i0);
    "aten::sinc.out" [3] writes [1] => |call| one(call, 1, &sinc);
    "aten::special_i0e.out" [3] writes [1] => |call| one(call, 1, &special::i0e);
    "aten::special_i1.out" [3] writes [1] => |call| one(call, 1, &special::i1);
    "aten::special_i1e.out" [3] writes [1] => |call| one(call, 1, &special::i1e);
    "aten::special_bessel_j0.out" [3] writes [1] => |call| one(call, 1, &|x| bessel(libm::j0, x));
    "aten::special_bessel_j1.out" [3] writes [1] => |call| one(call, 1, &|x| bessel(libm::j1, x));
    "aten::special_bessel_y0.out" [3] writes [1] => |call| one(call, 1, &|x| bessel(libm::y0, x));
    "aten::special_bessel_y1.out" [3] writes [1] => |call| one(call, 1, &|x| bessel(libm::y1, x));
    "aten::special_entr.out" [3] writes [1] => |call| one(call, 1, &entropy);
    "aten::special_erfcx.out" [3] writes [1] => |call| one(call, 1, &special::erfcx);
    "aten::special_ndtr.out" [3] writes [1] => |call| one(call, 1, &|x| erfc(-x * FRAC_1_SQRT_2) / 2.0);
    "aten::special_ndtri.out" [3] writes [1] => |call| one(call, 1, &special::ndtri);
    "aten::special_log_ndtr.out" [3] writes [1] => |call| one(call, 1, &log_ndtr);
    "aten::silu.out" [3] writes [1] => |call| one(call, 1, &|x| x / (1.0 + exp(-x)));
    "aten::mish.out" [3] writes [1] => |call| one(call, 1, &|x| x * tanh(softplus(x)));
    "aten::hardsigmoid.out" [3] writes [1] => |call| one(call, 1, &|x| limited(x + 3.0, 0.0, 6.0) / 6.0);
    "aten::hardswish.out" [3] writes [1] => |call| one(call, 1, &|x| x * limited(x + 3.0, 0.0, 6.0) / 6.0);
    "aten::log_sigmoid_forward.output" [4] writes [1, 2] => log_sigmoid;
    "aten::softplus.out" [5] writes [3] => scaled_softplus;
    "aten::threshold.out" [5] writes [3] => threshold;
    "aten::softshrink.out" [4] writes [2] => |call| {
        let by = call.scalar(1)?.to_f64();
        one(call, 2, &|x| if x > by { x - by } else if x < -by { x + by } else { x * 0.0 })
    };
    "aten::hardshrink.out" [4] writes [2] => |call| {
        let by = call.scalar(1)?.to_f64();
        one(call, 2, &|x| if (-by..=by).contains(&x) { 0.0 } else { x })
    };
    "aten::celu.out" [4] writes [2] => |call| {
        let alpha = call.scalar(1)?.to_f64();
        one(call, 2, &|x| if x > 0.0 { x } else { alpha * expm1(x / alpha) })
    };
    "aten::selu.out" [3] writes [1] => |call| {
        one(call, 1, &|x| 1.050_700_987_355_480_5 * if x > 0.0 { x } else { 1.673_263_242_354_377_2 * expm1(x) })
    };
    "aten::deg2rad.out" [3] writes [1] => |call| one(call, 1, &|x| x * (PI / 180.0));
    "aten::rad2deg.out" [3] writes [1] => |call| one(call, 1, &|x| x * (180.0 / PI));
    "aten::nan_to_num.out" [6] writes [4] => nan_to_num;
    "aten::frexp.Tensor_out" [4] writes [1, 2] => frexp;
    "aten::signbit.out" [3] writes [1] => |call| question(call, &|x| x.is_sign_negative());
    "aten::isposinf.out" [3] writes [1] => |call| question(call, &|x| x == f64::INFINITY);
    "aten::isneginf.out" [3] writes [1] => |call| question(call, &|x| x == f64::NEG_INFINITY);

    "aten::_prelu_kernel.out" [4] writes [2] => |call| both(call, &|x, slope| if x > 0.0 { x } else { x * slope });
    "aten::hypot.out" [4] writes [2] => |call| both(call, &libm::hypot);
    "aten::copysign.out" [4] writes [2] => |call| both(call, &libm::copysign);
    "aten::copysign.Scalar_out" [4] writes [2] => |call| both(call, &libm::copysign);
    "aten::ldexp.out" [4] writes [2] => |call| both(call, &|x, exponent| x * exp2(exponent));
    "aten::logaddexp.out" [4] writes [2] => |call| both(call, &log_add_exp);
    "aten::logaddexp2.out" [4] writes [2] => |call| both(call, &|a, b| log_add_exp(a * LN_2, b * LN_2) / LN_2);
    "aten::xlogy.OutTensor" [4] writes [2] => |call| both(call, &|x, y| times_log(x, y, log));
    "aten::xlogy.OutScalar_Self" [4] writes [2] => |call| both(call, &|x, y| times_log(x, y, log));
    "aten::xlogy.OutScalar_Other" [4] writes [2] => |call| both(call, &|x, y| times_log(x, y, log));
    "aten::special_xlog1py.out" [4] writes [2] => |call| both(call, &|x, y| times_log(x, y, log1p));
    "aten::special_zeta.out" [4] writes [2] => |call| both(call, &special::zeta);
    "aten::special_zeta.self_scalar_out" [4] writes [2] => |call| both(call, &special::zeta);
    "aten::special_zeta.other_scalar_out" [4] writes [2] => |call| both(call, &special::zeta);
    "aten::igamma.out" [4] writes [2] => |call| both(call, &special::igamma);
    "aten::igammac.out" [4] writes [2] => |call| both(call, &special::igammac);
    "aten::nextafter.out" [4] writes [2] => nextafter;
    "aten::gcd.out" [4] writes [2] => |call| whole(call, &gcd);
    "aten::lcm.out" [4] writes [2] => |call| whole(call, &lcm);

    "aten::lerp.Scalar_out" [5] writes [3] => lerp;
    "aten::lerp.Tensor_out" [5] writes [3] => lerp;
    "aten::addcmul.out" [6] writes [4] => |call| three(call, &|x, a, b, value| x + value * a * b);
    "aten::addcdiv.out" [6] writes [4] => |call| three(call, &|x, a, b, value| x + value * (a / b));
};

/// Applies a function of a real number.
pub(super) fn one(call: &mut Call<'_>, out: usize, f: &(dyn Fn(f64) -> f64 + Sync)) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let target = call.out(out, x.sizes())?;
    run(call.parallel(), [Source::Tensor(x)], out, target, |x, out: &mut [f64]| each1(x, out, f))
}

/// Asks something of a number.
fn question(call: &mut Call<'_>, f: &(dyn Fn(f64) -> bool + Sync)) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let target = call.out(1, x.sizes())?;
    run(call.parallel(), [Source::Tensor(x)], 1, target, |x, out: &mut [Bool]| each1(x, out, |x: f64| f(x).into()))
}

/// Applies a function of two real numbers to arguments 0 and 1, either of which may be a number.
pub(super) fn both(call: &mut Call<'_>, f: &(dyn Fn(f64, f64) -> f64 + Sync)) -> Result<(), Fault> {
    let (sources, _, out) = two(call, [0, 1], 2)?;
    run(call.parallel(), sources, 2, out, |x, out: &mut [f64]| each2(x, out, f))
}

/// Applies a function of two whole numbers.
fn whole(call: &mut Call<'_>, f: &(dyn Fn(i64, i64) -> i64 + Sync)) -> Result<(), Fault> {
    let (sources, dtype, out) = two_of_type(call, [0, 1], 2)?;
    if !dtype.is_integral(false) {
        return Err(unsupported(0, dtype));
    }
    run(call.parallel(), sources, 2, out, |x, out: &mut [i64]| each2(x, out, f))
}

fn polygamma(call: &mut Call<'_>) -> Result<(), Fault> {
    let order = call.int(0)?;
    if order < 0 {
        return Err(Fault::argument(0, "there is no derivative {}").with_signed([order]));
    }
    let x = call.tensor(1)?;
    let out = call.out(2, x.sizes())?;
    let derivative = |x: f64| special::polygamma(order, x);
    run(call.parallel(), [Source::Tensor(x)], 2, out, |x, out: &mut [f64]| each1(x, out, derivative))
}

fn limited(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

fn softplus(x: f64) -> f64 {
    if x > 20.0 { x } else { log1p(exp(x)) }
}

fn scaled_softplus(call: &mut Call<'_>) -> Result<(), Fault> {
    let [beta, threshold] = [call.scalar(1)?, call.scalar(2)?].map(Scalar::to_f64);
    one(call, 3, &|x| if x * beta > threshold { x } else { log1p(exp(x * beta)) / beta })
}

/// Keeps what exceeds argument 1 and replaces the rest by argument 2; whole numbers stay exact.
fn threshold(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (limit, other) = (call.scalar(1)?, call.scalar(2)?);
    if x.dtype.is_floating() {
        let (limit, other) = (limit.to_f64(), other.to_f64());
        return one(call, 3, &|x| if x <= limit { other } else { x });
    }
    let (limit, other) = (limit.to_i64(), other.to_i64());
    let out = call.out(3, x.sizes())?;
    let choose = |x: i64| if x <= limit { other } else { x };
    run(call.parallel(), [Source::Tensor(x)], 3, out, |x, out: &mut [i64]| each1(x, out, choose))
}

/// The logarithm of the logistic function. The second output serves only a gradient and stays empty.
fn log_sigmoid(call: &mut Call<'_>) -> Result<(), Fault> {
    one(call, 1, &|x| x.min(0.0) - log1p(exp(-x.abs())))?;
    call.out(2, &[0]).map(drop)
}

/// A Bessel function, which PyTorch does not continue to infinity.
fn bessel(f: fn(f64) -> f64, x: f64) -> f64 {
    if x.is_finite() { f(x) } else { f64::NAN }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { libm::sin(PI * x) / (PI * x) }
}

/// `-x log x`
fn entropy(x: f64) -> f64 {
    match x {
        x if x.is_nan() => x,
        x if x > 0.0 => -x * log(x),
        0.0 => 0.0,
        _ => f64::NEG_INFINITY,
    }
}

fn log_ndtr(x: f64) -> f64 {
    let scaled = x * FRAC_1_SQRT_2;
    if x < -1.0 { log(special::erfcx(-scaled) / 2.0) - scaled * scaled } else { log1p(-erfc(scaled) / 2.0) }
}

/// Arguments 1 to 3 stand for NaN, infinity and minus infinity; an absent one is 0 or the type's largest or lowest number.
fn nan_to_num(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let largest = match x.dtype {
        ScalarType::Double => f64::MAX,
        ScalarType::Half => 65504.0,
        ScalarType::BFloat16 => half::bf16::MAX.to_f64(),
        ScalarType::Float => f32::MAX.into(),
        _ => return copy_whole(call, x),
    };
    let given = |argument| call.optional(argument, |args, i| args.double(i));
    let (nan, high, low) = (given(1)?.unwrap_or(0.0), given(2)?.unwrap_or(largest), given(3)?.unwrap_or(-largest));
    one(call, 4, &|x| match x {
        f64::INFINITY => high,
        f64::NEG_INFINITY => low,
        x if x.is_nan() => nan,
        x => x,
    })
}

fn copy_whole(call: &mut Call<'_>, x: Tensor<'_>) -> Result<(), Fault> {
    let out = call.out(4, x.sizes())?;
    run(call.parallel(), [Source::Tensor(x)], 4, out, |x, out: &mut [i64]| each1(x, out, |x: i64| x))
}

/// Fraction and exponent of two.
fn frexp(call: &mut Call<'_>) -> Result<(), Fault> {
    one(call, 1, &|x| libm::frexp(x).0)?;
    let x = call.tensor(0)?;
    let out = call.out(2, x.sizes())?;
    let exponent = |x: f64| if x.is_finite() { i64::from(libm::frexp(x).1) } else { 0 };
    run(call.parallel(), [Source::Tensor(x)], 2, out, |x, out: &mut [i64]| each1(x, out, exponent))
}

/// `log(exp a + exp b)`
pub(crate) fn log_add_exp(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a == b {
        return a;
    }
    let larger = if a > b || a.is_nan() { a } else { b };
    larger + log1p(exp(-(a - b).abs()))
}

/// `x log y`, which is zero wherever `x` is and `y` is a number.
fn times_log(x: f64, y: f64, log: fn(f64) -> f64) -> f64 {
    if x == 0.0 && !y.is_nan() { 0.0 } else { x * log(y) }
}

/// The next number of the operands' type towards the second.
fn nextafter(call: &mut Call<'_>) -> Result<(), Fault> {
    let (sources, dtype, out) = two(call, [0, 1], 2)?;
    let step = |x: f64, to: f64| match dtype {
        ScalarType::Double => libm::nextafter(x, to),
        ScalarType::Float => libm::nextafterf(x as f32, to as f32).into(),
        ScalarType::Half => {
            next_short(x, to, |bits| half::f16::from_bits(bits).to_f64(), half::f16::from_f64(x).to_bits())
        }
        _ => next_short(x, to, |bits| half::bf16::from_bits(bits).to_f64(), half::bf16::from_f64(x).to_bits()),
    };
    if !dtype.is_floating() {
        return Err(unsupported(0, dtype));
    }
    run(call.parallel(), sources, 2, out, |x, out: &mut [f64]| each2(x, out, step))
}

/// The next number of 16 bits after `x`, whose bits are given: those of one sign are ordered as the numbers are.
fn next_short(x: f64, to: f64, number: fn(u16) -> f64, bits: u16) -> f64 {
    if x.is_nan() || to.is_nan() {
        return f64::NAN;
    }
    if x == to {
        return to;
    }
    if x == 0.0 {
        return number(1).copysign(to);
    }
    number(if (to > x) == (x > 0.0) { bits + 1 } else { bits - 1 })
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

fn lcm(a: i64, b: i64) -> i64 {
    a.checked_div(gcd(a, b)).map_or(0, |part| part.wrapping_mul(b).wrapping_abs())
}

/// The common output of arguments 0 to 2, the last of which may be a number.
fn lerp(call: &mut Call<'_>) -> Result<(), Fault> {
    let sources = [source(call, 0)?, source(call, 1)?, source(call, 2)?];
    let out = call.out(3, &broadcast_sizes(sources.map(|source| source.shape()).each_ref())?)?;
    let between = |start: f64, end: f64, weight: f64| {
        if weight.abs() < 0.5 { start + weight * (end - start) } else { end - (end - start) * (1.0 - weight) }
    };
    run(call.parallel(), sources, 3, out, |x, out: &mut [f64]| each3(x, out, between))
}

/// Applies a function of three tensors and the number in argument 3.
fn three(call: &mut Call<'_>, f: &(dyn Fn(f64, f64, f64, f64) -> f64 + Sync)) -> Result<(), Fault> {
    let sources = [source(call, 0)?, source(call, 1)?, source(call, 2)?];
    let value = call.scalar(3)?.to_f64();
    let out = call.out(4, &broadcast_sizes(sources.map(|source| source.shape()).each_ref())?)?;
    run(call.parallel(), sources, 4, out, |x, out: &mut [f64]| each3(x, out, |x, a, b| f(x, a, b, value)))
}
