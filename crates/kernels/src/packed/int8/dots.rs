//! Dot products of bytes for sixteen channels at once: the operations of the micro-kernels, for each instruction set.
//!
//! Four inputs meet four weights of every channel, a line of them, and become a part of a sum: that is one instruction
//! where bytes of a word are multiplied and added up ([`Vnni`](crate::isa::Vnni), [`Dotprod`](crate::isa::Dotprod)).
//! Where only pairs can be added up without overflow, a channel has several sums until the end. Matrix instructions
//! ([`I8mm`](crate::isa::I8mm)) take two patches, eight inputs of each, and so two lines of weights. The functions carry no target feature of
//! their own; they are inlined into kernels that do.
#![allow(unsafe_code, reason = "vector instructions of the micro-kernels")]

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::requantize::{Bytes, Narrowing};
use super::strip::Runs;
use super::{LANES, Line};
use crate::bytes::Rounding;
use crate::gemm::clamp;
use crate::math::ROUND;

/// An array of n values, each made from its number. With a closure for the expression, vector instructions in it would
/// be compiled for the baseline unless the compiler chose to inline it, and it does not when there are many.
macro_rules! each {
    ($count:expr; |$i:ident| $value:expr) => {{
        let mut all = [{
            let $i = 0;
            $value
        }; $count];
        let mut at = 1;
        while at < $count {
            all[at] = {
                let $i = at;
                $value
            };
            at += 1;
        }
        all
    }};
}
pub(crate) use each;

/// Runs a block with each number from zero on, up to a count of at most twelve, known to the compiler in every one: a loop
/// whose body is long would stay one, and what it picks by number would have to lie in memory.
#[cfg(target_arch = "x86_64")]
macro_rules! unrolled {
    ($count:expr; |$i:ident| $body:block) => {
        unrolled!($count; |$i| $body; 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    ($count:expr; |$i:ident| $body:block; $($number:literal)+) => {
        $(if $number < $count {
            const { assert!($count <= 12) };
            let $i = $number;
            $body
        })+
    };
}
#[cfg(target_arch = "x86_64")]
use unrolled;

/// The upper half of each byte of a word.
const UPPER: i32 = 0xf0f0_f0f0_u32.cast_signed();

/// Dot products of bytes, for sixteen channels at once.
///
/// # Safety
/// Every function requires the instructions of the implementing set. `inputs` reads `INPUTS` bytes of `ROWS` patches,
/// `weights` reads `LINES` lines.
pub(super) trait Dots {
    /// The sums of sixteen channels, of `ROWS` patches.
    type Sums: Copy;
    /// Inputs of n patches, ready to meet those of every channel.
    type Inputs: Copy;
    /// As many weights of sixteen channels.
    type Weights: Copy;
    /// Sixteen sums of one patch, each whole.
    type Whole: Copy;
    /// What inputs are combined with (exclusive or) when they are copied.
    const FLIP: u8;
    /// Patches that are multiplied at once, one or two.
    const ROWS: usize = 1;
    /// Lines of weights that a step takes.
    const LINES: usize = 1;
    /// Inputs that a step takes of a patch.
    const INPUTS: usize = 4 * Self::LINES;
    /// Most patches of a tile with weights of four bits, whose halves take more registers.
    const MOST_WITH_NIBBLES: usize = usize::MAX;

    unsafe fn start(line: &Line) -> Self::Sums;
    unsafe fn inputs(from: [*const u8; 2]) -> Self::Inputs;
    unsafe fn weights(lines: *const Line) -> Self::Weights;
    /// `sums + inputs * weights`
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums;
    /// The sums of each patch.
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2];
    unsafe fn store(to: &mut Line, sums: Self::Whole);
    /// The low or the high halves of every byte, sixteen-fold: they stand in the upper half. If a step takes eight inputs,
    /// it has both.
    #[inline(always)]
    unsafe fn nibbles(line: &Line, high: bool) -> Self::Weights {
        let shift = if high { 0 } else { 4 };
        // SAFETY: the instructions exist.
        unsafe { Self::weights(&Line(line.0.map(|word| (word << shift) & UPPER))) }
    }
    /// Adds the sums to numbers, times the scales in the lower or the upper halves of words.
    #[inline(always)]
    unsafe fn add_scaled(to: &mut Line, sums: Self::Whole, scales: &Line, upper: bool) {
        let mut plain = Line::default();
        // SAFETY: the instructions exist.
        unsafe { Self::store(&mut plain, sums) };
        for ((to, sum), scale) in to.0.iter_mut().zip(plain.0).zip(scales.0) {
            let scale = if upper { scale & !0xffff } else { scale << 16 };
            let total = f32::from_bits(to.cast_unsigned()) + sum as f32 * f32::from_bits(scale.cast_unsigned());
            *to = total.to_bits().cast_signed();
        }
    }
    /// Writes the bytes that the sums of n patches stand for.
    ///
    /// # Safety
    /// The scales of all lines are there, and room for the channels of all patches.
    #[inline(always)]
    unsafe fn narrow<const MR: usize, const NV: usize>(sums: &[[Self::Sums; NV]; MR], rows: usize, to: &Bytes<'_>) {
        // SAFETY: as promised here.
        unsafe { narrow_each::<Self, MR, NV>(sums, rows, to) }
    }
    /// Copies inputs; up to 63 bytes after them may be overwritten.
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]);
}

