//! How close the matrix product comes to the roof of this machine.
//!
//! Prints, per instruction set, the measured peak of a loop that does nothing but multiply-add, and for a list of
//! shapes GFLOP/s and the fraction of that peak, on one thread and on two. Each figure is the best of many short
//! bursts.
//!
//!     cargo run --release -p sconce-kernels --example gemm_peak
use sconce_kernels::conv::{Conv, Layout, Operands, conv, conv_scratch};
use sconce_kernels::gemm::{Epilogue, Gemm, Init, Matrix, gemm, gemm_scratch};
use sconce_kernels::{Isa, Parallel, Serial};
use std::time::Instant;

/// The shortest of bursts that together take about half a second.
fn best_seconds(mut body: impl FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), f64::MAX);
    while start.elapsed().as_secs_f64() < 0.4 || best == f64::MAX {
        let burst = Instant::now();
        body();
        best = best.min(burst.elapsed().as_secs_f64());
    }
    best
}

/// GFLOP/s of a loop over twelve vectors of independent multiply-adds that never leave the registers.
fn peak(isa: Isa) -> f64 {
    match isa {
        Isa::Avx512(_) | Isa::Vnni(_) => peak_of::<192>(isa),
        Isa::Avx2(_) => peak_of::<96>(isa),
        _ => peak_of::<48>(isa),
    }
}

fn peak_of<const LANES: usize>(isa: Isa) -> f64 {
    const TURNS: usize = 20_000;
    let mut sums = [1.0f32; LANES];
    let (factor, summand) = (std::hint::black_box(0.999_f32), std::hint::black_box(0.001_f32));
    let fused = isa != Isa::Scalar;
    let seconds = best_seconds(|| {
        isa.vectorize(|| {
            let mut local = sums;
            for _ in 0..TURNS {
                for sum in &mut local {
                    *sum = if fused { sum.mul_add(factor, summand) } else { *sum * factor + summand };
                }
            }
            sums = local;
        });
    });
    std::hint::black_box(sums);
    2.0 * (LANES * TURNS) as f64 / seconds / 1e9
}

fn product(isa: Isa, par: &dyn Parallel, (m, n, k): (usize, usize, usize), transposed: bool, repeat: usize) -> f64 {
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let mut c = vec![0.0; m * n];
    let mut scratch = vec![0.0; gemm_scratch(m, n, k, par.width())];
    let b = if transposed { Matrix::transposed(&b, k) } else { Matrix::row_major(&b, n) };
    let g = Gemm { m, n, k, a: Matrix::row_major(&a, k), b, init: Init::Zero, epilogue: Epilogue::None };
    let seconds = best_seconds(|| (0..repeat).for_each(|_| gemm(isa, par, &g, &mut c, n, &mut scratch)));
    2.0 * (m * n * k * repeat) as f64 / seconds / 1e9
}

fn layer(isa: Isa, par: &dyn Parallel, layout: Layout, geometry: &Conv) -> f64 {
    let [_, height, width] = geometry.output().expect("a convolution");
    let pixels = geometry.batch * height * width;
    let k = geometry.in_channels / geometry.groups * geometry.kernel.iter().product::<usize>();
    let input = vec![0.5; geometry.batch * geometry.in_channels * geometry.input.iter().product::<usize>()];
    let weight = vec![0.25; geometry.out_channels * k];
    let mut out = vec![0.0; geometry.out_channels * pixels];
    let mut scratch = vec![0.0; conv_scratch(geometry, layout, par.width())];
    let operands = Operands { input: &input, weight: &weight, bias: None };
    let seconds = best_seconds(|| conv(isa, par, geometry, layout, operands, Epilogue::Relu, &mut out, &mut scratch));
    2.0 * (geometry.out_channels * pixels * k) as f64 / seconds / 1e9
}

/// (in channels, out channels), size, kernel, stride, groups
type Layer = ((usize, usize), usize, usize, usize, usize);

const LAYERS: [Layer; 9] = [
    ((3, 64), 224, 7, 2, 1),
    ((64, 64), 56, 3, 1, 1),
    ((128, 128), 28, 3, 1, 1),
    ((512, 512), 7, 3, 1, 1),
    ((64, 256), 56, 1, 1, 1),
    ((96, 96), 56, 3, 1, 96),
    ((96, 96), 56, 3, 2, 96),
    ((576, 576), 14, 3, 1, 576),
    ((240, 240), 14, 5, 1, 240),
];

fn main() {
    let threads = sconce_parallel::Pool::new(2);
    let pool = threads.lease();
    for isa in Isa::available() {
        let roof = peak(isa);
        println!("\n{isa:?}: peak {roof:.0} GFLOP/s");
        for shape in
            [(256, 256, 256), (384, 384, 384), (512, 512, 512), (1024, 1024, 1024), (64, 3136, 576), (197, 768, 768)]
        {
            for transposed in [false, true] {
                let one = product(isa, &Serial, shape, transposed, 1);
                let two = product(isa, &pool, shape, transposed, 1);
                println!(
                    "{shape:?}{} {one:6.1} {:3.0} %   two threads {two:6.1} x{:.2}",
                    if transposed { " B^T" } else { "    " },
                    100.0 * one / roof,
                    two / one
                );
            }
        }
        for shape in [(1, 1000, 2048), (1, 4096, 4096), (4, 1024, 1024), (16, 768, 768)] {
            for transposed in [false, true] {
                let one = product(isa, &Serial, shape, transposed, 1);
                let bytes = one / 2.0 / shape.0 as f64 * 4.0;
                println!(
                    "{shape:?}{} {one:6.1} GFLOP/s, B at {bytes:.1} GB/s",
                    if transposed { " B^T" } else { "    " }
                );
            }
        }
        for (channels, size, kernel, stride, groups) in LAYERS {
            let geometry = Conv {
                batch: 1,
                in_channels: channels.0,
                input: [1, size, size],
                out_channels: channels.1,
                kernel: [1, kernel, kernel],
                stride: [1, stride, stride],
                padding: [0, kernel / 2, kernel / 2],
                dilation: [1; 3],
                groups,
                output_padding: [0; 3],
                transposed: false,
            };
            print!("conv {channels:?} {size} px {kernel}x{kernel} /{stride} groups {groups}:");
            for layout in [Layout::ChannelsFirst, Layout::ChannelsLast] {
                let one = layer(isa, &Serial, layout, &geometry);
                let two = layer(isa, &pool, layout, &geometry);
                print!("  {layout:?} {one:6.1} {:3.0} % x{:.2}", 100.0 * one / roof, two / one);
            }
            println!();
        }
    }
}
