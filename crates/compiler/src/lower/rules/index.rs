//! Elements by their places.

use super::{Answer, Table, subject};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::{Site, place};
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::narrow", narrow),
    ("aten::narrow_copy", narrow),
    ("aten::index_add", |site| put_along(site, true)),
    ("aten::index_copy", |site| put_along(site, false)),
    ("aten::index_fill.int_Scalar", fill_along),
    ("aten::index_fill.int_Tensor", fill_along),
    ("aten::index_put", put_pairs),
    ("aten::take", take),
    ("aten::take_along_dim", take_along_dim),
    ("aten::argwhere", |site| at_most_all(site, "aten::nonzero")),
    ("aten::nonzero", |site| at_most_all(site, "aten::nonzero")),
    ("aten::masked_select", |site| at_most_all(site, "aten::masked_select")),
    ("aten::_unsafe_masked_index", masked_index),
    ("aten::_unsafe_masked_index_put_accumulate", masked_put),
    ("aten::max_unpool2d", |site| unpool(site, 2)),
    ("aten::max_unpool3d", |site| unpool(site, 3)),
    ("aten::nonzero_numpy", nonzero_columns),
    ("aten::where", nonzero_columns),
    ("aten::one_hot", one_hot),
    ("aten::isin.Tensor_Tensor", isin),
    ("aten::isin.Tensor_Scalar", isin),
    ("aten::triu", triu),
    ("aten::diag", diag),
    ("aten::diagflat", diag),
    ("aten::diag_embed", |site| {
        let x = subject(site)?;
        diag_embed(site, x)
    }),
    ("aten::im2col", im2col),
    ("aten::col2im", col2im),
];

fn narrow(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let dim = site.dim("dim", 0, ty.rank())?;
    let start = site.size("start").ok_or_else(|| Error::unsupported("narrow from a place that is no number"))?;
    let size = site.ty(x).size(dim);
    let start = if start.number().is_some_and(|number| number < 0) { size.plus(&start) } else { start };
    let end = start.plus(&ty.size(dim));
    Ok(vec![site.slice(x, dim, start, end)])
}

/// Indices of one dimension, for an operator that takes some for each.
fn along(dim: usize, index: ValueId) -> Arg {
    Arg::Values((0..=dim).map(|place| (place == dim).then_some(index)).collect())
}

/// A tensor and its indices; what has no dimensions gets one.
fn with_dimension(site: &mut Site<'_, '_>, name: &str) -> Result<ValueId, Error> {
    let value = site.tensor(name)?;
    Ok(if site.ty(value).rank() == 0 { site.view(value, vec![1.into()]) } else { value })
}

/// Slices of `source` put into, or added to, those of `self`.
fn put_along(site: &mut Site<'_, '_>, accumulate: bool) -> Answer {
    let ty = site.result(0);
    let [x, index, source] = ["self", "index", "source"].map(|name| with_dimension(site, name));
    let (x, index, mut source) = (x?, index?, source?);
    let dim = site.dim("dim", 0, ty.rank())?;
    let alpha = site.scalar("alpha", 1);
    if !matches!(&alpha, Arg::Int(one) if one.number() == Some(1)) {
        source = site.scalar_call("aten::mul.Scalar", source, alpha);
    }
    let index = site.cast(index, ScalarType::Long);
    let wide = site.plain_type(x);
    let args = [
        ("self", x.into()),
        ("indices", along(dim, index)),
        ("values", source.into()),
        ("accumulate", accumulate.into()),
    ];
    let put = site.call("aten::index_put", args, wide);
    Ok(vec![site.view(put, ty.sizes)])
}

/// Complex numbers are put as pairs of real ones, which lie along a dimension that no index is for.
fn put_pairs(site: &mut Site<'_, '_>) -> Answer {
    let (x, values) = (subject(site)?, site.tensor("values")?);
    let ty = site.plain_type(x);
    if !ty.dtype.is_complex() || !site.ty(values).dtype.is_complex() {
        return Ok(site.renamed("aten::index_put"));
    }
    let (x, values) = (site.pairs(x), site.pairs(values));
    let args = [
        ("self", x.into()),
        ("indices", site.arg("indices").clone()),
        ("values", values.into()),
        ("accumulate", site.bool("accumulate", false).into()),
    ];
    let wide = site.plain_type(x);
    let put = site.call("aten::index_put", args, wide);
    Ok(vec![site.numbers_of(put)])
}

