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
/// Most patches gathered at a time.
pub(super) const STRIP: usize = 24;

/// How weights are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte each; the output channel has a scale.
    Bytes,
    /// Four bits each, -8 to 7; the output channel has a scale.
    Nibbles,
    /// Four bits each; so many consecutive inputs of an output channel (a multiple of 32 that divides all inputs) share a
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
        Self { kind, n, k, width: lines.div_ceil(panels).max(1), lines_of_step, steps: k.div_ceil(inputs) }
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

    /// Bytes from one patch of a strip to the next: a copy may run over by a vector, and patches should not all fall on
    /// the same lines of the cache.
    pub(super) fn stride(&self) -> usize {
        self.k.next_multiple_of(64) + 64
    }

    /// Bytes of a strip, wherever it starts.
    pub(super) fn strip(&self) -> usize {
        STRIP * self.stride() + 64
    }
}

/// Lines that packed weights of this kind take.
pub fn packed_len(isa: Isa, conv: &Conv2d, kind: Kind) -> usize {
    Layout::of(&Family::of(isa, kind), conv, kind).lines() * conv.groups
}

/// Bytes of scratch that a convolution takes on a [`Parallel`](crate::Parallel) of this width.
pub fn scratch_len(isa: Isa, conv: &Conv2d, width: usize) -> usize {
    Layout::of(&Family::of(isa, Kind::Bytes), conv, Kind::Bytes).strip() * Slots::<u8>::count(width)
}
