//! The Walsh-Hadamard transform along the last dimension, for lengths `2^n` (normalised) and `28 * 2^n`.
//!
//! For a multiple of 28 the row is a `28 x 2^n` matrix: each of its rows is transformed, then each column is multiplied
//! by a Hadamard matrix of order 28. That one is Williamson's, as weight rotations use it: sixteen circulant blocks of
//! order seven, each known by its first row.
use crate::dense::{buffer_bytes, converted, floats, reorder_scratch, row_major, store, wide_bytes};
use crate::ops;
use sconce_core::{Call, Fault, Op};
use sconce_kernels::{Isa, split};

/// The transform.
pub(crate) static OPS: &[Op] = ops! {
    "llama::fast_hadamard_transform.out" [3] writes [1] scratch |args| {
        let bytes = buffer_bytes(wide_bytes(args, 0)).saturating_mul(2);
        reorder_scratch(args, &[0]).saturating_add(bytes)
    }, => transform;
};

/// The first row of each block of the matrix of order 28, first column in the highest of 7 bits; a set bit is +1.
const BLOCKS: [[u8; 4]; 4] = [
    [0b1000000, 0b1100001, 0b1010010, 0b1001100],
    [0b0011110, 0b1000000, 0b0110011, 0b1010010],
    [0b0101101, 0b1001100, 0b1000000, 0b0011110],
    [0b0110011, 0b0101101, 0b1100001, 0b1000000],
];

/// An element of the matrix of order 28: each row of a block is the one above moved by one to the right.
fn sign(row: usize, column: usize) -> f32 {
    let moved = (column % 7 + 7 - row % 7) % 7;
    if BLOCKS[row / 7][column / 7] >> (6 - moved) & 1 == 1 { 1.0 } else { -1.0 }
}

fn transform(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let x = row_major(call, x)?;
    let n = x.sizes().last().copied().unwrap_or(1);
    let blocks = if n > 0 && n.is_multiple_of(28) { 28 } else { 1 };
    if n > 0 && !(n / blocks).is_power_of_two() {
        return Err(Fault::argument(0, "a power of two, or 28 times one, is needed as the last size, not {}").with([n]));
    }
    let from = converted::<f32>(call, 0, x)?;
    let out = call.out(1, x.sizes())?;
    if !out.shape.is_contiguous() {
        return Err(Fault::argument(1, "a row-major output is needed here"));
    }
    let results = floats(call, 1, from.len())?;
    results.copy_from_slice(from);
    let isa = Isa::detect();
    if n > 0 && x.shape.rank() > 0 {
        split::chunks(call.parallel(), results, n, |_, row| {
            isa.vectorize(
                #[inline(always)]
                || {
                    row.chunks_exact_mut(n / blocks).for_each(butterflies);
                    if blocks == 28 {
                        columns(row, n / blocks);
                    }
                },
            );
        });
    }
    store(call, 1, results, out)
}

/// The transform of a power of two, normalised.
#[inline(always)]
fn butterflies(row: &mut [f32]) {
    let n = row.len();
    let mut step = 1;
    while step < n {
        for pair in row.chunks_exact_mut(2 * step) {
            let (low, high) = pair.split_at_mut(step);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        step *= 2;
    }
    let scale = 1.0 / libm::sqrtf(n as f32);
    row.iter_mut().for_each(|x| *x *= scale);
}

/// Multiplies each column of a `28 x width` matrix by the matrix of order 28.
#[inline(always)]
fn columns(matrix: &mut [f32], width: usize) {
    for column in 0..width {
        let mut x = [0.0; 28];
        x.iter_mut().enumerate().for_each(|(i, x)| *x = matrix[i * width + column]);
        for row in 0..28 {
            matrix[row * width + column] = x.iter().enumerate().map(|(i, x)| sign(row, i) * x).sum();
        }
    }
}