fn fill_along(site: &mut Site<'_, '_>) -> Answer {
    let ty = site.result(0);
    let (x, index) = (with_dimension(site, "self")?, with_dimension(site, "index")?);
    let dim = site.dim("dim", 0, ty.rank())?;
    let value = match site.optional_tensor("value") {
        Some(value) => site.cast(value, ty.dtype),
        None => site.number(site.scalar("value", 0), ty.dtype),
    };
    let wide = site.plain_type(x);
    let args = [("self", x.into()), ("indices", along(dim, index)), ("values", value.into())];
    let put = site.call("aten::index_put", args, wide);
    Ok(vec![site.view(put, ty.sizes)])
}

/// Elements of the flattened tensor.
fn take(site: &mut Site<'_, '_>) -> Answer {
    let (x, index, ty) = (subject(site)?, site.tensor("index")?, site.result(0));
    let (count, places) = (site.ty(x).count(), site.ty(index).count());
    let flat = site.view(x, vec![count]);
    let index = site.view(index, vec![places.clone()]);
    let taken =
        site.call("aten::index.Tensor", [("self", flat.into()), ("indices", along(0, index))], ty.with_sizes([places]));
    Ok(vec![site.view(taken, ty.sizes)])
}

fn take_along_dim(site: &mut Site<'_, '_>) -> Answer {
    let (mut x, mut index, ty) = (subject(site)?, site.tensor("indices")?, site.result(0));
    let mut dim = 0;
    if *site.arg("dim") == Arg::None {
        let sizes = [x, index].map(|value| vec![site.ty(value).count()]);
        let [flat, places] = sizes;
        (x, index) = (site.view(x, flat), site.view(index, places));
    } else {
        dim = site.dim("dim", 0, ty.rank())?;
        let other = |own: &Size, place: usize| if place == dim { own.clone() } else { ty.size(place) };
        let wide =
            |sizes: Vec<Size>| sizes.iter().enumerate().map(|(place, own)| other(own, place)).collect::<Vec<_>>();
        let (a, b) = (wide(site.ty(x).sizes), wide(site.ty(index).sizes));
        (x, index) = (site.expand(x, &a), site.expand(index, &b));
        // Places may be counted from the end, but only along a dimension.
        let own = site.plain_type(index);
        let negative = site.compare("aten::lt.Scalar", index, 0);
        let size = site.ty(x).size(dim);
        let from_end = site.scalar_call("aten::add.Scalar", index, size);
        index = site.choose(negative, from_end, index, &own);
    }
    let args = [("self", x.into()), ("dim", (dim as i64).into()), ("index", index.into())];
    Ok(vec![site.call("aten::gather", args, ty)])
}

/// How many elements are found nobody knows, but there are not more than there are.
fn at_most_all(site: &mut Site<'_, '_>, operator: &'static str) -> Answer {
    let x = site.tensor("self")?;
    let mut sizes = site.ty(x).sizes;
    if let Some(mask) = site.optional_tensor("mask") {
        sizes = crate::lower::calls::broadcast(&sizes, &site.ty(mask).sizes);
    }
    let found = site.result(0).sizes.first().cloned().unwrap_or_default();
    site.limit(&found, &TensorType::new(ScalarType::Bool, sizes).count());
    Ok(site.renamed(operator))
}

/// Indices with zeros where a mask says no, and the opposite of the mask.
fn masked_indices(site: &mut Site<'_, '_>) -> Result<(Arg, ValueId), Error> {
    let mask = site.tensor("mask")?;
    let not = site.unary("aten::logical_not", mask);
    let Arg::Values(indices) = site.arg("indices") else {
        return Err(Error::unsupported("indices that are no tensors"));
    };
    let mut masked = Vec::new();
    for index in indices {
        masked.push(index.map(|index| {
            let sizes = crate::lower::calls::broadcast(&site.ty(index).sizes, &site.ty(mask).sizes);
            let index = site.expand(index, &sizes);
            site.fill_where(index, not, 0)
        }));
    }
    Ok((Arg::Values(masked), not))
}

