//! Tensors as a kernel or an application sees them: a type, a shape and bytes, borrowed for one call.
use crate::{ScalarType, Shape};

/// A tensor that is read.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Element type.
    pub dtype: ScalarType,
    /// Sizes and dimension order.
    pub shape: Shape,
    /// Exactly the elements, in memory order.
    pub data: &'a [u8],
}

/// A tensor that is written.
#[derive(Debug)]
pub struct TensorMut<'a> {
    /// Element type.
    pub dtype: ScalarType,
    /// Sizes and dimension order.
    pub shape: Shape,
    /// Exactly the elements, in memory order.
    pub data: &'a mut [u8],
}

impl<'a> Tensor<'a> {
    /// A tensor over `data`; `None` when the number of bytes does not fit.
    pub fn new(dtype: ScalarType, shape: Shape, data: &'a [u8]) -> Option<Self> {
        (byte_size(dtype, &shape)? == data.len()).then_some(Self { dtype, shape, data })
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        self.shape.sizes()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.data.len() / self.dtype.size()
    }
}

impl TensorMut<'_> {
    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        self.shape.sizes()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.data.len() / self.dtype.size()
    }
}

/// Bytes that a tensor of this type and shape takes, if they can be counted.
pub(crate) fn byte_size(dtype: ScalarType, shape: &Shape) -> Option<usize> {
    shape.numel()?.checked_mul(dtype.size()).filter(|&bytes| isize::try_from(bytes).is_ok())
}
