//! Images sampled at the points of a grid.
//!
//! A point has a coordinate per axis, from -1 at one end of the image to 1 at the other. Along each axis it becomes up to
//! four taps: input positions (or none, outside of the image) with weights. The value is the sum over all combinations of
//! taps, so that one body serves two and three dimensions and every interpolation.
use crate::element::{Float, Number};
use crate::map::worth;
use crate::math::Math;
use crate::resize::cubic_weights;
use crate::split;
use sconce_parallel::Parallel;

/// How values between pixels are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// From the neighbours on both sides.
    Linear,
    /// From the nearest pixel; half-way, from the even one.
    Nearest,
    /// From two neighbours on either side.
    Cubic,
}

/// What lies outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zeros.
    Zeros,
    /// The pixels of the border.
    Border,
    /// The image mirrored at its border.
    Reflection,
}

/// The geometry of a sampling; sizes are given as depth, height, width.
#[derive(Clone, Copy, Debug)]
pub struct GridSample {
    /// Images, each with a grid of its own.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Size of an image.
    pub input: [usize; 3],
    /// Points of a grid.
    pub points: usize,
    /// Coordinates of a point, innermost axis first: 2 or 3.
    pub dims: usize,
    /// How values between pixels are found.
    pub interpolation: Interpolation,
    /// What lies outside of the image.
    pub padding: Padding,
    /// Whether -1 and 1 are the centres of the outermost pixels, not their outer edges.
    pub align_corners: bool,
}

/// Input positions and weights; `count` of them.
#[derive(Clone, Copy)]
struct Taps<C> {
    count: usize,
    taps: [(Option<usize>, C); 4],
}

impl GridSample {
    /// A coordinate as a position among the pixels.
    fn position<T: Float>(&self, coordinate: T::Compute, size: usize) -> T::Compute {
        let (one, two, size) = (T::Compute::ONE, T::Compute::from_f64(2.0), T::Compute::from_i64(size as i64));
        match self.align_corners {
            true => (coordinate + one) / two * (size - one),
            false => ((coordinate + one) * size - one) / two,
        }
    }

    /// A position outside brought inside, as the padding says.
    fn padded<T: Float>(&self, position: T::Compute, size: usize) -> T::Compute {
        let (zero, last) = (T::Compute::ZERO, T::Compute::from_i64(size as i64 - 1));
        let inside = match self.padding {
            Padding::Zeros => return position,
            Padding::Border => position,
            Padding::Reflection => self.reflected::<T>(position, size),
        };
        let inside = if inside > zero { inside } else { zero };
        if inside < last { inside } else { last }
    }

    /// A position mirrored as often as needed at the pixels' centres or edges.
    fn reflected<T: Float>(&self, position: T::Compute, size: usize) -> T::Compute {
        let (start, span) = if self.align_corners { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64) };
        if span == 0.0 {
            return T::Compute::ZERO;
        }
        let (start, span) = (T::Compute::from_f64(start), T::Compute::from_f64(span));
        let distance = position - start;
        let distance = if distance < T::Compute::ZERO { -distance } else { distance };
        let flips = Math::floor(distance / span);
        let rest = distance - flips * span;
        let even = flips.to_i64() & 1 == 0;
        if even { rest + start } else { span - rest + start }
    }

    /// The taps of a coordinate along an axis.
    fn taps<T: Float>(&self, coordinate: T::Compute, size: usize) -> Taps<T::Compute> {
        let position = self.position::<T>(coordinate, size);
        let inside = |position: T::Compute| {
            let fits = position > -T::Compute::ONE && position < T::Compute::from_i64(size as i64);
            fits.then(|| position.to_i64()).and_then(|at| usize::try_from(at).ok())
        };
        let mut taps = [(None, T::Compute::ZERO); 4];
        match self.interpolation {
            Interpolation::Nearest => {
                let nearest = round_to_even::<T>(self.padded::<T>(position, size));
                taps[0] = (inside(nearest), T::Compute::ONE);
                Taps { count: 1, taps }
            }
            Interpolation::Linear => {
                let position = self.padded::<T>(position, size);
                let first = Math::floor(position);
                let share = position - first;
                taps[0] = (inside(first), T::Compute::ONE - share);
                taps[1] = (inside(first + T::Compute::ONE), share);
                Taps { count: 2, taps }
            }
            Interpolation::Cubic => {
                let first = Math::floor(position);
                for (tap, (slot, weight)) in taps.iter_mut().zip(cubic_weights::<T>(position - first)).enumerate() {
                    let at = first + T::Compute::from_f64(tap as f64 - 1.0);
                    *slot = (inside(self.padded::<T>(at, size)), weight);
                }
                Taps { count: 4, taps }
            }
        }
    }
}

