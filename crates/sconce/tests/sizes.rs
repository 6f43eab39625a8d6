//! Programs delegated to XNNPACK run with other sizes than the bounds that their payloads state: smaller ones, none at all,
//! others with as many elements.
use sconce::format::ScalarType;
use sconce::format::pte::model as pte;
use sconce::format::xnnpack::model::{
    Binary, Concatenation, Constant, Convolution, FullyConnected, Graph, Operation, Quantization, Resizing, Scales,
    Storage, Transposition, Unary,
};
use sconce::format::xnnpack::{Datatype, NONE};
use sconce::{Module, Tensor};
use std::borrow::Cow;

/// Dimensions that were reduced stay.
const KEEP_DIMS: u32 = 0x40;

/// A payload, and what its caller passes and gets.
#[derive(Default)]
struct Payload {
    graph: Graph<'static>,
    /// The sizes of each argument, and whether it is an input. Inputs come first.
    arguments: Vec<(Vec<u32>, bool)>,
}

impl Payload {
    fn argument(&mut self, dims: &[u32], input: bool) -> u32 {
        let id = self.arguments.len() as u32;
        self.arguments.push((dims.to_vec(), input));
        self.graph.value(Datatype::Fp32, dims, Storage::External { id, input, output: !input }, Quantization::None)
    }

    fn input(&mut self, dims: &[u32]) -> u32 {
        self.argument(dims, true)
    }

    fn output(&mut self, dims: &[u32]) -> u32 {
        self.argument(dims, false)
    }

    /// Numbers in between.
    fn floats(&mut self, dims: &[u32]) -> u32 {
        self.graph.value(Datatype::Fp32, dims, Storage::Internal, Quantization::None)
    }

    /// Bytes in between.
    fn bytes(&mut self, dims: &[u32], scale: f32, zero_point: i32) -> u32 {
        self.graph.value(Datatype::QInt8, dims, Storage::Internal, Quantization::PerTensor { scale, zero_point })
    }

    fn constant(&mut self, dtype: Datatype, dims: &[u32], bytes: Vec<u8>, quantization: Quantization) -> u32 {
        let constant = self.graph.constant(Constant::Bytes(Cow::Owned(bytes)));
        self.graph.value(dtype, dims, Storage::Constant(constant), quantization)
    }

    fn numbers(&mut self, dims: &[u32], numbers: &[f32]) -> u32 {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(Datatype::Fp32, dims, bytes, Quantization::None)
    }

    fn unary(&mut self, operation: fn(Unary) -> Operation, input_id: u32, output_id: u32, flags: u32) {
        self.graph.node(operation(Unary { input_id, output_id, flags }), None);
    }

    fn binary(&mut self, operation: fn(Binary) -> Operation, [input1_id, input2_id]: [u32; 2], output_id: u32) {
        self.graph.node(operation(Binary { input1_id, input2_id, output_id, flags: 0 }), None);
    }

    fn layer(&mut self, input1_id: u32, filter_id: u32, bias_id: u32, output_id: u32) {
        let layer = FullyConnected { input1_id, filter_id, bias_id, output_id, flags: 0 };
        self.graph.node(Operation::FullyConnected(layer), None);
    }

    fn concat(&mut self, axis: u32, [input1_id, input2_id]: [u32; 2], output_id: u32) {
        let concat = Concatenation { axis, input1_id, input2_id, output_id, ..Concatenation::default() };
        self.graph.node(Operation::Concatenate2(concat), None);
    }

    /// The program whose one instruction is this payload.
    fn load(&self) -> Module {
        let mut plan = pte::Plan::new("forward");
        for (dims, input) in &self.arguments {
            let sizes: Vec<i32> = dims.iter().map(|&size| i32::try_from(size).unwrap()).collect();
            let mut tensor = pte::Tensor::new(ScalarType::Float, sizes, pte::Storage::Unplanned);
            tensor.dynamism = pte::Dynamism::Bound;
            let value = plan.value(tensor);
            if *input { plan.inputs.push(value) } else { plan.outputs.push(value) }
        }
        plan.delegates.push(pte::Delegate {
            backend: "XnnpackBackend".into(),
            payload: self.graph.write().into(),
            inline: true,
            specs: Vec::new(),
        });
        let args = plan.inputs.iter().chain(&plan.outputs).copied().collect();
        plan.push(pte::Instruction::Delegate { delegate: 0, args });
        Module::load(&pte::Program { plans: vec![plan], ..pte::Program::default() }.write()).unwrap()
    }
}

