//! Pooling on channels-last images with any padding, for the engine.
//!
//! A line of output pixels combines, tap by tap, with pixels of an input line: loops over channels, or over the whole line
//! where windows are one step apart. They vectorise, and the output line stays in the first-level cache. What lies outside
//! the image takes no part. Windows that are wider than any image at hand go pixel by pixel, through taps inside alone.
use crate::element::Number;
use crate::isa::Isa;
use crate::map::worth;
use crate::split;
use core::ops::Range;
use sconce_parallel::Parallel;

/// Widest window whose taps are all looked at, also those that are outside of the image everywhere.
const WIDEST: usize = 256;

/// The geometry of windows over `[batch, height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Images.
    pub batch: usize,
    /// Height and width of an image.
    pub input: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Height and width of the output.
    pub output: [usize; 2],
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Positions above and left of the image.
    pub padding: [usize; 2],
    /// Distance between taps.
    pub dilation: [usize; 2],
}

impl Windows {
    /// The taps of output position `at` that lie inside, and the input position of the first.
    fn covered(&self, axis: usize, at: usize) -> (Range<usize>, usize) {
        let (start, dilation) = (at * self.stride[axis], self.dilation[axis]);
        let first = self.padding[axis].saturating_sub(start).div_ceil(dilation);
        let end = (self.input[axis] + self.padding[axis]).saturating_sub(start).div_ceil(dilation);
        let end = end.min(self.kernel[axis]);
        match first < end {
            true => (first..end, start + first * dilation - self.padding[axis]),
            false => (0..0, 0),
        }
    }

    /// The columns of the output whose tap of this number lies inside, and the input column of the first.
    fn reached(&self, tap: usize) -> (Range<usize>, usize) {
        let (tap, stride) = (tap * self.dilation[1], self.stride[1]);
        let first = self.padding[1].saturating_sub(tap).div_ceil(stride);
        let end = (self.input[1] + self.padding[1]).saturating_sub(tap).div_ceil(stride).min(self.output[1]);
        match first < end {
            true => (first..end, first * stride + tap - self.padding[1]),
            false => (0..0, 0),
        }
    }

    /// Panics unless n elements are the input and the output, with pixels at these distances.
    fn check(&self, (input, from_pixel): (usize, usize), (output, pixel): (usize, usize)) {
        let apart = self.dilation.iter().chain(&self.stride).all(|distance| *distance > 0);
        assert!(apart, "taps or windows of {self:?} have no distance");
        let pixels = |[height, width]: [usize; 2]| self.batch * height * width;
        split::check_pixels(input, pixels(self.input), (self.channels, from_pixel), self);
        split::check_pixels(output, pixels(self.output), (self.channels, pixel), self);
    }

    /// The windows of an output line, counted over all images.
    fn line(&self, line: usize) -> impl Iterator<Item = Window> {
        let (image, y) = (line / self.output[0], line % self.output[0]);
        let (rows, top) = self.covered(0, y);
        (0..self.output[1]).map(move |x| {
            let (columns, left) = self.covered(1, x);
            let start = (image * self.input[0] + top) * self.input[1] + left;
            Window { rows: rows.clone(), columns, start }
        })
    }

    /// Elements of an output line.
    fn line_len(&self) -> usize {
        self.output[1] * self.channels
    }

    /// Threads, if the windows are worth them.
    fn worth<'p>(&self, par: &'p dyn Parallel, outputs: usize) -> &'p dyn Parallel {
        worth(par, outputs.saturating_mul(self.kernel[0].saturating_mul(self.kernel[1])))
    }
}

/// The part of one window that lies inside: its taps, and the pixel under the first of them.
struct Window {
    rows: Range<usize>,
    columns: Range<usize>,
    start: usize,
}

impl Window {
    /// The pixels under the window, with their taps.
    fn taps(&self, windows: &Windows) -> impl Iterator<Item = ([usize; 2], usize)> {
        let (rows, columns, start) = (self.rows.clone(), self.columns.clone(), self.start);
        let (down, right) = (windows.dilation[0] * windows.input[1], windows.dilation[1]);
        rows.clone().flat_map(move |ky| {
            let line = start + (ky - rows.start) * down;
            let first = columns.start;
            columns.clone().map(move |kx| ([ky, kx], line + (kx - first) * right))
        })
    }
}

