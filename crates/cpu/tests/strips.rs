//! Convolutions in strips give the numbers that they give one after the other.
mod support;

use sconce_cpu::Options;
use sconce_graph::Graph;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, numbers, to_bytes};

/// Expand, filter, project and add, with a height that no strip divides.
const BLOCK: &str = "%0: float32[1, 61, 70, 8] = input
%1: float32[48, 3, 3, 8] = constant \"a\"
%2: float32[48] = constant \"b\"
%3: float32[1, 61, 70, 48] = conv2d %0, %1, %2 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then hard_swish
%4: float32[1, 5, 5, 48] = constant \"c\"
%5: float32[1, STEP] = depthwise_conv2d %3, %4 {stride: [STRIDE], padding: [2, 2, 2, 2], dilation: [1, 1]} then clamp {low: -3, high: 3}
%6: float32[40, 1, 1, 48] = constant \"d\"
%7: float32[1, LAST] = conv2d %5, %6 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}
%8: float32[1, LAST] = input
%9: float32[1, LAST] = add %7, %8
";

fn graph(stride: usize, outputs: &str) -> Graph {
    let (height, width) = (61usize.div_ceil(stride), 70usize.div_ceil(stride));
    let text = BLOCK.replace("STRIDE", &format!("{stride}, {stride}"));
    let text = text.replace("STEP", &format!("{height}, {width}, 48"));
    support::graph(&format!("{}output {outputs}\n", text.replace("LAST", &format!("{height}, {width}, 40"))))
}

/// The last output, and how many steps made it.
fn run(graph: Graph, par: &dyn Parallel) -> (Vec<u8>, usize) {
    let weights = Weights::all(to_bytes(&numbers(0, 300_000)));
    let options = Options { exact: true, ..Options::default() };
    let (mut results, steps) = support::run(graph, options, &weights, par, &[&weights.named("a")[400_000..]; 2]);
    (results.pop().unwrap(), steps.len())
}

#[test]
fn strips_are_the_whole() {
    // With a stride, the filtered image is too small to be worth it.
    for (stride, steps) in [(1, 1), (2, 2)] {
        // Values that are returned cannot be left out.
        let (expected, apart) = run(graph(stride, "%3, %5, %9"), &Serial);
        assert_eq!(apart, 3);
        let (found, together) = run(graph(stride, "%9"), &Serial);
        assert_eq!(together, steps, "stride {stride}");
        assert!(found == expected, "stride {stride}");
        for threads in [2, 3] {
            let (found, _) = run(graph(stride, "%9"), &Pool::new(threads).lease());
            assert!(found == expected, "stride {stride}, {threads} threads");
        }
    }
}
