//! A border that became padding gives what the border gave, also where it is wider than the filter.
//!
//! Every graph runs twice: as it is, and with the border returned as well, so that it has to be there.
mod support;

use sconce_cpu::Options;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, graph, sets};

/// Small whole numbers: their sums are exact in any order.
fn numbers(count: usize) -> Vec<u8> {
    (0..count as u32).flat_map(|i| ((i.wrapping_mul(2_654_435_761) >> 29) as f32 - 3.0).to_le_bytes()).collect()
}

/// The last output and the number of steps.
fn run(text: &str, outputs: &str, options: Options, par: &dyn Parallel) -> (Vec<u8>, usize) {
    let (graph, weights) = (graph(&format!("{text}output {outputs}\n")), Weights::all(numbers(3 * 3 * 24 * 24)));
    let input = numbers(graph.ty(graph.inputs[0]).sizes().iter().product());
    let (mut results, steps) = support::run(graph, options, &weights, par, &[&input]);
    (results.pop().unwrap(), steps.len())
}

#[test]
fn borders_and_padding_are_the_same() {
    let threads = Pool::new(2);
    let pool = threads.lease();
    for (top, left, bottom, right) in [(1, 1, 1, 1), (0, 2, 3, 0), (5, 4, 7, 6)] {
        for (height, width, channels, stride) in [(5, 6, 16, 1), (1, 1, 24, 1), (9, 20, 5, 2)] {
            let (padded_height, padded_width) = (height + top + bottom, width + left + right);
            let out = |size: usize| if size < 3 { 0 } else { (size - 3) / stride + 1 };
            let (rows, columns) = (out(padded_height), out(padded_width));
            if rows * columns == 0 {
                continue;
            }
            let image = format!("%0: float32[1, {height}, {width}, {channels}] = input\n");
            let pad = |value: &str| {
                format!(
                    "%1: float32[1, {padded_height}, {padded_width}, {channels}] = pad %0 \
                     {{before: [0, {top}, {left}, 0], after: [0, {bottom}, {right}, 0], value: {value}}}\n"
                )
            };
            let result = format!("%3: float32[1, {rows}, {columns}, {channels}]");
            let geometry = format!("stride: [{stride}, {stride}], padding: [0, 0, 0, 0], dilation: [1, 1]");
            let dense = format!(
                "{image}{}%2: float32[{channels}, 3, 3, {channels}] = constant \"filter\"\n\
                 {result} = conv2d %1, %2 {{{geometry}, groups: 1}}\n",
                pad("0")
            );
            let depthwise = format!(
                "{image}{}%2: float32[1, 3, 3, {channels}] = constant \"filter\"\n\
                 {result} = depthwise_conv2d %1, %2 {{{geometry}}}\n",
                pad("0")
            );
            let largest = format!("{image}{}{result} = max_pool2d %1 {{kernel: [3, 3], {geometry}}}\n", pad("-inf"));
            for text in [dense, depthwise, largest] {
                for (set, options) in sets(Options { exact: true, ..Options::default() }) {
                    for par in [&Serial as &dyn Parallel, &pool] {
                        let (found, steps) = run(&text, "%3", options, par);
                        let (expected, more) = run(&text, "%1, %3", options, par);
                        assert!(found == expected && steps < more, "{set}, {} threads:\n{text}", par.width());
                    }
                }
            }
        }
    }
}
