//! Reductions in plans: sums are sums, in floats and in bytes.
mod support;

use sconce_cpu::Options;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{NOTHING, graph, to_bytes};

fn run(text: &str, input: &[u8], par: &dyn Parallel) -> Vec<u8> {
    support::run(graph(text), Options::default(), &NOTHING, par, &[input]).0.swap_remove(0)
}

fn floats(text: &str, input: &[f32], par: &dyn Parallel) -> Vec<f32> {
    support::floats(&run(text, &to_bytes(input), par))
}

/// 31 / 7 times 7 is less than 31 in floats.
#[test]
fn sums_of_whole_numbers_are_whole() {
    let text = "%0: float32[600, 7] = input
%1: float32[600, 1] = reduce %0 {of: sum, axes: [1], keep: true}
%2: float32[600, 1] = floor %1
output %2
";
    let x: Vec<f32> = (0..600 * 7).map(|i| if i % 7 == 0 { (i / 7) as f32 } else { 0.0 }).collect();
    let expected: Vec<f32> = (0..600u16).map(f32::from).collect();
    for par in [&Serial as &dyn Parallel, &Pool::new(2).lease()] {
        assert_eq!(floats(text, &x, par), expected);
    }
}

/// What follows a sum is as long as what follows other steps.
#[test]
fn four_functions_follow_a_sum() {
    let text = "%0: float32[2, 3] = input
%1: float32[2] = reduce %0 {of: sum, axes: [1], keep: false}
%2: float32[2] = plus %1 {value: 0.5}
%3: float32[2] = floor %2
%4: float32[2] = negate %3
%5: float32[2] = square %4
output %5
";
    assert_eq!(floats(text, &[1.0, 2.0, 3.0, -1.0, -1.0, 4.25], &Serial), [36.0, 4.0]);
}

/// The largest and the smallest; NaN wins both.
#[test]
fn extremes_see_what_is_not_a_number() {
    for (of, expected) in [("maximum", [3.0, f32::NAN]), ("minimum", [-2.0, f32::NAN])] {
        let text = format!(
            "%0: float32[2, 3] = input\n%1: float32[2, 1] = reduce %0 {{of: {of}, axes: [1], keep: true}}\noutput %1\n"
        );
        let found = floats(&text, &[3.0, -2.0, 0.0, 1.0, f32::NAN, 2.0], &Serial);
        assert!(found[0] == expected[0] && found[1].is_nan(), "{of}: {found:?}");
    }
}

/// Sums of bytes are whole numbers until they get their scale. Halves of 9 and 21 less 3 are then as near to one byte as to
/// the next, and the even one is taken; a seventh times seven would be nearer to the other.
#[test]
fn sums_of_bytes_are_exact() {
    let text = "%0: q8{scale: 1, zero: 2}[2, 7] = input
%1: q8{scale: 2, zero: -3}[2, 1] = reduce %0 {of: sum, axes: [1], keep: true}
output %1
";
    // Less their zero, one row is 9 and the other 20 and 1; the rest is zeros.
    let mut x = [2; 14];
    (x[0], x[7], x[8]) = (9 + 2, 20 + 2, 1 + 2);
    let expected = [2, 8];
    assert_eq!(run(text, &x, &Serial), expected);
}
