//! The operands of a convolution's product, gathered from images and weights while they are packed.
//!
//! * [`Columns`], channels first: row `(ic, tap)`, column `output pixel`. Pixels of one output row read consecutive (or
//!   evenly spaced) elements of one input row, so a panel is filled piece by piece.
//! * [`Patches`], channels last: row `(image, output pixel)`, column `(tap, ic)`; the channels of a tap are one copy.
//! * [`Weights`]: the weight as PyTorch keeps it, addressed by output channel, input channel and tap.
use super::Conv;
use crate::gemm::{KC, Left, Matrix, Right, copy_row, transpose};
use crate::isa::Isa;
use crate::taps::Taps;
use core::ops::Range;

/// See the module's text.
pub(super) struct Columns<'a> {
    axes: [Taps; 3],
    kernel: [usize; 3],
    output: [usize; 3],
    /// The channels of one group of one image.
    input: &'a [f32],
}

/// Columns of a panel that one tap reads from one row of the image.
#[derive(Clone, Copy, Default)]
struct Piece {
    /// Where in the panel.
    at: usize,
    len: usize,
    /// Where in a channel's plane.
    from: usize,
}

/// The widest panel.
const WIDEST: usize = 32;

impl<'a> Columns<'a> {
    pub(super) fn new(conv: &Conv, input: &'a [f32]) -> Self {
        let axes = conv.axes();
        Self { axes, kernel: conv.kernel, output: conv.output().unwrap_or_default(), input }
    }

    /// What the pixels `columns` read under a tap; returns how many pieces there are. Columns in none read padding.
    fn pieces(&self, columns: &Range<usize>, tap: usize, pieces: &mut [Piece; WIDEST]) -> usize {
        let [depth, height, width] = self.axes;
        let [_, tall, wide] = self.kernel;
        let tap = [tap / wide / tall, tap / wide % tall, tap % wide];
        let [_, rows, across] = self.output;
        let (mut count, mut pixel) = (0, columns.start);
        let mut add = |at: usize, len: usize, from: usize| {
            pieces[count] = Piece { at: at - columns.start, len, from };
            count += 1;
        };
        while pixel < columns.end {
            let (row, first) = (pixel / across, pixel % across);
            let last = across.min(first + columns.end - pixel);
            let row = depth.source(row / rows, tap[0]).zip(height.source(row % rows, tap[1]));
            if let Some(row) = row.map(|(z, y)| (z * height.size + y) * width.size) {
                if self.evenly_spaced() {
                    let inside = width.inside(tap[2], last);
                    let start = inside.start.max(first);
                    if let Some(x) = width.source(start, tap[2]).filter(|_| start < inside.end) {
                        add(pixel + start - first, inside.end - start, row + x);
                    }
                } else {
                    let sources = (first..last).filter_map(|at| Some((at, width.source(at, tap[2])?)));
                    sources.for_each(|(at, x)| add(pixel + at - first, 1, row + x));
                }
            }
            pixel += last - first;
        }
        count
    }

    /// Whether neighbouring pixels read elements at equal distances.
    fn evenly_spaced(&self) -> bool {
        !self.axes[2].transposed || self.axes[2].stride == 1
    }
}

/// Every `step`-th element.
#[inline(always)]
fn copy_spaced(from: &[f32], step: usize, to: &mut [f32]) {
    match step {
        1 => copy_row(from, to),
        2 => {
            let (pairs, last) = from.as_chunks::<2>();
            let paired = pairs.len().min(to.len());
            for (to, [from, _]) in to.iter_mut().zip(pairs) {
                *to = *from;
            }
            // The last element may end the image.
            if let (Some(to), [from]) = (to.get_mut(paired), last) {
                *to = *from;
            }
        }
        _ => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(step)) {
                *to = *from;
            }
        }
    }
}

