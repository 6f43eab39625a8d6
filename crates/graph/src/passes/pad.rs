//! Moves borders into the padding of what reads them.
//!
//! A border of zeros above, below, left and right of an image is what a convolution reads outside of it; so is one of minus
//! infinity for the largest of windows. Other readers would still need the border, so there must be none. A border around
//! quantised values holds their zero point, which is what quantised convolutions read outside; exporters write it around
//! numbers, between two conversions.

use crate::graph::{Graph, Node};
use crate::op::Op;
use crate::types::{Quantized, Scheme};
use sconce_format::ScalarType;

/// Folds borders into the convolutions and windows that alone read them; answers how many.
pub fn fold_pads(graph: &mut Graph) -> usize {
    let (makers, counts) = (graph.makers(), graph.read_counts());
    let mut folded = 0;
    for place in 0..graph.nodes.len() {
        let Some(&padded) = graph.nodes[place].inputs.first() else { continue };
        let maker = makers[padded.index()].filter(|_| counts[padded.index()] == 1).map(|maker| &graph.nodes[maker]);
        let Some(Node { op: Op::Pad { before, after, value }, inputs, then, .. }) = maker else { continue };
        let (&[0, top, left, 0], &[0, bottom, right, 0]) = (&before[..], &after[..]) else { continue };
        let alike = graph.ty(inputs[0]).element == graph.ty(padded).element && then.is_empty();
        let (image, value) = (inputs[0], *value);
        let op = with_padding(&graph.nodes[place].op, value, [top, left, bottom, right]).filter(|_| alike);
        if let Some(op) = op {
            (graph.nodes[place].op, graph.nodes[place].inputs[0]) = (op, image);
            folded += 1;
        }
    }
    super::remove_dead(graph);
    folded
}

/// Lets a border be around integers that became `float32` for it, and the same integers again after it; answers how many
/// there were. Between the two conversions each number is that of an integer, so that it finds back to it.
pub fn pad_integers(graph: &mut Graph) -> usize {
    let (makers, mut padded) = (graph.makers(), 0);
    for place in 0..graph.nodes.len() {
        let node = &graph.nodes[place];
        if !matches!(node.op, Op::Pad { .. }) || !node.then.is_empty() {
            continue;
        }
        let Some(maker) = makers[node.inputs[0].index()].map(|maker| &graph.nodes[maker]) else { continue };
        let numbers = graph.ty(node.inputs[0]).is(ScalarType::Float) && maker.op == Op::Convert;
        let (from, to) = (graph.ty(maker.inputs[0]), graph.ty(node.outputs[0]));
        let one_scale = matches!(to.quantized(), Some(Quantized { scheme: Scheme::PerTensor { .. }, .. }));
        if numbers && maker.then.is_empty() && one_scale && from.element == to.element {
            let integers = maker.inputs[0];
            graph.nodes[place].inputs[0] = integers;
            padded += 1;
        }
    }
    super::remove_dead(graph);
    padded
}

