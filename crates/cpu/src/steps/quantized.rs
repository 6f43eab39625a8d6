//! Convolutions and linear layers of int8.

use super::convolution::{depthwise_partly, depthwise_products, depthwise_window, describe, partly, products, window};
use super::{
    After, Context, Filter, Following, Part, Pixels, ROW_HEAD, Rows, Step, Tail, Window, Work, elements, elements_mut,
};
use crate::memory::Buffers;
use crate::weights::{Lengths, Weights};
use sconce_graph::ValueId;
use sconce_kernels::Isa;
use sconce_kernels::depthwise::{self, Depthwise};
use sconce_kernels::epilogue::Then;
use sconce_kernels::packed::int8::{self, Kind, Line, Quantization};
use sconce_kernels::packed::{self, Conv2d};
use sconce_kernels::winograd;

/// int8 in, int8 out, with scales that are known.
pub(crate) struct ConvolutionInt8 {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) filter: ValueId,
    pub(crate) layout: Filter,
    pub(crate) bias: Option<ValueId>,
    pub(crate) quantization: Quantization,
    /// The scales of input and output.
    pub(crate) scales: (f32, f32),
    pub(crate) tail: Tail,
    pub(crate) pixels: Pixels,
}

/// A filter of int8, as the kernel takes it.
fn bytes<'a>(context: &Context<'a>, filter: ValueId, layout: Filter) -> packed::Filter<'a, i8> {
    let bytes = context.known.signed_bytes(filter);
    match layout {
        Filter::Rows => packed::Filter::Rows(bytes),
        Filter::Columns => packed::Filter::Columns(bytes),
    }
}

/// The factor from sums to steps of the output, per channel: multiplied first, then divided, as XNNPACK rounds it. Another
/// order is off by a unit in the last place for some channels, and there one byte in a hundred thousand falls on the other
/// side of a tie.
fn factors(context: &Context<'_>, filter: ValueId, channels: usize, (from, to): (f32, f32)) -> Vec<f32> {
    context.known.channel_scales(filter, channels).into_iter().map(|scale| from * scale / to).collect()
}

impl ConvolutionInt8 {
    fn pack(&self, context: &Context<'_>) -> Weights {
        let (isa, par, zero) = (context.isa, context.par, self.quantization.input_zero);
        self.pack_lines(context, int8::packed_len(isa, &self.conv, Kind::Bytes), |bias, lines| {
            let filter = bytes(context, self.filter, self.layout);
            int8::pack(isa, par, &self.conv, filter, bias, zero, lines);
        })
    }

    /// So many lines, which `pack` fills, given the bias, and a scale for each channel.
    fn pack_lines(
        &self,
        context: &Context<'_>,
        packed: usize,
        pack: impl FnOnce(Option<&[i32]>, &mut [Line]),
    ) -> Weights {
        let lengths = Lengths { packed, scales: self.conv.out_channels, bias: 0 };
        context.known.pack(self.node, context.par, lengths, |parts| {
            let bias = self.bias.map(|bias| context.known.stored_integers(bias));
            pack(bias.as_deref(), parts.packed);
            parts.scales.copy_from_slice(&factors(context, self.filter, self.conv.out_channels, self.scales));
        })
    }
}

/// Weights of an output channel.
fn taps(conv: &Conv2d) -> usize {
    conv.kernel[0] * conv.kernel[1] * conv.in_channels / conv.groups
}

impl Step for ConvolutionInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let (input, packed) =
            (elements(buffers.read(0)), (weights.packed(&context.known), weights.scales(&context.known)));
        let how = (&self.quantization, self.tail.of(&buffers));
        let (output, scratch) = ((elements_mut(buffers.output), self.pixels.output), buffers.scratch);
        int8::conv2d(context.isa, context.par, &self.conv, how, input, packed, output, scratch);
    }

    fn describe(&self) -> String {
        let place = if self.quantization.unsigned.input { " in place" } else { "" };
        format!("bytes{place}: {}{}", describe(&self.conv), self.tail)
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        int8::tiling(isa, &self.conv, Kind::Bytes, threads).map(|tiling| tiling.to_string())
    }

    fn work(&self) -> Work {
        Work { bytes: products(&self.conv), ..Work::default() }
    }
}

