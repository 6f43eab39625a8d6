//! Packed weights: panels of lines, by kind of weight.
//!
//! A panel is a few lines wide; every row of it has one line for each sixteen channels. The first two rows are its head:
//!
//! ```text
//!           start       what sums start from: bias, less what the offsets of the inputs bring
//!           totals      the sum of a channel's weights
//! Bytes     a row per 4 inputs:   four weights of a channel in a word (or two rows per 8 inputs, and two words, which
//!                                 stand next to each other, so that each line has eight channels)
//! Nibbles   a row per 8 inputs:   a byte's low half is the weight of input i, the high half that of input i + 4
//! Groups    the same, and before each two groups a row of scales: two bfloat16 numbers in a word
//! ```
//!
//! Weights of four bits are signed. Kernels multiply by sixteen times the weight, which is what the half of a byte is
//! when it stands in the upper half; heads are packed accordingly, and results divided in the end.
use super::super::Conv2d;
use super::tile::Family;
use super::{LANES, Line};
use crate::isa::Isa;
use crate::split::Slots;
use core::ops::Range;

/// Rows before a panel's weights: start and totals.
pub(super) const HEAD: usize = 2;
/// Most patches of a strip, and fewest of one that holds lines of the image.
pub(super) const STRIP: usize = 112;
const LINES: usize = 32;
/// Bytes of lines under the windows of a strip: they stay in the nearest cache beside the weights that they meet.
const IN_LINES: usize = 12 * 1024;
/// Most patches of a strip that has one row for each: fewer than of any other.
const GATHERED: usize = 24;
/// Fewest pixels of a line for which strips hold lines of the image: fewer would not fill a tile.
const WORTH_LINES: usize = 6;

/// How weights are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte each; the output channel has a scale.
    Bytes,
    /// Four bits each, -8 to 7; the output channel has a scale.
    Nibbles,
    /// Four bits each; n consecutive inputs of an output channel (a multiple of 32 that divides all inputs) share a
    /// scale.
    Groups(usize),
}

/// The shape of packed weights.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) kind: Kind,
    /// Channels of a group of the convolution.
    pub(super) n: usize,
    /// Inputs of a channel.
    pub(super) k: usize,
    /// Lines across a panel; the last panel may be narrower.
    pub(super) width: usize,
    /// Lines of weights that a step takes, for sixteen channels.
    pub(super) lines_of_step: usize,
    /// Steps of a kernel over all inputs.
    pub(super) steps: usize,
    /// Pieces of a patch, one after the other in the filter, each of as many steps: one, or those of the window's lines.
    pub(super) runs: usize,
    /// Where they are.
    pub(super) strip: Strip,
}

/// How patches lie in a strip.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// Most of them.
    pub(super) patches: usize,
    /// Bytes from one patch to the next.
    pub(super) step: usize,
    /// Bytes from one run of a patch to the next.
    pub(super) line: usize,
}

impl Strip {
    /// A row for each patch, of `k` bytes: a copy may run over by a vector, and patches should not all fall on the same
    /// lines of the cache.
    fn gathered(k: usize) -> Self {
        Self { patches: GATHERED, step: k.next_multiple_of(64) + 64, line: 0 }
    }

    /// The lines under the windows of neighbouring pixels, which share what their windows share. Of few channels it takes
    /// many: filling a strip, and calling kernels for it, takes as long as some products.
    fn of_lines(conv: &Conv2d) -> Self {
        let step = conv.stride[1] * conv.in_channels;
        let patches = (IN_LINES / (conv.kernel[0] * step).max(1)).clamp(LINES, STRIP);
        let line = ((patches - 1) * conv.stride[1] + conv.kernel[1]) * conv.in_channels;
        Self { patches, step, line: line.next_multiple_of(64) + 64 }
    }
}

