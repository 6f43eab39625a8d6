//! Which convolutions are computed together, in strips of rows.

use super::list::Selected;
use crate::cost;
use crate::steps::{After, Strips, Window};
use sconce_graph::{Graph, Origin};
use sconce_kernels::Isa;

/// Joins neighbouring convolutions where a large value passes from one to the other and nobody else reads it.
pub(super) fn join_strips(
    graph: &Graph,
    bytes: &[usize],
    chosen: Vec<Selected>,
    isa: Isa,
    width: usize,
) -> Vec<Selected> {
    let counts = graph.read_counts();
    // Whether a step makes a large value that the next one alone reads, as its image, and only functions come between.
    let feeds = |maker: &Selected, next: &Selected| {
        let value = maker.makes;
        let alone = counts[value.index()] == 1 && graph.values[value.index()].origin == Origin::Node;
        let functions = |after: &[After]| after.iter().all(|after| matches!(after, After::Apply(_)));
        alone
            && next.reads.first() == Some(&value)
            && maker.choice.rows().is_some_and(|rows| functions(rows.after()))
            && cost::is_worth_keeping(bytes[value.index()])
    };
    let mut joined = Vec::with_capacity(chosen.len());
    let mut chain: Vec<(Selected, Window)> = Vec::new();
    for selected in chosen {
        let window = selected.choice.rows().and_then(|rows| rows.window());
        if window.is_none() || !chain.last().is_some_and(|(last, _)| feeds(last, &selected)) {
            close(std::mem::take(&mut chain), isa, width, &mut joined);
        }
        match window {
            Some(window) => chain.push((selected, window)),
            None => joined.push(selected),
        }
    }
    close(chain, isa, width, &mut joined);
    joined
}

/// One step for a chain, if that pays; else its steps, as they are.
fn close(chain: Vec<(Selected, Window)>, isa: Isa, width: usize, joined: &mut Vec<Selected>) {
    let (mut chain, windows): (Vec<_>, Vec<_>) = chain.into_iter().unzip();
    if !cost::strips_pay(&windows, width) {
        return joined.append(&mut chain);
    }
    let Some(mut last) = chain.pop() else { return };
    if let Some(first) = chain.first() {
        last.reads[0] = first.reads[0];
    }
    let before = chain.iter().flat_map(|selected| selected.before.iter().chain([&selected.node]).copied());
    last.before = before.chain(last.before).collect();
    let stages = chain.into_iter().map(|selected| selected.choice).chain([last.choice]).collect();
    let strips = Strips::new(stages, windows, isa, width);
    joined.push(Selected { scratch: strips.scratch(), choice: strips.into(), ..last });
}

#[cfg(test)]
mod tests {
    use super::super::list::testing::{bytes, selected, text};
    use super::*;

    /// Three pixelwise layers in a row, of images of so many rows, with something after the second.
    fn list(height: usize, then: &str, outputs: &str) -> Vec<String> {
        let pixelwise = "{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}";
        let image = format!("float32[1, {height}, 64, 32]");
        let (graph, list) = selected(&format!(
            "%0: {image} = input\n\
             %1: float32[32, 1, 1, 32] = constant \"w\"\n\
             %2: {image} = conv2d %0, %1 {pixelwise} then tanh\n\
             %3: {image} = conv2d %2, %1 {pixelwise}{then}\n\
             %4: {image} = conv2d %3, %1 {pixelwise} then add %0\n\
             output {outputs}\n"
        ));
        text(&join_strips(&graph, &bytes(&graph), list, Isa::Scalar, 1))
    }

    const LAYER: &str = "packed product 64x64x32 -> 32, filter 1x1, stride [1, 1]";

    /// An image of 64 rows takes 512 KiB, which is worth keeping, and 80 such rows are as much as the cache takes.
    #[test]
    fn layers_with_large_images_between_them_are_joined() {
        let strips = format!("strips of 40 rows of: {LAYER}; {LAYER}; {LAYER}");
        assert_eq!(list(64, "", "%4"), [format!("%4 = {strips} of %0, %0 with nodes 0, 1")]);
        assert_eq!(list(63, "", "%4").len(), 3, "images of 504 KiB");
    }

    #[test]
    fn what_others_read_ends_a_strip() {
        let expected = [
            format!("%2 = {LAYER}, pixels 32 -> 32 of %0"),
            format!("%4 = strips of 64 rows of: {LAYER}; {LAYER} of %2, %0 with nodes 1"),
        ];
        assert_eq!(list(64, "", "%2, %4"), expected);
        // A sum needs another image, which strips do not cut.
        let expected = [
            format!("%3 = strips of 64 rows of: {LAYER}; {LAYER} of %0, %0 with nodes 0"),
            format!("%4 = {LAYER}, pixels 32 -> 32 of %3, %0"),
        ];
        assert_eq!(list(64, " then add %0", "%4"), expected);
    }
}
