//! Images of another size: nearest neighbour and bilinear.
//!
//! Images are `[planes, height, width, inner]`: channels first has `inner` = 1 and a plane per channel, channels last a
//! plane per image. Along each axis a [`Step`] says which input positions an output position reads; the arithmetic is
//! that of PyTorch, in `f32`, so that the same pixels are read.
use crate::element::{Element, Float, Number};
use crate::isa::Isa;
use crate::map::worth;
use crate::math::Math;
use crate::split;
use sconce_parallel::Parallel;

/// The geometry of a resize.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    /// Independent images or channels.
    pub planes: usize,
    /// Height and width before.
    pub input: [usize; 2],
    /// Height and width after.
    pub output: [usize; 2],
    /// Elements of a pixel.
    pub inner: usize,
    /// How output positions find input positions, for height and width.
    pub steps: [Step; 2],
}

/// How output positions along one axis find input positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Input positions per output position.
    scale: f32,
    /// Whether the first and last positions of both sides coincide.
    align_corners: bool,
}

impl Step {
    /// From the two sizes, or from the factor the user gave (output per input), which then counts instead of the sizes.
    pub fn new(input: usize, output: usize, align_corners: bool, factor: Option<f64>) -> Self {
        let scale = match (align_corners, factor) {
            (true, _) if output > 1 => (input as f32 - 1.0) / (output as f32 - 1.0),
            (true, _) => 0.0,
            (false, Some(factor)) if factor > 0.0 => (1.0 / factor) as f32,
            (false, _) => input as f32 / output as f32,
        };
        Self { scale, align_corners }
    }

    /// The nearest input position; `exact` looks from the pixel's centre.
    fn nearest(&self, at: usize, size: usize, exact: bool) -> usize {
        let at = if exact { at as f32 + 0.5 } else { at as f32 };
        ((at * self.scale) as usize).min(size - 1)
    }

    /// The two neighbouring input positions and the second one's share.
    fn between(&self, at: usize, size: usize) -> (usize, usize, f32) {
        let centred = (at as f32 + 0.5) * self.scale - 0.5;
        let position = if self.align_corners { at as f32 * self.scale } else { centred.max(0.0) };
        let first = (Math::floor(position) as usize).min(size - 1);
        (first, (first + 1).min(size - 1), (position - first as f32).clamp(0.0, 1.0))
    }
}

impl Resize {
    fn check(&self, input: usize, output: usize) {
        let pixels = |size: [usize; 2]| self.planes * size[0] * size[1] * self.inner;
        assert_eq!(input, pixels(self.input), "input elements of {self:?}");
        assert_eq!(output, pixels(self.output), "output elements of {self:?}");
        assert!(output == 0 || input > 0, "{self:?} has nothing to read");
    }

    /// Calls `body(plane, y, row)` for every output row.
    fn rows<T: Element>(&self, par: &dyn Parallel, out: &mut [T], body: impl Fn(usize, usize, &mut [T]) + Sync) {
        split::chunks(worth(par, out.len()), out, self.output[1] * self.inner, |row, out| {
            body(row / self.output[0], row % self.output[0], out);
        });
    }
}

/// Every output pixel is a copy of the nearest input pixel; `exact` is PyTorch's `nearest-exact`.
pub fn nearest<T: Element>(par: &dyn Parallel, resize: &Resize, exact: bool, x: &[T], out: &mut [T]) {
    resize.check(x.len(), out.len());
    let [height, width] = resize.input;
    resize.rows(par, out, |plane, y, out| {
        let y = resize.steps[0].nearest(y, height, exact);
        let row = &x[(plane * height + y) * width * resize.inner..][..width * resize.inner];
        for (at, out) in out.chunks_exact_mut(resize.inner).enumerate() {
            let from = resize.steps[1].nearest(at, width, exact);
            out.copy_from_slice(&row[from * resize.inner..][..resize.inner]);
        }
    });
}

