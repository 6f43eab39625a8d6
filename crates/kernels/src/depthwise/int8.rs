//! Depthwise convolution of bytes: quantised images and weights, with a scale per channel.
//!
//! ```text
//! sum = bias + Σ (x - input_zero) * w                   taps outside the image contribute nothing
//! y   = limits(round(sum * scale) + output_zero)        ties to even
//! ```
//!
//! Every path gives exactly these numbers. Where there are dot products of bytes, common kernels have a path of
//! their own; all else is one body of plain loops over channels. Both multiply the bytes as they are: what the
//! zero point adds to all taps is taken off the bias when packing, and taps outside the image are given the zero point.
//! The order of what is packed depends on the path, so weights are packed for an instruction set and a geometry.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::dots;
use super::{BLOCK, Depthwise, Line, Pixels, each_part};
use crate::bytes::Tail;
use crate::gemm::clamp;
use crate::isa::Isa;
use crate::math::ROUND;
use crate::split::Block;
use core::ops::Range;
use sconce_parallel::Parallel;

/// How sums become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// The byte that stands for zero in the input.
    pub input_zero: i8,
    /// The byte that stands for zero in the output.
    pub output_zero: i8,
    /// The least and the largest byte of the output.
    pub limits: (i8, i8),
    /// What lies in memory without a sign.
    pub unsigned: Unsigned,
}

/// Which bytes of a product lie in memory as 128 more than they stand for, without a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsigned {
    /// Those of the input: pixelwise products only, where
    /// [`reads_unsigned`](crate::packed::int8::reads_unsigned).
    pub input: bool,
    /// Those of the output: depthwise convolutions only, before what follows.
    pub output: bool,
}

impl Unsigned {
    /// What bytes of the output are combined with (exclusive or).
    pub(super) fn flip(self) -> i8 {
        if self.output { i8::MIN } else { 0 }
    }
}

/// The weights of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// `[taps, channels]`
    pub weights: &'a [i8],
    /// One summand per channel.
    pub bias: Option<&'a [i32]>,
    /// The factor from sums to steps of the output, per channel.
    pub scale: &'a [f32],
}

impl Weights<'_> {
    /// Writes the biases of the channels from `first` on, less what their taps add when each sees `offset` more than it
    /// should.
    pub(super) fn biases_without(&self, g: &Depthwise, first: usize, offset: i32, biases: &mut [i32]) {
        let channels = first..first + biases.len();
        biases.fill(0);
        for row in self.weights.chunks_exact(g.channels.max(1)) {
            biases.iter_mut().zip(&row[channels.clone()]).for_each(|(total, weight)| *total += i32::from(*weight));
        }
        for (to, channel) in biases.iter_mut().zip(channels) {
            *to = self.bias.map_or(0, |bias| bias[channel]).wrapping_sub(to.wrapping_mul(offset));
        }
    }

    fn check(&self, g: &Depthwise) {
        assert_eq!(self.weights.len(), g.taps() * g.channels, "weights of {g:?}");
        assert!(self.bias.is_none_or(|bias| bias.len() == g.channels), "bias of {g:?}");
        assert_eq!(self.scale.len(), g.channels, "scales of {g:?}");
    }
}

/// Channels that the plain path takes at a time: their sums and weights stay in the first-level cache.
const CHUNK: usize = 128;

/// Proof of dot products of bytes, if the set has them and they have a kernel for this geometry.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn token(isa: Isa, geometry: &Depthwise) -> Option<dots::Token> {
    let token = match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Vnni(token) => token,
        #[cfg(target_arch = "aarch64")]
        Isa::Dotprod(token) => token,
        #[cfg(target_arch = "aarch64")]
        Isa::I8mm(token) => token.into(),
        _ => return None,
    };
    dots::suits(geometry).then_some(token)
}

/// The words of packed weights.
pub fn packed_len(isa: Isa, geometry: &Depthwise) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if token(isa, geometry).is_some() {
        return dots::packed_len(geometry);
    }
    let _ = isa;
    geometry.channels * (2 + geometry.taps())
}

/// Packs weights for [`depthwise`] on the same instruction set, with the same geometry (but for the batch) and
/// `input_zero`. `packed` has [`packed_len`] words.
pub fn pack(isa: Isa, geometry: &Depthwise, weights: Weights<'_>, input_zero: i8, packed: &mut [i32]) {
    weights.check(geometry);
    assert_eq!(packed.len(), packed_len(isa, geometry), "packed weights of {geometry:?}");
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if token(isa, geometry).is_some() {
        return dots::pack(geometry, weights, input_zero, packed);
    }
    pack_rows(geometry, weights, input_zero, packed);
}

/// The order of the plain path: a row of biases, a row of scales, and a row of weights for each tap.
fn pack_rows(g: &Depthwise, from: Weights<'_>, input_zero: i8, packed: &mut [i32]) {
    let (head, weights) = packed.split_at_mut(2 * g.channels);
    let (biases, scales) = head.split_at_mut(g.channels);
    from.biases_without(g, 0, input_zero.into(), biases);
    for (to, scale) in scales.iter_mut().zip(from.scale) {
        *to = scale.to_bits().cast_signed();
    }
    for (to, weight) in weights.iter_mut().zip(from.weights) {
        *to = i32::from(*weight);
    }
}

