//! Normalisation: batch (with given statistics), layer and group.
use crate::convolution::layout_of;
use crate::dense::{reorder_scratch, row_major, write_row_major};
use crate::operands::{elements, elements_mut, misaligned};
use crate::ops;
use crate::typed::{Typed, for_dtype};
use sconce_core::{Args, Call, Fault, Op, Tensor};
use sconce_kernels::Isa;
use sconce_kernels::conv::Layout;
use sconce_kernels::norm::{Affine, Statistics, batch_norm, group_norm, layer_norm};
use sconce_kernels::view::view_mut;
use sconce_schema::Sizes;

/// Normalisations.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_native_batch_norm_legit_no_training.out" [11] writes [7, 8, 9] scratch |args| batch_scratch(args), => batch;
    "aten::native_layer_norm.out" [9] writes [5, 6, 7] scratch |args| reorder_scratch(args, &[0, 5]), => layer;
    "aten::native_group_norm.out" [12] writes [8, 9, 10] scratch |args| reorder_scratch(args, &[0, 8]), => group;
};

/// Weight and bias of `count` elements each, either of which may be absent.
fn affine<'c, T: Typed>(
    weight: &'c Option<Tensor<'c>>,
    bias: &'c Option<Tensor<'c>>,
    count: usize,
) -> Result<Affine<'c, T>, Fault> {
    let slice = |argument: usize, tensor: &Option<Tensor<'c>>| match tensor {
        None => Ok(None),
        Some(tensor) if tensor.numel() == count => elements::<T>(argument, tensor).map(Some),
        Some(tensor) => Err(Fault::argument(argument, "{} elements are needed, not {}").with([count, tensor.numel()])),
    };
    Ok(Affine { weight: slice(1, weight)?, bias: slice(2, bias)? })
}

fn batch_scratch(args: &Args<'_>) -> usize {
    match (args.tensor_type(0), args.tensor_type(7)) {
        (Ok((_, x)), Ok((_, out))) if layout_of(&x) == layout_of(&out) => 0,
        _ => reorder_scratch(args, &[0, 7]),
    }
}

/// Batch normalisation with running statistics. The saved statistics are empty.
fn batch(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (weight, bias) = (call.optional_tensor(1)?, call.optional_tensor(2)?);
    let (mean, variance) = (call.tensor(3)?, call.tensor(4)?);
    let epsilon = call.double(6)?;
    let Some(&channels) = x.sizes().get(1) else {
        return Err(Fault::argument(0, "a tensor with channels is needed here"));
    };
    for (argument, statistic) in [(3, &mean), (4, &variance)] {
        if statistic.numel() != channels {
            return Err(Fault::argument(argument, "one value for each of {} channels is needed").with([channels]));
        }
    }
    let (_, out_shape) = call.tensor_type(7)?;
    let last = layout_of(&x.shape) == Layout::ChannelsLast && layout_of(&out_shape) == Layout::ChannelsLast;
    let x = if last { x } else { row_major(call, x)? };
    let inner = if last { 1 } else { x.sizes()[2..].iter().product() };
    let out = call.out(7, x.sizes())?;
    call.out(8, &[0])?;
    call.out(9, &[0])?;
    let parallel = call.parallel();
    let compute = |bytes: &mut [u8]| {
        for_dtype!(floats, x.dtype, 0, T => {
            let statistics = Statistics { mean: elements::<T>(3, &mean)?, variance: elements(4, &variance)?, epsilon };
            let affine = affine::<T>(&weight, &bias, channels)?;
            let out = view_mut::<T>(bytes).ok_or(misaligned(7))?;
            batch_norm(Isa::detect(), parallel, (channels, inner), elements(0, &x)?, statistics, affine, out);
            Ok(())
        })
    };
    if out.dtype != x.dtype {
        return Err(Fault::argument(7, "the output must have the element type of the input"));
    }
    if last { compute(out.data) } else { write_row_major(call, out, compute) }
}

fn layer(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (weight, bias) = (call.optional_tensor(2)?, call.optional_tensor(3)?);
    let (normalized, epsilon) = (call.ints(1)?, call.double(4)?);
    let split = x.shape.rank().checked_sub(normalized.len());
    let trailing =
        |split: &usize| x.sizes()[*split..].iter().zip(normalized.iter()).all(|(&a, &b)| usize::try_from(b) == Ok(a));
    let split =
        split.filter(trailing).ok_or(Fault::argument(1, "the normalised shape must be the input's last sizes"))?;
    let n: usize = x.sizes()[split..].iter().product();
    let mut kept = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    kept.iter_mut().skip(split).for_each(|size| *size = 1);
    let x = row_major(call, x)?;
    let (out, means, scales) = (call.out(5, x.sizes())?, call.out(6, &kept)?, call.out(7, &kept)?);
    if out.dtype != x.dtype {
        return Err(Fault::argument(5, "the output must have the element type of the input"));
    }
    let parallel = call.parallel();
    write_row_major(call, out, |bytes| {
        for_dtype!(floats, x.dtype, 0, T => {
            let affine = affine::<T>(&weight, &bias, n).map_err(|fault| fault.at(2))?;
            let moments = (elements_mut::<T>(6, means)?, elements_mut::<T>(7, scales)?);
            let out = view_mut::<T>(bytes).ok_or(misaligned(5))?;
            layer_norm(Isa::detect(), parallel, n, elements(0, &x)?, affine, epsilon, out, Some(moments));
            Ok(())
        })
    })
}

fn group(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (weight, bias) = (call.optional_tensor(1)?, call.optional_tensor(2)?);
    let number = |argument: usize| -> Result<usize, Fault> {
        usize::try_from(call.int(argument)?).map_err(|_| Fault::argument(argument, "the number is negative"))
    };
    let (batch, channels, inner, groups) = (number(3)?, number(4)?, number(5)?, number(6)?);
    let epsilon = call.double(7)?;
    let elements_told = batch.checked_mul(channels).and_then(|n| n.checked_mul(inner));
    if elements_told != Some(x.numel()) || groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Fault::argument(6, "batch, channels, size and groups do not fit the input"));
    }
    let x = row_major(call, x)?;
    let kept = [batch, groups];
    let (out, means, scales) = (call.out(8, x.sizes())?, call.out(9, &kept)?, call.out(10, &kept)?);
    if out.dtype != x.dtype {
        return Err(Fault::argument(8, "the output must have the element type of the input"));
    }
    let parallel = call.parallel();
    write_row_major(call, out, |bytes| {
        for_dtype!(floats, x.dtype, 0, T => {
            let affine = affine::<T>(&weight, &bias, channels)?;
            let moments = (elements_mut::<T>(9, means)?, elements_mut::<T>(10, scales)?);
            let out = view_mut::<T>(bytes).ok_or(misaligned(8))?;
            let sizes = (channels, groups, inner);
            group_norm(Isa::detect(), parallel, sizes, elements(0, &x)?, affine, epsilon, out, Some(moments));
            Ok(())
        })
    })
}
