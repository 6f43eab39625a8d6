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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Arg, Origin, TensorType};
    use sconce_format::ScalarType;

    /// How many calls share the result of another, of calls without tensors that give these types.
    fn shared(operator: &'static str, types: [ScalarType; 2]) -> usize {
        let mut function = Function::default();
        for dtype in types {
            let kind = Kind::Tensor(TensorType::fixed(dtype, &[3]));
            let result = function.value(kind, Origin::Call, "");
            let args = [("size", Arg::from(vec![3i64])), ("fill_value", 0.into())];
            function.body.calls.push(Call::new(operator, args, vec![result]));
        }
        CommonCalls.run(&mut function, &mut Constants::default()).unwrap()
    }

    #[test]
    fn calls_share_what_is_the_same_each_time() {
        use ScalarType::{Float, Long};
        assert_eq!(shared("aten::full", [Float, Float]), 1);
        assert_eq!(shared("aten::full", [Float, Long]), 0);
        for operator in ["aten::rand", "aten::exponential", "aten::uniform", "aten::native_dropout"] {
            assert_eq!(shared(operator, [Float, Float]), 0, "{operator}");
        }
    }
}
