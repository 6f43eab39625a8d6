//! Softmax and its logarithm along any axis.
//!
//! Both subtract the largest element first, so nothing overflows; NaN need not be looked for, since it comes back by way of
//! the sum. Exponentials are computed, then added in lanes of the
//! compute type, which at regular intervals are added up in `f64`: as fast as the one and as exact as the other. Where
//! elements are as wide as the compute type the exponentials wait in the output for the division; narrower elements
//! would lose bits there, so theirs are computed again. Rows are contiguous or, for an axis with elements after it,
//! taken in strips of columns. Rows that fit a few registers stay there.
use crate::element::{Float, Number};
use crate::isa::Isa;
use crate::map::worth;
use crate::math::Math;
use crate::reduce::{Axis, Largest, Reducer, row, rows_per_task, sum_of};
use crate::split;
use sconce_parallel::Parallel;

/// Columns of a strip: many, because rows a power of two apart share a place in the cache.
const STRIP: usize = 512;
/// Elements whose exponentials are computed, then added.
const BLOCK: usize = 1024;
/// Elements that are taken together: a few vectors.
const LANES: usize = 64;

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
                        1 => match axis.n {
                            0..=16 => short_row::<T, LOG, 16>(x, out),
                            17..=32 => short_row::<T, LOG, 32>(x, out),
                            33..=64 => short_row::<T, LOG, 64>(x, out),
                            _ => one_row::<T, LOG>(x, out),
                        },
                        inner => columns::<T, LOG>(inner, x, out),
                    }
                }
            },
        );
    });
}

/// A row of at most `N` elements, which is a power of two.
#[inline(always)]
fn short_row<T: Float, const LOG: bool, const N: usize>(x: &[T], out: &mut [T]) {
    let mut all = [T::LOWEST; N];
    match x.as_chunks::<N>().0 {
        [whole] => all = *whole,
        _ => all[..x.len()].copy_from_slice(x),
    }
    let max = folded(all, Largest::step).widen();
    let mut e = [T::Compute::ZERO; N];
    for i in 0..N {
        e[i] = (all[i].widen() - max).decay();
    }
    e[x.len()..].fill(T::Compute::ZERO);
    let sum = folded(e.map(Number::to_f64), |a, b| a + b);
    let last = T::Compute::from_f64(if LOG { libm::log(sum) } else { 1.0 / sum });
    for i in 0..N {
        all[i] = T::narrow(if LOG { all[i].widen() - max - last } else { e[i] * last });
    }
    match out.as_chunks_mut::<N>().0 {
        [whole] => *whole = all,
        _ => out.copy_from_slice(&all[..x.len()]),
    }
}

/// All elements joined: those of one half with those of the other, until there is one.
#[inline(always)]
pub(crate) fn folded<T: Copy, const N: usize>(mut all: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            all[i] = join(all[i], all[i + half]);
        }
        half /= 2;
    }
    all[0]
}

/// Whether an exponential can wait in the output.
const fn waits<T: Float>() -> bool {
    size_of::<T>() == size_of::<T::Compute>()
}

#[inline(always)]
fn one_row<T: Float, const LOG: bool>(x: &[T], out: &mut [T]) {
    let max = row::<Largest<T>>(x).widen();
    let mut sum = 0.0;
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        if waits::<T>() {
            sum += exponentials(x, max, out);
        } else {
            let mut block = [T::Compute::ZERO; BLOCK];
            for (e, x) in block.iter_mut().zip(x) {
                *e = (x.widen() - max).decay();
            }
            sum += total(&block[..x.len()]);
        }
    }
    let last = T::Compute::from_f64(if LOG { libm::log(sum) } else { 1.0 / sum });
    for (x, out) in x.iter().zip(out) {
        *out = T::narrow(match (LOG, waits::<T>()) {
            (true, _) => x.widen() - max - last,
            (false, true) => out.widen() * last,
            (false, false) => (x.widen() - max).decay() * last,
        });
    }
}

