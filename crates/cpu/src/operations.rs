//! What the engine computes: a row per operation.
//!
//! A row says in which form nodes are computed that hold more than `float32`, and how much may follow them in their step. The
//! pass that converts everything else to `float32` asks here, and so does the choice of steps: they cannot disagree.

mod quantized;

pub(crate) use quantized::{Product, border, gate, limits, per_tensor};

use crate::Rounding;
use crate::steps::{Kind, MOST_AFTER};
use sconce_format::ScalarType;
use sconce_graph::passes::Takes;
use sconce_graph::{Element, Graph, Node, Op, Scheme, Storage, ValueId};

/// The form in which a node is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// On `float32`, bools and indices; weights that are constants are converted when they are packed.
    Floats,
    /// A product of int8.
    Product(Product),
    /// Element by element on int8.
    Int8,
    /// On elements of any one type, which move or are compared and stay what they are.
    Moves,
    /// A conversion between two types.
    Converts,
}

/// The form of a node with the elements that it has; `None` if it is computed in floats.
type FormOf = fn(&Graph, &Node, Rounding) -> Option<Form>;

/// What is known of an operation.
struct Row {
    /// Most functions, sums and products that follow in its step.
    most_after: usize,
    /// Whether they may be moved there from nodes of their own.
    fuses: bool,
    form: FormOf,
}

fn row(op: &Op) -> Row {
    let (most_after, fuses, form): (_, _, FormOf) = match op {
        Op::Convert => (MOST_AFTER, true, conversion),
        Op::Map(_) | Op::Combine(_) | Op::Reduce { .. } => (MOST_AFTER, true, quantized::element_wise),
        Op::Linear { .. } | Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. } => {
            (MOST_AFTER, true, quantized::product)
        }
        Op::MaxPool2d { .. } => (MOST_AFTER, true, moves),
        // Without anything after them they are other names for the same bytes.
        Op::Reshape { .. } | Op::Copy => (MOST_AFTER, false, moves),
        Op::Transpose { .. } | Op::Slice { .. } | Op::Concat { .. } | Op::Pad { .. } => (0, false, moves),
        Op::Compare { .. } | Op::Not | Op::Any | Op::Fill { .. } | Op::ArgMaxPool2d { .. } => (0, false, floats),
        Op::MatMul
        | Op::AvgPool2d { .. }
        | Op::Affine
        | Op::LayerNorm { .. }
        | Op::GroupNorm { .. }
        | Op::RmsNorm { .. }
        | Op::Softmax
        | Op::LogSoftmax
        | Op::SafeSoftmax
        | Op::Attention { .. }
        | Op::Select
        | Op::ResizeBilinear { .. }
        | Op::ResizeNearest { .. } => (MOST_AFTER, true, floats),
    };
    Row { most_after, fuses, form }
}

/// The form in which a node is computed; `None` if more follows it than a step does.
pub(crate) fn form(graph: &Graph, node: &Node, rounding: Rounding) -> Option<Form> {
    let row = row(&node.op);
    let form = || (row.form)(graph, node, rounding).unwrap_or(Form::Floats);
    (node.then.len() <= row.most_after).then(form)
}

/// How a node is taken, with the elements that it has or with `float32` in place of these.
pub(crate) fn takes(graph: &Graph, node: &Node, rounding: Rounding) -> Takes {
    match form(graph, node, rounding) {
        None | Some(Form::Floats) => Takes::InFloat,
        Some(Form::Product(Product::Dynamic(_))) if !graph.ty(node.outputs[0]).is(ScalarType::Float) => Takes::ToFloat,
        Some(_) => Takes::AsItIs,
    }
}

/// Whether a node can have `more` further functions, sums and products after it.
pub(crate) fn takes_after(graph: &Graph, node: &Node, more: usize) -> bool {
    let row = row(&node.op);
    // Largest values of integers are compared as they are, and nothing is done to them on the way.
    let pools_integers = matches!(node.op, Op::MaxPool2d { .. }) && graph.ty(node.outputs[0]).quantized().is_some();
    row.fuses && !pools_integers && node.then.len() + more <= row.most_after
}

/// Whether an operation only says something else about the same bytes.
pub(crate) fn is_view(node: &Node) -> bool {
    matches!(node.op, Op::Reshape { .. } | Op::Copy) && node.then.is_empty()
}

fn floats(_: &Graph, _: &Node, _: Rounding) -> Option<Form> {
    None
}

fn conversion(graph: &Graph, node: &Node, _: Rounding) -> Option<Form> {
    let kind = |value: ValueId| Kind::of(&graph.ty(value).element, &graph.ty(value).sizes());
    let (from, to) = (kind(node.inputs[0])?, kind(node.outputs[0])?);
    // Rows find their scales in `float32`.
    let known = !matches!(to, Kind::Rows(_)) || from == Kind::Float && node.then.is_empty();
    known.then_some(Form::Converts)
}

/// Elements that can be moved by themselves. Halves are not among them: what moves may come from a computation in `float32`,
/// and would lose bits on the way.
fn moves(graph: &Graph, node: &Node, _: Rounding) -> Option<Form> {
    let element = &graph.ty(node.outputs[0]).element;
    let whole = match element {
        Element::Plain(dtype) => !matches!(dtype, ScalarType::Half | ScalarType::BFloat16),
        Element::Quantized(quantized) => {
            quantized.storage != Storage::Int4 && matches!(quantized.scheme, Scheme::PerTensor { .. })
        }
    };
    let suits = match node.op {
        Op::MaxPool2d { .. } => graph.ty(node.outputs[0]).quantized().is_some_and(|it| it.storage == Storage::Int8),
        Op::Pad { .. } => border(graph, node).is_some(),
        _ => true,
    };
    let alike = node.inputs.iter().all(|&input| graph.ty(input).element == *element);
    (whole && suits && alike && node.then.is_empty()).then_some(Form::Moves)
}
