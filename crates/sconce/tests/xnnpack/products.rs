//! Convolutions, linear layers and products of matrices, with weights of every kind.

use super::naive::{biased, convolution, linear, transposed_convolution};
use super::program::{Array, KINDS, Kind, Payload, check, numbers};
use half::bf16;
use sconce::format::xnnpack::model::{Binary, Convolution, FullyConnected, Operation, Quantization, Scales};
use sconce::format::xnnpack::{Datatype, NONE};

const FLOATS: [Kind; 3] = [Kind::Fp32, Kind::Fp16, Kind::Bf16];
/// Limits of results.
const LIMITS: [Option<(f32, f32)>; 2] = [None, Some((0.0, 6.0))];

fn limited(result: &Array, limits: Option<(f32, f32)>) -> Array {
    let (low, high) = limits.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
    result.map(|x| x.clamp(f64::from(low), f64::from(high)))
}

/// How images are convolved.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Dense,
    Transposed,
    Depthwise,
}

/// Sizes of an image, output channels, window, padding (top, right, bottom, left), steps, distance of taps and groups.
type Row = ([usize; 4], usize, [u32; 2], [u32; 4], [u32; 2], [u32; 2], u32);

const CONVOLUTIONS: [Row; 7] = [
    ([1, 7, 9, 8], 12, [3, 3], [1, 1, 1, 1], [1, 1], [1, 1], 1),
    ([2, 8, 8, 6], 9, [3, 2], [0, 1, 2, 1], [2, 1], [1, 2], 3),
    ([1, 5, 5, 16], 20, [1, 1], [0, 0, 0, 0], [1, 1], [1, 1], 1),
    ([1, 14, 14, 32], 32, [3, 3], [1, 1, 1, 1], [1, 1], [1, 1], 1),
    ([1, 3, 3, 3], 5, [5, 5], [2, 2, 2, 2], [1, 1], [1, 1], 1),
    ([1, 6, 6, 4], 8, [3, 3], [3, 3, 3, 3], [1, 1], [1, 1], 1),
    ([1, 9, 9, 5], 7, [3, 3], [2, 2, 2, 2], [2, 2], [2, 2], 1),
];

/// The same with a filter for each channel, and n results of it.
const DEPTHWISE: [Row; 6] = [
    ([1, 9, 9, 16], 16, [3, 3], [1, 1, 1, 1], [1, 1], [1, 1], 16),
    ([2, 8, 7, 5], 10, [3, 3], [1, 1, 1, 1], [2, 2], [1, 1], 5),
    ([1, 12, 12, 40], 40, [5, 5], [2, 2, 2, 2], [2, 2], [1, 1], 40),
    ([1, 9, 9, 33], 33, [3, 3], [2, 2, 2, 2], [1, 1], [2, 2], 33),
    ([1, 6, 6, 3], 3, [2, 4], [0, 1, 1, 2], [1, 1], [1, 1], 3),
    ([1, 4, 4, 1], 4, [3, 3], [1, 1, 1, 1], [1, 1], [1, 1], 1),
];

fn rows() -> impl Iterator<Item = (Way, Row)> {
    let both = CONVOLUTIONS.into_iter().flat_map(|row| [(Way::Dense, row), (Way::Transposed, row)]);
    both.chain(DEPTHWISE.into_iter().map(|row| (Way::Depthwise, row)))
}

/// The table of a row without ids. A transposed convolution with steps has one more row of results.
fn geometry(way: Way, (image, out, window, padding, step, apart, groups): Row) -> Convolution {
    let [padding_top, padding_right, padding_bottom, padding_left] = padding;
    let ([kernel_height, kernel_width], [subsampling_height, subsampling_width]) = (window, step);
    let [dilation_height, dilation_width] = apart;
    Convolution {
        padding_top,
        padding_right,
        padding_bottom,
        padding_left,
        kernel_height,
        kernel_width,
        subsampling_height,
        subsampling_width,
        dilation_height,
        dilation_width,
        group_input_channels: image[3] as u32 / groups,
        group_output_channels: out as u32 / groups,
        groups,
        adjustment_height: u32::from(way == Way::Transposed && step[0] > 1),
        ..Convolution::default()
    }
}

