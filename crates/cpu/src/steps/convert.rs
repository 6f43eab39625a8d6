//! Conversions between element types.
//!
//! Elements go through `float32`, piece by piece in the nearest cache. Rows that find their scale at run time are stored as
//! a scale and a zero per row, then the integers of all rows.

use super::{After, Context, Following, Step, combine, elements, elements_mut};
use crate::memory::Buffers;
use crate::weights::element_count;
use half::{bf16, f16};
use sconce_format::ScalarType;
use sconce_graph::{Combine, Element, Quantized, Scheme, Storage};
use sconce_kernels::bytes::{self, Rounding};
use sconce_kernels::epilogue::finish;
use sconce_kernels::math::ROUND;
use sconce_kernels::packed::int8::{Affine, quantize_rows};
use sconce_kernels::{Isa, Number, convert, split};

/// Elements that are converted at a time.
const PIECE: usize = 1024;
/// The same where they are written only once.
const LONG_PIECE: usize = 32 * 1024;
/// Bytes before the integers of dynamically quantised rows, per row.
pub(crate) const ROW_HEAD: usize = 8;

/// What elements are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Float,
    Half,
    BFloat16,
    /// int8 with scale and zero.
    Int8(f32, i32),
    /// uint8 with scale and zero.
    UInt8(f32, i32),
    /// int32 with scale and zero.
    Int32(f32, i32),
    /// Rows of int8, each with its scale and zero.
    Rows(usize),
}

impl Kind {
    /// What the elements of a value of these sizes are, if they can be converted.
    pub(crate) fn of(element: &Element, sizes: &[usize]) -> Option<Self> {
        match element {
            Element::Plain(ScalarType::Float) => Some(Self::Float),
            Element::Plain(ScalarType::Half) => Some(Self::Half),
            Element::Plain(ScalarType::BFloat16) => Some(Self::BFloat16),
            Element::Plain(_) => None,
            Element::Quantized(Quantized { storage, scheme }) => match (storage, scheme) {
                (Storage::Int8, Scheme::PerTensor { scale, zero }) => Some(Self::Int8(*scale, *zero)),
                (Storage::UInt8, Scheme::PerTensor { scale, zero }) => Some(Self::UInt8(*scale, *zero)),
                (Storage::Int32, Scheme::PerTensor { scale, zero }) => Some(Self::Int32(*scale, *zero)),
                (Storage::Int8, Scheme::PerToken { dims }) => {
                    Some(Self::Rows(element_count(&sizes[sizes.len().checked_sub(*dims)?..])?))
                }
                _ => None,
            },
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Float | Self::Int32(..) => 4,
            Self::Half | Self::BFloat16 => 2,
            Self::Int8(..) | Self::UInt8(..) | Self::Rows(_) => 1,
        }
    }
}

/// A conversion, perhaps with functions on the way, of `float32`.
pub(crate) struct Convert {
    pub(crate) from: Kind,
    pub(crate) to: Kind,
    pub(crate) after: Vec<After>,
}

impl Step for Convert {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (isa, par, input, size) = (context.isa, context.par, buffers.read(0), self.to.bytes());
        if let Kind::Rows(row) = self.to {
            let rows = input.len() / size_of::<f32>() / row.max(1);
            let (heads, bytes) = buffers.output.split_at_mut(rows * ROW_HEAD);
            return quantize_rows(isa, par, elements(input), row, elements_mut(bytes), elements_mut(heads));
        }
        let then = Following::new(&self.after, &buffers);
        if let (Kind::Float, Kind::Int8(scale, zero), true) = (self.from, self.to, then.is_empty())
            && let Ok(zero) = i8::try_from(zero)
        {
            let (input, output, factor): (&[f32], _, _) = (elements(input), elements_mut(buffers.output), 1.0 / scale);
            let piece = split::piece(par, output.len(), 1, LONG_PIECE);
            return split::chunks(par, output, piece, |index, output: &mut [i8]| {
                let input = &input[index * piece..][..output.len()];
                bytes::quantize(isa, input, factor, Rounding { zero, limits: (i8::MIN, i8::MAX) }, output);
            });
        }
        split::chunks(par, buffers.output, PIECE * size, |piece, output| {
            let mut numbers = [0.0; PIECE];
            let numbers = &mut numbers[..output.len() / size];
            widen(isa, self.from, piece * PIECE, input, numbers);
            finish(isa, &then, piece * PIECE, numbers);
            narrow(isa, self.to, numbers, output);
        });
    }

    fn describe(&self) -> String {
        format!("{:?} to {:?}", self.from, self.to)
    }
}

