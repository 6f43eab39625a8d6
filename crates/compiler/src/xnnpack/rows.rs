//! The operators, by family: how each one becomes nodes.

mod image;
mod maps;
mod products;
mod quantized;
mod shape;

use super::arguments::Arguments;
use super::builder::{Builder, Range};
use super::quantization::QUANTIZE;
use crate::ir::{Arg, Call, ValueId};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What integers an operator works on, if it is between calls that dequantise and quantise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integers {
    /// Any.
    Any,
    /// Those of the result must stand for the same numbers as those of the operands.
    Same,
    /// Any, if the weights are integers too.
    Weights,
}

/// An operator.
pub(super) struct Row {
    operator: &'static str,
    /// Whether it also works on integers.
    pub(super) integers: Option<Integers>,
    /// Makes its nodes, or says why not.
    pub(super) nodes: fn(&mut Builder<'_>, &Call) -> Result<(), String>,
}

/// An operator that works on numbers only.
const fn row(operator: &'static str, nodes: fn(&mut Builder<'_>, &Call) -> Result<(), String>) -> Row {
    Row { operator, integers: None, nodes }
}

/// An operator that also works on integers.
const fn both(
    operator: &'static str,
    integers: Integers,
    nodes: fn(&mut Builder<'_>, &Call) -> Result<(), String>,
) -> Row {
    Row { operator, integers: Some(integers), nodes }
}

const TABLES: &[&[Row]] = &[maps::ROWS, products::ROWS, image::ROWS, shape::ROWS, quantized::ROWS];

static ROWS: LazyLock<HashMap<&'static str, &'static Row>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter()).map(|row| (row.operator, row)).collect());

/// The row of an operator.
pub(super) fn find(operator: &str) -> Option<&'static Row> {
    ROWS.get(operator).copied()
}

/// What a node writes: the result of its call, or of the last one that became part of it.
struct Tail<'c> {
    value: ValueId,
    range: Range,
    norm: Option<&'c Call>,
}

/// What can become part of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joins {
    /// A call that quantises the result, if the node works on integers.
    Nothing,
    /// Before that, limits of the output.
    Limits,
    /// Before those, batch normalisation.
    Norm,
}

/// Follows a call's result to what the node writes, and notes that it does.
fn tail<'p>(builder: &mut Builder<'p>, call: &Call, joins: Joins) -> Tail<'p> {
    let tail = find_tail(builder, call, joins, builder.quantized);
    builder.done.insert(tail.value);
    let mut value = tail.value;
    // Everything between the call and the value is written with it.
    while value != call.outputs[0] {
        let Some(maker) = builder.scope.maker(value) else { break };
        builder.done.extend(&maker.outputs);
        let before = ["self", "input"].into_iter().find_map(|name| Arguments(maker).optional(name));
        let Some(before) = before else { break };
        value = before;
    }
    tail
}

fn find_tail<'p>(builder: &Builder<'p>, call: &Call, joins: Joins, quantized: bool) -> Tail<'p> {
    let scope = builder.scope;
    let mut tail = Tail { value: call.outputs[0], range: None, norm: None };
    if let (Joins::Norm, Some(reader)) = (joins, scope.sole_reader(tail.value))
        && !quantized
        && maps::is_norm(builder, reader)
    {
        tail = Tail { value: reader.outputs[0], norm: Some(reader), ..tail };
    }
    if let (true, Some(reader)) = (joins != Joins::Nothing, scope.sole_reader(tail.value))
        && let Some(Ok(range)) = maps::limits(reader)
    {
        tail = Tail { value: reader.outputs[0], range: Some(range), ..tail };
    }
    if let (true, Some(reader)) = (quantized, scope.sole_reader(tail.value))
        && reader.operator() == Some(QUANTIZE)
    {
        tail.value = reader.outputs[0];
    }
    tail
}

/// Whether a call is between calls that dequantise its operands and quantise its result, in a way that XNNPACK knows.
pub(super) fn works_on_integers(builder: &Builder<'_>, call: &Call, integers: Integers) -> bool {
    let joins = if maps::limits(call).is_some() { Joins::Nothing } else { Joins::Limits };
    let value = find_tail(builder, call, joins, true).value;
    let quantizes = builder.scope.maker(value).is_some_and(|maker| maker.operator() == Some(QUANTIZE));
    let Ok(grid) = builder.grid(value) else { return false };
    let mut operands = Vec::new();
    for (name, arg) in &call.args {
        match arg {
            Arg::Value(value) if integers != Integers::Weights || matches!(&**name, "input" | "self" | "mat1") => {
                operands.push(*value);
            }
            Arg::Values(values) => operands.extend(values.iter().flatten()),
            // A number beside a tensor has no grid.
            Arg::Int(_) | Arg::Float(_) if name == "other" => return false,
            _ => {}
        }
    }
    let fits = |value: &ValueId| {
        let own = builder.integers(*value).filter(|integers| !builder.scope.is_known(*integers));
        let own = own.and_then(|integers| builder.grid(integers).ok());
        own.is_some_and(|own| integers != Integers::Same || own == grid)
    };
    quantizes
        && operands.iter().all(fits)
        && (integers != Integers::Weights || products::has_integer_weights(builder, call))
}
