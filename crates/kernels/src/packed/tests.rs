//! Packed convolution against a naive twin, at the edges of tiles.

use super::*;
use crate::epilogue::Function;
use crate::testing::{Random, assert_close, gather, pool, spread};

fn naive(conv: &Conv2d, input: &[f32], filter: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let [h, w] = conv.output().unwrap();
    let (group_in, group_out) = (conv.group_in(), conv.group_out());
    let mut output = Vec::new();
    for (n, y, x, oc) in places(conv.batch, h, w, conv.out_channels) {
        let mut sum = bias.map_or(0.0, |bias| bias[oc]);
        for ky in 0..conv.kernel[0] {
            for kx in 0..conv.kernel[1] {
                let at = (conv.axis(0).source(y, ky), conv.axis(1).source(x, kx));
                let (Some(iy), Some(ix)) = at else { continue };
                for c in 0..group_in {
                    let pixel = (n * conv.input[0] + iy) * conv.input[1] + ix;
                    let value = input[pixel * conv.in_channels + oc / group_out * group_in + c];
                    sum += value * filter[((oc * conv.kernel[0] + ky) * conv.kernel[1] + kx) * group_in + c];
                }
            }
        }
        output.push(sum);
    }
    output
}

fn places(a: usize, b: usize, c: usize, d: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a * b * c * d).map(move |i| (i / (b * c * d), i / (c * d) % b, i / d % c, i % d))
}

fn check(conv: &Conv2d) {
    let pool = pool();
    let pixels = conv.batch * conv.input[0] * conv.input[1];
    let mut random = Random::new(1);
    let input = random.floats(pixels * conv.in_channels);
    let filter = random.floats(conv.out_channels * conv.taps() * conv.group_in());
    let bias = random.floats(conv.out_channels);
    let plain = naive(conv, &input, &filter, Some(&bias));
    let residual = random.floats(plain.len());
    let expected: Vec<f32> = plain.iter().zip(&residual).map(|(a, b)| (a + b).clamp(-0.5, 0.9) * b).collect();
    for isa in Isa::available() {
        let mut packed = vec![f32::NAN; packed_len(isa, conv)];
        pack(isa, &Serial, conv, Filter::Rows(&filter), Some(&bias), &mut packed);
        let k = filter.len() / conv.out_channels;
        let columns: Vec<f32> =
            (0..filter.len()).map(|i| filter[i % conv.out_channels * k + i / conv.out_channels]).collect();
        let mut again = vec![f32::NAN; packed.len()];
        pack(isa, &pool, conv, Filter::Columns(&columns), Some(&bias), &mut again);
        assert_eq!(packed, again);
        let then = [Then::Add(&residual), Then::Apply(Function::Clamp(-0.5, 0.9)), Then::Multiply(&residual)];
        // Images by themselves, and as parts of wider ones.
        for (before, after) in [(0, 0), (0, 3), (5, 0), (1, 20)] {
            let [from, to] = [conv.in_channels + before, conv.out_channels + after];
            let input = spread(&input, conv.in_channels, from, 1e30);
            let run = |par: &dyn Parallel, then: &[Then<'_>]| {
                let mut output = spread(&vec![f32::NAN; plain.len()], conv.out_channels, to, 7.0);
                conv2d(isa, par, conv, (&input, from), &packed, then, (&mut output, to));
                gather(&output, conv.out_channels, to, 7.0)
            };
            assert_close(&run(&Serial, &[]), &plain, 1e-4, &(isa, conv, from, to));
            assert_close(&run(&pool, &then), &expected, 1e-4, &(isa, conv, from, to));
        }
    }
}

#[test]
fn linear_at_the_edges_of_tiles() {
    for rows in [1, 2, 5, 6, 7, 8, 13, 29] {
        for n in [1, 7, 15, 16, 17, 31, 33, 63, 64, 65, 130] {
            for k in [1, 3, 16] {
                check(&Conv2d::linear(rows, k, n));
            }
        }
    }
}

#[test]
fn windows_of_all_kinds() {
    let plain = Conv2d { batch: 2, input: [9, 7], kernel: [3, 3], padding: [1; 4], ..Conv2d::linear(1, 5, 18) };
    for conv in [
        plain,
        Conv2d { stride: [2, 2], ..plain },
        Conv2d { stride: [1, 3], padding: [0, 2, 1, 0], kernel: [2, 5], ..plain },
        Conv2d { dilation: [2, 1], padding: [2; 4], ..plain },
        Conv2d { in_channels: 6, groups: 3, ..plain },
        Conv2d { in_channels: 4, out_channels: 4, groups: 4, ..plain },
        Conv2d { kernel: [1, 1], padding: [0; 4], stride: [2, 2], ..plain },
        Conv2d { transposed: true, stride: [2, 3], extra: [1, 0], ..plain },
        Conv2d { transposed: true, in_channels: 6, groups: 2, dilation: [1, 2], ..plain },
        // Nothing but a border.
        Conv2d { input: [0, 7], kernel: [1, 1], ..plain },
        Conv2d { input: [0, 7], kernel: [2, 1], in_channels: 6, groups: 3, ..plain },
    ] {
        check(&conv);
    }
}

