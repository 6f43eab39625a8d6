//! Makes functions of sums, products and quotients with one known number.
//!
//! Programs keep the numbers of their formulas as tensors of one element. A function needs none, joins what it follows, and is
//! what other passes look for.

use crate::graph::{Constants, Graph, Node, ValueId};
use crate::op::{Combine, Function, Op};
use sconce_format::ScalarType;

/// Makes functions; answers how many.
pub fn fold_numbers(graph: &mut Graph, constants: &dyn Constants) -> usize {
    let mut folded = 0;
    for place in 0..graph.nodes.len() {
        if let Some((function, x)) = function_of(graph, constants, &graph.nodes[place]) {
            let node = &mut graph.nodes[place];
            (node.op, node.inputs) = (Op::Map(function), vec![x]);
            folded += 1;
        }
    }
    folded
}

/// The function that a node computes of the one of its operands that is not known.
fn function_of(graph: &Graph, constants: &dyn Constants, node: &Node) -> Option<(Function, ValueId)> {
    let (Op::Combine(combine), &[a, b]) = (&node.op, node.inputs.as_slice()) else { return None };
    let (x, value, first) = match (number(graph, constants, a), number(graph, constants, b)) {
        (None, Some(value)) => (a, value, false),
        (Some(value), None) => (b, value, true),
        _ => return None,
    };
    let function = match (combine, first) {
        (Combine::Add, _) => Function::Plus { value },
        (Combine::Subtract, false) => Function::Plus { value: -value },
        (Combine::Multiply, _) => Function::Times { value },
        (Combine::Divide, false) => Function::Over { value },
        _ => return None,
    };
    let [x_type, result] = [x, node.outputs[0]].map(|id| graph.ty(id));
    let floats = x_type.is(ScalarType::Float) && result.is(ScalarType::Float);
    (floats && x_type.dims == result.dims).then_some((function, x))
}

/// The number that a constant value is, if it is one `float32`.
fn number(graph: &Graph, constants: &dyn Constants, value: ValueId) -> Option<f32> {
    let id = graph.as_constant(value).filter(|_| graph.ty(value).is(ScalarType::Float))?;
    let bytes = constants.bytes(&graph.constants[id.index()].source)?;
    let one = graph.ty(value).sizes().iter().product::<usize>() == 1;
    bytes.first_chunk().filter(|_| one).map(|word| f32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Own;
    use super::*;

    /// 2.0 is [0, 0, 0, 64].
    fn folded(node: &str) -> String {
        let text = format!(
            "%0: float32[1, 4] = input\n%1: float32[1] = constant [0, 0, 0, 64]\n%2: float32[1, 4] = {node}\noutput %2\n"
        );
        let mut graph = crate::parse(&text).unwrap();
        fold_numbers(&mut graph, &Own);
        crate::verify(&graph).unwrap();
        graph.nodes[0].to_string()
    }

    #[test]
    fn one_known_operand_makes_a_function() {
        assert_eq!(folded("add %0, %1"), "plus %0 {value: 2}");
        assert_eq!(folded("add %1, %0"), "plus %0 {value: 2}");
        assert_eq!(folded("subtract %0, %1"), "plus %0 {value: -2}");
        assert_eq!(folded("multiply %1, %0"), "times %0 {value: 2}");
        assert_eq!(folded("divide %0, %1"), "over %0 {value: 2}");
    }

    #[test]
    fn others_stay() {
        assert_eq!(folded("subtract %1, %0"), "subtract %1, %0");
        assert_eq!(folded("divide %1, %0"), "divide %1, %0");
        assert_eq!(folded("add %0, %0"), "add %0, %0");
    }
}
