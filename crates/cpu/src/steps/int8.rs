//! Sums, gates and functions of int8, each element in one go.

use super::convert::rounded;
use super::{Context, Kind, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_kernels::bytes::{self, Gate, Rounding, Sum};
use sconce_kernels::split;
use sconce_kernels::table::{self, Table};

/// Elements that a task takes at a time.
const PIECE: usize = 16 * 1024;

/// Scale and rounding of an int8 result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToInt8 {
    pub(crate) scale: f32,
    pub(crate) rounding: Rounding,
}

impl ToInt8 {
    #[inline(always)]
    fn byte(self, steps: f32) -> i8 {
        let Rounding { zero, limits: (low, high) } = self.rounding;
        rounded(steps, zero.into(), low.into(), high.into()) as i8
    }
}

/// The sum, or the difference, of two tensors of int8.
pub(crate) struct SumInt8 {
    /// Factor, to steps of the result, and zero of each.
    from: [(f32, i32); 2],
    to: ToInt8,
    /// The same in integer arithmetic, if that can be.
    whole: Option<Sum>,
    /// Which of the operands is repeated, if one is, and how.
    repeat: Option<(usize, Repeat)>,
}

/// How a tensor of `[outer, inner]` elements becomes one of `[outer, times, inner]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Repeat {
    pub(crate) times: usize,
    pub(crate) inner: usize,
}

impl Repeat {
    /// How a tensor is repeated until it is of these sizes, if that takes one group of dimensions.
    pub(crate) fn of(sizes: &[usize], whole: &[usize]) -> Option<Self> {
        let missing = whole.len().checked_sub(sizes.len())?;
        let size = |dim: usize| dim.checked_sub(missing).map_or(1, |dim| sizes[dim]);
        let repeated = |dim: &usize| size(*dim) == 1 && whole[*dim] != 1;
        let kept = |dim: usize| size(dim) == whole[dim];
        let first = (0..whole.len()).find(repeated).unwrap_or(whole.len());
        let last = (0..whole.len()).rfind(repeated).map_or(first, |last| last + 1);
        let together = (first..last).all(|dim| size(dim) == 1);
        let others = (0..first).chain(last..whole.len()).all(kept);
        let count = |sizes: &[usize]| sizes.iter().product();
        (together && others).then(|| Self { times: count(&whole[first..last]), inner: count(&whole[last..]) })
    }
}

impl SumInt8 {
    /// Of operands with these scales and zeros; the sign of the second is in its scale.
    pub(crate) fn new(from: [(f32, i32); 2], to: ToInt8, repeat: Option<(usize, Repeat)>) -> Self {
        let from = from.map(|(scale, zero)| (scale / to.scale, zero));
        let Rounding { zero, limits } = to.rounding;
        let whole = Sum::new(from.map(|(factor, _)| factor), from.map(|(_, zero)| zero), zero, limits);
        Self { from, to, whole, repeat }
    }

    /// The sum in integer arithmetic of operands of the same sizes, if it is one.
    pub(crate) fn plain(&self) -> Option<Sum> {
        self.whole.filter(|_| self.repeat.is_none())
    }

    /// Writes `f` of every two elements that meet.
    #[inline(always)]
    fn each(&self, context: &Context<'_>, buffers: Buffers<'_>, f: impl Fn(i8, i8) -> i8 + Sync) {
        let (a, b): (&[i8], &[i8]) = (elements(buffers.read(0)), elements(buffers.read(1)));
        match self.repeat {
            None => pairs(context, a, b, elements_mut(buffers.output), f),
            Some((0, repeat)) => repeated(
                context,
                b,
                a,
                repeat,
                elements_mut(buffers.output),
                #[inline(always)]
                |b, a| f(a, b),
            ),
            Some((_, repeat)) => repeated(context, a, b, repeat, elements_mut(buffers.output), f),
        }
    }
}

#[inline(always)]
fn pairs(context: &Context<'_>, a: &[i8], b: &[i8], output: &mut [i8], f: impl Fn(i8, i8) -> i8 + Sync) {
    let piece = split::piece(context.par, output.len(), 1, PIECE);
    split::chunks(context.par, output, piece, |index, output: &mut [i8]| {
        let (a, b) = (&a[index * piece..][..output.len()], &b[index * piece..][..output.len()]);
        context.isa.vectorize(
            #[inline(always)]
            || {
                for ((y, a), b) in output.iter_mut().zip(a).zip(b) {
                    *y = f(*a, *b);
                }
            },
        );
    });
}

/// Like [`pairs`], with a second operand that is repeated.
#[inline(always)]
fn repeated(
    context: &Context<'_>,
    a: &[i8],
    b: &[i8],
    Repeat { times, inner }: Repeat,
    output: &mut [i8],
    f: impl Fn(i8, i8) -> i8 + Sync,
) {
    // Runs of bytes that meet a run, or a byte.
    let run = if inner == 1 { times } else { inner };
    if run == 0 {
        return;
    }
    let together = (PIECE / run).max(1);
    split::chunks(context.par, output, run * together, |task, output: &mut [i8]| {
        let first = task * together;
        let a = &a[first * run..][..output.len()];
        context.isa.vectorize(
            #[inline(always)]
            || {
                for (i, (output, a)) in output.chunks_mut(run).zip(a.chunks(run)).enumerate() {
                    let pairs = output.iter_mut().zip(a);
                    if inner == 1 {
                        let b = b[first + i];
                        for (y, a) in pairs {
                            *y = f(*a, b);
                        }
                    } else {
                        let b = &b[(first + i) / times * inner..][..inner];
                        for ((y, a), b) in pairs.zip(b) {
                            *y = f(*a, *b);
                        }
                    }
                }
            },
        );
    });
}

