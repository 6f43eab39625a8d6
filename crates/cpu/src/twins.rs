//! Which nodes have the same weights.
//!
//! A recurrent network that was written out step by step reads the same weights in each of its steps, and so do layers that
//! share them. Packed for each they would take many times their memory, and no cache would hold them. Nodes are twins if they
//! are the same operation on values of the same types, with the same constants: then their steps want them in the same order.

use sconce_graph::{Graph, Source, ValueId};
use std::collections::HashMap;

/// Most unlike nodes with the same filter that are compared with another.
const COMPARED: usize = 8;

/// For each node the first one that has the same weights: itself, as a rule.
pub(crate) fn twins(graph: &Graph) -> Vec<usize> {
    let mut seen: HashMap<&Source, Vec<usize>> = HashMap::new();
    let twin = |place: usize| {
        let Some(filter) = filter(graph, place) else { return place };
        let others = seen.entry(filter).or_default();
        let found = others.iter().rev().take(COMPARED).copied().find(|&other| are_twins(graph, other, place));
        found.unwrap_or_else(|| {
            others.push(place);
            place
        })
    };
    (0..graph.nodes.len()).map(twin).collect()
}

/// The filter of a product, if it is constant.
pub(crate) fn constant_filter(graph: &Graph, place: usize) -> Option<ValueId> {
    let node = &graph.nodes[place];
    node.inputs.get(1).copied().filter(|&filter| node.op.is_product() && graph.as_constant(filter).is_some())
}

/// Where the filter of a product is, if it is stored.
fn filter(graph: &Graph, place: usize) -> Option<&Source> {
    let constant = graph.as_constant(constant_filter(graph, place)?)?;
    // Bytes that were computed would have to be read to be compared.
    Some(&graph.constants[constant.index()].source).filter(|source| !matches!(source, Source::Bytes(_)))
}

fn are_twins(graph: &Graph, first: usize, second: usize) -> bool {
    let [first, second] = [first, second].map(|place| &graph.nodes[place]);
    let constant = |value: ValueId| graph.as_constant(value).map(|id| &graph.constants[id.index()]);
    let alike = |(&one, &other): (&ValueId, &ValueId)| {
        graph.ty(one) == graph.ty(other) && (one == other || constant(one) == constant(other))
    };
    first.op == second.op
        && first.inputs.len() == second.inputs.len()
        && first.inputs.iter().zip(&second.inputs).all(alike)
        && first.outputs.iter().zip(&second.outputs).all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_the_same_weights_are_twins() {
        let text = "%0: float32[1, 4] = input\n\
                    %1: float32[4, 4] = constant \"w\"\n\
                    %2: float32[4, 4] = constant \"w\"\n\
                    %3: float32[4, 4] = constant \"v\"\n\
                    %4: float32[4] = constant \"b\"\n\
                    %5: float32[1, 4] = linear %0, %1 {transposed: false}\n\
                    %6: float32[1, 4] = linear %5, %1 {transposed: false} then tanh\n\
                    %7: float32[1, 4] = linear %6, %2 {transposed: false}\n\
                    %8: float32[1, 4] = linear %7, %3 {transposed: false}\n\
                    %9: float32[1, 4] = linear %8, %1 {transposed: true}\n\
                    %10: float32[1, 4] = linear %9, %1, %4 {transposed: false}\n\
                    %11: float32[1, 4] = linear %10, %1, %4 {transposed: false}\n\
                    %12: float32[3, 4] = concat %11, %10, %9 {axis: 0}\n\
                    %13: float32[3, 4] = linear %12, %1, %4 {transposed: false}\n\
                    output %13\n";
        let graph = sconce_graph::parse(text).unwrap();
        assert_eq!(twins(&graph), [0, 0, 0, 3, 4, 5, 5, 7, 8]);
    }
}
