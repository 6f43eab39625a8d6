//! Payloads of hand-made methods, and what becomes of them in this runtime's importer.

use super::*;
use crate::ir::{Arg, Input, Kind, Origin, Output, Program, Target, TensorType, ValueId};
use crate::partition::{Report, partition};
use crate::size::{Known, Size};
use sconce_format::ScalarType;
use sconce_format::xnnpack::Datatype;
use sconce_format::xnnpack::model::{Graph, Operation, Storage};

/// A method in the making.
struct Method {
    program: Program<'static>,
    function: Function,
}

impl Method {
    fn new() -> Self {
        let function = Function { name: "forward".to_owned(), ..Function::default() };
        Self { program: Program::default(), function }
    }

    fn input(&mut self, sizes: &[i64]) -> ValueId {
        self.input_of(TensorType::fixed(ScalarType::Float, sizes))
    }

    fn input_of(&mut self, ty: TensorType) -> ValueId {
        let value = self.function.value(Kind::Tensor(ty), Origin::Input, "x");
        self.function.inputs.push(Input::Value(value));
        self.function.body.inputs.push(value);
        value
    }

    fn constant(&mut self, dtype: ScalarType, sizes: &[i64], bytes: Vec<u8>) -> ValueId {
        let id = self.program.constants.add("w", bytes);
        self.function.value(Kind::Tensor(TensorType::fixed(dtype, sizes)), Origin::Constant(id), "w")
    }

    fn floats(&mut self, sizes: &[i64]) -> ValueId {
        let count: i64 = sizes.iter().product();
        let bytes = (0..count).flat_map(|number| (number as f32).to_le_bytes()).collect();
        self.constant(ScalarType::Float, sizes, bytes)
    }

    fn call(&mut self, operator: &'static str, args: Vec<(&'static str, Arg)>, sizes: &[i64]) -> ValueId {
        self.call_of(operator, args, TensorType::fixed(ScalarType::Float, sizes))
    }

    fn call_of(&mut self, operator: &'static str, args: Vec<(&'static str, Arg)>, ty: TensorType) -> ValueId {
        let value = self.function.value(Kind::Tensor(ty), Origin::Call, operator);
        self.function.body.calls.push(Call::new(operator, args, vec![value]));
        value
    }

    fn convolution(&mut self, input: ValueId, [from, to]: [i64; 2], side: i64) -> ValueId {
        let weight = self.floats(&[to, from, 3, 3]);
        let args = vec![
            ("input", input.into()),
            ("weight", weight.into()),
            ("stride", vec![1i64, 1].into()),
            ("padding", vec![1i64, 1].into()),
            ("dilation", vec![1i64, 1].into()),
            ("transposed", false.into()),
            ("output_padding", vec![0i64, 0].into()),
            ("groups", 1.into()),
        ];
        self.call("aten::convolution", args, &[1, to, side, side])
    }

    fn partitioned(mut self, result: ValueId) -> (Program<'static>, Report) {
        self.function.outputs = vec![Output::Value(result)];
        self.function.body.outputs = vec![result];
        self.program.functions.push(self.function);
        let report = partition(&mut self.program, &[Box::new(Xnnpack)], &|_, _| Ok(())).unwrap();
        (self.program, report)
    }

    /// The payload of a method of which all is delegated in one part.
    fn payload(self, result: ValueId) -> Vec<u8> {
        let (program, report) = self.partitioned(result);
        assert_eq!(report.refused, []);
        assert_eq!(program.delegates.len(), 1);
        assert!(matches!(program.functions[0].body.calls[0].target, Target::Delegate(0)));
        let payload = program.delegates[0].payload.clone();
        sconce_payloads::xnnpack::import(&payload).unwrap();
        payload
    }
}

fn names(graph: &Graph<'_>) -> Vec<String> {
    let name = |operation: &Operation| format!("{operation:?}").split('(').next().unwrap_or("").to_owned();
    graph.nodes.iter().map(|node| name(&node.operation)).collect()
}

#[test]
fn a_linear_layer_takes_its_activation_along() {
    let mut method = Method::new();
    let (x, weight, bias) = (method.input(&[2, 3]), method.floats(&[4, 3]), method.floats(&[4]));
    let args = vec![("input", x.into()), ("weight", weight.into()), ("bias", bias.into())];
    let y = method.call("aten::linear", args, &[2, 4]);
    let y = method.call("aten::relu", vec![("self", y.into())], &[2, 4]);
    let payload = method.payload(y);
    let graph = Graph::read(&payload).unwrap();
    assert_eq!(names(&graph), ["FullyConnected"]);
    assert_eq!(graph.nodes[0].output_range, Some((0.0, f32::INFINITY)));
    let Operation::FullyConnected(node) = &graph.nodes[0].operation else { unreachable!() };
    let value = |id: u32| &graph.values[id as usize];
    assert_eq!(value(node.input1_id).storage, Storage::External { id: 0, input: true, output: false });
    assert_eq!(value(node.output_id).storage, Storage::External { id: 1, input: false, output: true });
    assert_eq!(value(node.filter_id).dims, [4, 3]);
}