/// The table of a conversion from int8 to int8 with functions on the way, or nothing if it is another.
pub(crate) fn table(isa: Isa, from: Kind, to: Kind, after: &[After]) -> Option<[u8; 256]> {
    let mut table = [0; 256];
    narrow(isa, to, &images(isa, from, to, after)?, &mut table);
    Some(table)
}

/// The table of an operation on int8, as XNNPACK makes it: the zero of the result is added before a number is rounded.
pub(crate) fn table_of_int8(isa: Isa, from: Kind, to: Kind, after: &[After]) -> Option<[u8; 256]> {
    let (numbers, Kind::Int8(scale, zero)) = (images(isa, from, to, after)?, to) else { return None };
    let inverse = 1.0 / scale;
    Some(numbers.map(|number| (rounded(number * inverse + zero as f32, 0, -128, 127) as i8).cast_unsigned()))
}

/// The `float32` that each int8 becomes.
fn images(isa: Isa, from: Kind, to: Kind, after: &[After]) -> Option<[f32; 256]> {
    let functions = after.iter().all(|after| matches!(after, After::Apply(_)));
    let (Kind::Int8(..), Kind::Int8(..), true) = (from, to, functions) else { return None };
    let bytes: [u8; 256] = std::array::from_fn(|index| index as u8);
    let mut numbers = [0.0; 256];
    widen(isa, from, 0, &bytes, &mut numbers);
    finish(isa, &Following::functions(after), 0, &mut numbers);
    Some(numbers)
}

/// A function of two elements of any kind, side by side.
pub(crate) struct CombineKinds {
    pub(crate) combine: Combine,
    pub(crate) from: [Kind; 2],
    pub(crate) to: Kind,
    pub(crate) after: Vec<After>,
}

impl Step for CombineKinds {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (isa, inputs, size) = (context.isa, [buffers.read(0), buffers.read(1)], self.to.bytes());
        let then = Following::new(&self.after, &buffers);
        split::chunks(context.par, buffers.output, PIECE * size, |piece, output| {
            let mut numbers = [[0.0; PIECE]; 2];
            let count = output.len() / size;
            for ((numbers, kind), input) in numbers.iter_mut().zip(self.from).zip(inputs) {
                widen(isa, kind, piece * PIECE, input, &mut numbers[..count]);
            }
            let [first, second] = &mut numbers;
            combine(isa, self.combine, &mut first[..count], &second[..count]);
            finish(isa, &then, piece * PIECE, &mut first[..count]);
            narrow(isa, self.to, &first[..count], output);
        });
    }

    fn describe(&self) -> String {
        format!("{} of {:?} to {:?}", self.combine, self.from, self.to)
    }
}

/// The sum or the mean of int8 along adjacent dimensions, seen as `[outer, n, inner]`. With nothing but limits after
/// it, the zero of the result is added before the number is rounded, as XNNPACK does: it decides where halves go.
pub(crate) struct ReduceInt8 {
    pub(crate) mean: bool,
    pub(crate) n: usize,
    pub(crate) inner: usize,
    /// Scale and zero.
    pub(crate) from: (f32, i32),
    pub(crate) to: Kind,
    pub(crate) after: Vec<After>,
    /// The limits, if nothing else follows.
    pub(crate) limits: Option<(i8, i8)>,
}

