//! Running results: each element joined with all before it along an axis.
//!
//! A line, the elements along the axis, is a chain: no element can be joined before the one in front of it. What is
//! independent are the lines. Where elements come after the axis, neighbouring lines are contiguous and a strip of them is
//! one vector; else several rows are taken in step, which hides the time one joining takes. Partial results are kept in
//! [`Number::Sum`].
use crate::element::{Number, convert};
use crate::isa::Isa;
use crate::map::worth;
use crate::reduce::{Axis, rows_per_task};
use crate::split;
use sconce_parallel::Parallel;

/// Rows taken in step, and elements of each that are converted at a time.
const ROWS: usize = 8;
const WIDTH: usize = 64;
/// Columns of a strip: many, because rows a power of two apart share a place in the cache.
const STRIP: usize = 512;

/// `out[i] = join(out[i - 1], x[i])` along `axis.n`, starting with `x[0]`.
pub fn scan<T: Number>(
    isa: Isa,
    par: &dyn Parallel,
    axis: Axis,
    x: &[T],
    out: &mut [T],
    join: impl Fn(T::Sum, T::Sum) -> T::Sum + Sync,
) {
    assert_eq!(x.len(), axis.len(), "elements of {axis:?}");
    assert_eq!(out.len(), axis.len(), "results of {axis:?}");
    if out.is_empty() {
        return;
    }
    let slab = axis.n * axis.inner;
    let together = rows_per_task(slab).next_multiple_of(ROWS);
    split::chunks(worth(par, x.len()), out, slab * together, |task, out| {
        let x = &x[task * together * slab..][..out.len()];
        isa.vectorize(
            #[inline(always)]
            || match axis.inner {
                1 => rows(axis.n, x, out, &join),
                inner => {
                    for (x, out) in x.chunks_exact(slab).zip(out.chunks_exact_mut(slab)) {
                        columns(inner, x, out, &join);
                    }
                }
            },
        );
    });
}

/// Rows of `n`, [`ROWS`] at a time.
#[inline(always)]
fn rows<T: Number>(n: usize, x: &[T], out: &mut [T], join: &impl Fn(T::Sum, T::Sum) -> T::Sum) {
    for (x, out) in x.chunks(ROWS * n).zip(out.chunks_mut(ROWS * n)) {
        if x.len() == ROWS * n {
            in_step::<T, ROWS>(n, x, out, join);
        } else {
            for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
                in_step::<T, 1>(n, x, out, join);
            }
        }
    }
}

#[inline(always)]
fn in_step<T: Number, const COUNT: usize>(n: usize, x: &[T], out: &mut [T], join: &impl Fn(T::Sum, T::Sum) -> T::Sum) {
    let mut last = [T::Sum::ZERO; COUNT];
    let mut tile = [[T::Sum::ZERO; WIDTH]; COUNT];
    for start in (0..n).step_by(WIDTH) {
        let width = WIDTH.min(n - start);
        for (row, tile) in tile.iter_mut().enumerate() {
            let x = &x[row * n + start..][..width];
            tile.iter_mut().zip(x).for_each(|(to, x)| *to = convert(*x));
            // The first of all has nothing before it.
            last[row] = if start == 0 { tile[0] } else { last[row] };
        }
        for i in usize::from(start == 0)..width {
            for (tile, last) in tile.iter_mut().zip(&mut last) {
                *last = join(*last, tile[i]);
                tile[i] = *last;
            }
        }
        for (row, tile) in tile.iter().enumerate() {
            let out = &mut out[row * n + start..][..width];
            out.iter_mut().zip(tile).for_each(|(out, from)| *out = convert(*from));
        }
    }
}

/// Rows of `inner` columns, each column a line.
#[inline(always)]
fn columns<T: Number>(inner: usize, x: &[T], out: &mut [T], join: &impl Fn(T::Sum, T::Sum) -> T::Sum) {
    for first in (0..inner).step_by(STRIP) {
        let strip = first..inner.min(first + STRIP);
        let mut last = [T::Sum::ZERO; STRIP];
        for (i, (x, out)) in x.chunks_exact(inner).zip(out.chunks_exact_mut(inner)).enumerate() {
            for ((last, x), out) in last.iter_mut().zip(&x[strip.clone()]).zip(&mut out[strip.clone()]) {
                let next = convert(*x);
                *last = if i == 0 { next } else { join(*last, next) };
                *out = convert(*last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, pool};

    #[test]
    fn agrees_with_one_after_the_other() {
        let (mut random, pool) = (Random::new(77), pool());
        for (outer, n, inner) in [(1, 1, 1), (3, 10, 1), (19, 33, 1), (2, 5, 31), (2, 4, 70), (300, 200, 1), (0, 3, 1)]
        {
            let axis = Axis { outer, n, inner };
            let floats = random.floats(axis.len());
            let whole: Vec<i64> = floats.iter().map(|x| (x * 100.0) as i64).collect();
            for isa in Isa::available() {
                let mut sums = vec![0.0f32; floats.len()];
                scan(isa, &pool, axis, &floats, &mut sums, |a, b| a + b);
                let mut products = vec![0i64; floats.len()];
                scan(isa, &pool, axis, &whole, &mut products, |a, b| a.wrapping_mul(b));
                for line in 0..outer * inner {
                    let (mut sum, mut product) = (0.0f64, 1i64);
                    for i in 0..n {
                        let at = (line / inner * n + i) * inner + line % inner;
                        (sum, product) = (sum + f64::from(floats[at]), product.wrapping_mul(whole[at]));
                        assert_eq!((sums[at], products[at]), (sum as f32, product), "{axis:?} {at}");
                    }
                }
            }
        }
    }
}
