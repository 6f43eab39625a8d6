//! Numbers become bytes: `limits(round(number) + zero)`, ties to even.
#![allow(unsafe_code, reason = "calls of vector instructions")]

#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::gemm::clamp;
use crate::isa::Isa;
use crate::math::ROUND;

/// How numbers become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// The byte that stands for zero.
    pub zero: i8,
    /// The least and the largest byte.
    pub limits: (i8, i8),
}

impl Rounding {
    #[inline(always)]
    fn byte(self, number: f32) -> i8 {
        let limit = |limit: i8| f32::from(limit) - f32::from(self.zero);
        let number = clamp(number, (limit(self.limits.0), limit(self.limits.1)));
        // Whole numbers are one apart where the sum lies, so its lowest bits are those of the number.
        ((number + ROUND).to_bits() as i8).wrapping_add(self.zero)
    }
}

/// Makes a byte of each number, times `factor`.
pub fn quantize(isa: Isa, numbers: &[f32], factor: f32, to: Rounding, output: &mut [i8]) {
    assert_eq!(numbers.len(), output.len(), "numbers and bytes");
    #[cfg(target_arch = "x86_64")]
    if let Isa::Avx512(_) | Isa::Vnni(_) = isa {
        // SAFETY: the token stands for the instructions.
        return unsafe { x86::quantize(numbers, factor, to, output) };
    }
    isa.vectorize(
        #[inline(always)]
        || output.iter_mut().zip(numbers).for_each(|(byte, number)| *byte = to.byte(number * factor)),
    );
}

/// What bytes are multiplied by, channel by channel, before they become other bytes.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    /// Whole factors of neighbouring channels, below 2^9 in size.
    pub factors: &'a [f32],
    /// What the product of each with the zero of the image takes away: whole, and less than zero if both are positive.
    pub shifts: &'a [f32],
    /// The factor of all products.
    pub scale: f32,
}

/// Makes a byte of each byte times the factor of its channel; there are as many channels as factors.
pub fn gate(isa: Isa, image: &[i8], by: Gate<'_>, to: Rounding, output: &mut [i8]) {
    assert_eq!(image.len(), output.len(), "bytes before and after a gate");
    assert_eq!(by.factors.len(), by.shifts.len(), "factors and shifts of a gate");
    if by.factors.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // Products are below 2^18: scaled, they have to stay integers of 32 bits.
    if let (Isa::Avx512(_) | Isa::Vnni(_), true) = (isa, by.scale.abs() < 4096.0) {
        let pixels = output.chunks_mut(by.factors.len()).zip(image.chunks(by.factors.len()));
        // SAFETY: the token stands for the instructions.
        return pixels.for_each(|(output, image)| unsafe { x86::gate(image, by, to, output) });
    }
    isa.vectorize(
        #[inline(always)]
        || {
            for (output, image) in output.chunks_mut(by.factors.len()).zip(image.chunks(by.factors.len())) {
                for (((byte, x), factor), shift) in output.iter_mut().zip(image).zip(by.factors).zip(by.shifts) {
                    // The product is whole, and only then scaled: so it is rounded once.
                    *byte = to.byte((f32::from(*x) * factor + shift) * by.scale);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn naive(number: f32, to: Rounding) -> i8 {
        let rounded = number.round_ties_even() + f32::from(to.zero);
        rounded.clamp(f32::from(to.limits.0), f32::from(to.limits.1)) as i8
    }

    const ROUNDINGS: [Rounding; 3] = [
        Rounding { zero: 0, limits: (-128, 127) },
        Rounding { zero: -128, limits: (-128, 127) },
        Rounding { zero: 17, limits: (-5, 90) },
    ];

    #[test]
    fn numbers_are_rounded_and_limited() {
        let random = &mut Random::new(1);
        for (len, to) in (0..200).chain([1000]).zip(ROUNDINGS.into_iter().cycle()) {
            let mut numbers: Vec<f32> = (0..len).map(|_| (random.below(4000) as f32 - 2000.0) / 8.0).collect();
            numbers.iter_mut().zip([f32::INFINITY, -1e30, 3e9, f32::NEG_INFINITY]).for_each(|(x, far)| *x = far);
            let expected: Vec<i8> = numbers.iter().map(|x| naive(x * 2.0, to)).collect();
            for isa in Isa::available() {
                let mut output = vec![99; len];
                quantize(isa, &numbers, 2.0, to, &mut output);
                assert_eq!(output, expected, "{isa:?} {to:?}");
            }
        }
    }

    #[test]
    fn channels_have_their_factors() {
        let random = &mut Random::new(2);
        for (channels, to) in [1, 8, 63, 64, 65, 72, 130, 240].into_iter().zip(ROUNDINGS.into_iter().cycle()) {
            let zeros = (random.below(256) as i32 - 128, random.below(256) as i32 - 128);
            let gates: Vec<i32> = (0..channels).map(|_| random.below(256) as i32 - 128 - zeros.1).collect();
            let image: Vec<i8> = (0..channels * 5).map(|_| random.below(256) as u8 as i8).collect();
            let factors: Vec<f32> = gates.iter().map(|gate| *gate as f32).collect();
            let shifts: Vec<f32> = gates.iter().map(|gate| -(gate * zeros.0) as f32).collect();
            for scale in [1.0 / 512.0, 0.0043, 1e7] {
                let whole = |(i, x): (usize, &i8)| (i32::from(*x) - zeros.0) * gates[i % channels];
                let expected: Vec<i8> =
                    image.iter().enumerate().map(|at| naive(whole(at) as f32 * scale, to)).collect();
                for isa in Isa::available() {
                    let mut output = vec![99; image.len()];
                    let by = Gate { factors: &factors, shifts: &shifts, scale };
                    gate(isa, &image, by, to, &mut output);
                    assert_eq!(output, expected, "{isa:?} {to:?} {scale}");
                }
            }
        }
    }
}
