//! Dot products on aarch64: with NEON alone, with dot products of bytes, and with products of matrices of bytes.
//!
//! The compiler does not offer the last two as functions yet, so each is a line of assembly.

use super::{Dots, Portable, UPPER, each};
use crate::isa::{Dotprod, I8mm, Neon};
use crate::packed::int8::Line;
use crate::packed::int8::strip::Runs;
use core::arch::aarch64::*;
use core::arch::asm;

/// A register for each four channels.
type Quarters = [int32x4_t; 4];

#[inline(always)]
unsafe fn quarters(line: *const Line) -> Quarters {
    // SAFETY: NEON is in the baseline of aarch64; a line is four times four words.
    core::array::from_fn(|i| unsafe { vld1q_s32(line.cast::<i32>().add(4 * i)) })
}

#[inline(always)]
unsafe fn bytes(line: *const Line) -> [int8x16_t; 4] {
    // SAFETY: NEON; a line is four times sixteen bytes.
    core::array::from_fn(|i| unsafe { vld1q_s8(line.cast::<i8>().add(16 * i)) })
}

/// What is low in the bytes of a line, or what is high, in the upper half.
#[inline(always)]
unsafe fn half(line: &Line, high: bool) -> [int8x16_t; 4] {
    // SAFETY: NEON; a line is readable.
    unsafe {
        let upper = vreinterpretq_s8_s32(vdupq_n_s32(UPPER));
        bytes(line).map(|bytes| if high { vandq_s8(bytes, upper) } else { vshlq_n_s8::<4>(bytes) })
    }
}

#[inline(always)]
unsafe fn store(to: &mut Line, sums: Quarters) {
    for (i, sums) in sums.into_iter().enumerate() {
        // SAFETY: NEON; a line is four times four words.
        unsafe { vst1q_s32(to.0.as_mut_ptr().add(4 * i), sums) };
    }
}

/// Products of bytes have sixteen bits, and only two fit into a word of sixteen: they are added up in pairs, and a channel
/// has two sums, side by side.
impl Dots for Neon {
    type Sums = [int32x4_t; 8];
    type Inputs = int8x16_t;
    type Weights = [int8x16_t; 4];
    type Whole = Quarters;
    const FLIP: u8 = 0;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        // SAFETY: NEON; a line is readable.
        unsafe {
            let (start, zero) = (quarters(line), vdupq_n_s32(0));
            core::array::from_fn(|i| match i % 2 {
                0 => vzip1q_s32(start[i / 2], zero),
                _ => vzip2q_s32(start[i / 2], zero),
            })
        }
    }
    #[inline(always)]
    unsafe fn inputs([from, _]: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: NEON; four bytes are readable.
        unsafe { vreinterpretq_s8_s32(vdupq_n_s32(from.cast::<i32>().read_unaligned())) }
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: a line is readable.
        unsafe { bytes(line) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        // SAFETY: NEON.
        core::array::from_fn(|i| unsafe {
            let products = match i % 2 {
                0 => vmull_s8(vget_low_s8(inputs), vget_low_s8(weights[i / 2])),
                _ => vmull_high_s8(inputs, weights[i / 2]),
            };
            vpadalq_s16(sums[i], products)
        })
    }
    #[inline(always)]
    unsafe fn nibbles(line: &Line, high: bool) -> Self::Weights {
        // SAFETY: NEON.
        unsafe { half(line, high) }
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        // SAFETY: NEON.
        [core::array::from_fn(|i| unsafe { vpaddq_s32(sums[2 * i], sums[2 * i + 1]) }); 2]
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, sums: Self::Whole) {
        // SAFETY: NEON.
        unsafe { store(to, sums) }
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        // SAFETY: the copy of plain bytes is that of any target.
        unsafe { Portable::copy(from, runs, to) }
    }
}

/// Adds the products of four inputs with four weights of each of four channels.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sums: int32x4_t, inputs: f32, weights: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction exists, and touches registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {inputs:v}.4b[0]",
            sums = inout(vreg) sums, weights = in(vreg) weights, inputs = in(vreg) inputs,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// The instruction takes four inputs from a part of a register, so they are loaded as one number and spread nowhere.
