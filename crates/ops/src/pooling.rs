//! Pooling: the largest or the mean of windows.
use crate::convolution::{layout_of, spatial};
use crate::dense::{
    buffer_bytes, converted_row_major, converted_scratch, in_order, reorder_scratch, row_major, write_converted,
};
use crate::operands::{elements, elements_mut, signed};
use crate::ops;
use crate::typed::{for_dtype, for_floating};
use sconce_core::{Args, Call, Fault, Op, ScalarType, Shape, Tensor, TensorMut};
use sconce_kernels::Isa;
use sconce_kernels::conv::Layout;
use sconce_kernels::pool::{
    Divisor, Pooling, adaptive_avg_pool, adaptive_max_pool, avg_pool, avg_pool_integers, max_pool_with_indices,
};
use sconce_schema::Sizes;

/// Pooling in one to three dimensions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::max_pool2d_with_indices.out" [9] writes [6, 7] scratch |args| order_scratch(args, 6), => |call| max_pool(call, 2);
    "aten::max_pool3d_with_indices.out" [9] writes [6, 7] scratch |args| order_scratch(args, 6), => |call| max_pool(call, 3);
    "aten::avg_pool1d.out" [8] writes [6] scratch |args| order_scratch(args, 6), => |call| average_pool(call, 1, None, 6);
    "aten::avg_pool2d.out" [9] writes [7] scratch |args| order_scratch(args, 7), => |call| average_pool(call, 2, Some(6), 7);
    "aten::avg_pool3d.out" [9] writes [7] scratch |args| order_scratch(args, 7), => |call| average_pool(call, 3, Some(6), 7);
    "aten::adaptive_avg_pool1d.out" [4] writes [2] scratch |args| order_scratch(args, 2), => |call| adaptive_average_pool(call, 1);
    "aten::_adaptive_avg_pool2d.out" [4] writes [2] scratch |args| order_scratch(args, 2), => |call| adaptive_average_pool(call, 2);
    "aten::_adaptive_avg_pool3d.out" [4] writes [2] scratch |args| order_scratch(args, 2), => |call| adaptive_average_pool(call, 3);
    "aten::adaptive_max_pool2d.out" [5] writes [2, 3] scratch |args| order_scratch(args, 2), => |call| adaptive_largest_pool(call, 2);
    "aten::adaptive_max_pool3d.out" [5] writes [2, 3] scratch |args| order_scratch(args, 2), => |call| adaptive_largest_pool(call, 3);
    "aten::max_pool2d_with_indices_backward.grad_input" [10] writes [8] scratch backward_scratch, => |call| max_pool_backward(call, 2);
    "aten::max_pool3d_with_indices_backward.grad_input" [10] writes [8] scratch backward_scratch, => |call| max_pool_backward(call, 3);
};

/// Scratch for an input whose channels lie otherwise than the output's.
fn order_scratch(args: &Args<'_>, out: usize) -> usize {
    match (args.tensor_type(0), args.tensor_type(out)) {
        (Ok((_, x)), Ok((_, out))) if layout_of(&x) != layout_of(&out) || !plain(&x) => {
            buffer_bytes(args.capacity(0).unwrap_or(0))
        }
        _ => 0,
    }
}

fn plain(shape: &Shape) -> bool {
    shape.is_contiguous() || layout_of(shape) == Layout::ChannelsLast
}

/// An image of `[batch?, channels, depth?, height?, width]` in the layout of the output.
struct Image<'c> {
    x: Tensor<'c>,
    batch: usize,
    channels: usize,
    /// How many spatial dimensions there are.
    dims: usize,
    input: [usize; 3],
    layout: Layout,
}

impl<'c> Image<'c> {
    fn new(call: &mut Call<'c>, dims: usize, out: usize) -> Result<Self, Fault> {
        let x = call.tensor(0)?;
        let (batch, channels, input) = image_sizes(0, &x.shape, dims)?;
        if input.contains(&0) {
            return Err(Fault::argument(0, "the image has no pixels"));
        }
        let (_, out_shape) = call.tensor_type(out)?;
        let layout = if x.shape.rank() == dims + 2 { layout_of(&out_shape) } else { Layout::ChannelsFirst };
        let wanted = match layout {
            Layout::ChannelsLast => out_shape.resized(x.sizes()),
            Layout::ChannelsFirst => Shape::contiguous(x.sizes()),
        };
        let x = in_order(call, x, &wanted.unwrap_or(x.shape))?;
        Ok(Self { x, batch, channels, dims, input, layout })
    }

