//! A gate before a pixelwise convolution multiplies its weights, where there are fewer of them than pixels.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Source, parse};
use sconce_parallel::{Parallel, Pool, Serial};

const CHANNELS: usize = 24;
const OUT: usize = 40;

/// Numbers from -0.5 to 0.5 that differ from place to place.
fn numbers(start: u32, count: usize) -> Vec<f32> {
    (start..).take(count).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 4096.0 - 0.5).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The numbers of the filter, of which the first are the bias, too.
struct Weights(Vec<u8>);

impl Constants for Weights {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        matches!(source, Source::Named(_)).then_some(&self.0)
    }
}

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
    let graph = parse(text).unwrap();
    let sizes: Vec<_> = graph.inputs.iter().map(|&input| graph.ty(input).sizes()).collect();
    let sizes: Vec<&[usize]> = sizes.iter().map(|sizes| &sizes[..]).collect();
    let model = Model::new(graph, Options::default(), weights).unwrap();
    let plan = model.plan(&sizes, par.width()).unwrap();
    let inputs: Vec<_> = inputs.iter().map(|input| bytes(input)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut results: Vec<Vec<u8>> = plan.argument_bytes().1.iter().map(|&bytes| vec![0; bytes]).collect();
    let mut slices: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    model.run(&plan, &mut Session::default(), par, weights, &inputs, &mut slices).unwrap();
    let last = results.pop().unwrap();
    (last.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(), plan.steps().len())
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
    let weights = Weights(bytes(&filter));
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
        for par in [&Serial as &dyn Parallel, &Pool::new(2)] {
            let (found, taken) = run(&text(size, operands, outputs), &inputs, &weights, par);
            assert_eq!(taken, steps, "{size:?} {operands} {outputs}");
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{i}: {found} instead of {expected}");
            }
        }
    }
}
