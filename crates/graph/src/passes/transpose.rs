//! Takes out transposes that do nothing to the bytes, and those that undo each other.

use crate::graph::{Graph, ValueId};
use crate::op::Op;

/// Joins transposes of transposes; those that change nothing become copies, and those that only move dimensions of size
/// one around a single other one become reshapes. (With more of the others a reshape would have to name sizes that may be
/// different in each run.) Answers how many changed.
pub fn simplify_transposes(graph: &mut Graph) -> usize {
    let mut changed = 0;
    let makers = graph.makers();
    for place in 0..graph.nodes.len() {
        let Op::Transpose { order } = &graph.nodes[place].op else { continue };
        let (source, joined) = through(graph, &makers, graph.nodes[place].inputs[0], order.clone());
        let node = &graph.nodes[place];
        let op = match graph.ty(source).sizes().iter().filter(|&&size| size != 1).count() {
            _ if joined.is_sorted() => Op::Copy,
            0 | 1 => Op::Reshape { sizes: graph.ty(node.outputs[0]).sizes().iter().map(open).collect() },
            _ => Op::Transpose { order: joined },
        };
        if node.op != op || node.inputs != [source] {
            let node = &mut graph.nodes[place];
            (node.op, node.inputs) = (op, vec![source]);
            changed += 1;
        }
    }
    super::remove_dead(graph);
    changed
}

/// The value that a chain of transposes starts from, and the order of all of them together.
fn through(graph: &Graph, makers: &[Option<usize>], value: ValueId, order: Vec<usize>) -> (ValueId, Vec<usize>) {
    let maker = makers[value.index()].map(|place| &graph.nodes[place]);
    match maker.map(|node| (&node.op, node.inputs[0], node.then.is_empty())) {
        Some((Op::Transpose { order: inner }, source, true)) => {
            let joined = order.iter().map(|&dim| inner[dim]).collect();
            through(graph, makers, source, joined)
        }
        _ => (value, order),
    }
}

/// A size of a reshape: one, or whatever is left.
fn open(size: &usize) -> usize {
    usize::from(*size == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_nothing() {
        let text = "%0: float32[1, 3, 4, 5] = input\n\
                    %1: float32[1, 4, 5, 3] = transpose %0 {order: [0, 2, 3, 1]}\n\
                    %2: float32[1, 3, 4, 5] = transpose %1 {order: [0, 3, 1, 2]}\n\
                    %3: float32[1, 5, 3, 4] = transpose %1 {order: [0, 2, 3, 1]}\n\
                    output %2, %3\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(simplify_transposes(&mut graph), 2);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: float32[1, 3, 4, 5] = input\n\
                        %1: float32[1, 3, 4, 5] = copy %0\n\
                        %2: float32[1, 5, 3, 4] = transpose %0 {order: [0, 3, 1, 2]}\n\
                        output %1, %2\n";
        assert_eq!(graph.to_string(), expected);
    }

    #[test]
    fn moving_ones_is_a_reshape() {
        let text = "%0: float32[1, 1, 1, 8] = input\n\
                    %1: float32[1, 8, 1, 1] = transpose %0 {order: [0, 3, 1, 2]}\n\
                    output %1\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(simplify_transposes(&mut graph), 1);
        assert_eq!(graph.nodes[0].op, Op::Reshape { sizes: vec![1, 0, 1, 1] });
    }
}
