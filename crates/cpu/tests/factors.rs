//! Factors and summands per channel join the product before them, whatever product it is: one step less, the same numbers.
mod support;

use sconce_cpu::Options;
use sconce_parallel::Serial;
use support::{Weights, floats, graph, numbers, to_bytes};

/// The last result of a product of an image of 6 x 5 pixels and 8 channels, with a filter of these sizes, and how many steps make it.
fn run(product: &str, filter: &str, outputs: &str) -> (Vec<f32>, usize) {
    let (name, attributes) = product.split_once(' ').unwrap();
    let text = format!(
        "%0: float32[1, 6, 5, 8] = input
%1: float32[{filter}] = constant \"filter\"
%2: float32[8] = constant \"bias\"
%3: float32[1, 6, 5, 8] = {name} %0, %1, %2 {attributes}
%4: float32[8] = constant \"factors\"
%5: float32[8] = constant \"summands\"
%6: float32[1, 6, 5, 8] = affine %3, %4, %5
output {outputs}
"
    );
    let constant = |name, start, count| (name, to_bytes(&numbers(start, count)));
    let names = [("filter", 0, 8 * 9 * 8), ("bias", 1000, 8), ("factors", 2000, 8), ("summands", 3000, 8)];
    let weights = Weights(names.map(|(name, start, count)| constant(name, start, count)).into());
    let input = to_bytes(&numbers(7000, 6 * 5 * 8));
    let options = Options { exact: true, ..Options::default() };
    let (mut results, steps) = support::run(graph(&text), options, &weights, &Serial, &[&input]);
    (floats(&results.pop().unwrap()), steps.len())
}

#[test]
fn every_product_takes_factors_and_summands() {
    let geometry = "stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]";
    let cases = [
        ("linear {transposed: false}".to_owned(), "8, 8"),
        ("linear {transposed: true}".to_owned(), "8, 8"),
        (format!("conv2d {{{geometry}, groups: 1}}"), "8, 3, 3, 8"),
        (format!("conv2d {{{geometry}, groups: 2}}"), "8, 3, 3, 4"),
        (format!("depthwise_conv2d {{{geometry}}}"), "1, 3, 3, 8"),
        (format!("conv_transpose2d {{{geometry}, groups: 1, extra: [0, 0]}}"), "8, 3, 3, 8"),
        (format!("conv_transpose2d {{{geometry}, groups: 4, extra: [0, 0]}}"), "8, 3, 3, 2"),
    ];
    for (product, filter) in cases {
        // A product that is returned stays as it is.
        let ((found, one), (expected, two)) = (run(&product, filter, "%6"), run(&product, filter, "%3, %6"));
        assert_eq!((one, two), (1, 2), "{product}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{product}: {found} instead of {expected}");
        }
    }
}
