//! Convolution, forward and transposed, in one, two or three dimensions, with groups.
//!
//! Everything is a matrix product whose operand is gathered from the image while it is packed (implicit GEMM): no
//! column matrix ever exists in memory.
//!
//! ```text
//! channels first:  out[oc, pixel]  = weight[oc, (ic, tap)] * columns[(ic, tap), pixel]     columns packed as B
//! channels last:   out[pixel, oc]  = patches[pixel, (tap, ic)] * weight[(tap, ic), oc]     patches packed as A
//! ```
//!
//! A transposed convolution gathers too: the input position of an output position and a tap is `(o + padding - tap *
//! dilation) / stride` where that is whole, and zero elsewhere. A group with one input channel (depthwise) has no
//! product to speak of and is done row by row. One and two dimensions are three with ones in front.
mod backward;
mod depthwise;
mod gather;
pub mod generic;
#[cfg(test)]
mod tests;

use crate::gemm::{Epilogue, Gemm, Init, Left, Matrix, WORTH_THREADS, gemm, gemm_scratch, k_step, product, work};
use crate::isa::Isa;
use crate::split::{self, Slots};
use crate::taps::Taps;
use gather::{Columns, Patches, Weights};
use sconce_parallel::{Parallel, Serial};

pub use backward::{Gradients, conv_backward};

/// The geometry of a convolution; sizes are given as depth, height, width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    /// Images.
    pub batch: usize,
    /// Channels of an input image.
    pub in_channels: usize,
    /// Size of an input image.
    pub input: [usize; 3],
    /// Channels of an output image.
    pub out_channels: usize,
    /// Size of the kernel.
    pub kernel: [usize; 3],
    /// Steps between output positions (of input positions, if transposed).
    pub stride: [usize; 3],
    /// Zeros around the input (cut from the output, if transposed).
    pub padding: [usize; 3],
    /// Distance between taps.
    pub dilation: [usize; 3],
    /// Independent parts of the channels.
    pub groups: usize,
    /// Extra size at the end of the output of a transposed convolution.
    pub output_padding: [usize; 3],
    /// Whether this is the transposed convolution.
    pub transposed: bool,
}

/// How images lie in memory. Weights are always as PyTorch keeps them: `[out, in / groups, taps]`, or
/// `[in, out / groups, taps]` if transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[batch, channel, depth, height, width]`
    ChannelsFirst,
    /// `[batch, depth, height, width, channel]`
    ChannelsLast,
}

impl Conv {
    /// The size of an output image, or `None` if the geometry makes no sense or does not fit.
    pub fn output(&self) -> Option<[usize; 3]> {
        let whole = self.groups > 0
            && self.in_channels.is_multiple_of(self.groups)
            && self.out_channels.is_multiple_of(self.groups);
        let mut output = [0; 3];
        for (axis, output) in output.iter_mut().enumerate() {
            let reach = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?;
            let padding = self.padding[axis].checked_mul(2)?;
            *output = if self.transposed {
                let spread = self.input[axis].checked_sub(1)?.checked_mul(self.stride[axis])?;
                let end = spread.checked_add(reach)?.checked_add(self.output_padding[axis])?.checked_add(1)?;
                end.checked_sub(padding)?
            } else {
                let room = self.input[axis].checked_add(padding)?.checked_sub(reach)?.checked_sub(1)?;
                room.checked_div(self.stride[axis])? + 1
            };
        }
        whole.then_some(output)
    }

    fn axes(&self) -> [Taps; 3] {
        [0, 1, 2].map(|axis| Taps {
            size: self.input[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
            transposed: self.transposed,
        })
    }

    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    fn group_in(&self) -> usize {
        self.in_channels / self.groups
    }

    fn group_out(&self) -> usize {
        self.out_channels / self.groups
    }

    /// Elements of an input image, of the weight, and of an output image.
    fn lengths(&self) -> (usize, usize, usize) {
        let pixels: usize = self.input.iter().product();
        let output: usize = self.output().unwrap_or_default().iter().product();
        let weight = self.in_channels * self.group_out() * self.taps();
        (self.in_channels * pixels, weight, self.out_channels * output)
    }

    fn check(&self, input: usize, weight: usize, bias: Option<usize>, output: usize) {
        assert!(self.output().is_some(), "{self:?} is not a convolution");
        let lengths = self.lengths();
        assert_eq!(input, self.batch * lengths.0, "input elements of {self:?}");
        assert_eq!(weight, lengths.1, "weight elements of {self:?}");
        assert_eq!(output, self.batch * lengths.2, "output elements of {self:?}");
        assert!(bias.is_none_or(|bias| bias == self.out_channels), "bias elements of {self:?}");
    }

    /// Whether a pixel's product is that of one input pixel, in place.
    fn is_pointwise(&self) -> bool {
        self.taps() == 1 && self.stride == [1; 3] && self.padding == [0; 3] && self.output_padding == [0; 3]
    }

    fn is_depthwise(&self, layout: Layout) -> bool {
        let suits = match layout {
            Layout::ChannelsFirst => self.group_out() <= 4,
            Layout::ChannelsLast => self.group_out() == 1 && self.taps() <= depthwise::MOST_TAPS,
        };
        self.group_in() == 1 && suits && !self.transposed
    }
}

/// The scratch, in elements, that [`conv`] needs on a [`Parallel`] of this width.
pub fn conv_scratch(conv: &Conv, layout: Layout, width: usize) -> usize {
    let Some(output) = conv.output() else { return 0 };
    let pixels: usize = output.iter().product();
    let k = conv.group_in() * conv.taps();
    match (conv.is_depthwise(layout), layout) {
        (true, Layout::ChannelsFirst) => depthwise::plane_scratch(conv) * Slots::<f32>::count(width),
        (true, Layout::ChannelsLast) => conv.taps() * conv.out_channels,
        (false, Layout::ChannelsFirst) if pixels == 1 => {
            gemm_scratch(conv.group_out(), pixels, k, width).max(gemm_scratch(conv.batch, conv.group_out(), k, width))
        }
        (false, Layout::ChannelsFirst) => gemm_scratch(conv.group_out(), pixels, k, width),
        (false, Layout::ChannelsLast) => gemm_scratch(conv.batch * pixels, conv.group_out(), k, width),
    }
}

/// The arrays of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, T = f32> {
    /// The images.
    pub input: &'a [T],
    /// The weight, as PyTorch keeps it.
    pub weight: &'a [T],
    /// One value per output channel.
    pub bias: Option<&'a [T]>,
}

