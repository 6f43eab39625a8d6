//! Lets an engine compute in `float32` what it cannot compute otherwise.
//!
//! Around a node that the engine does not take as it is, inputs of other elements are converted to `float32` and the
//! result is converted back, so that every value keeps its type and the numbers are those of the quantised program (each
//! result is rounded to its scale). Filters and biases that are constants stay as they are: engines read them when they
//! pack them. [`drop_narrowing`] then takes out what half-precision values would only lose bits by: a `float32` that
//! becomes half and `float32` again.

use crate::graph::{Graph, Node, Origin, ValueId};
use crate::op::Op;
use crate::types::{Element, Quantized, Scheme};
use sconce_format::ScalarType;
use std::collections::HashMap;

const FLOAT: Element = Element::Plain(ScalarType::Float);

/// Converts around every node for which `native` is false; answers how many conversions it took.
pub fn compute_in_float(graph: &mut Graph, native: impl Fn(&Graph, &Node) -> bool) -> usize {
    let mut widened = HashMap::new();
    let before = graph.nodes.len();
    for mut node in std::mem::take(&mut graph.nodes) {
        if native(graph, &node) {
            graph.nodes.push(node);
            continue;
        }
        let weights = if has_weights(&node.op) { 1 } else { usize::MAX };
        for place in 0..node.inputs.len() {
            let input = node.inputs[place];
            if place < weights || graph.as_constant(input).is_none() {
                node.inputs[place] = widen(graph, &mut widened, input);
            }
        }
        let outputs = node.outputs.clone();
        node.outputs = outputs.iter().map(|&output| twin(graph, output)).collect();
        let narrowed: Vec<_> = outputs.into_iter().zip(node.outputs.clone()).filter(|(old, new)| old != new).collect();
        graph.nodes.push(node);
        for (output, wide) in narrowed {
            graph.nodes.push(Node::new(Op::Convert, vec![wide], vec![output]));
        }
    }
    graph.nodes.len() - before
}

/// Whether inputs from the second on are weights.
fn has_weights(op: &Op) -> bool {
    matches!(op, Op::Linear { .. } | Op::Conv2d { .. } | Op::DepthwiseConv2d { .. } | Op::ConvTranspose2d { .. })
}

/// Elements that a computation in floats has to convert.
fn is_narrow(element: &Element) -> bool {
    match element {
        Element::Plain(dtype) => matches!(dtype, ScalarType::Half | ScalarType::BFloat16),
        Element::Quantized(_) => true,
    }
}

/// The value as `float32`.
fn widen(graph: &mut Graph, widened: &mut HashMap<ValueId, ValueId>, value: ValueId) -> ValueId {
    if !is_narrow(&graph.ty(value).element) {
        return value;
    }
    *widened.entry(value).or_insert_with(|| {
        let ty = graph.ty(value).with_element(FLOAT);
        graph.node(Op::Convert, vec![value], ty)
    })
}

/// A new value that stands for a result in `float32`.
fn twin(graph: &mut Graph, value: ValueId) -> ValueId {
    match is_narrow(&graph.ty(value).element) {
        true => {
            let ty = graph.ty(value).with_element(FLOAT);
            graph.value(ty, Origin::Node)
        }
        false => value,
    }
}

/// Lets readers of a `float32` that was half for a moment read the original; answers how many there were.
pub fn drop_narrowing(graph: &mut Graph) -> usize {
    let makers = graph.makers();
    let mut replaced = Vec::new();
    for node in graph.nodes.iter().filter(|node| node.op == Op::Convert && node.then.is_empty()) {
        let half = node.inputs[0];
        let Some(maker) = makers[half.index()].map(|place| &graph.nodes[place]) else { continue };
        let narrow = matches!(graph.ty(half).element, Element::Plain(ScalarType::Half | ScalarType::BFloat16));
        if narrow && maker.op == Op::Convert && maker.then.is_empty() && graph.ty(maker.inputs[0]).element == FLOAT {
            replaced.push((node.outputs[0], maker.inputs[0]));
        }
    }
    for &(from, to) in &replaced {
        graph.replace_reads(from, to);
    }
    super::remove_dead(graph);
    replaced.len()
}

