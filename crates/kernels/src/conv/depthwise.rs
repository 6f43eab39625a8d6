//! Convolution with one input channel per group: no product, but rows to scale and add.
//!
//! Channels first: a plane is copied into the middle of zeros, so that no tap has to ask whether it lies inside; then a
//! few outputs of a row stay in registers while all taps are added to them. Channels last: an output pixel is a row of
//! channels that receives, tap by tap, the input pixel times the tap's weights, which are first brought into the order
//! `[tap, channel]`.
use super::{Conv, Operands};
use crate::gemm::{Epilogue, clamp};
use crate::isa::Isa;
use crate::map::worth;
use crate::split::{self, Slots};
use sconce_parallel::Parallel;

/// Most taps of a kernel for which [`channels_last`] is made.
pub(super) const MOST_TAPS: usize = 64;
/// Outputs kept in registers while all taps are added.
const CHUNK: usize = 32;

/// The size of a plane with its padding, wide enough that the last chunk of a row may read on.
fn padded(conv: &Conv) -> [usize; 3] {
    let output = conv.output().unwrap_or_default();
    core::array::from_fn(|axis| {
        let chunk = if axis == 2 { CHUNK } else { 1 };
        let last = output[axis].next_multiple_of(chunk).saturating_sub(1).saturating_mul(conv.stride[axis]);
        let reach = last.saturating_add((conv.kernel[axis] - 1).saturating_mul(conv.dilation[axis])).saturating_add(1);
        let tail = if axis == 2 { conv.stride[axis] } else { 0 };
        let size = conv.input[axis].saturating_add(conv.padding[axis].saturating_mul(2));
        size.max(reach.saturating_add(tail))
    })
}

/// Scratch of one task of [`channels_first`].
pub(super) fn plane_scratch(conv: &Conv) -> usize {
    padded(conv).iter().fold(1, |size: usize, &axis| size.saturating_mul(axis))
}

/// Tasks of the pool: planes of one channel of one image.
pub(super) fn channels_first(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    operands: Operands<'_>,
    epilogue: Epilogue,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let plane = out.len() / conv.batch / conv.out_channels;
    let input_plane: usize = conv.input.iter().product();
    let par = worth(par, out.len() * conv.taps());
    let slots = Slots::new(scratch, plane_scratch(conv), par.width());
    split::chunks(par, out, plane, |i, out| {
        let (image, channel) = (i / conv.out_channels, i % conv.out_channels);
        let from = (image * conv.in_channels + channel / conv.group_out()) * input_plane;
        let weight = &operands.weight[channel * conv.taps()..][..conv.taps()];
        let bias = operands.bias.map_or(0.0, |bias| bias[channel]);
        slots.with(|scratch| {
            pad(conv, &operands.input[from..][..input_plane], scratch);
            isa.vectorize(
                #[inline(always)]
                || match conv.stride[2] {
                    1 => one_plane::<1>(conv, scratch, weight, bias, epilogue.limits(), out),
                    2 => one_plane::<2>(conv, scratch, weight, bias, epilogue.limits(), out),
                    _ => one_plane::<0>(conv, scratch, weight, bias, epilogue.limits(), out),
                },
            );
        });
    });
}

/// Copies a plane into the middle of zeros.
fn pad(conv: &Conv, input: &[f32], out: &mut [f32]) {
    let [_, height, width] = padded(conv);
    out.fill(0.0);
    for (row, input) in input.chunks_exact(conv.input[2]).enumerate() {
        let (z, y) = (row / conv.input[1] + conv.padding[0], row % conv.input[1] + conv.padding[1]);
        out[(z * height + y) * width + conv.padding[2]..][..input.len()].copy_from_slice(input);
    }
}

/// `STEP` is the stride along a row, 0 if only known at run time.
#[inline(always)]
fn one_plane<const STEP: usize>(
    conv: &Conv,
    input: &[f32],
    weight: &[f32],
    bias: f32,
    limits: (f32, f32),
    out: &mut [f32],
) {
    let [_, height, width] = padded(conv);
    let [_, rows, across] = conv.output().unwrap_or_default();
    let step = if STEP == 0 { conv.stride[2] } else { STEP };
    for (row, out) in out.chunks_exact_mut(across).enumerate() {
        let (z, y) = (row / rows * conv.stride[0], row % rows * conv.stride[1]);
        let input = &input[(z * height + y) * width..];
        let size = (height, width);
        let (chunks, rest) = out.as_chunks_mut::<CHUNK>();
        let whole = chunks.len() * CHUNK;
        for (i, out) in chunks.iter_mut().enumerate() {
            *out = one_chunk(conv, size, &input[i * CHUNK * step..], step, weight, bias, limits);
        }
        if !rest.is_empty() {
            let sums = one_chunk(conv, size, &input[whole * step..], step, weight, bias, limits);
            rest.copy_from_slice(&sums[..rest.len()]);
        }
    }
}

