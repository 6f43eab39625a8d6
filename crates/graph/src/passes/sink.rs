//! Moves transposes towards the end.
//!
//! Programs that keep channels first are decoded with a transpose before and after every operation that wants them last.
//! A function of elements does not care: computed before the transpose instead of after it, it lets that transpose meet
//! the next one, and the two undo each other. What is left are transposes at the borders.

use crate::graph::{Graph, Node, Origin, ValueId};
use crate::op::Op;
use crate::types::{Dim, Element, Scheme, Type};
use std::mem::take;

/// Moves transposes past the operations that can do without them; answers past how many.
pub fn sink_transposes(graph: &mut Graph) -> usize {
    let nodes = take(&mut graph.nodes);
    let mut sinking = Sinking { moved: vec![None; graph.values.len()], graph, sunk: 0 };
    for node in nodes {
        sinking.node(node);
    }
    let (graph, sunk) = (sinking.graph, sinking.sunk);
    super::remove_dead(graph);
    sunk
}

/// A value that is the transpose of another.
#[derive(Clone)]
struct Moved {
    from: ValueId,
    order: Vec<usize>,
}

struct Sinking<'a> {
    graph: &'a mut Graph,
    /// By value.
    moved: Vec<Option<Moved>>,
    sunk: usize,
}

impl Sinking<'_> {
    fn node(&mut self, node: Node) {
        if let (Op::Transpose { order }, true) = (&node.op, node.then.is_empty()) {
            let joined = self.joined(node.inputs[0], order);
            return self.transpose(joined, node.outputs[0]);
        }
        match self.sink(&node) {
            Some((op, inputs, order)) => {
                let whole = self.graph.ty(node.outputs[0]).clone();
                let mut dims = whole.dims.clone();
                for (dim, &place) in whole.dims.iter().zip(&order) {
                    dims[place] = dim.clone();
                }
                let from = self.graph.node(op, inputs, Type { dims, ..whole });
                self.sunk += 1;
                self.transpose(Moved { from, order }, node.outputs[0]);
            }
            None => {
                let mut node = node;
                node.map_reads(|value| self.same_as(value));
                self.graph.nodes.push(node);
            }
        }
    }

    fn moved(&self, value: ValueId) -> Option<&Moved> {
        self.moved.get(value.index())?.as_ref()
    }

    /// What to read instead of a value that was transposed there and back.
    fn same_as(&self, value: ValueId) -> ValueId {
        self.moved(value).filter(|moved| moved.order.is_sorted()).map_or(value, |moved| moved.from)
    }

    /// The transpose of a value, said of the value that it is a transpose of.
    fn joined(&self, value: ValueId, order: &[usize]) -> Moved {
        match self.moved(value) {
            Some(inner) => Moved { from: inner.from, order: order.iter().map(|&dim| inner.order[dim]).collect() },
            None => Moved { from: value, order: order.to_vec() },
        }
    }

    fn transpose(&mut self, moved: Moved, output: ValueId) {
        let op = Op::Transpose { order: moved.order.clone() };
        self.graph.nodes.push(Node::new(op, vec![moved.from], vec![output]));
        self.moved[output.index()] = Some(moved);
    }

    /// The node on values as they were before they were transposed, and the order of its result.
    fn sink(&mut self, node: &Node) -> Option<(Op, Vec<ValueId>, Vec<usize>)> {
        let plain = |value: &ValueId| match &self.graph.ty(*value).element {
            Element::Plain(_) => true,
            Element::Quantized(quantized) => matches!(quantized.scheme, Scheme::PerTensor { .. }),
        };
        let order = node.inputs.iter().find_map(|&input| self.moved(input)).map(|moved| moved.order.clone())?;
        let simple = node.then.is_empty() && node.outputs.len() == 1 && !order.is_sorted();
        let simple = simple && node.inputs.iter().chain(&node.outputs).all(plain);
        let (op, result) = sunk(&node.op, &order).filter(|_| simple)?;
        let before: Option<Vec<ValueId>> = node.inputs.iter().map(|&input| self.before(input, &order)).collect();
        Some((op, before?, result))
    }

    /// What an input was before it was transposed; a constant can be any.
    fn before(&mut self, input: ValueId, order: &[usize]) -> Option<ValueId> {
        if let Some(moved) = self.moved(input) {
            return (moved.order == order).then_some(moved.from);
        }
        let constant = self.graph.as_constant(input)?;
        let ty = self.graph.ty(input).clone();
        let missing = order.len().checked_sub(ty.dims.len())?;
        if missing > 0 && !self.graph.constants[constant.index()].order.is_empty() {
            return None;
        }
        let dims = (0..missing).map(|_| Dim::Fixed(1)).chain(ty.dims).collect();
        let whole = self.graph.value(Type { element: ty.element, dims }, Origin::Constant(constant));
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(dim, &place)| back[place] = dim);
        self.graph.reordered(whole, &back)
    }
}

