//! Byte convolutions against naive twins, at the edges of tiles.

use super::*;
use crate::bytes::tests::with_tails;
use crate::epilogue::{Function, Then};
use crate::testing::{Random, assert_close, gather, pool, spread};

pub(crate) fn bytes(random: &mut Random, n: usize) -> Vec<i8> {
    (0..n).map(|_| random.below(256) as u8 as i8).collect()
}

/// The integer sums of a convolution of `input - zero(image)`, without bias.
pub(crate) fn sums(conv: &Conv2d, input: &[i8], filter: &[i8], zero: impl Fn(usize) -> i8) -> Vec<i32> {
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

/// The bytes that sums stand for, with a bias and a scale per channel.
pub(crate) fn narrowed(sums: &[i32], bias: &[i32], scale: &[f32], quantization: &Quantization) -> Vec<i8> {
    let (low, high) = quantization.limits;
    let byte = |(i, sum): (usize, &i32)| {
        let c = i % scale.len();
        let rounded = ((sum + bias[c]) as f32 * scale[c]).round_ties_even() + f32::from(quantization.output_zero);
        rounded.clamp(f32::from(low), f32::from(high)) as i8
    };
    sums.iter().enumerate().map(byte).collect()
}

/// Zeros of input and output, limits, and a scale for some channels, such that results fall between the limits and beyond, with
/// a large scale even beyond integers.
pub(crate) const CASES: [(i8, i8, (i8, i8), f32); 4] =
    [(0, 0, (-128, 127), 1e7), (-128, 5, (5, 127), 0.97), (127, -100, (-128, 90), 0.01), (3, 9, (-50, 50), 1.0)];

/// A scale for each channel of a convolution: a power of two brings ties.
pub(crate) fn scales(random: &mut Random, conv: &Conv2d, large: f32) -> Vec<f32> {
    let k = (conv.taps() * conv.group_in()) as f32;
    let usual = |random: &mut Random| (1.0 + random.below(100) as f32 / 77.0) / (150.0 * k.max(1.0).sqrt());
    (0..conv.out_channels).map(|c| [1.0 / 1024.0, 1.0 / 1024.0, large, usual(random), usual(random)][c % 5]).collect()
}

fn check(pool: &dyn Parallel, conv: &Conv2d) {
    let mut random = Random::new(1);
    let input = bytes(&mut random, conv.batch * conv.input[0] * conv.input[1] * conv.in_channels);
    let filter = bytes(&mut random, conv.out_channels * conv.taps() * conv.group_in());
    let bias: Vec<i32> = (0..conv.out_channels).map(|_| random.below(20_000) as i32 - 10_000).collect();
    for (input_zero, output_zero, limits, large) in CASES {
        let scale = scales(&mut random, conv, large);
        let quantization = Quantization { input_zero, output_zero, limits, unsigned: Unsigned::default() };
        let sums = sums(conv, &input, &filter, |_| input_zero);
        let expected = narrowed(&sums, &bias, &scale, &quantization);
        let others = bytes(&mut random, expected.len());
        for isa in Isa::available() {
            let mut packed = vec![Line::default(); packed_len(isa, conv, Kind::Bytes)];
            pack(isa, pool, conv, Filter::Rows(&filter), Some(&bias), input_zero, &mut packed);
            let mut scratch = vec![0; scratch_len(isa, conv, Kind::Bytes, 3)];
            for (par, gap) in [(&Serial as &dyn Parallel, 0), (pool, 0), (&Serial, 5), (pool, 16)] {
                let pixel = conv.out_channels + gap;
                for (tail, expected) in with_tails(&expected, &others) {
                    let how = (&quantization, tail);
                    let mut output = spread(&vec![77; sums.len()], conv.out_channels, pixel, 55);
                    conv2d(isa, par, conv, how, &input, (&packed, &scale), (&mut output, pixel), &mut scratch);
                    let output = gather(&output, conv.out_channels, pixel, 55);
                    assert_eq!(output, expected, "{isa:?} {conv:?} {quantization:?} {tail:?} {gap}");
                }
            }
        }
    }
}

/// Bytes without a sign give what the same bytes with one give.
#[test]
fn bytes_without_a_sign_are_read_in_place() {
    let (pool, random) = (pool(), &mut Random::new(7));
    for (rows, k, n) in [(1, 4, 16), (5, 8, 24), (25, 96, 24), (49, 160, 70), (100, 12, 130)] {
        let conv = Conv2d::linear(rows, k, n);
        let (input, filter) = (bytes(random, rows * k), bytes(random, n * k));
        let plain: Vec<i8> = input.iter().map(|byte| byte ^ i8::MIN).collect();
        let scale = vec![0.002; n];
        let signed =
            Quantization { input_zero: 5, output_zero: -3, limits: (-128, 127), unsigned: Unsigned::default() };
        let unsigned = Quantization { unsigned: Unsigned { input: true, output: false }, ..signed };
        for isa in Isa::available().filter(|&isa| reads_unsigned(isa, &conv)) {
            let mut packed = vec![Line::default(); packed_len(isa, &conv, Kind::Bytes)];
            pack(isa, &pool, &conv, Filter::Rows(&filter), None, 5, &mut packed);
            let mut scratch = vec![0; scratch_len(isa, &conv, Kind::Bytes, 3)];
            for par in [&Serial as &dyn Parallel, &pool] {
                let [mut expected, mut output] = [vec![1; rows * n], vec![2; rows * n]];
                let weights = (&packed[..], &scale[..]);
                conv2d(isa, par, &conv, (&signed, Tail::Nothing), &input, weights, (&mut expected, n), &mut scratch);
                conv2d(isa, par, &conv, (&unsigned, Tail::Nothing), &plain, weights, (&mut output, n), &mut scratch);
                assert_eq!(output, expected, "{isa:?} {conv:?}");
            }
        }
        // Odd channels, windows and groups need a copy; so does every set that multiplies signs.
        assert!(!reads_unsigned(Isa::Scalar, &conv));
        let others = [Conv2d::linear(rows, k + 1, n), Conv2d { kernel: [3, 3], ..conv }, Conv2d { groups: 2, ..conv }];
        assert!(Isa::available().all(|isa| others.iter().all(|conv| !reads_unsigned(isa, conv))));
    }
}

#[test]
fn linear_at_the_edges_of_tiles() {
    let pool = pool();
    for rows in [1, 2, 5, 6, 7, 8, 13, 23, 24, 25, 61] {
        for n in [1, 15, 16, 17, 24, 33, 48, 63, 64, 65, 144, 160] {
            for k in [0, 1, 3, 4, 16, 66] {
                check(&pool, &Conv2d::linear(rows, k, n));
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
        Conv2d { in_channels: 64, ..plain },
        Conv2d { in_channels: 64, input: [5, 3], ..plain },
        Conv2d { in_channels: 3, input: [4, 2], ..plain },
        Conv2d { in_channels: 0, ..plain },
        Conv2d { in_channels: 8, input: [3, 75], stride: [1, 2], out_channels: 70, ..plain },
        Conv2d { in_channels: 3, input: [2, 40], kernel: [5, 3], padding: [2, 1, 2, 1], ..plain },
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
        // More than 256 taps.
        Conv2d { input: [17, 20], kernel: [17, 17], padding: [8; 4], out_channels: 5, ..plain },
        Conv2d { input: [1, 270], kernel: [1, 257], padding: [0, 9, 0, 9], groups: 2, in_channels: 4, ..plain },
        // Nothing but a border.
        Conv2d { input: [0, 7], kernel: [1, 1], ..plain },
        Conv2d { input: [0, 7], kernel: [2, 1], in_channels: 6, groups: 3, ..plain },
    ] {
        check(&pool(), &conv);
    }
}

/// Lines of the image around the length of a strip: the longest, those that more channels make shorter, and the shortest.
#[test]
fn lines_longer_than_a_strip() {
    let pool = pool();
    let plain = Conv2d { input: [2, 1], kernel: [3, 3], padding: [1; 4], ..Conv2d::linear(1, 3, 18) };
    for (in_channels, length) in [(3, STRIP), (3, STRIP + 1), (3, 2 * STRIP + 6), (64, 65), (130, 33)] {
        check(&pool, &Conv2d { in_channels, input: [2, length], ..plain });
    }
    check(&pool, &Conv2d { input: [2, 2 * STRIP + 3], stride: [2, 2], ..plain });
}

#[test]
fn large_products_split_between_threads() {
    let pool = pool();
    check(&pool, &Conv2d::linear(100, 80, 200));
    check(&pool, &Conv2d::linear(2, 1200, 700));
}

/// What a row becomes, in the words of the format: two candidates for zero, the better one rounded.
fn quantized(row: &[f32]) -> (Vec<i8>, Affine) {
    let least = row.iter().copied().fold(0.0, f32::min);
    let largest = row.iter().copied().fold(0.0, f32::max);
    let inverse = if least == largest { 1.0 } else { 255.0 / (largest - least) };
    let from_least = -128.0 - least * inverse;
    let from_largest = 127.0 - largest * inverse;
    let first = (-128.0 + least * inverse) + (127.0 + largest * inverse) > 0.0;
    let zero = (if first { from_least } else { from_largest }).clamp(-128.0, 127.0).round_ties_even();
    let bytes = row.iter().map(|x| ((x * inverse).round_ties_even() + zero).clamp(-128.0, 127.0) as i8);
    (bytes.collect(), Affine { scale: 1.0 / inverse, zero: zero as i32 })
}

#[test]
fn rows_are_quantized_by_their_range() {
    let mut random = Random::new(3);
    for row in [1, 5, 31, 32, 33, 64, 100, 40_000] {
        let mut input = random.floats(row * 5);
        let scales = [1.0, 0.0, 1e-3, 300.0, 7.0];
        input.chunks_mut(row).zip(scales).for_each(|(row, scale)| row.iter_mut().for_each(|x| *x *= scale));
        input[3 * row..].iter_mut().for_each(|x| *x = x.abs() + 0.5);
        input[4 * row..].iter_mut().for_each(|x| *x = -*x);
        for isa in Isa::available() {
            let (mut bytes, mut affine) = (vec![99; input.len()], [Affine::default(); 5]);
            quantize_rows(isa, &pool(), &input, row, &mut bytes, &mut affine);
            for ((input, bytes), affine) in input.chunks(row).zip(bytes.chunks(row)).zip(affine) {
                assert_eq!((bytes.to_vec(), affine), quantized(input), "{isa:?} {row}");
            }
        }
    }
}

/// Dynamic convolution with `affine` pixels' quantisation against sums of what bytes stand for.
fn check_dynamic(pool: &dyn Parallel, conv: &Conv2d, kind: Kind, affine: usize) {
    let mut random = Random::new(5);
    let k = conv.taps() * conv.group_in();
    let input = bytes(&mut random, conv.batch * conv.input[0] * conv.input[1] * conv.in_channels);
    let mut filter = bytes(&mut random, conv.out_channels * k);
    let mut group = k;
    if kind != Kind::Bytes {
        filter.iter_mut().for_each(|w| *w >>= 4);
    }
    if let Kind::Groups(size) = kind {
        group = size;
    }
    let bias = random.floats(conv.out_channels);
    let small = |random: &mut Random| (1 + random.below(127)) as f32 / 8192.0;
    let scale: Vec<f32> = (0..conv.out_channels * k / group).map(|_| small(&mut random)).collect();
    let affine: Vec<Affine> = (0..affine)
        .map(|_| Affine { scale: small(&mut random), zero: (random.below(256) as u8 as i8).into() })
        .collect();
    let [height, width] = conv.output().unwrap();
    let pixels = conv.batch * height * width;
    // In double precision, one group of weights after the other, the others being zero.
    let mut plain = vec![0f64; pixels * conv.out_channels];
    for part in 0..k / group {
        let masked: Vec<i8> =
            filter.iter().enumerate().map(|(i, w)| if i % k / group == part { *w } else { 0 }).collect();
        let bytes = sums(conv, &input, &masked, |_| 0);
        let ones = sums(conv, &vec![1; input.len()], &masked, |_| 0);
        for (i, to) in plain.iter_mut().enumerate() {
            let (pixel, c) = (i / conv.out_channels, i % conv.out_channels);
            let Affine { scale: step, zero } = affine[pixel * affine.len() / pixels];
            let sum = f64::from(bytes[i]) - f64::from(zero) * f64::from(ones[i]);
            *to += sum * f64::from(step) * f64::from(scale[c * (k / group) + part]);
        }
    }
    let plain: Vec<f32> =
        plain.iter().enumerate().map(|(i, x)| (x + f64::from(bias[i % conv.out_channels])) as f32).collect();
    let residual = random.floats(plain.len());
    let expected: Vec<f32> = plain.iter().zip(&residual).map(|(x, r)| x.clamp(-3.0, 4.0) * r + r).collect();
    let then = [Then::Apply(Function::Clamp(-3.0, 4.0)), Then::Multiply(&residual), Then::Add(&residual)];
    for isa in Isa::available() {
        let mut packed = vec![Line::default(); packed_len(isa, conv, kind)];
        let grouped = matches!(kind, Kind::Groups(_));
        match kind {
            Kind::Bytes => pack(isa, pool, conv, Filter::Rows(&filter), None, 0, &mut packed),
            _ => {
                let scales: &[f32] = if grouped { &scale } else { &[] };
                let half = |weight: &i8| (weight + 8).cast_unsigned();
                let byte = |two: &[i8]| half(&two[0]) | two.get(1).map_or(0, half) << 4;
                let stored: Vec<u8> = filter.chunks(k).flat_map(|row| row.chunks(2).map(byte)).collect();
                pack_nibbles(isa, pool, conv, kind, &stored, scales, &mut packed);
            }
        }
        let weights = Weights { packed: &packed, kind, scale: if grouped { &[] } else { &scale }, bias: Some(&bias) };
        let mut scratch = vec![0; scratch_len(isa, conv, kind, 3)];
        let mut output = vec![f32::NAN; plain.len()];
        conv2d_dynamic(isa, &Serial, conv, (&input, &affine), weights, &[], &mut output, &mut scratch);
        assert_close(&output, &plain, 1e-5, &(isa, conv, kind));
        output.fill(f32::NAN);
        conv2d_dynamic(isa, pool, conv, (&input, &affine), weights, &then, &mut output, &mut scratch);
        assert_close(&output, &expected, 1e-5, &(isa, conv, kind));
    }
}

#[test]
fn rows_with_their_own_scales() {
    let pool = pool();
    for rows in [1, 6, 25] {
        for n in [1, 16, 40, 65] {
            for k in [3, 8, 13, 64] {
                check_dynamic(&pool, &Conv2d::linear(rows, k, n), Kind::Bytes, rows);
                check_dynamic(&pool, &Conv2d::linear(rows, k, n), Kind::Nibbles, rows);
            }
            for (k, group) in [(32, 32), (64, 32), (96, 32), (128, 64), (192, 64)] {
                check_dynamic(&pool, &Conv2d::linear(rows, k, n), Kind::Groups(group), rows);
            }
        }
    }
    for kind in [Kind::Bytes, Kind::Nibbles, Kind::Groups(32), Kind::Groups(128), Kind::Groups(1152)] {
        check_dynamic(&pool, &Conv2d::linear(30, 2304, 72), kind, 30);
    }
}

#[test]
fn images_with_their_own_scales() {
    let pool = pool();
    let plain = Conv2d { batch: 2, input: [9, 7], kernel: [3, 3], padding: [1; 4], ..Conv2d::linear(1, 5, 18) };
    for conv in [
        plain,
        Conv2d { stride: [2, 2], in_channels: 3, ..plain },
        Conv2d { in_channels: 6, groups: 2, ..plain },
        Conv2d { transposed: true, stride: [2, 2], ..plain },
    ] {
        check_dynamic(&pool, &conv, Kind::Bytes, 2);
        check_dynamic(&pool, &conv, Kind::Nibbles, 2);
    }
}
