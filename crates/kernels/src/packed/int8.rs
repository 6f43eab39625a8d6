//! Products and convolutions of bytes with packed weights, on channels-last data.
//!
//! The form of [`super`] for quantised nets: inputs and weights are signed bytes, sums are 32-bit integers.
//!
//! ```text
//!   image ──gather──▶ strip: up to 24 patches,    packed weights: panels of up to 4 lines of 16 channels
//!                     one dense row each          ┌────────┐
//!                     ┌────────────────┐          │ start  │ bias, and what the offsets of the inputs bring
//!                     │ k bytes        │          │ totals │ sum of a channel's weights
//!                     │ ...            │          │ ...    │ k/4 rows: four weights of each channel, a line for sixteen
//!                     └────────────────┘          └────────┘
//!                              └─────── mr x nr sums in registers, then finished and stored ──┘
//! ```
//!
//! The dot-product instruction of x86 multiplies unsigned bytes by signed ones, so inputs have to be offset by 128. Doing
//! that for every broadcast costs a quarter of the arithmetic; here it is done once per strip, while its patches are
//! gathered, and all panels use the strip. Gathering also leaves no taps, borders or odd channel counts to the
//! micro-kernel: neighbouring taps run together (seven pixels of three channels are 21 bytes), and k is padded once, by
//! weights of zero. The offset is taken back in `start`, when weights are packed.
#![allow(unsafe_code, reason = "addresses handed to the micro-kernels")]

mod strip;
#[cfg(test)]
mod tests;
mod tile;

use super::{Conv2d, NEAR, WORTH_THREADS, cuts};
use crate::gemm::clamp;
use crate::isa::Isa;
use crate::split::{self, Block, Slots};
use core::ops::Range;
use sconce_parallel::{Parallel, Serial};
pub use crate::depthwise::int8::Quantization;
use strip::Patches;
use tile::{Family, MOST_SUMS, Tile};

/// Channels in a line.
const LANES: usize = 16;
/// Most patches gathered at a time.
const STRIP: usize = 24;
/// Rows before a panel's weights: start and totals.
const HEAD: usize = 2;

/// A cache line of packed weights: of each of 16 channels a number, or four weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line([i32; LANES]);

/// The shape of packed weights.
#[derive(Clone, Copy)]
struct Layout {
    /// Channels of a group of the convolution.
    n: usize,
    /// Inputs of a channel.
    k: usize,
    /// Lines across a panel; the last panel may be narrower.
    width: usize,
}

impl Layout {
    fn of(family: &Family, conv: &Conv2d) -> Self {
        let (n, k) = (conv.group_out(), conv.taps() * conv.group_in());
        let lines = n.div_ceil(LANES);
        // Panels of nearly the same width: nine lines are three times three, not four, four and one.
        let panels = lines.div_ceil(family.widest()).max(1);
        Self { n, k, width: lines.div_ceil(panels).max(1) }
    }

    /// Rows of weights in a panel.
    fn steps(&self) -> usize {
        self.k.div_ceil(4)
    }

    /// Lines of a panel for each line of its width.
    fn depth(&self) -> usize {
        HEAD + self.steps()
    }

    /// Lines of a group's panels.
    fn lines(&self) -> usize {
        self.n.div_ceil(LANES) * self.depth()
    }

    /// Channels of a panel.
    fn nr(&self) -> usize {
        self.width * LANES
    }

    /// The panel of these channels, which start one.
    fn panel<'a>(&self, lines: &'a [Line], columns: &Range<usize>) -> &'a [Line] {
        let width = columns.len().div_ceil(LANES);
        &lines[columns.start / LANES * self.depth()..][..width * self.depth()]
    }

    /// Bytes from one patch of a strip to the next: a copy may run over by a vector, and patches should not all fall on
    /// the same lines of the cache.
    fn stride(&self) -> usize {
        self.k.next_multiple_of(64) + 64
    }

    /// Bytes of a strip, wherever it starts.
    fn strip(&self) -> usize {
        STRIP * self.stride() + 64
    }
}

/// Lines that [`pack`] writes.
pub fn packed_len(isa: Isa, conv: &Conv2d) -> usize {
    Layout::of(&Family::of(isa), conv).lines() * conv.groups
}

/// Bytes of scratch that a convolution takes on a [`Parallel`] of this width.
pub fn scratch_len(isa: Isa, conv: &Conv2d, width: usize) -> usize {
    Layout::of(&Family::of(isa), conv).strip() * Slots::<u8>::count(width)
}

