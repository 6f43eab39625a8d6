//! Products and convolutions of bytes with packed weights, on channels-last data.
//!
//! The form of [`super`] for quantised nets: inputs and weights are signed bytes, sums are 32-bit integers.
//!
//! ```text
//!   image ──fill──▶ strip: up to 112 patches,     packed weights: panels of up to 4 lines of 16 channels
//!                   lines of the image            ┌────────┐
//!                   ┌────────────────┐            │ start  │ bias, and what the offsets of the inputs bring
//!                   │ line 0         │            │ totals │ sum of a channel's weights
//!                   │ line 1 ...     │            │ ...    │ k/4 rows: four weights of each channel, a line for sixteen
//!                   └────────────────┘            └────────┘
//!                            └─────── mr x nr sums in registers, then finished and stored ──┘
//! ```
//!
//! Where instructions multiply matrices (see `dots`), a row is k/8 of eight weights, two lines for sixteen channels. The
//! dot-product instruction of x86 multiplies unsigned bytes by signed ones, so inputs have to be offset by 128. Doing
//! that for every broadcast costs a third of the speed where two dot products start per cycle; here it is done once per
//! strip, while it is filled, and all panels use the strip. Filling also leaves no borders or odd channel counts to the
//! micro-kernel: lines come with their padding, neighbouring taps run together (seven pixels of three channels are 21 bytes),
//! and each such run is padded by weights of zero. Where lines of the image cannot be taken as they are, a strip has one dense
//! row for each patch (see `strip`). The offset is taken back in `start`, when weights are packed. Elsewhere bytes have their
//! sign on both sides, and the offset is zero.
#![allow(unsafe_code, reason = "addresses handed to the micro-kernels")]

pub(crate) mod dots;
mod dynamic;
mod layout;
mod pack;
mod requantize;
mod strip;
#[cfg(test)]
pub(crate) mod tests;
mod tile;

pub use crate::depthwise::int8::{Quantization, Unsigned};
pub use dynamic::{Affine, Weights, conv2d_dynamic, quantize_rows};
pub use layout::{Kind, packed_len, scratch_len};
pub use pack::{pack, pack_nibbles};

use super::{Conv2d, Filter, NEAR, WORTH_A_TASK, WORTH_THREADS, cuts};
use crate::bytes::Tail;
use crate::isa::Isa;
use crate::split::{self, Block, Cut, Slots, Tiling};
use core::mem::MaybeUninit;
use core::ops::Range;
use layout::{Layout, STRIP};
use requantize::{Bytes, Narrowing};
use sconce_parallel::{Parallel, Serial};
use strip::Patches;
use tile::{Family, Tile, WIDEST};

/// Bytes that are handed on together when they are finished: they are still near, and the oldest of them not just written.
const PIECE: usize = 8 * 1024;
/// Fewest rows of the output that a task takes.
const FEWEST_ROWS: usize = 16;
/// Channels in a line.
pub(crate) const LANES: usize = 16;

/// A cache line of packed weights: of each of 16 channels a number, or four weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub(crate) [i32; LANES]);

impl Line {
    /// The words of some lines.
    fn words(lines: &[Self]) -> &[i32] {
        // SAFETY: a line is exactly its words.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
    }
}

/// Convolves bytes to bytes: `limits(round(scale[channel] * sum) + output_zero)`, ties to even, where `sum` is the bias
/// plus the products of the weights with the differences of inputs to `input_zero`. What is outside the image counts as
/// `input_zero`.
///
/// `packed` comes from [`pack`] for the same set, geometry and `input_zero`; `tail` follows; `scratch` has [`scratch_len`]
/// bytes. The output comes with the distance of its pixels, as in [`super::conv2d`].
pub fn conv2d(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    (quantization, tail): (&Quantization, Tail<'_>),
    input: &[i8],
    (packed, scale): (&[Line], &[f32]),
    (output, pixel): (&mut [i8], usize),
    scratch: &mut [u8],
) {
    assert_eq!(scale.len(), conv.out_channels, "scales of {conv:?}");
    let layout = Layout::of(&Family::of(isa, Kind::Bytes), conv, Kind::Bytes);
    let padding = |_| quantization.input_zero;
    // Without an early end, so that several are compared at once.
    let shrinks = scale.iter().fold(true, |shrinks, scale| shrinks & (scale.abs() < 1.0));
    if let Some([height, width]) = conv.output() {
        tail.check(conv.batch * height * width * conv.out_channels);
    }
    let bytes = |panel: Panel<'_>, block: &mut Block<'_, i8>| {
        let scale = &scale[panel.channels()];
        panel.bytes(quantization, (scale, shrinks), block);
    };
    let after = |rows: Range<usize>, first: usize, block: &mut Block<'_, i8>| {
        if !matches!(tail, Tail::Nothing) {
            block.each_run(rows, conv.out_channels, |at, run| tail.take(isa, first + at, run));
        }
    };
    let form = if quantization.unsigned.input { Input::Unsigned(input) } else { Input::Signed(input, &padding) };
    convolve(isa, par, conv, form, (layout, packed), (output, pixel), scratch, (bytes, after));
}

