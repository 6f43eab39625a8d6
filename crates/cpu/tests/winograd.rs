//! Winograd's method on images whose size is known when they come, of numbers and of bytes.
mod support;

use sconce_cpu::{Model, Options};
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, bytes, floats, graph, numbers, run_sizes, to_bytes};

const CHANNELS: usize = 32;

const LAYER: &str = "%0: float32[1, h <= 40, w <= 40, 32] = input
%1: float32[32, 3, 3, 32] = constant \"filter\"
%2: float32[32] = constant \"bias\"
%3: float32[1, h <= 40, w <= 40, 32] = conv2d %0, %1, %2 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then clamp {low: -2, high: inf}
output %3
";

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
    let numbers = numbers(0, 40 * 40 * CHANNELS);
    // The first of the numbers, for both constants.
    let weights = Weights::all(to_bytes(&numbers));
    let model = Model::new(graph(LAYER), Options::default(), &weights).unwrap();
    let threads = Pool::new(2);
    let pool = threads.lease();
    for size in [[9, 14], [40, 40], [1, 1], [3, 40], [40, 2], [6, 6], [9, 14]] {
        let [height, width] = size;
        let input = &numbers[numbers.len() - height * width * CHANNELS..];
        let expected = naive(size, input, &numbers);
        for par in [&Serial as &dyn Parallel, &pool] {
            let (sizes, input) = ([1, height, width, CHANNELS], to_bytes(input));
            let (results, steps) = run_sizes(&model, &weights, par, &[&sizes], &[&input]).unwrap();
            assert!(steps.iter().all(|step| step.starts_with("Winograd")), "{steps:?}");
            for (found, expected) in floats(&results[0]).into_iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-4, "{found} instead of {expected} at size {size:?}");
            }
        }
    }
}

const BYTES: &str = "%0: q8{scale: 0.5, zero: -3}[1, h <= 40, w <= 40, 32] = input
%1: q8{scale: 0.25, zero: 0}[32, 3, 3, 32] = constant \"filter\"
%2: q32{scale: 0.125, zero: 0}[32] = constant \"filter\"
%3: q8{scale: 256, zero: 4}[1, h <= 40, w <= 40, 32] = conv2d %0, %1, %2 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then clamp {low: -25600, high: inf}
output %3
";

/// The layer of bytes in whole numbers: the factor is a power of two, so halves are met and go to the even side.
fn naive_bytes([height, width]: [usize; 2], input: &[u8], weights: &[u8]) -> Vec<u8> {
    let byte = |byte: u8| i32::from(byte.cast_signed());
    let mut output = Vec::with_capacity(input.len());
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for channel in 0..CHANNELS {
            let mut sum = i32::from_le_bytes(weights[4 * channel..][..4].try_into().unwrap());
            for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let (Some(row), Some(column)) = ((y + i).checked_sub(1), (x + j).checked_sub(1)) else { continue };
                if row < height && column < width {
                    let pixel = &input[(row * width + column) * CHANNELS..][..CHANNELS];
                    let filter = &weights[((channel * 3 + i) * 3 + j) * CHANNELS..][..CHANNELS];
                    let products = pixel.iter().zip(filter).map(|(a, b)| (byte(*a) + 3) * byte(*b));
                    sum = sum.wrapping_add(products.sum());
                }
            }
            let steps = (f64::from(sum as f32) / 2048.0).round_ties_even() + 4.0;
            output.push((steps.clamp(-96.0, 127.0) as i8).cast_unsigned());
        }
    }
    output
}

#[test]
fn every_size_of_bytes_gives_the_sums_of_products() {
    // Small enough for the biases, which are four of them together.
    let all = bytes(0, 40 * 40 * CHANNELS);
    let small = all.iter().enumerate().map(|(i, byte)| if i < 128 && i % 4 > 1 { 0 } else { *byte });
    let weights = Weights::all(small.collect());
    let model = Model::new(graph(BYTES), Options::default(), &weights).unwrap();
    let exact = Options { exact: true, ..Options::default() };
    let direct = Model::new(graph(BYTES), exact, &weights).unwrap();
    let threads = Pool::new(2);
    let pool = threads.lease();
    for size in [[9, 14], [40, 40], [1, 1], [3, 40], [40, 2], [6, 6], [9, 14]] {
        let [height, width] = size;
        let input = &all[all.len() - height * width * CHANNELS..];
        let expected = naive_bytes(size, input, weights.named("filter"));
        for par in [&Serial as &dyn Parallel, &pool] {
            for (model, how) in [(&model, "bytes: Winograd"), (&direct, "bytes: packed")] {
                let sizes = [1, height, width, CHANNELS];
                let (results, steps) = run_sizes(model, &weights, par, &[&sizes], &[input]).unwrap();
                assert_eq!(results[0], expected, "{size:?}, {how}");
                let how = if cfg!(target_arch = "x86_64") { how } else { "bytes" };
                assert!(steps.iter().all(|step| step.starts_with(how)), "{steps:?}");
            }
        }
    }
}
