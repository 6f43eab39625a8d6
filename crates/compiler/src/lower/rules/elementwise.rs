//! Functions of each element, or of elements that meet.

use super::{Answer, Table, subject};
use crate::ir::{Arg, TensorType};
use crate::lower::Site;
use sconce_format::ScalarType;
use std::f64::consts::PI;

pub(super) const RULES: Table = &[
    ("aten::square", |site| {
        let (x, ty) = (subject(site)?, site.result(0));
        Ok(vec![site.binary("aten::mul.Tensor", x, x, &ty)])
    }),
    ("aten::round.decimals", round),
    ("aten::frac", |site| {
        let (x, ty) = (subject(site)?, site.result(0));
        let whole = site.unary("aten::trunc", x);
        Ok(vec![site.binary("aten::sub.Tensor", x, whole, &ty)])
    }),
    ("aten::exp2", |site| {
        let (x, ty) = (subject(site)?, site.result(0));
        Ok(vec![site.call("aten::pow.Scalar", [("self", 2.0.into()), ("exponent", x.into())], ty)])
    }),
    ("aten::deg2rad", |site| scaled(site, PI / 180.0)),
    ("aten::rad2deg", |site| scaled(site, 180.0 / PI)),
    ("aten::positive", same),
    ("aten::isfinite", isfinite),
    ("aten::isposinf", |site| is_infinite(site, f64::INFINITY)),
    ("aten::isneginf", |site| is_infinite(site, f64::NEG_INFINITY)),
    ("aten::nan_to_num", nan_to_num),
    ("aten::clamp_min", |site| clamp(site, "aten::clamp")),
    ("aten::clamp_max", |site| clamp(site, "aten::clamp")),
    ("aten::clamp_min.Tensor", |site| clamp(site, "aten::clamp.Tensor")),
    ("aten::clamp_max.Tensor", |site| clamp(site, "aten::clamp.Tensor")),
    ("aten::max.other", |site| Ok(site.renamed("aten::maximum"))),
    ("aten::min.other", |site| Ok(site.renamed("aten::minimum"))),
    ("aten::addcmul", |site| add_product(site, "aten::mul.Tensor")),
    ("aten::addcdiv", |site| add_product(site, "aten::div.Tensor")),
    ("aten::lerp.Scalar", lerp),
    ("aten::rsub.Tensor", reversed_difference),
    ("aten::add.Tensor", number_first),
    ("aten::sub.Tensor", number_first),
    ("aten::mul.Tensor", number_first),
    ("aten::div.Tensor", number_first),
    ("aten::div.Tensor_mode", number_first),
    ("aten::eq.Tensor", number_first),
    ("aten::ne.Tensor", number_first),
    ("aten::lt.Tensor", number_first),
    ("aten::le.Tensor", number_first),
    ("aten::gt.Tensor", number_first),
    ("aten::ge.Tensor", number_first),
    ("aten::remainder.Tensor", number_first),
    ("aten::fmod.Tensor", number_first),
    ("aten::bitwise_and.Tensor", number_first),
    ("aten::bitwise_or.Tensor", number_first),
    ("aten::bitwise_xor.Tensor", number_first),
    ("aten::maximum", number_first),
    ("aten::minimum", number_first),
    ("aten::item", |site| Ok(site.renamed("aten::_local_scalar_dense"))),
    ("aten::mvlgamma", mvlgamma),
    ("aten::floor_divide.Scalar", |site| divided(site, "floor")),
    ("aten::floor_divide", |site| divided(site, "floor")),
    ("aten::where.ScalarOther", choose),
    ("aten::where.ScalarSelf", choose),
    ("aten::where.Scalar", choose),
    ("aten::where.self", choose),
    ("aten::masked_fill.Tensor", |site| {
        let (x, mask, ty) = (site.tensor("self")?, site.tensor("mask")?, site.result(0));
        let value = site.tensor("value")?;
        let value = site.cast(value, ty.dtype);
        Ok(vec![site.choose(mask, value, x, &ty)])
    }),
    ("aten::masked_fill.Scalar", |site| {
        // The result has the larger of both tensors' sizes; the kernel takes those of `self`.
        let (x, ty) = (site.tensor("self")?, site.result(0));
        let x = site.expand(x, &ty.sizes);
        let (mask, value) = (site.arg("mask").clone(), site.arg("value").clone());
        Ok(vec![site.call("aten::masked_fill.Scalar", [("self", x.into()), ("mask", mask), ("value", value)], ty)])
    }),
    ("aten::isclose", isclose),
    ("aten::float_power.Tensor_Tensor", float_power),
    ("aten::float_power.Tensor_Scalar", float_power),
    ("aten::float_power.Scalar", float_power),
    ("aten::to.dtype", converted),
    ("aten::to.dtype_layout", converted),
    ("aten::to.device", converted),
    ("aten::to.other", converted),
    ("aten::type_as", converted),
    ("aten::_to_copy", converted),
    ("aten::clone", converted),
];

