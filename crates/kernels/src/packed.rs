//! Products and convolutions with weights that were packed beforehand, on channels-last data.
//!
//! The engine's workhorse. Every convolution is a product whose rows are read in place: for a tile of output pixels and
//! each tap of the filter there is a list of addresses, one per pixel, where the channels under that tap lie (a row of
//! padding stands in for what is outside). Nothing is copied, and a one-by-one convolution or a linear layer is the case
//! of one tap. Where all pixels of a tile have a row of taps inside the image, its channels lie side by side, and the row
//! is taken as one tap with more channels. At the borders of images with few channels it is so, too, of a copy.
//!
//! ```text
//!                     packed weights: panels of nr output channels
//!                     ┌────────┐
//!       taps x k rows │ bias   │  one row of bias, then a row per tap and input channel
//!                     │ ...    │
//!                     └────────┘
//!  addresses of       ┌────────┐
//!  mr pixels, per ──▶ │ mr x nr│  accumulators stay in registers over all taps; then residual, limits, store,
//!  tap                └────────┘  and what else is to follow while the tile is in the first-level cache
//! ```
//!
//! There are no blocks along k. As many panels as fit the second-level cache are taken at a time (`NEAR` bytes); tiles of
//! pixels pass by them, and a tile's pixels stay in the first-level cache from panel to panel.
#![allow(unsafe_code, reason = "addresses handed to the micro-kernels")]

pub mod int8;
mod patches;
#[cfg(test)]
mod tests;
pub(crate) mod tile;

use crate::epilogue::{Steps, Then, finish};
use crate::gemm::transpose;
use crate::isa::Isa;
use crate::split::{self, Block, Cut, Tiling};
use crate::taps::Taps;
use core::ops::Range;
use patches::{Address, MOST_TAPS, Part, Patches};
use sconce_parallel::{Parallel, Serial};
use tile::{Family, MOST_ROWS, Tile};

/// Bytes of weights that stay in the second-level cache while pixels pass by.
const NEAR: usize = 512 * 1024;
/// Elements that are finished together: they are still in the first-level cache.
const PIECE: usize = 4 * 1024;
/// Multiplications below which threads cost more than they bring.
const WORTH_THREADS: usize = 60_000;
/// Multiplications that are worth a task of their own: some ten microseconds.
const WORTH_A_TASK: usize = 500_000;

/// The geometry of a convolution of `[batch, height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Images.
    pub batch: usize,
    /// Height and width of an input image.
    pub input: [usize; 2],
    /// Channels of an input image.
    pub in_channels: usize,
    /// Channels of an output image.
    pub out_channels: usize,
    /// Height and width of the filter.
    pub kernel: [usize; 2],
    /// Steps between output positions (of input positions, if transposed).
    pub stride: [usize; 2],
    /// Zeros above, left, below and right (cut from the output, if transposed).
    pub padding: [usize; 4],
    /// Distance between taps.
    pub dilation: [usize; 2],
    /// Independent parts of the channels.
    pub groups: usize,
    /// Whether this is the transposed convolution.
    pub transposed: bool,
    /// Rows and columns added to the output of a transposed convolution.
    pub extra: [usize; 2],
}

impl Conv2d {
    /// The product of `rows` rows of `k` elements with a filter `[n, k]`.
    pub fn linear(rows: usize, k: usize, n: usize) -> Self {
        Self {
            batch: 1,
            input: [1, rows],
            in_channels: k,
            out_channels: n,
            kernel: [1, 1],
            stride: [1, 1],
            padding: [0; 4],
            dilation: [1, 1],
            groups: 1,
            transposed: false,
            extra: [0, 0],
        }
    }

    /// Height and width of an output image; `None` if the geometry makes no sense or this kernel does not take it.
    pub fn output(&self) -> Option<[usize; 2]> {
        let channels = self.groups > 0
            && self.in_channels.is_multiple_of(self.groups)
            && self.out_channels.is_multiple_of(self.groups);
        let taps = self.kernel[0].checked_mul(self.kernel[1])?;
        taps.checked_mul(self.in_channels)?.checked_mul(self.out_channels)?;
        let mut output = [0; 2];
        for (axis, output) in output.iter_mut().enumerate() {
            let reach = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?;
            let padding = self.padding[axis].checked_add(self.padding[axis + 2])?;
            *output = if self.transposed {
                let spread = self.input[axis].checked_sub(1)?.checked_mul(self.stride[axis])?;
                spread.checked_add(reach)?.checked_add(self.extra[axis])?.checked_add(1)?.checked_sub(padding)?
            } else {
                let room = self.input[axis].checked_add(padding)?.checked_sub(reach)?.checked_sub(1)?;
                room.checked_div(self.stride[axis])?.checked_add(1)?
            };
        }
        (channels && self.stride[0] > 0 && self.stride[1] > 0).then_some(output)
    }

    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    fn group_in(&self) -> usize {
        self.in_channels / self.groups
    }