/// All taps for neighbouring outputs; `input` starts under the first tap of the first output.
#[inline(always)]
fn one_chunk(
    conv: &Conv,
    (height, width): (usize, usize),
    input: &[f32],
    step: usize,
    weight: &[f32],
    bias: f32,
    limits: (f32, f32),
) -> [f32; CHUNK] {
    let [_, tall, wide] = conv.kernel;
    let mut sums = [bias; CHUNK];
    for (line, weights) in weight.chunks_exact(wide).enumerate() {
        let (kz, ky) = (line / tall, line % tall);
        let line = &input[(kz * conv.dilation[0] * height + ky * conv.dilation[1]) * width..];
        for (kx, weight) in weights.iter().enumerate() {
            let taps = &line[kx * conv.dilation[2]..][..(CHUNK - 1) * step + 1];
            for i in 0..CHUNK {
                sums[i] += weight * taps[i * step];
            }
        }
    }
    for sum in &mut sums {
        *sum = clamp(*sum, limits);
    }
    sums
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
    let (channels, taps, limits) = (conv.out_channels, conv.taps(), epilogue.limits());
    let weight = &mut scratch[..taps * channels];
    for (channel, from) in operands.weight.chunks_exact(taps).enumerate() {
        for (tap, from) in from.iter().enumerate() {
            weight[tap * channels + channel] = *from;
        }
    }
    let weight = &*weight;
    let [deep, rows, across] = conv.output().unwrap_or_default();
    let [depth, height, width] = conv.axes();
    let image_len = operands.input.len() / conv.batch;
    split::chunks(worth(par, out.len() * taps), out, across * channels, |row, out| {
        let (image, oz, oy) = (row / rows / deep, row / rows % deep, row % rows);
        let image = &operands.input[image * image_len..][..image_len];
        let [kdeep, tall, wide] = conv.kernel;
        // The rows of the image under the rows of the kernel, with those rows' weights.
        let mut lines = [(image, weight); MOST_TAPS];
        let mut count = 0;
        for (kz, ky) in (0..kdeep).flat_map(|kz| (0..tall).map(move |ky| (kz, ky))) {
            let (Some(z), Some(y)) = (depth.source(oz, kz), height.source(oy, ky)) else { continue };
            let start = (z * height.size + y) * width.size * channels;
            lines[count] = (&image[start..][..width.size * channels], &weight[(kz * tall + ky) * wide * channels..]);
            count += 1;
        }
        let lines = &lines[..count];
        isa.vectorize(
            #[inline(always)]
            || {
                for (ox, out) in out.chunks_exact_mut(channels).enumerate() {
                    // The pixels under the taps, with the taps' weights.
                    let mut inside = [(image, weight); MOST_TAPS];
                    let mut count = 0;
                    for (line, weights) in lines {
                        for (kx, weight) in weights.chunks_exact(channels).take(wide).enumerate() {
                            if let Some(x) = width.source(ox, kx) {
                                inside[count] = (&line[x * channels..][..channels], weight);
                                count += 1;
                            }
                        }
                    }
                    one_pixel(&inside[..count], operands.bias, limits, out);
                }
            },
        );
    });
}

/// All channels of a pixel, some at a time in registers.
#[inline(always)]
fn one_pixel(inside: &[(&[f32], &[f32])], bias: Option<&[f32]>, limits: (f32, f32), out: &mut [f32]) {
    const WIDTH: usize = CHUNK;
    let whole = out.len() - out.len() % WIDTH;
    for first in (0..whole).step_by(WIDTH) {
        let mut sums = [0.0; WIDTH];
        if let Some(bias) = bias {
            sums.copy_from_slice(&bias[first..first + WIDTH]);
        }
        for (input, weight) in inside {
            let (input, weight) = (&input[first..first + WIDTH], &weight[first..first + WIDTH]);
            for i in 0..WIDTH {
                sums[i] += input[i] * weight[i];
            }
        }
        for sum in sums.iter_mut() {
            *sum = clamp(*sum, limits);
        }
        out[first..first + WIDTH].copy_from_slice(&sums);
    }
    for channel in whole..out.len() {
        let products = inside.iter().map(|(input, weight)| input[channel] * weight[channel]);
        out[channel] = clamp(products.sum::<f32>() + bias.map_or(0.0, |bias| bias[channel]), limits);
    }
}
