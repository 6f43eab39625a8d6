//! The same elements elsewhere: other sizes, other orders, parts of tensors and several in one.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, FROM_CHANNELS, Layout, TO_CHANNELS};
use super::super::scope::permutation;
use super::{Integers, Joins, Row, both, row, tail};
use crate::ir::{Call, ValueId};

use sconce_format::xnnpack::model::{Concatenation, Operation, Padding, Slicing, Unary};

pub(super) const ROWS: &[Row] = &[
    both("aten::view", Integers::Same, view),
    both("aten::permute", Integers::Same, permute),
    both("aten::cat", Integers::Same, cat),
    both("aten::slice.Tensor", Integers::Same, slice),
    row("aten::constant_pad_nd", pad),
    row("aten::_to_copy", copy),
];

/// Other sizes; at most one of them may be unknown.
fn view(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let result = tail(b, call, Joins::Nothing).value;
    let sizes = &b.scope.ty(result)?.sizes;
    if sizes.iter().filter(|size| size.number().is_none()).count() > 1 {
        return Err("more than one of its sizes is not known before the program runs".to_owned());
    }
    let mut new_shape = b.dims(result, Layout::Plain)?;
    for (own, _) in new_shape.iter_mut().zip(sizes).filter(|(_, size)| size.number().is_none()) {
        *own = 0;
    }
    let channels = b.has(value, Layout::Channels) && !b.has(value, Layout::Plain) && b.coincides(value);
    let input = b.operand(value, if channels { Layout::Channels } else { Layout::Plain })?;
    let output = b.define(result, Layout::Plain)?;
    b.reshape_to(input, output, new_shape);
    Ok(())
}

/// Another order. Where it only undoes or makes the order of channels, nothing happens.
fn permute(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let result = tail(b, call, Joins::Nothing).value;
    let order = permutation(call, b.scope.ty(value)?.rank())?;
    let from_channels = order.len() == 4 && b.has(value, Layout::Channels) && !b.has(value, Layout::Plain);
    let layout = if from_channels { Layout::Channels } else { Layout::Plain };
    let input = b.operand(value, layout)?;
    // The dimensions of the result among those of the operand in its form.
    let order: Vec<usize> = if from_channels { order.iter().map(|&dim| FROM_CHANNELS[dim]).collect() } else { order };
    let as_channels = |order: &[usize]| -> Vec<usize> { TO_CHANNELS.iter().map(|&dim| order[dim]).collect() };
    if order.is_sorted() {
        return b.alias(result, Layout::Plain, input);
    }
    if order.len() == 4 && as_channels(&order).is_sorted() && !b.coincides(result) {
        return b.alias(result, Layout::Channels, input);
    }
    let output = b.define(result, Layout::Plain)?;
    b.transpose(input, output, &order);
    Ok(())
}

/// The place of a value's dimension in a form.
fn in_form(dim: usize, rank: usize, layout: Layout) -> usize {
    match (layout, rank) {
        (Layout::Plain, _) => dim,
        (Layout::Channels, 4) => FROM_CHANNELS[dim],
        (Layout::Channels, _) => [0, 3, 2][dim.min(2)],
    }
}

/// Several tensors one after the other; a node has at most five.
fn cat(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let mut values = Arguments(call).tensors("tensors")?;
    if b.quantized {
        values = values.iter().map(|&value| b.integers(value).unwrap_or(value)).collect();
    }
    let result = tail(b, call, Joins::Nothing).value;
    let rank = b.scope.ty(result)?.rank();
    let layout = b.common(&values, result);
    let axis = in_form(Arguments(call).dim("dim", 0, rank)?, rank, layout);
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &value in &values {
        if b.scope.ty(value)?.dtype != b.scope.ty(result)?.dtype {
            return Err("it joins tensors of several types".to_owned());
        }
        let size = *b.dims(value, layout)?.get(axis).ok_or("it joins tensors of different dimensions")?;
        parts.push((b.operand(value, layout)?, size));
    }
    if let [(only, _)] = parts[..] {
        return b.alias(result, layout, only);
    }
    while parts.len() > 5 {
        let first: Vec<(u32, u32)> = parts.drain(..5).collect();
        let size = first.iter().map(|(_, size)| size).sum();
        let mut dims = b.dims(result, layout)?;
        dims[axis] = size;
        let output = b.between(result, &dims)?;
        join(b, &first, axis, output);
        parts.insert(0, (output, size));
    }
    let output = b.define(result, layout)?;
    join(b, &parts, axis, output);
    Ok(())
}