/// The sizes of a filter as it is stored, and the filter as `[out, height, width, in]`.
fn filter_sizes(way: Way, (image, out, [height, width], .., groups): Row) -> [usize; 4] {
    match way {
        Way::Depthwise => [1, height as usize, width as usize, out],
        _ => [out, height as usize, width as usize, image[3] / groups as usize],
    }
}

fn in_rows(way: Way, filter: &Array) -> Array {
    match (way, &filter.sizes[..]) {
        (Way::Depthwise, &[_, height, width, out]) => Array::new(&[out, height, width, 1], |place| {
            let taps = height * width;
            filter.numbers[place % taps * out + place / taps]
        }),
        _ => filter.clone(),
    }
}

fn convolved(way: Way, image: &Array, filter: &Array, geometry: &Convolution) -> Array {
    match way {
        Way::Transposed => transposed_convolution(image, &in_rows(way, filter), geometry),
        _ => convolution(image, &in_rows(way, filter), geometry),
    }
}

fn node(way: Way, geometry: Convolution) -> Operation {
    match way {
        Way::Dense => Operation::Conv2d(geometry),
        Way::Transposed => Operation::ConvTranspose2d(geometry),
        Way::Depthwise => Operation::DepthwiseConv2d(geometry),
    }
}

/// Numbers, with filters of the image's kind and of `float32`.
#[test]
fn convolutions_of_numbers() {
    for (way, row) in rows() {
        for (kind, weights) in [(0, 0), (1, 0), (1, 1), (2, 2)].map(|(kind, weights)| (FLOATS[kind], FLOATS[weights])) {
            for limits in LIMITS {
                let (mut payload, table) = (Payload::default(), geometry(way, row));
                let (input1_id, image) = payload.input(kind, &row.0, -2.0..2.0);
                let (filter_id, filter) = payload.constant(weights, &filter_sizes(way, row), -0.3..0.3);
                let (bias_id, bias) = payload.constant(Kind::Fp32, &[row.1], -1.0..1.0);
                let mut expected = convolved(way, &image, &filter, &table);
                let bias_id = if limits.is_some() { bias_id } else { NONE };
                if limits.is_some() {
                    expected = limited(&biased(&expected, &bias.numbers), limits);
                }
                let output_id = payload.output(kind, &expected.sizes);
                payload.node(node(way, Convolution { input1_id, filter_id, bias_id, output_id, ..table }), limits);
                check(&format!("{way:?} {row:?} with {weights:?}"), kind, &payload.run()[0], &expected, false);
            }
        }
    }
}

/// Bytes of a filter and a scale for each channel; the scales as `channels` of a dimension, or one for all.
struct Filter {
    array: Array,
    scales: Vec<f32>,
}

impl Filter {
    fn new(sizes: &[usize], channels: usize, range: i32) -> Self {
        let whole = f64::from(range);
        let array = Array {
            sizes: sizes.to_vec(),
            numbers: numbers(3, sizes.iter().product(), &(-whole..whole)).into_iter().map(f64::round).collect(),
        };
        let scales = numbers(5, channels, &(0.005..0.015)).into_iter().map(|scale| scale as f32).collect();
        Self { array, scales }
    }

    fn bytes(&self) -> Vec<u8> {
        self.array.numbers.iter().map(|&number| (number as i8).cast_unsigned()).collect()
    }

    fn per_channel(&self, channel_dim: i32) -> Quantization {
        Quantization::PerChannel { channel_dim, scales: Scales::Fp32(self.scales.clone()) }
    }
}

/// The bytes that sums of bytes become: multiplied by `input scale * filter scale / output scale`, rounded to even, plus
/// zero, and limited.
fn requantized(sums: &Array, from: f32, scales: &[f32], to: Kind, limits: Option<(f32, f32)>) -> Vec<u8> {
    let Kind::Int8(scale, zero) = to else { panic!("{to:?} has no signed bytes") };
    let (low, high) = limits.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
    let (low, high) = (to.byte(low.into()) as f32, to.byte(high.into()) as f32);
    let byte = |(place, &sum): (usize, &f64)| {
        let factor = from * scales[place % scales.len()] / scale;
        (((sum as f32 * factor).round_ties_even() + zero as f32).clamp(low, high) as i8).cast_unsigned()
    };
    sums.numbers.iter().enumerate().map(byte).collect()
}

