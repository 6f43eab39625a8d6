//! Gathering and scattering along one dimension: an index tensor gives the position in that dimension, and its own place
//! gives the positions in all others.
use super::Positions;
use crate::copies::assign;
use crate::elementwise::GRAIN;
use crate::fill::element_bytes;
use crate::operands::{misaligned, same_type, shape_fault};
use crate::ops;
use crate::strided::{View, copy_element, layout};
use crate::typed::{Typed, for_dtype};
use sconce_core::{Call, Code, Fault, MAX_RANK, Op, Serial, Shape, Tensor, TensorMut};
use sconce_kernels::map::Broadcast;
use sconce_kernels::view::{view, view_mut};
use sconce_kernels::{Parallel, split};
use sconce_schema::{Layout, ShapeError, normalize_dim};

/// Gathering and scattering.
pub(crate) static OPS: &[Op] = ops! {
    "aten::gather.out" [6] writes [4] => gather;
    "aten::scatter.src_out" [6] writes [4] => scatter_tensor;
    "aten::scatter.value_out" [6] writes [4] => scatter_value;
    "aten::scatter_add.out" [6] writes [4] => scatter_add;
};

/// An index tensor (argument 2) into a dimension (argument 1) of a tensor (argument 0).
pub(super) struct Along<'c> {
    pub(super) positions: Positions<'c>,
    /// The index tensor's layout.
    pub(super) index: Layout,
    pub(super) axis: usize,
}

/// The layout, with one dimension if it has none.
pub(super) fn one_dim(layout: Layout) -> Layout {
    if layout.rank() == 0 { layout.unsqueeze(0).unwrap_or(layout) } else { layout }
}

impl<'c> Along<'c> {
    /// Reads and checks the index tensor of a call.
    pub(super) fn new(call: &Call<'c>, x: &Shape) -> Result<Self, Fault> {
        let (x, index) = (one_dim(layout(x)), call.tensor(2)?);
        let (dim, rank) = (call.int(1)?, x.rank());
        let axis = normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank });
        let axis = axis.map_err(|error| shape_fault(error).at(1))?;
        let along = Self { positions: Positions::new(2, &index)?, index: one_dim(layout(&index.shape)), axis };
        if !index.data.is_empty() {
            fits(&along.index, &x, Some(axis)).map_err(|fault| fault.at(2))?;
            along.positions.check(2, x.sizes[axis])?;
        }
        Ok(along)
    }

    /// The steps of a tensor over the index tensor's sizes, apart from the dimension that is indexed.
    fn steps(&self, x: &Layout) -> [usize; MAX_RANK] {
        let mut steps = [0; MAX_RANK];
        steps.iter_mut().zip(x.strides()).for_each(|(step, &stride)| *step = stride);
        steps[self.axis] = 0;
        steps
    }
}

/// A fault unless `inner` is as large as `outer` or smaller in every dimension but `except`.
fn fits(inner: &Layout, outer: &Layout, except: Option<usize>) -> Result<(), Fault> {
    if inner.rank() != outer.rank() {
        return Err(shape_fault(ShapeError::Rank(inner.rank())));
    }
    for (dim, (&have, &room)) in inner.sizes.iter().zip(outer.sizes.iter()).enumerate() {
        if have > room && Some(dim) != except {
            let text = "dimension {} has size {}, more than the {} of the tensor it belongs to";
            return Err(Fault::new(Code::InvalidArgument, text).with([dim, have, room]));
        }
    }
    Ok(())
}

fn gather(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = Along::new(call, &x.shape)?;
    let (_, index) = call.tensor_type(2)?;
    let out = call.out(4, index.sizes())?;
    same_type(4, out.dtype, x.dtype)?;
    if out.data.is_empty() {
        return Ok(());
    }
    // Dimensions in the output's memory order, so that the output is written from front to back.
    let source = one_dim(layout(&x.shape));
    let from_steps = along.steps(&source);
    let (mut sizes, mut index_steps, mut steps) = ([1; MAX_RANK], [0; MAX_RANK], [0; MAX_RANK]);
    for (i, dim) in out.shape.order().iter().map(|&dim| usize::from(dim)).enumerate() {
        (sizes[i], index_steps[i], steps[i]) = (out.sizes()[dim], along.index.strides()[dim], from_steps[dim]);
    }
    let rank = out.shape.rank();
    let walk = Broadcast::new(&sizes[..rank], [&index_steps[..rank], &steps[..rank]]);
    let parallel = if out.numel() > 2 * GRAIN { call.parallel() } else { &Serial };
    let stride = source.strides()[along.axis];
    let pick = Pick { walk, positions: along.positions, stride };
    match x.dtype.size() {
        1 => pick.run::<1>(parallel, x.data, out.data),
        2 => pick.run::<2>(parallel, x.data, out.data),
        4 => pick.run::<4>(parallel, x.data, out.data),
        8 => pick.run::<8>(parallel, x.data, out.data),
        _ => pick.run::<16>(parallel, x.data, out.data),
    }
    Ok(())
}

/// A gather whose positions have been checked.
struct Pick<'c> {
    /// Index tensor and source, over the output in memory order.
    walk: Broadcast<2>,
    positions: Positions<'c>,
    stride: usize,
}

