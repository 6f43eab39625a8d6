//! Picking and replacing by index tensors and masks, as Python's `x[i, :, mask]`.
//!
//! Index tensors broadcast against each other to the *picked* sizes; a mask stands for the positions at which it is
//! true, one index for all the dimensions it covers. Each picked element has one place in the source, the sum of what
//! its indices contribute ([`Selection::places`]), and there begins a block of the dimensions that no index names. So
//! picking is: for each place, copy a block; replacing is the same the other way round. In the result the picked
//! dimensions stand where the indexed ones stood if those were neighbours, else in front.
use super::{Positions, out_of_range};
use crate::copies::assign;
use crate::operands::{misaligned, same_type, shape_fault, signed};
use crate::ops;
use crate::strided::{Offsets, Target, View, layout, offsets, write};
use crate::typed::{Typed, for_dtype};
use core::ops::Range;
use sconce_core::{Call, Fault, MAX_RANK, Op, ScalarType, Serial, Shape, Tensor, TensorMut};
use sconce_kernels::index::gather_rows;
use sconce_kernels::view::{view, view_mut};
use sconce_schema::{Layout, ShapeError, Sizes, normalize_dim, shapes};

/// Picking and replacing.
pub(crate) static OPS: &[Op] = ops! {
    "aten::embedding.out" [7] writes [5] => embedding;
    "aten::index_select.out" [5] writes [3] => index_select;
    "aten::index.Tensor_out" [4] writes [2] => index;
    "aten::index_put.out" [6] writes [4] => index_put;
    "aten::index_put_" [5] writes [0] => index_put_in_place;
};

/// One index: a tensor of positions in a dimension, or a mask over several.
#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "there is no heap, and a call has at most sixteen")]
enum Index<'c> {
    Positions {
        positions: Positions<'c>,
        /// The tensor's, broadcast to the picked sizes.
        layout: Layout,
        size: usize,
        stride: usize,
        /// Whether negative positions count from the end.
        wrap: bool,
        argument: usize,
    },
    Mask {
        mask: &'c [u8],
        layout: Layout,
        /// The dimensions of the source that the mask covers.
        source: Layout,
        /// How many elements are true.
        count: usize,
    },
}

/// What indices pick from a source.
struct Selection<'c> {
    indices: [Option<Index<'c>>; MAX_RANK],
    /// The sizes to which the indices broadcast.
    picked: Sizes,
    /// The dimensions of the source that no index names.
    rest: Layout,
    /// Where in the result the picked dimensions start.
    start: usize,
}

impl<'c> Selection<'c> {
    /// What the tensors of a list argument pick from a tensor of shape `source`.
    fn from_list(call: &Call<'c>, argument: usize, source: &Shape) -> Result<Self, Fault> {
        let source = layout(source);
        let mut indices = [None; MAX_RANK];
        let (mut slots, mut dim, mut named) = (indices.iter_mut(), 0usize, 0u32);
        for position in 0..call.list_len(argument)? {
            let covered = match call.tensor_in(argument, position)? {
                None => 1,
                Some(tensor) => {
                    let index = Index::new(argument, &tensor, &source, dim)?;
                    let covered = index.dims();
                    named |= ((1 << covered) - 1) << dim;
                    slots.next().into_iter().for_each(|slot| *slot = Some(index));
                    covered
                }
            };
            dim = dim.saturating_add(covered);
        }
        if dim > source.rank() {
            let text = "{} indices are too many for a tensor of {} dimensions";
            return Err(Fault::argument(argument, text).with([dim, source.rank()]));
        }
        Self::new(indices, named, &source)
    }

    /// What positions in one dimension pick.
    fn of_dim(argument: usize, indices: &Tensor<'c>, source: &Shape, dim: usize) -> Result<Self, Fault> {
        let source = layout(source);
        let mut list = [None; MAX_RANK];
        let index = Index::new(argument, indices, &source, dim)?;
        if let (Index::Positions { positions, layout, size, stride, argument, .. }, [slot, ..]) = (index, &mut list) {
            *slot = Some(Index::Positions { positions, layout, size, stride, wrap: false, argument });
        } else {
            return Err(crate::typed::unsupported(argument, indices.dtype));
        }
        Self::new(list, 1 << dim, &source)
    }

