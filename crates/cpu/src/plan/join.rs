//! Which convolutions are computed together, in strips of rows.

use super::select::Selected;
use crate::steps::{After, Strips};
use sconce_graph::{Graph, Origin, ValueId};
use sconce_kernels::Isa;

/// Bytes of a value that are worth not writing to memory.
const WORTH: usize = 512 * 1024;

/// Joins neighbouring convolutions where a large value passes from one to the other and nobody else reads it.
pub(super) fn join(
    graph: &Graph,
    bytes: &[usize],
    chosen: Vec<(usize, Selected)>,
    isa: Isa,
    width: usize,
) -> Vec<(usize, Selected)> {
    let counts = graph.read_counts();
    let mut joined = Vec::with_capacity(chosen.len());
    let mut chain: Vec<(usize, Selected)> = Vec::new();
    for (place, selected) in chosen {
        let passed = chain.last().map(|(last, _)| graph.nodes[*last].outputs[0]);
        if !passed.is_some_and(|value| continues(graph, &counts, value, &selected)) {
            flush(graph, bytes, std::mem::take(&mut chain), isa, width, &mut joined);
        }
        match selected.step.rows().and_then(|rows| rows.window()) {
            Some(_) => chain.push((place, selected)),
            None => {
                flush(graph, bytes, std::mem::take(&mut chain), isa, width, &mut joined);
                joined.push((place, selected));
            }
        }
    }
    flush(graph, bytes, chain, isa, width, &mut joined);
    joined
}

/// Whether a step is the only reader of a value, as its image.
fn continues(graph: &Graph, counts: &[usize], value: ValueId, next: &Selected) -> bool {
    let alone = counts[value.index()] == 1 && graph.values[value.index()].origin == Origin::Node;
    alone && next.reads.first() == Some(&value)
}

/// Joins the parts of a chain that are worth it; all but the last step of a part have functions after them only.
fn flush(
    graph: &Graph,
    bytes: &[usize],
    chain: Vec<(usize, Selected)>,
    isa: Isa,
    width: usize,
    joined: &mut Vec<(usize, Selected)>,
) {
    let mut part: Vec<(usize, Selected)> = Vec::new();
    for (place, selected) in chain {
        let large = part.last().is_some_and(|(last, before)| {
            let functions = before
                .step
                .rows()
                .is_some_and(|rows| rows.after().iter().all(|after| matches!(after, After::Apply(_))));
            functions && bytes[graph.nodes[*last].outputs[0].index()] >= WORTH
        });
        if !large {
            close(std::mem::take(&mut part), isa, width, joined);
        }
        part.push((place, selected));
    }
    close(part, isa, width, joined);
}

/// One step for a part of a chain, if that pays; else its steps, as they are.
fn close(mut part: Vec<(usize, Selected)>, isa: Isa, width: usize, joined: &mut Vec<(usize, Selected)>) {
    let windows = Strips::windows(part.iter().map(|(_, selected)| &*selected.step), width);
    let Some(windows) = windows else { return joined.append(&mut part) };
    let Some((place, mut last)) = part.pop() else { return };
    if let Some((_, first)) = part.first() {
        last.reads[0] = first.reads[0];
    }
    let before = part.iter().flat_map(|(place, selected)| selected.before.iter().chain([place]).copied());
    last.before = before.chain(last.before).collect();
    let stages = part.into_iter().map(|(_, selected)| selected.step).chain([last.step]).collect();
    let step = Strips::new(stages, windows, isa, width);
    joined.push((place, Selected { scratch: step.scratch(), step: Box::new(step), ..last }));
}
