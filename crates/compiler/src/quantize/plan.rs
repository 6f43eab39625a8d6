//! Which calls work on integers, and which values share a grid.
//!
//! A table says of each operator what it needs: its operands, whether it starts on its own or only goes on where an
//! operand is made of integers already, and whether its result has a grid of its own. What only moves or chooses elements
//! shares the grid of its operands, because XNNPACK has no such operators with two. Means have a grid of their own: they
//! are much smaller than what they are the means of.
//!
//! Limits right after a convolution, a linear layer, a sum or a product become part of that node, so only what comes out
//! of the limits has a grid.
//!
//! Scores stay numbers: a sum that leads to nothing but a softmax mostly adds a mask, and on one grid with the mask all
//! scores would be the same. So do values that calibration saw to be infinite, or as good as that.

use super::weights;
use crate::ir::{Arg, Call, Constants, Function, Origin, Output, ValueId};
use sconce_format::ScalarType;
use std::collections::{HashMap, HashSet};

/// When an operator works on integers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Starts {
    /// Always.
    Itself,
    /// With known weights.
    Weights,
    /// If at least one operand is made of integers.
    Later,
}

/// The grid of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Result {
    Own,
    /// That of the operands.
    Shared,
}

struct Row {
    operator: &'static str,
    operands: &'static [&'static str],
    starts: Starts,
    result: Result,
}

const fn row(operator: &'static str, operands: &'static [&'static str], starts: Starts, result: Result) -> Row {
    Row { operator, operands, starts, result }
}

const ROWS: &[Row] = &[
    row("aten::convolution", &["input"], Starts::Weights, Result::Own),
    row("aten::linear", &["input"], Starts::Weights, Result::Own),
    row("aten::add.Tensor", &["self", "other"], Starts::Itself, Result::Own),
    row("aten::mul.Tensor", &["self", "other"], Starts::Itself, Result::Own),
    row("aten::adaptive_avg_pool2d", &["self"], Starts::Itself, Result::Own),
    row("aten::mean.dim", &["self"], Starts::Later, Result::Own),
    row("aten::max_pool2d", &["self"], Starts::Later, Result::Shared),
    row("aten::max_pool2d_with_indices", &["self"], Starts::Later, Result::Shared),
    row("aten::cat", &["tensors"], Starts::Later, Result::Shared),
    row("aten::view", &["self"], Starts::Later, Result::Shared),
    row("aten::permute", &["self"], Starts::Later, Result::Shared),
    row("aten::slice.Tensor", &["self"], Starts::Later, Result::Shared),
    row("aten::constant_pad_nd", &["self"], Starts::Later, Result::Shared),
    row("aten::relu", &["self"], Starts::Later, Result::Shared),
    row("aten::relu6", &["self"], Starts::Later, Result::Shared),
    row("aten::hardtanh", &["self"], Starts::Later, Result::Shared),
    row("aten::clamp", &["self"], Starts::Later, Result::Shared),
];

/// Limits that become part of the node before them.
const LIMITS: &[&str] = &["aten::relu", "aten::relu6", "aten::hardtanh", "aten::clamp"];

/// Softmax, and what scores pass through on their way to it.
const SOFTMAX: &[&str] =
    &["aten::softmax.int", "aten::_softmax", "aten::_safe_softmax", "aten::log_softmax.int", "aten::_log_softmax"];
const PASSES: &[&str] = &[
    "aten::add.Tensor",
    "aten::add.Scalar",
    "aten::sub.Tensor",
    "aten::mul.Scalar",
    "aten::div.Scalar",
    "aten::where.self",
    "aten::masked_fill.Scalar",
    "aten::maximum",
    "aten::clamp",
    "aten::view",
    "aten::permute",
    "aten::expand",
    "aten::clone",
    "aten::_to_copy",
    "aten::squeeze.dims",
    "aten::unsqueeze",
    "aten::slice.Tensor",
    "aten::cat",
];

fn find(call: &Call) -> Option<&'static Row> {
    let name = call.operator()?;
    ROWS.iter().find(|row| row.operator == name)
}

/// Whether an operator must not be rewritten before it was looked at here.
pub(super) fn keeps(operator: &str) -> bool {
    ROWS.iter().any(|row| row.operator == operator)
}

/// A call that works on integers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The call, by its place in the method's body.
    pub(super) call: usize,
    /// The last call that is part of it: the same one, or the limits after it.
    pub(super) last: usize,
    /// What it reads as integers.
    pub(super) operands: Vec<ValueId>,
    /// Whether its weight becomes integers.
    pub(super) weighs: bool,
}

