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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    /// What is left of a method with an input `%0` of sizes `[2, 6]` and a constant `%1` of the same sizes: calls and outputs.
    fn simplified(text: &str) -> Vec<String> {
        let before = "@0 = 12 bytes\nmethod \"f\"\n%0: int8[2, 6] = input\n%1: int8[2, 6] = constant @0";
        let mut program = parse(&format!("{before}\n{text}")).unwrap();
        Simplify.run(&mut program.functions[0], &mut program.constants).unwrap();
        let text = program.to_string();
        let kept = |line: &&str| line.contains('(') || line.starts_with("output") || line.contains("constant");
        text.lines().filter(kept).map(str::to_owned).collect()
    }

    #[test]
    fn what_gives_what_it_got_goes() {
        let text = "%2: int8[2, 6] = aten::clone(self: %0)\n%3: int8[2, 6] = aten::view(self: %2, size: [2, 6])\n\
                    %4: int8[2, 6] = aten::permute(self: %3, dims: [0, -1])\n\
                    %5: int8[2, 6] = aten::_to_copy(self: %4, dtype: int8)\noutput %5";
        assert_eq!(simplified(text), ["output %0"]);
        let cast = "%2: int32[2, 6] = aten::_to_copy(self: %0, dtype: int32)";
        assert_eq!(simplified(&format!("{cast}\noutput %2")), [cast, "output %2"]);
    }

    #[test]
    fn views_and_permutations_of_such_are_one() {
        let text = "%2: int8[12] = aten::view(self: %0, size: [12])\n%3: int8[3, 4] = aten::view(self: %2, size: [3, 4])\n\
                    output %3";
        assert_eq!(simplified(text)[1], "%3: int8[3, 4] = aten::view(self: %0, size: [3, 4])");
        let text = "%2: int8[2, 3, 2] = aten::view(self: %0, size: [2, 3, 2])\n\
                    %3: int8[3, 2, 2] = aten::permute(self: %2, dims: [1, 2, 0])\n\
                    %4: int8[2, 3, 2] = aten::permute(self: %3, dims: [2, 0, 1])\noutput %4";
        assert_eq!(simplified(text).last().unwrap(), "output %2");
    }

    #[test]
    fn a_constant_is_seen_in_other_sizes() {
        let text = "%2: int8[3, 4] = aten::view(self: %1, size: [3, 4])\noutput %2";
        assert_eq!(simplified(text), ["%3: int8[3, 4] = constant @0", "output %3"]);
    }
}
