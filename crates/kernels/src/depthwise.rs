//! Depthwise convolution of channels-last images: each channel with a kernel of its own.
//!
//! There is no product to speak of, so everything is about loads: one vector of channels at a time slides along an
//! output row, several outputs per step, and a column of the input that was loaded once serves every output that sees
//! it. Weights come packed: blocks of sixteen channels, each with its bias and its taps one after the other, whatever
//! the instruction set.
//!
//! ```text
//! input row under ky    c0 c1 c2 c3 c4 c5 ...     a column is one vector of channels of a pixel
//!                        │╲ │╲ │╲ │╲
//! outputs of a step      o0 o1 o2 o3              o_i += w[ky][kx] * c_(i * stride + kx), all in registers
//! ```
//!
//! Nothing is padded. A kernel row outside the image is left out: the output row is then that of a lower kernel. At the
//! left and right end of a row, columns outside the image count as zero; all steps between take the path that does not
//! ask. The last step of a row ends where the row does and may repeat outputs of the step before.
//!
//! A task takes some rows and walks them channel by channel, so that the rows that two output rows share are still in
//! the first-level cache; then the finished rows go through the rest of the epilogue.
#![allow(unsafe_code, reason = "pointers handed to the micro-kernels")]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod dots;
pub mod int8;
mod slide;
#[cfg(test)]
mod tests;

use crate::epilogue::{Function, Then, finish};
use crate::isa::Isa;
use crate::split::{self, Block, Cut, Tiling};
use core::ops::Range;
use sconce_parallel::{Parallel, Serial};
use slide::{Family, Strip};

/// Channels of a block of packed weights; a multiple of every vector's length.
const BLOCK: usize = 16;
/// Multiplications below which threads cost more than they bring.
const WORTH_THREADS: usize = 100_000;
/// Multiplications that are worth a task of their own.
const WORTH_A_TASK: usize = 500_000;
/// Elements of input and output that a task works on before it finishes the rows: they fit the second-level cache.
const TOGETHER: usize = 128 * 1024;
/// Most rows that are worked on together.
const MOST_LINES: usize = 32;

/// The geometry of a depthwise convolution; images are `[batch, height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depthwise {
    /// Images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an input image.
    pub input: [usize; 2],
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Steps between output positions.
    pub stride: [usize; 2],
    /// Zeros around the input: top, left, bottom, right.
    pub padding: [usize; 4],
    /// Distance between taps.
    pub dilation: [usize; 2],
}

/// Elements from one pixel to the next.
#[derive(Clone, Copy)]
struct Pixels {
    input: usize,
    output: usize,
}

/// One direction of the geometry.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    before: usize,
    dilation: usize,
}

impl Axis {
    /// The taps that lie in the image at output position `at`.
    fn taps(&self, at: usize) -> Range<usize> {
        let start = at * self.stride;
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let end = (self.input + self.before).saturating_sub(start).div_ceil(self.dilation).min(self.kernel);
        first.min(end)..end
    }

    /// The output positions in `0..end` for which all taps lie in the image.
    fn inside(&self, end: usize) -> Range<usize> {
        let reach = (self.kernel - 1) * self.dilation;
        let last = (self.input + self.before).checked_sub(reach).map_or(0, |room| room.div_ceil(self.stride));
        let first = self.before.div_ceil(self.stride);
        first..last.min(end)
    }
}

impl Depthwise {
    /// Height and width of an output image, or `None` if the geometry makes no sense or does not fit.
    pub fn output(&self) -> Option<[usize; 2]> {
        let mut output = [0; 2];
        for (axis, output) in output.iter_mut().enumerate() {
            let reach = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?;
            let padded = self.input[axis].checked_add(self.padding[axis])?.checked_add(self.padding[axis + 2])?;
            let room = padded.checked_sub(reach)?.checked_sub(1)?;
            *output = room.checked_div(self.stride[axis])? + 1;
        }
        let sensible = self.dilation.iter().all(|&dilation| dilation > 0);
        let elements = |[height, width]: [usize; 2]| {
            self.batch
                .checked_mul(height)?
                .checked_mul(width)?
                .checked_mul(self.channels)?
                .checked_mul(size_of::<f32>())
        };
        elements(self.input)?;
        elements(output)?;
        elements(self.kernel)?;
        sensible.then_some(output)
    }