/// More taps than addresses are kept at a time: in rows, in one row, in the image, in a copy, beside it.
#[test]
fn filters_of_many_taps() {
    let plain = Conv2d { input: [18, 19], kernel: [17, 17], padding: [8; 4], ..Conv2d::linear(1, 2, 3) };
    for conv in [
        plain,
        Conv2d { input: [64, 64], kernel: [32, 32], stride: [32, 32], padding: [0; 4], in_channels: 3, ..plain },
        Conv2d { input: [1, 300], kernel: [1, 257], padding: [0, 128, 0, 128], ..plain },
        Conv2d { input: [300, 1], kernel: [257, 1], padding: [128, 0, 128, 0], in_channels: 1, ..plain },
        Conv2d { input: [2, 600], kernel: [2, 513], padding: [0, 1, 1, 0], groups: 2, out_channels: 4, ..plain },
        Conv2d { groups: 2, out_channels: 4, stride: [3, 2], ..plain },
        Conv2d { input: [5, 6], transposed: true, stride: [2, 3], extra: [1, 0], ..plain },
        Conv2d { input: [5, 6], transposed: true, groups: 2, out_channels: 4, ..plain },
        Conv2d { dilation: [1, 2], padding: [8, 16, 8, 16], ..plain },
    ] {
        check(&conv);
    }
}

#[test]
fn large_products_split_between_threads() {
    check(&Conv2d::linear(61, 40, 200));
    check(&Conv2d::linear(2, 300, 700));
}

/// Every last panel that a layer can have, whole or ended by half a vector, below tiles of every height.
#[test]
fn panels_of_every_width() {
    for n in 1..=100 {
        check(&Conv2d::linear(n % 31 + 1, 5, n));
    }
    let wide = |isa: Isa| matches!(isa.name(), "avx512" | "vnni");
    for isa in Isa::available().filter(|&isa| wide(isa)) {
        let width = |n: usize| Family::of(isa, n).width(n);
        assert_eq!([1, 8, 9, 24, 40, 41, 1000].map(width), [8, 8, 16, 24, 40, 48, 1000]);
    }
}

#[test]
fn gated_weights_are_a_gated_image() {
    for (k, n) in [(1, 1), (5, 24), (16, 40), (33, 100), (300, 210)] {
        let conv = Conv2d { input: [3, 5], ..Conv2d::linear(1, k, n) };
        let mut random = Random::new(6);
        let (image, filter, bias) = (random.floats(15 * k), random.floats(n * k), random.floats(n));
        let factors = random.floats(k);
        let product: Vec<f32> = image.iter().zip(factors.iter().cycle()).map(|(x, factor)| x * factor).collect();
        let expected = naive(&conv, &product, &filter, Some(&bias));
        for isa in Isa::available() {
            let mut packed = vec![f32::NAN; packed_len(isa, &conv)];
            pack(isa, &Serial, &conv, Filter::Rows(&filter), Some(&bias), &mut packed);
            let mut gated = vec![f32::NAN; packed.len()];
            gate(isa, &pool(), &conv, &packed, &factors, &mut gated);
            let mut output = vec![f32::NAN; expected.len()];
            conv2d(isa, &Serial, &conv, (&image, k), &gated, &[], (&mut output, n));
            assert_close(&output, &expected, 1e-4, &(isa, conv));
        }
    }
}

#[test]
fn packed_floats_lie_in_panels() {
    let grouped = Conv2d { kernel: [2, 3], groups: 3, ..Conv2d::linear(1, 15, 21) };
    let linear = [(1, 1), (5, 17), (16, 48), (33, 100), (40, 130)].map(|(k, n)| Conv2d::linear(1, k, n));
    for conv in linear.into_iter().chain([grouped]) {
        let mut random = Random::new(4);
        let (n, k) = (conv.group_out(), conv.taps() * conv.group_in());
        let (filter, bias) = (random.floats(conv.out_channels * k), random.floats(conv.out_channels));
        for (isa, bias) in Isa::available().flat_map(|isa| [(isa, None), (isa, Some(&bias[..]))]) {
            let family = Family::of(isa, n);
            let nr = family.nr();
            let mut packed = vec![f32::NAN; packed_len(isa, &conv)];
            pack(isa, &pool(), &conv, Filter::Rows(&filter), bias, &mut packed);
            let mut expected = Vec::new();
            for (group, first) in (0..conv.groups).flat_map(|group| (0..n).step_by(nr).map(move |n| (group, n))) {
                let width = family.width((n - first).min(nr));
                for (row, column) in (0..k + 1).flat_map(|row| (first..first + width).map(move |n| (row, n))) {
                    let channel = group * n + column;
                    expected.push(match (column < n, row) {
                        (false, _) => 0.0,
                        (true, 0) => bias.map_or(0.0, |bias| bias[channel]),
                        (true, row) => filter[channel * k + row - 1],
                    });
                }
            }
            expected.resize(packed.len(), 0.0);
            assert_eq!(packed, expected, "{isa:?} {conv:?}");
        }
    }
}

/// Tiles of 12 pixels by 64 channels, on two threads.
#[test]
fn few_pixels_and_many_channels_part_the_weights() {
    let parts = |m: usize, n: usize, long: usize| {
        let (pixels, channels) = cuts((12, 64), (m, n), 2, long);
        (pixels.parts, channels.parts)
    };
    assert_eq!([0, 4, 7, 8, 99].map(|long| parts(14 * 14, 576, long)), [(2, 1), (4, 1), (6, 1), (8, 1), (8, 1)]);
    assert_eq!([1, 100].map(|long| parts(7 * 7, 960, long)), [(1, 2), (1, 4)]);
    assert_eq!([1, 100].map(|long| parts(7 * 7, 160, long)), [(2, 1), (4, 1)]);
    assert_eq!(parts(1, 1000, 100), (1, 4));
    assert_eq!(parts(1, 100, 100), (1, 2));
    assert_eq!(cuts((12, 64), (49, 960), 1, 100), (Cut { parts: 1, unit: 12 }, Cut { parts: 1, unit: 64 }));
}