/// [`Dots::narrow`], one patch after the other.
#[inline(always)]
unsafe fn narrow_each<S: Dots + ?Sized, const MR: usize, const NV: usize>(
    sums: &[[S::Sums; NV]; MR],
    rows: usize,
    to: &Bytes<'_>,
) {
    let Narrowing { channels, rounding: Rounding { zero, limits: (low, high) }, .. } = *to.narrowing;
    let limits = (to.narrowing.before_zero(low), to.narrowing.before_zero(high));
    for row in 0..rows {
        let mut bytes = [[0; LANES]; NV];
        for ((bytes, sums), scale) in bytes.iter_mut().zip(sums[row / S::ROWS]).zip(to.narrowing.scales()) {
            let mut plain = Line::default();
            // SAFETY: the instructions exist.
            unsafe { S::store(&mut plain, S::whole(sums)[row % S::ROWS]) };
            for ((to, sum), scale) in bytes.iter_mut().zip(plain.0).zip(scale) {
                *to = ((clamp(sum as f32 * scale, limits) + ROUND).to_bits() as i8).wrapping_add(zero);
            }
        }
        // SAFETY: there is room for all channels, and there are no more than the lines hold. Most often as many, and then
        // the length is known here.
        unsafe {
            let out = to.out.add(row * to.stride);
            match channels == NV * LANES {
                true => out.copy_from_nonoverlapping(bytes.as_ptr().cast(), NV * LANES),
                false => out.copy_from_nonoverlapping(bytes.as_ptr().cast(), channels),
            }
        }
    }
}

/// Plain loops, for any target.
pub(in crate::packed::int8) struct Portable;

impl Dots for Portable {
    type Sums = [i32; LANES];
    type Inputs = [i32; 4];
    type Weights = [i32; LANES];
    type Whole = [i32; LANES];
    const FLIP: u8 = 0;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        line.0
    }
    #[inline(always)]
    unsafe fn inputs([from, _]: [*const u8; 2]) -> Self::Inputs {
        // SAFETY: four bytes are readable; arrays of bytes need no alignment.
        let bytes: [i8; 4] = unsafe { *from.cast() };
        bytes.map(i32::from)
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: a line is readable.
        unsafe { (*line).0 }
    }
    #[inline(always)]
    unsafe fn dot(mut sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        for (sum, four) in sums.iter_mut().zip(weights) {
            for (w, x) in four.to_ne_bytes().into_iter().zip(inputs) {
                *sum = sum.wrapping_add(x * i32::from(w.cast_signed()));
            }
        }
        sums
    }
    #[inline(always)]
    unsafe fn whole(sums: Self::Sums) -> [Self::Whole; 2] {
        [sums; 2]
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, sums: Self::Whole) {
        to.0 = sums;
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        for (run, to) in to.chunks_exact_mut(runs.bytes).take(runs.count).enumerate() {
            for (to, from) in to.iter_mut().zip(&from[run * runs.step..][..runs.bytes]) {
                *to = from.cast_unsigned();
            }
        }
    }
}
