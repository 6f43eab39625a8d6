//! Lets an engine compute in `float32` what it cannot compute otherwise.
//!
//! Around a node that the engine does not take as it is, inputs of other elements are converted to `float32` and the
//! result is converted back, so that every value keeps its type and the numbers are those of the quantised program (each
//! result is rounded to its scale). Filters and biases that are constants stay as they are: engines read them when they
//! pack them. A half-precision result that another such node reads is read as it was before it was converted back: it
//! would only lose bits. A conversion that stands in the program stays.

use crate::graph::{Graph, Node, Origin, Then, ValueId};
use crate::op::Op;
use crate::types::{Element, Quantized, Scheme};
use sconce_format::ScalarType;
use std::collections::HashMap;

const FLOAT: Element = Element::Plain(ScalarType::Float);

/// How an engine takes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// With the elements it has.
    AsItIs,
    /// With the inputs it has; it makes `float32`.
    ToFloat,
    /// With `float32` in place of what is narrower.
    InFloat,
}

/// Converts around nodes as `takes` says; answers how many conversions there are more.
pub fn compute_in_float(graph: &mut Graph, takes: impl Fn(&Graph, &Node) -> Takes) -> usize {
    let mut wide = HashMap::new();
    let before = graph.nodes.len();
    for mut node in std::mem::take(&mut graph.nodes) {
        let takes = takes(graph, &node);
        if takes != Takes::AsItIs {
            widen_reads(graph, &mut wide, &mut node, takes);
        }
        // From `float32`, a conversion leads anywhere.
        if takes == Takes::AsItIs || node.op == Op::Convert {
            graph.nodes.push(node);
            continue;
        }
        let outputs = node.outputs.clone();
        node.outputs = outputs.iter().map(|&output| twin(graph, output)).collect();
        let narrowed: Vec<_> = outputs.into_iter().zip(node.outputs.clone()).filter(|(old, new)| old != new).collect();
        graph.nodes.push(node);
        for (output, made) in narrowed {
            graph.nodes.push(Node::new(Op::Convert, vec![made], vec![output]));
            if let Element::Plain(_) = graph.ty(output).element {
                wide.insert(output, made);
            }
        }
    }
    let more = graph.nodes.len() - before;
    more.saturating_sub(super::remove_dead(graph))
}

/// Lets a node read `float32`: all but weights that are constants, or only what the steps after it read.
fn widen_reads(graph: &mut Graph, wide: &mut HashMap<ValueId, ValueId>, node: &mut Node, takes: Takes) {
    let constant = node.inputs.iter().skip(1).all(|&input| graph.as_constant(input).is_some());
    let inputs = if node.op.is_product() && constant { 1 } else { node.inputs.len() };
    if takes == Takes::InFloat {
        node.inputs.iter_mut().take(inputs).for_each(|input| *input = widen(graph, wide, *input));
    }
    for then in &mut node.then {
        if let Then::Add(value) | Then::Multiply(value) = then {
            *value = widen(graph, wide, *value);
        }
    }
}

/// Elements that a computation in floats has to convert.
fn is_narrow(element: &Element) -> bool {
    match element {
        Element::Plain(dtype) => matches!(dtype, ScalarType::Half | ScalarType::BFloat16),
        Element::Quantized(_) => true,
    }
}

/// The value as `float32`.
fn widen(graph: &mut Graph, wide: &mut HashMap<ValueId, ValueId>, value: ValueId) -> ValueId {
    if !is_narrow(&graph.ty(value).element) {
        return value;
    }
    *wide.entry(value).or_insert_with(|| {
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
        let takes = |_: &Graph, node: &Node| if node.op == Op::Copy { Takes::AsItIs } else { Takes::InFloat };
        assert_eq!(compute_in_float(&mut graph, takes), 2);
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
        assert_eq!(compute_in_float(&mut graph, |_, _| Takes::InFloat), 2);
        graph.compact();
        let expected = "%0: float16[4] = input\n\
                        %1: float32[4] = convert %0\n\
                        %2: float32[4] = abs %1\n\
                        %3: float32[4] = exp %2\n\
                        %4: float16[4] = convert %3\n\
                        output %4\n";
        assert_eq!(graph.to_string(), expected);
    }
    /// The first two conversions round to half and the program says so; the fourth node reads what they made.
    #[test]
    fn conversions_of_the_program_stay() {
        let text = "%0: float32[4] = input\n\
                    %1: bfloat16[4] = convert %0\n\
                    %2: float32[4] = convert %1\n\
                    %3: bfloat16[4] = abs %1\n\
                    %4: float32[4] = convert %3\n\
                    output %2, %4\n";
        let mut graph = crate::parse(text).unwrap();
        let takes = |_: &Graph, node: &Node| if node.op == Op::Convert { Takes::AsItIs } else { Takes::InFloat };
        assert_eq!(compute_in_float(&mut graph, takes), 2);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: float32[4] = input\n\
                        %1: bfloat16[4] = convert %0\n\
                        %2: float32[4] = convert %1\n\
                        %3: float32[4] = convert %1\n\
                        %4: float32[4] = abs %3\n\
                        %5: bfloat16[4] = convert %4\n\
                        %6: float32[4] = convert %5\n\
                        output %2, %6\n";
        assert_eq!(graph.to_string(), expected);
    }

    /// A product of rows of bytes gives halves, and the next rows find their scales in what it computed.
    #[test]
    fn only_the_result_is_converted() {
        let text = "@0 = \"scales\"\n\
                    %0: float16[1, 4] = input\n\
                    %1: q8{token: 1}[1, 4] = convert %0\n\
                    %2: q8{axis: 0, scales: @0, zero: 0}[4, 4] = constant \"w\"\n\
                    %3: float16[1, 4] = linear %1, %2 {transposed: false} then add %0\n\
                    %4: q8{token: 1}[1, 4] = convert %3\n\
                    %5: float16[1, 4] = linear %4, %2 {transposed: false}\n\
                    output %5\n";
        let mut graph = crate::parse(text).unwrap();
        let takes = |_: &Graph, node: &Node| if node.op == Op::Convert { Takes::InFloat } else { Takes::ToFloat };
        assert_eq!(compute_in_float(&mut graph, takes), 2);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: float16[1, 4] = input\n\
                        %1: float32[1, 4] = convert %0\n\
                        %2: q8{token: 1}[1, 4] = convert %1\n\
                        @1 = \"scales\"\n\
                        %3: q8{axis: 0, scales: @1, zero: 0}[4, 4] = constant \"w\"\n\
                        %4: float32[1, 4] = linear %2, %3 {transposed: false} then add %1\n\
                        %5: q8{token: 1}[1, 4] = convert %4\n\
                        %6: float32[1, 4] = linear %5, %3 {transposed: false}\n\
                        %7: float16[1, 4] = convert %6\n\
                        output %7\n";
        assert_eq!(graph.to_string(), expected);
    }
}
