//! How fast depthwise convolutions of known networks are, channels last.
//!
//! Prints GFLOP/s per layer for the plain operator and for the packed kernels, in turns, so that both see the same
//! machine; then the packed kernels on two threads. Each figure is the best of many short bursts.
//!
//!     cargo run --release -p sconce-kernels --example depthwise_peak
use sconce_kernels::bytes::Tail;
use sconce_kernels::conv::{Conv, Layout, Operands, conv, conv_scratch};
use sconce_kernels::depthwise::{Depthwise, depthwise, int8, pack, packed_len};
use sconce_kernels::epilogue::{Function, Then};
use sconce_kernels::gemm::Epilogue;
use sconce_kernels::{Isa, Parallel, Serial};
use std::cell::RefCell;
use std::time::Instant;

/// The shortest time of each body, called in turns for about a third of a second.
fn best_seconds<const N: usize>(mut bodies: [&mut dyn FnMut(); N]) -> [f64; N] {
    let (start, mut best) = (Instant::now(), [f64::MAX; N]);
    while start.elapsed().as_secs_f64() < 0.3 {
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

/// GFLOP/s of the plain operator, of the packed kernels, and of those on two threads.
fn floats(isa: Isa, pool: &dyn Parallel, g: &Depthwise) -> [f64; 3] {
    let ([height, width], [kernel, _]) = (g.output().expect("a convolution"), g.kernel);
    let plain = Conv {
        batch: 1,
        in_channels: g.channels,
        input: [1, g.input[0], g.input[1]],
        out_channels: g.channels,
        kernel: [1, kernel, kernel],
        stride: [1, g.stride[0], g.stride[1]],
        padding: [0, g.padding[0], g.padding[1]],
        dilation: [1; 3],
        groups: g.channels,
        output_padding: [0; 3],
        transposed: false,
    };
    let mut input = Aligned::new(g.input[0] * g.input[1] * g.channels, 0.5);
    let mut output = Aligned::new(height * width * g.channels, 0.0);
    let (input, output) = (&*input.get(), RefCell::new(output.get()));
    let weights = vec![0.25; kernel * kernel * g.channels];
    let mut packed = vec![0.0; packed_len(g.channels, g.kernel)];
    pack(g.channels, g.kernel, &weights, None, &mut packed);
    let mut scratch = vec![0.0; conv_scratch(&plain, Layout::ChannelsLast, 1)];
    let operands = Operands { input, weight: &weights, bias: None };
    let then = [Then::Apply(Function::Clamp(0.0, 6.0))];
    let run = |par: &dyn Parallel| {
        depthwise(isa, par, g, (input, g.channels), &packed, &then, (&mut output.borrow_mut(), g.channels))
    };
    best_seconds([
        &mut || {
            let (limits, output) = (Epilogue::Clamp(0.0, 6.0), &mut output.borrow_mut());
            conv(isa, &Serial, &plain, Layout::ChannelsLast, operands, limits, output, &mut scratch);
        },
        &mut || run(&Serial),
        &mut || run(pool),
    ])
}

/// The same for bytes: the plain path, and that of the instruction set on one thread and on two.
fn bytes(isa: Isa, pool: &dyn Parallel, g: &Depthwise) -> [f64; 3] {
    let [height, width] = g.output().expect("a convolution");
    let input = vec![3; g.input[0] * g.input[1] * g.channels];
    let output = RefCell::new(vec![0; height * width * g.channels]);
    let (weights, scale) = (vec![5; g.kernel[0] * g.kernel[1] * g.channels], vec![0.01; g.channels]);
    let weights = int8::Weights { weights: &weights, bias: None, scale: &scale };
    let quantization =
        int8::Quantization { input_zero: 1, output_zero: -3, limits: (-128, 127), unsigned: int8::Unsigned::default() };
    let packed = |isa: Isa| {
        let mut packed = vec![0; int8::packed_len(isa, g)];
        int8::pack(isa, g, weights, quantization.input_zero, &mut packed);
        packed
    };
    let has_dots = |isa: &Isa| matches!(isa, Isa::Vnni(_) | Isa::Dotprod(_) | Isa::I8mm(_));
    let plain_isa = Isa::available().filter(|isa| !has_dots(isa)).last().unwrap_or(Isa::Scalar);
    let (plain, fast) = (packed(plain_isa), packed(isa));
    let run = |isa: Isa, par: &dyn Parallel, packed: &[i32]| {
        let (how, mut output) = ((quantization, Tail::Nothing), output.borrow_mut());
        int8::depthwise(isa, par, g, (&input, g.channels), packed, how, (&mut output, g.channels));
    };
    best_seconds([&mut || run(plain_isa, &Serial, &plain), &mut || run(isa, &Serial, &fast), &mut || {
        run(isa, pool, &fast)
    }])
}

fn main() {
    let isa = Isa::detect();
    let threads = sconce_parallel::Pool::new(2);
    let pool = threads.lease();
    println!("{isa:?}, GFLOP/s");
    for (channels, size, kernel, stride) in LAYERS {
        let g = Depthwise {
            batch: 1,
            channels,
            input: [size; 2],
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [kernel / 2; 4],
            dilation: [1; 2],
        };
        let [height, width] = g.output().expect("a convolution");
        let flops = (2 * height * width * channels * kernel * kernel) as f64;
        print!("{channels:4} channels, {size:3} px, {kernel}x{kernel} /{stride}:");
        for (name, seconds) in [("f32", floats(isa, &pool, &g)), ("int8", bytes(isa, &pool, &g))] {
            let [plain, packed, two] = seconds.map(|seconds| flops / seconds / 1e9);
            let (gain, threads) = (packed / plain, two / packed);
            print!("   {name} plain {plain:5.1}  fast {packed:6.1} x{gain:.2}  two threads x{threads:.2}");
        }
        println!();
    }
}
