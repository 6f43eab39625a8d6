//! Images of another size: nearest neighbour, linear and cubic interpolation, in up to three dimensions.
//!
//! Images are `[planes, depth, height, width, inner]`: channels first has `inner` = 1 and a plane per channel, channels last
//! a plane per image; dimensions that are not there have size 1. Along each [`Axis`], an output position is a weighted sum
//! of a few input positions, its taps. They are written into a table first (a tap that is not there has index
//! `ABSENT`), and one body combines the three axes. The arithmetic of positions is that of PyTorch, in the type that
//! computes, so that the same pixels are read.
pub mod bytes;

use crate::element::{Element, Float, Number};
use crate::isa::Isa;
use crate::map::worth;
use crate::math::Math;
use crate::split;
use sconce_parallel::Parallel;

/// How output positions along one axis find input positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Size before.
    pub input: usize,
    /// Size after.
    pub output: usize,
    /// Whether the first and last positions of both sides coincide.
    pub align_corners: bool,
    /// Output positions per input position, where the user gave it: it counts instead of the sizes.
    pub factor: Option<f64>,
}

/// The geometry of a resize.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    /// Independent images or channels.
    pub planes: usize,
    /// Depth, height and width.
    pub axes: [Axis; 3],
    /// Elements of a pixel.
    pub inner: usize,
}

/// How input positions are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Cubic convolution, else linear.
    pub cubic: bool,
    /// Whether a smaller image averages all of the larger one.
    pub antialias: bool,
}

/// Input positions that are mixed at a time.
const SPAN: usize = 512;
/// The index of a tap that is not there.
const ABSENT: u32 = u32::MAX;

impl Axis {
    /// An axis that is not there.
    pub const NONE: Self = Self { input: 1, output: 1, align_corners: false, factor: None };

    /// Input positions per output position.
    fn scale<T: Float>(&self) -> T::Compute {
        let size = |n: usize| T::Compute::from_i64(n as i64);
        match (self.align_corners, self.factor) {
            (true, _) if self.output > 1 => {
                (size(self.input) - T::Compute::ONE) / (size(self.output) - T::Compute::ONE)
            }
            (true, _) => T::Compute::ZERO,
            (false, Some(factor)) if factor > 0.0 => T::Compute::from_f64(1.0 / factor),
            (false, _) => size(self.input) / size(self.output),
        }
    }

    /// The nearest input position; `exact` looks from the pixel's centre.
    fn nearest(&self, at: usize, exact: bool) -> usize {
        let at = if exact { at as f32 + 0.5 } else { at as f32 };
        ((at * self.scale::<f32>()) as usize).min(self.input - 1)
    }

    /// How far from its centre an output position looks, in input positions.
    fn support(&self, filter: Filter) -> f64 {
        self.scale::<f64>().max(1.0) * if filter.cubic { 2.0 } else { 1.0 }
    }

    /// The most taps that an output position has.
    fn taps(&self, filter: Filter) -> usize {
        match filter {
            _ if self.input == 1 && self.output == 1 => 1,
            Filter { antialias: true, .. } => {
                (Math::floor(self.support(filter)) as usize).saturating_mul(2).saturating_add(3).min(self.input)
            }
            Filter { cubic, .. } => 2 + 2 * usize::from(cubic),
        }
    }

    /// Where an output position lies between input positions: the one before it, and how far behind that.
    fn between<T: Float>(&self, at: usize, cubic: bool) -> (i64, T::Compute) {
        let (half, at) = (T::Compute::from_f64(0.5), T::Compute::from_i64(at as i64));
        let position = if self.align_corners { at * self.scale::<T>() } else { (at + half) * self.scale::<T>() - half };
        let position = if cubic || position > T::Compute::ZERO { position } else { T::Compute::ZERO };
        let first = Math::floor(position).to_i64().min(self.input as i64 - 1);
        let share = position - T::Compute::from_i64(first);
        let share = if share > T::Compute::ZERO { share } else { T::Compute::ZERO };
        (first, if share < T::Compute::ONE { share } else { T::Compute::ONE })
    }

