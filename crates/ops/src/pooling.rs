//! Pooling: the largest or the mean of windows.
use crate::convolution::{layout_of, spatial};
use crate::dense::{buffer_bytes, in_order};
use crate::operands::{elements, elements_mut};
use crate::ops;
use crate::typed::for_dtype;
use sconce_core::{Args, Call, Fault, Op, Shape, Tensor};
use sconce_kernels::Isa;
use sconce_kernels::conv::Layout;
use sconce_kernels::pool::{Divisor, Pooling, adaptive_avg_pool, avg_pool, max_pool_with_indices};
use sconce_schema::Sizes;

/// Pooling in two dimensions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::max_pool2d_with_indices.out" [9] writes [6, 7] scratch |args| order_scratch(args, 6), => max_pool;
    "aten::avg_pool2d.out" [9] writes [7] scratch |args| order_scratch(args, 7), => average_pool;
    "aten::_adaptive_avg_pool2d.out" [4] writes [2] scratch |args| order_scratch(args, 2), => adaptive_average_pool;
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

/// An image of `[batch?, channels, height, width]` in the layout of the output.
struct Image<'c> {
    x: Tensor<'c>,
    batch: usize,
    channels: usize,
    input: [usize; 3],
    layout: Layout,
}

impl<'c> Image<'c> {
    fn new(call: &mut Call<'c>, out: usize) -> Result<Self, Fault> {
        let x = call.tensor(0)?;
        let (batch, channels, height, width) = match *x.sizes() {
            [batch, channels, height, width] => (batch, channels, height, width),
            [channels, height, width] => (1, channels, height, width),
            _ => {
                let text = "an image of 3 or 4 dimensions is needed here, this tensor has {}";
                return Err(Fault::argument(0, text).with([x.shape.rank()]));
            }
        };
        let (_, out_shape) = call.tensor_type(out)?;
        let layout = if x.shape.rank() == 4 { layout_of(&out_shape) } else { Layout::ChannelsFirst };
        let wanted = match layout {
            Layout::ChannelsLast => out_shape.resized(x.sizes()),
            Layout::ChannelsFirst => Shape::contiguous(x.sizes()),
        };
        let x = in_order(call, x, &wanted.unwrap_or(x.shape))?;
        Ok(Self { x, batch, channels, input: [1, height, width], layout })
    }

    fn output_sizes(&self, [_, height, width]: [usize; 3]) -> Sizes {
        let all = [self.batch, self.channels, height, width];
        Sizes::new(&all[4 - self.x.shape.rank()..]).unwrap_or(Sizes::SCALAR)
    }

    /// The window: its size, then stride (that of the window when left out) and padding.
    fn pooling(&self, call: &Call<'_>, dilation: Option<usize>, ceil_mode: bool) -> Result<Pooling, Fault> {
        let kernel = spatial(1, &call.ints(1)?, 2, 1)?;
        let stride = call.ints(2)?;
        let pooling = Pooling {
            batch: self.batch,
            channels: self.channels,
            input: self.input,
            kernel,
            stride: if stride.is_empty() { kernel } else { spatial(2, &stride, 2, 1)? },
            padding: spatial(3, &call.ints(3)?, 2, 0)?,
            dilation: dilation.map_or(Ok([1; 3]), |argument| spatial(argument, &call.ints(argument)?, 2, 1))?,
            ceil_mode,
        };
        let halves = pooling.padding.iter().zip(pooling.kernel).all(|(&padding, kernel)| padding <= kernel / 2);
        if halves { Ok(pooling) } else { Err(Fault::argument(3, "padding must be at most half of the window")) }
    }
}

fn no_output() -> Fault {
    Fault::argument(1, "no output is left of this image, window and padding")
}

fn max_pool(call: &mut Call<'_>) -> Result<(), Fault> {
    let image = Image::new(call, 6)?;
    let pooling = image.pooling(call, Some(4), call.bool(5)?)?;
    let sizes = image.output_sizes(pooling.output().ok_or(no_output())?);
    if sizes.numel() != Some(0) && image.x.numel() == 0 {
        return Err(no_output());
    }
    let (out, indices) = (call.out(6, &sizes)?, call.out(7, &sizes)?);
    if layout_of(&indices.shape) != layout_of(&out.shape) {
        return Err(Fault::argument(7, "the indices must lie in memory as the values do"));
    }
    let indices = elements_mut::<i64>(7, indices)?;
    for_dtype!(numbers, image.x.dtype, 0, T => {
        let (x, out) = (elements::<T>(0, &image.x)?, elements_mut(6, out)?);
        max_pool_with_indices(Isa::detect(), call.parallel(), &pooling, image.layout, x, out, indices);
        Ok(())
    })
}

fn average_pool(call: &mut Call<'_>) -> Result<(), Fault> {
    let image = Image::new(call, 7)?;
    let pooling = image.pooling(call, None, call.bool(4)?)?;
    let sizes = image.output_sizes(pooling.output().ok_or(no_output())?);
    let divisor = match (call.optional(6, |args, i| args.int(i))?, call.bool(5)?) {
        (Some(divisor), _) => {
            let divisor = usize::try_from(divisor).ok().filter(|&divisor| divisor > 0);
            Divisor::Fixed(divisor.ok_or(Fault::argument(6, "the divisor must be positive"))?)
        }
        (None, true) => Divisor::WithPadding,
        (None, false) => Divisor::Inside,
    };
    let out = call.out(7, &sizes)?;
    for_dtype!(floats, image.x.dtype, 0, T => {
        let (x, out) = (elements::<T>(0, &image.x)?, elements_mut(7, out)?);
        avg_pool(Isa::detect(), call.parallel(), &pooling, image.layout, divisor, x, out);
        Ok(())
    })
}

fn adaptive_average_pool(call: &mut Call<'_>) -> Result<(), Fault> {
    let image = Image::new(call, 2)?;
    let output = spatial(1, &call.ints(1)?, 2, 1)?;
    let sizes = image.output_sizes(output);
    if image.input.contains(&0) {
        return Err(Fault::argument(0, "the image has no pixels"));
    }
    let out = call.out(2, &sizes)?;
    for_dtype!(floats, image.x.dtype, 0, T => {
        let (x, out) = (elements::<T>(0, &image.x)?, elements_mut(2, out)?);
        let (count, grid) = ((image.batch, image.channels), (image.input, output));
        adaptive_avg_pool(Isa::detect(), call.parallel(), count, grid, image.layout, x, out);
        Ok(())
    })
}
