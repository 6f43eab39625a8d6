//! Copies whose elements change places along a dimension: flips, rolls, repetitions, triangles.
use crate::operands::{same_type, shape_fault};
use crate::ops;
use crate::remap::{Remap, Rule};
use crate::strided::{Target, View, copy_element, offsets, write};
use sconce_core::{Call, Fault, MAX_RANK, Op, Shape, Tensor};
use sconce_schema::{Layout, ShapeError, Sizes, normalize_dim, normalize_dims, shapes};

/// Flips, rolls, repetitions, triangles.
pub(crate) static OPS: &[Op] = ops! {
    "aten::flip.out" [4] writes [2] => flip;
    "aten::repeat.out" [4] writes [2] => repeat;
    "aten::roll.out" [5] writes [3] => roll;
    "aten::tril.out" [4] writes [2] => |call| triangle(call, true);
    "aten::triu.out" [4] writes [2] => |call| triangle(call, false);
};

/// Copies a tensor with a rule per dimension of the output, whose elements must have the same type.
pub(crate) fn copy_by_rules(
    call: &mut Call<'_>,
    x: Tensor<'_>,
    out: usize,
    sizes: &[usize],
    rule: impl Fn(usize) -> Rule,
    fill: &[u8; 16],
) -> Result<(), Fault> {
    let target = call.out(out, sizes)?;
    same_type(out, target.dtype, x.dtype)?;
    if !target.data.is_empty() {
        let remap = Remap::new(&x.shape, &target.shape, rule);
        remap.run(call.parallel(), x.dtype.size(), x.data, target.data, fill);
    }
    Ok(())
}

fn flip(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let dims = normalize_dims(&call.ints(1)?, x.shape.rank());
    let dims = dims.ok_or(Fault::argument(1, "the dimensions must exist and differ"))?;
    let rule = |dim: usize| if dims >> dim & 1 != 0 { Rule::Reverse } else { Rule::Keep };
    copy_by_rules(call, x, 2, x.sizes(), rule, &[0; 16])
}

fn repeat(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let sizes = shapes::repeat(x.sizes(), &call.ints(1)?).map_err(|error| shape_fault(error).at(1))?;
    let missing = sizes.len() - x.shape.rank();
    let grows = |dim: usize| dim.checked_sub(missing).and_then(|own| x.sizes().get(own)) != sizes.get(dim);
    copy_by_rules(call, x, 2, &sizes, |dim| if grows(dim) { Rule::Repeat } else { Rule::Keep }, &[0; 16])
}

/// A shift around the end of a dimension, as a number below its size.
fn wrapped(shift: i64, size: usize) -> usize {
    let size = i64::try_from(size).unwrap_or(i64::MAX).max(1);
    usize::try_from(shift.rem_euclid(size)).unwrap_or(0)
}

fn roll(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (shifts, dims) = (call.ints(1)?, call.ints(2)?);
    if dims.is_empty() && shifts.len() == 1 {
        return roll_flat(call, x, shifts.first().copied().unwrap_or(0));
    }
    if dims.len() != shifts.len() {
        return Err(Fault::argument(1, "there must be as many shifts as dimensions"));
    }
    let mut by = [0; MAX_RANK];
    for (&shift, &dim) in shifts.iter().zip(dims.iter()) {
        let rank = x.shape.rank();
        let dim = normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank }).map_err(shape_fault)?;
        // A single element has no dimension to move along.
        let Some(&size) = x.sizes().get(dim) else { continue };
        by[dim] = (by[dim] + wrapped(shift, size)) % size.max(1);
    }
    copy_by_rules(call, x, 3, x.sizes(), |dim| if by[dim] == 0 { Rule::Keep } else { Rule::Roll(by[dim]) }, &[0; 16])
}

/// Rolls a tensor as if it had one dimension: its row-major order, whatever the memory order.
fn roll_flat(call: &mut Call<'_>, x: Tensor<'_>, shift: i64) -> Result<(), Fault> {
    let shift = wrapped(shift, x.numel());
    let flat = Shape::contiguous(&[x.numel()]).unwrap_or(Shape::SCALAR);
    let (target, size) = (call.out(3, x.sizes())?, x.dtype.size());
    same_type(3, target.dtype, x.dtype)?;
    if x.shape.is_contiguous() && target.shape.is_contiguous() {
        let remap = Remap::new(&flat, &flat, |_| if shift == 0 { Rule::Keep } else { Rule::Roll(shift) });
        remap.run(call.parallel(), size, x.data, target.data, &[0; 16]);
        return Ok(());
    }
    let (from, target) = (View::from(x).layout, Target::from(target));
    let sources = offsets(&from).skip(x.numel() - shift).chain(offsets(&from));
    for (from, to) in sources.zip(offsets(&target.layout)) {
        copy_element(size, x.data, from, target.data, to);
    }
    Ok(())
}

/// The lower or upper triangle of matrices; what is on the other side of the diagonal becomes zero.
fn triangle(call: &mut Call<'_>, lower: bool) -> Result<(), Fault> {
    let (x, diagonal) = (View::from(call.tensor(0)?), call.int(1)?);
    let Some(batch) = x.layout.rank().checked_sub(2) else {
        return Err(Fault::argument(0, "a matrix is needed: at least two dimensions"));
    };
    let mut target = Target::from(call.out(2, &x.layout.sizes)?);
    let whole = target.layout;
    write(call.parallel(), &x, target.part(whole))?;
    if whole.sizes.contains(&0) {
        return Ok(());
    }
    let size = target.dtype.size();
    let (rows, columns) = (whole.sizes[batch], whole.sizes[batch + 1]);
    let (down, right) = (whole.strides()[batch], whole.strides()[batch + 1]);
    let matrices = Layout::new(&whole.sizes[..batch], &whole.strides()[..batch]);
    for matrix in offsets(&matrices.unwrap_or(Layout::contiguous(Sizes::SCALAR))) {
        for (row, index) in (0..rows).zip(0i64..) {
            let border = index.saturating_add(diagonal).saturating_add(i64::from(lower)).max(0);
            let border = usize::try_from(border).unwrap_or(usize::MAX).min(columns);
            for column in if lower { border..columns } else { 0..border } {
                let place = (matrix + row * down + column * right) * size;
                target.data.get_mut(place..place + size).into_iter().for_each(|element| element.fill(0));
            }
        }
    }
    Ok(())
}
