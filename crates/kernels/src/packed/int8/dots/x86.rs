//! Dot products on x86-64.

use super::{Dots, Portable, UPPER, each};
use crate::isa::{Avx2, Avx512, Vnni};
use crate::packed::int8::Line;
use crate::packed::int8::requantize::Narrowing;
use crate::packed::int8::strip::Runs;
use core::arch::x86_64::*;

/// There is no dot product of four bytes that cannot overflow, but one of two 16-bit numbers: bytes are widened, and
/// a channel has two sums, side by side.
impl Dots for Avx2 {
    type Sums = [__m256i; 4];
    type Inputs = __m256i;
    type Weights = [__m256i; 4];
    type Whole = [__m256i; 2];
    const FLIP: u8 = 0;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        // SAFETY: AVX2 by the trait's contract; a line holds four times four sums.
        core::array::from_fn(|i| unsafe { _mm256_cvtepu32_epi64(_mm_loadu_si128(line.0.as_ptr().add(4 * i).cast())) })
    }
    #[inline(always)]
    unsafe fn inputs([from, _]: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: AVX2; four bytes are readable.
        unsafe {
            let bytes = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
            _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(bytes))
        }
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: AVX2; a line holds four times sixteen bytes.
        unsafe { each!(4; |i| _mm256_cvtepi8_epi16(_mm_load_si128(line.cast::<__m128i>().add(i)))) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        // SAFETY: AVX2.
        unsafe { each!(4; |i| _mm256_add_epi32(sums[i], _mm256_madd_epi16(inputs, weights[i]))) }
    }
    #[inline(always)]
    unsafe fn nibbles(line: &Line, high: bool) -> Self::Weights {
        // SAFETY: AVX2; a line holds four times sixteen bytes.
        unsafe {
            let (bytes, upper) = (line.0.as_ptr().cast::<__m128i>(), _mm_set1_epi32(UPPER));
            let shift = _mm_cvtsi32_si128(if high { 0 } else { 4 });
            each!(4; |i| {
                _mm256_cvtepi8_epi16(_mm_and_si128(_mm_sll_epi32(_mm_load_si128(bytes.add(i)), shift), upper))
            })
        }
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        // SAFETY: AVX2.
        let whole = unsafe {
            each!(2; |i| {
                _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(sums[2 * i], sums[2 * i + 1]))
            })
        };
        [whole; 2]
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, whole: Self::Whole) {
        for (i, half) in whole.into_iter().enumerate() {
            // SAFETY: AVX2; a line is twice eight sums.
            unsafe { _mm256_storeu_si256(to.0.as_mut_ptr().add(8 * i).cast(), half) };
        }
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        // SAFETY: the copy of plain bytes is that of any target.
        unsafe { Portable::copy(from, runs, to) }
    }
}

/// The same, twice as wide.
impl Dots for Avx512 {
    type Sums = [__m512i; 2];
    type Inputs = __m512i;
    type Weights = [__m512i; 2];
    type Whole = [__m256i; 2];
    const FLIP: u8 = 0;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        // SAFETY: AVX-512 by the trait's contract; a line holds twice eight sums.
        unsafe { each!(2; |i| _mm512_cvtepu32_epi64(_mm256_load_si256(line.0.as_ptr().cast::<__m256i>().add(i)))) }
    }
    #[inline(always)]
    unsafe fn inputs([from, _]: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: AVX-512; four bytes are readable.
        unsafe {
            let bytes = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
            _mm512_broadcastq_epi64(_mm_cvtepi8_epi16(bytes))
        }
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: AVX-512; a line holds twice 32 bytes.
        unsafe { each!(2; |i| _mm512_cvtepi8_epi16(_mm256_load_si256(line.cast::<__m256i>().add(i)))) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        // SAFETY: AVX-512.
        unsafe { each!(2; |i| _mm512_add_epi32(sums[i], _mm512_madd_epi16(inputs, weights[i]))) }
    }
    #[inline(always)]
    unsafe fn nibbles(line: &Line, high: bool) -> Self::Weights {
        // SAFETY: AVX-512; a line holds twice 32 bytes.
        unsafe {
            let (bytes, upper) = (line.0.as_ptr().cast::<__m256i>(), _mm256_set1_epi32(UPPER));
            let shift = _mm_cvtsi32_si128(if high { 0 } else { 4 });
            each!(2; |i| {
                _mm512_cvtepi8_epi16(_mm256_and_si256(_mm256_sll_epi32(_mm256_load_si256(bytes.add(i)), shift), upper))
            })
        }
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        // SAFETY: AVX-512. The two sums of a channel are the halves of a wide word.
        let whole =
            unsafe { each!(2; |i| _mm512_cvtepi64_epi32(_mm512_add_epi32(sums[i], _mm512_srli_epi64::<32>(sums[i])))) };
        [whole; 2]
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, whole: Self::Whole) {
        // SAFETY: AVX-512 has AVX2.
        unsafe { Avx2::store(to, whole) }
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        // SAFETY: the copy of plain bytes is that of any target.
        unsafe { Portable::copy(from, runs, to) }
    }
}

