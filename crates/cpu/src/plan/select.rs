//! Which step does what a node says.

mod bytes;

use crate::model::Options;
use crate::quantize::{Product, border, element_wise, product};
use crate::steps::{
    Affine, After, Any, ArgMaxPool, Attention, Bias, Border, Combine, Compare, Concat, Convolution, ConvolutionDynamic,
    ConvolutionInt8, DepthwiseConvolution, DepthwiseInt8, Fill, Filter, Gated, GroupNorm, Kind, LayerNorm, MOST_AFTER,
    Map, MatMul, Not, Pad, Parameters, Pixels, Pool, PoolKind, Rearrange, Reduce, ResizeBilinear, ResizeNearest,
    RmsNorm, Select, Softmax, Step, Tail, Winograd, WinogradInt8, function,
};
use crate::weights::{element_count, is_known};
use sconce_format::ScalarType;
use sconce_graph::{
    Combine as CombineKind, Element, Graph, Node, Op, Quantized, Reduction, Scheme, Shape, Storage, Then, ValueId,
};
use sconce_kernels::copy::contiguous_strides;
use sconce_kernels::depthwise::Depthwise;
use sconce_kernels::epilogue::Function;
use sconce_kernels::map::Broadcast;
use sconce_kernels::packed::{Conv2d, int8};
use sconce_kernels::reduce::Axis;
use sconce_kernels::resize::{self, Resize};
use sconce_kernels::windows::Windows;
use sconce_kernels::winograd::{self, Output};

/// A step with the values it reads and the scratch it wants.
pub(super) struct Selected {
    pub(super) step: Box<dyn Step>,
    pub(super) reads: Vec<ValueId>,
    pub(super) scratch: usize,
    /// Nodes before this one that the step does, too.
    pub(super) before: Vec<usize>,
}

/// Who makes and who reads the values of a graph.
pub(super) struct Uses {
    /// For each value the node that makes it.
    makers: Vec<Option<usize>>,
    /// For each value how often it is read.
    counts: Vec<usize>,
}

impl Uses {
    pub(super) fn of(graph: &Graph) -> Self {
        Self { makers: graph.makers(), counts: graph.read_counts() }
    }
}

/// The step for a node, or a sentence about why there is none.
pub(super) fn select(
    graph: &Graph,
    uses: &Uses,
    sizes: &[Shape],
    place: usize,
    options: &Options,
    width: usize,
) -> Result<Selected, String> {
    let site = Site { graph, uses, sizes, place, node: &graph.nodes[place], options, width };
    site.select().ok_or_else(|| site.refusal())
}

/// A node, and what is known around it.
struct Site<'a> {
    graph: &'a Graph,
    uses: &'a Uses,
    sizes: &'a [Shape],
    place: usize,
    node: &'a Node,
    options: &'a Options,
    width: usize,
}