    /// Indices that name the source's dimensions of a set.
    fn new(mut indices: [Option<Index<'c>>; MAX_RANK], named: u32, source: &Layout) -> Result<Self, Fault> {
        let mut picked = Sizes::SCALAR;
        for index in indices.iter().flatten() {
            picked = shapes::broadcast([&*picked, &*index.sizes()]).map_err(shape_fault)?;
        }
        for index in indices.iter_mut().flatten() {
            if let Index::Positions { layout, .. } = index {
                *layout = layout.broadcast_to(&picked).map_err(shape_fault)?;
            }
        }
        let first = named.trailing_zeros();
        let neighbours = named != 0 && (named >> first).wrapping_add(1).is_power_of_two();
        let start = if neighbours { first as usize } else { 0 };
        Ok(Self { indices, picked, rest: source.keep(|dim, _| named >> dim & 1 == 0), start })
    }

    /// The sizes of the result.
    fn sizes(&self) -> Result<Sizes, Fault> {
        let rank = self.picked.len() + self.rest.rank();
        let size = |dim: usize| match dim.checked_sub(self.start) {
            None => self.rest.sizes[dim],
            Some(picked) => match self.picked.get(picked) {
                Some(&size) => size,
                None => self.rest.sizes[dim - self.picked.len()],
            },
        };
        Sizes::from_fn(rank, size).ok_or(ShapeError::Rank(rank)).map_err(shape_fault)
    }

    /// A layout of the result's sizes as those of its picked and of its other dimensions.
    fn divide(&self, result: &Layout) -> (Layout, Layout) {
        let picked = self.start..self.start + self.picked.len();
        (result.keep(|dim, _| picked.contains(&dim)), result.keep(|dim, _| !picked.contains(&dim)).at(0))
    }

    /// The checks that remain when nothing is copied: no position exists in an empty dimension, and those of an embedding
    /// or of `index_select` are checked always.
    fn check_empty(&self) -> Result<(), Fault> {
        for index in self.indices.iter().flatten().filter(|_| !self.picked.contains(&0)) {
            if let Index::Positions { positions, size, wrap, argument, .. } = *index
                && (size == 0 || !wrap)
            {
                positions.check(argument, size)?;
            }
        }
        Ok(())
    }

    /// Calls `each` with the place of every picked element in the source, in row-major order.
    fn places(&self, mut each: impl FnMut(usize) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut cursors = self.indices.map(|index| index.map(|index| index.cursor()));
        for _ in 0..self.picked.numel().unwrap_or(0) {
            let mut place = self.rest.offset;
            for (cursor, index) in cursors.iter_mut().zip(&self.indices) {
                let (Some(cursor), Some(index)) = (cursor, index) else { break };
                place += index.next(cursor)?;
            }
            each(place)?;
        }
        Ok(())
    }
}

/// Where an index is in its walk over the picked elements.
struct Cursor {
    own: Offsets,
    /// Only a mask walks the source beside itself.
    source: Option<Offsets>,
    /// What the last true element of a mask contributed.
    last: usize,
}

impl<'c> Index<'c> {
    /// A tensor that indexes the source from dimension `dim` on.
    fn new(argument: usize, tensor: &Tensor<'c>, source: &Layout, dim: usize) -> Result<Self, Fault> {
        let none = Fault::argument(argument, "there are more indices than the tensor has dimensions");
        let own = layout(&tensor.shape);
        if let ScalarType::Bool | ScalarType::Byte = tensor.dtype {
            let covered = dim..dim.saturating_add(own.rank().max(1));
            let sizes = source.sizes.get(covered.clone()).ok_or(none)?;
            if sizes != &*own.sizes {
                return Err(Fault::argument(argument, "a mask must have the sizes of the dimensions it covers"));
            }
            let count = tensor.data.iter().filter(|&&byte| byte != 0).count();
            let source = source.keep(|dim, _| covered.contains(&dim)).at(0);
            return Ok(Index::Mask { mask: tensor.data, layout: own, source, count });
        }
        let (&size, &stride) = source.sizes.get(dim).zip(source.strides().get(dim)).ok_or(none)?;
        let positions = Positions::new(argument, tensor)?;
        Ok(Index::Positions { positions, layout: own, size, stride, wrap: true, argument })
    }

