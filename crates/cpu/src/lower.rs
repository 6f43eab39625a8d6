//! Which passes a graph goes through before it is planned.

use crate::quantize::{element_wise, product};
use crate::steps::MOST_AFTER;
use sconce_format::ScalarType;
use sconce_graph::{Constants, Element, Graph, Node, Op, Quantized, Scheme, passes};

/// Brings a graph into the form that the steps take.
pub(crate) fn lower(graph: &mut Graph, constants: &dyn Constants) {
    passes::remove_dead(graph);
    passes::sink_transposes(graph);
    passes::simplify_transposes(graph);
    passes::fold_pads(graph);
    passes::fold_affine(graph, constants);
    // Limits of quantised products belong to them, whether or not the products are computed in bytes.
    passes::fuse_steps(graph, |node| is_product(node) && node.then.is_empty());
    passes::compute_in_float(graph, takes_as_it_is);
    passes::drop_narrowing(graph);
    passes::fold_numbers(graph, constants);
    passes::find_functions(graph);
    passes::simplify_transposes(graph);
    passes::find_safe_softmax(graph);
    passes::find_attention(graph);
    passes::find_rms_norms(graph);
    passes::fuse_steps(graph, takes_another_step);
    passes::join_conversions(graph);
    passes::simplify_concats(graph);
    graph.compact();
    debug_assert_eq!(sconce_graph::verify(graph), Ok(()));
}

fn is_product(node: &Node) -> bool {
    matches!(node.op, Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. } | Op::Linear { .. })
}

/// Whether a node can have one more step after it.
fn takes_another_step(node: &Node) -> bool {
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
    !alone && node.then.len() < MOST_AFTER
}

/// Whether there is a step for the node with the elements it has.
fn takes_as_it_is(graph: &Graph, node: &Node) -> bool {
    match node.op {
        Op::Convert => {
            let rows = matches!(
                graph.ty(node.outputs[0]).quantized(),
                Some(Quantized { scheme: Scheme::PerToken { .. }, .. })
            );
            !rows || graph.ty(node.inputs[0]).is(ScalarType::Float)
        }
        Op::Map(_) | Op::Combine(_) | Op::Reduce { .. } => element_wise(graph, node),
        Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. } | Op::Linear { .. } => {
            product(graph, node).is_some()
        }
        Op::Reshape { .. }
        | Op::Copy
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Concat { .. }
        | Op::MaxPool2d { .. } => moves_integers(graph, node),
        _ => false,
    }
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
