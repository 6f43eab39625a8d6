//! The operands of a convolution's product, gathered from images and weights while they are packed.
//!
//! * [`Columns`], channels first: row `(ic, tap)`, column `output pixel`. Pixels of one output row read consecutive (or evenly
//!   spaced) elements of one input row, so a panel is filled run by run.
//! * [`Patches`], channels last: row `(image, output pixel)`, column `(tap, ic)`; the channels of a tap are one copy.
//! * [`Weights`]: the weight as PyTorch keeps it, addressed by output channel, input channel and tap.
use super::Conv;
use crate::gemm::{Left, Matrix, Right};
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
        1 => to.copy_from_slice(&from[..to.len()]),
        2 => to.iter_mut().zip(from.iter().step_by(2)).for_each(|(to, from)| *to = *from),
        _ => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, from)| *to = *from),
    }
}

impl Right for Columns<'_> {
    fn pack(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        let mut runs = [Run::default(); WIDEST];
        let count = self.runs(&columns, &mut runs);
        let runs = &runs[..count];
        isa.vectorize(|| {
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
        });
    }
}

/// See the module's text.
pub(super) struct Patches<'a> {
    axes: [Taps; 3],
    kernel: [usize; 3],
    output: [usize; 3],
    /// Channels of a group, and of an image.
    channels: (usize, usize),
    /// All images, from the group's first channel on.
    input: &'a [f32],
}

impl<'a> Patches<'a> {
    pub(super) fn new(conv: &Conv, input: &'a [f32]) -> Self {
        Self {
            axes: conv.axes(),
            kernel: conv.kernel,
            output: conv.output().unwrap_or_default(),
            channels: (conv.group_in(), conv.in_channels),
            input,
        }
    }

    /// Where the channels under `tap` at output pixel `row` start.
    #[inline(always)]
    fn pixel(&self, row: usize, tap: usize) -> Option<usize> {
        let ([_, height, width], [_, tall, wide]) = (self.output, self.kernel);
        let (image, z) = (row / width / height / self.output[0], row / width / height % self.output[0]);
        let z = self.axes[0].source(z, tap / wide / tall)?;
        let y = self.axes[1].source(row / width % height, tap / wide % tall)?;
        let x = self.axes[2].source(row % width, tap % wide)?;
        let [depth, height, width] = self.axes.map(|axis| axis.size);
        Some((((image * depth + z) * height + y) * width + x) * self.channels.1)
    }
}

impl Left for Patches<'_> {
    fn in_place(&self) -> Option<(&[f32], usize)> {
        None
    }

    fn pack(&self, rows: Range<usize>, ks: Range<usize>, out: &mut [f32]) {
        for (row, mut out) in rows.zip(out.chunks_exact_mut(ks.len().max(1))) {
            let mut k = ks.start;
            while k < ks.end {
                let (tap, channel) = (k / self.channels.0, k % self.channels.0);
                let count = (self.channels.0 - channel).min(ks.end - k);
                let (now, rest) = out.split_at_mut(count);
                match self.pixel(row, tap) {
                    Some(start) => now.copy_from_slice(&self.input[start + channel..][..count]),
                    None => now.fill(0.0),
                }
                (out, k) = (rest, k + count);
            }
        }
    }
}

/// See the module's text.
pub(super) struct Weights<'a> {
    data: &'a [f32],
    /// Distances between output channels and between input channels; taps are neighbours.
    steps: (usize, usize),
    taps: usize,
    channels: usize,
}

impl<'a> Weights<'a> {
    pub(super) fn new(conv: &Conv, weight: &'a [f32], group: usize) -> Self {
        let (channels, taps) = (conv.group_in(), conv.taps());
        let len = channels * conv.group_out() * taps;
        let steps = if conv.transposed { (taps, conv.group_out() * taps) } else { (channels * taps, taps) };
        Self { data: &weight[group * len..][..len], steps, taps, channels }
    }

    /// The matrix `[oc, (ic, tap)]` of a forward convolution.
    pub(super) fn matrix(&self) -> Matrix<'a> {
        Matrix::row_major(self.data, self.steps.0)
    }

    /// Element `oc`, `(ic, tap)`.
    pub(super) fn channel_major(&self, oc: usize, k: usize) -> f32 {
        self.data[oc * self.steps.0 + k / self.taps * self.steps.1 + k % self.taps]
    }
}

impl Right for Weights<'_> {
    fn pack(&self, _: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        if columns.len() < width {
            out.fill(0.0);
        }
        for (j, oc) in columns.enumerate() {
            let weight = &self.data[oc * self.steps.0..];
            let (mut tap, mut channel) = (ks.start / self.channels, ks.start % self.channels);
            for row in out.chunks_exact_mut(width).take(ks.len()) {
                row[j] = weight[channel * self.steps.1 + tap];
                channel += 1;
                if channel == self.channels {
                    (channel, tap) = (0, tap + 1);
                }
            }
        }
    }
}
