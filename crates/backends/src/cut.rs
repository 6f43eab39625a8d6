//! Which engine gets which nodes.
//!
//! Every node goes to the first engine that takes it. Neighbours on one engine become a piece, a graph of its own; a node
//! joins an earlier piece of its engine if nothing that it reads is made after that one. Pieces run one after the other.
//!
//! Pieces give results of their nodes, each once. What the whole graph gives unchanged, because an input or a constant is
//! an output too, is a piece without nodes, of the last engine.

use sconce_graph::engine::Engine;
use sconce_graph::{Element, Graph, Origin, Scheme, ValueId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The nodes of a graph that one engine gets.
pub(crate) struct Piece {
    /// Which engine.
    pub(crate) engine: usize,
    pub(crate) graph: Graph,
    /// The values of the whole graph that its inputs are, and its outputs.
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    /// What elements its outputs have.
    pub(crate) elements: Vec<Element>,
}

/// A graph in pieces.
pub(crate) struct Cut {
    pub(crate) pieces: Vec<Piece>,
    /// What engines said of nodes that went to a later one: sentences, each once.
    pub(crate) refusals: Vec<String>,
}

impl Piece {
    /// A graph that is not cut.
    pub(crate) fn whole(graph: Graph, engine: usize) -> Self {
        let (inputs, outputs) = (graph.inputs.clone(), graph.outputs.clone());
        Self::new(engine, graph, inputs, outputs)
    }

    fn new(engine: usize, graph: Graph, inputs: Vec<ValueId>, outputs: Vec<ValueId>) -> Self {
        let elements = graph.outputs.iter().map(|&id| graph.ty(id).element.clone()).collect();
        Self { engine, graph, inputs, outputs, elements }
    }
}

/// Cuts a graph between the engines of these numbers, the best first. The last one gets what no other takes.
pub(crate) fn cut(graph: &Graph, engines: &[Arc<dyn Engine>], offered: &[usize]) -> Cut {
    let Some((&last, others)) = offered.split_last() else { return Cut { pieces: Vec::new(), refusals: Vec::new() } };
    let mut offer = Offer { graph, engines, others, last, refusals: Vec::new(), said: HashSet::new() };
    let mut chosen = vec![last; graph.nodes.len()];
    for set in sets(graph) {
        let engine = offer.choose(&set);
        set.into_iter().for_each(|place| chosen[place] = engine);
    }
    let refusals = offer.refusals;
    if chosen.iter().all(|&engine| engine == last) {
        return Cut { pieces: vec![Piece::whole(graph.clone(), last)], refusals };
    }
    let mut groups = groups(graph, &chosen);
    if graph.outputs.iter().any(|&id| is_passed(graph, id)) {
        groups.push((last, Vec::new()));
    }
    Cut { pieces: pieces(graph, &groups), refusals }
}

/// Whether a value of the graph is made by no node.
fn is_passed(graph: &Graph, id: ValueId) -> bool {
    graph.values[id.index()].origin != Origin::Node
}

/// Engines that are asked for nodes.
struct Offer<'a> {
    graph: &'a Graph,
    engines: &'a [Arc<dyn Engine>],
    /// All but the last one, the best first.
    others: &'a [usize],
    last: usize,
    refusals: Vec<String>,
    said: HashSet<String>,
}

impl Offer<'_> {
    /// The first engine that takes all these nodes.
    fn choose(&mut self, places: &[usize]) -> usize {
        let others = self.others.iter().copied();
        others.into_iter().find(|&engine| places.iter().all(|&place| self.takes(engine, place))).unwrap_or(self.last)
    }

    fn takes(&mut self, engine: usize, place: usize) -> bool {
        let (engine, node) = (&self.engines[engine], &self.graph.nodes[place]);
        let Err(reason) = engine.takes(self.graph, node) else { return true };
        let sentence = format!("{} does not run {}: {reason}", engine.name(), node.op.name());
        if self.said.insert(sentence.clone()) {
            self.refusals.push(sentence);
        }
        false
    }
}

/// Nodes that one engine must run. Rows with scales found at run time lie in memory as each engine likes, so who makes them
/// and who reads them is one.
fn sets(graph: &Graph) -> Vec<Vec<usize>> {
    let is_row = |id: &ValueId| {
        graph.ty(*id).quantized().is_some_and(|quantized| matches!(quantized.scheme, Scheme::PerToken { .. }))
    };
    // Every node leads to one of its set, and that one in the end to the first.
    let mut above: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut touched = HashMap::new();
    for (place, node) in graph.nodes.iter().enumerate() {
        for id in node.reads().chain(node.outputs.iter().copied()).filter(is_row) {
            let other = *touched.entry(id).or_insert(place);
            let (one, other) = (top(&mut above, place), top(&mut above, other));
            above[one.max(other)] = one.min(other);
        }
    }
    let mut sets = vec![Vec::new(); graph.nodes.len()];
    (0..graph.nodes.len()).for_each(|place| sets[top(&mut above, place)].push(place));
    sets.retain(|set| !set.is_empty());
    sets
}

fn top(above: &mut [usize], mut place: usize) -> usize {
    while above[place] != place {
        above[place] = above[above[place]];
        place = above[place];
    }
    place
}

/// Nodes that run together, in the order in which they run.
fn groups(graph: &Graph, chosen: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut of_engine: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut made = vec![0; graph.values.len()];
    for (place, (node, &engine)) in graph.nodes.iter().zip(chosen).enumerate() {
        let earliest = node.reads().map(|id| made[id.index()]).max().unwrap_or(0);
        let own = of_engine.entry(engine).or_default();
        let group = match own.get(own.partition_point(|group| *group < earliest)) {
            Some(&group) => group,
            None => {
                groups.push((engine, Vec::new()));
                own.push(groups.len() - 1);
                groups.len() - 1
            }
        };
        groups[group].1.push(place);
        node.outputs.iter().for_each(|id| made[id.index()] = group);
    }
    groups
}

/// The graph of each group.
fn pieces(graph: &Graph, groups: &[(usize, Vec<usize>)]) -> Vec<Piece> {
    let mut home = vec![None; graph.values.len()];
    let mut wanted = vec![false; graph.values.len()];
    let made = |places: &[usize]| {
        let outputs = places.iter().flat_map(|&place| graph.nodes[place].outputs.iter().copied());
        outputs.collect::<Vec<_>>()
    };
    for (number, (_, places)) in groups.iter().enumerate() {
        made(places).into_iter().for_each(|id| home[id.index()] = Some(number));
    }
    graph.outputs.iter().for_each(|id| wanted[id.index()] = true);
    for (number, (_, places)) in groups.iter().enumerate() {
        let reads = places.iter().flat_map(|&place| graph.nodes[place].reads());
        reads.filter(|id| home[id.index()] != Some(number)).for_each(|id| wanted[id.index()] = true);
    }
    let piece = |(engine, places): &(usize, Vec<usize>)| {
        let outputs: Vec<ValueId> = match places.is_empty() {
            true => once(graph.outputs.iter().copied().filter(|&id| is_passed(graph, id))),
            false => made(places).into_iter().filter(|id| wanted[id.index()]).collect(),
        };
        let (own, inputs) = graph.excerpt(places, &outputs);
        Piece::new(*engine, own, inputs, outputs)
    };
    groups.iter().map(piece).collect()
}

fn once(ids: impl Iterator<Item = ValueId>) -> Vec<ValueId> {
    let mut seen = HashSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}

#[cfg(test)]
mod tests;
