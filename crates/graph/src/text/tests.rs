//! Text to graph and back.

use crate::{Source, parse, verify};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// One statement of every kind.
const EVERYTHING: &str = r#"%0: float32[1, 8, 8, 4] = input
%1: float32[n <= 16, 4] = input
@1 = "scales"
%2: q8{axis: 0, scales: @1, zero: 0}[16, 3, 3, 4] = constant "filter"
%3: float32[16] = constant 16..80
%4: float32[1, 4, 4, 16] = conv2d %0, %2, %3 {stride: [2, 2], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then hard_swish
%5: float32[1, 4, 4, 16] = conv2d %0, %2 {stride: [2, 2], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1} then add %4, clamp {low: 0, high: inf}
%6: float32[1, 2, 2, 16], %7: int32[1, 2, 2, 16] = argmax_pool2d %5 {kernel: [2, 2], padding: [0, 0, 0, 0]}
%8: float32[1, 16] = reduce %6 {of: mean, axes: [1, 2], keep: false}
%9: q8{scale: 0.5, zero: -3}[1, 16] = convert %8
%10: q8{token: 1}[n <= 16, 4] = convert %1
@5 = [0, 0, 128, 63]
%11: q4{group: 2, scales: @5, zero: 8}[1, 4] = constant [16, 50]
%12: float32[n <= 16, 1] = linear %10, %11 {transposed: false}
%13: float32[n <= 16, 1] = leaky_relu %12 {slope: 0.1}
%14: float32[16, 4] = constant value 7 in order [1, 0]
%15: float32[n <= 16, 16] = linear %1, %14 {transposed: false}
%16: bool[n <= 16, 16] = compare %15 {how: equal, value: -inf}
%17: bool[n <= 16, 16] = not %16
%18: bool[n <= 16, 1] = any %17
%19: float32[n <= 16, 16] = fill %15 {value: 0}
%20: float32[n <= 16, 16] = select %18, %19, %15
%21: float32[n <= 16, 16] = safe_softmax %20
%22: float32[2, 9, 8] = constant "queries"
%23: float32[1, 9, 2, 8] = constant "keys"
%24: float32[9] = constant program 96..132
%25: float32[1, 9, 2, 8] = attention %22, %23, %23, %24 {scale: 0.5, safe: true, query: heads_first, key: positions_first, value: positions_first, result: positions_first, batch: true}
output %7, %9, %13, %21, %25
"#;

#[test]
fn every_statement_reads_back() {
    let graph = parse(EVERYTHING).unwrap();
    verify(&graph).unwrap();
    let once = graph.to_string();
    let again = parse(&once).unwrap();
    assert_eq!(graph, again);
    assert_eq!(once.lines().count(), EVERYTHING.lines().count());
    assert!(once.contains("then add %4, clamp {low: 0, high: inf}"), "{once}");
}

/// Names come from programs, and may be anything: of quotes, backslashes, spaces, signs that do not print, and others.
#[test]
fn every_name_reads_back() {
    const SIGNS: [char; 20] = [
        '"',
        '\'',
        '\\',
        'n',
        'u',
        '{',
        '}',
        '/',
        ' ',
        '\n',
        '\r',
        '\t',
        '\0',
        '\u{7f}',
        '\u{301}',
        '\u{2028}',
        '\u{feff}',
        'é',
        '日',
        '\u{1f600}',
    ];
    let mut state = 1u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    for _ in 0..2000 {
        let length = next(8);
        let name: String = (0..length).map(|_| SIGNS[next(20) as usize]).collect();
        let mut graph = parse("%0: float32[2] = constant \"w\" in order [0]\noutput %0\n").unwrap();
        graph.constants[0].source = Source::Named(name.as_str().into());
        let text = graph.to_string();
        assert_eq!(parse(&text).as_ref(), Ok(&graph), "{text}");
    }
}

#[test]
fn errors_name_line_and_place() {
    for (text, expected) in [
        ("%0: float32[4] = input\n%1: float32[4] = fly %0", "line 2: expected an operation, found 'fly'"),
        ("%0: float32[4] = abs %1", "line 1: expected a definition of %1 before this, found ''"),
        ("%0: float32[4 = input", "line 1: expected ',' or ']', found '= input'"),
        ("%0: float32[1] = input\n%0: float32[1] = input", "line 2: expected one definition only of %0, found ''"),
        ("%0: float32[1] = constant \"w", "line 1: expected a closing quote, found '\"w'"),
        ("%0: float32[1] = constant \"\\q\"", "line 1: expected names without such escapes, found '\"\\q\"'"),
        ("%0: float3[1] = input", "line 1: expected the name of an element type before this, found '[1] = input'"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_verifier_finds_what_is_wrong() {
    for (text, expected) in [
        ("%0: float32[4] = input\n%1: float32[5] = abs %0\noutput %1", "makes [[5]] where sizes [[4]] follow"),
        (
            "%0: float32[4] = input\n%1: float32[4] = softmax %0, %0\noutput %1",
            "does not take inputs of sizes [[4], [4]]",
        ),
        (
            "%0: float32[4] = input\n%1: float32[2, 2] = input\n%2: float32[4] = abs %0 then add %1\noutput %2",
            "not of the result's size [4]",
        ),
        (
            "%0: float32[2, 4] = input\n%1: q8{token: 1}[2, 4] = convert %0 then abs\noutput %1",
            "has further steps and makes q8{token: 1}[2, 4]",
        ),
        (
            "%0: float32[1] = input\n@0 = [0, 0, 128, 63]\n\
             %1: q8{axis: 0, scales: @0, zero: 0}[1] = convert %0 then abs\noutput %1",
            "has further steps and makes q8{axis: 0, scales: @0, zero: 0}[1]",
        ),
        ("%0: float32[4] = input\n%1: float32[4] = not %0\noutput %1", "has conditions that are no bools"),
        ("%0: float32[4] = input\n%1: float32[4] = select %0, %0, %0\noutput %1", "has conditions that are no bools"),
        ("%0: float32[2, 3] = constant \"w\" in order [1, 1]\noutput %0", "cannot be in the order given"),
        ("@0 = [0, 0, 128, 63]\n%0: q8{axis: 0, scales: @0, zero: 0}[2] = input\noutput %0", "has too few scales"),
    ] {
        let found = verify(&parse(text).unwrap()).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

/// Whatever the text says counts: every number of it that is changed gives another hash.
#[test]
fn graphs_that_differ_in_their_text_differ_in_their_hash() {
    let hash = |text: &str| {
        let mut hasher = DefaultHasher::new();
        parse(text).unwrap().hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(EVERYTHING), hash(EVERYTHING));
    let changes = [
        ("slope: 0.1", "slope: 0.2"),
        ("scale: 0.5", "scale: 0.25"),
        ("zero: -3", "zero: -2"),
        ("how: equal", "how: not_equal"),
        ("stride: [2, 2], padding: [1, 1, 1, 1]", "stride: [1, 1], padding: [0, 0, 0, 0]"),
        ("keep: false", "keep: true"),
        ("then hard_swish", "then hard_sigmoid"),
        ("then add %4", "then multiply %4"),
        ("\"filter\"", "\"filter2\""),
        ("constant 16..80", "constant 16..96"),
        ("constant value 7", "constant value 8"),
        ("constant program 96..132", "constant program 64..100"),
        ("n <= 16, 4] = input", "m <= 16, 4] = input"),
        ("safe_softmax", "softmax"),
        ("[16, 50]", "[16, 51]"),
    ];
    for (from, to) in changes {
        assert!(EVERYTHING.contains(from), "{from}");
        assert_ne!(hash(&EVERYTHING.replacen(from, to, 1)), hash(EVERYTHING), "{from} -> {to}");
    }
}
