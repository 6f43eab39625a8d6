//! Elements moved between layouts.
//!
//! A [`View`] is a tensor's bytes seen through a [`Layout`]; a [`Target`] is the same for an output or a part of one.
//! [`write()`] moves a view into a target of the same sizes: whole elements if the types are equal, whatever they are
//! (complex and quantised ones too), else converted as PyTorch's `.to()`. Layouts may come from a program, so their
//! reach is checked against the bytes before a kernel sees them.
use crate::elementwise::{CHUNK, Load, Store, compute, loader, storer};
use crate::operands::shape_fault;
use crate::typed::Typed;
use sconce_core::{Code, Fault, MAX_RANK, Parallel, ScalarType, Shape, Tensor, TensorMut};
use sconce_kernels::Isa;
use sconce_kernels::copy::{Copy, copy};
use sconce_kernels::map::Broadcast;
use sconce_schema::{Layout, Sizes};

/// A tensor that is read through a layout.
#[derive(Clone, Copy)]
pub(crate) struct View<'c> {
    pub(crate) dtype: ScalarType,
    pub(crate) layout: Layout,
    pub(crate) data: &'c [u8],
}

/// An output that is written through a layout.
pub(crate) struct Target<'t> {
    pub(crate) dtype: ScalarType,
    pub(crate) layout: Layout,
    pub(crate) data: &'t mut [u8],
}

/// The layout of a tensor's shape.
pub(crate) fn layout(shape: &Shape) -> Layout {
    // A shape has no more dimensions than a layout may have.
    Layout::new(shape.sizes(), &shape.strides()[..shape.rank()]).unwrap_or(Layout::contiguous(Sizes::SCALAR))
}

impl<'c> From<Tensor<'c>> for View<'c> {
    fn from(tensor: Tensor<'c>) -> Self {
        Self { dtype: tensor.dtype, layout: layout(&tensor.shape), data: tensor.data }
    }
}

impl<'t> From<TensorMut<'t>> for Target<'t> {
    fn from(tensor: TensorMut<'t>) -> Self {
        Self { dtype: tensor.dtype, layout: layout(&tensor.shape), data: tensor.data }
    }
}

impl<'c> View<'c> {
    /// The same elements through another layout.
    pub(crate) fn through(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The same elements, broadcast.
    pub(crate) fn broadcast_to(self, sizes: &[usize]) -> Result<Self, Fault> {
        Ok(self.through(self.layout.broadcast_to(sizes).map_err(shape_fault)?))
    }

    /// The bytes from the first element on, if they hold every element.
    fn bytes(&self) -> Result<&'c [u8], Fault> {
        let start = checked_start(&self.layout, self.dtype, self.data.len())?;
        self.data.get(start..).ok_or(outside())
    }
}

impl Target<'_> {
    /// A part of the output.
    pub(crate) fn part(&mut self, layout: Layout) -> Target<'_> {
        Target { dtype: self.dtype, layout, data: &mut *self.data }
    }

    fn bytes(&mut self) -> Result<&mut [u8], Fault> {
        let start = checked_start(&self.layout, self.dtype, self.data.len())?;
        self.data.get_mut(start..).ok_or(outside())
    }
}

/// Where the first element starts, if all elements of the layout are inside `len` bytes.
fn checked_start(layout: &Layout, dtype: ScalarType, len: usize) -> Result<usize, Fault> {
    let end = layout.reach().and_then(|reach| reach.checked_mul(dtype.size()));
    end.filter(|&end| end <= len).ok_or(outside())?;
    Ok(if layout.sizes.contains(&0) { 0 } else { layout.offset * dtype.size() })
}

fn outside() -> Fault {
    Fault::new(Code::InvalidArgument, "the sizes, strides and offset reach outside of the tensor")
}

