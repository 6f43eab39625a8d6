//! Steps of products, of weights and of tensors.

use super::{Selected, Site};
use crate::cost::{Algorithm, Layer};
use crate::operations::{Form, Product};
use crate::steps::{
    Attention, Bias, Convolution, ConvolutionDynamic, ConvolutionInt8, DepthwiseConvolution, DepthwiseInt8, Filter,
    Gated, Kind, MatMul, Parameters, Pixels, Tail, Winograd, WinogradInt8,
};
use crate::weights::{element_count, is_known};
use sconce_graph::{Combine, Op, ValueId};
use sconce_kernels::copy::contiguous_strides;
use sconce_kernels::depthwise::Depthwise;
use sconce_kernels::packed::{Conv2d, int8};

impl Site<'_> {
    pub(super) fn linear(&self, transposed: bool, form: Form) -> Option<Selected> {
        let (&k, rows) = self.input(0).split_last()?;
        let (&n, _) = self.output().split_last()?;
        let rows = element_count(rows)?;
        if self.node.inputs[1..].iter().all(|&input| self.graph.as_constant(input).is_some()) {
            let layout = if transposed { Filter::Columns } else { Filter::Rows };
            return self.packed(Conv2d::linear(rows, k, n), layout, rows, form);
        }
        let bias = self.node.inputs.len() > 2;
        let after = self.after(self.node.inputs.len());
        self.product(MatMul { m: rows, n, k, transposed: !transposed, pairs: vec![(0, 0)], bias, after })
    }

    fn product(&self, product: MatMul) -> Option<Selected> {
        let scratch = product.scratch(self.width);
        self.floats(product).map(|selected| Selected { scratch, ..selected })
    }

    pub(super) fn matmul(&self) -> Option<Selected> {
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

    pub(super) fn attention(&self) -> Option<Selected> {
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

    pub(super) fn convolution(&self, form: Form) -> Option<Selected> {
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
                return self.depthwise(geometry, form);
            }
            Op::DepthwiseConv2d { stride, padding, dilation } => {
                let each = Conv2d { out_channels: last, groups: in_channels, ..image };
                (Conv2d { stride, padding, dilation, ..each }, Filter::Columns)
            }
            _ => return None,
        };
        self.packed(conv, layout, batch, form)
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
    fn packed(&self, conv: Conv2d, layout: Filter, rows: usize, form: Form) -> Option<Selected> {
        if self.is_empty(0) {
            return self.bias();
        }
        conv.output()?;
        let (isa, width, exact) = (self.options.isa, self.width, self.options.exact);
        let (node, filter, bias) = (self.place, self.node.inputs[1], self.node.inputs.get(2).copied());
        let pixels = Pixels::new(conv.in_channels, conv.out_channels);
        let layer = Layer { conv, largest: self.largest(&conv), layout, int8: None, gated: false, exact };
        match form {
            Form::Product(Product::Static { quantization, scales }) => {
                let (tail, reads) = (Tail::Nothing, vec![self.node.inputs[0]]);
                let step = ConvolutionInt8 { node, conv, filter, layout, bias, quantization, scales, tail, pixels };
                Some(match (Layer { int8: Some(isa), ..layer }).cheapest() {
                    Algorithm::Winograd(_) => {
                        let step = WinogradInt8(step);
                        let scratch = step.scratch(isa, width);
                        self.reading(step, reads, scratch)
                    }
                    _ => self.reading(step, reads, int8::scratch_len(isa, &conv, int8::Kind::Bytes, width)),
                })
            }
            Form::Product(Product::Dynamic(kind)) => {
                let after = self.after(1);
                let step = ConvolutionDynamic { node, conv, filter, kind, layout, bias, rows, after };
                let scratch = int8::scratch_len(isa, &conv, kind, width);
                self.is_float(self.node.outputs[0]).then(|| self.step(step, 1, scratch))
            }
            _ => {
                let (parameters, after, gate) = (self.parameters()?, self.after(1), self.gate(&conv));
                let convolution = |after| Convolution { node, conv, parameters, layout, after, pixels };
                Some(match ((Layer { gated: gate.is_some(), ..layer }).cheapest(), gate) {
                    (Algorithm::Winograd(output), _) => {
                        let step = Winograd { node, conv, output, parameters, after, pixels };
                        let scratch = step.scratch(isa, width);
                        self.step(step, 1, scratch)
                    }
                    (Algorithm::Gated, Some(gate)) => self.gated(convolution(after), gate),
                    _ => self.step(convolution(after), 1, 0),
                })
            }
        }
    }

    /// The node that multiplies the channels of the image before a pixelwise convolution, for nobody else, with the image and
    /// the factors.
    fn gate(&self, conv: &Conv2d) -> Option<(usize, [ValueId; 2])> {
        let gated = self.node.inputs[0];
        let place = self.makers[gated.index()].filter(|_| self.counts[gated.index()] == 1)?;
        let maker = &self.graph.nodes[place];
        let multiplies = matches!(maker.op, Op::Combine(Combine::Multiply)) && maker.then.is_empty();
        let floats = maker.inputs.iter().all(|&value| self.is_float(value));
        (multiplies && floats).then_some(())?;
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
        let scratch = step.scratch(self.options.isa);
        Selected { before: vec![place], ..self.reading(step, reads, scratch) }
    }

    /// The convolution of the largest images that may come.
    fn largest(&self, conv: &Conv2d) -> Conv2d {
        match self.graph.ty(self.node.inputs[0]).sizes()[..] {
            [batch, height, width, _] => Conv2d { batch, input: [height, width], ..*conv },
            _ => *conv,
        }
    }

    fn depthwise(&self, geometry: Depthwise, form: Form) -> Option<Selected> {
        if self.is_empty(0) {
            return self.bias();
        }
        let (node, pixels) = (self.place, Pixels::new(geometry.channels, geometry.channels));
        if let Form::Product(Product::Static { quantization, scales }) = form {
            let (filter, bias) = (self.node.inputs[1], self.node.inputs.get(2).copied());
            let tail = Tail::Nothing;
            let step = DepthwiseInt8 { node, geometry, filter, bias, quantization, scales, tail, pixels };
            let reads = vec![self.node.inputs[0]];
            return geometry.output().map(|_| self.reading(step, reads, 0));
        }
        let parameters = self.parameters()?;
        let step = DepthwiseConvolution { node, geometry, parameters, after: self.after(1), pixels };
        geometry.output().map(|_| self.step(step, 1, 0))
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
