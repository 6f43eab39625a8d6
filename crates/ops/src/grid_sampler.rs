//! Images sampled at the points of a grid, in two and three dimensions.
use crate::convolution::spatial_sizes;
use crate::dense::{converted_row_major, converted_scratch, write_converted};
use crate::ops;
use crate::typed::for_floating;
use sconce_core::{Call, Fault, Op};
use sconce_kernels::grid::{GridSample, Interpolation, Padding, grid_sample};
use sconce_schema::Sizes;

/// Sampling.
pub(crate) static OPS: &[Op] = ops! {
    "aten::grid_sampler_2d.out" [7] writes [5] scratch |args| converted_scratch(args, &[0, 1, 5]), => |call| sampler(call, 2);
    "aten::grid_sampler_3d.out" [7] writes [5] scratch |args| converted_scratch(args, &[0, 1, 5]), => |call| sampler(call, 3);
};

fn sampler(call: &mut Call<'_>, dims: usize) -> Result<(), Fault> {
    let (x, grid) = (call.tensor(0)?, call.tensor(1)?);
    let (rank, input) = spatial_sizes(0, &x.shape)?;
    let [batch, ref points @ .., coordinates] = *grid.sizes() else {
        return Err(Fault::argument(1, "the grid must have {} dimensions").with([dims + 2]));
    };
    let fits = rank == dims && points.len() == dims && coordinates == dims && batch == x.sizes()[0];
    if !fits || input.contains(&0) {
        let text = "an image of {} dimensions with pixels and a grid of points with {} coordinates are needed";
        return Err(Fault::argument(1, text).with([dims + 2, dims]));
    }
    let interpolation = match call.int(2)? {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        2 if dims == 2 => Interpolation::Cubic,
        other => return Err(Fault::argument(2, "there is no interpolation {} here").with_signed([other])),
    };
    let padding = match call.int(3)? {
        0 => Padding::Zeros,
        1 => Padding::Border,
        2 => Padding::Reflection,
        other => return Err(Fault::argument(3, "there is no padding {}").with_signed([other])),
    };
    let (channels, align_corners) = (x.sizes()[1], call.bool(4)?);
    let mut sizes = Sizes::new(&[batch, channels]).unwrap_or(Sizes::SCALAR);
    points.iter().try_for_each(|&size| sizes.push(size)).ok_or(Fault::argument(1, "too many dimensions"))?;
    let points = points.iter().product();
    let sample = GridSample { batch, channels, input, points, dims, interpolation, padding, align_corners };
    for_floating!(x.dtype, 0, C => {
        let (x, grid) = (converted_row_major::<C>(call, 0, x)?, converted_row_major::<C>(call, 1, grid)?);
        let (out, parallel) = (call.out(5, &sizes)?, call.parallel());
        write_converted::<C>(call, 5, out, |out| {
            grid_sample(parallel, &sample, x, grid, out);
            Ok(())
        })
    })
}
