//! Sums, gates and functions of bytes, each element in one go.

use super::convert::rounded;
use super::{Context, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_kernels::{split, table};

/// Bytes that a task takes at a time.
const PIECE: usize = 16 * 1024;

/// How numbers become bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToBytes {
    pub(crate) scale: f32,
    pub(crate) zero: i32,
    pub(crate) limits: (i8, i8),
}

impl ToBytes {
    #[inline(always)]
    fn byte(self, steps: f32) -> i8 {
        rounded(steps, self.zero, i32::from(self.limits.0), i32::from(self.limits.1)) as i8
    }
}

/// The sum, or the difference, of two tensors of bytes.
pub(crate) struct SumBytes {
    /// Scale and zero of each; the sign of the second is in its scale.
    pub(crate) from: [(f32, i32); 2],
    pub(crate) to: ToBytes,
    /// Which of the operands is repeated, if one is, and how.
    pub(crate) repeat: Option<(usize, Repeat)>,
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

/// A sum in whole numbers, bit for bit as XNNPACK computes it: factors of 21 bits, and halves rounded up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fixed {
    factors: [i32; 2],
    start: i32,
    shift: u32,
}

impl Fixed {
    /// Nothing if a factor is not a number that fits.
    fn new(factors: [f32; 2], zeros: [i32; 2]) -> Option<Self> {
        let largest = factors[0].abs().max(factors[1].abs());
        if !factors.iter().all(|factor| factor.is_normal()) || !zeros.iter().all(|zero| (-128..128).contains(zero)) {
            return None;
        }
        let exponent = (largest.to_bits() >> 23).cast_signed() - 127;
        let shift = u32::try_from(20 - exponent).ok().filter(|shift| (1..=30).contains(shift))?;
        let factors = factors.map(|factor| (f64::from(factor) * f64::from(1u32 << shift)).round_ties_even() as i32);
        let start = (1 << (shift - 1)) - factors[0] * zeros[0] - factors[1] * zeros[1];
        Some(Self { factors, start, shift })
    }

    /// The sum in steps of the output.
    #[inline(always)]
    fn steps(self, a: i8, b: i8) -> i32 {
        (self.start + i32::from(a) * self.factors[0] + i32::from(b) * self.factors[1]) >> (self.shift & 31)
    }
}

impl SumBytes {
    /// Writes `f` of every two bytes that meet.
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
    split::chunks(context.par, output, PIECE, |piece, output: &mut [i8]| {
        let (a, b) = (&a[piece * PIECE..][..output.len()], &b[piece * PIECE..][..output.len()]);
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

impl Step for SumBytes {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let [(first, first_zero), (second, second_zero)] = self.from;
        let factors = [first / self.to.scale, second / self.to.scale];
        let ToBytes { zero, limits: (low, high), .. } = self.to;
        if let Some(fixed) = Fixed::new(factors, [first_zero, second_zero]) {
            let (low, high) = (i32::from(low), i32::from(high));
            self.each(
                context,
                buffers,
                #[inline(always)]
                // Not `clamp`, whose assertion would keep the loop from vectors.
                move |a, b| (fixed.steps(a, b) + zero).max(low).min(high) as i8,
            );
        } else {
            self.each(
                context,
                buffers,
                #[inline(always)]
                |a, b| {
                    let a = (i32::from(a) - first_zero) as f32 * factors[0];
                    let b = (i32::from(b) - second_zero) as f32 * factors[1];
                    self.to.byte(a + b)
                },
            );
        }
    }

    fn describe(&self) -> String {
        "bytes: sum".to_owned()
    }
}

/// The product of an image with a factor for each channel, all bytes.
pub(crate) struct GateBytes {
    /// Scale and zero of the image and the gate.
    pub(crate) from: [(f32, i32); 2],
    pub(crate) to: ToBytes,
    /// Which of the inputs is the gate.
    pub(crate) gate: usize,
}

impl GateBytes {
    /// Bytes of scratch: the gates of all channels, repeated until loops are long.
    pub(crate) fn scratch(channels: usize) -> Option<usize> {
        const LONG: usize = 256;
        LONG.div_ceil(channels).checked_mul(channels)?.checked_mul(size_of::<f32>())
    }
}

impl Step for GateBytes {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let image: &[i8] = elements(buffers.read(1 - self.gate));
        let gate: &[i8] = elements(buffers.read(self.gate));
        let [(scale, zero), (gate_scale, gate_zero)] = self.from;
        let factor = scale * gate_scale / self.to.scale;
        let factors: &mut [f32] = elements_mut(buffers.scratch);
        for factors in factors.chunks_exact_mut(gate.len()) {
            factors.iter_mut().zip(gate).for_each(|(f, &gate)| *f = (i32::from(gate) - gate_zero) as f32);
        }
        let factors = &*factors;
        let rows = PIECE.div_ceil(factors.len()) * factors.len();
        split::chunks(context.par, elements_mut(buffers.output), rows, |piece, output: &mut [i8]| {
            let image = &image[piece * rows..][..output.len()];
            context.isa.vectorize(
                #[inline(always)]
                || {
                    for (output, image) in output.chunks_mut(factors.len()).zip(image.chunks(factors.len())) {
                        for ((y, x), gate) in output.iter_mut().zip(image).zip(factors) {
                            // The product of two bytes is exact, and only then scaled: so it is rounded once.
                            *y = self.to.byte((i32::from(*x) - zero) as f32 * gate * factor);
                        }
                    }
                },
            );
        });
    }

    fn describe(&self) -> String {
        "bytes: gate".to_owned()
    }
}

/// A function of each byte.
pub(crate) struct MapBytes {
    pub(crate) table: Box<[u8; 256]>,
    /// The function in words.
    pub(crate) what: String,
}

impl Step for MapBytes {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        table::look_up(context.isa, context.par, &self.table, buffers.read(0), buffers.output);
    }

    fn describe(&self) -> String {
        format!("bytes: table of {}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_to_even_within_limits() {
        let to = ToBytes { scale: 0.5, zero: -3, limits: (-10, 20) };
        for (steps, expected) in [(0.5, -3), (1.5, -1), (-100.0, -10), (100.0, 20), (4.4, 1)] {
            assert_eq!(to.byte(steps), expected, "{steps}");
        }
    }

    /// Factors, bytes and steps of a residual sum where the nearest even number would be another one.
    #[test]
    fn sums_are_those_of_whole_numbers() {
        let fixed = Fixed::new([1.5, -0.25], [0, 0]).unwrap();
        assert_eq!(fixed, Fixed { factors: [3 << 19, -(1 << 18)], start: 1 << 19, shift: 20 });
        // 4.5 and -4.5 go up.
        assert_eq!((fixed.steps(3, 0), fixed.steps(-3, 0), fixed.steps(1, 2)), (5, -4, 1));
        let zeros = Fixed::new([1.5, -0.25], [-7, 5]).unwrap();
        assert_eq!((zeros.steps(-4, 5), zeros.steps(-7, 1)), (5, 1));
        assert!(Fixed::new([f32::INFINITY, 1.0], [0, 0]).is_none());
        assert!(Fixed::new([1e-5, 1e-6], [0, 0]).is_none());
        assert!(Fixed::new([1.0, 0.0], [0, 0]).is_none());
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