#[test]
fn an_activation_that_others_need_too_stays_a_node() {
    let mut method = Method::new();
    let x = method.input(&[2, 3]);
    let sum = method.call("aten::add.Tensor", vec![("self", x.into()), ("other", x.into())], &[2, 3]);
    let limited = method.call("aten::relu", vec![("self", sum.into())], &[2, 3]);
    let y = method.call("aten::mul.Tensor", vec![("self", sum.into()), ("other", limited.into())], &[2, 3]);
    let payload = method.payload(y);
    assert_eq!(names(&Graph::read(&payload).unwrap()), ["Add", "Clamp", "Multiply"]);
}

#[test]
fn transpositions_are_at_the_borders_only() {
    let mut method = Method::new();
    let x = method.input(&[1, 3, 8, 8]);
    let a = method.convolution(x, [3, 4], 8);
    let a = method.call("aten::sigmoid", vec![("self", a.into())], &[1, 4, 8, 8]);
    let scale = method.floats(&[4, 1, 1]);
    let a = method.call("aten::mul.Tensor", vec![("self", a.into()), ("other", scale.into())], &[1, 4, 8, 8]);
    let b = method.convolution(a, [4, 4], 8);
    let y = method.call("aten::cat", vec![("tensors", vec![a, b].into()), ("dim", 1.into())], &[1, 8, 8, 8]);
    let payload = method.payload(y);
    let graph = Graph::read(&payload).unwrap();
    let expected = ["StaticTranspose", "Conv2d", "Sigmoid", "Multiply", "Conv2d", "Concatenate2", "StaticTranspose"];
    assert_eq!(names(&graph), expected);
    let Operation::Concatenate2(cat) = &graph.nodes[5].operation else { unreachable!() };
    assert_eq!((cat.axis, &*graph.values[cat.output_id as usize].dims), (3, &[1, 8, 8, 8][..]));
    let Operation::Multiply(node) = &graph.nodes[3].operation else { unreachable!() };
    assert_eq!(graph.values[node.input2_id as usize].dims, [1, 1, 1, 4]);
}

#[test]
fn a_permutation_to_innermost_channels_costs_nothing_after_a_convolution() {
    let mut method = Method::new();
    let x = method.input(&[1, 3, 8, 8]);
    let a = method.convolution(x, [3, 4], 8);
    let a = method.call("aten::permute", vec![("self", a.into()), ("dims", vec![0i64, 2, 3, 1].into())], &[1, 8, 8, 4]);
    let weight = method.floats(&[5, 4]);
    let y = method.call("aten::linear", vec![("input", a.into()), ("weight", weight.into())], &[1, 8, 8, 5]);
    let payload = method.payload(y);
    assert_eq!(names(&Graph::read(&payload).unwrap()), ["StaticTranspose", "Conv2d", "FullyConnected"]);
}

#[test]
fn many_tensors_are_joined_in_steps() {
    let mut method = Method::new();
    let inputs: Vec<ValueId> = (0..11).map(|_| method.input(&[2, 1])).collect();
    let y = method.call("aten::cat", vec![("tensors", inputs.into()), ("dim", (-1).into())], &[2, 11]);
    let payload = method.payload(y);
    let graph = Graph::read(&payload).unwrap();
    assert_eq!(names(&graph), ["Concatenate5", "Concatenate5", "Concatenate3"]);
    let outputs = graph.nodes.iter().map(|node| match &node.operation {
        Operation::Concatenate5(table) | Operation::Concatenate3(table) => table.output_id,
        _ => unreachable!(),
    });
    let sizes: Vec<u32> = outputs.map(|id| graph.values[id as usize].dims[1]).collect();
    assert_eq!(sizes, [5, 9, 11]);
}

