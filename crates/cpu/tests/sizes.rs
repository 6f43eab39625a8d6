//! A graph runs with any sizes that its operations take, not only with those of its types: as the same graph does whose
//! types have exactly the sizes of the run, and whose values are all returned, so that nothing is done together.
mod support;

use sconce_cpu::{Model, Options};
use sconce_format::ScalarType;
use sconce_graph::{Dim, Element, Graph, Origin, infer, parse};
use sconce_parallel::{Parallel, Pool, Serial};
use support::{Weights, floats, run_sizes};

/// The sizes that letters stand for in the inputs of a graph; only those are written.
type Sizes = [(char, usize)];

/// Graphs with the bounds of their sizes. `PLAIN` and `SAME` are convolutions of one pixel and of three by three; `A`, `B` and
/// `C` are bytes with scales.
const GRAPHS: &[(&str, &Sizes, &str)] = &[
    (
        "convolutions with a sum",
        &[('N', 2), ('H', 9), ('W', 7)],
        "%0: float32[N, H, W, 4] = input
%1: float32[N, H, W, 16] = input
%2: float32[16, 3, 3, 4] = constant \"w\"
%3: float32[16] = constant \"b\"
%4: float32[] = conv2d %0, %2, %3 SAME
%5: float32[] = add %4, %1
%6: float32[] = clamp %5 {low: 0, high: 6}
%7: float32[16, 1, 1, 16] = constant \"v\"
%8: float32[] = conv2d %6, %7 PLAIN
%9: float32[] = multiply %8, %1
%10: float32[] = tanh %9
output %10",
    ),
    (
        "a grouped convolution, and one without a border",
        &[('N', 2), ('H', 8), ('W', 6)],
        "%0: float32[N, H, W, 8] = input
%1: float32[12, 1, 1, 4] = constant \"w\"
%2: float32[12] = constant \"b\"
%3: float32[] = conv2d %0, %1, %2 {stride: [2, 1], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 2}
%4: float32[6, 2, 2, 12] = constant \"v\"
%5: float32[] = conv2d %3, %4 {stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}
%6: float32[8, 3, 3, 6] = constant \"u\"
%7: float32[] = conv_transpose2d %5, %6 {stride: [2, 2], padding: [1, 1, 1, 1], dilation: [1, 1], groups: 1, extra: [1, 1]}
output %3, %7",
    ),
    (
        "one convolution for each channel, a gate and a product",
        &[('N', 1), ('H', 10), ('W', 9)],
        "%0: float32[N, H, W, 8] = input
%1: float32[1, 3, 3, 8] = constant \"w\"
%2: float32[] = depthwise_conv2d %0, %1 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%3: float32[] = reduce %2 {of: mean, axes: [1, 2], keep: true}
%4: float32[] = sigmoid %3
%5: float32[] = multiply %2, %4
%6: float32[24, 1, 1, 8] = constant \"v\"
%7: float32[] = conv2d %5, %6 PLAIN
%8: float32[] = add %7, %7
output %8",
    ),
    (
        "as many results for each channel as there are channels",
        &[('N', 2), ('H', 5), ('W', 5), ('C', 8)],
        "%0: float32[N, H, W, C] = input
%1: float32[1, 3, 3, 8] = constant \"w\"
%2: float32[] = depthwise_conv2d %0, %1 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
output %2",
    ),
    (
        "large images in strips",
        &[('N', 1), ('H', 70), ('W', 64)],
        "%0: float32[N, H, W, 4] = input
%1: float32[32, 3, 3, 4] = constant \"w\"
%2: float32[] = conv2d %0, %1 SAME
%3: float32[] = clamp %2 {low: 0, high: inf}
%4: float32[1, 3, 3, 32] = constant \"v\"
%5: float32[] = depthwise_conv2d %3, %4 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
%6: float32[8, 1, 1, 32] = constant \"u\"
%7: float32[] = conv2d %5, %6 PLAIN
output %7",
    ),
    (
        "a layer, a sum and a normalisation",
        &[('N', 5), ('M', 3)],
        "%0: float32[M, N, 24] = input
%1: float32[M, N, 40] = input
%2: float32[40, 24] = constant \"w\"
%3: float32[40] = constant \"b\"
%4: float32[] = linear %0, %2, %3 {transposed: false}
%5: float32[] = add %1, %4
%6: float32[] = gelu %5
%7: float32[40] = constant \"s\"
%8: float32[] = layer_norm %6, %7, %3 {dims: 1, epsilon: 0.00001}
%9: float32[] = softmax %8
%10: float32[] = reduce %9 {of: sum, axes: [1], keep: false}
output %8, %10",
    ),
    (
        "a layer of two inputs",
        &[('N', 5), ('K', 6), ('M', 4)],
        "%0: float32[N, K] = input
%1: float32[M, K] = input
%2: float32[M] = input
%3: float32[] = linear %0, %1, %2 {transposed: false}
%4: float32[] = softmax %3
output %4",
    ),
    (
        "concats of slices, along each axis",
        &[('N', 3), ('H', 4), ('C', 8)],
        "%0: float32[N, H, C] = input
%1: float32[N, H, C] = input
%2: float32[] = slice %0 {starts: [0, 0, 0], sizes: [0, 0, 4]}
%3: float32[] = slice %0 {starts: [0, 0, 4], sizes: [0, 0, 4]}
%4: float32[] = concat %2, %3 {axis: 2}
%5: float32[] = concat %4, %1 {axis: 2}
%6: float32[] = exp %0
%7: float32[] = abs %1
%8: float32[] = concat %6, %7 {axis: 1}
%9: float32[] = concat %6, %7, %6 {axis: 0}
%10: float32[] = concat %6, %7, %1 {axis: 2}
output %5, %8, %9, %10",
    ),
    (
        "images of other sizes side by side",
        &[('N', 2), ('H', 8), ('W', 6), ('V', 5)],
        "%0: float32[N, H, W, 4] = input
%1: float32[N, H, V, 4] = input
%2: float32[8, 1, 1, 4] = constant \"w\"
%3: float32[] = conv2d %0, %2 PLAIN
%4: float32[] = conv2d %1, %2 PLAIN
%5: float32[] = concat %3, %4 {axis: 2}
%6: float32[] = max_pool2d %5 {kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0], dilation: [1, 1]}
%7: float32[] = avg_pool2d %5 {kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1]}
%8: float32[] = max_pool2d %5 {kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1], dilation: [1, 1]}
%9: float32[] = concat %7, %8 {axis: 3}
output %6, %9",
    ),
    (
        "the largest of windows, and images in other sizes",
        &[('N', 2), ('H', 6), ('W', 6)],
        "%0: float32[N, H, W, 4] = input
%1: float32[] = resize_bilinear %0 {size: [9, 5], align_corners: false}
%2: float32[] = resize_nearest %0 {size: [3, 8]}
%3: float32[], %4: int32[] = argmax_pool2d %1 {kernel: [2, 2], padding: [0, 0, 0, 0]}
%5: float32[] = hard_sigmoid %2
output %3, %4, %5",
    ),
    (
        "attention with a mask",
        &[('N', 2), ('G', 3), ('Q', 6), ('K', 7), ('D', 8)],
        "%0: float32[N, Q, G, D] = input
%1: float32[N, K, G, D] = input
%2: float32[N, K, G, D] = input
%3: float32[N, G, Q, K] = input
%4: float32[] = transpose %0 {order: [0, 2, 1, 3]}
%5: float32[] = transpose %1 {order: [0, 2, 3, 1]}
%6: float32[] = transpose %2 {order: [0, 2, 1, 3]}
%7: float32[] = matmul %4, %5
%8: float32[] = add %7, %3
%9: float32[] = softmax %8
%10: float32[] = matmul %9, %6
%11: float32[] = transpose %10 {order: [0, 2, 1, 3]}
output %11",
    ),
    (
        "attention of heads that are one dimension with the batch",
        &[('N', 1), ('G', 4), ('Q', 6), ('K', 7)],
        "%0: float32[N, G, Q, 8] = input
%1: float32[N, G, K, 8] = input
%2: float32[N, G, K, 8] = input
%3: float32[] = reshape %0 {sizes: [4, 0, 8]}
%4: float32[] = reshape %1 {sizes: [4, 0, 8]}
%5: float32[] = transpose %4 {order: [0, 2, 1]}
%6: float32[] = matmul %3, %5
%7: float32[] = softmax %6
%8: float32[] = reshape %2 {sizes: [4, 0, 8]}
%9: float32[] = matmul %7, %8
%10: float32[] = reshape %9 {sizes: [1, 4, 0, 8]}
%11: float32[] = transpose %10 {order: [2, 0, 1, 3]}
output %11",
    ),
    (
        "products of many matrices",
        &[('N', 3), ('M', 4), ('K', 5), ('L', 6)],
        "%0: float32[N, M, K] = input
%1: float32[N, K, L] = input
%2: float32[N, M, L] = input
%3: float32[] = matmul %0, %1
%4: float32[] = add %3, %2
output %4",
    ),
    (
        "dimensions of one that move",
        &[('N', 1), ('H', 6), ('C', 5)],
        "%0: float32[N, H, H, C] = input
%1: float32[] = reduce %0 {of: mean, axes: [1, 2], keep: true}
%2: float32[] = transpose %1 {order: [0, 3, 1, 2]}
%3: float32[] = exp %2
%4: float32[] = transpose %0 {order: [0, 3, 1, 2]}
%5: float32[] = multiply %4, %3
%6: float32[] = transpose %5 {order: [0, 2, 3, 1]}
%7: float32[] = pad %6 {before: [0, 1, 1, 0], after: [0, 1, 2, 0], value: 0.5}
output %2, %7",
    ),
    (
        "operands that meet",
        &[('N', 4), ('M', 3), ('C', 5)],
        "%0: float32[N, M, C] = input
%1: float32[N, M, C] = input
%2: float32[M, C] = input
%3: float32[] = multiply %0, %1
%4: float32[] = add %3, %2
%5: float32[] = subtract %4, %1
%6: float32[] = prelu %5, %2
%7: float32[] = maximum %6, %0
%8: float32[] = silu %7
output %8, %3",
    ),
    (
        "rows of minus infinity",
        &[('N', 4), ('M', 5)],
        "%0: float32[N, M] = input
%1: float32[] = softmax %0
%2: bool[] = compare %0 {how: equal, value: -inf}
%3: bool[] = not %2
%4: bool[] = any %3
%5: bool[] = not %4
%6: float32[] = fill %1 {value: 0}
%7: float32[] = select %5, %6, %1
output %7",
    ),
    (
        "products and sums of bytes",
        &[('N', 6), ('M', 4)],
        "%0: A[N, M] = input
%1: B[N, M] = input
%2: C[] = multiply %0, %1
%3: C[] = add %2, %0
%4: A[] = subtract %3, %1
%5: A[] = maximum %4, %0
%6: B[] = tanh %5
output %2, %6",
    ),
    (
        "a gate of bytes",
        &[('N', 1), ('H', 8), ('W', 6), ('C', 4)],
        "%0: A[N, H, W, C] = input
%1: B[] = reduce %0 {of: mean, axes: [1, 2], keep: true}
%2: B[] = sigmoid %1
%3: A[] = multiply %0, %2
%4: C[] = add %3, %2
output %4",
    ),
    (
        "convolutions of bytes",
        &[('N', 2), ('H', 9), ('W', 8)],
        "@0 = \"scales\"
%0: A[N, H, W, 8] = input
%1: q8{axis: 0, scales: @0, zero: 0}[16, 3, 3, 8] = constant \"bytes\"
%2: q32{axis: 0, scales: @0, zero: 0}[16] = constant \"bias\"
%3: B[] = conv2d %0, %1, %2 SAME
%4: B[] = clamp %3 {low: 0, high: 3}
%5: q8{axis: 3, scales: @0, zero: 0}[1, 3, 3, 16] = constant \"bytes\"
%6: C[] = depthwise_conv2d %4, %5, %2 {stride: [2, 2], padding: [1, 1, 1, 1], dilation: [1, 1]}
%7: C[] = hard_swish %6
%8: q8{axis: 0, scales: @0, zero: 0}[8, 1, 1, 16] = constant \"bytes\"
%9: A[] = conv2d %7, %8 PLAIN
%10: A[] = max_pool2d %0 {kernel: [1, 1], stride: [2, 2], padding: [0, 0, 0, 0], dilation: [1, 1]}
%11: A[] = add %9, %10
%12: A[] = concat %11, %10 {axis: 3}
output %12",
    ),
    (
        "one convolution of bytes for each channel",
        &[('N', 2), ('H', 5), ('C', 8)],
        "@0 = \"scales\"
%0: A[N, H, H, C] = input
%1: q8{axis: 3, scales: @0, zero: 0}[1, 1, 1, 8] = constant \"bytes\"
%2: B[] = depthwise_conv2d %0, %1 {stride: [1, 1], padding: [1, 1, 1, 1], dilation: [1, 1]}
output %2",
    ),
    (
        "layers of bytes",
        &[('N', 5), ('M', 2)],
        "@0 = \"scales\"
%0: float32[M, N, 32] = input
%1: A[] = convert %0
%2: q8{axis: 0, scales: @0, zero: 0}[24, 32] = constant \"bytes\"
%3: q32{axis: 0, scales: @0, zero: 0}[24] = constant \"bias\"
%4: B[] = linear %1, %2, %3 {transposed: false}
%5: float32[] = convert %4
%6: q8{token: 1}[] = convert %5
%7: q8{axis: 0, scales: @0, zero: 0}[16, 24] = constant \"bytes\"
%8: float32[] = linear %6, %7 {transposed: false}
%9: float32[] = clamp %8 {low: 0, high: inf}
output %9",
    ),
    (
        "bytes side by side",
        &[('N', 3), ('H', 4), ('C', 8)],
        "%0: A[N, H, C] = input
%1: A[N, H, C] = input
%2: A[] = transpose %0 {order: [1, 0, 2]}
%3: A[] = transpose %1 {order: [1, 0, 2]}
%4: A[] = concat %2, %3 {axis: 2}
%5: A[] = concat %2, %3 {axis: 0}
%6: B[] = concat %0, %1 {axis: 1}
%7: float32[] = convert %4
%8: float32[] = softmax %7
output %5, %6, %8",
    ),
];

