//! The same elements elsewhere: other sizes, other orders, parts of tensors and several in one.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, FROM_CHANNELS, Layout, TO_CHANNELS, in_form};
use super::super::quantization::QUANTIZE;
use super::super::scope::permutation;
use super::{Integers, Joins, Row, both, row, tail};
use crate::ir::{Call, ValueId};

use sconce_format::xnnpack::NONE;
use sconce_format::xnnpack::model::{Concatenation, Operation, Padding, Slicing, Unary};

pub(super) const ROWS: &[Row] = &[
    both("aten::view", Integers::Same, view),
    both("aten::permute", Integers::Same, permute),
    both("aten::cat", Integers::Same, cat),
    both("aten::slice.Tensor", Integers::Same, slice),
    both("aten::select.int", Integers::Same, select),
    row("aten::split_with_sizes", split),
    row("aten::constant_pad_nd", pad),
    row("aten::_to_copy", copy),
];

/// Other sizes; at most one of them may be unknown.
fn view(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let result = tail(b, call, Joins::Nothing).value;
    let new_shape = b.new_shape(result, Layout::Plain)?;
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
    if parts.is_empty() {
        return Err("it joins nothing".to_owned());
    }
    if let [(only, _)] = parts[..] {
        return b.alias(result, layout, only);
    }
    while parts.len() > 5 {
        let first: Vec<(u32, u32)> = parts.drain(..5).collect();
        let size = first.iter().try_fold(0u32, |sum, (_, size)| sum.checked_add(*size)).ok_or("it joins too much")?;
        let mut dims = b.dims(result, layout)?;
        dims[axis] = size;
        let output = b.between(result, &dims)?;
        join(b, &first.iter().map(|part| part.0).collect::<Vec<_>>(), axis, output);
        parts.insert(0, (output, size));
    }
    let output = b.define(result, layout)?;
    join(b, &parts.iter().map(|part| part.0).collect::<Vec<_>>(), axis, output);
    Ok(())
}

/// Adds a node that joins two to five values.
pub(super) fn join(b: &mut Builder<'_>, ids: &[u32], axis: usize, output_id: u32) {
    let id = |place: usize| ids.get(place).copied().unwrap_or(NONE);
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
    let operation = match ids.len() {
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
    let start = counted_from_the_front(arguments.int("start", 0)?, &from, dim)?;
    let layout = b.common(&[value], result);
    let output_id = b.define(result, layout)?;
    let sizes = b.dims(result, layout)?;
    cut(b, value, layout, (dim, start), sizes, output_id)
}

/// A place along a dimension, which may be counted from the end.
fn counted_from_the_front(place: i64, sizes: &[i64], dim: usize) -> Result<i64, String> {
    let size = sizes.get(dim).copied().ok_or("it cuts a tensor without dimensions")?;
    Ok(if place < 0 { place.saturating_add(size) } else { place }.clamp(0, size))
}

/// Adds a node that cuts a piece of these sizes out of a value.
fn cut(
    b: &mut Builder<'_>,
    value: ValueId,
    layout: Layout,
    (dim, start): (usize, i64),
    sizes: Vec<u32>,
    output_id: u32,
) -> Result<(), String> {
    let input_id = b.operand(value, layout)?;
    let mut offsets = vec![0; sizes.len()];
    let place = offsets.get_mut(in_form(dim, b.scope.ty(value)?.rank(), layout));
    *place.ok_or("its result has fewer dimensions")? =
        u32::try_from(start).map_err(|_| format!("it cuts at {start}"))?;
    let num_dims = sizes.len() as u32;
    b.node(Operation::StaticSlice(Slicing { num_dims, offsets, sizes, input_id, output_id, flags: 0 }), None);
    Ok(())
}

/// One place along a dimension, which goes.
fn select(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let result = tail(b, call, Joins::Nothing).value;
    let from = b.scope.ty(value)?.numbers().ok_or("its sizes are not known before the program runs")?;
    let dim = Arguments(call).dim("dim", 0, from.len())?;
    let start = counted_from_the_front(Arguments(call).int("index", 0)?, &from, dim)?;
    let mut sizes = b.dims(value, Layout::Plain)?;
    sizes[dim] = 1;
    let piece = b.between(value, &sizes)?;
    cut(b, value, Layout::Plain, (dim, start), sizes, piece)?;
    let new_shape = b.dims(result, Layout::Plain)?;
    let output = b.define(result, Layout::Plain)?;
    b.reshape_to(piece, output, new_shape);
    Ok(())
}

/// Neighbouring pieces along a dimension. Those that are quantised as the whole was are cut out of its integers.
fn split(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = Arguments(call).tensor("self")?;
    let from = b.scope.ty(value)?.numbers().ok_or("its sizes are not known before the program runs")?;
    let dim = Arguments(call).dim("dim", 0, from.len())?;
    let integers = b.integers(value).filter(|integers| !b.scope.is_known(*integers));
    let layout = b.common(&[integers.unwrap_or(value)], value);
    let mut start = 0;
    for (&piece, size) in call.outputs.iter().zip(Arguments(call).ints("split_sizes")?) {
        let quantized = b.scope.sole_reader(piece).filter(|reader| reader.operator() == Some(QUANTIZE));
        let same = |&(whole, own): &(ValueId, ValueId)| b.grid(whole).is_ok_and(|grid| b.grid(own) == Ok(grid));
        let pair = integers.zip(quantized.map(|reader| reader.outputs[0])).filter(same);
        let (source, result) = pair.unwrap_or((value, piece));
        b.done.insert(result);
        let output = b.define(result, layout)?;
        let sizes = b.dims(result, layout)?;
        cut(b, source, layout, (dim, start), sizes, output)?;
        start = start.saturating_add(size);
    }
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
