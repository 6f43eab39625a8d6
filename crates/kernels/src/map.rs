//! Element-wise functions, with broadcasting.
//!
//! A [`Broadcast`] says how the elements of N operands meet: the output's shape and, for each operand, how far to step
//! along each of its dimensions (0 where the operand is repeated). On construction dimensions of size one vanish and
//! neighbours that walk alike are merged, so that equal shapes become one long row and `[n, c] + [c]` two dimensions.
//! The output is always contiguous. Work is cut into ranges of the output; a range is walked row by row, and a row is a
//! plain loop over contiguous or repeated operands, which the compiler vectorises for the given instruction set. For
//! that the function must inline: pass a function marked `#[inline(always)]` (as all of [`math`](crate::math) are) or a
//! marked closure, `#[inline(always)] |a, b| a + b`.
use crate::element::Element;
use crate::isa::Isa;
use crate::split;
use core::ops::Range;
use sconce_parallel::{Parallel, Serial};

/// Most dimensions of a shape.
pub const MAX_RANK: usize = 16;
/// Elements of a task.
pub(crate) const GRAIN: usize = 16 * 1024;
/// Elements from which threads pay.
pub(crate) const WORTH_THREADS: usize = 32 * 1024;

/// How the elements of `N` operands meet; see the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<const N: usize> {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; N],
    len: usize,
}

impl<const N: usize> Broadcast<N> {
    /// An output of `shape`, and per operand the distance in elements for a step along each dimension.
    ///
    /// Panics if there are more than [`MAX_RANK`] dimensions or the lists differ in length.
    pub fn new(shape: &[usize], strides: [&[usize]; N]) -> Self {
        assert!(shape.len() <= MAX_RANK, "{} dimensions are more than {MAX_RANK}", shape.len());
        assert!(
            strides.iter().all(|s| s.len() == shape.len()),
            "shape {shape:?} and strides {strides:?} differ in rank"
        );
        let mut merged =
            Self { rank: 0, shape: [1; MAX_RANK], strides: [[0; MAX_RANK]; N], len: shape.iter().product() };
        for (d, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
            let last = merged.rank.wrapping_sub(1);
            let alike = merged.rank > 0 && (0..N).all(|n| merged.strides[n][last] == strides[n][d] * size);
            let at = if alike { last } else { merged.rank };
            merged.shape[at] *= size;
            for (merged, strides) in merged.strides.iter_mut().zip(strides) {
                merged[at] = strides[d];
            }
            merged.rank = at + 1;
        }
        merged
    }

    /// An output of `shape` and contiguous operands of the given shapes, aligned at the last dimension as PyTorch does.
    ///
    /// Panics if an operand's shape does not broadcast to `shape`.
    pub fn of_shapes(shape: &[usize], operands: [&[usize]; N]) -> Self {
        let mut strides = [[0; MAX_RANK]; N];
        for (strides, operand) in strides.iter_mut().zip(operands) {
            let missing = shape.len().checked_sub(operand.len());
            let missing = missing.unwrap_or_else(|| panic!("{operand:?} does not broadcast to {shape:?}"));
            let mut step = 1;
            for d in (0..operand.len()).rev() {
                assert!(
                    operand[d] == shape[missing + d] || operand[d] == 1,
                    "{operand:?} does not broadcast to {shape:?}"
                );
                strides[missing + d] = if operand[d] == 1 { 0 } else { step };
                step = usize::saturating_mul(step, operand[d]);
            }
        }
        let mut slices: [&[usize]; N] = [&[]; N];
        for (slice, strides) in slices.iter_mut().zip(&strides) {
            *slice = &strides[..shape.len()];
        }
        Self::new(shape, slices)
    }

    /// `len` elements, all operands contiguous.
    pub fn flat(len: usize) -> Self {
        Self::new(&[len], [&[1]; N])
    }

    /// Elements of the output.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the output has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Panics unless an operand of `len` elements holds everything operand `n` is asked for.
    fn check(&self, n: usize, len: usize) {
        if self.len > 0 {
            let last: usize = (0..self.rank).map(|d| (self.shape[d] - 1) * self.strides[n][d]).sum();
            assert!(last < len, "operand {n} has {len} elements and element {last} is asked for");
        }
    }