/// Joins a conversion to `float32`, with what follows it, and the conversion that alone reads its result, if no more than `most`
/// steps follow both; answers how many there were. Numbers are the same: nothing is rounded between the two.
pub fn join_conversions(graph: &mut Graph, most: usize) -> usize {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    let mut joined = 0;
    for place in 0..graph.nodes.len() {
        let node = &graph.nodes[place];
        let Some(maker) = makers[node.inputs[0].index()].map(|maker| &graph.nodes[maker]) else { continue };
        let conversions = node.op == Op::Convert && maker.op == Op::Convert;
        let between = graph.ty(node.inputs[0]).element == FLOAT
            && counts[node.inputs[0].index()] == 1
            && maker.then.len() + node.then.len() <= most;
        if conversions && between && !per_row(graph, node.outputs[0]) && !per_row(graph, maker.inputs[0]) {
            let (inputs, mut then) = (maker.inputs.clone(), maker.then.clone());
            then.extend(&node.then);
            let node = &mut graph.nodes[place];
            (node.inputs, node.then) = (inputs, then);
            joined += 1;
        }
    }
    super::remove_dead(graph);
    joined
}

/// Whether a value finds its scales at run time.
fn per_row(graph: &Graph, value: ValueId) -> bool {
    matches!(graph.ty(value).quantized(), Some(Quantized { scheme: Scheme::PerToken { .. }, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantised_nodes_compute_between_conversions() {
        let text = "%0: q8{scale: 0.5, zero: 1}[4] = input\n\
                    %1: q8{scale: 0.5, zero: 1}[4] = add %0, %0\n\
                    %2: q8{scale: 0.5, zero: 1}[4] = copy %1\n\
                    output %2\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(compute_in_float(&mut graph, |_, node| node.op == Op::Copy), 2);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: q8{scale: 0.5, zero: 1}[4] = input\n\
                        %1: float32[4] = convert %0\n\
                        %2: float32[4] = add %1, %1\n\
                        %3: q8{scale: 0.5, zero: 1}[4] = convert %2\n\
                        %4: q8{scale: 0.5, zero: 1}[4] = copy %3\n\
                        output %4\n";
        assert_eq!(graph.to_string(), expected);
    }

    #[test]
    fn a_detour_through_floats_is_one_conversion() {
        let text = "%0: q8{scale: 0.5, zero: 1}[4] = input\n\
                    %1: float32[4] = convert %0 then hard_swish\n\
                    %2: q8{scale: 0.25, zero: 2}[4] = convert %1\n\
                    output %2\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(join_conversions(&mut graph, 0), 0);
        assert_eq!(join_conversions(&mut graph, 1), 1);
        graph.compact();
        let expected = "%0: q8{scale: 0.5, zero: 1}[4] = input\n\
                        %1: q8{scale: 0.25, zero: 2}[4] = convert %0 then hard_swish\n\
                        output %1\n";
        assert_eq!(graph.to_string(), expected);
    }

    #[test]
    fn half_precision_is_met_at_the_border_only() {
        let text = "%0: float16[4] = input\n\
                    %1: float16[4] = abs %0\n\
                    %2: float16[4] = exp %1\n\
                    output %2\n";
        let mut graph = crate::parse(text).unwrap();
        compute_in_float(&mut graph, |_, _| false);
        assert_eq!(drop_narrowing(&mut graph), 1);
        graph.compact();
        let expected = "%0: float16[4] = input\n\
                        %1: float32[4] = convert %0\n\
                        %2: float32[4] = abs %1\n\
                        %3: float32[4] = exp %2\n\
                        %4: float16[4] = convert %3\n\
                        output %4\n";
        assert_eq!(graph.to_string(), expected);
    }
}
