//! Bytes of quantised nets, one by one: how numbers become bytes, and what follows a product of bytes, a function or the sum with
//! other bytes.
//!
//! Products hand over a few rows at a time, while these are in the nearest cache.

#![allow(unsafe_code, reason = "calls of vector instructions")]

mod make;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use make::{Gate, Rounding, gate, quantize};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Limited;

use crate::isa::Isa;
use crate::table::{self, Table};

/// What follows.
#[derive(Clone, Copy, Debug)]
pub enum Tail<'a> {
    /// Nothing.
    Nothing,
    /// A function, as its values for all bytes.
    LookUp(&'a Table),
    /// Each byte is the first operand of a sum; the second ones are as many as the output has.
    Add(Sum, &'a [i8]),
}

impl Tail<'_> {
    /// Panics unless this can follow on n bytes.
    pub(crate) fn check(&self, output: usize) {
        if let Self::Add(_, others) = self {
            assert_eq!(others.len(), output, "bytes to add to an output");
        }
    }

    /// Takes the step on some bytes of the output, of which this is the place of the first.
    pub(crate) fn take(&self, isa: Isa, at: usize, output: &mut [i8]) {
        match self {
            Self::Nothing => {}
            Self::LookUp(table) => table::look_up_in_place(isa, table, output),
            Self::Add(sum, others) => sum.add_to(isa, &others[at..][..output.len()], output),
        }
    }
}

/// A sum of two bytes in whole numbers, bit for bit as XNNPACK computes it: factors of 21 bits, and halves rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    factors: [i32; 2],
    start: i32,
    shift: u32,
    zero: i32,
    limits: (i32, i32),
}

impl Sum {
    /// The sum of operands with these factors, from their steps to those of the result, and zeros, to a result with this zero
    /// and these limits. Nothing if a factor is not a number that fits.
    pub fn new(factors: [f32; 2], zeros: [i32; 2], zero: i8, limits: (i8, i8)) -> Option<Self> {
        let largest = factors[0].abs().max(factors[1].abs());
        if !factors.iter().all(|factor| factor.is_normal()) || !zeros.iter().all(|zero| (-128..128).contains(zero)) {
            return None;
        }
        let exponent = (largest.to_bits() >> 23).cast_signed() - 127;
        let shift = u32::try_from(20 - exponent).ok().filter(|shift| (1..=30).contains(shift))?;
        let whole = |factor: f32| libm::rint(f64::from(factor) * f64::from(1u32 << shift)) as i32;
        let factors = factors.map(whole);
        let start = (1 << (shift - 1)) - factors[0] * zeros[0] - factors[1] * zeros[1];
        Some(Self { factors, start, shift, zero: zero.into(), limits: (limits.0.into(), limits.1.into()) })
    }

    /// The same sum of swapped operands.
    pub fn swapped(self) -> Self {
        let [first, second] = self.factors;
        Self { factors: [second, first], ..self }
    }

