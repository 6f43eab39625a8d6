//! How close convolution with packed weights comes to the roof of this machine.
//!
//! Prints, per instruction set, GFLOP/s for layers of well-known nets on one thread and on two. Each figure is the best of
//! many short bursts.
//!
//!     cargo run --release -p sconce-kernels --example packed_peak
use sconce_kernels::packed::{Conv2d, Filter, conv2d, pack, packed_len};
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

fn layer(isa: Isa, par: &dyn Parallel, conv: &Conv2d) -> f64 {
    let [height, width] = conv.output().expect("a convolution");
    let (pixels, k) = (conv.batch * height * width, conv.in_channels * conv.kernel[0] * conv.kernel[1]);
    let input = vec![0.5; conv.batch * conv.input[0] * conv.input[1] * conv.in_channels];
    let mut packed = vec![0.0; packed_len(isa, conv)];
    let filter = vec![0.25; conv.out_channels * k];
    pack(isa, par, conv, Filter::Rows(&filter), None, &mut packed);
    let mut out = vec![0.0; conv.out_channels * pixels];
    let seconds = best_seconds(|| {
        conv2d(isa, par, conv, (&input, conv.in_channels), &packed, &[], (&mut out, conv.out_channels))
    });
    2.0 * (conv.out_channels * pixels * k) as f64 / seconds / 1e9
}

/// (in channels, out channels), size, kernel, stride
const LAYERS: [((usize, usize), usize, usize, usize); 12] = [
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
    }
}