    /// Walks the elements `range` of the output row by row: `row(start, len, offsets, steps)` is given where the row
    /// starts within the range, its length, and each operand's first element and step.
    #[inline(always)]
    pub fn rows(&self, range: Range<usize>, mut row: impl FnMut(usize, usize, [usize; N], [usize; N])) {
        if range.is_empty() {
            return;
        }
        let inner = self.rank.saturating_sub(1);
        let width = if self.rank == 0 { 1 } else { self.shape[inner] };
        let steps = self.strides.map(|strides| strides[inner]);
        // The indices of the outer dimensions, and each operand's offset at the row's start.
        let mut index = [0; MAX_RANK];
        let mut offsets = [0; N];
        let mut rest = range.start / width.max(1);
        for d in (0..inner).rev() {
            index[d] = rest % self.shape[d];
            rest /= self.shape[d];
            for (offset, strides) in offsets.iter_mut().zip(&self.strides) {
                *offset += index[d] * strides[d];
            }
        }
        let (mut at, mut column) = (range.start, range.start % width.max(1));
        while at < range.end {
            let len = (width - column).min(range.end - at);
            let mut first = offsets;
            for n in 0..N {
                first[n] += column * steps[n];
            }
            row(at - range.start, len, first, steps);
            (at, column) = (at + len, 0);
            for d in (0..inner).rev() {
                index[d] += 1;
                for (offset, strides) in offsets.iter_mut().zip(&self.strides) {
                    *offset += strides[d];
                }
                if index[d] < self.shape[d] {
                    break;
                }
                for (offset, strides) in offsets.iter_mut().zip(&self.strides) {
                    *offset -= self.shape[d] * strides[d];
                }
                index[d] = 0;
            }
        }
    }
}

impl Broadcast<1> {
    /// Calls `visit(i, offset)` for the elements `range`, `i` counting from the range's start.
    #[inline(always)]
    pub(crate) fn offsets(&self, range: Range<usize>, mut visit: impl FnMut(usize, usize)) {
        self.rows(
            range,
            #[inline(always)]
            |at, len, [first], [step]| {
                for i in 0..len {
                    visit(at + i, first + i * step);
                }
            },
        );
    }
}

/// Threads only where they pay.
pub(crate) fn worth(par: &dyn Parallel, elements: usize) -> &dyn Parallel {
    if elements >= WORTH_THREADS { par } else { &Serial }
}

/// `out[i] = f(x[i])`
pub fn unary<T: Element, O: Element>(isa: Isa, par: &dyn Parallel, x: &[T], out: &mut [O], f: impl Fn(T) -> O + Sync) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    split::chunks(worth(par, out.len()), out, GRAIN, |i, out| {
        let x = &x[i * GRAIN..][..out.len()];
        isa.vectorize(
            #[inline(always)]
            || {
                for (out, x) in out.iter_mut().zip(x) {
                    *out = f(*x);
                }
            },
        );
    });
}

/// `x[i] = f(x[i])`
pub fn unary_in_place<T: Element>(isa: Isa, par: &dyn Parallel, x: &mut [T], f: impl Fn(T) -> T + Sync) {
    split::chunks(worth(par, x.len()), x, GRAIN, |_, x| {
        isa.vectorize(
            #[inline(always)]
            || {
                for x in x.iter_mut() {
                    *x = f(*x);
                }
            },
        );
    });
}

/// `out[i] = f(x[i])` with `x` strided or repeated.
pub fn unary_strided<T: Element, O: Element>(
    isa: Isa,
    par: &dyn Parallel,
    shape: &Broadcast<1>,
    x: &[T],
    out: &mut [O],
    f: impl Fn(T) -> O + Sync,
) {
    shape.check(0, x.len());
    assert_eq!(shape.len, out.len(), "shape and output differ in length");
    split::chunks(worth(par, out.len()), out, GRAIN, |i, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                let start = i * GRAIN;
                shape.rows(
                    start..start + out.len(),
                    #[inline(always)]
                    |at, len, [x_at], [step]| {
                        let (x, out) = (&x[x_at..], &mut out[at..at + len]);
                        match step {
                            0 => out.fill(f(x[0])),
                            1 => {
                                for (out, x) in out.iter_mut().zip(x) {
                                    *out = f(*x);
                                }
                            }
                            _ => {
                                for (i, out) in out.iter_mut().enumerate() {
                                    *out = f(x[i * step]);
                                }
                            }
                        }
                    },
                );
            },
        );
    });
}

