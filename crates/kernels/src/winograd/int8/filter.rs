//! Filters of bytes to matrices of 16-bit numbers.
//!
//! Rows of the transform are those of [`super::super::filter`], each multiplied by its denominator, so that they are whole
//! numbers: the products of a tile come out 4, 6, 6, 24, 24 and 1 times as large, which the output's transform sets right.

use super::transform::PATCH;
use crate::isa::Isa;
use crate::packed::int8::{LANES, Line};
use core::ops::Range;

/// The values of a filter's line at all points, times their denominators.
#[inline(always)]
fn values([a, b, c]: [i16; 3]) -> [i16; PATCH] {
    let (one, two) = (a + c, a + 4 * c);
    [a, -(one + b), b - one, two + 2 * b, two - 2 * b, c]
}

/// The matrices' elements for one filter of nine taps.
#[inline(always)]
fn transform(taps: [i16; 9]) -> [[i16; PATCH]; PATCH] {
    let lines = [0, 3, 6].map(|y| values([taps[y], taps[y + 1], taps[y + 2]]));
    let mut matrices = [[0; PATCH]; PATCH];
    for x in 0..PATCH {
        let column = values([lines[0][x], lines[1][x], lines[2][x]]);
        matrices.iter_mut().zip(column).for_each(|(line, value)| line[x] = value);
    }
    matrices
}

/// Writes one panel of lines: for every matrix a row for each two input channels, each as wide as there are lines of columns.
pub(super) fn panel(isa: Isa, in_channels: usize, filter: &[i8], columns: Range<usize>, panel: &mut [Line]) {
    let (width, steps) = (columns.len().div_ceil(LANES), in_channels.div_ceil(2));
    isa.vectorize(
        #[inline(always)]
        || {
            for step in 0..steps {
                for line in 0..width {
                    let mut words = [[0; LANES]; PATCH * PATCH];
                    let first = columns.start + line * LANES;
                    for (lane, out) in (first..columns.end.min(first + LANES)).enumerate() {
                        pair(&filter[out * 9 * in_channels..][..9 * in_channels], in_channels, step, lane, &mut words);
                    }
                    for (matrix, words) in words.into_iter().enumerate() {
                        panel[(matrix * steps + step) * width + line] = Line(words);
                    }
                }
            }
        },
    );
}

/// Writes the words of an output channel's two filters of a step.
#[inline(always)]
fn pair(filter: &[i8], in_channels: usize, step: usize, lane: usize, words: &mut [[i32; LANES]; PATCH * PATCH]) {
    let tap = |tap: usize, channel: usize| match channel < in_channels {
        true => i16::from(filter[tap * in_channels + channel]),
        false => 0,
    };
    let both = [2 * step, 2 * step + 1].map(|channel| transform(core::array::from_fn(|t| tap(t, channel))));
    for (matrix, words) in words.iter_mut().enumerate() {
        let [a, b] = both.each_ref().map(|numbers| numbers[matrix / PATCH][matrix % PATCH].to_ne_bytes());
        words[lane] = i32::from_ne_bytes([a[0], a[1], b[0], b[1]]);
    }
}
