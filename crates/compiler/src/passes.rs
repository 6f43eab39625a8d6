//! Rewriting whole methods: what is computed twice, for nobody, or could be known already.
//!
//! A [`Pass`] changes a function and says how often it did. The compiler runs its own ([`standard`]) until none finds
//! anything more, before and after delegation; a user's run first. To add one, write a module with a type that
//! implements the trait, and add it to the list.

mod common;
mod dead;
mod fold;
mod norm;
mod simplify;

pub use common::CommonCalls;
pub use dead::DeadCalls;
pub use fold::{Executor, FoldConstants};
pub use norm::FoldBatchNorm;
pub use simplify::Simplify;

use crate::Error;
use crate::ir::{Block, Call, Constants, Definition, Function, Output, ValueId, debug_verify};
use std::collections::HashMap;

/// Changes a method.
pub trait Pass {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Changes the function, and says how often.
    fn run(&self, function: &mut Function, constants: &mut Constants<'_>) -> Result<usize, Error>;
}

/// Operators that give something else each time.
const RANDOM: &[&str] = &[
    "_fused_dropout",
    "bernoulli",
    "binomial",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "native_dropout",
    "normal",
    "normal_functional",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "rrelu_with_noise",
    "rrelu_with_noise_functional",
    "uniform",
];

/// Whether a call gives something else each time.
fn is_random(call: &Call) -> bool {
    let name = call.operator().unwrap_or("");
    let base = name.split("::").nth(1).unwrap_or(name).split('.').next().unwrap_or(name);
    RANDOM.contains(&base)
}

/// How often the passes run over one method at most.
const ROUNDS: usize = 16;

/// The compiler's own passes that need nothing but the method.
pub fn standard() -> Vec<Box<dyn Pass>> {
    vec![Box::new(Simplify), Box::new(FoldBatchNorm), Box::new(CommonCalls), Box::new(DeadCalls)]
}

/// Runs passes until none changes anything.
pub fn run(passes: &[Box<dyn Pass>], function: &mut Function, constants: &mut Constants<'_>) -> Result<(), Error> {
    for _ in 0..ROUNDS {
        let mut changes = 0;
        for pass in passes {
            let made = pass.run(function, constants)?;
            if made > 0 {
                debug_verify(function, constants, pass.name());
            }
            changes += made;
        }
        if changes == 0 {
            break;
        }
    }
    Ok(())
}

/// Lets every reader of a key read its value; what stands for another may itself be replaced.
pub fn replace(function: &mut Function, replaced: &HashMap<ValueId, ValueId>) {
    if replaced.is_empty() {
        return;
    }
    let mut now = |mut value: ValueId| {
        while let Some(next) = replaced.get(&value) {
            value = *next;
        }
        value
    };
    replace_in(&mut function.body, &mut now);
    for output in &mut function.outputs {
        if let Output::Value(value) = output {
            *value = now(*value);
        }
    }
    function.updates.iter_mut().for_each(|(_, value)| *value = now(*value));
    for definition in function.definitions.values_mut() {
        let (Definition::SizeOf(value, _) | Definition::Value(value)) = definition;
        *value = now(*value);
    }
}

fn replace_in(block: &mut Block, now: &mut dyn FnMut(ValueId) -> ValueId) {
    for call in &mut block.calls {
        call.args.iter_mut().for_each(|(_, arg)| arg.replace(now));
        call.blocks.iter_mut().for_each(|block| replace_in(block, now));
    }
    block.outputs.iter_mut().for_each(|value| *value = now(*value));
}

/// How often each value is read, by calls in all blocks, by blocks as results, and as an update.
pub fn read_counts(function: &Function) -> Vec<usize> {
    let mut counts = vec![0; function.values.len()];
    let mut read = |value: ValueId| counts[value.0 as usize] += 1;
    count_in(&function.body, &mut read);
    function.updates.iter().for_each(|(_, value)| read(*value));
    counts
}

fn count_in(block: &Block, read: &mut dyn FnMut(ValueId)) {
    for call in &block.calls {
        call.reads(read);
        call.blocks.iter().for_each(|block| count_in(block, read));
    }
    block.outputs.iter().copied().for_each(read);
}