    fn axis(&self, axis: usize) -> Axis {
        Axis {
            input: self.input[axis],
            kernel: self.kernel[axis],
            stride: self.stride[axis],
            before: self.padding[axis],
            dilation: self.dilation[axis],
        }
    }

    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Panics unless input and output have the elements this geometry asks for; gives the size of the output.
    fn check(&self, (input, output): (usize, usize), pixels: Pixels) -> [usize; 2] {
        let Some([height, width]) = self.output() else { panic!("{self:?} is not a convolution") };
        let seen = self.batch * self.input[0] * self.input[1];
        split::check_pixels(input, seen, (self.channels, pixels.input), self);
        split::check_pixels(output, self.batch * height * width, (self.channels, pixels.output), self);
        [height, width]
    }

    /// The distance of the rows of the input that two rows of the kernel see; of no use if there is one only.
    fn row_step(&self, pixels: Pixels) -> usize {
        self.dilation[0].wrapping_mul(self.input[1]).wrapping_mul(pixels.input)
    }

    /// How many output rows of `channels` channels are worked on together.
    fn together(&self, width: usize, channels: usize) -> usize {
        let pixels = self.stride[0].saturating_mul(self.input[1]).saturating_add(width);
        (TOGETHER / pixels.saturating_mul(channels).max(1)).clamp(1, MOST_LINES)
    }

    /// How the output, one row of channels per pixel, is cut into tasks: its pixels, by whole image rows, and its
    /// channels, if there are too few rows for the threads.
    fn cuts(&self, [height, width]: [usize; 2], unit: usize, threads: usize) -> (Cut, Cut) {
        let (rows, blocks) = (self.batch * height, self.channels.div_ceil(unit));
        let work = (rows * width).saturating_mul(self.channels).saturating_mul(self.taps());
        let each = (work / WORTH_A_TASK / threads).clamp(1, 4);
        let tasks = if threads == 1 || work < WORTH_THREADS { 1 } else { each * threads };
        let by_rows = rows >= 2 * tasks || rows >= blocks;
        let (down, across) = if by_rows { (tasks, 1) } else { (1, tasks) };
        (Cut { parts: down, unit: width }, Cut { parts: across, unit })
    }
}

/// How a depthwise convolution cuts its output, a row for each pixel, on n threads.
pub fn tiling(isa: Isa, geometry: &Depthwise, threads: usize) -> Option<Tiling> {
    let size = geometry.output()?;
    let (down, across) = geometry.cuts(size, BLOCK, threads);
    let outputs = Family::outputs(&geometry.axis(1), size[1]);
    Some(Tiling { tile: [outputs, Family::of(isa).lanes], parts: [down.parts, across.parts] })
}

/// The elements of packed weights.
pub fn packed_len(channels: usize, kernel: [usize; 2]) -> usize {
    channels.next_multiple_of(BLOCK) * (kernel[0] * kernel[1] + 1)
}

/// Packs weights `[taps, channels]` and a bias for [`depthwise`]. `packed` has [`packed_len`] elements.
pub fn pack(channels: usize, kernel: [usize; 2], weights: &[f32], bias: Option<&[f32]>, packed: &mut [f32]) {
    let taps = kernel[0] * kernel[1];
    assert_eq!(weights.len(), taps * channels, "weights of {channels} channels and {taps} taps");
    assert!(bias.is_none_or(|bias| bias.len() == channels), "bias of {channels} channels");
    assert_eq!(packed.len(), packed_len(channels, kernel), "packed weights of {channels} channels and {taps} taps");
    packed.fill(0.0);
    for (block, packed) in packed.chunks_exact_mut((taps + 1) * BLOCK).enumerate() {
        let first = block * BLOCK;
        let count = BLOCK.min(channels - first);
        if let Some(bias) = bias {
            packed[..count].copy_from_slice(&bias[first..][..count]);
        }
        for (tap, packed) in packed.chunks_exact_mut(BLOCK).skip(1).enumerate() {
            packed[..count].copy_from_slice(&weights[tap * channels + first..][..count]);
        }
    }
}

