//! Dropouts. Outside training they are nothing; in training elements, or whole channels, are drawn that become zero.
//!
//! What is drawn differs from PyTorch's, the distribution does not: the runtime's `native_dropout` draws for all of them.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::dropout", |site| dropout(site, false, false)),
    ("aten::feature_dropout", |site| dropout(site, true, false)),
    ("aten::alpha_dropout", |site| dropout(site, false, true)),
    ("aten::feature_alpha_dropout", |site| dropout(site, true, true)),
];

/// What a saturated scaled exponential unit gives, which is what an alpha dropout puts in place of elements.
const SATURATED: f64 = -1.758_099_340_847_376_6;

fn dropout(site: &mut Site<'_, '_>, whole_channels: bool, alpha: bool) -> Answer {
    let (x, p) = (subject(site)?, probability(site, "p", 0.5)?);
    if !site.bool("train", true) || p == 0.0 {
        return Ok(vec![x]);
    }
    if p == 1.0 || !(whole_channels || alpha) {
        return Ok(vec![dropped(site, x, p)]);
    }
    let ty = site.plain_type(x);
    let sizes = if whole_channels { channels(&site.ranked(ty.clone(), 2)?) } else { ty.sizes.clone() };
    let (noise, stays) = noise(site, &ty.with_sizes(sizes), p);
    if !alpha {
        return Ok(vec![site.binary("aten::mul.Tensor", x, noise, &ty)]);
    }
    // The mean and the variance stay: `a x + b` where an element stays, `a SATURATED + b` where it goes.
    let a = 1.0 / ((SATURATED * SATURATED * p + 1.0) * (1.0 - p)).sqrt();
    let b = -SATURATED * a * p;
    let gone = site.number(SATURATED, ty.dtype);
    let kept = site.choose(stays, x, gone, &ty);
    let scaled = site.scalar_call("aten::mul.Scalar", kept, a);
    Ok(vec![site.scalar_call("aten::add.Scalar", scaled, b)])
}

/// A probability among the arguments.
pub(super) fn probability(site: &Site<'_, '_>, name: &str, default: f64) -> Result<f64, Error> {
    let p = site.float(name, default)?;
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(Error::unsupported(format!("a dropout with the probability {p}")))
    }
}

/// Elements with a probability zero, the others larger so that the mean stays.
pub(super) fn dropped(site: &mut Site<'_, '_>, x: ValueId, p: f64) -> ValueId {
    let ty = site.plain_type(x);
    if p == 0.0 {
        return x;
    }
    if p == 1.0 {
        return site.scalar_call("aten::mul.Scalar", x, 0);
    }
    if ty.dtype.is_complex() {
        let (noise, _) = noise(site, &ty, p);
        return site.binary("aten::mul.Tensor", x, noise, &ty);
    }
    native(site, x, p).0
}

/// Factors for elements of a type, and which of them are not zero.
fn noise(site: &mut Site<'_, '_>, ty: &TensorType, p: f64) -> (ValueId, ValueId) {
    let ones = site.full(&ty.with_dtype(ty.dtype.real()), 1);
    let (noise, stays) = native(site, ones, p);
    (site.cast(noise, ty.dtype), stays)
}

fn native(site: &mut Site<'_, '_>, x: ValueId, p: f64) -> (ValueId, ValueId) {
    let ty = site.plain_type(x);
    let args = [("input", x.into()), ("p", p.into()), ("train", true.into())];
    let [result, stays] = site.calls("aten::native_dropout", args, [ty.clone(), ty.with_dtype(ScalarType::Bool)]);
    (result, stays)
}

/// One element for each channel of each image.
fn channels(ty: &TensorType) -> Vec<Size> {
    let size = |(dim, size): (usize, &Size)| if dim < 2 { size.clone() } else { 1.into() };
    ty.sizes.iter().enumerate().map(size).collect()
}