/// A bias for each channel, in steps of the input's scale times the filter's.
fn integers(payload: &mut Payload, count: usize, from: f32, filter: &Filter) -> (u32, Vec<f64>) {
    let bias: Vec<i32> = numbers(7, count, &(-4000.0..4000.0)).into_iter().map(|number| number as i32).collect();
    let bytes = bias.iter().flat_map(|bias| bias.to_le_bytes()).collect();
    let scales: Vec<f32> = filter.scales.iter().map(|filter| from * filter).collect();
    let (dtype, quantization) = match scales[..] {
        [scale] => (Datatype::QInt32, Quantization::PerTensor { scale, zero_point: 0 }),
        _ => (Datatype::QCInt32, Quantization::PerChannel { channel_dim: 0, scales: Scales::Fp32(scales) }),
    };
    (payload.stored(dtype, &[count], bytes, quantization), bias.into_iter().map(f64::from).collect())
}

/// Signed bytes with known scales give the bytes that the runtime gives; channels with several results, and unsigned
/// bytes, are computed as numbers.
#[test]
fn convolutions_of_bytes() {
    let kinds = [(Kind::Int8(0.03, -13), Kind::Int8(0.21, -20)), (Kind::UInt8(0.03, 120), Kind::UInt8(0.21, 108))];
    for (way, row) in rows() {
        for ((from, to), limits, shared) in
            kinds.into_iter().flat_map(|kinds| LIMITS.map(|limits| (kinds, limits, limits.is_some())))
        {
            let (mut payload, table) = (Payload::default(), geometry(way, row));
            let (Kind::Int8(scale, _) | Kind::UInt8(scale, _)) = from else { continue };
            let filter = Filter::new(&filter_sizes(way, row), if shared { 1 } else { row.1 }, 127);
            let (input1_id, image) = payload.input(from, &row.0, -2.0..2.0);
            let (dtype, quantization) = match filter.scales[..] {
                [scale] => (Datatype::QInt8, Quantization::PerTensor { scale, zero_point: 0 }),
                _ => (Datatype::QCInt8, filter.per_channel(if way == Way::Depthwise { 3 } else { 0 })),
            };
            let filter_id = payload.stored(dtype, &filter.array.sizes, filter.bytes(), quantization);
            let (bias_id, bias) = integers(&mut payload, row.1, scale, &filter);
            let steps = image.map(|number| (number / f64::from(scale)).round());
            let sums = biased(&convolved(way, &steps, &filter.array, &table), &bias);
            let output_id = payload.output(to, &sums.sizes);
            payload.node(node(way, Convolution { input1_id, filter_id, bias_id, output_id, ..table }), limits);
            let (what, found) = (format!("{way:?} {row:?} {limits:?}"), payload.run());
            if matches!(to, Kind::Int8(..)) && (way != Way::Depthwise || row.0[3] == row.1) {
                assert_eq!(found[0], requantized(&sums, scale, &filter.scales, to, limits), "{what}");
            } else {
                let number = |place: usize| {
                    let channel = filter.scales[place % filter.scales.len()];
                    sums.numbers[place] * f64::from(scale) * f64::from(channel)
                };
                let expected = limited(&Array::new(&sums.sizes, number), limits);
                check(&what, to, &found[0], &expected, false);
            }
        }
    }
}

/// Rows as whole numbers above their zero, and the scale of each, as rows find them at run time.
fn found_scales(rows: &Array, row: usize) -> (Array, Vec<f64>) {
    let (mut steps, mut scales) = (Vec::new(), Vec::new());
    for numbers in rows.numbers.chunks(row) {
        let numbers: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
        let (least, most) = numbers.iter().fold((0f32, 0f32), |(low, high), &x| (low.min(x), high.max(x)));
        let inverse = if least == most { 1.0 } else { 255.0 / (most - least) };
        let (low, high) = (least * inverse, most * inverse);
        let zero = if (-128.0 + low) + (127.0 + high) > 0.0 { -128.0 - low } else { 127.0 - high };
        let zero = zero.clamp(-128.0, 127.0).round_ties_even();
        let step = |x: &f32| ((x * inverse).round_ties_even() + zero).clamp(-128.0, 127.0) - zero;
        steps.extend(numbers.iter().map(|x| f64::from(step(x))));
        scales.push(f64::from(1.0 / inverse));
    }
    (Array { sizes: rows.sizes.clone(), numbers: steps }, scales)
}