fn same(site: &mut Site<'_, '_>) -> Answer {
    Ok(vec![subject(site)?])
}

/// The tensor as the result's type. Values are never changed, so a copy is the value itself.
fn converted(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let from = site.ty(x);
    if from.dtype != ty.dtype {
        return Ok(vec![site.call("aten::_to_copy", [("self", x.into()), ("dtype", ty.dtype.into())], ty)]);
    }
    if from.order == ty.order {
        return Ok(vec![x]);
    }
    let order: Vec<i64> = ty.order.iter().map(|&dim| dim.into()).collect();
    let args = [("self", x.into()), ("dim_order", order.into())];
    Ok(vec![site.call("dim_order_ops::_clone_dim_order", args, ty)])
}

fn scaled(site: &mut Site<'_, '_>, factor: f64) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    Ok(vec![site.binary("aten::mul.Scalar", x, factor, &ty)])
}

fn round(site: &mut Site<'_, '_>) -> Answer {
    let (x, decimals) = (subject(site)?, site.int("decimals", 0)?);
    if decimals == 0 || site.ty(x).dtype.is_integral(true) {
        return Ok(vec![site.unary("aten::round", x)]);
    }
    let ten = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    let [before, after] = if decimals > 0 { ["mul", "div"] } else { ["div", "mul"] }.map(|name| match name {
        "mul" => "aten::mul.Scalar",
        _ => "aten::div.Scalar",
    });
    let large = site.scalar_call(before, x, ten);
    let round = site.unary("aten::round", large);
    Ok(vec![site.scalar_call(after, round, ten)])
}

fn isfinite(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    if site.ty(x).dtype.is_integral(true) {
        return Ok(vec![site.full(&ty, true)]);
    }
    let infinite = site.call("aten::isinf", [("self", x.into())], ty.clone());
    let none = site.call("aten::isnan", [("self", x.into())], ty.clone());
    let either = site.binary("aten::logical_or", infinite, none, &ty);
    Ok(vec![site.unary("aten::logical_not", either)])
}

fn is_infinite(site: &mut Site<'_, '_>, infinity: f64) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    if site.ty(x).dtype.is_integral(true) {
        return Ok(vec![site.full(&ty, false)]);
    }
    Ok(vec![site.compare("aten::eq.Scalar", x, infinity)])
}

/// The largest number of a floating-point type.
fn largest(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Half => 65504.0,
        ScalarType::BFloat16 => 3.389_531_389_251_535_5e38,
        ScalarType::Float => f32::MAX.into(),
        _ => f64::MAX,
    }
}

