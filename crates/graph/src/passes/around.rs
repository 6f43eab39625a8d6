//! Who makes the values of a graph, and how often they are read: what passes that look for patterns ask.

use crate::graph::{Graph, Node, ValueId};
use crate::op::{Function, Op};
use crate::types::Element;

/// A graph, and who makes its values and how often they are read.
pub(super) struct Around<'a> {
    pub(super) graph: &'a Graph,
    pub(super) makers: &'a [Option<usize>],
    pub(super) counts: &'a [usize],
}

impl<'a> Around<'a> {
    /// The node that makes a plain value and does nothing more to it.
    pub(super) fn maker(&self, value: ValueId) -> Option<&'a Node> {
        let node = &self.graph.nodes[self.makers[value.index()]?];
        (node.then.is_empty() && matches!(self.graph.ty(value).element, Element::Plain(_))).then_some(node)
    }

    /// The same, if it makes the value for one reader.
    pub(super) fn alone(&self, value: ValueId) -> Option<&'a Node> {
        self.maker(value).filter(|_| self.counts[value.index()] == 1)
    }
}

/// Function and argument of a node.
pub(super) fn function_of(node: &Node) -> Option<(Function, ValueId)> {
    match (&node.op, node.inputs.as_slice()) {
        (Op::Map(function), &[x]) => Some((*function, x)),
        _ => None,
    }
}
