//! Winograd's method on images whose size is known when they come.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Source, parse};
use sconce_parallel::{Parallel, Pool, Serial};

const CHANNELS: usize = 32;

const LAYER: &str = "%0: float32[1, h <= 40, w <= 40, 32] = input
%1: float32[32, 3, 3, 32] = constant \"filter\"
%2: float32[32] = constant \"bias\"
%3: float32[1, h <= 40, w <= 40, 32] = conv2d %0, %1, %2 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then clamp {low: -2, high: inf}
output %3
";

/// Numbers from -0.5 to 0.5 that differ from place to place.
fn numbers(count: usize) -> Vec<f32> {
    (0..count as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 4096.0 - 0.5).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The first of the numbers, for both constants.
struct Weights(Vec<u8>);

impl Constants for Weights {
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
        matches!(source, Source::Named(_)).then_some(&self.0)
    }
}

/// The layer, one sum of products at a time.
fn naive([height, width]: [usize; 2], input: &[f32], weights: &[f32]) -> Vec<f32> {
    let mut output = Vec::with_capacity(input.len());
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for channel in 0..CHANNELS {
            let mut sum = f64::from(weights[channel]);
            for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let (Some(row), Some(column)) = ((y + i).checked_sub(1), (x + j).checked_sub(1)) else { continue };
                if row < height && column < width {
                    let pixel = &input[(row * width + column) * CHANNELS..][..CHANNELS];
                    let filter = &weights[((channel * 3 + i) * 3 + j) * CHANNELS..][..CHANNELS];
                    sum += pixel.iter().zip(filter).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                }
            }
            output.push(sum.max(-2.0) as f32);
        }
    }
    output
}

/// One model, so that weights packed for the first size serve all of them.
#[test]
fn every_size_gives_the_sums_of_products() {
    let numbers = numbers(40 * 40 * CHANNELS);
    let weights = Weights(bytes(&numbers));
    let model = Model::new(parse(LAYER).unwrap(), Options::default(), &weights).unwrap();
    let (pool, mut session) = (Pool::new(2), Session::default());
    for size in [[9, 14], [40, 40], [1, 1], [3, 40], [40, 2], [6, 6], [9, 14]] {
        let [height, width] = size;
        let input = &numbers[numbers.len() - height * width * CHANNELS..];
        let expected = naive(size, input, &numbers);
        for par in [&Serial as &dyn Parallel, &pool] {
            let plan = model.plan(&[&[1, height, width, CHANNELS]], par.width()).unwrap();
            assert!(plan.steps().all(|step| step.what.starts_with("Winograd")), "{plan}");
            let mut output = vec![0; 4 * expected.len()];
            model.run(&plan, &mut session, par, &weights, &[&bytes(input)], &mut [&mut output]).unwrap();
            for (found, expected) in output.chunks_exact(4).zip(&expected) {
                let found = f32::from_le_bytes(found.try_into().unwrap());
                assert!((found - expected).abs() <= 1e-4, "{found} instead of {expected} at size {size:?}");
            }
        }
    }
}