/// The operation with so much more padding, if that holds this value.
fn with_padding(op: &Op, value: f32, more: [usize; 4]) -> Option<Op> {
    let mut op = op.clone();
    let (padding, holds) = match &mut op {
        Op::Conv2d { padding, .. } | Op::DepthwiseConv2d { padding, .. } => (padding, 0.0),
        Op::MaxPool2d { padding, .. } => (padding, f32::NEG_INFINITY),
        _ => return None,
    };
    for (side, more) in padding.iter_mut().zip(more) {
        *side = side.checked_add(more)?;
    }
    (value == holds).then_some(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many borders go, and the graph then.
    fn folded(text: &str) -> (usize, String) {
        let mut graph = crate::parse(text).unwrap();
        let count = fold_pads(&mut graph);
        crate::verify(&graph).unwrap();
        graph.compact();
        (count, graph.to_string())
    }

    #[test]
    fn borders_become_padding() {
        let text = "%0: float32[1, 5, 6, 4] = input\n\
                    %1: float32[8, 3, 3, 4] = constant \"a\"\n\
                    %2: float32[1, 8, 8, 4] = pad %0 {before: [0, 1, 0, 0], after: [0, 2, 2, 0], value: 0}\n\
                    %3: float32[1, 4, 4, 8] = conv2d %2, %1 {stride: [2, 2], padding: [0, 1, 1, 0], dilation: [1, 1], groups: 1}\n\
                    %4: float32[1, 3, 3, 8] = constant \"b\"\n\
                    %5: float32[1, 6, 6, 8] = pad %3 {before: [0, 1, 1, 0], after: [0, 1, 1, 0], value: 0}\n\
                    %6: float32[1, 4, 4, 8] = depthwise_conv2d %5, %4 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1]}\n\
                    %7: float32[1, 6, 5, 8] = pad %6 {before: [0, 1, 1, 0], after: [0, 1, 0, 0], value: -inf}\n\
                    %8: float32[1, 5, 4, 8] = max_pool2d %7 {kernel: [2, 2], stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1]}\n\
                    output %8\n";
        let expected = "%0: float32[1, 5, 6, 4] = input\n\
                        %1: float32[8, 3, 3, 4] = constant \"a\"\n\
                        %2: float32[1, 4, 4, 8] = conv2d %0, %1 {stride: [2, 2], padding: [1, 1, 3, 2], dilation: [1, 1], groups: 1}\n\
                        %3: float32[1, 3, 3, 8] = constant \"b\"\n\
                        %4: float32[1, 4, 4, 8] = depthwise_conv2d %2, %3 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}\n\
                        %5: float32[1, 5, 4, 8] = max_pool2d %4 {kernel: [2, 2], stride: [1, 1], padding: [1, 1, 1, 0], dilation: [1, 1]}\n\
                        output %5\n";
        assert_eq!(folded(text), (3, expected.to_owned()));
    }

    #[test]
    fn zero_points_around_bytes_are_zeros() {
        let text = "@0 = \"scales\"\n\
                    %0: q8{scale: 0.5, zero: 3}[1, 5, 5, 4] = input\n\
                    %1: q8{axis: 0, scales: @0, zero: 0}[8, 3, 3, 4] = constant \"a\"\n\
                    %2: q8{scale: 0.5, zero: 3}[1, 7, 7, 4] = pad %0 {before: [0, 1, 1, 0], after: [0, 1, 1, 0], value: 0}\n\
                    %3: q8{scale: 0.5, zero: 0}[1, 5, 5, 8] = conv2d %2, %1 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}\n\
                    output %3\n";
        let (count, graph) = folded(text);
        assert_eq!(count, 1);
        assert!(graph.contains("conv2d %0, %1 {stride: [1, 1], padding: [1, 1, 1, 1]"), "{graph}");
    }

    /// As exporters write a border between quantised layers.
    #[test]
    fn integers_stay_integers() {
        let text = |element: &str, scale: &str| {
            format!(
                "%0: q8{{scale: 0.5, zero: 3}}[2, 3] = input\n\
                 %1: {element}[2, 3] = convert %0\n\
                 %2: q8{{scale: {scale}, zero: 3}}[2, 5] = pad %1 {{before: [0, 1], after: [0, 1], value: 0}}\n\
                 output %2\n"
            )
        };
        let mut graph = crate::parse(&text("float32", "0.5")).unwrap();
        assert_eq!(pad_integers(&mut graph), 1);
        crate::verify(&graph).unwrap();
        graph.compact();
        let expected = "%0: q8{scale: 0.5, zero: 3}[2, 3] = input\n\
                        %1: q8{scale: 0.5, zero: 3}[2, 5] = pad %0 {before: [0, 1], after: [0, 1], value: 0}\n\
                        output %1\n";
        assert_eq!(graph.to_string(), expected);
        for text in [text("float32", "0.25"), text("float16", "0.5")] {
            assert_eq!(pad_integers(&mut crate::parse(&text).unwrap()), 0, "{text}");
        }
    }

    #[test]
    fn other_borders_stay() {
        let text = |pad: &str, padded: &str, reader: &str, outputs: &str| {
            format!(
                "%0: float32[1, 5, 5, 4] = input\n\
                 %1: float32[8, 3, 3, 6] = constant \"a\"\n\
                 %2: float32[8, 3, 3, 4] = constant \"b\"\n\
                 %3: float32[{padded}] = pad %0 {pad}\n\
                 %4: float32[{reader}\n\
                 output {outputs}\n"
            )
        };
        let around = |value: &str| format!("{{before: [0, 1, 1, 0], after: [0, 1, 1, 0], value: {value}}}");
        let plain = "{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}";
        let conv = format!("1, 5, 5, 8] = conv2d %3, %2 {plain}");
        let max =
            "1, 6, 6, 4] = max_pool2d %3 {kernel: [2, 2], stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1]}";
        let mean = "1, 6, 6, 4] = avg_pool2d %3 {kernel: [2, 2], stride: [1, 1], padding: [0, 0, 0, 0]}";
        let transposed = "1, 9, 9, 8] = conv_transpose2d %3, %2 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1, extra: [0, 0]}";
        let channels = "{before: [0, 0, 0, 1], after: [0, 0, 0, 1], value: 0}";
        for text in [
            text(&around("1"), "1, 7, 7, 4", &conv, "%4"),
            text(channels, "1, 5, 5, 6", &format!("1, 3, 3, 8] = conv2d %3, %1 {plain}"), "%4"),
            text(&around("0"), "1, 7, 7, 4", &conv, "%3, %4"),
            text(&around("0"), "1, 7, 7, 4", max, "%4"),
            text(&around("0"), "1, 7, 7, 4", mean, "%4"),
            text(&around("0"), "1, 7, 7, 4", transposed, "%4"),
        ] {
            assert_eq!(folded(&text).0, 0, "{text}");
        }
    }
}