/// Convolves `input` with weights from [`pack`] and takes the steps of `then`. Limits as the first step cost nothing. Images
/// come with the distance of their pixels, as in [`crate::packed::conv2d`].
pub fn depthwise(
    isa: Isa,
    par: &dyn Parallel,
    geometry: &Depthwise,
    (input, from_pixel): (&[f32], usize),
    packed: &[f32],
    then: &[Then<'_>],
    (output, pixel): (&mut [f32], usize),
) {
    let pixels = Pixels { input: from_pixel, output: pixel };
    let size = geometry.check((input.len(), output.len()), pixels);
    assert_eq!(packed.len(), packed_len(geometry.channels, geometry.kernel), "packed weights of {geometry:?}");
    if output.is_empty() {
        return;
    }
    let (limits, then) = match *then {
        [Then::Apply(Function::Clamp(low, high)), ref rest @ ..] => (Some((low, high)), rest),
        _ => (None, then),
    };
    let family = Family::of(isa);
    let across = geometry.axis(1);
    let kernel = family.strip(&across, size[1]);
    let taps = geometry.taps();
    each_part(par, geometry, size, BLOCK, (output, pixels), |rows, lines, block| {
        for first in block.columns.clone().step_by(family.lanes) {
            let packed = &packed[first / BLOCK * BLOCK * (taps + 1)..][..BLOCK * (taps + 1)];
            let strip = Strip {
                input: input.as_ptr().wrapping_add(first),
                row_step: geometry.row_step(pixels),
                bias: packed[first % BLOCK..].as_ptr(),
                weights: packed[BLOCK + first % BLOCK..].as_ptr(),
                output: block.raw().0.wrapping_add(first - block.columns.start),
                pixels,
                count: (block.columns.end - first).min(family.lanes),
                across: size[1],
                axis: across,
                inside: across.inside(size[1]),
                limits,
            };
            // SAFETY: input, output and weights have the elements of the geometry, by the assertions above. A line
            // names only rows of the input and of the kernel that exist, and a row of the output that lies in the
            // block, which this task holds alone. The family belongs to a held token.
            unsafe { kernel(&strip, lines) };
        }
        if !then.is_empty() {
            let pixels = rows.start * size[1]..rows.end * size[1];
            block.each_run(pixels, geometry.channels, |at, run| finish(isa, then, at, run));
        }
    });
}

/// Where an output row finds its rows of the input and of the kernel.
#[derive(Clone, Copy, Default)]
struct Line {
    /// The row of the input under the first row of the kernel that lies in the image, in elements from the start.
    input: usize,
    /// The first row of the kernel that lies in the image.
    first: usize,
    /// How many do.
    rows: usize,
    /// The row of the output, in elements from the start of the task's block.
    output: usize,
}

impl Line {
    /// Output row `row`, counted over all images, for a task whose output starts at pixel `start`.
    fn new(g: &Depthwise, pixels: Pixels, [height, width]: [usize; 2], row: usize, start: usize) -> Self {
        let (image, y) = (row / height, row % height);
        let taps = g.axis(0).taps(y);
        let top = if taps.is_empty() { 0 } else { y * g.stride[0] + taps.start * g.dilation[0] - g.padding[0] };
        Self {
            input: (image * g.input[0] + top) * g.input[1] * pixels.input,
            first: taps.start,
            rows: taps.len(),
            output: (row * width - start) * pixels.output,
        }
    }
}

/// Cuts the output into tasks and each task into parts whose rows stay in the cache; calls `body` with the rows of a
/// part, counted over all images, where to find what they need, and the task's block. Channels are cut in multiples of
/// `unit`.
fn each_part<T: Send>(
    par: &dyn Parallel,
    geometry: &Depthwise,
    size: [usize; 2],
    unit: usize,
    (output, pixels): (&mut [T], Pixels),
    body: impl Fn(Range<usize>, &[Line], &mut Block<'_, T>) + Sync,
) {
    let (channels, [height, width]) = (geometry.channels, size);
    let cuts = geometry.cuts(size, unit, par.width());
    let par = if cuts.0.parts * cuts.1.parts == 1 { &Serial } else { par };
    split::blocks(par, output, pixels.output, (geometry.batch * height * width, channels), cuts, |mut block| {
        let rows = block.rows.start / width..block.rows.end / width;
        let together = geometry.together(width, block.columns.len());
        for first in rows.clone().step_by(together) {
            let rows = first..rows.end.min(first + together);
            let mut lines = [Line::default(); MOST_LINES];
            for (line, row) in lines.iter_mut().zip(rows.clone()) {
                *line = Line::new(geometry, pixels, size, row, block.rows.start);
            }
            body(rows.clone(), &lines[..rows.len()], &mut block);
        }
    });
}