/// Combines the pixels under each window. Images come with the distance of their pixels.
fn combine<T: Number>(
    isa: Isa,
    par: &dyn Parallel,
    windows: &Windows,
    (x, from_pixel): (&[T], usize),
    (out, pixel): (&mut [T], usize),
    start: T,
    step: impl Fn(T, T) -> T + Sync,
    finish: impl Fn(T, usize) -> T + Sync,
) {
    windows.check((x.len(), from_pixel), (out.len(), pixel));
    if out.is_empty() {
        return;
    }
    let (channels, len) = (windows.channels, windows.input[1] * from_pixel);
    // Windows one step apart combine lines as a whole, if nothing lies between their pixels.
    let by_lines = windows.stride[1] == 1 && (from_pixel, pixel) == (channels, channels);
    split::chunks(windows.worth(par, out.len()), out, windows.output[1] * pixel, |line, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                let (image, y) = (line / windows.output[0], line % windows.output[0]);
                let (rows, top) = windows.covered(0, y);
                out.chunks_mut(pixel).for_each(|out| out[..channels].fill(start));
                for row in rows.clone() {
                    let row = image * windows.input[0] + top + (row - rows.start) * windows.dilation[0];
                    let from = &x[row * len..];
                    if windows.kernel[1] > WIDEST {
                        for (at, out) in out.chunks_mut(pixel).enumerate() {
                            let (taps, first) = windows.covered(1, at);
                            for tap in 0..taps.len() {
                                let from = &from[(first + tap * windows.dilation[1]) * from_pixel..][..channels];
                                out[..channels].iter_mut().zip(from).for_each(|(out, x)| *out = step(*out, *x));
                            }
                        }
                        continue;
                    }
                    for tap in 0..windows.kernel[1] {
                        let (columns, first) = windows.reached(tap);
                        let end = out.len().min(columns.end * pixel);
                        let out = &mut out[(columns.start * pixel).min(end)..end];
                        let (run, taken) = if by_lines { (out.len(), out.len()) } else { (pixel, channels) };
                        for (index, out) in out.chunks_mut(run.max(1)).enumerate() {
                            let from = &from[(first + index * windows.stride[1]) * from_pixel..][..taken];
                            out[..taken].iter_mut().zip(from).for_each(|(out, x)| *out = step(*out, *x));
                        }
                    }
                }
                for (x, out) in out.chunks_mut(pixel).enumerate() {
                    let count = rows.len() * windows.covered(1, x).0.len();
                    out[..channels].iter_mut().for_each(|out| *out = finish(*out, count));
                }
            },
        );
    });
}

/// The largest element under every window; NaN if there is one. Images come with the distance of their pixels, as in
/// [`crate::packed::conv2d`].
pub fn max_pool<T: Number>(isa: Isa, par: &dyn Parallel, windows: &Windows, x: (&[T], usize), out: (&mut [T], usize)) {
    combine(isa, par, windows, x, out, T::LOWEST, larger, |best, _| best);
}

#[inline(always)]
fn larger<T: Number>(best: T, x: T) -> T {
    if x > best || x.is_nan() { x } else { best }
}

/// The mean of the elements under every window. Images come as in [`max_pool`].
pub fn avg_pool(isa: Isa, par: &dyn Parallel, windows: &Windows, x: (&[f32], usize), out: (&mut [f32], usize)) {
    combine(isa, par, windows, x, out, 0.0, |sum, x| sum + x, |sum, count| sum / count as f32);
}