impl Right for Columns<'_> {
    /// Tap by tap, because under one tap every channel reads the same places of its plane.
    fn pack(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        let taps: usize = self.kernel.iter().product();
        let plane: usize = self.axes.iter().map(|axis| axis.size).product();
        let step = if self.axes[2].transposed { 1 } else { self.axes[2].stride };
        let mut pieces = [Piece::default(); WIDEST];
        for tap in 0..taps {
            let count = self.pieces(&columns, tap, &mut pieces);
            let pieces = &pieces[..count];
            let full = pieces.iter().map(|piece| piece.len).sum::<usize>() == width;
            isa.vectorize(
                #[inline(always)]
                || {
                    let first = (ks.start + taps - 1 - tap) / taps;
                    for channel in first..(ks.end + taps - 1 - tap) / taps {
                        let row = &mut out[(channel * taps + tap - ks.start) * width..][..width];
                        let plane = &self.input[channel * plane..][..plane];
                        if !full {
                            row.fill(0.0);
                        }
                        for piece in pieces {
                            copy_spaced(&plane[piece.from..], step, &mut row[piece.at..][..piece.len]);
                        }
                    }
                },
            );
        }
    }
}

/// The order of k when channels are last: blocks of n channels that a block with all its taps is one step of k;
/// within a block tap by tap, within a tap channel by channel. So both the weight and the image are read in stretches.
#[derive(Clone, Copy)]
struct Order {
    taps: usize,
    /// Channels of a block.
    block: usize,
}

impl Order {
    fn new(conv: &Conv) -> Self {
        Self { taps: conv.taps(), block: (KC / conv.taps()).clamp(1, conv.group_in().max(1)) }
    }

    fn k_step(&self) -> usize {
        (self.block * self.taps).min(KC)
    }

    /// Cuts a step of k into stretches of whole taps, or of some taps of one channel: `visit(channels, taps)`.
    fn stretches(&self, ks: &Range<usize>, mut visit: impl FnMut(Range<usize>, Range<usize>)) {
        let mut k = ks.start;
        while k < ks.end {
            let (channel, tap) = (k / self.taps, k % self.taps);
            let count = if self.block > 1 { ks.len() / self.taps } else { 1 };
            let last = self.taps.min(tap + (ks.end - k) / count);
            visit(channel..channel + count, tap..last);
            k += (last - tap) * count;
        }
    }
}

/// See the module's text.
pub(super) struct Patches<'a> {
    axes: [Taps; 3],
    kernel: [usize; 3],
    output: [usize; 3],
    order: Order,
    /// Channels of an image.
    channels: usize,
    /// All images, from the group's first channel on.
    input: &'a [f32],
}

impl<'a> Patches<'a> {
    pub(super) fn new(conv: &Conv, input: &'a [f32]) -> Self {
        Self {
            axes: conv.axes(),
            kernel: conv.kernel,
            output: conv.output().unwrap_or_default(),
            order: Order::new(conv),
            channels: conv.in_channels,
            input,
        }
    }

    /// One stretch of one output pixel's patch.
    fn stretch(&self, row: usize, channels: &Range<usize>, taps: &Range<usize>, mut out: &mut [f32]) {
        let [deep, height, width] = self.output;
        let (image, at) = (row / (deep * height * width), row % (deep * height * width));
        let [z_axis, y_axis, x_axis] = self.axes;
        let (oz, oy, ox) = (at / width / height, at / width % height, at % width);
        let [_, tall, wide] = self.kernel;
        let all = channels.len() == self.channels && x_axis.dilation == 1 && !x_axis.transposed;
        let mut tap = taps.start;
        while tap < taps.end {
            // The taps of one row of the kernel.
            let kx = tap % wide;
            let count = (wide - kx).min(taps.end - tap);
            let (now, rest) = out.split_at_mut(count * channels.len());
            let z = z_axis.source(oz, tap / wide / tall);
            match z.zip(y_axis.source(oy, tap / wide % tall)) {
                None => now.fill(0.0),
                Some((z, y)) => {
                    let start = ((image * z_axis.size + z) * y_axis.size + y) * x_axis.size;
                    if all {
                        self.run(start, ox, kx..kx + count, now);
                    } else {
                        for (kx, now) in (kx..).zip(now.chunks_exact_mut(channels.len())) {
                            match x_axis.source(ox, kx) {
                                Some(x) => {
                                    let pixel = (start + x) * self.channels;
                                    copy_row(&self.input[pixel + channels.start..pixel + channels.end], now);
                                }
                                None => now.fill(0.0),
                            }
                        }
                    }
                }
            }
            (out, tap) = (rest, tap + count);
        }
    }

