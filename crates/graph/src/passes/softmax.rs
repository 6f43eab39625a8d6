//! Finds the softmax of PyTorch's attention, which makes zeros of rows of nothing but minus infinity.
//!
//! Exporters write it as `where(not any(not (x == -inf))), 0, softmax(x))`, which is six operations in the place of one.

use super::around::Around;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Comparison, Op};

/// Names such softmaxes; answers how many.
pub fn find_safe_softmax(graph: &mut Graph) -> usize {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    let around = Around { graph, makers: &makers, counts: &counts };
    let found = graph.nodes.iter().enumerate().filter_map(|(place, node)| Some((place, around.safe_softmax(node)?)));
    let found: Vec<_> = found.collect();
    for &(place, x) in &found {
        let node = &mut graph.nodes[place];
        (node.op, node.inputs) = (Op::SafeSoftmax, vec![x]);
    }
    super::remove_dead(graph);
    found.len()
}

impl Around<'_> {
    /// What a node is the safe softmax of.
    fn safe_softmax(&self, node: &Node) -> Option<ValueId> {
        let &[hidden, zeros, weights] = node.inputs.as_slice() else { return None };
        let softmax = self.maker(weights).filter(|maker| node.op == Op::Select && maker.op == Op::Softmax)?;
        let x = softmax.inputs[0];
        let zero = self.maker(zeros).filter(|maker| maker.op == Op::Fill { value: 0.0 })?;
        // The zeros may take their sizes from the softmax; nobody else reads it.
        let readers = 1 + usize::from(zero.inputs[0] == weights);
        let alone = self.counts[weights.index()] == readers && self.graph.ty(zeros).dims == self.graph.ty(weights).dims;
        (alone && self.hides(hidden) == Some(x)).then_some(x)
    }

    /// `not any(not (x == -inf))` as its `x`.
    fn hides(&self, value: ValueId) -> Option<ValueId> {
        let none = self.alone(value).filter(|node| node.op == Op::Not)?;
        let any = self.alone(none.inputs[0]).filter(|node| node.op == Op::Any)?;
        let seen = self.alone(any.inputs[0])?;
        let infinite = |how| Op::Compare { how, value: f32::NEG_INFINITY };
        if seen.op == infinite(Comparison::NotEqual) {
            return Some(seen.inputs[0]);
        }
        let unseen = self.alone(seen.inputs[0]).filter(|_| seen.op == Op::Not)?;
        (unseen.op == infinite(Comparison::Equal)).then(|| unseen.inputs[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(zero: &str, limit: &str, outputs: &str) -> String {
        let text = format!(
            "%0: float32[2, n <= 8] = input\n\
             %1: float32[2, n <= 8] = softmax %0\n\
             %2: bool[2, n <= 8] = compare %0 {{how: equal, value: {limit}}}\n\
             %3: bool[2, n <= 8] = not %2\n\
             %4: bool[2, 1] = any %3\n\
             %5: bool[2, 1] = not %4\n\
             %6: float32[2, n <= 8] = fill %1 {{value: {zero}}}\n\
             %7: float32[2, n <= 8] = select %5, %6, %1\n\
             output {outputs}\n"
        );
        let mut graph = crate::parse(&text).unwrap();
        crate::verify(&graph).unwrap();
        find_safe_softmax(&mut graph);
        crate::verify(&graph).unwrap();
        graph.compact();
        graph.to_string()
    }

    #[test]
    fn six_operations_are_one() {
        let expected = "%0: float32[2, n <= 8] = input\n%1: float32[2, n <= 8] = safe_softmax %0\noutput %1\n";
        assert_eq!(found("0", "-inf", "%7"), expected);
    }

    #[test]
    fn others_stay() {
        for (zero, limit, outputs) in [("1", "-inf", "%7"), ("0", "inf", "%7"), ("0", "-inf", "%1, %7")] {
            assert!(found(zero, limit, outputs).contains("select"), "{zero} {limit} {outputs}");
        }
    }
}