/// The largest element under every window and the number of its tap, the first of equals.
pub fn argmax_pool(par: &dyn Parallel, windows: &Windows, x: &[f32], out: &mut [f32], places: &mut [i32]) {
    windows.check((x.len(), windows.channels), (out.len(), windows.channels));
    let (par, line) = (windows.worth(par, out.len()), windows.line_len());
    split::chunks2(par, (out, line), (places, line), |line, out, places| {
        out.fill(f32::NEG_INFINITY);
        places.fill(0);
        let pixels = out.chunks_exact_mut(windows.channels).zip(places.chunks_exact_mut(windows.channels));
        for (window, (out, places)) in windows.line(line).zip(pixels) {
            for ([ky, kx], pixel) in window.taps(windows) {
                let from = &x[pixel * windows.channels..][..windows.channels];
                for ((best, place), &x) in out.iter_mut().zip(places.iter_mut()).zip(from) {
                    if x > *best {
                        (*best, *place) = (x, (ky * windows.kernel[1] + kx) as i32);
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, gather, pool, spread};

    fn under(windows: &Windows, at: [usize; 4], x: &[f32]) -> Vec<(i32, f32)> {
        let [n, y, col, c] = at;
        let mut found = Vec::new();
        for tap in 0..windows.kernel[0] * windows.kernel[1] {
            let (ky, kx) = (tap / windows.kernel[1], tap % windows.kernel[1]);
            let iy = (y * windows.stride[0] + ky * windows.dilation[0]).checked_sub(windows.padding[0]);
            let ix = (col * windows.stride[1] + kx * windows.dilation[1]).checked_sub(windows.padding[1]);
            if let (Some(iy), Some(ix)) = (iy, ix)
                && iy < windows.input[0]
                && ix < windows.input[1]
            {
                let pixel = (n * windows.input[0] + iy) * windows.input[1] + ix;
                found.push((tap as i32, x[pixel * windows.channels + c]));
            }
        }
        found
    }

    #[test]
    fn windows_hold_what_lies_under_them() {
        let plain = Windows {
            batch: 2,
            input: [7, 6],
            channels: 3,
            output: [3, 3],
            kernel: [3, 2],
            stride: [2, 2],
            padding: [0, 0],
            dilation: [1, 1],
        };
        for windows in [
            plain,
            Windows { channels: 70, padding: [1, 1], output: [4, 4], ..plain },
            Windows { channels: 64, dilation: [2, 3], ..plain },
            Windows { padding: [2, 1], stride: [1, 3], output: [9, 3], ..plain },
            Windows { padding: [1, 1], stride: [1, 1], output: [7, 7], ..plain },
            Windows { kernel: [3, 300], padding: [0, 297], stride: [2, 1], output: [3, 6], ..plain },
        ] {
            let (len, channels) = (2 * windows.output[0] * windows.output[1] * windows.channels, windows.channels);
            let x = Random::new(5).floats(2 * 42 * channels);
            let (mut value, mut place) = (vec![0.0; len], vec![0; len]);
            argmax_pool(&pool(), &windows, &x, &mut value, &mut place);
            let gaps = [(0, 0), (2, 0), (0, 3)];
            for (isa, (before, after)) in Isa::available().flat_map(|isa| gaps.map(|gap| (isa, gap))) {
                let (from, to) = (channels + before, channels + after);
                let apart = spread(&x, channels, from, 1e30);
                let mut pooled = spread(&vec![0.0; len], channels, to, 7.0);
                max_pool(isa, &pool(), &windows, (&apart, from), (&mut pooled, to));
                let best = gather(&pooled, channels, to, 7.0);
                avg_pool(isa, &pool(), &windows, (&apart, from), (&mut pooled, to));
                let mean = gather(&pooled, channels, to, 7.0);
                for i in 0..len {
                    let (pixel, c) = (i / windows.channels, i % windows.channels);
                    let (line, col) = (pixel / windows.output[1], pixel % windows.output[1]);
                    let at = [line / windows.output[0], line % windows.output[0], col, c];
                    let found = under(&windows, at, &x);
                    let largest = found.iter().fold((0, f32::NEG_INFINITY), |a, b| if b.1 > a.1 { *b } else { a });
                    assert_eq!((best[i], value[i], place[i]), (largest.1, largest.1, largest.0));
                    let sum: f32 = found.iter().map(|(_, x)| x).sum();
                    assert!((mean[i] - sum / found.len() as f32).abs() < 1e-6);
                }
            }
        }
    }
}