impl ReduceInt8 {
    /// What a sum is multiplied by, and what is added then: for int8, which is rounded, or for `float32`.
    fn line(&self) -> (f32, f32) {
        let parts = if self.mean { self.n as f32 } else { 1.0 };
        let zeros = (self.n as i32 * self.from.1) as f32;
        match (self.to, self.limits) {
            (Kind::Int8(scale, zero), Some(_)) => {
                let factor = self.from.0 / scale / parts;
                (factor, zero as f32 - zeros * factor)
            }
            _ => (self.from.0 / parts, 0.0),
        }
    }
}

impl Step for ReduceInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        const STRIP: usize = 128;
        let (isa, input) = (context.isa, elements::<i8>(buffers.read(0)));
        let then = Following::new(&self.after, &buffers);
        let (factor, shift) = self.line();
        let zeros = if self.limits.is_some() { 0 } else { self.n as i32 * self.from.1 };
        split::chunks(context.par, buffers.output, self.inner, |outer, output| {
            let input = &input[outer * self.n * self.inner..][..self.n * self.inner];
            for (strip, output) in output.chunks_mut(STRIP).enumerate() {
                let (mut sums, mut numbers) = ([0; STRIP], [0.0; STRIP]);
                isa.vectorize(
                    #[inline(always)]
                    || {
                        let (mut at, mut rest) = (strip * STRIP, &mut sums[..output.len()]);
                        for add in [add_rows::<64>, add_rows::<16>, add_rows::<1>] {
                            let done = add(input, self.inner, at, rest);
                            (at, rest) = (at + done, &mut core::mem::take(&mut rest)[done..]);
                        }
                        numbers
                            .iter_mut()
                            .zip(sums)
                            .for_each(|(number, sum)| *number = (sum - zeros) as f32 * factor + shift);
                    },
                );
                let numbers = &mut numbers[..output.len()];
                if let Some((low, high)) = self.limits {
                    let output = elements_mut::<i8>(output).iter_mut();
                    output.zip(numbers).for_each(|(y, x)| *y = rounded(*x, 0, low.into(), high.into()) as i8);
                    continue;
                }
                finish(isa, &then, outer * self.inner + strip * STRIP, numbers);
                narrow(isa, self.to, numbers, output);
            }
        });
    }

    fn describe(&self) -> String {
        format!("{} of {} bytes", if self.mean { "mean" } else { "sum" }, self.n)
    }
}

/// Sums of columns, from column `first` on, over rows of `inner`: `W` at a time, which stay in registers. How many there were.
#[inline(always)]
fn add_rows<const W: usize>(input: &[i8], inner: usize, first: usize, sums: &mut [i32]) -> usize {
    let blocks = sums.as_chunks_mut::<W>().0;
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut all = [0; W];
        for row in input.chunks_exact(inner) {
            let part = row[first + i * W..].first_chunk().unwrap_or(&[0; W]);
            for (sum, x) in all.iter_mut().zip(part) {
                *sum += i32::from(*x);
            }
        }
        *block = all;
    }
    blocks.len() * W
}

