//! Reductions in plans: sums are sums, in floats and in bytes.
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Constants, Source, parse};
use sconce_parallel::{Parallel, Pool, Serial};

struct Nothing;

impl Constants for Nothing {
    fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
        None
    }
}

fn run(text: &str, sizes: &[usize], input: &[u8], par: &dyn Parallel) -> Vec<u8> {
    let model = Model::new(parse(text).unwrap(), Options::default(), &Nothing).unwrap();
    let plan = model.plan(&[sizes], par.width()).unwrap();
    let mut result = vec![7; plan.argument_bytes().1[0]];
    model.run(&plan, &mut Session::default(), par, &Nothing, &[input], &mut [&mut result]).unwrap();
    result
}

fn floats(text: &str, sizes: &[usize], input: &[f32], par: &dyn Parallel) -> Vec<f32> {
    let input: Vec<u8> = input.iter().flat_map(|number| number.to_le_bytes()).collect();
    run(text, sizes, &input, par).as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
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
    for par in [&Serial as &dyn Parallel, &Pool::new(2)] {
        assert_eq!(floats(text, &[600, 7], &x, par), expected);
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
    assert_eq!(floats(text, &[2, 3], &[1.0, 2.0, 3.0, -1.0, -1.0, 4.25], &Serial), [36.0, 4.0]);
}

/// The largest and the smallest; NaN wins both.
#[test]
fn extremes_see_what_is_not_a_number() {
    for (of, expected) in [("maximum", [3.0, f32::NAN]), ("minimum", [-2.0, f32::NAN])] {
        let text = format!(
            "%0: float32[2, 3] = input\n%1: float32[2, 1] = reduce %0 {{of: {of}, axes: [1], keep: true}}\noutput %1\n"
        );
        let found = floats(&text, &[2, 3], &[3.0, -2.0, 0.0, 1.0, f32::NAN, 2.0], &Serial);
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
    assert_eq!(run(text, &[2, 7], &x, &Serial), expected);
}