impl Step for SumInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        if let Some(sum) = self.plain() {
            let (a, b): (&[i8], &[i8]) = (elements(buffers.read(0)), elements(buffers.read(1)));
            let piece = split::piece(context.par, a.len(), 1, PIECE);
            return split::chunks(context.par, elements_mut(buffers.output), piece, |index, output: &mut [i8]| {
                let part = index * piece..index * piece + output.len();
                sum.add(context.isa, &a[part.clone()], &b[part], output);
            });
        }
        if let Some(sum) = self.whole {
            return self.each(
                context,
                buffers,
                #[inline(always)]
                move |a, b| sum.byte(a, b),
            );
        }
        let [(first, first_zero), (second, second_zero)] = self.from;
        self.each(
            context,
            buffers,
            #[inline(always)]
            |a, b| {
                let a = (i32::from(a) - first_zero) as f32 * first;
                let b = (i32::from(b) - second_zero) as f32 * second;
                self.to.byte(a + b)
            },
        );
    }

    fn describe(&self) -> String {
        "bytes: sum".to_owned()
    }
}

/// The product of an image with a factor for each channel, all int8.
pub(crate) struct GateInt8 {
    /// Scale and zero of the image and the gate.
    pub(crate) from: [(f32, i32); 2],
    pub(crate) to: ToInt8,
    /// Which of the inputs is the gate.
    pub(crate) gate: usize,
}

impl GateInt8 {
    /// Bytes of scratch: factors and shifts of all channels, repeated until loops are long.
    pub(crate) fn scratch(channels: usize) -> Option<usize> {
        const LONG: usize = 256;
        LONG.div_ceil(channels).checked_mul(channels)?.checked_mul(2 * size_of::<f32>())
    }
}

impl Step for GateInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let image: &[i8] = elements(buffers.read(1 - self.gate));
        let gate: &[i8] = elements(buffers.read(self.gate));
        let [(scale, zero), (gate_scale, gate_zero)] = self.from;
        let scratch: &mut [f32] = elements_mut(buffers.scratch);
        let (factors, shifts) = scratch.split_at_mut(scratch.len() / 2);
        context.isa.vectorize(
            #[inline(always)]
            || {
                for (factors, shifts) in factors.chunks_exact_mut(gate.len()).zip(shifts.chunks_exact_mut(gate.len())) {
                    for ((factor, shift), &gate) in factors.iter_mut().zip(shifts).zip(gate) {
                        let whole = i32::from(gate) - gate_zero;
                        (*factor, *shift) = (whole as f32, -(whole * zero) as f32);
                    }
                }
            },
        );
        let by = Gate { factors, shifts, scale: scale * gate_scale / self.to.scale };
        let piece = split::piece(context.par, image.len(), by.factors.len(), PIECE);
        split::chunks(context.par, elements_mut(buffers.output), piece, |index, output: &mut [i8]| {
            let image = &image[index * piece..][..output.len()];
            bytes::gate(context.isa, image, by, self.to.rounding, output);
        });
    }

    fn describe(&self) -> String {
        "bytes: gate".to_owned()
    }
}

/// A function of each element, as a table.
pub(crate) struct MapInt8 {
    pub(crate) table: Box<Table>,
    /// What it converts, for those who ask.
    pub(crate) kinds: (Kind, Kind),
}

impl Step for MapInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        table::look_up(context.isa, context.par, &self.table, buffers.read(0), buffers.output);
    }

    fn describe(&self) -> String {
        format!("bytes: table of {:?} to {:?}", self.kinds.0, self.kinds.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_to_even_within_limits() {
        let to = ToInt8 { scale: 0.5, rounding: Rounding { zero: -3, limits: (-10, 20) } };
        for (steps, expected) in [(0.5, -3), (1.5, -1), (-100.0, -10), (100.0, 20), (4.4, 1)] {
            assert_eq!(to.byte(steps), expected, "{steps}");
        }
    }

    #[test]
    fn repeats_are_one_group_of_dimensions() {
        let cases = [
            (&[3, 4][..], &[2, 3, 4][..], Some((2, 12))),
            (&[], &[2, 3], Some((6, 1))),
            (&[1, 5, 1, 4], &[1, 5, 6, 4], Some((6, 4))),
            (&[2, 1, 1], &[2, 3, 4], Some((12, 1))),
            (&[2, 3], &[2, 3], Some((1, 1))),
            (&[1, 3, 1], &[2, 3, 4], None),
            (&[2], &[3], None),
            (&[2, 3, 4], &[3, 4], None),
        ];
        for (sizes, whole, expected) in cases {
            let found = Repeat::of(sizes, whole).map(|Repeat { times, inner }| (times, inner));
            assert_eq!(found, expected, "{sizes:?} to {whole:?}");
        }
    }
}
