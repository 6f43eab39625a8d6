//! Operators that move elements and compute nothing.
//!
//! Most are a view and a copy of it: the row says how the input's [`Layout`] becomes the view's, [`copy_view`] does the
//! rest. Elements move by their size, so every element type works; dimension orders of input and output are part of
//! the layouts. Joins and splits are in [`join`], rules that differ along a dimension (flips, repetitions) in
//! [`rearrange`].
pub(crate) mod join;
pub(crate) mod rearrange;

use crate::complex::{self, is_complex};
use crate::elementwise::{Source, compute, each1, run};
use crate::operands::{same_type, shape_fault};
use crate::ops;
use crate::strided::{Target, View, copy_element, layout, offsets, reshape, write};
use sconce_core::{Call, Fault, Op, Tensor, TensorMut};
use sconce_schema::{Layout, ShapeError, Sizes, normalize_dim, shapes};

/// A row that copies a view of argument 0 to argument `$out`: an expression for the view's layout.
macro_rules! view {
    ($out:literal, |$call:ident, $x:ident| $layout:expr) => {
        |call| copy_view(call, $out, |$call, $x| ($layout).map_err(shape_fault))
    };
}

/// Copies of tensors and of their views.
pub(crate) static OPS: &[Op] = ops! {
    "aten::clone.out" [4] writes [2] => |call| copy_as_is(call, 2);
    "aten::alias_copy.out" [3] writes [1] => |call| copy_as_is(call, 1);
    "aten::detach_copy.out" [3] writes [1] => |call| copy_as_is(call, 1);
    "aten::lift_fresh_copy.out" [3] writes [1] => |call| copy_as_is(call, 1);
    "aten::_to_copy.out" [5] writes [3] => |call| copy_as_is(call, 3);
    "dim_order_ops::_to_dim_order_copy.out" [5] writes [3] => |call| copy_as_is(call, 3);
    "dim_order_ops::_clone_dim_order.out" [5] writes [3] => |call| copy_as_is(call, 3);
    "et_copy::_h2d_copy.out" [3] writes [1] => |call| copy_as_is(call, 1);
    "et_copy::_d2h_copy.out" [3] writes [1] => |call| copy_as_is(call, 1);
    "aten::copy.out" [5] writes [3] => copy_to_sizes;
    "aten::copy_" [4] writes [0] => copy_in_place;
    "aten::permute_copy.out" [4] writes [2] => view!(2, |call, x| x.permute(&call.ints(1)?));
    "aten::transpose_copy.int_out" [5] writes [3] => view!(3, |call, x| x.transpose(call.int(1)?, call.int(2)?));
    "aten::t_copy.out" [3] writes [1] => view!(1, |_call, x| match x.rank() {
        0 | 1 => Ok(x),
        2 => x.transpose(0, 1),
        rank => Err(sconce_schema::ShapeError::Rank(rank)),
    });
    "aten::squeeze_copy.dim_out" [4] writes [2] => view!(2, |call, x| x.squeeze(&[call.int(1)?]));
    "aten::squeeze_copy.dims_out" [4] writes [2] => view!(2, |call, x| x.squeeze(&call.ints(1)?));
    "aten::unsqueeze_copy.out" [4] writes [2] => view!(2, |call, x| x.unsqueeze(call.int(1)?));
    "aten::expand_copy.out" [5] writes [3] => view!(3, |call, x| x.expand(&call.ints(1)?));
    "aten::slice_copy.Tensor_out" [7] writes [5] => view!(5, |call, x| slice(call, 1, &x)?);
    "aten::select_copy.int_out" [5] writes [3] => view!(3, |call, x| x.select(call.int(1)?, call.int(2)?));
    "aten::narrow_copy.out" [6] writes [4] => view!(4, |call, x| x.narrow(call.int(1)?, call.int(2)?, call.int(3)?));
    "aten::diagonal_copy.out" [6] writes [4] => view!(4, |call, x| {
        x.diagonal(call.int(1)?, call.int(2)?, call.int(3)?)
    });
    "aten::unfold_copy.out" [6] writes [4] => view!(4, |call, x| x.unfold(call.int(1)?, call.int(2)?, call.int(3)?));
    "aten::as_strided_copy.out" [6] writes [4] => |call| copy_view(call, 4, |call, _| as_strided(call, 1));
    "aten::view_copy.out" [4] writes [2] => view_copy;
    "aten::view_as_real_copy.out" [3] writes [1] => view_as_real;
    "aten::pixel_shuffle.out" [4] writes [2] => pixel_shuffle;
    "aten::pixel_unshuffle.out" [4] writes [2] => pixel_unshuffle;
    "aten::slice_scatter.out" [8] writes [6] => |call| scatter_part(call, 6, |call, out| {
        slice(call, 2, &out)?.map_err(shape_fault)
    });
    "aten::select_scatter.out" [6] writes [4] => |call| scatter_part(call, 4, |call, out| {
        out.select(call.int(2)?, call.int(3)?).map_err(shape_fault)
    });
    "aten::diag_embed.out" [6] writes [4] => diag_embed;
    "aten::diagonal_scatter.out" [7] writes [5] => |call| scatter_part(call, 5, |call, out| {
        out.diagonal(call.int(2)?, call.int(3)?, call.int(4)?).map_err(shape_fault)
    });
    "aten::as_strided_scatter.out" [7] writes [5] => as_strided_scatter;
};