/// Elements by their places, and a number where a mask says no.
fn masked_index(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let (indices, not) = masked_indices(site)?;
    let found = site.call("aten::index.Tensor", [("self", x.into()), ("indices", indices)], ty);
    Ok(vec![site.fill_where(found, not, site.scalar("fill", 0))])
}

/// Values added at places, but not where a mask says no.
fn masked_put(site: &mut Site<'_, '_>) -> Answer {
    let (x, values, ty) = (subject(site)?, site.tensor("values")?, site.result(0));
    let (indices, not) = masked_indices(site)?;
    let sizes = crate::lower::calls::broadcast(&site.ty(values).sizes, &site.ty(not).sizes);
    let values = site.expand(values, &sizes);
    let values = site.fill_where(values, not, 0);
    let args = [("self", x.into()), ("indices", indices), ("values", values.into()), ("accumulate", true.into())];
    Ok(vec![site.call("aten::index_put", args, ty)])
}

/// Elements back at the places that a pool found them at, zeros elsewhere.
fn unpool(site: &mut Site<'_, '_>, dims: usize) -> Answer {
    let (x, indices, ty) = (subject(site)?, site.tensor("indices")?, site.ranked_result(0, dims)?);
    let own = site.ranked(site.ty(x), dims)?;
    let flat = |ty: &TensorType| {
        let (outer, inner) = ty.sizes.split_at(ty.rank() - dims);
        [outer, &[inner.iter().fold(Size::from(1), |count, size| count.times(size))]].concat()
    };
    let (own, all) = (flat(&own), flat(&ty));
    let (x, indices) = (site.view(x, own.clone()), site.view(indices, own));
    let zeros = site.full(&ty.with_sizes(all.clone()), 0);
    let last = Arg::from(all.len() as i64 - 1);
    let args = [("self", zeros.into()), ("dim", last), ("index", indices.into()), ("src", x.into())];
    let put = site.call("aten::scatter.src", args, ty.with_sizes(all));
    Ok(vec![site.view(put, ty.sizes)])
}

/// The places of what is not zero, a tensor for each dimension.
fn nonzero_columns(site: &mut Site<'_, '_>) -> Answer {
    let mut x = site.optional_tensor("condition").map_or_else(|| subject(site), Ok)?;
    let ty = site.ranked_result(0, 1)?;
    let count = site.call.outputs.len();
    if site.ty(x).rank() == 0 {
        x = site.view(x, vec![1.into()]);
    }
    let all = ty.with_sizes([ty.sizes[0].clone(), (count as i64).into()]);
    let places = site.call("aten::nonzero", [("self", x.into())], all);
    Ok((0..count).map(|column| site.select(places, 1, (column as i64).into())).collect())
}

fn one_hot(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.ranked_result(0, 1)?);
    let classes = site.count_up(ty.sizes[ty.rank() - 1].clone());
    let x = site.unsqueeze(x, ty.rank() - 1);
    let hot = site.compare("aten::eq.Tensor", x, classes);
    Ok(vec![site.cast(hot, ty.dtype)])
}

/// Whether each element is equal to one of others.
fn isin(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (site.tensor("elements")?, site.result(0));
    let found = match site.optional_tensor("test_elements") {
        None => site.compare("aten::eq.Scalar", x, site.arg("test_element").clone()),
        Some(others) => {
            let count = site.ty(others).count();
            let others = site.view(others, vec![count]);
            let x = site.unsqueeze(x, ty.rank());
            let equal = site.compare("aten::eq.Tensor", x, others);
            site.reduce("aten::any.dims", equal, &[ty.rank()], false, ScalarType::Bool)
        }
    };
    Ok(vec![if site.bool("invert", false) { site.unary("aten::logical_not", found) } else { found }])
}

/// The lower triangle, seen from the other side.
fn triu(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.ranked_result(0, 2)?);
    let (rows, columns) = (ty.rank() - 2, ty.rank() - 1);
    let diagonal = site.size("diagonal").unwrap_or_default();
    let turned = site.transposed(x, rows, columns);
    let own = site.plain_type(turned);
    let below = Size::default().minus(&diagonal);
    let lower = site.call("aten::tril", [("self", turned.into()), ("diagonal", below.into())], own);
    Ok(vec![site.transposed(lower, rows, columns)])
}

