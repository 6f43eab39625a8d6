//! Values that are written straight into a concat are what they are by themselves.
//!
//! Every graph runs twice: as it is, and with all parts returned as well, so that each has to be a value of its own.
mod support;

use sconce_cpu::Options;
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, graph, sets};

/// A graph, its parts and its results; how many concats are left with how many steps that write into another value.
struct Case {
    what: &'static str,
    text: &'static str,
    parts: &'static str,
    results: &'static str,
    left: (usize, usize),
}

/// The results, which come last, and what the steps do.
fn run(
    case: &Case,
    parts: bool,
    weights: &Weights,
    options: Options,
    par: &dyn Parallel,
) -> (Vec<Vec<u8>>, Vec<String>) {
    let outputs = if parts { format!("{}, {}", case.parts, case.results) } else { case.results.to_owned() };
    let graph = graph(&format!("{}output {outputs}\n", case.text));
    let source = &weights.named(if case.text.contains("q8") { "bytes" } else { "numbers" })[4096..];
    let inputs = vec![source; graph.inputs.len()];
    let (mut found, steps) = support::run(graph, options, weights, par, &inputs);
    let first = found.len() - case.results.split(',').count();
    (found.split_off(first), steps)
}

fn check(case: &Case, options: Options) {
    let (weights, threads) = (Weights::mixed(), Pool::new(2));
    let pool = threads.lease();
    for (set, options) in sets(options) {
        for par in [&Serial as &dyn Parallel, &pool] {
            let (expected, _) = run(case, true, &weights, options, par);
            let (found, steps) = run(case, false, &weights, options, par);
            let count = |words: &str| steps.iter().filter(|step| step.contains(words)).count();
            assert_eq!((count("side by side"), count(", into %")), case.left, "{}: {steps:#?}", case.what);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.len(), expected.len());
                let alike = match case.text.contains("q8") {
                    true => found == expected,
                    false => found.chunks_exact(4).zip(expected.chunks_exact(4)).all(|(a, b)| near(a, b)),
                };
                assert!(alike, "{}, {set}, {} threads: {steps:#?}", case.what, par.width());
            }
        }
    }
}

/// Whether two numbers differ by rounding at most: functions of short runs may round otherwise than those of long ones.
fn near(a: &[u8], b: &[u8]) -> bool {
    let [a, b] = [a, b].map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    (a - b).abs() <= 1e-5 * b.abs().max(1.0)
}

/// `{stride: [1, 1], ...}` of a convolution, where texts say `PLAIN` for a pixelwise one and `SAME` for one of three by three.
const PLAIN: &str = "{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}";
const SAME: &str = "{stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1}";

fn check_all(cases: &[Case], options: Options) {
    for case in cases {
        let text = case.text.replace("PLAIN", PLAIN).replace("SAME", SAME);
        check(&Case { text: text.leak(), ..*case }, options);
    }
}

#[test]
fn products_write_into_concats() {
    let cases = [
        Case {
            what: "limits in registers, functions after them, residuals before and after",
            text: "%0: float32[2, 9, 7, 5] = input
%1: float32[7, 1, 1, 5] = constant \"a\"
%2: float32[19, 3, 3, 5] = constant \"b\"
%3: float32[19] = constant \"c\"
%4: float32[2, 9, 7, 19] = input
%5: float32[2, 9, 7, 7] = conv2d %0, %1 PLAIN then clamp {low: 0, high: 1}
%6: float32[2, 9, 7, 19] = conv2d %0, %2, %3 SAME then silu, add %4
%7: float32[2, 9, 7, 19] = conv2d %0, %2, %3 SAME then add %4, clamp {low: -1, high: 1}, multiply %4
%8: float32[2, 9, 7, 45] = concat %5, %6, %7 {axis: 3}
%9: float32[2, 9, 7, 45] = tanh %8
",
            parts: "%5, %6, %7",
            results: "%8, %9",
            left: (0, 3),
        },
        Case {
            what: "groups, and a concat that is not returned",
            text: "%0: float32[1, 6, 6, 8] = input
%1: float32[20, 3, 3, 2] = constant \"a\"
%2: float32[1, 1, 1, 8] = constant \"b\"
%3: float32[1, 6, 6, 20] = conv2d %0, %1 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 4} then hard_swish
%4: float32[1, 6, 6, 8] = depthwise_conv2d %0, %2 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1]} then silu
%5: float32[1, 6, 6, 28] = concat %3, %4 {axis: 3}
%6: float32[1, 6, 6, 28] = tanh %5
",
            parts: "%3, %4, %5",
            results: "%6",
            left: (0, 2),
        },
        Case {
            what: "a gate",
            text: "%0: float32[1, 6, 6, 8] = input
%1: float32[1, 1, 1, 8] = input
%2: float32[20, 1, 1, 8] = constant \"a\"
%3: float32[1, 6, 6, 8] = multiply %0, %1
%4: float32[1, 6, 6, 20] = conv2d %3, %2 PLAIN then silu
%5: float32[1, 6, 6, 28] = concat %0, %4 {axis: 3}
",
            parts: "%4",
            results: "%5",
            left: (1, 1),
        },
    ];
    check_all(&cases, Options { exact: true, ..Options::default() });
}

