//! Branches and loops as jumps.
//!
//! A jump happens when a value is false; a value that is always false makes one that always happens. A branch moves its
//! results: the value after the branch then lies where the branch that ran has left it. A loop copies: what it carries
//! has memory of its own, that each turn reads and then overwrites.

use super::Emitter;
use crate::Error;
use crate::ir::{Arg, Block, Call, Target, ValueId};
use sconce_format::pte::model::{Dynamism, Instruction, Value};
use std::collections::HashMap;

impl<'p> Emitter<'_, '_, 'p> {
    /// A jump whose target is filled in later.
    fn jump(&mut self, condition: u32) -> usize {
        let place = self.now();
        self.push(Instruction::JumpFalse { condition, target: 0 }, None);
        place
    }

    /// Lets a jump go to the next instruction.
    fn land(&mut self, jump: usize) {
        let now = self.now() as u32;
        if let Some(Instruction::JumpFalse { target, .. }) = self.plan.chains[0].instructions.get_mut(jump) {
            *target = now;
        }
    }

    /// Jumps back, always.
    fn repeat(&mut self, target: usize) {
        let never = self.plain(Value::Bool(false));
        self.push(Instruction::JumpFalse { condition: never, target: target as u32 }, None);
    }

    /// Writes the calls of a block whose inputs stand for `passed`.
    fn inner(&mut self, block: &'p Block, passed: &[ValueId]) -> Result<(), Error> {
        for (input, outer) in block.inputs.iter().zip(passed) {
            let entry = self.entry(*outer)?;
            self.entries.insert(*input, entry);
            self.share(*input, *outer);
        }
        self.sizes.push(HashMap::new());
        let done = self.block(block);
        self.sizes.pop();
        done
    }

    pub(super) fn cond(&mut self, call: &'p Call) -> Result<(), Error> {
        let [yes, no] = call.blocks.as_slice() else {
            return Err(Error::Broken("a branch without its two sides".to_owned()));
        };
        let condition = self.condition(call.arg("condition"))?;
        let passed = values(call.arg("inputs"));
        let to_no = self.jump(condition);
        self.side(yes, &passed, call)?;
        let never = self.plain(Value::Bool(false));
        let to_end = self.jump(never);
        self.land(to_no);
        self.side(no, &passed, call)?;
        self.land(to_end);
        Ok(())
    }

    /// One side of a branch, and the moves that make its results those of the branch.
    fn side(&mut self, block: &'p Block, passed: &[ValueId], call: &'p Call) -> Result<(), Error> {
        self.inner(block, passed)?;
        for (result, inner) in call.outputs.iter().zip(&block.outputs) {
            let from = self.read(*inner)?;
            let to = self.entry(*result)?;
            self.push(Instruction::Move { from, to }, Some(call));
            let holder = self.root(*inner);
            self.placeholders.entry(*result).or_default().push(holder);
        }
        Ok(())
    }

