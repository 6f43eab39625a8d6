//! Normalisations and norms.

use super::linalg::spectral;
use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::calls::reduced;
use crate::lower::{Site, place};
use crate::size::Size;
use sconce_format::ScalarType;
use sconce_schema::promote_types;

pub(super) const RULES: Table = &[
    ("aten::batch_norm", |site| batch_norm(site, "training")),
    ("aten::native_batch_norm", |site| batch_norm(site, "training")),
    ("aten::_native_batch_norm_legit", |site| batch_norm(site, "training")),
    ("aten::_batch_norm_no_update", |site| batch_norm(site, "training")),
    ("aten::_native_batch_norm_legit_functional", trained_batch_norm),
    ("aten::instance_norm", instance_norm),
    ("aten::layer_norm", layer_norm),
    ("aten::group_norm", group_norm),
    ("aten::rms_norm", rms_norm),
    ("aten::_fused_rms_norm", rms_norm),
    ("aten::_weight_norm", weight_norm),
    ("aten::_weight_norm_interface", weight_norm),
    ("aten::linalg_vector_norm", vector_norm),
    ("aten::norm.ScalarOpt_dim", vector_norm),
    ("aten::norm.ScalarOpt_dim_dtype", vector_norm),
    ("aten::norm.ScalarOpt_dtype", vector_norm),
    ("aten::norm.Scalar", vector_norm),
    ("aten::frobenius_norm.dim", vector_norm),
    ("aten::linalg_norm", linalg_norm),
    ("aten::linalg_norm.ord_str", frobenius),
    ("aten::linalg_matrix_norm", matrix_norm),
    ("aten::linalg_matrix_norm.str_ord", frobenius),
    ("aten::renorm", renorm),
    ("aten::dist", dist),
    ("aten::pairwise_distance", pairwise_distance),
    ("aten::cosine_similarity", cosine_similarity),
    ("aten::cdist", cdist),
    ("aten::pdist", |site| Ok(site.renamed("aten::_pdist_forward"))),
];

/// Parameters for a batch norm, named as the operator names them.
const AFFINE: [&str; 2] = ["weight", "bias"];

/// With the statistics that the module holds, or with those of the batch where it holds none.
fn batch_norm(site: &mut Site<'_, '_>, training: &str) -> Answer {
    let (x, ty) = (site.tensor("input")?, site.result(0));
    let [weight, bias] = AFFINE.map(|name| Arg::from(site.optional_tensor(name)));
    let (momentum, eps) = (site.float("momentum", 0.1)?, site.float("eps", 1e-5)?);
    let channels = ty.sizes.get(1).cloned().unwrap_or_default();
    let common = [("input", x.into()), ("weight", weight), ("bias", bias)];
    let numbers = [("momentum", momentum.into()), ("eps", eps.into())];
    let statistics = site.optional_tensor("running_mean").zip(site.optional_tensor("running_var"));
    let mut results = match statistics {
        Some((mean, variance)) if !site.bool(training, false) => {
            let held = [("running_mean", mean.into()), ("running_var", variance.into())];
            let none = TensorType::fixed(ty.dtype, &[0]);
            let args = common.into_iter().chain(held).chain(numbers);
            site.calls("aten::_native_batch_norm_legit_no_training", args, [ty, none.clone(), none]).to_vec()
        }
        None => {
            let own = TensorType::new(ty.dtype, [channels]);
            let args = common.into_iter().chain([("training", true.into())]).chain(numbers);
            site.calls("aten::_native_batch_norm_legit.no_stats", args, [ty, own.clone(), own]).to_vec()
        }
        Some(_) => return Err(Error::unsupported("a batch norm while training: call eval() before the export")),
    };
    let wanted = site.call.outputs.len();
    while results.len() < wanted {
        let rest = site.result(results.len());
        results.push(site.full(&rest, 0));
    }
    results.truncate(wanted);
    Ok(results)
}