/// The diagonal of a matrix, or a matrix with a diagonal.
fn diag(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let own = site.ty(x);
    if own.rank() == 2 && ty.rank() == 1 {
        let args = [("self", x.into()), ("offset", site.int("diagonal", 0)?.into())];
        return Ok(vec![site.call("aten::diagonal", args, ty)]);
    }
    let flat = site.view(x, vec![own.count()]);
    diag_embed(site, flat)
}

/// Rows of elements as diagonals. Each is padded to the matrix's width, repeated along the other dimension, and kept
/// where the diagonal is.
fn diag_embed(site: &mut Site<'_, '_>, x: ValueId) -> Answer {
    let ty = site.ranked_result(0, 2)?;
    let offset = if *site.arg("offset") == Arg::None { site.int("diagonal", 0)? } else { site.int("offset", 0)? };
    let own = site.ranked(site.ty(x), 1)?;
    let (batch, beyond) = (own.rank() - 1, offset.saturating_abs());
    let size = own.sizes[batch].plus(&beyond.into());
    let mut wide = own.sizes.clone();
    wide[batch] = size.clone();
    let pad: Arg = vec![0, beyond].into();
    let padded = site.call("aten::constant_pad_nd", [("self", x.into()), ("pad", pad)], own.with_sizes(wide));
    // Above the middle the row tells which element it is, below it the column.
    let padded = site.unsqueeze(padded, if offset >= 0 { batch + 1 } else { batch });
    let (rows, columns) = (site.count_up(size.clone()), site.count_up(size.clone()));
    let rows = site.unsqueeze(rows, 1);
    let grid = TensorType::new(ScalarType::Long, [size.clone(), size.clone()]);
    let distance = site.binary("aten::sub.Tensor", columns, rows, &grid);
    let there = site.compare("aten::eq.Scalar", distance, offset);
    let zero = site.number(0, own.dtype);
    let sizes = [&own.sizes[..batch], &[size.clone(), size]].concat();
    let matrix = site.choose(there, padded, zero, &own.with_sizes(sizes));
    let rank = ty.rank();
    let (a, b) = (place(site.int("dim1", -2)?, rank), place(site.int("dim2", -1)?, rank));
    let (a, b) = (a.unwrap_or(rank - 2), b.unwrap_or(rank - 1));
    let mut rest = 0..rank - 2;
    let order: Vec<usize> = (0..rank)
        .map(|dim| {
            if dim == a {
                rank - 2
            } else if dim == b {
                rank - 1
            } else {
                rest.next().unwrap_or(0)
            }
        })
        .collect();
    Ok(vec![site.permute(matrix, &order)])
}

/// The largest number of [`Windows`]: products of two of them are numbers yet.
const MOST_WINDOW: i64 = 1 << 30;

/// What the windows of one dimension are: how many elements each has, how they lie, and how many there are.
struct Windows {
    size: i64,
    dilation: i64,
    padding: i64,
    stride: i64,
    count: i64,
}

impl Windows {
    /// Windows along the last two dimensions of images of these sizes.
    fn of(site: &Site<'_, '_>, image: [i64; 2]) -> Result<[Self; 2], Error> {
        let (size, dilation) = (site.each("kernel_size", 1, 2)?, site.each("dilation", 1, 2)?);
        let (padding, stride) = (site.each("padding", 0, 2)?, site.each("stride", 1, 2)?);
        let fits = |numbers: &[i64], least: i64| numbers.iter().all(|number| (least..=MOST_WINDOW).contains(number));
        if !fits(&size, 1) || !fits(&dilation, 1) || !fits(&stride, 1) || !fits(&padding, 0) || !fits(&image, 0) {
            let what = format!("windows of {size:?} by {stride:?}, {dilation:?} and {padding:?} of {image:?} elements");
            return Err(Error::unsupported(what));
        }
        Ok([0, 1].map(|dim| {
            let span = dilation[dim] * (size[dim] - 1) + 1;
            let count = ((image[dim] + 2 * padding[dim] - span) / stride[dim] + 1).max(0);
            Self { size: size[dim], dilation: dilation[dim], padding: padding[dim], stride: stride[dim], count }
        }))
    }

