//! Bags of embeddings: sums, means or extrema of rows of a table.
//!
//! Sums and means add each row to the bag that it belongs to. Extrema are left to an operator of our own.

use super::{Answer, Table};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::embedding_bag", bags),
    ("aten::embedding_bag.padding_idx", bags),
    ("aten::_embedding_bag_forward_only", bags),
    ("aten::_embedding_bag", bags),
];

/// The numbers of the modes.
const MEAN: i64 = 1;
const MAX: i64 = 2;

fn bags(site: &mut Site<'_, '_>) -> Answer {
    let (indices, mode) = (site.tensor("indices")?, site.int("mode", 0)?);
    if mode == MAX {
        return forward_only(site);
    }
    let ty = site.ranked_result(0, 2)?;
    let padding = padding(site)?;
    let left_out = (padding >= 0).then(|| site.compare("aten::eq.Scalar", indices, padding));
    let rows = rows(site, indices, left_out)?;
    let (bag, starts) = bag_of_each(site, indices)?;
    let wide = ty.with_sizes([starts.clone(), ty.sizes[1].clone()]);
    let sums = put(site, &wide, bag, rows);
    let mut result = site.slice(sums, 0, 0.into(), ty.sizes[0].clone());
    let sizes = counts(site, bag, left_out, &starts, &ty.sizes[0]);
    if mode == MEAN {
        let least = site.plain_type(sizes);
        let some = site.call("aten::clamp", [("self", sizes.into()), ("min", 1.into())], least);
        let some = site.unsqueeze(some, 1);
        result = site.binary("aten::div.Tensor", result, some, &ty);
    }
    let mut results = vec![result];
    // What further results hold is for a gradient; they are given where they have the shape that they have here.
    for (index, own) in [bag, sizes, sizes].into_iter().enumerate().take(site.call.outputs.len().saturating_sub(1)) {
        let rest = site.result(index + 1);
        let fits = index < 2 && site.plain_type(own) == rest;
        results.push(if fits { own } else { site.full(&rest, 0) });
    }
    Ok(results)
}

/// The row that counts for nothing; -1 is none. Only the overload that names it counts from the end of the table.
fn padding(site: &Site<'_, '_>) -> Result<i64, Error> {
    let row = site.int("padding_idx", -1)?;
    if row >= 0
        || site.call.operator() != Some("aten::embedding_bag.padding_idx")
        || *site.arg("padding_idx") == Arg::None
    {
        return Ok(row);
    }
    let rows = site.ty(site.tensor("weight")?).size(0).number();
    let rows =
        rows.ok_or_else(|| Error::unsupported("a bag of a table of unknown size with a padding from its end"))?;
    Some(row + rows).filter(|row| *row >= 0).ok_or_else(|| Error::unsupported(format!("a bag without the row {row}")))
}

/// The row of each index, times its weight; zeros for those left out.
fn rows(site: &mut Site<'_, '_>, indices: ValueId, left_out: Option<ValueId>) -> Result<ValueId, Error> {
    let weight = site.tensor("weight")?;
    let (table, count) = (site.ranked(site.ty(weight), 2)?, site.ty(indices).count());
    let ty = table.with_sizes([count, table.sizes[1].clone()]);
    let mut rows = site.call("aten::embedding", [("weight", weight.into()), ("indices", indices.into())], ty.clone());
    if let Some(weights) = site.optional_tensor("per_sample_weights") {
        let column = site.unsqueeze(weights, 1);
        rows = site.binary("aten::mul.Tensor", rows, column, &ty);
    }
    if let Some(left_out) = left_out {
        let column = site.unsqueeze(left_out, 1);
        rows = site.fill_where(rows, column, 0);
    }
    Ok(rows)
}

/// For each index the number of the bag it is in, and how many starts there are: how many do not come after it.
fn bag_of_each(site: &mut Site<'_, '_>, indices: ValueId) -> Result<(ValueId, Size), Error> {
    let offsets = site.tensor("offsets")?;
    let (count, starts) = (site.ty(indices).count(), site.ty(offsets).count());
    let places = site.count_up(count);
    let places = site.unsqueeze(places, 1);
    let offsets = site.cast(offsets, ScalarType::Long);
    let begun = site.compare("aten::ge.Tensor", places, offsets);
    let begun = site.reduce("aten::sum.dim_IntList", begun, &[1], false, ScalarType::Long);
    Ok((site.scalar_call("aten::sub.Scalar", begun, 1), starts))
}

/// Zeros of a type, with values added at the bags they belong to.
fn put(site: &mut Site<'_, '_>, ty: &TensorType, bag: ValueId, values: ValueId) -> ValueId {
    let zeros = site.full(ty, 0);
    let indices = Arg::Values(vec![Some(bag)]);
    let args = [("self", zeros.into()), ("indices", indices), ("values", values.into()), ("accumulate", true.into())];
    site.call("aten::index_put", args, ty.clone())
}

/// How many indices each bag has. torch counts all that are left for the last one, even beyond a last offset.
fn counts(site: &mut Site<'_, '_>, bag: ValueId, left_out: Option<ValueId>, starts: &Size, bags: &Size) -> ValueId {
    let each = site.plain_type(bag);
    let mut ones = site.full(&each, 1);
    if let Some(left_out) = left_out {
        ones = site.fill_where(ones, left_out, 0);
    }
    let all = put(site, &TensorType::new(ScalarType::Long, [starts.clone()]), bag, ones);
    if starts == bags {
        return all;
    }
    let last = bags.minus(&1.into());
    let before = site.slice(all, 0, 0.into(), last.clone());
    let rest = site.slice(all, 0, last, starts.clone());
    let rest = site.sum(rest, &[0], true);
    site.cat(&[before, rest], 0)
}

/// The operator that has all results.
fn forward_only(site: &mut Site<'_, '_>) -> Answer {
    let types: Vec<TensorType> = (0..site.call.outputs.len()).map(|index| site.result(index)).collect();
    let args = [
        ("weight", site.arg("weight").clone()),
        ("indices", site.arg("indices").clone()),
        ("offsets", site.arg("offsets").clone()),
        ("scale_grad_by_freq", site.bool("scale_grad_by_freq", false).into()),
        ("mode", site.int("mode", 0)?.into()),
        ("sparse", site.bool("sparse", false).into()),
        ("per_sample_weights", site.arg("per_sample_weights").clone()),
        ("include_last_offset", site.bool("include_last_offset", false).into()),
        ("padding_idx", padding(site)?.into()),
    ];
    Ok(site.call_many("aten::_embedding_bag_forward_only", args, types))
}