/// What works on integers.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The calls, in order.
    pub(super) nodes: Vec<Node>,
    /// Values that a node makes of integers.
    pub(super) made: HashSet<ValueId>,
    /// Values to look at for each grid; what shares a grid only has elements that these have, too.
    pub(super) observed: Vec<ValueId>,
    /// A value of the same grid; the one that stands for all is not in it.
    same: HashMap<ValueId, ValueId>,
    /// Layers that stay numbers, by their place in the method's body, and why.
    pub(super) left: Vec<(usize, &'static str)>,
}

impl Plan {
    /// Looks at all calls of a method's body. What is `endless` has no grid.
    pub(super) fn of(function: &Function, constants: &Constants<'_>, endless: &HashSet<ValueId>) -> Self {
        let readers = Readers::of(function);
        let scores = readers.scores(function);
        let (mut plan, mut taken) = (Self::default(), HashSet::new());
        for (place, call) in function.body.calls.iter().enumerate() {
            let Some(row) = find(call).filter(|_| !taken.contains(&place)) else { continue };
            let weighs = row.starts == Starts::Weights;
            let Some(operands) = operands(function, call, row) else {
                plan.leave(place, weighs, "its input is no float32 tensor that a run computes");
                continue;
            };
            let starts = match row.starts {
                Starts::Itself => !call.outputs.iter().any(|value| scores.contains(value)),
                Starts::Weights => has_weights(function, constants, call),
                Starts::Later => operands.iter().any(|value| plan.made.contains(value)),
            };
            let last = readers.limits_after(function, place).filter(|_| row.result == Result::Own);
            let ends = function.body.calls[last.unwrap_or(place)].outputs.iter();
            if operands.iter().chain(ends).any(|value| endless.contains(value)) {
                plan.leave(place, weighs, "its values are infinite, or nearly so");
            } else if starts && fits(function, call) {
                taken.extend(last);
                plan.add(function, Node { call: place, last: last.unwrap_or(place), operands, weighs }, row);
            } else {
                plan.leave(
                    place,
                    weighs,
                    "its weights are computed, or have more than two dimensions besides the channels",
                );
            }
        }
        plan
    }

    fn add(&mut self, function: &Function, node: Node, row: &Row) {
        let result = function.body.calls[node.last].outputs[0];
        for &value in &node.operands {
            if !self.made.contains(&value) && !self.observed.contains(&value) {
                self.observed.push(value);
            }
            if row.result == Result::Shared {
                self.join(value, result);
            }
        }
        if row.result == Result::Own {
            self.observed.push(result);
        }
        self.made.insert(result);
        self.nodes.push(node);
    }

    /// Notes a layer that stays as it is.
    fn leave(&mut self, place: usize, weighs: bool, reason: &'static str) {
        self.left.extend(weighs.then_some((place, reason)));
    }

    fn join(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.grid_of(a), self.grid_of(b));
        if a != b {
            self.same.insert(b, a);
        }
    }

    /// The value that stands for all that share a value's grid.
    pub(super) fn grid_of(&self, mut value: ValueId) -> ValueId {
        while let Some(next) = self.same.get(&value) {
            value = *next;
        }
        value
    }
}

/// Who reads values.
struct Readers {
    by_value: HashMap<ValueId, Vec<usize>>,
    /// What blocks, the caller or the next run read.
    elsewhere: HashSet<ValueId>,
}

impl Readers {
    fn of(function: &Function) -> Self {
        let mut readers = Self { by_value: HashMap::new(), elsewhere: HashSet::new() };
        for (place, call) in function.body.calls.iter().enumerate() {
            call.reads(&mut |value| readers.by_value.entry(value).or_default().push(place));
            for block in &call.blocks {
                block.walk(&mut |inner| {
                    inner.reads(&mut |value| {
                        readers.elsewhere.insert(value);
                    });
                });
                readers.elsewhere.extend(&block.outputs);
            }
        }
        let given = function.outputs.iter().filter_map(|output| match output {
            Output::Value(value) => Some(*value),
            Output::Known(_) => None,
        });
        readers.elsewhere.extend(given);
        readers.elsewhere.extend(function.updates.iter().map(|(_, value)| *value));
        readers
    }