    /// How many dimensions of the source it covers.
    fn dims(&self) -> usize {
        match self {
            Index::Positions { .. } => 1,
            Index::Mask { source, .. } => source.rank(),
        }
    }

    /// Its sizes as a tensor of positions.
    fn sizes(&self) -> Sizes {
        match self {
            Index::Positions { layout, .. } => layout.sizes,
            Index::Mask { count, .. } => Sizes::new(&[*count]).unwrap_or(Sizes::SCALAR),
        }
    }

    fn cursor(&self) -> Cursor {
        match self {
            Index::Positions { layout, .. } => Cursor { own: offsets(layout), source: None, last: 0 },
            Index::Mask { layout, source, .. } => {
                Cursor { own: offsets(layout), source: Some(offsets(source)), last: 0 }
            }
        }
    }

    /// What it contributes to the place of the next picked element.
    fn next(&self, cursor: &mut Cursor) -> Result<usize, Fault> {
        match *self {
            Index::Positions { positions, size, stride, wrap, argument, .. } => {
                let given = positions.get(cursor.own.next().unwrap_or(0));
                let position = if wrap && given < 0 { given.saturating_add(signed(size)) } else { given };
                let position = usize::try_from(position).ok().filter(|&position| position < size);
                Ok(position.ok_or(out_of_range(argument, given, signed(size)))? * stride)
            }
            Index::Mask { mask, count, .. } => Ok(self.next_true(cursor, mask, count)),
        }
    }

    /// The place of a mask's next true element. Masks are repeated along outer picked dimensions, and a single true
    /// element along all.
    fn next_true(&self, cursor: &mut Cursor, mask: &[u8], count: usize) -> usize {
        let mut passes = 0;
        while let Some(source) = &mut cursor.source {
            match cursor.own.next().zip(source.next()) {
                Some((at, place)) if mask.get(at).is_some_and(|&byte| byte != 0) => {
                    cursor.last = place;
                    break;
                }
                Some(_) => {}
                None if count <= 1 || passes > 0 => break,
                None => {
                    passes += 1;
                    *cursor = self.cursor();
                }
            }
        }
        cursor.last
    }
}

/// Bytes of a table that is not read as a whole soon in any case.
const LARGE_TABLE: usize = 64 * 1024;

/// The copy of a block of elements between two layouts of the same sizes, from many places to many places.
struct Block {
    from: Layout,
    to: Layout,
    dtype: ScalarType,
    /// Bytes of a block that is contiguous on both sides.
    row: Option<usize>,
}

impl Block {
    fn new(from: Layout, to: Layout, dtype: ScalarType) -> Self {
        let contiguous = from.is_contiguous() && to.is_contiguous();
        let row = from.sizes.numel().and_then(|numel| numel.checked_mul(dtype.size())).filter(|_| contiguous);
        Self { from, to, dtype, row }
    }