impl Rows for ConvolutionInt8 {
    fn window(&self) -> Option<Window> {
        window(&self.conv, self.pixels, 1)
    }

    fn row_scratch(&self, isa: Isa) -> usize {
        int8::scratch_len(isa, &self.conv, Kind::Bytes, 1)
    }

    fn prepare(&self, context: &Context<'_>) {
        context.known.weights(self.node, || self.pack(context));
    }

    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, _: &[Then<'_>], output: &mut [u8]) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let (isa, par, conv) = (context.isa, context.par, partly(&self.conv, &part));
        let (input, packed) = (elements(part.input), (weights.packed(&context.known), weights.scales(&context.known)));
        let scratch = &mut part.scratch[..int8::scratch_len(isa, &conv, Kind::Bytes, 1)];
        let how = (&self.quantization, self.tail.alone());
        let output = (elements_mut(output), self.pixels.output);
        int8::conv2d(isa, par, &conv, how, input, packed, output, scratch);
    }
}

/// A three by three convolution of int8 by Winograd's method, which gives the same results.
pub(crate) struct WinogradInt8(pub(crate) ConvolutionInt8);

impl WinogradInt8 {
    /// Bytes of scratch on so many threads.
    pub(crate) fn scratch(&self, isa: Isa, width: usize) -> usize {
        winograd::int8::scratch_len(isa, &self.0.conv, width) * size_of::<i32>()
    }

    fn pack(&self, context: &Context<'_>) -> Weights {
        let (isa, par, conv) = (context.isa, context.par, &self.0.conv);
        self.0.pack_lines(context, winograd::int8::packed_len(conv), |bias, lines| {
            let filter = context.known.signed_bytes(self.0.filter);
            winograd::int8::pack(isa, par, conv, filter, bias, self.0.quantization.input_zero, lines);
        })
    }
}

impl Step for WinogradInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let ConvolutionInt8 { node, conv, quantization, tail, pixels, .. } = &self.0;
        let weights = context.known.weights(*node, || self.pack(context));
        let weights = (weights.packed(&context.known), weights.scales(&context.known));
        let (how, input) = ((quantization, tail.of(&buffers)), (elements(buffers.read(0)), pixels.input));
        let (output, scratch) = ((elements_mut(buffers.output), pixels.output), elements_mut(buffers.scratch));
        winograd::int8::winograd(context.isa, context.par, conv, how, input, weights, output, scratch);
    }

    fn describe(&self) -> String {
        let Conv2d { input: [h, w], in_channels, out_channels, .. } = self.0.conv;
        format!("bytes: Winograd Four {h}x{w}x{in_channels} -> {out_channels}, filter 3x3{}", self.0.tail)
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        Some(winograd::int8::tiling(isa, &self.0.conv, threads).to_string())
    }

    fn work(&self) -> Work {
        self.0.work()
    }
}

/// A convolution of each channel of int8 by itself.
pub(crate) struct DepthwiseInt8 {
    pub(crate) node: usize,
    pub(crate) geometry: Depthwise,
    pub(crate) filter: ValueId,
    pub(crate) bias: Option<ValueId>,
    pub(crate) quantization: Quantization,
    /// The scales of input and output.
    pub(crate) scales: (f32, f32),
    pub(crate) tail: Tail,
    pub(crate) pixels: Pixels,
}

impl DepthwiseInt8 {
    fn weights<'a>(&self, context: &Context<'a>) -> &'a [i32] {
        let (isa, geometry) = (context.isa, &self.geometry);
        let weights = context.known.weights(self.node, || {
            let lengths = Lengths { packed: depthwise::int8::packed_len(isa, geometry), ..Lengths::default() };
            context.known.pack(self.node, context.par, lengths, |parts| {
                let filter = context.known.signed_bytes(self.filter);
                let bias = self.bias.map(|bias| context.known.stored_integers(bias));
                let scale = factors(context, self.filter, geometry.channels, self.scales);
                let weights = depthwise::int8::Weights { weights: filter, bias: bias.as_deref(), scale: &scale };
                depthwise::int8::pack(isa, geometry, weights, self.quantization.input_zero, parts.packed);
            })
        });
        weights.packed(&context.known)
    }
}

