//! Tensors joined along a dimension, and taken apart.
use crate::operands::shape_fault;
use crate::ops;
use crate::strided::{Target, View, write};
use core::ops::Range;
use sconce_core::{Args, Call, Fault, Op};
use sconce_kernels::copy::join;
use sconce_schema::{Layout, ShapeError, Sizes, normalize_dim, shapes};

/// Joins and splits.
pub(crate) static OPS: &[Op] = ops! {
    "aten::cat.out" [4] writes [2] => cat;
    "aten::stack.out" [4] writes [2] => stack;
    "aten::split_copy.Tensor_out" [5] writes [3] => split;
    "aten::split_with_sizes_copy.out" [5] writes [3] => split_with_sizes;
    "aten::unbind_copy.int_out" [4] writes [2] => unbind;
};

/// The sizes of the tensors in list argument 0, none of which may be missing.
fn sizes_of<'c>(call: &Call<'c>) -> Result<impl Iterator<Item = Sizes> + Clone + use<'c>, Fault> {
    let (args, count): (Args<'c>, usize) = (**call, call.list_len(0)?);
    for position in 0..count {
        args.tensor_type_in(0, position)?.ok_or(missing(position))?;
    }
    let sizes = move |position| Sizes::new(args.tensor_type_in(0, position).ok()??.1.sizes());
    Ok((0..count).filter_map(sizes))
}

fn missing(position: usize) -> Fault {
    Fault::argument(0, "tensor {} of the list is none").with([position])
}

/// Tensor `position` of list argument 0. Lists have any length, so their tensors are taken one by one, after the output:
/// one that shares memory with the output is an error.
fn tensor_in<'c>(call: &Call<'c>, position: usize) -> Result<View<'c>, Fault> {
    call.tensor_in(0, position)?.map(View::from).ok_or(missing(position))
}

fn cat(call: &mut Call<'_>) -> Result<(), Fault> {
    let dim = call.int(1)?;
    let (sizes, axis) = shapes::cat(sizes_of(call)?, dim).map_err(shape_fault)?;
    let mut target = Target::from(call.out(2, &sizes)?);
    let (count, mut start) = (call.list_len(0)?, 0);
    for first in (0..count).step_by(GROUP) {
        let group = first..count.min(first + GROUP);
        start += match side_by_side(call, &mut target, axis, start, group.clone())? {
            Some(length) => length,
            None => one_by_one(call, &mut target, axis, start, group)?,
        };
    }
    Ok(())
}

/// Tensors of a concatenation that are written in one pass.
const GROUP: usize = 16;

/// How long a tensor of a concatenation is; one without elements may have another rank.
fn length(tensor: &View<'_>, axis: usize) -> usize {
    if *tensor.layout.sizes == [0] { 0 } else { tensor.layout.sizes.get(axis).copied().unwrap_or(0) }
}

/// Writes some tensors of a list, whatever their layouts are, and says how long they are together.
fn one_by_one(
    call: &Call<'_>,
    target: &mut Target<'_>,
    axis: usize,
    start: usize,
    group: Range<usize>,
) -> Result<usize, Fault> {
    let (whole, mut end) = (target.layout, start);
    for position in group {
        let tensor = tensor_in(call, position)?;
        let length = length(&tensor, axis);
        if length > 0 {
            write(call.parallel(), &tensor, target.part(narrow(&whole, axis, end, length)?))?;
        }
        end += length;
    }
    Ok(end - start)
}

/// Does the same in one pass over the target's rows, where the dimension has others before it, everything is contiguous
/// and nothing is converted.
fn side_by_side(
    call: &Call<'_>,
    target: &mut Target<'_>,
    axis: usize,
    start: usize,
    group: Range<usize>,
) -> Result<Option<usize>, Fault> {
    let (sizes, dtype) = (target.layout.sizes, target.dtype);
    let rows: usize = sizes.iter().take(axis).product();
    let width = sizes.iter().skip(axis + 1).product::<usize>() * dtype.size();
    let mut parts: [(&[u8], usize); GROUP] = [(&[], 0); GROUP];
    let mut total = 0;
    if rows < 2 || !target.layout.is_contiguous() {
        return Ok(None);
    }
    for (part, position) in parts.iter_mut().zip(group) {
        let tensor = tensor_in(call, position)?;
        if tensor.dtype != dtype || !tensor.layout.is_contiguous() {
            return Ok(None);
        }
        let length = length(&tensor, axis);
        *part = (tensor.data, length * width);
        total += length;
    }
    let stride = sizes.get(axis).copied().unwrap_or(0) * width;
    let to = target.data.get_mut(start * width..).unwrap_or(&mut []);
    join(call.parallel(), rows, stride, &parts, to);
    Ok(Some(total))
}

