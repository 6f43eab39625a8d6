//! What the functions that follow a product cost, in nanoseconds per sixteen numbers in the nearest cache: in place and from
//! one slice to another, for each instruction set. One that no longer vectorises stands out by a factor of a hundred.
//!
//!     cargo run --release -p sconce-kernels --example function_speed
use sconce_kernels::epilogue::Function;
use sconce_kernels::isa::Isa;
use std::time::Instant;

const FUNCTIONS: [Function; 11] = [
    Function::Exp,
    Function::Log,
    Function::Sin,
    Function::Cos,
    Function::Tanh,
    Function::Sigmoid,
    Function::Silu,
    Function::Gelu,
    Function::GeluTanh,
    Function::HardSwish,
    Function::Clamp(0.0, 6.0),
];
const NUMBERS: usize = 4096;
const ROUNDS: usize = 1000;

/// The fastest of some rounds, each over fresh numbers from 0 to 4.
fn nanoseconds(mut round: impl FnMut(&mut [f32])) -> f64 {
    let numbers: Vec<f32> = (0..NUMBERS).map(|i| (i * 7919 % NUMBERS) as f32 / 1024.0).collect();
    let fastest = (0..ROUNDS).map(|_| {
        let mut numbers = numbers.clone();
        let start = Instant::now();
        round(&mut numbers);
        start.elapsed().as_secs_f64()
    });
    fastest.fold(f64::MAX, f64::min) / (NUMBERS / 16) as f64 * 1e9
}

fn main() {
    println!("{:8} {:20} {:>9} {:>9}", "set", "function", "in place", "to");
    for isa in Isa::available() {
        let mut out = vec![0.0; NUMBERS];
        for function in FUNCTIONS {
            let in_place = nanoseconds(|numbers| function.apply(isa, numbers));
            let to = nanoseconds(|numbers| function.apply_to(isa, numbers, &mut out));
            println!("{:8} {:20} {in_place:9.2} {to:9.2}", isa.name(), format!("{function:?}"));
        }
    }
}