/// Packs a filter `[out, taps, in / groups]` and its bias into `packed`, whose length is [`packed_len`]. Inputs will
/// stand for their difference to `input_zero`.
pub fn pack(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    filter: impl Fn(usize) -> i8 + Sync,
    bias: Option<&[i32]>,
    input_zero: i8,
    packed: &mut [Line],
) {
    let family = Family::of(isa);
    let layout = Layout::of(&family, conv);
    let Layout { n, k, .. } = layout;
    assert_eq!(packed.len(), layout.lines() * conv.groups, "the packed weights of {conv:?}");
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "the bias of {conv:?}");
    let offset = i32::from(family.flip) + i32::from(input_zero);
    for (g, group) in packed.chunks_mut(layout.lines().max(1)).enumerate() {
        split::chunks(par, group, layout.depth() * layout.width, |panel, lines| {
            let width = lines.len() / layout.depth();
            for column in 0..width * LANES {
                let channel = panel * layout.nr() + column;
                let inside = channel < n;
                let channel = g * n + channel;
                let weight = |p: usize| if inside && p < k { filter(channel * k + p) } else { 0 };
                let mut put = |row: usize, x: i32| lines[row * width + column / LANES].0[column % LANES] = x;
                let mut total = 0i32;
                for step in 0..layout.steps() {
                    let four: [i8; 4] = core::array::from_fn(|i| weight(step * 4 + i));
                    total += four.iter().map(|w| i32::from(*w)).sum::<i32>();
                    put(HEAD + step, i32::from_ne_bytes(four.map(i8::cast_unsigned)));
                }
                let bias = if inside { bias.map_or(0, |bias| bias[channel]) } else { 0 };
                put(0, bias.wrapping_sub(offset.wrapping_mul(total)));
                put(1, total);
            }
        });
    }
}

/// Convolves bytes to bytes: `limits(round(scale[channel] * sum) + output_zero)`, ties to even, where `sum` is the bias
/// plus the products of the weights with the differences of inputs to `input_zero`. What is outside the image counts as
/// `input_zero`.
///
/// `packed` comes from [`pack`] for the same set, geometry and `input_zero`; `scratch` has [`scratch_len`] bytes.
pub fn conv2d(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    quantization: &Quantization,
    input: &[i8],
    (packed, scale): (&[Line], &[f32]),
    output: &mut [i8],
    scratch: &mut [u8],
) {
    assert_eq!(scale.len(), conv.out_channels, "scales of {conv:?}");
    let zero = f32::from(quantization.output_zero);
    let (low, high) = (f32::from(quantization.limits.0) - zero, f32::from(quantization.limits.1) - zero);
    let padding = |_| quantization.input_zero;
    convolve(isa, par, conv, (input, &padding), packed, output, scratch, |piece, block| {
        let scale = &scale[piece.channels()];
        piece.each_row(
            isa,
            block,
            #[inline(always)]
            |_, sums, out| {
                for ((to, sum), scale) in out.iter_mut().zip(sums).zip(scale) {
                    let limited = clamp(*sum as f32 * scale, (low, high));
                    // Whole numbers are this far apart from here on, so the sum is rounded, and its last byte is the result.
                    *to = (limited + ROUND).to_bits() as i8;
                    *to = to.wrapping_add(quantization.output_zero);
                }
            },
        );
    });
}

/// `1.5 * 2^23`: a small number added to it is rounded to a whole one, ties to even, and the bits count up from a multiple
/// of 256.
const ROUND: f32 = 12_582_912.0;

/// A piece of the output whose sums are known.
struct Piece<'a> {
    rows: Range<usize>,
    /// Channels, counted in the group.
    columns: Range<usize>,
    first_channel: usize,
    /// Row by row, `width` lines each.
    sums: &'a [i32],
    width: usize,
}

impl Piece<'_> {
    /// The channels of the output that this piece covers.
    fn channels(&self) -> Range<usize> {
        self.first_channel + self.columns.start..self.first_channel + self.columns.end
    }

    /// Calls `body(row, sums, out)` for every row, compiled for the set.
    #[inline(always)]
    fn each_row<T>(&self, isa: Isa, block: &mut Block<'_, T>, body: impl Fn(usize, &[i32], &mut [T])) {
        let first = self.columns.start - block.columns.start;
        isa.vectorize(
            #[inline(always)]
            || {
                for (i, row) in self.rows.clone().enumerate() {
                    let out = &mut block.row(row)[first..][..self.columns.len()];
                    body(row, &self.sums[i * self.width * LANES..][..out.len()], out);
                }
            },
        );
    }
}

