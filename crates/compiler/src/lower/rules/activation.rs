//! Functions that networks put behind their layers.

use super::{Answer, Table, subject};
use crate::ir::{Arg, ValueId};
use crate::lower::Site;
use crate::lower::calls::reduced;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::silu", |site| on_self(site, silu)),
    ("aten::hardsigmoid", |site| on_self(site, hardsigmoid)),
    ("aten::hardswish", |site| on_self(site, hardswish)),
    ("aten::log_sigmoid", |site| on_self(site, log_sigmoid)),
    ("aten::mish", |site| on_self(site, mish)),
    ("aten::relu6", |site| on_self(site, |site, x| clamp(site, x, 0.0, 6.0))),
    ("aten::selu", |site| on_self(site, selu)),
    ("aten::celu", celu),
    ("aten::softplus", softplus_rule),
    ("aten::softshrink", softshrink),
    ("aten::hardshrink", hardshrink),
    ("aten::threshold", threshold),
    ("aten::prelu", prelu),
    ("aten::_prelu_kernel", prelu),
    ("aten::rrelu", rrelu),
    ("aten::rrelu_with_noise_functional", rrelu),
    ("aten::softmax.int", |site| softmax(site, "aten::_softmax")),
    ("aten::log_softmax.int", |site| softmax(site, "aten::_log_softmax")),
    ("aten::_safe_softmax", safe_softmax),
];

/// A function of the argument `self` alone.
fn on_self(site: &mut Site<'_, '_>, function: impl Fn(&mut Site<'_, '_>, ValueId) -> ValueId) -> Answer {
    let x = subject(site)?;
    Ok(vec![function(site, x)])
}

fn clamp(site: &mut Site<'_, '_>, x: ValueId, least: f64, most: f64) -> ValueId {
    let ty = site.plain_type(x);
    let bound = |number: f64| if ty.dtype.is_integral(true) { Arg::from(number as i64) } else { number.into() };
    site.call("aten::clamp", [("self", x.into()), ("min", bound(least)), ("max", bound(most))], ty.clone())
}

fn silu(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let (sigmoid, ty) = (site.unary("aten::sigmoid", x), site.plain_type(x));
    site.binary("aten::mul.Tensor", x, sigmoid, &ty)
}

/// `x + 3` between zero and six.
fn six(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let shifted = site.scalar_call("aten::add.Scalar", x, 3);
    clamp(site, shifted, 0.0, 6.0)
}

fn hardsigmoid(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let six = six(site, x);
    site.scalar_call("aten::div.Scalar", six, 6)
}

fn hardswish(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let (six, ty) = (six(site, x), site.plain_type(x));
    let product = site.binary("aten::mul.Tensor", x, six, &ty);
    site.scalar_call("aten::div.Scalar", product, 6)
}

/// `min(x, 0) - log(1 + exp(-|x|))`, which overflows nowhere.
fn log_sigmoid(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let ty = site.plain_type(x);
    let low = site.call("aten::clamp", [("self", x.into()), ("max", 0.into())], ty.clone());
    let distance = site.unary("aten::abs", x);
    let power = site.unary("aten::neg", distance);
    let power = site.unary("aten::exp", power);
    let log = site.unary("aten::log1p", power);
    site.binary("aten::sub.Tensor", low, log, &ty)
}

fn mish(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let soft = softplus(site, x, 1.0, 20.0);
    let (tanh, ty) = (site.unary("aten::tanh", soft), site.plain_type(x));
    site.binary("aten::mul.Tensor", x, tanh, &ty)
}

/// `log(1 + exp(beta x)) / beta`, and `x` itself where that is the same.
fn softplus(site: &mut Site<'_, '_>, x: ValueId, beta: f64, threshold: f64) -> ValueId {
    let ty = site.plain_type(x);
    let scaled = if beta == 1.0 { x } else { site.scalar_call("aten::mul.Scalar", x, beta) };
    let power = site.unary("aten::exp", scaled);
    let mut log = site.unary("aten::log1p", power);
    if beta != 1.0 {
        log = site.scalar_call("aten::div.Scalar", log, beta);
    }
    let large = site.compare("aten::gt.Scalar", scaled, threshold);
    site.choose(large, x, log, &ty)
}

fn softplus_rule(site: &mut Site<'_, '_>) -> Answer {
    let (beta, threshold) = (site.float("beta", 1.0)?, site.float("threshold", 20.0)?);
    on_self(site, |site, x| softplus(site, x, beta, threshold))
}

/// The scaled exponential unit and its two numbers.
fn selu(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    elu(site, x, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)
}

fn celu(site: &mut Site<'_, '_>) -> Answer {
    let alpha = site.float("alpha", 1.0)?;
    on_self(site, |site, x| elu(site, x, alpha, 1.0, 1.0 / alpha))
}

fn elu(site: &mut Site<'_, '_>, x: ValueId, alpha: f64, scale: f64, input_scale: f64) -> ValueId {
    let ty = site.plain_type(x);
    let numbers = [("alpha", alpha.into()), ("scale", scale.into()), ("input_scale", input_scale.into())];
    site.call("aten::elu", [("self", x.into())].into_iter().chain(numbers), ty)
}