    /// For each element of a window and each window, the place in the padded dimension.
    fn places(&self, site: &mut Site<'_, '_>, trailing: usize) -> Result<ValueId, Error> {
        site.small(&[self.size, self.count])?;
        let all = (0..self.size).flat_map(|element| (0..self.count).map(move |window| (element, window)));
        let bytes = all.flat_map(|(element, window)| (element * self.dilation + window * self.stride).to_le_bytes());
        let sizes: Vec<i64> = [self.size, self.count].into_iter().chain(std::iter::repeat_n(1, trailing)).collect();
        let bytes = bytes.collect();
        Ok(site.constant(TensorType::fixed(ScalarType::Long, &sizes), bytes))
    }
}

/// All windows of images as columns.
fn im2col(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.result(0));
    let own = site.ranked(site.ty(x), 2)?;
    let sizes = own.numbers().ok_or_else(|| Error::unsupported("im2col with sizes unknown before"))?;
    let rank = sizes.len();
    let windows = Windows::of(site, [sizes[rank - 2], sizes[rank - 1]])?;
    let pads = [windows[1].padding, windows[1].padding, windows[0].padding, windows[0].padding];
    let mut padded = sizes.clone();
    padded[rank - 2] += 2 * windows[0].padding;
    padded[rank - 1] += 2 * windows[1].padding;
    let args = [("self", x.into()), ("pad", pads.to_vec().into())];
    let image = site.call("aten::constant_pad_nd", args, TensorType::fixed(own.dtype, &padded));
    let (rows, columns) = (windows[0].places(site, 2)?, windows[1].places(site, 0)?);
    let indices = std::iter::repeat_n(None, rank - 2).chain([Some(rows), Some(columns)]).collect();
    let inner = [windows[0].size, windows[0].count, windows[1].size, windows[1].count];
    let found = TensorType::fixed(own.dtype, &[&sizes[..rank - 2], &inner].concat());
    let all = site.call("aten::index.Tensor", [("self", image.into()), ("indices", Arg::Values(indices))], found);
    let order: Vec<usize> = (0..rank - 2).chain([0, 2, 1, 3].map(|dim| rank - 2 + dim)).collect();
    let ordered = site.permute(all, &order);
    Ok(vec![site.view(ordered, ty.sizes)])
}

/// Images from their windows as columns; where windows overlap, their elements are summed.
fn col2im(site: &mut Site<'_, '_>) -> Answer {
    let (x, ty) = (subject(site)?, site.ranked_result(0, 2)?);
    let sizes = ty.numbers().ok_or_else(|| Error::unsupported("col2im with sizes unknown before"))?;
    let rank = sizes.len();
    let windows = Windows::of(site, [sizes[rank - 2], sizes[rank - 1]])?;
    let inner = [windows[0].size, windows[1].size, windows[0].count, windows[1].count];
    let split: Vec<Size> = [&sizes[..rank - 2], &inner].concat().into_iter().map(Size::from).collect();
    let split = site.view(x, split);
    let order: Vec<usize> = (0..rank - 2).chain([0, 2, 1, 3].map(|dim| rank - 2 + dim)).collect();
    let values = site.permute(split, &order);
    let mut padded = sizes.clone();
    padded[rank - 2] += 2 * windows[0].padding;
    padded[rank - 1] += 2 * windows[1].padding;
    let image = site.full(&TensorType::fixed(ty.dtype, &padded), 0);
    let (rows, columns) = (windows[0].places(site, 2)?, windows[1].places(site, 0)?);
    let indices = std::iter::repeat_n(None, rank - 2).chain([Some(rows), Some(columns)]).collect();
    let args = [
        ("self", image.into()),
        ("indices", Arg::Values(indices)),
        ("values", values.into()),
        ("accumulate", true.into()),
    ];
    let image = site.call("aten::index_put", args, TensorType::fixed(ty.dtype, &padded));
    let end = |dim: usize| Size::from(windows[dim].padding + sizes[rank - 2 + dim]);
    let image = site.slice(image, rank - 2, windows[0].padding.into(), end(0));
    Ok(vec![site.slice(image, rank - 1, windows[1].padding.into(), end(1))])
}
