//! Complex numbers: their parts, and what other families ask of them part by part.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::real", |site| part(site, 0)),
    ("aten::imag", |site| part(site, 1)),
    ("aten::resolve_conj", |site| Ok(vec![subject(site)?])),
    ("aten::resolve_neg", |site| Ok(vec![subject(site)?])),
    ("aten::_conj", |site| conjugate(site)),
    ("aten::conj", |site| conjugate(site)),
    ("aten::conj_physical", |site| conjugate(site)),
    ("aten::isreal", isreal),
    ("aten::cumsum", cumsum),
    ("aten::sgn", |site| {
        let complex = site.result(0).dtype.is_complex();
        Ok(site.renamed(if complex { "aten::sgn" } else { "aten::sign" }))
    }),
];

/// The real or the imaginary part.
fn part(site: &mut Site<'_, '_>, index: i64) -> Answer {
    let x = subject(site)?;
    let ty = site.ty(x);
    if !ty.dtype.is_complex() {
        return if index == 0 { Ok(vec![x]) } else { Err(Error::unsupported("the imaginary part of real numbers")) };
    }
    let pairs = site.pairs(x);
    Ok(vec![site.select(pairs, ty.rank(), index.into())])
}

fn conjugate(site: &mut Site<'_, '_>) -> Answer {
    let x = subject(site)?;
    Ok(vec![site.conjugate(x)])
}

/// Whether the imaginary part is zero.
fn isreal(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    if !site.ty(x).dtype.is_complex() {
        return Ok(vec![site.full(&ty, true)]);
    }
    let pairs = site.pairs(x);
    let imaginary = site.select(pairs, ty.rank(), 1.into());
    Ok(vec![site.compare("aten::eq.Scalar", imaginary, 0)])
}

/// The sums of both parts, each by itself.
fn cumsum(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    if !ty.dtype.is_complex() {
        return Ok(site.renamed("aten::cumsum"));
    }
    let x = site.cast(x, ty.dtype);
    if ty.rank() == 0 {
        return Ok(vec![x]);
    }
    let dim = site.dim("dim", -1, ty.rank())?;
    let pairs = site.pairs(x);
    let wide = site.plain_type(pairs);
    let sums = site.call("aten::cumsum", [("self", pairs.into()), ("dim", (dim as i64).into())], wide);
    Ok(vec![site.numbers_of(sums)])
}

/// The mean of complex numbers: their sum by their count.
pub(super) fn mean(site: &mut Site<'_, '_>, x: ValueId, dims: &[usize], keepdim: bool) -> ValueId {
    let own = site.ty(x);
    let count = dims.iter().fold(Size::from(1), |count, &dim| count.times(&own.size(dim)));
    let sum = site.sum(x, dims, keepdim);
    site.scalar_call("aten::div.Scalar", sum, count)
}

/// The variance of complex numbers, which is that of both parts together; `args` are those of the operator after `self`.
pub(super) fn variance(
    site: &mut Site<'_, '_>,
    x: ValueId,
    dims: &[usize],
    further: [(&'static str, Arg); 2],
    ty: &TensorType,
) -> ValueId {
    let pairs = site.pairs(x);
    let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
    let args = [("self", pairs.into()), ("dim", dims.into())].into_iter().chain(further);
    let sizes = [&ty.sizes[..], &[2.into()]].concat();
    let both = site.call("aten::var.correction", args, ty.with_sizes(sizes));
    site.sum(both, &[ty.rank()], false)
}
