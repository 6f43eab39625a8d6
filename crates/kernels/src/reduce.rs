//! Reductions: many elements become one.
//!
//! A tensor is seen as `[outer, n, inner]` and reduced along the middle; several adjacent dimensions are one. What is
//! reduced is a [`Reducer`]: a start, a step, a way to join two partial results, an end. Contiguous rows (`inner` = 1)
//! are taken in independent strands, longer inners in strips of columns, several rows at a time; both are loops without a
//! dependency between neighbours, which vectorise. Dimensions that are not adjacent go through [`reduce_strided`].
//!
//! Sums of floats are kept in `f64`, so their rounding is invisible in the result. As in PyTorch, NaN wins every
//! maximum and minimum, and of equal values the first wins.
use crate::element::{Bool, Element, Float, Number, convert};
use crate::isa::Isa;
use crate::map::{Broadcast, GRAIN, worth};
use crate::split::{self, Cut};
use core::marker::PhantomData;
use sconce_parallel::Parallel;

/// Independent strands of a contiguous row.
const LANES: usize = 32;
/// Columns of a strip: many, so that reading runs ahead along the rows.
const STRIP: usize = 512;
/// Elements that are looked at together for one among them.
const SEARCHED: usize = 64;
/// Rows of a strip that are taken in together, which saves partial results the way to memory and back.
const ROWS: usize = 8;

/// A tensor seen as `[outer, n, inner]`, reduced or normalised along `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Elements before.
    pub outer: usize,
    /// Elements along the axis.
    pub n: usize,
    /// Elements after.
    pub inner: usize,
}

impl Axis {
    /// Contiguous rows of `n`.
    pub fn rows(outer: usize, n: usize) -> Self {
        Self { outer, n, inner: 1 }
    }

    /// Dimensions `dims` of a contiguous tensor of this shape.
    pub fn of(shape: &[usize], dims: core::ops::Range<usize>) -> Self {
        let product = |part: &[usize]| part.iter().product();
        Self {
            outer: product(&shape[..dims.start]),
            n: product(&shape[dims.clone()]),
            inner: product(&shape[dims.end..]),
        }
    }

    /// How the results, `outer` rows of `inner`, are cut where several lie side by side.
    fn strips(&self) -> (Cut, Cut) {
        (Cut::every(rows_per_task(self.n * self.inner.min(STRIP)), self.outer), Cut::every(STRIP, self.inner))
    }

    /// The elements of one `outer`, from a column on.
    #[inline(always)]
    fn slab<'x, T>(&self, x: &'x [T], outer: usize, column: usize) -> &'x [T] {
        let slab = &x[outer * self.n * self.inner..][..self.n * self.inner];
        slab.get(column..).unwrap_or(&[])
    }

    pub(crate) fn len(&self) -> usize {
        self.outer * self.n * self.inner
    }
}