/// Positions `start..start + length` of a dimension.
fn narrow(layout: &Layout, dim: usize, start: usize, length: usize) -> Result<Layout, Fault> {
    let signed = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
    layout.narrow(signed(dim), signed(start), signed(length)).map_err(shape_fault)
}

fn stack(call: &mut Call<'_>) -> Result<(), Fault> {
    let (count, dim) = (call.list_len(0)?, call.int(1)?);
    let first = sizes_of(call)?.next().ok_or(Fault::argument(0, "the list of tensors is empty"))?;
    if sizes_of(call)?.any(|sizes| sizes != first) {
        return Err(Fault::argument(0, "all tensors of a stack must have the same sizes"));
    }
    let rank = first.len() + 1;
    let axis = normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank }).map_err(shape_fault)?;
    let size = |at: usize| match at {
        at if at < axis => first[at],
        at if at == axis => count,
        at => first[at - 1],
    };
    let sizes = Sizes::from_fn(rank, size).ok_or(ShapeError::Rank(rank)).map_err(shape_fault)?;
    let mut target = Target::from(call.out(2, &sizes)?);
    let whole = target.layout;
    for (position, index) in (0..count).zip(0i64..) {
        let part = whole.select(dim, index).map_err(shape_fault)?;
        write(call.parallel(), &tensor_in(call, position)?, target.part(part))?;
    }
    Ok(())
}

/// Copies parts of argument 0 to the outputs of list argument `outs`; `part` gives their layouts by position.
fn take_apart(
    call: &mut Call<'_>,
    outs: usize,
    mut part: impl FnMut(&Call<'_>, &Layout, usize) -> Result<Layout, Fault>,
) -> Result<(), Fault> {
    let x = View::from(call.tensor(0)?);
    for position in 0..call.list_len(outs)? {
        let x = x.through(part(call, &x.layout, position)?);
        let target = call.out_in(outs, position, &x.layout.sizes)?;
        write(call.parallel(), &x, target.into())?;
    }
    Ok(())
}

/// The dimension that argument `argument` names, and its size.
fn dimension(call: &Call<'_>, argument: usize) -> Result<(usize, usize), Fault> {
    let (_, shape) = call.tensor_type(0)?;
    let (dim, rank) = (call.int(argument)?, shape.rank());
    let axis = normalize_dim(dim, rank).filter(|_| rank > 0);
    let axis = axis.ok_or(ShapeError::Dim { dim, rank }).map_err(|error| shape_fault(error).at(argument))?;
    Ok((axis, shape.sizes()[axis]))
}

fn outputs_fit(call: &Call<'_>, outs: usize, wanted: usize) -> Result<(), Fault> {
    match call.list_len(outs)? {
        count if count == wanted => Ok(()),
        count => Err(Fault::argument(outs, "there are {} outputs for {} parts").with([count, wanted])),
    }
}

fn split(call: &mut Call<'_>) -> Result<(), Fault> {
    let (axis, size) = dimension(call, 2)?;
    let length = call.int(1)?;
    let step = usize::try_from(length).ok().filter(|&step| step > 0 || size == 0);
    let step = step.ok_or(Fault::argument(1, "parts cannot have size {}").with_signed([length]))?;
    outputs_fit(call, 3, size.div_ceil(step.max(1)).max(1))?;
    take_apart(call, 3, |_, x, position| {
        let start = position.saturating_mul(step).min(size);
        narrow(x, axis, start, step.min(size - start))
    })
}

fn split_with_sizes(call: &mut Call<'_>) -> Result<(), Fault> {
    let (axis, size) = dimension(call, 2)?;
    let count = call.list_len(1)?;
    outputs_fit(call, 3, count)?;
    let length = |call: &Call<'_>, position| {
        let length = call.int_in(1, position)?;
        usize::try_from(length).map_err(|_| Fault::argument(1, "parts cannot have size {}").with_signed([length]))
    };
    let mut total = 0usize;
    for position in 0..count {
        total = total.saturating_add(length(call, position)?);
    }
    if total != size {
        return Err(Fault::argument(1, "the parts have size {} together, the dimension has {}").with([total, size]));
    }
    let mut start = 0;
    take_apart(call, 3, |call, x, position| {
        let length = length(call, position)?;
        start += length;
        narrow(x, axis, start - length, length)
    })
}

fn unbind(call: &mut Call<'_>) -> Result<(), Fault> {
    let (axis, size) = dimension(call, 1)?;
    outputs_fit(call, 2, size)?;
    let signed = |at: usize| i64::try_from(at).unwrap_or(i64::MAX);
    take_apart(call, 2, |_, x, position| x.select(signed(axis), signed(position)).map_err(shape_fault))
}
