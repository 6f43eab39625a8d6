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