impl Site<'_> {
    /// Why there is no step.
    fn refusal(&self) -> String {
        let (place, node) = (self.place, self.node);
        let sizes: Vec<_> = (0..node.inputs.len()).map(|index| self.input(index)).collect();
        if sizes.iter().any(|sizes| sizes.contains(&0)) {
            let output = self.output();
            return format!(
                "node {place}, {node}, has nothing to make a result of sizes {output:?} from: inputs have {sizes:?}"
            );
        }
        let types: Vec<_> = node.inputs.iter().map(|&id| self.graph.ty(id).to_string()).collect();
        let types = types.join(", ");
        format!("the CPU engine has no step for node {place}, {node}, with inputs of types {types} and sizes {sizes:?}")
    }

    /// Whether an input has no elements.
    fn is_empty(&self, input: usize) -> bool {
        self.input(input).contains(&0)
    }

    fn select(&self) -> Option<Selected> {
        if self.node.then.len() > MOST_AFTER {
            return None;
        }
        match &self.node.op {
            Op::Map(_) | Op::Combine(_) | Op::Reduce { .. }
                if element_wise(self.graph, self.node, self.options.rounding) =>
            {
                self.bytes()
            }
            Op::Map(f) => self.floats(Map { function: function(*f), after: self.after(1) }),
            Op::Combine(kind) => {
                let operands = [self.input(0), self.input(1)];
                let shape = Broadcast::of_shapes(self.output(), operands);
                self.floats(Combine { kind: *kind, shape, after: self.after(2) })
            }
            Op::Convert => self.convert(),
            Op::Linear { transposed } => self.linear(*transposed),
            Op::MatMul => self.matmul(),
            Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. } => self.convolution(),
            Op::AvgPool2d { .. } | Op::MaxPool2d { .. } => self.pool(),
            Op::ArgMaxPool2d { kernel, padding } => {
                let windows = self.windows(*kernel, *kernel, *padding, [1, 1])?;
                let index = self.graph.ty(*self.node.outputs.get(1)?);
                index.is(ScalarType::Int).then_some(())?;
                self.is_float(self.node.inputs[0]).then(|| self.step(ArgMaxPool { windows }, 1, 0))
            }
            Op::Reduce { of, axes, .. } => self.reduce(*of, axes),
            Op::Affine => self.floats(Affine { after: self.after(3) }),
            Op::LayerNorm { dims, epsilon } => {
                let n = element_count(&self.input(0)[self.input(0).len() - dims..])?;
                let inputs = self.node.inputs.len();
                self.floats(LayerNorm { n, inputs, epsilon: *epsilon, after: self.after(inputs) })
            }
            Op::GroupNorm { groups, epsilon } => {
                let [_, channels, inner @ ..] = self.input(0) else { return None };
                let (shape, inputs) = ((*channels, *groups, element_count(inner)?), self.node.inputs.len());
                self.floats(GroupNorm { shape, inputs, epsilon: *epsilon, after: self.after(inputs) })
            }
            Op::RmsNorm { dims, epsilon } => {
                let n = element_count(&self.input(0)[self.input(0).len() - dims..])?;
                let inputs = self.node.inputs.len();
                self.floats(RmsNorm { n, weighted: inputs > 1, epsilon: *epsilon, after: self.after(inputs) })
            }
            Op::Softmax | Op::LogSoftmax | Op::SafeSoftmax => {
                let (&n, outer) = self.input(0).split_last()?;
                let (log, safe) = (self.node.op == Op::LogSoftmax, self.node.op == Op::SafeSoftmax);
                self.floats(Softmax { rows: Axis::rows(element_count(outer)?, n), log, safe, after: self.after(1) })
            }
            Op::Attention { .. } => self.attention(),
            Op::Compare { how, value } => {
                self.is_float(self.node.inputs[0]).then(|| self.step(Compare { how: *how, value: *value }, 1, 0))
            }
            Op::Not => Some(self.step(Not, 1, 0)),
            Op::Any => Some(self.step(Any { n: *self.input(0).last()? }, 1, 0)),
            Op::Select => {
                let operands = [self.input(0), self.input(1), self.input(2)];
                let step = Select { shape: Broadcast::of_shapes(self.output(), operands), after: self.after(3) };
                let values = self.node.reads().skip(1).chain(self.node.outputs.iter().copied());
                values.into_iter().all(|value| self.is_float(value)).then(|| self.step(step, 3, 0))
            }
            Op::Fill { value } => (self.is_float(self.node.outputs[0]) && self.node.then.is_empty())
                .then(|| self.step(Fill { value: *value }, 0, 0)),
            Op::ResizeBilinear { size, align_corners } => self.bilinear(*size, *align_corners),
            Op::ResizeNearest { size } => self.nearest(*size),
            Op::Transpose { order } => {
                let strides = contiguous_strides(self.input(0));
                self.rearrange(order.iter().map(|&dim| strides[dim]).collect(), 0, "transpose")
            }
            Op::Slice { starts, .. } => {
                let strides = contiguous_strides(self.input(0));
                let start = starts.iter().zip(strides).map(|(start, stride)| start * stride).sum();
                self.rearrange(strides[..starts.len()].to_vec(), start, "slice")
            }
            Op::Pad { before, value, .. } => {
                let (shape, padded) = (self.input(0).to_vec(), self.output().to_vec());
                let pad = |border| Pad { shape, padded, before: before.clone(), border };
                match border(self.graph, self.node) {
                    Some(byte) => self.element_size().map(|_| self.step(pad(Border::Byte(byte)), 1, 0)),
                    None => self.floats(pad(Border::Number(*value))),
                }
            }
            Op::Concat { axis } => self.concat(*axis),
            Op::Reshape { .. } | Op::Copy => {
                let identity = Map { function: Function::Affine(1.0, 0.0), after: self.after(1) };
                self.floats(identity)
            }
        }
    }

    fn input(&self, index: usize) -> &[usize] {
        &self.sizes[self.node.inputs[index].index()]
    }

    fn output(&self) -> &[usize] {
        &self.sizes[self.node.outputs[0].index()]
    }

    fn is_float(&self, value: ValueId) -> bool {
        self.graph.ty(value).is(ScalarType::Float)
    }

    /// What follows the node; further values are read after the first `reads`.
    fn after(&self, mut reads: usize) -> Vec<After> {
        let mut next = || {
            reads += 1;
            reads - 1
        };
        let steps = self.node.then.iter().map(|then| match then {
            Then::Apply(f) => After::Apply(function(*f)),
            Then::Add(_) => After::Add(next()),
            Then::Multiply(_) => After::Multiply(next()),
        });
        steps.collect()
    }

    /// A step that reads the first `inputs` inputs and what follows.
    fn step(&self, step: impl Step + 'static, inputs: usize, scratch: usize) -> Selected {
        let further = self.node.reads().skip(self.node.inputs.len());
        let reads = self.node.inputs[..inputs].iter().copied().chain(further).collect();
        Selected { step: Box::new(step), reads, scratch, before: Vec::new() }
    }

    /// A step that reads all inputs, if everything is `float32`.
    fn floats(&self, step: impl Step + 'static) -> Option<Selected> {
        let all = self.node.reads().chain(self.node.outputs.iter().copied()).all(|value| self.is_float(value));
        all.then(|| self.step(step, self.node.inputs.len(), 0))
    }

    fn linear(&self, transposed: bool) -> Option<Selected> {
        let (&k, rows) = self.input(0).split_last()?;
        let (&n, _) = self.output().split_last()?;
        let rows = element_count(rows)?;
        if self.node.inputs[1..].iter().all(|&input| self.graph.as_constant(input).is_some()) {
            let layout = if transposed { Filter::Columns } else { Filter::Rows };
            return self.packed(Conv2d::linear(rows, k, n), layout, rows);
        }
        let bias = self.node.inputs.len() > 2;
        let after = self.after(self.node.inputs.len());
        self.product(MatMul { m: rows, n, k, transposed: !transposed, pairs: vec![(0, 0)], bias, after })
    }

    fn product(&self, product: MatMul) -> Option<Selected> {
        let scratch = product.scratch(self.width);
        self.floats(product).map(|selected| Selected { scratch, ..selected })
    }

    fn matmul(&self) -> Option<Selected> {
        let (a_batch, &[m, k]) = self.input(0).split_last_chunk()?;
        let (b_batch, &[_, n]) = self.input(1).split_last_chunk()?;
        let (batch, _) = self.output().split_last_chunk::<2>()?;
        let count = if element_count(self.output())? == 0 { 0 } else { element_count(batch)? };
        let after = self.after(2);
        // One right operand for all: the left matrices are one tall matrix.
        if element_count(b_batch)? == 1 && element_count(a_batch)? == count {
            let m = count.checked_mul(m)?;
            return self.product(MatMul { m, n, k, transposed: false, pairs: vec![(0, 0)], bias: false, after });
        }
        count.checked_mul(size_of::<(usize, usize)>()).filter(|bytes| *bytes <= self.options.memory)?;
        let pairs = (0..count).map(|index| (source(index, batch, a_batch), source(index, batch, b_batch))).collect();
        self.product(MatMul { m, n, k, transposed: false, pairs, bias: false, after })
    }

    fn attention(&self) -> Option<Selected> {
        let Op::Attention { scale, safe, query, key, value, result, .. } = self.node.op else { return None };
        let [batch, heads, queries, features] = query.rows(self.input(0), 1)?;
        let [_, _, keys, width] = value.rows(self.input(2), 1)?;
        let mask = match self.node.inputs.len() {
            3 => None,
            _ => {
                let sizes = self.input(3);
                let (own, missing) = (contiguous_strides(sizes), 4usize.checked_sub(sizes.len())?);
                let stride = |dim: usize| if sizes[dim] == 1 { 0 } else { own[dim] };
                Some(std::array::from_fn(|dim| dim.checked_sub(missing).map_or(0, stride)))
            }
        };
        let (layouts, after) = ([query, key, value, result], self.after(self.node.inputs.len()));
        let step = Attention { batch, heads, queries, keys, features, width, layouts, scale, safe, mask, after };
        let scratch = step.scratch(self.width);
        self.floats(step).map(|selected| Selected { scratch, ..selected })
    }

    fn convolution(&self) -> Option<Selected> {
        let &[batch, height, width, in_channels] = self.input(0) else { return None };
        let &[first, kh, kw, last] = self.input(1) else { return None };
        let image = Conv2d { batch, input: [height, width], kernel: [kh, kw], ..Conv2d::linear(1, in_channels, first) };
        let (conv, layout) = match self.node.op {
            Op::Conv2d { stride, padding, dilation, groups } => {
                (Conv2d { stride, padding, dilation, groups, ..image }, Filter::Rows)
            }
            Op::ConvTranspose2d { stride, padding, dilation, groups, extra } => {
                (Conv2d { stride, padding, dilation, groups, extra, transposed: true, ..image }, Filter::Rows)
            }
            Op::DepthwiseConv2d { stride, padding, dilation } if last == in_channels => {
                let (input, kernel) = ([height, width], [kh, kw]);
                let geometry = Depthwise { batch, channels: in_channels, input, kernel, stride, padding, dilation };
                return self.depthwise(geometry);
            }
            Op::DepthwiseConv2d { stride, padding, dilation } => {
                let each = Conv2d { out_channels: last, groups: in_channels, ..image };
                (Conv2d { stride, padding, dilation, ..each }, Filter::Columns)
            }
            _ => return None,
        };
        self.packed(conv, layout, batch)
    }

    /// Filter, bias and factors, if they are constants and the image is `float32`.
    fn parameters(&self) -> Option<Parameters> {
        let known = self.node.inputs[1..].iter().all(|&value| is_known(self.graph, value));
        let floats = self.is_float(self.node.inputs[0]) && self.is_float(self.node.outputs[0]);
        let further = |index: usize| self.node.inputs.get(index).copied();
        let parameters = Parameters { filter: self.node.inputs[1], bias: further(2), factors: further(3) };
        (known && floats).then_some(parameters)
    }

    /// A product of no elements: the bias, whatever the filter is.
    fn bias(&self) -> Option<Selected> {
        let (bias, channels) = (self.node.inputs.get(2).copied(), *self.output().last()?);
        let to = self.kind(self.node.outputs[0]).filter(|to| matches!(to, Kind::Float | Kind::Int8(..)))?;
        let known = bias.is_none_or(|bias| is_known(self.graph, bias));
        known.then(|| self.step(Bias { bias, value: 0.0, channels, to, after: self.after(0) }, 0, 0))
    }

    /// A product with a constant filter. If the input finds its scales at run time, it has so many of them.
    fn packed(&self, conv: Conv2d, layout: Filter, rows: usize) -> Option<Selected> {
        if self.is_empty(0) {
            return self.bias();
        }
        conv.output()?;
        let (node, filter, bias) = (self.place, self.node.inputs[1], self.node.inputs.get(2).copied());
        let scratch = |kind| int8::scratch_len(self.options.isa, &conv, kind, self.width);
        let pixels = Pixels::new(conv.in_channels, conv.out_channels);
        match product(self.graph, self.node) {
            Some(Product::Static { quantization, scales }) => {
                let tail = Tail::Nothing;
                let step = ConvolutionInt8 { node, conv, filter, layout, bias, quantization, scales, tail, pixels };
                let (step, scratch): (Box<dyn Step>, _) = match self.winograd_of_bytes(&conv) && layout == Filter::Rows
                {
                    true => {
                        let step = WinogradInt8(step);
                        let scratch = step.scratch(self.options.isa, self.width);
                        (Box::new(step), scratch)
                    }
                    false => (Box::new(step), scratch(int8::Kind::Bytes)),
                };
                Some(Selected { step, reads: vec![self.node.inputs[0]], scratch, before: Vec::new() })
            }
            Some(Product::Dynamic(kind)) => {
                self.is_float(self.node.outputs[0]).then_some(())?;
                let after = self.after(1);
                let step = ConvolutionDynamic { node, conv, filter, kind, layout, bias, rows, after };
                Some(self.step(step, 1, scratch(kind)))
            }
            None => {
                let parameters = self.parameters()?;
                if let Some(output) = self.winograd(&conv).filter(|_| layout == Filter::Rows) {
                    let step = Winograd { node, conv, output, parameters, after: self.after(1), pixels };
                    let scratch = step.scratch(self.options.isa, self.width);
                    return Some(self.step(step, 1, scratch));
                }
                let convolution = Convolution { node, conv, parameters, layout, after: self.after(1), pixels };
                Some(match self.gate(&conv) {
                    Some(gate) => self.gated(convolution, gate),
                    None => self.step(convolution, 1, 0),
                })
            }
        }
    }

    /// The node that multiplies the channels of the image before a pixelwise convolution, for nobody else, with the image and
    /// the factors; where the factors would multiply fewer weights than pixels.
    fn gate(&self, conv: &Conv2d) -> Option<(usize, [ValueId; 2])> {
        let gated = self.node.inputs[0];
        let place = self.uses.makers[gated.index()].filter(|_| self.uses.counts[gated.index()] == 1)?;
        let maker = &self.graph.nodes[place];
        let multiplies = matches!(maker.op, Op::Combine(CombineKind::Multiply)) && maker.then.is_empty();
        let [height, width] = conv.input;
        let fewer = conv.batch == 1 && conv.groups == 1 && conv.out_channels < height * width;
        if !multiplies || !fewer || !conv.is_pixelwise() || !maker.inputs.iter().all(|&value| self.is_float(value)) {
            return None;
        }
        let &[first, second] = &maker.inputs[..] else { return None };
        let sizes = |value: ValueId| &self.sizes[value.index()][..];
        let is_gate = |image, gate| sizes(image) == self.input(0) && sizes(gate) == [1, 1, 1, conv.in_channels];
        let pairs = [[first, second], [second, first]];
        pairs.into_iter().find(|&[image, gate]| is_gate(image, gate)).map(|pair| (place, pair))
    }

    fn gated(&self, convolution: Convolution, (place, [image, gate]): (usize, [ValueId; 2])) -> Selected {
        let further = self.node.reads().skip(self.node.inputs.len());
        let reads: Vec<_> = [image].into_iter().chain(further).chain([gate]).collect();
        let step = Gated { convolution, gate: reads.len() - 1 };
        Selected { scratch: step.scratch(self.options.isa), step: Box::new(step), reads, before: vec![place] }
    }

    /// The convolution of the largest images that may come. Which method is taken decides how weights are packed, and that is
    /// done once for all sizes.
    fn largest(&self, conv: &Conv2d) -> Conv2d {
        match self.graph.ty(self.node.inputs[0]).sizes()[..] {
            [batch, height, width, _] => Conv2d { batch, input: [height, width], ..*conv },
            _ => *conv,
        }
    }

    /// The tile of Winograd's method, where it pays and is wanted.
    fn winograd(&self, conv: &Conv2d) -> Option<Output> {
        winograd::best(&self.largest(conv)).filter(|_| !self.options.exact && winograd::applies(conv))
    }

    /// Whether Winograd's method pays for bytes and is wanted. It rounds nothing, but takes more memory.
    fn winograd_of_bytes(&self, conv: &Conv2d) -> bool {
        let pays = winograd::pays(self.options.isa, &self.largest(conv));
        pays && !self.options.exact && winograd::int8::applies(conv)
    }

    fn depthwise(&self, geometry: Depthwise) -> Option<Selected> {
        if self.is_empty(0) {
            return self.bias();
        }
        let (node, pixels) = (self.place, Pixels::new(geometry.channels, geometry.channels));
        if let Some(Product::Static { quantization, scales }) = product(self.graph, self.node) {
            let (filter, bias) = (self.node.inputs[1], self.node.inputs.get(2).copied());
            let tail = Tail::Nothing;
            let step = DepthwiseInt8 { node, geometry, filter, bias, quantization, scales, tail, pixels };
            let reads = vec![self.node.inputs[0]];
            return geometry.output().map(|_| Selected { step: Box::new(step), reads, scratch: 0, before: Vec::new() });
        }
        let parameters = self.parameters()?;
        let step = DepthwiseConvolution { node, geometry, parameters, after: self.after(1), pixels };
        geometry.output().map(|_| self.step(step, 1, 0))
    }

    fn windows(
        &self,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 4],
        dilation: [usize; 2],
    ) -> Option<Windows> {
        let &[batch, height, width, channels] = self.input(0) else { return None };
        if self.is_empty(0) {
            return None;
        }
        let &[_, out_height, out_width, _] = self.output() else { return None };
        Some(Windows {
            batch,
            input: [height, width],
            channels,
            output: [out_height, out_width],
            kernel,
            stride,
            padding: [padding[0], padding[1]],
            dilation,
        })
    }

    fn pool(&self) -> Option<Selected> {
        let (windows, kind) = match self.node.op {
            Op::AvgPool2d { kernel, stride, padding } => {
                (self.windows(kernel, stride, padding, [1, 1])?, PoolKind::Mean)
            }
            Op::MaxPool2d { kernel, stride, padding, dilation } => {
                let kind = if self.is_float(self.node.outputs[0]) { PoolKind::Max } else { PoolKind::MaxInt8 };
                (self.windows(kernel, stride, padding, dilation)?, kind)
            }
            _ => return None,
        };
        let pixels = Pixels::new(windows.channels, windows.channels);
        let step = Pool { kind, windows, after: self.after(1), pixels };
        match kind {
            PoolKind::MaxInt8 => {
                let alone = self.node.then.is_empty() && matches!(self.kind(self.node.outputs[0])?, Kind::Int8(..));
                alone.then(|| self.step(step, 1, 0))
            }
            PoolKind::Mean | PoolKind::Max => self.floats(step),
        }
    }

    fn reduce(&self, of: Reduction, axes: &[usize]) -> Option<Selected> {
        let (&first, &last) = (axes.first()?, axes.last()?);
        let adjacent = last - first + 1 == axes.len();
        let axis = Axis::of(self.input(0), first..last + 1);
        adjacent.then_some(())?;
        if axis.n > 0 {
            return self.floats(Reduce { of, axis, after: self.after(1) });
        }
        let value = match of {
            Reduction::Sum => 0.0,
            Reduction::Mean => f32::NAN,
            Reduction::Maximum | Reduction::Minimum => return None,
        };
        let after = self.after(0);
        let step = Bias { bias: None, value, channels: element_count(self.output())?, to: Kind::Float, after };
        self.is_float(self.node.outputs[0]).then(|| self.step(step, 0, 0))
    }

    fn resize(&self, size: [usize; 2], align_corners: bool) -> Option<Resize> {
        let &[planes, height, width, inner] = self.input(0) else { return None };
        if self.is_empty(0) {
            return None;
        }
        let axis = |input, output| resize::Axis { input, output, align_corners, factor: None };
        Some(Resize { planes, axes: [resize::Axis::NONE, axis(height, size[0]), axis(width, size[1])], inner })
    }

    fn nearest(&self, size: [usize; 2]) -> Option<Selected> {
        let resize = self.resize(size, false)?;
        self.floats(ResizeNearest { resize, after: self.after(1), pixels: Pixels::new(resize.inner, resize.inner) })
    }

    fn bilinear(&self, size: [usize; 2], align_corners: bool) -> Option<Selected> {
        let step = ResizeBilinear { resize: self.resize(size, align_corners)?, after: self.after(1) };
        let scratch = step.scratch();
        self.floats(step).map(|selected| Selected { scratch, ..selected })
    }

    /// Bytes of an element that can be moved by itself.
    fn element_size(&self) -> Option<usize> {
        let element = &self.graph.ty(self.node.outputs[0]).element;
        let alone = match element {
            Element::Plain(_) => true,
            Element::Quantized(Quantized { storage, scheme }) => {
                *storage != Storage::Int4 && !matches!(scheme, Scheme::PerToken { .. })
            }
        };
        let alike = self.node.inputs.iter().all(|&input| self.graph.ty(input).element == *element);
        (alone && alike && self.node.then.is_empty()).then(|| element.bytes(1))?
    }

    fn rearrange(&self, strides: Vec<usize>, start: usize, what: &'static str) -> Option<Selected> {
        let size = self.element_size()?;
        Some(self.step(Rearrange::new(size, self.output().to_vec(), strides, start, what), 1, 0))
    }

    fn concat(&self, axis: usize) -> Option<Selected> {
        let size = self.element_size()?;
        let rows = element_count(&self.output()[..axis])?;
        let parts = || (0..self.node.inputs.len()).filter(|&index| !self.is_empty(index));
        let widths = parts().map(|index| element_count(&self.input(index)[axis..])?.checked_mul(size));
        let widths = widths.collect::<Option<Vec<_>>>()?;
        let reads = parts().map(|index| self.node.inputs[index]).collect();
        Some(Selected { step: Box::new(Concat::new(rows, &widths)), reads, scratch: 0, before: Vec::new() })
    }
}

/// Which matrix of an operand with leading sizes `own` meets matrix `index` of a result with leading sizes `batch`.
fn source(index: usize, batch: &[usize], own: &[usize]) -> usize {
    let (mut rest, mut place, mut step) = (index, 0, 1);
    for (from_end, &size) in batch.iter().rev().enumerate() {
        let at = rest % size;
        rest /= size;
        if let Some(&own) = own.len().checked_sub(from_end + 1).and_then(|dim| own.get(dim)) {
            place += if own == 1 { 0 } else { at * step };
            step *= own;
        }
    }
    place
}
