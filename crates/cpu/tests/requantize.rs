//! The factor from sums to bytes is rounded as XNNPACK rounds it: input scale times filter scale, then divided by output scale.
mod support;

use sconce_cpu::Options;
use sconce_parallel::Serial;
use support::{Weights, graph};

/// The scale of a channel's filter, its sum, and the byte that comes of it. With `filter * (input / output)` as the factor,
/// each of the bytes would be off by one.
const CHANNELS: [(f32, i32, i8); 6] = [
    (0.001179277, 30417, 62),
    (0.0018167555, -11718, -36),
    (0.0017474802, 11515, 35),
    (0.0011480019, -25657, -50),
    (0.00082726666, 48295, 68),
    (0.0012235027, 15493, 33),
];

fn run(text: &str) -> Vec<i8> {
    // Filters of zeros, and sums that are in the bias.
    let weights = Weights(vec![
        ("scales", CHANNELS.iter().flat_map(|channel| channel.0.to_le_bytes()).collect()),
        ("bias", CHANNELS.iter().flat_map(|channel| channel.1.to_le_bytes()).collect()),
        ("filter", vec![0; CHANNELS.len()]),
    ]);
    let input = [0; CHANNELS.len()];
    let (mut results, _) = support::run(graph(text), Options::default(), &weights, &Serial, &[&input]);
    results.swap_remove(0).into_iter().map(u8::cast_signed).collect()
}

#[test]
fn scales_are_multiplied_before_they_are_divided() {
    let expected: Vec<_> = CHANNELS.iter().map(|channel| channel.2).collect();
    let linear = "@0 = \"scales\"
%0: q8{scale: 0.031106766, zero: -2}[1, 1] = input
%1: q8{axis: 0, scales: @0, zero: 0}[6, 1] = constant \"filter\"
%2: q32{axis: 0, scales: @0, zero: 0}[6] = constant \"bias\"
%3: q8{scale: 0.01814312, zero: 0}[1, 6] = linear %0, %1, %2 {transposed: false}
output %3
";
    assert_eq!(run(linear), expected);
    let depthwise = "@0 = \"scales\"
%0: q8{scale: 0.031106766, zero: -2}[1, 1, 1, 6] = input
%1: q8{axis: 3, scales: @0, zero: 0}[1, 1, 1, 6] = constant \"filter\"
%2: q32{axis: 0, scales: @0, zero: 0}[6] = constant \"bias\"
%3: q8{scale: 0.01814312, zero: 0}[1, 1, 1, 6] = depthwise_conv2d %0, %1, %2 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1]}
output %3
";
    assert_eq!(run(depthwise), expected);
}
