//! Says of concats what they share with others.
//!
//! Slices of one value that meet again in a concat are that value; a concat of one value is a copy; and where the first values
//! of a concat are all those of another, that one is read instead. Whoever plans the graph can then put one inside the other,
//! and what is not read any more is gone.

use crate::graph::{Graph, Node, ValueId};
use crate::op::Op;
use crate::types::Dim;

/// Simplifies concats; answers how many changed.
pub fn simplify_concats(graph: &mut Graph) -> usize {
    let makers = graph.makers();
    let mut seen: Vec<Seen> = Vec::new();
    let mut changed = 0;
    for place in 0..graph.nodes.len() {
        let node = &graph.nodes[place];
        let Op::Concat { axis } = node.op else { continue };
        if !node.then.is_empty() {
            continue;
        }
        let read: Vec<_> = node.inputs.iter().map(|&value| original(graph, &makers, value)).collect();
        let inputs = whole_values(graph, &makers, &read, axis);
        let alike =
            |other: &&Seen| other.axis == axis && graph.ty(other.value).element == graph.ty(node.outputs[0]).element;
        let [first, rest @ ..] = &inputs[..] else { continue };
        let nested = seen.iter().filter(alike).find(|other| other.value == *first);
        let mut parts = nested.map_or_else(|| vec![*first], |nested| nested.parts.clone());
        parts.extend_from_slice(rest);
        let shared = seen.iter().filter(alike).filter(|other| parts.starts_with(&other.parts));
        let inputs = match shared.max_by_key(|other| other.parts.len()) {
            Some(other) => [other.value].into_iter().chain(parts[other.parts.len()..].iter().copied()).collect(),
            None => inputs,
        };
        let value = node.outputs[0];
        let alone = matches!(inputs[..], [only] if graph.ty(only) == graph.ty(value));
        changed += usize::from(alone || node.inputs != inputs);
        match alone {
            true => graph.nodes[place].op = Op::Copy,
            false => seen.push(Seen { value, axis, parts }),
        }
        graph.nodes[place].inputs = inputs;
    }
    super::remove_dead(graph);
    changed
}

/// A concat, and the values in it that are no concats themselves, but for those that do not come first.
struct Seen {
    value: ValueId,
    axis: usize,
    parts: Vec<ValueId>,
}

/// The value that a copy was made of.
fn original(graph: &Graph, makers: &[Option<usize>], value: ValueId) -> ValueId {
    match makers[value.index()].map(|place| &graph.nodes[place]) {
        Some(Node { op: Op::Copy, inputs, then, .. }) if then.is_empty() => original(graph, makers, inputs[0]),
        _ => value,
    }
}

/// The inputs of a concat, with values in the place of neighbours that are all their slices.
fn whole_values(graph: &Graph, makers: &[Option<usize>], inputs: &[ValueId], axis: usize) -> Vec<ValueId> {
    let mut values = Vec::with_capacity(inputs.len());
    let mut rest = inputs;
    while let Some(&first) = rest.first() {
        let (value, count) = match sliced(graph, makers, first, axis) {
            Some(Part { of, start: 0, .. }) => all_slices(graph, makers, rest, of, axis).unwrap_or((first, 1)),
            _ => (first, 1),
        };
        values.push(value);
        rest = &rest[count..];
    }
    values
}

/// A value and how many of the first of these are its slices, if those are all of it.
fn all_slices(
    graph: &Graph,
    makers: &[Option<usize>],
    inputs: &[ValueId],
    of: ValueId,
    axis: usize,
) -> Option<(ValueId, usize)> {
    let Dim::Fixed(size) = *graph.ty(of).dims.get(axis)? else { return None };
    let mut end = 0;
    for (index, &input) in inputs.iter().enumerate() {
        let part = sliced(graph, makers, input, axis).filter(|part| part.of == of && part.start == end)?;
        end = part.end;
        if end == size {
            return Some((of, index + 1));
        }
    }
    None
}

/// A slice along one dimension.
struct Part {
    of: ValueId,
    start: usize,
    end: usize,
}

