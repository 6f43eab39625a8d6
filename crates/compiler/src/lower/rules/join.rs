//! Tensors from parts, and parts of tensors.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;

pub(super) const RULES: Table = &[
    ("aten::chunk", |site| split(site, None)),
    ("aten::split.Tensor", |site| split(site, None)),
    ("aten::split.sizes", |site| split(site, None)),
    ("aten::split_with_sizes", |site| split(site, None)),
    ("aten::tensor_split.sections", |site| split(site, None)),
    ("aten::tensor_split.indices", |site| split(site, None)),
    ("aten::hsplit.int", |site| split(site, Some(1))),
    ("aten::hsplit.array", |site| split(site, Some(1))),
    ("aten::vsplit.int", |site| split(site, Some(0))),
    ("aten::vsplit.array", |site| split(site, Some(0))),
    ("aten::dsplit.int", |site| split(site, Some(2))),
    ("aten::dsplit.array", |site| split(site, Some(2))),
    ("aten::cat", cat),
    ("aten::stack", stack),
    ("aten::hstack", |site| joined(site, 1, |rank| usize::from(rank > 1))),
    ("aten::vstack", |site| joined(site, 2, |_| 0)),
    ("aten::dstack", |site| joined(site, 3, |_| 2)),
    ("aten::column_stack", column_stack),
    ("aten::atleast_1d", at_least),
    ("aten::atleast_2d", at_least),
    ("aten::atleast_3d", at_least),
    ("aten::atleast_1d.Sequence", at_least),
    ("aten::atleast_2d.Sequence", at_least),
    ("aten::atleast_3d.Sequence", at_least),
    ("aten::meshgrid", meshgrid),
    ("aten::meshgrid.indexing", meshgrid),
    ("aten::broadcast_tensors", broadcast_tensors),
    ("aten::cartesian_prod", cartesian_prod),
    ("aten::block_diag", block_diag),
    ("aten::tile", tile),
    ("aten::repeat_interleave.self_int", repeat_interleave),
    ("aten::repeat_interleave.self_Tensor", repeat_each),
    ("aten::rot90", rot90),
    ("aten::fliplr", |site| flip(site, 1)),
    ("aten::flipud", |site| flip(site, 0)),
];

/// Parts with the sizes that the results have.
fn split(site: &mut Site<'_, '_>, dim: Option<usize>) -> Answer {
    let x = subject(site)?;
    let rank = site.ty(x).rank();
    let dim = match dim {
        // Vectors are split along the dimension that they have.
        Some(dim) => dim.min(rank.saturating_sub(1)),
        None => site.dim("dim", 0, rank)?,
    };
    let types: Vec<TensorType> = (0..site.call.outputs.len()).map(|index| site.result(index)).collect();
    let sizes: Vec<Size> = types.iter().map(|ty| ty.sizes.get(dim).cloned().unwrap_or_default()).collect();
    let args = [("self", x.into()), ("split_sizes", sizes.into()), ("dim", (dim as i64).into())];
    Ok(site.call_many("aten::split_with_sizes", args, types))
}

/// Tensors of the result's type; empty vectors, which torch allows anywhere, go.
fn cat(site: &mut Site<'_, '_>) -> Answer {
    let (values, ty) = (site.tensors("tensors")?, site.result(0));
    let parts: Vec<ValueId> = values
        .into_iter()
        .filter(|value| {
            let own = site.ty(*value);
            own.rank() == ty.rank() && !(own.rank() == 1 && own.sizes[0].number() == Some(0))
        })
        .collect();
    let parts: Vec<ValueId> = parts.into_iter().map(|part| site.cast(part, ty.dtype)).collect();
    match parts.as_slice() {
        [] => Ok(vec![site.full(&ty, 0)]),
        [one] => Ok(vec![*one]),
        _ => {
            let args = [("tensors", parts.into()), ("dim", (site.dim("dim", 0, ty.rank())? as i64).into())];
            Ok(vec![site.call("aten::cat", args, ty)])
        }
    }
}