/// With the statistics of the batch, and the new running ones.
fn trained_batch_norm(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (site.tensor("input")?, site.result(0));
    let (momentum, eps) = (site.float("momentum", 0.1)?, site.float("eps", 1e-5)?);
    let running = [site.tensor("running_mean")?, site.tensor("running_var")?];
    if !site.bool("training", false) {
        let held = [("running_mean", running[0].into()), ("running_var", running[1].into())];
        let [weight, bias] = AFFINE.map(|name| Arg::from(site.optional_tensor(name)));
        let common = [("input", x.into()), ("weight", weight), ("bias", bias), ("momentum", momentum.into())];
        let types = [ty, site.result(1), site.result(2)];
        let args = common.into_iter().chain(held).chain([("eps", eps.into())]);
        let [y, mean, deviation] = site.calls("aten::_native_batch_norm_legit_no_training", args, types);
        return Ok(vec![y, mean, deviation, running[0], running[1]]);
    }
    let [weight, bias] = AFFINE.map(|name| Arg::from(site.optional_tensor(name)));
    let args = [
        ("input", x.into()),
        ("weight", weight),
        ("bias", bias),
        ("training", true.into()),
        ("momentum", momentum.into()),
        ("eps", eps.into()),
    ];
    let own = site.result(1);
    let [y, mean, deviation] =
        site.calls("aten::_native_batch_norm_legit.no_stats", args, [ty.clone(), own.clone(), own.clone()]);
    let dims: Vec<i64> = (0..ty.rank() as i64).filter(|&dim| dim != 1).collect();
    let spread = [("self", x.into()), ("dim", dims.into()), ("correction", 1.into()), ("keepdim", false.into())];
    let variance = site.call("aten::var.correction", spread, own.clone());
    let mut next = |old: ValueId, new: ValueId| {
        let kept = site.scalar_call("aten::mul.Scalar", old, 1.0 - momentum);
        let args = [("self", kept.into()), ("other", new.into()), ("alpha", momentum.into())];
        site.call("aten::add.Tensor", args, own.clone())
    };
    let (new_mean, new_variance) = (next(running[0], mean), next(running[1], variance));
    Ok(vec![y, mean, deviation, new_mean, new_variance])
}

/// Each channel of each image by itself: groups of one channel.
fn instance_norm(site: &mut Site<'_, '_>) -> Answer {
    if !site.bool("use_input_stats", true) {
        return batch_norm(site, "use_input_stats");
    }
    if site.optional_tensor("running_mean").is_some() {
        return Err(Error::unsupported("an instance norm that tracks statistics: call eval() before the export"));
    }
    let (x, ty) = (site.tensor("input")?, site.result(0));
    let groups = ty.sizes.get(1).cloned().unwrap_or_default();
    normalised_groups(site, x, groups)
}

fn group_norm(site: &mut Site<'_, '_>) -> Answer {
    let x = site.tensor("input")?;
    let groups = site.size("num_groups").unwrap_or_default();
    normalised_groups(site, x, groups)
}

fn normalised_groups(site: &mut Site<'_, '_>, x: ValueId, groups: Size) -> Answer {
    let (ty, eps) = (site.ranked_result(0, 2)?, site.float("eps", 1e-5)?);
    let (batch, channels) = (ty.sizes[0].clone(), ty.sizes[1].clone());
    let inner = ty.sizes[2..].iter().fold(Size::from(1), |product, size| product.times(size));
    let [weight, bias] = AFFINE.map(|name| Arg::from(site.optional_tensor(name)));
    let args = [
        ("input", x.into()),
        ("weight", weight),
        ("bias", bias),
        ("N", batch.clone().into()),
        ("C", channels.into()),
        ("HxW", inner.into()),
        ("group", groups.clone().into()),
        ("eps", eps.into()),
    ];
    let own = TensorType::new(ty.dtype, [batch, groups]);
    let [y, ..] = site.calls("aten::native_group_norm", args, [ty, own.clone(), own]);
    Ok(vec![y])
}

fn layer_norm(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (site.tensor("input")?, site.result(0));
    let shape = site.sizes("normalized_shape").unwrap_or_default();
    let [weight, bias] = AFFINE.map(|name| Arg::from(site.optional_tensor(name)));
    let dims: Vec<usize> = (ty.rank().saturating_sub(shape.len())..ty.rank()).collect();
    let own = ty.with_sizes(reduced(&ty.sizes, &dims, true));
    let args = [
        ("input", x.into()),
        ("normalized_shape", shape.into()),
        ("weight", weight),
        ("bias", bias),
        ("eps", site.float("eps", 1e-5)?.into()),
    ];
    let [y, ..] = site.calls("aten::native_layer_norm", args, [ty, own.clone(), own]);
    Ok(vec![y])
}