/// `out[i] = f(a[i], b[i])`
pub fn binary<A: Element, B: Element, O: Element>(
    isa: Isa,
    par: &dyn Parallel,
    shape: &Broadcast<2>,
    a: &[A],
    b: &[B],
    out: &mut [O],
    f: impl Fn(A, B) -> O + Sync,
) {
    shape.check(0, a.len());
    shape.check(1, b.len());
    assert_eq!(shape.len, out.len(), "shape and output differ in length");
    split::chunks(worth(par, out.len()), out, GRAIN, |i, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                let start = i * GRAIN;
                shape.rows(
                    start..start + out.len(),
                    #[inline(always)]
                    |at, len, [a_at, b_at], steps| {
                        binary_row(&a[a_at..], &b[b_at..], steps, &mut out[at..at + len], &f);
                    },
                );
            },
        );
    });
}

#[inline(always)]
fn binary_row<A: Copy, B: Copy, O>(a: &[A], b: &[B], steps: [usize; 2], out: &mut [O], f: &impl Fn(A, B) -> O) {
    match steps {
        [1, 1] => {
            for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
                *out = f(*a, *b);
            }
        }
        [1, 0] => {
            let b = b[0];
            for (out, a) in out.iter_mut().zip(a) {
                *out = f(*a, b);
            }
        }
        [0, 1] => {
            let a = a[0];
            for (out, b) in out.iter_mut().zip(b) {
                *out = f(a, *b);
            }
        }
        [p, q] => {
            for (i, out) in out.iter_mut().enumerate() {
                *out = f(a[i * p], b[i * q]);
            }
        }
    }
}

/// `a[i] = f(a[i], b[i])` with `b` strided or repeated over the shape of `a`.
pub fn binary_in_place<A: Element, B: Element>(
    isa: Isa,
    par: &dyn Parallel,
    shape: &Broadcast<1>,
    a: &mut [A],
    b: &[B],
    f: impl Fn(A, B) -> A + Sync,
) {
    shape.check(0, b.len());
    assert_eq!(shape.len, a.len(), "shape and output differ in length");
    split::chunks(worth(par, a.len()), a, GRAIN, |i, a| {
        isa.vectorize(
            #[inline(always)]
            || {
                let start = i * GRAIN;
                shape.rows(
                    start..start + a.len(),
                    #[inline(always)]
                    |at, len, [b_at], [step]| {
                        let (a, b) = (&mut a[at..at + len], &b[b_at..]);
                        match step {
                            0 => {
                                let b = b[0];
                                for a in a.iter_mut() {
                                    *a = f(*a, b);
                                }
                            }
                            1 => {
                                for (a, b) in a.iter_mut().zip(b) {
                                    *a = f(*a, *b);
                                }
                            }
                            _ => {
                                for (i, a) in a.iter_mut().enumerate() {
                                    *a = f(*a, b[i * step]);
                                }
                            }
                        }
                    },
                );
            },
        );
    });
}