    fn group_out(&self) -> usize {
        self.out_channels / self.groups
    }

    /// Whether every output pixel is made from the input pixel of the same number.
    pub fn is_pixelwise(&self) -> bool {
        let Self { kernel, stride, padding, transposed, extra, .. } = *self;
        (kernel, stride, padding, extra) == ([1, 1], [1, 1], [0; 4], [0; 2]) && !transposed
    }

    fn axis(&self, axis: usize) -> Taps {
        Taps {
            size: self.input[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
            transposed: self.transposed,
        }
    }
}

/// Elements that [`pack`] writes.
pub fn packed_len(isa: Isa, conv: &Conv2d) -> usize {
    let family = Family::of(isa, conv.group_out());
    group_len(&family, conv) * conv.groups + conv.kernel[1] * conv.group_in()
}

/// Elements of the panels of one group.
fn group_len(family: &Family, conv: &Conv2d) -> usize {
    (1 + conv.taps() * conv.group_in()) * family.width(conv.group_out())
}

/// The weights of a convolution as they come.
#[derive(Clone, Copy, Debug)]
pub enum Filter<'a, T = f32> {
    /// `[out, taps, in / groups]`
    Rows(&'a [T]),
    /// `[taps, in / groups, out]`
    Columns(&'a [T]),
}

/// Packs a filter and its bias into `packed`, whose length is [`packed_len`].
///
/// ```text
/// group by group, panel by panel: nr of bias, then taps * in/groups rows of nr;  at the end zeros (padding)
/// ```
pub fn pack(isa: Isa, par: &dyn Parallel, conv: &Conv2d, filter: Filter<'_>, bias: Option<&[f32]>, packed: &mut [f32]) {
    let family = Family::of(isa, conv.group_out());
    let (n, k) = (conv.group_out(), conv.taps() * conv.group_in());
    let (Filter::Rows(weights) | Filter::Columns(weights)) = filter;
    assert_eq!(weights.len(), conv.out_channels * k, "the filter of {conv:?}");
    assert_eq!(packed.len(), packed_len(isa, conv), "the packed weights of {conv:?}");
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "the bias of {conv:?}");
    let (panels, padding) = packed.split_at_mut(group_len(&family, conv) * conv.groups);
    padding.fill(0.0);
    let (whole, group) = ((1 + k) * family.nr(), group_len(&family, conv));
    // A panel that is not whole ends its group, so panels of a group are chunks of equal length but the last.
    for (g, group) in panels.chunks_mut(group.max(1)).enumerate() {
        split::chunks(par, group, whole, |panel, out| {
            let columns = panel * family.nr()..n.min((panel + 1) * family.nr());
            let (first, count) = (g * n + columns.start, columns.len());
            let width = family.width(count);
            if count < width {
                out.fill(0.0);
            }
            let (head, rows) = out.split_at_mut(width);
            match bias {
                Some(bias) => head[..count].copy_from_slice(&bias[first..][..count]),
                None => head.fill(0.0),
            }
            match filter {
                Filter::Rows(weights) => transpose(isa, (count, k), (&weights[first * k..], k), (rows, width)),
                Filter::Columns(weights) => {
                    for (row, from) in rows.chunks_exact_mut(width).zip(weights.chunks_exact(conv.out_channels)) {
                        row[..count].copy_from_slice(&from[first..][..count]);
                    }
                }
            }
        });
    }
}

/// The packed weights of a pixelwise convolution for an image whose channels are to be multiplied by `gate` first.
pub fn gate(isa: Isa, par: &dyn Parallel, conv: &Conv2d, packed: &[f32], gate: &[f32], gated: &mut [f32]) {
    let family = Family::of(isa, conv.group_out());
    assert!(conv.is_pixelwise() && conv.groups == 1, "{conv:?} is not pixelwise");
    assert_eq!(gate.len(), conv.in_channels, "the gate of {conv:?}");
    assert!(packed.len() == packed_len(isa, conv) && gated.len() == packed.len(), "the packed weights of {conv:?}");
    let (panels, padding) = gated.split_at_mut(group_len(&family, conv));
    padding.fill(0.0);
    let whole = (1 + conv.in_channels) * family.nr();
    let par = if panels.len() < WORTH_THREADS { &Serial } else { par };
    split::chunks(par, panels, whole, |panel, to| {
        let (from, width) = (&packed[panel * whole..][..to.len()], to.len() / (1 + conv.in_channels));
        isa.vectorize(
            #[inline(always)]
            || {
                let (bias, rows) = to.split_at_mut(width);
                bias.copy_from_slice(&from[..width]);
                for ((to, from), gate) in rows.chunks_exact_mut(width).zip(from[width..].chunks_exact(width)).zip(gate)
                {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from * gate);
                }
            },
        );
    });
}

