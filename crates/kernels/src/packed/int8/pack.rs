//! Filters to panels.
//!
//! A line of a panel holds four bytes of each of sixteen channels, and filters come with the bytes of a channel side by
//! side: packing is transposing a matrix of words. It goes by squares of sixteen channels and sixteen words, which are
//! transposed in registers; the sums of the weights are taken on the way, sixteen channels at a time.
//!
//! ```text
//! channel 0   a0 a1 a2 a3 ...  ╮             a0 b0 c0 ...   a line, for one step of the micro-kernel
//! channel 1   b0 b1 b2 b3 ...  ├─ a square ─▶ a1 b1 c1 ...
//! channel 2   c0 c1 c2 c3 ...  ╯             ...
//! ```
use super::layout::{Kind, Layout};
use super::tile::Family;
use super::{Conv2d, Filter, LANES, Line};
use crate::gemm::transpose;
use crate::isa::Isa;
use crate::split;
use crate::view::{bytes_of, bytes_of_mut, view, view_mut};
use core::ops::Range;
use half::bf16;
use sconce_parallel::Parallel;

/// Packs a filter of bytes and its bias into `packed`, which has [`super::packed_len`] lines. Inputs will stand for their
/// difference to `input_zero`; for inputs that are quantised as they come, that is 0.
pub fn pack(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    filter: Filter<'_, i8>,
    bias: Option<&[i32]>,
    input_zero: i8,
    packed: &mut [Line],
) {
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "the bias of {conv:?}");
    let family = Family::of(isa, Kind::Bytes);
    let offset = i32::from(family.flip) + i32::from(input_zero);
    let layout = Layout::of(&family, conv, Kind::Bytes);
    let words = match filter {
        Filter::Rows(weights) => Words::Rows { bytes: bytes_of(weights), row: layout.k },
        Filter::Columns(weights) => Words::Columns { bytes: bytes_of(weights), row: conv.out_channels },
    };
    let (Filter::Rows(weights) | Filter::Columns(weights)) = filter;
    assert_eq!(weights.len(), conv.out_channels * layout.k, "the filter of {conv:?}");
    each_column(isa, par, conv, layout, packed, |channels, mut column| {
        let mut totals = [0; LANES];
        let (run, run_words) = (layout.k / layout.runs, layout.steps * layout.lines_of_step / layout.runs);
        for first in 0..layout.runs {
            words.each_step(isa, channels.clone(), first * run..(first + 1) * run, run_words, |word, line| {
                add_bytes(&mut totals, &line);
                column.put_word(&layout, first * run_words + word, line);
            });
        }
        let mut start = [0; LANES];
        if let Some(bias) = bias {
            start[..channels.len()].copy_from_slice(&bias[channels]);
        }
        start.iter_mut().zip(totals).for_each(|(start, total)| *start = start.wrapping_sub(offset.wrapping_mul(total)));
        column.put(0, Line(start));
        column.put(1, Line(totals));
    });
}