fn join(b: &mut Builder<'_>, parts: &[(u32, u32)], axis: usize, output_id: u32) {
    let id = |place: usize| parts.get(place).map_or(sconce_format::xnnpack::NONE, |part| part.0);
    let table = Concatenation {
        axis: axis as u32,
        input1_id: id(0),
        input2_id: id(1),
        input3_id: id(2),
        input4_id: id(3),
        input5_id: id(4),
        output_id,
        flags: 0,
    };
    let operation = match parts.len() {
        2 => Operation::Concatenate2,
        3 => Operation::Concatenate3,
        4 => Operation::Concatenate4,
        _ => Operation::Concatenate5,
    };
    b.node(operation(table), None);
}

/// Neighbours along a dimension, where all sizes are known.
fn slice(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let value = b.read(call, "self")?;
    let result = tail(b, call, Joins::Nothing).value;
    let known = |value: ValueId| b.scope.ty(value).map(|ty| ty.numbers());
    let (Some(from), Some(_)) = (known(value)?, known(result)?) else {
        return Err("its sizes are not known before the program runs".to_owned());
    };
    if arguments.int("step", 1)? != 1 {
        return Err("it takes every second element or fewer".to_owned());
    }
    let dim = arguments.dim("dim", 0, from.len())?;
    let size = from.get(dim).copied().ok_or("it cuts a tensor without dimensions")?;
    let start = arguments.int("start", 0)?;
    let start = if start < 0 { start.saturating_add(size) } else { start }.clamp(0, size);
    let layout = b.common(&[value], result);
    let input_id = b.operand(value, layout)?;
    let output_id = b.define(result, layout)?;
    let sizes = b.dims(result, layout)?;
    let mut offsets = vec![0; sizes.len()];
    offsets[in_form(dim, from.len(), layout)] = start as u32;
    let num_dims = sizes.len() as u32;
    b.node(Operation::StaticSlice(Slicing { num_dims, offsets, sizes, input_id, output_id, flags: 0 }), None);
    Ok(())
}

/// A constant around.
fn pad(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let result = call.outputs[0];
    let rank = b.scope.ty(value)?.rank();
    let amounts = Arguments(call).ints("pad")?;
    let layout = b.common(&[value], result);
    let count = b.dims(value, layout)?.len();
    let (mut pre_paddings, mut post_paddings) = (vec![0; count], vec![0; count]);
    for (place, pair) in amounts.chunks(2).enumerate() {
        let dim = rank.checked_sub(place + 1).ok_or("it pads more dimensions than there are")?;
        let natural = |amount: Option<&i64>| u32::try_from(amount.copied().unwrap_or(0));
        let (Ok(before), Ok(after)) = (natural(pair.first()), natural(pair.get(1))) else {
            return Err("it cuts (negative padding)".to_owned());
        };
        let dim = in_form(dim, rank, layout);
        (pre_paddings[dim], post_paddings[dim]) = (before, after);
    }
    let padding_value = Arguments(call).float("value", 0.0)?;
    let input_id = b.operand(value, layout)?;
    let output_id = b.define(result, layout)?;
    b.node(
        Operation::StaticConstantPad(Padding {
            pre_paddings,
            post_paddings,
            padding_value,
            input_id,
            output_id,
            flags: 0,
        }),
        None,
    );
    Ok(())
}

/// A copy with the same type.
fn copy(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let (from, to) = (b.scope.ty(value)?, b.scope.ty(call.outputs[0])?);
    if from.dtype != to.dtype {
        return Err(format!("it makes {} of {}", to.dtype, from.dtype));
    }
    let layout = b.common(&[value], call.outputs[0]);
    let (input_id, output_id) = (b.operand(value, layout)?, b.define(call.outputs[0], layout)?);
    b.node(Operation::Copy(Unary { input_id, output_id, flags: 0 }), None);
    Ok(())
}