/// An operation on inputs that are not yet transposed to this order, and the order of its result.
fn sunk(op: &Op, order: &[usize]) -> Option<(Op, Vec<usize>)> {
    let same = order.to_vec();
    let spread = |values: &[usize]| {
        let mut moved = vec![0; order.len()];
        order.iter().zip(values).for_each(|(&place, &value)| moved[place] = value);
        moved
    };
    match op {
        Op::Map(_) | Op::Combine(_) | Op::Copy | Op::Convert => Some((op.clone(), same)),
        Op::Concat { axis } => Some((Op::Concat { axis: order[*axis] }, same)),
        Op::Slice { starts, sizes } => Some((Op::Slice { starts: spread(starts), sizes: spread(sizes) }, same)),
        Op::Pad { before, after, value } => {
            Some((Op::Pad { before: spread(before), after: spread(after), value: *value }, same))
        }
        Op::Softmax | Op::LogSoftmax | Op::SafeSoftmax => {
            (order.last() == Some(&(order.len() - 1))).then_some((op.clone(), same))
        }
        Op::Reduce { of, axes, keep } => {
            let mut moved: Vec<usize> = axes.iter().map(|&axis| order[axis]).collect();
            moved.sort_unstable();
            // Neighbours stay neighbours: engines take them together.
            if moved.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
                return None;
            }
            let left = |dim: usize| dim - moved.iter().filter(|&&axis| axis < dim).count();
            let rest = order.iter().enumerate().filter(|(dim, _)| !axes.contains(dim));
            let result = if *keep { same } else { rest.map(|(_, &place)| left(place)).collect() };
            Some((Op::Reduce { of: *of, axes: moved, keep: *keep }, result))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_borders_are_left() {
        let text = "%0: float32[1, 3, 8, 8] = input\n\
                    %1: float32[1, 8, 8, 3] = transpose %0 {order: [0, 2, 3, 1]}\n\
                    %2: float32[5, 1, 1, 3] = constant \"w\"\n\
                    %3: float32[1, 8, 8, 5] = conv2d %1, %2 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], \
                    groups: 1}\n\
                    %4: float32[1, 5, 8, 8] = transpose %3 {order: [0, 3, 1, 2]}\n\
                    %5: float32[5, 1, 1] = constant \"c\"\n\
                    %6: float32[1, 5, 8, 8] = add %4, %5\n\
                    %7: float32[1, 5, 8, 8] = sigmoid %6\n\
                    %8: float32[1, 5] = reduce %7 {of: mean, axes: [2, 3], keep: false}\n\
                    %9: float32[1, 8, 8, 5] = transpose %7 {order: [0, 2, 3, 1]}\n\
                    %10: float32[1, 8, 8, 5] = tanh %9\n\
                    output %8, %10\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(sink_transposes(&mut graph), 3);
        crate::verify(&graph).unwrap();
        super::super::simplify_transposes(&mut graph);
        graph.compact();
        let text = graph.to_string();
        assert_eq!(text.matches("transpose").count(), 1, "{text}");
        assert!(text.contains("float32[1, 1, 1, 5] = constant \"c\" in order [0, 2, 3, 1]"), "{text}");
        assert!(text.contains("{of: mean, axes: [1, 2], keep: false}"), "{text}");
    }

    #[test]
    fn boxes_and_borders_follow_their_dimensions() {
        let text = "%0: float32[2, 3, 4] = input\n\
                    %1: float32[4, 2, 3] = transpose %0 {order: [2, 0, 1]}\n\
                    %2: float32[1, 2, 2] = slice %1 {starts: [3, 0, 1], sizes: [1, 2, 2]}\n\
                    %3: float32[2, 2, 2] = pad %2 {before: [1, 0, 0], after: [0, 0, 0], value: 7}\n\
                    output %3\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(sink_transposes(&mut graph), 2);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: float32[2, 3, 4] = input\n\
                        %1: float32[2, 2, 1] = slice %0 {starts: [0, 1, 3], sizes: [2, 2, 1]}\n\
                        %2: float32[2, 2, 2] = pad %1 {before: [0, 0, 1], after: [0, 0, 0], value: 7}\n\
                        %3: float32[2, 2, 2] = transpose %2 {order: [2, 0, 1]}\n\
                        output %3\n";
        assert_eq!(graph.to_string(), expected);
    }
}
