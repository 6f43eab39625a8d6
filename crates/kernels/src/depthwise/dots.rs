//! Depthwise convolution of bytes by dot products of four bytes, each of a row of the kernel.
//!
//! A column of the input is a vector of channels of up to four rows at once. Their bytes are interleaved, so that each
//! word holds the rows of one channel, and one instruction multiplies them with a column of the kernel, packed likewise.
//! Interleaving splits a vector of bytes into four of words with the channels in an order of its own; narrowing the
//! sums to bytes undoes it, so nothing is ever permuted.
//!
//! ```text
//! row 0   a0 a1 a2 a3 ...  ╮ bytes with bytes      a0 b0 a1 b1 ... ╮ pairs with pairs
//! row 1   b0 b1 b2 b3 ...  ╯                                       ├─ a0 b0 c0 c0   a1 b1 c1 c1  ...
//! row 2   c0 c1 c2 c3 ...  ── with itself          c0 c0 c1 c1 ... ╯
//! ```
//!
//! A row that the kernel does not have repeats another, with weights of zero. Taller kernels are several groups of
//! rows. VNNI wants bytes without sign on one side: the input is read with its sign bit flipped, as 128 more, and what
//! that and the zero point add to all taps is taken off the bias when packing. On ARM both sides have signs.
//!
//! Channels are cut into blocks of the widest vector (64 with VNNI, the last of 32 or 16 if that holds what is left; 16 on
//! ARM). A block is packed as: bias, scales, then for each group of rows and each column of the kernel its words.
#![allow(unsafe_code, reason = "vector instructions of the micro-kernels")]

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::int8::{Quantization, Weights};
use super::{Axis, Depthwise, Line, Pixels, each_part};
use crate::split::Block;
#[cfg(target_arch = "aarch64")]
use arm as machine;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};
pub(super) use machine::Token;
use machine::{OFFSET, WIDEST};
use sconce_parallel::Parallel;
#[cfg(target_arch = "x86_64")]
use x86 as machine;

/// Most rows of a kernel; that many are whole groups.
const MOST_ROWS: usize = 12;
/// Outputs of a step: their sums take half of the registers.
const STEP_OUTPUTS: usize = 4;

/// Whether there is a kernel for this geometry.
pub(super) fn suits(g: &Depthwise) -> bool {
    g.kernel[0] <= MOST_ROWS && matches!((g.kernel[1], g.stride[1], g.dilation[1]), (3 | 5 | 7, 1 | 2, 1))
}

/// Rows of the kernel that are multiplied at once: three, but four for kernels of seven rows.
fn rows_at_once(g: &Depthwise) -> usize {
    if g.kernel[1] == 7 { 4 } else { 3 }
}

fn groups(g: &Depthwise) -> usize {
    g.kernel[0].div_ceil(rows_at_once(g))
}

/// Channels of the block that starts at `first`, with those that are not there.
fn block_width(g: &Depthwise, first: usize) -> usize {
    (g.channels - first).next_power_of_two().clamp(16, WIDEST)
}

/// Words per channel of a block.
fn words(g: &Depthwise) -> usize {
    2 + groups(g) * g.kernel[1]
}

pub(super) fn packed_len(g: &Depthwise) -> usize {
    (0..g.channels).step_by(WIDEST).map(|first| block_width(g, first) * words(g)).sum()
}

/// The channel of each word of a block, as interleaving leaves them.
fn channel_of(word: usize, width: usize) -> usize {
    let (quarter, place) = (word / (width / 4), word % (width / 4));
    place / 4 * 16 + quarter * 4 + place % 4
}

pub(super) fn pack(g: &Depthwise, from: Weights<'_>, input_zero: i8, packed: &mut [i32]) {
    let mut rest = packed;
    for first in (0..g.channels).step_by(WIDEST) {
        let (block, after) = core::mem::take(&mut rest).split_at_mut(block_width(g, first) * words(g));
        rest = after;
        pack_block(g, from, input_zero, first, block);
    }
}

