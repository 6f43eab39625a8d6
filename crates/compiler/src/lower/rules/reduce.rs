//! Sums, extrema, moments and orders along dimensions.

use super::{Answer, Table, complex, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::{Site, place};
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::sum", |site| all_dims(site, "aten::sum.dim_IntList")),
    ("aten::sum.dim_IntList", |site| converted_first(site, "aten::sum.dim_IntList")),
    ("aten::mean", |site| mean(site, "aten::mean")),
    ("aten::mean.dim", |site| mean(site, "aten::mean.dim")),
    ("aten::nansum", nansum),
    ("aten::nanmean", nanmean),
    ("aten::all", all),
    ("aten::all.dim", all),
    ("aten::all.dims", all),
    ("aten::aminmax", aminmax),
    ("aten::var", |site| variance(site, false)),
    ("aten::var.correction", |site| variance(site, false)),
    ("aten::var.dim", |site| variance(site, false)),
    ("aten::std", |site| variance(site, true)),
    ("aten::std.dim", |site| variance(site, true)),
    ("aten::std.correction", |site| variance(site, true)),
    ("aten::var_mean", |site| moments(site, false)),
    ("aten::var_mean.correction", |site| moments(site, false)),
    ("aten::var_mean.dim", |site| moments(site, false)),
    ("aten::std_mean", |site| moments(site, true)),
    ("aten::std_mean.dim", |site| moments(site, true)),
    ("aten::std_mean.correction", |site| moments(site, true)),
    ("aten::logsumexp", logsumexp),
    ("aten::count_nonzero", count_nonzero),
    ("aten::count_nonzero.dim_IntList", count_nonzero),
    ("aten::trace", trace),
    ("aten::argsort", argsort),
    ("aten::argsort.stable", argsort),
    ("aten::msort", msort),
    ("aten::diff", diff),
    ("aten::cumulative_trapezoid.dx", cumulative_trapezoid),
    ("aten::trapezoid.dx", trapezoid),
    ("aten::trapz.dx", trapezoid),
];

/// The same along all dimensions.
fn all_dims(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let x = summable(site, x, ty.dtype);
    Ok(vec![site.call(operator, [("self", x.into()), ("dim", Arg::None), ("keepdim", false.into())], ty)])
}

/// A wish for another element type holds for what is summed, not only for the sum.
fn converted_first(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let x = summable(site, x, ty.dtype);
    let mut args = vec![("self", Arg::from(x))];
    for name in ["dim", "keepdim"] {
        if site.call.args.iter().any(|(own, _)| own == name) {
            args.push((name, site.arg(name).clone()));
        }
    }
    Ok(vec![site.call(operator, args, ty)])
}

fn mean(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    if !ty.dtype.is_complex() {
        return converted_first(site, operator);
    }
    let x = site.cast(x, ty.dtype);
    let dims = site.dims("dim", site.ty(x).rank())?;
    Ok(vec![complex::mean(site, x, &dims, site.bool("keepdim", false))])
}

/// Truth values and integers are summed as integers by the kernel itself.
fn summable(site: &mut Site<'_, '_>, x: ValueId, dtype: ScalarType) -> ValueId {
    let from = site.ty(x).dtype;
    if from.is_integral(true) && dtype == ScalarType::Long { x } else { site.cast(x, dtype) }
}

fn is_nan(site: &mut Site<'_, '_>, x: ValueId) -> ValueId {
    let ty = site.plain_type(x).with_dtype(ScalarType::Bool);
    site.call("aten::isnan", [("self", x.into())], ty)
}

fn sum_as(site: &mut Site<'_, '_>, x: ValueId, ty: &TensorType) -> Result<ValueId, Error> {
    let dims = site.dims("dim", site.ty(x).rank())?;
    Ok(site.reduce("aten::sum.dim_IntList", x, &dims, site.bool("keepdim", false), ty.dtype))
}

fn nansum(site: &mut Site<'_, '_>) -> Answer {
    let (mut x, ty) = (subject(site)?, site.result(0));
    if site.ty(x).dtype.is_floating() {
        let none = is_nan(site, x);
        x = site.fill_where(x, none, 0);
    }
    let x = summable(site, x, ty.dtype);
    Ok(vec![sum_as(site, x, &ty)?])
}

