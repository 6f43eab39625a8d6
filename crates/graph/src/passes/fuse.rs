//! Moves functions and sums into the node whose result they change.
//!
//! A node whose only reader is a function of each element, or a sum or product with a value of the same sizes, takes over
//! that reader as a further step. The node moves down to where its reader was, so that the other value is there; nobody
//! else read its result in between. Quantised results are left alone, because they are rounded before the reader sees
//! them, but for limits: these commute with rounding as long as the quantisation stays the same.

use super::around::Around;
use crate::graph::{Graph, Node, Then, ValueId};
use crate::op::{Combine, Function, Op};
use crate::types::Element;

/// Fuses where `takes` says that a node can have `more` further steps; answers how many nodes moved.
pub fn fuse_steps(graph: &mut Graph, takes: impl Fn(&Graph, &Node, usize) -> bool) -> usize {
    let (mut makers, counts) = (graph.makers(), graph.read_counts());
    let mut moved = vec![false; graph.nodes.len()];
    // What is fused stands where its reader was: those that come later find it there, and those before are not concerned.
    for reader in 0..graph.nodes.len() {
        let Some((maker, then)) = (Around { graph, makers: &makers, counts: &counts }).step(reader, &takes) else {
            continue;
        };
        let mut node = graph.nodes[maker].clone();
        node.then.push(then);
        node.then.extend(&graph.nodes[reader].then);
        node.outputs = graph.nodes[reader].outputs.clone();
        makers[node.outputs[0].index()] = Some(reader);
        graph.nodes[reader] = node;
        moved[maker] = true;
    }
    let fused = moved.iter().filter(|moved| **moved).count();
    let mut moved = moved.into_iter();
    graph.nodes.retain(|_| !moved.next().unwrap_or(false));
    fused
}

impl Around<'_> {
    /// The node that takes over a reader as a further step, and that step.
    fn step(&self, reader: usize, takes: impl Fn(&Graph, &Node, usize) -> bool) -> Option<(usize, Then)> {
        let (graph, makers, node) = (self.graph, self.makers, &self.graph.nodes[reader]);
        let takes = |maker: &Node| takes(graph, maker, 1 + node.then.len());
        let exact = |value: ValueId| matches!(graph.ty(value).element, Element::Plain(_));
        match (&node.op, node.inputs.as_slice()) {
            (Op::Map(limits @ Function::Clamp { .. }), &[x]) if graph.ty(x).quantized().is_some() => {
                let same = graph.ty(x).element == graph.ty(node.outputs[0]).element;
                let place = self.extended(x, takes).filter(|&place| same && graph.nodes[place].then.is_empty())?;
                Some((place, Then::Apply(*limits)))
            }
            (Op::Map(function), &[x]) => Some((self.extended(x, takes).filter(|_| exact(x))?, Then::Apply(*function))),
            (Op::Combine(combine @ (Combine::Add | Combine::Multiply)), &[a, b]) => {
                let alike = graph.ty(a).dims == graph.ty(b).dims && graph.ty(a).element == graph.ty(b).element;
                // The later of the two operands, so that a chain of nodes is fused from its end.
                let candidates =
                    if makers[a.index()] > makers[b.index()] { [(a, b), (b, a)] } else { [(b, a), (a, b)] };
                let found = candidates.into_iter().filter(|(own, _)| exact(*own));
                let found = found.filter_map(|(own, other)| Some((self.extended(own, takes)?, other))).next();
                let (place, other) = found.filter(|_| alike && a != b)?;
                let step = if *combine == Combine::Add { Then::Add(other) } else { Then::Multiply(other) };
                Some((place, step))
            }
            _ => None,
        }
    }

    /// The node with one output that makes a value for one reader, if it takes what that does.
    fn extended(&self, value: ValueId, takes: impl Fn(&Node) -> bool) -> Option<usize> {
        let place = self.makers[value.index()]?;
        let node = &self.graph.nodes[place];
        (self.counts[value.index()] == 1 && node.outputs.len() == 1 && takes(node)).then_some(place)
    }
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
        assert_eq!(fuse_steps(&mut graph, |_, node, _| matches!(node.op, Op::Linear { .. })), 3);
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

    /// A reader comes with the steps that follow it.
    #[test]
    fn no_node_gets_more_steps_than_it_takes() {
        let text = "%0: float32[4] = input\n\
                    %1: float32[4] = tanh %0 then clamp {low: 0, high: 1}\n\
                    %2: float32[4] = tanh %1 then clamp {low: 0, high: 1}\n\
                    %3: float32[4] = tanh %2 then clamp {low: 0, high: 1}\n\
                    output %3\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fuse_steps(&mut graph, |_, node, more| node.then.len() + more <= 4), 1);
        assert_eq!(graph.nodes.iter().map(|node| node.then.len()).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn a_result_that_others_read_stays() {
        let text = "%0: float32[4] = input\n\
                    %1: float32[4] = exp %0\n\
                    %2: float32[4] = abs %1\n\
                    output %1, %2\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fuse_steps(&mut graph, |_, _, _| true), 0);
    }

    #[test]
    fn limits_commute_with_rounding() {
        let text = "%0: q8{scale: 0.5, zero: 1}[4] = input\n\
                    %1: q8{scale: 0.25, zero: 1}[4] = square %0\n\
                    %2: q8{scale: 0.25, zero: 1}[4] = clamp %1 {low: 0, high: 6}\n\
                    %3: q8{scale: 0.5, zero: 1}[4] = clamp %2 {low: 0, high: 5}\n\
                    output %3\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fuse_steps(&mut graph, |_, _, _| true), 1);
        assert_eq!(graph.nodes[0].then, [Then::Apply(Function::Clamp { low: 0.0, high: 6.0 })]);
        assert_eq!(graph.nodes.len(), 2);
    }
}