/// `out[i] = f(a[i], b[i], c[i])`
pub fn ternary<A: Element, B: Element, C: Element, O: Element>(
    isa: Isa,
    par: &dyn Parallel,
    shape: &Broadcast<3>,
    a: &[A],
    b: &[B],
    c: &[C],
    out: &mut [O],
    f: impl Fn(A, B, C) -> O + Sync,
) {
    shape.check(0, a.len());
    shape.check(1, b.len());
    shape.check(2, c.len());
    assert_eq!(shape.len, out.len(), "shape and output differ in length");
    split::chunks(worth(par, out.len()), out, GRAIN, |i, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                let start = i * GRAIN;
                shape.rows(
                    start..start + out.len(),
                    #[inline(always)]
                    |at, len, [a_at, b_at, c_at], [p, q, r]| {
                        let (a, b, c, out) = (&a[a_at..], &b[b_at..], &c[c_at..], &mut out[at..at + len]);
                        if [p, q, r] == [1; 3] {
                            let operands = a.iter().zip(b).zip(c);
                            for (out, ((a, b), c)) in out.iter_mut().zip(operands) {
                                *out = f(*a, *b, *c);
                            }
                        } else {
                            for (i, out) in out.iter_mut().enumerate() {
                                *out = f(a[i * p], b[i * q], c[i * r]);
                            }
                        }
                    },
                );
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, pool};

    #[test]
    fn dimensions_merge_to_the_fewest() {
        let flat = Broadcast::of_shapes(&[2, 3, 4], [&[2, 3, 4], &[2, 3, 4]]);
        assert_eq!((flat.rank, flat.shape[0]), (1, 24));
        let bias = Broadcast::of_shapes(&[2, 3, 4, 5], [&[2, 3, 4, 5], &[3, 1, 1]]);
        assert_eq!((bias.rank, &bias.shape[..3]), (3, &[2, 3, 20][..]));
        let scalar = Broadcast::of_shapes(&[2, 3], [&[2, 3], &[]]);
        assert_eq!((scalar.rank, scalar.strides[1][0]), (1, 0));
    }

    /// Element `index` of the output finds its operand the slow way.
    fn naive(shape: &[usize], operand: &[usize], mut index: usize) -> usize {
        let (mut at, mut step) = (0, 1);
        for d in (0..shape.len()).rev() {
            let here = index % shape[d];
            index /= shape[d];
            if let Some(d) = (d + operand.len()).checked_sub(shape.len()) {
                at += if operand[d] == 1 { 0 } else { here * step };
                step *= operand[d];
            }
        }
        at
    }

    #[test]
    fn broadcasting_agrees_with_indexing() {
        let (mut random, pool) = (Random::new(3), pool());
        for _ in 0..200 {
            let rank = random.below(5);
            let shape: Vec<_> = (0..rank).map(|_| 1 + random.below(7)).collect();
            let operands: [Vec<usize>; 3] = core::array::from_fn(|_| {
                let skip = random.below(rank + 1);
                shape[skip..].iter().map(|&size| if random.below(3) == 0 { 1 } else { size }).collect()
            });
            let data = operands.each_ref().map(|shape| random.floats(shape.iter().product()));
            let len = shape.iter().product();
            let at = |n: usize, i: usize| data[n][naive(&shape, &operands[n], i)];
            for isa in Isa::available() {
                let mut out = vec![0.0; len];
                let two = Broadcast::of_shapes(&shape, [&operands[0], &operands[1]]);
                binary(isa, &pool, &two, &data[0], &data[1], &mut out, |a: f32, b: f32| a - 2.0 * b);
                (0..len).for_each(|i| assert_eq!(out[i], at(0, i) - 2.0 * at(1, i)));

                let three = Broadcast::of_shapes(&shape, operands.each_ref().map(|shape| &shape[..]));
                let pick = |a: f32, b: f32, c: f32| if a > 0.0 { b } else { c };
                ternary(isa, &pool, &three, &data[0], &data[1], &data[2], &mut out, pick);
                (0..len).for_each(|i| assert_eq!(out[i], pick(at(0, i), at(1, i), at(2, i))));

                let one = Broadcast::of_shapes(&shape, [&operands[0]]);
                unary_strided(isa, &pool, &one, &data[0], &mut out, |a: f32| -a);
                (0..len).for_each(|i| assert_eq!(out[i], -at(0, i)));
                binary_in_place(isa, &pool, &one, &mut out, &data[0], |a: f32, b: f32| a * b);
                (0..len).for_each(|i| assert_eq!(out[i], -at(0, i) * at(0, i)));
            }
        }
    }

    #[test]
    fn long_rows_are_split_between_threads() {
        let (pool, n) = (pool(), 3 * WORTH_THREADS + 17);
        let a: Vec<i64> = (0..2 * n as i64).collect();
        let b: Vec<i64> = (0..n as i64).map(|x| x * x).collect();
        let mut out = vec![0; 2 * n];
        let shape = Broadcast::of_shapes(&[2, n], [&[2, n], &[n]]);
        binary(Isa::detect(), &pool, &shape, &a, &b, &mut out, |a, b| a + b);
        assert!(out.iter().enumerate().all(|(i, x)| *x == a[i] + b[i % n]));
        unary(Isa::detect(), &pool, &a, &mut out, |a| a + 1);
        unary_in_place(Isa::detect(), &pool, &mut out, |a| a * 2);
        assert!(out.iter().zip(&a).all(|(x, a)| *x == 2 * (a + 1)));
    }

    #[test]
    fn empty_and_scalar_outputs() {
        let mut out = [0.0f32];
        let scalar = Broadcast::of_shapes(&[], [&[], &[]]);
        binary(Isa::Scalar, &Serial, &scalar, &[2.0f32], &[3.0f32], &mut out, |a, b| a * b);
        assert_eq!(out, [6.0]);
        let empty = Broadcast::of_shapes(&[4, 0], [&[4, 0], &[1, 1]]);
        binary(Isa::Scalar, &Serial, &empty, &[] as &[f32], &[3.0f32], &mut [] as &mut [f32], |a, b| a * b);
    }
}
