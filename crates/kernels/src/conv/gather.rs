//! The operands of a convolution's product, gathered from images and weights while they are packed.
//!
//! * [`Columns`], channels first: row `(ic, tap)`, column `output pixel`. Pixels of one output row read consecutive (or
//!   evenly spaced) elements of one input row, so a panel is filled run by run.
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

/// Consecutive columns of a panel in one output row.
#[derive(Clone, Copy, Default)]
struct Run {
    /// Where in the panel.
    at: usize,
    len: usize,
    /// The output position of the first pixel: depth, height, width.
    position: [usize; 3],
}

/// The widest panel.
const WIDEST: usize = 32;

impl<'a> Columns<'a> {
    pub(super) fn new(conv: &Conv, input: &'a [f32]) -> Self {
        let axes = conv.axes();
        Self { axes, kernel: conv.kernel, output: conv.output().unwrap_or_default(), input }
    }

    /// Cuts the pixels `columns` into runs; returns how many there are.
    fn runs(&self, columns: &Range<usize>, runs: &mut [Run; WIDEST]) -> usize {
        let [_, height, width] = self.output;
        let (mut count, mut pixel) = (0, columns.start);
        while pixel < columns.end {
            let position = [pixel / width / height, pixel / width % height, pixel % width];
            let len = (width - position[2]).min(columns.end - pixel);
            runs[count] = Run { at: pixel - columns.start, len, position };
            (count, pixel) = (count + 1, pixel + len);
        }
        count
    }

    /// Fills one row of a panel.
    #[inline(always)]
    fn fill(&self, channel: usize, tap: [usize; 3], runs: &[Run], out: &mut [f32]) {
        let [depth, height, width] = self.axes;
        let x_axis = &width;
        let direct = !x_axis.transposed || x_axis.stride == 1;
        let inside = if direct { x_axis.inside(tap[2], self.output[2]) } else { 0..0 };
        for run in runs {
            let out = &mut out[run.at..run.at + run.len];
            let z = depth.source(run.position[0], tap[0]);
            let y = height.source(run.position[1], tap[1]);
            let (Some(z), Some(y)) = (z, y) else {
                out.fill(0.0);
                continue;
            };
            let row = &self.input[((channel * depth.size + z) * height.size + y) * width.size..][..width.size];
            let first = run.position[2];
            if !direct {
                for (i, to) in out.iter_mut().enumerate() {
                    *to = x_axis.source(first + i, tap[2]).map_or(0.0, |x| row[x]);
                }
                continue;
            }
            let start = inside.start.clamp(first, first + run.len) - first;
            let end = inside.end.clamp(first + start, first + run.len) - first;
            out[..start].fill(0.0);
            out[end..].fill(0.0);
            if let Some(x) = x_axis.source(first + start, tap[2]).filter(|_| start < end) {
                copy_spaced(&row[x..], if x_axis.transposed { 1 } else { x_axis.stride }, &mut out[start..end]);
            }
        }
    }
}

/// Every `step`-th element.
#[inline(always)]
fn copy_spaced(from: &[f32], step: usize, to: &mut [f32]) {
    match step {
        1 => copy_row(from, to),
        2 => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(2)) {
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
    fn pack(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        let mut runs = [Run::default(); WIDEST];
        let count = self.runs(&columns, &mut runs);
        let runs = &runs[..count];
        isa.vectorize(
            #[inline(always)]
            || {
                let [_, height, across] = self.kernel;
                let taps: usize = self.kernel.iter().product();
                let (mut channel, rest) = (ks.start / taps, ks.start % taps);
                let mut tap = [rest / across / height, rest / across % height, rest % across];
                for row in out.chunks_exact_mut(width).take(ks.len()) {
                    self.fill(channel, tap, runs, row);
                    row[columns.len()..].fill(0.0);
                    for axis in (0..3).rev() {
                        tap[axis] += 1;
                        if tap[axis] < self.kernel[axis] {
                            break;
                        }
                        tap[axis] = 0;
                        channel += usize::from(axis == 0);
                    }
                }
            },
        );
    }
}

/// The order of k when channels are last: blocks of so many channels that a block with all its taps is one step of k;
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
