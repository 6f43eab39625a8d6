//! Convolutions and linear layers of bytes.

use super::convolution::{depthwise_partly, depthwise_window, describe, partly, window};
use super::{After, Context, Filter, Following, Part, ROW_HEAD, Rows, Step, Window, elements, elements_mut};
use crate::memory::Buffers;
use crate::weights::Weights;
use sconce_graph::ValueId;
use sconce_kernels::Isa;
use sconce_kernels::depthwise::{self, Depthwise};
use sconce_kernels::epilogue::Then;
use sconce_kernels::packed::Conv2d;
use sconce_kernels::packed::int8::{self, Kind, Line, Quantization};

/// Bytes in, bytes out, with scales that are known.
pub(crate) struct ConvolutionInt8 {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) filter: ValueId,
    pub(crate) layout: Filter,
    pub(crate) bias: Option<ValueId>,
    pub(crate) quantization: Quantization,
    /// The input's scale divided by the output's.
    pub(crate) ratio: f32,
}

/// A filter's bytes.
fn bytes(context: &Context<'_>, filter: ValueId) -> Vec<i8> {
    context.known.stored_integers(filter).into_iter().map(|weight| weight as i8).collect()
}

/// The factor from sums to steps of the output, per channel.
fn factors(context: &Context<'_>, filter: ValueId, channels: usize, ratio: f32) -> Vec<f32> {
    context.known.channel_scales(filter, channels).into_iter().map(|scale| scale * ratio).collect()
}

impl ConvolutionInt8 {
    fn pack(&self, context: &Context<'_>) -> Weights {
        let (isa, conv) = (context.isa, &self.conv);
        let filter = bytes(context, self.filter);
        let bias = self.bias.map(|bias| context.known.stored_integers(bias));
        let mut lines = vec![Line::default(); int8::packed_len(isa, conv, Kind::Bytes)];
        let weight = |index: usize| filter[self.layout.place(index, taps(conv), conv.out_channels)];
        let zero = self.quantization.input_zero;
        int8::pack(isa, context.par, conv, weight, bias.as_deref(), zero, &mut lines);
        let scales = factors(context, self.filter, conv.out_channels, self.ratio);
        Weights { lines, scales, ..Weights::default() }
    }
}

/// Weights of an output channel.
fn taps(conv: &Conv2d) -> usize {
    conv.kernel[0] * conv.kernel[1] * conv.in_channels / conv.groups
}

impl Step for ConvolutionInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.packed.weights(self.node, || self.pack(context));
        let (input, packed) = (elements(buffers.read(0)), (&*weights.lines, &*weights.scales));
        let (output, scratch) = (elements_mut(buffers.output), buffers.scratch);
        int8::conv2d(context.isa, context.par, &self.conv, &self.quantization, input, packed, output, scratch);
    }

    fn describe(&self) -> String {
        format!("bytes: {}", describe(&self.conv))
    }

    fn rows(&self) -> Option<&dyn Rows> {
        Some(self)
    }
}

impl Rows for ConvolutionInt8 {
    fn window(&self) -> Option<Window> {
        window(&self.conv, 1)
    }

    fn row_scratch(&self, isa: Isa) -> usize {
        int8::scratch_len(isa, &self.conv, 1)
    }

    fn prepare(&self, context: &Context<'_>) {
        context.known.packed.weights(self.node, || self.pack(context));
    }

    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, _: &[Then<'_>], output: &mut [u8]) {
        let weights = context.known.packed.weights(self.node, || self.pack(context));
        let (isa, par, conv) = (context.isa, context.par, partly(&self.conv, &part));
        let (input, packed) = (elements(part.input), (&*weights.lines, &*weights.scales));
        let scratch = &mut part.scratch[..int8::scratch_len(isa, &conv, 1)];
        int8::conv2d(isa, par, &conv, &self.quantization, input, packed, elements_mut(output), scratch);
    }
}

/// A convolution of each channel of bytes by itself.
pub(crate) struct DepthwiseInt8 {
    pub(crate) node: usize,
    pub(crate) geometry: Depthwise,
    pub(crate) filter: ValueId,
    pub(crate) bias: Option<ValueId>,
    pub(crate) quantization: Quantization,
    /// The input's scale divided by the output's.
    pub(crate) ratio: f32,
}