impl Pick<'_> {
    fn run<const N: usize>(&self, parallel: &dyn Parallel, from: &[u8], to: &mut [u8]) {
        let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        match self.positions {
            Positions::Long(positions) => self.pick(parallel, positions, from, to),
            Positions::Int(positions) => self.pick(parallel, positions, from, to),
        }
    }

    fn pick<P: Copy + Into<i64> + Sync, T: Copy + Send + Sync>(
        &self,
        parallel: &dyn Parallel,
        positions: &[P],
        from: &[T],
        to: &mut [T],
    ) {
        split::chunks(parallel, to, GRAIN, |task, to| {
            let start = task * GRAIN;
            self.walk.rows(start..start + to.len(), |at, len, [index, source], [index_step, step]| {
                let to = to[at..at + len].iter_mut().enumerate();
                let element = |i: usize, position: P| from[source + i * step + position.into() as usize * self.stride];
                if index_step == 1 {
                    to.zip(&positions[index..]).for_each(|((i, to), &position)| *to = element(i, position));
                } else {
                    to.for_each(|(i, to)| *to = element(i, positions[index + i * index_step]));
                }
            });
        });
    }
}

/// What is scattered: a tensor's elements, or one element everywhere.
#[derive(Clone, Copy)]
pub(super) struct Scattered<'c> {
    pub(super) data: &'c [u8],
    pub(super) steps: [usize; MAX_RANK],
}

impl<'c> Scattered<'c> {
    pub(super) fn tensor(call: &Call<'c>, along: &Along<'_>, x: &Tensor<'_>) -> Result<Self, Fault> {
        let source = call.tensor(3)?;
        same_type(3, source.dtype, x.dtype)?;
        let view = one_dim(View::from(source).layout);
        if along.positions.len() > 0 {
            fits(&along.index, &view, None).map_err(|fault| fault.at(2))?;
        }
        let mut steps = [0; MAX_RANK];
        steps.iter_mut().zip(view.strides()).for_each(|(step, &stride)| *step = stride);
        Ok(Self { data: source.data, steps })
    }
}

/// Calls `each(place in the source, place in the target)` for every element that is scattered.
pub(super) fn scatter(along: &Along<'_>, source: &Scattered<'_>, target: &Shape, mut each: impl FnMut(usize, usize)) {
    if along.positions.len() == 0 {
        return;
    }
    let (target, rank) = (one_dim(layout(target)), along.index.rank());
    let (steps, stride) = (along.steps(&target), target.strides()[along.axis]);
    let walk = Broadcast::new(&along.index.sizes, [along.index.strides(), &source.steps[..rank], &steps[..rank]]);
    walk.rows(0..walk.len(), |_, len, [index, from, to], steps| {
        for i in 0..len {
            let position = along.positions.get(index + i * steps[0]) as usize;
            each(from + i * steps[1], to + i * steps[2] + position * stride);
        }
    });
}

/// A copy of argument 0, into which will be scattered.
pub(super) fn copied<'c>(call: &mut Call<'c>, x: Tensor<'_>, out: usize) -> Result<TensorMut<'c>, Fault> {
    let target = call.out(out, x.sizes())?;
    same_type(out, target.dtype, x.dtype)?;
    assign(call, x, out, TensorMut { dtype: target.dtype, shape: target.shape, data: &mut *target.data })?;
    Ok(target)
}

/// Replaces elements of a copy of argument 0, whose positions have been checked.
pub(super) fn replace(
    call: &mut Call<'_>,
    x: Tensor<'_>,
    along: &Along<'_>,
    source: Scattered<'_>,
    out: usize,
) -> Result<(), Fault> {
    let (out, size) = (copied(call, x, out)?, x.dtype.size());
    scatter(along, &source, &out.shape, |from, to| {
        copy_element(size, source.data, from, out.data, to);
    });
    Ok(())
}

fn scatter_tensor(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = Along::new(call, &x.shape)?;
    let source = Scattered::tensor(call, &along, &x)?;
    replace(call, x, &along, source, 4)
}

fn scatter_value(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = Along::new(call, &x.shape)?;
    let value = element_bytes(0, x.dtype, call.scalar(3)?)?;
    replace(call, x, &along, Scattered { data: &value, steps: [0; MAX_RANK] }, 4)
}

fn scatter_add(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = Along::new(call, &x.shape)?;
    let source = Scattered::tensor(call, &along, &x)?;
    let out = copied(call, x, 4)?;
    for_dtype!(numbers, x.dtype, 0, T => {
        let values = view::<T>(source.data).ok_or(misaligned(3))?;
        add(&along, &source, &out.shape, values, view_mut::<T>(out.data).ok_or(misaligned(4))?);
        Ok(())
    })
}

fn add<T: Typed>(along: &Along<'_>, source: &Scattered<'_>, shape: &Shape, values: &[T], target: &mut [T]) {
    scatter(along, source, shape, |from, to| {
        if let (Some(value), Some(target)) = (values.get(from), target.get_mut(to)) {
            *target = target.plus(*value);
        }
    });
}
