//! Products of bytes do what follows them, and leave out signs between each other: fewer steps, the same bytes.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Source, parse};
use sconce_parallel::{Parallel, Pool, Serial};

const CHANNELS: usize = 24;
const WIDE: usize = 96;

/// Bytes that differ from place to place.
fn bytes(start: u32, count: usize) -> Vec<u8> {
    (start..).take(count).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

struct Weights {
    scales: Vec<u8>,
    bytes: Vec<u8>,
    bias: Vec<u8>,
}

impl Constants for Weights {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        match source {
            Source::Named(name) if &**name == "scales" => Some(&self.scales),
            Source::Named(name) if &**name == "bias" => Some(&self.bias),
            Source::Named(_) => Some(&self.bytes),
            _ => None,
        }
    }
}

/// An inverted bottleneck: a pixelwise product with a hard swish, a depthwise one, a pixelwise one, and the sum with the input.
/// If `all` are returned, nothing can be left out.
fn text(size: usize, function: &str, all: bool) -> String {
    let image = |channels: usize| format!("[1, {size}, {size}, {channels}]");
    let (narrow, wide) = (image(CHANNELS), image(WIDE));
    let pixelwise = "{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}";
    let outputs = if all { "%3, %4, %6, %7, %9, %10" } else { "%10" };
    format!(
        "@0 = \"scales\"
%0: q8{{scale: 0.03, zero: 4}}{narrow} = input
%1: q8{{axis: 0, scales: @0, zero: 0}}[{WIDE}, 1, 1, {CHANNELS}] = constant \"filter\"
%2: q32{{axis: 0, scales: @0, zero: 0}}[{WIDE}] = constant \"bias\"
%3: q8{{scale: 0.2, zero: -5}}{wide} = conv2d %0, %1, %2 {pixelwise}
%4: q8{{scale: 0.11, zero: -100}}{wide} = {function} %3
%5: q8{{axis: 3, scales: @0, zero: 0}}[1, 3, 3, {WIDE}] = constant \"filter\"
%6: q8{{scale: 0.4, zero: 7}}{wide} = depthwise_conv2d %4, %5, %2 {{stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}}
%7: q8{{scale: 0.35, zero: -20}}{wide} = {function} %6
%8: q8{{axis: 0, scales: @0, zero: 0}}[{CHANNELS}, 1, 1, {WIDE}] = constant \"filter\"
%9: q8{{scale: 0.5, zero: 3}}{narrow} = conv2d %7, %8 {pixelwise}
%10: q8{{scale: 0.45, zero: 1}}{narrow} = add %0, %9
output {outputs}
"
    )
}

/// The last output, and the steps that made it.
fn run(text: &str, weights: &Weights, options: Options, par: &dyn Parallel) -> (Vec<u8>, Vec<String>) {
    let graph = parse(text).unwrap();
    let sizes = graph.ty(graph.inputs[0]).sizes();
    let model = Model::new(graph, options, weights).unwrap();
    let plan = model.plan(&[&sizes], par.width()).unwrap();
    let input = bytes(99, sizes.iter().product());
    let mut results: Vec<Vec<u8>> = plan.argument_bytes().1.iter().map(|&bytes| vec![0; bytes]).collect();
    let mut slices: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    model.run(&plan, &mut Session::default(), par, weights, &[&input], &mut slices).unwrap();
    (results.pop().unwrap(), plan.steps().map(|step| step.what).collect())
}

#[test]
fn what_products_do_besides_changes_no_byte() {
    let weights = Weights {
        scales: [0.01f32, 0.013, 0.007, 0.02].iter().cycle().take(WIDE).flat_map(|scale| scale.to_le_bytes()).collect(),
        bytes: bytes(5, WIDE * WIDE),
        bias: (0..WIDE as i32).flat_map(|channel| (channel * 37 - 1500).to_le_bytes()).collect(),
    };
    let pool = Pool::new(2);
    for (size, function) in [(1, "hard_swish"), (7, "hard_swish"), (14, "silu"), (30, "tanh")] {
        for set in ["scalar", "avx2", "avx512", "vnni", "neon", "dotprod", "i8mm"] {
            let Some(options) = Options::default().with_instructions(set) else { continue };
            for par in [&Serial as &dyn Parallel, &pool] {
                let (expected, apart) = run(&text(size, function, true), &weights, options, par);
                let (found, together) = run(&text(size, function, false), &weights, options, par);
                assert_eq!(found, expected, "{size} pixels, {function}, {set}");
                // Three products; alone there are two tables and a sum more.
                assert_eq!((together.len(), apart.len()), (3, 6), "{together:?}\n{apart:?}");
                let in_place = together.iter().any(|step| step.starts_with("bytes in place"));
                assert_eq!(in_place, set == "vnni", "{together:?}");
                assert!(!apart.iter().any(|step| step.starts_with("bytes in place")), "{apart:?}");
            }
        }
    }
}
