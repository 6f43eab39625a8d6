//! Softmax and its logarithm along any axis.
//!
//! Both subtract the largest element first, so nothing overflows. Exponentials are added in lanes of the compute type,
//! which every `BLOCK` elements are added up in `f64`: as fast as the one and as exact as the other. Where
//! elements are as wide as the compute type the exponentials wait in the output for the division; narrower elements
//! would lose bits there, so theirs are computed again. Rows are contiguous or, for an axis with elements after it,
//! taken in strips of columns.
use crate::element::{Float, Number};
use crate::isa::Isa;
use crate::map::worth;
use crate::math::Math;
use crate::reduce::{Axis, Max, row, rows_per_task};
use crate::split;
use sconce_parallel::Parallel;

/// Columns of a strip, and lanes of a row.
const STRIP: usize = 32;
/// Elements whose exponentials are added in the compute type.
const BLOCK: usize = 32 * STRIP;

/// `out = e^x / sum(e^x)` along `axis.n`, or its logarithm.
pub fn softmax<T: Float, const LOG: bool>(isa: Isa, par: &dyn Parallel, axis: Axis, x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), axis.len(), "elements of {axis:?}");
    assert_eq!(out.len(), axis.len(), "results of {axis:?}");
    if out.is_empty() {
        return;
    }
    let slab = axis.n * axis.inner;
    let together = rows_per_task(slab);
    split::chunks(worth(par, x.len()), out, slab * together, |task, out| {
        let x = &x[task * together * slab..][..out.len()];
        isa.vectorize(
            #[inline(always)]
            || {
                for (x, out) in x.chunks_exact(slab).zip(out.chunks_exact_mut(slab)) {
                    match axis.inner {
                        1 => one_row::<T, LOG>(x, out),
                        inner => columns::<T, LOG>(inner, x, out),
                    }
                }
            },
        );
    });
}

/// Whether an exponential can wait in the output.
const fn waits<T: Float>() -> bool {
    size_of::<T>() == size_of::<T::Compute>()
}

/// Adds exponentials to lanes and leaves them in the output where they can wait there.
#[inline(always)]
fn exponentials<T: Float, const LOG: bool>(max: T::Compute, x: &[T], out: &mut [T], lanes: &mut [T::Compute; STRIP]) {
    for ((lane, x), out) in lanes.iter_mut().zip(x).zip(out) {
        let e = (x.widen() - max).exp();
        *lane += e;
        if !LOG && waits::<T>() {
            *out = T::narrow(e);
        }
    }
}

#[inline(always)]
fn one_row<T: Float, const LOG: bool>(x: &[T], out: &mut [T]) {
    let max = row::<Max<T>>(x).widen();
    let mut sum = 0.0;
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let mut lanes = [T::Compute::ZERO; STRIP];
        let ((strips, rest), (out_strips, out_rest)) = (x.as_chunks::<STRIP>(), out.as_chunks_mut::<STRIP>());
        for (x, out) in strips.iter().zip(out_strips) {
            exponentials::<T, LOG>(max, x, out, &mut lanes);
        }
        exponentials::<T, LOG>(max, rest, out_rest, &mut lanes);
        sum += lanes.iter().map(|lane| lane.to_f64()).sum::<f64>();
    }
    let (scale, log) = (T::Compute::from_f64(1.0 / sum), T::Compute::from_f64(libm::log(sum)));
    for (x, out) in x.iter().zip(out) {
        *out = T::narrow(match (LOG, waits::<T>()) {
            (true, _) => x.widen() - max - log,
            (false, true) => out.widen() * scale,
            (false, false) => (x.widen() - max).exp() * scale,
        });
    }
}

/// `n` rows of `inner` columns, each column on its own.
#[inline(always)]
fn columns<T: Float, const LOG: bool>(inner: usize, x: &[T], out: &mut [T]) {
    for first in (0..inner).step_by(STRIP) {
        let width = STRIP.min(inner - first);
        let rows = || x.chunks_exact(inner).map(|x| &x[first..first + width]);
        let (mut max, mut sum) = ([T::LOWEST; STRIP], [0.0f64; STRIP]);
        for x in rows() {
            for (max, x) in max.iter_mut().zip(x) {
                *max = if *x > *max || x.is_nan() { *x } else { *max };
            }
        }
        for x in rows() {
            for ((sum, max), x) in sum.iter_mut().zip(&max).zip(x) {
                *sum += (x.widen() - max.widen()).exp().to_f64();
            }
        }
        let last = sum.map(|sum| T::Compute::from_f64(if LOG { libm::log(sum) } else { 1.0 / sum }));
        for (x, out) in rows().zip(out.chunks_exact_mut(inner)) {
            for (i, (x, out)) in x.iter().zip(&mut out[first..first + width]).enumerate() {
                let shifted = x.widen() - max[i].widen();
                *out = T::narrow(if LOG { shifted - last[i] } else { shifted.exp() * last[i] });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close, pool};
    use half::f16;

    fn naive(axis: Axis, x: &[f32], log: bool) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        for at in 0..axis.outer * axis.inner {
            let index = |i: usize| (at / axis.inner * axis.n + i) * axis.inner + at % axis.inner;
            let max = (0..axis.n).map(|i| x[index(i)]).fold(f32::MIN, f32::max);
            let e = |i: usize| f64::from(x[index(i)] - max);
            let sum: f64 = (0..axis.n).map(|i| e(i).exp()).sum();
            (0..axis.n).for_each(|i| out[index(i)] = (if log { e(i) - sum.ln() } else { e(i).exp() / sum }) as f32);
        }
        out
    }

    #[test]
    fn along_any_axis() {
        let (mut random, pool) = (Random::new(8), pool());
        for (outer, n, inner) in [(1, 1, 1), (3, 10, 1), (5, 33, 1), (2, 5, 31), (2, 4, 70), (300, 200, 1), (0, 3, 1)] {
            let axis = Axis { outer, n, inner };
            let x: Vec<f32> = random.floats(axis.len()).iter().map(|x| x * 30.0).collect();
            for isa in Isa::available() {
                let mut out = vec![0.0; x.len()];
                softmax::<f32, false>(isa, &pool, axis, &x, &mut out);
                assert_close(&out, &naive(axis, &x, false), 1e-6, &axis);
                softmax::<f32, true>(isa, &pool, axis, &x, &mut out);
                assert_close(&out, &naive(axis, &x, true), 1e-6, &axis);
            }
            let half: Vec<f16> = x.iter().map(|x| f16::from_f32(*x)).collect();
            let rounded: Vec<f32> = half.iter().map(|x| x.to_f32()).collect();
            let mut out = vec![f16::ZERO; x.len()];
            softmax::<f16, false>(Isa::detect(), &pool, axis, &half, &mut out);
            let out: Vec<f32> = out.iter().map(|x| x.to_f32()).collect();
            assert_close(&out, &naive(axis, &rounded, false), 1e-3, &axis);
        }
    }

    #[test]
    fn infinities() {
        let mut out = [0.0; 3];
        let x = [f32::NEG_INFINITY, 0.0, 0.0];
        softmax::<f32, false>(Isa::detect(), &crate::Serial, Axis::rows(1, 3), &x, &mut out);
        assert_eq!(out, [0.0, 0.5, 0.5]);
        let x = [f32::NEG_INFINITY; 3];
        softmax::<f32, false>(Isa::detect(), &crate::Serial, Axis::rows(1, 3), &x, &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
    }
}
