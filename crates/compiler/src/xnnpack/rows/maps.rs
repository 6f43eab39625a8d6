//! Functions of single elements and of elements that meet.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, Layout, Range, float};
use super::super::scope::Scope;
use super::super::tensor::Tensor;
use super::{Integers, Joins, Row, both, row, tail};
use crate::ir::{Call, ValueId};
use sconce_format::ScalarType;
use sconce_format::xnnpack::model::{Binary, ExponentialUnit, LeakyUnit, Operation, Unary};

pub(super) const ROWS: &[Row] = &[
    row("aten::abs", |b, c| map(b, c, Operation::Abs)),
    row("aten::ceil", |b, c| map(b, c, Operation::Ceiling)),
    row("aten::cos", |b, c| map(b, c, Operation::Cos)),
    row("aten::exp", |b, c| map(b, c, Operation::Exp)),
    row("aten::floor", |b, c| map(b, c, Operation::Floor)),
    row("aten::hardswish", |b, c| map(b, c, Operation::Hardswish)),
    row("aten::log", |b, c| map(b, c, Operation::Log)),
    row("aten::neg", |b, c| map(b, c, Operation::Negate)),
    row("aten::rsqrt", |b, c| map(b, c, Operation::ReciprocalSquareRoot)),
    row("aten::sigmoid", |b, c| map(b, c, Operation::Sigmoid)),
    row("aten::sin", |b, c| map(b, c, Operation::Sin)),
    row("aten::sqrt", |b, c| map(b, c, Operation::SquareRoot)),
    row("aten::square", |b, c| map(b, c, Operation::Square)),
    row("aten::tanh", |b, c| map(b, c, Operation::Tanh)),
    row("aten::clone", |b, c| map(b, c, Operation::Copy)),
    row("aten::gelu", gelu),
    row("aten::silu", silu),
    row("aten::hardsigmoid", hard_sigmoid),
    row("aten::elu", elu),
    row("aten::leaky_relu", leaky_relu),
    row("aten::pow.Tensor_Scalar", power),
    both("aten::relu", Integers::Any, clamp),
    both("aten::relu6", Integers::Any, clamp),
    both("aten::hardtanh", Integers::Any, clamp),
    both("aten::clamp", Integers::Any, clamp),
    row("aten::clamp_min", clamp),
    row("aten::clamp_max", clamp),
    both("aten::add.Tensor", Integers::Any, |b, c| combine(b, c, Operation::Add, Joins::Limits)),
    row("aten::add.Scalar", |b, c| combine(b, c, Operation::Add, Joins::Limits)),
    both("aten::sub.Tensor", Integers::Any, |b, c| combine(b, c, Operation::Subtract, Joins::Limits)),
    row("aten::sub.Scalar", |b, c| combine(b, c, Operation::Subtract, Joins::Limits)),
    both("aten::mul.Tensor", Integers::Any, |b, c| combine(b, c, Operation::Multiply, Joins::Limits)),
    row("aten::mul.Scalar", |b, c| combine(b, c, Operation::Multiply, Joins::Limits)),
    row("aten::div.Tensor", |b, c| combine(b, c, Operation::Div, Joins::Nothing)),
    row("aten::div.Scalar", |b, c| combine(b, c, Operation::Div, Joins::Nothing)),
    row("aten::rsub.Scalar", |b, c| combine(b, c, Operation::Subtract, Joins::Limits)),
    row("aten::maximum", |b, c| combine(b, c, Operation::Maximum, Joins::Nothing)),
    row("aten::minimum", |b, c| combine(b, c, Operation::Minimum, Joins::Nothing)),
    row("aten::batch_norm", norm),
    row("aten::_native_batch_norm_legit_no_training", norm),
];

/// A function of each element, in the form that is there.
fn map(b: &mut Builder<'_>, call: &Call, operation: fn(Unary) -> Operation) -> Result<(), String> {
    unary(b, call, |input_id, output_id| operation(Unary { input_id, output_id, flags: 0 }))
}

