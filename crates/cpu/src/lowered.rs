//! A graph in the form in which it is run, and the sizes that this form is for.
//!
//! Lowering decides by the sizes of the types: whether operands are alike, whether a dimension is one. Those are the largest
//! sizes, and a run may come with others. As a rule what was decided holds for them, too; where it does not, the graph is
//! lowered once more, for the sizes of that run.

use crate::model::Options;
use crate::passes::lower;
use crate::weights::Packed;
use sconce_graph::{Constants, Dim, Graph, Node, Op, Origin, Shape, Source, ValueId, infer};

/// A graph, lowered.
#[derive(Debug)]
pub(crate) struct Lowered {
    graph: Graph,
    packed: Packed,
    /// The sizes of the values of the graph as it came, for which it was lowered, where others are possible.
    bounds: Vec<Shape>,
    /// The values of the graph as it came that are left, and what they are called here.
    kept: Vec<(ValueId, ValueId)>,
}

impl Lowered {
    /// Lowers a graph for the sizes of its types.
    pub(crate) fn new(mut graph: Graph, options: &Options, constants: &dyn Constants) -> Self {
        let values = if options.varies { &graph.values[..] } else { &[] };
        let bounds: Vec<Shape> = values.iter().map(|value| value.ty.sizes()).collect();
        let numbers = lower(&mut graph, options.rounding, constants);
        let numbers = numbers.into_iter().take(bounds.len()).enumerate();
        let kept = numbers.filter_map(|(index, number)| Some((ValueId(index as u32), number?))).collect();
        let packed = Packed::new(&graph, options.isa, options.exact, constants);
        Self { graph, packed, bounds, kept }
    }

    /// Lowers a graph for values of these sizes. No constant is looked at, so none need be at hand.
    pub(crate) fn for_sizes(graph: &Graph, sizes: &[Shape], options: &Options) -> Result<Self, String> {
        let mut graph = graph.clone();
        for (value, sizes) in graph.values.iter_mut().zip(sizes) {
            if !matches!(value.origin, Origin::Constant(_)) {
                value.ty.dims = sizes.iter().map(|&size| Dim::Fixed(size)).collect();
            }
        }
        sconce_graph::verify(&graph).map_err(|invalid| invalid.to_string())?;
        Ok(Self::new(graph, options, &Unseen))
    }

    /// The graph as it is run.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its weights.
    pub(crate) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// The sizes of the values here for inputs of these sizes, which make `sizes` of the graph as it came; `None` if something
    /// that was decided does not hold for them.
    pub(crate) fn sizes(&self, given: &Graph, sizes: &[Shape], inputs: &[&[usize]]) -> Option<Vec<Shape>> {
        let own = self.holds(given, sizes).then(|| infer(&self.graph, inputs).ok())??;
        let same = self.kept.iter().all(|(old, new)| sizes[old.index()] == own[new.index()]);
        same.then_some(own)
    }

    /// Whether dimensions that were one are one, and operands that were alike are alike.
    fn holds(&self, given: &Graph, sizes: &[Shape]) -> bool {
        let within = |(size, bound): (&usize, &usize)| size <= bound && (*bound != 1 || *size == 1);
        let fits =
            |(sizes, bounds): (&Shape, &Shape)| sizes.len() == bounds.len() && sizes.iter().zip(bounds).all(within);
        sizes.iter().zip(&self.bounds).all(fits) && given.nodes.iter().all(|node| self.keeps(node, sizes))
    }

    /// Whether what an operand shares with the result of a node, it shares with values of these sizes.
    fn keeps(&self, node: &Node, sizes: &[Shape]) -> bool {
        let Some(&result) = node.outputs.first() else { return true };
        // A dimension of the result and of an operand, counted from the last: where they were the same, they are.
        let shares = |operand: ValueId, from_end: usize| {
            let same = |sizes: &[Shape]| {
                let size = |id: ValueId| sizes[id.index()].iter().rev().nth(from_end);
                size(operand) == size(result)
            };
            !same(&self.bounds) || same(sizes)
        };
        let rank = self.bounds[result.index()].len();
        let operands = |first: usize| node.inputs.iter().all(|&id| (first..rank).all(|dim| shares(id, dim)));
        match node.op {
            Op::Combine(_) | Op::Select => operands(0),
            Op::MatMul => operands(2),
            Op::Reshape { .. } => {
                let [from, to] = [node.inputs[0], result].map(|id| self.bounds[id.index()].iter().rev());
                let together = from.zip(to).take_while(|(from, to)| from == to).count();
                (0..together).all(|dim| shares(node.inputs[0], dim))
            }
            // How many results each channel has decides how weights are packed.
            Op::DepthwiseConv2d { .. } => {
                let image = node.inputs[0].index();
                sizes[image].last() == self.bounds[image].last()
            }
            _ => true,
        }
    }
}

/// Constants of which only those are seen that the graph itself holds.
struct Unseen;

impl Constants for Unseen {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        match source {
            Source::Bytes(bytes) => Some(bytes),
            Source::Named(_) | Source::Payload(_) | Source::Program(_) | Source::Value(_) => None,
        }
    }
}
