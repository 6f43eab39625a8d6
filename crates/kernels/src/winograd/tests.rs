//! Winograd's method against a naive twin, at the edges of tiles, vectors and images.

use super::*;
use crate::epilogue::Function;
use crate::testing::{Random, gather, pool, spread};

fn naive(conv: &Conv2d, input: &[f32], filter: &[f32], bias: &[f32]) -> Vec<f32> {
    let [height, width] = conv.output().unwrap();
    let mut output = Vec::new();
    for i in 0..conv.batch * height * width * conv.out_channels {
        let (pixel, channel) = (i / conv.out_channels, i % conv.out_channels);
        let (image, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
        let mut sum = f64::from(bias[channel]);
        for tap in 0..9 {
            let line = (y + tap / 3).checked_sub(conv.padding[0]).filter(|y| *y < conv.input[0]);
            let column = (x + tap % 3).checked_sub(conv.padding[1]).filter(|x| *x < conv.input[1]);
            let (Some(line), Some(column)) = (line, column) else { continue };
            let at = (image * conv.input[0] + line) * conv.input[1] + column;
            let values = &input[at * conv.in_channels..][..conv.in_channels];
            let weights = &filter[(channel * 9 + tap) * conv.in_channels..][..conv.in_channels];
            sum += values.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        }
        output.push(sum as f32);
    }
    output
}

/// Panics where values differ by more than `tolerance` times the largest of what is expected (or 1).
#[track_caller]
fn assert_near(actual: &[f32], expected: &[f32], tolerance: f32, what: &dyn core::fmt::Debug) {
    let bound = expected.iter().fold(1.0f32, |most, x| most.max(x.abs())) * tolerance;
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= bound, "element {i}: {a} instead of {e}, more than {bound}, in {what:?}");
    }
}

/// A convolution of `[height, width]` images from `channels.0` to `channels.1`.
fn layer(input: [usize; 2], channels: (usize, usize), padding: [usize; 4]) -> Conv2d {
    Conv2d { input, kernel: [3, 3], padding, ..Conv2d::linear(1, channels.0, channels.1) }
}

fn check(conv: &Conv2d) {
    if !applies(conv) {
        return;
    }
    let pool = pool();
    let mut random = Random::new(7);
    let input = random.floats(conv.batch * conv.input[0] * conv.input[1] * conv.in_channels);
    let filter = random.floats(conv.out_channels * 9 * conv.in_channels);
    let bias = random.floats(conv.out_channels);
    let plain = naive(conv, &input, &filter, &bias);
    let unbiased = naive(conv, &input, &filter, &vec![0.0; bias.len()]);
    let residual = random.floats(plain.len());
    let finished: Vec<f32> = plain.iter().zip(&residual).map(|(a, b)| (a + b).clamp(-0.5, 0.9) * b).collect();
    let scaled: Vec<f32> = plain.iter().map(|x| x.clamp(-2.0, 2.0) * 3.0 + 1.0).collect();
    let steps = [Then::Add(&residual), Then::Apply(Function::Clamp(-0.5, 0.9)), Then::Multiply(&residual)];
    let affine = [Then::Apply(Function::Clamp(-2.0, 2.0)), Then::Apply(Function::Affine(3.0, 1.0))];
    // Limits make the largest output small, so those are held against what they limit.
    let scale = plain.iter().fold(1.0f32, |most, x| most.max(x.abs()));
    for isa in Isa::available() {
        for (output, tolerance) in [(Output::Two, 1e-5), (Output::Four, 5e-5)] {
            let mut packed = vec![f32::NAN; packed_len(isa, conv, output)];
            pack(isa, &pool, conv, output, &filter, &mut packed);
            // Images by themselves, and as parts of wider ones.
            for (before, after) in [(0, 0), (3, 0), (0, 5)] {
                let [from, to] = [conv.in_channels + before, conv.out_channels + after];
                let input = spread(&input, conv.in_channels, from, 1e30);
                let run = |par: &dyn Parallel, bias: Option<&[f32]>, then: &[Then<'_>]| {
                    let mut scratch = vec![f32::NAN; scratch_len(isa, conv, output, par.width())];
                    let mut out = spread(&vec![f32::NAN; plain.len()], conv.out_channels, to, 7.0);
                    let images = ((&input[..], from), (&mut out[..], to));
                    winograd(isa, par, conv, output, images.0, &packed, bias, then, &mut scratch, images.1);
                    gather(&out, conv.out_channels, to, 7.0)
                };
                let what = (isa, output, conv, from, to);
                assert_near(&run(&Serial, None, &[]), &unbiased, tolerance, &what);
                assert_near(&run(&pool, Some(&bias), &[]), &plain, tolerance, &what);
                assert_near(&run(&pool, Some(&bias), &steps), &finished, tolerance * scale, &what);
                assert_near(&run(&Serial, Some(&bias), &affine), &scaled, 3.0 * tolerance * scale, &what);
            }
        }
    }
}

#[test]
fn images_of_all_sizes() {
    for size in 1..=15 {
        for padding in [[0; 4], [1; 4], [0, 1, 1, 0], [2, 0, 1, 3]] {
            check(&Conv2d { batch: 2, ..layer([size, 16 - size], (3, 17), padding) });
            check(&layer([size, size], (5, 4), padding));
        }
    }
}

#[test]
fn channels_at_the_edges_of_vectors() {
    for inputs in [1, 3, 16, 17, 33, 64] {
        for outputs in [1, 3, 16, 17, 33, 64] {
            check(&layer([6, 9], (inputs, outputs), [1; 4]));
        }
    }
}

#[test]
fn many_blocks_and_many_panels() {
    check(&Conv2d { batch: 2, ..layer([37, 30], (16, 20), [1; 4]) });
    check(&layer([7, 7], (40, 200), [1; 4]));
    check(&Conv2d { batch: 3, ..layer([5, 6], (130, 70), [1, 0, 0, 1]) });
}

#[test]
fn long_sums_stay_exact() {
    check(&layer([10, 11], (512, 20), [1; 4]));
}

#[test]
fn padding_wider_than_a_patch() {
    check(&layer([3, 2], (4, 5), [7, 9, 8, 6]));
}

#[test]
fn what_it_does_not_apply_to() {
    let plain = layer([8, 8], (4, 4), [1; 4]);
    assert!(applies(&plain));
    for other in [
        Conv2d { stride: [2, 1], ..plain },
        Conv2d { dilation: [1, 2], ..plain },
        Conv2d { groups: 2, ..plain },
        Conv2d { kernel: [3, 1], ..plain },
        Conv2d { transposed: true, ..plain },
        Conv2d { input: [1, 0], padding: [0; 4], ..plain },
    ] {
        assert!(!applies(&other), "{other:?}");
    }
}