    fn output_sizes(&self, output: [usize; 3]) -> Sizes {
        let mut sizes = Sizes::new(self.x.sizes()).unwrap_or(Sizes::SCALAR);
        sizes.iter_mut().rev().zip(output.iter().rev().take(self.dims)).for_each(|(size, &output)| *size = output);
        sizes
    }

    /// The window: its size, then stride (that of the window when left out) and padding.
    fn pooling(&self, call: &Call<'_>, dilation: Option<usize>, ceil_mode: bool) -> Result<Pooling, Fault> {
        let list = |argument: usize, fill| spatial(argument, &call.ints(argument)?, self.dims, fill);
        let kernel = list(1, 1)?;
        let pooling = Pooling {
            batch: self.batch,
            channels: self.channels,
            input: self.input,
            kernel,
            stride: if call.ints(2)?.is_empty() { kernel } else { list(2, 1)? },
            padding: list(3, 0)?,
            dilation: dilation.map_or(Ok([1; 3]), |argument| list(argument, 1))?,
            ceil_mode,
        };
        let half = |axis: usize| kernel[axis].saturating_sub(1).saturating_mul(pooling.dilation[axis]).div_ceil(2);
        let halves = (0..3).all(|axis| pooling.padding[axis] <= half(axis));
        if halves { Ok(pooling) } else { Err(Fault::argument(3, "padding must be at most half of the window")) }
    }
}

/// Batch, channels and depth, height, width of an image with `dims` spatial dimensions; the batch may be left out.
pub(crate) fn image_sizes(argument: usize, shape: &Shape, dims: usize) -> Result<(usize, usize, [usize; 3]), Fault> {
    let text = "an image of {} or {} dimensions is needed here, this tensor has {}";
    let wrong = Fault::argument(argument, text).with([dims + 1, dims + 2, shape.rank()]);
    let (batch, channels, spatial) = match *shape.sizes() {
        [batch, channels, ref spatial @ ..] if spatial.len() == dims => (batch, channels, spatial),
        [channels, ref spatial @ ..] if spatial.len() == dims => (1, channels, spatial),
        _ => return Err(wrong),
    };
    let mut sizes = [1; 3];
    sizes.iter_mut().rev().zip(spatial.iter().rev()).for_each(|(size, &spatial)| *size = spatial);
    Ok((batch, channels, sizes))
}

fn no_output() -> Fault {
    Fault::argument(1, "no output is left of this image, window and padding")
}

/// The two outputs of a pooling that says where the largest elements are.
fn values_and_indices<'c>(
    call: &mut Call<'c>,
    out: usize,
    sizes: &Sizes,
) -> Result<(TensorMut<'c>, &'c mut [i64]), Fault> {
    let (values, indices) = (call.out(out, sizes)?, call.out(out + 1, sizes)?);
    if layout_of(&indices.shape) != layout_of(&values.shape) {
        return Err(Fault::argument(out + 1, "the indices must lie in memory as the values do"));
    }
    Ok((values, elements_mut::<i64>(out + 1, indices)?))
}

fn max_pool(call: &mut Call<'_>, dims: usize) -> Result<(), Fault> {
    let image = Image::new(call, dims, 6)?;
    let pooling = image.pooling(call, Some(4), call.bool(5)?)?;
    let sizes = image.output_sizes(pooling.output().ok_or(no_output())?);
    let (out, indices) = values_and_indices(call, 6, &sizes)?;
    for_dtype!(numbers, image.x.dtype, 0, T => {
        let (x, out) = (elements::<T>(0, &image.x)?, elements_mut(6, out)?);
        max_pool_with_indices(Isa::detect(), call.parallel(), &pooling, image.layout, x, out, indices);
        Ok(())
    })
}

