//! The same elements in other shapes.

use super::Table;
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
    ("aten::dropout", same),
    ("aten::transpose.int", transpose),
    ("aten::t", |site| {
        let rank = site.ty(site.tensor("self")?).rank();
        let value = site.tensor("self")?;
        Ok(vec![site.permute(value, &(0..rank).rev().collect::<Vec<_>>())])
    }),
];

/// A view: the result's type says all.
fn reshaped(site: &mut Site<'_, '_>) -> Result<Vec<ValueId>, Error> {
    let (value, sizes) = (site.tensor("self")?, site.result(0).sizes);
    Ok(vec![site.view(value, sizes)])
}

/// The value itself.
fn same(site: &mut Site<'_, '_>) -> Result<Vec<ValueId>, Error> {
    let value = site.optional_tensor("self").map_or_else(|| site.tensor("input"), Ok)?;
    Ok(vec![value])
}

fn transpose(site: &mut Site<'_, '_>) -> Result<Vec<ValueId>, Error> {
    let value = site.tensor("self")?;
    let rank = site.ty(value).rank();
    let mut order: Vec<usize> = (0..rank).collect();
    let dims = (place(site.int("dim0", 0)?, rank), place(site.int("dim1", 1)?, rank));
    if let (Some(a), Some(b), true) = (dims.0, dims.1, rank > 0) {
        order.swap(a, b);
    }
    Ok(vec![site.permute(value, &order)])
}