    /// Writes the taps of one output position.
    fn fill<T: Float>(&self, filter: Filter, at: usize, indices: &mut [u32], weights: &mut [T::Compute]) {
        if let ([index], [weight]) = (&mut *indices, &mut *weights) {
            (*index, *weight) = (0, T::Compute::ONE);
        } else if filter.antialias {
            self.fill_smooth::<T>(filter, at, indices, weights);
        } else {
            let (first, share) = self.between::<T>(at, filter.cubic);
            let before = i64::from(filter.cubic);
            for (tap, (index, weight)) in indices.iter_mut().zip(weights).enumerate() {
                *index = (first + tap as i64 - before).clamp(0, self.input as i64 - 1) as u32;
                *weight = match (filter.cubic, tap) {
                    (false, 0) => T::Compute::ONE - share,
                    (false, _) => share,
                    (true, _) => cubic_weights::<T>(share)[tap],
                };
            }
        }
    }

    /// The taps of an antialiased position: all inputs within the support, with weights that add up to 1.
    fn fill_smooth<T: Float>(&self, filter: Filter, at: usize, indices: &mut [u32], weights: &mut [T::Compute]) {
        indices.fill(ABSENT);
        let (scale, support) = (self.scale::<T>().to_f64(), self.support(filter));
        let centre = scale * (at as f64 + 0.5);
        let first = ((centre - support + 0.5) as i64).max(0);
        let end = ((centre + support + 0.5) as i64).min(self.input as i64);
        let weight = |index: i64| {
            let distance = (index as f64 - centre + 0.5) / scale.max(1.0);
            if filter.cubic { smooth_cubic(distance) } else { (1.0 - distance.abs()).max(0.0) }
        };
        let total: f64 = (first..end).map(weight).sum();
        for (index, (slot, out)) in (first..end).zip(indices.iter_mut().zip(weights)) {
            (*slot, *out) = (index as u32, T::Compute::from_f64(weight(index) / total));
        }
    }
}

/// The cubic convolution with parameter -0.75, for the inputs at -1, 0, 1 and 2 around a position at `share`.
pub(crate) fn cubic_weights<T: Float>(share: T::Compute) -> [T::Compute; 4] {
    let (real, one) = (T::Compute::from_f64, T::Compute::ONE);
    let a = real(-0.75);
    let near = |x: T::Compute| ((a + real(2.0)) * x - (a + real(3.0))) * x * x + one;
    let far = |x: T::Compute| ((a * x - real(5.0) * a) * x + real(8.0) * a) * x - real(4.0) * a;
    [far(share + one), near(share), near(one - share), far(real(2.0) - share)]
}

/// The cubic convolution with parameter -0.5, which antialiasing uses.
fn smooth_cubic(distance: f64) -> f64 {
    let (x, a) = (distance.abs(), -0.5);
    match x {
        _ if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * a,
        _ => 0.0,
    }
}

impl Resize {
    /// Panics unless n elements are the input and the output, whose pixels lie so far apart.
    fn check(&self, input: usize, (output, pixel): (usize, usize)) {
        let pixels = |size: fn(&Axis) -> usize| self.axes.iter().map(size).product::<usize>() * self.planes;
        assert_eq!(input, pixels(|axis| axis.input) * self.inner, "input elements of {self:?}");
        split::check_pixels(output, pixels(|axis| axis.output), (self.inner, pixel), self);
        assert!(output == 0 || input > 0, "{self:?} has nothing to read");
    }

    /// Entries of the table that [`resample`] needs.
    pub fn table_len(&self, filter: Filter) -> usize {
        self.axes.iter().map(|axis| axis.output.saturating_mul(axis.taps(filter))).fold(0, usize::saturating_add)
    }

    /// Calls `body([plane, z, y], row)` for every output row, where pixels lie so far apart.
    fn rows<T: Element>(
        &self,
        par: &dyn Parallel,
        (out, pixel): (&mut [T], usize),
        body: impl Fn([usize; 3], &mut [T]) + Sync,
    ) {
        let [depth, height, width] = self.axes.map(|axis| axis.output);
        split::chunks(worth(par, out.len()), out, width * pixel, |row, out| {
            body([row / height / depth, row / height % depth, row % height], out);
        });
    }

    /// The input row at `[plane, z, y]`.
    #[inline(always)]
    fn row<'x, T>(&self, x: &'x [T], [plane, z, y]: [usize; 3]) -> &'x [T] {
        let [depth, height, width] = self.axes.map(|axis| axis.input);
        let len = width * self.inner;
        &x[((plane * depth + z) * height + y) * len..][..len]
    }
}

