//! Which products of bytes do what follows them.
//!
//! A table or a sum of bytes whose operand a product makes, for nobody else, is done by the product, row by row, while the
//! bytes are in the nearest cache. The product then runs where the table or the sum would have: its other operand is there.

use super::select::Selected;
use sconce_graph::{Graph, Origin, ValueId};

/// Lets products take over what follows them.
pub(super) fn take_tails(graph: &Graph, chosen: Vec<(usize, Selected)>) -> Vec<(usize, Selected)> {
    let counts = graph.read_counts();
    let alone = |value: ValueId| counts[value.index()] == 1 && graph.values[value.index()].origin == Origin::Node;
    let mut taken: Vec<Option<(usize, Selected)>> = Vec::with_capacity(chosen.len());
    let mut makers: Vec<Option<usize>> = vec![None; graph.values.len()];
    for (place, mut next) in chosen {
        // Of two products the later one: the result of the other is there by then.
        let makes = |&value: &ValueId| Some((makers[value.index()].filter(|_| alone(value))?, value));
        let maker = next.step.tail().and_then(|_| next.reads.iter().filter_map(makes).max());
        if let Some((maker, value)) = maker
            && taken[maker].as_mut().is_some_and(|(_, product)| give(product, &next, value))
            && let Some((product, mut selected)) = taken[maker].take()
        {
            selected.before.push(product);
            next = selected;
        }
        makers[graph.nodes[place].outputs[0].index()] = Some(taken.len());
        taken.push(Some((place, next)));
    }
    taken.into_iter().flatten().collect()
}

/// Gives a product what is done next to the value that it makes; whether it took it.
fn give(product: &mut Selected, next: &Selected, value: ValueId) -> bool {
    let Some(tail) = next.step.tail() else { return false };
    let tail = if next.reads[0] == value { tail } else { tail.swapped() };
    let took = product.step.take_tail(tail);
    if took {
        product.reads.extend(next.reads.iter().copied().filter(|&read| read != value));
    }
    took
}