    /// Neighbouring taps with all channels are neighbours in the image: one copy between two paddings.
    #[inline(always)]
    fn run(&self, start: usize, ox: usize, taps: Range<usize>, out: &mut [f32]) {
        let (axis, channels) = (&self.axes[2], self.channels);
        let first = ox * axis.stride;
        let from = axis.padding.saturating_sub(first).clamp(taps.start, taps.end);
        let to = (axis.size + axis.padding).saturating_sub(first).clamp(from, taps.end);
        out[..(from - taps.start) * channels].fill(0.0);
        out[(to - taps.start) * channels..].fill(0.0);
        if from < to {
            let pixel = (start + first + from - axis.padding) * channels;
            copy_row(&self.input[pixel..], &mut out[(from - taps.start) * channels..(to - taps.start) * channels]);
        }
    }
}

impl Left for Patches<'_> {
    fn in_place(&self) -> Option<(&[f32], usize)> {
        None
    }

    fn pack(&self, rows: Range<usize>, ks: Range<usize>, out: &mut [f32]) {
        for (row, out) in rows.zip(out.chunks_exact_mut(ks.len().max(1))) {
            let mut at = 0;
            self.order.stretches(&ks, |channels, taps| {
                let len = channels.len() * taps.len();
                self.stretch(row, &channels, &taps, &mut out[at..at + len]);
                at += len;
            });
        }
    }
}

/// See the module's text.
pub(super) struct Weights<'a> {
    data: &'a [f32],
    /// Distances between output channels and between input channels; taps are neighbours.
    steps: (usize, usize),
    order: Order,
}

impl<'a> Weights<'a> {
    pub(super) fn new(conv: &Conv, weight: &'a [f32], group: usize) -> Self {
        let (channels, taps) = (conv.group_in(), conv.taps());
        let len = channels * conv.group_out() * taps;
        let steps = if conv.transposed { (taps, conv.group_out() * taps) } else { (channels * taps, taps) };
        Self { data: &weight[group * len..][..len], steps, order: Order::new(conv) }
    }

    /// The step of k that keeps stretches whole.
    pub(super) fn k_step(&self) -> usize {
        self.order.k_step()
    }

    /// The matrix `[oc, (ic, tap)]` of a forward convolution.
    pub(super) fn matrix(&self) -> Matrix<'a> {
        Matrix::row_major(self.data, self.steps.0)
    }

    /// Element `oc`, `(ic, tap)`.
    pub(super) fn channel_major(&self, oc: usize, k: usize) -> f32 {
        let taps = self.order.taps;
        self.data[oc * self.steps.0 + k / taps * self.steps.1 + k % taps]
    }

    /// A stretch of a forward weight is contiguous for each output channel: transposed a few elements at a time, its
    /// rows then go where the order wants them.
    fn stretch(
        &self,
        isa: Isa,
        columns: &Range<usize>,
        channels: &Range<usize>,
        taps: &Range<usize>,
        out: (&mut [f32], usize),
    ) {
        const PIECE: usize = 16;
        let (out, width) = out;
        let mut block = [0.0; PIECE * WIDEST];
        let len = channels.len() * taps.len();
        for first in (0..len).step_by(PIECE) {
            let count = PIECE.min(len - first);
            let from = &self.data[columns.start * self.steps.0 + channels.start * self.steps.1 + taps.start + first..];
            transpose(isa, (columns.len(), count), (from, self.steps.0), (&mut block, width));
            for (i, row) in block.chunks_exact(width).take(count).enumerate() {
                let (channel, tap) = ((first + i) / taps.len(), (first + i) % taps.len());
                copy_row(row, &mut out[(tap * channels.len() + channel) * width..][..width]);
            }
        }
    }
}

impl Right for Weights<'_> {
    fn pack(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        if columns.len() < width {
            out.fill(0.0);
        }
        let mut at = 0;
        let forward = self.steps.1 == self.order.taps;
        self.order.stretches(&ks, |channels, taps| {
            let out = &mut out[at * width..];
            at += channels.len() * taps.len();
            if forward {
                return self.stretch(isa, &columns, &channels, &taps, (out, width));
            }
            for (p, row) in out.chunks_exact_mut(width).take(channels.len() * taps.len()).enumerate() {
                let (tap, channel) = (taps.start + p / channels.len(), channels.start + p % channels.len());
                for (oc, to) in columns.clone().zip(row) {
                    *to = self.data[oc * self.steps.0 + channel * self.steps.1 + tap];
                }
            }
        });
    }
}
