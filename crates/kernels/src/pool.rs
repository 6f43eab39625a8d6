//! Pooling: the largest or the mean element of a sliding window, or of the cells of an adaptive grid.
//!
//! As in a depthwise convolution, an output row combines, tap by tap, with stretches of input rows (channels first) or
//! an output pixel with whole input pixels (channels last), so the loops have no bounds to test. Positions outside the
//! image never take part; whether they count in the mean's divisor is the caller's choice.
use crate::conv::Layout;
use crate::element::{Float, Number};
use crate::isa::Isa;
use crate::map::worth;
use crate::split;
use crate::taps::Taps;
use sconce_parallel::Parallel;

mod adaptive;
#[cfg(test)]
mod tests;

pub use adaptive::{adaptive_avg_pool, adaptive_max_pool};

/// The geometry of a pooling; sizes are given as depth, height, width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// Images.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Size of an input image.
    pub input: [usize; 3],
    /// Size of the window.
    pub kernel: [usize; 3],
    /// Steps between windows.
    pub stride: [usize; 3],
    /// Positions before and after the image.
    pub padding: [usize; 3],
    /// Distance between taps.
    pub dilation: [usize; 3],
    /// Whether windows may begin so late that they end outside.
    pub ceil_mode: bool,
}

/// What the sum of a window is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The positions inside the image.
    Inside,
    /// The positions inside the image and its padding.
    WithPadding,
    /// A given number.
    Fixed(usize),
}

impl Pooling {
    /// The size of an output image, or `None` if the geometry makes no sense.
    pub fn output(&self) -> Option<[usize; 3]> {
        let mut output = [0; 3];
        for (axis, output) in output.iter_mut().enumerate() {
            let (stride, padding) = (self.stride[axis], self.padding[axis]);
            let reach = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)?;
            let slack = if self.ceil_mode { stride.checked_sub(1)? } else { 0 };
            let padded = self.input[axis].checked_add(padding.checked_mul(2)?)?;
            let count = padded.checked_add(slack)?.checked_sub(reach)?.checked_div(stride)?.checked_add(1)?;
            // The last window must begin inside the image or its left padding.
            let late = self.ceil_mode && (count - 1).checked_mul(stride)? >= self.input[axis].checked_add(padding)?;
            *output = count - usize::from(late);
        }
        Some(output)
    }

    fn axes(&self) -> [Taps; 3] {
        [0, 1, 2].map(|axis| Taps {
            size: self.input[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
            transposed: false,
        })
    }

    fn check(&self, input: usize, output: usize) -> [usize; 3] {
        let size = self.output();
        let pixels = |size: [usize; 3]| size.iter().product::<usize>() * self.batch * self.channels;
        assert_eq!(input, pixels(self.input), "input elements of {self:?}");
        assert_eq!(Some(output), size.map(pixels), "output elements of {self:?}");
        size.unwrap_or_default()
    }

    /// How far a tap lies from the window's first, in a plane.
    fn distance(&self, tap: [usize; 3]) -> usize {
        let [z, y, x] = [0, 1, 2].map(|axis| tap[axis] * self.dilation[axis]);
        (z * self.input[1] + y) * self.input[2] + x
    }

    /// Where in a plane the window of an output position starts; negative if that is in the padding.
    fn window_start(&self, at: [usize; 3]) -> i64 {
        let [z, y, x] = [0, 1, 2].map(|axis| (at[axis] * self.stride[axis]) as i64 - self.padding[axis] as i64);
        (z * self.input[1] as i64 + y) * self.input[2] as i64 + x
    }

    /// How many positions along an axis the window at `at` covers.
    fn covered(&self, axis: usize, at: usize, divisor: Divisor) -> usize {
        let start = at * self.stride[axis];
        let end = start + self.kernel[axis];
        let (first, last) = match divisor {
            Divisor::WithPadding => (0, self.input[axis] + 2 * self.padding[axis]),
            _ => (self.padding[axis], self.input[axis] + self.padding[axis]),
        };
        end.min(last).saturating_sub(start.max(first))
    }
}

