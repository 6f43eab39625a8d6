//! Which bytes lie in memory without a sign.
//!
//! Some machines multiply bytes without a sign, 128 more than they stand for, and products copy what they read to make it so.
//! An image that a depthwise convolution makes for a pixelwise product alone is written that way at once, and the product
//! reads it where it is.

use super::select::Selected;
use sconce_graph::Graph;
use sconce_kernels::Isa;

/// Lets products read bytes without a sign where those who make them can leave it out.
pub(super) fn drop_signs(graph: &Graph, isa: Isa, chosen: &mut [(usize, Selected)]) {
    let counts = graph.read_counts();
    let mut makers: Vec<Option<usize>> = vec![None; graph.values.len()];
    for step in 0..chosen.len() {
        let (before, after) = chosen.split_at_mut(step);
        let Some((place, selected)) = after.first_mut() else { continue };
        let image =
            selected.reads.first().filter(|value| counts[value.index()] == 1 && selected.step.takes_unsigned(isa));
        let maker = image.and_then(|image| before.get_mut(makers[image.index()]?));
        if maker.is_some_and(|(_, maker)| maker.step.make_unsigned()) {
            selected.step.read_unsigned();
        }
        graph.nodes[*place].outputs.iter().take(1).for_each(|made| makers[made.index()] = Some(step));
    }
}
