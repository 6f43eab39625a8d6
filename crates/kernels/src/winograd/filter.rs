//! Filters to matrices: `G g G'` of every three by three filter, once, when weights are packed.
//!
//! Rows of `G` are the values of a quadratic polynomial at some points, scaled so that the other transforms are whole
//! numbers. Points come in pairs, `p` and `-p`: even and odd powers are added up once for both.
//!
//! It is done for sixteen output channels at a time, so that the loops vectorise. Filters come with input channels side by
//! side, so squares of sixteen by sixteen channels are transposed first, tap by tap.

#![allow(unsafe_code, reason = "stores past the caches")]

use super::Output;
use crate::gemm::transpose;
use crate::isa::Isa;
use core::ops::Range;

/// Channels that are transformed together.
const TOGETHER: usize = 16;
/// Most lines of a patch.
const MOST: usize = 6;

type Lane = [f32; TOGETHER];

/// Sixteen output channels of as many input channels, row by row.
type Square = [f32; TOGETHER * TOGETHER];

/// The matrices of sixteen by sixteen channels.
type Matrices = [Square; MOST * MOST];

/// Writes one panel: for every matrix a row per input channel, as long as there are columns, rounded up.
pub(super) fn panel(
    isa: Isa,
    output: Output,
    in_channels: usize,
    filter: &[f32],
    columns: Range<usize>,
    panel: &mut [f32],
) {
    let width = panel.len() / (output.matrices() * in_channels);
    isa.vectorize(
        #[inline(always)]
        || {
            let mut matrices = [[0.0; TOGETHER * TOGETHER]; MOST * MOST];
            for first in (0..width).step_by(TOGETHER) {
                // What is missing of the last vector stays zero.
                let mut taps = [[0.0; TOGETHER * TOGETHER]; 9];
                let start = (columns.start + first).min(columns.end);
                let outputs = start..columns.end.min(start + TOGETHER);
                for channel in (0..in_channels).step_by(TOGETHER) {
                    let inputs = channel..in_channels.min(channel + TOGETHER);
                    gather(isa, filter, in_channels, inputs.clone(), outputs.clone(), &mut taps);
                    for row in 0..inputs.len() {
                        transform(output, &taps, row, &mut matrices);
                    }
                    for (plane, square) in panel.chunks_exact_mut(in_channels * width).zip(&matrices) {
                        let rows = &mut plane[inputs.start * width..inputs.end * width];
                        store(isa, rows, width, first, square);
                    }
                }
            }
        },
    );
    #[cfg(target_arch = "x86_64")]
    past::finish();
}

