//! Depthwise convolution against loops over taps, around the edges of vectors, steps, images and threads.
use super::*;
use crate::bytes::{Tail, tests::with_tails};
use crate::testing::{Random, assert_close, gather, pool, spread};

/// The input position of a tap, unless it lies outside.
fn source(axis: &Axis, at: usize, tap: usize) -> Option<usize> {
    (at * axis.stride + tap * axis.dilation).checked_sub(axis.before).filter(|&x| x < axis.input)
}

/// Calls `body(output element, input element, weight element)` for every tap inside the image.
fn each_tap(g: &Depthwise, mut body: impl FnMut(usize, usize, usize)) {
    let [height, width] = g.output().expect("a convolution");
    let (down, across) = (g.axis(0), g.axis(1));
    for (row, x) in (0..g.batch * height).flat_map(|row| (0..width).map(move |x| (row, x))) {
        for (ky, kx) in (0..g.kernel[0]).flat_map(|ky| (0..g.kernel[1]).map(move |kx| (ky, kx))) {
            let (Some(iy), Some(ix)) = (source(&down, row % height, ky), source(&across, x, kx)) else { continue };
            let pixel = (row / height * g.input[0] + iy) * g.input[1] + ix;
            for channel in 0..g.channels {
                let tap = ky * g.kernel[1] + kx;
                body(
                    (row * width + x) * g.channels + channel,
                    pixel * g.channels + channel,
                    tap * g.channels + channel,
                );
            }
        }
    }
}

/// A geometry with channels around vectors and sizes around steps.
fn geometry(random: &mut Random) -> Depthwise {
    let channels = [1, 3, 7, 8, 15, 16, 17, 24, 33, 40][random.below(10)];
    let mut pick = |from: usize, below: usize| from + random.below(below - from);
    let square = pick(0, 3) > 0;
    let kernel = if square { [[3, 5, 7][pick(0, 3)]; 2] } else { [pick(1, 8), pick(1, 8)] };
    let stride = if square { [pick(1, 3); 2] } else { [pick(1, 4), pick(1, 4)] };
    let dilation = if pick(0, 4) > 0 { [1; 2] } else { [pick(1, 3), pick(1, 3)] };
    let padding = match pick(0, 3) {
        0 => [kernel[0] / 2, kernel[1] / 2, kernel[0] / 2, kernel[1] / 2],
        _ => core::array::from_fn(|_| pick(0, 6)),
    };
    let input = [pick(1, 10), pick(1, 34)];
    Depthwise { batch: pick(1, 3), channels, input, kernel, stride, padding, dilation }
}

/// Geometries that have an output.
fn geometries(seed: u64, count: usize) -> impl Iterator<Item = (Depthwise, Random)> {
    let mut random = Random::new(seed);
    let mut number = 0;
    core::iter::repeat_with(move || {
        number += 1;
        (geometry(&mut random), Random::new(seed * 1000 + number))
    })
    .filter(|(g, _)| g.output().is_some())
    .take(count)
}

