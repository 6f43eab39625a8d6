//! Which int8 values lie in memory as uint8.
//!
//! Some machines multiply uint8 with int8 (VNNI), so products copy the image that they read, 128 added to each element. An image
//! that a depthwise convolution makes for a pixelwise product alone is written that way at once, and the product reads it where
//! it is.

use super::list::Selected;
use crate::steps::{Choice, Tail};
use sconce_graph::Graph;
use sconce_kernels::Isa;
use sconce_kernels::packed::int8;

/// Lets products read uint8 where those who make the image can write it.
pub(super) fn drop_signs(graph: &Graph, isa: Isa, chosen: &mut [Selected]) {
    let counts = graph.read_counts();
    let mut makers: Vec<Option<usize>> = vec![None; graph.values.len()];
    for step in 0..chosen.len() {
        let (before, after) = chosen.split_at_mut(step);
        let Some(product) = after.first_mut() else { continue };
        if let Choice::ConvolutionInt8(convolution) = &mut product.choice
            && int8::reads_unsigned(isa, &convolution.conv)
        {
            let image = product.reads.first().filter(|value| counts[value.index()] == 1);
            let maker = image.and_then(|image| before.get_mut(makers[image.index()]?));
            convolution.quantization.unsigned.input |= maker.is_some_and(|maker| drop_sign(&mut maker.choice));
        }
        makers[product.makes.index()] = Some(step);
    }
}

/// Has a step make uint8; whether it can.
fn drop_sign(choice: &mut Choice) -> bool {
    let Choice::DepthwiseInt8(step) = choice else { return false };
    match &mut step.tail {
        Tail::Nothing => step.quantization.unsigned.output = true,
        Tail::LookUp(table, _) => table.iter_mut().for_each(|byte| *byte ^= 0x80),
        Tail::Add(_) => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::list::testing::{selected, text};
    use super::super::tails::take_tails;
    use super::*;

    /// A filter for each channel, perhaps a function, and a pixelwise layer; where the image between them is returned, it keeps
    /// its sign.
    fn list(function: &str, outputs: &str, isa: Isa) -> Vec<String> {
        let (graph, list) = selected(&format!(
            "%0: q8{{scale: 0.5, zero: 0}}[1, 4, 4, 64] = input\n\
             %1: q8{{scale: 0.5, zero: 0}}[1, 3, 3, 64] = constant \"f\"\n\
             %2: q8{{scale: 0.5, zero: 0}}[1, 4, 4, 64] = depthwise_conv2d %0, %1 \
             {{stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}}\n\
             %3: q8{{scale: 0.5, zero: 0}}[1, 4, 4, 64] = {function} %2\n\
             %4: q8{{scale: 0.5, zero: 0}}[64, 1, 1, 64] = constant \"w\"\n\
             %5: q8{{scale: 0.5, zero: 0}}[1, 4, 4, 64] = conv2d %3, %4 \
             {{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}}\n\
             output {outputs}\n"
        ));
        let mut list = take_tails(&graph, list);
        drop_signs(&graph, isa, &mut list);
        text(&list)
    }

    #[test]
    fn images_for_pixelwise_products_have_no_sign_where_these_want_none() {
        for isa in Isa::available() {
            let wanted = isa.name() == "vnni";
            for function in ["tanh", "hard_swish"] {
                let alone = list(function, "%5", isa);
                assert_eq!(alone.len(), 2, "{alone:?}");
                assert_eq!(alone[1].starts_with("%5 = bytes in place: packed product"), wanted, "{isa:?}: {alone:?}");
                let returned = list(function, "%3, %5", isa);
                assert!(returned[1].starts_with("%5 = bytes: packed product"), "{isa:?}: {returned:?}");
            }
        }
    }
}