impl Dots for Dotprod {
    type Sums = Quarters;
    type Inputs = f32;
    type Weights = [int8x16_t; 4];
    type Whole = Quarters;
    const FLIP: u8 = 0;
    const MOST_WITH_NIBBLES: usize = 4;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        // SAFETY: a line is readable.
        unsafe { quarters(line) }
    }
    #[inline(always)]
    unsafe fn inputs([from, _]: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: four bytes are readable, and any are a number.
        unsafe { from.cast::<f32>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: a line is readable.
        unsafe { bytes(line) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the trait's contract.
        unsafe { each!(4; |i| sdot(sums[i], inputs, weights[i])) }
    }
    #[inline(always)]
    unsafe fn nibbles(line: &Line, high: bool) -> Self::Weights {
        // SAFETY: NEON.
        unsafe { half(line, high) }
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        [sums; 2]
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, sums: Self::Whole) {
        // SAFETY: NEON.
        unsafe { store(to, sums) }
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        // SAFETY: the copy of plain bytes is that of any target.
        unsafe { Portable::copy(from, runs, to) }
    }
}

/// Adds the products of eight inputs of two patches with eight weights of two channels: a matrix of two by two.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn smmla(mut sums: int32x4_t, inputs: int8x16_t, weights: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction exists, and touches registers only.
    unsafe {
        asm!(
            "smmla {sums:v}.4s, {inputs:v}.16b, {weights:v}.16b",
            sums = inout(vreg) sums, inputs = in(vreg) inputs, weights = in(vreg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// A register of sums has two channels of the first patch, then of the second; one of weights has two channels.
impl Dots for I8mm {
    type Sums = [int32x4_t; 8];
    type Inputs = int8x16_t;
    type Weights = [int8x16_t; 8];
    type Whole = Quarters;
    const FLIP: u8 = 0;
    const ROWS: usize = 2;
    const LINES: usize = 2;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        // SAFETY: NEON; a line is eight times two words.
        core::array::from_fn(|i| unsafe {
            let pair = vld1_s32(line.0.as_ptr().add(2 * i));
            vcombine_s32(pair, pair)
        })
    }
    #[inline(always)]
    unsafe fn inputs(from: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: NEON; eight bytes are readable of both.
        unsafe { vcombine_s8(vld1_s8(from[0].cast()), vld1_s8(from[1].cast())) }
    }
    #[inline(always)]
    unsafe fn weights(lines: *const Line) -> Self::Weights {
        // SAFETY: NEON; two lines are eight times sixteen bytes.
        core::array::from_fn(|i| unsafe { vld1q_s8(lines.cast::<i8>().add(16 * i)) })
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the trait's contract.
        unsafe { each!(8; |i| smmla(sums[i], inputs, weights[i])) }
    }
    #[inline(always)]
    unsafe fn nibbles(line: &Line, _: bool) -> Self::Weights {
        // SAFETY: NEON. The words of a channel, low and high, come to stand next to each other.
        unsafe {
            let [low, high] = [false, true].map(|high| half(line, high).map(|bytes| vreinterpretq_s32_s8(bytes)));
            core::array::from_fn(|i| {
                vreinterpretq_s8_s32(match i % 2 {
                    0 => vzip1q_s32(low[i / 2], high[i / 2]),
                    _ => vzip2q_s32(low[i / 2], high[i / 2]),
                })
            })
        }
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        // SAFETY: NEON. Pairs of channels of the same patch come to stand next to each other.
        unsafe {
            let pair = |i: usize| [2 * i, 2 * i + 1].map(|i| vreinterpretq_s64_s32(sums[i]));
            let first = |[a, b]: [int64x2_t; 2]| vreinterpretq_s32_s64(vzip1q_s64(a, b));
            let second = |[a, b]: [int64x2_t; 2]| vreinterpretq_s32_s64(vzip2q_s64(a, b));
            [core::array::from_fn(|i| first(pair(i))), core::array::from_fn(|i| second(pair(i)))]
        }
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, sums: Self::Whole) {
        // SAFETY: NEON.
        unsafe { store(to, sums) }
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        // SAFETY: the copy of plain bytes is that of any target.
        unsafe { Portable::copy(from, runs, to) }
    }
}