/// Four-bit numbers with 8 added, two to a byte, each row by itself.
fn nibbles(rows: &Array) -> Vec<u8> {
    let nibble = |number: Option<&f64>| (number.map_or(0, |&number| number as i32) + 8) as u8;
    let row = *rows.sizes.last().unwrap();
    let pairs = rows.numbers.chunks(row).flat_map(|row| row.chunks(2));
    pairs.map(|pair| nibble(pair.first()) | nibble(pair.get(1)) << 4).collect()
}

fn swapped(array: &Array) -> Array {
    let &[rows, columns] = &array.sizes[..] else { panic!("no matrix") };
    Array::new(&[columns, rows], |place| array.at(&[place % rows, place / rows]))
}

/// How the weights of a linear layer are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weights {
    Bytes,
    Nibbles,
    /// With a scale for each group of 32.
    Groups,
    /// The same with `float32` scales, as old exporters wrote them.
    OldGroups,
}

/// Puts weights into a payload; gives them as numbers.
fn weights(payload: &mut Payload, how: Weights, n: usize, k: usize, transposed: bool) -> (u32, Array) {
    let (range, dtype) = if how == Weights::Bytes { (127, Datatype::QCInt8) } else { (7, Datatype::QCInt4) };
    let filter = Filter::new(&[n, k], n, range);
    let stored = if transposed { swapped(&filter.array) } else { filter.array.clone() };
    if let Weights::Bytes | Weights::Nibbles = how {
        let quantization = filter.per_channel(i32::from(transposed));
        let bytes = match how {
            Weights::Bytes => Filter { array: stored.clone(), scales: Vec::new() }.bytes(),
            _ => nibbles(&stored),
        };
        let id = payload.stored(dtype, &stored.sizes, bytes, quantization);
        let array = Array::new(&[n, k], |place| filter.array.numbers[place] * f64::from(filter.scales[place / k]));
        return (id, array);
    }
    let scales: Vec<f32> = numbers(11, n * k / 32, &(0.02..0.08)).into_iter().map(|scale| scale as f32).collect();
    let upper = |scale: f32| bf16::from_bits((scale.to_bits() >> 16) as u16);
    let (halves, scales): (Vec<bf16>, _) = match how {
        Weights::Groups => {
            let halves: Vec<bf16> = scales.iter().map(|&scale| upper(scale)).collect();
            let bits = halves.iter().map(|half| half.to_bits()).collect();
            (halves, Scales::Bf16(bits))
        }
        _ => (scales.iter().map(|&scale| upper(scale * 1.003_891)).collect(), Scales::Fp32(scales)),
    };
    let quantization = Quantization::PerChannelGroup { channel_dim: 0, group_size: 32, scales };
    let id = payload.stored(Datatype::QBInt4, &[n, k], nibbles(&filter.array), quantization);
    let array = Array::new(&[n, k], |place| filter.array.numbers[place] * halves[place / 32].to_f64());
    (id, array)
}

/// A linear layer of rows that find their scales at run time; what its plan says must be in the plan.
fn dynamic_layer(kind: Kind, bias_kind: Kind, how: Weights, [m, k, n]: [usize; 3], transposed: bool) -> Payload {
    let mut payload = Payload::default();
    let (input, rows) = payload.input(kind, &[m, k], -3.0..5.0);
    let input1_id = payload.quantized_rows(input, &[m, k], 1);
    let (filter_id, filter) = weights(&mut payload, how, n, k, transposed);
    let (bias_id, bias) = payload.constant(bias_kind, &[n], -1.0..1.0);
    let output_id = payload.output(kind, &[m, n]);
    let flags = u32::from(transposed);
    payload.node(
        Operation::FullyConnected(FullyConnected { input1_id, filter_id, bias_id, output_id, flags }),
        Some((-20.0, 20.0)),
    );
    let (steps, scales) = found_scales(&rows, k);
    let sums = linear(&steps, &filter);
    let scaled = Array::new(&[m, n], |place| sums.numbers[place] * scales[place / n]);
    let expected = limited(&biased(&scaled, &bias.numbers), Some((-20.0, 20.0)));
    let what = format!("{how:?}, bias {bias_kind:?}, {m}x{k}x{n}, transposed: {transposed}");
    check(&what, kind, &payload.run()[0], &expected, false);
    payload
}

