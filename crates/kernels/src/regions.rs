//! Boxes of images brought to one size: each box is a grid of bins, and each bin becomes one number.
//!
//! A box is a row of five numbers: the image, then left, top, right and bottom in units that `scale` brings to pixels. A
//! bin is either the mean of points between pixels ([`align`]) or made of the pixels that it covers ([`largest`],
//! [`mean`]). Where bins are *scattered*, each one reads channels of its own: what is bin `i` of channel `c` there is
//! channel `c * bins + i` of the image.
use crate::element::Compute;
use crate::map::worth;
use crate::math::Math;
use crate::split;
use core::ops::Range;
use sconce_parallel::Parallel;

/// Numbers of a box.
pub const BOX: usize = 5;

/// The geometry; sizes are given as height, width.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// Images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Size of an image.
    pub input: [usize; 2],
    /// Bins of a box.
    pub bins: [usize; 2],
    /// What coordinates are multiplied with.
    pub scale: f64,
}

/// How the points of a bin are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Points {
    /// Points of a bin along each axis; none stands for about one for each pixel.
    pub ratio: Option<usize>,
    /// Whether coordinates are those of pixels' edges, not of their centres. Else no box is smaller than a pixel.
    pub aligned: bool,
    /// Whether each bin reads channels of its own.
    pub scattered: bool,
}

/// The bins of one box along one axis.
struct Axis<C> {
    start: C,
    bin: C,
    points: usize,
    bounded: bool,
}

impl<C: Compute> Axis<C> {
    fn new(start: C, end: C, bins: usize, points: Points) -> Self {
        let length = end - start;
        let at_least_one = !points.aligned && length < C::ONE;
        let bin = if at_least_one { C::ONE } else { length } / C::from_i64(bins as i64);
        let own = usize::try_from((-Math::floor(-bin)).to_i64()).unwrap_or(0);
        Self { start, bin, points: points.ratio.unwrap_or(own), bounded: points.ratio.is_none() }
    }

    /// Those points of a bin that may be on an image of this size. Of about one for each pixel, there are few.
    fn range(&self, bin: usize, size: usize) -> Range<usize> {
        if !self.bounded {
            return 0..self.points;
        }
        let (first, step) = (self.point(bin, 0).to_f64(), self.bin.to_f64() / self.points as f64);
        // Rounding may shift each by one.
        let start = ((-2.0 - first) / step - 1.0).max(0.0) as usize;
        start..start.saturating_add(size.saturating_mul(2).saturating_add(8)).min(self.points)
    }

    fn point(&self, bin: usize, point: usize) -> C {
        let (half, place) = (C::from_f64(0.5), |count: usize| C::from_i64(count as i64));
        self.start + place(bin) * self.bin + (place(point) + half) * self.bin / place(self.points)
    }
}

/// The pixels on both sides of a position along an axis, with their weights; nothing if it is not on the image.
fn sides<C: Compute>(position: C, size: usize) -> Option<[(usize, C); 2]> {
    let end = C::from_i64(size as i64);
    let inside = position >= -C::ONE && position <= end;
    let position = if position > C::ZERO { position } else { C::ZERO };
    let low = usize::try_from(position.to_i64()).ok().filter(|_| inside && size > 0)?;
    if low + 1 >= size {
        return Some([(size - 1, C::ONE), (size - 1, C::ZERO)]);
    }
    let share = position - C::from_i64(low as i64);
    Some([(low, C::ONE - share), (low + 1, share)])
}

impl Regions {
    fn bins(&self) -> usize {
        self.bins[0] * self.bins[1]
    }

    /// Channels of a result.
    pub fn outputs(&self, scattered: bool) -> usize {
        if scattered { self.channels / self.bins().max(1) } else { self.channels }
    }

    /// The box, the first element of its image, and the channel that a chunk of the result is for.
    fn chunk<'b, C: Compute>(&self, boxes: &'b [C], chunk: usize, scattered: bool) -> (&'b [C], usize, usize) {
        let outputs = self.outputs(scattered);
        let own = &boxes[chunk / outputs * BOX..][..BOX];
        let image = usize::try_from(own[0].to_i64()).unwrap_or(0).min(self.batch - 1);
        (own, image * self.channels * self.input[0] * self.input[1], chunk % outputs)
    }

    fn check<C: Compute>(&self, x: &[C], boxes: &[C], out: usize, scattered: bool) {
        assert_eq!(x.len(), self.batch * self.channels * self.input[0] * self.input[1], "input elements of {self:?}");
        assert!(boxes.len().is_multiple_of(BOX), "{} numbers of boxes", boxes.len());
        assert_eq!(out, boxes.len() / BOX * self.outputs(scattered) * self.bins(), "output elements of {self:?}");
        assert!(self.batch > 0 || out == 0, "{self:?} has no image");
    }

    /// The channel of the image that bin `bin` of a channel of the result reads.
    fn channel(&self, scattered: bool, channel: usize, bin: usize) -> usize {
        if scattered { channel * self.bins() + bin } else { channel }
    }
}