    /// What leads to nothing but softmax, through sums and what only moves elements.
    fn scores(&self, function: &Function) -> HashSet<ValueId> {
        let mut scores = HashSet::new();
        for call in function.body.calls.iter().rev() {
            for value in call.outputs.iter().filter(|value| !self.elsewhere.contains(value)) {
                let readers = self.by_value.get(value).map_or(&[][..], Vec::as_slice);
                let reader = |place: &usize| &function.body.calls[*place];
                let name = |place: &usize| reader(place).operator().unwrap_or("");
                let made = |place: &usize, wanted: &dyn Fn(&ValueId) -> bool| reader(place).outputs.iter().all(wanted);
                let compares = |own: &ValueId| function.tensor(*own).is_some_and(|ty| ty.dtype == ScalarType::Bool);
                let softens = |place: &usize| SOFTMAX.contains(&name(place));
                let leads = |place: &usize| PASSES.contains(&name(place)) && made(place, &|own| scores.contains(own));
                let only = |place: &usize| softens(place) || leads(place) || made(place, &compares);
                if readers.iter().all(only) && readers.iter().any(|place| softens(place) || leads(place)) {
                    scores.insert(*value);
                }
            }
        }
        scores
    }

    /// The limits that alone read the result of a call.
    fn limits_after(&self, function: &Function, place: usize) -> Option<usize> {
        let [result] = function.body.calls[place].outputs[..] else { return None };
        let [reader] = self.by_value.get(&result)?[..] else { return None };
        let limits = function.body.calls[reader].operator().is_some_and(|name| LIMITS.contains(&name));
        (limits && !self.elsewhere.contains(&result)).then_some(reader)
    }
}

/// The operands of a call, if all of them are numbers that a run computes.
fn operands(function: &Function, call: &Call, row: &Row) -> Option<Vec<ValueId>> {
    let mut operands = Vec::new();
    for name in row.operands {
        match call.arg(name) {
            Arg::Value(value) => operands.push(*value),
            Arg::Values(values) => operands.extend(values.iter().copied().collect::<Option<Vec<_>>>()?),
            _ => return None,
        }
    }
    let computed = |value: &ValueId| !matches!(function.get(*value).origin, Origin::Constant(_) | Origin::State(_));
    let fits = |value: &ValueId| {
        function.tensor(*value).is_some_and(|ty| ty.dtype == ScalarType::Float && (1..=6).contains(&ty.rank()))
    };
    (!operands.is_empty() && operands.iter().all(|value| computed(value) && fits(value))).then_some(operands)
}

/// Whether the weight, and the bias if there is one, are known.
fn has_weights(function: &Function, constants: &Constants<'_>, call: &Call) -> bool {
    let known = |name: &str| match call.arg(name) {
        Arg::Value(value) => weights::numbers(function, constants, *value).is_some(),
        arg => name == "bias" && *arg == Arg::None,
    };
    let rank = || match call.arg("weight") {
        Arg::Value(value) => weights::sizes(function, *value).map_or(0, |sizes| sizes.len()),
        _ => 0,
    };
    // XNNPACK has convolutions of one and two dimensions.
    known("weight") && known("bias") && rank() <= 4
}

/// Whether a call is of a form that works on integers.
fn fits(function: &Function, call: &Call) -> bool {
    let number = |name: &str| match call.arg(name) {
        Arg::Int(size) => size.number().map(|number| number as f64),
        Arg::Float(number) => Some(*number),
        _ => None,
    };
    let ints = |name: &str| match call.arg(name) {
        Arg::Ints(sizes) => sizes.iter().map(|size| size.number()).collect::<Option<Vec<_>>>().unwrap_or_default(),
        Arg::Int(size) => size.number().into_iter().collect(),
        _ => Vec::new(),
    };
    let rank = |value: ValueId| function.tensor(value).map_or(0, |ty| ty.rank());
    let floats = |value: &ValueId| function.tensor(*value).is_some_and(|ty| ty.dtype == ScalarType::Float);
    let form = match call.operator() {
        Some("aten::add.Tensor") => number("alpha").unwrap_or(1.0) == 1.0,
        Some("aten::adaptive_avg_pool2d") => rank(call.outputs[0]) == 4 && ints("output_size").iter().all(|&n| n == 1),
        Some("aten::mean.dim") => {
            let Arg::Value(value) = *call.arg("self") else { return false };
            let mut dims: Vec<_> = ints("dim").into_iter().map(|dim| crate::lower::place(dim, 4)).collect();
            dims.sort_unstable();
            rank(value) == 4 && dims == [Some(2), Some(3)] && *call.arg("dtype") == Arg::None
        }
        Some("aten::constant_pad_nd") => number("value").unwrap_or(0.0) == 0.0,
        _ => true,
    };
    form && call.outputs.first().is_some_and(floats)
}
