//! Which passes a graph goes through before it is planned.

use crate::Rounding;
use crate::quantize::{Product, border, element_wise, product};
use crate::steps::MOST_AFTER;
use sconce_format::ScalarType;
use sconce_graph::passes::Takes;
use sconce_graph::{Constants, Element, Graph, Node, Op, Quantized, Scheme, ValueId, passes};

/// Brings a graph into the form that the steps take; answers the new number of each value that is left.
pub(crate) fn lower(graph: &mut Graph, rounding: Rounding, constants: &dyn Constants) -> Vec<Option<ValueId>> {
    passes::remove_dead(graph);
    passes::sink_transposes(graph);
    passes::simplify_transposes(graph);
    passes::pad_integers(graph);
    passes::fold_pads(graph);
    passes::fold_affine(graph, constants);
    // Limits of quantised products belong to them, whether or not the products are computed in bytes.
    passes::fuse_steps(graph, |node, _| node.op.is_product() && node.then.is_empty());
    passes::compute_in_float(graph, |graph, node| takes(graph, node, rounding));
    passes::fold_numbers(graph, constants);
    passes::find_functions(graph);
    passes::simplify_transposes(graph);
    passes::find_safe_softmax(graph);
    passes::find_attention(graph);
    passes::find_rms_norms(graph);
    passes::fuse_steps(graph, takes_more_steps);
    passes::join_conversions(graph, MOST_AFTER);
    passes::simplify_concats(graph);
    let numbers = graph.compact();
    debug_assert_eq!(sconce_graph::verify(graph), Ok(()));
    numbers
}

/// Whether a node can have so many more steps after it.
fn takes_more_steps(node: &Node, more: usize) -> bool {
    let alone = matches!(
        node.op,
        Op::Compare { .. }
            | Op::Not
            | Op::Any
            | Op::Fill { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Concat { .. }
            | Op::Pad { .. }
            | Op::Reshape { .. }
            | Op::Copy
            | Op::ArgMaxPool2d { .. }
    );
    !alone && node.then.len() + more <= MOST_AFTER
}

/// Whether there is a step for the node with the elements it has.
fn takes(graph: &Graph, node: &Node, rounding: Rounding) -> Takes {
    let as_it_is = match node.op {
        Op::Convert => {
            let rows = matches!(
                graph.ty(node.outputs[0]).quantized(),
                Some(Quantized { scheme: Scheme::PerToken { .. }, .. })
            );
            !rows || graph.ty(node.inputs[0]).is(ScalarType::Float)
        }
        Op::Map(_) | Op::Combine(_) | Op::Reduce { .. } => element_wise(graph, node, rounding),
        Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. } | Op::Linear { .. } => {
            let halves = !graph.ty(node.outputs[0]).is(ScalarType::Float);
            match product(graph, node) {
                Some(Product::Dynamic(_)) if halves => return Takes::ToFloat,
                product => product.is_some(),
            }
        }
        Op::Reshape { .. }
        | Op::Copy
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Concat { .. }
        | Op::MaxPool2d { .. } => moves_integers(graph, node),
        Op::Pad { .. } => moves_integers(graph, node) && border(graph, node).is_some(),
        _ => false,
    };
    if as_it_is { Takes::AsItIs } else { Takes::InFloat }
}

/// Whether all values of a node are integers of one meaning, so that moving or comparing them is enough.
fn moves_integers(graph: &Graph, node: &Node) -> bool {
    let element = &graph.ty(node.outputs[0]).element;
    let whole = match element {
        Element::Plain(dtype) => !dtype.is_floating(),
        Element::Quantized(quantized) => {
            let moves = !matches!(node.op, Op::MaxPool2d { .. }) || quantized.storage == sconce_graph::Storage::Int8;
            moves && matches!(quantized.scheme, Scheme::PerTensor { .. })
        }
    };
    whole && node.then.is_empty() && node.inputs.iter().all(|&input| graph.ty(input).element == *element)
}
