//! Conversions between numbers and integers, and integer weights.
//!
//! Where parameters are found when the program runs, the payload has one conversion per row of numbers in the place of
//! the export's three calls; that is what the official exporter does, too.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, Layout};
use super::super::nodes;
use super::super::quantization::{self, DEQUANTIZE, Grid, QUANTIZE, dynamic_source, has_four_bits};
use super::super::scope::Scope;
use super::super::tensor::Tensor;
use super::products::integer_grid;
use super::{Row, row};
use crate::ir::{Call, ValueId};
use half::bf16;
use sconce_format::ScalarType;
use sconce_format::xnnpack::model::{Operation, Quantization, Unary};
use sconce_format::xnnpack::{Datatype, NONE};

pub(super) const ROWS: &[Row] = &[
    row(QUANTIZE, quantize),
    row("quantized_decomposed::choose_qparams.tensor", dynamic_step),
    row("quantized_decomposed::choose_qparams_per_token_asymmetric", dynamic_step),
    row("quantized_decomposed::quantize_per_tensor.tensor", dynamic_step),
    row("quantized_decomposed::quantize_per_token", dynamic_step),
    row("quantized_decomposed::dequantize_per_tensor.tensor", dynamic_step),
    row("quantized_decomposed::dequantize_per_token", dynamic_step),
    row("torchao::choose_qparams_affine", dynamic_step),
    row("torchao::quantize_affine", dynamic_step),
    row("torchao::dequantize_affine", dynamic_step),
    // A node is made when somebody asks for the numbers.
    row(DEQUANTIZE, |b, c| {
        let value = Arguments(c).tensor("input")?;
        b.dims(value, Layout::Plain)?;
        is_int8(b.scope, value)?;
        match b.grid(value)? {
            Grid::Whole { .. } => Ok(()),
            _ => Err("its integers have more than one scale".to_owned()),
        }
    }),
];

fn is_int8(scope: &Scope<'_>, value: ValueId) -> Result<(), String> {
    match scope.ty(value)?.dtype {
        ScalarType::Char => Ok(()),
        other => Err(format!("its integers are of the type {other}, not int8")),
    }
}

fn quantize(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = Arguments(call).tensor("input")?;
    is_int8(b.scope, call.outputs[0])?;
    let layout = b.common(&[value], call.outputs[0]);
    let input_id = b.operand(value, layout)?;
    let output_id = b.define(call.outputs[0], layout)?;
    b.node(Operation::Convert(Unary { input_id, output_id, flags: 0 }), None);
    Ok(())
}

/// A step of a dynamic quantisation: no node, because what reads its end converts the numbers itself.
fn dynamic_step(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    if serves(b.scope, call, STEPS) {
        return Ok(());
    }
    Err("not all that reads it is a linear layer or convolution with weights of a kind that XNNPACK has".to_owned())
}

/// How many steps may follow each other: parameters, integers, numbers.
const STEPS: usize = 3;

/// Whether all that comes of a step of a dynamic quantisation goes into calls that do it themselves.
fn serves(scope: &Scope<'_>, call: &Call, steps: usize) -> bool {
    let reader = |reader: &&Call, value: ValueId| match steps.checked_sub(1) {
        Some(left) if quantization::is_dynamic_step(reader) => serves(scope, reader, left),
        _ => takes_dynamic(scope, reader, value),
    };
    let fits = |&value: &ValueId| !scope.is_output(value) && scope.readers(value).iter().all(|own| reader(own, value));
    call.outputs.iter().all(fits)
}

fn takes_dynamic(scope: &Scope<'_>, call: &Call, value: ValueId) -> bool {
    let reads = Arguments(call).optional("input") == Some(value) && dynamic_input(scope, call).is_some();
    reads && nodes(&mut Builder::rehearsal(scope), call).is_ok()
}

/// The numbers that a linear layer or convolution gets, before they were quantised with parameters found when the
/// program runs, if its weights go with that.
pub(super) fn dynamic_input(scope: &Scope<'_>, call: &Call) -> Option<ValueId> {
    let arguments = Arguments(call);
    let source = dynamic_source(scope, scope.maker(arguments.optional("input")?)?)?;
    let maker = scope.maker(arguments.optional("weight")?)?;
    let fits = match (call.operator()?, integer_grid(scope, call)?, has_four_bits(maker)) {
        ("aten::linear", Grid::Channels { axis: 0, .. }, _) => true,
        ("aten::linear", Grid::Groups { size, .. }, true) => size > 0 && size.is_multiple_of(32),
        ("aten::convolution", Grid::Channels { axis: 0, .. }, false) => {
            let sizes = scope.ty(arguments.optional("weight")?).ok()?.numbers()?;
            sizes.len() == 4 && sizes[1] > 1 && !arguments.bool("transposed", false)
        }
        _ => false,
    };
    (fits && scope.is_known(arguments.optional("weight")?)).then_some(source)
}