/// What a reduction does.
pub trait Reducer: Sync {
    /// The elements reduced.
    type In: Element;
    /// A partial result.
    type Acc: Copy;
    /// The result.
    type Out: Element;
    /// The result of nothing.
    fn start() -> Self::Acc;
    /// Takes one element in.
    fn step(acc: Self::Acc, x: Self::In) -> Self::Acc;
    /// Of two partial results, the first being the earlier.
    fn join(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The end, after `n` elements.
    fn finish(acc: Self::Acc, n: usize) -> Self::Out;
}

macro_rules! reducers {
    ($($(#[$doc:meta])* $name:ident<T: $bound:ident>: $acc:ty => $out:ty,
       $start:expr, |$a:ident, $x:ident| $step:expr, |$p:ident, $q:ident| $join:expr,
       |$end:ident, $n:ident| $finish:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<T>);
        impl<T: $bound> Reducer for $name<T> {
            type In = T;
            type Acc = $acc;
            type Out = $out;
            #[inline(always)]
            fn start() -> $acc { $start }
            #[inline(always)]
            fn step($a: $acc, $x: T) -> $acc { $step }
            #[inline(always)]
            fn join($p: $acc, $q: $acc) -> $acc { $join }
            #[inline(always)]
            fn finish($end: $acc, $n: usize) -> $out { let _ = $n; $finish }
        }
    )*};
}
reducers! {
    /// The sum, kept in [`Number::Sum`] and given in it; convert as needed.
    Sum<T: Number>: T::Sum => T::Sum, T::Sum::ZERO,
        |a, x| a.plus(convert(x)), |p, q| p.plus(q), |end, n| end;
    /// The sum of floats.
    Total<T: Float>: f64 => T, 0.0,
        |a, x| a + x.to_f64(), |p, q| p + q, |end, n| T::from_f64(end);
    /// The mean of floats.
    Mean<T: Float>: f64 => T, 0.0,
        |a, x| a + x.to_f64(), |p, q| p + q, |end, n| T::from_f64(end / n as f64);
    /// The product, kept in [`Number::Sum`] and given in it.
    Prod<T: Number>: T::Sum => T::Sum, T::Sum::ONE,
        |a, x| a.times(convert(x)), |p, q| p.times(q), |end, n| end;
    /// The largest element; NaN if there is one.
    Max<T: Number>: T => T, T::LOWEST,
        |a, x| if x > a || x.is_nan() { x } else { a }, |p, q| if q > p || q.is_nan() { q } else { p }, |end, n| end;
    /// The largest number, or minus infinity; NaN is passed over, which takes one instruction in place of four.
    Largest<T: Number>: T => T, T::LOWEST,
        |a, x| if x > a { x } else { a }, |p, q| if q > p { q } else { p }, |end, n| end;
    /// The smallest element; NaN if there is one.
    Min<T: Number>: T => T, T::HIGHEST,
        |a, x| if x < a || x.is_nan() { x } else { a }, |p, q| if q < p || q.is_nan() { q } else { p }, |end, n| end;
    /// Whether any element is not zero.
    Any<T: Number>: u8 => Bool, 0,
        |a, x| a | u8::from(x != T::ZERO), |p, q| p | q, |end, n| Bool(end);
    /// Whether all elements are not zero.
    All<T: Number>: u8 => Bool, 1,
        |a, x| a & u8::from(x != T::ZERO), |p, q| p & q, |end, n| Bool(end);
}

/// One contiguous row.
#[inline(always)]
pub(crate) fn row<R: Reducer>(x: &[R::In]) -> R::Acc {
    let mut lanes = strands(x, R::start(), R::step);
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = R::join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Takes a row in: element `i` by lane `i` modulo [`LANES`].
#[inline(always)]
fn strands<T: Element, A: Copy>(x: &[T], start: A, step: impl Fn(A, T) -> A) -> [A; LANES] {
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [start; LANES];
    for block in blocks {
        for i in 0..LANES {
            lanes[i] = step(lanes[i], block[i]);
        }
    }
    // Without this the compiler shapes the loop above after whatever is done to single lanes below, not after vectors.
    let mut lanes = core::hint::black_box(lanes);
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, *x);
    }
    lanes
}

/// Elements that [`sum_of`] adds in the compute type.
const BLOCK: usize = 32 * LANES;

/// The sum of `f` over a row: in lanes of the compute type, which every `BLOCK` elements are added up in `f64`.
#[inline(always)]
pub(crate) fn sum_of<T: Float>(x: &[T], f: impl Fn(T::Compute) -> T::Compute) -> f64 {
    let mut sum = 0.0;
    for block in x.chunks(BLOCK) {
        let lanes = strands(
            block,
            T::Compute::ZERO,
            #[inline(always)]
            |lane, x| lane + f(x.widen()),
        );
        sum += row::<Sum64<T::Compute>>(&lanes);
    }
    sum
}

/// Rows to give a task so that it has about [`GRAIN`] elements.
pub(crate) fn rows_per_task(row_len: usize) -> usize {
    (GRAIN / row_len.max(1)).max(1)
}