#[test]
fn batch_normalisation_goes_into_the_convolution() {
    let mut method = Method::new();
    let x = method.input(&[1, 1, 4, 4]);
    let y = method.convolution(x, [1, 2], 4);
    let mean = method.floats(&[2]);
    let variance = method.constant(ScalarType::Float, &[2], [3.0f32, 15.0].map(f32::to_le_bytes).concat());
    let args = vec![
        ("input", y.into()),
        ("running_mean", mean.into()),
        ("running_var", variance.into()),
        ("training", false.into()),
        ("eps", 1.0.into()),
    ];
    let y = method.call("aten::batch_norm", args, &[1, 2, 4, 4]);
    let (program, _) = method.partitioned(y);
    let delegate = &program.delegates[0];
    let graph = Graph::read(&delegate.payload).unwrap();
    assert_eq!(names(&graph), ["StaticReshape", "DepthwiseConv2d", "StaticTranspose"]);
    // The factors are 1 / sqrt(3 + 1) and 1 / sqrt(15 + 1), the summands minus the means times those.
    let floats =
        |bytes: &[u8]| -> Vec<f32> { bytes.as_chunks().0.iter().map(|&own| f32::from_le_bytes(own)).collect() };
    let data: Vec<Vec<f32>> = delegate.data.iter().map(|(_, data)| floats(program.constants.data(data))).collect();
    let filter: Vec<f32> = (0..9).flat_map(|place| [place as f32 * 0.5, (place + 9) as f32 * 0.25]).collect();
    assert_eq!(data, [filter, vec![0.0, -0.25]]);
}

/// A call that dequantises or quantises with one scale.
fn grid(value: ValueId, scale: f64, zero: i64) -> Vec<(&'static str, Arg)> {
    vec![("input", value.into()), ("scale", scale.into()), ("zero_point", zero.into())]
}

#[test]
fn a_quantised_linear_layer_is_one_node_on_integers() {
    let mut method = Method::new();
    let x = method.input(&[2, 3]);
    let int8 = |sizes: &[i64]| TensorType::fixed(ScalarType::Char, sizes);
    let q = method.call_of("quantized_decomposed::quantize_per_tensor", grid(x, 0.5, 3), int8(&[2, 3]));
    let d = method.call("quantized_decomposed::dequantize_per_tensor", grid(q, 0.5, 3), &[2, 3]);
    let weight = method.constant(ScalarType::Char, &[2, 3], vec![1, 2, 3, 4, 5, 6]);
    let scales = method.constant(ScalarType::Float, &[2], [0.25f32, 0.125].map(f32::to_le_bytes).concat());
    let args = vec![("input", weight.into()), ("scales", scales.into()), ("axis", 0.into())];
    let weight = method.call("quantized_decomposed::dequantize_per_channel", args, &[2, 3]);
    let bias = method.constant(ScalarType::Float, &[2], [1.0f32, -1.0].map(f32::to_le_bytes).concat());
    let args = vec![("input", d.into()), ("weight", weight.into()), ("bias", bias.into())];
    let y = method.call("aten::linear", args, &[2, 2]);
    let y = method.call_of("quantized_decomposed::quantize_per_tensor", grid(y, 0.75, -1), int8(&[2, 2]));
    let y = method.call("quantized_decomposed::dequantize_per_tensor", grid(y, 0.75, -1), &[2, 2]);
    let (program, report) = method.partitioned(y);
    assert_eq!(report.refused, []);
    let delegate = &program.delegates[0];
    let graph = Graph::read(&delegate.payload).unwrap();
    assert_eq!(names(&graph), ["Convert", "FullyConnected", "Convert"]);
    let Operation::FullyConnected(node) = &graph.nodes[1].operation else { unreachable!() };
    let dtype = |id: u32| graph.values[id as usize].dtype;
    assert_eq!(
        [node.input1_id, node.filter_id, node.bias_id, node.output_id].map(dtype),
        [Datatype::QInt8, Datatype::QCInt8, Datatype::QCInt32, Datatype::QInt8]
    );
    // The bias counts in steps of 0.5 * 0.25 and 0.5 * 0.125.
    let bias = [8i32, -16].map(i32::to_le_bytes).concat();
    assert!(delegate.data.iter().any(|(_, data)| program.constants.data(data) == bias));
}

