//! Says of concats what they share with others.
//!
//! Slices of one value that meet again in a concat are that value; a concat of one value is a copy; and where the first values
//! of a concat are all those of another, that one is read instead. Whoever plans the graph can then put one inside the other,
//! and what is not read any more is gone.
//!
//! The concats so far form a tree, in which a way from the root is a list of values. The longest of those that a concat begins
//! with is found along its own way, however many there are.

use crate::graph::{Graph, ValueId};
use crate::op::Op;
use crate::types::Dim;
use std::collections::HashMap;

/// Simplifies concats; answers how many changed.
pub fn simplify_concats(graph: &mut Graph) -> usize {
    let mut made = Made { makers: graph.makers(), originals: (0..graph.values.len() as u32).map(ValueId).collect() };
    let (mut seen, mut changed) = (Seen::default(), 0);
    for place in 0..graph.nodes.len() {
        let node = &graph.nodes[place];
        if !node.then.is_empty() {
            continue;
        }
        match node.op {
            Op::Copy => made.originals[node.outputs[0].index()] = made.original(node.inputs[0]),
            Op::Concat { axis } => {
                let value = node.outputs[0];
                let read: Vec<_> = node.inputs.iter().map(|&value| made.original(value)).collect();
                let (inputs, end) = seen.longest(graph, axis, value, made.whole_values(graph, &read, axis));
                let alone = matches!(inputs[..], [only] if graph.ty(only) == graph.ty(value));
                changed += usize::from(alone || node.inputs != inputs);
                if alone {
                    made.originals[value.index()] = inputs[0];
                    graph.nodes[place].op = Op::Copy;
                } else {
                    seen.add(axis, value, end);
                }
                graph.nodes[place].inputs = inputs;
            }
            _ => {}
        }
    }
    super::remove_dead(graph);
    changed
}

/// Concats, as a tree of the values in them that are no concats themselves, but for those that do not come first.
#[derive(Default)]
struct Seen {
    /// Where a value leads to.
    ways: HashMap<(Place, ValueId), usize>,
    /// The first concat that ends at a place.
    ends: Vec<Option<ValueId>>,
    /// Axis and end of each concat.
    concats: HashMap<ValueId, (usize, usize)>,
}

/// A place in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// The root of the concats along an axis.
    Root(usize),
    Inner(usize),
}

impl Seen {
    /// What a concat reads, the longest other that it begins with in the place of what that one reads, and where it ends.
    fn longest(
        &mut self,
        graph: &Graph,
        axis: usize,
        value: ValueId,
        inputs: Vec<ValueId>,
    ) -> (Vec<ValueId>, Option<usize>) {
        let element = &graph.ty(value).element;
        let alike = |other: ValueId| graph.ty(other).element == *element;
        let (mut end, mut found) = (None, None);
        for (index, &input) in inputs.iter().enumerate() {
            let nested = self.concats.get(&input).filter(|(along, _)| index == 0 && *along == axis && alike(input));
            let next = match (nested, end) {
                (Some(&(_, end)), _) => end,
                (None, Some(place)) => self.step(Place::Inner(place), input),
                (None, None) => self.step(Place::Root(axis), input),
            };
            found = self.ends[next].filter(|&other| alike(other)).map(|other| (other, index + 1)).or(found);
            end = Some(next);
        }
        let inputs = match found {
            Some((other, count)) => [other].into_iter().chain(inputs[count..].iter().copied()).collect(),
            None => inputs,
        };
        (inputs, end)
    }

    fn step(&mut self, from: Place, value: ValueId) -> usize {
        let ends = &mut self.ends;
        *self.ways.entry((from, value)).or_insert_with(|| {
            ends.push(None);
            ends.len() - 1
        })
    }

    fn add(&mut self, axis: usize, value: ValueId, end: Option<usize>) {
        if let Some(end) = end {
            self.concats.insert(value, (axis, end));
            self.ends[end].get_or_insert(value);
        }
    }
}

/// How values are made.
struct Made {
    makers: Vec<Option<usize>>,
    /// The value that a copy was made of.
    originals: Vec<ValueId>,
}

impl Made {
    fn original(&self, value: ValueId) -> ValueId {
        self.originals[value.index()]
    }

    /// The inputs of a concat, with values in the place of neighbours that are all their slices.
    fn whole_values(&self, graph: &Graph, inputs: &[ValueId], axis: usize) -> Vec<ValueId> {
        let mut values = Vec::with_capacity(inputs.len());
        let mut rest = inputs;
        while let Some(&first) = rest.first() {
            let (value, count) = match self.sliced(graph, first, axis) {
                Some(Part { of, start: 0, .. }) => self.all_slices(graph, rest, of, axis).unwrap_or((first, 1)),
                _ => (first, 1),
            };
            values.push(value);
            rest = &rest[count..];
        }
        values
    }

    /// A value and how many of the first of these are its slices, if those are all of it.
    fn all_slices(&self, graph: &Graph, inputs: &[ValueId], of: ValueId, axis: usize) -> Option<(ValueId, usize)> {
        let Dim::Fixed(size) = *graph.ty(of).dims.get(axis)? else { return None };
        let mut end = 0;
        for (index, &input) in inputs.iter().enumerate() {
            let part = self.sliced(graph, input, axis).filter(|part| part.of == of && part.start == end)?;
            end = part.end;
            if end == size {
                return Some((of, index + 1));
            }
        }
        None
    }

    /// What a value is a slice of, if it has all of the other dimensions.
    fn sliced(&self, graph: &Graph, value: ValueId, axis: usize) -> Option<Part> {
        let node = &graph.nodes[self.makers[value.index()]?];
        let Op::Slice { starts, .. } = &node.op else { return None };
        let of = self.original(node.inputs[0]);
        let (whole, own) = (graph.ty(of), graph.ty(value));
        let mut others = (0..whole.dims.len()).filter(|&dim| dim != axis);
        let across = others.all(|dim| starts.get(dim) == Some(&0) && own.dims.get(dim) == whole.dims.get(dim));
        let Dim::Fixed(size) = *own.dims.get(axis)? else { return None };
        let start = *starts.get(axis)?;
        let alike = across && whole.element == own.element && node.then.is_empty();
        Some(Part { of, start, end: start.checked_add(size)? }).filter(|_| alike)
    }
}

/// A slice along one dimension.
struct Part {
    of: ValueId,
    start: usize,
    end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph after the pass, which changes n concats.
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
