//! Products by group, as mixtures of experts take them.

use super::{Answer, Table};
use crate::Error;
use crate::ir::{Arg, ValueId};
use crate::lower::Site;

pub(super) const RULES: Table = &[("aten::_grouped_mm", grouped), ("transformers::grouped_mm_fallback", fallback)];

/// The same of transformers, under another name.
fn fallback(site: &mut Site<'_, '_>) -> Answer {
    let (rows, own, ends, ty) = (site.tensor("input")?, site.tensor("weight")?, site.tensor("offs")?, site.result(0));
    Ok(vec![by_row(site, [rows, own, ends], ty)])
}

/// `[rows, k] @ [groups, k, n]`, the groups behind each other along the rows.
fn by_row(site: &mut Site<'_, '_>, [rows, own, ends]: [ValueId; 3], ty: crate::ir::TensorType) -> ValueId {
    site.call("aten::_grouped_mm", [("self", rows.into()), ("mat2", own.into()), ("offs", ends.into())], ty)
}

/// Groups may lie along the rows of the first matrix, along the columns of the second, or be matrices already.
fn grouped(site: &mut Site<'_, '_>) -> Answer {
    let (a, b, ty) = (site.tensor("self")?, site.tensor("mat2")?, site.ranked_result(0, 2)?);
    if *site.arg("bias") != Arg::None {
        return Err(Error::unsupported("aten::_grouped_mm with a bias"));
    }
    let (a, b) = (site.cast(a, ty.dtype), site.cast(b, ty.dtype));
    let ends = site.optional_tensor("offs");
    match (site.ty(a).rank(), site.ty(b).rank(), ends) {
        (2, 3, Some(ends)) => Ok(vec![by_row(site, [a, b, ends], ty)]),
        (3, 2, Some(ends)) => {
            let (rows, own) = (site.transposed(b, 0, 1), site.transposed(a, 1, 2));
            let turned = ty.with_sizes([ty.size(1), ty.size(0)]);
            let product = by_row(site, [rows, own, ends], turned);
            Ok(vec![site.transposed(product, 0, 1)])
        }
        (3, 3, None) => Ok(vec![site.matmul(a, b, ty)]),
        (left, right, _) => {
            Err(Error::unsupported(format!("aten::_grouped_mm of tensors of {left} and {right} dimensions")))
        }
    }
}
