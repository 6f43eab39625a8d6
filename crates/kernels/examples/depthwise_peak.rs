//! How fast depthwise convolutions of known networks are, channels last.
//!
//! Prints GFLOP/s per layer for the plain operator and for the packed kernels, in turns, so that both see the same
//! machine; then the packed kernels on two threads. Each figure is the best of many short bursts.
//!
//!     cargo run --release -p sconce-kernels --example depthwise_peak
use sconce_kernels::conv::{Conv, Layout, Operands, conv, conv_scratch};
use sconce_kernels::depthwise::{Depthwise, depthwise, pack, packed_len};
use sconce_kernels::epilogue::{Function, Then};
use sconce_kernels::gemm::Epilogue;
use sconce_kernels::{Isa, Parallel, Serial};
use std::cell::RefCell;
use std::time::Instant;

/// The shortest time of each body, called in turns for about half a second.
fn best_seconds<const N: usize>(mut bodies: [&mut dyn FnMut(); N]) -> [f64; N] {
    let (start, mut best) = (Instant::now(), [f64::MAX; N]);
    while start.elapsed().as_secs_f64() < 0.5 {
        for (body, best) in bodies.iter_mut().zip(&mut best) {
            body();
            let burst = Instant::now();
            body();
            *best = best.min(burst.elapsed().as_secs_f64());
        }
    }
    best
}

/// Elements on the boundary of a cache line, as an engine's arena gives them.
struct Aligned(Vec<f32>, usize);

impl Aligned {
    fn new(len: usize, value: f32) -> Self {
        let data = vec![value; len + 16];
        let start = data.as_ptr().align_offset(64);
        Self(data, start)
    }

    fn get(&mut self) -> &mut [f32] {
        let end = self.0.len() - 16 + self.1;
        &mut self.0[self.1..end]
    }
}

/// channels, size, kernel, stride
const LAYERS: [(usize, usize, usize, usize); 16] = [
    (32, 112, 3, 1),
    (96, 56, 3, 1),
    (144, 56, 3, 1),
    (192, 28, 3, 1),
    (384, 14, 3, 1),
    (576, 14, 3, 1),
    (960, 7, 3, 1),
    (96, 112, 3, 2),
    (144, 56, 3, 2),
    (192, 28, 3, 2),
    (576, 14, 3, 2),
    (240, 28, 5, 1),
    (480, 14, 5, 1),
    (672, 14, 5, 1),
    (1152, 7, 5, 1),
    (672, 14, 5, 2),
];

fn main() {
    let isa = Isa::detect();
    let pool = sconce_parallel::Pool::new(2);
    println!("{isa:?}, GFLOP/s");
    for (channels, size, kernel, stride) in LAYERS {
        let padding = kernel / 2;
        let plain = Conv {
            batch: 1,
            in_channels: channels,
            input: [1, size, size],
            out_channels: channels,
            kernel: [1, kernel, kernel],
            stride: [1, stride, stride],
            padding: [0, padding, padding],
            dilation: [1; 3],
            groups: channels,
            output_padding: [0; 3],
            transposed: false,
        };
        let geometry = Depthwise {
            batch: 1,
            channels,
            input: [size; 2],
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [padding; 4],
            dilation: [1; 2],
        };
        let [height, width] = geometry.output().expect("a convolution");
        let flops = (2 * height * width * channels * kernel * kernel) as f64;
        let (mut input, weights) = (Aligned::new(size * size * channels, 0.5), vec![0.25; kernel * kernel * channels]);
        let mut output = Aligned::new(height * width * channels, 0.0);
        let (input, output) = (&*input.get(), RefCell::new(output.get()));
        let mut packed = vec![0.0; packed_len(channels, geometry.kernel)];
        pack(channels, geometry.kernel, &weights, None, &mut packed);
        let mut scratch = vec![0.0; conv_scratch(&plain, Layout::ChannelsLast, 1)];
        let operands = Operands { input, weight: &weights, bias: None };
        let then = [Then::Apply(Function::Clamp(0.0, 6.0))];
        let run = |par: &dyn Parallel| depthwise(isa, par, &geometry, input, &packed, &then, &mut output.borrow_mut());
        let seconds = best_seconds([
            &mut || {
                let (limits, output) = (Epilogue::Clamp(0.0, 6.0), &mut output.borrow_mut());
                conv(isa, &Serial, &plain, Layout::ChannelsLast, operands, limits, output, &mut scratch);
            },
            &mut || run(&Serial),
            &mut || run(&pool),
        ]);
        let [plain, packed, two] = seconds.map(|seconds| flops / seconds / 1e9);
        println!(
            "{channels:4} channels, {size:3} px, {kernel}x{kernel} /{stride}:  f32 plain {plain:5.1}  packed {packed:6.1} x{:.2}  two threads x{:.2}",
            packed / plain,
            two / packed
        );
    }
}
