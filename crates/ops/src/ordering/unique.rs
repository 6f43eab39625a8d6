//! Different elements, or different slices along a dimension: each once, where it went, how often it occurs.
//!
//! A slice is a row of keys (a single element is a row of one). Rows are put in order, unless only neighbours are compared,
//! and equal ones form a group. NaN equals nothing, not even itself.
use super::{Keys, NAN, across, axis};
use crate::dense::{buffer_bytes, row_major, store, wide_bytes};
use crate::operands::{misaligned, same_type};
use crate::ops;
use crate::strided::{View, copy_element, layout, offsets};
use sconce_core::{Args, Call, Fault, Op, Tensor};
use sconce_kernels::view::view_mut;
use sconce_schema::Sizes;

/// Different elements.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_unique2.out" [8] writes [4, 5, 6] scratch |args| scratch(args, [5, 6]), => |call| {
        let wanted = [call.bool(2)?, call.bool(3)?];
        unique(call, None, true, wanted, [4, 5, 6])
    };
    "aten::unique_dim.out" [9] writes [5, 6, 7] scratch |args| scratch(args, [6, 7]), => |call| {
        unique(call, Some(1), true, [true, true], [5, 6, 7])
    };
    "aten::unique_dim_consecutive.out" [8] writes [4, 5, 6] scratch |args| scratch(args, [5, 6]), => |call| {
        unique(call, Some(1), false, [true, true], [4, 5, 6])
    };
    "aten::unique_consecutive.out" [8] writes [4, 5, 6] scratch |args| scratch(args, [5, 6]), => |call| {
        let dim = Some(3).filter(|_| call.is_none(3) == Ok(false));
        let wanted = if dim.is_some() { [true, true] } else { [call.bool(1)?, call.bool(2)?] };
        unique(call, dim, false, wanted, [4, 5, 6])
    };
};

/// The tensor in row-major order, its keys, the order of rows, groups and counts, and these converted.
fn scratch(args: &Args<'_>, outs: [usize; 2]) -> usize {
    let own = buffer_bytes(args.capacity(0).unwrap_or(0)).saturating_add(wide_bytes(args, 0).saturating_mul(4));
    outs.iter().map(|&out| wide_bytes(args, out)).fold(own, usize::saturating_add).saturating_add(4 * 64)
}

/// Room for numbers.
fn numbers<'c>(call: &mut Call<'c>, len: usize) -> Result<&'c mut [i64], Fault> {
    view_mut(call.scratch(len.saturating_mul(8))?).ok_or(misaligned(0))
}

/// Writes the different slices along the dimension in an argument (without one: elements) to the first output; to the
/// others, where wanted, the place each slice went to and how many went there.
fn unique(
    call: &mut Call<'_>,
    dim: Option<usize>,
    sorted: bool,
    [places, counts]: [bool; 2],
    outs: [usize; 3],
) -> Result<(), Fault> {
    let tensor = call.tensor(0)?;
    let x = row_major(call, tensor)?;
    let axis = dim.map(|argument| axis(call, &x.shape, argument)).transpose()?.filter(|_| x.shape.rank() > 0);
    let (count, len) = match axis {
        Some(axis) => (x.sizes()[axis], x.numel().checked_div(x.sizes()[axis]).unwrap_or(0)),
        None => (x.numel(), 1),
    };
    let keys = keys(call, &x, axis, len)?;
    let order = numbers(call, count)?;
    order.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
    let row = |i: i64| keys.get(i as usize * len..).and_then(|keys| keys.get(..len)).unwrap_or(&[]);
    if sorted {
        order.sort_unstable_by(|&a, &b| row(a).cmp(row(b)).then(a.cmp(&b)));
    }
    let floating = x.dtype.is_floating();
    let equal = |a: i64, b: i64| row(a) == row(b) && !(floating && row(a).contains(&NAN));
    let (group_of, sizes_of) = (numbers(call, count)?, numbers(call, count)?);
    let mut groups = 0;
    for group in order.chunk_by(|&a, &b| equal(a, b)) {
        sizes_of[groups] = group.len() as i64;
        group.iter().for_each(|&slice| group_of[slice as usize] = groups as i64);
        groups += 1;
    }
    write_slices(call, &x, axis, (groups, group_of), outs[0])?;
    let inverse_sizes = if axis.is_some() { Sizes::new(&[count]) } else { Sizes::new(x.sizes()) };
    let inverse_sizes = inverse_sizes.filter(|_| places).or(Sizes::new(&[0])).unwrap_or(Sizes::SCALAR);
    let inverse = call.out(outs[1], &inverse_sizes)?;
    crate::dense::store_row_major(call, outs[1], if places { group_of } else { &[] }, inverse)?;
    let counted = if counts { &sizes_of[..groups] } else { &[] };
    let target = call.out(outs[2], &[counted.len()])?;
    store(call, outs[2], counted, target)
}

/// The keys of all slices, one row after the other.
fn keys<'c>(call: &mut Call<'c>, x: &Tensor<'_>, axis: Option<usize>, len: usize) -> Result<&'c [i64], Fault> {
    let (load, all) = (Keys::new(0, x.dtype, x.data, false)?, numbers(call, x.numel())?);
    let Some(axis) = axis else {
        load.load(x.data, 0, 1, all);
        return Ok(all);
    };
    let (starts, step) = across(&View::from(*x).layout, axis);
    for (slice, keys) in all.chunks_exact_mut(len.max(1)).enumerate() {
        for (key, at) in keys.iter_mut().zip(offsets(&starts)) {
            load.load(x.data, at + slice * step, 1, core::slice::from_mut(key));
        }
    }
    Ok(all)
}

/// Copies the slices of each group to its place; equal ones are the same.
fn write_slices(
    call: &mut Call<'_>,
    x: &Tensor<'_>,
    axis: Option<usize>,
    (groups, group_of): (usize, &[i64]),
    out: usize,
) -> Result<(), Fault> {
    let mut sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    match axis {
        Some(axis) => sizes[axis] = groups,
        None => sizes = Sizes::new(&[groups]).unwrap_or(Sizes::SCALAR),
    }
    let target = call.out(out, &sizes)?;
    same_type(out, target.dtype, x.dtype)?;
    let own = if axis.is_some() { View::from(*x).layout } else { layout_of_elements(x.numel()) };
    let axis = axis.unwrap_or(0);
    let ((from, step), (to, to_step)) = (across(&own, axis), across(&layout(&target.shape), axis));
    for (slice, &group) in group_of.iter().enumerate() {
        for (from, to) in offsets(&from).zip(offsets(&to)) {
            let (from, to) = (from + slice * step, to + group as usize * to_step);
            copy_element(x.dtype.size(), x.data, from, target.data, to);
        }
    }
    Ok(())
}

/// Elements one after the other.
fn layout_of_elements(count: usize) -> sconce_schema::Layout {
    sconce_schema::Layout::contiguous(Sizes::new(&[count]).unwrap_or(Sizes::SCALAR))
}