/// Every output row (channels first) or pixel (channels last) starts as `start` and takes in, by `combine`, what its
/// window covers; `finish(position, out)` ends it.
fn slide<T: Number, A: Number>(
    isa: Isa,
    par: &dyn Parallel,
    (pooling, layout): (&Pooling, Layout),
    x: &[T],
    out: &mut [T],
    start: A,
    combine: impl Fn(A, T) -> A + Sync,
    finish: impl Fn([usize; 3], A) -> T + Sync,
) {
    let size = pooling.check(x.len(), out.len());
    if out.is_empty() {
        return;
    }
    let channels = pooling.channels;
    let (row_len, per_pixel) = match layout {
        Layout::ChannelsFirst => (size[2], 1),
        Layout::ChannelsLast => (size[2] * channels, channels),
    };
    let image = pooling.input.iter().product::<usize>() * if per_pixel == 1 { 1 } else { channels };
    split::chunks(worth(par, x.len()), out, row_len, |row, out| {
        let (plane, z, y) = (row / size[1] / size[0], row / size[1] % size[0], row % size[1]);
        let x = &x[plane * image..][..image];
        isa.vectorize(
            #[inline(always)]
            || match layout {
                Layout::ChannelsFirst => {
                    strips(
                        out,
                        #[inline(always)]
                        |first, out| {
                            let mut sums = [start; STRIP];
                            let sums = &mut sums[..out.len()];
                            row_first(pooling, x, [z, y, first], sums, &combine);
                            for (i, (out, sum)) in out.iter_mut().zip(sums).enumerate() {
                                *out = finish([z, y, first + i], *sum);
                            }
                        },
                    );
                }
                Layout::ChannelsLast => {
                    for (at, out) in out.chunks_exact_mut(channels).enumerate() {
                        strips(
                            out,
                            #[inline(always)]
                            |first, out| {
                                let mut sums = [start; STRIP];
                                let sums = &mut sums[..out.len()];
                                pixel_last(pooling, x, [z, y, at], first, sums, &combine);
                                for (out, sum) in out.iter_mut().zip(sums) {
                                    *out = finish([z, y, at], *sum);
                                }
                            },
                        );
                    }
                }
            },
        );
    });
}

/// Elements kept in registers or the nearest cache at a time.
const STRIP: usize = 64;

#[inline(always)]
fn strips<T>(out: &mut [T], mut body: impl FnMut(usize, &mut [T])) {
    for (i, out) in out.chunks_mut(STRIP).enumerate() {
        body(i * STRIP, out);
    }
}

/// Output pixels `[z, y, first..]` of one plane.
#[inline(always)]
fn row_first<T: Copy, A: Copy>(
    pooling: &Pooling,
    x: &[T],
    [z, y, first]: [usize; 3],
    sums: &mut [A],
    combine: &impl Fn(A, T) -> A,
) {
    let [depth, height, width] = pooling.axes();
    let [deep, tall, wide] = pooling.kernel;
    for (kz, ky) in (0..deep).flat_map(|kz| (0..tall).map(move |ky| (kz, ky))) {
        let (Some(z), Some(y)) = (depth.source(z, kz), height.source(y, ky)) else { continue };
        let row = &x[(z * height.size + y) * width.size..][..width.size];
        for kx in 0..wide {
            let inside = width.inside(kx, first + sums.len());
            let start = inside.start.max(first);
            let Some(from) = width.source(start, kx).filter(|_| start < inside.end) else { continue };
            let sums = &mut sums[start - first..inside.end - first];
            match width.stride {
                1 => {
                    for (sum, x) in sums.iter_mut().zip(&row[from..]) {
                        *sum = combine(*sum, *x);
                    }
                }
                2 => {
                    let (pairs, last) = row[from..].as_chunks::<2>();
                    let (paired, rest) = sums.split_at_mut(pairs.len().min(sums.len()));
                    for (sum, [x, _]) in paired.iter_mut().zip(pairs) {
                        *sum = combine(*sum, *x);
                    }
                    for (sum, x) in rest.iter_mut().zip(last) {
                        *sum = combine(*sum, *x);
                    }
                }
                step => {
                    let row = row[from..].iter().step_by(step);
                    for (sum, x) in sums.iter_mut().zip(row) {
                        *sum = combine(*sum, *x);
                    }
                }
            }
        }
    }
}

