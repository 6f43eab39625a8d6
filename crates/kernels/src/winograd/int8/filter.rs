//! Filters of bytes to matrices of 16-bit numbers.
//!
//! Rows of the transform are those of [`super::super::filter`], each multiplied by its denominator, so that they are whole
//! numbers: the products of a tile come out 4, 6, 6, 24, 24 and 1 times as large, which the output's transform sets right.
//!
//! It is done for the input channels of an output channel side by side, which are a column of each matrix; sixteen of these
//! make a line.

use super::transform::{Numbers, PATCH, TOGETHER};
use crate::isa::Isa;
use crate::packed::int8::{LANES, Line};
use core::ops::Range;

/// Words of channels that are transformed together.
const WORDS: usize = TOGETHER / 2;

/// Lines of each matrix, for as many steps.
type Squares = [[[i32; LANES]; WORDS]; PATCH * PATCH];

/// Writes one panel of lines: for every matrix a row for each two input channels, each as wide as there are lines of columns.
pub(super) fn panel(isa: Isa, in_channels: usize, filter: &[i8], columns: Range<usize>, panel: &mut [Line]) {
    let (width, steps) = (columns.len().div_ceil(LANES), in_channels.div_ceil(2));
    isa.vectorize(
        #[inline(always)]
        || {
            for channel in (0..in_channels).step_by(TOGETHER) {
                let inputs = channel..in_channels.min(channel + TOGETHER);
                for line in 0..width {
                    let first = columns.start + line * LANES;
                    let mut squares: Squares = [[[0; LANES]; WORDS]; PATCH * PATCH];
                    for (lane, out) in (first..columns.end.min(first + LANES)).enumerate() {
                        let filter = &filter[out * 9 * in_channels..][..9 * in_channels];
                        column(&transform(&taps(filter, in_channels, &inputs)), lane, &mut squares);
                    }
                    for (plane, square) in panel.chunks_exact_mut(steps * width).zip(&squares) {
                        let rows = plane[channel / 2 * width..].chunks_exact_mut(width);
                        rows.zip(square).for_each(|(row, words)| row[line] = Line(*words));
                    }
                }
            }
        },
    );
}

/// The nine taps of some input channels, and zeros.
#[inline(always)]
fn taps(filter: &[i8], in_channels: usize, inputs: &Range<usize>) -> [Numbers; 9] {
    let mut taps = [[0; TOGETHER]; 9];
    for (tap, row) in taps.iter_mut().zip(filter.chunks_exact(in_channels)) {
        tap.iter_mut().zip(&row[inputs.clone()]).for_each(|(number, byte)| *number = i16::from(*byte));
    }
    taps
}

/// The values of a filter's line at all points, times their denominators.
#[inline(always)]
fn values([a, b, c]: [&Numbers; 3]) -> [Numbers; PATCH] {
    let mut values = [[0; TOGETHER]; PATCH];
    for i in 0..TOGETHER {
        let (one, two) = (a[i] + c[i], a[i] + 4 * c[i]);
        values[0][i] = a[i];
        values[1][i] = -(one + b[i]);
        values[2][i] = b[i] - one;
        values[3][i] = two + 2 * b[i];
        values[4][i] = two - 2 * b[i];
        values[5][i] = c[i];
    }
    values
}

/// The elements of all matrices: for each column of the filter's transformed lines, one for each line of a patch.
#[inline(always)]
fn transform(taps: &[Numbers; 9]) -> [[Numbers; PATCH]; PATCH] {
    let [a, b, c, d, e, f, g, h, i] = taps;
    let [first, second, third] = [values([a, b, c]), values([d, e, f]), values([g, h, i])];
    let mut columns = [[[0; TOGETHER]; PATCH]; PATCH];
    for (x, column) in columns.iter_mut().enumerate() {
        *column = values([&first[x], &second[x], &third[x]]);
    }
    columns
}

/// Writes a lane of the lines of all matrices.
#[inline(always)]
fn column(columns: &[[Numbers; PATCH]; PATCH], lane: usize, squares: &mut Squares) {
    for (matrix, square) in squares.iter_mut().enumerate() {
        let numbers = &columns[matrix % PATCH][matrix / PATCH];
        for (line, two) in square.iter_mut().zip(numbers.as_chunks::<2>().0) {
            let [[a, b], [c, d]] = two.map(i16::to_ne_bytes);
            line[lane] = i32::from_ne_bytes([a, b, c, d]);
        }
    }
}