/// Convolves `f32` images, adds the bias and applies the epilogue. `scratch` has [`conv_scratch`] elements.
pub fn conv(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    layout: Layout,
    operands: Operands<'_>,
    epilogue: Epilogue,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    conv.check(operands.input.len(), operands.weight.len(), operands.bias.map(<[f32]>::len), out.len());
    match (conv.is_depthwise(layout), layout) {
        _ if out.is_empty() => {}
        (true, Layout::ChannelsFirst) => depthwise::channels_first(isa, par, conv, operands, epilogue, out, scratch),
        (true, Layout::ChannelsLast) => depthwise::channels_last(isa, par, conv, operands, epilogue, out, scratch),
        (false, Layout::ChannelsFirst) => channels_first(isa, par, conv, operands, epilogue, out, scratch),
        (false, Layout::ChannelsLast) => channels_last(isa, par, conv, operands, epilogue, out, scratch),
    }
}

/// One product per image and group; their outputs lie one after the other.
fn channels_first(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    operands: Operands<'_>,
    epilogue: Epilogue,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let (m, k) = (conv.group_out(), conv.group_in() * conv.taps());
    let items = conv.batch * conv.groups;
    let n = out.len() / items / m;
    let input_len = operands.input.len() / items;
    if n == 1 && input_len == k && conv.groups == 1 && conv.is_pointwise() && !conv.transposed {
        // Images of one pixel are the rows of a linear layer.
        let (a, b) = (Matrix::row_major(operands.input, k), Matrix::transposed(operands.weight, k));
        let init = operands.bias.map_or(Init::Zero, Init::PerColumn);
        return gemm(isa, par, &Gemm { m: items, n: m, k, a, b, init, epilogue }, out, m, scratch);
    }
    let item = |par: &dyn Parallel, i: usize, out: &mut [f32], scratch: &mut [f32]| {
        let group = i % conv.groups;
        let input = &operands.input[i * input_len..][..input_len];
        let init = operands.bias.map_or(Init::Zero, |bias| Init::PerRow(&bias[group * m..][..m]));
        let weights = Weights::new(conv, operands.weight, group);
        let columns = Columns::new(conv, input);
        let (shape, finish) = ((m, n, k, k_step(k)), (init, epilogue));
        match (conv.is_pointwise(), conv.transposed) {
            (true, false) => {
                let pixels = Matrix::row_major(input, n);
                product(isa, par, shape, &weights.matrix(), &pixels, finish, out, n, scratch)
            }
            (false, false) => product(isa, par, shape, &weights.matrix(), &columns, finish, out, n, scratch),
            _ => product(isa, par, shape, &weights, &columns, finish, out, n, scratch),
        }
    };
    let worth = work(m, n, k).saturating_mul(items) >= WORTH_THREADS;
    if par.width() > 1 && items >= 2 * par.width() && worth {
        let slots = Slots::new(scratch, gemm_scratch(m, n, k, 1), par.width());
        split::chunks(par, out, m * n, |i, out| slots.with(|scratch| item(&Serial, i, out, scratch)));
    } else {
        out.chunks_exact_mut(m * n).enumerate().for_each(|(i, out)| item(par, i, out, scratch));
    }
}

/// One product per group, over the pixels of all images.
fn channels_last(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv,
    operands: Operands<'_>,
    epilogue: Epilogue,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let (n, k) = (conv.group_out(), conv.group_in() * conv.taps());
    let m = out.len() / conv.out_channels;
    for group in 0..conv.groups {
        let init = operands.bias.map_or(Init::Zero, |bias| Init::PerColumn(&bias[group * n..][..n]));
        let weights = Weights::new(conv, operands.weight, group);
        let (shape, finish) = ((m, n, k, weights.k_step()), (init, epilogue));
        let out = &mut out[group * n..];
        let input = &operands.input[group * conv.group_in()..];
        if conv.is_pointwise() && !conv.transposed {
            let pixels = Matrix { data: input, row_stride: conv.in_channels, col_stride: 1 };
            product(isa, par, shape, &pixels, &weights.matrix().flipped(), finish, out, conv.out_channels, scratch);
        } else {
            let patches = Patches::new(conv, input);
            product(isa, par, shape, &patches, &weights, finish, out, conv.out_channels, scratch);
        }
    }
}

impl<'a> Matrix<'a> {
    fn flipped(self) -> Self {
        Self { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

impl Left for Weights<'_> {
    fn in_place(&self) -> Option<(&[f32], usize)> {
        None
    }

    fn pack(&self, rows: core::ops::Range<usize>, ks: core::ops::Range<usize>, out: &mut [f32]) {
        let k = ks.len();
        for (i, oc) in rows.enumerate() {
            for (p, to) in ks.clone().zip(&mut out[i * k..][..k]) {
                *to = self.channel_major(oc, p);
            }
        }
    }
}