/// What is left of `x` beyond a distance from zero.
fn softshrink(site: &mut Site<'_, '_>) -> Answer {
    let lambda = site.float("lambd", 0.5)?;
    on_self(site, |site, x| {
        let (near, ty) = (clamp(site, x, -lambda, lambda), site.plain_type(x));
        site.binary("aten::sub.Tensor", x, near, &ty)
    })
}

fn hardshrink(site: &mut Site<'_, '_>) -> Answer {
    let lambda = site.float("lambd", 0.5)?;
    on_self(site, |site, x| {
        let distance = site.unary("aten::abs", x);
        let near = site.compare("aten::le.Scalar", distance, lambda);
        site.fill_where(x, near, 0)
    })
}

fn threshold(site: &mut Site<'_, '_>) -> Answer {
    let (threshold, value) = (site.scalar("threshold", 0), site.scalar("value", 0));
    on_self(site, |site, x| {
        let low = site.compare("aten::le.Scalar", x, threshold.clone());
        site.fill_where(x, low, value.clone())
    })
}

/// A slope of its own for each channel where `x` is negative.
fn prelu(site: &mut Site<'_, '_>) -> Answer {
    let (x, mut weight) = (site.tensor("self")?, site.tensor("weight")?);
    let ty = site.plain_type(x);
    if site.ty(weight).rank() == 1 && ty.rank() != 1 {
        let channels = site.ty(weight).sizes[0].clone();
        let place = if ty.rank() < 2 || channels.number() == Some(1) { ty.rank() } else { 1 };
        let sizes = (0..ty.rank()).map(|dim| if dim == place { channels.clone() } else { 1.into() });
        let sizes = sizes.collect();
        weight = site.view(weight, sizes);
    }
    let positive = site.compare("aten::gt.Scalar", x, 0);
    let sloped = site.binary("aten::mul.Tensor", x, weight, &ty);
    Ok(vec![site.choose(positive, x, sloped, &ty)])
}

/// In training each element has a slope of its own, drawn from the range; else all have the middle of it. A second result
/// is what elements were multiplied by.
fn rrelu(site: &mut Site<'_, '_>) -> Answer {
    let (x, count) = (subject(site)?, site.call.outputs.len());
    let (lower, upper) = (site.float("lower", 0.125)?, site.float("upper", 1.0 / 3.0)?);
    let ty = site.plain_type(x);
    if !site.bool("training", false) {
        let slope = (lower + upper) / 2.0;
        let sloped = site.call("aten::leaky_relu", [("self", x.into()), ("negative_slope", slope.into())], ty);
        let noise = site.optional_tensor("noise").unwrap_or(sloped);
        return Ok(vec![sloped, noise][..count.min(2)].to_vec());
    }
    let drawn = site.call("aten::rand", [("size", ty.sizes.clone().into())], ty.clone());
    let wide = site.scalar_call("aten::mul.Scalar", drawn, upper - lower);
    let slope = site.scalar_call("aten::add.Scalar", wide, lower);
    let positive = site.compare("aten::gt.Scalar", x, 0);
    let noise = site.fill_where(slope, positive, 1);
    Ok(vec![site.binary("aten::mul.Tensor", x, noise, &ty), noise][..count.min(2)].to_vec())
}

fn softmax(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let dim = site.int("dim", -1)?;
    let x = site.cast(x, ty.dtype);
    Ok(vec![probabilities(site, operator, x, dim)])
}

/// A softmax of a tensor that has the result's type.
fn probabilities(site: &mut Site<'_, '_>, operator: &'static str, x: ValueId, dim: i64) -> ValueId {
    let ty = site.plain_type(x);
    site.call(operator, [("self", x.into()), ("dim", dim.into()), ("half_to_float", false.into())], ty)
}

/// A softmax that gives zeros where everything is negative infinity.
fn safe_softmax(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let dim = site.dim("dim", -1, ty.rank())?;
    let x = site.cast(x, ty.dtype);
    Ok(vec![masked_softmax(site, x, dim)])
}

pub(super) fn masked_softmax(site: &mut Site<'_, '_>, x: ValueId, dim: usize) -> ValueId {
    let ty = site.plain_type(x);
    let softmax = probabilities(site, "aten::_softmax", x, dim as i64);
    let out = site.compare("aten::eq.Scalar", x, f64::NEG_INFINITY);
    let inside = site.unary("aten::logical_not", out);
    let row = ty.with_dtype(ScalarType::Bool).with_sizes(reduced(&ty.sizes, &[dim], true));
    let args = [("self", inside.into()), ("dim", (dim as i64).into()), ("keepdim", true.into())];
    let some = site.call("aten::any.dim", args, row);
    let none = site.unary("aten::logical_not", some);
    let zeros = site.call("aten::full_like", [("self", x.into()), ("fill_value", 0.into())], ty.clone());
    site.choose(none, zeros, softmax, &ty)
}
