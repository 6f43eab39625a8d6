//! Moving elements between dimension orders.
use crate::instructions;
use sconce_core::Shape;
use sconce_kernels::Serial;

/// Copies elements of `size` bytes from one dimension order to another; sizes are equal, and both slices have room for all
/// elements.
pub fn reorder(size: usize, from: &Shape, source: &[u8], to: &Shape, target: &mut [u8]) {
    // What the operator asks for is then settled.
    instructions::current();
    sconce_ops::reorder(&Serial, size, (from, source), (to, target));
}
