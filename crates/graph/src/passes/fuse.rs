//! Moves functions and sums into the node whose result they change.
//!
//! A node whose only reader is a function of each element, or a sum or product with a value of the same sizes, takes over
//! that reader as a further step. The node moves down to where its reader was, so that the other value is there; nobody
//! else read its result in between. Quantised results are left alone, because they are rounded before the reader sees
//! them, but for limits: these commute with rounding as long as the quantisation stays the same.

use crate::graph::{Graph, Node, Then, ValueId};
use crate::op::{Combine, Function, Op};
use crate::types::Element;

/// Fuses where `takes` says that a node can have one more step; answers how many steps moved.
pub fn fuse_steps(graph: &mut Graph, takes: impl Fn(&Node) -> bool) -> usize {
    let mut fused = 0;
    while let Some((maker, reader, then)) = find(graph, &takes) {
        let mut node = graph.nodes[maker].clone();
        node.then.push(then);
        node.then.extend(&graph.nodes[reader].then);
        node.outputs = graph.nodes[reader].outputs.clone();
        graph.nodes[reader] = node;
        graph.nodes.remove(maker);
        fused += 1;
    }
    fused
}

/// A node, its only reader, and the step that the reader is.
fn find(graph: &Graph, takes: impl Fn(&Node) -> bool) -> Option<(usize, usize, Then)> {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    // A value that a node with one output makes for one reader, without rounding it.
    let maker = |value: ValueId| {
        let place = makers[value.index()]?;
        let alone = counts[value.index()] == 1 && graph.nodes[place].outputs.len() == 1;
        let exact = matches!(graph.ty(value).element, Element::Plain(_));
        (alone && exact && takes(&graph.nodes[place])).then_some(place)
    };
    let limited = |value: ValueId, reader: &Node| {
        let place = makers[value.index()]?;
        let alone = counts[value.index()] == 1 && graph.nodes[place].outputs.len() == 1;
        let same = graph.ty(value).element == graph.ty(reader.outputs[0]).element;
        (alone && same && graph.nodes[place].then.is_empty() && takes(&graph.nodes[place])).then_some(place)
    };
    graph.nodes.iter().enumerate().find_map(|(reader, node)| match (&node.op, node.inputs.as_slice()) {
        (Op::Map(limits @ Function::Clamp { .. }), &[x]) if graph.ty(x).quantized().is_some() => {
            Some((limited(x, node)?, reader, Then::Apply(*limits)))
        }
        (Op::Map(function), &[x]) => Some((maker(x)?, reader, Then::Apply(*function))),
        (Op::Combine(combine @ (Combine::Add | Combine::Multiply)), &[a, b]) => {
            let alike = graph.ty(a).dims == graph.ty(b).dims && graph.ty(a).element == graph.ty(b).element;
            // The later of the two operands, so that a chain of nodes is fused from its end.
            let candidates = if makers[a.index()] > makers[b.index()] { [(a, b), (b, a)] } else { [(b, a), (a, b)] };
            let found = candidates.into_iter().find_map(|(own, other)| Some((maker(own)?, other)));
            let (place, other) = found.filter(|_| alike && a != b)?;
            let step = if *combine == Combine::Add { Then::Add(other) } else { Then::Multiply(other) };
            Some((place, reader, step))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_node_moves_into_it() {
        let text = "%0: float32[1, 4] = input\n\
                    %1: float32[8, 4] = constant \"w\"\n\
                    %2: float32[1, 8] = linear %0, %1 {transposed: false}\n\
                    %3: float32[1, 8] = linear %0, %1 {transposed: false}\n\
                    %4: float32[1, 8] = tanh %3\n\
                    %5: float32[1, 8] = add %2, %4\n\
                    %6: float32[1, 8] = clamp %5 {low: 0, high: inf}\n\
                    output %6\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fuse_steps(&mut graph, |node| matches!(node.op, Op::Linear { .. })), 3);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: float32[1, 4] = input\n\
                        %1: float32[8, 4] = constant \"w\"\n\
                        %2: float32[1, 8] = linear %0, %1 {transposed: false}\n\
                        %3: float32[1, 8] = linear %0, %1 {transposed: false} \
                        then tanh, add %2, clamp {low: 0, high: inf}\n\
                        output %3\n";
        assert_eq!(graph.to_string(), expected);
    }

    #[test]
    fn a_result_that_others_read_stays() {
        let text = "%0: float32[4] = input\n\
                    %1: float32[4] = exp %0\n\
                    %2: float32[4] = abs %1\n\
                    output %1, %2\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fuse_steps(&mut graph, |_| true), 0);
    }

    #[test]
    fn limits_commute_with_rounding() {
        let text = "%0: q8{scale: 0.5, zero: 1}[4] = input\n\
                    %1: q8{scale: 0.25, zero: 1}[4] = square %0\n\
                    %2: q8{scale: 0.25, zero: 1}[4] = clamp %1 {low: 0, high: 6}\n\
                    %3: q8{scale: 0.5, zero: 1}[4] = clamp %2 {low: 0, high: 5}\n\
                    output %3\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fuse_steps(&mut graph, |_| true), 1);
        assert_eq!(graph.nodes[0].then, [Then::Apply(Function::Clamp { low: 0.0, high: 6.0 })]);
        assert_eq!(graph.nodes.len(), 2);
    }
}
