//! Convolution, forward, in one to three dimensions.
use crate::dense::{buffer_bytes, in_order, reorder_scratch, row_major};
use crate::operands::{elements, elements_mut, misaligned};
use crate::ops;
use crate::typed::for_dtype;
use sconce_core::{Args, Call, Fault, Ints, Op, ScalarType, Shape};
use sconce_kernels::Isa;
use sconce_kernels::conv::{Conv, Layout, Operands, conv, conv_scratch, generic};
use sconce_kernels::gemm::Epilogue;
use sconce_kernels::view::view_mut;
use sconce_schema::Sizes;

/// Convolution.
pub(crate) static OPS: &[Op] = ops! {
    "aten::convolution.out" [11] writes [9] scratch scratch, => convolution;
};

const OUT: usize = 9;

/// The largest stride, padding or dilation: with sizes of 31 bits, no product of two overflows.
const LARGEST: usize = usize::MAX >> (usize::BITS / 2 + 1);

/// Whether a tensor's channels are innermost in memory.
pub(crate) fn layout_of(shape: &Shape) -> Layout {
    let channels_last = shape.order().last() == Some(&1) && shape.rank() > 2 && !shape.is_contiguous();
    if channels_last { Layout::ChannelsLast } else { Layout::ChannelsFirst }
}

/// One number per spatial dimension, as depth, height, width; a single number counts for all.
pub(crate) fn spatial(argument: usize, list: &[i64], rank: usize, fill: usize) -> Result<[usize; 3], Fault> {
    let mut values = [fill; 3];
    let text = "the list has {} numbers; {} are needed, none negative and none above {}";
    let wrong = Fault::argument(argument, text).with([list.len(), rank, LARGEST]);
    for axis in 0..rank {
        let value = if list.len() == 1 { list.first() } else { list.get(axis) };
        let slot = values.get_mut(3 - rank + axis).ok_or(wrong)?;
        *slot = value.and_then(|&value| usize::try_from(value).ok()).filter(|&value| value <= LARGEST).ok_or(wrong)?;
    }
    Ok(values)
}

/// Sizes of the spatial dimensions of `[batch, channels, ...]`, as depth, height, width.
pub(crate) fn spatial_sizes(argument: usize, shape: &Shape) -> Result<(usize, [usize; 3]), Fault> {
    let text = "a tensor of 3 to 5 dimensions is needed here, this one has {}";
    let wrong = Fault::argument(argument, text).with([shape.rank()]);
    let rank = shape.rank().checked_sub(2).filter(|rank| (1..=3).contains(rank)).ok_or(wrong)?;
    let mut sizes = [1; 3];
    sizes[3 - rank..].copy_from_slice(&shape.sizes()[2..]);
    Ok((rank, sizes))
}

/// The geometry of a call.
fn geometry(args: &Args<'_>) -> Result<Conv, Fault> {
    geometry_of(args, 0, 1, 3)
}

/// The geometry of a call whose input and weight are these arguments, with the rest from the stride on.
pub(crate) fn geometry_of(args: &Args<'_>, input: usize, weight: usize, stride: usize) -> Result<Conv, Fault> {
    let (input_argument, weight_argument) = (input, weight);
    let ((_, x), (_, weight)) = (args.tensor_type(input)?, args.tensor_type(weight)?);
    let (rank, input) = spatial_sizes(input_argument, &x)?;
    let (weight_rank, kernel) = spatial_sizes(weight_argument, &weight)?;
    if rank != weight_rank {
        return Err(Fault::argument(weight_argument, "the weight has {} spatial dimensions, the input {}")
            .with([weight_rank, rank]));
    }
    let list = |argument: usize, fill| -> Result<[usize; 3], Fault> {
        let ints: Ints = args.ints(argument)?;
        spatial(argument, &ints, rank, fill)
    };
    let transposed = args.bool(stride + 3)?;
    let groups = usize::try_from(args.int(stride + 5)?).ok().filter(|&groups| groups > 0);
    let groups = groups.ok_or(Fault::argument(stride + 5, "there must be one group at least"))?;
    // The weight is `[out, in / groups, ...]`; transposed, `[in, out / groups, ...]`.
    let (in_channels, [first, per_group]) = (x.sizes()[1], [weight.sizes()[0], weight.sizes()[1]]);
    let out_channels = if transposed { per_group.checked_mul(groups) } else { Some(first) };
    let geometry = Conv {
        batch: x.sizes()[0],
        in_channels,
        input,
        out_channels: out_channels.ok_or(Fault::argument(weight_argument, "the weight has too many channels"))?,
        kernel,
        stride: list(stride, 1)?,
        padding: list(stride + 1, 0)?,
        dilation: list(stride + 2, 1)?,
        groups,
        output_padding: if transposed { list(stride + 4, 0)? } else { [0; 3] },
        transposed,
    };
    let expected = if transposed { first } else { per_group.saturating_mul(groups) };
    if geometry.stride.contains(&0) {
        return Err(Fault::argument(stride, "the stride must be positive"));
    }
    if expected != in_channels {
        return Err(Fault::argument(weight_argument, "the weight is for {} channels, the input has {}")
            .with([expected, in_channels]));
    }
    Ok(geometry)
}

