//! What XNNPACK runs, as payloads that this runtime and the official one understand.
//!
//! To teach it an operator, add a row to a table in `rows`: the operator's name, whether it also works on integers, and
//! a function that makes its nodes or says in words why it cannot. That function decides what is taken, too: each call is
//! rehearsed on a payload that is thrown away (`builder`), so what was chosen can be lowered.
//!
//! | module | what it knows |
//! |---|---|
//! | `builder` | values, forms of images, constants |
//! | `scope` | who makes and reads what; known values |
//! | `quantization` | patterns of integers |
//! | `separate` | which calls conversions belong to |
//! | `rows` | operators |
//!
//! Activations and batch normalisation after a node become part of it where nothing else reads what lies between.

mod builder;
mod quantization;
mod rows;
mod scope;
mod separate;
mod tensor;

use crate::Error;
use crate::arguments;
use crate::ir::{Call, Constants, Delegate, Function, TensorType};
use crate::partition::{Choice, Part, Partitioner};
use builder::Builder;
use scope::Scope;

/// The partitioner for XNNPACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct Xnnpack;

impl Partitioner for Xnnpack {
    fn name(&self) -> &str {
        "xnnpack"
    }

    fn keeps(&self, operator: &str) -> bool {
        rows::find(operator).is_some() || quantization::is_dequantize(operator)
    }

    fn arrange(&self, function: &mut Function) {
        separate::separate(function);
    }

    fn select(&self, function: &Function, constants: &Constants<'_>) -> Vec<Choice> {
        let scope = Scope::of(function, constants);
        function.body.calls.iter().map(|call| choose(&scope, call)).collect()
    }

    fn lower(&self, part: &Part<'_>) -> Result<Delegate, Error> {
        let scope = Scope::new(part.function, part.constants, part.calls.iter().copied(), part.outputs.iter().copied());
        let mut builder = Builder::new(&scope, part);
        for call in &part.calls {
            let written = call.outputs.first().is_some_and(|value| builder.done.contains(value));
            if !written && !scope.follows(call) {
                nodes(&mut builder, call).map_err(|error| at(call, error))?;
            }
        }
        builder.finish().map_err(Error::unsupported)
    }
}

fn choose(scope: &Scope<'_>, call: &Call) -> Choice {
    if scope.follows(call) {
        return Choice::Follow;
    }
    match nodes(&mut Builder::rehearsal(scope), call) {
        Ok(()) => Choice::Take,
        Err(reason) => Choice::Refuse(reason),
    }
}

/// Makes the nodes of a call.
fn nodes(builder: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let Some(name) = call.operator() else { return Err("it is no operator".to_owned()) };
    let row = rows::find(name).ok_or("XNNPACK has no such operator")?;
    let mut in_rows = true;
    call.reads(&mut |value| in_rows &= builder.scope.ty(value).is_ok_and(TensorType::is_contiguous));
    if !in_rows {
        return Err("it reads a tensor that does not lie row by row".to_owned());
    }
    if call.outputs.is_empty() {
        return Err("it has no result".to_owned());
    }
    builder.handle = builder::handle(call);
    builder.quantized = row.integers.is_some_and(|integers| rows::works_on_integers(builder, call, integers));
    (row.nodes)(builder, call)
}

fn at(call: &Call, reason: String) -> Error {
    let source = call.source.as_deref();
    let trace = source.map_or("", |source| &source.stack_trace);
    Error::unsupported(reason).at(call.operator().unwrap_or(""), trace)
}

#[cfg(test)]
mod tests;