    /// Writes the sums of bytes that meet.
    pub fn add(self, isa: Isa, a: &[i8], b: &[i8], output: &mut [i8]) {
        assert!(a.len() == output.len() && b.len() == output.len(), "two operands and their sum");
        #[cfg(target_arch = "x86_64")]
        if let Isa::Avx512(_) | Isa::Vnni(_) = isa {
            // SAFETY: the token stands for the instructions, and there are as many bytes of each.
            return unsafe { x86::add(self, a.as_ptr(), b.as_ptr(), output.as_mut_ptr(), output.len()) };
        }
        isa.vectorize(
            #[inline(always)]
            || output.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum = self.byte(*a, *b)),
        );
    }

    /// Replaces each byte by its sum with another.
    fn add_to(self, isa: Isa, others: &[i8], bytes: &mut [i8]) {
        assert_eq!(others.len(), bytes.len(), "two operands of a sum");
        #[cfg(target_arch = "x86_64")]
        if let Isa::Avx512(_) | Isa::Vnni(_) = isa {
            let own = bytes.as_mut_ptr();
            // SAFETY: the token stands for the instructions, and there are as many bytes of each.
            return unsafe { x86::add(self, own, others.as_ptr(), own, bytes.len()) };
        }
        isa.vectorize(
            #[inline(always)]
            || bytes.iter_mut().zip(others).for_each(|(byte, other)| *byte = self.byte(*byte, *other)),
        );
    }

    /// The sum, in steps of the result.
    #[inline(always)]
    fn steps(self, a: i8, b: i8) -> i32 {
        (self.start + i32::from(a) * self.factors[0] + i32::from(b) * self.factors[1]) >> (self.shift & 31)
    }

    /// The sum.
    #[inline(always)]
    pub fn byte(self, a: i8, b: i8) -> i8 {
        // Not `clamp`, whose assertion would keep loops from vectors.
        (self.steps(a, b) + self.zero).max(self.limits.0).min(self.limits.1) as i8
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table without order.
    const TABLE: Table = {
        let (mut table, mut index) = ([0; 256], 0);
        while index < 256 {
            table[index] = (index * 91 + 7) as u8;
            index += 1;
        }
        table
    };

    /// All that can follow a product, with what then becomes of the bytes that it makes alone.
    pub(crate) fn with_tails<'a>(bytes: &[i8], others: &'a [i8]) -> [(Tail<'a>, Vec<i8>); 3] {
        let sum = Sum::new([0.71, 0.33], [3, -5], 2, (-100, 120)).unwrap();
        let found = bytes.iter().map(|byte| TABLE[usize::from(byte.cast_unsigned())].cast_signed()).collect();
        let added = bytes.iter().zip(others).map(|(a, b)| sum.byte(*a, *b)).collect();
        [(Tail::Nothing, bytes.to_vec()), (Tail::LookUp(&TABLE), found), (Tail::Add(sum, others), added)]
    }

    const FULL: (i8, i8) = (i8::MIN, i8::MAX);

    /// Factors, bytes and steps of a residual sum where the nearest even number would be another one.
    #[test]
    fn sums_are_those_of_whole_numbers() {
        let sum = Sum::new([1.5, -0.25], [0, 0], 0, FULL).unwrap();
        assert_eq!((sum.factors, sum.start, sum.shift), ([3 << 19, -(1 << 18)], 1 << 19, 20));
        // 4.5 and -4.5 go up.
        assert_eq!((sum.steps(3, 0), sum.steps(-3, 0), sum.steps(1, 2)), (5, -4, 1));
        assert_eq!(sum.swapped().steps(2, 1), 1);
        let zeros = Sum::new([1.5, -0.25], [-7, 5], 0, FULL).unwrap();
        assert_eq!((zeros.steps(-4, 5), zeros.steps(-7, 1)), (5, 1));
        let limited = Sum::new([1.0, 1.0], [0, 0], 3, (-10, 20)).unwrap();
        assert_eq!((limited.byte(2, 4), limited.byte(100, 100), limited.byte(-9, -9)), (9, 20, -10));
        assert!(Sum::new([f32::INFINITY, 1.0], [0, 0], 0, FULL).is_none());
        assert!(Sum::new([1e-5, 1e-6], [0, 0], 0, FULL).is_none());
        assert!(Sum::new([1.0, 0.0], [0, 0], 0, FULL).is_none());
    }

    #[test]
    fn sums_of_slices_are_those_of_bytes() {
        let (a, b): (Vec<i8>, Vec<i8>) = (0..500).map(|i: i32| ((i * 37) as i8, (i * 101 + 5) as i8)).unzip();
        for (zero, limits) in [(0, FULL), (-128, FULL), (9, (-40, 100))] {
            let sum = Sum::new([0.93, -0.41], [-100, 7], zero, limits).unwrap();
            for len in [0, 1, 63, 64, 65, 500] {
                let (a, b) = (&a[..len], &b[..len]);
                let expected: Vec<i8> = a.iter().zip(b).map(|(a, b)| sum.byte(*a, *b)).collect();
                for isa in Isa::available() {
                    let (mut output, mut own) = (vec![3; len], a.to_vec());
                    sum.add(isa, a, b, &mut output);
                    sum.add_to(isa, b, &mut own);
                    assert!(output == expected && own == expected, "{len} bytes on {isa:?}");
                }
            }
        }
    }

    #[test]
    fn steps_are_taken_from_their_place_on() {
        let sum = Sum::new([1.0, 1.0], [0, 0], 0, FULL).unwrap();
        let table: Table = core::array::from_fn(|index| (index as u8).wrapping_add(1));
        let others: Vec<i8> = (0..100).collect();
        for isa in Isa::available() {
            let mut bytes = [5i8; 70];
            Tail::Nothing.take(isa, 0, &mut bytes);
            assert_eq!(bytes, [5; 70]);
            Tail::LookUp(&table).take(isa, 30, &mut bytes);
            assert_eq!(bytes, [6; 70]);
            Tail::Add(sum, &others).take(isa, 30, &mut bytes);
            assert!(bytes.iter().zip(30..).all(|(byte, other)| *byte == 6 + other));
        }
    }
}