fn unary(b: &mut Builder<'_>, call: &Call, operation: impl Fn(u32, u32) -> Operation) -> Result<(), String> {
    let value = b.read(call, "self")?;
    same_elements(b.scope, value, call.outputs[0])?;
    let layout = b.common(&[value], call.outputs[0]);
    let input = b.operand(value, layout)?;
    let output = b.define(call.outputs[0], layout)?;
    b.node(operation(input, output), None);
    Ok(())
}

/// Result and operand must have the same type.
fn same_elements(scope: &Scope<'_>, operand: ValueId, result: ValueId) -> Result<(), String> {
    let (from, to) = (scope.ty(operand)?.dtype, scope.ty(result)?.dtype);
    if from == to { Ok(()) } else { Err(format!("it makes {to} of {from}")) }
}

/// The limits that a call puts on its operand, if it does only that.
pub(super) fn limits(call: &Call) -> Option<Result<(f32, f32), String>> {
    let arguments = Arguments(call);
    let pair = |low: &str, high: &str, default: (f64, f64)| {
        let (low, high) = (arguments.float(low, default.0)?, arguments.float(high, default.1)?);
        if low <= high { Ok((low, high)) } else { Err(format!("its limits are {low} and {high}")) }
    };
    let open = (f64::NEG_INFINITY, f64::INFINITY);
    match call.operator()? {
        "aten::relu" => Some(Ok((0.0, f32::INFINITY))),
        "aten::relu6" => Some(Ok((0.0, 6.0))),
        "aten::hardtanh" => Some(pair("min_val", "max_val", (-1.0, 1.0))),
        "aten::clamp" | "aten::clamp_min" | "aten::clamp_max" => Some(pair("min", "max", open)),
        _ => None,
    }
}

fn clamp(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let range = limits(call).ok_or("it has no limits")??;
    let value = b.read(call, "self")?;
    let result = tail(b, call, Joins::Nothing).value;
    same_elements(b.scope, value, result)?;
    let layout = b.common(&[value], result);
    let (input_id, output_id) = (b.operand(value, layout)?, b.define(result, layout)?);
    b.node(Operation::Clamp(Unary { input_id, output_id, flags: 0 }), Some(range));
    Ok(())
}

/// A function of two elements that meet.
fn combine(b: &mut Builder<'_>, call: &Call, operation: fn(Binary) -> Operation, joins: Joins) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.number("alpha")?.is_some_and(|alpha| alpha != 1.0) {
        return Err("it multiplies one operand by a number (alpha)".to_owned());
    }
    if !arguments.text("rounding_mode").is_empty() {
        return Err("it rounds the quotient".to_owned());
    }
    let dtype = b.scope.ty(call.outputs[0])?.dtype;
    let mut operands = Vec::new();
    for name in ["self", "other"] {
        if b.is_tensor(call, name) {
            let value = b.read(call, name)?;
            same_elements(b.scope, Arguments(call).tensor(name)?, call.outputs[0])?;
            operands.push(value);
        }
    }
    let result = tail(b, call, joins);
    let (layout, rank) = (b.common(&operands, result.value), b.scope.ty(result.value)?.rank());
    let mut ids = operands.iter().map(|&value| b.spread(value, layout, rank)).collect::<Result<Vec<_>, _>>()?;
    if ids.len() == 1 {
        let number = arguments.number("other")?.ok_or("its operand \"other\" is missing")?;
        ids.push(b.number(number as f32, dtype)?);
    }
    if call.operator() == Some("aten::rsub.Scalar") {
        ids.reverse();
    }
    let output_id = b.define(result.value, layout)?;
    let [input1_id, input2_id] = ids[..] else { return Err("it has no operands".to_owned()) };
    b.node(operation(Binary { input1_id, input2_id, output_id, flags: 0 }), result.range);
    Ok(())
}

/// Several nodes in a row on one operand.
struct Steps<'b, 'p> {
    b: &'b mut Builder<'p>,
    value: ValueId,
    layout: Layout,
    result: ValueId,
    dtype: ScalarType,
}

