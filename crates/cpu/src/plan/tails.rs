//! Which products of int8 do what follows them.
//!
//! A table or a sum of int8 whose operand a product makes, for nobody else, is done by the product, row by row, while the
//! row is in the nearest cache. The product then runs where the table or the sum would have: its other operand is there.

use super::list::Selected;
use crate::steps::{Choice, Tail};
use sconce_graph::{Graph, Origin, ValueId};

/// Lets products take over what follows them.
pub(super) fn take_tails(graph: &Graph, chosen: Vec<Selected>) -> Vec<Selected> {
    let counts = graph.read_counts();
    let alone = |value: ValueId| counts[value.index()] == 1 && graph.values[value.index()].origin == Origin::Node;
    let mut taken: Vec<Option<Selected>> = Vec::with_capacity(chosen.len());
    let mut makers: Vec<Option<usize>> = vec![None; graph.values.len()];
    for mut next in chosen {
        // Of two products the later one: the result of the other is there by then.
        let makes = |&value: &ValueId| Some((makers[value.index()].filter(|_| alone(value))?, value));
        let maker = tail(&next.choice).and_then(|tail| Some((next.reads.iter().filter_map(makes).max()?, tail)));
        if let Some(((maker, value), tail)) = maker
            && let Some(slot) = taken[maker].as_mut().and_then(|product| tail_of(&mut product.choice))
            && slot.is_nothing()
        {
            *slot = if next.reads[0] == value { tail } else { tail.swapped() };
            if let Some(mut product) = taken[maker].take() {
                product.reads.extend(next.reads.iter().copied().filter(|&read| read != value));
                product.before.push(product.node);
                next = Selected { node: next.node, makes: next.makes, ..product };
            }
        }
        makers[next.makes.index()] = Some(taken.len());
        taken.push(Some(next));
    }
    taken.into_iter().flatten().collect()
}

/// What a step does to each element of its first input, if a product that makes these could do it as well.
fn tail(choice: &Choice) -> Option<Tail> {
    match choice {
        Choice::MapInt8(map) => Some(Tail::LookUp(map.table.clone(), map.kinds)),
        Choice::SumInt8(sum) => sum.plain().map(Tail::Add),
        _ => None,
    }
}

/// What follows a product of int8.
fn tail_of(product: &mut Choice) -> Option<&mut Tail> {
    match product {
        Choice::ConvolutionInt8(step) => Some(&mut step.tail),
        Choice::WinogradInt8(step) => Some(&mut step.0.tail),
        Choice::DepthwiseInt8(step) => Some(&mut step.tail),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::testing::{selected, text};
    use super::*;

    /// Two pixelwise layers of int8, with a table after the first and the sum of both results last.
    fn list(sum: &str, outputs: &str) -> Vec<String> {
        let pixelwise = "{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}";
        let (graph, list) = selected(&format!(
            "%0: q8{{scale: 0.5, zero: 0}}[1, 2, 2, 8] = input\n\
             %1: q8{{scale: 0.5, zero: 0}}[8, 1, 1, 8] = constant \"w\"\n\
             %2: q8{{scale: 0.5, zero: 0}}[1, 2, 2, 8] = conv2d %0, %1 {pixelwise}\n\
             %3: q8{{scale: 0.25, zero: 1}}[1, 2, 2, 8] = tanh %2\n\
             %4: q8{{scale: 0.5, zero: 0}}[1, 2, 2, 8] = conv2d %3, %1 {pixelwise}\n\
             %5: q8{{scale: 1, zero: 0}}[1, 2, 2, 8] = {sum}\n\
             output {outputs}\n"
        ));
        text(&take_tails(&graph, list))
    }

    #[test]
    fn products_do_what_follows_them() {
        let first = "%3 = bytes: packed product 2x2x8 -> 8, filter 1x1, stride [1, 1], \
                     then table of Int8(0.5, 0) to Int8(0.25, 1), pixels 8 -> 8 of %0 with nodes 0";
        let second = "%5 = bytes: packed product 2x2x8 -> 8, filter 1x1, stride [1, 1], then sum, pixels 8 -> 8 \
                      of %3, %0 with nodes 2";
        assert_eq!(list("add %4, %0", "%5"), [first, second]);
        assert_eq!(list("add %0, %4", "%5"), [first, second]);
    }

    #[test]
    fn what_others_read_is_made() {
        let [product, table] = [
            "%2 = bytes: packed product 2x2x8 -> 8, filter 1x1, stride [1, 1], pixels 8 -> 8 of %0",
            "%3 = bytes: table of Int8(0.5, 0) to Int8(0.25, 1) of %2",
        ];
        assert_eq!(list("add %4, %0", "%2, %5")[..2], [product, table]);
        // The sum of the table's operand and of another product is left to the other, which does nothing else yet.
        let last = list("add %4, %2", "%5");
        assert_eq!(last[..2], [product, table]);
        assert!(last[2].starts_with("%5") && last[2].ends_with("then sum, pixels 8 -> 8 of %3, %2 with nodes 2"));
    }

    /// A product does one thing more, and of two products the later one does it.
    #[test]
    fn a_product_has_one_tail() {
        let of_products = list("add %2, %4", "%3, %5");
        assert!(of_products[2].contains("then sum") && of_products.len() == 3, "{of_products:?}");
        let (graph, list) = selected(
            "%0: q8{scale: 0.5, zero: 0}[1, 8] = input\n\
             %1: q8{scale: 0.5, zero: 0}[8, 8] = constant \"w\"\n\
             %2: q8{scale: 0.5, zero: 0}[1, 8] = linear %0, %1 {transposed: false}\n\
             %3: q8{scale: 0.5, zero: 0}[1, 8] = tanh %2\n\
             %4: q8{scale: 0.5, zero: 0}[1, 8] = tanh %3\n\
             output %4\n",
        );
        let list = text(&take_tails(&graph, list));
        assert_eq!(list[1], "%4 = bytes: table of Int8(0.5, 0) to Int8(0.5, 0) of %3");
    }
}
