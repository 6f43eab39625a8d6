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
    for reader in 1..chosen.len() {
        let (before, after) = chosen.split_at_mut(reader);
        let Some((_, product)) = after.first_mut().filter(|(_, next)| next.step.takes_unsigned(isa)) else { continue };
        let Some(&image) = product.reads.first().filter(|value| counts[value.index()] == 1) else { continue };
        let maker = before.iter_mut().find(|(place, _)| graph.nodes[*place].outputs.first() == Some(&image));
        if maker.is_some_and(|(_, maker)| maker.step.make_unsigned()) {
            product.step.read_unsigned();
        }
    }
}
