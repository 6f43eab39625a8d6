//! A gate before a pixelwise convolution multiplies its weights, where there are fewer of them than pixels.
mod support;

use sconce_cpu::Options;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, floats, graph, numbers, to_bytes};

const CHANNELS: usize = 24;
const OUT: usize = 40;

/// The gated convolution of an image of so many rows and columns, plus the image of the last input; `outputs` are returned.
fn text([height, width]: [usize; 2], operands: &str, outputs: &str) -> String {
    let (image, out) = (format!("1, {height}, {width}, {CHANNELS}"), format!("1, {height}, {width}, {OUT}"));
    format!(
        "%0: float32[{image}] = input
%1: float32[1, 1, 1, {CHANNELS}] = input
%2: float32[{out}] = input
%3: float32[{image}] = multiply {operands}
%4: float32[{OUT}, 1, 1, {CHANNELS}] = constant \"filter\"
%5: float32[{OUT}] = constant \"bias\"
%6: float32[{out}] = conv2d %3, %4, %5 {{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}}
%7: float32[{out}] = add %6, %2
output {outputs}
"
    )
}

/// The last output, and how many steps made it.
fn run(text: &str, inputs: &[Vec<f32>], weights: &Weights, par: &dyn Parallel) -> (Vec<f32>, usize) {
    let inputs: Vec<_> = inputs.iter().map(|input| to_bytes(input)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let (mut results, steps) = support::run(graph(text), Options::default(), weights, par, &inputs);
    (floats(&results.pop().unwrap()), steps.len())
}

/// The sums, by arithmetic in wider numbers.
fn expected([image, gate, added]: &[Vec<f32>; 3], filter: &[f32]) -> Vec<f64> {
    let channels = |pixel: usize| image[pixel * CHANNELS..].iter().zip(gate);
    let wide = |number: &f32| f64::from(*number);
    let sum = |i: usize| {
        let row = filter[i % OUT * CHANNELS..].iter();
        let products = channels(i / OUT).zip(row).map(|((x, gate), weight)| wide(x) * wide(gate) * wide(weight));
        products.sum::<f64>() + wide(&filter[i % OUT]) + wide(&added[i])
    };
    (0..added.len()).map(sum).collect()
}

#[test]
fn gates_go_into_the_weights() {
    let filter = numbers(0, OUT * CHANNELS);
    // The numbers of the filter, of which the first are the bias, too.
    let weights = Weights::all(to_bytes(&filter));
    // Fewer pixels than output channels, then more; the gate on either side; and a gated image that is returned itself.
    let cases = [
        ([5, 7], "%0, %1", "%7", 2),
        ([9, 11], "%0, %1", "%7", 1),
        ([9, 11], "%1, %0", "%7", 1),
        ([9, 11], "%0, %1", "%3, %7", 2),
    ];
    for (size, operands, outputs, steps) in cases {
        let pixels = size[0] * size[1];
        let inputs = [numbers(5000, pixels * CHANNELS), numbers(900, CHANNELS), numbers(70, pixels * OUT)];
        let expected = expected(&inputs, &filter);
        for par in [&Serial as &dyn Parallel, &Pool::new(2).lease()] {
            let (found, taken) = run(&text(size, operands, outputs), &inputs, &weights, par);
            assert_eq!(taken, steps, "{size:?} {operands} {outputs}");
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{i}: {found} instead of {expected}");
            }
        }
    }
}
