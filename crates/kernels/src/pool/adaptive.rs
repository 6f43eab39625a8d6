//! Pooling over a grid whose cells cover the image evenly, whatever the sizes.
//!
//! Along an axis, cell `i` of `n` covers `floor(i * size / n)..ceil((i + 1) * size / n)`: cells overlap where the sizes do
//! not divide.
use super::{STRIP, strips};
use crate::conv::Layout;
use crate::element::{Float, Number, convert};
use crate::isa::Isa;
use crate::map::worth;
use crate::split;
use core::ops::Range;
use sconce_parallel::Parallel;

/// Sizes of an image before and after, as depth, height, width.
#[derive(Clone, Copy)]
struct Grid {
    input: [usize; 3],
    output: [usize; 3],
}

impl Grid {
    fn pixels(&self) -> usize {
        self.input.iter().product()
    }

    fn cells(&self) -> usize {
        self.output.iter().product()
    }

    /// What cell `at` covers along each axis.
    #[inline(always)]
    fn cell(&self, at: usize) -> [Range<usize>; 3] {
        let [_, height, width] = self.output;
        let position = [at / width / height, at / width % height, at % width];
        core::array::from_fn(|axis| {
            let (at, input, output) = (position[axis], self.input[axis], self.output[axis]);
            at * input / output..((at + 1) * input).div_ceil(output)
        })
    }

    fn check(&self, planes: usize, input: usize, output: usize) {
        assert_eq!(input, planes * self.pixels(), "input elements");
        assert_eq!(output, planes * self.cells(), "output elements");
        assert!(output == 0 || input > 0, "there are no pixels");
    }
}

/// The mean of every cell.
pub fn adaptive_avg_pool<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    (batch, channels): (usize, usize),
    (input, output): ([usize; 3], [usize; 3]),
    layout: Layout,
    x: &[T],
    out: &mut [T],
) {
    let grid = Grid { input, output };
    let (pixels, cells) = (grid.pixels(), grid.cells());
    grid.check(batch * channels, x.len(), out.len());
    if out.is_empty() {
        return;
    }
    let run = if layout == Layout::ChannelsFirst { cells } else { channels };
    split::chunks(worth(par, x.len()), out, run, |i, out| {
        isa.vectorize(
            #[inline(always)]
            || match layout {
                Layout::ChannelsFirst => {
                    let plane = &x[i * pixels..][..pixels];
                    for (at, out) in out.iter_mut().enumerate() {
                        let [zs, ys, xs] = grid.cell(at);
                        let rows = zs.clone().flat_map(|z| ys.clone().map(move |y| (z * input[1] + y) * input[2]));
                        let sum: f64 = rows.map(|row| sum_row(&plane[row + xs.start..row + xs.end])).sum();
                        *out = T::from_f64(sum / (zs.len() * ys.len() * xs.len()) as f64);
                    }
                }
                Layout::ChannelsLast => {
                    let image = &x[i / cells * pixels * channels..][..pixels * channels];
                    let [zs, ys, xs] = grid.cell(i % cells);
                    strips(
                        out,
                        #[inline(always)]
                        |first, out| {
                            let mut sums = [0.0f64; STRIP];
                            for (z, y) in zs.clone().flat_map(|z| ys.clone().map(move |y| (z, y))) {
                                for x in xs.clone() {
                                    let pixel = &image[((z * input[1] + y) * input[2] + x) * channels + first..];
                                    for (sum, x) in sums.iter_mut().zip(&pixel[..out.len()]) {
                                        *sum += x.to_f64();
                                    }
                                }
                            }
                            let count = (zs.len() * ys.len() * xs.len()) as f64;
                            for (out, sum) in out.iter_mut().zip(sums) {
                                *out = T::from_f64(sum / count);
                            }
                        },
                    );
                }
            },
        );
    });
}

/// The largest element of every cell, NaN if there is one, and its index within the channel's plane.
pub fn adaptive_max_pool<T: Number>(
    par: &dyn Parallel,
    (batch, channels): (usize, usize),
    (input, output): ([usize; 3], [usize; 3]),
    layout: Layout,
    x: &[T],
    out: &mut [T],
    indices: &mut [i64],
) {
    let grid = Grid { input, output };
    let (pixels, cells) = (grid.pixels(), grid.cells());
    grid.check(batch * channels, x.len(), out.len());
    assert_eq!(out.len(), indices.len(), "values and indices differ in length");
    // Where channel 0 of an output element's image starts and how far its pixels are apart, and the cell.
    let place = |index: usize| match layout {
        Layout::ChannelsFirst => (index / cells * pixels, 1, index % cells),
        Layout::ChannelsLast => {
            (index / channels / cells * pixels * channels + index % channels, channels, index / channels % cells)
        }
    };
    let grain = 256;
    split::chunks2(worth(par, x.len()), (out, grain), (indices, grain), |task, out, indices| {
        for (i, (out, index)) in out.iter_mut().zip(indices).enumerate() {
            let (start, step, cell) = place(task * grain + i);
            let [zs, ys, xs] = grid.cell(cell);
            let mut best: Option<(T, usize)> = None;
            for row in zs.flat_map(|z| ys.clone().map(move |y| (z * input[1] + y) * input[2])) {
                for pixel in row + xs.start..row + xs.end {
                    let value = x[start + pixel * step];
                    if best.is_none_or(|(best, _)| value > best || value.is_nan()) {
                        best = Some((value, pixel));
                    }
                }
            }
            let (value, pixel) = best.unwrap_or((T::LOWEST, 0));
            (*out, *index) = (value, pixel as i64);
        }
    });
}

#[inline(always)]
fn sum_row<T: Number>(x: &[T]) -> f64 {
    if x.len() < 64 {
        x.iter().map(|x| convert::<T, f64>(*x)).sum()
    } else {
        crate::reduce::row::<crate::reduce::Sum64<T>>(x)
    }
}
