//! Conversions from integers to numbers, one for each call that reads the numbers.
//!
//! ```text
//! q ─▶ dequantize ─┬─▶ linear          q ─┬─▶ dequantize ─▶ linear
//!                  └─▶ linear    ──▶      └─▶ dequantize ─▶ linear
//! ```
//!
//! A conversion is part of the call that reads it, so the two must be in the same part. With one for each reader they
//! are, wherever the readers come to lie, and a reader that XNNPACK cannot run on integers does not keep the others from
//! it. Parameters that are found when the program runs are found by each reader; within a part that is done once.

use super::quantization::{self, QUANTIZE};
use crate::ir::{Arg, Call, Function, ValueId};
use std::collections::{HashMap, HashSet};

/// Rewrites a method so.
pub(super) fn separate(function: &mut Function) {
    let calls = std::mem::take(&mut function.body.calls);
    let mut separation = Separation { function, makers: HashMap::new(), taken: HashSet::new(), done: Vec::new() };
    for call in calls {
        separation.add(call);
    }
    separation.function.body.calls = separation.done;
}

struct Separation<'f> {
    function: &'f mut Function,
    /// The call of `done` that makes a value.
    makers: HashMap<ValueId, usize>,
    /// Numbers that a call reads already.
    taken: HashSet<ValueId>,
    done: Vec<Call>,
}

impl Separation<'_> {
    fn add(&mut self, mut call: Call) {
        let mut read = HashSet::new();
        call.reads(&mut |value| {
            read.insert(value);
        });
        let mut own = HashMap::new();
        for value in read {
            let chain = self.chain(value);
            if !chain.is_empty() && !self.taken.insert(value) {
                chain.into_iter().for_each(|place| self.copy(place, &mut own));
            }
        }
        call.args.iter_mut().for_each(|(_, arg)| arg.replace(&mut |value| own.get(&value).copied().unwrap_or(value)));
        self.push(call);
    }

    fn push(&mut self, call: Call) {
        self.makers.extend(call.outputs.iter().map(|&value| (value, self.done.len())));
        self.done.push(call);
    }

    /// The calls that make numbers of integers, in order; none if something else makes the value.
    fn chain(&self, value: ValueId) -> Vec<usize> {
        let maker = |value: &ValueId| self.makers.get(value).map(|&place| (place, &self.done[place]));
        let reads = |call: &Call, name: &str| match call.arg(name) {
            Arg::Value(value) => Some(*value),
            _ => None,
        };
        let found = || {
            let (place, dequantize) = maker(&value).filter(|(_, call)| quantization::makes_numbers(call))?;
            let (from, quantize) = maker(&reads(dequantize, "input")?)?;
            if quantize.operator() == Some(QUANTIZE) {
                return Some(vec![place]);
            }
            let scale = reads(quantize, "scale").or_else(|| reads(quantize, "scales"))?;
            let (choice, choose) = maker(&scale)?;
            let dynamic = quantization::is_dynamic_step(quantize) && quantization::is_dynamic_step(choose);
            dynamic.then(|| vec![choice, from, place])
        };
        found().unwrap_or_default()
    }

    /// Adds a copy of a call, and notes which value of the copy stands for which.
    fn copy(&mut self, place: usize, own: &mut HashMap<ValueId, ValueId>) {
        let mut call = self.done[place].clone();
        call.args.iter_mut().for_each(|(_, arg)| arg.replace(&mut |value| own.get(&value).copied().unwrap_or(value)));
        for output in &mut call.outputs {
            let value = self.function.get(*output).clone();
            let copy = self.function.value(value.kind, value.origin, value.name);
            own.insert(*output, copy);
            *output = copy;
        }
        self.push(call);
    }
}