    /// `map` and `scan`: the block for each index of the inputs.
    pub(super) fn scan(&mut self, call: &'p Call) -> Result<(), Error> {
        let [block] = call.blocks.as_slice() else {
            return Err(Error::Broken("a loop without its body".to_owned()));
        };
        let carry = if call.target == Target::Scan { values(call.arg("carry")) } else { Vec::new() };
        let (inputs, further) = (values(call.arg("inputs")), values(call.arg("further")));
        let (last, stacked) = call.outputs.split_at(carry.len().min(call.outputs.len()));
        for (value, first) in last.iter().zip(&carry) {
            self.copy_into(*first, *value)?;
        }
        let Some(first) = inputs.first() else { return Err(Error::unsupported("a loop over nothing")) };
        let (tensor, zero, one) = (self.read(*first)?, self.plain(Value::Int(0)), self.plain(Value::Int(1)));
        let (count, index) = (self.plan.value(Value::Int(0)), self.plan.value(Value::Int(0)));
        let size = self.plan.operator("aten::sym_size.int");
        self.push(Instruction::Kernel { operator: size, args: vec![tensor, zero, count] }, Some(call));
        stacked.iter().for_each(|whole| self.use_now(*whole));
        let start = self.now();
        let mut passed = last.to_vec();
        for (input, slice) in inputs.iter().zip(block.inputs.get(carry.len()..).unwrap_or_default()) {
            let (from, to) = (self.read(*input)?, self.read(*slice)?);
            let operator = self.plan.operator("aten::select_copy.int_out");
            self.push(Instruction::Kernel { operator, args: vec![from, zero, index, to, to] }, Some(call));
            passed.push(*slice);
        }
        passed.extend(&further);
        self.inner(block, &passed)?;
        for (result, whole) in block.outputs.iter().skip(last.len()).zip(stacked) {
            let (from, to) = (self.read(*result)?, self.read(*whole)?);
            // It grows with every turn.
            if let Value::Tensor(tensor) = &mut self.plan.values[to as usize] {
                tensor.dynamism = match tensor.dynamism {
                    Dynamism::Unbound => Dynamism::Unbound,
                    _ => Dynamism::Bound,
                };
            }
            let operator = self.plan.operator("executorch_prim::et_copy_index.tensor");
            self.push(Instruction::Kernel { operator, args: vec![to, from, index] }, Some(call));
        }
        self.carry(last, &block.outputs)?;
        let next = self.plan.operator("executorch_prim::add.Scalar");
        self.push(Instruction::Kernel { operator: next, args: vec![index, one, index] }, Some(call));
        let done = self.plan.value(Value::Bool(false));
        let equal = self.plan.operator("executorch_prim::eq.Scalar");
        self.push(Instruction::Kernel { operator: equal, args: vec![index, count, done] }, Some(call));
        self.push(Instruction::JumpFalse { condition: done, target: start as u32 }, None);
        self.keep_over(start);
        // The next run counts from zero again.
        let back = self.plan.operator("executorch_prim::sub.Scalar");
        self.push(Instruction::Kernel { operator: back, args: vec![index, count, index] }, Some(call));
        Ok(())
    }

    pub(super) fn while_loop(&mut self, call: &'p Call) -> Result<(), Error> {
        let [test, body] = call.blocks.as_slice() else {
            return Err(Error::Broken("a loop without test or body".to_owned()));
        };
        let (carry, further) = (values(call.arg("carry")), values(call.arg("further")));
        for (value, first) in call.outputs.iter().zip(&carry) {
            self.copy_into(*first, *value)?;
        }
        let passed: Vec<ValueId> = call.outputs.iter().chain(&further).copied().collect();
        let start = self.now();
        self.inner(test, &passed)?;
        let Some(&holds) = test.outputs.first() else { return Err(Error::unsupported("a loop without a test")) };
        let condition = self.read(holds)?;
        let to_end = self.jump(condition);
        self.inner(body, &passed)?;
        self.carry(&call.outputs, &body.outputs)?;
        self.repeat(start);
        self.keep_over(start);
        self.land(to_end);
        Ok(())
    }

    /// What a turn gives becomes what the next one gets. Values that are carried themselves are copied aside first.
    fn carry(&mut self, carried: &[ValueId], results: &[ValueId]) -> Result<(), Error> {
        let mut sources = Vec::new();
        for (own, result) in carried.iter().zip(results) {
            let is_carried = carried.contains(&self.root(*result)) && self.root(*result) != *own;
            sources.push(if is_carried { self.copy_of(*result)? } else { self.read(*result)? });
        }
        for ((own, result), source) in carried.iter().zip(results).zip(sources) {
            if self.root(*result) != *own {
                self.copy_entry(source, *own)?;
            }
        }
        Ok(())
    }

    fn copy_into(&mut self, from: ValueId, to: ValueId) -> Result<(), Error> {
        let from = self.read(from)?;
        self.copy_entry(from, to)
    }

    fn copy_entry(&mut self, from: u32, to: ValueId) -> Result<(), Error> {
        let to = self.read(to)?;
        let no = self.plain(Value::Bool(false));
        let operator = self.plan.operator("aten::copy_");
        self.push(Instruction::Kernel { operator, args: vec![to, from, no, to] }, None);
        Ok(())
    }
}

/// Values of an argument.
fn values(arg: &Arg) -> Vec<ValueId> {
    match arg {
        Arg::Values(values) => values.iter().flatten().copied().collect(),
        Arg::Value(value) => vec![*value],
        _ => Vec::new(),
    }
}
