//! Copies and views that change nothing.

use super::{Pass, replace};
use crate::Error;
use crate::ir::{Arg, Block, Call, Constants, Function, Origin, ValueId};
use crate::size::Size;
use std::collections::HashMap;

/// Removes copies, casts, views and permutations that give what they got, views of views, and views of constants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simplify;

impl Pass for Simplify {
    fn name(&self) -> &'static str {
        "simplify"
    }

    fn run(&self, function: &mut Function, _: &mut Constants<'_>) -> Result<usize, Error> {
        let mut replaced = HashMap::new();
        let mut makers = HashMap::new();
        let mut body = std::mem::take(&mut function.body);
        let changes = simplify(&mut body, function, &mut makers, &mut replaced);
        function.body = body;
        replace(function, &replaced);
        Ok(changes)
    }
}

fn simplify(
    block: &mut Block,
    function: &mut Function,
    makers: &mut HashMap<ValueId, Call>,
    replaced: &mut HashMap<ValueId, ValueId>,
) -> usize {
    let mut changes = 0;
    block.calls.retain_mut(|call| {
        for (_, arg) in &mut call.args {
            arg.replace(&mut |value| replaced.get(&value).copied().unwrap_or(value));
        }
        for block in &mut call.blocks {
            changes += simplify(block, function, makers, replaced);
        }
        changes += usize::from(shorten(call, makers));
        if let Some(value) = known_before(call, function) {
            replaced.insert(call.outputs[0], value);
            changes += 1;
            return false;
        }
        if matches!(call.operator(), Some("aten::view" | "aten::permute" | "aten::clone")) {
            makers.insert(call.outputs[0], call.clone());
        }
        true
    });
    changes
}

/// A view of a view or copy reads what that one read; so does a permutation of a permutation.
fn shorten(call: &mut Call, makers: &HashMap<ValueId, Call>) -> bool {
    let (Some(name), Arg::Value(base)) = (call.operator(), call.arg("self")) else { return false };
    let Some(inner) = makers.get(base) else { return false };
    let Arg::Value(origin) = *inner.arg("self") else { return false };
    match (name, inner.operator()) {
        ("aten::view", Some("aten::view")) => {
            call.set("self", origin);
            true
        }
        ("aten::permute", Some("aten::permute")) => {
            let (Some(outer), Some(inner)) = (order(call), order(inner)) else { return false };
            let joined: Vec<i64> = outer.iter().filter_map(|&dim| inner.get(dim)).map(|&dim| dim as i64).collect();
            call.set("self", origin);
            call.set("dims", joined);
            true
        }
        _ => false,
    }
}

/// The dimensions of a permutation, counted from the front.
fn order(call: &Call) -> Option<Vec<usize>> {
    let Arg::Ints(dims) = call.arg("dims") else { return None };
    dims.iter().map(|dim| crate::lower::place(dim.number()?, dims.len())).collect()
}

/// The value that a call would only repeat, or the constant that it only sees in other sizes.
fn known_before(call: &Call, function: &mut Function) -> Option<ValueId> {
    let (name, Arg::Value(base)) = (call.operator()?, call.arg("self")) else { return None };
    let [output] = call.outputs.as_slice() else { return None };
    let (from, to) = (function.tensor(*base)?.clone(), function.tensor(*output)?.clone());
    let same = from == to;
    match name {
        "aten::view" | "aten::clone" | "aten::_to_copy" | "aten::expand" | "aten::alias" if same => Some(*base),
        "aten::permute" if order(call)?.is_sorted() => Some(*base),
        "aten::view" if to.numbers().is_some() && from.is_contiguous() => {
            let Origin::Constant(constant) = function.get(*base).origin else { return None };
            let count = |sizes: &[Size]| sizes.iter().try_fold(1i64, |count, size| count.checked_mul(size.number()?));
            (count(&from.sizes)? == count(&to.sizes)?).then_some(())?;
            let name = function.get(*base).name.clone();
            Some(function.value(crate::ir::Kind::Tensor(to), Origin::Constant(constant), name))
        }
        _ => None,
    }
}
