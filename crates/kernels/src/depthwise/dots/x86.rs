//! Depthwise convolution of bytes with VNNI: vectors of three lengths.

use super::{Bytes, Kernels, Line, Strip, StripKernel, kernels};
use core::arch::x86_64::*;

/// What proves the instructions.
pub(in crate::depthwise) use crate::isa::Vnni as Token;

/// Channels of a block.
pub(super) const WIDEST: usize = 64;
/// What inputs have more than they stand for.
pub(super) const OFFSET: i32 = 128;

kernels!(
    3,
    [__m128i, __m256i, __m512i],
    [target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
);

/// One width of vectors: the instructions by name.
macro_rules! bytes {
    ($v:ty, $floats:ty, $mask:ty, $bytes:literal, $load:ident, $words:ident, $scales:ident, $splat:ident, $xor:ident,
        [$low8:ident, $high8:ident, $low16:ident, $high16:ident], $dot:ident,
        [$float:ident, $product:ident, $min:ident, $splat_float:ident, $round:ident],
        [$narrow32:ident, $add16:ident, $splat16:ident, $narrow16:ident], $max:ident, $store:ident) => {
        impl Bytes for $v {
            type Floats = $floats;
            type Part = $mask;
            const BYTES: usize = $bytes;
            const PARTS_COST: bool = false;

            #[inline(always)]
            fn part(count: usize) -> $mask {
                (u64::MAX >> (64 - count)) as $mask
            }
            #[inline(always)]
            unsafe fn load(from: *const i8, part: $mask) -> Self {
                // SAFETY: the elements of the mask are readable; the instructions exist, here as below.
                unsafe { $load(part, from) }
            }
            #[inline(always)]
            unsafe fn words(from: *const i32) -> Self {
                // SAFETY: a vector of words is readable.
                unsafe { $words(from.cast()) }
            }
            #[inline(always)]
            unsafe fn scales(from: *const i32) -> $floats {
                // SAFETY: a vector of words is readable, and any bits are a number.
                unsafe { $scales(from.cast()) }
            }
            #[inline(always)]
            unsafe fn splat(byte: i8) -> Self {
                // SAFETY: the trait's contract.
                unsafe { $splat(byte) }
            }
            #[inline(always)]
            unsafe fn offset(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { $xor(self, $splat(i8::MIN)) }
            }
            #[inline(always)]
            unsafe fn interleave([a, b, c, d]: [Self; 4]) -> [Self; 4] {
                // SAFETY: the trait's contract.
                unsafe {
                    let (low, low_pair) = ($low8(a, b), $low8(c, d));
                    let (high, high_pair) = ($high8(a, b), $high8(c, d));
                    [$low16(low, low_pair), $high16(low, low_pair), $low16(high, high_pair), $high16(high, high_pair)]
                }
            }
            #[inline(always)]
            unsafe fn dot(self, values: Self, weights: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { $dot(self, values, weights) }
            }
            #[inline(always)]
            unsafe fn quantize(sums: [Self; 4], scales: [$floats; 4], most: f32, zero: i16) -> Self {
                // SAFETY: the trait's contract. Products above `most` do not reach the conversion, those too small for
                // a word become the least one, and narrowing keeps what does not fit at the ends.
                unsafe {
                    let step = |i: usize| $round($min($product($float(sums[i]), scales[i]), $splat_float(most)));
                    let (low, high) = ($narrow32(step(0), step(1)), $narrow32(step(2), step(3)));
                    $narrow16($add16(low, $splat16(zero)), $add16(high, $splat16(zero)))
                }
            }
            #[inline(always)]
            unsafe fn at_least(self, bound: i8) -> Self {
                // SAFETY: the trait's contract.
                unsafe { $max(self, $splat(bound)) }
            }
            #[inline(always)]
            unsafe fn flip(self, with: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { $xor(self, with) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut i8, part: $mask) {
                // SAFETY: the elements of the mask are writable.
                unsafe { $store(to, part, self) }
            }
        }
    };
}
bytes!(
    __m512i,
    __m512,
    __mmask64,
    64,
    _mm512_maskz_loadu_epi8,
    _mm512_loadu_si512,
    _mm512_loadu_ps,
    _mm512_set1_epi8,
    _mm512_xor_si512,
    [_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16],
    _mm512_dpbusd_epi32,
    [_mm512_cvtepi32_ps, _mm512_mul_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_cvtps_epi32],
    [_mm512_packs_epi32, _mm512_adds_epi16, _mm512_set1_epi16, _mm512_packs_epi16],
    _mm512_max_epi8,
    _mm512_mask_storeu_epi8
);
bytes!(
    __m256i,
    __m256,
    __mmask32,
    32,
    _mm256_maskz_loadu_epi8,
    _mm256_loadu_si256,
    _mm256_loadu_ps,
    _mm256_set1_epi8,
    _mm256_xor_si256,
    [_mm256_unpacklo_epi8, _mm256_unpackhi_epi8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16],
    _mm256_dpbusd_epi32,
    [_mm256_cvtepi32_ps, _mm256_mul_ps, _mm256_min_ps, _mm256_set1_ps, _mm256_cvtps_epi32],
    [_mm256_packs_epi32, _mm256_adds_epi16, _mm256_set1_epi16, _mm256_packs_epi16],
    _mm256_max_epi8,
    _mm256_mask_storeu_epi8
);
bytes!(
    __m128i,
    __m128,
    __mmask16,
    16,
    _mm_maskz_loadu_epi8,
    _mm_loadu_si128,
    _mm_loadu_ps,
    _mm_set1_epi8,
    _mm_xor_si128,
    [_mm_unpacklo_epi8, _mm_unpackhi_epi8, _mm_unpacklo_epi16, _mm_unpackhi_epi16],
    _mm_dpbusd_epi32,
    [_mm_cvtepi32_ps, _mm_mul_ps, _mm_min_ps, _mm_set1_ps, _mm_cvtps_epi32],
    [_mm_packs_epi32, _mm_adds_epi16, _mm_set1_epi16, _mm_packs_epi16],
    _mm_max_epi8,
    _mm_mask_storeu_epi8
);