/// Reads elements as `float32`, from element `at` on.
fn widen(isa: Isa, kind: Kind, at: usize, input: &[u8], numbers: &mut [f32]) {
    #[inline(always)]
    fn each<T: Copy>(isa: Isa, from: &[T], to: &mut [f32], f: impl Fn(T) -> f32) {
        let from = &from[..to.len()];
        isa.vectorize(
            #[inline(always)]
            || to.iter_mut().zip(from).for_each(|(to, from)| *to = f(*from)),
        );
    }
    match kind {
        Kind::Float => numbers.copy_from_slice(&elements(input)[at..][..numbers.len()]),
        Kind::Half => each(isa, &elements::<f16>(input)[at..], numbers, convert),
        Kind::BFloat16 => each(isa, &elements::<bf16>(input)[at..], numbers, convert),
        Kind::Int8(scale, zero) => {
            each(
                isa,
                &elements::<i8>(input)[at..],
                numbers,
                #[inline(always)]
                |q| i32::from(q).wrapping_sub(zero) as f32 * scale,
            );
        }
        Kind::UInt8(scale, zero) => each(
            isa,
            &input[at..],
            numbers,
            #[inline(always)]
            |q| i32::from(q).wrapping_sub(zero) as f32 * scale,
        ),
        Kind::Int32(scale, zero) => {
            each(isa, &elements::<i32>(input)[at..], numbers, |q| q.wrapping_sub(zero) as f32 * scale);
        }
        Kind::Rows(row) => {
            let (heads, bytes) = input.split_at(input.len() / (row + ROW_HEAD) * ROW_HEAD);
            let (heads, bytes): (&[Affine], &[i8]) = (elements(heads), elements(bytes));
            for (i, number) in (at..).zip(numbers) {
                let Affine { scale, zero } = heads[i / row];
                *number = (i32::from(bytes[i]) - zero) as f32 * scale;
            }
        }
    }
}

/// Writes `float32` as other elements.
pub(super) fn narrow(isa: Isa, kind: Kind, numbers: &[f32], output: &mut [u8]) {
    #[inline(always)]
    fn each<T: Copy>(isa: Isa, from: &[f32], to: &mut [T], f: impl Fn(f32) -> T) {
        isa.vectorize(
            #[inline(always)]
            || to.iter_mut().zip(from).for_each(|(to, from)| *to = f(*from)),
        );
    }
    match kind {
        Kind::Float => elements_mut(output).copy_from_slice(numbers),
        Kind::Half => each(isa, numbers, elements_mut::<f16>(output), convert),
        Kind::BFloat16 => each(isa, numbers, elements_mut::<bf16>(output), convert),
        Kind::Int8(scale, zero) => {
            let inverse = 1.0 / scale;
            each(
                isa,
                numbers,
                elements_mut::<i8>(output),
                #[inline(always)]
                |x| rounded(x * inverse, zero, -128, 127) as i8,
            );
        }
        Kind::UInt8(scale, zero) => {
            let inverse = 1.0 / scale;
            each(
                isa,
                numbers,
                output,
                #[inline(always)]
                |x| rounded(x * inverse, zero, 0, 255) as u8,
            );
        }
        Kind::Int32(scale, zero) => {
            let inverse = 1.0 / f64::from(scale);
            each(isa, numbers, elements_mut::<i32>(output), |x| {
                let whole: i64 = convert(Number::to_f64(x) * inverse);
                whole.saturating_add(i64::from(zero)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
            });
        }
        Kind::Rows(_) => {}
    }
}

/// The nearest integer (ties to even) plus `zero`, limited to `low..=high`, a range of 256 numbers at most.
#[inline(always)]
pub(super) fn rounded(x: f32, zero: i32, low: i32, high: i32) -> i32 {
    let (least, most) = (low.wrapping_sub(zero) as f32, high.wrapping_sub(zero) as f32);
    let x = if x < least { least } else { x };
    let x = if x > most { most } else { x };
    // Whole numbers are one apart where the sum lies, so its bits count from those of `ROUND`.
    ((x + ROUND).to_bits().wrapping_sub(ROUND.to_bits())).cast_signed().wrapping_add(zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_to_even_and_stays_in_range() {
        let cases = [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (200.0, 127), (-200.0, -128)];
        for (x, expected) in cases {
            assert_eq!(rounded(x, 0, -128, 127), expected, "{x}");
        }
        assert_eq!(rounded(1e30, 5, 0, 255), 255);
        assert_eq!(rounded(-3.0, 5, 0, 255), 2);
    }
}
