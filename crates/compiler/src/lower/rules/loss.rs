//! Losses, for programs that also tell how good their answers are.

use super::norm::difference;
use super::{Answer, Table};
use crate::Error;
use crate::ir::{TensorType, ValueId};
use crate::lower::Site;
use crate::lower::calls::broadcast;

pub(super) const RULES: Table = &[
    ("aten::mse_loss", |site| between(site, squared)),
    ("aten::l1_loss", |site| between(site, |site, way| Ok(site.magnitude(way)))),
    ("aten::smooth_l1_loss", |site| {
        let beta = site.float("beta", 1.0)?;
        between(site, |site, way| bent(site, way, beta, 1.0 / beta))
    }),
    ("aten::huber_loss", |site| {
        let delta = site.float("delta", 1.0)?;
        between(site, |site, way| bent(site, way, delta, 1.0))
    }),
    ("aten::binary_cross_entropy", binary_cross_entropy),
    ("aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits),
    ("aten::kl_div", kl_div),
    ("aten::soft_margin_loss", soft_margin),
    ("aten::nll_loss_nd", |site| {
        let scores = site.tensor("self")?;
        likelihood(site, scores)
    }),
    ("aten::nll_loss", |site| {
        let scores = site.tensor("self")?;
        likelihood(site, scores)
    }),
    ("aten::cross_entropy_loss", cross_entropy),
];

/// All losses, their mean or their sum.
fn reduced(site: &mut Site<'_, '_>, losses: ValueId) -> Answer {
    let (ty, dims) = (site.plain_type(losses), (0..site.ty(losses).rank()).collect::<Vec<_>>());
    Ok(vec![match site.int("reduction", 1)? {
        0 => losses,
        1 => site.reduce("aten::mean.dim", losses, &dims, false, ty.dtype),
        _ => site.sum(losses, &dims, false),
    }])
}

/// A loss of the difference.
fn between(site: &mut Site<'_, '_>, loss: impl Fn(&mut Site<'_, '_>, ValueId) -> Result<ValueId, Error>) -> Answer {
    let way = difference(site, ["self", "target"], site.result(0).dtype)?;
    let losses = loss(site, way)?;
    reduced(site, losses)
}

fn squared(site: &mut Site<'_, '_>, way: ValueId) -> Result<ValueId, Error> {
    let ty = site.plain_type(way);
    Ok(site.binary("aten::mul.Tensor", way, way, &ty))
}

/// Half a square near zero, a line further away, times a factor.
fn bent(site: &mut Site<'_, '_>, way: ValueId, width: f64, factor: f64) -> Result<ValueId, Error> {
    let ty = site.plain_type(way);
    let size = site.unary("aten::abs", way);
    if width == 0.0 {
        return Ok(size);
    }
    let square = site.binary("aten::mul.Tensor", size, size, &ty);
    let square = site.scalar_call("aten::mul.Scalar", square, 0.5 * factor);
    let line = site.scalar_call("aten::sub.Scalar", size, 0.5 * width);
    let line = site.scalar_call("aten::mul.Scalar", line, width * factor);
    let near = site.compare("aten::lt.Scalar", size, width);
    Ok(site.choose(near, square, line, &ty))
}

/// Losses times a weight, if there is one.
fn weighted(site: &mut Site<'_, '_>, losses: ValueId) -> ValueId {
    match site.optional_tensor("weight") {
        Some(weight) => {
            let ty = site.plain_type(losses);
            site.binary("aten::mul.Tensor", losses, weight, &ty)
        }
        None => losses,
    }
}

/// `-(t log p + (1 - t) log (1 - p))`, no logarithm below -100.
fn binary_cross_entropy(site: &mut Site<'_, '_>) -> Answer {
    let (p, target) = (site.tensor("self")?, site.tensor("target")?);
    let ty = site.plain_type(p);
    let negative = site.unary("aten::neg", p);
    let [yes, no] = [(p, "aten::log"), (negative, "aten::log1p")].map(|(value, operator)| {
        let log = site.unary(operator, value);
        site.call("aten::clamp", [("self", log.into()), ("min", (-100.0).into())], ty.clone())
    });
    let other = site.scalar_call("aten::sub.Scalar", target, 1);
    let other = site.binary("aten::mul.Tensor", other, no, &ty);
    let own = site.binary("aten::mul.Tensor", target, yes, &ty);
    let losses = site.binary("aten::sub.Tensor", other, own, &ty);
    let losses = weighted(site, losses);
    reduced(site, losses)
}

/// `(1 - t) x + (1 + (w - 1) t) log(1 + exp(-x))`.
fn binary_cross_entropy_with_logits(site: &mut Site<'_, '_>) -> Answer {
    let (x, target) = (site.tensor("self")?, site.tensor("target")?);
    let ty = site.plain_type(x);
    let mut log = site.call("aten::log_sigmoid", [("self", x.into())], ty.clone());
    if let Some(weight) = site.optional_tensor("pos_weight") {
        let own = site.plain_type(weight);
        let more = site.binary("aten::sub.Scalar", weight, 1, &own);
        let factor = site.binary("aten::mul.Tensor", target, more, &ty);
        let factor = site.scalar_call("aten::add.Scalar", factor, 1);
        log = site.binary("aten::mul.Tensor", log, factor, &ty);
    }
    let other = site.binary("aten::rsub.Scalar", target, 1, &ty);
    let other = site.binary("aten::mul.Tensor", other, x, &ty);
    let losses = site.binary("aten::sub.Tensor", other, log, &ty);
    let losses = weighted(site, losses);
    reduced(site, losses)
}

/// `t (log t - x)`, nothing where `t` is zero.
fn kl_div(site: &mut Site<'_, '_>) -> Answer {
    let (x, target) = (site.tensor("self")?, site.tensor("target")?);
    let sizes = broadcast(&site.ty(x).sizes, &site.ty(target).sizes);
    let ty = site.plain_type(x).with_sizes(sizes);
    if site.bool("log_target", false) {
        let way = site.binary("aten::sub.Tensor", target, x, &ty);
        let power = site.unary("aten::exp", target);
        let losses = site.binary("aten::mul.Tensor", power, way, &ty);
        return reduced(site, losses);
    }
    let own = site.plain_type(target);
    let log = site.unary("aten::log", target);
    let product = site.binary("aten::mul.Tensor", target, log, &own);
    let nothing = site.compare("aten::eq.Scalar", target, 0);
    let product = site.fill_where(product, nothing, 0);
    let other = site.binary("aten::mul.Tensor", target, x, &ty);
    let losses = site.binary("aten::sub.Tensor", product, other, &ty);
    reduced(site, losses)
}

/// `log(1 + exp(-t x))`.
fn soft_margin(site: &mut Site<'_, '_>) -> Answer {
    let (x, target) = (site.tensor("self")?, site.tensor("target")?);
    let ty = site.plain_type(x);
    let product = site.binary("aten::mul.Tensor", x, target, &ty);
    let negative = site.unary("aten::neg", product);
    let power = site.unary("aten::exp", negative);
    let losses = site.unary("aten::log1p", power);
    reduced(site, losses)
}

fn cross_entropy(site: &mut Site<'_, '_>) -> Answer {
    let (x, target) = (site.tensor("self")?, site.tensor("target")?);
    let ty = site.plain_type(x);
    let dim = usize::from(ty.rank() > 1);
    let args = [("self", x.into()), ("dim", (dim as i64).into()), ("half_to_float", false.into())];
    let scores = site.call("aten::_log_softmax", args, ty.clone());
    let (smoothing, shares) = (site.float("label_smoothing", 0.0)?, site.ty(target).dtype.is_floating());
    if smoothing != 0.0 || (shares && site.optional_tensor("weight").is_some()) {
        return Err(Error::unsupported("a cross entropy with smoothed labels"));
    }
    if !shares {
        return likelihood(site, scores);
    }
    // Each class has a share of the target.
    let product = site.binary("aten::mul.Tensor", scores, target, &ty);
    let sum = site.sum(product, &[dim], false);
    let losses = site.unary("aten::neg", sum);
    reduced(site, losses)
}

/// Minus the score of the right class, weighted; places with the class to ignore do not count.
fn likelihood(site: &mut Site<'_, '_>, scores: ValueId) -> Answer {
    let target = site.tensor("target")?;
    let (ty, own) = (site.plain_type(scores), site.plain_type(target));
    let dim = usize::from(ty.rank() > 1);
    let left_out = site.compare("aten::eq.Scalar", target, site.int("ignore_index", -100)?);
    let class = site.fill_where(target, left_out, 0);
    let index = site.unsqueeze(class, dim);
    let one = ty.with_sizes(site.ty(index).sizes);
    let args = [("self", scores.into()), ("dim", (dim as i64).into()), ("index", index.into())];
    let picked = site.call("aten::gather", args, one);
    let picked = site.view(picked, own.sizes.clone());
    let mut losses = site.unary("aten::neg", picked);
    let mut weights = site.full(&own.with_dtype(ty.dtype), 1);
    if let Some(weight) = site.optional_tensor("weight") {
        let flat = site.view(class, vec![own.count()]);
        let args = [("self", weight.into()), ("dim", 0.into()), ("index", flat.into())];
        let all = site.call("aten::index_select", args, ty.with_sizes([own.count()]));
        weights = site.view(all, own.sizes.clone());
        losses = site.binary("aten::mul.Tensor", losses, weights, &own.with_dtype(ty.dtype));
    }
    let (losses, weights) = (site.fill_where(losses, left_out, 0), site.fill_where(weights, left_out, 0));
    let dims: Vec<usize> = (0..own.rank()).collect();
    Ok(vec![match site.int("reduction", 1)? {
        0 => losses,
        1 => {
            let (sum, weight) = (site.sum(losses, &dims, false), site.sum(weights, &dims, false));
            site.binary("aten::div.Tensor", sum, weight, &TensorType::fixed(ty.dtype, &[]))
        }
        _ => site.sum(losses, &dims, false),
    }])
}
