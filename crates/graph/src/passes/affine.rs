//! Moves factors and summands per channel into the product before them.
//!
//! A batch normalisation is an affine function of each channel. After a convolution or linear layer with a constant
//! filter, its factors multiply the filter, which packing does on the way, and its summands join the bias.

use crate::graph::{Constants, Graph, Node, Source, ValueId};
use crate::op::Op;
use crate::types::Type;
use sconce_format::ScalarType;

/// Folds affine functions into the products that they follow; answers how many.
pub fn fold_affine(graph: &mut Graph, constants: &dyn Constants) -> usize {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    let mut dead = vec![false; graph.nodes.len()];
    for place in 0..graph.nodes.len() {
        let node = &graph.nodes[place];
        let &[x, factor, summand] = node.inputs.as_slice() else { continue };
        let maker = makers[x.index()].filter(|_| node.op == Op::Affine && counts[x.index()] == 1);
        let Some(maker) = maker.filter(|&maker| takes_factors(graph, &graph.nodes[maker])) else { continue };
        let Some((bias, factors)) = folded(graph, constants, &graph.nodes[maker], factor, summand) else { continue };
        let inputs = graph.nodes[maker].inputs[..2].to_vec();
        let sizes = graph.ty(factor).sizes();
        let mut known = |numbers: Vec<f32>| {
            let bytes = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
            graph.constant_value(Type::plain(ScalarType::Float, &sizes), Source::Bytes(bytes))
        };
        let inputs = inputs.into_iter().chain([known(bias), known(factors)]).collect();
        let op = graph.nodes[maker].op.clone();
        let node = &mut graph.nodes[place];
        (node.op, node.inputs) = (op, inputs);
        dead[maker] = true;
    }
    let mut dead = dead.into_iter();
    let before = graph.nodes.len();
    graph.nodes.retain(|_| !dead.next().unwrap_or(false));
    before - graph.nodes.len()
}

/// Whether a node is a product of floats with a constant filter and bias, and nothing follows.
fn takes_factors(graph: &Graph, node: &Node) -> bool {
    let floats = node.reads().all(|value| graph.ty(value).is(ScalarType::Float));
    let known = node.inputs.iter().skip(1).all(|&value| graph.as_constant(value).is_some());
    node.op.is_product() && floats && known && node.then.is_empty() && node.inputs.len() <= 3
}

/// Bias and factors of a product that is followed by an affine function.
fn folded(
    graph: &Graph,
    constants: &dyn Constants,
    product: &Node,
    factor: ValueId,
    summand: ValueId,
) -> Option<(Vec<f32>, Vec<f32>)> {
    let numbers = |value: ValueId| {
        let bytes = constants.bytes(&graph.constants[graph.as_constant(value)?.index()].source)?;
        let numbers = bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word));
        Some(numbers.take(graph.ty(value).sizes().iter().product()).collect::<Vec<_>>())
    };
    let (factors, mut bias) = (numbers(factor)?, numbers(summand)?);
    if let Some(&before) = product.inputs.get(2) {
        let before = numbers(before)?;
        bias.iter_mut().zip(before).zip(&factors).for_each(|((bias, before), factor)| *bias += before * factor);
    }
    (bias.len() == factors.len()).then_some((bias, factors))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Own;
    use super::*;

    #[test]
    fn a_normalisation_joins_bias_and_filter() {
        // 2.0 is [0, 0, 0, 64], 3.0 is [0, 0, 64, 64], 1.0 is [0, 0, 128, 63].
        let text = "%0: float32[1, 4] = input\n\
                    %1: float32[1, 4] = constant \"w\"\n\
                    %2: float32[1] = constant [0, 0, 64, 64]\n\
                    %3: float32[1, 1] = linear %0, %1, %2 {transposed: false}\n\
                    %4: float32[1] = constant [0, 0, 0, 64]\n\
                    %5: float32[1] = constant [0, 0, 128, 63]\n\
                    %6: float32[1, 1] = affine %3, %4, %5\n\
                    output %6\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(fold_affine(&mut graph, &Own), 1);
        crate::verify(&graph).unwrap();
        graph.compact();
        // The bias is 3 * 2 + 1 = 7.
        let expected = "%0: float32[1, 4] = input\n\
                        %1: float32[1, 4] = constant \"w\"\n\
                        %2: float32[1] = constant [0, 0, 224, 64]\n\
                        %3: float32[1] = constant [0, 0, 0, 64]\n\
                        %4: float32[1, 1] = linear %0, %1, %2, %3 {transposed: false}\n\
                        output %4\n";
        assert_eq!(graph.to_string(), expected);
    }
}