/// Every output pixel is a copy of the nearest input pixel; `exact` is PyTorch's `nearest-exact`. The output comes with the
/// distance of its pixels, as in [`crate::packed::conv2d`].
pub fn nearest<T: Element>(par: &dyn Parallel, resize: &Resize, exact: bool, x: &[T], (out, pixel): (&mut [T], usize)) {
    resize.check(x.len(), (out.len(), pixel));
    let (inner, [depth, height, width]) = (resize.inner, resize.axes);
    resize.rows(par, (out, pixel), |[plane, z, y], out| {
        let row = resize.row(x, [plane, depth.nearest(z, exact), height.nearest(y, exact)]);
        for (at, out) in out.chunks_mut(pixel.max(1)).enumerate() {
            out[..inner].copy_from_slice(&row[width.nearest(at, exact) * inner..][..inner]);
        }
    });
}

/// The taps of all positions along an axis, each with as many.
struct Table<'a, C> {
    taps: usize,
    indices: &'a [u32],
    weights: &'a [C],
}

impl<C: Copy> Table<'_, C> {
    /// The taps of one position.
    #[inline(always)]
    fn at(&self, position: usize) -> impl Iterator<Item = (usize, C)> + Clone + '_ {
        let range = position * self.taps..(position + 1) * self.taps;
        let present = self.indices[range.clone()].iter().take_while(|&&index| index != ABSENT);
        present.zip(&self.weights[range]).map(|(&index, &weight)| (index as usize, weight))
    }
}

/// Every output pixel is a weighted sum of input pixels. `table` is scratch of [`Resize::table_len`] entries.
pub fn resample<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    resize: &Resize,
    filter: Filter,
    x: &[T],
    (indices, weights): (&mut [u32], &mut [T::Compute]),
    out: &mut [T],
) {
    resize.check(x.len(), (out.len(), resize.inner));
    let needed = resize.table_len(filter);
    assert!(indices.len() >= needed && weights.len() >= needed, "a table of {needed} entries");
    if out.is_empty() {
        return;
    }
    let mut start = 0;
    for axis in &resize.axes {
        let taps = axis.taps(filter);
        for at in 0..axis.output {
            let range = start..start + taps;
            axis.fill::<T>(filter, at, &mut indices[range.clone()], &mut weights[range]);
            start += taps;
        }
    }
    let mut start = 0;
    let tables = resize.axes.map(|axis| {
        let taps = axis.taps(filter);
        let range = start..start + taps * axis.output;
        start = range.end;
        Table { taps, indices: &indices[range.clone()], weights: &weights[range] }
    });
    resize.rows(par, (out, resize.inner), |position, out| {
        isa.vectorize(
            #[inline(always)]
            || match tables.each_ref().map(|table| table.taps) {
                [1, 2, 2] if !filter.antialias => bilinear_row(resize, &tables, x, position, out),
                _ => weighted_row(resize, &tables, x, position, out),
            },
        );
    });
}

