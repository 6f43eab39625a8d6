//! Which step does what a node says.

mod images;
mod int8;
mod products;

use super::list::Selected;
use crate::model::Options;
use crate::operations::{Form, border, form, is_view};
use crate::steps::{
    Affine, After, Any, Bias, Border, Choice, Combine, Compare, Concat, Fill, GroupNorm, Kind, LayerNorm, Map, Not,
    Pad, Rearrange, Reduce, RmsNorm, Select, Softmax, function,
};
use crate::weights::element_count;
use sconce_format::ScalarType;
use sconce_graph::{Graph, Node, Op, Reduction, Shape, Then, ValueId};
use sconce_kernels::copy::contiguous_strides;
use sconce_kernels::epilogue::Function;
use sconce_kernels::map::Broadcast;
use sconce_kernels::reduce::Axis;
use std::collections::HashSet;

/// The steps for a graph whose values have these sizes, in the order of its nodes, or a sentence about a node for which there
/// is none. What has no elements takes no step.
pub(super) fn select(graph: &Graph, sizes: &[Shape], options: &Options, width: usize) -> Result<Vec<Selected>, String> {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    let wanted = |node: &Node| !is_view(node) && node.outputs.iter().any(|id| !sizes[id.index()].contains(&0));
    let mut chosen = Vec::with_capacity(graph.nodes.len());
    for (place, node) in graph.nodes.iter().enumerate().filter(|(_, node)| wanted(node)) {
        let site = Site { graph, makers: &makers, counts: &counts, sizes, place, node, options, width };
        chosen.push(site.select().ok_or_else(|| site.refusal())?);
    }
    // What another step does, too, needs none of its own.
    let done: HashSet<usize> = chosen.iter().flat_map(|selected| selected.before.iter().copied()).collect();
    chosen.retain(|selected| !done.contains(&selected.node));
    Ok(chosen)
}

