//! From calls to a program: the instructions, the table of values, and where each tensor lies.
//!
//! Every call becomes a call of an operator that writes its result into a given tensor. What costs nothing is left out:
//! a view of a tensor in planned memory is another tensor at the same place. Sizes that are not known before the program
//! runs are computed by instructions of their own where they are first needed (`numbers`); branches and loops become
//! jumps (`control`). While instructions are written, each tensor's first and last use is noted (`lives`), from which
//! [`memory`] makes the plan in the end.

mod arguments;
mod control;
mod lives;
mod numbers;
mod tensors;

use crate::Error;
use crate::debug::{self, frames};
use crate::ir::{
    Arg, Block, Call, Delegate, Function, Input, Origin, Output, Program, Source, Target, ValueId, verify,
};
use crate::memory::{self, Planner};
use crate::signature::{self, Signature, Takes};
use crate::size::Size;
use lives::Life;
use sconce_format::ptd;
use sconce_format::pte::model::{self, Chain, CompileSpec, Instruction, NamedData, Plan, Storage, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How a program is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether instructions carry the lines of Python that they came from.
    pub stack_traces: bool,
    /// Whether the module's tensors go to a file of their own, under their names.
    pub external: bool,
    /// Whether to tell what each instruction came from.
    pub debug_map: bool,
}

/// What a program becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted<'p> {
    /// The `.pte` file.
    pub program: model::Program<'p>,
    /// The `.ptd` file; empty unless tensors are kept outside.
    pub data: ptd::model::Data<'p>,
    /// Where the tensors of each method lie.
    pub memory: Vec<memory::Plan>,
    /// What the instructions of each method came from, if that was asked for.
    pub debug: Vec<debug::Method>,
}

/// The program as the model of a file. `planner` decides where tensors lie.
pub fn emit<'p>(program: &'p Program<'_>, planner: &dyn Planner, options: Options) -> Result<Emitted<'p>, Error> {
    let (mut file, mut data) = (model::Program::default(), ptd::model::Data::default());
    let mut shared = Shared {
        file: &mut file,
        data: &mut data,
        program,
        options,
        constants: HashMap::new(),
        states: HashMap::new(),
        memory: Vec::new(),
        debug: Vec::new(),
    };
    debug_assert_eq!(verify(program), Ok(()), "{program}");
    let mut missing = BTreeSet::new();
    let mut plans = Vec::new();
    for function in &program.functions {
        match Emitter::new(function, &mut shared).run(planner) {
            Ok(plan) => plans.push(plan),
            Err(Error::Operators { names, .. }) => missing.extend(names),
            Err(error) => return Err(error),
        }
    }
    if !missing.is_empty() {
        return Err(Error::Operators { names: missing.into_iter().collect(), decomposed: program.decomposed });
    }
    let Shared { memory, debug, .. } = shared;
    file.plans = plans;
    file.plans.extend(program.known.iter().map(|(name, values)| known_method(name, values)));
    Ok(Emitted { program: file, data, memory, debug })
}

/// A method that takes nothing and gives known values.
fn known_method<'a>(name: &str, values: &[Arg]) -> Plan<'a> {
    let mut plan = Plan::new(name);
    plan.values = values.iter().map(arguments::plain).collect();
    plan.outputs = (0..plan.values.len() as u32).collect();
    plan
}

/// What the methods of a file share.
struct Shared<'s, 'p> {
    file: &'s mut model::Program<'p>,
    data: &'s mut ptd::model::Data<'p>,
    program: &'p Program<'p>,
    options: Options,
    /// Entries of the file's constants by ours, and its initial states.
    constants: HashMap<u32, Storage>,
    states: HashMap<u32, u32>,
    memory: Vec<memory::Plan>,
    debug: Vec<debug::Method>,
}