/// Convolves. `packed` comes from [`pack`] for the same set and geometry; `then` follows. Images come with the distance of
/// their pixels, in elements: that of their channels, or more where they are part of something wider.
pub fn conv2d(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    (input, from_pixel): (&[f32], usize),
    packed: &[f32],
    then: &[Then<'_>],
    (output, pixel): (&mut [f32], usize),
) {
    let size = conv.output().unwrap_or_else(|| panic!("{conv:?} is not a convolution"));
    let m = conv.batch * size[0] * size[1];
    let pixels = conv.batch * conv.input[0] * conv.input[1];
    split::check_pixels(input.len(), pixels, (conv.in_channels, from_pixel), conv);
    split::check_pixels(output.len(), m, (conv.out_channels, pixel), conv);
    assert_eq!(packed.len(), packed_len(isa, conv), "packed weights of {conv:?}");
    assert!(then.iter().all(|then| match then {
        Then::Add(other) | Then::Multiply(other) => other.len() == m * conv.out_channels,
        Then::Apply(_) => true,
    }));
    if m == 0 || conv.out_channels == 0 {
        return;
    }
    let family = Family::of(isa, conv.group_out());
    let n = conv.group_out();
    assert!(conv.taps() * conv.group_in() > 0, "{conv:?} has no channels to read");
    let (threads, cuts) = tasks(&family, conv, m, par.width());
    let par = if threads == 1 { &Serial } else { par };
    let group = group_len(&family, conv);
    let padding = packed[group * conv.groups..].as_ptr();
    for g in 0..conv.groups {
        // Without a pixel, there is only the border.
        let input = input.get(g * conv.group_in()..).unwrap_or_default();
        let patches = Patches { conv, size, input, pixel: from_pixel, padding };
        let panels = &packed[g * group..][..group];
        let job = Job { isa, family, patches, panels, first_channel: g * n, channels: conv.out_channels, then };
        let output = &mut output[g * n..];
        split::blocks(par, output, pixel, (m, n), cuts, |block| job.block(block));
    }
}

/// How [`conv2d`] cuts its output on n threads.
pub fn tiling(isa: Isa, conv: &Conv2d, threads: usize) -> Option<Tiling> {
    let [height, width] = conv.output()?;
    let family = Family::of(isa, conv.group_out());
    let (_, (rows, columns)) = tasks(&family, conv, conv.batch * height * width, threads);
    Some(Tiling { tile: [family.mr, family.nr()], parts: [rows.parts, columns.parts] })
}

/// How many threads a group with `m` pixels is worth, and how it is cut for them.
fn tasks(family: &Family, conv: &Conv2d, m: usize, threads: usize) -> (usize, (Cut, Cut)) {
    let n = conv.group_out();
    let work = m.saturating_mul(n).saturating_mul(conv.taps() * conv.group_in());
    let threads = if work < WORTH_THREADS { 1 } else { threads };
    (threads, cuts((family.mr, family.nr()), (m, n), threads, work / WORTH_A_TASK))
}

/// How the output is cut into tasks: pixels first, since a task reads all weights of its channels; of long ones several per
/// thread, so that one that is held up does less. With few pixels the channels are cut, between panels, so that threads share
/// what weights there are to fetch; if channels are few, too, the pixels after all, into fewer parts. `long` is how many times
/// longer the whole takes than what is worth one task.
fn cuts((mr, nr): (usize, usize), (m, n): (usize, usize), width: usize, long: usize) -> (Cut, Cut) {
    let (tiles, panels) = (m.div_ceil(mr), n.div_ceil(nr));
    let each = (long / width).clamp(1, 4);
    let parts = match width {
        1 => (1, 1),
        _ if tiles >= 4 * width => (each * width, 1),
        _ if panels >= 4 * width => (1, each.min(2) * width),
        _ if tiles >= 2 * width => (each.min(2) * width, 1),
        _ => (1, (4 * width).min(panels)),
    };
    (Cut { parts: parts.0, unit: mr }, Cut { parts: parts.1, unit: nr })
}

/// What all tasks of a convolution (of one group) share.
struct Job<'a> {
    isa: Isa,
    family: Family,
    patches: Patches<'a>,
    panels: &'a [f32],
    /// The first channel of the group, and all channels of the output.
    first_channel: usize,
    channels: usize,
    then: &'a [Then<'a>],
}

