//! Byte convolutions against naive twins, at the edges of tiles.

use super::*;
use crate::testing::{Random, pool};

fn bytes(random: &mut Random, n: usize) -> Vec<i8> {
    (0..n).map(|_| random.below(256) as u8 as i8).collect()
}

/// The integer sums of a convolution of `input - zero(image)`, without bias.
fn sums(conv: &Conv2d, input: &[i8], filter: &[i8], zero: impl Fn(usize) -> i8) -> Vec<i32> {
    let [height, width] = conv.output().unwrap();
    let (group_in, group_out) = (conv.group_in(), conv.group_out());
    let mut sums = Vec::new();
    for (pixel, channel) in (0..conv.batch * height * width).flat_map(|p| (0..conv.out_channels).map(move |c| (p, c))) {
        let (image, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
        let mut sum = 0;
        for (ky, kx) in (0..conv.kernel[0]).flat_map(|ky| (0..conv.kernel[1]).map(move |kx| (ky, kx))) {
            let (Some(y), Some(x)) = (conv.axis(0).source(y, ky), conv.axis(1).source(x, kx)) else { continue };
            let from = ((image * conv.input[0] + y) * conv.input[1] + x) * conv.in_channels;
            let weights = ((channel * conv.kernel[0] + ky) * conv.kernel[1] + kx) * group_in;
            for c in 0..group_in {
                let value = i32::from(input[from + channel / group_out * group_in + c]) - i32::from(zero(image));
                sum += value * i32::from(filter[weights + c]);
            }
        }
        sums.push(sum);
    }
    sums
}

fn check(conv: &Conv2d) {
    let mut random = Random::new(1);
    let input = bytes(&mut random, conv.batch * conv.input[0] * conv.input[1] * conv.in_channels);
    let filter = bytes(&mut random, conv.out_channels * conv.taps() * conv.group_in());
    let bias: Vec<i32> = (0..conv.out_channels).map(|_| random.below(20_000) as i32 - 10_000).collect();
    let k = (conv.taps() * conv.group_in()) as f32;
    // Most results fall between the limits, some beyond; a power of two brings ties.
    let scale: Vec<f32> = (0..conv.out_channels)
        .map(|c| if c % 3 == 0 { 1.0 / 1024.0 } else { (1.0 + random.below(100) as f32 / 77.0) / (150.0 * k.sqrt()) })
        .collect();
    for (input_zero, output_zero, limits) in [(0, 0, (-128, 127)), (-128, 5, (5, 127)), (127, -100, (-128, 90))] {
        let quantization = Quantization { input_zero, output_zero, limits };
        let sums = sums(conv, &input, &filter, |_| input_zero);
        let expected: Vec<i8> = (sums.iter().enumerate())
            .map(|(i, sum)| {
                let c = i % conv.out_channels;
                let rounded = ((sum + bias[c]) as f32 * scale[c]).round_ties_even() + f32::from(output_zero);
                rounded.clamp(f32::from(limits.0), f32::from(limits.1)) as i8
            })
            .collect();
        for isa in Isa::available() {
            let mut packed = vec![Line::default(); packed_len(isa, conv)];
            pack(isa, &pool(), conv, |i| filter[i], Some(&bias), input_zero, &mut packed);
            let mut scratch = vec![0; scratch_len(isa, conv, 3)];
            for par in [&Serial as &dyn Parallel, &pool()] {
                let mut output = vec![77; sums.len()];
                conv2d(isa, par, conv, &quantization, &input, (&packed, &scale), &mut output, &mut scratch);
                assert_eq!(output, expected, "{isa:?} {conv:?} {quantization:?}");
            }
        }
    }
}

#[test]
fn linear_at_the_edges_of_tiles() {
    for rows in [1, 2, 5, 6, 7, 8, 13, 23, 24, 25, 61] {
        for n in [1, 15, 16, 17, 24, 33, 48, 63, 64, 65, 144, 160] {
            for k in [1, 3, 4, 16, 66] {
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
        Conv2d { in_channels: 3, kernel: [7, 7], stride: [2, 2], padding: [3; 4], ..plain },
        Conv2d { in_channels: 3, kernel: [2, 9], padding: [0, 8, 1, 8], ..plain },
        Conv2d { stride: [1, 3], padding: [0, 2, 1, 0], kernel: [2, 5], ..plain },
        Conv2d { dilation: [2, 1], padding: [2; 4], ..plain },
        Conv2d { dilation: [1, 2], padding: [2; 4], ..plain },
        Conv2d { in_channels: 6, groups: 3, ..plain },
        Conv2d { in_channels: 4, out_channels: 4, groups: 4, ..plain },
        Conv2d { kernel: [1, 1], padding: [0; 4], stride: [2, 2], ..plain },
        Conv2d { kernel: [1, 1], padding: [0; 4], in_channels: 66, groups: 3, ..plain },
        Conv2d { kernel: [1, 1], padding: [1; 4], ..plain },
        Conv2d { transposed: true, stride: [2, 3], extra: [1, 0], ..plain },
        Conv2d { transposed: true, in_channels: 6, groups: 2, dilation: [1, 2], ..plain },
    ] {
        check(&conv);
    }
}

#[test]
fn large_products_split_between_threads() {
    check(&Conv2d::linear(100, 80, 200));
    check(&Conv2d::linear(2, 1200, 700));
}
