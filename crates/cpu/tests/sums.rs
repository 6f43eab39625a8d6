//! Sums, means and functions of bytes are those of XNNPACK, bit for bit: sums in whole numbers with factors of 21 bits and
//! halves rounded up, the others in numbers to which the zero is added before they are rounded to even.
mod support;

use sconce_cpu::{Options, Rounding};
use sconce_parallel::{Parallel, Pool, Serial};
use support::{NOTHING, bytes, graph};

const SCALES: [f32; 3] = [0.030442936, 0.0012981, 0.030357271];
const ZEROS: [i32; 3] = [-1, 4, 0];

/// The result, in words: each factor is a multiple of 2^-20 (the larger one is between 1 and 2), the sum is rounded to the
/// nearest whole number, halves up.
fn expected(a: i8, b: i8, sign: f64) -> i8 {
    let unit = f64::from(1 << 20);
    let factor = |index: usize| (f64::from(SCALES[index] / SCALES[2]) * unit).round_ties_even();
    let steps = |byte: i8, index: usize| f64::from(i32::from(byte) - ZEROS[index]) * factor(index);
    let sum = (steps(a, 0) + sign * steps(b, 1)) / unit;
    ((sum + 0.5).floor() + f64::from(ZEROS[2])).clamp(-128.0, 127.0) as i8
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn sums_of_bytes_are_those_of_whole_numbers() {
    // Sizes of the operands, and the place in the second for a place in the result.
    type Place = fn(usize) -> usize;
    let cases: [(&[usize], &[usize], Place); 5] = [
        (&[40, 50, 37], &[40, 50, 37], |i| i),
        (&[40, 50, 37], &[50, 37], |i| i % (50 * 37)),
        (&[40, 50, 37], &[40, 1, 37], |i| i / (50 * 37) * 37 + i % 37),
        (&[40, 50, 37], &[40, 50, 1], |i| i / 37),
        (&[40, 50, 37], &[], |_| 0),
    ];
    for (large, small, place) in cases {
        for (name, sign) in [("add", 1.0), ("subtract", -1.0)] {
            let element = |index: usize| format!("q8{{scale: {}, zero: {}}}", SCALES[index], ZEROS[index]);
            let text = format!(
                "%0: {}[{large}] = input\n%1: {}[{}] = input\n%2: {}[{large}] = {name} %0, %1\noutput %2\n",
                element(0),
                element(1),
                list(small),
                element(2),
                large = list(large),
            );
            let inputs = [bytes(7, large.iter().product()), bytes(1000, small.iter().product())];
            for par in [&Serial as &dyn Parallel, &Pool::new(2).lease()] {
                let (mut results, _) =
                    support::run(graph(&text), Options::default(), &NOTHING, par, &[&inputs[0], &inputs[1]]);
                let output = results.swap_remove(0);
                for (i, found) in output.into_iter().enumerate() {
                    let (a, b) = (inputs[0][i].cast_signed(), inputs[1][place(i)].cast_signed());
                    assert_eq!(found.cast_signed(), expected(a, b, sign), "{name} {small:?} at {i}: {a} and {b}");
                }
            }
        }
    }
}

/// What a graph of one input makes of bytes.
fn run(text: &str, input: &[u8], rounding: Rounding) -> Vec<i8> {
    let options = Options { rounding, ..Options::default() };
    let (mut results, _) = support::run(graph(text), options, &NOTHING, &Serial, &[input]);
    results.swap_remove(0).into_iter().map(u8::cast_signed).collect()
}

/// Halves: 26.5, -2.5 and -11.5 with a zero of 3 are 29.5, 0.5 and -8.5.
#[test]
fn the_zero_decides_where_halves_go() {
    let mean = "%0: q8{scale: 0.5, zero: 3}[1, 2, 3] = input\n%1: q8{scale: 0.5, zero: 3}[1, 1, 3] = reduce %0 {of: mean, axes: [1], keep: true}\noutput %1\n";
    let bytes = [29, 0, -8, 30, 1, -9].map(|byte: i8| byte.cast_unsigned());
    let found = |rounding| run(mean, &bytes, rounding);
    assert_eq!(found(Rounding::Xnnpack), [30, 0, -8]);
    assert_eq!(found(Rounding::PyTorch), [29, 1, -9]);
    let limited = "%0: q8{scale: 0.5, zero: 0}[1, 3] = input\n%1: q8{scale: 1, zero: 3}[1, 3] = clamp %0 {low: -9, high: inf}\noutput %1\n";
    let bytes = [53, -5, -23].map(|byte: i8| byte.cast_unsigned());
    let found = |rounding| run(limited, &bytes, rounding);
    assert_eq!(found(Rounding::Xnnpack), [30, 0, -6]);
    assert_eq!(found(Rounding::PyTorch), [29, 1, -6]);
}
