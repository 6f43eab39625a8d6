//! Functions of one number.
//!
//! A row of `real` is a function of real numbers: integers become float32 first. A row of `number` keeps its type and
//! has a body for integers and one for floating-point numbers. A row of `test` answers a truth value.
use super::{Source, compute, each1, run};
use crate::complex;
use crate::complex_functions::{self as of_complex, either};
use crate::ops;
use crate::real::Real;
use sconce_core::{Call, Fault, Op, Scalar};
use sconce_kernels::{Bool, Number, math};
use sconce_schema::to_floating;

/// A function of real numbers; bodies see `$R`, the type that computes.
macro_rules! real {
    ($out:literal, |$x:ident: $R:ident| $body:expr) => {
        |call| real!(@run call, $out, |$x: $R| $body)
    };
    (@run $call:expr, $out:literal, |$x:ident: $R:ident| $body:expr) => {{
        let x = $call.tensor(0)?;
        let (sources, out) = ([Source::Tensor(x)], $call.out($out, x.sizes())?);
        match to_floating(x.dtype) {
            sconce_core::ScalarType::Double => {
                type $R = f64;
                run($call.parallel(), sources, $out, out, #[inline(always)] |x, out| each1(x, out, #[inline(always)] |$x: $R| -> $R { $body }))
            }
            _ => {
                type $R = f32;
                run($call.parallel(), sources, $out, out, #[inline(always)] |x, out| each1(x, out, #[inline(always)] |$x: $R| -> $R { $body }))
            }
        }
    }};
}

/// A function of real numbers that has a form for slices of `f32`.
macro_rules! real_slices {
    ($all:path, $wide:expr) => {
        |call| {
            let x = call.tensor(0)?;
            let (sources, out) = ([Source::Tensor(x)], call.out(1, x.sizes())?);
            match to_floating(x.dtype) {
                sconce_core::ScalarType::Double => run(call.parallel(), sources, 1, out, |x, out| each1(x, out, $wide)),
                _ => run(
                    call.parallel(),
                    sources,
                    1,
                    out,
                    #[inline(always)]
                    |[x], out| $all(x, out),
                ),
            }
        }
    };
}

/// A function that keeps the type.
macro_rules! number {
    ($out:literal, int |$i:ident| $int:expr, real |$x:ident| $real:expr) => {
        |call| {
            let x = call.tensor(0)?;
            let out = call.out($out, x.sizes())?;
            let (parallel, sources) = (call.parallel(), [Source::Tensor(x)]);
            match x.dtype {
                sconce_core::ScalarType::Double => run(
                    parallel,
                    sources,
                    $out,
                    out,
                    #[inline(always)]
                    |x, out| {
                        each1(
                            x,
                            out,
                            #[inline(always)]
                            |$x: f64| $real,
                        )
                    },
                ),
                dtype if dtype.is_floating() => run(
                    parallel,
                    sources,
                    $out,
                    out,
                    #[inline(always)]
                    |x, out| {
                        each1(
                            x,
                            out,
                            #[inline(always)]
                            |$x: f32| $real,
                        )
                    },
                ),
                _ => run(
                    parallel,
                    sources,
                    $out,
                    out,
                    #[inline(always)]
                    |x, out| {
                        each1(
                            x,
                            out,
                            #[inline(always)]
                            |$i: i64| -> i64 { $int },
                        )
                    },
                ),
            }
        }
    };
}

/// A question about a number.
macro_rules! test {
    (|$x:ident: $C:ident| $body:expr, complex $of_parts:expr) => {
        |call| {
            let x = call.tensor(0)?;
            let out = call.out(1, x.sizes())?;
            let parallel = call.parallel();
            if x.dtype.is_complex() {
                let f = |[x]: [complex::Number; 1]| complex::truth($of_parts(x.re, x.im));
                return complex::combine(parallel, [Source::Tensor(x)], 1, out, f);
            }
            compute!(x.dtype, 0, $C => {
                run(parallel, [Source::Tensor(x)], 1, out, #[inline(always)] |x, out| each1(x, out, #[inline(always)] |$x: $C| -> Bool { Bool::from($body) }))
            })
        }
    };
}

/// Element-wise functions of one tensor.
pub(crate) static OPS: &[Op] = ops! {
    "aten::abs.out" [3] writes [1] => |call| either(call, complex::length, number!(1, int |i| i.wrapping_abs(), real |x| x.abs()));
    "aten::neg.out" [3] writes [1] => |call| either(call, |x| complex::scale(x, -1.0), number!(1, int |i| i.wrapping_neg(), real |x| -x));
    "aten::relu.out" [3] writes [1] => number!(1, int |i| i.max(0), real |x| if x < 0.0 { 0.0 } else { x });
    "aten::sign.out" [3] writes [1] => number!(1, int |i| i.signum(), real |x| sign(x));
    "aten::ceil.out" [3] writes [1] => number!(1, int |i| i, real |x| Real::ceil(x));
    "aten::floor.out" [3] writes [1] => number!(1, int |i| i, real |x| Real::floor(x));
    "aten::round.out" [3] writes [1] => number!(1, int |i| i, real |x| Real::round_ties_even(x));
    "aten::round.decimals_out" [4] writes [2] => round_decimals;
    "aten::trunc.out" [3] writes [1] => number!(1, int |i| i, real |x| Real::trunc(x));
    "aten::frac.out" [3] writes [1] => real!(1, |x: R| x - Real::trunc(x));
    "aten::square.out" [3] writes [1] => |call| either(call, of_complex::square, number!(1, int |i| i.wrapping_mul(i), real |x| x * x));
    "aten::sgn.out" [3] writes [1] => |call| either(call, of_complex::sign, number!(1, int |i| i.signum(), real |x| sign(x)));
    "aten::exp.out" [3] writes [1] => |call| either(call, of_complex::exp, real_slices!(math::exp_all, libm::exp));
    "aten::expm1.out" [3] writes [1] => real!(1, |x: R| Real::expm1(x));
    "aten::log.out" [3] writes [1] => |call| either(call, of_complex::log, real_slices!(math::log_all, libm::log));
    "aten::log1p.out" [3] writes [1] => real!(1, |x: R| Real::log1p(x));
    "aten::log2.out" [3] writes [1] => |call| either(call, of_complex::log2, real!(1, |x: R| Real::log2(x)));
    "aten::log10.out" [3] writes [1] => |call| either(call, of_complex::log10, real!(1, |x: R| Real::log10(x)));
    "aten::sqrt.out" [3] writes [1] => |call| either(call, of_complex::sqrt, real!(1, |x: R| Real::sqrt(x)));
    "aten::rsqrt.out" [3] writes [1] => |call| either(call, of_complex::rsqrt, real!(1, |x: R| 1.0 / Real::sqrt(x)));
    "aten::reciprocal.out" [3] writes [1] => |call| either(call, of_complex::reciprocal, real!(1, |x: R| 1.0 / x));
    "aten::sin.out" [3] writes [1] => |call| either(call, of_complex::sin, real_slices!(math::sin_all, libm::sin));
    "aten::cos.out" [3] writes [1] => |call| either(call, of_complex::cos, real_slices!(math::cos_all, libm::cos));
    "aten::tan.out" [3] writes [1] => |call| either(call, of_complex::tan, real_slices!(math::tan_all, libm::tan));
    "aten::asin.out" [3] writes [1] => real!(1, |x: R| Real::asin(x));
    "aten::acos.out" [3] writes [1] => real!(1, |x: R| Real::acos(x));
    "aten::atan.out" [3] writes [1] => real!(1, |x: R| Real::atan(x));
    "aten::sinh.out" [3] writes [1] => |call| either(call, of_complex::sinh, real!(1, |x: R| Real::sinh(x)));
    "aten::cosh.out" [3] writes [1] => |call| either(call, of_complex::cosh, real!(1, |x: R| Real::cosh(x)));
    "aten::tanh.out" [3] writes [1] => |call| either(call, of_complex::tanh, real_slices!(math::tanh_all, libm::tanh));
    "aten::asinh.out" [3] writes [1] => real!(1, |x: R| Real::asinh(x));
    "aten::acosh.out" [3] writes [1] => real!(1, |x: R| Real::acosh(x));
    "aten::atanh.out" [3] writes [1] => real!(1, |x: R| Real::atanh(x));
    "aten::erf.out" [3] writes [1] => real!(1, |x: R| Real::erf(x));
    "aten::sigmoid.out" [3] writes [1] => |call| either(call, of_complex::sigmoid, real_slices!(math::sigmoid_all, <f64 as math::Math>::sigmoid));
    "aten::gelu.out" [4] writes [2] => gelu;
    "aten::leaky_relu.out" [4] writes [2] => leaky_relu;
    "aten::elu.out" [6] writes [4] => elu;
    "aten::logit.out" [4] writes [2] => logit;
    "aten::clamp.out" [5] writes [3] => |call| clamp(call, Some(1), Some(2), 3);
    "aten::clamp_min.out" [4] writes [2] => |call| clamp(call, Some(1), None, 2);
    "aten::clamp_max.out" [4] writes [2] => |call| clamp(call, None, Some(1), 2);
    "aten::hardtanh.out" [5] writes [3] => |call| clamp(call, Some(1), Some(2), 3);
    "aten::isnan.out" [3] writes [1] => test!(|x: C| Number::is_nan(x), complex |re: f64, im: f64| re.is_nan() || im.is_nan());
    "aten::isinf.out" [3] writes [1] => test!(|x: C| !C::INTEGER && (x == C::HIGHEST || x == C::LOWEST), complex |re: f64, im: f64| re.is_infinite() || im.is_infinite());
    "aten::logical_not.out" [3] writes [1] => test!(|x: C| x == C::ZERO, complex |re, im| re == 0.0 && im == 0.0);
    "aten::bitwise_not.out" [3] writes [1] => bitwise_not;
};

/// NaN has no sign either.
fn sign<R: Real>(x: R) -> R {
    if x > R::ZERO {
        R::ONE
    } else if x < R::ZERO {
        -R::ONE
    } else {
        R::ZERO
    }
}

fn gelu(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.str(1)? {
        "none" => real!(@run call, 2, |x: R| math::Math::gelu(x)),
        "tanh" => real!(@run call, 2, |x: R| math::Math::gelu_tanh(x)),
        _ => Err(Fault::argument(1, "approximate must be `none` or `tanh`")),
    }
}

/// Rounds to a number of decimal digits, as PyTorch by scaling in the type itself.
fn round_decimals(call: &mut Call<'_>) -> Result<(), Fault> {
    let decimals = call.int(1)?;
    let scale = libm::pow(10.0, decimals.unsigned_abs() as f64);
    real!(@run call, 2, |x: R| {
        let scale = scale as R;
        if decimals < 0 { Real::round_ties_even(x / scale) * scale } else { Real::round_ties_even(x * scale) / scale }
    })
}

fn leaky_relu(call: &mut Call<'_>) -> Result<(), Fault> {
    let slope = call.scalar(1)?.to_f64();
    real!(@run call, 2, |x: R| if x > 0.0 { x } else { x * slope as R })
}

fn elu(call: &mut Call<'_>) -> Result<(), Fault> {
    let [alpha, scale, input_scale] = [call.scalar(1)?, call.scalar(2)?, call.scalar(3)?].map(Scalar::to_f64);
    real!(@run call, 4, |x: R| {
        if x <= 0.0 {
            Real::expm1(x * input_scale as R) * (alpha * scale) as R
        } else {
            x * scale as R
        }
    })
}

fn logit(call: &mut Call<'_>) -> Result<(), Fault> {
    let eps = call.optional(1, |args, i| args.double(i))?.filter(|&eps| eps >= 0.0);
    real!(@run call, 2, |x: R| {
        // From 0.5 on the limits cross; the lower one comes first.
        let x = match eps {
            Some(eps) if x < eps as R => eps as R,
            Some(eps) if x > 1.0 - eps as R => 1.0 - eps as R,
            _ => x,
        };
        Real::log(x / (1.0 - x))
    })
}

/// Limits to the numbers in two arguments, either of which may be absent. The result has the promoted type.
fn clamp(call: &mut Call<'_>, low: Option<usize>, high: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let bound = |argument: Option<usize>| match argument {
        Some(argument) => call.optional(argument, |args, i| args.scalar(i)),
        None => Ok(None),
    };
    let (low, high) = (bound(low)?, bound(high)?);
    let target = call.out(out, x.sizes())?;
    let mut dtype = x.dtype;
    for bound in [low, high].into_iter().flatten() {
        let operands = [Source::Tensor(x).operand(), Source::Scalar(bound).operand()];
        let promoted = sconce_schema::promote(&operands).unwrap_or(dtype);
        dtype = if promoted.is_floating() && !dtype.is_floating() { promoted } else { dtype };
    }
    let parallel = call.parallel();
    compute!(dtype, 0, C => {
        let bound = |scalar: Option<Scalar>, open: C| {
            scalar.map_or(open, |s| if C::INTEGER { C::from_i64(s.to_i64()) } else { C::from_f64(s.to_f64()) })
        };
        let (low, high) = (bound(low, C::LOWEST), bound(high, C::HIGHEST));
        run(parallel, [Source::Tensor(x)], out, target, #[inline(always)] |x, out| each1(x, out, #[inline(always)] |x: C| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        }))
    })
}

fn bitwise_not(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let out = call.out(1, x.sizes())?;
    let parallel = call.parallel();
    match x.dtype {
        sconce_core::ScalarType::Bool => run(
            parallel,
            [Source::Tensor(x)],
            1,
            out,
            #[inline(always)]
            |x, out| {
                each1(
                    x,
                    out,
                    #[inline(always)]
                    |x: i64| Bool::from(x == 0),
                )
            },
        ),
        dtype if dtype.is_integral(false) => run(
            parallel,
            [Source::Tensor(x)],
            1,
            out,
            #[inline(always)]
            |x, out| {
                each1(
                    x,
                    out,
                    #[inline(always)]
                    |x: i64| !x,
                )
            },
        ),
        other => Err(crate::typed::unsupported(0, other)),
    }
}
