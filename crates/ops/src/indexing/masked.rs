//! Operators whose results depend on which elements are true, or on counts that are data.
//!
//! Results are in row-major order of the operands, whatever their memory order; how many there are is counted before the
//! output is taken.
use crate::operands::{broadcast_sizes, elements, elements_mut, misaligned, same_type, signed};
use crate::ops;
use crate::strided::{Target, View, copy_element, offsets, write};
use crate::typed::{Typed, for_dtype, unsupported};
use sconce_core::{Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::Number;
use sconce_kernels::view::{view, view_mut};

/// Choices by masks and counts.
pub(crate) static OPS: &[Op] = ops! {
    "aten::masked_select.out" [4] writes [2] => masked_select;
    "aten::masked_scatter.out" [5] writes [3] => masked_scatter;
    "aten::nonzero.out" [3] writes [1] => |call| nonzero(call, None, 1);
    "aten::nonzero_static.out" [5] writes [3] => |call| {
        let size = call.int(1)?;
        let rows = usize::try_from(size).map_err(|_| Fault::argument(1, "{} is not a size").with_signed([size]))?;
        nonzero(call, Some((rows, call.int(2)?)), 3)
    };
    "aten::repeat_interleave.Tensor_out" [4] writes [2] => repeat_interleave;
};

/// A tensor (argument 0) and a mask (argument 1), broadcast to each other.
fn masked<'c>(call: &Call<'c>) -> Result<(View<'c>, View<'c>), Fault> {
    let (x, mask) = (call.tensor(0)?, call.tensor(1)?);
    if !matches!(mask.dtype, ScalarType::Bool | ScalarType::Byte) {
        return Err(unsupported(1, mask.dtype));
    }
    let sizes = broadcast_sizes([&x.shape, &mask.shape])?;
    Ok((View::from(x).broadcast_to(&sizes)?, View::from(mask).broadcast_to(&sizes)?))
}

/// Whether each element of a broadcast mask is true, in row-major order.
fn truths<'v>(mask: &'v View<'_>) -> impl Iterator<Item = bool> + 'v {
    offsets(&mask.layout).map(|at| mask.data.get(at).is_some_and(|&byte| byte != 0))
}

fn too_many() -> Fault {
    Fault::argument(1, "the operands broadcast to more elements than can be counted")
}

fn masked_select(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, mask) = masked(call)?;
    // A true element of the mask counts once for every element that it is broadcast to.
    let numel = mask.layout.sizes.numel().ok_or(too_many())?;
    let times = numel.checked_div(mask.data.len()).unwrap_or(0);
    let count = mask.data.iter().filter(|&&byte| byte != 0).count().checked_mul(times).ok_or(too_many())?;
    let out = call.out(2, &[count])?;
    if count == 0 {
        return Ok(());
    }
    same_type(2, out.dtype, x.dtype)?;
    let chosen = offsets(&x.layout).zip(truths(&mask)).filter(|&(_, truth)| truth);
    for (to, (from, _)) in chosen.enumerate() {
        copy_element(x.dtype.size(), x.data, from, out.data, to);
    }
    Ok(())
}

/// A copy of argument 0 in which the elements of argument 2 replace, one after the other, those that the mask names.
fn masked_scatter(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, mask) = masked(call)?;
    let source = View::from(call.tensor(2)?);
    same_type(2, source.dtype, x.dtype)?;
    let out = call.out(3, &x.layout.sizes)?;
    same_type(3, out.dtype, x.dtype)?;
    let mut out = Target::from(out);
    let whole = out.layout;
    write(call.parallel(), &x, out.part(whole))?;
    let mut sources = offsets(&source.layout);
    for (to, _) in offsets(&whole).zip(truths(&mask)).filter(|&(_, truth)| truth) {
        let Some(from) = sources.next() else {
            let text = "the source has only {} elements, fewer than the mask names";
            return Err(Fault::argument(2, text).with([source.layout.sizes.numel().unwrap_or(0)]));
        };
        copy_element(x.dtype.size(), source.data, from, out.data, to);
    }
    Ok(())
}

/// The positions of elements that are not zero, a row each; with a fixed number of rows, as many as fit, and rows without
/// a position hold a number in its place.
fn nonzero(call: &mut Call<'_>, fixed: Option<(usize, i64)>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    for_dtype!(numbers, x.dtype, 0, T => {
        let values = elements::<T>(0, &x)?;
        let count = || values.iter().filter(|&&value| value != T::ZERO).count();
        let rows = fixed.map_or_else(count, |(rows, _)| rows);
        let layout = Target::from(call.out(out, &[rows, x.shape.rank()])?);
        let places = view_mut::<i64>(layout.data).filter(|_| layout.dtype == ScalarType::Long);
        let places = places.ok_or(Fault::argument(out, "the positions must be an int64 tensor"))?;
        places.fill(fixed.map_or(0, |(_, filler)| filler));
        write_positions(&x, values, &layout.layout, places);
        Ok(())
    })
}

/// Writes the indices of the elements that are not zero, a row each.
fn write_positions<T: Typed>(x: &Tensor<'_>, values: &[T], rows: &sconce_schema::Layout, out: &mut [i64]) {
    let &[down, right] = rows.strides() else { return };
    let found = offsets(&View::from(*x).layout).enumerate();
    let found = found.filter(|&(_, at)| values.get(at).is_some_and(|&value| value != T::ZERO));
    for (row, (mut index, _)) in found.take(rows.sizes[0]).enumerate() {
        for (dim, &size) in x.sizes().iter().enumerate().rev() {
            let place = out.get_mut(row * down + dim * right);
            place.into_iter().for_each(|place| *place = signed(index % size));
            index /= size;
        }
    }
}

/// Element `i` of the result says which entry of `repeats` it belongs to.
fn repeat_interleave(call: &mut Call<'_>) -> Result<(), Fault> {
    let repeats = call.tensor(0)?;
    if repeats.shape.rank() != 1 {
        return Err(Fault::argument(0, "the repeats must have one dimension, not {}").with([repeats.shape.rank()]));
    }
    match repeats.dtype {
        ScalarType::Long => interleave::<i64>(call, &repeats),
        ScalarType::Int => interleave::<i32>(call, &repeats),
        other => Err(unsupported(0, other)),
    }
}

fn interleave<T: Typed>(call: &mut Call<'_>, repeats: &Tensor<'_>) -> Result<(), Fault> {
    let repeats = view::<T>(repeats.data).ok_or(misaligned(0))?;
    let mut total = 0usize;
    for repeat in repeats.iter().map(|repeat| repeat.to_i64()) {
        let negative = Fault::argument(0, "{} is not a number of repeats").with_signed([repeat]);
        total = total.saturating_add(usize::try_from(repeat).map_err(|_| negative)?);
    }
    if let Some(wanted) = call.optional(1, |args, argument| args.int(argument))?
        && wanted != signed(total)
    {
        return Err(Fault::argument(1, "the repeats sum to {}, not to {}").with_signed([signed(total), wanted]));
    }
    let out = call.out(2, &[total])?;
    let mut out = elements_mut::<T>(2, out)?.iter_mut();
    for (entry, repeat) in (0i64..).zip(repeats) {
        let count = usize::try_from(repeat.to_i64()).unwrap_or(0);
        out.by_ref().take(count).for_each(|place| *place = T::from_i64(entry));
    }
    Ok(())
}
