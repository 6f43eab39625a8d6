//! The factor from sums to bytes is rounded as XNNPACK rounds it: input scale times filter scale, then divided by output scale.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Source, parse};
use sconce_parallel::Serial;

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

/// Filters of zeros, and sums that are in the bias.
struct Weights {
    scales: Vec<u8>,
    bias: Vec<u8>,
}

impl Constants for Weights {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        match source {
            Source::Named(name) if &**name == "scales" => Some(&self.scales),
            Source::Named(name) if &**name == "bias" => Some(&self.bias),
            Source::Named(_) => Some(&[0; CHANNELS.len()]),
            _ => None,
        }
    }
}

fn run(text: &str) -> Vec<i8> {
    let weights = Weights {
        scales: CHANNELS.iter().flat_map(|channel| channel.0.to_le_bytes()).collect(),
        bias: CHANNELS.iter().flat_map(|channel| channel.1.to_le_bytes()).collect(),
    };
    let graph = parse(text).unwrap();
    let sizes = graph.ty(graph.inputs[0]).sizes();
    let model = Model::new(graph, Options::default(), &weights).unwrap();
    let plan = model.plan(&[&sizes], 1).unwrap();
    let (inputs, outputs) = plan.argument_bytes();
    let (input, mut output) = (vec![0; inputs[0]], vec![0; outputs[0]]);
    model.run(&plan, &mut Session::default(), &Serial, &weights, &[&input], &mut [&mut output]).unwrap();
    output.into_iter().map(u8::cast_signed).collect()
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
