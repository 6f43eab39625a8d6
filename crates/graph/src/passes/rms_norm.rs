//! Finds norms by the root mean square.
//!
//! Exporters write one as `x * rsqrt(mean(x * x) + epsilon)`, mostly times a weight: six passes over memory in the place of
//! one. The square may be a product, and the root a divisor.

use super::around::{Around, function_of};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Combine, Function, Op, Reduction};
use sconce_format::ScalarType;

/// What a node is the norm of.
struct Found {
    x: ValueId,
    dims: usize,
    epsilon: f32,
}

/// Names such norms; answers how many.
pub fn find_rms_norms(graph: &mut Graph) -> usize {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    let around = Around { graph, makers: &makers, counts: &counts };
    let found = graph.nodes.iter().enumerate().filter_map(|(place, node)| Some((place, around.rms_norm(node)?)));
    let found: Vec<_> = found.collect();
    for (place, Found { x, dims, epsilon }) in &found {
        let node = &mut graph.nodes[*place];
        (node.op, node.inputs) = (Op::RmsNorm { dims: *dims, epsilon: *epsilon }, vec![*x]);
    }
    if !found.is_empty() {
        weigh(graph, &makers, &counts);
        super::remove_dead(graph);
    }
    found.len()
}

/// Takes weights in: a norm that is only read to be multiplied with numbers of the sizes of its rows.
fn weigh(graph: &mut Graph, makers: &[Option<usize>], counts: &[usize]) {
    for place in 0..graph.nodes.len() {
        let around = Around { graph, makers, counts };
        if let Some((op, inputs)) = around.weighed(&graph.nodes[place]) {
            let node = &mut graph.nodes[place];
            (node.op, node.inputs) = (op, inputs);
        }
    }
}

impl Around<'_> {
    fn rms_norm(&self, node: &Node) -> Option<Found> {
        let &[a, b] = node.inputs.as_slice() else { return None };
        let pairs = match node.op {
            Op::Combine(Combine::Multiply) => {
                [Some((a, b, Function::ReciprocalSquareRoot)), Some((b, a, Function::ReciprocalSquareRoot))]
            }
            Op::Combine(Combine::Divide) => [Some((a, b, Function::SquareRoot)), None],
            _ => return None,
        };
        let norm = |(x, root, function)| self.root_mean_square(root, function, x);
        let found = pairs.into_iter().flatten().find_map(norm)?;
        let floats = [found.x, node.outputs[0]].into_iter().all(|id| self.graph.ty(id).is(ScalarType::Float));
        floats.then_some(found)
    }

    /// `function(mean(x * x) + epsilon)` over the last dimensions, which stay.
    fn root_mean_square(&self, root: ValueId, function: Function, x: ValueId) -> Option<Found> {
        let (_, sum) = function_of(self.alone(root)?).filter(|(applied, _)| *applied == function)?;
        let (Function::Plus { value: epsilon }, mean) = function_of(self.alone(sum)?)? else { return None };
        let reduced = self.alone(mean)?;
        let Op::Reduce { of: Reduction::Mean, axes, keep: true } = &reduced.op else { return None };
        let rank = self.graph.ty(x).dims.len();
        let last = axes.iter().copied().eq(rank.checked_sub(axes.len())?..rank) && !axes.is_empty();
        let squares = self.alone(reduced.inputs[0])?;
        let square = match (&squares.op, squares.inputs.as_slice()) {
            (Op::Map(Function::Square), &[a]) => a == x,
            (Op::Combine(Combine::Multiply), &[a, b]) => a == x && b == x,
            _ => false,
        };
        (last && square).then_some(Found { x, dims: axes.len(), epsilon })
    }

    /// A node as a norm with its weight.
    fn weighed(&self, node: &Node) -> Option<(Op, Vec<ValueId>)> {
        let (Op::Combine(Combine::Multiply), &[a, b]) = (&node.op, node.inputs.as_slice()) else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(norm, weight)| {
            let maker = self.alone(norm)?;
            let (Op::RmsNorm { dims, .. }, &[x]) = (&maker.op, maker.inputs.as_slice()) else { return None };
            let rows = &self.graph.ty(x).dims;
            let row = rows.get(rows.len().checked_sub(*dims)?..)?;
            let fits = self.graph.ty(weight).is(ScalarType::Float) && self.graph.ty(weight).dims[..] == *row;
            fits.then(|| (maker.op.clone(), vec![x, weight]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(nodes: &str, outputs: &str) -> String {
        let text = format!("%0: float32[n <= 8, 4] = input\n%1: float32[4] = input\n{nodes}output {outputs}\n");
        let mut graph = crate::parse(&text).unwrap();
        crate::verify(&graph).unwrap();
        find_rms_norms(&mut graph);
        crate::verify(&graph).unwrap();
        graph.compact();
        graph.to_string()
    }

    fn norm(square: &str, axis: usize, root: &str, last: &str) -> String {
        let kept = if axis == 1 { "n <= 8, 1" } else { "1, 4" };
        format!(
            "%2: float32[n <= 8, 4] = {square}\n\
             %3: float32[{kept}] = reduce %2 {{of: mean, axes: [{axis}], keep: true}}\n\
             %4: float32[{kept}] = plus %3 {{value: 0.5}}\n\
             %5: float32[{kept}] = {root} %4\n\
             %6: float32[n <= 8, 4] = {last}\n\
             %7: float32[n <= 8, 4] = multiply %6, %1\n"
        )
    }

    #[test]
    fn six_operations_are_one() {
        let expected = "%0: float32[n <= 8, 4] = input\n\
                        %1: float32[4] = input\n\
                        %2: float32[n <= 8, 4] = rms_norm %0, %1 {dims: 1, epsilon: 0.5}\n\
                        output %2\n";
        for (square, root, last) in [
            ("square %0", "reciprocal_square_root", "multiply %0, %5"),
            ("multiply %0, %0", "reciprocal_square_root", "multiply %5, %0"),
            ("multiply %0, %0", "square_root", "divide %0, %5"),
        ] {
            assert_eq!(found(&norm(square, 1, root, last), "%7"), expected, "{square}, {root}");
        }
    }

    #[test]
    fn a_weight_stays_outside_where_others_read_what_it_multiplies() {
        let text = found(&norm("square %0", 1, "reciprocal_square_root", "multiply %0, %5"), "%6, %7");
        assert!(text.contains("rms_norm %0 {dims: 1, epsilon: 0.5}") && text.contains("multiply %2, %1"), "{text}");
    }

    #[test]
    fn others_stay() {
        let usual = ("square %0", 1, "reciprocal_square_root", "multiply %0, %5", "%7");
        for (square, axis, root, last, outputs) in [
            ("abs %0", usual.1, usual.2, usual.3, usual.4),
            (usual.0, 0, usual.2, usual.3, usual.4),
            (usual.0, usual.1, "square_root", usual.3, usual.4),
            (usual.0, usual.1, usual.2, "multiply %2, %5", usual.4),
            (usual.0, usual.1, usual.2, usual.3, "%5, %7"),
        ] {
            let text = found(&norm(square, axis, root, last), outputs);
            assert!(text.contains("reduce"), "{square}, {axis}, {root}, {last}, {outputs}");
        }
    }
}