impl Rows for DepthwiseInt8 {
    fn window(&self) -> Option<Window> {
        depthwise_window(&self.geometry, self.pixels, 1)
    }

    fn prepare(&self, context: &Context<'_>) {
        self.weights(context);
    }

    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, _: &[Then<'_>], output: &mut [u8]) {
        let (isa, par, packed) = (context.isa, context.par, self.weights(context));
        let (geometry, input) = (depthwise_partly(&self.geometry, &part), (elements(part.input), self.pixels.input));
        let how = (self.quantization, self.tail.alone());
        let output = (elements_mut(output), self.pixels.output);
        depthwise::int8::depthwise(isa, par, &geometry, input, packed, how, output);
    }
}

impl Step for DepthwiseInt8 {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (isa, par, packed) = (context.isa, context.par, self.weights(context));
        let how = (self.quantization, self.tail.of(&buffers));
        let input = (elements(buffers.read(0)), self.pixels.input);
        let output = (elements_mut(buffers.output), self.pixels.output);
        depthwise::int8::depthwise(isa, par, &self.geometry, input, packed, how, output);
    }

    fn describe(&self) -> String {
        let Depthwise { input: [h, w], channels, kernel: [kh, kw], stride, .. } = self.geometry;
        format!("bytes: depthwise {h}x{w}x{channels}, filter {kh}x{kw}, stride {stride:?}{}", self.tail)
    }

    fn work(&self) -> Work {
        Work { bytes: depthwise_products(&self.geometry), ..Work::default() }
    }
}

/// Rows of int8, each with its scale and zero, in; `float32` out.
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
        let known = &context.known;
        let lengths = Lengths {
            packed: int8::packed_len(isa, conv, self.kind),
            scales: if let Kind::Groups(_) = self.kind { 0 } else { conv.out_channels },
            bias: self.bias.map_or(0, |_| conv.out_channels),
        };
        known.pack(self.node, par, lengths, |parts| {
            match self.kind {
                Kind::Bytes => {
                    int8::pack(isa, par, conv, bytes(context, self.filter, self.layout), None, 0, parts.packed);
                }
                Kind::Nibbles | Kind::Groups(_) => {
                    let (filter, scales) =
                        (known.nibbles(self.filter, self.layout, taps(conv)), known.group_scales(self.filter));
                    int8::pack_nibbles(isa, par, conv, self.kind, &filter, &scales, parts.packed);
                }
            }
            parts.scales.copy_from_slice(&known.channel_scales(self.filter, parts.scales.len()));
            self.bias.iter().for_each(|&bias| parts.bias.copy_from_slice(&known.numbers(bias)));
        })
    }
}

impl Step for ConvolutionDynamic {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let then = Following::new(&self.after, &buffers);
        let (heads, bytes) = buffers.read(0).split_at(self.rows * ROW_HEAD);
        let input = (elements(bytes), elements(heads));
        let (output, scratch) = (elements_mut(buffers.output), buffers.scratch);
        let weights = int8::Weights {
            packed: weights.packed(&context.known),
            kind: self.kind,
            scale: weights.scales(&context.known),
            bias: weights.bias(&context.known),
        };
        int8::conv2d_dynamic(context.isa, context.par, &self.conv, input, weights, &then, output, scratch);
    }

    fn work(&self) -> Work {
        Work { bytes: products(&self.conv), ..Work::default() }
    }

    fn describe(&self) -> String {
        format!("{:?}, dynamic: {}", self.kind, describe(&self.conv))
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        int8::tiling(isa, &self.conv, self.kind, threads).map(|tiling| tiling.to_string())
    }
}
