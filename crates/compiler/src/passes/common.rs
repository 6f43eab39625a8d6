//! Calls that compute what another one has computed.

use super::{Pass, replace};
use crate::Error;
use crate::ir::{Block, Call, Constants, Function, ValueId};
use std::collections::HashMap;

/// Lets equal calls share one result. Calls of random numbers differ each time and are left alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonCalls;

/// Operators that give something else each time.
const RANDOM: &[&str] =
    &["rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "native_dropout", "normal"];

impl Pass for CommonCalls {
    fn name(&self) -> &'static str {
        "common calls"
    }

    fn run(&self, function: &mut Function, _: &mut Constants<'_>) -> Result<usize, Error> {
        let mut replaced = HashMap::new();
        let mut body = std::mem::take(&mut function.body);
        share(&mut body, &mut replaced);
        function.body = body;
        replace(function, &replaced);
        Ok(replaced.len())
    }
}

/// What makes two calls equal; `None` if they never are.
fn key(call: &Call) -> Option<String> {
    let name = call.operator()?;
    let base = name.split("::").nth(1).unwrap_or(name).split('.').next().unwrap_or(name);
    let random = RANDOM.iter().any(|random| base.starts_with(random));
    (!random).then(|| format!("{name} {:?}", call.args))
}

fn share(block: &mut Block, replaced: &mut HashMap<ValueId, ValueId>) {
    let mut known: HashMap<String, Vec<ValueId>> = HashMap::new();
    block.calls.retain_mut(|call| {
        for (_, arg) in &mut call.args {
            arg.replace(&mut |value| replaced.get(&value).copied().unwrap_or(value));
        }
        call.blocks.iter_mut().for_each(|block| share(block, replaced));
        let Some(key) = key(call) else { return true };
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