impl<'b, 'p> Steps<'b, 'p> {
    fn new(b: &'b mut Builder<'p>, call: &Call) -> Result<(Self, u32), String> {
        let value = b.read(call, "self")?;
        let (result, dtype) = (call.outputs[0], b.scope.ty(value)?.dtype);
        same_elements(b.scope, value, result)?;
        let layout = b.common(&[value], result);
        let input = b.operand(value, layout)?;
        Ok((Self { b, value, layout, result, dtype }, input))
    }

    fn output(&mut self, last: bool) -> Result<u32, String> {
        if last {
            return self.b.define(self.result, self.layout);
        }
        let dims = self.b.dims(self.value, self.layout)?;
        self.b.between(self.value, &dims)
    }

    fn map(&mut self, operation: fn(Unary) -> Operation, input_id: u32) -> Result<u32, String> {
        let output_id = self.output(false)?;
        self.b.node(operation(Unary { input_id, output_id, flags: 0 }), None);
        Ok(output_id)
    }

    fn combine(&mut self, operation: fn(Binary) -> Operation, a: u32, b: u32, last: bool) -> Result<u32, String> {
        self.limited(operation, a, b, last, None)
    }

    fn limited(
        &mut self,
        operation: fn(Binary) -> Operation,
        input1_id: u32,
        input2_id: u32,
        last: bool,
        range: Range,
    ) -> Result<u32, String> {
        let output_id = self.output(last)?;
        self.b.node(operation(Binary { input1_id, input2_id, output_id, flags: 0 }), range);
        Ok(output_id)
    }

    fn number(&mut self, number: f32) -> Result<u32, String> {
        self.b.number(number, self.dtype)
    }
}

fn silu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let (mut steps, input) = Steps::new(b, call)?;
    let gate = steps.map(Operation::Sigmoid, input)?;
    steps.combine(Operation::Multiply, input, gate, true).map(drop)
}

fn hard_sigmoid(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let (mut steps, input) = Steps::new(b, call)?;
    let (three, sixth) = (steps.number(3.0)?, steps.number(1.0 / 6.0)?);
    let limited = steps.limited(Operation::Add, input, three, false, Some((0.0, 6.0)))?;
    steps.combine(Operation::Multiply, limited, sixth, true).map(drop)
}

/// The node is the exact function; the approximation by tanh is written out.
fn gelu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    if b.scope.ty(call.outputs[0])?.dtype == ScalarType::Half {
        return Err("XNNPACK has it for float32 only".to_owned());
    }
    if Arguments(call).text("approximate") != "tanh" {
        return map(b, call, Operation::Gelu);
    }
    let (mut steps, x) = Steps::new(b, call)?;
    let [cubic, one, root, half] = [0.044715, 1.0, 0.797_884_6, 0.5].map(|number| steps.number(number));
    let (cubic, one, root, half) = (cubic?, one?, root?, half?);
    // x / 2 * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x)))
    let square = steps.map(Operation::Square, x)?;
    let bent = steps.combine(Operation::Multiply, square, cubic, false)?;
    let bent = steps.combine(Operation::Add, bent, one, false)?;
    let scaled = steps.combine(Operation::Multiply, x, root, false)?;
    let bent = steps.combine(Operation::Multiply, bent, scaled, false)?;
    let gate = steps.map(Operation::Tanh, bent)?;
    let gate = steps.combine(Operation::Add, gate, one, false)?;
    let halved = steps.combine(Operation::Multiply, x, half, false)?;
    steps.combine(Operation::Multiply, gate, halved, true).map(drop)
}

fn elu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.float("scale", 1.0)? != 1.0 || arguments.float("input_scale", 1.0)? != 1.0 {
        return Err("it scales its operand or result".to_owned());
    }
    let alpha = arguments.float("alpha", 1.0)?;
    if alpha.is_nan() || alpha <= 0.0 {
        return Err(format!("its alpha is {alpha}, not positive"));
    }
    unary(b, call, |input_id, output_id| Operation::ELU(ExponentialUnit { alpha, input_id, output_id, flags: 0 }))
}

