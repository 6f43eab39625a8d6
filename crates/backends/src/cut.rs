//! Which engine gets which nodes.
//!
//! Every node goes to the first engine that takes it. Neighbours on one engine become a piece, a graph of its own; a node
//! joins an earlier piece of its engine if nothing that it reads is made after that one. Pieces run one after the other.

use sconce_graph::engine::{Engine, Error};
use sconce_graph::{Graph, Origin, Scheme, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// Values that are copied into graphs of pieces, all together; what would fall into more is left whole.
const MOST_COPIED: usize = 50_000_000;

/// The nodes of a graph that one engine gets.
pub(crate) struct Piece {
    /// Which engine.
    pub(crate) engine: usize,
    pub(crate) graph: Graph,
    /// The values of the whole graph that its inputs are, and its outputs.
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
}

/// A graph in pieces.
pub(crate) struct Cut {
    pub(crate) pieces: Vec<Piece>,
    /// What engines said of nodes that went to a later one: sentences, each once.
    pub(crate) refusals: Vec<String>,
}

/// Cuts a graph between engines from `first` on, the best first. The last one gets what no other takes.
pub(crate) fn cut(graph: Graph, engines: &[Arc<dyn Engine>], first: usize) -> Result<Cut, Error> {
    let last = engines.len().checked_sub(1).ok_or_else(|| Error::Refused("there is no engine".to_owned()))?;
    let mut refusals = Vec::new();
    let choose = |place| choose(&graph, place, engines, first, &mut refusals);
    let mut chosen: Vec<usize> = (0..graph.nodes.len()).map(choose).collect();
    keep_rows_together(&graph, &mut chosen);
    let alone = chosen.first().copied().unwrap_or(last);
    if chosen.iter().all(|&engine| engine == alone) {
        let (inputs, outputs) = (graph.inputs.clone(), graph.outputs.clone());
        return Ok(Cut { pieces: vec![Piece { engine: alone, graph, inputs, outputs }], refusals });
    }
    let mut groups = groups(&graph, &chosen);
    if groups.len().saturating_mul(graph.values.len() + graph.constants.len()) > MOST_COPIED {
        return cut(graph, engines, last);
    }
    // What goes through unchanged is copied by the last engine.
    let passed = |id: &ValueId| graph.values[id.index()].origin != Origin::Node;
    if graph.outputs.iter().any(passed) {
        groups.push((last, Vec::new()));
    }
    Ok(Cut { pieces: pieces(&graph, &groups), refusals })
}

/// The first engine that takes a node.
fn choose(graph: &Graph, place: usize, engines: &[Arc<dyn Engine>], first: usize, said: &mut Vec<String>) -> usize {
    let (last, node) = (engines.len() - 1, &graph.nodes[place]);
    for (number, engine) in engines.iter().enumerate().take(last).skip(first) {
        match engine.takes(graph, node) {
            Ok(()) => return number,
            Err(reason) => {
                let sentence = format!("{} does not run {}: {reason}", engine.name(), node.op.name());
                if !said.contains(&sentence) {
                    said.push(sentence);
                }
            }
        }
    }
    last
}

/// Rows with scales found at run time lie in memory as each engine likes, so who makes them and who reads them is one.
fn keep_rows_together(graph: &Graph, chosen: &mut [usize]) {
    let is_row = |id: &ValueId| {
        graph.ty(*id).quantized().is_some_and(|quantized| matches!(quantized.scheme, Scheme::PerToken { .. }))
    };
    loop {
        let mut engines = HashMap::new();
        for (node, &engine) in graph.nodes.iter().zip(&*chosen) {
            for id in node.reads().chain(node.outputs.iter().copied()).filter(is_row) {
                let most = engines.entry(id).or_insert(engine);
                *most = engine.max(*most);
            }
        }
        let mut moved = false;
        for (node, engine) in graph.nodes.iter().zip(&mut *chosen) {
            let values = node.reads().chain(node.outputs.iter().copied());
            let wanted = values.filter_map(|id| engines.get(&id).copied()).max().unwrap_or(*engine);
            moved |= wanted > *engine;
            *engine = wanted.max(*engine);
        }
        if !moved {
            return;
        }
    }
}

/// Nodes that run together, in the order in which they run.
fn groups(graph: &Graph, chosen: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut made = vec![0; graph.values.len()];
    for (place, (node, &engine)) in graph.nodes.iter().zip(chosen).enumerate() {
        let earliest = node.reads().map(|id| made[id.index()]).max().unwrap_or(0);
        let group = (earliest..groups.len()).find(|&group| groups[group].0 == engine).unwrap_or(groups.len());
        if group == groups.len() {
            groups.push((engine, Vec::new()));
        }
        groups[group].1.push(place);
        node.outputs.iter().for_each(|id| made[id.index()] = group);
    }
    groups
}

/// The graph of each group.
fn pieces(graph: &Graph, groups: &[(usize, Vec<usize>)]) -> Vec<Piece> {
    let mut home = vec![usize::MAX; graph.values.len()];
    let mut wanted = vec![false; graph.values.len()];
    for (number, (_, places)) in groups.iter().enumerate() {
        let outputs = places.iter().flat_map(|&place| &graph.nodes[place].outputs);
        outputs.for_each(|id| home[id.index()] = number);
    }
    graph.outputs.iter().for_each(|id| wanted[id.index()] = true);
    for (number, (_, places)) in groups.iter().enumerate() {
        let reads = places.iter().flat_map(|&place| graph.nodes[place].reads());
        reads.filter(|id| home[id.index()] != number).for_each(|id| wanted[id.index()] = true);
    }
    let piece = |(number, (engine, places)): (usize, &(usize, Vec<usize>))| {
        let mut own = Graph { values: graph.values.clone(), constants: graph.constants.clone(), ..Graph::default() };
        let passed = graph.outputs.iter().copied().filter(|id| places.is_empty() && home[id.index()] == usize::MAX);
        let reads = places.iter().flat_map(|&place| graph.nodes[place].reads()).chain(passed.clone());
        for id in reads.filter(|id| home[id.index()] != number && graph.as_constant(*id).is_none()) {
            if !own.inputs.contains(&id) {
                own.values[id.index()].origin = Origin::Input;
                own.inputs.push(id);
            }
        }
        own.nodes = places.iter().map(|&place| graph.nodes[place].clone()).collect();
        let made = own.nodes.iter().flat_map(|node| node.outputs.iter().copied());
        own.outputs = made.filter(|id| wanted[id.index()]).collect();
        passed.for_each(|id| {
            if !own.outputs.contains(&id) {
                own.outputs.push(id)
            }
        });
        let (inputs, outputs) = (own.inputs.clone(), own.outputs.clone());
        own.compact();
        Piece { engine: *engine, graph: own, inputs, outputs }
    };
    groups.iter().enumerate().map(piece).collect()
}