const HOW: [Weights; 4] = [Weights::Bytes, Weights::Nibbles, Weights::Groups, Weights::OldGroups];

#[test]
fn linear_layers_of_rows_that_find_their_scales() {
    for sizes in [[1, 64, 10], [3, 64, 33], [7, 96, 16], [2, 35, 9], [20, 256, 130], [1, 512, 65]] {
        for how in HOW {
            for transposed in [false, true] {
                let grouped = matches!(how, Weights::Groups | Weights::OldGroups);
                if grouped && (transposed || sizes[1] % 32 != 0) {
                    continue;
                }
                for kind in FLOATS {
                    dynamic_layer(kind, Kind::Fp32, how, sizes, transposed);
                }
            }
        }
    }
}

/// Layers of halves have the same products as those of `float32`; only what goes in and comes out is converted.
#[test]
fn layers_of_halves_compute_in_bytes() {
    let names = ["Bytes, dynamic", "Nibbles, dynamic", "Groups(32), dynamic", "Groups(32), dynamic"];
    for (how, name) in HOW.into_iter().zip(names) {
        for kind in FLOATS {
            for bias in FLOATS {
                let plan = dynamic_layer(kind, bias, how, [2, 64, 24], false).plan();
                let steps = if kind == Kind::Fp32 { "2 steps" } else { "4 steps" };
                assert!(plan.contains(name) && plan.contains(steps), "{kind:?}, {how:?}:\n{plan}");
            }
        }
    }
}

#[test]
fn convolutions_of_images_that_find_their_scales() {
    for (way, row) in rows().filter(|(way, row)| *way != Way::Depthwise && row.6 == 1) {
        for (how, kind) in [Weights::Bytes, Weights::Nibbles].into_iter().flat_map(|how| FLOATS.map(|kind| (how, kind)))
        {
            let (mut payload, table) = (Payload::default(), geometry(way, row));
            let (input, image) = payload.input(kind, &row.0, -3.0..5.0);
            let input1_id = payload.quantized_rows(input, &row.0, 3);
            let filter = Filter::new(&filter_sizes(way, row), row.1, if how == Weights::Bytes { 127 } else { 7 });
            let (dtype, bytes) = match how {
                Weights::Bytes => (Datatype::QCInt8, filter.bytes()),
                _ => (Datatype::QCInt4, nibbles(&filter.array)),
            };
            let filter_id = payload.stored(dtype, &filter.array.sizes, bytes, filter.per_channel(0));
            let (bias_id, bias) = payload.constant(Kind::Fp32, &[row.1], -1.0..1.0);
            let (steps, scales) = found_scales(&image, row.0[1..].iter().product());
            let sums = convolved(way, &steps, &filter.array, &table);
            let each: usize = sums.sizes[1..].iter().product();
            let scaled = Array::new(&sums.sizes, |place| {
                sums.numbers[place] * f64::from(filter.scales[place % row.1]) * scales[place / each]
            });
            let expected = biased(&scaled, &bias.numbers);
            let output_id = payload.output(kind, &sums.sizes);
            payload.node(node(way, Convolution { input1_id, filter_id, bias_id, output_id, ..table }), None);
            check(&format!("{way:?} {row:?} {how:?}"), kind, &payload.run()[0], &expected, false);
        }
    }
}

/// Weights and biases that are constants or come with the call.
#[test]
fn linear_layers_of_numbers() {
    for kind in FLOATS {
        for (weights_come, bias_comes) in [(false, false), (true, false), (true, true), (false, true)] {
            let mut payload = Payload::default();
            let (input1_id, rows) = payload.input(kind, &[2, 3, 37], -2.0..2.0);
            let mut operand = |comes: bool, sizes: &[usize]| match comes {
                true => payload.input(kind, sizes, -1.0..1.0),
                false => payload.constant(kind, sizes, -1.0..1.0),
            };
            let ((filter_id, filter), (bias_id, bias)) = (operand(weights_come, &[21, 37]), operand(bias_comes, &[21]));
            let output_id = payload.output(kind, &[2, 3, 21]);
            let layer = FullyConnected { input1_id, filter_id, bias_id, output_id, flags: 0 };
            payload.node(Operation::FullyConnected(layer), None);
            let expected = biased(&linear(&rows, &filter), &bias.numbers);
            let what = format!("weights come: {weights_come}, bias comes: {bias_comes}");
            check(&what, kind, &payload.run()[0], &expected, false);
        }
    }
}