fn check(g: &Depthwise, random: &mut Random) {
    let [height, width] = g.output().expect("a convolution");
    let (input, weights) = (
        random.floats(g.batch * g.input[0] * g.input[1] * g.channels),
        random.floats(g.kernel[0] * g.kernel[1] * g.channels),
    );
    let bias = random.floats(g.channels);
    let bias = (random.below(4) > 0).then_some(&bias[..]);
    let residual = random.floats(g.batch * height * width * g.channels);
    let mut sums: Vec<f64> = (0..residual.len()).map(|i| bias.map_or(0.0, |b| b[i % g.channels].into())).collect();
    each_tap(g, |out, x, w| sums[out] += f64::from(input[x]) * f64::from(weights[w]));
    let limits = Then::Apply(Function::Clamp(-0.5, 1.5));
    let lists: [&[Then<'_>]; 4] = [&[], &[limits], &[limits, Then::Add(&residual)], &[Then::Add(&residual), limits]];
    let choice = random.below(4);
    let expected: Vec<f32> = sums
        .iter()
        .zip(&residual)
        .map(|(&sum, &residual)| match choice {
            0 => sum as f32,
            1 => sum.clamp(-0.5, 1.5) as f32,
            2 => sum.clamp(-0.5, 1.5) as f32 + residual,
            _ => (sum as f32 + residual).clamp(-0.5, 1.5),
        })
        .collect();
    let mut packed = vec![f32::NAN; packed_len(g.channels, g.kernel)];
    pack(g.channels, g.kernel, &weights, bias, &mut packed);
    let pool = pool();
    for isa in Isa::available() {
        for (par, gap) in [(&Serial as &dyn Parallel, 0), (&pool, 0), (&Serial, 3), (&pool, 5)] {
            let (from, to) = (g.channels + gap / 2, g.channels + gap);
            let input = spread(&input, g.channels, from, 1e30);
            let mut output = spread(&vec![f32::NAN; expected.len()], g.channels, to, 7.0);
            depthwise(isa, par, g, (&input, from), &packed, lists[choice], (&mut output, to));
            let output = gather(&output, g.channels, to, 7.0);
            assert_close(&output, &expected, 1e-5, &(isa, g, choice, gap));
        }
    }
}

#[test]
fn every_kind_of_edge() {
    geometries(1, 600).for_each(|(g, mut random)| check(&g, &mut random));
}

#[test]
fn layers_cut_by_rows_and_by_channels() {
    let mut random = Random::new(2);
    let same = |channels, size, kernel: usize, stride| Depthwise {
        batch: 1,
        channels,
        input: [size; 2],
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [kernel / 2; 4],
        dilation: [1; 2],
    };
    for g in [same(40, 57, 3, 1), same(250, 7, 5, 1), same(600, 7, 3, 1), same(72, 30, 3, 2), same(48, 14, 7, 1)] {
        check(&g, &mut random);
        check(&Depthwise { batch: 2, ..g }, &mut random);
    }
}

#[test]
fn sizes_that_make_no_sense_have_no_output() {
    let g = Depthwise {
        batch: 1,
        channels: 4,
        input: [5, 6],
        kernel: [3, 3],
        stride: [1, 2],
        padding: [1, 0, 0, 2],
        dilation: [1, 1],
    };
    assert_eq!(g.output(), Some([4, 3]));
    for wrong in [
        Depthwise { kernel: [0, 3], ..g },
        Depthwise { kernel: [7, 3], ..g },
        Depthwise { stride: [0, 1], ..g },
        Depthwise { dilation: [1, 0], ..g },
        Depthwise { dilation: [usize::MAX, 1], ..g },
        Depthwise { padding: [usize::MAX, 0, 0, 0], ..g },
        Depthwise { batch: usize::MAX / 2, ..g },
    ] {
        assert_eq!(wrong.output(), None, "{wrong:?}");
    }
}

#[test]
fn not_a_number_survives_the_limits() {
    let g = geometries(3, 1).next().expect("a geometry").0;
    let mut packed = vec![0.0; packed_len(g.channels, g.kernel)];
    pack(g.channels, g.kernel, &vec![1.0; g.taps() * g.channels], Some(&vec![f32::NAN; g.channels]), &mut packed);
    let [height, width] = g.output().expect("a convolution");
    let input = vec![1.0; g.batch * g.input[0] * g.input[1] * g.channels];
    for isa in Isa::available() {
        let mut output = vec![0.0; g.batch * height * width * g.channels];
        let images = ((&input[..], g.channels), (&mut output[..], g.channels));
        depthwise(isa, &Serial, &g, images.0, &packed, &[Then::Apply(Function::Clamp(0.0, 6.0))], images.1);
        assert!(output.iter().all(|x| x.is_nan()), "{isa:?}");
    }
}

/// Whole numbers of all sizes.
fn bytes(random: &mut Random, n: usize) -> Vec<i8> {
    (0..n).map(|_| (random.below(256) as i32 - 128) as i8).collect()
}

/// The formula, with all sums in 64 bits.
fn quantized(g: &Depthwise, input: &[i8], from: int8::Weights<'_>, q: int8::Quantization) -> Vec<i8> {
    let [height, width] = g.output().expect("a convolution");
    let bias = |channel: usize| from.bias.map_or(0, |bias| i64::from(bias[channel]));
    let mut sums: Vec<i64> = (0..g.batch * height * width * g.channels).map(|i| bias(i % g.channels)).collect();
    each_tap(g, |out, x, w| {
        sums[out] += (i64::from(input[x]) - i64::from(q.input_zero)) * i64::from(from.weights[w]);
    });
    let byte = |(i, &sum): (usize, &i64)| {
        let steps = (sum as i32 as f32 * from.scale[i % g.channels]).round_ties_even() as i64;
        (steps + i64::from(q.output_zero)).clamp(q.limits.0.into(), q.limits.1.into()) as i8
    };
    sums.iter().enumerate().map(byte).collect()
}

fn check_bytes(g: &Depthwise, random: &mut Random) {
    let input = bytes(random, g.batch * g.input[0] * g.input[1] * g.channels);
    let weights = bytes(random, g.taps() * g.channels);
    let bias: Vec<i32> = (0..g.channels).map(|_| random.below(20_000) as i32 - 10_000).collect();
    // Powers of two make ties; a scale of some millions leaves the range of words.
    let kinds = [1.0 / 512.0, 1.0 / 64.0, 0.003_1, 0.000_17, 4e6];
    let scale: Vec<f32> = (0..g.channels).map(|_| kinds[random.below(5)]).collect();
    let bias = (random.below(4) > 0).then_some(&bias[..]);
    let from = int8::Weights { weights: &weights, bias, scale: &scale };
    let limits = [(-128, 127), (-20, 90), (5, 6)][random.below(3)];
    let zeros = bytes(random, 2);
    let extremes = [(zeros[0], zeros[1]), (-128, 127), (127, -128)][random.below(3)];
    let q = int8::Quantization {
        input_zero: extremes.0,
        output_zero: extremes.1,
        limits,
        unsigned: int8::Unsigned::default(),
    };
    let expected = quantized(g, &input, from, q);
    let others = bytes(random, expected.len());
    let pool = pool();
    for isa in Isa::available() {
        let mut packed = vec![-1; int8::packed_len(isa, g)];
        int8::pack(isa, g, from, q.input_zero, &mut packed);
        for (par, gap) in [(&Serial as &dyn Parallel, 0), (&pool, 0), (&Serial, 3), (&pool, 5)] {
            let (from, to) = (g.channels + gap / 2, g.channels + gap);
            let input = spread(&input, g.channels, from, 99);
            let run = |q: int8::Quantization, tail: Tail<'_>| {
                let mut output = spread(&vec![0; expected.len()], g.channels, to, 77);
                int8::depthwise(isa, par, g, (&input, from), &packed, (q, tail), (&mut output, to));
                gather(&output, g.channels, to, 77)
            };
            for (tail, expected) in with_tails(&expected, &others) {
                let wrong = run(q, tail).iter().zip(&expected).position(|(a, b)| a != b);
                assert!(wrong.is_none(), "element {wrong:?} of {g:?} with {q:?} and {tail:?} on {isa:?}");
            }
            let unsigned = int8::Unsigned { output: true, ..q.unsigned };
            let output = run(int8::Quantization { unsigned, ..q }, Tail::Nothing);
            let wrong = output.iter().zip(&expected).position(|(a, b)| *a != b ^ i8::MIN);
            assert!(wrong.is_none(), "element {wrong:?} of {g:?} without signs on {isa:?}");
        }
    }
}

#[test]
fn bytes_at_every_kind_of_edge() {
    geometries(4, 600).for_each(|(g, mut random)| check_bytes(&g, &mut random));
}

#[test]
fn bytes_around_blocks() {
    let random = &mut Random::new(5);
    for (channels, size) in [(63, 9), (64, 7), (65, 14), (80, 8), (96, 20), (100, 30), (129, 7), (600, 7)] {
        for (kernel, stride) in [(3, 1), (5, 1), (3, 2), (5, 2), (7, 1)] {
            let padding = [kernel / 2; 4];
            let (input, kernel, stride) = ([size; 2], [kernel; 2], [stride; 2]);
            check_bytes(&Depthwise { batch: 1, channels, input, kernel, stride, padding, dilation: [1; 2] }, random);
        }
    }
}

#[test]
fn packed_floats_lie_in_blocks_of_sixteen() {
    for (channels, kernel) in [(1, [1, 1]), (15, [3, 3]), (16, [1, 5]), (17, [3, 3]), (50, [2, 7])] {
        let (taps, mut random) = (kernel[0] * kernel[1], Random::new(9));
        let (weights, bias) = (random.floats(taps * channels), random.floats(channels));
        for bias in [None, Some(&bias[..])] {
            let mut packed = vec![f32::NAN; packed_len(channels, kernel)];
            pack(channels, kernel, &weights, bias, &mut packed);
            for (place, &found) in packed.iter().enumerate() {
                let (row, channel) = (place / 16 % (taps + 1), place / (16 * (taps + 1)) * 16 + place % 16);
                let expected = match (channel < channels, row) {
                    (false, _) => 0.0,
                    (true, 0) => bias.map_or(0.0, |bias| bias[channel]),
                    (true, row) => weights[(row - 1) * channels + channel],
                };
                assert_eq!(found, expected, "element {place} of {channels} channels, {kernel:?}");
            }
        }
    }
}