/// A graph of a text, with these sizes for its letters.
fn graph(text: &str, size: impl Fn(usize, usize, char) -> usize) -> Graph {
    let bytes = |scale: &str, zero: i32| format!("q8{{scale: {scale}, zero: {zero}}}[");
    let plain = |padding: usize| {
        format!(
            "{{stride: [1, 1], padding: [{padding}, {padding}, {padding}, {padding}], dilation: [1, 1], groups: 1}}"
        )
    };
    let text = text.replace("PLAIN", &plain(0)).replace("SAME", &plain(1));
    let text = text.replace("A[", &bytes("0.04", 3)).replace("B[", &bytes("0.02", -5)).replace("C[", &bytes("0.03", 1));
    let mut inputs = 0;
    let lines = text.lines().map(|line| {
        let Some((before, after)) = line.strip_suffix("] = input").and_then(|line| line.rsplit_once('[')) else {
            return format!("{line}\n");
        };
        let dims = after
            .split(", ")
            .enumerate()
            .map(|(dim, letter)| letter.parse().unwrap_or_else(|_| size(inputs, dim, letter.chars().next().unwrap())));
        let dims: Vec<usize> = dims.collect();
        inputs += 1;
        format!("{before}{dims:?} = input\n")
    });
    let text: String = lines.collect();
    parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Gives the results of nodes the sizes that follow from the inputs.
fn sized(mut graph: Graph) -> Result<Graph, String> {
    let inputs: Vec<_> = graph.inputs.iter().map(|&id| graph.ty(id).sizes()).collect();
    let sizes = infer(&graph, &inputs.iter().map(|sizes| &**sizes).collect::<Vec<_>>())?;
    for (value, sizes) in graph.values.iter_mut().zip(sizes) {
        if value.origin == Origin::Node {
            value.ty.dims = sizes.into_iter().map(Dim::Fixed).collect();
        }
    }
    Ok(graph)
}

/// The first `count` results of a model for inputs of these sizes.
fn run(
    model: &Model,
    sizes: &[&[usize]],
    count: usize,
    weights: &Weights,
    par: &dyn Parallel,
) -> Result<Vec<Vec<u8>>, String> {
    let floats = model.graph().inputs.iter().map(|&id| model.graph().ty(id).is(ScalarType::Float));
    let sources = floats.map(|float| weights.named(if float { "numbers" } else { "bytes" }));
    let inputs: Vec<&[u8]> = sources.enumerate().map(|(i, source)| &source[i * 4096..]).collect();
    let (mut found, _) = run_sizes(model, weights, par, sizes, &inputs)?;
    found.truncate(count);
    Ok(found)
}

/// Whether results differ by rounding at most.
fn near(element: &Element, found: &[u8], expected: &[u8]) -> bool {
    found.len() == expected.len()
        && match element {
            Element::Plain(ScalarType::Float) => {
                let close = |(a, b): (&f32, &f32)| {
                    a == b || (a - b).abs() <= 1e-4 * b.abs().max(1.0) || a.is_nan() && b.is_nan()
                };
                floats(found).iter().zip(&floats(expected)).all(close)
            }
            Element::Plain(_) => found == expected,
            Element::Quantized(_) => {
                found.iter().zip(expected).all(|(a, b)| a.cast_signed().abs_diff(b.cast_signed()) <= 1)
            }
        }
}

/// Numbers that nobody can foretell, the same in each run of the test.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }
}

