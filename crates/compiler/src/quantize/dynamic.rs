//! Weights as integers; activations become integers when the program runs, with a grid for each row.
//!
//! ```text
//! x ─▶ choose_qparams_per_token ─▶ quantize_per_token ─▶ dequantize_per_token ─▶ linear
//!                              int8 or int4 weight ─▶ dequantize ─┘
//! ```
//!
//! Needs no calibration, because nothing about activations is decided before the program runs.

use super::insert::{Added, dequantize_channels};
use super::observe::INTEGERS;
use super::weights::{self, Weights};
use super::{Outcome, Scheme};
use crate::Error;
use crate::ir::{Arg, Call, Constants, Function, Kind, Origin, TensorType, ValueId};
use crate::lower::{self, Rule, Site};
use sconce_format::ScalarType;
use std::collections::HashMap;

/// Numbers of integers in groups; no runtime has it as an operator.
const DEQUANTIZE_GROUPS: &str = "quantized_decomposed::dequantize_per_channel_group";

/// Rewrites the linear layers of a method.
pub(super) fn insert(function: &mut Function, constants: &mut Constants<'_>, scheme: Scheme) -> Outcome {
    let mut added = Added { before: HashMap::new(), after: HashMap::new() };
    let (mut rows, mut weighed) = (HashMap::new(), HashMap::new());
    let (mut made, mut left) = (Vec::new(), Vec::new());
    for place in 0..function.body.calls.len() {
        let call = &function.body.calls[place];
        let (Some("aten::linear"), Arg::Value(input), Arg::Value(weight)) =
            (call.operator(), call.arg("input"), call.arg("weight"))
        else {
            continue;
        };
        let (input, weight) = (*input, *weight);
        let calls = added.before.entry(place).or_default();
        let Some(weight) = weighed.get(&weight).copied().or_else(|| {
            let (call, value) = weigh(function, constants, weight, scheme)?;
            calls.push(call);
            weighed.insert(weight, value);
            Some(value)
        }) else {
            left.push((function.body.calls[place].outputs[0], "its weight is computed, or not of float32"));
            continue;
        };
        let input = *rows.entry(input).or_insert_with(|| {
            let (own, numbers) = by_rows(function, input);
            calls.extend(own);
            numbers
        });
        let call = &mut function.body.calls[place];
        call.set("input", input);
        call.set("weight", weight);
        made.push((call.outputs[0], call.outputs[0]));
    }
    added.into(function);
    (made, left)
}

/// The call that makes numbers of a weight's integers, and the numbers.
fn weigh(
    function: &mut Function,
    constants: &mut Constants<'_>,
    weight: ValueId,
    scheme: Scheme,
) -> Option<(Call, ValueId)> {
    let numbers = weights::numbers(function, constants, weight)?;
    let sizes = weights::sizes(function, weight)?;
    match (scheme, &sizes[..]) {
        (Scheme::Int4 { group_size }, [_, columns]) if columns.is_multiple_of(group_size.max(1)) => {
            let found = weights::per_group(&numbers, group_size.max(1));
            Some(dequantize_groups(function, constants, weight, &sizes, group_size, found))
        }
        (_, [_, _]) => {
            let found = weights::per_channel(&numbers, &sizes, 0, &|_| f32::MIN_POSITIVE);
            Some(dequantize_channels(function, constants, weight, &sizes, 0, found, (-127, 127)))
        }
        _ => None,
    }
}

fn dequantize_groups(
    function: &mut Function,
    constants: &mut Constants<'_>,
    weight: ValueId,
    sizes: &[usize],
    group_size: usize,
    found: Weights,
) -> (Call, ValueId) {
    let name = function.get(weight).name.clone();
    let bytes = found.integers.iter().map(|&integer| integer as u8).collect();
    let integers = weights::constant(function, constants, ScalarType::Char, sizes, bytes, &name);
    let groups = [sizes[0], sizes[1] / group_size];
    let scales = weights::bytes(&found.scales);
    let scales = weights::constant(function, constants, ScalarType::Float, &groups, scales, &name);
    let zeros = vec![0; found.scales.len() * 8];
    let zeros = weights::constant(function, constants, ScalarType::Long, &groups, zeros, &name);
    let value = function.value(function.get(weight).kind.clone(), Origin::Call, name);
    let args = [
        ("input", integers.into()),
        ("scales", scales.into()),
        ("zero_points", zeros.into()),
        ("quant_min", (-8).into()),
        ("quant_max", 7.into()),
        ("dtype", ScalarType::Char.into()),
        ("group_size", (group_size as i64).into()),
        ("output_dtype", ScalarType::Float.into()),
    ];
    (Call::new(DEQUANTIZE_GROUPS, args, vec![value]), value)
}

