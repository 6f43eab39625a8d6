//! Winograd's method for bytes, in whole numbers: the results are those of the direct form, bit for bit.
//!
//! Tiles have four pixels along a side, so there are four times fewer multiplications than in the direct form. Bytes become
//! 16-bit numbers: a transformed patch is up to 100 times as large as the bytes, a transformed filter, whose rows are
//! multiplied by their denominators, up to 49 times, and both fit. Where sets multiply half as many 16-bit numbers as bytes
//! at a time, half of the gain is left; where they have no products of bytes without overflow, all of it.
//!
//! ```text
//! image ──▶ 36 matrices [tiles x in] of 16 bits ──times packed filter──▶ 36 matrices [tiles x out] of 32 bits ──▶ bytes
//! ```
//!
//! Products of matrices may exceed 32 bits, and so may what the output's transform makes of them: a result, with all
//! denominators in it, is up to 9 · 64 times the sum that is asked for. But all of it is additions and multiplications, which
//! are right modulo 2³²; a ninth is a multiplication, too, by the number that gives one with nine; and what is then 64 times
//! the sum tells the sum, if that has 26 bits. That is so for all bytes as long as there are no more than [`MOST_CHANNELS`].
//!
//! Sums are those of the bytes themselves. What the zero of the input brings is taken off by a summand for each channel, and
//! what lies outside the image counts as that zero.
#![allow(unsafe_code, reason = "addresses handed to the micro-kernels, tiles of one output on several threads")]

mod filter;
#[cfg(test)]
mod tests;
mod tile;
mod transform;

use super::shape::{Shape, product, share};
use super::{Output, WORTH_THREADS};
use crate::bytes::Tail;
use crate::isa::Isa;
use crate::packed::Conv2d;
use crate::packed::int8::{LANES, Line, Quantization};
use crate::split::{self, Block, Slots, Tiling};
use crate::view::{bytes_of_mut, view_mut};
use core::mem::MaybeUninit;
use core::ops::Range;
use sconce_parallel::{Parallel, Serial};
use tile::{Family, MOST_LINES, Tile};
pub(super) use transform::TOGETHER;
use transform::{Narrowing, PATCH};

/// Pixels along a side of an output tile.
const SIDE: usize = Output::Four.side();
/// Products of matrices.
const MATRICES: usize = Output::Four.matrices();
/// Most input channels: that many sums of nine products of bytes stay below 2²⁵.
pub const MOST_CHANNELS: usize = (1 << 25) / (9 * 128 * 128);

/// Whether the method applies: where [`super::applies`], and sums are not too large.
pub fn applies(conv: &Conv2d) -> bool {
    super::applies(conv) && conv.in_channels <= MOST_CHANNELS
}

/// Lines that [`pack`] writes.
pub fn packed_len(conv: &Conv2d) -> usize {
    let lines = conv.out_channels.div_ceil(LANES);
    product(&[lines, 1 + MATRICES * conv.in_channels.div_ceil(2)])
}

/// Packs a filter `[out, 3, 3, in]` into `packed`, whose length is [`packed_len`], for inputs with this zero.
///
/// ```text
/// a summand for each output channel
/// panel by panel of up to 4 lines of 16 channels: 36 matrices of in / 2 rows of lines, each with two weights of every channel
/// ```
pub fn pack(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    filter: &[i8],
    bias: Option<&[i32]>,
    input_zero: i8,
    packed: &mut [Line],
) {
    assert!(applies(conv), "{conv:?} is not for Winograd's method");
    assert_eq!(packed.len(), packed_len(conv), "the packed weights of {conv:?}");
    let k = 9 * conv.in_channels;
    assert_eq!(filter.len(), product(&[conv.out_channels, k]), "the filter of {conv:?}");
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "bias of {conv:?}");
    let (starts, panels) = packed.split_at_mut(conv.out_channels.div_ceil(LANES));
    let starts = starts.iter_mut().flat_map(|line| &mut line.0);
    for (channel, (start, weights)) in starts.zip(filter.chunks_exact(k)).enumerate() {
        let total: i32 = weights.iter().map(|weight| i32::from(*weight)).sum();
        *start = bias.map_or(0, |bias| bias[channel]).wrapping_sub(total.wrapping_mul(input_zero.into()));
    }
    let width = Family::of(isa).width(conv.out_channels);
    split::chunks(par, panels, width * MATRICES * conv.in_channels.div_ceil(2), |panel, lines| {
        let columns = panel * width * LANES..conv.out_channels.min((panel + 1) * width * LANES);
        filter::panel(isa, conv.in_channels, filter, columns, lines);
    });
}