fn stack(site: &mut Site<'_, '_>) -> Answer {
    let (values, ty) = (site.tensors("tensors")?, site.result(0));
    let parts: Vec<ValueId> = values.into_iter().map(|part| site.cast(part, ty.dtype)).collect();
    let args = [("tensors", parts.into()), ("dim", (site.dim("dim", 0, ty.rank())? as i64).into())];
    Ok(vec![site.call("aten::stack", args, ty)])
}

/// The sizes of a tensor that has `rank` dimensions at least, as torch's `atleast` functions add them.
fn at_least_sizes(sizes: &[Size], rank: usize) -> Vec<Size> {
    let one = || Size::from(1);
    match (sizes, rank) {
        ([], _) => vec![one(); rank],
        ([a], 2) => vec![one(), a.clone()],
        ([a], 3) => vec![one(), a.clone(), one()],
        ([a, b], 3) => vec![a.clone(), b.clone(), one()],
        _ => sizes.to_vec(),
    }
}

fn joined(site: &mut Site<'_, '_>, rank: usize, dim: fn(usize) -> usize) -> Answer {
    let (values, ty) = (site.tensors("tensors")?, site.result(0));
    let mut parts = Vec::new();
    for value in values {
        let sizes = at_least_sizes(&site.ty(value).sizes, rank);
        parts.push(site.view(value, sizes));
    }
    let args = [("tensors", parts.into()), ("dim", (dim(ty.rank()) as i64).into())];
    Ok(vec![site.call("aten::cat", args, ty)])
}

fn column_stack(site: &mut Site<'_, '_>) -> Answer {
    let (values, ty) = (site.tensors("tensors")?, site.result(0));
    let mut parts = Vec::new();
    for value in values {
        let sizes = match site.ty(value).sizes.as_slice() {
            [] => vec![1.into(), 1.into()],
            [rows] => vec![rows.clone(), 1.into()],
            sizes => sizes.to_vec(),
        };
        parts.push(site.view(value, sizes));
    }
    Ok(vec![site.call("aten::cat", [("tensors", parts.into()), ("dim", 1.into())], ty)])
}

fn at_least(site: &mut Site<'_, '_>) -> Answer {
    let values = site.tensors("tensors").or_else(|_| subject(site).map(|value| vec![value]))?;
    Ok(values.iter().enumerate().map(|(index, value)| site.view(*value, site.result(index).sizes)).collect())
}

/// Each vector along a dimension of its own, repeated along the others.
fn meshgrid(site: &mut Site<'_, '_>) -> Answer {
    let values = site.tensors("tensors")?;
    let swapped = site.text("indexing", "ij") == "xy" && values.len() > 1;
    let mut results = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let ty = site.result(index);
        let dim = if swapped && index < 2 { 1 - index } else { index };
        let own = |place: usize| if place == dim { ty.size(place) } else { 1.into() };
        let vector = site.view(*value, (0..ty.rank()).map(own).collect());
        results.push(site.expand(vector, &ty.sizes));
    }
    Ok(results)
}

fn broadcast_tensors(site: &mut Site<'_, '_>) -> Answer {
    let values = site.tensors("tensors")?;
    Ok(values.iter().enumerate().map(|(index, value)| site.expand(*value, &site.result(index).sizes)).collect())
}

fn cartesian_prod(site: &mut Site<'_, '_>) -> Answer {
    let (values, ty) = (site.tensors("tensors")?, site.ranked_result(0, 1)?);
    let sizes: Vec<Size> = values.iter().map(|value| site.ty(*value).count()).collect();
    let mut columns = Vec::new();
    for (dim, value) in values.iter().enumerate() {
        let own = (0..sizes.len()).map(|place| if place == dim { sizes[dim].clone() } else { 1.into() });
        let own = own.collect();
        let vector = site.view(*value, own);
        let grid = site.expand(vector, &sizes);
        columns.push(site.view(grid, vec![ty.sizes[0].clone()]));
    }
    if let [one] = columns[..] {
        return Ok(vec![one]);
    }
    Ok(vec![site.call("aten::stack", [("tensors", columns.into()), ("dim", 1.into())], ty)])
}