fn nan_to_num(site: &mut Site<'_, '_>) -> Answer {
    let (mut x, ty) = (subject(site)?, site.result(0));
    if ty.dtype.is_integral(true) {
        return Ok(vec![x]);
    }
    if ty.dtype.is_complex() {
        return Err(crate::Error::unsupported("nan_to_num of complex numbers"));
    }
    let most = largest(ty.dtype);
    let masks = [
        (site.call("aten::isnan", [("self", x.into())], ty.with_dtype(ScalarType::Bool)), site.float("nan", 0.0)?),
        (site.compare("aten::eq.Scalar", x, f64::INFINITY), site.float("posinf", most)?),
        (site.compare("aten::eq.Scalar", x, f64::NEG_INFINITY), site.float("neginf", -most)?),
    ];
    for (mask, number) in masks {
        x = site.fill_where(x, mask, number);
    }
    Ok(vec![x])
}

/// One bound of two.
fn clamp(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    Ok(site.renamed(operator))
}

/// `self + value * (tensor1 ∘ tensor2)`.
fn add_product(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let ty = site.result(0);
    let [x, a, b] = ["self", "tensor1", "tensor2"].map(|name| site.tensor(name));
    let (x, a, b) = (x?, a?, b?);
    let (a, b) = (site.cast(a, ty.dtype), site.cast(b, ty.dtype));
    let sizes = crate::lower::calls::broadcast(&site.ty(a).sizes, &site.ty(b).sizes);
    let product = site.binary(operator, a, b, &ty.with_sizes(sizes));
    let args = [("self", x.into()), ("other", product.into()), ("alpha", site.scalar("value", 1))];
    Ok(vec![site.call("aten::add.Tensor", args, ty)])
}

/// From `self` to `end` by a weight, from the nearer end as torch does.
fn lerp(site: &mut Site<'_, '_>) -> Answer {
    let (start, end, weight, ty) =
        (site.tensor("self")?, site.tensor("end")?, site.float("weight", 0.0)?, site.result(0));
    let way = site.binary("aten::sub.Tensor", end, start, &ty);
    let (from, operator, part) =
        if weight.abs() < 0.5 { (start, "aten::add.Tensor", weight) } else { (end, "aten::sub.Tensor", 1.0 - weight) };
    let args = [("self", from.into()), ("other", way.into()), ("alpha", part.into())];
    Ok(vec![site.call(operator, args, ty)])
}

/// Python's numbers may come first, and where a tensor is due; they become tensors then.
fn number_first(site: &mut Site<'_, '_>) -> Answer {
    let (operator, ty) = (site.call.operator().unwrap_or_default().to_owned(), site.result(0));
    let number = match site.arg("self") {
        Arg::Value(_) => return Ok(site.renamed(operator)),
        number => number.clone(),
    };
    let other = site.tensor("other")?;
    let floating = matches!(number, Arg::Float(_));
    let dtype = match (ty.dtype, site.ty(other).dtype) {
        (ScalarType::Bool, own) if own.is_floating() || !floating => own,
        (ScalarType::Bool, _) => ScalarType::Float,
        (dtype, _) => dtype,
    };
    let mut args = vec![("self", Arg::from(site.number(number, dtype))), ("other", other.into())];
    for name in ["alpha", "rounding_mode"] {
        if *site.arg(name) != Arg::None {
            args.push((name, site.arg(name).clone()));
        }
    }
    Ok(vec![site.call(operator, args, ty)])
}

/// The logarithm of the gamma function of `p` dimensions.
fn mvlgamma(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty, p) = (subject(site)?, site.result(0), site.int("p", 1)?);
    let p = site.few(p, "dimensions")?;
    let x = site.cast(x, ty.dtype);
    let mut sum = site.full(&ty, (p * (p - 1)) as f64 / 4.0 * PI.ln());
    for dimension in 0..p {
        let shifted = site.scalar_call("aten::sub.Scalar", x, dimension as f64 / 2.0);
        let term = site.unary("aten::lgamma", shifted);
        sum = site.binary("aten::add.Tensor", sum, term, &ty);
    }
    Ok(vec![sum])
}