/// Moves a view into a target of the same sizes.
pub(crate) fn write(parallel: &dyn Parallel, from: &View<'_>, mut to: Target<'_>) -> Result<(), Fault> {
    if from.layout.sizes != to.layout.sizes {
        return Err(Fault::new(Code::Internal, "a copy between different sizes"));
    }
    let (source, size, layout, dtype) = (from.bytes()?, from.dtype.size(), to.layout, to.dtype);
    let target = to.bytes()?;
    if from.layout.sizes.contains(&0) {
        return Ok(());
    }
    if from.dtype != dtype {
        let walk = Broadcast::new(&layout.sizes, [from.layout.strides(), layout.strides()]);
        return compute!(from.dtype, 0, C => {
            let (load, store) = (loader::<C>(0, from.dtype, source)?, storer::<C>(0, dtype, target)?);
            convert(&walk, (load, source), (store, target, dtype.size()));
            Ok(())
        });
    }
    let plan = Copy { shape: &layout.sizes, from_strides: from.layout.strides(), to_strides: layout.strides() };
    copy(Isa::detect(), parallel, size, &plan, source, target);
    Ok(())
}

/// Converts row by row; both sides start at their first element and hold all of the walk.
fn convert<C: Typed>(
    walk: &Broadcast<2>,
    (load, source): (Load<C>, &[u8]),
    (store, target, size): (Store<C>, &mut [u8], usize),
) {
    let isa = Isa::detect();
    let mut buffer = [C::ZERO; CHUNK];
    walk.rows(0..walk.len(), |_, len, [from, to], [from_step, to_step]| {
        for at in (0..len).step_by(CHUNK) {
            let chunk = &mut buffer[..(len - at).min(CHUNK)];
            load(isa, source, from + at * from_step, from_step, chunk);
            let first = (to + at * to_step) * size;
            if to_step == 1 {
                store(isa, chunk, &mut target[first..first + chunk.len() * size]);
            } else {
                for (i, value) in chunk.iter().enumerate() {
                    let place = first + i * to_step * size;
                    store(isa, core::slice::from_ref(value), &mut target[place..place + size]);
                }
            }
        }
    });
}

/// Moves a view into a target of other sizes with as many elements, in row-major order of both.
pub(crate) fn reshape(parallel: &dyn Parallel, from: &View<'_>, mut to: Target<'_>) -> Result<(), Fault> {
    if from.layout.is_contiguous() {
        let layout = Layout::contiguous(to.layout.sizes).at(from.layout.offset);
        return write(parallel, &from.through(layout), to);
    }
    if to.layout.is_contiguous() {
        let layout = Layout::contiguous(from.layout.sizes).at(to.layout.offset);
        return write(parallel, from, to.part(layout));
    }
    if from.dtype != to.dtype {
        return Err(Fault::new(Code::NotSupported, "a reshape between two layouts cannot convert elements too"));
    }
    let size = from.dtype.size();
    for (from_at, to_at) in offsets(&from.layout).zip(offsets(&to.layout)) {
        copy_element(size, from.data, from_at, to.data, to_at);
    }
    Ok(())
}

/// Copies one element of `size` bytes; places count elements.
#[inline]
pub(crate) fn copy_element(size: usize, source: &[u8], from: usize, target: &mut [u8], to: usize) {
    let (from, to) = (from * size, to * size);
    if let (Some(source), Some(target)) = (source.get(from..from + size), target.get_mut(to..to + size)) {
        target.copy_from_slice(source);
    }
}

/// The places of all elements, in row-major order. The layout's reach must have been counted.
pub(crate) fn offsets(layout: &Layout) -> Offsets {
    let left = layout.sizes.numel().unwrap_or(0);
    Offsets { layout: *layout, index: [0; MAX_RANK], at: layout.offset, left }
}

/// See [`offsets`].
#[derive(Clone)]
pub(crate) struct Offsets {
    layout: Layout,
    index: [usize; MAX_RANK],
    at: usize,
    left: usize,
}

impl Iterator for Offsets {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let here = self.at;
        let dims = self.layout.sizes.iter().zip(self.layout.strides()).zip(&mut self.index[..self.layout.rank()]);
        for ((&size, &stride), index) in dims.rev() {
            *index += 1;
            self.at = self.at.wrapping_add(stride);
            if *index < size {
                break;
            }
            self.at = self.at.wrapping_sub(size.wrapping_mul(stride));
            *index = 0;
        }
        Some(here)
    }
}
