//! Convolution with one input channel per group: no product, but rows to scale and add.
//!
//! Channels first: an output row starts as the bias and receives, tap by tap, a scaled stretch of an input row; which
//! stretch lies inside the image is known before the loop, so the loop has no bounds to test. Channels last: an output pixel
//! is a row of channels that receives, tap by tap, the input pixel times the tap's weights, which are first brought into the
//! order `[tap, channel]`.
use super::{Conv, Operands};
use crate::gemm::Epilogue;
use crate::isa::Isa;
use crate::split;
use sconce_parallel::Parallel;

/// Tasks of the pool: planes of one channel of one image.
pub(super) fn channels_first(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    operands: Operands<'_>,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let plane = out.len() / conv.batch / conv.out_channels;
    let input_plane: usize = conv.input.iter().product();
    split::chunks(par, out, plane, |i, out| {
        let (image, channel) = (i / conv.out_channels, i % conv.out_channels);
        let from = (image * conv.in_channels + channel / conv.group_out()) * input_plane;
        let weight = &operands.weight[channel * conv.taps()..][..conv.taps()];
        let bias = operands.bias.map_or(0.0, |bias| bias[channel]);
        isa.vectorize(|| one_plane(conv, &operands.input[from..][..input_plane], weight, bias, epilogue, out));
    });
}

#[inline(always)]
fn one_plane(conv: &Conv, input: &[f32], weight: &[f32], bias: f32, epilogue: Epilogue, out: &mut [f32]) {
    let [depth, height, width] = conv.axes();
    let [_, rows, across] = conv.output().unwrap_or_default();
    for (row, out) in out.chunks_exact_mut(across).enumerate() {
        out.fill(bias);
        for kz in 0..conv.kernel[0] {
            let Some(z) = depth.source(row / rows, kz) else { continue };
            for ky in 0..conv.kernel[1] {
                let Some(y) = height.source(row % rows, ky) else { continue };
                let input = &input[(z * height.size + y) * width.size..][..width.size];
                for kx in 0..conv.kernel[2] {
                    let inside = width.inside(kx, across);
                    let Some(x) = width.source(inside.start, kx) else { continue };
                    let scale = weight[(kz * conv.kernel[1] + ky) * conv.kernel[2] + kx];
                    add_scaled(&mut out[inside], scale, &input[x..], width.stride);
                }
            }
        }
        if epilogue != Epilogue::None {
            out.iter_mut().for_each(|out| *out = epilogue.apply(*out));
        }
    }
}

/// Adds every `step`-th element of `from`, scaled.
#[inline(always)]
fn add_scaled(to: &mut [f32], scale: f32, from: &[f32], step: usize) {
    match step {
        1 => to.iter_mut().zip(from).for_each(|(to, from)| *to += scale * from),
        2 => to.iter_mut().zip(from.chunks(2)).for_each(|(to, from)| *to += scale * from[0]),
        _ => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, from)| *to += scale * from),
    }
}

/// Tasks of the pool: output rows.
pub(super) fn channels_last(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    operands: Operands<'_>,
    epilogue: Epilogue,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let (channels, taps) = (conv.out_channels, conv.taps());
    let weight = &mut scratch[..taps * channels];
    for (channel, from) in operands.weight.chunks_exact(taps).enumerate() {
        from.iter().enumerate().for_each(|(tap, from)| weight[tap * channels + channel] = *from);
    }
    let weight = &*weight;
    let [_, rows, across] = conv.output().unwrap_or_default();
    let axes = conv.axes();
    let [depth, height, width] = axes;
    let image_len = operands.input.len() / conv.batch;
    split::chunks(par, out, across * channels, |row, out| {
        let (image, oz, oy) = (row / rows / conv.output().unwrap_or_default()[0], row / rows, row % rows);
        let oz = oz % conv.output().unwrap_or_default()[0];
        let image = &operands.input[image * image_len..][..image_len];
        isa.vectorize(|| {
            for (ox, out) in out.chunks_exact_mut(channels).enumerate() {
                match operands.bias {
                    Some(bias) => out.copy_from_slice(bias),
                    None => out.fill(0.0),
                }
                for (tap, weight) in weight.chunks_exact(channels).enumerate() {
                    let [_, tall, wide] = conv.kernel;
                    let z = depth.source(oz, tap / wide / tall);
                    let y = height.source(oy, tap / wide % tall);
                    let x = width.source(ox, tap % wide);
                    let (Some(z), Some(y), Some(x)) = (z, y, x) else { continue };
                    let input = &image[((z * height.size + y) * width.size + x) * channels..][..channels];
                    for ((out, input), weight) in out.iter_mut().zip(input).zip(weight) {
                        *out += input * weight;
                    }
                }
                if epilogue != Epilogue::None {
                    out.iter_mut().for_each(|out| *out = epilogue.apply(*out));
                }
            }
        });
    });
}
