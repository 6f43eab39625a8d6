//! Writes the calls that quantise and dequantise, as PyTorch's exports have them.
//!
//! ```text
//! x ─▶ quantize ─▶ dequantize ─▶ convolution [─▶ limits] ─▶ quantize ─▶ dequantize ─▶ all readers
//!              int8 weight ─▶ dequantize ─┘
//! ```
//!
//! What a node makes is read as integers by everybody. What comes from elsewhere is quantised for nodes only.

use super::observe::{Grid, INTEGERS};
use super::plan::{Node, Plan};
use super::weights::{self, Weights};
use crate::ir::{Arg, Call, Constants, Function, Kind, Origin, ValueId};
use crate::passes;
use sconce_format::ScalarType;
use std::collections::HashMap;

/// Rewrites a method, and says which value stands for each that a node makes.
pub(super) fn insert(
    function: &mut Function,
    constants: &mut Constants<'_>,
    plan: &Plan,
    grids: &HashMap<ValueId, Grid>,
) -> HashMap<ValueId, ValueId> {
    let grid = |value: ValueId| grids.get(&plan.grid_of(value)).copied().unwrap_or(Grid { scale: 1.0, zero: 0 });
    let mut added = Added { before: HashMap::new(), after: HashMap::new() };
    let (mut replaced, mut entering, mut weighed) = (HashMap::new(), HashMap::new(), HashMap::new());
    for node in &plan.nodes {
        for &value in node.operands.iter().filter(|value| !plan.made.contains(value)) {
            let dequantized = *entering.entry(value).or_insert_with(|| {
                let (calls, dequantized) = there_and_back(function, value, grid(value));
                added.before.entry(node.call).or_default().extend(calls);
                dequantized
            });
            let args = &mut function.body.calls[node.call].args;
            args.iter_mut().for_each(|(_, arg)| arg.replace(&mut |own| if own == value { dequantized } else { own }));
        }
        if node.weighs {
            let calls = added.before.entry(node.call).or_default();
            weigh(function, constants, node, grid(node.operands[0]).scale, &mut weighed, calls);
        }
    }
    for node in &plan.nodes {
        let value = function.body.calls[node.last].outputs[0];
        let (calls, dequantized) = there_and_back(function, value, grid(value));
        added.after.insert(node.last, calls.into());
        replaced.insert(value, dequantized);
    }
    passes::replace(function, &replaced);
    function.body.outputs.iter_mut().for_each(|value| *value = replaced.get(value).copied().unwrap_or(*value));
    added.into(function);
    replaced
}

/// Calls to add, by the place of the call that they come before or after.
pub(super) struct Added {
    pub(super) before: HashMap<usize, Vec<Call>>,
    pub(super) after: HashMap<usize, Vec<Call>>,
}

impl Added {
    pub(super) fn into(mut self, function: &mut Function) {
        for (place, call) in std::mem::take(&mut function.body.calls).into_iter().enumerate() {
            let (before, after) = (self.before.remove(&place), self.after.remove(&place));
            let source = call.source.clone();
            let own = |mut added: Call| {
                added.source = source.clone();
                added
            };
            function.body.calls.extend(before.into_iter().flatten().map(&own));
            function.body.calls.push(call);
            function.body.calls.extend(after.into_iter().flatten().map(&own));
        }
    }
}

/// The calls that make integers of a value and numbers of those, and the numbers.
fn there_and_back(function: &mut Function, value: ValueId, grid: Grid) -> ([Call; 2], ValueId) {
    let (kind, name) = (function.get(value).kind.clone(), function.get(value).name.clone());
    let small = match &kind {
        Kind::Tensor(ty) => Kind::Tensor(ty.with_dtype(ScalarType::Char)),
        other => other.clone(),
    };
    let integers = function.value(small, Origin::Call, name.as_str());
    let numbers = function.value(kind, Origin::Call, name);
    let args = |input: ValueId| {
        [
            ("input", input.into()),
            ("scale", f64::from(grid.scale).into()),
            ("zero_point", i64::from(grid.zero).into()),
            ("quant_min", i64::from(INTEGERS.0).into()),
            ("quant_max", i64::from(INTEGERS.1).into()),
            ("dtype", ScalarType::Char.into()),
        ]
    };
    let calls = [
        Call::new("quantized_decomposed::quantize_per_tensor", args(value), vec![integers]),
        Call::new("quantized_decomposed::dequantize_per_tensor", args(integers), vec![numbers]),
    ];
    (calls, numbers)
}

/// Makes integers of a node's weight. Layers that share a weight share them.
fn weigh(
    function: &mut Function,
    constants: &mut Constants<'_>,
    node: &Node,
    input_scale: f32,
    weighed: &mut HashMap<ValueId, ValueId>,
    calls: &mut Vec<Call>,
) {
    let call = &function.body.calls[node.call];
    let Arg::Value(weight) = *call.arg("weight") else { return };
    if let Some(&known) = weighed.get(&weight) {
        function.body.calls[node.call].set("weight", known);
        return;
    }
    let (Some(numbers), Some(sizes)) =
        (weights::numbers(function, constants, weight), weights::sizes(function, weight))
    else {
        return;
    };
    let bias = match call.arg("bias") {
        Arg::Value(bias) => weights::numbers(function, constants, *bias).unwrap_or_default(),
        _ => Vec::new(),
    };
    let axis = usize::from(*call.arg("transposed") == Arg::Bool(true));
    let smallest = |channel: usize| {
        weights::for_bias(bias.get(channel).copied().unwrap_or(0.0), input_scale.max(f32::MIN_POSITIVE))
    };
    let found = weights::per_channel(&numbers, &sizes, axis, &smallest);
    let (call, value) = dequantize_channels(function, constants, weight, &sizes, axis, found, (-127, 127));
    calls.push(call);
    weighed.insert(weight, value);
    function.body.calls[node.call].set("weight", value);
}

/// The call that makes numbers of a weight's integers, and the numbers.
pub(super) fn dequantize_channels(
    function: &mut Function,
    constants: &mut Constants<'_>,
    weight: ValueId,
    sizes: &[usize],
    axis: usize,
    found: Weights,
    (low, high): (i64, i64),
) -> (Call, ValueId) {
    let name = function.get(weight).name.clone();
    let bytes = found.integers.iter().map(|&integer| integer as u8).collect();
    let integers = weights::constant(function, constants, ScalarType::Char, sizes, bytes, &name);
    let channels = [found.scales.len()];
    let scales = weights::bytes(&found.scales);
    let scales = weights::constant(function, constants, ScalarType::Float, &channels, scales, &name);
    let zeros = vec![0; found.scales.len() * 8];
    let zeros = weights::constant(function, constants, ScalarType::Long, &channels, zeros, &name);
    let value = function.value(function.get(weight).kind.clone(), Origin::Call, name);
    let args = [
        ("input", integers.into()),
        ("scales", scales.into()),
        ("zero_points", zeros.into()),
        ("axis", (axis as i64).into()),
        ("quant_min", low.into()),
        ("quant_max", high.into()),
        ("dtype", ScalarType::Char.into()),
    ];
    (Call::new("quantized_decomposed::dequantize_per_channel", args, vec![value]), value)
}