/// Packs numbers from -8 to 7 into `packed`, which has [`super::packed_len`] lines. The filter is `[out, taps * in /
/// groups]` with 8 added, two numbers in a byte, the first in its lower half; every row starts with a byte. With groups,
/// `scales` is `[out, inputs / group]`, and what is kept of it is bfloat16; else it is empty.
pub fn pack_nibbles(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    kind: Kind,
    filter: &[u8],
    scales: &[f32],
    packed: &mut [Line],
) {
    let family = Family::of(isa, kind);
    let layout = Layout::of(&family, conv, kind);
    let groups = if let Kind::Groups(size) = kind { layout.k / size } else { 0 };
    let row = layout.k.div_ceil(2);
    assert_ne!(kind, Kind::Bytes, "bytes are not nibbles");
    assert_eq!(filter.len(), conv.out_channels * row, "the filter of {conv:?}");
    assert_eq!(scales.len(), groups * conv.out_channels, "scales of {conv:?} as {kind:?}");
    let words = Words::Rows { bytes: filter, row };
    each_column(isa, par, conv, layout, packed, |channels, mut column| {
        let (mut totals, mut in_group, mut scaled) = ([0; LANES], [0; LANES], [0.0; LANES]);
        let held = |group: usize, lane: usize| match lane < channels.len() && group < groups {
            true => bf16::from_f32(scales[(channels.start + lane) * groups + group]),
            false => bf16::ZERO,
        };
        words.each_step(isa, channels.clone(), 0..row, layout.steps, |step, line| {
            let line = spread_nibbles(line, layout.k - step * 8);
            add_nibbles(&mut in_group, &line);
            column.put(layout.row(step), line);
            if (step + 1).is_multiple_of(layout.group_steps()) {
                let group = step / layout.group_steps();
                for lane in 0..LANES {
                    scaled[lane] += f64::from(in_group[lane]) * f64::from(held(group, lane).to_f32());
                    totals[lane] += in_group[lane];
                }
                in_group = [0; LANES];
            }
            if groups > 0 && step.is_multiple_of(2 * layout.group_steps()) {
                let group = step / layout.group_steps();
                let pair = |lane| [group, group + 1].map(|group| u32::from(held(group, lane).to_bits()));
                let scales = core::array::from_fn(|lane| (pair(lane)[0] | pair(lane)[1] << 16).cast_signed());
                column.put(layout.row(step) - 1, Line(scales));
            }
        });
        let (start, totals) = match groups {
            0 => (totals.map(|total| total * -16 * i32::from(family.flip)), totals.map(|total| total * 16)),
            _ => ([0; LANES], scaled.map(|scaled| (16.0 * scaled as f32).to_bits().cast_signed())),
        };
        column.put(0, Line(start));
        column.put(1, Line(totals));
    });
}

/// Calls `body(channels, column)` for every sixteen channels of a group (the last may be fewer), compiled for the set.
/// Every line of the column must be put.
fn each_column(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    layout: Layout,
    packed: &mut [Line],
    body: impl Fn(Range<usize>, Column<'_>) + Sync,
) {
    assert_eq!(packed.len(), layout.lines() * conv.groups, "the packed weights of {conv:?}");
    for (g, group) in packed.chunks_mut(layout.lines().max(1)).enumerate() {
        split::chunks(par, group, layout.depth() * layout.width, |panel, lines| {
            let width = lines.len() / layout.depth();
            for place in 0..width {
                let first = panel * layout.nr() + place * LANES;
                let channels = g * layout.n + first..g * layout.n + layout.n.min(first + LANES);
                let column = Column { lines: &mut *lines, width, place };
                isa.vectorize(
                    #[inline(always)]
                    || body(channels, column),
                );
            }
        });
    }
}

/// The lines of sixteen channels in a panel.
struct Column<'a> {
    lines: &'a mut [Line],
    /// Lines across the panel, and which of them this is.
    width: usize,
    place: usize,
}

impl Column<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, line: Line) {
        self.lines[row * self.width + self.place] = line;
    }

    /// Puts word `word` of each channel where a step finds it: the words of a step stand next to each other.
    #[inline(always)]
    fn put_word(&mut self, layout: &Layout, word: usize, line: Line) {
        let together = layout.lines_of_step;
        let row = layout.row(word / together);
        if together == 1 {
            return self.put(row, line);
        }
        let lines = &mut self.lines[row * self.width + self.place * together..][..together];
        for (lane, value) in line.0.into_iter().enumerate() {
            let at = lane * together + word % together;
            lines[at / LANES].0[at % LANES] = value;
        }
    }
}

/// Sixteen lines of sixteen words.
type Square = [Line; LANES];