/// The nearest whole number, the even one of two.
fn round_to_even<T: Float>(x: T::Compute) -> T::Compute {
    let (down, half) = (Math::floor(x), T::Compute::from_f64(0.5));
    let odd = Math::floor(down * half) * T::Compute::from_f64(2.0) != down;
    let up = x - down > half || (x - down == half && odd);
    if up { down + T::Compute::ONE } else { down }
}

/// Samples `[batch, channels, input]` at the `[batch, points, dims]` coordinates of `grid`, into `[batch, channels, points]`.
pub fn grid_sample<T: Float>(par: &dyn Parallel, sample: &GridSample, x: &[T], grid: &[T::Compute], out: &mut [T]) {
    let (pixels, points, dims) = (sample.input.iter().product::<usize>(), sample.points, sample.dims);
    let planes = sample.batch * sample.channels;
    assert_eq!(x.len(), planes * pixels, "input elements of {sample:?}");
    assert_eq!(grid.len(), sample.batch * points * dims, "grid elements of {sample:?}");
    assert_eq!(out.len(), planes * points, "output elements of {sample:?}");
    assert!((2..=3).contains(&dims) && (out.is_empty() || pixels > 0), "{sample:?} has nothing to read");
    let [_, height, width] = sample.input;
    split::chunks(worth(par, out.len()), out, points, |plane, out| {
        let x = &x[plane * pixels..][..pixels];
        let grid = &grid[plane / sample.channels * points * dims..][..points * dims];
        for (point, out) in grid.chunks_exact(dims).zip(out) {
            let mut axes = [Taps { count: 1, taps: [(Some(0), T::Compute::ONE); 4] }; 3];
            for (axis, &coordinate) in (0..3).rev().zip(point) {
                axes[axis] = sample.taps::<T>(coordinate, sample.input[axis]);
            }
            let [depth, rows, columns] = axes.each_ref().map(|axis| &axis.taps[..axis.count]);
            let mut sum = T::Compute::ZERO;
            for (&(z, deep), &(y, down)) in depth.iter().flat_map(|z| rows.iter().map(move |y| (z, y))) {
                let (Some(z), Some(y)) = (z, y) else { continue };
                let row = &x[(z * height + y) * width..][..width];
                let mut line = T::Compute::ZERO;
                for &(column, right) in columns {
                    line += column.map_or(T::Compute::ZERO, |column| row[column].widen()) * right;
                }
                sum += deep * down * line;
            }
            *out = T::narrow(sum);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_close;
    use sconce_parallel::Serial;

    /// A row 1, 2, 3, 4 sampled at given coordinates.
    fn row(interpolation: Interpolation, padding: Padding, align_corners: bool, at: &[f32]) -> Vec<f32> {
        let grid: Vec<f32> = at.iter().flat_map(|&x| [x, 0.0]).collect();
        let (batch, channels, input, dims) = (1, 1, [1, 1, 4], 2);
        let points = at.len();
        let sample = GridSample { batch, channels, input, points, dims, interpolation, padding, align_corners };
        let mut out = vec![0.0; points];
        grid_sample(&Serial, &sample, &[1.0f32, 2.0, 3.0, 4.0], &grid, &mut out);
        out
    }

    #[test]
    fn positions_and_borders() {
        use Interpolation::{Linear, Nearest};
        // Aligned, -1 and 1 are the ends; else they are half a pixel further out.
        assert_close(&row(Linear, Padding::Zeros, true, &[-1.0, 0.0, 1.0]), &[1.0, 2.5, 4.0], 1e-6, &());
        assert_close(&row(Linear, Padding::Zeros, false, &[-1.0, 0.0, 1.5]), &[0.5, 2.5, 0.0], 1e-6, &());
        assert_close(&row(Linear, Padding::Border, false, &[-1.0, 9.0]), &[1.0, 4.0], 1e-6, &());
        // Position 4.5 mirrors at 3 to 1.5, or at 3.5 to 2.5.
        assert_close(&row(Linear, Padding::Reflection, true, &[2.0]), &[2.5], 1e-6, &());
        assert_close(&row(Linear, Padding::Reflection, false, &[1.5]), &[3.5], 1e-6, &());
        // Half-way between 0 and 1, and between 1 and 2.
        assert_eq!(row(Nearest, Padding::Zeros, false, &[-0.5, 0.0, -1.3]), [1.0, 3.0, 0.0]);
    }

    /// Cubic convolution reproduces straight lines inside.
    #[test]
    fn cubic_lines() {
        assert_close(&row(Interpolation::Cubic, Padding::Border, true, &[0.0]), &[2.5], 1e-6, &());
    }

    #[test]
    fn points_that_are_no_numbers_read_nothing() {
        for padding in [Padding::Zeros, Padding::Border, Padding::Reflection] {
            for interpolation in [Interpolation::Linear, Interpolation::Nearest, Interpolation::Cubic] {
                row(interpolation, padding, false, &[f32::NAN, f32::INFINITY, f32::MIN, 1e30]);
            }
        }
    }
}
