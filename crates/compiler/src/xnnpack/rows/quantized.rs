//! Conversions between numbers and integers, and integer weights.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, Layout};
use super::super::quantization::{DEQUANTIZE, Grid, QUANTIZE};
use super::super::scope::Scope;
use super::super::tensor::Tensor;
use super::products::integer_grid;
use super::{Row, row};
use crate::ir::{Call, ValueId};
use sconce_format::ScalarType;
use sconce_format::xnnpack::model::{Operation, Quantization, Unary};
use sconce_format::xnnpack::{Datatype, NONE};

pub(super) const ROWS: &[Row] = &[
    row(QUANTIZE, quantize),
    // A node is made when somebody asks for the numbers.
    row(DEQUANTIZE, |b, c| {
        let value = Arguments(c).tensor("input")?;
        b.dims(value, Layout::Plain)?;
        is_int8(b.scope, value)?;
        match b.grid(value)? {
            Grid::PerTensor { .. } => Ok(()),
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

/// The numbers before they were quantised with parameters found when the program runs, if that is what an argument is.
pub(super) fn dynamic_input(_scope: &Scope<'_>, _call: &Call, _name: &str) -> Option<ValueId> {
    None
}

/// Numbers converted with a scale for each row.
pub(super) fn rows_of(b: &mut Builder<'_>, value: ValueId, layout: Layout, row: i32) -> Result<u32, String> {
    let input_id = b.operand(value, layout)?;
    let output_id = b.rows(value, layout, row)?;
    b.node(Operation::Convert(Unary { input_id, output_id, flags: 0 }), None);
    Ok(output_id)
}

/// The integers that a call's weight is made of, as `shape` lays them, output channels in dimension `channel_dim`.
pub(super) fn integer_weight<'p>(
    b: &mut Builder<'p>,
    call: &Call,
    shape: impl FnOnce(Tensor<'p>) -> Tensor<'p>,
    channel_dim: usize,
) -> Result<u32, String> {
    let (tensor, grid) = integers_of(b, call)?;
    if b.rehearses() {
        return Ok(b.quantized_constant(
            Datatype::QInt8,
            &[1],
            &[0],
            Quantization::PerTensor { scale: 1.0, zero_point: 0 },
        ));
    }
    let tensor = shape(tensor);
    let dims: Vec<u32> = tensor.sizes.iter().map(|&size| size as u32).collect();
    let (dtype, quantization) = match grid {
        Grid::PerTensor { scale, zero } => (Datatype::QInt8, Quantization::PerTensor { scale, zero_point: zero }),
        Grid::PerChannel { scales, .. } => {
            let scales = b.scales(&floats(&scales), scales.len());
            (Datatype::QCInt8, Quantization::PerChannel { channel_dim: channel_dim as i32, scales })
        }
        Grid::PerGroup { .. } => return Err("its weight has groups of scales".to_owned()),
    };
    Ok(b.quantized_constant(dtype, &dims, &tensor.bytes, quantization))
}

/// The integers of a call's weight and what they stand for.
fn integers_of<'p>(b: &Builder<'p>, call: &Call) -> Result<(Tensor<'p>, Grid), String> {
    let maker = b.scope.maker(Arguments(call).tensor("weight")?).ok_or("its weight is not quantised")?;
    let tensor = b.scope.known(Arguments(maker).tensor("input")?)?;
    Ok((tensor, integer_grid(b.scope, call).ok_or("its weight is not quantised")?))
}

/// The bias of a call on integers: 32 bits, with the scale of a product of input and weight.
pub(super) fn integer_bias(b: &mut Builder<'_>, call: &Call, input: ValueId) -> Result<u32, String> {
    let Some(bias) = Arguments(call).optional("bias") else { return Ok(NONE) };
    let Grid::PerTensor { scale: input_scale, .. } = b.grid(input)? else {
        return Err("its input has more than one scale".to_owned());
    };
    let numbers = b.scope.known(bias)?.numbers().ok_or("its bias has no numbers")?;
    let weight = integer_grid(b.scope, call).ok_or("its weight is not quantised")?;
    let scales = match &weight {
        Grid::PerTensor { scale, .. } => vec![scale * input_scale],
        Grid::PerChannel { scales, .. } => scales.iter().map(|scale| scale * input_scale).collect(),
        Grid::PerGroup { .. } => return Err("its weight has groups of scales".to_owned()),
    };
    let integer = |(place, number): (usize, &f32)| {
        let scale = scales[place % scales.len()];
        (number * (1.0 / scale)).round_ties_even() as i32
    };
    let bytes: Vec<u8> = numbers.iter().enumerate().flat_map(|own| integer(own).to_le_bytes()).collect();
    let dims = [numbers.len() as u32];
    let (dtype, quantization) = match weight {
        Grid::PerTensor { .. } => (Datatype::QInt32, Quantization::PerTensor { scale: scales[0], zero_point: 0 }),
        _ => {
            let scales = b.scales(&floats(&scales), scales.len());
            (Datatype::QCInt32, Quantization::PerChannel { channel_dim: 0, scales })
        }
    };
    Ok(b.quantized_constant(dtype, &dims, &bytes, quantization))
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