/// What all kinds of convolution share: checks, then every piece of the output is summed up and handed to `finish`. The
/// padding of an image is said by its index.
fn convolve<T: Send>(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    (input, padding): (&[i8], &(dyn Fn(usize) -> i8 + Sync)),
    packed: &[Line],
    output: &mut [T],
    scratch: &mut [u8],
    finish: impl Fn(Piece<'_>, &mut Block<'_, T>) + Sync,
) {
    let family = Family::of(isa);
    let layout = Layout::of(&family, conv);
    let size = conv.output().unwrap_or_else(|| panic!("{conv:?} is not a convolution"));
    let m = conv.batch * size[0] * size[1];
    assert_eq!(input.len(), conv.batch * conv.input[0] * conv.input[1] * conv.in_channels, "input of {conv:?}");
    assert_eq!(output.len(), m * conv.out_channels, "output of {conv:?}");
    assert_eq!(packed.len(), layout.lines() * conv.groups, "packed weights of {conv:?}");
    if m == 0 || conv.out_channels == 0 {
        return;
    }
    let n = layout.n;
    let par = if m.saturating_mul(n).saturating_mul(layout.k) < 4 * WORTH_THREADS { &Serial } else { par };
    let slots = Slots::new(scratch, layout.strip(), par.width());
    for g in 0..conv.groups {
        let job = Job {
            family,
            layout,
            patches: Patches { conv, size, input: &input[g * conv.group_in()..], padding },
            panels: &packed[g * layout.lines()..][..layout.lines()],
            first_channel: g * n,
            finish: &finish,
        };
        let cuts = cuts((STRIP / 2, layout.nr()), (m, n), par.width());
        split::blocks(par, &mut output[g * n..], conv.out_channels, (m, n), cuts, |block| {
            slots.with(|scratch| job.block(block, scratch));
        });
    }
}

/// What all tasks of a convolution (of one group) share.
struct Job<'a, F> {
    family: Family,
    layout: Layout,
    patches: Patches<'a>,
    panels: &'a [Line],
    first_channel: usize,
    finish: &'a F,
}

impl<F> Job<'_, F> {
    /// Computes a block of the output: some pixels, some whole panels of channels.
    fn block<T>(&self, mut block: Block<'_, T>, scratch: &mut [u8])
    where
        F: Fn(Piece<'_>, &mut Block<'_, T>),
    {
        let start = scratch.as_ptr().align_offset(64).min(63);
        let strip = &mut scratch[start..][..STRIP * self.layout.stride()];
        let nr = self.layout.nr();
        let near = (NEAR / (self.layout.depth() * self.layout.width * size_of::<Line>())).max(1) * nr;
        let (rows, columns) = (block.rows.clone(), block.columns.clone());
        let strips = rows.len().div_ceil(STRIP);
        for first in columns.clone().step_by(near) {
            let panels = first..columns.end.min(first + near);
            for rows in shares(rows.clone(), strips) {
                // SAFETY: the family belongs to a held token.
                unsafe { (self.family.gather)(&self.patches, rows.clone(), self.layout.stride(), strip) };
                for column in panels.clone().step_by(nr) {
                    self.panel(&mut block, rows.clone(), column..panels.end.min(column + nr), strip);
                }
            }
        }
    }

    /// Computes the pixels of a strip for a panel of channels.
    fn panel<T>(&self, block: &mut Block<'_, T>, rows: Range<usize>, columns: Range<usize>, strip: &[u8])
    where
        F: Fn(Piece<'_>, &mut Block<'_, T>),
    {
        let panel = self.layout.panel(self.panels, &columns);
        let width = columns.len().div_ceil(LANES);
        let mut sums = [0; MOST_SUMS];
        for tile in shares(rows.clone(), rows.len().div_ceil(self.family.tallest(width))) {
            let stride = self.layout.stride();
            let patches = &strip[(tile.start - rows.start) * stride..][..tile.len() * stride];
            let from = Tile {
                rows: patches.as_ptr(),
                stride,
                steps: self.layout.steps(),
                panel: panel.as_ptr(),
                sums: sums.as_mut_ptr(),
            };
            // SAFETY: as many rows as the tile has lie in `patches`, each with all steps' bytes; the panel was cut to its
            // length; no tile has more than `MOST_SUMS` sums. The family belongs to a held token.
            unsafe { self.family.tile(tile.len(), width)(&from) };
            let first_channel = self.first_channel;
            let piece = Piece { rows: tile, columns: columns.clone(), first_channel, sums: &sums, width };
            (self.finish)(piece, block);
        }
    }
}

/// Cuts a range into nearly equal parts.
fn shares(range: Range<usize>, parts: usize) -> impl Iterator<Item = Range<usize>> {
    let cut = move |part: usize| range.start + range.len() * part / parts;
    (0..parts).map(move |part| cut(part)..cut(part + 1))
}
