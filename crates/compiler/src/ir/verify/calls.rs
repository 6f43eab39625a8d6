//! Single calls: their arguments, and what goes in and out of their blocks.

use super::method::{Checker, agree, list};
use super::{Invalid, invalid};
use crate::ir::{Arg, Block, Call, Function, Kind, Target, ValueId};
use crate::size::Size;
use sconce_format::ScalarType;
use std::collections::HashSet;

impl Checker<'_> {
    /// A call before its results are made.
    pub(super) fn call(&mut self, call: &Call) -> Result<(), Invalid> {
        let target = &call.target;
        if call.outputs.is_empty() {
            return invalid(format!("{target} makes nothing"));
        }
        let mut names = HashSet::new();
        for (name, arg) in &call.args {
            if !names.insert(name) {
                return invalid(format!("{target} has two arguments {name}"));
            }
            let mut read = Ok(());
            arg.values(&mut |value| {
                if read.is_ok() {
                    read = self.read(value, format_args!("by {target} as {name}"));
                }
            });
            read?;
            self.computed(arg, format_args!("by {target} as {name}"))?;
        }
        self.blocks(call)?;
        match target {
            Target::Operator(_) => view(self.function, call),
            Target::Delegate(number) if *number as usize >= self.delegates => {
                invalid(format!("there is no delegate {number}"))
            }
            Target::Delegate(_) => Ok(()),
            Target::Cond => self.cond(call),
            Target::Map | Target::Scan => self.scan(call),
            Target::While => self.while_loop(call),
        }
    }

    fn blocks(&mut self, call: &Call) -> Result<(), Invalid> {
        let wanted = match call.target {
            Target::Operator(_) | Target::Delegate(_) => 0,
            Target::Map | Target::Scan => 1,
            Target::Cond | Target::While => 2,
        };
        if call.blocks.len() != wanted {
            return invalid(format!("{} has {} blocks and runs {wanted}", call.target, call.blocks.len()));
        }
        call.blocks.iter().try_for_each(|block| self.inner(block, call))
    }

    fn cond(&self, call: &Call) -> Result<(), Invalid> {
        match call.arg("condition") {
            Arg::Bool(_) => {}
            Arg::Value(value) if self.is_condition(*value) => {}
            _ => return invalid("the condition of a branch is no truth value"),
        }
        let passed = values(call, "inputs")?;
        for block in &call.blocks {
            self.goes_in(call, block, &passed)?;
            self.comes_out(call, block, &call.outputs)?;
        }
        Ok(())
    }

    /// A truth value, or a tensor that holds one.
    fn is_condition(&self, value: ValueId) -> bool {
        match &self.function.get(value).kind {
            Kind::Bool => true,
            Kind::Tensor(ty) => ty.dtype == ScalarType::Bool,
            _ => false,
        }
    }

    fn while_loop(&self, call: &Call) -> Result<(), Invalid> {
        let (carry, further) = (values(call, "carry")?, values(call, "further")?);
        let passed = [&carry[..], &further].concat();
        self.same(call, "carries", &call.outputs, &carry)?;
        for block in &call.blocks {
            self.goes_in(call, block, &passed)?;
        }
        match call.blocks[0].outputs[..] {
            [test] if self.is_condition(test) => {}
            _ => return invalid("the test of a loop gives no truth value"),
        }
        self.comes_out(call, &call.blocks[1], &carry)
    }

    /// A loop over slices, which may carry values.
    fn scan(&self, call: &Call) -> Result<(), Invalid> {
        let carry = if call.target == Target::Scan { values(call, "carry")? } else { Vec::new() };
        let (inputs, further) = (values(call, "inputs")?, values(call, "further")?);
        let block = &call.blocks[0];
        let (carried, rest) = block.inputs.split_at(carry.len().min(block.inputs.len()));
        let (slices, others) = rest.split_at(inputs.len().min(rest.len()));
        self.same(call, "gets", carried, &carry)?;
        self.same(call, "gets", others, &further)?;
        self.slices(call, slices, &inputs)?;
        let (last, stacked) = call.outputs.split_at(carry.len().min(call.outputs.len()));
        let (next, results) = block.outputs.split_at(carry.len().min(block.outputs.len()));
        self.same(call, "carries", last, &carry)?;
        self.same(call, "carries", next, &carry)?;
        self.slices(call, results, stacked)
    }

    /// Each of `parts` is a slice of one of `wholes` along its first dimension.
    fn slices(&self, call: &Call, parts: &[ValueId], wholes: &[ValueId]) -> Result<(), Invalid> {
        let of = |(part, whole): (&ValueId, &ValueId)| {
            let types = self.function.tensor(*part).zip(self.function.tensor(*whole));
            types.is_some_and(|(part, whole)| {
                let rest: &[Size] = whole.sizes.get(1..).unwrap_or_default();
                part.dtype == whole.dtype && whole.rank() > 0 && agree(&part.sizes, rest)
            })
        };
        if parts.len() == wholes.len() && parts.iter().zip(wholes).all(of) {
            return Ok(());
        }
        invalid(format!("{} takes {} for slices of {}", call.target, list(parts), list(wholes)))
    }

    fn goes_in(&self, call: &Call, block: &Block, passed: &[ValueId]) -> Result<(), Invalid> {
        self.same(call, "gets", &block.inputs, passed)
    }

    fn comes_out(&self, call: &Call, block: &Block, wanted: &[ValueId]) -> Result<(), Invalid> {
        self.same(call, "gives", wanted, &block.outputs)
    }

    /// Values stand for others of their types.
    fn same(&self, call: &Call, does: &str, own: &[ValueId], others: &[ValueId]) -> Result<(), Invalid> {
        if own.len() == others.len() && own.iter().zip(others).all(|(a, b)| self.agree(*a, *b)) {
            return Ok(());
        }
        let shown = |values: &[ValueId]| values.iter().map(|value| self.shown(*value)).collect::<Vec<_>>().join(", ");
        invalid(format!("{} {does} {} for {}", call.target, shown(others), shown(own)))
    }
}

/// If a call is a view, it has the elements of what it is of: it may come to lie in the same memory.
pub(crate) fn view(function: &Function, call: &Call) -> Result<(), Invalid> {
    if call.operator() != Some("aten::view") {
        return Ok(());
    }
    let (Arg::Value(base), [result]) = (call.arg("self"), &call.outputs[..]) else {
        return invalid("a view is not one of one tensor");
    };
    let types = function.tensor(*base).zip(function.tensor(*result));
    let fits = types.is_some_and(|(from, to)| from.dtype == to.dtype && agree(&[from.count()], &[to.count()]));
    if fits {
        return Ok(());
    }
    invalid(format!("{} is a view of {}", function.declared(*result), function.declared(*base)))
}

/// The values of an argument, all of which are there.
fn values(call: &Call, name: &str) -> Result<Vec<ValueId>, Invalid> {
    let all = match call.arg(name) {
        Arg::None => Some(Vec::new()),
        Arg::Ints(sizes) if sizes.is_empty() => Some(Vec::new()),
        Arg::Value(value) => Some(vec![*value]),
        Arg::Values(values) => values.iter().copied().collect(),
        _ => None,
    };
    match all {
        Some(all) => Ok(all),
        None => invalid(format!("{} has {name} that are no values", call.target)),
    }
}