fn nanmean(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let none = is_nan(site, x);
    let some = site.unary("aten::logical_not", none);
    let filled = site.fill_where(x, none, 0);
    let filled = site.cast(filled, ty.dtype);
    let (sum, count) = (sum_as(site, filled, &ty)?, sum_as(site, some, &ty.with_dtype(ScalarType::Long))?);
    Ok(vec![site.binary("aten::div.Tensor", sum, count, &ty)])
}

/// Not any that is not.
fn all(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let truth = site.plain_type(x).with_dtype(ScalarType::Bool);
    let not = site.call("aten::logical_not", [("self", x.into())], truth.clone());
    let mut args = vec![("self", Arg::from(not))];
    let operator = match site.arg("dim") {
        Arg::None => "aten::any",
        Arg::Int(_) => "aten::any.dim",
        _ => "aten::any.dims",
    };
    if operator != "aten::any" {
        args.extend([("dim", site.arg("dim").clone()), ("keepdim", site.bool("keepdim", false).into())]);
    }
    let any = site.call(operator, args, ty.with_dtype(ScalarType::Bool));
    let all = site.unary("aten::logical_not", any);
    Ok(vec![site.cast(all, ty.dtype)])
}

fn aminmax(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let rank = site.ty(x).rank();
    let dims = match site.arg("dim") {
        Arg::None => (0..rank).collect(),
        _ => site.dims("dim", rank)?,
    };
    let keepdim = site.bool("keepdim", false);
    Ok(["aten::amin", "aten::amax"].map(|name| site.reduce(name, x, &dims, keepdim, ty.dtype)).to_vec())
}

fn spread_of(site: &mut Site<'_, '_>, x: ValueId, ty: &TensorType) -> Result<ValueId, Error> {
    if !site.ty(x).dtype.is_complex() {
        return Ok(site.call("aten::var.correction", spread(site, x), ty.clone()));
    }
    let dims = site.dims("dim", site.ty(x).rank())?;
    let [_, _, correction, keepdim] = spread(site, x);
    Ok(complex::variance(site, x, &dims, [correction, keepdim], ty))
}

/// The arguments of a variance, whichever overload names them.
fn spread(site: &Site<'_, '_>, x: ValueId) -> [(&'static str, Arg); 4] {
    let correction = match site.arg("correction") {
        Arg::None => i64::from(site.bool("unbiased", true)).into(),
        own => own.clone(),
    };
    [
        ("self", x.into()),
        ("dim", site.arg("dim").clone()),
        ("correction", correction),
        ("keepdim", site.bool("keepdim", false).into()),
    ]
}

fn variance(site: &mut Site<'_, '_>, root: bool) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let variance = spread_of(site, x, &ty)?;
    Ok(vec![if root { site.unary("aten::sqrt", variance) } else { variance }])
}

fn moments(site: &mut Site<'_, '_>, root: bool) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let (variance, mean) = if site.ty(x).dtype.is_complex() {
        let dims = site.dims("dim", site.ty(x).rank())?;
        let mean = complex::mean(site, x, &dims, site.bool("keepdim", false));
        (spread_of(site, x, &ty.with_dtype(ty.dtype.real()))?, mean)
    } else {
        let args = spread(site, x);
        let [variance, mean] = site.calls("aten::var_mean.correction", args, [ty.clone(), ty]);
        (variance, mean)
    };
    Ok(vec![if root { site.unary("aten::sqrt", variance) } else { variance }, mean])
}

/// `log Σ exp x`, shifted by the largest so that nothing overflows.
fn logsumexp(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let x = site.cast(x, ty.dtype);
    let own = site.plain_type(x);
    if own.dtype.is_complex() {
        return Err(Error::unsupported("logsumexp of complex numbers"));
    }
    let (dims, keepdim) = (site.dims("dim", own.rank())?, site.bool("keepdim", false));
    if own.rank() == 0 {
        return Ok(vec![x]);
    }
    if own.count().number() == Some(0) {
        let power = site.unary("aten::exp", x);
        let sum = site.sum(power, &dims, keepdim);
        return Ok(vec![site.unary("aten::log", sum)]);
    }
    let most = site.reduce("aten::amax", x, &dims, true, ty.dtype);
    let size = site.unary("aten::abs", most);
    let infinite = site.compare("aten::eq.Scalar", size, f64::INFINITY);
    let most = site.fill_where(most, infinite, 0);
    let shifted = site.binary("aten::sub.Tensor", x, most, &own);
    let power = site.unary("aten::exp", shifted);
    let sum = site.sum(power, &dims, keepdim);
    let log = site.unary("aten::log", sum);
    let most = site.view(most, ty.sizes.clone());
    Ok(vec![site.binary("aten::add.Tensor", log, most, &ty)])
}