/// Every output pixel is a mixture of the four input pixels around it.
pub fn bilinear<T: Float>(isa: Isa, par: &dyn Parallel, resize: &Resize, x: &[T], out: &mut [T]) {
    resize.check(x.len(), out.len());
    let [height, width] = resize.input;
    let inner = resize.inner;
    resize.rows(par, out, |plane, y, out| {
        let (top, bottom, down) = resize.steps[0].between(y, height);
        let row = |y: usize| &x[(plane * height + y) * width * inner..][..width * inner];
        let (top, bottom) = (row(top), row(bottom));
        let share = |x: f32| (T::Compute::from_f64((1.0 - x).into()), T::Compute::from_f64(x.into()));
        let (upper, lower) = share(down);
        isa.vectorize(
            #[inline(always)]
            || {
                for (at, out) in out.chunks_exact_mut(inner).enumerate() {
                    let (first, second, right) = resize.steps[1].between(at, width);
                    let (a, b) = share(right);
                    let pixels = |row: &[T], at: usize, c: usize| row[at * inner + c].widen();
                    for (c, out) in out.iter_mut().enumerate() {
                        let above = a * pixels(top, first, c) + b * pixels(top, second, c);
                        let below = a * pixels(bottom, first, c) + b * pixels(bottom, second, c);
                        *out = T::narrow(upper * above + lower * below);
                    }
                }
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_close;
    use sconce_parallel::Serial;

    fn resize(input: [usize; 2], output: [usize; 2], align_corners: bool, inner: usize) -> Resize {
        let steps = core::array::from_fn(|d| Step::new(input[d], output[d], align_corners, None));
        Resize { planes: 1, input, output, inner, steps }
    }

    /// `interpolate(tensor([[[[1, 2], [3, 4]]]]), size=(4, 4))`: every pixel four times.
    #[test]
    fn nearest_repeats_pixels() {
        let mut out = [0; 16];
        nearest(&Serial, &resize([2, 2], [4, 4], false, 1), false, &[1, 2, 3, 4], &mut out);
        assert_eq!(out, [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]);
    }

    #[test]
    fn nearest_shrinks_from_the_corner_or_the_centre() {
        let x: Vec<i32> = (0..6).collect();
        let mut out = [0; 2];
        nearest(&Serial, &resize([1, 6], [1, 2], false, 1), false, &x, &mut out);
        assert_eq!(out, [0, 3]);
        nearest(&Serial, &resize([1, 6], [1, 2], false, 1), true, &x, &mut out);
        assert_eq!(out, [1, 4]);
    }

    /// Positions by hand: half-pixel -0.25 (0), 0.25, 0.75, 1.25 (1); with aligned corners 0, 1/3, 2/3, 1.
    #[test]
    fn bilinear_between_two_pixels() {
        for isa in Isa::available() {
            let mut out = [0.0; 4];
            bilinear(isa, &Serial, &resize([1, 2], [1, 4], false, 1), &[0.0f32, 1.0], &mut out);
            assert_close(&out, &[0.0, 0.25, 0.75, 1.0], 1e-6, &isa);
            bilinear(isa, &Serial, &resize([1, 2], [1, 4], true, 1), &[0.0f32, 1.0], &mut out);
            assert_close(&out, &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0], 1e-6, &isa);
        }
    }

    #[test]
    fn channels_last_mixes_each_channel() {
        // 2 x 1 pixels of two channels, to 3 x 1 with aligned corners: the middle is the mean.
        let mut out = [0.0; 6];
        bilinear(Isa::detect(), &Serial, &resize([2, 1], [3, 1], true, 2), &[0.0f32, 10.0, 4.0, 30.0], &mut out);
        assert_eq!(out, [0.0, 10.0, 2.0, 20.0, 4.0, 30.0]);
    }

    #[test]
    fn a_given_factor_counts_instead_of_the_sizes() {
        assert_eq!(Step::new(5, 7, false, Some(1.5)).scale, (1.0f64 / 1.5) as f32);
        assert_eq!(Step::new(5, 7, true, Some(1.5)).scale, 4.0 / 6.0);
        assert_eq!(Step::new(5, 1, true, None).scale, 0.0);
    }
}