/// A filter as words of four bytes, n for each channel.
#[derive(Clone, Copy)]
enum Words<'a> {
    /// A row of n bytes for each channel.
    Rows { bytes: &'a [u8], row: usize },
    /// A row of n channels for each byte.
    Columns { bytes: &'a [u8], row: usize },
}

impl Words<'_> {
    /// Calls `body(step, line)` for every step over some bytes of at most sixteen channels; the word of what is missing is
    /// zero.
    #[inline(always)]
    fn each_step(
        self,
        isa: Isa,
        channels: Range<usize>,
        part: Range<usize>,
        steps: usize,
        mut body: impl FnMut(usize, Line),
    ) {
        let (mut rows, mut square) = ([Line::default(); LANES], [Line::default(); LANES]);
        for first in (0..steps).step_by(LANES) {
            match self {
                Self::Rows { bytes, row } => {
                    let from = &bytes[channels.start * row..channels.end * row];
                    let at = part.start + first * 4;
                    match at + size_of::<Line>() <= part.end {
                        true => gather_lines(from, row, at, &mut rows),
                        false => gather_rest(from, row, at..part.end, &mut rows),
                    }
                    // Words move as numbers do: nothing is computed with them.
                    let from = view(bytes_of(&rows)).unwrap_or_default();
                    let to = view_mut(bytes_of_mut(&mut square)).unwrap_or_default();
                    transpose(isa, (LANES, LANES), (from, LANES), (to, LANES));
                }
                Self::Columns { bytes, row } => {
                    let (at, bytes) = (part.start + first * 4, &bytes[..part.end * row]);
                    gather_columns(bytes, row, channels.clone(), at, &mut square);
                }
            }
            for (line, step) in square.iter().zip(first..steps) {
                body(step, *line);
            }
        }
    }
}

/// A line of each row, from byte `at` on.
#[inline(always)]
fn gather_lines(bytes: &[u8], row: usize, at: usize, lines: &mut Square) {
    for (line, from) in lines.iter_mut().zip(bytes.chunks_exact(row)) {
        bytes_of_mut(core::slice::from_mut(line)).copy_from_slice(&from[at..at + size_of::<Line>()]);
    }
}

/// A part of each row, which is less than a line. Apart from the above, so that there the length of a copy is known.
#[inline(never)]
fn gather_rest(bytes: &[u8], row: usize, part: Range<usize>, lines: &mut Square) {
    for (line, from) in lines.iter_mut().zip(bytes.chunks_exact(row)) {
        *line = Line::default();
        bytes_of_mut(core::slice::from_mut(line))[..part.len()].copy_from_slice(&from[part.clone()]);
    }
}

/// The words of columns of bytes, from byte `at` on.
#[inline(always)]
fn gather_columns(bytes: &[u8], row: usize, channels: Range<usize>, at: usize, square: &mut Square) {
    for (step, line) in square.iter_mut().enumerate() {
        *line = Line::default();
        let words = bytes_of_mut(core::slice::from_mut(line));
        for (place, from) in bytes.chunks_exact(row).skip(at + step * 4).take(4).enumerate() {
            for (word, byte) in words.as_chunks_mut::<4>().0.iter_mut().zip(&from[channels.clone()]) {
                word[place] = *byte;
            }
        }
    }
}