impl Job<'_> {
    /// Computes a block of the output: some pixels, some whole panels of channels.
    fn block(&self, mut block: Block<'_, f32>) {
        let (nr, conv) = (self.family.nr(), self.patches.conv);
        let k = conv.taps() * conv.group_in();
        let near = (NEAR / ((1 + k) * nr * size_of::<f32>())).max(1) * nr;
        let (rows, columns) = (block.rows.clone(), block.columns.clone());
        let tiles = rows.len().div_ceil(self.family.mr);
        let mut addresses = [Address::uninit(); MOST_TAPS * MOST_ROWS];
        let mut copied = None;
        let mut finished = rows.start;
        for first in columns.clone().step_by(near) {
            let panels = first..columns.end.min(first + near);
            for tile in 0..tiles {
                let top = rows.start + rows.len() * tile / tiles;
                let bottom = rows.start + rows.len() * (tile + 1) / tiles;
                let reach = self.patches.reach(top..bottom);
                for part in reach.parts() {
                    self.patches.addresses(top..bottom, (reach.form, &part), &mut addresses, &mut copied);
                    for column in panels.clone().step_by(nr) {
                        let columns = column..panels.end.min(column + nr);
                        self.tile(&mut block, top..bottom, columns, (&part, reach.channels, &addresses));
                    }
                }
                let enough = (bottom - finished) * columns.len() >= PIECE || bottom == rows.end;
                if panels.end == columns.end && enough {
                    self.finish(&mut block, finished..bottom);
                    finished = bottom;
                }
            }
        }
    }

    /// Takes the steps that are left for rows whose tiles are all done.
    fn finish(&self, block: &mut Block<'_, f32>, rows: Range<usize>) {
        let then = Steps::of(self.then).rest;
        if !then.is_empty() {
            block.each_run(rows, self.channels, |at, run| finish(self.isa, then, self.first_channel + at, run));
        }
    }

    /// Adds the products of some taps to what the taps before them left in the output.
    fn tile(
        &self,
        block: &mut Block<'_, f32>,
        rows: Range<usize>,
        columns: Range<usize>,
        (part, channels, addresses): (&Part, usize, &[Address]),
    ) {
        let (width, k) = (self.family.width(columns.len()), self.patches.conv.taps() * self.patches.conv.group_in());
        let panel = &self.panels[columns.start * (1 + k)..][..width * (1 + k)];
        let (before, after) = (part.first * channels, (part.first + part.taps()) * channels);
        let place = |row: usize| row * self.channels + self.first_channel + columns.start;
        let Steps { residual, limits, .. } = Steps::of(self.then);
        let (first_row, first_column) = (block.rows.start, block.columns.start);
        let (start, stride) = block.raw();
        // SAFETY: row and column lie in the block, whose segments are in bounds.
        let c = unsafe { start.add((rows.start - first_row) * stride + columns.start - first_column) };
        let (bias, residual) = match before {
            0 => (Some(panel.as_ptr()), residual.map(|other| (other[place(rows.start)..].as_ptr(), self.channels))),
            _ => (None, Some((c.cast_const(), stride))),
        };
        let tile = Tile {
            taps: part.taps(),
            channels,
            rows: addresses.as_ptr().cast(),
            bias,
            panel: panel[(1 + before) * width..].as_ptr(),
            c,
            c_stride: stride,
            columns: columns.len(),
            residual,
            limits: limits.filter(|_| after == k),
            ahead: (core::ptr::null(), 0),
        };
        // SAFETY: the addresses that the tile reads were written, each of `channels` elements; the panel has the rows of `part`;
        // this task alone holds the block with the tile; the residual is as long as a dense output, as `conv2d` asserted, or the
        // tile itself, read before it is written. The family belongs to a held token.
        unsafe { self.family.tile(rows.len(), width)(&tile) };
    }
}
