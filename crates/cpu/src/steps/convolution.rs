//! Convolutions and linear layers with constant filters.

use super::{After, Context, Following, Part, Rows, Step, Window, Work, elements, elements_mut, times};
use crate::memory::Buffers;
use crate::weights::{Known, Lengths, Weights};
use sconce_graph::ValueId;
use sconce_kernels::Isa;
use sconce_kernels::depthwise::{self, Depthwise};
use sconce_kernels::epilogue::Then;
use sconce_kernels::packed::{self, Conv2d, conv2d, pack, packed_len};
use sconce_kernels::winograd::{self, Output};
use std::borrow::Cow;

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

/// The constants of a product of floats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) filter: ValueId,
    pub(crate) bias: Option<ValueId>,
    /// For each output channel, what its filter is multiplied by.
    pub(crate) factors: Option<ValueId>,
}

impl Parameters {
    /// The filter as `float32`; it lies so in memory.
    fn filter<'a>(&self, known: &Known<'a>, layout: Filter) -> Cow<'a, [f32]> {
        let filter = known.numbers(self.filter);
        let Some(factors) = self.factors.map(|factors| known.numbers(factors)) else { return filter };
        let (mut filter, out) = (filter.into_owned(), factors.len().max(1));
        match layout {
            Filter::Rows => {
                let row = (filter.len() / out).max(1);
                for (row, factor) in filter.chunks_exact_mut(row).zip(&*factors) {
                    row.iter_mut().for_each(|weight| *weight *= factor);
                }
            }
            Filter::Columns => {
                for row in filter.chunks_exact_mut(out) {
                    row.iter_mut().zip(&*factors).for_each(|(weight, factor)| *weight *= factor);
                }
            }
        }
        Cow::Owned(filter)
    }

    fn bias<'a>(&self, known: &Known<'a>) -> Option<Cow<'a, [f32]>> {
        self.bias.map(|bias| known.numbers(bias))
    }
}

/// Elements from one pixel to the next, of an image that is read and of one that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pixels {
    pub(crate) input: usize,
    pub(crate) output: usize,
}

impl Pixels {
    /// Of images with so many channels and nothing else.
    pub(crate) fn new(input: usize, output: usize) -> Self {
        Self { input, output }
    }
}

/// Bytes of a `float32`.
const NUMBER: usize = size_of::<f32>();

/// A convolution in words.
pub(super) fn describe(conv: &Conv2d) -> String {
    let Conv2d { input: [h, w], in_channels, out_channels, kernel: [kh, kw], stride, .. } = conv;
    format!("packed product {h}x{w}x{in_channels} -> {out_channels}, filter {kh}x{kw}, stride {stride:?}")
}

/// Multiplications of a convolution, as a plain sum of products.
pub(super) fn products(conv: &Conv2d) -> u64 {
    let [height, width] = if conv.transposed { conv.input } else { conv.output().unwrap_or_default() };
    let [kh, kw] = conv.kernel;
    times(&[conv.batch, height, width, conv.out_channels, kh, kw, conv.in_channels / conv.groups.max(1)])
}

/// Multiplications of a depthwise convolution.
pub(super) fn depthwise_products(geometry: &Depthwise) -> u64 {
    let ([height, width], [kh, kw]) = (geometry.output().unwrap_or_default(), geometry.kernel);
    times(&[geometry.batch, height, width, geometry.channels, kh, kw])
}

/// A convolution, or a linear layer as the convolution of one tap.
pub(crate) struct Convolution {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) parameters: Parameters,
    pub(crate) layout: Filter,
    pub(crate) after: Vec<After>,
    pub(crate) pixels: Pixels,
}

impl Convolution {
    fn pack(&self, context: &Context<'_>) -> Weights {
        let conv = &self.conv;
        let lengths = Lengths { packed: packed_len(context.isa, conv), ..Lengths::default() };
        context.known.pack(self.node, context.par, lengths, |parts| {
            let filter = self.parameters.filter(&context.known, self.layout);
            let bias = self.parameters.bias(&context.known);
            let filter = match self.layout {
                Filter::Rows => packed::Filter::Rows(&filter),
                Filter::Columns => packed::Filter::Columns(&filter),
            };
            pack(context.isa, context.par, conv, filter, bias.as_deref(), parts.packed);
        })
    }
}