/// A node, and what is known around it.
struct Site<'a> {
    graph: &'a Graph,
    /// For each value the node that makes it, and how often it is read.
    makers: &'a [Option<usize>],
    counts: &'a [usize],
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
        let form = form(self.graph, self.node, self.options.rounding)?;
        match (&self.node.op, form) {
            (Op::Map(_) | Op::Combine(_) | Op::Reduce { .. }, Form::Int8) => self.int8(),
            (Op::Map(f), _) => self.floats(Map { function: function(*f), after: self.after(1) }),
            (Op::Combine(kind), _) => {
                let shape = Broadcast::of_shapes(self.output(), [self.input(0), self.input(1)]);
                self.floats(Combine { kind: *kind, shape, after: self.after(2) })
            }
            (Op::Reduce { of, axes, .. }, _) => self.reduce(*of, axes),
            (Op::Convert, _) => (form == Form::Converts).then(|| self.convert())?,
            (Op::Linear { transposed }, _) => self.linear(*transposed, form),
            (Op::MatMul, _) => self.matmul(),
            (Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. }, _) => self.convolution(form),
            (Op::AvgPool2d { .. } | Op::MaxPool2d { .. }, _) => self.pool(form),
            (Op::ArgMaxPool2d { kernel, padding }, _) => self.argmax_pool(*kernel, *padding),
            (Op::Affine, _) => self.floats(Affine { after: self.after(3) }),
            (Op::LayerNorm { dims, epsilon }, _) => {
                let (n, inputs) = (self.row(*dims)?, self.node.inputs.len());
                self.floats(LayerNorm { n, inputs, epsilon: *epsilon, after: self.after(inputs) })
            }
            (Op::GroupNorm { groups, epsilon }, _) => {
                let [_, channels, inner @ ..] = self.input(0) else { return None };
                let (shape, inputs) = ((*channels, *groups, element_count(inner)?), self.node.inputs.len());
                self.floats(GroupNorm { shape, inputs, epsilon: *epsilon, after: self.after(inputs) })
            }
            (Op::RmsNorm { dims, epsilon }, _) => {
                let (n, inputs) = (self.row(*dims)?, self.node.inputs.len());
                self.floats(RmsNorm { n, weighted: inputs > 1, epsilon: *epsilon, after: self.after(inputs) })
            }
            (Op::Softmax | Op::LogSoftmax | Op::SafeSoftmax, _) => {
                let (&n, outer) = self.input(0).split_last()?;
                let (log, safe) = (self.node.op == Op::LogSoftmax, self.node.op == Op::SafeSoftmax);
                self.floats(Softmax { rows: Axis::rows(element_count(outer)?, n), log, safe, after: self.after(1) })
            }
            (Op::Attention { .. }, _) => self.attention(),
            (Op::Compare { how, value }, _) => {
                self.is_float(self.node.inputs[0]).then(|| self.step(Compare { how: *how, value: *value }, 1, 0))
            }
            (Op::Not, _) => Some(self.step(Not, 1, 0)),
            (Op::Any, _) => Some(self.step(Any { n: *self.input(0).last()? }, 1, 0)),
            (Op::Select, _) => {
                let operands = [self.input(0), self.input(1), self.input(2)];
                let step = Select { shape: Broadcast::of_shapes(self.output(), operands), after: self.after(3) };
                let values = self.node.reads().skip(1).chain(self.node.outputs.iter().copied());
                values.into_iter().all(|value| self.is_float(value)).then(|| self.step(step, 3, 0))
            }
            (Op::Fill { value }, _) => {
                self.is_float(self.node.outputs[0]).then(|| self.step(Fill { value: *value }, 0, 0))
            }
            (Op::ResizeBilinear { size, align_corners }, _) => self.bilinear(*size, *align_corners),
            (Op::ResizeNearest { size }, _) => self.nearest(*size),
            (Op::Transpose { order }, Form::Moves) => {
                let strides = contiguous_strides(self.input(0));
                self.rearrange(order.iter().map(|&dim| strides[dim]).collect(), 0, "transpose")
            }
            (Op::Slice { starts, .. }, Form::Moves) => {
                let strides = contiguous_strides(self.input(0));
                let start = starts.iter().zip(strides).map(|(start, stride)| start * stride).sum();
                self.rearrange(strides[..starts.len()].to_vec(), start, "slice")
            }
            (Op::Concat { axis }, Form::Moves) => self.concat(*axis),
            (Op::Pad { before, value, .. }, _) => {
                let (shape, padded) = (self.input(0).to_vec(), self.output().to_vec());
                let pad = |border| Pad { shape, padded, before: before.clone(), border };
                match border(self.graph, self.node).filter(|_| form == Form::Moves) {
                    Some(byte) => Some(self.step(pad(Border::Byte(byte)), 1, 0)),
                    None => self.floats(pad(Border::Number(*value))),
                }
            }
            (Op::Reshape { .. } | Op::Copy, _) => {
                self.floats(Map { function: Function::Affine(1.0, 0.0), after: self.after(1) })
            }
            (Op::Transpose { .. } | Op::Slice { .. } | Op::Concat { .. }, _) => None,
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

    /// What the elements of a value are.
    fn kind(&self, value: ValueId) -> Option<Kind> {
        Kind::of(&self.graph.ty(value).element, &self.sizes[value.index()])
    }

    /// Elements of a row, of so many last dimensions.
    fn row(&self, dims: usize) -> Option<usize> {
        element_count(&self.input(0)[self.input(0).len() - dims..])
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
    fn step(&self, step: impl Into<Choice>, inputs: usize, scratch: usize) -> Selected {
        let further = self.node.reads().skip(self.node.inputs.len());
        self.reading(step, self.node.inputs[..inputs].iter().copied().chain(further).collect(), scratch)
    }

    /// A step that reads these values.
    fn reading(&self, step: impl Into<Choice>, reads: Vec<ValueId>, scratch: usize) -> Selected {
        let (node, makes) = (self.place, self.node.outputs[0]);
        Selected { node, makes, choice: step.into(), reads, scratch, before: Vec::new() }
    }

    /// A step that reads all inputs, if everything is `float32`.
    fn floats(&self, step: impl Into<Choice>) -> Option<Selected> {
        let all = self.node.reads().chain(self.node.outputs.iter().copied()).all(|value| self.is_float(value));
        all.then(|| self.step(step, self.node.inputs.len(), 0))
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

    /// Bytes of an element that is moved.
    fn element_size(&self) -> Option<usize> {
        self.graph.ty(self.node.outputs[0]).element.bytes(1)
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
        Some(self.reading(Concat::new(rows, &widths), reads, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rounding;
    use crate::operations::takes;
    use crate::passes::lower;
    use sconce_graph::passes::Takes;
    use sconce_graph::{Constants, Element, Source};

    struct Zeros([u8; 1024]);

    impl Constants for Zeros {
        fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
            Some(&self.0)
        }
    }

    /// Elements of images: those of the first line can be converted, whatever reads them.
    const ELEMENTS: [&str; 9] = [
        "float32",
        "float16",
        "bfloat16",
        "q8{scale: 0.5, zero: 1}",
        "qu8{scale: 0.5, zero: 1}",
        "q32{scale: 0.5, zero: 0}",
        "int32",
        "bool",
        "float64",
    ];
    const CONVERTED: usize = 6;

    /// Elements of filters.
    const FILTERS: [&str; 3] = ["float32", "q8{scale: 0.5, zero: 0}", "q4{axis: 0, scales: @0, zero: 8}"];

    /// Nodes of each operation, of images of elements `E` and perhaps a filter of elements `F`.
    const NODES: &[&str] = &[
        "E[1, 4, 4, 8] = tanh %0",
        "E[1, 4, 4, 8] = tanh %0 then tanh",
        "E[1, 4, 4, 8] = tanh %0 then tanh, tanh, tanh, tanh",
        "E[1, 4, 4, 8] = tanh %0 then tanh, tanh, tanh, tanh, tanh",
        "E[1, 4, 4, 8] = add %0, %0",
        "E[1, 4, 4, 8] = divide %0, %0 then clamp {low: 0, high: 1}",
        "E[1, 4, 4, 8] = multiply %0, %1",
        "E[1, 4, 4, 8] = subtract %1, %0",
        "E[1, 4, 4, 8] = maximum %0, %1 then add %0",
        "E[1, 1, 1, 8] = reduce %0 {of: mean, axes: [1, 2], keep: true}",
        "E[1, 1, 1, 8] = reduce %0 {of: sum, axes: [1, 2], keep: true} then tanh",
        "E[1, 4, 4, 1] = reduce %0 {of: maximum, axes: [3], keep: true}",
        "float32[1, 4, 4, 8] = convert %0",
        "q8{scale: 0.25, zero: -3}[1, 4, 4, 8] = convert %0",
        "q8{token: 1}[1, 4, 4, 8] = convert %0",
        "int64[1, 4, 4, 8] = convert %0",
        "E[1, 4, 4, 8] = linear %0, %2 {transposed: false}",
        "E[1, 4, 4, 8] = linear %0, %2 {transposed: true} then tanh",
        "E[1, 4, 4, 8] = conv2d %0, %3 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1}",
        "E[1, 4, 4, 8] = conv2d %0, %3 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then clamp {low: 0, high: 6}",
        "E[1, 4, 4, 8] = conv_transpose2d %0, %3 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1, extra: [0, 0]}",
        "E[1, 4, 4, 8] = depthwise_conv2d %0, %4 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}",
        "E[1, 4, 4, 4] = matmul %0, %5",
        "E[1, 2, 2, 8] = avg_pool2d %0 {kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0]}",
        "E[1, 2, 2, 8] = max_pool2d %0 {kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0], dilation: [1, 1]}",
        "E[1, 2, 2, 8] = max_pool2d %0 {kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0], dilation: [1, 1]} then tanh",
        "E[1, 4, 4, 8] = affine %0, %1, %1",
        "E[1, 4, 4, 8] = layer_norm %0, %1, %1 {dims: 1, epsilon: 0.1}",
        "E[1, 4, 4, 8] = group_norm %0 {groups: 2, epsilon: 0.1}",
        "E[1, 4, 4, 8] = rms_norm %0, %1 {dims: 1, epsilon: 0.1}",
        "E[1, 4, 4, 8] = softmax %0",
        "E[1, 4, 4, 8] = log_softmax %0",
        "E[1, 4, 4, 8] = safe_softmax %0 then times {value: 2}",
        "E[1, 4, 4, 8] = attention %0, %0, %0 {scale: 1, safe: false, query: heads_first, key: heads_first, value: heads_first, result: heads_first, batch: true}",
        "bool[1, 4, 4, 8] = compare %0 {how: less, value: 0}",
        "bool[1, 4, 4, 8] = not %0",
        "bool[1, 4, 4, 1] = any %0",
        "E[1, 4, 4, 8] = fill %0 {value: 2}",
        "E[1, 8, 8, 8] = resize_bilinear %0 {size: [8, 8], align_corners: false}",
        "E[1, 8, 8, 8] = resize_nearest %0 {size: [8, 8]}",
        "E[16, 8] = reshape %0 {sizes: [16, 8]}",
        "E[16, 8] = reshape %0 {sizes: [16, 8]} then tanh",
        "E[1, 4, 4, 8] = copy %0 then tanh",
        "E[4, 8, 1, 4] = transpose %0 {order: [1, 3, 0, 2]}",
        "E[4, 8, 1, 4] = transpose %0 {order: [1, 3, 0, 2]} then tanh",
        "E[1, 2, 2, 4] = slice %0 {starts: [0, 1, 1, 2], sizes: [1, 2, 2, 4]}",
        "E[1, 5, 4, 8] = pad %0 {before: [0, 1, 0, 0], after: [0, 0, 0, 0], value: 0}",
        "E[1, 5, 4, 8] = pad %0 {before: [0, 1, 0, 0], after: [0, 0, 0, 0], value: 0} then tanh",
        "E[1, 4, 8, 8] = concat %0, %0 {axis: 2}",
    ];

    /// The graphs of all these nodes that there are.
    fn graphs() -> impl Iterator<Item = (Graph, bool)> {
        let elements = ELEMENTS.into_iter().enumerate();
        let pairs = elements.flat_map(|element| FILTERS.into_iter().map(move |filter| (element, filter)));
        let all = pairs.flat_map(|pair| NODES.iter().map(move |node| (pair, node)));
        all.filter_map(|(((index, element), filter), node)| {
            let text = format!(
                "@0 = \"scales\"\n%0: E[1, 4, 4, 8] = input\n%1: E[8] = input\n%2: F[8, 8] = constant \"w\"\n\
                 %3: F[8, 3, 3, 8] = constant \"w\"\n%4: F[1, 3, 3, 8] = constant \"w\"\n%5: E[1, 4, 8, 4] = input\n\
                 %6: {node}\noutput %6\n"
            );
            let graph =
                sconce_graph::parse(&text.replace("E[", &format!("{element}[")).replace("F[", &format!("{filter}[")));
            let graph = graph.unwrap_or_else(|error| panic!("{error}\n{text}"));
            sconce_graph::verify(&graph).is_ok().then_some((graph, index < CONVERTED))
        })
    }

    fn selected(graph: &Graph, rounding: Rounding) -> Result<Vec<Selected>, String> {
        let sizes: Vec<Shape> = graph.values.iter().map(|value| value.ty.sizes()).collect();
        select(graph, &sizes, &Options { rounding, ..Options::default() }, 1)
    }

    /// Whether anything that a node reads or makes, but its weights, has to be converted before it is computed in floats.
    fn is_narrow(graph: &Graph, node: &Node) -> bool {
        let narrow = |element: &Element| match element {
            Element::Plain(dtype) => matches!(dtype, ScalarType::Half | ScalarType::BFloat16),
            Element::Quantized(_) => true,
        };
        let values =
            node.reads().filter(|&value| graph.as_constant(value).is_none()).chain(node.outputs.iter().copied());
        values.into_iter().any(|value| narrow(&graph.ty(value).element))
    }

    #[test]
    fn what_is_taken_has_a_step_and_what_is_refused_has_none() {
        let (mut taken, mut refused) = (0, 0);
        for (graph, _) in graphs() {
            for rounding in [Rounding::Xnnpack, Rounding::PyTorch] {
                let (node, found) = (&graph.nodes[0], selected(&graph, rounding));
                match takes(&graph, node, rounding) {
                    Takes::AsItIs => {
                        assert!(found.is_ok(), "{graph}{:?}", found.err());
                        taken += 1;
                    }
                    // Another name for the same bytes needs no step.
                    Takes::InFloat | Takes::ToFloat if is_narrow(&graph, node) && !is_view(node) => {
                        let reason = found.err().unwrap_or_else(|| panic!("there is a step for\n{graph}"));
                        assert!(reason.starts_with("the CPU engine has no step for node 0"), "{reason}");
                        refused += 1;
                    }
                    _ => {}
                }
            }
        }
        assert!(taken > 200 && refused > 200, "{taken} taken, {refused} refused");
    }

    /// Between conversions there is a step for every node, but for what is too much for one and for what is no number.
    #[test]
    fn what_can_be_converted_has_steps_when_it_is_lowered() {
        for (mut graph, converted) in graphs() {
            let node = graph.nodes[0].clone();
            let moved = matches!(node.op, Op::Transpose { .. } | Op::Slice { .. } | Op::Concat { .. } | Op::Pad { .. });
            let long = node.then.len() > crate::steps::MOST_AFTER || moved && !node.then.is_empty();
            let unknown = Kind::of(&graph.ty(node.outputs[0]).element, &graph.ty(node.outputs[0]).sizes()).is_none();
            let filters = node.op.is_product() && !crate::weights::is_known(&graph, node.inputs[1]);
            if converted && !long && !filters && (!unknown || matches!(node.op, Op::Compare { .. })) {
                let text = graph.to_string();
                lower(&mut graph, Rounding::Xnnpack, &Zeros([0; 1024]));
                let found = selected(&graph, Rounding::Xnnpack);
                assert!(found.is_ok(), "{text}{graph}{:?}", found.err());
            }
        }
    }
}