/// Reduces along `axis.n`; `out` has `outer * inner` elements.
pub fn reduce<R: Reducer>(isa: Isa, par: &dyn Parallel, axis: Axis, x: &[R::In], out: &mut [R::Out]) {
    assert_eq!(x.len(), axis.len(), "elements of {axis:?}");
    assert_eq!(out.len(), axis.outer * axis.inner, "results of {axis:?}");
    let par = worth(par, x.len());
    if axis.n == 0 {
        return out.fill(R::finish(R::start(), 0));
    }
    if axis.inner == 1 {
        let together = rows_per_task(axis.n);
        return split::chunks(par, out, together, |task, out| {
            isa.vectorize(
                #[inline(always)]
                || {
                    let rows = x[task * together * axis.n..].chunks_exact(axis.n);
                    for (out, x) in out.iter_mut().zip(rows) {
                        *out = R::finish(row::<R>(x), axis.n);
                    }
                },
            );
        });
    }
    split::blocks(par, out, axis.inner, (axis.outer, axis.inner), axis.strips(), |mut block| {
        isa.vectorize(
            #[inline(always)]
            || {
                let mut strip = [R::start(); STRIP];
                let strip = &mut strip[..block.columns.len()];
                for outer in block.rows.clone() {
                    strip.fill(R::start());
                    take_in::<R>(strip, axis, axis.slab(x, outer, block.columns.start));
                    for (out, acc) in block.row(outer).iter_mut().zip(&*strip) {
                        *out = R::finish(*acc, axis.n);
                    }
                }
            },
        );
    });
}

/// Takes in the columns of a strip.
#[inline(always)]
fn take_in<R: Reducer>(strip: &mut [R::Acc], axis: Axis, x: &[R::In]) {
    let together = axis.n / ROWS * ROWS;
    for row in (0..together).step_by(ROWS) {
        take_rows_in::<R, ROWS>(strip, &x[row * axis.inner..], axis.inner);
    }
    for row in together..axis.n {
        take_rows_in::<R, 1>(strip, &x[row * axis.inner..], axis.inner);
    }
}

/// Takes in `N` rows of a strip, `stride` apart.
#[inline(always)]
fn take_rows_in<R: Reducer, const N: usize>(strip: &mut [R::Acc], x: &[R::In], stride: usize) {
    let rows: [&[R::In]; N] = core::array::from_fn(|n| &x[n * stride..][..strip.len()]);
    for (i, acc) in strip.iter_mut().enumerate() {
        *acc = rows.iter().fold(
            *acc,
            #[inline(always)]
            |acc, row| R::step(acc, row[i]),
        );
    }
}

/// Reduces dimensions that lie anywhere: `kept` walks the results, `reduced` the elements of one result.
pub fn reduce_strided<R: Reducer>(
    par: &dyn Parallel,
    kept: &Broadcast<1>,
    reduced: &Broadcast<1>,
    x: &[R::In],
    out: &mut [R::Out],
) {
    assert_eq!(out.len(), kept.len(), "results of {kept:?}");
    let together = rows_per_task(reduced.len());
    split::chunks(worth(par, kept.len() * reduced.len()), out, together, |task, out| {
        let first = task * together;
        kept.offsets(first..first + out.len(), |i, base| {
            let mut acc = R::start();
            reduced.offsets(0..reduced.len(), |_, at| acc = R::step(acc, x[base + at]));
            out[i] = R::finish(acc, reduced.len());
        });
    });
}

/// Whether `x` beats `best`: larger (or smaller), or the first NaN.
#[inline(always)]
fn beats<T: Number, const MAX: bool>(x: T, best: T) -> bool {
    (if MAX { x > best } else { x < best }) || (x.is_nan() && !best.is_nan())
}

/// Where `best` or NaN comes first; 0 where neither does.
#[inline(always)]
fn first_of<T: Number>(x: &[T], best: T) -> usize {
    let mut start = 0;
    // Whole blocks are looked at without a branch per element; only the block that has it is searched.
    for block in x.chunks(SEARCHED) {
        let mut found = false;
        for x in block {
            found |= *x == best || x.is_nan();
        }
        if found {
            return start + block.iter().position(|x| *x == best || x.is_nan()).unwrap_or(0);
        }
        start += SEARCHED;
    }
    0
}

