//! Convolutions and linear layers with constant filters.

use super::{After, Context, Following, Step, elements, elements_mut};
use crate::memory::Buffers;
use crate::weights::Weights;
use sconce_graph::ValueId;
use sconce_kernels::Isa;
use sconce_kernels::depthwise::{self, Depthwise};
use sconce_kernels::packed::{self, Conv2d, conv2d, pack, packed_len};
use sconce_kernels::winograd::{self, Output};

/// How a filter lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// `[out, taps, in]`
    Rows,
    /// `[taps, in, out]`
    Columns,
}

impl Filter {
    /// The place of weight `index`, counted in `[out, taps, in]` with `k` weights per output channel.
    pub(crate) fn place(self, index: usize, k: usize, out: usize) -> usize {
        match self {
            Self::Rows => index,
            Self::Columns => index % k * out + index / k,
        }
    }
}

/// A convolution in words.
pub(super) fn describe(conv: &Conv2d) -> String {
    let Conv2d { input: [h, w], in_channels, out_channels, kernel: [kh, kw], stride, .. } = conv;
    format!("packed product {h}x{w}x{in_channels} -> {out_channels}, filter {kh}x{kw}, stride {stride:?}")
}

/// A convolution, or a linear layer as the convolution of one tap.
pub(crate) struct Convolution {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) filter: ValueId,
    pub(crate) layout: Filter,
    pub(crate) bias: Option<ValueId>,
    pub(crate) after: Vec<After>,
}

impl Convolution {
    fn pack(&self, context: &Context<'_>) -> Weights {
        let conv = &self.conv;
        context.known.pack(context.par, packed_len(context.isa, conv), |floats| {
            let filter = context.known.numbers(self.filter);
            let bias = self.bias.map(|bias| context.known.numbers(bias));
            let filter = match self.layout {
                Filter::Rows => packed::Filter::Rows(&filter),
                Filter::Columns => packed::Filter::Columns(&filter),
            };
            pack(context.isa, context.par, conv, filter, bias.as_deref(), floats);
        })
    }
}

impl Step for Convolution {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let then = Following::new(&self.after, &buffers);
        let input = elements(buffers.read(0));
        conv2d(context.isa, context.par, &self.conv, input, weights.packed(), &then, elements_mut(buffers.output));
    }

    fn describe(&self) -> String {
        describe(&self.conv)
    }
}

/// A three by three convolution with fewer multiplications, and a little more rounding.
pub(crate) struct Winograd {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) output: Output,
    pub(crate) filter: ValueId,
    pub(crate) bias: Option<ValueId>,
    pub(crate) after: Vec<After>,
}

impl Winograd {
    /// Bytes of scratch on so many threads.
    pub(crate) fn scratch(&self, isa: Isa, width: usize) -> usize {
        winograd::scratch_len(isa, &self.conv, self.output, width) * size_of::<f32>()
    }

    fn pack(&self, context: &Context<'_>) -> Weights {
        let length = winograd::packed_len(context.isa, &self.conv, self.output);
        let bias = self.bias.map(|bias| context.known.numbers(bias).into_owned());
        let packed = context.known.pack(context.par, length, |floats| {
            let filter = context.known.numbers(self.filter);
            winograd::pack(context.isa, context.par, &self.conv, self.output, &filter, floats);
        });
        Weights { bias, ..packed }
    }
}

impl Step for Winograd {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let then = Following::new(&self.after, &buffers);
        let (input, packed) = (elements(buffers.read(0)), weights.packed());
        let (scratch, output) = (elements_mut(buffers.scratch), elements_mut(buffers.output));
        let (isa, par, bias) = (context.isa, context.par, weights.bias.as_deref());
        winograd::winograd(isa, par, &self.conv, self.output, input, packed, bias, &then, scratch, output);
    }

    fn describe(&self) -> String {
        let Conv2d { input: [h, w], in_channels, out_channels, .. } = self.conv;
        format!("Winograd {:?} {h}x{w}x{in_channels} -> {out_channels}, filter 3x3", self.output)
    }
}

/// A convolution of each channel by itself.
pub(crate) struct DepthwiseConvolution {
    pub(crate) node: usize,
    pub(crate) geometry: Depthwise,
    pub(crate) filter: ValueId,
    pub(crate) bias: Option<ValueId>,
    pub(crate) after: Vec<After>,
}

impl Step for DepthwiseConvolution {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let Depthwise { channels, kernel, .. } = self.geometry;
        let weights = context.known.weights(self.node, || {
            context.known.pack(context.par, depthwise::packed_len(channels, kernel), |packed| {
                let filter = context.known.numbers(self.filter);
                let bias = self.bias.map(|bias| context.known.numbers(bias));
                depthwise::pack(channels, kernel, &filter, bias.as_deref(), packed);
            })
        });
        let then = Following::new(&self.after, &buffers);
        let input = elements(buffers.read(0));
        let output = elements_mut(buffers.output);
        depthwise::depthwise(context.isa, context.par, &self.geometry, input, weights.packed(), &then, output);
    }

    fn describe(&self) -> String {
        let Depthwise { input: [h, w], channels, kernel: [kh, kw], stride, .. } = self.geometry;
        format!("depthwise {h}x{w}x{channels}, filter {kh}x{kw}, stride {stride:?}")
    }
}