/// Whether a convolution can read bytes without a sign, and then reads them where they are.
pub fn reads_unsigned(isa: Isa, conv: &Conv2d) -> bool {
    let family = Family::of(isa, Kind::Bytes);
    let whole = conv.in_channels.is_multiple_of(4 * family.lines) && conv.in_channels > 0;
    family.flip != 0 && conv.is_pixelwise() && conv.groups == 1 && whole
}

/// A strip of patches that meets a panel of weights: a piece of the output that is to be computed.
struct Panel<'a> {
    family: &'a Family,
    layout: &'a Layout,
    rows: Range<usize>,
    /// Channels, counted in the group.
    columns: Range<usize>,
    first_channel: usize,
    strip: &'a [u8],
    lines: &'a [Line],
    sums: &'a mut Room,
}

/// Where tiles write their sums, if they write those.
type Room = [MaybeUninit<Line>; STRIP * WIDEST];

impl<'a> Panel<'a> {
    /// Lines across.
    fn width(&self) -> usize {
        self.columns.len().div_ceil(LANES)
    }

    /// The channels of the output that it covers.
    fn channels(&self) -> Range<usize> {
        self.first_channel + self.columns.start..self.first_channel + self.columns.end
    }

    /// The tiles of n rows from row `first` of the strip on, `count` of them.
    fn tiles(&mut self, first: usize, height: usize, count: usize) -> Tile {
        let Layout { runs, steps, strip, .. } = *self.layout;
        let (width, rows) = (self.width(), height * count);
        let read = (rows - 1) * strip.step + (runs - 1) * strip.line + self.layout.run_len();
        Tile {
            height,
            count,
            rows: self.strip[first * strip.step..][..read].as_ptr(),
            stride: strip.step,
            panel: self.lines.as_ptr(),
            runs,
            line: strip.line,
            steps: steps / runs,
            group_steps: self.layout.group_steps(),
            sums: self.sums[first * width..][..rows * width].as_mut_ptr().cast(),
        }
    }

    /// Calls `body` with the first row of some tiles of the same height, counted in the strip, and the tiles: all that are as
    /// high as the first one, then the last one if it is not.
    #[inline(always)]
    fn each_height(&mut self, mut body: impl FnMut(usize, &Tile)) {
        let (rows, tallest) = (self.rows.len(), self.family.tallest(self.width()));
        let height = if rows <= tallest { rows } else { rows.div_ceil(rows.div_ceil(tallest)) };
        let (count, rest) = (rows / height, rows % height);
        body(0, &self.tiles(0, height, count));
        if rest > 0 {
            body(count * height, &self.tiles(count * height, rest, 1));
        }
    }

    /// Computes the sums.
    fn sums(mut self) -> Piece<'a> {
        let (family, width) = (self.family, self.width());
        // SAFETY: as many rows as the tiles have lie in the strip, each with all steps' bytes, and in the sums; the panel was
        // cut to its length. The family belongs to a held token.
        self.each_height(|_, tiles| unsafe { family.tile(tiles.height, width)(tiles) });
        let Self { rows, columns, first_channel, sums, lines, .. } = self;
        let sums = &sums[..rows.len() * width];
        // SAFETY: the tiles are all rows, and wrote as many lines for each.
        let sums = unsafe { core::slice::from_raw_parts(sums.as_ptr().cast(), sums.len()) };
        Piece { rows, columns, first_channel, sums, totals: &lines[width..2 * width] }
    }

    /// Computes the bytes that the sums stand for, with the scales of these channels, and whether all are less than one.
    fn bytes(mut self, quantization: &Quantization, (scale, shrinks): (&[f32], bool), block: &mut Block<'_, i8>) {
        let (family, width) = (self.family, self.width());
        let inside = block.rows.start <= self.rows.start
            && self.rows.end <= block.rows.end
            && block.columns.start <= self.columns.start
            && self.columns.end <= block.columns.end;
        assert!(inside && scale.len() == self.columns.len(), "{:?} x {:?} of a block", self.rows, self.columns);
        let (start, stride) = block.raw();
        let first = (self.rows.start - block.rows.start) * stride + self.columns.start - block.columns.start;
        let mut room = [0.0; LANES * WIDEST];
        let narrowing = Narrowing::new(quantization, (scale, shrinks), &mut room);
        self.each_height(|row, tiles| {
            // SAFETY: of the tiles as above; the rows of the output are in the block, as just asserted, and so are its
            // columns, of which there are as many as scales.
            unsafe {
                let to = Bytes { out: start.add(first + row * stride), stride, narrowing: &narrowing };
                family.bytes(tiles.height, width)(tiles, &to);
            }
        });
    }
}