/// The index of the first largest (`MAX`) or smallest element along `axis.n`, and optionally the element itself.
///
/// Panics if `n` is 0 while results are wanted.
pub fn arg_reduce<T: Number, const MAX: bool>(
    isa: Isa,
    par: &dyn Parallel,
    axis: Axis,
    x: &[T],
    indices: &mut [i64],
    values: Option<&mut [T]>,
) {
    assert_eq!(x.len(), axis.len(), "elements of {axis:?}");
    assert_eq!(indices.len(), axis.outer * axis.inner, "results of {axis:?}");
    assert!(axis.n > 0 || indices.is_empty(), "the largest of no elements");
    let par = worth(par, x.len());
    if axis.inner == 1 {
        let together = rows_per_task(axis.n);
        split::chunks(par, indices, together, |task, indices| {
            isa.vectorize(
                #[inline(always)]
                || {
                    for (out, x) in indices.iter_mut().zip(x[task * together * axis.n..].chunks_exact(axis.n)) {
                        let best = if MAX { row::<Max<T>>(x) } else { row::<Min<T>>(x) };
                        *out = first_of(x, best) as i64;
                    }
                },
            );
        });
    } else {
        split::blocks(par, indices, axis.inner, (axis.outer, axis.inner), axis.strips(), |mut block| {
            isa.vectorize(
                #[inline(always)]
                || {
                    let mut best = [T::ZERO; STRIP];
                    for outer in block.rows.clone() {
                        let x = axis.slab(x, outer, block.columns.start);
                        let out = block.row(outer);
                        best[..out.len()].copy_from_slice(&x[..out.len()]);
                        out.fill(0);
                        for (i, x) in x.chunks(axis.inner).enumerate() {
                            for ((out, best), x) in out.iter_mut().zip(&mut best).zip(x) {
                                let better = beats::<T, MAX>(*x, *best);
                                *best = if better { *x } else { *best };
                                *out = if better { i as i64 } else { *out };
                            }
                        }
                    }
                },
            );
        });
    }
    if let Some(values) = values {
        for (at, (value, index)) in values.iter_mut().zip(&*indices).enumerate() {
            let (outer, inner) = (at / axis.inner, at % axis.inner);
            *value = x[(outer * axis.n + *index as usize) * axis.inner + inner];
        }
    }
}

/// The sum of squared deviations from the mean, and the mean, of one row; two passes.
#[inline(always)]
pub(crate) fn deviations<T: Number>(x: &[T]) -> (f64, f64) {
    let mean = row::<Sum64<T>>(x) / x.len() as f64;
    let lanes = strands(
        x,
        0.0,
        #[inline(always)]
        |lane, x| {
            let d = x.to_f64() - mean;
            lane + d * d
        },
    );
    (row::<Sum64<f64>>(&lanes), mean)
}