/// How a convolution is cut, and the lines across a panel.
fn cut(isa: Isa, conv: &Conv2d) -> (Shape, usize) {
    let family = Family::of(isa);
    let width = family.width(conv.out_channels);
    let words = conv.in_channels.next_multiple_of(TOGETHER) / 2;
    (Shape::new(conv, Output::Four, (family.tallest(width), width * LANES), (words, 0)), width)
}

/// How [`winograd`] cuts its matrix products on n threads.
pub fn tiling(isa: Isa, conv: &Conv2d, threads: usize) -> Tiling {
    let (shape, width) = cut(isa, conv);
    let (blocks, parts) = shape.tasks(threads);
    Tiling { tile: [Family::of(isa).tallest(width), width * LANES], parts: [blocks, parts] }
}

/// Words of scratch that [`winograd`] needs on `width` threads.
pub fn scratch_len(isa: Isa, conv: &Conv2d, width: usize) -> usize {
    product(&[cut(isa, conv).0.slot(), Slots::<i32>::count(width)])
}

/// Convolves bytes to bytes as [`conv2d`](crate::packed::int8::conv2d) does. `packed` comes from [`pack`] for the same set,
/// geometry and zero of the input; `tail` follows. Images come with the distance of their pixels.
pub fn winograd(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    (quantization, tail): (&Quantization, Tail<'_>),
    (input, from_pixel): (&[i8], usize),
    (packed, scale): (&[Line], &[f32]),
    (output, pixel): (&mut [i8], usize),
    scratch: &mut [i32],
) {
    assert!(applies(conv), "{conv:?} is not for Winograd's method");
    let (shape, width) = cut(isa, conv);
    let pixels = product(&[conv.batch, shape.size[0], shape.size[1]]);
    let seen = product(&[conv.batch, conv.input[0], conv.input[1]]);
    split::check_pixels(input.len(), seen, (conv.in_channels, from_pixel), conv);
    split::check_pixels(output.len(), pixels, (conv.out_channels, pixel), conv);
    assert_eq!(packed.len(), packed_len(conv), "packed weights of {conv:?}");
    assert_eq!(scale.len(), conv.out_channels, "scales of {conv:?}");
    tail.check(product(&[pixels, conv.out_channels]));
    if output.is_empty() {
        return;
    }
    // Four bytes are multiplied in the time of one number.
    let work = pixels.saturating_mul(conv.out_channels).saturating_mul(9 * conv.in_channels) / 4;
    let par = if work < WORTH_THREADS { &Serial } else { par };
    let slots = Slots::new(scratch, shape.slot(), par.width());
    let (blocks, parts) = shape.tasks(par.width());
    let (starts, panels) = packed.split_at(conv.out_channels.div_ceil(LANES));
    let (out, distances) = (output.as_mut_ptr(), (from_pixel, pixel));
    let job = Job { isa, conv, shape, width, input, starts, panels, scale, quantization, tail, out, distances };
    par.run(blocks * parts, &|task| {
        let tiles = share(shape.tiles, task / parts, blocks);
        let panels = share(shape.panels, task % parts, parts);
        slots.with(|scratch| job.block(tiles, panels, scratch));
    });
}

/// Where the products of a tile of every matrix go: they stay in the nearest cache until they are transformed.
type Room = [MaybeUninit<Line>; MATRICES * MOST_LINES];

/// What all tasks of a convolution share.
struct Job<'a> {
    isa: Isa,
    conv: &'a Conv2d,
    shape: Shape,
    /// Lines across a panel.
    width: usize,
    input: &'a [i8],
    /// The summand of each channel, line by line.
    starts: &'a [Line],
    panels: &'a [Line],
    scale: &'a [f32],
    quantization: &'a Quantization,
    tail: Tail<'a>,
    out: *mut i8,
    /// Elements from one pixel to the next, of the input and of the output.
    distances: (usize, usize),
}