    /// Copies the block that starts at element `from` to the one that starts at `to`.
    fn copy(&self, source: &[u8], from: usize, target: &mut [u8], to: usize) -> Result<(), Fault> {
        if let Some(row) = self.row {
            let (from, to) = (from * self.dtype.size(), to * self.dtype.size());
            if let (Some(source), Some(target)) = (source.get(from..from + row), target.get_mut(to..to + row)) {
                target.copy_from_slice(source);
            }
            return Ok(());
        }
        let view = View { dtype: self.dtype, layout: self.from.at(from), data: source };
        write(&Serial, &view, Target { dtype: self.dtype, layout: self.to.at(to), data: target })
    }
}

/// Copies what a selection picks from `x` to an output.
fn pick(call: &mut Call<'_>, x: Tensor<'_>, selection: &Selection<'_>, out: usize) -> Result<(), Fault> {
    let target = call.out(out, &selection.sizes()?)?;
    same_type(out, target.dtype, x.dtype)?;
    if target.data.is_empty() {
        return selection.check_empty();
    }
    if let Some(result) = pick_rows(call, &x, selection, &target.shape, &mut *target.data) {
        return result;
    }
    let (picked, rest) = selection.divide(&layout(&target.shape));
    let block = Block::new(selection.rest.at(0), rest, x.dtype);
    let mut targets = offsets(&picked);
    selection.places(|place| block.copy(x.data, place, target.data, targets.next().unwrap_or(0)))
}

/// Says that rows of a table are about to be read. Those of a table in a file that was never read come page by page otherwise,
/// each after a wait.
fn wish(call: &Call<'_>, table: &[u8], row: usize, positions: Positions<'_>) {
    let loader = call.program().loader();
    let positions = (0..positions.len()).map(|at| positions.get(at));
    each_run(positions, row, |rows| table.get(rows).into_iter().for_each(|rows| loader.will_read(rows)));
}

/// Calls `each` with the bytes of rows, neighbours in one.
fn each_run(positions: impl Iterator<Item = i64>, row: usize, mut each: impl FnMut(Range<usize>)) {
    let mut run = 0..0;
    for position in positions {
        let start = usize::try_from(position).unwrap_or(usize::MAX).saturating_mul(row);
        if start != run.end && !run.is_empty() {
            each(run.clone());
        }
        if start != run.end {
            run.start = start;
        }
        run.end = start.saturating_add(row);
    }
    if !run.is_empty() {
        each(run);
    }
}

/// The common case: one index, everything row-major.
fn pick_rows(
    call: &Call<'_>,
    x: &Tensor<'_>,
    selection: &Selection<'_>,
    shape: &Shape,
    target: &mut [u8],
) -> Option<Result<(), Fault>> {
    let [Some(Index::Positions { positions, layout, size, wrap, argument, .. }), None, ..] = selection.indices else {
        return None;
    };
    if !(layout.is_contiguous() && x.shape.is_contiguous() && shape.is_contiguous()) {
        return None;
    }
    // The output has elements, so all sizes but perhaps the table's are positive and the products are below its size.
    let outer: usize = x.sizes()[..selection.start].iter().product();
    let row = x.sizes()[selection.start + 1..].iter().product::<usize>() * x.dtype.size();
    let (parallel, tables) = (call.parallel(), (outer, size, row));
    if outer == 1 && x.data.len() >= LARGE_TABLE {
        wish(call, x.data, row, positions);
    }
    let result = match positions {
        Positions::Long(indices) => gather_rows(parallel, tables, wrap, x.data, indices, target),
        Positions::Int(indices) => gather_rows(parallel, tables, wrap, x.data, indices, target),
    };
    Some(result.map_err(|bad| out_of_range(argument, bad.index, signed(bad.rows))))
}

fn embedding(call: &mut Call<'_>) -> Result<(), Fault> {
    let (table, indices) = (call.tensor(0)?, call.tensor(1)?);
    if table.shape.rank() != 2 {
        return Err(Fault::argument(0, "the table must have two dimensions, not {}").with([table.shape.rank()]));
    }
    let selection = Selection::of_dim(1, &indices, &table.shape, 0)?;
    pick(call, table, &selection, 5)
}

fn index_select(call: &mut Call<'_>) -> Result<(), Fault> {
    let (mut x, dim, mut indices) = (call.tensor(0)?, call.int(1)?, call.tensor(2)?);
    let rank = x.shape.rank();
    let axis =
        normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank }).map_err(|error| shape_fault(error).at(1))?;
    if indices.shape.rank() > 1 {
        return Err(Fault::argument(2, "the indices must have one dimension, not {}").with([indices.shape.rank()]));
    }
    let one = |shape: &Shape| if shape.rank() == 0 { Shape::contiguous(&[1]).unwrap_or(*shape) } else { *shape };
    indices.shape = one(&indices.shape);
    if rank == 0 {
        // A single element is a table of one row; its result is one of the same, without dimensions.
        if indices.numel() != 1 {
            return Err(Fault::argument(2, "a tensor without dimensions has one element to select"));
        }
        Positions::new(2, &indices)?.check(2, 1)?;
        let target = call.out(3, &[])?;
        return assign(call, x, 3, target);
    }
    x.shape = one(&x.shape);
    let selection = Selection::of_dim(2, &indices, &x.shape, axis)?;
    pick(call, x, &selection, 3)
}

