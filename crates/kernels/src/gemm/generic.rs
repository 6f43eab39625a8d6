//! The matrix product for every other kind of number: plain loops, one task per few rows.
//!
//! Floats add up in their compute type (`f32` for half and bfloat16), integers wrap in their own. A row of C is made by
//! adding scaled rows of B, in strips short enough to keep sums in registers or the cache.
use super::{Init, Matrix};
use crate::element::{Number, convert};
use crate::isa::Isa;
use crate::split::{self, Cut};
use half::{bf16, f16};
use sconce_parallel::{Parallel, Serial};

/// Columns of C made at a time.
const STRIP: usize = 64;

/// A kind of number and the kind in which its products add up.
pub trait Product: Number {
    /// `f32` for half and bfloat16, else the kind itself.
    type Acc: Number;
}

macro_rules! products {
    ($($t:ty => $acc:ty),*) => {$(impl Product for $t { type Acc = $acc; })*};
}
products!(u8 => u8, i8 => i8, i16 => i16, u16 => u16, i32 => i32, u32 => u32, i64 => i64, u64 => u64);
products!(f32 => f32, f64 => f64, f16 => f32, bf16 => f32, crate::Bool => crate::Bool);

/// `C[m x n] = A[m x k] * B[k x n] + init` for any kind of number; C is row-major with rows `ldc` apart.
pub fn gemm<T: Product>(
    isa: Isa,
    par: &dyn Parallel,
    (m, n, k): (usize, usize, usize),
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    init: Init<'_, T>,
    c: &mut [T],
    ldc: usize,
) {
    a.check(m, k, "A");
    b.check(k, n, "B");
    let par = if super::work(m, n, k) < 20_000 { &Serial } else { par };
    split::blocks(
        par,
        c,
        ldc,
        (m, n),
        (Cut { parts: 4 * par.width(), unit: 1 }, Cut { parts: par.width(), unit: STRIP }),
        |mut block| {
            for i in block.rows.clone() {
                let first = block.columns.start;
                for (strip, c) in block.row(i).chunks_mut(STRIP).enumerate() {
                    let at = (i, first + strip * STRIP);
                    isa.vectorize(
                        #[inline(always)]
                        || row_strip(at, k, &a, &b, init, c),
                    );
                }
            }
        },
    );
}

#[inline(always)]
fn row_strip<T: Product>(
    (i, j): (usize, usize),
    k: usize,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    init: Init<'_, T>,
    c: &mut [T],
) {
    let mut sums = [T::Acc::ZERO; STRIP];
    let sums = &mut sums[..c.len()];
    for p in 0..k {
        let left: T::Acc = convert(a.data[i * a.row_stride + p * a.col_stride]);
        let row = &b.data[p * b.row_stride + j * b.col_stride..];
        if b.col_stride == 1 {
            for (sum, b) in sums.iter_mut().zip(row) {
                *sum = sum.plus(left.times(convert(*b)));
            }
        } else {
            for (x, sum) in sums.iter_mut().enumerate() {
                *sum = sum.plus(left.times(convert(row[x * b.col_stride])));
            }
        }
    }
    for (x, (c, sum)) in c.iter_mut().zip(sums).enumerate() {
        let base: T::Acc = match init {
            Init::Zero => T::Acc::ZERO,
            Init::PerRow(bias) => convert(bias[i]),
            Init::PerColumn(bias) => convert(bias[j + x]),
            Init::Scaled(beta) => convert::<T, T::Acc>(beta).times(convert(*c)),
        };
        *c = convert(sum.plus(base));
    }
}
