//! Dot products on x86-64.

use super::{Dots, Portable, UPPER, each, narrow_each, unrolled};
use crate::bytes::Limited;
use crate::isa::{Avx2, Avx512, Vnni};
use crate::packed::int8::Line;
use crate::packed::int8::requantize::Bytes;
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
    /// Four lines at once: those of a patch, or of two or four patches that have fewer.
    #[inline(always)]
    unsafe fn narrow<const MR: usize, const NV: usize>(sums: &[[__m512i; NV]; MR], rows: usize, to: &Bytes<'_>) {
        const { assert!(NV <= 4) };
        if !to.narrowing.shrinks {
            // Of a copy, so that the sums themselves need not lie in memory.
            let sums = *sums;
            // SAFETY: as promised here.
            return unsafe { narrow_each::<Self, MR, NV>(&sums, rows, to) };
        }
        // SAFETY: scales are there for all lines, and room for the channels of all patches.
        unsafe {
            let limited = Limited::new(to.narrowing.rounding);
            let scales = each!(NV; |j| _mm512_loadu_ps(to.narrowing.scales().as_ptr().add(j).cast()));
            unrolled!(MR; |first| {
                if first % (4 / NV) == 0 {
                    let steps = each!(4; |line| match (first + line / NV, line % NV) {
                        (row, j) if row < MR && line < NV * (4 / NV) => scaled(sums[row][j], scales[j]),
                        _ => _mm512_setzero_si512(),
                    });
                    let bytes = limited.bytes(steps);
                    unrolled!(4; |row| {
                        if row < 4 / NV && first + row < MR {
                            let out = to.out.add((first + row) * to.stride);
                            store::<NV>(lines_from::<NV>(bytes, row), to.narrowing.channels, out);
                        }
                    });
                }
            });
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

/// The integers that sums are scaled to, by less than one, so that they stay integers of 32 bits.
///
/// # Safety
/// AVX-512 must exist.
#[inline(always)]
unsafe fn scaled(sums: __m512i, scale: __m512) -> __m512i {
    // SAFETY: as said above.
    unsafe { _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale)) }
}

/// The lines of a patch, from the bytes of several with NV lines each.
#[inline(always)]
unsafe fn lines_from<const NV: usize>(bytes: __m512i, row: usize) -> __m512i {
    // SAFETY: AVX-512.
    unsafe {
        match row * NV {
            1 => _mm512_castsi128_si512(_mm512_extracti32x4_epi32::<1>(bytes)),
            2 if NV == 1 => _mm512_castsi128_si512(_mm512_extracti32x4_epi32::<2>(bytes)),
            2 => _mm512_castsi256_si512(_mm512_extracti64x4_epi64::<1>(bytes)),
            3 => _mm512_castsi128_si512(_mm512_extracti32x4_epi32::<3>(bytes)),
            _ => bytes,
        }
    }
}

/// Stores the first n bytes of NV lines.
#[inline(always)]
unsafe fn store<const NV: usize>(bytes: __m512i, channels: usize, out: *mut i8) {
    let mask = u64::MAX >> (64 - channels);
    // SAFETY: there is room for all channels, of which there are no more than NV lines have.
    unsafe {
        match (NV, channels == 16 * NV) {
            (1, true) => _mm_storeu_si128(out.cast(), _mm512_castsi512_si128(bytes)),
            (1, false) => _mm_mask_storeu_epi8(out, mask as u16, _mm512_castsi512_si128(bytes)),
            (2, true) => _mm256_storeu_si256(out.cast(), _mm512_castsi512_si256(bytes)),
            (2, false) => _mm256_mask_storeu_epi8(out, mask as u32, _mm512_castsi512_si256(bytes)),
            (3, true) => {
                _mm256_storeu_si256(out.cast(), _mm512_castsi512_si256(bytes));
                _mm_storeu_si128(out.add(32).cast(), _mm512_extracti32x4_epi32::<2>(bytes));
            }
            (4, true) => _mm512_storeu_si512(out.cast(), bytes),
            _ => _mm512_mask_storeu_epi8(out, mask, bytes),
        }
    }
}
