//! Two convolutions, with all arithmetic done by hand.

use super::*;
use crate::ir::{Arg, Block, Call, Input, Kind, TensorType, parse};
use sconce_format::ScalarType;

/// Gives what values are, instead of running a program.
struct ByHand(Vec<Vec<Vec<f32>>>);

impl Calibrator for ByHand {
    fn knows(&self, _: &str) -> bool {
        true
    }

    fn run(&self, _: &str, _: &[u8], each: &mut dyn FnMut(&[Vec<u8>])) -> Result<(), String> {
        for call in &self.0 {
            each(&call.iter().map(|numbers| weights::bytes(numbers)).collect::<Vec<_>>());
        }
        Ok(())
    }
}

/// `relu(conv(x))`, then another convolution; filters of one element, so that convolutions are products.
fn two_layers<'a>() -> (Function, Constants<'a>) {
    let (mut function, mut constants) =
        (Function { name: "forward".to_owned(), ..Function::default() }, Constants::default());
    let image = |channels: i64| Kind::Tensor(TensorType::fixed(ScalarType::Float, &[1, channels, 1, 2]));
    let x = function.value(image(1), Origin::Input, "x");
    let mut weight = |function: &mut Function, sizes: &[usize], numbers: &[f32]| {
        weights::constant(function, &mut constants, ScalarType::Float, sizes, weights::bytes(numbers), "weight")
    };
    let first = weight(&mut function, &[2, 1, 1, 1], &[2.0, -0.5]);
    let bias = weight(&mut function, &[2], &[1.0, 0.0]);
    let second = weight(&mut function, &[1, 2, 1, 1], &[1.0, 0.25]);
    let a = function.value(image(2), Origin::Call, "a");
    let b = function.value(image(2), Origin::Call, "b");
    let c = function.value(image(1), Origin::Call, "c");
    let convolution = |input: ValueId, weight: ValueId, bias: Arg, output: ValueId| {
        let args = [("input", input.into()), ("weight", weight.into()), ("bias", bias)];
        let sizes = [("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)];
        let sizes = sizes.map(|(name, size)| (name, Arg::from(vec![size, size])));
        let rest = [("transposed", Arg::Bool(false)), ("groups", 1.into())];
        Call::new("aten::convolution", args.into_iter().chain(sizes).chain(rest), vec![output])
    };
    let calls = vec![
        convolution(x, first, bias.into(), a),
        Call::new("aten::relu", [("self", a.into())], vec![b]),
        convolution(b, second, Arg::None, c),
    ];
    function.body = Block { inputs: vec![x], calls, outputs: vec![c] };
    function.inputs = vec![Input::Value(x)];
    function.outputs = vec![Output::Value(c)];
    (function, constants)
}

fn names(function: &Function) -> Vec<&str> {
    function.body.calls.iter().filter_map(|call| call.operator()?.split("::").nth(1)).collect()
}

/// Scale and zero point of a call.
fn grid(call: &Call) -> (f64, i64) {
    match (call.arg("scale"), call.arg("zero_point")) {
        (Arg::Float(scale), Arg::Int(zero)) => (*scale, zero.number().unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_convolutions_by_hand() {
    let (mut function, mut constants) = two_layers();
    // x = (-1, 3): relu(2x + 1) = (0, 7), relu(-x / 2) = (0.5, 0); c = b0 + b1 / 4 = (0.125, 7).
    let seen = vec![vec![-1.0, 3.0], vec![0.0, 7.0, 0.5, 0.0], vec![0.125, 7.0]];
    let (made, left) = fixed(&mut function, &mut constants, &ByHand(vec![seen])).unwrap();
    assert_eq!(left, []);
    assert_eq!(made.len(), 2);
    let (there, back) = ("quantize_per_tensor", "dequantize_per_tensor");
    let weight = "dequantize_per_channel";
    let expected = [there, back, weight, "convolution", "relu", there, back, weight, "convolution", there, back];
    assert_eq!(names(&function), expected);
    let calls = &function.body.calls;
    // With so few numbers clipping gains nothing worth more than a step.
    let near = |(scale, zero): (f64, i64), low: f64, high: f64| {
        let step = (high - low) / 255.0;
        assert!((scale - step).abs() < step * 0.02, "{scale} is not {step}");
        assert!((zero as f64 - (-128.0 - low / step)).abs() <= 2.0, "{zero}");
    };
    near(grid(&calls[0]), -1.0, 3.0);
    near(grid(&calls[5]), 0.0, 7.0);
    near(grid(&calls[9]), 0.0, 7.0);
    assert_eq!(grid(&calls[0]), grid(&calls[1]));
    let known = |call: &Call, name: &str| {
        let Arg::Value(value) = call.arg(name) else { panic!("{name}") };
        let Origin::Constant(constant) = function.get(*value).origin else { panic!("{name}") };
        constants.bytes(constant).to_vec()
    };
    // Filters 2 and -1/2 have their own scales; 1 and 1/4 share one, and 127 / 4 = 31.75.
    assert_eq!(known(&calls[2], "input"), [127, -127i8 as u8]);
    assert_eq!(known(&calls[2], "scales"), weights::bytes(&[2.0 / 127.0, 0.5 / 127.0]));
    assert_eq!(known(&calls[7], "input"), [127, 32]);
    assert_eq!(known(&calls[7], "scales"), weights::bytes(&[1.0 / 127.0]));
    assert_eq!(function.outputs, [Output::Value(made[1].1)]);
}

#[test]
fn what_is_infinite_stays_as_it_is() {
    let (mut function, mut constants) = two_layers();
    let seen = vec![vec![f32::NEG_INFINITY, 3.0], vec![0.0, 7.0, 0.5, 0.0], vec![0.125, 7.0]];
    let (made, left) = fixed(&mut function, &mut constants, &ByHand(vec![seen])).unwrap();
    assert_eq!((made, left.len()), (vec![], 2));
    assert_eq!(names(&function), ["convolution", "relu", "convolution"]);
}

/// A sum of scores and a mask that leads to a softmax, and one that does not.
#[test]
fn scores_stay_as_they_are() {
    let program = parse(
        "method \"f\"\n%0: float32[3, 4] \"x\" = input\n%1: float32[3, 4] \"mask\" = input\n\
         %2: float32[3, 4] \"scores\" = aten::add.Tensor(self: %0, other: %1)\n\
         %3: float32[3, 4] \"viewed\" = aten::view(self: %2, size: [3, 4])\n\
         %4: float32[3, 4] \"chances\" = aten::_softmax(self: %3, dim: 1)\n\
         %5: float32[3, 4] \"sum\" = aten::add.Tensor(self: %0, other: %1)\noutput %4\noutput %5",
    )
    .unwrap();
    let (function, constants) = (&program.functions[0], &program.constants);
    let plan = Plan::of(function, constants, &HashSet::new());
    assert_eq!(plan.nodes.iter().map(|node| node.call).collect::<Vec<_>>(), [3]);
}

#[test]
fn fixed_grids_need_inputs() {
    let (function, constants) = two_layers();
    let mut program = Program { functions: vec![function], constants, ..Program::default() };
    let error = quantize(&mut program, &Quantization { scheme: Scheme::Int8, calibrator: None }).unwrap_err();
    assert!(error.to_string().contains("inputs to calibrate"), "{error}");
}

/// A linear layer of 64 inputs and 2 outputs.
fn linear<'a>() -> Program<'a> {
    let (mut function, mut constants) = (Function::default(), Constants::default());
    let rows = |columns: i64| Kind::Tensor(TensorType::fixed(ScalarType::Float, &[3, columns]));
    let x = function.value(rows(64), Origin::Input, "x");
    let numbers: Vec<f32> = (0..128).map(|place| (place % 16) as f32 - 8.0).collect();
    let weight =
        weights::constant(&mut function, &mut constants, ScalarType::Float, &[2, 64], weights::bytes(&numbers), "w");
    let y = function.value(rows(2), Origin::Call, "y");
    let call = Call::new("aten::linear", [("input", x.into()), ("weight", weight.into())], vec![y]);
    function.body = Block { inputs: vec![x], calls: vec![call], outputs: vec![y] };
    (function.inputs, function.outputs) = (vec![Input::Value(x)], vec![Output::Value(y)]);
    Program { functions: vec![function], constants, ..Program::default() }
}

#[test]
fn four_bits_take_an_eighth_and_scales() {
    let mut program = linear();
    let quantization = Quantization { scheme: Scheme::Int4 { group_size: 32 }, calibrator: None };
    let report = quantize(&mut program, &quantization).unwrap();
    assert_eq!((report.calls, report.bytes[0]), (1, 512));
    let function = &mut program.functions[0];
    let expected = [
        "dequantize_per_channel_group",
        "choose_qparams_per_token_asymmetric",
        "quantize_per_token",
        "dequantize_per_token",
        "linear",
    ];
    assert_eq!(names(function), expected);
    // -8 to 7 are integers already.
    let Arg::Value(scales) = *function.body.calls[0].arg("scales") else { panic!() };
    assert_eq!(weights::numbers(function, &program.constants, scales), Some(vec![1.0; 4]));
    assert_eq!(weights::sizes(function, scales), Some(vec![2, 2]));
    expand_groups(function, &mut program.constants).unwrap();
    assert_eq!(names(function)[..5], ["view", "view", "view", "dequantize_per_channel", "view"]);
}

#[test]
fn eight_bits_keep_rows_apart() {
    let mut program = linear();
    let report = quantize(&mut program, &Quantization { scheme: Scheme::Int8Dynamic, calibrator: None }).unwrap();
    assert_eq!(report.calls, 1);
    let function = &program.functions[0];
    assert_eq!(names(function)[0], "dequantize_per_channel");
    let Arg::Value(scales) = *function.body.calls[0].arg("scales") else { panic!() };
    assert_eq!(weights::numbers(function, &program.constants, scales), Some(vec![8.0 / 127.0; 2]));
}
