//! The gradients of a convolution.
use crate::convolution::geometry_of;
use crate::dense::{converted_row_major, converted_scratch, wide_bytes};
use crate::operands::misaligned;
use crate::ops;
use crate::typed::{Typed, for_floating};
use sconce_core::{Args, Call, Fault, Op, Shape, Tensor, TensorMut};
use sconce_kernels::Float;
use sconce_kernels::conv::{Conv, Gradients, conv_backward};
use sconce_kernels::view::{bytes_of, view_mut};

/// Gradients of convolutions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::convolution_backward.out" [15] writes [11, 12, 13] scratch scratch, => backward;
};

/// The outputs: gradients of input, weight and bias.
const OUTS: [usize; 3] = [11, 12, 13];

fn scratch(args: &Args<'_>) -> usize {
    let results = OUTS.iter().map(|&out| wide_bytes(args, out)).fold(0, usize::saturating_add);
    converted_scratch(args, &[0, 1, 2]).saturating_add(results)
}

fn backward(call: &mut Call<'_>) -> Result<(), Fault> {
    let (gradient, x, weight) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let geometry = geometry_of(call, 1, 2, 4)?;
    let output = geometry.output().ok_or(Fault::argument(4, "no output is left of this input, kernel and padding"))?;
    let spatial = output.get(5 - x.shape.rank()..).unwrap_or(&[]);
    let fits = gradient.sizes().get(2..) == Some(spatial)
        && gradient.sizes().get(..2) == Some(&[geometry.batch, geometry.out_channels]);
    if !fits {
        return Err(Fault::argument(0, "the gradient must have the sizes of the convolution's output"));
    }
    for_floating!(gradient.dtype, 0, C => gradients::<C>(call, &geometry, gradient, x, weight))
}

fn gradients<'c, C: Typed + Float<Compute = C>>(
    call: &mut Call<'c>,
    geometry: &Conv,
    gradient: Tensor<'c>,
    x: Tensor<'c>,
    weight: Tensor<'c>,
) -> Result<(), Fault> {
    let bias = [geometry.out_channels];
    let mut outs: [Option<TensorMut<'_>>; 3] = [None, None, None];
    let mut sums: [Option<&mut [C]>; 3] = [None, None, None];
    let data = [
        converted_row_major::<C>(call, 1, x)?,
        converted_row_major::<C>(call, 2, weight)?,
        converted_row_major::<C>(call, 0, gradient)?,
    ];
    for (i, sizes) in [x.sizes(), weight.sizes(), &bias].into_iter().enumerate() {
        if !call.bool_in(10, i)? || call.is_none(OUTS[i])? {
            continue;
        }
        let out = call.out(OUTS[i], sizes)?;
        let results = call.scratch(out.numel().saturating_mul(size_of::<C>()))?;
        let results = view_mut::<C>(results).ok_or(misaligned(OUTS[i]))?;
        results.fill(C::ZERO);
        (outs[i], sums[i]) = (Some(out), Some(results));
    }
    let [input, weight, bias] = sums.each_mut().map(|sum| sum.as_deref_mut());
    conv_backward(geometry, data[0], data[1], data[2], Gradients { input, weight, bias });
    for (argument, (out, sums)) in OUTS.into_iter().zip(outs.into_iter().zip(sums)) {
        let (Some(out), Some(sums)) = (out, sums) else { continue };
        let shape = Shape::contiguous(out.sizes()).unwrap_or(out.shape);
        let source = Tensor { dtype: C::DTYPE, shape, data: bytes_of(sums) };
        crate::dense::convert(call.parallel(), argument, source, out)?;
    }
    Ok(())
}
