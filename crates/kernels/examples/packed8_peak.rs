//! How close byte convolution with packed weights comes to the roof of this machine.
//!
//! Prints GOP/s (a multiplication and an addition are two) for layers of well-known nets, on one thread and on two. Each
//! figure is the best of many short bursts.
//!
//!     cargo run --release -p sconce-kernels --example packed8_peak
use sconce_kernels::bytes::Tail;
use sconce_kernels::packed::int8::{
    Affine, Kind, Line, Quantization, Unsigned, Weights, conv2d, conv2d_dynamic, pack, pack_nibbles, packed_len,
    scratch_len,
};
use sconce_kernels::packed::{Conv2d, Filter};
use sconce_kernels::{Isa, Parallel, Serial};
use std::time::Instant;

fn best_seconds(mut body: impl FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), f64::MAX);
    while start.elapsed().as_secs_f64() < 0.3 || best == f64::MAX {
        let burst = Instant::now();
        body();
        best = best.min(burst.elapsed().as_secs_f64());
    }
    best
}

fn multiplications(conv: &Conv2d) -> f64 {
    let [height, width] = conv.output().expect("a convolution");
    let k = conv.in_channels * conv.kernel[0] * conv.kernel[1];
    (conv.batch * height * width * conv.out_channels * k) as f64
}

fn layer(isa: Isa, par: &dyn Parallel, conv: &Conv2d) -> f64 {
    let [height, width] = conv.output().expect("a convolution");
    let input = vec![5; conv.batch * conv.input[0] * conv.input[1] * conv.in_channels];
    let mut packed = vec![Line::default(); packed_len(isa, conv, Kind::Bytes)];
    let filter: Vec<i8> = (0..conv.out_channels * conv.kernel[0] * conv.kernel[1] * conv.in_channels / conv.groups)
        .map(|i| i as i8)
        .collect();
    pack(isa, par, conv, Filter::Rows(&filter), None, 3, &mut packed);
    let scale = vec![0.001; conv.out_channels];
    let quantization =
        Quantization { input_zero: 3, output_zero: -4, limits: (-128, 127), unsigned: Unsigned::default() };
    let mut output = vec![0; conv.batch * height * width * conv.out_channels];
    let mut scratch = vec![0; scratch_len(isa, conv, Kind::Bytes, par.width())];
    let seconds = best_seconds(|| {
        let (how, output) = ((&quantization, Tail::Nothing), (&mut output[..], conv.out_channels));
        conv2d(isa, par, conv, how, &input, (&packed, &scale), output, &mut scratch);
    });
    2.0 * multiplications(conv) / seconds / 1e9
}

/// Seconds of a linear layer with weights of four bits, and the bytes of these weights.
fn nibbles(isa: Isa, par: &dyn Parallel, (rows, k, n): (usize, usize, usize), kind: Kind) -> (f64, f64) {
    let conv = Conv2d::linear(rows, k, n);
    let (input, affine) = (vec![5; rows * k], vec![Affine { scale: 0.01, zero: 3 }; rows]);
    let scale = match kind {
        Kind::Groups(size) => vec![0.01; n * k / size],
        _ => vec![0.01; n],
    };
    let (groups, channels) = if let Kind::Groups(_) = kind { (&scale[..], &[][..]) } else { (&[][..], &scale[..]) };
    let mut packed = vec![Line::default(); packed_len(isa, &conv, kind)];
    let filter: Vec<u8> = (0..n * k.div_ceil(2)).map(|i| i as u8).collect();
    pack_nibbles(isa, par, &conv, kind, &filter, groups, &mut packed);
    let weights = Weights { packed: &packed, kind, scale: channels, bias: None };
    let mut output = vec![0.0; rows * n];
    let mut scratch = vec![0; scratch_len(isa, &conv, kind, par.width())];
    let seconds = best_seconds(|| {
        conv2d_dynamic(isa, par, &conv, (&input, &affine), weights, &[], &mut output, &mut scratch);
    });
    (seconds, (packed.len() * size_of::<Line>()) as f64)
}

/// (in channels, out channels), size, kernel, stride
const LAYERS: [((usize, usize), usize, usize, usize); 13] = [
    ((3, 16), 224, 3, 2),
    ((3, 64), 224, 7, 2),
    ((64, 64), 56, 3, 1),
    ((128, 128), 28, 3, 1),
    ((256, 256), 14, 3, 1),
    ((512, 512), 7, 3, 1),
    ((64, 256), 56, 1, 1),
    ((3, 32), 224, 3, 2),
    ((24, 144), 56, 1, 1),
    ((144, 24), 56, 1, 1),
    ((96, 576), 14, 1, 1),
    ((576, 96), 14, 1, 1),
    ((160, 960), 7, 1, 1),
];

fn main() {
    let threads = sconce_parallel::Pool::new(2);
    let pool = threads.lease();
    for isa in Isa::available() {
        println!("\n{isa:?}");
        for (channels, size, kernel, stride) in LAYERS {
            let conv = Conv2d {
                input: [size, size],
                kernel: [kernel; 2],
                stride: [stride; 2],
                padding: [kernel / 2; 4],
                ..Conv2d::linear(1, channels.0, channels.1)
            };
            let (one, two) = (layer(isa, &Serial, &conv), layer(isa, &pool, &conv));
            println!("{channels:?} {size} px {kernel}x{kernel} /{stride}: {one:6.1}   two threads x{:.2}", two / one);
        }
        for (rows, k, n) in [(128, 384, 384), (128, 384, 1536), (128, 1536, 384), (197, 768, 3072), (1, 1280, 1000)] {
            let conv = Conv2d::linear(rows, k, n);
            let (one, two) = (layer(isa, &Serial, &conv), layer(isa, &pool, &conv));
            println!("linear {rows} x {k} x {n}: {one:6.1}   two threads x{:.2}", two / one);
        }
        for kind in [Kind::Nibbles, Kind::Groups(32), Kind::Groups(128)] {
            for size in [(1, 4096, 4096), (1, 4096, 14336), (128, 4096, 4096)] {
                let (one, bytes) = nibbles(isa, &Serial, size, kind);
                let (two, _) = nibbles(isa, &pool, size, kind);
                let operations = 2.0 * (size.0 * size.1 * size.2) as f64 / one / 1e9;
                let streamed = bytes / one / 1e9;
                let threads = one / two;
                println!("{kind:?} {size:?}: {operations:6.1}, {streamed:5.1} GB/s   two threads x{threads:.2}");
            }
        }
    }
}
