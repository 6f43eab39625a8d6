//! What Winograd's method gains over the direct form, layer by layer, on one thread (and on two, for its own sake).
//!
//! The forms take turns, so that a machine that is busy at times is so for all of them; each figure is the fastest turn.
//!
//!     cargo run --release -p sconce-kernels --example winograd_peak
use sconce_kernels::bytes::Tail;
use sconce_kernels::packed::int8::{self, Kind, Line, Quantization, Unsigned};
use sconce_kernels::packed::{self, Conv2d};
use sconce_kernels::winograd::{self, Output, winograd};
use sconce_kernels::{Isa, Parallel, Serial};
use std::time::Instant;

/// Channels in and out, pixels along a side.
const LAYERS: [(usize, usize); 7] = [(64, 56), (128, 28), (256, 14), (512, 7), (32, 80), (64, 40), (128, 20)];
const TURNS: usize = 40;

fn layer_of(channels: usize, size: usize) -> Conv2d {
    Conv2d { input: [size, size], kernel: [3, 3], padding: [1; 4], ..Conv2d::linear(1, channels, channels) }
}

/// Microseconds of the fastest turn of each body.
fn fastest<const N: usize>(mut bodies: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..TURNS {
        for (body, best) in bodies.iter_mut().zip(&mut best) {
            body();
            let start = Instant::now();
            body();
            *best = best.min(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    best
}

/// Microseconds of the direct form and of both tiles.
fn layer(isa: Isa, par: &dyn Parallel, conv: &Conv2d) -> [f64; 3] {
    let noise = |len: usize| -> Vec<f32> { (0..len).map(|i| (i * 7919 % 1000) as f32 / 1000.0 - 0.5).collect() };
    let [height, width] = conv.output().expect("a convolution");
    let input = noise(conv.input[0] * conv.input[1] * conv.in_channels);
    let filter = noise(conv.out_channels * 9 * conv.in_channels);
    let bias = noise(conv.out_channels);
    let mut outputs = [(); 3].map(|()| vec![0.0; height * width * conv.out_channels]);
    let mut direct = vec![0.0; packed::packed_len(isa, conv)];
    packed::pack(isa, par, conv, packed::Filter::Rows(&filter), Some(&bias), &mut direct);
    let [(two, mut scratch_two), (four, mut scratch_four)] = [Output::Two, Output::Four].map(|output| {
        let mut packed = vec![0.0; winograd::packed_len(isa, conv, output)];
        winograd::pack(isa, par, conv, output, &filter, &mut packed);
        (packed, vec![0.0; winograd::scratch_len(isa, conv, output, par.width())])
    });
    let [to_direct, to_two, to_four] = &mut outputs;
    let (bias, from, to) = (Some(&bias[..]), (&input[..], conv.in_channels), conv.out_channels);
    fastest([
        &mut || packed::conv2d(isa, par, conv, from, &direct, &[], (to_direct, to)),
        &mut || winograd(isa, par, conv, Output::Two, from, &two, bias, &[], &mut scratch_two, (to_two, to)),
        &mut || winograd(isa, par, conv, Output::Four, from, &four, bias, &[], &mut scratch_four, (to_four, to)),
    ])
}

/// Microseconds of the direct form and of Winograd's method for bytes.
fn bytes(isa: Isa, par: &dyn Parallel, conv: &Conv2d) -> [f64; 2] {
    let noise = |len: usize| -> Vec<i8> { (0..len).map(|i| (i * 7919 % 251) as i8).collect() };
    let [height, width] = conv.output().expect("a convolution");
    let input = noise(conv.input[0] * conv.input[1] * conv.in_channels);
    let filter = noise(conv.out_channels * 9 * conv.in_channels);
    let (quantization, scale) = (
        Quantization { input_zero: 3, output_zero: -4, limits: (-128, 127), unsigned: Unsigned::default() },
        vec![0.001; conv.out_channels],
    );
    let mut direct = vec![Line::default(); int8::packed_len(isa, conv, Kind::Bytes)];
    int8::pack(isa, par, conv, packed::Filter::Rows(&filter), None, 3, &mut direct);
    let mut transformed = vec![Line::default(); winograd::int8::packed_len(conv)];
    winograd::int8::pack(isa, par, conv, &filter, None, 3, &mut transformed);
    let mut outputs = [(); 2].map(|()| vec![0; height * width * conv.out_channels]);
    let mut scratch = vec![0; int8::scratch_len(isa, conv, Kind::Bytes, par.width())];
    let mut scratch_four = vec![0; winograd::int8::scratch_len(isa, conv, par.width())];
    let [to_direct, to_four] = &mut outputs;
    let (how, from, to) = ((&quantization, Tail::Nothing), (&input[..], conv.in_channels), conv.out_channels);
    fastest([
        &mut || int8::conv2d(isa, par, conv, how, &input, (&direct, &scale), (to_direct, to), &mut scratch),
        &mut || {
            let weights = (&transformed[..], &scale[..]);
            winograd::int8::winograd(isa, par, conv, how, from, weights, (to_four, to), &mut scratch_four);
        },
    ])
}

fn main() {
    let isa = Isa::detect();
    let threads = sconce_parallel::Pool::new(2);
    let pool = threads.lease();
    println!(
        "{isa:?}: microseconds of the direct form; F(2x2), F(4x4) and how many times faster; two threads likewise"
    );
    for (channels, size) in LAYERS {
        let conv = layer_of(channels, size);
        print!("{channels:4} channels {size:3} px");
        for par in [&Serial as &dyn Parallel, &pool] {
            let [direct, two, four] = layer(isa, par, &conv);
            print!("  {direct:6.0}  {two:6.0} x{:.2}  {four:6.0} x{:.2} |", direct / two, direct / four);
        }
        println!();
    }
    for isa in Isa::available() {
        println!("\n{isa:?}, bytes: direct form, F(4x4), two threads likewise");
        for (channels, size) in LAYERS {
            let conv = layer_of(channels, size);
            if !winograd::int8::applies(&conv) {
                continue;
            }
            print!("{channels:4} channels {size:3} px");
            for par in [&Serial as &dyn Parallel, &pool] {
                let [direct, four] = bytes(isa, par, &conv);
                print!("  {direct:6.0}  {four:6.0} x{:.2} |", direct / four);
            }
            println!();
        }
    }
}