/// One output row, whatever the taps are.
#[inline(always)]
fn weighted_row<T: Float>(
    resize: &Resize,
    [depth, height, width]: &[Table<'_, T::Compute>; 3],
    x: &[T],
    [plane, z, y]: [usize; 3],
    out: &mut [T],
) {
    let inner = resize.inner;
    for (at, out) in out.chunks_exact_mut(inner).enumerate() {
        for (c, out) in out.iter_mut().enumerate() {
            let mut pixel = T::Compute::ZERO;
            for (z, deep) in depth.at(z) {
                let mut slice = T::Compute::ZERO;
                for (y, down) in height.at(y) {
                    let row = resize.row(x, [plane, z, y]);
                    let mut line = T::Compute::ZERO;
                    for (x, right) in width.at(at) {
                        line += right * row[x * inner + c].widen();
                    }
                    slice += down * line;
                }
                pixel += deep * slice;
            }
            *out = T::narrow(pixel);
        }
    }
}

/// [`weighted_row`] where a pixel mixes the four around it.
#[inline(always)]
fn bilinear_row<T: Float>(
    resize: &Resize,
    [_, height, width]: &[Table<'_, T::Compute>; 3],
    x: &[T],
    [plane, _, y]: [usize; 3],
    out: &mut [T],
) {
    let inner = resize.inner;
    let (Some((top, upper)), Some((bottom, lower))) = (height.at(y).next(), height.at(y).nth(1)) else { return };
    let (top, bottom) = (resize.row(x, [plane, 0, top]), resize.row(x, [plane, 0, bottom]));
    let (indices, weights) = (width.indices.as_chunks::<2>().0, width.weights.as_chunks::<2>().0);
    if inner == 1 {
        return bilinear_line((top, upper), (bottom, lower), indices, weights, out);
    }
    for (out, (&[first, second], &[left, right])) in out.chunks_exact_mut(inner).zip(indices.iter().zip(weights)) {
        let mix = |row: &[T], c: usize| {
            left * row[first as usize * inner + c].widen() + right * row[second as usize * inner + c].widen()
        };
        for (c, out) in out.iter_mut().enumerate() {
            *out = T::narrow(upper * mix(top, c) + lower * mix(bottom, c));
        }
    }
}

/// One output row of single elements: the two input rows are mixed where they lie, then the neighbours in the mixture.
#[inline(always)]
fn bilinear_line<T: Float>(
    (top, upper): (&[T], T::Compute),
    (bottom, lower): (&[T], T::Compute),
    mut indices: &[[u32; 2]],
    mut weights: &[[T::Compute; 2]],
    mut out: &mut [T],
) {
    let mut mixed = [T::Compute::ZERO; SPAN];
    while let Some(&[start, _]) = indices.first() {
        // Taps never go backwards, so these outputs need less than `SPAN` inputs from the first one's on.
        let count = indices.partition_point(|[_, second]| ((second - start) as usize) < SPAN);
        let inputs = start as usize..indices[count - 1][1] as usize + 1;
        for (mixed, (top, bottom)) in mixed.iter_mut().zip(top[inputs.clone()].iter().zip(&bottom[inputs])) {
            *mixed = upper * top.widen() + lower * bottom.widen();
        }
        let (now, later) = out.split_at_mut(count);
        for (out, ([first, second], [left, right])) in now.iter_mut().zip(indices.iter().zip(weights)) {
            // The remainder changes nothing and spares the check of the bound.
            let at = |index: &u32| mixed[(index - start) as usize % SPAN];
            *out = T::narrow(*left * at(first) + *right * at(second));
        }
        (indices, weights, out) = (&indices[count..], &weights[count..], later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close, pool};
    use sconce_parallel::Serial;

    const LINEAR: Filter = Filter { cubic: false, antialias: false };
    const CUBIC: Filter = Filter { cubic: true, antialias: false };

    fn resize(input: [usize; 3], output: [usize; 3], align_corners: bool, inner: usize) -> Resize {
        let axis = |d: usize| Axis { input: input[d], output: output[d], align_corners, factor: None };
        Resize { planes: 1, axes: core::array::from_fn(axis), inner }
    }

    fn resampled(isa: Isa, resize: &Resize, filter: Filter, x: &[f32]) -> Vec<f32> {
        let entries = resize.table_len(filter);
        let (mut indices, mut weights) = (vec![0; entries], vec![0.0; entries]);
        let outputs: usize = resize.axes.iter().map(|axis| axis.output).product();
        let mut out = vec![0.0; outputs * resize.planes * resize.inner];
        resample(isa, &pool(), resize, filter, x, (&mut indices, &mut weights), &mut out);
        out
    }

    /// `interpolate(tensor([[[[1, 2], [3, 4]]]]), size=(4, 4))`: every pixel four times.
    #[test]
    fn nearest_repeats_pixels() {
        let mut out = [0; 16];
        let double = resize([1, 2, 2], [1, 4, 4], false, 1);
        nearest(&Serial, &double, false, &[1, 2, 3, 4], (&mut out, 1));
        assert_eq!(out, [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]);
        // Of an image that is part of a wider one.
        let mut wider = [9; 46];
        nearest(&Serial, &double, false, &[1, 2, 3, 4], (&mut wider, 3));
        assert!(wider.iter().enumerate().all(|(i, x)| *x == if i % 3 == 0 { out[i / 3] } else { 9 }), "{wider:?}");
    }

    #[test]
    fn nearest_shrinks_from_the_corner_or_the_centre() {
        let x: Vec<i32> = (0..6).collect();
        let mut out = [0; 2];
        nearest(&Serial, &resize([1, 1, 6], [1, 1, 2], false, 1), false, &x, (&mut out, 1));
        assert_eq!(out, [0, 3]);
        nearest(&Serial, &resize([1, 6, 1], [1, 2, 1], false, 1), true, &x, (&mut out, 1));
        assert_eq!(out, [1, 4]);
    }

    /// Positions by hand: half-pixel -0.25 (0), 0.25, 0.75, 1.25 (1); with aligned corners 0, 1/3, 2/3, 1.
    #[test]
    fn linear_between_two_pixels() {
        for (isa, axis) in Isa::available().flat_map(|isa| [(isa, 0), (isa, 1), (isa, 2)]) {
            let size = |n: usize| core::array::from_fn(|d| if d == axis { n } else { 1 });
            let out = resampled(isa, &resize(size(2), size(4), false, 1), LINEAR, &[0.0, 1.0]);
            assert_close(&out, &[0.0, 0.25, 0.75, 1.0], 1e-6, &isa);
            let out = resampled(isa, &resize(size(2), size(4), true, 1), LINEAR, &[0.0, 1.0]);
            assert_close(&out, &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0], 1e-6, &isa);
        }
    }

    /// The loop for four neighbours is the general one, and an axis comes after the other.
    #[test]
    fn axes_are_independent() {
        let mut random = Random::new(51);
        for (input, output, inner) in [([1, 5, 7], [1, 8, 3], 1), ([1, 2, 9], [1, 9, 9], 3), ([1, 4, 4], [1, 2, 11], 2)]
        {
            let x = random.floats(input.iter().product::<usize>() * inner);
            for filter in [LINEAR, CUBIC, Filter { cubic: true, antialias: true }] {
                let middle = [1, output[1], input[2]];
                let tall = resampled(Isa::detect(), &resize(input, middle, false, inner), filter, &x);
                let wide = resampled(Isa::detect(), &resize(middle, output, false, inner), filter, &tall);
                let both = resampled(Isa::detect(), &resize(input, output, false, inner), filter, &x);
                assert_close(&both, &wide, 1e-5, &(input, output, filter));
            }
        }
    }

    /// `interpolate(tensor([0., 0, 1, 0, 0]), size=3, antialias=True)`: triangles of half-width 5/3 around 5/6, 5/2, 25/6.
    #[test]
    fn antialiasing_averages() {
        let x = [0.0, 0.0, 1.0, 0.0, 0.0];
        let smooth = Filter { cubic: false, antialias: true };
        let out = resampled(Isa::detect(), &resize([1, 1, 5], [1, 1, 3], false, 1), smooth, &x);
        // Around 5/2 the inputs lie at -1, 0 and 1: weights 0.4, 1, 0.4. Around 5/6 at -1/3, 2/3, 5/3: 0.8, 0.6, 0.
        assert_close(&out, &[0.0, 1.0 / 1.8, 0.0], 1e-6, &x);
    }

    #[test]
    fn cubic_weights_add_up_and_repeat_the_pixels() {
        for share in [0.0, 0.25, 0.5, 0.9] {
            assert_close(&[cubic_weights::<f32>(share).iter().sum()], &[1.0], 1e-6, &share);
        }
        assert_eq!(cubic_weights::<f32>(0.0), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn channels_last_mixes_each_channel() {
        // 2 x 1 pixels of two channels, to 3 x 1 with aligned corners: the middle is the mean.
        let shape = resize([1, 2, 1], [1, 3, 1], true, 2);
        let out = resampled(Isa::detect(), &shape, LINEAR, &[0.0, 10.0, 4.0, 30.0]);
        assert_eq!(out, [0.0, 10.0, 2.0, 20.0, 4.0, 30.0]);
    }

    #[test]
    fn a_given_factor_counts_instead_of_the_sizes() {
        let axis = |align_corners, output, factor| Axis { input: 5, output, align_corners, factor };
        assert_eq!(axis(false, 7, Some(1.5)).scale::<f32>(), (1.0f64 / 1.5) as f32);
        assert_eq!(axis(true, 7, Some(1.5)).scale::<f32>(), 4.0 / 6.0);
        assert_eq!(axis(true, 1, None).scale::<f32>(), 0.0);
    }
}