/// The sum as `f64`, whatever the kind.
pub(crate) struct Sum64<T>(PhantomData<T>);
impl<T: Number> Reducer for Sum64<T> {
    type In = T;
    type Acc = f64;
    type Out = f64;
    #[inline(always)]
    fn start() -> f64 {
        0.0
    }
    #[inline(always)]
    fn step(acc: f64, x: T) -> f64 {
        acc + x.to_f64()
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(acc: f64, _: usize) -> f64 {
        acc
    }
}

/// The variance along `axis.n` (divided by `n - correction`, NaN where that is not positive and the sum is zero), and
/// optionally the mean.
pub fn variance<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    axis: Axis,
    correction: f64,
    x: &[T],
    out: &mut [T],
    means: Option<&mut [T]>,
) {
    assert_eq!(x.len(), axis.len(), "elements of {axis:?}");
    assert_eq!(out.len(), axis.outer * axis.inner, "results of {axis:?}");
    let divisor = (axis.n as f64 - correction).max(0.0);
    split::blocks(worth(par, x.len()), out, axis.inner, (axis.outer, axis.inner), axis.strips(), |mut block| {
        isa.vectorize(
            #[inline(always)]
            || {
                let (mut means, mut sums) = ([0.0; STRIP], [0.0; STRIP]);
                for outer in block.rows.clone() {
                    let x = axis.slab(x, outer, block.columns.start);
                    let out = block.row(outer);
                    if axis.inner == 1 {
                        out[0] = T::from_f64(deviations(x).0 / divisor);
                        continue;
                    }
                    let (means, sums) = (&mut means[..out.len()], &mut sums[..out.len()]);
                    means.fill(0.0);
                    sums.fill(0.0);
                    take_in::<Sum64<T>>(means, axis, x);
                    means.iter_mut().for_each(|mean| *mean /= axis.n as f64);
                    for x in x.chunks(axis.inner) {
                        for ((sum, mean), x) in sums.iter_mut().zip(&*means).zip(x) {
                            let d = x.to_f64() - mean;
                            *sum += d * d;
                        }
                    }
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = T::from_f64(*sum / divisor);
                    }
                }
            },
        );
    });
    if let Some(means) = means {
        reduce::<Mean<T>>(isa, par, axis, x, means);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close, pool};

    const AXES: [Axis; 11] = [
        Axis { outer: 1, n: 1, inner: 1 },
        Axis { outer: 3, n: 31, inner: 1 },
        Axis { outer: 2, n: 33, inner: 1 },
        Axis { outer: 5, n: 100, inner: 1 },
        Axis { outer: 2, n: 7, inner: 63 },
        Axis { outer: 2, n: 8, inner: 65 },
        Axis { outer: 700, n: 9, inner: 5 },
        Axis { outer: 1, n: 300, inner: 130 },
        Axis { outer: 2, n: 33, inner: 1030 },
        Axis { outer: 40, n: 1000, inner: 1 },
        Axis { outer: 0, n: 4, inner: 2 },
    ];

    fn column(axis: Axis, x: &[f32], at: usize) -> Vec<f64> {
        let (outer, inner) = (at / axis.inner, at % axis.inner);
        (0..axis.n).map(|i| x[(outer * axis.n + i) * axis.inner + inner].into()).collect()
    }

    #[test]
    fn every_reducer_against_a_loop() {
        let (mut random, pool) = (Random::new(4), pool());
        for axis in AXES {
            let x = random.floats(axis.len());
            let count = axis.outer * axis.inner;
            let expect = |f: &dyn Fn(Vec<f64>) -> f64| -> Vec<f32> {
                (0..count).map(|at| f(column(axis, &x, at)) as f32).collect()
            };
            let n = axis.n as f64;
            for isa in Isa::available() {
                let mut out = vec![0.0f32; count];
                reduce::<Mean<f32>>(isa, &pool, axis, &x, &mut out);
                assert_close(&out, &expect(&|c| c.iter().sum::<f64>() / n), 1e-7, &axis);
                reduce::<Total<f32>>(isa, &pool, axis, &x, &mut out);
                assert_close(&out, &expect(&|c| c.iter().sum()), 1e-7, &axis);
                reduce::<Max<f32>>(isa, &pool, axis, &x, &mut out);
                assert_eq!(out, expect(&|c| c.iter().copied().fold(f64::MIN, f64::max)));
                reduce::<Largest<f32>>(isa, &pool, axis, &x, &mut out);
                assert_eq!(out, expect(&|c| c.iter().copied().fold(f64::MIN, f64::max)));
                reduce::<Min<f32>>(isa, &pool, axis, &x, &mut out);
                assert_eq!(out, expect(&|c| c.iter().copied().fold(f64::MAX, f64::min)));
                let mut means = out.clone();
                variance(isa, &pool, axis, 0.0, &x, &mut out, Some(&mut means));
                assert_close(&means, &expect(&|c| c.iter().sum::<f64>() / n), 1e-7, &axis);
                let variance = |c: Vec<f64>| {
                    let mean = c.iter().sum::<f64>() / n;
                    c.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n
                };
                assert_close(&out, &expect(&variance), 1e-6, &axis);
                let mut wide = vec![0.0f64; count];
                reduce::<Sum<f32>>(isa, &pool, axis, &x, &mut wide);
                let sums: Vec<_> = wide.iter().map(|x| *x as f32).collect();
                assert_close(&sums, &expect(&|c| c.iter().sum()), 1e-7, &axis);
                let (mut indices, mut values) = (vec![0; count], vec![0.0; count]);
                arg_reduce::<f32, true>(isa, &pool, axis, &x, &mut indices, Some(&mut values));
                for (at, (index, value)) in indices.iter().zip(&values).enumerate() {
                    let c = column(axis, &x, at);
                    let first = (0..c.len()).find(|&i| c.iter().all(|x| *x <= c[i])).unwrap();
                    assert_eq!((*index as usize, f64::from(*value)), (first, c[first]));
                }
            }
        }
    }

    #[test]
    fn not_a_number_wins() {
        for isa in Isa::available() {
            for inner in [1, 2] {
                let mut x = vec![1.0f32; 70 * inner];
                (x[40 * inner], x[50 * inner], x[60 * inner]) = (f32::NAN, 9.0, f32::NAN);
                let axis = Axis { outer: 1, n: 70, inner };
                let (mut out, mut index) = (vec![0.0; inner], vec![0; inner]);
                reduce::<Max<f32>>(isa, &crate::Serial, axis, &x, &mut out);
                assert!(out[0].is_nan());
                reduce::<Min<f32>>(isa, &crate::Serial, axis, &x, &mut out);
                assert!(out[0].is_nan());
                reduce::<Largest<f32>>(isa, &crate::Serial, axis, &x, &mut out);
                assert_eq!(out[0], 9.0);
                arg_reduce::<f32, false>(isa, &crate::Serial, axis, &x, &mut index, None);
                assert_eq!(index[0], 40);
            }
        }
    }

    #[test]
    fn long_sums_are_accurate() {
        let x = vec![0.1f32; 10_000_000];
        let mut out = [0.0];
        reduce::<Sum<f32>>(Isa::detect(), &pool(), Axis::rows(1, x.len()), &x, &mut out);
        assert!((out[0] - 1e7 * f64::from(0.1f32)).abs() < 1e-3);
    }

    #[test]
    fn integers_and_truth() {
        let x = [200u8, 100, 0, 7];
        let mut out = [0i64; 2];
        reduce::<Sum<u8>>(Isa::Scalar, &crate::Serial, Axis::rows(2, 2), &x, &mut out);
        assert_eq!(out, [300, 7]);
        reduce::<Prod<u8>>(Isa::Scalar, &crate::Serial, Axis::rows(2, 2), &x, &mut out);
        assert_eq!(out, [20_000, 0]);
        let mut truth = [Bool(9); 2];
        reduce::<All<u8>>(Isa::Scalar, &crate::Serial, Axis::rows(2, 2), &x, &mut truth);
        assert_eq!(truth, [Bool(1), Bool(0)]);
        reduce::<Any<u8>>(Isa::Scalar, &crate::Serial, Axis { outer: 1, n: 2, inner: 2 }, &x, &mut truth);
        assert_eq!(truth, [Bool(1), Bool(1)]);
        reduce::<Any<u8>>(Isa::Scalar, &crate::Serial, Axis { outer: 2, n: 0, inner: 1 }, &[], &mut truth);
        assert_eq!(truth, [Bool(0), Bool(0)]);
    }

    #[test]
    fn scattered_dimensions() {
        // [2, 3, 4] reduced over the first and the last.
        let x: Vec<f32> = (0..24).map(|x| x as f32).collect();
        let (kept, reduced) = (Broadcast::new(&[3], [&[4]]), Broadcast::new(&[2, 4], [&[12, 1]]));
        let mut out = [0.0; 3];
        reduce_strided::<Sum<f32>>(&pool(), &kept, &reduced, &x, &mut out);
        let expected = |j: usize| (0..2).flat_map(|i| (0..4).map(move |k| (i * 12 + j * 4 + k) as f64)).sum::<f64>();
        assert_eq!(out, [expected(0), expected(1), expected(2)]);
    }
}
