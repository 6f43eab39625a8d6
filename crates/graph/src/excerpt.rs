//! A graph of some of the nodes of another.

use crate::graph::{ConstantId, Graph, Origin, ValueId};
use std::collections::{HashMap, HashSet};

impl Graph {
    /// The graph of these nodes, which come in the order in which they run, that gives these values. What is read and not
    /// made by them becomes its inputs, in the order in which it is first read; which values of this graph those are comes
    /// with it. That takes as long as the excerpt is large, however large this graph is.
    pub fn excerpt(&self, nodes: &[usize], outputs: &[ValueId]) -> (Graph, Vec<ValueId>) {
        let nodes = || nodes.iter().map(|&place| &self.nodes[place]);
        let made: HashSet<ValueId> = nodes().flat_map(|node| node.outputs.iter().copied()).collect();
        let mut excerpt = Excerpt::of(self);
        let reads = nodes().flat_map(|node| node.reads()).chain(outputs.iter().copied());
        let given: Vec<ValueId> = reads.filter(|id| !made.contains(id) && excerpt.enter(*id)).collect();
        for node in nodes() {
            let mut node = node.clone();
            node.map_reads(|id| excerpt.values[&id]);
            node.outputs.iter_mut().for_each(|id| *id = excerpt.value(*id, Origin::Node));
            excerpt.graph.nodes.push(node);
        }
        excerpt.graph.outputs = outputs.iter().map(|id| excerpt.values[id]).collect();
        (excerpt.graph, given)
    }
}

struct Excerpt<'g> {
    whole: &'g Graph,
    graph: Graph,
    /// The numbers of values and constants that are in it.
    values: HashMap<ValueId, ValueId>,
    constants: HashMap<ConstantId, ConstantId>,
}

impl<'g> Excerpt<'g> {
    fn of(whole: &'g Graph) -> Self {
        Self { whole, graph: Graph::default(), values: HashMap::new(), constants: HashMap::new() }
    }

    /// Takes a value in that no node of the excerpt makes; answers whether it is a new input.
    fn enter(&mut self, id: ValueId) -> bool {
        if self.values.contains_key(&id) {
            return false;
        }
        let origin = match self.whole.as_constant(id) {
            Some(constant) => Origin::Constant(self.constant(constant)),
            None => Origin::Input,
        };
        let own = self.value(id, origin);
        self.graph.inputs.extend((origin == Origin::Input).then_some(own));
        origin == Origin::Input
    }

    fn value(&mut self, id: ValueId, origin: Origin) -> ValueId {
        let mut ty = self.whole.ty(id).clone();
        if let Some(scales) = ty.scales_mut() {
            *scales = self.constant(*scales);
        }
        let own = self.graph.value(ty, origin);
        self.values.insert(id, own);
        own
    }

    fn constant(&mut self, id: ConstantId) -> ConstantId {
        let Self { whole, graph, constants, .. } = self;
        *constants.entry(id).or_insert_with(|| {
            graph.constants.push(whole.constants[id.index()].clone());
            ConstantId(graph.constants.len() as u32 - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{ValueId, parse, verify};

    const WHOLE: &str = "%0: float32[2, 4] = input\n\
                         %1: float32[4] = input\n\
                         @0 = \"scales\"\n\
                         %2: float32[4] = constant \"bias\"\n\
                         %3: q8{axis: 0, scales: @0, zero: 0}[4, 4] = constant \"weight\"\n\
                         %4: float32[4] = add %1, %2\n\
                         %5: float32[2, 4] = linear %0, %3 {transposed: false}\n\
                         %6: float32[2, 4] = add %5, %4\n\
                         %7: float32[2, 4] = exp %6 then add %5\n\
                         output %7, %5\n";

    /// What the nodes give, as text, and the values that they are given.
    fn excerpt(nodes: &[usize], outputs: &[u32]) -> (String, Vec<u32>) {
        let whole = parse(WHOLE).unwrap();
        let outputs: Vec<_> = outputs.iter().copied().map(ValueId).collect();
        let (graph, given) = whole.excerpt(nodes, &outputs);
        verify(&graph).unwrap();
        (graph.to_string(), given.into_iter().map(|id| id.0).collect())
    }

    #[test]
    fn what_is_not_made_is_given() {
        let (text, given) = excerpt(&[2, 3], &[7]);
        assert_eq!(given, [5, 4]);
        assert_eq!(
            text,
            "%0: float32[2, 4] = input\n\
             %1: float32[4] = input\n\
             %2: float32[2, 4] = add %0, %1\n\
             %3: float32[2, 4] = exp %2 then add %0\n\
             output %3\n"
        );
    }

    #[test]
    fn constants_come_along_with_those_of_their_types() {
        let (text, given) = excerpt(&[1], &[5]);
        assert_eq!(given, [0]);
        assert!(text.contains("@0 = \"scales\"") || text.contains("@1 = \"scales\""), "{text}");
        assert!(text.contains("constant \"weight\"") && !text.contains("bias"), "{text}");
    }

    #[test]
    fn values_may_pass_through() {
        let (text, given) = excerpt(&[], &[1, 2, 1]);
        assert_eq!(given, [1]);
        let expected = "%0: float32[4] = input\n%1: float32[4] = constant \"bias\"\noutput %0, %1, %0\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn all_nodes_are_the_graph() {
        let whole = parse(WHOLE).unwrap();
        let mut expected = whole.clone();
        expected.compact();
        let (mut graph, given) = whole.excerpt(&[0, 1, 2, 3], &whole.outputs);
        // The inputs come in the order in which they are read.
        assert_eq!(given, [ValueId(1), ValueId(0)]);
        graph.inputs.reverse();
        graph.compact();
        assert_eq!(graph, expected);
    }
}