fn average_pool(call: &mut Call<'_>, dims: usize, divisor: Option<usize>, out: usize) -> Result<(), Fault> {
    let image = Image::new(call, dims, out)?;
    let pooling = image.pooling(call, None, call.bool(4)?)?;
    let sizes = image.output_sizes(pooling.output().ok_or(no_output())?);
    let given = divisor.map(|argument| call.optional(argument, |args, i| args.int(i))).transpose()?.flatten();
    let divisor = match (given, call.bool(5)?) {
        (Some(divisor), _) => {
            let divisor = usize::try_from(divisor).ok().filter(|&divisor| divisor > 0);
            Divisor::Fixed(divisor.ok_or(Fault::argument(6, "the divisor must be positive"))?)
        }
        (None, true) => Divisor::WithPadding,
        (None, false) => Divisor::Inside,
    };
    let target = call.out(out, &sizes)?;
    let (isa, parallel, layout) = (Isa::detect(), call.parallel(), image.layout);
    if image.x.dtype == ScalarType::Long {
        let (x, target) = (elements(0, &image.x)?, elements_mut(out, target)?);
        avg_pool_integers(isa, parallel, &pooling, layout, divisor, x, target);
        return Ok(());
    }
    for_dtype!(floats, image.x.dtype, 0, T => {
        let (x, target) = (elements::<T>(0, &image.x)?, elements_mut(out, target)?);
        avg_pool(isa, parallel, &pooling, layout, divisor, x, target);
        Ok(())
    })
}

fn adaptive_average_pool(call: &mut Call<'_>, dims: usize) -> Result<(), Fault> {
    let image = Image::new(call, dims, 2)?;
    let output = spatial(1, &call.ints(1)?, dims, 1)?;
    let out = call.out(2, &image.output_sizes(output))?;
    for_dtype!(floats, image.x.dtype, 0, T => {
        let (x, out) = (elements::<T>(0, &image.x)?, elements_mut(2, out)?);
        let (count, grid) = ((image.batch, image.channels), (image.input, output));
        adaptive_avg_pool(Isa::detect(), call.parallel(), count, grid, image.layout, x, out);
        Ok(())
    })
}

fn adaptive_largest_pool(call: &mut Call<'_>, dims: usize) -> Result<(), Fault> {
    let image = Image::new(call, dims, 2)?;
    let output = spatial(1, &call.ints(1)?, dims, 1)?;
    let (out, indices) = values_and_indices(call, 2, &image.output_sizes(output))?;
    for_dtype!(floats, image.x.dtype, 0, T => {
        let (x, out) = (elements::<T>(0, &image.x)?, elements_mut(2, out)?);
        let (count, grid) = ((image.batch, image.channels), (image.input, output));
        adaptive_max_pool(call.parallel(), count, grid, image.layout, x, out, indices);
        Ok(())
    })
}

fn backward_scratch(args: &Args<'_>) -> usize {
    converted_scratch(args, &[0, 8]).saturating_add(reorder_scratch(args, &[7]))
}

/// Every gradient goes to the element that was the largest of its window.
fn max_pool_backward(call: &mut Call<'_>, dims: usize) -> Result<(), Fault> {
    let (gradients, (_, shape), indices) = (call.tensor(0)?, call.tensor_type(1)?, call.tensor(7)?);
    let (_, _, input) = image_sizes(1, &shape, dims)?;
    let (batch, channels, output) = image_sizes(0, &gradients.shape, dims)?;
    let expected =
        batch.checked_mul(channels).and_then(|planes| input.iter().try_fold(planes, |n, &d| n.checked_mul(d)));
    if indices.sizes() != gradients.sizes() || expected != shape.numel() {
        return Err(Fault::argument(7, "the indices must have the gradients' sizes, the planes those of the input"));
    }
    let indices = row_major(call, indices)?;
    let indices = elements::<i64>(7, &indices)?;
    let (pixels, windows) = (input.iter().product::<usize>(), output.iter().product::<usize>().max(1));
    for_floating!(gradients.dtype, 0, C => {
        let gradients = converted_row_major::<C>(call, 0, gradients)?;
        let out = call.out(8, shape.sizes())?;
        write_converted::<C>(call, 8, out, |sums| {
            sums.fill(0.0);
            for (at, (&gradient, &index)) in gradients.iter().zip(indices).enumerate() {
                let text = "index {} is outside of a plane of {} elements";
                let outside = Fault::argument(7, text).with_signed([index, signed(pixels)]);
                let pixel = usize::try_from(index).ok().filter(|&pixel| pixel < pixels).ok_or(outside)?;
                let sum = sums.get_mut(at / windows * pixels + pixel).ok_or(outside)?;
                *sum += gradient;
            }
            Ok(())
        })
    })
}