/// The distance from one to the next number of a floating-point type.
fn epsilon(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Half => 2f64.powi(-10),
        ScalarType::BFloat16 => 2f64.powi(-7),
        ScalarType::Double => f64::EPSILON,
        _ => f32::EPSILON.into(),
    }
}

/// `x / sqrt(mean(x²) + eps) * weight`; half-precision numbers in single precision.
fn rms_norm(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (site.tensor("input")?, site.result(0));
    let count = site.sizes("normalized_shape").unwrap_or_default().len();
    let dims: Vec<usize> = (ty.rank().saturating_sub(count)..ty.rank()).collect();
    let wide = match ty.dtype {
        ScalarType::Half | ScalarType::BFloat16 => ScalarType::Float,
        dtype => dtype,
    };
    let eps = site.float("eps", epsilon(wide))?;
    let up = site.cast(x, wide);
    let own = site.plain_type(up);
    let squares = site.binary("aten::mul.Tensor", up, up, &own);
    let mean = site.reduce("aten::mean.dim", squares, &dims, true, wide);
    let mean = site.scalar_call("aten::add.Scalar", mean, eps);
    let scale = site.unary("aten::rsqrt", mean);
    let mut y = site.binary("aten::mul.Tensor", up, scale, &own);
    if let Some(weight) = site.optional_tensor("weight") {
        let weight = site.cast(weight, wide);
        y = site.binary("aten::mul.Tensor", y, weight, &own);
    }
    let y = site.cast(y, ty.dtype);
    if site.call.outputs.len() < 2 {
        return Ok(vec![y]);
    }
    let rest = site.result(1);
    let scale = site.cast(scale, rest.dtype);
    Ok(vec![y, scale])
}

/// `g * v / |v|`, the norm along all dimensions but one.
fn weight_norm(site: &mut Site<'_, '_>) -> Answer {
    let (v, g, ty) = (site.tensor("v")?, site.tensor("g")?, site.result(0));
    let dim = site.dim("dim", 0, ty.rank())?;
    let dims: Vec<usize> = (0..ty.rank()).filter(|&other| other != dim).collect();
    let norm = norm_of(site, v, 2.0, &dims, true);
    let scale_type = site.plain_type(norm);
    let scale = site.binary("aten::div.Tensor", g, norm, &scale_type);
    let weight = site.binary("aten::mul.Tensor", v, scale, &ty);
    Ok([weight, norm][..site.call.outputs.len().min(2)].to_vec())
}

/// `(Σ |x|^p)^(1/p)` along some dimensions, and its limits. Complex numbers have the norm of their absolute values.
pub(super) fn norm_of(site: &mut Site<'_, '_>, mut x: ValueId, p: f64, dims: &[usize], keepdim: bool) -> ValueId {
    if site.ty(x).dtype.is_complex() {
        x = site.magnitude(x);
    }
    let ty = site.plain_type(x);
    let dtype = ty.dtype;
    if p == 2.0 {
        let squares = site.binary("aten::mul.Tensor", x, x, &ty);
        let sum = site.sum(squares, dims, keepdim);
        return site.unary("aten::sqrt", sum);
    }
    if p == 0.0 {
        let some = site.compare("aten::ne.Scalar", x, 0);
        let some = site.cast(some, dtype);
        return site.sum(some, dims, keepdim);
    }
    let size = site.magnitude(x);
    match p {
        f64::INFINITY => site.reduce("aten::amax", size, dims, keepdim, dtype),
        f64::NEG_INFINITY => site.reduce("aten::amin", size, dims, keepdim, dtype),
        1.0 => site.sum(size, dims, keepdim),
        _ => {
            let power = |site: &mut Site<'_, '_>, value: ValueId, exponent: f64| {
                let ty = site.plain_type(value);
                site.call("aten::pow.Tensor_Scalar", [("self", value.into()), ("exponent", exponent.into())], ty)
            };
            let powers = power(site, size, p);
            let sum = site.sum(powers, dims, keepdim);
            power(site, sum, 1.0 / p)
        }
    }
}