#[test]
fn winograd_writes_into_concats() {
    let case = Case {
        what: "tiles that end beyond the image",
        text: "%0: float32[1, 21, 19, 32] = input
%1: float32[40, 3, 3, 32] = constant \"a\"
%2: float32[1, 21, 19, 40] = input
%3: float32[1, 21, 19, 40] = conv2d %0, %1 SAME then silu, add %2
%4: float32[1, 21, 19, 40] = conv2d %0, %1 SAME then add %2, clamp {low: 0, high: inf}
%5: float32[1, 21, 19, 80] = concat %3, %4 {axis: 3}
",
        parts: "%3, %4",
        results: "%5",
        left: (0, 2),
    };
    check_all(&[case], Options::default());
}

#[test]
fn images_write_into_concats() {
    let cases = [
        Case {
            what: "windows, nearest pixels, a transpose and a slice",
            text: "%0: float32[1, 8, 6, 5] = input
%1: float32[1, 4, 3, 5] = max_pool2d %0 {kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0], dilation: [1, 1]}
%2: float32[1, 8, 6, 5] = resize_nearest %1 {size: [8, 6]}
%3: float32[1, 8, 6, 5] = avg_pool2d %0 {kernel: [3, 3], stride: [1, 1], padding: [1, 1, 1, 1]}
%4: float32[1, 6, 8, 5] = input
%5: float32[1, 8, 6, 5] = transpose %4 {order: [0, 2, 1, 3]}
%6: float32[1, 8, 6, 2] = slice %0 {starts: [0, 0, 0, 3], sizes: [1, 8, 6, 2]}
%7: float32[1, 8, 6, 22] = concat %2, %3, %5, %0, %6 {axis: 3}
",
            parts: "%2, %3, %5, %6",
            results: "%7",
            left: (1, 4),
        },
        Case {
            what: "a pool that reads one part and writes another would write over it",
            text: "%0: float32[1, 8, 6, 5] = input
%1: float32[1, 8, 6, 5] = max_pool2d %0 {kernel: [3, 3], stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%2: float32[1, 8, 6, 5] = max_pool2d %1 {kernel: [3, 3], stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%3: float32[1, 8, 6, 5] = max_pool2d %2 {kernel: [3, 3], stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%4: float32[1, 8, 6, 15] = concat %1, %2, %3 {axis: 3}
",
            parts: "%1, %2, %3",
            results: "%4",
            left: (1, 2),
        },
    ];
    check_all(&cases, Options::default());
}

#[test]
fn strips_write_into_concats() {
    let case = Case {
        what: "the last of a chain writes, the first of another reads",
        text: "%0: float32[1, 61, 70, 8] = input
%1: float32[48, 3, 3, 8] = constant \"a\"
%2: float32[48] = constant \"b\"
%3: float32[1, 61, 70, 48] = conv2d %0, %1, %2 SAME then hard_swish
%4: float32[1, 3, 3, 48] = constant \"c\"
%5: float32[1, 61, 70, 48] = depthwise_conv2d %3, %4 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]} then silu
%6: float32[21, 1, 1, 48] = constant \"d\"
%7: float32[1, 61, 70, 21] = input
%8: float32[1, 61, 70, 21] = conv2d %5, %6 PLAIN then silu, add %7
%9: float32[1, 61, 70, 29] = concat %0, %8 {axis: 3}
%10: float32[48, 1, 1, 21] = constant \"e\"
%11: float32[1, 61, 70, 48] = conv2d %8, %10 PLAIN then silu
%12: float32[1, 61, 70, 48] = depthwise_conv2d %11, %4 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
",
        parts: "%3, %5, %8, %11",
        results: "%9, %12",
        left: (1, 1),
    };
    check_all(&[case], Options { exact: true, ..Options::default() });
}

