//! Finds functions that are written as several.
//!
//! Exporters split `silu`, `hard_swish` and their like into sums, products and limits. Each rule looks at one node and
//! what makes its inputs, and names the function of a value that the node computes. What only served to compute it is
//! then dead. A value in between that others read too is left alone.

use super::around::{Around, function_of};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Combine, Function, Op};

/// Names functions; answers how many.
pub fn find_functions(graph: &mut Graph) -> usize {
    const RULES: [Rule; 4] = [limits, silu, hard_sigmoid, hard_swish];
    let (mut found, counts) = (0, graph.read_counts());
    let makers = graph.makers();
    for place in 0..graph.nodes.len() {
        let around = Around { graph, makers: &makers, counts: &counts };
        let node = &graph.nodes[place];
        if let Some((function, x)) = RULES.iter().find_map(|rule| rule(&around, node)) {
            let node = &mut graph.nodes[place];
            (node.op, node.inputs) = (Op::Map(function), vec![x]);
            found += 1;
        }
    }
    super::remove_dead(graph);
    found
}

/// The function of a value that a node computes.
type Rule = fn(&Around<'_>, &Node) -> Option<(Function, ValueId)>;

impl Around<'_> {
    /// Function and argument of the node that makes a value.
    fn applied(&self, value: ValueId) -> Option<(Function, ValueId)> {
        function_of(self.alone(value)?)
    }

    /// `clamp(x + 3, 0, 6)` as its `x`.
    fn ramp(&self, value: ValueId) -> Option<ValueId> {
        let (Function::Clamp { low: 0.0, high: 6.0 }, sum) = self.applied(value)? else { return None };
        let (Function::Plus { value: 3.0 }, x) = self.applied(sum)? else { return None };
        Some(x)
    }
}

/// The operands of a product, in both orders.
fn factors(node: &Node) -> impl Iterator<Item = (ValueId, ValueId)> + use<> {
    let pairs = match (&node.op, node.inputs.as_slice()) {
        (Op::Combine(Combine::Multiply), &[a, b]) => vec![(a, b), (b, a)],
        _ => Vec::new(),
    };
    pairs.into_iter()
}

/// A number divided by six, or what exporters write for it.
fn sixth(function: Function) -> bool {
    matches!(function, Function::Over { value: 6.0 }) || function == Function::Times { value: 1.0 / 6.0 }
}

/// Limits of limits.
fn limits(around: &Around<'_>, node: &Node) -> Option<(Function, ValueId)> {
    let (Function::Clamp { low, high }, inner) = function_of(node)? else { return None };
    let (Function::Clamp { low: first, high: second }, x) = around.applied(inner)? else { return None };
    let within = |limit: f32| {
        if limit < low {
            low
        } else if limit > high {
            high
        } else {
            limit
        }
    };
    Some((Function::Clamp { low: within(first), high: within(second) }, x))
}

/// `x * sigmoid(x)`
fn silu(around: &Around<'_>, node: &Node) -> Option<(Function, ValueId)> {
    let gated = |(x, gate): &(ValueId, ValueId)| around.applied(*gate) == Some((Function::Sigmoid, *x));
    factors(node).find(gated).map(|(x, _)| (Function::Silu, x))
}

/// `clamp(x + 3, 0, 6) / 6`
fn hard_sigmoid(around: &Around<'_>, node: &Node) -> Option<(Function, ValueId)> {
    let (function, ramp) = function_of(node)?;
    let x = around.ramp(ramp).filter(|_| sixth(function))?;
    Some((Function::HardSigmoid, x))
}

/// `x * clamp(x + 3, 0, 6) / 6`, whichever comes first.
fn hard_swish(around: &Around<'_>, node: &Node) -> Option<(Function, ValueId)> {
    if let Some((function, product)) = function_of(node) {
        let product = around.alone(product).filter(|_| sixth(function))?;
        let found = factors(product).find(|(x, ramp)| around.ramp(*ramp) == Some(*x));
        return found.map(|(x, _)| (Function::HardSwish, x));
    }
    let gated = |(x, gate): &(ValueId, ValueId)| around.applied(*gate) == Some((Function::HardSigmoid, *x));
    factors(node).find(gated).map(|(x, _)| (Function::HardSwish, x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        let mut graph = crate::parse(text).unwrap();
        find_functions(&mut graph);
        crate::verify(&graph).unwrap();
        graph.compact();
        graph.to_string()
    }

    #[test]
    fn a_gate_of_its_own_is_silu() {
        let text = "%0: float32[4] = input\n\
                    %1: float32[4] = sigmoid %0\n\
                    %2: float32[4] = multiply %0, %1\n\
                    output %2\n";
        assert_eq!(found(text), "%0: float32[4] = input\n%1: float32[4] = silu %0\noutput %1\n");
    }

    #[test]
    fn ramps_are_hard_functions() {
        let ramp = "%0: float32[4] = input\n\
                    %1: float32[4] = plus %0 {value: 3}\n\
                    %2: float32[4] = clamp %1 {low: 0, high: inf}\n\
                    %3: float32[4] = clamp %2 {low: -inf, high: 6}\n";
        let sigmoid = format!("{ramp}%4: float32[4] = over %3 {{value: 6}}\n");
        let expected = |name: &str| format!("%0: float32[4] = input\n%1: float32[4] = {name} %0\noutput %1\n");
        assert_eq!(found(&format!("{sigmoid}output %4\n")), expected("hard_sigmoid"));
        let after = format!("{sigmoid}%5: float32[4] = multiply %4, %0\noutput %5\n");
        assert_eq!(found(&after), expected("hard_swish"));
        let before =
            format!("{ramp}%4: float32[4] = multiply %0, %3\n%5: float32[4] = over %4 {{value: 6}}\noutput %5\n");
        assert_eq!(found(&before), expected("hard_swish"));
    }

    #[test]
    fn values_that_others_read_stay() {
        let text = "%0: float32[4] = input\n\
                    %1: float32[4] = sigmoid %0\n\
                    %2: float32[4] = multiply %0, %1\n\
                    output %1, %2\n";
        assert!(found(text).contains("multiply"));
    }
}
