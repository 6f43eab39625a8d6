//! Calls whose results nobody reads.

use super::{Pass, count_in};
use crate::Error;
use crate::ir::{Block, Constants, Definition, Function, ValueId};
use std::collections::HashSet;

/// Removes calls whose results nobody reads. No call has effects, so nothing else is lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadCalls;

impl Pass for DeadCalls {
    fn name(&self) -> &'static str {
        "dead calls"
    }

    fn run(&self, function: &mut Function, _: &mut Constants<'_>) -> Result<usize, Error> {
        let mut wanted: HashSet<ValueId> = function.updates.iter().map(|(_, value)| *value).collect();
        // Sizes are computed from what symbols are found in, wherever that is needed.
        let mut symbols = HashSet::new();
        function.body.walk(&mut |call| {
            call.args.iter().for_each(|(_, arg)| arg.symbols(&mut |symbol| _ = symbols.insert(symbol)));
        });
        for output in &function.outputs {
            if let crate::ir::Output::Known(arg) = output {
                arg.symbols(&mut |symbol| _ = symbols.insert(symbol));
            }
        }
        wanted.extend(symbols.iter().filter_map(|symbol| function.definitions.get(symbol)).map(|own| match own {
            Definition::SizeOf(value, _) | Definition::Value(value) => *value,
        }));
        Ok(sweep(&mut function.body, &mut wanted))
    }
}

fn sweep(block: &mut Block, wanted: &mut HashSet<ValueId>) -> usize {
    wanted.extend(&block.outputs);
    let before = block.calls.len();
    let mut kept = Vec::with_capacity(before);
    let mut inside = 0;
    for mut call in std::mem::take(&mut block.calls).into_iter().rev() {
        if !call.outputs.iter().any(|value| wanted.contains(value)) {
            continue;
        }
        for block in &mut call.blocks {
            inside += sweep(block, wanted);
            count_in(block, &mut |value| _ = wanted.insert(value));
        }
        call.reads(&mut |value| _ = wanted.insert(value));
        kept.push(call);
    }
    kept.reverse();
    block.calls = kept;
    before - block.calls.len() + inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    /// The calls that are left of a method with an input `%0` and a buffer `%1`, where `u0` is found in `%2`.
    fn left(text: &str) -> Vec<String> {
        let before = "@0 = [0, 0]\nmethod \"f\"\nsymbol u0 in 0..4 = %2\n\
                      %0: int8[2] = input\n%1: int8[2] = state @0\n%2: int = my::count(self: %0)";
        let mut program = parse(&format!("{before}\n{text}")).unwrap();
        DeadCalls.run(&mut program.functions[0], &mut program.constants).unwrap();
        let text = program.to_string();
        text.lines().filter(|line| line.contains('(')).map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn what_nobody_reads_goes() {
        let kept = "%3: int8[2] = aten::neg(self: %0)\n%4: int8[2] = aten::abs(self: %3)";
        let text = format!("{kept}\n%5: int8[2] = aten::abs(self: %4)\nupdate %1 = %4");
        assert_eq!(left(&text).join("\n"), kept);
    }

    #[test]
    fn what_sizes_are_found_in_stays() {
        assert_eq!(left("%3: int8[u0] = aten::full(size: [u0], fill_value: 1)\noutput %3").len(), 2);
        assert_eq!(left("output 1 + u0").len(), 1);
        assert_eq!(left("output 1").len(), 0);
    }

    #[test]
    fn a_block_reads_what_is_around_it() {
        let text = "%3: int8[2] = aten::abs(self: %0)\n%4: int8[2] = map(inputs: [%0])\n\
                    block %5: int8[]\n%6: int8[] = my::pick(self: %3)\n%7: int8[] = aten::abs(self: %5)\ngive %6\n\
                    output %4";
        let calls =
            ["%3: int8[2] = aten::abs(self: %0)", "%4: int8[2] = map(inputs: [%0])", "%6: int8[] = my::pick(self: %3)"];
        assert_eq!(left(text), calls);
    }
}
