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
use crate::split::{self, Slots};
use core::ops::Range;
use half::bf16;
use sconce_parallel::Parallel;

/// Rows before a panel's weights: start and totals.
pub(super) const HEAD: usize = 2;
/// Most lines of weights that a step takes.
const MOST_LINES: usize = 2;
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
    lines_of_step: usize,
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
    fn row(&self, step: usize) -> usize {
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

/// Bytes of scratch that a convolution takes on a [`Parallel`] of this width.
pub fn scratch_len(isa: Isa, conv: &Conv2d, width: usize) -> usize {
    Layout::of(&Family::of(isa, Kind::Bytes), conv, Kind::Bytes).strip() * Slots::<u8>::count(width)
}

/// Packs a filter `[out, taps, in / groups]` of bytes and its bias into `packed`, which has [`packed_len`] lines. Inputs
/// will stand for their difference to `input_zero`; for inputs that are quantised as they come, that is 0.
pub fn pack(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    filter: impl Fn(usize) -> i8 + Sync,
    bias: Option<&[i32]>,
    input_zero: i8,
    packed: &mut [Line],
) {
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "the bias of {conv:?}");
    let family = Family::of(isa, Kind::Bytes);
    let offset = i32::from(family.flip) + i32::from(input_zero);
    let layout = Layout::of(&family, conv, Kind::Bytes);
    columns(par, conv, layout, filter, packed, |channel, weight, put| {
        let mut total = 0i32;
        for step in 0..layout.steps {
            let mut words = [0; MOST_LINES];
            let words = &mut words[..layout.lines_of_step];
            for (i, word) in words.iter_mut().enumerate() {
                let four: [i8; 4] = core::array::from_fn(|j| weight((step * layout.lines_of_step + i) * 4 + j));
                total += four.iter().map(|w| i32::from(*w)).sum::<i32>();
                *word = i32::from_ne_bytes(four.map(i8::cast_unsigned));
            }
            put(layout.row(step), words);
        }
        let bias = bias.map_or(0, |bias| bias[channel]);
        put(0, &[bias.wrapping_sub(offset.wrapping_mul(total))]);
        put(1, &[total]);
    });
}

/// Packs a filter `[out, taps, in / groups]` of numbers from -8 to 7 into `packed`, which has [`packed_len`] lines. With
/// groups, `scales` is `[out, inputs / group]`, and what is kept of it is bfloat16; else it is empty.
pub fn pack_nibbles(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    kind: Kind,
    filter: impl Fn(usize) -> i8 + Sync,
    scales: &[f32],
    packed: &mut [Line],
) {
    let family = Family::of(isa, kind);
    let layout = Layout::of(&family, conv, kind);
    let steps = layout.group_steps().max(1);
    let groups = if let Kind::Groups(size) = kind { layout.k / size } else { 0 };
    assert_ne!(kind, Kind::Bytes, "bytes are not nibbles");
    assert_eq!(scales.len(), groups * conv.out_channels, "scales of {conv:?} as {kind:?}");
    columns(par, conv, layout, filter, packed, |channel, weight, put| {
        let scale = |group: usize| if group < groups { scales[channel * groups + group] } else { 0.0 };
        let held = |group: usize| bf16::from_f32(scale(group));
        let (mut total, mut scaled) = (0, 0.0);
        for step in 0..layout.steps {
            let low: [i8; 4] = core::array::from_fn(|i| weight(step * 8 + i));
            let high: [i8; 4] = core::array::from_fn(|i| weight(step * 8 + 4 + i));
            let bytes = core::array::from_fn(|i| low[i].cast_unsigned() & 15 | high[i].cast_unsigned() << 4);
            put(layout.row(step), &[i32::from_ne_bytes(bytes)]);
            let sum: i32 = low.iter().chain(&high).map(|w| i32::from(*w)).sum();
            total += sum;
            scaled += f64::from(sum) * f64::from(held(step / steps).to_f32());
            if groups > 0 && step.is_multiple_of(2 * steps) {
                let pair = [step / steps, step / steps + 1].map(|group| u32::from(held(group).to_bits()));
                put(layout.row(step) - 1, &[(pair[0] | pair[1] << 16).cast_signed()]);
            }
        }
        if groups > 0 {
            put(1, &[(16.0 * scaled as f32).to_bits().cast_signed()]);
        } else {
            put(0, &[total.wrapping_mul(-16 * i32::from(family.flip))]);
            put(1, &[total.wrapping_mul(16)]);
        }
    });
}

/// Calls `body(channel, weight, put)` for every channel: `weight(p)` is that of input `p`, zero beyond the last;
/// `put(row, words)` writes the channel's words of a row, or of several together.
fn columns(
    par: &dyn Parallel,
    conv: &Conv2d,
    layout: Layout,
    filter: impl Fn(usize) -> i8 + Sync,
    packed: &mut [Line],
    body: impl Fn(usize, &dyn Fn(usize) -> i8, &mut dyn FnMut(usize, &[i32])) + Sync,
) {
    let Layout { n, k, .. } = layout;
    assert_eq!(packed.len(), layout.lines() * conv.groups, "the packed weights of {conv:?}");
    for (g, group) in packed.chunks_mut(layout.lines().max(1)).enumerate() {
        split::chunks(par, group, layout.depth() * layout.width, |panel, lines| {
            lines.fill(Line::default());
            let width = lines.len() / layout.depth();
            let first = panel * layout.nr();
            for column in 0..(n - first).min(width * LANES) {
                let channel = g * n + first + column;
                let weight = |p: usize| if p < k { filter(channel * k + p) } else { 0 };
                let mut put = |row: usize, words: &[i32]| {
                    for (at, word) in (column * words.len()..).zip(words) {
                        lines[row * width + at / LANES].0[at % LANES] = *word;
                    }
                };
                body(channel, &weight, &mut put);
            }
        });
    }
}