#[test]
fn a_size_that_is_not_known_is_its_upper_bound() {
    let mut method = Method::new();
    let symbol = method.function.symbols.add(Known { name: "s0".to_owned(), least: 1, most: 17 });
    let size = Size::from(symbol);
    let x = method.input_of(TensorType::new(ScalarType::Float, vec![size.clone(), 4.into()]));
    method.function.definitions.insert(symbol, crate::ir::Definition::SizeOf(x, 0));
    let ty = TensorType::new(ScalarType::Float, vec![size.clone(), 2.into(), 2.into()]);
    let args = vec![("self", x.into()), ("size", vec![size, 2.into(), 2.into()].into())];
    let y = method.call_of("aten::view", args, ty);
    let payload = method.payload(y);
    let graph = Graph::read(&payload).unwrap();
    let Operation::StaticReshape(node) = &graph.nodes[0].operation else { unreachable!() };
    assert_eq!((&*node.new_shape, &*graph.values[0].dims), (&[0, 2, 2][..], &[17, 4][..]));
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    let mut method = Method::new();
    let x = method.input(&[2, 3]);
    let args = vec![("self", x.into()), ("other", x.into()), ("alpha", 2.0.into())];
    let y = method.call("aten::add.Tensor", args, &[2, 3]);
    let y = method.call("aten::erf", vec![("self", y.into())], &[2, 3]);
    let (program, report) = method.partitioned(y);
    assert_eq!(program.delegates.len(), 0);
    let reasons: Vec<&str> = report.refused.iter().map(|refused| &*refused.reason).collect();
    assert_eq!(reasons, ["it multiplies one operand by a number (alpha)", "XNNPACK has no such operator"]);
}

/// A linear layer of two by two, of int8 weights, that reads `x`.
fn linear_on_integers(method: &mut Method, x: ValueId) -> ValueId {
    let integers = method.constant(ScalarType::Char, &[2, 2], vec![1, 2, 3, 4]);
    let scales = method.floats(&[2]);
    let zeros = method.constant(ScalarType::Long, &[2], vec![0; 16]);
    let args = vec![
        ("input", integers.into()),
        ("scales", scales.into()),
        ("zero_points", zeros.into()),
        ("axis", 0.into()),
        ("quant_min", (-127).into()),
        ("quant_max", 127.into()),
        ("dtype", ScalarType::Char.into()),
    ];
    let weight = method.call("quantized_decomposed::dequantize_per_channel", args, &[2, 2]);
    method.call("aten::linear", vec![("input", x.into()), ("weight", weight.into())], &[3, 2])
}

/// Numbers made of integers whose scales are found when the program runs.
fn through_integers(method: &mut Method, x: ValueId) -> ValueId {
    let [scales, zeros] = [ScalarType::Double, ScalarType::Long].map(|dtype| {
        method.function.value(Kind::Tensor(TensorType::fixed(dtype, &[3, 1])), Origin::Call, "parameters")
    });
    let choose = "quantized_decomposed::choose_qparams_per_token_asymmetric";
    let args = [("input", x.into()), ("dtype", ScalarType::Char.into())];
    method.function.body.calls.push(Call::new(choose, args, vec![scales, zeros]));
    let args = |input: ValueId| vec![("input", input.into()), ("scales", scales.into()), ("zero_points", zeros.into())];
    let ty = TensorType::fixed(ScalarType::Char, &[3, 2]);
    let integers = method.call_of("quantized_decomposed::quantize_per_token", args(x), ty);
    method.call("quantized_decomposed::dequantize_per_token", args(integers), &[3, 2])
}

#[test]
fn every_reader_has_its_conversion_and_a_part_makes_it_once() {
    let mut method = Method::new();
    let x = method.input(&[3, 2]);
    let numbers = through_integers(&mut method, x);
    let [a, b] = [(); 2].map(|()| linear_on_integers(&mut method, numbers));
    let mut function = method.function.clone();
    separate::separate(&mut function);
    let conversions = function.body.calls.iter().filter(|call| quantization::is_dynamic_step(call)).count();
    assert_eq!(conversions, 6);
    let reads: Vec<&Arg> = function
        .body
        .calls
        .iter()
        .filter(|call| call.operator() == Some("aten::linear"))
        .map(|call| call.arg("input"))
        .collect();
    assert_ne!(reads[0], reads[1]);
    let y = method.call("aten::add.Tensor", vec![("self", a.into()), ("other", b.into())], &[3, 2]);
    let payload = method.payload(y);
    let names = names(&Graph::read(&payload).unwrap());
    assert_eq!(names.iter().filter(|name| *name == "Convert").count(), 1);
    assert_eq!(names.iter().filter(|name| *name == "FullyConnected").count(), 2);
}

#[test]
fn a_reader_that_needs_numbers_does_not_keep_integers_from_others() {
    let mut method = Method::new();
    let x = method.input(&[3, 2]);
    let numbers = through_integers(&mut method, x);
    method.call("aten::cumsum", vec![("self", numbers.into()), ("dim", 0.into())], &[3, 2]);
    let a = linear_on_integers(&mut method, numbers);
    let y = method.call("aten::cumsum", vec![("self", a.into()), ("dim", 0.into())], &[3, 2]);
    let (program, report) = method.partitioned(y);
    assert_eq!(names(&Graph::read(&program.delegates[0].payload).unwrap()), ["Convert", "FullyConnected"]);
    assert_eq!(report.delegated.len(), 1);
}
