//! The same numbers as other elements.
//!
//! Numbers go through `float32`, piece by piece in the nearest cache. Rows that find their scale at run time are stored as
//! a scale and a zero per row, then the integers of all rows.

use super::{Context, Step, elements, elements_mut};
use crate::memory::Buffers;
use half::{bf16, f16};
use sconce_kernels::math::ROUND;
use sconce_kernels::{Isa, Number, convert, split};

/// Elements that are converted at a time.
const PIECE: usize = 1024;
/// Bytes before the integers of dynamically quantised rows, per row.
pub(crate) const ROW_HEAD: usize = 8;

/// What elements are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Float,
    Half,
    BFloat16,
    /// Signed bytes with scale and zero.
    Int8(f32, i32),
    /// Unsigned bytes with scale and zero.
    UInt8(f32, i32),
    /// Words with scale and zero.
    Int32(f32, i32),
    /// Rows of signed bytes, each with its scale and zero.
    Rows(usize),
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Self::Float | Self::Int32(..) => 4,
            Self::Half | Self::BFloat16 => 2,
            Self::Int8(..) | Self::UInt8(..) | Self::Rows(_) => 1,
        }
    }
}

/// A conversion.
pub(crate) struct Convert {
    pub(crate) from: Kind,
    pub(crate) to: Kind,
}

impl Step for Convert {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (input, size) = (buffers.read(0), self.to.bytes());
        let isa = context.isa;
        if let Kind::Rows(row) = self.to {
            return quantize_rows(context, self.from, row, input, buffers.output);
        }
        split::chunks(context.par, buffers.output, PIECE * size, |piece, output| {
            let mut numbers = [0.0; PIECE];
            let numbers = &mut numbers[..output.len() / size];
            widen(isa, self.from, piece * PIECE, input, numbers);
            narrow(isa, self.to, numbers, output);
        });
    }

    fn describe(&self) -> String {
        format!("{:?} to {:?}", self.from, self.to)
    }
}

/// Reads numbers from element `at` on.
fn widen(isa: Isa, kind: Kind, at: usize, input: &[u8], numbers: &mut [f32]) {
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
            each(isa, &elements::<i8>(input)[at..], numbers, |q| (i32::from(q) - zero) as f32 * scale);
        }
        Kind::UInt8(scale, zero) => each(isa, &input[at..], numbers, |q| (i32::from(q) - zero) as f32 * scale),
        Kind::Int32(scale, zero) => {
            each(isa, &elements::<i32>(input)[at..], numbers, |q| q.wrapping_sub(zero) as f32 * scale);
        }
        Kind::Rows(row) => {
            let rows = input.len() / (row + ROW_HEAD);
            let (heads, integers) = input.split_at(rows * ROW_HEAD);
            let heads: &[u8] = heads;
            for (i, number) in numbers.iter_mut().enumerate() {
                let (scale, zero) = head(heads, (at + i) / row);
                *number = (i32::from(integers[at + i].cast_signed()) - zero) as f32 * scale;
            }
        }
    }
}

/// Scale and zero of a row.
pub(crate) fn head(heads: &[u8], row: usize) -> (f32, i32) {
    let word = |place: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&heads[row * ROW_HEAD + place..][..4]);
        bytes
    };
    (f32::from_ne_bytes(word(0)), i32::from_ne_bytes(word(4)))
}

/// Writes numbers as other elements.
fn narrow(isa: Isa, kind: Kind, numbers: &[f32], output: &mut [u8]) {
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
            each(isa, numbers, elements_mut::<i8>(output), |x| rounded(x * inverse, zero, -128, 127) as i8);
        }
        Kind::UInt8(scale, zero) => {
            let inverse = 1.0 / scale;
            each(isa, numbers, output, |x| rounded(x * inverse, zero, 0, 255) as u8);
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

/// The nearest integer (ties to even) plus `zero`, limited to `low..=high`.
#[inline(always)]
pub(crate) fn rounded(x: f32, zero: i32, low: i32, high: i32) -> i32 {
    let (least, most) = ((low - zero) as f32, (high - zero) as f32);
    let x = if x < least { least } else { x };
    let x = if x > most { most } else { x };
    (((x + ROUND) - ROUND) as i32) + zero
}

/// Quantises rows, each to its own range.
fn quantize_rows(context: &Context<'_>, from: Kind, row: usize, input: &[u8], output: &mut [u8]) {
    let rows = output.len() / (row + ROW_HEAD).max(1);
    let (heads, integers) = output.split_at_mut(rows * ROW_HEAD);
    for (index, integers) in integers.chunks_exact_mut(row.max(1)).enumerate() {
        let mut numbers = vec![0.0; row];
        widen(context.isa, from, index * row, input, &mut numbers);
        let (inverse, zero) = row_parameters(&numbers);
        let head = &mut heads[index * ROW_HEAD..][..ROW_HEAD];
        head[..4].copy_from_slice(&(1.0 / inverse).to_ne_bytes());
        head[4..].copy_from_slice(&zero.to_ne_bytes());
        for (to, x) in elements_mut::<i8>(integers).iter_mut().zip(&numbers) {
            *to = rounded(x * inverse, zero, -128, 127) as i8;
        }
    }
}

/// How many steps make one, and which integer stands for zero, so that a row's range (and zero) just fits.
pub(crate) fn row_parameters(numbers: &[f32]) -> (f32, i32) {
    let low = numbers.iter().fold(0.0f32, |low, x| low.min(*x));
    let high = numbers.iter().fold(0.0f32, |high, x| high.max(*x));
    if low == high {
        return (1.0, zero_point(-128.0));
    }
    let inverse = 255.0 / (high - low);
    let (from_low, from_high) = (low * inverse, high * inverse);
    let below = (-128.0 + from_low) + (127.0 + from_high) > 0.0;
    (inverse, zero_point(if below { -128.0 - from_low } else { 127.0 - from_high }))
}

fn zero_point(x: f32) -> i32 {
    rounded(x, 0, -128, 127)
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

    #[test]
    fn a_row_fits_its_range() {
        let (inverse, zero) = row_parameters(&[-1.0, 0.5, 3.0]);
        assert_eq!(inverse, 255.0 / 4.0);
        assert_eq!(zero, rounded(-128.0 + 255.0 / 4.0, 0, -128, 127));
        assert_eq!(row_parameters(&[0.0, 0.0]), (1.0, -128));
        let (inverse, zero) = row_parameters(&[2.0, 1.0]);
        assert_eq!((inverse, zero), (127.5, -128));
    }
}