/// The mean of points in each bin, `[boxes, outputs, bins]`. A box without an image of its own takes the nearest one.
pub fn align<C: Compute>(par: &dyn Parallel, regions: &Regions, points: Points, x: &[C], boxes: &[C], out: &mut [C]) {
    let (scale, shift) = (C::from_f64(regions.scale), C::from_f64(if points.aligned { 0.5 } else { 0.0 }));
    let [height, width] = regions.input;
    regions.check(x, boxes, out.len(), points.scattered);
    split::chunks(worth(par, out.len()), out, regions.bins(), |chunk, out| {
        let (own, image, channel) = regions.chunk(boxes, chunk, points.scattered);
        let place = |index: usize| own[index] * scale - shift;
        let rows = Axis::new(place(2), place(4), regions.bins[0], points);
        let columns = Axis::new(place(1), place(3), regions.bins[1], points);
        let count = rows.points as f64 * columns.points as f64;
        let count = C::from_f64(if points.scattered { count } else { count.max(1.0) });
        for (bin, out) in out.iter_mut().enumerate() {
            let plane = image + regions.channel(points.scattered, channel, bin) * height * width;
            let plane = &x[plane..][..height * width];
            let (i, j) = (bin / regions.bins[1], bin % regions.bins[1]);
            let mut sum = C::ZERO;
            for down in rows.range(i, height).filter_map(|point| sides(rows.point(i, point), height)) {
                for right in columns.range(j, width).filter_map(|point| sides(columns.point(j, point), width)) {
                    let [[a, b], [c, d]] =
                        down.map(|(y, deep)| right.map(|(x, wide)| deep * wide * plane[y * width + x]));
                    sum += a + b + c + d;
                }
            }
            *out = sum / count;
        }
    });
}

/// The nearest whole number, away from zero of two.
fn round(value: f64) -> i64 {
    let whole = value as i64;
    let rest = value - whole as f64;
    whole.saturating_add(i64::from(rest >= 0.5)).saturating_sub(i64::from(rest <= -0.5))
}

/// The pixels that a bin covers along one axis of a box from `start` to `end`, of which `size` there are to be had.
fn covered<C: Compute>(start: i64, length: i64, bin: usize, bins: usize, size: usize) -> Range<usize> {
    let share = C::from_i64(length.max(1)) / C::from_i64(bins as i64);
    let place = |bin: usize| (C::from_i64(bin as i64) * share).to_f64();
    let (low, high) = (place(bin) as i64, place(bin + 1));
    let high = (high as i64).saturating_add(i64::from(high > (high as i64) as f64));
    let inside = |place: i64| usize::try_from(place.saturating_add(start)).unwrap_or(0).min(size);
    inside(low)..inside(high)
}

impl Regions {
    /// The pixels that bin `bin` of a box covers, down and to the right. `last` is 1 where a box has its last pixels, too.
    fn pixels<C: Compute>(&self, own: &[C], bin: usize, last: i64, input: [usize; 2]) -> [Range<usize>; 2] {
        let scale = C::from_f64(self.scale);
        let place = |index: usize| round((own[index] * scale).to_f64());
        let axis = |start: i64, end: i64, bin: usize, axis: usize| {
            covered::<C>(start, end.saturating_sub(start).saturating_add(last), bin, self.bins[axis], input[axis])
        };
        let (i, j) = (bin / self.bins[1], bin % self.bins[1]);
        [axis(place(2), place(4), i, 0), axis(place(1), place(3), j, 1)]
    }
}

/// The largest pixel of each bin and its place in its channel, `[boxes, channels, bins]`; of a bin without pixels, 0 and -1.
pub fn largest<C: Compute>(
    par: &dyn Parallel,
    regions: &Regions,
    x: &[C],
    boxes: &[C],
    values: &mut [C],
    places: &mut [i32],
) {
    regions.check(x, boxes, values.len(), false);
    let ([height, width], bins) = (regions.input, regions.bins());
    split::chunks2(worth(par, values.len()), (values, bins), (places, bins), |chunk, values, places| {
        let (own, image, channel) = regions.chunk(boxes, chunk, false);
        let plane = &x[image + channel * height * width..][..height * width];
        for (bin, (value, place)) in values.iter_mut().zip(places).enumerate() {
            let [rows, columns] = regions.pixels(own, bin, 1, regions.input);
            let empty = rows.is_empty() || columns.is_empty();
            (*value, *place) = (if empty { C::ZERO } else { C::from_f64(f64::from(f32::MIN)) }, -1);
            for at in rows.flat_map(|y| columns.clone().map(move |x| y * width + x)) {
                if plane[at] > *value {
                    (*value, *place) = (plane[at], i32::try_from(at).unwrap_or(i32::MAX));
                }
            }
        }
    });
}

/// The mean of the pixels of each bin, scattered, `[boxes, outputs, bins]`. The last row and column of an image are in none.
pub fn mean<C: Compute>(par: &dyn Parallel, regions: &Regions, x: &[C], boxes: &[C], out: &mut [C]) {
    let [height, width] = regions.input;
    let inner = regions.input.map(|size| size.saturating_sub(1));
    regions.check(x, boxes, out.len(), true);
    split::chunks(worth(par, out.len()), out, regions.bins(), |chunk, out| {
        let (own, image, channel) = regions.chunk(boxes, chunk, true);
        for (bin, out) in out.iter_mut().enumerate() {
            let plane = &x[image + regions.channel(true, channel, bin) * height * width..][..height * width];
            let [rows, columns] = regions.pixels(own, bin, 0, inner);
            let count = rows.len() * columns.len();
            let pixels = rows.flat_map(|y| columns.clone().map(move |x| y * width + x));
            let sum = pixels.fold(C::ZERO, |sum, at| sum + plane[at]);
            *out = if count == 0 { C::ZERO } else { sum / C::from_i64(count as i64) };
        }
    });
}

#[cfg(test)]
mod tests;
