//! The forms of quantised nodes.

use super::Form;
use crate::Rounding;
use crate::steps::{MOST_AFTER, Repeat};
use crate::weights::element_count;
use sconce_format::ScalarType;
use sconce_graph::{
    Combine, Dim, Function, Graph, Node, Op, Quantized, Reduction, Scheme, Shape, Storage, Then, ValueId,
};
use sconce_kernels::packed::int8::{Kind, Quantization, Unsigned};

/// Most int8 elements whose sum, less as many zeros, is an int32.
const MOST_BYTES: usize = 1 << 22;

/// How a product of int8 is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Product {
    /// With scales that are known, to int8.
    Static {
        quantization: Quantization,
        /// The scales of input and output.
        scales: (f32, f32),
    },
    /// With scales found at run time, to `float32`, which becomes half precision afterwards if that is wanted.
    Dynamic(Kind),
}

/// The form of a convolution or linear layer, if it is one of int8.
pub(super) fn product(graph: &Graph, node: &Node, _: Rounding) -> Option<Form> {
    let depthwise = matches!(node.op, Op::DepthwiseConv2d { .. });
    if node.inputs[1..].iter().any(|&id| graph.as_constant(id).is_none()) {
        return None;
    }
    let input = graph.ty(node.inputs[0]).quantized()?;
    let product = match input.scheme {
        Scheme::PerTensor { scale, zero } if input.storage == Storage::Int8 => {
            let quantization = static_form(graph, node, zero)?;
            let (out_scale, _) = per_tensor(graph, node.outputs[0])?;
            let last = |value: ValueId| graph.ty(value).sizes().last().copied();
            let alone = !depthwise || last(node.inputs[1]) == last(node.inputs[0]);
            alone.then_some(Product::Static { quantization, scales: (scale, out_scale) })
        }
        Scheme::PerToken { dims } if !depthwise => dynamic_form(graph, node, dims).map(Product::Dynamic),
        _ => None,
    };
    product.map(Form::Product)
}

/// Scale and zero of a value of int8, if the zero is an int8, too: files may say anything.
pub(crate) fn per_tensor(graph: &Graph, value: ValueId) -> Option<(f32, i32)> {
    match graph.ty(value).quantized()? {
        Quantized { storage: Storage::Int8, scheme: Scheme::PerTensor { scale, zero } } => {
            i8::try_from(*zero).is_ok().then_some((*scale, *zero))
        }
        _ => None,
    }
}

fn static_form(graph: &Graph, node: &Node, input_zero: i32) -> Option<Quantization> {
    let (out_scale, out_zero) = per_tensor(graph, node.outputs[0])?;
    let output_zero = i8::try_from(out_zero).ok()?;
    let limits = limits(&node.then, out_scale, output_zero)?;
    let bias = node
        .inputs
        .get(2)
        .is_none_or(|&bias| graph.ty(bias).quantized().is_some_and(|quantized| quantized.storage == Storage::Int32));
    let known = weights(graph, node)? == Kind::Bytes && bias;
    let (input_zero, unsigned) = (i8::try_from(input_zero).ok()?, Unsigned::default());
    known.then_some(Quantization { input_zero, output_zero, limits, unsigned })
}

/// The limits, as int8, that follow a node, if nothing else does.
pub(crate) fn limits(then: &[Then], scale: f32, zero: i8) -> Option<(i8, i8)> {
    let limit = |x: f32| ((x / scale).round_ties_even() + f32::from(zero)).clamp(-128.0, 127.0) as i8;
    match *then {
        [] => Some((i8::MIN, i8::MAX)),
        [Then::Apply(Function::Clamp { low, high })] => Some((limit(low), limit(high))),
        _ => None,
    }
}

/// Whether limits follow at most.
fn is_limited(then: &[Then]) -> bool {
    matches!(then, [] | [Then::Apply(Function::Clamp { .. })])
}

fn dynamic_form(graph: &Graph, node: &Node, dims: usize) -> Option<Kind> {
    let rows = match node.op {
        Op::Linear { .. } => dims == 1,
        _ => dims == 3,
    };
    let is_number = |value: ValueId| {
        let kinds = [ScalarType::Float, ScalarType::Half, ScalarType::BFloat16];
        kinds.into_iter().any(|dtype| graph.ty(value).is(dtype))
    };
    let numbers = node.inputs.get(2).copied().is_none_or(is_number) && is_number(node.outputs[0]);
    weights(graph, node).filter(|_| rows && numbers)
}