/// The calls that make integers of each row and numbers of those, and the numbers.
fn by_rows(function: &mut Function, value: ValueId) -> ([Call; 3], ValueId) {
    let ty = function.tensor(value).cloned().unwrap_or_else(|| TensorType::fixed(ScalarType::Float, &[]));
    let name = function.get(value).name.clone();
    let mut sizes = ty.sizes.clone();
    if let Some(last) = sizes.last_mut() {
        *last = 1.into();
    }
    let mut new = |ty: TensorType| function.value(Kind::Tensor(ty), Origin::Call, name.as_str());
    let scales = new(TensorType::new(ScalarType::Double, sizes.clone()));
    let zeros = new(TensorType::new(ScalarType::Long, sizes));
    let (integers, numbers) = (new(ty.with_dtype(ScalarType::Char)), new(ty));
    let dtype = |dtype: ScalarType| Arg::from(dtype);
    let args = |input: ValueId| {
        vec![
            ("input", input.into()),
            ("scales", scales.into()),
            ("zero_points", zeros.into()),
            ("quant_min", i64::from(INTEGERS.0).into()),
            ("quant_max", i64::from(INTEGERS.1).into()),
            ("dtype", dtype(ScalarType::Char)),
        ]
    };
    let back = [args(integers), vec![("output_dtype", dtype(ScalarType::Float))]].concat();
    let choose = [("input", value.into()), ("dtype", dtype(ScalarType::Char))];
    let choose = Call::new("quantized_decomposed::choose_qparams_per_token_asymmetric", choose, vec![scales, zeros]);
    let there = Call::new("quantized_decomposed::quantize_per_token", args(value), vec![integers]);
    ([choose, there, Call::new("quantized_decomposed::dequantize_per_token", back, vec![numbers])], numbers)
}

/// Writes what dequantises groups as what dequantises channels, for runtimes without a backend that has the former: each
/// group becomes a row.
pub(super) fn expand_groups(function: &mut Function, constants: &mut Constants<'_>) -> Result<(), Error> {
    lower::rewrite(function, constants, &|name| (name == DEQUANTIZE_GROUPS).then_some(groups as Rule))
}

fn groups(site: &mut Site<'_, '_>) -> Result<Vec<ValueId>, Error> {
    let (input, scales, zeros) = (site.tensor("input")?, site.tensor("scales")?, site.tensor("zero_points")?);
    let (size, ty, result) = (site.int("group_size", 0)?, site.ty(input), site.result(0));
    let count = site.ty(scales).count();
    let rows = ty.with_sizes([count.clone(), size.into()]);
    let input = site.call("aten::view", [("self", input.into()), ("size", rows.sizes.clone().into())], rows.clone());
    let mut flat = |value: ValueId| {
        let ty = site.ty(value).with_sizes([count.clone()]);
        site.call("aten::view", [("self", value.into()), ("size", ty.sizes.clone().into())], ty)
    };
    let (scales, zeros) = (flat(scales), flat(zeros));
    let args = [
        ("input", input.into()),
        ("scales", scales.into()),
        ("zero_points", zeros.into()),
        ("axis", 0.into()),
        ("quant_min", site.arg("quant_min").clone()),
        ("quant_max", site.arg("quant_max").clone()),
        ("dtype", site.arg("dtype").clone()),
    ];
    let numbers = site.call("quantized_decomposed::dequantize_per_channel", args, rows.with_dtype(result.dtype));
    let args = [("self", numbers.into()), ("size", result.sizes.clone().into())];
    Ok(vec![site.call("aten::view", args, result)])
}