/// `out = e^(x - max)`, and their sum.
#[inline(always)]
fn exponentials<T: Float>(x: &[T], max: T::Compute, out: &mut [T]) -> f64 {
    let ((x, x_rest), (out, out_rest)) = (x.as_chunks::<LANES>(), out.as_chunks_mut::<LANES>());
    let mut lanes = [T::Compute::ZERO; LANES];
    for (x, out) in x.iter().zip(out) {
        for i in 0..LANES {
            let e = (x[i].widen() - max).decay();
            lanes[i] += e;
            out[i] = T::narrow(e);
        }
    }
    for (x, out) in x_rest.iter().zip(&mut *out_rest) {
        *out = T::narrow((x.widen() - max).decay());
    }
    total(&lanes) + total(out_rest)
}

#[inline(always)]
fn total<T: Float>(x: &[T]) -> f64 {
    sum_of(
        x,
        #[inline(always)]
        |x| x,
    )
}

/// `n` rows of `inner` columns, each column on its own.
#[inline(always)]
fn columns<T: Float, const LOG: bool>(inner: usize, x: &[T], out: &mut [T]) {
    for first in (0..inner).step_by(STRIP) {
        let strip = first..inner.min(first + STRIP);
        let (mut max, mut sum) = ([T::LOWEST; STRIP], [0.0f64; STRIP]);
        for x in x.chunks_exact(inner) {
            for (max, x) in max.iter_mut().zip(&x[strip.clone()]) {
                *max = Largest::step(*max, *x);
            }
        }
        for (x, out) in x.chunks_exact(inner).zip(out.chunks_exact_mut(inner)) {
            let pairs = x[strip.clone()].iter().zip(&mut out[strip.clone()]);
            for ((sum, max), (x, out)) in sum.iter_mut().zip(&max).zip(pairs) {
                let e = (x.widen() - max.widen()).decay();
                *sum += e.to_f64();
                *out = T::narrow(e);
            }
        }
        let mut last = [T::Compute::ZERO; STRIP];
        for (last, sum) in last.iter_mut().zip(sum).take(strip.len()) {
            *last = T::Compute::from_f64(if LOG { libm::log(sum) } else { 1.0 / sum });
        }
        for (x, out) in x.chunks_exact(inner).zip(out.chunks_exact_mut(inner)) {
            let pairs = x[strip.clone()].iter().zip(&mut out[strip.clone()]);
            for ((last, max), (x, out)) in last.iter().zip(&max).zip(pairs) {
                *out = T::narrow(match (LOG, waits::<T>()) {
                    (true, _) => x.widen() - max.widen() - *last,
                    (false, true) => out.widen() * *last,
                    (false, false) => (x.widen() - max.widen()).decay() * *last,
                });
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
        for (outer, n, inner) in [
            (1, 1, 1),
            (3, 10, 1),
            (4, 16, 1),
            (5, 33, 1),
            (3, 64, 1),
            (3, 65, 1),
            (2, 5, 31),
            (2, 4, 70),
            (300, 200, 1),
            (0, 3, 1),
        ] {
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

    #[test]
    fn one_element_that_is_not_a_number_is_enough() {
        for (n, inner) in [(40, 1), (40, 3), (16, 1), (100, 1)] {
            let mut x = vec![1.0f32; n * inner];
            x[7 * inner] = f32::NAN;
            let mut out = vec![0.0; x.len()];
            let axis = Axis { outer: 1, n, inner };
            softmax::<f32, false>(Isa::detect(), &crate::Serial, axis, &x, &mut out);
            assert!(out.iter().enumerate().all(|(i, x)| x.is_nan() == (i % inner == 0)));
            softmax::<f32, true>(Isa::detect(), &crate::Serial, axis, &x, &mut out);
            assert!(out.iter().enumerate().all(|(i, x)| x.is_nan() == (i % inner == 0)));
        }
    }
}