struct Emitter<'e, 's, 'p> {
    function: &'p Function,
    shared: &'e mut Shared<'s, 'p>,
    plan: Plan<'p>,
    /// What each instruction came from.
    sources: Vec<Option<Arc<Source>>>,
    /// The delegates of the plan.
    delegates: Vec<&'p Delegate>,
    /// Entries of the file's table by our values.
    entries: HashMap<ValueId, u32>,
    /// Entries of plain values, so that equal ones are written once.
    plain: HashMap<String, u32>,
    /// Entries of computed sizes; one map for each block that is being written.
    sizes: Vec<HashMap<Size, u32>>,
    /// The tensor in whose memory another lies.
    roots: HashMap<ValueId, ValueId>,
    lives: HashMap<ValueId, Life>,
    /// Tensors whose place an instruction decides, and the tensors in whose memory that may be.
    placeholders: HashMap<ValueId, Vec<ValueId>>,
    /// Entries of copies by what they are copies of.
    copies: HashMap<u32, ValueId>,
    missing: BTreeSet<String>,
}

impl<'e, 's, 'p> Emitter<'e, 's, 'p> {
    fn new(function: &'p Function, shared: &'e mut Shared<'s, 'p>) -> Self {
        Self {
            function,
            shared,
            plan: Plan::new(&function.name),
            sources: Vec::new(),
            delegates: Vec::new(),
            entries: HashMap::new(),
            plain: HashMap::new(),
            sizes: vec![HashMap::new()],
            roots: HashMap::new(),
            lives: HashMap::new(),
            placeholders: HashMap::new(),
            copies: HashMap::new(),
            missing: BTreeSet::new(),
        }
    }