impl Dots for Vnni {
    type Sums = __m512i;
    type Inputs = __m512i;
    type Weights = __m512i;
    type Whole = __m512i;
    const FLIP: u8 = 0x80;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        // SAFETY: AVX-512 by the trait's contract; so in all functions below. A line is aligned.
        unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn inputs([from, _]: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: four bytes are readable.
        unsafe { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: a line is aligned.
        unsafe { _mm512_load_si512(line.cast()) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        // SAFETY: VNNI. Inputs are the unsigned operand.
        unsafe { _mm512_dpbusd_epi32(sums, inputs, weights) }
    }
    #[inline(always)]
    unsafe fn nibbles(line: &Line, high: bool) -> Self::Weights {
        // SAFETY: a line is aligned.
        unsafe {
            let (bytes, upper) = (_mm512_load_si512(line.0.as_ptr().cast()), _mm512_set1_epi32(UPPER));
            _mm512_and_si512(if high { bytes } else { _mm512_slli_epi32::<4>(bytes) }, upper)
        }
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        [sums; 2]
    }
    #[inline(always)]
    unsafe fn add_scaled(to: &mut Line, sums: Self::Whole, scales: &Line, upper: bool) {
        let to = to.0.as_mut_ptr().cast::<f32>();
        // SAFETY: a line is aligned.
        unsafe {
            let scales = _mm512_load_si512(scales.0.as_ptr().cast());
            let scales = match upper {
                true => _mm512_and_si512(scales, _mm512_set1_epi32(!0xffff)),
                false => _mm512_slli_epi32::<16>(scales),
            };
            let sums = _mm512_cvtepi32_ps(sums);
            _mm512_store_ps(to, _mm512_fmadd_ps(sums, _mm512_castsi512_ps(scales), _mm512_load_ps(to)));
        }
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, sums: Self::Whole) {
        // SAFETY: a line is aligned.
        unsafe { _mm512_store_si512(to.0.as_mut_ptr().cast(), sums) }
    }
    /// By instructions that narrow with saturation, up to 64 channels at once.
    #[inline(always)]
    unsafe fn narrow<const NV: usize>(sums: [__m512i; NV], narrowing: &Narrowing, out: *mut i8) {
        const { assert!(NV <= 4) };
        let Narrowing { scale, channels, limits: (low, high), zero } = narrowing;
        let largest = narrowing.before_zero(*high);
        // SAFETY: scales are there for all lines; the masks select as many bytes as there are channels.
        unsafe {
            let mut steps = [_mm512_setzero_si512(); 4];
            for j in 0..NV {
                let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[j]), _mm512_loadu_ps(scale.as_ptr().add(16 * j)));
                // What is too small becomes the least integer and stays small; what is too large would, too.
                steps[j] = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(largest), scaled));
            }
            let zero = _mm512_set1_epi16((*zero).into());
            let first = _mm512_adds_epi16(_mm512_packs_epi32(steps[0], steps[1]), zero);
            let second = match NV {
                1 | 2 => first,
                _ => _mm512_adds_epi16(_mm512_packs_epi32(steps[2], steps[3]), zero),
            };
            let bytes = _mm512_max_epi8(_mm512_packs_epi16(first, second), _mm512_set1_epi8(*low));
            // Narrowing works by quarters of vectors; this brings the words of a line together again.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let bytes = _mm512_permutexvar_epi32(order, bytes);
            let mask = u64::MAX >> (64 - channels);
            match NV {
                1 => _mm_mask_storeu_epi8(out, mask as u16, _mm512_castsi512_si128(bytes)),
                2 => _mm256_mask_storeu_epi8(out, mask as u32, _mm512_castsi512_si256(bytes)),
                _ => _mm512_mask_storeu_epi8(out, mask, bytes),
            }
        }
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        let Runs { count, bytes, step } = runs;
        let held = (count - 1) * step + bytes <= from.len() && count * bytes + 63 <= to.len();
        assert!(held, "{count} runs of {bytes} bytes, {step} apart, of {} to {}", from.len(), to.len());
        let (whole, rest) = (bytes / 64 * 64, !(u64::MAX << (bytes % 64)));
        for run in 0..count {
            // SAFETY: what is read lies in `from`, by the mask; what is written in `to`, with less than a vector after the
            // last run, as just asserted. Vectors are no wider than needed: stores that cross cache lines take long.
            unsafe {
                let (from, to) = (from.as_ptr().add(run * step), to.as_mut_ptr().add(run * bytes));
                if bytes <= 16 {
                    let bytes = _mm_maskz_loadu_epi8(rest as u16, from);
                    _mm_storeu_si128(to.cast(), _mm_xor_si128(bytes, _mm_set1_epi8(i8::MIN)));
                } else if bytes <= 32 {
                    let bytes = _mm256_maskz_loadu_epi8(rest as u32, from);
                    _mm256_storeu_si256(to.cast(), _mm256_xor_si256(bytes, _mm256_set1_epi8(i8::MIN)));
                } else {
                    let flip = _mm512_set1_epi8(i8::MIN);
                    for at in (0..whole).step_by(64) {
                        let bytes = _mm512_loadu_si512(from.add(at).cast());
                        _mm512_storeu_si512(to.add(at).cast(), _mm512_xor_si512(bytes, flip));
                    }
                    if rest != 0 {
                        let bytes = _mm512_maskz_loadu_epi8(rest, from.add(whole));
                        _mm512_storeu_si512(to.add(whole).cast(), _mm512_xor_si512(bytes, flip));
                    }
                }
            }
        }
    }
}