/// As exporters write layers of `bfloat16`: halves in, `float32` out.
#[test]
fn linear_layers_of_halves_to_floats() {
    let mut payload = Payload::default();
    let (input, numbers) = payload.input(Kind::Fp32, &[3, 40], -2.0..2.0);
    let input1_id = payload.between(Kind::Bf16, &[3, 40]);
    payload.unary(Operation::Convert, input, input1_id);
    let (filter_id, filter) = payload.constant(Kind::Bf16, &[9, 40], -1.0..1.0);
    let (bias_id, bias) = payload.constant(Kind::Fp32, &[9], -1.0..1.0);
    let output_id = payload.output(Kind::Fp32, &[3, 9]);
    let layer = FullyConnected { input1_id, filter_id, bias_id, output_id, flags: 0 };
    payload.node(Operation::FullyConnected(layer), None);
    let rounded = numbers.map(|number| bf16::from_f64(number).to_f64());
    let expected = biased(&linear(&rounded, &filter), &bias.numbers);
    check("bf16", Kind::Fp32, &payload.run()[0], &expected, false);
}

/// A sum that a layer takes over reads what the layer's result has: halves as well.
#[test]
fn sums_after_layers() {
    for kind in FLOATS {
        let mut payload = Payload::default();
        let (input1_id, rows) = payload.input(kind, &[5, 40], -2.0..2.0);
        let (other, more) = payload.input(kind, &[5, 24], -2.0..2.0);
        let (filter_id, filter) = payload.constant(kind, &[24, 40], -1.0..1.0);
        let between = payload.between(kind, &[5, 24]);
        let output_id = payload.output(kind, &[5, 24]);
        let layer = FullyConnected { input1_id, filter_id, bias_id: NONE, output_id: between, flags: 0 };
        payload.node(Operation::FullyConnected(layer), None);
        payload.node(Operation::Add(Binary { input1_id: between, input2_id: other, output_id, flags: 0 }), None);
        let product = linear(&rows, &filter);
        let expected = Array::new(&[5, 24], |place| product.numbers[place] + more.numbers[place]);
        check("layer and sum", kind, &payload.run()[0], &expected, false);
    }
}

/// Leading dimensions are the same or repeated.
#[test]
fn products_of_matrices() {
    let sizes: [(&[usize], &[usize], &[usize]); 5] = [
        (&[3, 4, 5], &[3, 5, 6], &[3, 4, 6]),
        (&[2, 3, 4, 5], &[2, 3, 5, 2], &[2, 3, 4, 2]),
        (&[2, 3, 4, 5], &[1, 3, 5, 2], &[2, 3, 4, 2]),
        (&[1, 4, 5], &[3, 5, 6], &[3, 4, 6]),
        (&[4, 5], &[5, 6], &[4, 6]),
    ];
    for kind in KINDS {
        for (first, second, result) in sizes {
            let mut payload = Payload::default();
            let (input1_id, a) = payload.input(kind, first, -2.0..2.0);
            let (input2_id, b) = payload.input(kind, second, -1.0..1.0);
            let to = kind.with(0.08, 1);
            let output_id = payload.output(to, result);
            payload.node(Operation::BatchMatrixMultiply(Binary { input1_id, input2_id, output_id, flags: 0 }), None);
            let whole = Array::new(result, |_| 0.0);
            let expected = Array::new(result, |place| {
                let indices = whole.indices(place);
                let (outer, &[row, column]) = indices.split_last_chunk().unwrap();
                let at = |operand: &Array, last: [usize; 2]| {
                    let own = outer.iter().zip(&operand.sizes).map(|(&index, &size)| index.min(size - 1));
                    operand.at(&own.chain(last).collect::<Vec<_>>())
                };
                (0..5).map(|i| at(&a, [row, i]) * at(&b, [i, column])).sum()
            });
            check(&format!("{first:?} by {second:?}"), to, &payload.run()[0], &expected, false);
        }
    }
}