/// Convolves `input` with weights from [`pack`]; `tail` follows. Images come with the distance of their pixels.
pub fn depthwise(
    isa: Isa,
    par: &dyn Parallel,
    geometry: &Depthwise,
    (input, from_pixel): (&[i8], usize),
    packed: &[i32],
    (quantization, tail): (Quantization, Tail<'_>),
    (output, pixel): (&mut [i8], usize),
) {
    let pixels = Pixels { input: from_pixel, output: pixel };
    let size = geometry.check((input.len(), output.len()), pixels);
    tail.check(geometry.batch * size[0] * size[1] * geometry.channels);
    assert_eq!(packed.len(), packed_len(isa, geometry), "packed weights of {geometry:?}");
    if output.is_empty() {
        return;
    }
    let after = |rows: Range<usize>, block: &mut Block<'_, i8>| {
        if !matches!(tail, Tail::Nothing) {
            let pixels = rows.start * size[1]..rows.end * size[1];
            block.each_run(pixels, geometry.channels, |at, run| tail.take(isa, at, run));
        }
    };
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(token) = token(isa, geometry) {
        return dots::depthwise(token, par, geometry, size, input, packed, (quantization, after), (output, pixels));
    }
    plain(isa, par, geometry, size, input, packed, (quantization, after), (output, pixels));
}

/// The plain path: pixel by pixel, some channels at a time.
fn plain(
    isa: Isa,
    par: &dyn Parallel,
    geometry: &Depthwise,
    size: [usize; 2],
    input: &[i8],
    packed: &[i32],
    (quantization, after): (Quantization, impl Fn(Range<usize>, &mut Block<'_, i8>) + Sync),
    (output, pixels): (&mut [i8], Pixels),
) {
    let width = size[1];
    let outside = [quantization.input_zero; CHUNK];
    each_part(par, geometry, size, BLOCK, (output, pixels), |rows, lines, block| {
        let mut sums = [0; CHUNK];
        for (row, line) in rows.clone().zip(lines) {
            isa.vectorize(
                #[inline(always)]
                || {
                    for x in 0..width {
                        let pixel = Pixel { geometry, pixels, line, x, taps: geometry.axis(1).taps(x) };
                        let first = block.columns.start;
                        for (i, output) in block.row(row * width + x).chunks_mut(CHUNK).enumerate() {
                            let (first, count) = (first + i * CHUNK, output.len());
                            let sums = &mut sums[..count];
                            sums.copy_from_slice(&packed[first..][..count]);
                            pixel.add_taps(&input[first..], &packed[2 * geometry.channels + first..], &outside, sums);
                            quantize(sums, &packed[geometry.channels + first..], quantization, output);
                        }
                    }
                },
            );
        }
        after(rows, block);
    });
}

/// An output pixel.
struct Pixel<'a> {
    geometry: &'a Depthwise,
    pixels: Pixels,
    line: &'a Line,
    x: usize,
    /// The columns of the kernel that lie in the image.
    taps: Range<usize>,
}

impl Pixel<'_> {
    /// Adds all taps to the sums of neighbouring channels, where input and weights start at the first of them.
    #[inline(always)]
    fn add_taps(&self, input: &[i8], weights: &[i32], outside: &[i8], sums: &mut [i32]) {
        let (g, line, count) = (self.geometry, self.line, sums.len());
        for ky in 0..g.kernel[0] {
            let row_inside = ky >= line.first && ky < line.first + line.rows;
            for kx in 0..g.kernel[1] {
                let values = if row_inside && self.taps.contains(&kx) {
                    let row = line.input + (ky - line.first) * g.row_step(self.pixels);
                    &input[row + (self.x * g.stride[1] + kx * g.dilation[1] - g.padding[1]) * self.pixels.input..]
                } else {
                    outside
                };
                // Lengths are made equal first: a loop that may end early keeps a part that is not vectorised.
                let weights = &weights[(ky * g.kernel[1] + kx) * g.channels..][..count];
                for ((sum, &value), &weight) in sums.iter_mut().zip(&values[..count]).zip(weights) {
                    *sum = sum.wrapping_add(i32::from(value) * weight);
                }
            }
        }
    }
}

/// Makes bytes of the sums; scales come as the bits of numbers.
#[inline(always)]
fn quantize(sums: &[i32], scales: &[i32], q: Quantization, output: &mut [i8]) {
    let (zero, flip) = (i32::from(q.output_zero), q.unsigned.flip());
    let steps = |limit: i8| (i32::from(limit) - zero) as f32;
    let limits = (steps(q.limits.0), steps(q.limits.1));
    let (sums, scales) = (&sums[..output.len()], &scales[..output.len()]);
    for ((output, &sum), &scale) in output.iter_mut().zip(sums).zip(scales) {
        // Limits are whole, so it makes no difference that they come before rounding.
        let value = clamp(sum as f32 * f32::from_bits(scale.cast_unsigned()), limits);
        let steps = (value + ROUND).to_bits().cast_signed().wrapping_sub(ROUND.to_bits().cast_signed());
        *output = (steps + zero) as i8 ^ flip;
    }
}