/// The slice that the four arguments from `first` on describe.
fn slice(call: &Call<'_>, first: usize, x: &Layout) -> Result<Result<Layout, sconce_schema::ShapeError>, Fault> {
    let position = |argument| call.optional(argument, |args, argument| args.int(argument));
    Ok(x.slice(call.int(first)?, position(first + 1)?, position(first + 2)?, call.int(first + 3)?))
}

/// Copies a view of argument 0.
fn copy_view(
    call: &mut Call<'_>,
    out: usize,
    view: impl FnOnce(&Call<'_>, Layout) -> Result<Layout, Fault>,
) -> Result<(), Fault> {
    let x = View::from(call.tensor(0)?);
    let x = x.through(view(call, x.layout)?);
    let target = call.out(out, &x.layout.sizes)?;
    write(call.parallel(), &x, target.into())
}

/// The last dimension of argument 0 on a diagonal of two new dimensions, among zeros.
fn diag_embed(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, offset) = (View::from(call.tensor(0)?), call.int(1)?);
    let rank = x.layout.rank() + 1;
    let dim = |argument| {
        let dim = call.int(argument)?;
        normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank }).map_err(|error| shape_fault(error).at(argument))
    };
    let (first, second) = (dim(2)?, dim(3)?);
    let Some((&len, outer)) = x.layout.sizes.split_last().filter(|_| first != second) else {
        return Err(Fault::argument(0, "the tensor must have a dimension, and the two of its matrices must differ"));
    };
    let side = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX).saturating_add(len);
    let mut others = outer.iter();
    let size = |dim| if dim == first || dim == second { side } else { others.next().copied().unwrap_or(1) };
    let sizes = Sizes::from_fn(rank, size).ok_or(shape_fault(ShapeError::Rank(rank)))?;
    let mut target = Target::from(call.out(4, &sizes)?);
    target.data.fill(0);
    let diagonal = target.layout.diagonal(offset, first as i64, second as i64).map_err(shape_fault)?;
    write(call.parallel(), &x, target.part(diagonal))
}