impl Step for Convolution {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let then = Following::new(&self.after, &buffers);
        let input = (elements(buffers.read(0)), self.pixels.input);
        let output = (elements_mut(buffers.output), self.pixels.output);
        conv2d(context.isa, context.par, &self.conv, input, weights.packed(&context.known), &then, output);
    }

    fn describe(&self) -> String {
        describe(&self.conv)
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        packed::tiling(isa, &self.conv, threads).map(|tiling| tiling.to_string())
    }

    fn work(&self) -> Work {
        Work { floats: products(&self.conv), ..Work::default() }
    }
}

/// The vertical geometry of a convolution with elements of `size` bytes.
pub(super) fn window(conv: &Conv2d, pixels: Pixels, size: usize) -> Option<Window> {
    let [height, width] = conv.output()?;
    let reach = (conv.kernel[0] - 1) * conv.dilation[0];
    let inside = conv.padding[0] <= reach && conv.padding[2] <= reach;
    (conv.batch == 1 && !conv.transposed && inside).then_some(Window {
        rows: [conv.input[0], height],
        bytes: [conv.input[1] * pixels.input * size, width * pixels.output * size],
        elements: width * conv.out_channels,
        stride: conv.stride[0],
        reach,
        above: conv.padding[0],
    })
}

/// The convolution of a part of the image.
pub(super) fn partly(conv: &Conv2d, part: &Part<'_>) -> Conv2d {
    let [_, left, _, right] = conv.padding;
    let padding = [part.outside[0], left, part.outside[1], right];
    Conv2d { input: [part.rows, conv.input[1]], padding, ..*conv }
}

impl Rows for Convolution {
    fn window(&self) -> Option<Window> {
        window(&self.conv, self.pixels, NUMBER)
    }

    fn after(&self) -> &[After] {
        &self.after
    }

    fn prepare(&self, context: &Context<'_>) {
        context.known.weights(self.node, || self.pack(context));
    }

    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, then: &[Then<'_>], output: &mut [u8]) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let (conv, packed) = (partly(&self.conv, &part), weights.packed(&context.known));
        let input = (elements(part.input), self.pixels.input);
        let output = (elements_mut(output), self.pixels.output);
        conv2d(context.isa, context.par, &conv, input, packed, then, output);
    }
}

/// A pixelwise convolution of an image whose channels are multiplied first, by factors that are known only when it runs (the
/// gate of squeeze and excite). It multiplies its weights instead, of which there are fewer.
pub(crate) struct Gated {
    pub(crate) convolution: Convolution,
    /// Which read is the gate.
    pub(crate) gate: usize,
}

impl Gated {
    /// Bytes of scratch.
    pub(crate) fn scratch(&self, isa: Isa) -> usize {
        packed_len(isa, &self.convolution.conv) * size_of::<f32>()
    }
}

impl Step for Gated {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let Convolution { node, conv, after, pixels, .. } = &self.convolution;
        let weights = context.known.weights(*node, || self.convolution.pack(context));
        let then = Following::new(after, &buffers);
        let (input, gate) = (elements(buffers.read(0)), elements(buffers.read(self.gate)));
        let (gated, output) = (elements_mut(buffers.scratch), elements_mut(buffers.output));
        packed::gate(context.isa, context.par, conv, weights.packed(&context.known), gate, gated);
        conv2d(context.isa, context.par, conv, (input, pixels.input), gated, &then, (output, pixels.output));
    }

    fn describe(&self) -> String {
        format!("{}, weights times a gate", self.convolution.describe())
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        self.convolution.cut(isa, threads)
    }

    fn work(&self) -> Work {
        self.convolution.work()
    }
}

/// A three by three convolution with fewer multiplications, and a little more rounding.
pub(crate) struct Winograd {
    pub(crate) node: usize,
    pub(crate) conv: Conv2d,
    pub(crate) output: Output,
    pub(crate) parameters: Parameters,
    pub(crate) after: Vec<After>,
    pub(crate) pixels: Pixels,
}

impl Winograd {
    /// Bytes of scratch on so many threads.
    pub(crate) fn scratch(&self, isa: Isa, width: usize) -> usize {
        winograd::scratch_len(isa, &self.conv, self.output, width) * size_of::<f32>()
    }

    fn pack(&self, context: &Context<'_>) -> Weights {
        let packed = winograd::packed_len(context.isa, &self.conv, self.output);
        let bias = self.parameters.bias.map_or(0, |_| self.conv.out_channels);
        context.known.pack(self.node, context.par, Lengths { packed, bias, scales: 0 }, |parts| {
            let filter = self.parameters.filter(&context.known, Filter::Rows);
            winograd::pack(context.isa, context.par, &self.conv, self.output, &filter, parts.packed);
            self.parameters.bias(&context.known).iter().for_each(|bias| parts.bias.copy_from_slice(bias));
        })
    }
}