    fn run(mut self, planner: &dyn Planner) -> Result<Plan<'p>, Error> {
        let function = self.function;
        for input in &function.inputs {
            let entry = match input {
                Input::Value(value) => self.read(*value)?,
                Input::Fixed(arg) => self.plan.value(arguments::plain(arg)),
            };
            self.plan.inputs.push(entry);
        }
        self.block(&function.body)?;
        for output in &function.outputs {
            let entry = match output {
                Output::Value(value) => self.output(*value)?,
                Output::Known(Arg::Int(size)) => self.size(size)?,
                Output::Known(arg) => self.plan.value(arguments::plain(arg)),
            };
            self.plan.outputs.push(entry);
        }
        self.updates()?;
        if !self.missing.is_empty() {
            let decomposed = self.shared.program.decomposed;
            return Err(Error::Operators { names: self.missing.into_iter().collect(), decomposed });
        }
        self.place(planner)?;
        self.name();
        self.plan.input_encoding = Some(function.nesting[0].clone());
        self.plan.output_encoding = Some(function.nesting[1].clone());
        if self.shared.options.stack_traces {
            let trace = |source: &Option<Arc<Source>>| source.as_deref().map(|own| frames(&own.stack_trace));
            let traces = self.sources.iter().map(|source| trace(source).unwrap_or_default());
            self.plan.chains[0].stack_traces = traces.collect();
        }
        if self.shared.options.debug_map {
            self.shared.debug.push(debug::Method::new(&self.plan, &self.sources, &self.delegates));
        }
        Ok(self.plan)
    }

    /// The position of the next instruction.
    fn now(&self) -> usize {
        self.plan.chains.first().map_or(0, |chain: &Chain| chain.instructions.len())
    }

    fn push(&mut self, instruction: Instruction, call: Option<&Call>) {
        self.plan.push(instruction);
        self.sources.push(call.and_then(|call| call.source.clone()));
    }

    fn block(&mut self, block: &'p Block) -> Result<(), Error> {
        block.calls.iter().try_for_each(|call| self.call(call))
    }

    fn call(&mut self, call: &'p Call) -> Result<(), Error> {
        match &call.target {
            Target::Operator(name) if name.starts_with("python::") => self.arithmetic(call),
            Target::Operator(name) if self.is_free_view(name, call) => {
                let Arg::Value(base) = *call.arg("self") else { return Ok(()) };
                self.share(call.outputs[0], base);
                Ok(())
            }
            Target::Operator(name) if name == "aten::view" && self.is_shared_view(call) => self.dynamic_view(call),
            Target::Operator(name) if matches!(&**name, "aten::clone" | "aten::_to_copy") && self.reorders(call) => {
                self.reorder(call)
            }
            Target::Operator(_) => match signature::find(call, self.function) {
                Some(signature) => self.kernel(call, signature),
                None => {
                    self.missing.insert(call.operator().unwrap_or("").to_owned());
                    Ok(())
                }
            },
            Target::Delegate(index) => self.delegate(call, *index),
            Target::Cond => self.cond(call),
            Target::Map | Target::Scan => self.scan(call),
            Target::While => self.while_loop(call),
        }
    }

    /// Whether a call of `aten::view` needs no instruction: known sizes, and a base in planned memory that outlives it.
    fn is_free_view(&self, name: &str, call: &Call) -> bool {
        name == "aten::view"
            && self.is_shared_view(call)
            && call.outputs.iter().all(|value| self.function.tensor(*value).is_some_and(|ty| ty.numbers().is_some()))
    }

    /// Whether a view can lie in its base's memory: what the caller gets has memory of its own, and nothing is written
    /// to a view of what the caller passed or the method keeps.
    fn is_shared_view(&self, call: &Call) -> bool {
        let Arg::Value(base) = *call.arg("self") else { return false };
        let origin = &self.function.get(self.root(base)).origin;
        matches!(origin, Origin::Call) && !call.outputs.iter().any(|value| self.is_output(*value))
    }

    fn is_output(&self, value: ValueId) -> bool {
        self.function.body.outputs.contains(&value)
    }

    fn root(&self, value: ValueId) -> ValueId {
        self.roots.get(&value).copied().unwrap_or(value)
    }

    /// Lets a tensor lie where another does.
    fn share(&mut self, value: ValueId, base: ValueId) {
        let root = self.root(base);
        self.roots.insert(value, root);
    }

    /// Whether a copy lies otherwise in memory than what it copies.
    fn reorders(&self, call: &Call) -> bool {
        let Arg::Value(from) = *call.arg("self") else { return false };
        let order = |value| self.function.tensor(value).map(|ty| &ty.order);
        call.outputs.iter().any(|to| order(*to) != order(from))
    }

    /// A copy with its dimensions in another order in memory.
    fn reorder(&mut self, call: &'p Call) -> Result<(), Error> {
        let from = self.argument(call.arg("self"), Takes::Tensor, None)?;
        let order = self.function.tensor(call.outputs[0]).map(|ty| ty.order.clone()).unwrap_or_default();
        let order: Vec<i64> = order.into_iter().map(i64::from).collect();
        let order = self.argument(&order.into(), Takes::Ints, None)?;
        let (no, to) = (self.plain(Value::Bool(false)), self.read(call.outputs[0])?);
        let operator = self.plan.operator("dim_order_ops::_to_dim_order_copy.out");
        self.push(Instruction::Kernel { operator, args: vec![from, no, order, to, to] }, Some(call));
        Ok(())
    }

    /// A view whose sizes are computed when the program runs.
    fn dynamic_view(&mut self, call: &'p Call) -> Result<(), Error> {
        let Arg::Value(base) = *call.arg("self") else { return Ok(()) };
        let base_entry = self.read(base)?;
        let sizes = self.argument(call.arg("size"), Takes::Ints, None)?;
        self.share(call.outputs[0], base);
        self.placeholders.insert(call.outputs[0], vec![self.root(base)]);
        let entry = self.tensor_entry(call.outputs[0], Storage::Unplanned)?;
        self.use_now(call.outputs[0]);
        let operator = self.plan.operator("executorch_prim::et_view.default");
        self.push(Instruction::Kernel { operator, args: vec![base_entry, sizes, entry] }, Some(call));
        Ok(())
    }

    /// A call of an operator of the runtime.
    fn kernel(&mut self, call: &'p Call, signature: &Signature) -> Result<(), Error> {
        let mut args = Vec::new();
        let mut results = Vec::new();
        for parameter in signature.parameters.iter().filter(|parameter| !parameter.out) {
            let given = call.args.iter().find(|(name, _)| name == parameter.name).map(|(_, arg)| arg);
            let arg = given.or(parameter.default.as_ref()).unwrap_or(&Arg::None);
            args.push(self.argument(arg, parameter.takes, Some(parameter))?);
        }
        let list = signature.parameters.iter().any(|parameter| parameter.out && parameter.takes == Takes::Tensors);
        for &output in &call.outputs {
            results.push(self.read(output)?);
        }
        if list {
            let entry = self.plan.value(Value::TensorList(results));
            args.extend([entry, entry]);
        } else {
            args.extend(&results);
            match results.as_slice() {
                _ if signature.parameters.iter().all(|parameter| !parameter.out) => {}
                [] => {}
                [one] => args.push(*one),
                several => {
                    let entry = self.plan.value(Value::TensorList(several.to_vec()));
                    args.push(entry);
                }
            }
        }
        let operator = self.plan.operator(signature.name);
        self.push(Instruction::Kernel { operator, args }, Some(call));
        Ok(())
    }

    fn delegate(&mut self, call: &'p Call, index: u32) -> Result<(), Error> {
        let program: &'p Program<'p> = self.shared.program;
        let delegate = &program.delegates[index as usize];
        let mut args = Vec::new();
        if let Arg::Values(inputs) = call.arg("inputs") {
            for input in inputs.iter().flatten() {
                args.push(self.read(*input)?);
            }
        }
        for &output in &call.outputs {
            args.push(self.read(output)?);
        }
        self.plan.delegates.push(model::Delegate {
            backend: delegate.backend.clone(),
            payload: delegate.payload.as_slice().into(),
            inline: false,
            specs: delegate
                .specs
                .iter()
                .map(|(key, value)| CompileSpec { key: key.clone(), value: value.clone() })
                .collect(),
        });
        for (key, data) in &delegate.data {
            if !self.shared.file.named_data.iter().any(|known| known.key == *key) {
                let data = program.constants.data(data).into();
                self.shared.file.named_data.push(NamedData { key: key.clone(), data });
            }
        }
        self.delegates.push(delegate);
        let delegate = self.plan.delegates.len() as u32 - 1;
        self.push(Instruction::Delegate { delegate, args }, Some(call));
        Ok(())
    }

    /// What the caller gets: a tensor that nothing else holds.
    fn output(&mut self, value: ValueId) -> Result<u32, Error> {
        let origin = &self.function.get(value).origin;
        if matches!(origin, Origin::Call) || self.function.tensor(value).is_none() {
            return self.read(value);
        }
        self.copy_of(value)
    }

    /// A copy of a tensor in memory of its own, wanted until the end.
    fn copy_of(&mut self, value: ValueId) -> Result<u32, Error> {
        let from = self.read(value)?;
        let mut tensor = self.tensor(value)?;
        tensor.storage = Storage::Unplanned;
        let entry = self.plan.value(tensor);
        self.copies.insert(entry, value);
        let format = self.plain(Value::Null);
        let operator = self.plan.operator("aten::clone.out");
        self.push(Instruction::Kernel { operator, args: vec![from, format, entry, entry] }, None);
        Ok(entry)
    }

    /// Writes the new contents of what outlives the run.
    fn updates(&mut self) -> Result<(), Error> {
        let function = self.function;
        let kept = |value: ValueId| function.updates.iter().any(|(old, _)| *old == value);
        let mut sources = Vec::new();
        for &(_, new) in &function.updates {
            sources.push(if kept(new) { self.copy_of(new)? } else { self.read(new)? });
        }
        for (&(old, new), source) in function.updates.iter().zip(sources) {
            let target = self.read(old)?;
            let (no, operator) = (self.plain(Value::Bool(false)), self.plan.operator("aten::copy_"));
            self.push(Instruction::Kernel { operator, args: vec![target, source, no, target] }, None);
            self.use_now(new);
        }
        Ok(())
    }

    /// The entry of a value that the next instruction reads or writes.
    fn read(&mut self, value: ValueId) -> Result<u32, Error> {
        self.use_now(value);
        self.entry(value)
    }
}

#[cfg(test)]
mod tests;
