//! Winograd's method for bytes against a naive twin: equal, at the edges of tiles, vectors, images and 32 bits.

use super::*;
use crate::bytes::tests::with_tails;
use crate::packed::int8::Unsigned;
use crate::packed::int8::tests::{CASES, bytes, narrowed, scales, sums};
use crate::testing::{Random, gather, pool, spread};

/// A convolution of `[height, width]` images from `channels.0` to `channels.1`.
fn layer(input: [usize; 2], channels: (usize, usize), padding: [usize; 4]) -> Conv2d {
    Conv2d { input, kernel: [3, 3], padding, ..Conv2d::linear(1, channels.0, channels.1) }
}

fn check(conv: &Conv2d) {
    let mut random = Random::new(5);
    let input = bytes(&mut random, conv.batch * conv.input[0] * conv.input[1] * conv.in_channels);
    let filter = bytes(&mut random, conv.out_channels * 9 * conv.in_channels);
    check_with(conv, &input, &filter);
}

fn check_with(conv: &Conv2d, input: &[i8], filter: &[i8]) {
    if !applies(conv) {
        return;
    }
    let (pool, mut random) = (pool(), Random::new(7));
    let bias: Vec<i32> = (0..conv.out_channels).map(|_| random.below(20_000) as i32 - 10_000).collect();
    for (input_zero, output_zero, limits, large) in CASES {
        let scale = scales(&mut random, conv, large);
        let quantization = Quantization { input_zero, output_zero, limits, unsigned: Unsigned::default() };
        let expected = narrowed(&sums(conv, input, filter, |_| input_zero), &bias, &scale, &quantization);
        let others = bytes(&mut random, expected.len());
        for isa in Isa::available() {
            let mut packed = vec![Line::default(); packed_len(conv)];
            pack(isa, &pool, conv, filter, Some(&bias), input_zero, &mut packed);
            // Images by themselves, and as parts of wider ones.
            for (par, before, after) in
                [(&Serial as &dyn Parallel, 0, 0), (&pool, 0, 0), (&Serial, 3, 0), (&pool, 0, 5)]
            {
                let [from, to] = [conv.in_channels + before, conv.out_channels + after];
                let input = spread(input, conv.in_channels, from, 99);
                for (tail, expected) in with_tails(&expected, &others) {
                    let mut scratch = vec![i32::MIN; scratch_len(isa, conv, par.width())];
                    let mut output = spread(&vec![77; expected.len()], conv.out_channels, to, 55);
                    let (how, weights) = ((&quantization, tail), (&packed[..], &scale[..]));
                    winograd(isa, par, conv, how, (&input, from), weights, (&mut output, to), &mut scratch);
                    let output = gather(&output, conv.out_channels, to, 55);
                    assert_eq!(output, expected, "{isa:?} {conv:?} {quantization:?} {tail:?} {before} {after}");
                }
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
    for inputs in [1, 31, 32, 33, 64] {
        for outputs in [1, 16, 17, 33, 65] {
            check(&layer([6, 9], (inputs, outputs), [1; 4]));
        }
    }
}

#[test]
fn more_tiles_than_a_block() {
    check(&layer([61, 37], (70, 80), [1; 4]));
}

/// The largest sums there can be, of both signs, and the largest numbers in between.
#[test]
fn sums_of_26_bits() {
    let conv = layer([6, 6], (MOST_CHANNELS, 18), [0; 4]);
    let (pixels, taps) = (36 * MOST_CHANNELS, 9 * MOST_CHANNELS);
    let filled = |even: i8, odd: i8, len: usize, run: usize| -> Vec<i8> {
        (0..len).map(|i| if (i / run).is_multiple_of(2) { even } else { odd }).collect()
    };
    let filters = [(-128, -128), (-128, 127), (127, 127)].map(|(even, odd)| filled(even, odd, 18 * taps, taps));
    for filter in &filters {
        for (even, odd, run) in
            [(-128, -128, 1), (127, 127, 1), (127, -128, MOST_CHANNELS), (-128, 127, 6 * MOST_CHANNELS)]
        {
            check_with(&conv, &filled(even, odd, pixels, run), filter);
        }
    }
}

#[test]
fn what_it_does_not_apply_to() {
    let plain = layer([8, 8], (MOST_CHANNELS, 4), [1; 4]);
    assert!(applies(&plain));
    for other in [
        Conv2d { stride: [2, 1], ..plain },
        Conv2d { groups: 2, ..plain },
        Conv2d { transposed: true, ..plain },
        layer([8, 8], (MOST_CHANNELS + 1, 4), [1; 4]),
    ] {
        assert!(!applies(&other), "{other:?}");
    }
}
