//! What can be known already.
//!
//! Calls that read constants only are cut out, emitted as a program of their own that takes nothing, and run by an
//! [`Executor`]; its outputs become constants. The same kernels compute them as would on the device, so nothing about
//! arithmetic is written here.

use super::{Pass, is_random, read_counts, replace};
use crate::Error;
use crate::emit;
use crate::ir::{Arg, Block, Call, Constants, Function, Kind, Origin, Output, Program, ValueId};
use crate::memory::Smallest;
use std::collections::{HashMap, HashSet};

/// Runs programs for the compiler.
pub trait Executor {
    /// Runs the method `forward` of a program (the bytes of a `.pte`), which takes nothing, and gives its outputs.
    fn run(&self, program: &[u8]) -> Result<Vec<Vec<u8>>, String>;
}

/// Computes what reads only constants.
pub struct FoldConstants<'e> {
    /// Runs the calls.
    pub executor: &'e dyn Executor,
}

/// A result may be this many times as large as all that it is computed from, or this many bytes.
const MOST_GROWTH: u64 = 2;
const ALWAYS_SMALL: u64 = 4096;

/// All results together may be this many times as large as all constants, or this many bytes.
const MOST_IN_ALL: u64 = 8;
const ALWAYS_IN_ALL: u64 = 16 << 20;

/// Operators that compute where the program runs: what they give is not said, or they read what a payload describes, for
/// quantised weights stay quantised.
const LEFT_ALONE: &[&str] = &["dequantize", "empty"];

impl Pass for FoldConstants<'_> {
    fn name(&self) -> &'static str {
        "fold constants"
    }

    fn run(&self, function: &mut Function, constants: &mut Constants<'_>) -> Result<usize, Error> {
        let known = foldable(function, constants);
        if known.is_empty() {
            return Ok(0);
        }
        let (calls, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut function.body.calls).into_iter().partition(|call| is_in(call, &known));
        function.body.calls = rest;
        let counts = read_counts(function);
        let wanted: Vec<ValueId> =
            calls.iter().flat_map(|call| &call.outputs).copied().filter(|value| counts[value.0 as usize] > 0).collect();
        match self.results(function, constants, &calls, &wanted) {
            Ok(results) => {
                let mut replaced = HashMap::new();
                for (value, bytes) in wanted.iter().zip(results) {
                    let (kind, name) = (function.get(*value).kind.clone(), function.get(*value).name.clone());
                    let constant = constants.add("", bytes);
                    replaced.insert(*value, function.value(kind, Origin::Constant(constant), name));
                }
                replace(function, &replaced);
                Ok(calls.len())
            }
            // What cannot be run here may still run where the program does.
            Err(_) => {
                let rest = std::mem::take(&mut function.body.calls);
                function.body.calls = calls.into_iter().chain(rest).collect();
                Ok(0)
            }
        }
    }
}

impl FoldConstants<'_> {
    fn results(
        &self,
        function: &Function,
        constants: &Constants<'_>,
        calls: &[Call],
        wanted: &[ValueId],
    ) -> Result<Vec<Vec<u8>>, String> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (values, symbols) = (function.values.clone(), function.symbols.clone());
        let mut alone = Function { name: "forward".to_owned(), values, symbols, ..Function::default() };
        alone.body = Block { inputs: Vec::new(), calls: calls.to_vec(), outputs: wanted.to_vec() };
        alone.outputs = wanted.iter().copied().map(Output::Value).collect();
        let used = constants
            .0
            .iter()
            .map(|constant| crate::ir::Constant { name: String::new(), bytes: (&*constant.bytes).into() });
        let program = Program { functions: vec![alone], constants: Constants(used.collect()), ..Program::default() };
        let file = emit::emit(&program, &Smallest, emit::Options::default()).map_err(|error| error.to_string())?;
        let results = self.executor.run(&file.program.write())?;
        if results.len() == wanted.len() { Ok(results) } else { Err("another number of results".to_owned()) }
    }
}

fn is_in(call: &Call, known: &HashSet<ValueId>) -> bool {
    !call.outputs.is_empty() && call.outputs.iter().all(|value| known.contains(value))
}

/// The results of calls that read only constants and results of such calls, and do not grow too much.
fn foldable(function: &Function, constants: &Constants<'_>) -> HashSet<ValueId> {
    let mut known = HashSet::new();
    let given = constants.0.iter().map(|constant| constant.bytes.len() as u64).fold(0, u64::saturating_add);
    let mut room = given.saturating_mul(MOST_IN_ALL).max(ALWAYS_IN_ALL);
    for call in &function.body.calls {
        let Some(name) = call.operator() else { continue };
        let base = name.split("::").nth(1).unwrap_or(name);
        let left = name.starts_with("python::") || is_random(call) || LEFT_ALONE.iter().any(|left| base.contains(left));
        let (mut all, mut bytes) = (true, 0u64);
        call.reads(&mut |value| match function.get(value).origin {
            Origin::Constant(constant) => bytes = bytes.saturating_add(constants.bytes(constant).len() as u64),
            _ => {
                all &= known.contains(&value);
                bytes = bytes.saturating_add(size(function, value).unwrap_or(0));
            }
        });
        call.args.iter().for_each(|(_, arg)| arg.symbols(&mut |_| all = false));
        let made = call.outputs.iter().try_fold(0u64, |sum, value| sum.checked_add(size(function, *value)?));
        let Some(made) = made.filter(|made| all && !left && *made <= room) else { continue };
        let is_factory = !call.args.iter().any(|(_, arg)| matches!(arg, Arg::Value(_) | Arg::Values(_)));
        if made <= ALWAYS_SMALL || (!is_factory && made <= bytes.saturating_mul(MOST_GROWTH)) {
            room -= made;
            known.extend(&call.outputs);
        }
    }
    known
}

/// The bytes of a tensor whose sizes are known.
fn size(function: &Function, value: ValueId) -> Option<u64> {
    let Kind::Tensor(ty) = &function.get(value).kind else { return None };
    let count = ty.numbers()?.into_iter().try_fold(1u64, |count, size| count.checked_mul(u64::try_from(size).ok()?))?;
    count.checked_mul(ty.dtype.size() as u64)
}
