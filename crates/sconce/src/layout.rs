//! Moving elements between dimension orders.
use sconce_core::Shape;

/// Copies elements of `size` bytes from one dimension order to another; sizes are equal.
pub(crate) fn reorder(size: usize, from: &Shape, source: &[u8], to: &Shape, target: &mut [u8]) {
    let (from_strides, to_strides) = (from.strides(), to.strides());
    let rank = from.rank();
    sconce_kernels::copy::strided(size, from.sizes(), source, &from_strides[..rank], target, &to_strides[..rank]);
}