/// Channels `first..` of one output pixel.
#[inline(always)]
fn pixel_last<T: Copy, A: Copy>(
    pooling: &Pooling,
    x: &[T],
    [z, y, at]: [usize; 3],
    first: usize,
    sums: &mut [A],
    combine: &impl Fn(A, T) -> A,
) {
    let [depth, height, width] = pooling.axes();
    let [deep, tall, wide] = pooling.kernel;
    for (kz, ky) in (0..deep).flat_map(|kz| (0..tall).map(move |ky| (kz, ky))) {
        let (Some(z), Some(y)) = (depth.source(z, kz), height.source(y, ky)) else { continue };
        for column in (0..wide).filter_map(|kx| width.source(at, kx)) {
            let pixel = ((z * height.size + y) * width.size + column) * pooling.channels + first;
            for (sum, x) in sums.iter_mut().zip(&x[pixel..]) {
                *sum = combine(*sum, *x);
            }
        }
    }
}

/// The largest element of every window; NaN if there is one.
pub fn max_pool<T: Number>(isa: Isa, par: &dyn Parallel, pooling: &Pooling, layout: Layout, x: &[T], out: &mut [T]) {
    let larger = |best: T, x: T| if x > best || x.is_nan() { x } else { best };
    slide(isa, par, (pooling, layout), x, out, T::LOWEST, larger, |_, best| best);
}

/// [`max_pool`], and for each output element the index of its source within the channel's plane.
pub fn max_pool_with_indices<T: Number>(
    isa: Isa,
    par: &dyn Parallel,
    pooling: &Pooling,
    layout: Layout,
    x: &[T],
    out: &mut [T],
    indices: &mut [i64],
) {
    let size = pooling.check(x.len(), out.len());
    assert_eq!(out.len(), indices.len(), "values and indices differ in length");
    let [depth, height, width] = pooling.axes();
    let (channels, pixels) = (pooling.channels, pooling.input.iter().product::<usize>());
    if layout == Layout::ChannelsFirst && i32::try_from(pixels).is_ok() {
        let row_len = size[2].max(1);
        let plane_len = row_len * (size[0] * size[1]).max(1);
        return split::chunks2(worth(par, x.len()), (out, plane_len), (indices, plane_len), |plane, out, indices| {
            let x = &x[plane * pixels..][..pixels];
            isa.vectorize(
                #[inline(always)]
                || {
                    for (row, (out, indices)) in out.chunks_mut(row_len).zip(indices.chunks_mut(row_len)).enumerate() {
                        row_with_indices(pooling, x, [row / size[1], row % size[1]], out, indices);
                    }
                },
            );
        });
    }
    let output: usize = size.iter().product();
    let [deep, tall, wide] = pooling.kernel;
    let one = |index: usize| {
        let (plane, at) = match layout {
            Layout::ChannelsFirst => (index / output, index % output),
            Layout::ChannelsLast => {
                (index / channels / output * channels + index % channels, index / channels % output)
            }
        };
        let (z, y, column) = (at / size[2] / size[1], at / size[2] % size[1], at % size[2]);
        let mut best: Option<(T, usize)> = None;
        for (kz, ky) in (0..deep).flat_map(|kz| (0..tall).map(move |ky| (kz, ky))) {
            let (Some(z), Some(y)) = (depth.source(z, kz), height.source(y, ky)) else { continue };
            for column in (0..wide).filter_map(|kx| width.source(column, kx)) {
                let pixel = (z * height.size + y) * width.size + column;
                let value = match layout {
                    Layout::ChannelsFirst => x[plane * pixels + pixel],
                    Layout::ChannelsLast => x[(plane / channels * pixels + pixel) * channels + plane % channels],
                };
                if best.is_none_or(|(best, _)| value > best || value.is_nan()) {
                    best = Some((value, pixel));
                }
            }
        }
        best.unwrap_or((T::LOWEST, 0))
    };
    let grain = 1024;
    split::chunks2(worth(par, x.len()), (out, grain), (indices, grain), |task, out, indices| {
        for (i, (out, index)) in out.iter_mut().zip(indices).enumerate() {
            let (value, pixel) = one(task * grain + i);
            (*out, *index) = (value, pixel as i64);
        }
    });
}

/// Replaces each best element by a larger one and remembers which tap it was under.
#[inline(always)]
fn keep_larger<'a, T: Number>(best: &mut [T], found: &mut [i32], elements: impl Iterator<Item = &'a T>, tap: i32) {
    for ((best, found), x) in best.iter_mut().zip(found).zip(elements) {
        let larger = *x > *best || x.is_nan() || *found < 0;
        *best = if larger { *x } else { *best };
        *found = if larger { tap } else { *found };
    }
}