/// A piece of the output whose sums are known.
struct Piece<'a> {
    rows: Range<usize>,
    /// Channels, counted in the group.
    columns: Range<usize>,
    first_channel: usize,
    /// Row by row, as wide as the panel.
    sums: &'a [Line],
    /// The totals of the panel.
    totals: &'a [Line],
}

impl Piece<'_> {
    /// The channels of the output that this piece covers.
    fn channels(&self) -> Range<usize> {
        self.first_channel + self.columns.start..self.first_channel + self.columns.end
    }

    /// Where the piece lies in the rows of the block.
    fn place<T>(&self, block: &Block<'_, T>) -> Range<usize> {
        self.columns.start - block.columns.start..self.columns.end - block.columns.start
    }

    /// Calls `body(row, sums, totals, out)` for every row, compiled for the set.
    #[inline(always)]
    fn each_row<T>(&self, isa: Isa, block: &mut Block<'_, T>, body: impl Fn(usize, &[i32], &[i32], &mut [T])) {
        let place = self.place(block);
        let totals = Line::words(self.totals);
        isa.vectorize(
            #[inline(always)]
            || {
                for (row, sums) in self.rows.clone().zip(self.sums.chunks_exact(self.totals.len())) {
                    let out = &mut block.row(row)[place.clone()];
                    body(row, &Line::words(sums)[..out.len()], &totals[..out.len()], out);
                }
            },
        );
    }
}

/// The bytes of images.
enum Input<'a> {
    /// With the padding of an image, by its index.
    Signed(&'a [i8], &'a (dyn Fn(usize) -> i8 + Sync)),
    /// As kernels take them, for [`reads_unsigned`].
    Unsigned(&'a [i8]),
}

/// What all kinds of convolution share: checks, then every piece of the output is summed up and handed to `finish`, and rows
/// of a block whose pieces are all finished, with the first channel of the group, to `after`.
fn convolve<T: Send>(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    input: Input<'_>,
    (mut layout, packed): (Layout, &[Line]),
    (output, pixel): (&mut [T], usize),
    scratch: &mut [u8],
    (finish, after): (
        impl Fn(Panel<'_>, &mut Block<'_, T>) + Sync,
        impl Fn(Range<usize>, usize, &mut Block<'_, T>) + Sync,
    ),
) {
    let family = Family::of(isa, layout.kind);
    let is_direct = matches!(input, Input::Unsigned(_));
    let (input, padding): (_, &(dyn Fn(usize) -> i8 + Sync)) = match input {
        Input::Signed(input, padding) => (input, padding),
        Input::Unsigned(input) => {
            assert!(reads_unsigned(isa, conv), "{conv:?} with bytes that have no sign");
            layout.strip.step = conv.in_channels;
            (input, &|_| 0)
        }
    };
    let size = conv.output().unwrap_or_else(|| panic!("{conv:?} is not a convolution"));
    let m = conv.batch * size[0] * size[1];
    assert_eq!(input.len(), conv.batch * conv.input[0] * conv.input[1] * conv.in_channels, "input of {conv:?}");
    split::check_pixels(output.len(), m, (conv.out_channels, pixel), conv);
    assert_eq!(packed.len(), layout.lines() * conv.groups, "packed weights of {conv:?}");
    if m == 0 || conv.out_channels == 0 {
        return;
    }
    let (n, channels) = (layout.n, conv.group_in());
    let (threads, cuts) = tasks(&family, &layout, m, par.width());
    let par = if threads == 1 { &Serial } else { par };
    let slots = Slots::new(scratch, layout.scratch(), par.width());
    for g in 0..conv.groups {
        let job = Job {
            family,
            layout,
            // Without a pixel, there is only the border.
            patches: Patches { conv, size, input: input.get(g * channels..).unwrap_or_default(), channels, padding },
            panels: &packed[g * layout.lines()..][..layout.lines()],
            first_channel: g * n,
            is_direct,
            finish: &finish,
            after: &after,
        };
        split::blocks(par, &mut output[g * n..], pixel, (m, n), cuts, |block| {
            slots.with(|scratch| job.block(block, scratch));
        });
    }
}

/// How a convolution of this kind cuts its output on n threads.
pub fn tiling(isa: Isa, conv: &Conv2d, kind: Kind, threads: usize) -> Option<Tiling> {
    let [height, width] = conv.output()?;
    let family = Family::of(isa, kind);
    let layout = Layout::of(&family, conv, kind);
    let (_, (rows, columns)) = tasks(&family, &layout, conv.batch * height * width, threads);
    Some(Tiling { tile: [rows.unit, columns.unit], parts: [rows.parts, columns.parts] })
}

/// How many threads a group with `m` pixels is worth, and how it is cut for them.
fn tasks(family: &Family, layout: &Layout, m: usize, threads: usize) -> (usize, (Cut, Cut)) {
    // Four bytes are multiplied in the time of one number.
    let work = m.saturating_mul(layout.n).saturating_mul(layout.k) / 4;
    let threads = if work < WORTH_THREADS { 1 } else { threads };
    let (rows, columns) = cuts((FEWEST_ROWS, layout.nr()), (m, layout.n), threads, work / WORTH_A_TASK);
    // Parts of whole tiles, so that few rows are parted evenly, too.
    (threads, (Cut { unit: family.tallest(layout.width), ..rows }, columns))
}

/// What all tasks of a convolution (of one group) share.
struct Job<'a, F, A> {
    family: Family,
    layout: Layout,
    patches: Patches<'a>,
    panels: &'a [Line],
    first_channel: usize,
    /// Whether the image is a strip already.
    is_direct: bool,
    finish: &'a F,
    after: &'a A,
}