/// Matrices along a diagonal, with zeros around.
fn block_diag(site: &mut Site<'_, '_>) -> Answer {
    let (values, ty) = (site.tensors("tensors")?, site.ranked_result(0, 2)?);
    let mut bands = Vec::new();
    let mut before = Size::default();
    for value in values {
        let sizes = at_least_sizes(&site.ty(value).sizes, 2);
        let [rows, columns] = [sizes[0].clone(), sizes[1].clone()];
        let matrix = site.view(value, sizes);
        let matrix = site.cast(matrix, ty.dtype);
        let after = ty.sizes[1].minus(&before).minus(&columns);
        let pad: Arg = vec![before.clone(), after].into();
        let wide = ty.with_sizes([rows, ty.sizes[1].clone()]);
        bands.push(site.call("aten::constant_pad_nd", [("self", matrix.into()), ("pad", pad)], wide));
        before = before.plus(&columns);
    }
    Ok(vec![site.cat(&bands, 0)])
}

/// Repeats, with ones for dimensions that are not named.
fn tile(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let mut repeats = site.sizes("dims").unwrap_or_default();
    while repeats.len() < site.ty(x).rank() {
        repeats.insert(0, 1.into());
    }
    Ok(vec![site.call("aten::repeat", [("self", x.into()), ("repeats", repeats.into())], ty)])
}

/// Each element several times in a row: a new dimension, repeated, and made one with that before it.
fn repeat_interleave(site: &mut Site<'_, '_>) -> Answer {
    let (mut x, ty) = (subject(site)?, site.result(0));
    if *site.arg("dim") == Arg::None {
        let count = site.ty(x).count();
        x = site.view(x, vec![count]);
    }
    let dim = site.dim("dim", 0, ty.rank())?;
    let repeats = site.size("repeats").ok_or_else(|| Error::unsupported("repeats that are no number"))?;
    let x = site.unsqueeze(x, dim + 1);
    let mut sizes = site.ranked(site.ty(x), dim + 2)?.sizes;
    sizes[dim + 1] = repeats;
    let x = site.expand(x, &sizes);
    Ok(vec![site.view(x, ty.sizes)])
}

/// Each element as often as another tensor says.
fn repeat_each(site: &mut Site<'_, '_>) -> Answer {
    let (mut x, ty) = (subject(site)?, site.result(0));
    if *site.arg("dim") == Arg::None {
        let count = site.ty(x).count();
        x = site.view(x, vec![count]);
    }
    let dim = site.dim("dim", 0, ty.rank())?;
    let mut repeats = site.tensor("repeats")?;
    let size = site.ty(x).size(dim);
    repeats = site.expand(repeats, &[size]);
    let indices = site.plain_type(repeats).with_sizes([ty.size(dim)]);
    let index = site.call("aten::repeat_interleave.Tensor", [("repeats", repeats.into())], indices);
    let args = [("self", x.into()), ("dim", (dim as i64).into()), ("index", index.into())];
    Ok(vec![site.call("aten::index_select", args, ty)])
}

fn rot90(site: &mut Site<'_, '_>) -> Answer {
    let x = subject(site)?;
    let rank = site.ty(x).rank();
    let dims = site.ints("dims", &[0, 1])?;
    let dim = |index: usize| dims.get(index).and_then(|&dim| crate::lower::place(dim, rank)).unwrap_or(index);
    let (a, b) = (dim(0), dim(1));
    let turned = match site.int("k", 1)?.rem_euclid(4) {
        0 => x,
        1 => {
            let x = flipped(site, x, &[b]);
            site.transposed(x, a, b)
        }
        2 => flipped(site, x, &[a, b]),
        _ => {
            let x = site.transposed(x, a, b);
            flipped(site, x, &[b])
        }
    };
    Ok(vec![turned])
}

fn flip(site: &mut Site<'_, '_>, dim: usize) -> Answer {
    let x = subject(site)?;
    Ok(vec![flipped(site, x, &[dim])])
}

fn flipped(site: &mut Site<'_, '_>, x: ValueId, dims: &[usize]) -> ValueId {
    let ty = site.plain_type(x);
    let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
    site.call("aten::flip", [("self", x.into()), ("dims", dims.into())], ty)
}