/// The order of a norm under either of its names.
fn order(site: &Site<'_, '_>) -> Result<f64, Error> {
    let name = if *site.arg("p") == Arg::None { "ord" } else { "p" };
    site.float(name, 2.0)
}

/// What a norm is of: numbers of the result's type, or complex ones whose parts have it.
fn measured(site: &mut Site<'_, '_>) -> Result<ValueId, Error> {
    let (x, dtype) = (subject(site)?, site.result(0).dtype);
    let own = site.ty(x).dtype;
    if !own.is_complex() {
        return Ok(site.cast(x, dtype));
    }
    let wide = if dtype == ScalarType::Double { ScalarType::ComplexDouble } else { own };
    Ok(site.cast(x, wide))
}

fn vector_norm(site: &mut Site<'_, '_>) -> Answer {
    let (x, p) = (measured(site)?, order(site)?);
    let rank = site.ty(x).rank();
    let (dims, keepdim) = (site.dims("dim", rank)?, site.bool("keepdim", false));
    Ok(vec![norm_of(site, x, p, &dims, keepdim)])
}

/// A norm of vectors, or of matrices where an order and two dimensions are given.
fn linalg_norm(site: &mut Site<'_, '_>) -> Answer {
    let rank = site.ty(subject(site)?).rank();
    let dims = site.ints("dim", &[])?;
    let matrices = *site.arg("ord") != Arg::None && (dims.len() == 2 || (dims.is_empty() && rank == 2));
    if matrices { matrix_norm(site) } else { vector_norm(site) }
}

fn frobenius(site: &mut Site<'_, '_>) -> Answer {
    let x = measured(site)?;
    if site.text("ord", "fro") == "nuc" {
        if is_empty(site, x)? {
            return zeros(site);
        }
        return spectral(site, x, "aten::sum.dim_IntList");
    }
    let (dims, keepdim) = (matrix_dims(site, x)?, site.bool("keepdim", false));
    Ok(vec![norm_of(site, x, 2.0, &dims, keepdim)])
}

/// The rows' and the columns' dimension.
pub(super) fn matrix_dims(site: &Site<'_, '_>, x: ValueId) -> Result<[usize; 2], Error> {
    let rank = site.ty(x).rank();
    let dims = site.ints("dim", &[-2, -1])?;
    let dim = |index: usize| dims.get(index).and_then(|&dim| place(dim, rank));
    dim(0).zip(dim(1)).map(|(a, b)| [a, b]).ok_or_else(|| Error::unsupported("a matrix norm of other dimensions"))
}

/// Whether matrices have no elements. The norms of such are zero, if they are not the smallest of something.
fn is_empty(site: &Site<'_, '_>, x: ValueId) -> Result<bool, Error> {
    let ty = site.ty(x);
    Ok(matrix_dims(site, x)?.iter().any(|&dim| ty.size(dim).number() == Some(0)))
}

fn zeros(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    Ok(vec![site.full(&ty, 0)])
}

/// The largest or smallest sum of sizes along one dimension.
fn matrix_norm(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty, p) = (measured(site)?, site.result(0), site.float("ord", 2.0)?);
    let ([rows, columns], keepdim) = (matrix_dims(site, x)?, site.bool("keepdim", false));
    if p > 0.0 && is_empty(site, x)? {
        return zeros(site);
    }
    let (summed, other) = if p.abs() == 1.0 { (rows, columns) } else { (columns, rows) };
    if p.abs() == 2.0 {
        return spectral(site, x, if p > 0.0 { "aten::amax" } else { "aten::amin" });
    }
    let size = site.magnitude(x);
    let sums = site.sum(size, &[summed], true);
    let extreme = if p > 0.0 { "aten::amax" } else { "aten::amin" };
    let norm = site.reduce(extreme, sums, &[other], true, ty.dtype);
    let sizes = reduced(&site.ty(x).sizes, &[rows, columns], keepdim);
    Ok(vec![site.view(norm, sizes)])
}

