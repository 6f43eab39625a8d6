//! Moving elements between dimension orders.
use crate::instructions;
use sconce_core::Shape;
use sconce_kernels::Serial;
use sconce_kernels::copy::{self, Copy};

/// Copies elements of `size` bytes from one dimension order to another; sizes are equal, and both slices have room for all
/// elements.
pub fn reorder(size: usize, from: &Shape, source: &[u8], to: &Shape, target: &mut [u8]) {
    let (from_strides, to_strides, rank) = (from.strides(), to.strides(), from.rank());
    let copy = Copy { shape: from.sizes(), from_strides: &from_strides[..rank], to_strides: &to_strides[..rank] };
    copy::copy(instructions::current(), &Serial, size, &copy, source, target);
}