fn count_nonzero(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let some = site.compare("aten::ne.Scalar", x, 0);
    Ok(vec![sum_as(site, some, &ty)?])
}

fn trace(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let own = site.ranked(site.ty(x), 2)?;
    let short = own.with_sizes([Size::min(&own.sizes[0], &own.sizes[1])]);
    let diagonal = site.call("aten::diagonal", [("self", x.into())], short);
    Ok(vec![site.reduce("aten::sum.dim_IntList", diagonal, &[0], false, ty.dtype)])
}

fn argsort(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let args = [
        ("self", x.into()),
        ("stable", site.bool("stable", true).into()),
        ("dim", site.int("dim", -1)?.into()),
        ("descending", site.bool("descending", false).into()),
    ];
    let values = site.plain_type(x);
    let [_, indices] = site.calls("aten::sort.stable", args, [values, ty]);
    Ok(vec![indices])
}

fn msort(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let args = [("self", x.into()), ("dim", 0.into()), ("descending", false.into())];
    let [values, _] = site.calls("aten::sort", args, [ty.clone(), ty.with_dtype(ScalarType::Long)]);
    Ok(vec![values])
}

/// The elements at `start..size - end` of a dimension.
fn inner(site: &mut Site<'_, '_>, x: ValueId, dim: usize, start: i64, end: i64) -> ValueId {
    let size = site.ty(x).size(dim);
    site.slice(x, dim, start.into(), size.minus(&end.into()))
}

/// Differences of neighbours, `n` times.
fn diff(site: &mut Site<'_, '_>) -> Answer {
    let x = subject(site)?;
    if site.int("n", 1)? == 0 {
        return Ok(vec![x]);
    }
    let dim = site.dim("dim", -1, site.ty(x).rank())?;
    let further = ["prepend", "append"].map(|name| site.optional_tensor(name));
    let parts: Vec<ValueId> = [further[0], Some(x), further[1]].into_iter().flatten().collect();
    let mut x = site.cat(&parts, dim);
    for _ in 0..site.few(site.int("n", 1)?, "differences")? {
        if site.ty(x).size(dim).number() == Some(0) {
            break;
        }
        let (after, before) = (inner(site, x, dim, 1, 0), inner(site, x, dim, 0, 1));
        let ty = site.plain_type(after);
        let operator = if ty.dtype == ScalarType::Bool { "aten::logical_xor" } else { "aten::sub.Tensor" };
        x = site.binary(operator, after, before, &ty);
    }
    Ok(vec![x])
}

/// Areas between neighbours.
fn areas(site: &mut Site<'_, '_>, dtype: ScalarType) -> Result<(ValueId, usize), Error> {
    let y = site.tensor("y")?;
    let dim = place(site.int("dim", -1)?, site.ty(y).rank()).unwrap_or(0);
    let y = site.cast(y, dtype);
    let (after, before) = (inner(site, y, dim, 1, 0), inner(site, y, dim, 0, 1));
    let ty = site.plain_type(after);
    let sum = site.binary("aten::add.Tensor", after, before, &ty);
    let half = site.float("dx", 1.0)? / 2.0;
    Ok((site.scalar_call("aten::mul.Scalar", sum, half), dim))
}

fn trapezoid(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let (areas, dim) = areas(site, ty.dtype)?;
    Ok(vec![site.sum(areas, &[dim], false)])
}

fn cumulative_trapezoid(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let (areas, dim) = areas(site, ty.dtype)?;
    Ok(vec![site.call("aten::cumsum", [("self", areas.into()), ("dim", (dim as i64).into())], ty)])
}