impl<F, A> Job<'_, F, A> {
    /// Cuts pixels into those of strips. A strip of lines of the image makes pixels of one line; others make whole tiles.
    fn strips(&self, pixels: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<F, A> {
        let (Range { start, end }, most) = (pixels.clone(), self.layout.strip.patches);
        let in_lines = self.layout.is_in_lines();
        let line = if in_lines { self.patches.size[1] } else { end };
        let lines = (start / line..end.div_ceil(line)).map(move |y| start.max(y * line)..end.min((y + 1) * line));
        let tallest = self.family.tallest(self.layout.width);
        let whole = most / tallest * tallest;
        lines.flat_map(move |pixels| {
            let len = if in_lines { pixels.len().div_ceil(pixels.len().div_ceil(most)) } else { whole };
            let end = pixels.end;
            pixels.step_by(len).map(move |start| start..end.min(start + len))
        })
    }

    /// Computes a block of the output: some pixels, some whole panels of channels.
    fn block<T>(&self, mut block: Block<'_, T>, scratch: &mut [u8])
    where
        F: Fn(Panel<'_>, &mut Block<'_, T>),
        A: Fn(Range<usize>, usize, &mut Block<'_, T>),
    {
        let start = scratch.as_ptr().align_offset(64).min(63);
        let strip = &mut scratch[start..][..self.layout.strip_len()];
        let nr = self.layout.nr();
        let near = (NEAR / (self.layout.depth() * self.layout.width * size_of::<Line>())).max(1) * nr;
        let (rows, columns) = (block.rows.clone(), block.columns.clone());
        let mut sums: Room = [const { MaybeUninit::uninit() }; _];
        let mut finished = rows.start;
        for first in columns.clone().step_by(near) {
            let panels = first..columns.end.min(first + near);
            for rows in self.strips(&rows) {
                let strip = match self.is_direct {
                    true => self.patches.pixels_from(rows.start),
                    false => {
                        // SAFETY: the family belongs to a held token.
                        unsafe { (self.family.fill)(&self.patches, rows.clone(), &self.layout, strip) };
                        &*strip
                    }
                };
                for column in panels.clone().step_by(nr) {
                    let columns = column..panels.end.min(column + nr);
                    let panel = Panel {
                        family: &self.family,
                        layout: &self.layout,
                        rows: rows.clone(),
                        lines: self.layout.panel(self.panels, &columns),
                        columns,
                        first_channel: self.first_channel,
                        strip,
                        sums: &mut sums,
                    };
                    (self.finish)(panel, &mut block);
                }
                let enough = (rows.end - finished) * columns.len() >= PIECE || rows.end == block.rows.end;
                if panels.end == columns.end && enough {
                    (self.after)(finished..rows.end, self.first_channel, &mut block);
                    finished = rows.end;
                }
            }
        }
    }
}
