//! How fast copies with strides move, beside a plain copy of the same size.
use sconce_kernels::copy::{Copy, copy};
use sconce_kernels::{Isa, Serial};
use std::time::Instant;

fn best(mut run: impl FnMut()) -> f64 {
    (0..30)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    for (rows, columns) in [(1000usize, 1024usize), (1024, 576), (512, 1000), (384, 384), (3136, 64), (64, 3136)] {
        let (from, mut to) = (vec![1u8; rows * columns * 4], vec![0u8; rows * columns * 4]);
        let transpose = Copy { shape: &[columns, rows], from_strides: &[1, columns], to_strides: &[rows, 1] };
        let plain = best(|| to.copy_from_slice(&from));
        let moved = best(|| copy(Isa::detect(), &Serial, 4, &transpose, &from, &mut to));
        let each = |seconds: f64| seconds * 1e9 / (rows * columns) as f64;
        println!("{rows} x {columns}: transposed {:.2} ns per element, copied {:.2}", each(moved), each(plain));
    }
}
