//! Copies in which every dimension has a rule of its own for where elements come from.
//!
//! Flips, rolls, repetitions and all paddings are of this kind: the source position along a dimension depends on the
//! output position along that dimension alone, and it is piecewise linear. A [`Rule`] tells one piece at a time, as a
//! [`Run`], so that along the innermost dimension whole runs are copied, filled or reversed. The output is walked in
//! memory order; neighbouring dimensions without a rule are merged.
use core::ops::Range;
use sconce_core::{MAX_RANK, Parallel, Serial, Shape};
use sconce_kernels::{Isa, split};

/// Where elements come from along a dimension.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// From the same position.
    Keep,
    /// From the position counted from the end.
    Reverse,
    /// From `shift` positions before, around the end. The shift is below the size.
    Roll(usize),
    /// From the position modulo the size.
    Repeat,
    /// From `before` positions before; outside is a fill value.
    Constant(i64),
    /// From `before` positions before; outside is the nearest element.
    Replicate(i64),
    /// From `before` positions before; outside is mirrored at the first and last elements. Paddings are below the size.
    Reflect(i64),
}

/// Output positions whose sources are equally far apart.
struct Run {
    /// Source of the first one; `None` for the fill value.
    from: Option<usize>,
    /// 1, 0 or -1.
    step: isize,
    /// How many positions; at least one.
    len: usize,
}

impl Rule {
    /// The run that starts at output position `at`, in a dimension of `size` source elements.
    fn run(self, at: usize, size: usize) -> Run {
        let forward = |from: usize| Run { from: Some(from), step: 1, len: size.saturating_sub(from).max(1) };
        match self {
            Rule::Keep => forward(at),
            Rule::Reverse => Run { from: size.checked_sub(at + 1), step: -1, len: size.saturating_sub(at).max(1) },
            Rule::Roll(shift) if at < shift => Run { len: shift - at, ..forward(size - shift + at) },
            Rule::Roll(shift) => forward(at - shift),
            Rule::Repeat if size == 1 => Run { from: Some(0), step: 0, len: usize::MAX },
            Rule::Repeat => forward(at % size.max(1)),
            Rule::Constant(before) | Rule::Replicate(before) | Rule::Reflect(before) => {
                let (at, end) = (i128::from(at as u64) - i128::from(before), i128::from(size as u64));
                match usize::try_from(at) {
                    Ok(inside) if inside < size => forward(inside),
                    _ => self.outside(at, end),
                }
            }
        }
    }

    /// The run at source position `at` outside of `0..end`.
    fn outside(self, at: i128, end: i128) -> Run {
        let len = if at < 0 { usize::try_from(-at).unwrap_or(usize::MAX) } else { usize::MAX };
        let place = |at: i128| usize::try_from(at).ok();
        match self {
            Rule::Replicate(_) => Run { from: place(at.clamp(0, end - 1)), step: 0, len },
            Rule::Reflect(_) => Run { from: place(if at < 0 { -at } else { 2 * (end - 1) - at }), step: -1, len },
            _ => Run { from: None, step: 0, len },
        }
    }
}

#[derive(Clone, Copy)]
struct Dim {
    out: usize,
    size: usize,
    stride: usize,
    rule: Rule,
}

/// A copy with a rule per dimension.
pub(crate) struct Remap {
    dims: [Dim; MAX_RANK],
    rank: usize,
}

/// Elements of a task.
const GRAIN: usize = 16 * 1024;

impl Remap {
    /// From a tensor of shape `from` to one of shape `to`, which may have more dimensions in front; `rule` gives the rule
    /// of each dimension of `to`. Dimensions that `from` lacks have size 1.
    pub(crate) fn new(from: &Shape, to: &Shape, rule: impl Fn(usize) -> Rule) -> Self {
        let none = Dim { out: 1, size: 1, stride: 0, rule: Rule::Keep };
        let mut remap = Self { dims: [none; MAX_RANK], rank: 0 };
        let (strides, missing) = (from.strides(), to.rank().saturating_sub(from.rank()));
        for &dim in to.order() {
            let dim = usize::from(dim);
            let own = dim.checked_sub(missing).map(|own| (from.sizes()[own], strides[own]));
            let (size, stride) = own.unwrap_or((1, 0));
            remap.add(Dim { out: to.sizes()[dim], size, stride, rule: rule(dim) });
        }
        remap
    }