// SAFETY: the output outlives the call, and no two tasks have a tile and a panel in common.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Computes some tiles and some panels of channels.
    fn block(&self, tiles: Range<usize>, panels: Range<usize>, scratch: &mut [i32]) {
        let shape = &self.shape;
        let (patches, _) = shape.parts(&tiles, scratch);
        let mut room: Room = [const { MaybeUninit::uninit() }; _];
        self.isa.vectorize(
            #[inline(always)]
            || self.transform_patches(tiles.clone(), patches),
        );
        let (family, count) = (Family::of(self.isa), tiles.len());
        for panel in panels.clone() {
            let first = panel * self.width;
            let lines = first..self.starts.len().min(first + self.width);
            let strips = count.div_ceil(family.tallest(lines.len()));
            for rows in (0..strips).map(|strip| share(count, strip, strips)) {
                let products =
                    self.multiply(lines.clone(), &patches[rows.start * shape.channels..], rows.len(), &mut room);
                let tiles = tiles.start + rows.start..tiles.start + rows.end;
                self.isa.vectorize(
                    #[inline(always)]
                    || self.transform_products(tiles, lines.clone(), products),
                );
            }
        }
        let channels = panels.start * self.width * LANES..self.conv.out_channels.min(panels.end * self.width * LANES);
        self.finish(tiles, channels);
    }

    /// Writes the transforms of the patches under some tiles.
    #[inline(always)]
    fn transform_patches(&self, tiles: Range<usize>, patches: &mut [i32]) {
        let plane = 2 * self.shape.planes().0;
        let patches: &mut [i16] = view_mut(bytes_of_mut(patches)).expect("words are two numbers each");
        let (channels, padding) = (self.conv.in_channels, [self.quantization.input_zero; TOGETHER]);
        for (i, tile) in tiles.enumerate() {
            let places = self.places(tile);
            for channel in (0..channels).step_by(TOGETHER) {
                let to = &mut patches[i * 2 * self.shape.channels + channel..];
                let count = channels - channel;
                transform::patch(
                    &places,
                    #[inline(always)]
                    |place| {
                        let from = self.input.get(place + channel..).unwrap_or_default();
                        if count >= TOGETHER {
                            return *from.first_chunk().unwrap_or(&padding);
                        }
                        let mut part = padding;
                        part.iter_mut().zip(from.iter().take(count)).for_each(|(to, from)| *to = *from);
                        part
                    },
                    to,
                    plane,
                );
            }
        }
    }

    /// Where the pixels of the patch under a tile start; behind the image, if they lie outside.
    #[inline(always)]
    fn places(&self, tile: usize) -> [[usize; PATCH]; PATCH] {
        let (first, [rows, columns]) = self.shape.patch(self.conv, tile);
        let mut places = [[self.input.len(); PATCH]; PATCH];
        for (i, line) in places.iter_mut().enumerate().filter(|(i, _)| rows.contains(i)) {
            let start = first.wrapping_add(i * self.conv.input[1]);
            for (j, place) in line.iter_mut().enumerate().filter(|(j, _)| columns.contains(j)) {
                *place = start.wrapping_add(j) * self.distances.0;
            }
        }
        places
    }

    /// Multiplies n rows of all matrices of patches with those of the filter for the lines of a panel. What comes out are
    /// the rows of each matrix, as wide as the panel.
    fn multiply<'a>(&self, lines: Range<usize>, patches: &[i32], rows: usize, room: &'a mut Room) -> &'a [Line] {
        let (shape, steps, width) = (&self.shape, self.conv.in_channels.div_ceil(2), lines.len());
        let plane = shape.planes().0;
        let weights = &self.panels[lines.start * MATRICES * steps..][..width * MATRICES * steps];
        let sums = &mut room[..MATRICES * rows * width];
        let tile = Tile {
            matrices: MATRICES,
            rows: patches[..(MATRICES - 1) * plane + rows * shape.channels].as_ptr(),
            stride: shape.channels,
            plane,
            steps,
            panel: weights.as_ptr(),
            sums: sums.as_mut_ptr().cast(),
        };
        // SAFETY: rows of patches have at least as many words as there are steps, and reach to the last matrix; the panel was
        // cut to its length, and so were the sums, which the kernel writes all. The family belongs to a held token.
        unsafe {
            Family::of(self.isa).tile(rows, width)(&tile);
            core::slice::from_raw_parts(sums.as_ptr().cast(), sums.len())
        }
    }

    /// Stores the bytes of some tiles and some lines of channels.
    #[inline(always)]
    fn transform_products(&self, tiles: Range<usize>, lines: Range<usize>, products: &[Line]) {
        let (shape, width, plane) = (&self.shape, self.shape.size[1], tiles.len() * lines.len());
        for (i, tile) in tiles.enumerate() {
            let (image, y, x) = shape.place(tile);
            let start = (image * shape.size[0] + y) * width + x;
            let (rows, columns) = ((shape.size[0] - y).min(SIDE), (width - x).min(SIDE));
            for (j, line) in lines.clone().enumerate() {
                transform::tile(
                    &products[i * lines.len() + j..],
                    plane,
                    &self.narrowing(line),
                    #[inline(always)]
                    |row, column, bytes| {
                        if row < rows && column < columns {
                            // SAFETY: the pixel lies in the output, in a tile that no other task has with this line.
                            unsafe { self.store(start + row * width + column, line, bytes) };
                        }
                    },
                );
            }
        }
    }

    /// Stores a line of channels of a pixel, or what there is of it.
    ///
    /// # Safety
    /// The pixel lies in the output, whose length `winograd` asserted, the line in its channels, and no other task has both.
    #[inline(always)]
    unsafe fn store(&self, pixel: usize, line: usize, bytes: &[i8; LANES]) {
        let (first, count) = (line * LANES, self.conv.out_channels - line * LANES);
        // SAFETY: as promised here.
        unsafe {
            let to = self.out.add(pixel * self.distances.1 + first);
            match count >= LANES {
                true => to.cast::<[i8; LANES]>().write_unaligned(*bytes),
                false => to.copy_from_nonoverlapping(bytes.as_ptr(), count),
            }
        }
    }

    /// How the sums of a line of channels become bytes.
    #[inline(always)]
    fn narrowing(&self, line: usize) -> Narrowing {
        let Quantization { output_zero: zero, limits: (low, high), .. } = *self.quantization;
        let before_zero = |limit: i8| f32::from(limit) - f32::from(zero);
        let mut scale = [0.0; LANES];
        scale.iter_mut().zip(&self.scale[line * LANES..]).for_each(|(to, from)| *to = *from);
        Narrowing { start: self.starts[line].0, scale, limits: (before_zero(low), before_zero(high)), zero }
    }

    /// Takes the step that is left, for tiles whose channels are all done.
    fn finish(&self, tiles: Range<usize>, columns: Range<usize>) {
        if matches!(self.tail, Tail::Nothing) {
            return;
        }
        self.shape.each_line(tiles, |pixels| {
            // SAFETY: these are pixels of this task's tiles in the output and channels of its panels, which no other task has.
            let mut block = unsafe {
                let start = self.out.add(pixels.start * self.distances.1 + columns.start);
                Block::held(start, self.distances.1, pixels.clone(), columns.clone())
            };
            block.each_run(pixels, self.conv.out_channels, |at, bytes| self.tail.take(self.isa, at, bytes));
        });
    }
}
