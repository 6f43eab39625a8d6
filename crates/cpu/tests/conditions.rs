//! Bools in plans: comparisons, their opposites, rows with any of them, and what they choose.
mod support;

use sconce_cpu::Options;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{NOTHING, floats, graph, to_bytes};

fn run(text: &str, input: &[f32], par: &dyn Parallel) -> Vec<Vec<u8>> {
    support::run(graph(text), Options::default(), &NOTHING, par, &[&to_bytes(input)]).0
}

#[test]
fn numbers_are_compared() {
    let x = [f32::NEG_INFINITY, -1.0, 0.0, 1.0, f32::NAN];
    for (how, expected) in [
        ("equal", [0, 0, 1, 0, 0]),
        ("not_equal", [1, 1, 0, 1, 1]),
        ("less", [1, 1, 0, 0, 0]),
        ("less_equal", [1, 1, 1, 0, 0]),
        ("greater", [0, 0, 0, 1, 0]),
        ("greater_equal", [0, 0, 1, 1, 0]),
    ] {
        let text = format!(
            "%0: float32[5] = input\n%1: bool[5] = compare %0 {{how: {how}, value: 0}}\n%2: bool[5] = not %1\noutput %1, %2\n"
        );
        let results = run(&text, &x, &Serial);
        assert_eq!(results[0], expected, "{how}");
        assert_eq!(results[1], expected.map(|bool| 1 - bool), "{how}");
    }
}

#[test]
fn rows_choose() {
    // Rows that have a negative number are doubled, others become nines; then one is added.
    let text = "%0: float32[600, 70] = input
%1: bool[600, 70] = compare %0 {how: less, value: 0}
%2: bool[600, 1] = any %1
%3: float32[600, 70] = times %0 {value: 2}
%4: float32[600, 70] = fill %0 {value: 9}
%5: float32[600, 70] = select %2, %3, %4
%6: float32[600, 70] = plus %5 {value: 1}
output %6
";
    let negative = |row: usize| row.is_multiple_of(3);
    let number = |i: usize| if negative(i / 70) && i % 70 == 69 { -0.5 } else { (i % 13) as f32 };
    let x: Vec<f32> = (0..600 * 70).map(number).collect();
    for par in [&Serial as &dyn Parallel, &Pool::new(2).lease()] {
        let found = floats(&run(text, &x, par)[0]);
        for (i, (found, x)) in found.iter().zip(&x).enumerate() {
            let expected = if negative(i / 70) { 2.0 * x + 1.0 } else { 10.0 };
            assert_eq!(*found, expected, "{i}");
        }
    }
}

#[test]
fn only_rows_without_numbers_become_zeros() {
    let text = "%0: float32[3, 2] = input\n%1: float32[3, 2] = safe_softmax %0\noutput %1\n";
    let low = f32::NEG_INFINITY;
    let found = floats(&run(text, &[low, low, low, 1.0, f32::NAN, low], &Serial)[0]);
    assert_eq!(found[..4], [0.0, 0.0, 0.0, 1.0]);
    assert!(found[4..].iter().all(|x| x.is_nan()));
}