impl Layout {
    pub(super) fn of(family: &Family, conv: &Conv2d, kind: Kind) -> Self {
        let (n, k) = (conv.group_out(), conv.taps() * conv.group_in());
        if let Kind::Groups(size) = kind {
            let whole = size > 0 && size.is_multiple_of(32) && k.is_multiple_of(size);
            assert!(whole, "groups of {size} weights, but there are {k} inputs; sizes are multiples of 32 that divide");
        }
        let lines = n.div_ceil(LANES);
        // Panels of nearly the same width: nine lines are three times three, not four, four and one.
        let panels = lines.div_ceil(family.widest()).max(1);
        let (lines_of_step, inputs) = if kind == Kind::Bytes { (family.lines, 4 * family.lines) } else { (1, 8) };
        let (width, steps) = (lines.div_ceil(panels).max(1), k.div_ceil(inputs));
        let gathered = Self { kind, n, k, width, lines_of_step, steps, runs: 1, strip: Strip::gathered(k) };
        // Weights are packed once for images of all sizes; only where they are read may depend on the size.
        let (runs, run) = (conv.kernel[0], conv.kernel[1] * conv.in_channels);
        let in_runs = run.div_ceil(inputs) * runs;
        // What more steps take, in cycles, against what gathering takes.
        let pays = in_runs.saturating_sub(steps) * lines < 4 * runs;
        let apart = conv.stride[1] > conv.kernel[1];
        if kind != Kind::Bytes || !is_dense(conv) || apart || runs == 1 || !pays {
            return gathered;
        }
        let is_wide = conv.input[1] >= WORTH_LINES * conv.stride[1];
        let strip = match is_wide || !run.is_multiple_of(inputs) {
            true => Strip::of_lines(conv),
            false => Strip { line: run, ..gathered.strip },
        };
        Self { steps: in_runs, runs, strip, ..gathered }
    }

    /// Whether strips hold lines of the image, and no row for each patch.
    pub(super) fn is_in_lines(&self) -> bool {
        self.strip.patches >= LINES
    }

    /// Steps between changes of scale.
    pub(super) fn group_steps(&self) -> usize {
        match self.kind {
            Kind::Groups(size) => size / 8,
            _ => self.steps,
        }
    }

    /// The first row of a panel that holds the weights of a step.
    pub(super) fn row(&self, step: usize) -> usize {
        match self.kind {
            Kind::Groups(_) => HEAD + 1 + step + step / (2 * self.group_steps()),
            _ => HEAD + step * self.lines_of_step,
        }
    }

    /// Rows of a panel.
    pub(super) fn depth(&self) -> usize {
        self.steps.checked_sub(1).map_or(HEAD, |last| self.row(last) + self.lines_of_step)
    }

    /// Lines of the panels of a group of the convolution.
    pub(super) fn lines(&self) -> usize {
        self.n.div_ceil(LANES) * self.depth()
    }

    /// Channels of a panel.
    pub(super) fn nr(&self) -> usize {
        self.width * LANES
    }

    /// The panel of these channels, which start one.
    pub(super) fn panel<'a>(&self, lines: &'a [Line], columns: &Range<usize>) -> &'a [Line] {
        let width = columns.len().div_ceil(LANES);
        &lines[columns.start / LANES * self.depth()..][..width * self.depth()]
    }

    /// Bytes of a run that a kernel reads.
    pub(super) fn run_len(&self) -> usize {
        let inputs = if self.kind == Kind::Bytes { 4 * self.lines_of_step } else { 8 };
        self.steps / self.runs * inputs
    }

    /// Bytes of a strip.
    pub(super) fn strip_len(&self) -> usize {
        if self.is_in_lines() { self.runs * self.strip.line } else { self.strip.patches * self.strip.step }
    }

    /// Bytes that hold a strip, wherever they start.
    pub(super) fn scratch(&self) -> usize {
        self.strip_len() + 64
    }
}

/// Whether neighbouring taps are neighbours in the image.
pub(super) fn is_dense(conv: &Conv2d) -> bool {
    conv.groups == 1 && conv.dilation == [1, 1] && !conv.transposed
}

/// Lines that packed weights of this kind take.
pub fn packed_len(isa: Isa, conv: &Conv2d, kind: Kind) -> usize {
    Layout::of(&Family::of(isa, kind), conv, kind).lines() * conv.groups
}

/// Bytes of scratch that a convolution takes on a [`Parallel`](crate::Parallel) of this width.
pub fn scratch_len(isa: Isa, conv: &Conv2d, kind: Kind, width: usize) -> usize {
    Layout::of(&Family::of(isa, kind), conv, kind).scratch() * Slots::<u8>::count(width)
}