/// How a filter with a scale per output channel, or per group of inputs, is held.
fn weights(graph: &Graph, node: &Node) -> Option<Kind> {
    let ty = graph.ty(node.inputs[1]);
    let channel = match node.op {
        Op::DepthwiseConv2d { .. } => 3,
        Op::Linear { transposed: true } => 1,
        _ => 0,
    };
    let Quantized { storage, scheme } = ty.quantized()?;
    match (storage, scheme) {
        (Storage::Int8, Scheme::PerTensor { zero: 0, .. }) => Some(Kind::Bytes),
        (Storage::Int8, Scheme::PerChannel { axis, zero: 0, .. }) if *axis == channel => Some(Kind::Bytes),
        (Storage::Int4, Scheme::PerChannel { axis, zero: 8, .. }) if *axis == channel => Some(Kind::Nibbles),
        (Storage::Int4, Scheme::PerGroup { size, zero: 8, .. }) => {
            let &[_, columns] = ty.sizes().as_slice() else { return None };
            let whole = *size > 0 && size.is_multiple_of(32) && columns.is_multiple_of(*size);
            (node.op == Op::Linear { transposed: false } && whole).then_some(Kind::Groups(*size))
        }
        _ => None,
    }
}

/// The stored integer of a border around elements of one scale: the nearest to its number.
pub(crate) fn border(graph: &Graph, node: &Node) -> Option<u8> {
    let Op::Pad { value, .. } = node.op else { return None };
    let Quantized { storage, scheme: Scheme::PerTensor { scale, zero } } = graph.ty(node.outputs[0]).quantized()?
    else {
        return None;
    };
    let step = (value / scale).round_ties_even() + *zero as f32;
    match storage {
        Storage::Int8 => Some((step.clamp(-128.0, 127.0) as i8).cast_unsigned()),
        Storage::UInt8 => Some(step.clamp(0.0, 255.0) as u8),
        Storage::Int32 | Storage::Int4 => None,
    }
}

/// The form of an element-wise node or a reduction that is computed on int8, element by element.
pub(super) fn element_wise(graph: &Graph, node: &Node, rounding: Rounding) -> Option<Form> {
    let xnnpack = rounding == Rounding::Xnnpack;
    let bytes = |value: &ValueId| per_tensor(graph, *value).is_some();
    let all = node.inputs.iter().chain(&node.outputs).all(bytes);
    let functions = node.then.iter().all(|then| matches!(then, Then::Apply(_)));
    let suits = match &node.op {
        // Its own function comes first.
        Op::Map(_) => node.then.len() < MOST_AFTER,
        Op::Combine(_) => {
            alike(graph, node)
                || xnnpack
                    && is_limited(&node.then)
                    && (gate(node, |id| graph.ty(id).sizes()).is_some() || repeats(graph, node))
        }
        Op::Reduce { of: Reduction::Sum | Reduction::Mean, axes, .. } => {
            let sizes = graph.ty(node.inputs[0]).sizes();
            let reduced: Shape = axes.iter().map(|&axis| sizes[axis]).collect();
            let few = element_count(&reduced).is_some_and(|count| count <= MOST_BYTES);
            xnnpack && few && axes.is_sorted_by(|a, b| a + 1 == *b) && !axes.is_empty()
        }
        _ => false,
    };
    (all && functions && suits).then_some(Form::Int8)
}

/// Whether the operands and the result of a node have the same sizes.
fn alike(graph: &Graph, node: &Node) -> bool {
    node.inputs.iter().all(|&id| graph.ty(id).dims == graph.ty(node.outputs[0]).dims)
}

/// Whether a node is a sum of one operand as large as the result and one that is repeated along one group of dimensions.
fn repeats(graph: &Graph, node: &Node) -> bool {
    let fixed = |id: ValueId| graph.ty(id).dims.iter().all(|dim| matches!(dim, Dim::Fixed(_)));
    let sum = matches!(node.op, Op::Combine(Combine::Add | Combine::Subtract));
    let known = per_tensor(graph, node.outputs[0]).is_some_and(|(_, zero)| i8::try_from(zero).is_ok());
    let whole = graph.ty(node.outputs[0]).sizes();
    let sizes = |index: usize| graph.ty(node.inputs[index]).sizes();
    let either = [(0, 1), (1, 0)];
    sum && known
        && node.inputs.iter().chain(&node.outputs).all(|&id| fixed(id))
        && either.into_iter().any(|(a, b)| sizes(a) == whole && Repeat::of(&sizes(b), &whole).is_some())
}

/// Image and gate of a product with one factor for each channel, the last dimension, where values have these sizes.
pub(crate) fn gate(node: &Node, sizes: impl Fn(ValueId) -> Shape) -> Option<(usize, usize)> {
    let whole = sizes(node.outputs[0]);
    let channels = whole.last()?;
    let sizes = |index: usize| sizes(node.inputs[index]);
    let is_gate = |index: usize| {
        let sizes = sizes(index);
        sizes.last() == Some(channels) && sizes.iter().product::<usize>() == *channels
    };
    let product = node.op == Op::Combine(Combine::Multiply) && *channels > 0;
    [(0, 1), (1, 0)].into_iter().find(|&(image, gate)| product && sizes(image) == whole && is_gate(gate))
}
