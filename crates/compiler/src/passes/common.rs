//! Calls that compute what another one has computed.

use super::{Pass, is_random, replace};
use crate::Error;
use crate::ir::{Block, Call, Constants, Definition, Function, Kind, Value, ValueId};
use crate::size::Size;
use std::collections::{HashMap, HashSet};

/// Lets equal calls share one result. Calls of random numbers differ each time and are left alone, and so are calls in whose
/// results symbols are found: each has symbols of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonCalls;

impl Pass for CommonCalls {
    fn name(&self) -> &'static str {
        "common calls"
    }

    fn run(&self, function: &mut Function, _: &mut Constants<'_>) -> Result<usize, Error> {
        let mut replaced = HashMap::new();
        let mut body = std::mem::take(&mut function.body);
        let found =
            function.definitions.values().map(|(Definition::SizeOf(value, _) | Definition::Value(value))| *value);
        share(&mut body, &function.values, &found.collect(), &mut replaced);
        function.body = body;
        replace(function, &replaced);
        Ok(replaced.len())
    }
}

/// What makes two calls equal; `None` if they never are. Element types and known sizes are among it, which no argument may
/// say.
fn key(call: &Call, values: &[Value]) -> Option<String> {
    let name = call.operator().filter(|_| !is_random(call))?;
    let ty = |value: &ValueId| match &values.get(value.0 as usize)?.kind {
        Kind::Tensor(ty) => Some((ty.dtype, ty.sizes.iter().map(Size::number).collect::<Vec<_>>())),
        _ => None,
    };
    let types: Vec<_> = call.outputs.iter().map(ty).collect();
    Some(format!("{name} {:?} {types:?}", call.args))
}

fn share(block: &mut Block, values: &[Value], found: &HashSet<ValueId>, replaced: &mut HashMap<ValueId, ValueId>) {
    let mut known: HashMap<String, Vec<ValueId>> = HashMap::new();
    block.calls.retain_mut(|call| {
        for (_, arg) in &mut call.args {
            arg.replace(&mut |value| replaced.get(&value).copied().unwrap_or(value));
        }
        call.blocks.iter_mut().for_each(|block| share(block, values, found, replaced));
        let tells = call.outputs.iter().any(|value| found.contains(value));
        let Some(key) = key(call, values).filter(|_| !tells) else { return true };
        match known.get(&key) {
            Some(results) if results.len() == call.outputs.len() => {
                replaced.extend(call.outputs.iter().copied().zip(results.iter().copied()));
                false
            }
            _ => {
                known.insert(key, call.outputs.clone());
                true
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    /// The calls that are left, where the last results are the outputs.
    fn shared(text: &str) -> Vec<String> {
        let mut program = parse(&format!("method \"f\"\nsymbol s0 in 1..8\n%0: float32[s0] = input\n{text}")).unwrap();
        CommonCalls.run(&mut program.functions[0], &mut program.constants).unwrap();
        let text = program.to_string();
        text.lines().filter(|line| line.contains("::") || line.starts_with("output")).map(str::to_owned).collect()
    }

    #[test]
    fn calls_share_what_is_the_same_each_time() {
        let text = "%1: float32[3] = aten::full(size: [3], fill_value: 0)\n\
                    %2: float32[3] = aten::full(size: [3], fill_value: 0)\n\
                    %3: int64[3] = aten::full(size: [3], fill_value: 0)\n\
                    %4: float32[4] = aten::full(size: [3], fill_value: 0)\n\
                    output %1\noutput %2\noutput %3\noutput %4";
        let expected = text.replace("%2: float32[3] = aten::full(size: [3], fill_value: 0)\n", "");
        assert_eq!(shared(text).join("\n"), expected.replace("%2", "%1"));
    }

    /// What is read for `u1` must still be made.
    #[test]
    fn calls_in_whose_results_sizes_are_found_stay() {
        let text = "symbol u0 in 0..8 = size 0 of %1\nsymbol u1 in 0..8 = size 0 of %2\n\
                    %1: int64[u0, 1] = aten::nonzero(self: %0)\n%2: int64[u1, 1] = aten::nonzero(self: %0)\n\
                    %3: float32[u1] = aten::full(size: [u1], fill_value: 1)\noutput %1\noutput %3";
        assert_eq!(shared(text).len(), 5);
    }

    #[test]
    fn a_block_does_not_share_with_its_surroundings() {
        let text = "%1: float32[s0] = aten::abs(self: %0)\n\
                    %2: float32[s0] = map(inputs: [%0])\n  block %3: float32[]\n\
                    %4: float32[] = aten::abs(self: %3)\n%5: float32[] = aten::abs(self: %3)\n\
                    %6: float32[] = aten::add.Tensor(self: %4, other: %5)\ngive %6\noutput %1\noutput %2";
        let calls = [
            "%1: float32[s0] = aten::abs(self: %0)",
            "    %4: float32[] = aten::abs(self: %3)",
            "    %6: float32[] = aten::add.Tensor(self: %4, other: %4)",
            "output %1",
            "output %2",
        ];
        assert_eq!(shared(text), calls);
    }

    #[test]
    fn calls_of_random_numbers_differ() {
        for operator in ["aten::rand", "aten::exponential", "aten::uniform", "aten::native_dropout"] {
            let call = format!("= {operator}(self: %0)");
            let text = format!("%1: float32[s0] {call}\n%2: float32[s0] {call}\noutput %1\noutput %2");
            assert_eq!(shared(&text).join("\n"), text);
        }
    }
}
