//! Products and windows, pixel by pixel, in `f64`: whole numbers are exact.

use super::program::Array;
use sconce::format::xnnpack::model::{Convolution, Pooling};

/// Rows `[.., in]` with weights `[out, in]`.
pub(crate) fn linear(rows: &Array, weights: &Array) -> Array {
    let (&[n, k], Some((_, outer))) = (&weights.sizes[..], rows.sizes.split_last()) else { panic!("no linear layer") };
    let sizes = [outer, &[n]].concat();
    Array::new(&sizes, |place| {
        let (row, channel) = (&rows.numbers[place / n * k..][..k], &weights.numbers[place % n * k..][..k]);
        row.iter().zip(channel).map(|(a, b)| a * b).sum()
    })
}

/// Adds a number for each of the last dimension.
pub(crate) fn biased(result: &Array, bias: &[f64]) -> Array {
    Array::new(&result.sizes, |place| result.numbers[place] + bias[place % bias.len()])
}

/// Where a window's tap is in the image, if it is inside.
fn inside(at: u32, step: u32, tap: u32, apart: u32, padding: u32, size: usize) -> Option<usize> {
    let place = i64::from(at) * i64::from(step) + i64::from(tap) * i64::from(apart) - i64::from(padding);
    usize::try_from(place).ok().filter(|&place| place < size)
}

fn extent(size: usize, padding: u32, kernel: u32, apart: u32, step: u32) -> usize {
    (size + padding as usize - (apart * (kernel - 1)) as usize - 1) / step as usize + 1
}

/// A filter `[out, height, width, in / groups]` over an image of pixels.
pub(crate) fn convolution(image: &Array, filter: &Array, c: &Convolution) -> Array {
    let (&[batch, h, w, _], &[out, _, _, depth]) = (&image.sizes[..], &filter.sizes[..]) else { panic!("no image") };
    let height = extent(h, c.padding_top + c.padding_bottom, c.kernel_height, c.dilation_height, c.subsampling_height);
    let width = extent(w, c.padding_left + c.padding_right, c.kernel_width, c.dilation_width, c.subsampling_width);
    let each = out / c.groups as usize;
    let mut result = Array::new(&[batch, height, width, out], |_| 0.0);
    for place in 0..result.numbers.len() {
        let &[b, y, x, channel] = &result.indices(place)[..] else { continue };
        for (ky, kx) in (0..c.kernel_height).flat_map(|ky| (0..c.kernel_width).map(move |kx| (ky, kx))) {
            let row = inside(y as u32, c.subsampling_height, ky, c.dilation_height, c.padding_top, h);
            let column = inside(x as u32, c.subsampling_width, kx, c.dilation_width, c.padding_left, w);
            let (Some(row), Some(column)) = (row, column) else { continue };
            for i in 0..depth {
                let pixel = image.at(&[b, row, column, channel / each * depth + i]);
                result.numbers[place] += pixel * filter.at(&[channel, ky as usize, kx as usize, i]);
            }
        }
    }
    result
}

/// Every pixel spreads over the result by the filter.
pub(crate) fn transposed_convolution(image: &Array, filter: &Array, c: &Convolution) -> Array {
    let (&[batch, h, w, _], &[out, _, _, depth]) = (&image.sizes[..], &filter.sizes[..]) else { panic!("no image") };
    let reach = |size: usize, step: u32, apart: u32, kernel: u32, extra: u32, padding: u32| {
        (size - 1) * step as usize + (apart * (kernel - 1) + 1 + extra) as usize - padding as usize
    };
    let (above, beside) = (c.padding_top + c.padding_bottom, c.padding_left + c.padding_right);
    let height = reach(h, c.subsampling_height, c.dilation_height, c.kernel_height, c.adjustment_height, above);
    let width = reach(w, c.subsampling_width, c.dilation_width, c.kernel_width, c.adjustment_width, beside);
    let each = out / c.groups as usize;
    let mut result = Array::new(&[batch, height, width, out], |_| 0.0);
    for tap in 0..filter.numbers.len() {
        let &[channel, ky, kx, i] = &filter.indices(tap)[..] else { continue };
        for (b, y, x) in (0..batch * h * w).map(|pixel| (pixel / (h * w), pixel / w % h, pixel % w)) {
            let row = inside(y as u32, c.subsampling_height, ky as u32, c.dilation_height, c.padding_top, height);
            let column = inside(x as u32, c.subsampling_width, kx as u32, c.dilation_width, c.padding_left, width);
            let (Some(row), Some(column)) = (row, column) else { continue };
            let to = result.place(&[b, row, column, channel]);
            result.numbers[to] += image.at(&[b, y, x, channel / each * depth + i]) * filter.numbers[tap];
        }
    }
    result
}

/// What `of` makes of the numbers of each window that are inside the image, each with its tap.
pub(crate) fn windows(image: &Array, p: &Pooling, of: impl Fn(&[(usize, f64)]) -> f64) -> Array {
    let &[batch, h, w, channels] = &image.sizes[..] else { panic!("no image") };
    let height = extent(h, p.padding_top + p.padding_bottom, p.pooling_height, p.dilation_height, p.stride_height);
    let width = extent(w, p.padding_left + p.padding_right, p.pooling_width, p.dilation_width, p.stride_width);
    let mut result = Array::new(&[batch, height, width, channels], |_| 0.0);
    for place in 0..result.numbers.len() {
        let &[b, y, x, channel] = &result.indices(place)[..] else { continue };
        let taps = (0..p.pooling_height).flat_map(|ky| (0..p.pooling_width).map(move |kx| (ky, kx)));
        let number = |(tap, (ky, kx))| {
            let row = inside(y as u32, p.stride_height, ky, p.dilation_height, p.padding_top, h)?;
            let column = inside(x as u32, p.stride_width, kx, p.dilation_width, p.padding_left, w)?;
            Some((tap, image.at(&[b, row, column, channel])))
        };
        result.numbers[place] = of(&taps.enumerate().filter_map(number).collect::<Vec<_>>());
    }
    result
}
