//! Products of bytes do what follows them, and leave out signs between each other: fewer steps, the same bytes.
mod support;

use sconce_cpu::Options;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, bytes, graph, sets};

const CHANNELS: usize = 24;
const WIDE: usize = 96;

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
%1: q8{{axis: 0, scales: @0, zero: 0}}[{WIDE}, 1, 1, {CHANNELS}] = constant \"bytes\"
%2: q32{{axis: 0, scales: @0, zero: 0}}[{WIDE}] = constant \"bias\"
%3: q8{{scale: 0.2, zero: -5}}{wide} = conv2d %0, %1, %2 {pixelwise}
%4: q8{{scale: 0.11, zero: -100}}{wide} = {function} %3
%5: q8{{axis: 3, scales: @0, zero: 0}}[1, 3, 3, {WIDE}] = constant \"bytes\"
%6: q8{{scale: 0.4, zero: 7}}{wide} = depthwise_conv2d %4, %5, %2 {{stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}}
%7: q8{{scale: 0.35, zero: -20}}{wide} = {function} %6
%8: q8{{axis: 0, scales: @0, zero: 0}}[{CHANNELS}, 1, 1, {WIDE}] = constant \"bytes\"
%9: q8{{scale: 0.5, zero: 3}}{narrow} = conv2d %7, %8 {pixelwise}
%10: q8{{scale: 0.45, zero: 1}}{narrow} = add %0, %9
output {outputs}
"
    )
}

/// The last output, and the steps that made it.
fn run(text: &str, weights: &Weights, options: Options, par: &dyn Parallel) -> (Vec<u8>, Vec<String>) {
    let (graph, input) = (graph(text), bytes(99, 30 * 30 * CHANNELS));
    let (mut results, steps) = support::run(graph, options, weights, par, &[&input]);
    (results.pop().unwrap(), steps)
}

#[test]
fn what_products_do_besides_changes_no_byte() {
    let (weights, threads) = (Weights::mixed(), Pool::new(2));
    let pool = threads.lease();
    for (size, function) in [(1, "hard_swish"), (7, "hard_swish"), (14, "silu"), (30, "tanh")] {
        for (set, options) in sets(Options::default()) {
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
