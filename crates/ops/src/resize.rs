//! Resizing of images.
use crate::convolution::layout_of;
use crate::dense::{buffer_bytes, in_order};
use crate::operands::{elements, elements_mut};
use crate::ops;
use crate::typed::for_dtype;
use sconce_core::{Args, Call, Fault, Op, Shape};
use sconce_kernels::Isa;
use sconce_kernels::conv::Layout;
use sconce_kernels::resize::{Resize, Step, bilinear, nearest};

/// Resizing in two dimensions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::upsample_nearest2d.vec_out" [5] writes [3] scratch |args| scratch(args, 3), => |call| upsample(call, None, 2, 3);
    "aten::upsample_bilinear2d.vec_out" [6] writes [4] scratch |args| scratch(args, 4), => |call| upsample(call, Some(2), 3, 4);
};

fn scratch(args: &Args<'_>, out: usize) -> usize {
    match (args.tensor_type(0), args.tensor_type(out)) {
        (Ok((_, x)), Ok((_, out))) if layout_of(&x) == layout_of(&out) => 0,
        _ => buffer_bytes(args.capacity(0).unwrap_or(0)),
    }
}

/// Resizes to given sizes or by given factors; with corners (the argument that says how) bilinearly, else to the nearest.
fn upsample(call: &mut Call<'_>, corners: Option<usize>, factors: usize, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let [batch, channels, height, width] = *x.sizes() else {
        return Err(
            Fault::argument(0, "an image of 4 dimensions is needed here, this tensor has {}").with([x.shape.rank()])
        );
    };
    let align_corners = corners.map_or(Ok(false), |argument| call.bool(argument))?;
    let factors = if call.is_none(factors)? {
        [None, None]
    } else {
        [Some(call.double_in(factors, 0)?), Some(call.double_in(factors, 1)?)]
    };
    let output = output_size(call, [height, width], factors)?;
    if height == 0 || width == 0 || output.contains(&0) {
        return Err(Fault::argument(0, "the image has no pixels"));
    }
    let (_, out_shape) = call.tensor_type(out)?;
    let layout = layout_of(&out_shape);
    let wanted = match layout {
        Layout::ChannelsLast => out_shape.resized(x.sizes()),
        Layout::ChannelsFirst => Shape::contiguous(x.sizes()),
    };
    let x = in_order(call, x, &wanted.unwrap_or(x.shape))?;
    let (planes, inner) = match layout {
        Layout::ChannelsFirst => (batch * channels, 1),
        Layout::ChannelsLast => (batch, channels),
    };
    let step = |axis: usize| Step::new([height, width][axis], output[axis], align_corners, factors[axis]);
    let resize = Resize { planes, input: [height, width], output, inner, steps: [step(0), step(1)] };
    let target = call.out(out, &[batch, channels, output[0], output[1]])?;
    if corners.is_none() {
        return for_dtype!(numbers, x.dtype, 0, T => {
            nearest(call.parallel(), &resize, false, elements::<T>(0, &x)?, elements_mut(out, target)?);
            Ok(())
        });
    }
    for_dtype!(floats, x.dtype, 0, T => {
        bilinear(Isa::detect(), call.parallel(), &resize, elements::<T>(0, &x)?, elements_mut(out, target)?);
        Ok(())
    })
}

fn output_size(call: &Call<'_>, input: [usize; 2], factors: [Option<f64>; 2]) -> Result<[usize; 2], Fault> {
    let wrong = Fault::argument(1, "either two sizes or two positive factors are needed");
    if !call.is_none(1)? {
        let sizes = call.ints(1)?;
        let [height, width] = *sizes else { return Err(wrong) };
        return Ok([usize::try_from(height).map_err(|_| wrong)?, usize::try_from(width).map_err(|_| wrong)?]);
    }
    let scaled = |axis: usize| -> Result<usize, Fault> {
        let size = factors[axis].ok_or(wrong)? * input[axis] as f64;
        if size.is_finite() && (0.0..4e9).contains(&size) { Ok(size as usize) } else { Err(wrong) }
    };
    Ok([scaled(0)?, scaled(1)?])
}