/// The integers that a call's weight is made of, as `shape` lays them, output channels in dimension `channel_dim`.
pub(super) fn integer_weight<'p>(
    b: &mut Builder<'p>,
    call: &Call,
    shape: impl FnOnce(Tensor<'p>) -> Tensor<'p>,
    channel_dim: usize,
) -> Result<u32, String> {
    let maker = b.scope.maker(Arguments(call).tensor("weight")?).ok_or("its weight is not quantised")?;
    let grid = integer_grid(b.scope, call).ok_or("its weight is not quantised")?;
    if b.rehearses() {
        return b.constant(Datatype::Fp32, |_| Ok(Tensor::floats(ScalarType::Float, &[], &[])));
    }
    let tensor = b.scope.known(Arguments(maker).tensor("input")?)?;
    b.scope.has_sizes(Arguments(call).tensor("weight")?, &tensor.sizes)?;
    let tensor = shape(tensor);
    let dims: Vec<u32> = tensor.sizes.iter().map(|&size| size as u32).collect();
    let (data, channel_dim) =
        (if has_four_bits(maker) { tensor.nibbles().into() } else { tensor.data() }, channel_dim as i32);
    let (dtype, quantization) = match grid {
        Grid::Whole { scale, zero } => (Datatype::QInt8, Quantization::PerTensor { scale, zero_point: zero }),
        // The official exporter writes four bits with a scale for each row as groups of the whole row.
        Grid::Channels { scales, .. } if has_four_bits(maker) && dims[1].is_multiple_of(32) => {
            groups(b, &scales, dims[1] as i32)
        }
        Grid::Channels { scales, .. } => {
            let dtype = if has_four_bits(maker) { Datatype::QCInt4 } else { Datatype::QCInt8 };
            let scales = b.scales(floats(&scales), scales.len());
            (dtype, Quantization::PerChannel { channel_dim, scales })
        }
        Grid::Groups { scales, size } => groups(b, &scales, size as i32),
    };
    Ok(b.quantized_constant(dtype, &dims, data, quantization))
}

/// Integers of four bits in groups; their scales have sixteen.
fn groups(b: &mut Builder<'_>, scales: &[f32], group_size: i32) -> (Datatype, Quantization) {
    let bytes: Vec<u8> = scales.iter().flat_map(|&scale| bf16::from_f32(scale).to_le_bytes()).collect();
    let scales = b.scales(bytes, scales.len());
    (Datatype::QBInt4, Quantization::PerChannelGroup { channel_dim: 0, group_size, scales })
}

/// The bias of a call on integers: 32 bits, with the scale of a product of input and weight.
pub(super) fn integer_bias(b: &mut Builder<'_>, call: &Call, input: ValueId) -> Result<u32, String> {
    let Some(bias) = Arguments(call).optional("bias") else { return Ok(NONE) };
    let Grid::Whole { scale: input_scale, .. } = b.grid(input)? else {
        return Err("its input has more than one scale".to_owned());
    };
    let numbers = b.scope.known(bias)?.numbers().ok_or("its bias has no numbers")?;
    let weight = integer_grid(b.scope, call).ok_or("its weight is not quantised")?;
    let scales = match &weight {
        Grid::Whole { scale, .. } => vec![scale * input_scale],
        Grid::Channels { scales, .. } => scales.iter().map(|scale| scale * input_scale).collect(),
        Grid::Groups { .. } => return Err("its weight has groups of scales".to_owned()),
    };
    if scales.is_empty() {
        return Err("its weight has no scales".to_owned());
    }
    let integer = |(place, number): (usize, &f32)| {
        let scale = scales[place % scales.len()];
        (number * (1.0 / scale)).round_ties_even() as i32
    };
    let bytes: Vec<u8> = numbers.iter().enumerate().flat_map(|own| integer(own).to_le_bytes()).collect();
    let dims = [numbers.len() as u32];
    let (dtype, quantization) = match weight {
        Grid::Whole { .. } => (Datatype::QInt32, Quantization::PerTensor { scale: scales[0], zero_point: 0 }),
        _ => {
            let scales = b.scales(floats(&scales), scales.len());
            (Datatype::QCInt32, Quantization::PerChannel { channel_dim: 0, scales })
        }
    };
    Ok(b.quantized_constant(dtype, &dims, bytes.into(), quantization))
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