fn scratch(args: &Args<'_>) -> usize {
    let (Ok(geometry), Ok((dtype, out))) = (geometry(args), args.tensor_type(OUT)) else { return 0 };
    // A call whose output does not fit fails before it uses scratch.
    let elements = geometry.output().and_then(|output| {
        let channels = geometry.batch.checked_mul(geometry.out_channels)?;
        output.iter().try_fold(channels, |n, &size| n.checked_mul(size))
    });
    if elements.is_none() || elements > out.numel() {
        return 0;
    }
    let floats =
        if dtype == ScalarType::Float { conv_scratch(&geometry, layout_of(&out), args.parallel().width()) } else { 0 };
    let input = match args.tensor_type(0) {
        Ok((_, x)) if layout_of(&x) != layout_of(&out) => buffer_bytes(args.capacity(0).unwrap_or(0)),
        _ => 0,
    };
    let own = buffer_bytes(floats.saturating_mul(4));
    own.saturating_add(input).saturating_add(reorder_scratch(args, &[1]))
}

fn convolution(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, weight, bias) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2)?);
    let geometry = geometry(call)?;
    if bias.is_some_and(|bias| bias.sizes() != [geometry.out_channels]) {
        return Err(Fault::argument(2, "the bias must have {} elements").with([geometry.out_channels]));
    }
    let output = geometry.output().ok_or(Fault::argument(3, "no output is left of this input, kernel and padding"))?;
    let spatial = &output[5 - x.shape.rank()..];
    let mut sizes = Sizes::new(&[geometry.batch, geometry.out_channels]).unwrap_or(Sizes::SCALAR);
    spatial.iter().try_for_each(|&size| sizes.push(size)).ok_or(Fault::argument(0, "too many dimensions"))?;
    let (out_type, out_shape) = call.tensor_type(OUT)?;
    let layout = layout_of(&out_shape);
    let wanted = match layout {
        Layout::ChannelsLast => out_shape.resized(x.sizes()),
        Layout::ChannelsFirst => Shape::contiguous(x.sizes()),
    };
    let x = in_order(call, x, &wanted.unwrap_or(x.shape))?;
    let weight = row_major(call, weight)?;
    if [x.dtype, weight.dtype].iter().any(|&dtype| dtype != out_type) {
        return Err(Fault::argument(OUT, "input, weight and output must have one element type"));
    }
    let out = call.out(OUT, &sizes)?;
    if out.dtype == ScalarType::Float {
        let scratch = call.scratch(conv_scratch(&geometry, layout, call.parallel().width()).saturating_mul(4))?;
        let scratch = view_mut::<f32>(scratch).ok_or(misaligned(0))?;
        let bias = bias.map(|bias| elements::<f32>(2, &bias)).transpose()?;
        let operands = Operands { input: elements(0, &x)?, weight: elements(1, &weight)?, bias };
        let out = elements_mut::<f32>(OUT, out)?;
        conv(Isa::detect(), call.parallel(), &geometry, layout, operands, Epilogue::None, out, scratch);
        return Ok(());
    }
    for_dtype!(numbers, out.dtype, OUT, T => {
        let bias = bias.map(|bias| elements::<T>(2, &bias)).transpose()?;
        let operands = Operands { input: elements::<T>(0, &x)?, weight: elements(1, &weight)?, bias };
        generic::conv(Isa::detect(), call.parallel(), &geometry, layout, operands, elements_mut(OUT, out)?);
        Ok(())
    })
}
