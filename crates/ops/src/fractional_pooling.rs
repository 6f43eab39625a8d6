//! Pooling whose windows are spread over the image by chance: as many as the output has, from edge to edge, at distances
//! that a random sample per plane and dimension decides.
use crate::convolution::spatial;
use crate::dense::{converted_row_major, wide_bytes, write_converted};
use crate::operands::elements_mut;
use crate::ops;
use crate::pooling::image_sizes;
use crate::real::Real;
use crate::typed::for_floating;
use sconce_core::{Args, Call, Fault, Op};
use sconce_schema::Sizes;

/// Pooling by chance.
pub(crate) static OPS: &[Op] = ops! {
    "aten::fractional_max_pool2d.output" [7] writes [4, 5] scratch scratch, => |call| largest(call, 2);
    "aten::fractional_max_pool3d.output" [7] writes [4, 5] scratch scratch, => |call| largest(call, 3);
};

fn scratch(args: &Args<'_>) -> usize {
    [0, 3, 4].iter().map(|&argument| wide_bytes(args, argument)).fold(0, usize::saturating_add)
}

/// Depth, height and width of the image, of the windows and of the output.
struct Grid {
    input: [usize; 3],
    kernel: [usize; 3],
    output: [usize; 3],
}

impl Grid {
    fn new(call: &Call<'_>, input: [usize; 3], dims: usize) -> Result<Self, Fault> {
        let list = |argument: usize| spatial(argument, &call.ints(argument)?, dims, 1);
        let (kernel, output) = (list(1)?, list(2)?);
        for axis in 0..3 {
            let (room, window, count) = (input[axis], kernel[axis], output[axis]);
            if window == 0 || count == 0 || window.saturating_add(count) > room.saturating_add(1) {
                let text = "{} windows of {} elements do not fit into {}";
                return Err(Fault::argument(2, text).with([count, window, room]));
            }
        }
        Ok(Self { input, kernel, output })
    }

    /// Where window `i` of a dimension starts. The last one ends where the image does.
    fn start<R: Real>(&self, axis: usize, i: usize, sample: R) -> usize {
        let last = self.input[axis] - self.kernel[axis];
        if i + 1 == self.output[axis] {
            return last;
        }
        let whole = |count: usize| R::from_f64(count as f64);
        let step = whole(last) / whole(self.output[axis] - 1);
        // Samples may be negative, and places are cut towards zero.
        let place = |at: R| (at * step).to_f64() as i64;
        let start = place(whole(i) + sample).saturating_sub(place(sample));
        usize::try_from(start).unwrap_or(0).min(last)
    }

    /// The largest element of a window of a plane, and where it is.
    fn largest<R: Real>(&self, plane: &[R], start: [usize; 3]) -> (R, usize) {
        let [_, height, width] = self.input;
        let at = |z: usize, y: usize, x: usize| ((start[0] + z) * height + start[1] + y) * width + start[2] + x;
        let [depth, tall, wide] = self.kernel;
        let mut best = at(0, 0, 0);
        for (z, y) in (0..depth).flat_map(|z| (0..tall).map(move |y| (z, y))) {
            for place in (0..wide).map(|x| at(z, y, x)) {
                if plane[place] > plane[best] || plane[place].is_nan() {
                    best = place;
                }
            }
        }
        (plane[best], best)
    }
}

fn largest(call: &mut Call<'_>, dims: usize) -> Result<(), Fault> {
    let (x, samples) = (call.tensor(0)?, call.tensor(3)?);
    let (batch, channels, input) = image_sizes(0, &x.shape, dims)?;
    let grid = Grid::new(call, input, dims)?;
    if samples.numel() != batch.saturating_mul(channels).saturating_mul(dims) {
        return Err(Fault::argument(3, "a sample is needed for each plane and each of {} dimensions").with([dims]));
    }
    let mut sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    sizes.iter_mut().rev().zip(grid.output.iter().rev().take(dims)).for_each(|(size, &output)| *size = output);
    let (values, indices) = (call.out(4, &sizes)?, call.out(5, &sizes)?);
    if !indices.shape.is_contiguous() {
        return Err(Fault::argument(5, "row-major indices are needed here"));
    }
    let indices = elements_mut::<i64>(5, indices)?;
    let (pixels, windows) = (input.iter().product::<usize>(), grid.output.iter().product::<usize>());
    for_floating!(x.dtype, 0, C => {
        let (x, samples) = (converted_row_major::<C>(call, 0, x)?, converted_row_major::<C>(call, 3, samples)?);
        write_converted::<C>(call, 4, values, |values| {
            for (i, (value, index)) in values.iter_mut().zip(indices).enumerate() {
                let (plane, window) = (i / windows, i % windows);
                let [_, height, width] = grid.output;
                let window = [window / width / height, window / width % height, window % width];
                // In two dimensions the samples are for width and height, in three for depth, height and width.
                let sample = |axis: usize| samples[plane * dims + if dims == 2 { (2 - axis) % 2 } else { axis }];
                let start = core::array::from_fn(|axis| grid.start(axis, window[axis], sample(axis)));
                let (largest, at) = grid.largest(&x[plane * pixels..][..pixels], start);
                (*value, *index) = (largest, at as i64);
            }
            Ok(())
        })
    })
}