impl Step for Winograd {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let weights = context.known.weights(self.node, || self.pack(context));
        let then = Following::new(&self.after, &buffers);
        let (input, packed) = ((elements(buffers.read(0)), self.pixels.input), weights.packed(&context.known));
        let (scratch, output) = (elements_mut(buffers.scratch), (elements_mut(buffers.output), self.pixels.output));
        let (isa, par, bias) = (context.isa, context.par, weights.bias(&context.known));
        winograd::winograd(isa, par, &self.conv, self.output, input, packed, bias, &then, scratch, output);
    }

    fn describe(&self) -> String {
        let Conv2d { input: [h, w], in_channels, out_channels, .. } = self.conv;
        format!("Winograd {:?} {h}x{w}x{in_channels} -> {out_channels}, filter 3x3", self.output)
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        Some(winograd::tiling(isa, &self.conv, self.output, threads).to_string())
    }

    fn work(&self) -> Work {
        Work { floats: products(&self.conv), ..Work::default() }
    }
}

/// A convolution of each channel by itself.
pub(crate) struct DepthwiseConvolution {
    pub(crate) node: usize,
    pub(crate) geometry: Depthwise,
    pub(crate) parameters: Parameters,
    pub(crate) after: Vec<After>,
    pub(crate) pixels: Pixels,
}

impl DepthwiseConvolution {
    fn weights<'a>(&self, context: &Context<'a>) -> &'a [f32] {
        let Depthwise { channels, kernel, .. } = self.geometry;
        let weights = context.known.weights(self.node, || {
            let lengths = Lengths { packed: depthwise::packed_len(channels, kernel), ..Lengths::default() };
            context.known.pack(self.node, context.par, lengths, |parts| {
                let filter = self.parameters.filter(&context.known, Filter::Columns);
                let bias = self.parameters.bias(&context.known);
                depthwise::pack(channels, kernel, &filter, bias.as_deref(), parts.packed);
            })
        });
        weights.packed(&context.known)
    }
}

impl Step for DepthwiseConvolution {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (isa, par, packed) = (context.isa, context.par, self.weights(context));
        let then = Following::new(&self.after, &buffers);
        let input = (elements(buffers.read(0)), self.pixels.input);
        let output = (elements_mut(buffers.output), self.pixels.output);
        depthwise::depthwise(isa, par, &self.geometry, input, packed, &then, output);
    }

    fn describe(&self) -> String {
        let Depthwise { input: [h, w], channels, kernel: [kh, kw], stride, .. } = self.geometry;
        format!("depthwise {h}x{w}x{channels}, filter {kh}x{kw}, stride {stride:?}")
    }

    fn cut(&self, isa: Isa, threads: usize) -> Option<String> {
        depthwise::tiling(isa, &self.geometry, threads).map(|tiling| tiling.to_string())
    }

    fn work(&self) -> Work {
        Work { floats: depthwise_products(&self.geometry), ..Work::default() }
    }
}

/// The vertical geometry of a depthwise convolution with elements of `size` bytes.
pub(super) fn depthwise_window(geometry: &Depthwise, pixels: Pixels, size: usize) -> Option<Window> {
    let Depthwise { batch, channels, input, kernel, stride, padding, dilation } = *geometry;
    let image = Conv2d { batch, input, kernel, stride, padding, dilation, ..Conv2d::linear(1, channels, channels) };
    window(&Conv2d { groups: channels, ..image }, pixels, size)
}

/// The depthwise convolution of a part of the image.
pub(super) fn depthwise_partly(geometry: &Depthwise, part: &Part<'_>) -> Depthwise {
    let [_, left, _, right] = geometry.padding;
    let padding = [part.outside[0], left, part.outside[1], right];
    Depthwise { input: [part.rows, geometry.input[1]], padding, ..*geometry }
}

impl Rows for DepthwiseConvolution {
    fn window(&self) -> Option<Window> {
        depthwise_window(&self.geometry, self.pixels, NUMBER)
    }

    fn after(&self) -> &[After] {
        &self.after
    }

    fn prepare(&self, context: &Context<'_>) {
        self.weights(context);
    }

    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, then: &[Then<'_>], output: &mut [u8]) {
        let (isa, par, packed) = (context.isa, context.par, self.weights(context));
        let geometry = depthwise_partly(&self.geometry, &part);
        let input = (elements(part.input), self.pixels.input);
        let output = (elements_mut(output), self.pixels.output);
        depthwise::depthwise(isa, par, &geometry, input, packed, then, output);
    }
}