/// An input, or a result: sizes and numbers.
type Numbers<'a> = (&'a [usize], Vec<f32>);

/// The first result, with its sizes, or why there is none.
fn run(payload: &Payload, inputs: &[Numbers<'_>]) -> Result<(Vec<usize>, Vec<f32>), String> {
    let inputs: Vec<_> = inputs.iter().map(|(sizes, numbers)| Tensor::from_slice(numbers, sizes).unwrap()).collect();
    let inputs: Vec<_> = inputs.iter().map(Into::into).collect();
    let outputs = payload.load().session().unwrap().run(&inputs).map_err(|error| error.to_string())?;
    let tensor = outputs[0].tensor().unwrap();
    Ok((tensor.sizes().to_vec(), tensor.as_slice::<f32>().unwrap().to_vec()))
}

fn check(payload: &Payload, inputs: &[Numbers<'_>], sizes: &[usize], expected: &[f32], off: f32) {
    let (found_sizes, found) = run(payload, inputs).unwrap();
    assert_eq!(found_sizes, sizes);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= off, "{found} instead of {expected}");
    }
}

/// Numbers from 0 to 1 in steps of 1/64 that differ from place to place.
fn mixed(count: usize) -> Vec<f32> {
    (0..count as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 26) as f32 / 64.0).collect()
}

/// Bounds say that the operands are alike; in a run one is repeated.
#[test]
fn a_product_of_bytes_repeats_an_operand() {
    let mut payload = Payload::default();
    let (a, b) = (payload.input(&[8, 4]), payload.input(&[8, 4]));
    let result = payload.output(&[8, 4]);
    let [qa, qb, product] = [(0.5, 3), (0.25, -5), (1.0, 1)].map(|(scale, zero)| payload.bytes(&[8, 4], scale, zero));
    payload.unary(Operation::Convert, a, qa, 0);
    payload.unary(Operation::Convert, b, qb, 0);
    payload.binary(Operation::Multiply, [qa, qb], product);
    payload.unary(Operation::Convert, product, result, 0);
    let a: Vec<f32> = (0..32).map(|i| i as f32 * 0.5 - 7.0).collect();
    let b = vec![-2.5, 0.0, 1.5, 3.5];
    let expected: Vec<f32> = a.iter().enumerate().map(|(i, a)| a * b[i % 4]).collect();
    check(&payload, &[(&[8, 4], a.clone()), (&[1, 4], b.clone())], &[8, 4], &expected, 0.5);
    check(&payload, &[(&[1, 4], b), (&[8, 4], a)], &[8, 4], &expected, 0.5);
}

/// Bounds say that there is one image, and so one gate; in a run there are two smaller images.
#[test]
fn a_gate_of_bytes_belongs_to_its_image() {
    let mut payload = Payload::default();
    let image = payload.input(&[1, 8, 8, 4]);
    let result = payload.output(&[1, 8, 8, 4]);
    let whole = payload.bytes(&[1, 8, 8, 4], 1.0 / 64.0, -3);
    let gate = payload.bytes(&[1, 1, 1, 4], 1.0 / 64.0, -5);
    let gated = payload.bytes(&[1, 8, 8, 4], 1.0 / 64.0, 1);
    payload.unary(Operation::Convert, image, whole, 0);
    payload.unary(Operation::GlobalAvgPooling2d, whole, gate, KEEP_DIMS);
    payload.binary(Operation::Multiply, [whole, gate], gated);
    payload.unary(Operation::Convert, gated, result, 0);
    let mut images = mixed(2 * 4 * 4 * 4);
    images[64..].iter_mut().for_each(|x| *x *= 0.25);
    let mean = |i: usize| images[i / 64 * 64 + i % 4..][..61].iter().step_by(4).sum::<f32>() / 16.0;
    let expected: Vec<f32> = images.iter().enumerate().map(|(i, x)| x * mean(i)).collect();
    // Steps of 1/64 are rounded three times: the image, the gate and the product.
    check(&payload, &[(&[2, 4, 4, 4], images)], &[2, 4, 4, 4], &expected, 1.5 / 64.0);
}

