//! The list of steps before they are made: what selection gives and passes rewrite.

use crate::steps::Choice;
use sconce_graph::ValueId;
use std::fmt;

/// What is chosen for a node, with the values it reads and the scratch it wants.
pub(crate) struct Selected {
    pub(crate) node: usize,
    /// The first value that the node makes.
    pub(crate) makes: ValueId,
    pub(crate) choice: Choice,
    pub(crate) reads: Vec<ValueId>,
    pub(crate) scratch: usize,
    /// Nodes before this one that the step does, too.
    pub(crate) before: Vec<usize>,
}

/// A line: `%made = what it does, of %read, %read, with nodes before`.
impl fmt::Display for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.makes, self.choice)?;
        for (index, read) in self.reads.iter().enumerate() {
            write!(f, "{} {read}", if index == 0 { " of" } else { "," })?;
        }
        for (index, node) in self.before.iter().enumerate() {
            write!(f, "{} {node}", if index == 0 { " with nodes" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::model::Options;
    use crate::plan::select::select;
    use sconce_graph::{Graph, Shape};
    use sconce_kernels::Isa;

    /// A graph in the text form, and the list that selection gives for it on machines without vectors.
    pub(in crate::plan) fn selected(text: &str) -> (Graph, Vec<Selected>) {
        let graph = sconce_graph::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        sconce_graph::verify(&graph).unwrap();
        let sizes: Vec<Shape> = graph.values.iter().map(|value| value.ty.sizes()).collect();
        let options = Options { isa: Isa::Scalar, ..Options::default() };
        let list = select(&graph, &sizes, &options, 1).unwrap();
        (graph, list)
    }

    /// Bytes of each value.
    pub(in crate::plan) fn bytes(graph: &Graph) -> Vec<usize> {
        let stored = |value: &sconce_graph::Value| crate::plan::stored(&value.ty.element, &value.ty.sizes()).unwrap();
        graph.values.iter().map(stored).collect()
    }

    /// The list as text.
    pub(in crate::plan) fn text(list: &[Selected]) -> Vec<String> {
        list.iter().map(Selected::to_string).collect()
    }
}
