//! Numbers become bytes by instructions that narrow with saturation.
#![allow(unsafe_code, reason = "vector instructions")]

use super::Sum;
use super::make::{Gate, Rounding};
use core::arch::x86_64::*;

/// How integers become bytes, sixty-four at a time.
#[derive(Clone, Copy)]
pub(crate) struct Limited {
    zero: __m512i,
    /// Nothing if every byte is within them.
    limits: Option<(__m512i, __m512i)>,
    /// Narrowing works by quarters of vectors; this brings the words of a line together again.
    order: __m512i,
}

impl Limited {
    /// # Safety
    /// AVX-512 must exist; so for all functions below.
    #[inline(always)]
    pub(crate) unsafe fn new(Rounding { zero, limits: (low, high) }: Rounding) -> Self {
        let limited = (low, high) != (i8::MIN, i8::MAX);
        // SAFETY: as said above.
        unsafe {
            Self {
                zero: _mm512_set1_epi16(zero.into()),
                limits: limited.then(|| (_mm512_set1_epi8(low), _mm512_set1_epi8(high))),
                order: _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
            }
        }
    }

    /// The bytes of four vectors of integers, one after the other.
    #[inline(always)]
    pub(crate) unsafe fn bytes(&self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        // SAFETY: AVX-512.
        unsafe {
            let first = _mm512_adds_epi16(_mm512_packs_epi32(a, b), self.zero);
            let second = _mm512_adds_epi16(_mm512_packs_epi32(c, d), self.zero);
            let bytes = _mm512_packs_epi16(first, second);
            let bytes = match self.limits {
                Some((low, high)) => _mm512_min_epi8(_mm512_max_epi8(bytes, low), high),
                None => bytes,
            };
            _mm512_permutexvar_epi32(self.order, bytes)
        }
    }
}

/// Calls `make(at, parts)` for the integers of every sixty-four bytes, which start at `at` and of which those are there that the
/// parts say, and writes the bytes.
///
/// # Safety
/// AVX-512 must exist, and n bytes that can be written. Those that `make` reads may be the same.
#[inline(always)]
unsafe fn each_64(to: Rounding, output: *mut i8, len: usize, make: impl Fn(usize, Parts) -> [__m512i; 4]) {
    let whole = len / 64 * 64;
    let rest = !(u64::MAX << (len - whole));
    // SAFETY: AVX-512; as many bytes as the mask says are there.
    unsafe {
        let limited = Limited::new(to);
        for at in (0..whole).step_by(64) {
            _mm512_storeu_si512(output.add(at).cast(), limited.bytes(make(at, [!0; 4])));
        }
        if rest != 0 {
            let parts = [rest as u16, (rest >> 16) as u16, (rest >> 32) as u16, (rest >> 48) as u16];
            _mm512_mask_storeu_epi8(output.add(whole), rest, limited.bytes(make(whole, parts)));
        }
    }
}

/// Which of the elements of four vectors are there.
type Parts = [__mmask16; 4];

/// [`super::quantize`], of slices as long as each other.
///
/// # Safety
/// The instructions must exist.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn quantize(numbers: &[f32], factor: f32, to: Rounding, output: &mut [i8]) {
    let numbers = numbers.as_ptr();
    // Beyond this all numbers are the same byte; integers of 32 bits could not hold some of them.
    let most = _mm512_set1_ps(1024.0);
    let factor = _mm512_set1_ps(factor);
    // SAFETY: the instructions exist; numbers are read where there are bytes to write.
    unsafe {
        each_64(
            to,
            output.as_mut_ptr(),
            output.len(),
            #[inline(always)]
            |at, parts| {
                let steps = |i: usize| {
                    let number = _mm512_maskz_loadu_ps(parts[i], numbers.wrapping_add(at + 16 * i));
                    _mm512_cvtps_epi32(_mm512_min_ps(_mm512_mul_ps(number, factor), most))
                };
                [steps(0), steps(1), steps(2), steps(3)]
            },
        );
    }
}

/// [`super::gate`] of one pixel.
///
/// # Safety
/// The instructions must exist, and there are no fewer factors and bytes of the image than of the output.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn gate(image: &[i8], by: Gate<'_>, to: Rounding, output: &mut [i8]) {
    let (image, factors, shifts) = (image.as_ptr(), by.factors.as_ptr(), by.shifts.as_ptr());
    let scale = _mm512_set1_ps(by.scale);
    // SAFETY: the instructions exist; what is read is there where there are bytes to write.
    unsafe {
        each_64(
            to,
            output.as_mut_ptr(),
            output.len(),
            #[inline(always)]
            |at, parts| {
                let steps = |i: usize| {
                    let (at, part) = (at + 16 * i, parts[i]);
                    let x = _mm_maskz_loadu_epi8(part, image.wrapping_add(at));
                    let x = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
                    let factor = _mm512_maskz_loadu_ps(part, factors.wrapping_add(at));
                    let shift = _mm512_maskz_loadu_ps(part, shifts.wrapping_add(at));
                    _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_fmadd_ps(x, factor, shift), scale))
                };
                [steps(0), steps(1), steps(2), steps(3)]
            },
        );
    }
}

/// [`Sum::add`].
///
/// # Safety
/// The instructions must exist, n bytes of each operand, and as many that can be written; these may be the first operand.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn add(sum: Sum, a: *const i8, b: *const i8, output: *mut i8, len: usize) {
    let Sum { factors, start, shift, zero, limits: (low, high) } = sum;
    let (factors, start) = (factors.map(|factor| _mm512_set1_epi32(factor)), _mm512_set1_epi32(start));
    let shift = _mm_cvtsi32_si128(shift as i32);
    // What `Sum::new` was given as bytes.
    let to = Rounding { zero: zero as i8, limits: (low as i8, high as i8) };
    // SAFETY: the instructions exist; what is read is there where there are bytes to write, and read before it is written.
    unsafe {
        each_64(
            to,
            output,
            len,
            #[inline(always)]
            |at, parts| {
                let steps = |i: usize| {
                    let bytes = |from: *const i8| {
                        _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(parts[i], from.wrapping_add(at + 16 * i)))
                    };
                    let a = _mm512_add_epi32(start, _mm512_mullo_epi32(bytes(a), factors[0]));
                    _mm512_sra_epi32(_mm512_add_epi32(a, _mm512_mullo_epi32(bytes(b), factors[1])), shift)
                };
                [steps(0), steps(1), steps(2), steps(3)]
            },
        );
    }
}