/// Sizes of the inputs: bounds, or less, or nothing; now and then an operand is repeated, or there are more images which are
/// smaller.
fn thrown(dice: &mut Dice, text: &str, bounds: &Sizes) -> Graph {
    let mut sizes: Vec<(char, usize)> = bounds.to_vec();
    for (_, size) in &mut sizes {
        *size = match dice.throw(8) {
            0 | 1 => *size,
            2 => 0,
            3 => 1,
            _ => 1 + dice.throw(*size),
        };
    }
    if dice.throw(6) == 0 {
        sizes[0].1 *= 2;
    }
    let alone = (dice.throw(3) == 0).then(|| (dice.throw(4), dice.throw(4)));
    let twice = dice.throw(12) == 0;
    graph(text, |input, dim, letter| {
        let size = sizes.iter().find(|(known, _)| *known == letter).unwrap().1;
        match alone == Some((input, dim)) {
            true if twice => size * 2,
            true => 1,
            false => size,
        }
    })
}

fn check(what: &str, bounds: &Sizes, text: &str, rounds: usize) {
    let (weights, threads, mut dice) = (Weights::mixed(), Pool::new(2), Dice(0x9e37_79b9_7f4a_7c15));
    let pool = threads.lease();
    let bounded = graph(text, |_, _, letter| bounds.iter().find(|(known, _)| *known == letter).unwrap().1);
    let bounded = sized(bounded).unwrap();
    let model =
        Model::new(bounded.clone(), Options::default(), &weights).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut ran = 0;
    for round in 0..rounds {
        let given = thrown(&mut dice, text, bounds);
        let sizes: Vec<_> = given.inputs.iter().map(|&id| given.ty(id).sizes()).collect();
        let sizes: Vec<&[usize]> = sizes.iter().map(|sizes| &**sizes).collect();
        let par = if round % 2 == 0 { &Serial as &dyn Parallel } else { &pool };
        println!("{what}: {sizes:?}, {} threads", par.width());
        let count = given.outputs.len();
        let found = run(&model, &sizes, count, &weights, par);
        let expected = sized(given).and_then(|mut exact| {
            let made = exact.nodes.iter().flat_map(|node| node.outputs.clone());
            let made: Vec<_> = made.filter(|&id| !per_row(&exact, id)).collect();
            exact.outputs.extend(made);
            let model = Model::new(exact, Options::default(), &weights).map_err(|error| error.to_string())?;
            run(&model, &sizes, count, &weights, &Serial)
        });
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let element = &bounded.ty(bounded.outputs[index]).element;
                    assert!(
                        near(element, found, expected),
                        "{what}: output {index} for {sizes:?}\n{found:?}\n{expected:?}"
                    );
                }
                ran += 1;
            }
            (Err(_), Err(_)) => {}
            (found, expected) => panic!("{what} for {sizes:?}: {:?} and {:?}", found.map(drop), expected.map(drop)),
        }
    }
    assert!(ran * 4 >= rounds, "{what}: {ran} of {rounds} could be run");
}

/// Whether a value finds its scales at run time: no caller can take it.
fn per_row(graph: &Graph, id: sconce_graph::ValueId) -> bool {
    graph.ty(id).to_string().contains("token")
}

#[test]
fn sizes_of_the_run_decide() {
    for (what, bounds, text) in GRAPHS {
        let rounds = if what.contains("large") { 6 } else { 200 };
        check(what, bounds, text, rounds);
    }
}
