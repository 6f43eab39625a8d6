//! Which passes a graph goes through before it is planned.

use crate::Rounding;
use crate::operations::{takes, takes_after};
use crate::steps::MOST_AFTER;
use sconce_graph::{Constants, Graph, ValueId, passes};

/// Brings a graph into the form that the steps take; answers the new number of each value that is left.
pub(crate) fn lower(graph: &mut Graph, rounding: Rounding, constants: &dyn Constants) -> Vec<Option<ValueId>> {
    passes::remove_dead(graph);
    passes::sink_transposes(graph);
    passes::simplify_transposes(graph);
    passes::pad_integers(graph);
    passes::fold_pads(graph);
    passes::fold_affine(graph, constants);
    // Limits of quantised products belong to them, whether or not the products are computed in bytes.
    passes::fuse_steps(graph, |_, node, _| node.op.is_product() && node.then.is_empty());
    passes::compute_in_float(graph, |graph, node| takes(graph, node, rounding));
    passes::fold_numbers(graph, constants);
    passes::find_functions(graph);
    passes::simplify_transposes(graph);
    passes::find_safe_softmax(graph);
    passes::find_attention(graph);
    passes::find_rms_norms(graph);
    passes::fuse_steps(graph, takes_after);
    passes::join_conversions(graph, MOST_AFTER);
    passes::simplify_concats(graph);
    let numbers = graph.compact();
    debug_assert_eq!(sconce_graph::verify(graph), Ok(()));
    numbers
}