/// What a value is a slice of, if it has all of the other dimensions.
fn sliced(graph: &Graph, makers: &[Option<usize>], value: ValueId, axis: usize) -> Option<Part> {
    let node = &graph.nodes[makers[value.index()]?];
    let Op::Slice { starts, .. } = &node.op else { return None };
    let of = original(graph, makers, node.inputs[0]);
    let (whole, own) = (graph.ty(of), graph.ty(value));
    let others = (0..whole.dims.len()).filter(|&dim| dim != axis);
    let across = others.into_iter().all(|dim| starts.get(dim) == Some(&0) && own.dims.get(dim) == whole.dims.get(dim));
    let Dim::Fixed(size) = *own.dims.get(axis)? else { return None };
    let start = *starts.get(axis)?;
    let alike = across && whole.element == own.element && node.then.is_empty();
    Some(Part { of, start, end: start.checked_add(size)? }).filter(|_| alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph after the pass, which changes so many concats.
    fn simplified(text: &str, changes: usize) -> String {
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(simplify_concats(&mut graph), changes);
        crate::verify(&graph).unwrap();
        graph.compact();
        graph.to_string()
    }

    #[test]
    fn slices_that_meet_again_are_the_whole() {
        let text = "%0: float32[1, 4, n <= 9, 6] = input\n\
                    %1: float32[1, 4, n <= 9, 2] = slice %0 {starts: [0, 0, 0, 0], sizes: [1, 4, 0, 2]}\n\
                    %2: float32[1, 4, n <= 9, 4] = slice %0 {starts: [0, 0, 0, 2], sizes: [1, 4, 0, 4]}\n\
                    %3: float32[1, 4, n <= 9, 4] = exp %2\n\
                    %4: float32[1, 4, n <= 9, 10] = concat %1, %2, %3 {axis: 3}\n\
                    output %4\n";
        let expected = "%0: float32[1, 4, n <= 9, 6] = input\n\
                        %1: float32[1, 4, n <= 9, 4] = slice %0 {starts: [0, 0, 0, 2], sizes: [1, 4, 0, 4]}\n\
                        %2: float32[1, 4, n <= 9, 4] = exp %1\n\
                        %3: float32[1, 4, n <= 9, 10] = concat %0, %2 {axis: 3}\n\
                        output %3\n";
        assert_eq!(simplified(text, 1), expected);
    }

    #[test]
    fn other_slices_stay() {
        let slices = |first: &str, second: &str, order: &str, axis: usize, sizes: &str| {
            format!(
                "%0: float32[4, 6] = input\n\
                 %1: float32[{first}\n\
                 %2: float32[{second}\n\
                 %3: float32[{sizes}] = concat {order} {{axis: {axis}}}\n\
                 output %3\n"
            )
        };
        let left = "4, 2] = slice %0 {starts: [0, 0], sizes: [4, 2]}";
        let right = "4, 4] = slice %0 {starts: [0, 2], sizes: [4, 4]}";
        for text in [
            // In another order, with a gap, not to the end, along another dimension.
            slices(left, right, "%2, %1", 1, "4, 6"),
            slices(left, "4, 3] = slice %0 {starts: [0, 3], sizes: [4, 3]}", "%1, %2", 1, "4, 5"),
            slices(left, "4, 3] = slice %0 {starts: [0, 2], sizes: [4, 3]}", "%1, %2", 1, "4, 5"),
            slices(left, "4, 2] = slice %0 {starts: [0, 2], sizes: [4, 2]}", "%1, %2", 0, "8, 2"),
            slices(
                "2, 2] = slice %0 {starts: [0, 0], sizes: [2, 2]}",
                "2, 4] = slice %0 {starts: [0, 2], sizes: [2, 4]}",
                "%1, %2",
                1,
                "2, 6",
            ),
        ] {
            assert_eq!(simplified(&text, 0), text);
        }
    }

    #[test]
    fn a_concat_of_one_is_a_copy() {
        let text = "%0: float32[4, 6] = input\n\
                    %1: float32[4, 2] = slice %0 {starts: [0, 0], sizes: [4, 2]}\n\
                    %2: float32[4, 4] = slice %0 {starts: [0, 2], sizes: [4, 4]}\n\
                    %3: float32[4, 6] = concat %1, %2 {axis: 1}\n\
                    output %3\n";
        assert_eq!(simplified(text, 1), "%0: float32[4, 6] = input\n%1: float32[4, 6] = copy %0\noutput %1\n");
    }

    #[test]
    fn concats_begin_with_what_is_there() {
        let text = "%0: float32[4, 1] = input\n\
                    %1: float32[4, 2] = input\n\
                    %2: float32[4, 3] = concat %0, %1 {axis: 1}\n\
                    %3: float32[4, 3] = exp %2\n\
                    %4: float32[4, 6] = concat %0, %1, %3 {axis: 1}\n\
                    %5: float32[4, 3] = concat %0, %1 {axis: 1}\n\
                    %6: float32[4, 7] = concat %5, %3, %0 {axis: 1}\n\
                    %7: float32[4, 4] = concat %1, %1 {axis: 1}\n\
                    output %4, %6, %7\n";
        let expected = "%0: float32[4, 1] = input\n\
                        %1: float32[4, 2] = input\n\
                        %2: float32[4, 3] = concat %0, %1 {axis: 1}\n\
                        %3: float32[4, 3] = exp %2\n\
                        %4: float32[4, 6] = concat %2, %3 {axis: 1}\n\
                        %5: float32[4, 7] = concat %4, %0 {axis: 1}\n\
                        %6: float32[4, 4] = concat %1, %1 {axis: 1}\n\
                        output %4, %5, %6\n";
        assert_eq!(simplified(text, 3), expected);
    }

    /// Along another dimension, and with elements of another meaning, the same values are something else.
    #[test]
    fn unlike_concats_are_not_shared() {
        let text = "%0: q8{scale: 0.5, zero: 0}[2, 2] = input\n\
                    %1: q8{scale: 0.5, zero: 0}[2, 4] = concat %0, %0 {axis: 1}\n\
                    %2: q8{scale: 0.25, zero: 0}[2, 4] = concat %0, %0 {axis: 1}\n\
                    %3: q8{scale: 0.5, zero: 0}[4, 2] = concat %0, %0 {axis: 0}\n\
                    output %1, %2, %3\n";
        assert_eq!(simplified(text, 0), text);
    }
}