    /// Adds a dimension inside of those there are.
    fn add(&mut self, dim: Dim) {
        if dim.rule == Rule::Keep && dim.out == 1 {
            return;
        }
        match self.dims[..self.rank].last_mut() {
            Some(outer)
                if outer.rule == Rule::Keep && dim.rule == Rule::Keep && outer.stride == dim.stride * dim.size =>
            {
                *outer = Dim { out: outer.out * dim.out, size: outer.size * dim.size, ..dim };
            }
            _ => {
                self.dims[self.rank] = dim;
                self.rank += 1;
            }
        }
    }

    /// Copies elements of `size` bytes; `fill` is the value outside.
    pub(crate) fn run(&self, parallel: &dyn Parallel, size: usize, from: &[u8], to: &mut [u8], fill: &[u8; 16]) {
        match size {
            1 => self.run_sized::<1>(parallel, from, to, fill),
            2 => self.run_sized::<2>(parallel, from, to, fill),
            4 => self.run_sized::<4>(parallel, from, to, fill),
            8 => self.run_sized::<8>(parallel, from, to, fill),
            _ => self.run_sized::<16>(parallel, from, to, fill),
        }
    }

    fn run_sized<const N: usize>(&self, parallel: &dyn Parallel, from: &[u8], to: &mut [u8], fill: &[u8; 16]) {
        let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        let fill = fill.first_chunk::<N>().copied().unwrap_or([0; N]);
        let Some((inner, outer)) = self.dims[..self.rank].split_last() else {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            return;
        };
        let rows = (GRAIN / inner.out.max(1)).max(1);
        let parallel = if to.len() > 2 * GRAIN { parallel } else { &Serial };
        let isa = Isa::detect();
        split::chunks(parallel, to, rows * inner.out, |task, to| {
            isa.vectorize(
                #[inline(always)]
                || {
                    for (row, to) in to.chunks_mut(inner.out.max(1)).enumerate() {
                        match source_of_row(outer, task * rows + row) {
                            Some(start) => fill_row(inner, from, start, to, fill),
                            None => to.fill(fill),
                        }
                    }
                },
            );
        });
    }
}

/// Where the source of a row starts; `None` if all of it is outside.
#[inline]
fn source_of_row(outer: &[Dim], mut row: usize) -> Option<usize> {
    let mut start = 0;
    for dim in outer.iter().rev() {
        start += dim.rule.run(row % dim.out, dim.size).from? * dim.stride;
        row /= dim.out;
    }
    Some(start)
}

/// Copies one row, run by run.
#[inline(always)]
fn fill_row<T: Copy>(dim: &Dim, from: &[T], start: usize, to: &mut [T], fill: T) {
    let mut at = 0;
    while at < to.len() {
        let run = dim.rule.run(at, dim.size);
        let part: Range<usize> = at..to.len().min(at.saturating_add(run.len));
        at = part.end;
        let part = &mut to[part];
        let Some(first) = run.from.map(|first| start + first * dim.stride) else {
            part.fill(fill);
            continue;
        };
        match (run.step, dim.stride) {
            (1, 1) => part.iter_mut().zip(&from[first..]).for_each(|(to, from)| *to = *from),
            (0, _) | (_, 0) => part.fill(from[first]),
            (1, stride) => part.iter_mut().zip(from[first..].iter().step_by(stride)).for_each(|(to, from)| *to = *from),
            (_, stride) => {
                part.iter_mut().zip(from[..=first].iter().rev().step_by(stride)).for_each(|(to, from)| *to = *from);
            }
        }
    }
}