/// Moves a tensor into an output to whose sizes it broadcasts, with conversion of elements where the types differ.
pub(crate) fn assign(call: &Call<'_>, x: Tensor<'_>, out_argument: usize, out: TensorMut<'_>) -> Result<(), Fault> {
    if x.dtype == out.dtype {
        return write(call.parallel(), &View::from(x).broadcast_to(out.sizes())?, out.into());
    }
    if is_complex(x.dtype) || is_complex(out.dtype) {
        return complex::combine(call.parallel(), [Source::Tensor(x)], out_argument, out, |[x]| x);
    }
    compute!(x.dtype, 0, C => {
        run(call.parallel(), [Source::Tensor(x)], out_argument, out, #[inline(always)] |x, out| each1(x, out, #[inline(always)] |x: C| x))
    })
}

pub(crate) fn copy_as_is(call: &mut Call<'_>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let target = call.out(out, x.sizes())?;
    assign(call, x, out, target)
}

/// The values of argument 1 in the sizes of argument 0.
fn copy_to_sizes(call: &mut Call<'_>) -> Result<(), Fault> {
    let (_, like) = call.tensor_type(0)?;
    let source = call.tensor(1)?;
    let target = call.out(3, like.sizes())?;
    assign(call, source, 3, target)
}

fn copy_in_place(call: &mut Call<'_>) -> Result<(), Fault> {
    let source = call.tensor(1)?;
    let target = call.in_place(0)?;
    assign(call, source, 0, target)
}

/// The layout that the three arguments from `first` on describe.
fn as_strided(call: &Call<'_>, first: usize) -> Result<Layout, Fault> {
    let natural = |argument: usize, value: i64| {
        usize::try_from(value).map_err(|_| Fault::argument(argument, "{} is negative").with_signed([value]))
    };
    let list = |argument: usize| {
        let mut numbers = [0; sconce_core::MAX_RANK];
        let ints = call.ints(argument)?;
        for (number, &value) in numbers.iter_mut().zip(ints.iter()) {
            *number = natural(argument, value)?;
        }
        Ok((numbers, ints.len()))
    };
    let ((sizes, rank), (strides, count)) = (list(first)?, list(first + 1)?);
    let offset = call.optional(first + 2, |args, argument| args.int(argument))?.unwrap_or(0);
    let layout = Layout::new(&sizes[..rank], &strides[..count]);
    let layout = layout.ok_or(Fault::argument(first + 1, "there must be as many strides as sizes"))?;
    Ok(layout.at(natural(first + 2, offset)?))
}

fn view_copy(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let sizes = shapes::view(x.sizes(), &call.ints(1)?)
        .ok_or(Fault::argument(1, "the sizes do not have as many elements as the tensor"))?;
    let target = call.out(2, &sizes)?;
    reshape(call.parallel(), &x.into(), target.into())
}

/// Complex numbers as pairs of real ones, in a new last dimension.
fn view_as_real(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut x = View::from(call.tensor(0)?);
    if !x.dtype.is_complex() {
        return Err(crate::typed::unsupported(0, x.dtype));
    }
    x.dtype = x.dtype.real();
    // A complex element is two real ones: all steps double, and the parts of a number are one apart.
    let pairs = x.layout.unsqueeze(-1).map_err(shape_fault)?;
    let rank = x.layout.rank();
    let mut strides = [1; sconce_core::MAX_RANK];
    strides.iter_mut().zip(x.layout.strides()).for_each(|(slot, stride)| *slot = stride.wrapping_mul(2));
    let mut sizes = pairs.sizes;
    sizes.iter_mut().skip(rank).for_each(|size| *size = 2);
    x.layout = Layout::new(&sizes, &strides[..=rank]).unwrap_or(pairs);
    let target = call.out(1, &sizes)?;
    write(call.parallel(), &x, target.into())
}

/// The factor of a pixel shuffle and the number of dimensions before the last three.
fn pixel_factor(call: &Call<'_>, x: &Tensor<'_>) -> Result<(usize, usize), Fault> {
    let factor = usize::try_from(call.int(1)?).ok().filter(|&factor| factor > 0);
    let factor = factor.ok_or(Fault::argument(1, "the factor must be positive"))?;
    let batch = x.shape.rank().checked_sub(3).ok_or(Fault::argument(0, "at least three dimensions are needed"))?;
    Ok((factor, batch))
}

/// A layout [.., c, h * r, w * r] as [.., c, r, r, h, w].
fn pixels_as_channels(layout: &Layout, batch: usize, factor: usize) -> Result<Layout, Fault> {
    let split = layout.split(batch + 2, factor).and_then(|layout| layout.split(batch + 1, factor));
    // Now [.., c, h, r, w, r].
    let mut order = [0; sconce_core::MAX_RANK];
    order.iter_mut().zip(0i64..).for_each(|(slot, dim)| *slot = dim);
    let split = split.map_err(shape_fault)?;
    for (slot, from) in order.iter_mut().skip(batch + 1).zip([2, 4, 1, 3]) {
        *slot = i64::try_from(batch + from).unwrap_or(i64::MAX);
    }
    split.permute(&order[..split.rank()]).map_err(shape_fault)
}

/// A layout [.., c * r * r, h, w] as [.., c, r, r, h, w].
fn channels_split(layout: &Layout, batch: usize, factor: usize) -> Result<Layout, Fault> {
    let square = factor.checked_mul(factor).ok_or(Fault::argument(1, "the factor is too large"))?;
    let split = layout.split(batch, square).and_then(|layout| layout.split(batch + 1, factor));
    split.map_err(shape_fault)
}

fn pixel_shuffle(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (factor, batch) = pixel_factor(call, &x)?;
    let from = View::from(x).through(channels_split(&layout(&x.shape), batch, factor)?);
    let mut sizes = View::from(x).layout.sizes;
    for (i, size) in sizes.iter_mut().skip(batch).enumerate() {
        let grown = if i == 0 { Some(*size / factor / factor) } else { size.checked_mul(factor) };
        *size = grown.ok_or(Fault::argument(1, "the factor is too large"))?;
    }
    let mut target = Target::from(call.out(2, &sizes)?);
    let to = pixels_as_channels(&target.layout, batch, factor)?;
    write(call.parallel(), &from, target.part(to))
}

fn pixel_unshuffle(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (factor, batch) = pixel_factor(call, &x)?;
    let from = View::from(x).through(pixels_as_channels(&layout(&x.shape), batch, factor)?);
    let mut sizes = View::from(x).layout.sizes;
    for (i, size) in sizes.iter_mut().skip(batch).enumerate() {
        let shrunk =
            if i == 0 { factor.checked_mul(factor).and_then(|f| size.checked_mul(f)) } else { Some(*size / factor) };
        *size = shrunk.ok_or(Fault::argument(1, "the factor is too large"))?;
    }
    let mut target = Target::from(call.out(2, &sizes)?);
    let to = channels_split(&target.layout, batch, factor)?;
    write(call.parallel(), &from, target.part(to))
}

/// A copy of argument 0 in which argument 1 replaces a part.
fn scatter_part(
    call: &mut Call<'_>,
    out: usize,
    part: impl FnOnce(&Call<'_>, Layout) -> Result<Layout, Fault>,
) -> Result<(), Fault> {
    let (x, source) = (View::from(call.tensor(0)?), View::from(call.tensor(1)?));
    let mut target = Target::from(call.out(out, &x.layout.sizes)?);
    let whole = target.layout;
    let part = part(call, whole)?;
    if part.sizes != source.layout.sizes {
        return Err(Fault::argument(1, "the source must have the sizes of the part that it replaces"));
    }
    write(call.parallel(), &x, target.part(whole))?;
    write(call.parallel(), &source, target.part(part))
}

/// A copy of argument 0 in which argument 1 replaces elements in any steps; of those that fall together the last stays.
fn as_strided_scatter(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, source, part) = (View::from(call.tensor(0)?), View::from(call.tensor(1)?), as_strided(call, 2)?);
    same_type(1, source.dtype, x.dtype)?;
    if part.sizes != source.layout.sizes {
        return Err(Fault::argument(1, "the source must have the sizes of the part that it replaces"));
    }
    let mut target = Target::from(call.out(5, &x.layout.sizes)?);
    same_type(5, target.dtype, x.dtype)?;
    let (whole, size) = (target.layout, x.dtype.size());
    let end = part.reach().and_then(|reach| reach.checked_mul(size));
    end.filter(|&end| end <= target.data.len())
        .ok_or(Fault::argument(2, "the sizes, strides and offset reach outside of the tensor"))?;
    write(call.parallel(), &x, target.part(whole))?;
    for (from, to) in offsets(&source.layout).zip(offsets(&part)) {
        copy_element(size, source.data, from, target.data, to);
    }
    Ok(())
}