#[test]
fn dimensions_that_were_one_move_as_what_they_are() {
    let mut payload = Payload::default();
    let image = payload.input(&[1, 8, 8, 4]);
    let result = payload.output(&[1, 4, 1, 1]);
    let mean = payload.floats(&[1, 1, 1, 4]);
    payload.unary(Operation::GlobalAvgPooling2d, image, mean, KEEP_DIMS);
    // The caller has room for more than one.
    payload.arguments[1].0 = vec![2, 4, 1, 1];
    let order = Transposition { num_dims: 4, perm: vec![0, 3, 1, 2], input_id: mean, output_id: result, flags: 0 };
    payload.graph.node(Operation::StaticTranspose(order), None);
    let images = mixed(2 * 4 * 4 * 4);
    let mean = |i: usize| images[i / 4 * 64 + i % 4..][..61].iter().step_by(4).sum::<f32>() / 16.0;
    let expected: Vec<f32> = (0..8).map(mean).collect();
    check(&payload, &[(&[2, 4, 4, 4], images.clone())], &[2, 4, 1, 1], &expected, 1e-6);
}

#[test]
fn what_follows_a_layer_repeats_an_operand() {
    let mut payload = Payload::default();
    let (x, added) = (payload.input(&[4, 2]), payload.input(&[4, 3]));
    let result = payload.output(&[4, 3]);
    let filter = payload.numbers(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let product = payload.floats(&[4, 3]);
    payload.layer(x, filter, NONE, product);
    payload.binary(Operation::Add, [product, added], result);
    let inputs: [Numbers<'_>; 2] = [(&[2, 2], vec![1.0, 0.0, 10.0, 1.0]), (&[1, 3], vec![0.5, 0.25, 0.125])];
    check(&payload, &inputs, &[2, 3], &[1.5, 3.25, 5.125, 12.5, 34.25, 56.125], 0.0);
    // And the other way round.
    let inputs: [Numbers<'_>; 2] = [(&[1, 2], vec![10.0, 1.0]), (&[2, 3], vec![0.5, 0.25, 0.125, 1.0, 2.0, 3.0])];
    check(&payload, &inputs, &[2, 3], &[12.5, 34.25, 56.125, 13.0, 36.0, 59.0], 0.0);
}

#[test]
fn concats_of_nothing() {
    for axis in [0u32, 1] {
        let mut payload = Payload::default();
        let (a, b) = (payload.input(&[4, 2]), payload.input(&[4, 2]));
        let result = payload.output(if axis == 0 { &[8, 2] } else { &[4, 4] });
        let larger = payload.floats(&[4, 2]);
        payload.unary(Operation::Exp, b, larger, 0);
        payload.concat(axis, [a, larger], result);
        let nothing: Numbers<'_> = (&[0, 2], Vec::new());
        let sizes = if axis == 0 { [0, 2] } else { [0, 4] };
        check(&payload, &[nothing.clone(), nothing.clone()], &sizes, &[], 0.0);
        let more: Numbers<'_> = (&[1, 2], vec![0.0, 0.0]);
        match axis {
            0 => check(&payload, &[nothing, more], &[1, 2], &[1.0, 1.0], 0.0),
            _ => check(&payload, &[(&[1, 0], Vec::new()), more], &[1, 2], &[1.0, 1.0], 0.0),
        }
    }
}

#[test]
fn a_layer_of_nothing() {
    // No rows.
    let mut payload = Payload::default();
    let x = payload.input(&[4, 2]);
    let result = payload.output(&[4, 3]);
    let filter = payload.numbers(&[3, 2], &[1.0; 6]);
    payload.layer(x, filter, NONE, result);
    check(&payload, &[(&[0, 2], Vec::new())], &[0, 3], &[], 0.0);
    // No features: the bias, if there is one.
    for bias in [None, Some([1.0, -2.0, 3.0])] {
        let mut payload = Payload::default();
        let x = payload.input(&[4, 0]);
        let result = payload.output(&[4, 3]);
        let filter = payload.numbers(&[3, 0], &[]);
        let id = bias.map_or(NONE, |bias| payload.numbers(&[3], &bias));
        payload.layer(x, filter, id, result);
        let expected = bias.unwrap_or_default();
        check(&payload, &[(&[2, 0], Vec::new())], &[2, 3], &[expected, expected].concat(), 0.0);
    }
}

#[test]
fn a_layer_of_bytes_without_features_is_its_bias() {
    let mut payload = Payload::default();
    let x = payload.input(&[4, 0]);
    let result = payload.output(&[4, 2]);
    let (from, to) = (payload.bytes(&[4, 0], 0.5, 1), payload.bytes(&[4, 2], 0.25, 2));
    let scales = |scale: f32| Quantization::PerChannel { channel_dim: 0, scales: Scales::Fp32(vec![scale; 2]) };
    let filter = payload.constant(Datatype::QCInt8, &[2, 0], Vec::new(), scales(0.5));
    let sums = [5i32, -9].into_iter().flat_map(i32::to_le_bytes).collect();
    let bias = payload.constant(Datatype::QCInt32, &[2], sums, scales(0.25));
    payload.unary(Operation::Convert, x, from, 0);
    payload.layer(from, filter, bias, to);
    payload.unary(Operation::Convert, to, result, 0);
    check(&payload, &[(&[2, 0], Vec::new())], &[2, 2], &[1.25, -2.25, 1.25, -2.25], 0.0);
}

/// A filter of one pixel on an image of no rows with a border: the result is as high as the border.
#[test]
fn a_convolution_of_nothing_but_its_border_is_its_bias() {
    let mut payload = Payload::default();
    let image = payload.input(&[1, 4, 2, 4]);
    let result = payload.output(&[1, 6, 4, 2]);
    let filter = payload.numbers(&[2, 1, 1, 2], &[1.0; 4]);
    let bias = payload.numbers(&[2], &[0.5, -0.25]);
    let convolution = Convolution {
        padding_top: 1,
        padding_right: 1,
        padding_bottom: 1,
        padding_left: 1,
        kernel_height: 1,
        kernel_width: 1,
        subsampling_height: 1,
        subsampling_width: 1,
        dilation_height: 1,
        dilation_width: 1,
        group_input_channels: 2,
        group_output_channels: 1,
        groups: 2,
        input1_id: image,
        filter_id: filter,
        bias_id: bias,
        output_id: result,
        ..Convolution::default()
    };
    payload.graph.node(Operation::Conv2d(convolution), None);
    check(&payload, &[(&[1, 0, 2, 4], Vec::new())], &[1, 2, 4, 2], &[0.5, -0.25].repeat(8), 0.0);
}

/// There is nothing to interpolate between, and the error says so.
#[test]
fn an_image_without_rows_has_no_other_size() {
    let mut payload = Payload::default();
    let image = payload.input(&[2, 6, 6, 4]);
    let result = payload.output(&[2, 12, 12, 4]);
    let resize = Resizing { new_height: 12, new_width: 12, input_id: image, output_id: result, flags: 0 };
    payload.graph.node(Operation::StaticResizeBilinear2D(resize), None);
    check(&payload, &[(&[0, 6, 6, 4], Vec::new())], &[0, 12, 12, 4], &[], 0.0);
    let error = run(&payload, &[(&[1, 0, 6, 4], Vec::new())]).unwrap_err();
    let expected = "has nothing to make a result of sizes [1, 12, 12, 4] from: inputs have [[1, 0, 6, 4]]";
    assert!(error.contains(expected), "{error}");
}

/// Sizes that do not suit the payload are told with the node that they do not suit.
#[test]
fn sizes_that_do_not_suit_are_told() {
    let mut payload = Payload::default();
    let (a, b) = (payload.input(&[4, 2]), payload.input(&[4, 2]));
    let result = payload.output(&[4, 2]);
    payload.binary(Operation::Add, [a, b], result);
    let error = run(&payload, &[(&[4, 2], mixed(8)), (&[3, 2], mixed(6))]).unwrap_err();
    assert!(error.contains("node 0, add, does not take inputs of sizes [[4, 2], [3, 2]]"), "{error}");
}