/// Writes rows of sixteen, or what there is room for, at column `first` of rows of `width`.
#[inline(always)]
fn store(isa: Isa, rows: &mut [f32], width: usize, first: usize, square: &Square) {
    #[cfg(target_arch = "x86_64")]
    if past::store(isa, rows, width, first, square) {
        return;
    }
    let _ = isa;
    for (row, from) in rows.chunks_exact_mut(width).zip(square.as_chunks::<TOGETHER>().0) {
        row[first..].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}

/// Stores that go past the caches. There are up to 36 matrices of which a line is written now and then, and whose places
/// are often a power of two apart: fetching each line in order to write it takes several times longer.
#[cfg(target_arch = "x86_64")]
mod past {
    use super::{Square, TOGETHER};
    use crate::isa::Isa;
    use core::arch::x86_64::{_mm_sfence, _mm256_loadu_ps, _mm256_stream_ps};

    /// As [`super::store`], if the set has such stores and rows are whole cache lines; [`finish`] must follow.
    #[inline(always)]
    pub(super) fn store(isa: Isa, rows: &mut [f32], width: usize, first: usize, square: &Square) -> bool {
        let known = matches!(isa, Isa::Avx2(_) | Isa::Avx512(_) | Isa::Vnni(_));
        let lines = rows.as_ptr().addr().is_multiple_of(64) && width.is_multiple_of(TOGETHER);
        if !known || !lines || !first.is_multiple_of(TOGETHER) || first >= width {
            return false;
        }
        for (row, from) in rows.chunks_exact_mut(width).zip(square.as_chunks::<TOGETHER>().0) {
            let to = &mut row[first..first + TOGETHER];
            // SAFETY: the set is known to include AVX; sixteen elements are read and written, from a cache line on.
            unsafe {
                _mm256_stream_ps(to.as_mut_ptr(), _mm256_loadu_ps(from.as_ptr()));
                _mm256_stream_ps(to.as_mut_ptr().add(8), _mm256_loadu_ps(from.as_ptr().add(8)));
            }
        }
        true
    }

    /// Makes everybody see what was stored.
    pub(super) fn finish() {
        // SAFETY: every x86-64 has the instruction.
        unsafe { _mm_sfence() };
    }
}

/// The nine taps of some output channels for some input channels.
#[inline(always)]
fn gather(
    isa: Isa,
    filter: &[f32],
    in_channels: usize,
    inputs: Range<usize>,
    outputs: Range<usize>,
    taps: &mut [Square; 9],
) {
    for (tap, square) in taps.iter_mut().enumerate() {
        let from = filter.get((outputs.start * 9 + tap) * in_channels + inputs.start..).unwrap_or_default();
        transpose(isa, (outputs.len(), inputs.len()), (from, 9 * in_channels), (square, TOGETHER));
    }
}

/// Transforms the filters of one input channel, a row of each square, to that row of each matrix.
#[inline(always)]
fn transform(output: Output, taps: &[Square; 9], row: usize, matrices: &mut Matrices) {
    let (side, row) = (output.patch(), row * TOGETHER..(row + 1) * TOGETHER);
    let mut lanes = [[0.0; TOGETHER]; 9];
    for (lane, square) in lanes.iter_mut().zip(taps) {
        lane.copy_from_slice(&square[row.clone()]);
    }
    let mut columns = [[[0.0; TOGETHER]; MOST]; 3];
    for (b, column) in columns.iter_mut().enumerate() {
        values(output, [&lanes[b], &lanes[3 + b], &lanes[6 + b]], column);
    }
    let [first, second, third] = &columns;
    for ((a, (b, c)), to) in first.iter().zip(second.iter().zip(third)).take(side).zip(matrices.chunks_exact_mut(side))
    {
        let mut line = [[0.0; TOGETHER]; MOST];
        values(output, [a, b, c], &mut line);
        to.iter_mut().zip(&line).for_each(|(matrix, value)| matrix[row.clone()].copy_from_slice(value));
    }
}

/// The values of `a + b p + c p²` at the points, one for each line of a patch. The last point is infinity.
#[inline(always)]
fn values(output: Output, [a, b, c]: [&Lane; 3], to: &mut [Lane; MOST]) {
    const SIXTH: f32 = 1.0 / 6.0;
    let [zero, one, minus_one, two, minus_two, five] = to;
    match output {
        Output::Two => {
            *zero = *a;
            pair([a, b, c], [0.5, 0.5, 0.5], one, minus_one);
            *two = *c;
        }
        Output::Four => {
            zero.iter_mut().zip(a).for_each(|(to, a)| *to = 0.25 * a);
            pair([a, b, c], [-SIXTH, -SIXTH, -SIXTH], one, minus_one);
            pair([a, b, c], [SIXTH / 4.0, SIXTH / 2.0, SIXTH], two, minus_two);
            *five = *c;
        }
    }
}

/// The values at two points, one the negative of the other; `factors` are those of the powers, scaled.
#[inline(always)]
fn pair([a, b, c]: [&Lane; 3], factors: [f32; 3], plus: &mut Lane, minus: &mut Lane) {
    for ((plus, minus), ((a, b), c)) in plus.iter_mut().zip(minus).zip(a.iter().zip(b).zip(c)) {
        let (even, odd) = (factors[0] * a + factors[2] * c, factors[1] * b);
        (*plus, *minus) = (even + odd, even - odd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// `G`, written out.
    fn points(output: Output) -> Vec<[f64; 3]> {
        match output {
            Output::Two => vec![[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]],
            Output::Four => vec![
                [1.0 / 4.0, 0.0, 0.0],
                [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
                [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
                [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
                [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
                [0.0, 0.0, 1.0],
            ],
        }
    }

    #[test]
    fn matrices_are_the_filter_between_points() {
        for (inputs, outputs, width) in [(1, 1, 16), (3, 16, 16), (16, 17, 32), (33, 40, 48), (20, 7, 8), (5, 3, 4)] {
            let filter = Random::new(7).floats(outputs * 9 * inputs);
            let kinds = [(Output::Two, 0), (Output::Two, 3), (Output::Four, 0), (Output::Four, 1)];
            for (isa, (output, skip)) in Isa::available().flat_map(|isa| kinds.map(|kind| (isa, kind))) {
                // From a cache line on, and from elsewhere.
                let length = output.matrices() * inputs * width;
                let mut packed = vec![f32::NAN; length + 32];
                let line = packed.as_ptr().align_offset(64) + skip;
                let packed = &mut packed[line..line + length];
                panel(isa, output, inputs, &filter, 0..outputs, packed);
                let points = points(output);
                for (place, &found) in packed.iter().enumerate() {
                    let (matrix, channel, out) = (place / width / inputs, place / width % inputs, place % width);
                    let (row, column) = (&points[matrix / points.len()], &points[matrix % points.len()]);
                    let tap = |y: usize, x: usize| match out < outputs {
                        true => f64::from(filter[((out * 3 + y) * 3 + x) * inputs + channel]),
                        false => 0.0,
                    };
                    let sum: f64 = (0..9).map(|i| row[i / 3] * column[i % 3] * tap(i / 3, i % 3)).sum();
                    assert!((f64::from(found) - sum).abs() <= 2e-7, "{isa:?} {output:?} {found} {sum}");
                }
            }
        }
    }
}