fn index(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let selection = Selection::from_list(call, 1, &x.shape)?;
    pick(call, x, &selection, 2)
}

fn index_put(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, values, accumulate) = (call.tensor(0)?, call.tensor(2)?, call.bool(3)?);
    // Indices are read before the output is written, which has the sizes of the input and perhaps another order.
    let order = call.tensor_type(4)?.1.resized(x.sizes());
    let order = order.ok_or(Fault::argument(4, "the output must have as many dimensions as the input"))?;
    let selection = Selection::from_list(call, 1, &order)?;
    let target = call.out(4, x.sizes())?;
    same_type(4, target.dtype, x.dtype)?;
    let whole = Target { dtype: target.dtype, layout: layout(&target.shape), data: &mut *target.data };
    write(call.parallel(), &View::from(x), whole)?;
    put(&selection, values, accumulate, target)
}

fn index_put_in_place(call: &mut Call<'_>) -> Result<(), Fault> {
    let ((_, shape), values, accumulate) = (call.tensor_type(0)?, call.tensor(2)?, call.bool(3)?);
    let selection = Selection::from_list(call, 1, &shape)?;
    let target = call.in_place(0)?;
    put(&selection, values, accumulate, target)
}

/// Replaces what a selection picks by values that broadcast to it, or adds them.
fn put(selection: &Selection<'_>, values: Tensor<'_>, accumulate: bool, target: TensorMut<'_>) -> Result<(), Fault> {
    same_type(2, values.dtype, target.dtype)?;
    let values = View::from(values).broadcast_to(&selection.sizes()?).map_err(|fault| fault.at(2))?;
    if values.layout.sizes.contains(&0) {
        return Ok(());
    }
    let counted = values.layout.sizes.numel();
    counted.ok_or(Fault::argument(1, "the indices broadcast to more elements than can be counted"))?;
    let (picked, rest) = selection.divide(&values.layout);
    let mut sources = offsets(&picked);
    if accumulate {
        return for_dtype!(numbers, target.dtype, 0, T => {
            let values = view::<T>(values.data).ok_or(misaligned(2))?;
            let target = view_mut::<T>(target.data).ok_or(misaligned(0))?;
            selection.places(|place| {
                add_block(values, &rest.at(sources.next().unwrap_or(0)), target, &selection.rest.at(place));
                Ok(())
            })
        });
    }
    let block = Block::new(rest, selection.rest.at(0), target.dtype);
    selection.places(|place| block.copy(values.data, sources.next().unwrap_or(0), target.data, place))
}

/// Adds elements of one layout to those of another of the same sizes.
fn add_block<T: Typed>(values: &[T], from: &Layout, target: &mut [T], to: &Layout) {
    for (from, to) in offsets(from).zip(offsets(to)) {
        if let (Some(value), Some(target)) = (values.get(from), target.get_mut(to)) {
            *target = target.plus(*value);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn rows_that_follow_each_other_are_one_run() {
        let runs = |positions: &[i64]| {
            let mut runs = Vec::new();
            each_run(positions.iter().copied(), 10, |run| runs.push(run));
            runs
        };
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[0, 1, 2, 9]), [0..30, 90..100]);
        assert_eq!(runs(&[3, 4, 7, 7, 8, 2, 0]), [30..50, 70..80, 70..90, 20..30, 0..10]);
        assert_eq!(runs(&[5, -1, i64::MAX, 6]), [50..60, 60..70]);
    }
}