impl DepthwiseInt8 {
    fn weights<'a>(&self, context: &Context<'a>) -> &'a [i32] {
        let (isa, geometry) = (context.isa, &self.geometry);
        let weights = context.known.packed.weights(self.node, || {
            let filter = bytes(context, self.filter);
            let bias = self.bias.map(|bias| context.known.stored_integers(bias));
            let scale = factors(context, self.filter, geometry.channels, self.ratio);
            let mut words = vec![0; depthwise::int8::packed_len(isa, geometry)];
            let weights = depthwise::int8::Weights { weights: &filter, bias: bias.as_deref(), scale: &scale };
            depthwise::int8::pack(isa, geometry, weights, self.quantization.input_zero, &mut words);
            Weights { words, ..Weights::default() }
        });
        &weights.words
    }
}

impl Rows for DepthwiseInt8 {
    fn window(&self) -> Option<Window> {
        depthwise_window(&self.geometry, 1)
    }

    fn prepare(&self, context: &Context<'_>) {
        self.weights(context);
    }

    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, _: &[Then<'_>], output: &mut [u8]) {
        let (isa, par, packed) = (context.isa, context.par, self.weights(context));
        let (geometry, input) = (depthwise_partly(&self.geometry, &part), elements(part.input));
        depthwise::int8::depthwise(isa, par, &geometry, input, packed, self.quantization, elements_mut(output));
    }
}

impl Step for DepthwiseInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (isa, par, packed) = (context.isa, context.par, self.weights(context));
        let (input, output) = (elements(buffers.read(0)), elements_mut(buffers.output));
        depthwise::int8::depthwise(isa, par, &self.geometry, input, packed, self.quantization, output);
    }

    fn rows(&self) -> Option<&dyn Rows> {
        Some(self)
    }

    fn describe(&self) -> String {
        let Depthwise { input: [h, w], channels, kernel: [kh, kw], stride, .. } = self.geometry;
        format!("bytes: depthwise {h}x{w}x{channels}, filter {kh}x{kw}, stride {stride:?}")
    }
}

/// Rows of bytes, each with its scale and zero, in; numbers out.
pub(crate) struct ConvolutionDynamic {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) filter: ValueId,
    pub(crate) kind: Kind,
    pub(crate) layout: Filter,
    pub(crate) bias: Option<ValueId>,
    /// Rows of the input that have their own scale.
    pub(crate) rows: usize,
    pub(crate) after: Vec<After>,
}

impl ConvolutionDynamic {
    fn pack(&self, context: &Context<'_>) -> Weights {
        let (isa, par, conv) = (context.isa, context.par, &self.conv);
        let filter = context.known.stored_integers(self.filter);
        // Four-bit weights are stored with 8 added.
        let zero = if self.kind == Kind::Bytes { 0 } else { 8 };
        let weight = |index: usize| (filter[self.layout.place(index, taps(conv), conv.out_channels)] - zero) as i8;
        let mut lines = vec![Line::default(); int8::packed_len(isa, conv, self.kind)];
        let mut scales = context.known.channel_scales(self.filter, conv.out_channels);
        match self.kind {
            Kind::Bytes => int8::pack(isa, par, conv, weight, None, 0, &mut lines),
            Kind::Nibbles => int8::pack_nibbles(isa, par, conv, self.kind, weight, &[], &mut lines),
            Kind::Groups(_) => {
                let groups = context.known.group_scales(self.filter);
                int8::pack_nibbles(isa, par, conv, self.kind, weight, &groups, &mut lines);
                scales.clear();
            }
        }
        let bias = self.bias.map(|bias| context.known.numbers(bias).into_owned());
        Weights { lines, scales, bias, ..Weights::default() }
    }
}

impl Step for ConvolutionDynamic {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.packed.weights(self.node, || self.pack(context));
        let then = Following::new(&self.after, &buffers);
        let (heads, bytes) = buffers.read(0).split_at(self.rows * ROW_HEAD);
        let input = (elements(bytes), elements(heads));
        let (output, scratch) = (elements_mut(buffers.output), buffers.scratch);
        let Weights { lines, scales, bias, .. } = weights;
        let weights = int8::Weights { packed: lines, kind: self.kind, scale: scales, bias: bias.as_deref() };
        int8::conv2d_dynamic(context.isa, context.par, &self.conv, input, weights, &then, output, scratch);
    }

    fn describe(&self) -> String {
        format!("{:?}, dynamic: {}", self.kind, describe(&self.conv))
    }
}
