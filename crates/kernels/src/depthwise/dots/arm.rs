//! Depthwise convolution of bytes with the dot products of ARM.

use super::{Bytes, Kernels, Line, Strip, StripKernel, kernels};
use core::arch::aarch64::*;
use core::arch::asm;

/// What proves the instructions.
pub(in crate::depthwise) use crate::isa::Dotprod as Token;

/// Channels of a block.
pub(super) const WIDEST: usize = 16;
/// What inputs have more than they stand for.
pub(super) const OFFSET: i32 = 0;

kernels!(1, [int8x16_t], [target_feature(enable = "neon,dotprod")]);

/// `sums` plus the products of bytes, four to a word.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sums: int8x16_t, values: int8x16_t, weights: int8x16_t) -> int8x16_t {
    // SAFETY: the instruction exists, and touches registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {values:v}.16b, {weights:v}.16b",
            sums = inout(vreg) sums, values = in(vreg) values, weights = in(vreg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

impl Bytes for int8x16_t {
    type Floats = float32x4_t;
    type Part = usize;
    const BYTES: usize = 16;
    const PARTS_COST: bool = true;

    #[inline(always)]
    fn part(count: usize) -> usize {
        count
    }
    #[inline(always)]
    unsafe fn load(from: *const i8, part: usize) -> Self {
        // SAFETY: n elements are readable. NEON is in the baseline of aarch64, here as below.
        unsafe {
            if part == Self::BYTES {
                return vld1q_s8(from);
            }
            let mut whole = [0; Self::BYTES];
            core::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), part);
            vld1q_s8(whole.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn words(from: *const i32) -> Self {
        // SAFETY: a vector of words is readable.
        unsafe { vreinterpretq_s8_s32(vld1q_s32(from)) }
    }
    #[inline(always)]
    unsafe fn scales(from: *const i32) -> float32x4_t {
        // SAFETY: a vector of words is readable, and any bits are a number.
        unsafe { vld1q_f32(from.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(byte: i8) -> Self {
        // SAFETY: NEON.
        unsafe { vdupq_n_s8(byte) }
    }
    #[inline(always)]
    unsafe fn offset(self) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn interleave([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: NEON.
        unsafe {
            let pairs = [vzip1q_s8(a, b), vzip1q_s8(c, d), vzip2q_s8(a, b), vzip2q_s8(c, d)];
            let [low, low_pair, high, high_pair] = pairs.map(|pairs| vreinterpretq_s16_s8(pairs));
            [
                vreinterpretq_s8_s16(vzip1q_s16(low, low_pair)),
                vreinterpretq_s8_s16(vzip2q_s16(low, low_pair)),
                vreinterpretq_s8_s16(vzip1q_s16(high, high_pair)),
                vreinterpretq_s8_s16(vzip2q_s16(high, high_pair)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn dot(self, values: Self, weights: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { sdot(self, values, weights) }
    }
    #[inline(always)]
    unsafe fn quantize(sums: [Self; 4], scales: [float32x4_t; 4], most: f32, zero: i16) -> Self {
        // SAFETY: NEON. Conversion and narrowing keep what does not fit at the ends.
        unsafe {
            let step = |i: usize| {
                let steps = vmulq_f32(vcvtq_f32_s32(vreinterpretq_s32_s8(sums[i])), scales[i]);
                vqmovn_s32(vcvtnq_s32_f32(vminq_f32(steps, vdupq_n_f32(most))))
            };
            let half = |i: usize| vqmovn_s16(vqaddq_s16(vcombine_s16(step(i), step(i + 1)), vdupq_n_s16(zero)));
            vcombine_s8(half(0), half(2))
        }
    }
    #[inline(always)]
    unsafe fn at_least(self, bound: i8) -> Self {
        // SAFETY: NEON.
        unsafe { vmaxq_s8(self, vdupq_n_s8(bound)) }
    }
    #[inline(always)]
    unsafe fn flip(self, with: Self) -> Self {
        // SAFETY: NEON.
        unsafe { veorq_s8(self, with) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i8, part: usize) {
        // SAFETY: n elements are writable.
        unsafe {
            if part == Self::BYTES {
                return vst1q_s8(to, self);
            }
            let mut whole = [0; Self::BYTES];
            vst1q_s8(whole.as_mut_ptr(), self);
            core::ptr::copy_nonoverlapping(whole.as_ptr(), to, part);
        }
    }
}