fn leaky_relu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let negative_slope = Arguments(call).float("negative_slope", 0.01)?;
    unary(b, call, |input_id, output_id| {
        Operation::LeakyReLU(LeakyUnit { negative_slope, input_id, output_id, flags: 0 })
    })
}

fn power(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    match Arguments(call).float("exponent", f64::NAN)? {
        2.0 => map(b, call, Operation::Square),
        exponent => Err(format!("its exponent is {exponent}; XNNPACK has squares only")),
    }
}

/// Whether a call is batch normalisation with known parameters.
pub(super) fn is_norm(b: &Builder<'_>, call: &Call) -> bool {
    matches!(call.operator(), Some("aten::batch_norm" | "aten::_native_batch_norm_legit_no_training"))
        && norm_parameters(b, call).is_ok()
}

/// The tensors of batch normalisation that must be known.
fn norm_parameters(b: &Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.bool("training", false) {
        return Err("it is exported for training".to_owned());
    }
    if call.outputs.iter().skip(1).any(|&value| !b.scope.is_unread(value)) {
        return Err("its statistics are read".to_owned());
    }
    for name in ["running_mean", "running_var"] {
        arguments.tensor(name)?;
    }
    for name in ["running_mean", "running_var", "weight", "bias"] {
        if arguments.optional(name).is_some_and(|value| !b.scope.is_known(value)) {
            return Err(format!("its {name} is not constant"));
        }
    }
    Ok(())
}

/// Batch normalisation as a factor and a summand for each channel.
pub(super) fn norm_factors(scope: &Scope<'_>, call: &Call) -> Result<(Vec<f32>, Vec<f32>), String> {
    let arguments = Arguments(call);
    let numbers = |value| scope.known(value)?.numbers().ok_or_else(|| "its parameters are no numbers".to_owned());
    let (mean, variance) = (numbers(arguments.tensor("running_mean")?)?, numbers(arguments.tensor("running_var")?)?);
    let optional = |name, default| arguments.optional(name).map_or_else(|| Ok(vec![default; mean.len()]), numbers);
    let (weight, bias, epsilon) = (optional("weight", 1.0)?, optional("bias", 0.0)?, arguments.float("eps", 1e-5)?);
    let factors: Vec<f32> =
        weight.iter().zip(&variance).map(|(weight, variance)| weight / (variance + epsilon).sqrt()).collect();
    let summands = mean.iter().zip(&bias).zip(&factors).map(|((mean, bias), factor)| bias - mean * factor).collect();
    Ok((factors, summands))
}

/// Batch normalisation that could not become part of a convolution: multiply, then add.
fn norm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    norm_parameters(b, call)?;
    let value = Arguments(call).tensor("input")?;
    let (ty, result) = (b.scope.ty(value)?, tail(b, call, Joins::Limits));
    let layout = b.common(&[value], result.value);
    let input = b.operand(value, layout)?;
    let (dtype, rank) = (ty.dtype, ty.rank());
    let factor = |b: &mut Builder<'_>, second: bool| {
        b.constant(float(dtype)?, |scope| {
            let (factors, summands) = norm_factors(scope, call)?;
            let numbers = if second { summands } else { factors };
            let mut sizes = vec![1; if layout == Layout::Channels { 4 } else { rank }];
            let place = if layout == Layout::Channels { 3 } else { 1 };
            *sizes.get_mut(place).ok_or("it has no channels")? = numbers.len();
            Ok(Tensor::floats(dtype, &sizes, &numbers))
        })
    };
    let (scale, shift) = (factor(b, false)?, factor(b, true)?);
    let dims = b.dims(value, layout)?;
    let scaled = b.between(value, &dims)?;
    b.node(Operation::Multiply(Binary { input1_id: input, input2_id: scale, output_id: scaled, flags: 0 }), None);
    let output_id = b.define(result.value, layout)?;
    b.node(Operation::Add(Binary { input1_id: scaled, input2_id: shift, output_id, flags: 0 }), result.range);
    Ok(())
}
