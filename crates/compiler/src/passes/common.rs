//! Calls that compute what another one has computed.

use super::{Pass, is_random, replace};
use crate::Error;
use crate::ir::{Block, Call, Constants, Function, Kind, Value, ValueId};
use std::collections::HashMap;

/// Lets equal calls share one result. Calls of random numbers differ each time and are left alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonCalls;

impl Pass for CommonCalls {
    fn name(&self) -> &'static str {
        "common calls"
    }

    fn run(&self, function: &mut Function, _: &mut Constants<'_>) -> Result<usize, Error> {
        let mut replaced = HashMap::new();
        let mut body = std::mem::take(&mut function.body);
        share(&mut body, &function.values, &mut replaced);
        function.body = body;
        replace(function, &replaced);
        Ok(replaced.len())
    }
}

/// What makes two calls equal; `None` if they never are. Element types are among it, which no argument may say.
fn key(call: &Call, values: &[Value]) -> Option<String> {
    let name = call.operator().filter(|_| !is_random(call))?;
    let dtype = |value: &ValueId| match &values.get(value.0 as usize)?.kind {
        Kind::Tensor(ty) => Some(ty.dtype),
        _ => None,
    };
    let types: Vec<_> = call.outputs.iter().map(dtype).collect();
    Some(format!("{name} {:?} {types:?}", call.args))
}

fn share(block: &mut Block, values: &[Value], replaced: &mut HashMap<ValueId, ValueId>) {
    let mut known: HashMap<String, Vec<ValueId>> = HashMap::new();
    block.calls.retain_mut(|call| {
        for (_, arg) in &mut call.args {
            arg.replace(&mut |value| replaced.get(&value).copied().unwrap_or(value));
        }
        call.blocks.iter_mut().for_each(|block| share(block, values, replaced));
        let Some(key) = key(call, values) else { return true };
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