fn pack_block(g: &Depthwise, from: Weights<'_>, input_zero: i8, first: usize, block: &mut [i32]) {
    let (rows, width) = (rows_at_once(g), block_width(g, first));
    let count = width.min(g.channels - first);
    let mut biases = [0; WIDEST];
    from.biases_without(g, first, i32::from(input_zero) + OFFSET, &mut biases[..count]);
    let mut channel = [0; WIDEST];
    channel.iter_mut().take(width).enumerate().for_each(|(word, channel)| *channel = channel_of(word, width));
    let there = || channel[..width].iter().enumerate().filter(|(_, channel)| **channel < count);
    block.fill(0);
    for (word, &channel) in there() {
        block[word] = biases[channel];
        block[width + word] = from.scale[first + channel].to_bits().cast_signed();
    }
    for (tap, weights) in from.weights.chunks_exact(g.channels).enumerate() {
        let (ky, kx) = (tap / g.kernel[1], tap % g.kernel[1]);
        let to = &mut block[(2 + ky / rows * g.kernel[1] + kx) * width..][..width];
        let weights = &weights[first..][..count];
        for (word, &channel) in there() {
            to[word] |= i32::from(weights[channel].cast_unsigned()) << (ky % rows * 8);
        }
    }
}

pub(super) fn depthwise(
    _: Token,
    par: &dyn Parallel,
    geometry: &Depthwise,
    size: [usize; 2],
    input: &[i8],
    packed: &[i32],
    (q, after): (Quantization, impl Fn(Range<usize>, &mut Block<'_, i8>) + Sync),
    (output, pixels): (&mut [i8], Pixels),
) {
    let axis = geometry.axis(1);
    let outside = [q.input_zero; WIDEST];
    assert_eq!(packed.len(), packed_len(geometry), "packed weights of {geometry:?}");
    each_part(par, geometry, size, WIDEST, (output, pixels), |rows, lines, block| {
        for first in block.columns.clone().step_by(WIDEST) {
            let width = block_width(geometry, first);
            let strip = Strip {
                input: input.as_ptr().wrapping_add(first),
                outside: outside.as_ptr(),
                row_step: geometry.row_step(pixels),
                packed: packed[first * words(geometry)..][..width * words(geometry)].as_ptr(),
                groups: groups(geometry),
                output: block.raw().0.wrapping_add(first - block.columns.start),
                pixels,
                count: (block.columns.end - first).min(width),
                across: size[1],
                axis,
                quantization: q,
            };
            // SAFETY: the caller asserted that input and output have the elements of the geometry, and the packed block
            // is as long as groups and width ask. A line names only rows of the input that exist, and a row of the
            // output that lies in the block, which this task holds alone. The token proves the instructions.
            unsafe { machine::KERNELS[axis.kernel / 2 - 1][axis.stride - 1][width / 32](&strip, lines) };
        }
        after(rows, block);
    });
}

/// What one block of channels has for all rows.
///
/// # Safety
/// For each [`Line`] and `ky < line.rows`, `count` bytes at `input + line.input + ky * row_step + x * pixels.input`, `x <
/// axis.input`, are readable; so are as many bytes at `outside` and the words of a block at `packed`, see the module's text.
/// `count` bytes at `output + line.output + x * pixels.output`, `x < across`, are writable. `count` is at most the block's
/// width, and `line.first + line.rows` at most `MOST_ROWS`.
struct Strip {
    input: *const i8,
    outside: *const i8,
    row_step: usize,
    packed: *const i32,
    groups: usize,
    output: *mut i8,
    pixels: Pixels,
    count: usize,
    across: usize,
    axis: Axis,
    quantization: Quantization,
}

type StripKernel = unsafe fn(&Strip, &[Line]);

/// `[kernel three, five or seven wide][stride - 1][blocks of 16, 32 or 64 channels]`
type Kernels<const WIDTHS: usize> = [[[StripKernel; WIDTHS]; 2]; 3];

/// Vectors of bytes and of words.
///
/// # Safety
/// Every function requires the instructions that the machine's token proves. Those with pointers require as many elements
/// there as the vector has, or as `part` says.
trait Bytes: Copy {
    /// The vector of as many `f32` as this one has words.
    type Floats: Copy;
    /// Which of the first elements are meant.
    type Part: Copy;
    const BYTES: usize;
    /// Whether loading and storing some of the elements takes longer than all of them.
    const PARTS_COST: bool;
    fn part(count: usize) -> Self::Part;
    unsafe fn load(from: *const i8, part: Self::Part) -> Self;
    unsafe fn words(from: *const i32) -> Self;
    unsafe fn scales(from: *const i32) -> Self::Floats;
    unsafe fn splat(byte: i8) -> Self;
    /// What is multiplied: the bytes and `OFFSET`.
    unsafe fn offset(self) -> Self;
    /// The bytes of four rows, word by word, in four vectors.
    unsafe fn interleave(rows: [Self; 4]) -> [Self; 4];
    /// `self` plus the products of offset bytes and bytes, four to a word.
    unsafe fn dot(self, values: Self, weights: Self) -> Self;
    /// The sums times the scales, rounded, as bytes; `most` limits products from above.
    unsafe fn quantize(sums: [Self; 4], scales: [Self::Floats; 4], most: f32, zero: i16) -> Self;
    unsafe fn at_least(self, bound: i8) -> Self;
    /// Exclusive or.
    unsafe fn flip(self, with: Self) -> Self;
    unsafe fn store(self, to: *mut i8, part: Self::Part);
}

/// A row of the input and the distance of its pixels: none, if it is the row outside.
type Row = (*const i8, usize);

/// Runs along the rows in steps. `KW` and `STEP` are the width and the stride of the kernel, of which `ROWS` rows are
/// multiplied at once.
#[inline(always)]
unsafe fn strip<B: Bytes, const KW: usize, const STEP: usize, const ROWS: usize>(s: &Strip, lines: &[Line]) {
    for line in lines {
        let mut rows: [Row; MOST_ROWS] = [(s.outside, 0); MOST_ROWS];
        for (ky, row) in rows[line.first..].iter_mut().take(line.rows).enumerate() {
            *row = (s.input.wrapping_add(line.input + ky * s.row_step), s.pixels.input);
        }
        for first in (0..s.across).step_by(STEP_OUTPUTS) {
            let x = first.min(s.across.saturating_sub(STEP_OUTPUTS));
            let start = x * STEP;
            // The columns of this step that lie in the image.
            let end = s.axis.input + s.axis.before;
            let (from, to) = (s.axis.before.saturating_sub(start), end.saturating_sub(start));
            let output = s.output.wrapping_add(line.output + x * s.pixels.output);
            // SAFETY: the caller's promise; the outputs from `x` on lie in the row.
            unsafe {
                let (some, all) = (B::part(s.count), B::part(B::BYTES));
                let ends = |column: usize| from <= column && column < to;
                let inside = from == 0 && (STEP_OUTPUTS - 1) * STEP + KW <= to;
                match (inside, B::PARTS_COST && s.count == B::BYTES) {
                    (true, false) => step::<B, KW, STEP, ROWS>(s, &rows, x, |_| true, some, output),
                    (false, false) => step::<B, KW, STEP, ROWS>(s, &rows, x, ends, some, output),
                    (true, true) => step::<B, KW, STEP, ROWS>(s, &rows, x, |_| true, all, output),
                    (false, true) => step::<B, KW, STEP, ROWS>(s, &rows, x, ends, all, output),
                }
            }
        }
    }
}

/// The outputs from `x` on, where `within` says which of their columns lie in the image.
#[inline(always)]
unsafe fn step<B: Bytes, const KW: usize, const STEP: usize, const ROWS: usize>(
    s: &Strip,
    rows: &[Row; MOST_ROWS],
    x: usize,
    within: impl Fn(usize) -> bool,
    part: B::Part,
    output: *mut i8,
) {
    // SAFETY: accesses are those listed at `Strip`; columns and rows outside the image are not read.
    unsafe {
        let quarter = B::BYTES / 4;
        let mut sums = [core::array::from_fn(|i| B::words(s.packed.add(i * quarter))); STEP_OUTPUTS];
        let left = (x * STEP).wrapping_sub(s.axis.before);
        for (group, rows) in rows.chunks_exact(ROWS).take(s.groups).enumerate() {
            let weights = s.packed.add((2 + group * KW) * B::BYTES);
            let rows: [Row; ROWS] = core::array::from_fn(|j| {
                let (row, pixel) = rows[j];
                (row.wrapping_add(left.wrapping_mul(pixel)), pixel)
            });
            group_of_rows::<B, KW, STEP, ROWS>(s, rows, &within, part, weights, &mut sums);
        }
        let scales = core::array::from_fn(|i| B::scales(s.packed.add(B::BYTES + i * quarter)));
        let q = s.quantization;
        let flip = B::splat(q.unsigned.flip());
        let most = f32::from(i16::from(q.limits.1) - i16::from(q.output_zero));
        for (o, sums) in sums.iter().enumerate().take(s.across) {
            let bytes = B::quantize(*sums, scales, most, q.output_zero.into()).at_least(q.limits.0);
            bytes.flip(flip).store(output.add(o * s.pixels.output), part);
        }
    }
}

/// A loop from 0 to a constant below 13, written out because its body works on registers that it picks by number.
macro_rules! unrolled {
    (for $i:ident in 0..$end:expr => $body:block) => { unrolled!($i, $end, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12) };
    ($i:ident, $end:expr, $body:block, $($number:literal)+) => {$(
        let $i = $number;
        if $i < $end $body
    )+};
}

/// Adds the products of some rows, which start under the first column of the step.
#[inline(always)]
unsafe fn group_of_rows<B: Bytes, const KW: usize, const STEP: usize, const ROWS: usize>(
    s: &Strip,
    rows: [Row; ROWS],
    within: &impl Fn(usize) -> bool,
    part: B::Part,
    weights: *const i32,
    sums: &mut [[B; 4]; STEP_OUTPUTS],
) {
    // SAFETY: a row is one of the line's or the bytes outside; a column is read if it lies in the image.
    unsafe {
        let columns = const { (STEP_OUTPUTS - 1) * STEP + KW };
        unrolled!(for column in 0..columns => {
            let values = match within(column) {
                true => B::interleave(core::array::from_fn(|j| {
                    let (row, pixel) = rows[j.min(ROWS - 1)];
                    B::load(row.wrapping_add(column * pixel), part).offset()
                })),
                false => [B::splat(*s.outside).offset(); 4],
            };
            for kx in 0..KW {
                if column >= kx && (column - kx) % STEP == 0 && (column - kx) / STEP < STEP_OUTPUTS {
                    for (i, sum) in sums[(column - kx) / STEP].iter_mut().enumerate() {
                        *sum = sum.dot(values[i], B::words(weights.add(kx * B::BYTES + i * B::BYTES / 4)));
                    }
                }
            }
            // Columns must stay in order: together they need more registers than there are.
            compiler_fence(Ordering::SeqCst);
        });
    }
}

/// The kernels for vectors of some lengths: the generic bodies above, compiled for the machine's features.
macro_rules! kernels {
    ($widths:literal, [$($v:ty),+], [$feature:meta]) => {
        #[$feature]
        unsafe fn strip<B: Bytes, const KW: usize, const STEP: usize, const ROWS: usize>(s: &Strip, lines: &[Line]) {
            // SAFETY: compiled for the set; the rest is the caller's promise.
            unsafe { super::strip::<B, KW, STEP, ROWS>(s, lines) }
        }

        const fn kernels<const KW: usize, const ROWS: usize>() -> [[StripKernel; $widths]; 2] {
            [[$(strip::<$v, KW, 1, ROWS>),+], [$(strip::<$v, KW, 2, ROWS>),+]]
        }

        pub(super) const KERNELS: Kernels<$widths> = [kernels::<3, 3>(), kernels::<5, 3>(), kernels::<7, 4>()];
    };
}
use kernels;
