//! Filters to matrices: `G g G'` of every three by three filter, once, when weights are packed.
//!
//! It is done in double precision, for sixteen output channels at a time, so that the loops vectorise.

use super::Output;
use crate::isa::Isa;
use core::ops::Range;

/// Output channels that are transformed together.
const TOGETHER: usize = 16;
/// Most lines of a patch.
const MOST: usize = 6;

type Lane = [f64; TOGETHER];

/// `G`: the values of a quadratic polynomial at each of the points, scaled so that the other transforms are whole numbers.
fn points(output: Output) -> &'static [[f64; 3]] {
    const SIXTH: f64 = 1.0 / 6.0;
    match output {
        Output::Two => &[[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]],
        Output::Four => &[
            [0.25, 0.0, 0.0],
            [-SIXTH, -SIXTH, -SIXTH],
            [-SIXTH, SIXTH, -SIXTH],
            [SIXTH / 4.0, SIXTH / 2.0, SIXTH],
            [SIXTH / 4.0, -SIXTH / 2.0, SIXTH],
            [0.0, 0.0, 1.0],
        ],
    }
}

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
            for channel in 0..in_channels {
                for first in (0..width).step_by(TOGETHER) {
                    let count = TOGETHER.min(width - first);
                    let start = columns.start + first;
                    let taps = gather(filter, in_channels, channel, start..columns.end.min(start + count));
                    transform(points(output), &taps, |matrix, values| {
                        let at = (matrix * in_channels + channel) * width + first;
                        for (to, value) in panel[at..at + count].iter_mut().zip(values) {
                            *to = *value as f32;
                        }
                    });
                }
            }
        },
    );
}

/// The nine taps of some output channels for one input channel; zero for what is missing of the last vector.
#[inline(always)]
fn gather(filter: &[f32], in_channels: usize, channel: usize, outputs: Range<usize>) -> [Lane; 9] {
    let mut taps = [[0.0; TOGETHER]; 9];
    for (lane, out) in outputs.enumerate() {
        for (tap, value) in taps.iter_mut().enumerate() {
            value[lane] = f64::from(filter[(out * 9 + tap) * in_channels + channel]);
        }
    }
    taps
}

#[inline(always)]
fn transform(points: &[[f64; 3]], taps: &[Lane; 9], mut each: impl FnMut(usize, &Lane)) {
    let mut half = [[[0.0; TOGETHER]; 3]; MOST];
    for (half, point) in half.iter_mut().zip(points) {
        for (b, to) in half.iter_mut().enumerate() {
            *to = combine(point, [&taps[b], &taps[3 + b], &taps[6 + b]]);
        }
    }
    for (i, [a, b, c]) in half.iter().take(points.len()).enumerate() {
        for (j, point) in points.iter().enumerate() {
            each(i * points.len() + j, &combine(point, [a, b, c]));
        }
    }
}

#[inline(always)]
fn combine(point: &[f64; 3], [a, b, c]: [&Lane; 3]) -> Lane {
    core::array::from_fn(|lane| point[0] * a[lane] + point[1] * b[lane] + point[2] * c[lane])
}