/// Slices along a dimension, made no longer than `maxnorm`.
fn renorm(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let (p, most) = (site.float("p", 2.0)?, site.float("maxnorm", 1.0)?);
    let dim = site.dim("dim", 0, ty.rank())?;
    let dims: Vec<usize> = (0..ty.rank()).filter(|&other| other != dim).collect();
    let norm = norm_of(site, x, p, &dims, true);
    let own = site.plain_type(norm);
    let long = site.compare("aten::gt.Scalar", norm, most);
    let shifted = site.scalar_call("aten::add.Scalar", norm, 1e-7);
    let part = site.unary("aten::reciprocal", shifted);
    let part = site.scalar_call("aten::mul.Scalar", part, most);
    let one = site.number(1, ty.dtype);
    let factor = site.choose(long, part, one, &own);
    Ok(vec![site.binary("aten::mul.Tensor", x, factor, &ty)])
}

/// The difference of two tensors as the type `dtype`, or the complex type of such parts. Integers are subtracted as they
/// are.
pub(super) fn difference(site: &mut Site<'_, '_>, names: [&str; 2], dtype: ScalarType) -> Result<ValueId, Error> {
    let (a, b) = (site.tensor(names[0])?, site.tensor(names[1])?);
    let types = [a, b].map(|value| site.ty(value).dtype);
    let own = match (types.iter().any(|own| own.is_complex()), dtype) {
        (true, ScalarType::Double) => ScalarType::ComplexDouble,
        (true, ScalarType::Float) => ScalarType::ComplexFloat,
        _ if types.iter().all(|own| own.is_integral(true)) => promote_types(types[0], types[1]).unwrap_or(dtype),
        (_, other) => other,
    };
    let (a, b) = (site.cast(a, own), site.cast(b, own));
    let sizes = crate::lower::calls::broadcast(&site.ty(a).sizes, &site.ty(b).sizes);
    let way = site.binary("aten::sub.Tensor", a, b, &TensorType::new(own, sizes));
    Ok(if own.is_complex() { way } else { site.cast(way, dtype) })
}

fn dist(site: &mut Site<'_, '_>) -> Answer {
    let (ty, p) = (site.result(0), order(site)?);
    let way = difference(site, ["self", "other"], ty.dtype)?;
    let dims: Vec<usize> = (0..site.ty(way).rank()).collect();
    Ok(vec![norm_of(site, way, p, &dims, false)])
}

fn pairwise_distance(site: &mut Site<'_, '_>) -> Answer {
    let (ty, p, eps) = (site.result(0), order(site)?, site.float("eps", 1e-6)?);
    let way = difference(site, ["x1", "x2"], ty.dtype)?;
    let way = site.scalar_call("aten::add.Scalar", way, eps);
    let last = site.ty(way).rank().saturating_sub(1);
    Ok(vec![norm_of(site, way, p, &[last], site.bool("keepdim", false))])
}

/// `Σ a b / (max(|a|, eps) max(|b|, eps))` along a dimension.
fn cosine_similarity(site: &mut Site<'_, '_>) -> Answer {
    let (a, b, ty) = (site.tensor("x1")?, site.tensor("x2")?, site.result(0));
    let (a, b) = (site.cast(a, ty.dtype), site.cast(b, ty.dtype));
    let sizes = crate::lower::calls::broadcast(&site.ty(a).sizes, &site.ty(b).sizes);
    let (dim, eps) = (site.dim("dim", 1, sizes.len())?, site.float("eps", 1e-8)?);
    let wide = ty.with_sizes(sizes.clone());
    let [a, b] = [a, b].map(|value| {
        let value = site.expand(value, &sizes);
        let norm = norm_of(site, value, 2.0, &[dim], true);
        let own = site.plain_type(norm);
        let norm = site.call("aten::clamp", [("self", norm.into()), ("min", eps.into())], own);
        site.binary("aten::div.Tensor", value, norm, &wide)
    });
    let product = site.binary("aten::mul.Tensor", a, b, &wide);
    Ok(vec![site.sum(product, &[dim], false)])
}

/// Distances between all pairs of rows.
fn cdist(site: &mut Site<'_, '_>) -> Answer {
    let (a, b, ty) = (site.tensor("x1")?, site.tensor("x2")?, site.result(0));
    let args = [("x1", a.into()), ("x2", b.into()), ("p", site.float("p", 2.0)?.into()), ("compute_mode", Arg::None)];
    Ok(vec![site.call("aten::_cdist_forward", args, ty)])
}
