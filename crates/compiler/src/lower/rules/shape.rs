//! The same elements in other shapes.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::ValueId;
use crate::lower::{Site, place};

pub(super) const RULES: Table = &[
    ("aten::reshape", reshaped),
    ("aten::_unsafe_view", reshaped),
    ("aten::_reshape_alias", reshaped),
    ("aten::reshape_as", reshaped),
    ("aten::view_as", reshaped),
    ("aten::flatten.using_ints", reshaped),
    ("aten::unflatten.int", reshaped),
    ("aten::ravel", reshaped),
    ("aten::unsqueeze", reshaped),
    ("aten::squeeze", reshaped),
    ("aten::squeeze.dim", reshaped),
    ("aten::squeeze.dims", reshaped),
    ("aten::alias", same),
    ("aten::detach", same),
    ("aten::lift_fresh", same),
    ("aten::lift_fresh_copy", same),
    ("aten::contiguous", same),
    ("aten::view.dtype", same_bits),
    ("aten::expand", expanded),
    ("aten::expand_as", expanded),
    ("aten::broadcast_to", expanded),
    ("aten::movedim.intlist", movedim),
    ("aten::movedim.int", movedim),
    ("aten::numpy_T", reversed),
    ("aten::mT", |site| {
        let value = site.tensor("self")?;
        Ok(vec![turned(site, value)])
    }),
    ("aten::mH", adjoint),
    ("aten::matrix_H", adjoint),
    ("aten::sum_to_size", sum_to_size),
    ("aten::adjoint", adjoint),
    ("aten::H", adjoint),
    ("aten::view_copy", reshaped),
    ("aten::squeeze_copy", reshaped),
    ("aten::squeeze_copy.dim", reshaped),
    ("aten::squeeze_copy.dims", reshaped),
    ("aten::unsqueeze_copy", reshaped),
    ("aten::expand_copy", expanded),
    ("aten::alias_copy", same),
    ("aten::detach_copy", same),
    ("aten::transpose_copy.int", transpose),
    ("aten::t_copy", reversed),
    ("aten::transpose.int", transpose),
    ("aten::t", reversed),
];

/// A view: the result's type says all.
fn reshaped(site: &mut Site<'_, '_>) -> Answer {
    let (value, sizes) = (site.tensor("self")?, site.result(0).sizes);
    Ok(vec![site.view(value, sizes)])
}

/// The value itself.
fn same(site: &mut Site<'_, '_>) -> Answer {
    Ok(vec![subject(site)?])
}

fn transpose(site: &mut Site<'_, '_>) -> Answer {
    let value = site.tensor("self")?;
    let rank = site.ty(value).rank();
    let mut order: Vec<usize> = (0..rank).collect();
    let dims = (place(site.int("dim0", 0)?, rank), place(site.int("dim1", 1)?, rank));
    if let (Some(a), Some(b), true) = (dims.0, dims.1, rank > 0) {
        order.swap(a, b);
    }
    Ok(vec![site.permute(value, &order)])
}

/// All dimensions in the opposite order.
fn reversed(site: &mut Site<'_, '_>) -> Answer {
    let value = site.tensor("self")?;
    let order: Vec<usize> = (0..site.ty(value).rank()).rev().collect();
    Ok(vec![site.permute(value, &order)])
}

/// The last two dimensions exchanged.
fn turned(site: &mut Site<'_, '_>, value: ValueId) -> ValueId {
    let rank = site.ty(value).rank();
    if rank < 2 { value } else { site.transposed(value, rank - 2, rank - 1) }
}

/// The conjugate with the last two dimensions exchanged.
fn adjoint(site: &mut Site<'_, '_>) -> Answer {
    let value = site.tensor("self")?;
    let value = turned(site, value);
    Ok(vec![site.conjugate(value)])
}

/// Repeated to the result's sizes; `-1` in the arguments is what the tensor has.
fn expanded(site: &mut Site<'_, '_>) -> Answer {
    let (value, ty) = (site.tensor("self")?, site.result(0));
    Ok(vec![site.expand(value, &ty.sizes)])
}

/// Some dimensions to other places, the rest in between as they were.
fn movedim(site: &mut Site<'_, '_>) -> Answer {
    let value = site.tensor("self")?;
    let rank = site.ty(value).rank();
    let dims = |name: &str| -> Result<Vec<usize>, Error> {
        let all = site.ints(name, &[])?.into_iter().map(|dim| place(dim, rank));
        all.collect::<Option<_>>().ok_or_else(|| Error::unsupported("moving dimensions that a tensor does not have"))
    };
    let (from, to) = (dims("source")?, dims("destination")?);
    if rank == 0 {
        return Ok(vec![value]);
    }
    let mut rest = (0..rank).filter(|dim| !from.contains(dim));
    let order: Vec<usize> = (0..rank)
        .map(|dim| match to.iter().position(|own| *own == dim) {
            Some(index) => from.get(index).copied().unwrap_or(0),
            None => rest.next().unwrap_or(0),
        })
        .collect();
    Ok(vec![site.permute(value, &order)])
}

/// Bits as another type are the same value only if the type is the same.
fn same_bits(site: &mut Site<'_, '_>) -> Answer {
    let value = site.tensor("self")?;
    let (from, to) = (site.ty(value).dtype, site.result(0).dtype);
    if from != to {
        return Err(Error::unsupported(format!("the bits of {} as {}", from.name(), to.name())));
    }
    reshaped(site)
}

/// The opposite of an expansion: what was repeated is summed.
fn sum_to_size(site: &mut Site<'_, '_>) -> Answer {
    let (value, ty) = (site.tensor("self")?, site.result(0));
    let sizes = site.ranked(site.ty(value), ty.rank())?.sizes;
    let new = sizes.len() - ty.rank();
    let other = |dim: usize| dim < new || sizes[dim] != ty.sizes[dim - new];
    let dims: Vec<usize> = (0..sizes.len()).filter(|&dim| other(dim)).collect();
    let sum = if dims.is_empty() { value } else { site.reduce("aten::sum.dim_IntList", value, &dims, true, ty.dtype) };
    Ok(vec![site.view(sum, ty.sizes)])
}
