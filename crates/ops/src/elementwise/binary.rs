//! Arithmetic with two operands: tensors, or a tensor and a number.
//!
//! A row has a body for integers and one for floating-point numbers; types are promoted, shapes broadcast.
use super::{Source, each2, run};
use crate::complex::{self, is_complex};
use crate::complex_functions;
use crate::operands::broadcast_sizes;
use crate::ops;
use crate::real::Real;
use sconce_core::{Call, Code, Fault, Op, Scalar, ScalarType, TensorMut};
use sconce_schema::{promote, to_floating};

/// An argument that is a tensor or a number.
pub(crate) fn source<'c>(call: &Call<'c>, argument: usize) -> Result<Source<'c>, Fault> {
    match call.scalar(argument) {
        Ok(scalar) => Ok(Source::Scalar(scalar)),
        Err(_) => call.tensor(argument).map(Source::Tensor),
    }
}

/// Two operands, their promoted type and the output they broadcast to.
pub(crate) fn two<'c>(
    call: &mut Call<'c>,
    operands: [usize; 2],
    out: usize,
) -> Result<([Source<'c>; 2], ScalarType, TensorMut<'c>), Fault> {
    let sources = [source(call, operands[0])?, source(call, operands[1])?];
    let dtype = promote(&sources.map(|source| source.operand()))
        .ok_or(Fault::new(Code::NotSupported, "the types of the operands have no common type"))?;
    let sizes = broadcast_sizes(sources.map(|source| source.shape()).each_ref())?;
    let out = call.out(out, &sizes)?;
    Ok((sources, dtype, out))
}

/// [`two`] for operators that compute in the promoted type, to which numbers are converted too.
pub(crate) fn two_of_type<'c>(
    call: &mut Call<'c>,
    operands: [usize; 2],
    out: usize,
) -> Result<([Source<'c>; 2], ScalarType, TensorMut<'c>), Fault> {
    let (sources, dtype, out) = two(call, operands, out)?;
    Ok((sources.map(|source| within(source, dtype)), dtype, out))
}

/// A number as an element of the type in which it meets tensors; one that is too large for it wraps around.
fn within(source: Source<'_>, dtype: ScalarType) -> Source<'_> {
    let Source::Scalar(Scalar::Int(value)) = source else { return source };
    Source::Scalar(Scalar::Int(match dtype {
        ScalarType::Byte => (value as u8).into(),
        ScalarType::Char => (value as i8).into(),
        ScalarType::Short => (value as i16).into(),
        ScalarType::Int => (value as i32).into(),
        _ => value,
    }))
}

/// Runs a body for integers or one for floating-point numbers on operands of a type.
macro_rules! arithmetic {
    ($call:expr, $operands:expr => $out:expr, |$a:ident, $b:ident| int $int:expr, real<$R:ident> $real:expr) => {{
        let (sources, dtype, out) = two_of_type($call, $operands, $out)?;
        arithmetic!(@run $call, sources, dtype, out, $out, |$a, $b| int $int, real<$R> $real)
    }};
    (@run $call:expr, $sources:expr, $dtype:expr, $target:expr, $out:expr,
     |$a:ident, $b:ident| int $int:expr, real<$R:ident> $real:expr) => {{
        let parallel = $call.parallel();
        match $dtype {
            ScalarType::Double => {
                type $R = f64;
                run(parallel, $sources, $out, $target, #[inline(always)] |x, out| each2(x, out, #[inline(always)] |$a: $R, $b: $R| -> $R { $real }))
            }
            dtype if dtype.is_floating() => {
                type $R = f32;
                run(parallel, $sources, $out, $target, #[inline(always)] |x, out| each2(x, out, #[inline(always)] |$a: $R, $b: $R| -> $R { $real }))
            }
            dtype if dtype.is_integral(true) => {
                run(parallel, $sources, $out, $target, #[inline(always)] |x, out| each2(x, out, #[inline(always)] |$a: i64, $b: i64| -> i64 { $int }))
            }
            other => Err(crate::typed::unsupported(0, other)),
        }
    }};
}

/// The rows of operators without further arguments.
macro_rules! simple {
    (|$a:ident, $b:ident| int $int:expr, real<$R:ident> $real:expr) => {
        |call| arithmetic!(call, [0, 1] => 2, |$a, $b| int $int, real<$R> $real)
    };
}

/// Arithmetic with two operands.
pub(crate) static OPS: &[Op] = ops! {
    "aten::add.out" [5] writes [3] => |call| add(call, 1.0);
    "aten::add.Scalar_out" [5] writes [3] => |call| add(call, 1.0);
    "aten::sub.out" [5] writes [3] => |call| add(call, -1.0);
    "aten::sub.Scalar_out" [5] writes [3] => |call| add(call, -1.0);
    "aten::rsub.Scalar_out" [5] writes [3] => rsub;
    "aten::rsub.Tensor_out" [5] writes [3] => rsub;
    "aten::mul.out" [4] writes [2] => multiply;
    "aten::mul.Scalar_out" [4] writes [2] => multiply;
    "aten::div.out" [4] writes [2] => |call| divide(call, 2);
    "aten::div.Scalar_out" [4] writes [2] => |call| divide(call, 2);
    "aten::div.out_mode" [5] writes [3] => divide_rounding;
    "aten::div.Scalar_mode_out" [5] writes [3] => divide_rounding;
    "aten::floor_divide.out" [4] writes [2] => |call| floor_divide(call, 2);
    "aten::maximum.out" [4] writes [2] => maximum;
    "aten::max.out" [4] writes [2] => maximum;
    "aten::clamp_min.Tensor_out" [4] writes [2] => maximum;
    "aten::minimum.out" [4] writes [2] => minimum;
    "aten::min.out" [4] writes [2] => minimum;
    "aten::clamp_max.Tensor_out" [4] writes [2] => minimum;
    "aten::fmax.out" [4] writes [2] => simple!(|a, b| int a.max(b), real<R> if a >= b || b.is_nan() { a } else { b });
    "aten::fmin.out" [4] writes [2] => simple!(|a, b| int a.min(b), real<R> if a <= b || b.is_nan() { a } else { b });
    "aten::heaviside.out" [4] writes [2] => simple!(
        |x, at_zero| int if x == 0 { at_zero } else { i64::from(x > 0) },
        real<R> if x == 0.0 { at_zero } else if x > 0.0 { 1.0 } else { 0.0 }
    );
    "aten::fmod.Tensor_out" [4] writes [2] => simple!(|a, b| int a.checked_rem(b).unwrap_or(0), real<R> Real::rem(a, b));
    "aten::fmod.Scalar_out" [4] writes [2] => simple!(|a, b| int a.checked_rem(b).unwrap_or(0), real<R> Real::rem(a, b));
    "aten::remainder.Tensor_out" [4] writes [2] => simple!(|a, b| int int_remainder(a, b), real<R> remainder(a, b));
    "aten::remainder.Scalar_out" [4] writes [2] => simple!(|a, b| int int_remainder(a, b), real<R> remainder(a, b));
    "aten::remainder.Scalar_Tensor_out" [4] writes [2] => simple!(|a, b| int int_remainder(a, b), real<R> remainder(a, b));
    "aten::pow.Tensor_Tensor_out" [4] writes [2] => |call| power(call, simple!(|a, b| int int_pow(a, b), real<R> Real::pow(a, b)));
    "aten::pow.Tensor_Scalar_out" [4] writes [2] => |call| power(call, simple!(|a, b| int int_pow(a, b), real<R> rooted_pow(a, b)));
    "aten::pow.Scalar_out" [4] writes [2] => |call| power(call, simple!(|a, b| int int_pow(a, b), real<R> Real::pow(a, b)));
    "aten::atan2.out" [4] writes [2] => |call| {
        let (sources, dtype, out) = two(call, [0, 1], 2)?;
        arithmetic!(@run call, sources, to_floating(dtype), out, 2, |a, b| int a.max(b), real<R> Real::atan2(a, b))
    };
    "aten::bitwise_and.Tensor_out" [4] writes [2] => |call| bitwise(call, |a, b| a & b);
    "aten::bitwise_and.Scalar_out" [4] writes [2] => |call| bitwise(call, |a, b| a & b);
    "aten::bitwise_and.Scalar_Tensor_out" [4] writes [2] => |call| bitwise(call, |a, b| a & b);
    "aten::bitwise_or.Tensor_out" [4] writes [2] => |call| bitwise(call, |a, b| a | b);
    "aten::bitwise_or.Scalar_out" [4] writes [2] => |call| bitwise(call, |a, b| a | b);
    "aten::bitwise_or.Scalar_Tensor_out" [4] writes [2] => |call| bitwise(call, |a, b| a | b);
    "aten::bitwise_xor.Tensor_out" [4] writes [2] => |call| bitwise(call, |a, b| a ^ b);
    "aten::bitwise_xor.Scalar_out" [4] writes [2] => |call| bitwise(call, |a, b| a ^ b);
    "aten::bitwise_xor.Scalar_Tensor_out" [4] writes [2] => |call| bitwise(call, |a, b| a ^ b);
    "aten::bitwise_left_shift.Tensor_out" [4] writes [2] => |call| shift(call, left_shift);
    "aten::bitwise_left_shift.Tensor_Scalar_out" [4] writes [2] => |call| shift(call, left_shift);
    "aten::bitwise_left_shift.Scalar_Tensor_out" [4] writes [2] => |call| shift(call, left_shift);
    "aten::__lshift__.Scalar_out" [4] writes [2] => |call| shift(call, left_shift);
    "aten::__lshift__.Tensor_out" [4] writes [2] => |call| shift(call, left_shift);
    "aten::__rshift__.Scalar_out" [4] writes [2] => |call| shift(call, right_shift);
    "aten::__rshift__.Tensor_out" [4] writes [2] => |call| shift(call, right_shift);
    "aten::bitwise_right_shift.Tensor_out" [4] writes [2] => |call| shift(call, right_shift);
    "aten::bitwise_right_shift.Tensor_Scalar_out" [4] writes [2] => |call| shift(call, right_shift);
    "aten::bitwise_right_shift.Scalar_Tensor_out" [4] writes [2] => |call| shift(call, right_shift);
};

/// `a + sign * alpha * b`
fn add(call: &mut Call<'_>, sign: f64) -> Result<(), Fault> {
    let alpha = call.scalar(2)?;
    let (int, real) = (alpha.to_i64().wrapping_mul(sign as i64), alpha.to_f64() * sign);
    let (sources, dtype, out) = two(call, [0, 1], 3)?;
    if is_complex(dtype) {
        let sum = |[a, b]: [complex::Number; 2]| complex::add(a, complex::scale(b, real));
        return complex::combine(call.parallel(), sources, 3, out, sum);
    }
    arithmetic!(@run call, sources, dtype, out, 3, |a, b| int a.wrapping_add(int.wrapping_mul(b)), real<R> a + real as R * b)
}

/// A power of complex numbers, or `real`.
fn power(call: &mut Call<'_>, real: fn(&mut Call<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
    if !complex::is_among(call, [0, 1]) {
        return real(call);
    }
    let (sources, _, out) = two(call, [0, 1], 2)?;
    complex::combine(call.parallel(), sources, 2, out, |[a, b]| complex_functions::power(a, b))
}

fn multiply(call: &mut Call<'_>) -> Result<(), Fault> {
    let (sources, dtype, out) = two(call, [0, 1], 2)?;
    if is_complex(dtype) {
        return complex::combine(call.parallel(), sources, 2, out, |[a, b]| complex::multiply(a, b));
    }
    arithmetic!(@run call, sources, dtype, out, 2, |a, b| int a.wrapping_mul(b), real<R> a * b)
}

fn rsub(call: &mut Call<'_>) -> Result<(), Fault> {
    let alpha = call.scalar(2)?;
    let (int, real) = (alpha.to_i64(), alpha.to_f64());
    let (sources, dtype, out) = two(call, [0, 1], 3)?;
    if is_complex(dtype) {
        let difference = |[a, b]: [complex::Number; 2]| complex::add(b, complex::scale(a, -real));
        return complex::combine(call.parallel(), sources, 3, out, difference);
    }
    arithmetic!(@run call, sources, dtype, out, 3, |a, b| int b.wrapping_sub(int.wrapping_mul(a)), real<R> b - real as R * a)
}

fn maximum(call: &mut Call<'_>) -> Result<(), Fault> {
    arithmetic!(call, [0, 1] => 2, |a, b| int a.max(b), real<R> if a > b || a.is_nan() { a } else { b })
}

fn minimum(call: &mut Call<'_>) -> Result<(), Fault> {
    arithmetic!(call, [0, 1] => 2, |a, b| int a.min(b), real<R> if a < b || a.is_nan() { a } else { b })
}

/// True division: integers become floating-point numbers.
fn divide(call: &mut Call<'_>, out: usize) -> Result<(), Fault> {
    let (sources, dtype, target) = two(call, [0, 1], out)?;
    if is_complex(dtype) {
        return complex::combine(call.parallel(), sources, out, target, |[a, b]| complex::divide(a, b));
    }
    arithmetic!(@run call, sources, to_floating(dtype), target, out, |a, b| int a.wrapping_add(b), real<R> a / b)
}

fn divide_rounding(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.is_none(2)? {
        return divide(call, 3);
    }
    match call.str(2)? {
        "floor" => floor_divide(call, 3),
        "trunc" => {
            arithmetic!(call, [0, 1] => 3, |a, b| int a.checked_div(b).unwrap_or(0), real<R> Real::trunc(a / b))
        }
        _ => Err(Fault::argument(2, "the rounding mode must be `floor` or `trunc`")),
    }
}

fn floor_divide(call: &mut Call<'_>, out: usize) -> Result<(), Fault> {
    arithmetic!(call, [0, 1] => out, |a, b| int int_floor_divide(a, b), real<R> real_floor_divide(a, b))
}

fn int_floor_divide(a: i64, b: i64) -> i64 {
    let quotient = a.checked_div(b).unwrap_or(0);
    if a.checked_rem(b).unwrap_or(0) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Floor division as Python has it: consistent with the remainder even where `a / b` rounds up.
fn real_floor_divide<R: Real>(a: R, b: R) -> R {
    if b == R::ZERO {
        return a / b;
    }
    let rest = Real::rem(a, b);
    let mut quotient = (a - rest) / b;
    if rest != R::ZERO && (rest < R::ZERO) != (b < R::ZERO) {
        quotient = quotient - R::ONE;
    }
    if quotient == R::ZERO {
        return Real::copysign(R::ZERO, a / b);
    }
    let floor = Real::floor(quotient);
    if quotient - floor > R::from_f64(0.5) { floor + R::ONE } else { floor }
}

fn int_remainder(a: i64, b: i64) -> i64 {
    let rest = a.checked_rem(b).unwrap_or(0);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

fn remainder<R: Real>(a: R, b: R) -> R {
    let rest = Real::rem(a, b);
    if rest != R::ZERO && (rest < R::ZERO) != (b < R::ZERO) { rest + b } else { rest }
}

/// A power with roots as PyTorch has them: `sqrt` of what is not positive differs from a power.
#[inline(always)]
fn rooted_pow<R: Real>(base: R, exponent: R) -> R {
    match exponent.to_f64() {
        0.5 => Real::sqrt(base),
        -0.5 => R::ONE / Real::sqrt(base),
        _ => Real::pow(base, exponent),
    }
}

fn int_pow(base: i64, exponent: i64) -> i64 {
    match (u32::try_from(exponent), base) {
        (Ok(exponent), _) => base.wrapping_pow(exponent),
        (Err(_), 1) => 1,
        (Err(_), -1) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (Err(_), _) => 0,
    }
}

fn bitwise(call: &mut Call<'_>, f: fn(i64, i64) -> i64) -> Result<(), Fault> {
    let (sources, dtype, out) = two_of_type(call, [0, 1], 2)?;
    if !dtype.is_integral(true) {
        return Err(crate::typed::unsupported(0, dtype));
    }
    run(call.parallel(), sources, 2, out, |x, out| each2(x, out, f))
}

/// Shifts in the promoted type, whose width says from where on nothing is left.
fn shift(call: &mut Call<'_>, f: fn(i64, i64, u32) -> i64) -> Result<(), Fault> {
    let (sources, dtype, out) = two_of_type(call, [0, 1], 2)?;
    if !dtype.is_integral(false) {
        return Err(crate::typed::unsupported(0, dtype));
    }
    let bits = 8 * dtype.size() as u32;
    run(call.parallel(), sources, 2, out, |x, out| each2(x, out, |a, by| f(a, by, bits)))
}

/// Zero for shifts that are negative or as wide as the type.
fn left_shift(a: i64, by: i64, bits: u32) -> i64 {
    u32::try_from(by).ok().filter(|&by| by < bits).map_or(0, |by| a << by)
}

/// Only the sign is left of shifts that are negative or as wide as the type.
fn right_shift(a: i64, by: i64, bits: u32) -> i64 {
    a >> u32::try_from(by).ok().filter(|&by| by < bits).unwrap_or(63)
}
