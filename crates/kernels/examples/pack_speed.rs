//! How fast weights are packed, against copying them.
//!
//! Prints GB/s of filter read for a layer of each kind, on one thread, into memory that has been touched before. Each figure
//! is the best of many.
//!
//!     cargo run --release -p sconce-kernels --example pack_speed
use sconce_kernels::packed::int8::{self, Kind, Line};
use sconce_kernels::packed::{self, Conv2d, Filter};
use sconce_kernels::winograd::{self, Output};
use sconce_kernels::{Isa, Serial};
use std::time::Instant;

fn print(what: &str, bytes: usize, mut body: impl FnMut()) {
    let (start, mut best) = (Instant::now(), f64::MAX);
    while start.elapsed().as_secs_f64() < 0.5 {
        let burst = Instant::now();
        body();
        best = best.min(burst.elapsed().as_secs_f64());
    }
    println!("  {what:<40} {:7.2} GB/s", bytes as f64 / best / 1e9);
}

fn layer(isa: Isa, name: &str, conv: &Conv2d) {
    let count = conv.out_channels * conv.in_channels * conv.kernel[0] * conv.kernel[1];
    let floats: Vec<f32> = (0..count).map(|i| i as f32).collect();
    let bytes: Vec<i8> = (0..count).map(|i| i as i8).collect();
    let halves: Vec<u8> = (0..count / 2).map(|i| i as u8).collect();
    println!("{name}, {isa:?}");
    let mut copy = vec![1.0; count];
    print("copy of floats", 4 * count, || copy.copy_from_slice(&floats));
    let mut to = vec![1.0; packed::packed_len(isa, conv)];
    print("floats", 4 * count, || packed::pack(isa, &Serial, conv, Filter::Rows(&floats), None, &mut to));
    print("floats in columns", 4 * count, || packed::pack(isa, &Serial, conv, Filter::Columns(&floats), None, &mut to));
    if winograd::applies(conv) {
        for output in [Output::Two, Output::Four] {
            let mut to = vec![1.0; winograd::packed_len(isa, conv, output)];
            let name = format!("floats for Winograd's method, {output:?}");
            print(&name, 4 * count, || winograd::pack(isa, &Serial, conv, output, &floats, &mut to));
        }
    }
    let mut to = vec![Line::default(); int8::packed_len(isa, conv, Kind::Bytes)];
    print("bytes", count, || int8::pack(isa, &Serial, conv, Filter::Rows(&bytes), None, 3, &mut to));
    print("bytes in columns", count, || int8::pack(isa, &Serial, conv, Filter::Columns(&bytes), None, 3, &mut to));
    for kind in [Kind::Nibbles, Kind::Groups(32)] {
        let groups = if kind == Kind::Nibbles { 0 } else { count / 32 };
        let mut to = vec![Line::default(); int8::packed_len(isa, conv, kind)];
        let name = format!("{kind:?}");
        let scales = vec![0.5; groups];
        print(&name, count / 2, || int8::pack_nibbles(isa, &Serial, conv, kind, &halves, &scales, &mut to));
    }
}

fn main() {
    for isa in Isa::available() {
        layer(isa, "2048 to 1000, linear", &Conv2d::linear(1, 2048, 1000));
        let image = Conv2d { input: [7, 7], kernel: [3, 3], padding: [1; 4], ..Conv2d::linear(1, 512, 512) };
        layer(isa, "512 to 512, three by three", &image);
    }
}