/// Output pixels `[z, y, first..]` of one plane, at most a strip: the largest elements, and how far from the first element
/// of their windows they lie; negative where there is none yet. Distances are as narrow as the elements, positions are not.
#[inline(always)]
fn strip_with_distances<T: Number>(
    pooling: &Pooling,
    x: &[T],
    [z, y, first]: [usize; 3],
    best: &mut [T],
    found: &mut [i32; STRIP],
) {
    let [depth, height, width] = pooling.axes();
    let [deep, tall, wide] = pooling.kernel;
    best.fill(T::LOWEST);
    for (kz, ky) in (0..deep).flat_map(|kz| (0..tall).map(move |ky| (kz, ky))) {
        let (Some(z), Some(y)) = (depth.source(z, kz), height.source(y, ky)) else { continue };
        let row = &x[(z * height.size + y) * width.size..][..width.size];
        for kx in 0..wide {
            let inside = width.inside(kx, first + best.len());
            let start = inside.start.max(first);
            let Some(from) = width.source(start, kx).filter(|_| start < inside.end) else { continue };
            let here = start - first..inside.end - first;
            let (best, found) = (&mut best[here.clone()], &mut found[here]);
            let (row, tap) = (&row[from..], pooling.distance([kz, ky, kx]) as i32);
            match width.stride {
                1 => keep_larger(best, found, row.iter(), tap),
                2 => {
                    // The last window may end with the row.
                    let (pairs, last) = row.as_chunks::<2>();
                    let paired = pairs.len().min(best.len());
                    keep_larger(&mut best[..paired], &mut found[..paired], pairs.iter().map(|[x, _]| x), tap);
                    keep_larger(&mut best[paired..], &mut found[paired..], last.iter(), tap);
                }
                step => keep_larger(best, found, row.iter().step_by(step), tap),
            }
        }
    }
}

/// One output row of a plane: the largest elements and where they are.
#[inline(always)]
fn row_with_indices<T: Number>(pooling: &Pooling, x: &[T], [z, y]: [usize; 2], out: &mut [T], indices: &mut [i64]) {
    for (strip, (best, indices)) in out.chunks_mut(STRIP).zip(indices.chunks_mut(STRIP)).enumerate() {
        let (first, mut found) = (strip * STRIP, [-1; STRIP]);
        strip_with_distances(pooling, x, [z, y, first], best, &mut found);
        let start = pooling.window_start([z, y, first]);
        for (i, (index, distance)) in indices.iter_mut().zip(found).enumerate() {
            let position = start + (i * pooling.stride[2]) as i64 + i64::from(distance);
            *index = if distance < 0 { 0 } else { position };
        }
    }
}

/// What the sum of the window at an output position is divided by.
fn count(pooling: &Pooling, divisor: Divisor, position: [usize; 3]) -> i64 {
    match divisor {
        Divisor::Fixed(count) => count as i64,
        _ => (0..3).map(|axis| pooling.covered(axis, position[axis], divisor) as i64).product(),
    }
}

/// The mean of every window; the dilation must be 1.
pub fn avg_pool<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    pooling: &Pooling,
    layout: Layout,
    divisor: Divisor,
    x: &[T],
    out: &mut [T],
) {
    assert_eq!(pooling.dilation, [1; 3], "a mean has no dilation");
    let mean = |at: [usize; 3], sum: T::Compute| T::narrow(sum / T::Compute::from_i64(count(pooling, divisor, at)));
    slide(isa, par, (pooling, layout), x, out, T::Compute::ZERO, |sum, x| sum + x.widen(), mean);
}

/// [`avg_pool`] of integers: the mean is cut towards zero.
pub fn avg_pool_integers(
    isa: Isa,
    par: &dyn Parallel,
    pooling: &Pooling,
    layout: Layout,
    divisor: Divisor,
    x: &[i64],
    out: &mut [i64],
) {
    assert_eq!(pooling.dilation, [1; 3], "a mean has no dilation");
    let mean = |at: [usize; 3], sum: i64| sum.checked_div(count(pooling, divisor, at)).unwrap_or(0);
    slide(isa, par, (pooling, layout), x, out, 0, |sum: i64, x: i64| sum.wrapping_add(x), mean);
}