#[test]
fn bytes_are_written_into_concats() {
    let text = "@0 = \"scales\"
%0: q8{scale: 0.03, zero: 4}[1, 9, 7, 24] = input
%1: q8{axis: 0, scales: @0, zero: 0}[37, 1, 1, 24] = constant \"bytes\"
%2: q32{axis: 0, scales: @0, zero: 0}[37] = constant \"bias\"
%3: q8{scale: 0.2, zero: -5}[1, 9, 7, 37] = conv2d %0, %1, %2 PLAIN
%4: q8{axis: 3, scales: @0, zero: 0}[1, 3, 3, 24] = constant \"bytes\"
%5: q8{scale: 0.2, zero: -5}[1, 9, 7, 24] = depthwise_conv2d %0, %4 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%6: q8{axis: 0, scales: @0, zero: 0}[24, 3, 3, 24] = constant \"bytes\"
%7: q8{scale: 0.3, zero: 5}[1, 9, 7, 24] = conv2d %0, %6 SAME
%8: q8{scale: 0.2, zero: -5}[1, 9, 7, 24] = add %7, %0
%9: q8{scale: 0.25, zero: 1}[1, 9, 7, 24] = conv2d %0, %6 SAME
%10: q8{scale: 0.2, zero: -5}[1, 9, 7, 24] = hard_swish %9
%11: q8{scale: 0.2, zero: -5}[1, 9, 7, 24] = max_pool2d %8 {kernel: [3, 3], stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%12: q8{scale: 0.2, zero: -5}[1, 9, 7, 109] = concat %3, %5, %10, %11 {axis: 3}
";
    let case = Case {
        what: "products, one with a table, and the largest",
        text,
        parts: "%3, %5, %10, %11",
        results: "%12",
        left: (0, 4),
    };
    check_all(&[case], Options::default());
}

#[test]
fn concats_write_into_concats() {
    let cases = [
        Case {
            what: "each in the next, read in between by steps that read pixels apart",
            text: "%0: float32[1, 9, 7, 5] = input
%1: float32[6, 1, 1, 5] = constant \"a\"
%2: float32[1, 9, 7, 6] = conv2d %0, %1 PLAIN then clamp {low: 0, high: inf}
%3: float32[1, 9, 7, 11] = concat %0, %2 {axis: 3}
%4: float32[1, 1, 1, 11] = constant \"b\"
%5: float32[1, 9, 7, 11] = depthwise_conv2d %3, %4 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1]} then clamp {low: 0, high: inf}
%6: float32[6, 3, 3, 11] = constant \"c\"
%7: float32[1, 9, 7, 6] = conv2d %5, %6 SAME
%8: float32[1, 9, 7, 17] = concat %3, %7 {axis: 3}
%9: float32[3, 1, 1, 17] = constant \"d\"
%10: float32[1, 9, 7, 3] = conv2d %8, %9 PLAIN
%11: float32[1, 9, 7, 20] = concat %8, %10 {axis: 3}
",
            parts: "%2, %3, %7, %8, %10",
            results: "%11",
            // The input is copied to the innermost; the last product would read what it writes into.
            left: (2, 3),
        },
        Case {
            what: "a part of two, and one that is there twice",
            text: "%0: float32[1, 9, 7, 5] = input
%1: float32[6, 1, 1, 5] = constant \"a\"
%2: float32[1, 9, 7, 6] = conv2d %0, %1 PLAIN
%3: float32[1, 9, 7, 6] = conv2d %0, %1 PLAIN then silu
%4: float32[1, 9, 7, 12] = concat %2, %3 {axis: 3}
%5: float32[1, 9, 7, 6] = conv2d %0, %1 PLAIN then tanh
%6: float32[1, 9, 7, 24] = concat %5, %2, %2, %3 {axis: 3}
",
            parts: "%2, %3, %5",
            results: "%4, %6",
            // Each lies in one, where the other reads it.
            left: (2, 3),
        },
    ];
    check_all(&cases, Options { exact: true, ..Options::default() });
}

#[test]
fn contiguous_parts_are_for_everybody() {
    let cases = [
        Case {
            what: "parts that read each other, along the first dimension",
            text: "%0: float32[1, 9, 7] = input
%1: float32[1, 9, 7] = sin %0
%2: float32[1, 9, 7] = add %1, %0
%3: float32[1, 9, 7] = softmax %2
%4: float32[3, 9, 7] = concat %1, %2, %3 {axis: 0}
%5: float32[3, 9, 7] = exp %4
",
            parts: "%1, %2, %3",
            results: "%5",
            left: (0, 3),
        },
        Case {
            what: "one whose turns are not those of the other",
            text: "%0: float32[4, 3, 5] = input
%1: float32[2, 3, 5] = slice %0 {starts: [0, 0, 0], sizes: [2, 3, 5]}
%2: float32[2, 3, 5] = slice %0 {starts: [2, 0, 0], sizes: [2, 3, 5]}
%3: float32[4, 3, 5] = concat %2, %1 {axis: 0}
%4: float32[4, 3, 8] = input
%5: float32[4, 3, 13] = concat %4, %3 {axis: 2}
",
            parts: "%1, %2, %3",
            results: "%5",
            left: (1, 2),
        },
        Case {
            what: "a reshape in between",
            text: "%0: float32[1, 6, 4, 3] = input
%1: float32[1, 3, 6, 4] = transpose %0 {order: [0, 3, 1, 2]}
%2: float32[1, 3, 24] = reshape %1 {sizes: [1, 3, 24]}
%3: float32[1, 5, 2, 3] = input
%4: float32[1, 3, 5, 2] = transpose %3 {order: [0, 3, 1, 2]}
%5: float32[1, 3, 10] = reshape %4 {sizes: [1, 3, 10]}
%6: float32[1, 3, 34] = concat %2, %5 {axis: 2}
",
            parts: "%1, %4",
            results: "%6",
            left: (0, 2),
        },
    ];
    check_all(&cases, Options::default());
}