/// Adds the four signed bytes of each word.
#[inline(always)]
fn add_bytes(totals: &mut [i32; LANES], line: &Line) {
    for (total, word) in totals.iter_mut().zip(line.0) {
        *total += (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
    }
}

/// Adds the eight signed halves of bytes of each word.
#[inline(always)]
fn add_nibbles(totals: &mut [i32; LANES], line: &Line) {
    for (total, word) in totals.iter_mut().zip(line.0) {
        for half in 0..8 {
            *total += word << (28 - 4 * half) >> 28;
        }
    }
}

/// Brings eight numbers in each word from the order of a filter into that of a panel, without the 8 that was added; only
/// the first `count` stay.
#[inline(always)]
fn spread_nibbles(line: Line, count: usize) -> Line {
    let held = |place: usize, half: u8| if place < count { half } else { 0 };
    let mask = u32::from_ne_bytes(core::array::from_fn(|i| held(i, 0x0f) | held(i + 4, 0xf0)));
    let mut words = line.0;
    for word in &mut words {
        let eight = u32::from_le(word.cast_unsigned());
        // Four halves of bytes side by side become the lower halves of four bytes.
        let spread = |x: u32| {
            let x = (x | x << 8) & 0x00ff_00ff;
            (x | x << 4) & 0x0f0f_0f0f
        };
        let eight = spread(eight & 0xffff) | spread(eight >> 16) << 4;
        *word = ((eight ^ 0x8888_8888).to_le() & mask).cast_signed();
    }
    Line(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, pool};

    /// What a word of the panel that holds a channel is, straight from the words of the layout.
    struct Naive<'a> {
        layout: Layout,
        groups: usize,
        packed: &'a [Line],
    }

    impl Naive<'_> {
        fn word(&self, channel: usize, row: usize) -> i32 {
            let (group, n) = (channel / self.layout.n, channel % self.layout.n);
            let panel = n / self.layout.nr();
            let lines = self.layout.n.div_ceil(LANES) - panel * self.layout.width;
            let width = lines.min(self.layout.width);
            let start = group * self.layout.lines() + panel * self.layout.width * self.layout.depth();
            let within = n % self.layout.nr();
            self.packed[start + row * width + within / LANES].0[within % LANES]
        }

        /// Four weights of a channel; a step may take several words, which stand next to each other.
        fn weights(&self, channel: usize, word: usize) -> i32 {
            let together = self.layout.lines_of_step;
            let row = self.layout.row(word / together);
            if together == 1 {
                return self.word(channel, row);
            }
            let (group, n) = (channel / self.layout.n, channel % self.layout.n);
            let panel = n / self.layout.nr();
            let width = (self.layout.n.div_ceil(LANES) - panel * self.layout.width).min(self.layout.width);
            let start = group * self.layout.lines() + panel * self.layout.width * self.layout.depth();
            let at = n % self.layout.nr() * together + word % together;
            self.packed[start + row * width + at / LANES].0[at % LANES]
        }
    }

    fn shapes() -> Vec<Conv2d> {
        let image = |k, n, groups| Conv2d { kernel: [3, 3], groups, ..Conv2d::linear(1, k * groups, n * groups) };
        let linear = [1, 3, 4, 31, 64, 65, 130]
            .into_iter()
            .flat_map(|k| [1, 15, 16, 17, 48, 64, 65, 100, 129].map(|n| Conv2d::linear(1, k, n)));
        linear.chain([image(3, 20, 1), image(5, 3, 4), image(16, 33, 2), image(1, 1, 7)]).collect()
    }

    #[test]
    fn bytes_lie_where_the_layout_says() {
        let mut random = Random::new(1);
        for conv in shapes() {
            let k = conv.taps() * conv.group_in();
            let filter: Vec<i8> = (0..conv.out_channels * k).map(|_| random.below(256) as u8 as i8).collect();
            let columns: Vec<i8> =
                (0..filter.len()).map(|i| filter[i % conv.out_channels * k + i / conv.out_channels]).collect();
            let bias: Vec<i32> = (0..conv.out_channels).map(|_| random.below(2000) as i32 - 1000).collect();
            for (isa, zero) in Isa::available().flat_map(|isa| [(isa, 0), (isa, -128), (isa, 77)]) {
                let layout = Layout::of(&Family::of(isa, Kind::Bytes), &conv, Kind::Bytes);
                let length = layout.lines() * conv.groups;
                let (mut packed, mut again) = (vec![Line([7; LANES]); length], vec![Line([9; LANES]); length]);
                pack(isa, &pool(), &conv, Filter::Rows(&filter), Some(&bias), zero, &mut packed);
                pack(isa, &pool(), &conv, Filter::Columns(&columns), Some(&bias), zero, &mut again);
                assert_eq!(packed, again, "{isa:?} {conv:?}");
                let naive = Naive { layout, groups: 0, packed: &packed };
                let offset = i32::from(zero) + i32::from(Family::of(isa, Kind::Bytes).flip);
                for (channel, weights) in filter.chunks(k).enumerate() {
                    let total: i32 = weights.iter().map(|w| i32::from(*w)).sum();
                    assert_eq!(naive.word(channel, 0), bias[channel] - offset * total, "{isa:?} {conv:?}");
                    assert_eq!(naive.word(channel, 1), total, "{isa:?} {conv:?}");
                    let run_words = layout.steps * layout.lines_of_step / layout.runs;
                    let words =
                        |run| (run * run_words..).zip(weights.chunks(k / layout.runs).nth(run).unwrap().chunks(4));
                    for (word, four) in (0..layout.runs).flat_map(words) {
                        let mut bytes = [0; 4];
                        bytes.iter_mut().zip(four).for_each(|(byte, weight)| *byte = weight.cast_unsigned());
                        assert_eq!(naive.weights(channel, word), i32::from_ne_bytes(bytes), "{isa:?} {conv:?}");
                    }
                }
            }
        }
    }

    /// Two numbers in a byte, 8 added; what fills the last byte of a row is arbitrary.
    fn stored(filter: &[i8], k: usize) -> Vec<u8> {
        let half = |weight: Option<&i8>| weight.map_or(5, |weight| (weight + 8).cast_unsigned());
        let row = |row: &[i8]| row.chunks(2).map(|two| half(two.first()) | half(two.get(1)) << 4).collect::<Vec<_>>();
        filter.chunks(k).flat_map(row).collect()
    }

    #[test]
    fn nibbles_lie_where_the_layout_says() {
        let mut random = Random::new(2);
        let grouped = [(32, 32, 5), (64, 32, 17), (96, 32, 65), (192, 64, 16), (256, 256, 20)];
        let grouped = grouped.map(|(k, size, n)| (Conv2d::linear(1, k, n), Kind::Groups(size)));
        for (conv, kind) in shapes().into_iter().map(|conv| (conv, Kind::Nibbles)).chain(grouped) {
            let k = conv.taps() * conv.group_in();
            let filter: Vec<i8> = (0..conv.out_channels * k).map(|_| random.below(16) as i8 - 8).collect();
            let (size, groups) = if let Kind::Groups(size) = kind { (size, k / size) } else { (k, 0) };
            // So few bits that bfloat16 and sums hold them exactly.
            let scales: Vec<f32> = (0..groups * conv.out_channels).map(|_| random.below(100) as f32 / 64.0).collect();
            for isa in Isa::available() {
                let family = Family::of(isa, kind);
                let layout = Layout::of(&family, &conv, kind);
                let mut packed = vec![Line([7; LANES]); layout.lines() * conv.groups];
                pack_nibbles(isa, &pool(), &conv, kind, &stored(&filter, k), &scales, &mut packed);
                let naive = Naive { layout, groups, packed: &packed };
                for (channel, weights) in filter.chunks(k).enumerate() {
                    check_channel(&naive, channel, weights, family.flip);
                    for (group, weights) in weights.chunks(size).enumerate().take(groups) {
                        let first = layout.row(group / 2 * 2 * size / 8) - 1;
                        let word = naive.word(channel, first).cast_unsigned();
                        let scale = f32::from_bits(word >> (group % 2 * 16) << 16);
                        assert_eq!(scale, scales[channel * groups + group], "{isa:?} {conv:?} {kind:?}");
                        assert_eq!(weights.len(), size);
                    }
                    let of_groups = weights.chunks(size).zip(scales.chunks(groups.max(1)).nth(channel).unwrap_or(&[]));
                    let scaled: f32 = of_groups
                        .map(|(weights, scale)| weights.iter().map(|w| f32::from(*w)).sum::<f32>() * scale)
                        .sum();
                    let total: i32 = weights.iter().map(|w| i32::from(*w)).sum();
                    let expected = if groups > 0 { (16.0 * scaled).to_bits().cast_signed() } else { 16 * total };
                    assert_eq!(naive.word(channel, 1), expected, "{isa:?} {conv:?} {kind:?}");
                }
            }
        }
    }

    fn check_channel(naive: &Naive<'_>, channel: usize, weights: &[i8], flip: u8) {
        let total: i32 = weights.iter().map(|w| i32::from(*w)).sum();
        let start = if naive.groups > 0 { 0 } else { -16 * i32::from(flip) * total };
        assert_eq!(naive.word(channel, 0), start);
        for (step, eight) in weights.chunks(8).enumerate() {
            let weight = |i: usize| eight.get(i).map_or(0, |weight| weight.cast_unsigned() & 15);
            let bytes = core::array::from_fn(|i| weight(i) | weight(i + 4) << 4);
            assert_eq!(naive.word(channel, naive.layout.row(step)), i32::from_ne_bytes(bytes));
        }
    }
}