fn reversed_difference(site: &mut Site<'_, '_>) -> Answer {
    let (x, other, ty) = (site.tensor("self")?, site.tensor("other")?, site.result(0));
    let args = [("self", other.into()), ("other", x.into()), ("alpha", site.scalar("alpha", 1))];
    Ok(vec![site.call("aten::sub.Tensor", args, ty)])
}

/// A quotient with a rounding mode.
fn divided(site: &mut Site<'_, '_>, mode: &str) -> Answer {
    let (other, ty) = (site.arg("other").clone(), site.result(0));
    let x = match site.optional_tensor("self") {
        Some(x) => x,
        None => site.number(site.scalar("self", 0), ty.dtype),
    };
    let operator = if let Arg::Value(_) = other { "aten::div.Tensor_mode" } else { "aten::div.Scalar_mode" };
    let args = [("self", x.into()), ("other", other), ("rounding_mode", Arg::Text(mode.to_owned()))];
    Ok(vec![site.call(operator, args, ty)])
}

/// Numbers become tensors; tensors of other types the result's.
fn choose(site: &mut Site<'_, '_>) -> Answer {
    let (condition, ty) = (site.tensor("condition")?, site.result(0));
    let mut branch = |name: &str| match site.arg(name) {
        Arg::Value(value) if site.optional_tensor(name).is_some() => Ok::<_, crate::Error>(*value),
        number => Ok(site.number(number.clone(), ty.dtype)),
    };
    let (yes, no) = (branch("self")?, branch("other")?);
    Ok(vec![site.choose(condition, yes, no, &ty)])
}

/// `|self - other| <= atol + rtol |other|`, and equal infinities.
fn isclose(site: &mut Site<'_, '_>) -> Answer {
    let (a, b, ty) = (site.tensor("self")?, site.tensor("other")?, site.result(0));
    let equal = site.compare("aten::eq.Tensor", a, b);
    let floating = !site.ty(a).dtype.is_integral(true);
    let (rtol, atol) = (site.float("rtol", 1e-5)?, site.float("atol", 1e-8)?);
    let dtype = if floating { site.ty(a).dtype } else { ScalarType::Float };
    let (x, y) = (site.cast(a, dtype), site.cast(b, dtype));
    let wide = TensorType::new(dtype, ty.sizes.clone());
    let way = site.binary("aten::sub.Tensor", x, y, &wide);
    let (way, size) = (site.magnitude(way), site.magnitude(y));
    let allowed = site.scalar_call("aten::mul.Scalar", size, rtol);
    let allowed = site.scalar_call("aten::add.Scalar", allowed, atol);
    let near = site.compare("aten::le.Tensor", way, allowed);
    let infinite = site.compare("aten::eq.Scalar", way, f64::INFINITY);
    let finite = site.unary("aten::logical_not", infinite);
    let near = site.binary("aten::logical_and", near, finite, &ty);
    let mut close = site.binary("aten::logical_or", equal, near, &ty);
    if floating && site.bool("equal_nan", false) {
        let [p, q] = [a, b].map(|value| {
            let own = site.plain_type(value).with_dtype(ScalarType::Bool);
            site.call("aten::isnan", [("self", value.into())], own)
        });
        let both = site.binary("aten::logical_and", p, q, &ty);
        close = site.binary("aten::logical_or", close, both, &ty);
    }
    Ok(vec![close])
}

/// Powers in double precision.
fn float_power(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let mut double = |name: &str| -> Arg {
        match site.optional_tensor(name) {
            Some(value) => site.cast(value, ty.dtype).into(),
            None => site.arg(name).clone(),
        }
    };
    let (base, exponent): (Arg, Arg) = (double("self"), double("exponent"));
    let operator = match (&base, &exponent) {
        (Arg::Value(_), Arg::Value(_)) => "aten::pow.Tensor_Tensor",
        (Arg::Value(_), _) => "aten::pow.Tensor_Scalar",
        _ => "aten::pow.Scalar",
    };
    Ok(vec![site.call(operator, [("self", base), ("exponent", exponent)], ty)])
}
