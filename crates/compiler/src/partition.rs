//! Parts of a program that backends run.
//!
//! A [`Partitioner`] says of every call of a method whether its backend runs it, and turns the calls of a part into a
//! [`Delegate`]. What happens in between is the same for all of them and lives here:
//!
//! ```text
//! rules, except for operators that a partitioner keeps ─▶ select ─▶ parts (stages) ─▶ lower ─▶ calls of delegates
//! ```
//!
//! Partitioners come in the order in which they are given: what the first one takes is gone for the second. Each part is
//! as large as it can be ([`stages()`]): no two of them could be joined without depending on themselves through a call in
//! between. Blocks inside calls (branches, loops) stay as they are.
//!
//! Weights pass through calls on their way, such as a dequantisation or a permutation. A partitioner lets those follow
//! ([`Choice::Follow`]): each part that reads their result gets a copy of them, and they stay in the program only if
//! something outside reads it too.
//!
//! `docs/partitioners.md` shows how to write one.

mod report;
mod stages;

pub use report::{Delegated, Refused, Report};
pub use stages::stages;

use crate::Error;
use crate::ir::{
    Arg, Block, Call, Constants, Definition, Delegate, Function, Kind, Origin, Output, Program, Target, ValueId,
    debug_verify,
};
use crate::lower;
use crate::size::Symbol;
use std::collections::{HashMap, HashSet};

/// What a partitioner says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The backend runs it.
    Take,
    /// It only reads constants, or what other such calls make of them, and goes wherever its results are read.
    Follow,
    /// The backend does not run it; the reason, in words.
    Refuse(String),
}

/// Decides what a backend runs.
pub trait Partitioner {
    /// What users call the backend, such as `xnnpack`.
    fn name(&self) -> &str;

    /// Whether an operator must not be rewritten by rules before this partitioner has seen it.
    fn keeps(&self, operator: &str) -> bool;

    /// Brings a method into the form that `select` wants, before each choice. What it adds must mean the same.
    fn arrange(&self, _function: &mut Function) {}

    /// A choice for each call of the method's body, in order.
    fn select(&self, function: &Function, constants: &Constants<'_>) -> Vec<Choice>;

    /// Calls as the backend's payload; [`Delegate::calls`] is left empty.
    fn lower(&self, part: &Part<'_>) -> Result<Delegate, Error>;

    /// Whether a part must be able to tell all sizes from its inputs. Inputs of the method that it needs only for their
    /// sizes are then among them, where one tells a size by a straight line ([`Size::line`](crate::size::Size::line)).
    fn needs_sizes(&self) -> bool {
        false
    }

    /// Whether the backend can keep a buffer that this call, which it takes, gives its next contents: [`Part::states`].
    fn holds(&self, _call: &Call, _state: ValueId) -> bool {
        false
    }
}

/// Calls that a backend runs together.
#[derive(Clone, Debug)]
pub struct Part<'p> {
    /// The method they are from; it knows the types of values.
    pub function: &'p Function,
    /// The constants of the program.
    pub constants: &'p Constants<'p>,
    /// The calls, in an order in which they can run.
    pub calls: Vec<&'p Call>,
    /// What they read that they do not make, without constants: the first arguments of the call of the delegate.
    pub inputs: Vec<ValueId>,
    /// What they make that is read elsewhere: the further arguments.
    pub outputs: Vec<ValueId>,
    /// Buffers that only these calls know, and what they hold next. They are no inputs: the backend keeps them.
    pub states: Vec<(ValueId, ValueId)>,
}

/// Tidies a method before a partitioner sees it.
pub type Prepare<'p> = &'p dyn Fn(&mut Function, &mut Constants<'_>) -> Result<(), Error>;

/// Gives parts of all methods to the partitioners' backends, in order. What is left still has to be lowered.
pub fn partition(
    program: &mut Program<'_>,
    partitioners: &[Box<dyn Partitioner>],
    prepare: Prepare<'_>,
) -> Result<Report, Error> {
    let mut report = Report::default();
    for (place, partitioner) in partitioners.iter().enumerate() {
        let kept = |name: &str| partitioners[place..].iter().any(|partitioner| partitioner.keeps(name));
        for index in 0..program.functions.len() {
            let Program { functions, constants, .. } = &mut *program;
            let rule = |name: &str| if kept(name) { None } else { lower::rule(name) };
            lower::rewrite(&mut functions[index], constants, &rule)?;
            prepare(&mut functions[index], constants)?;
            partitioner.arrange(&mut functions[index]);
            debug_verify(&functions[index], constants, partitioner.name());
            delegate(program, index, &**partitioner, &mut report)?;
            debug_verify(&program.functions[index], &program.constants, partitioner.name());
        }
    }
    Ok(report)
}

/// Replaces what one partitioner takes of one method.
fn delegate(
    program: &mut Program<'_>,
    index: usize,
    partitioner: &dyn Partitioner,
    report: &mut Report,
) -> Result<(), Error> {
    let function = &program.functions[index];
    let choices = partitioner.select(function, &program.constants);
    if choices.len() != function.body.calls.len() {
        let (given, wanted) = (choices.len(), function.body.calls.len());
        return Err(Error::Broken(format!("{} chose for {given} of {wanted} calls", partitioner.name())));
    }
    let shared = |state: ValueId| {
        let origin = &function.get(state).origin;
        let mut others = program.functions.iter().filter(|other| other.name != function.name);
        others.any(|other| other.values.iter().any(|value| value.origin == *origin))
    };
    let holds = |call: &Call, state: ValueId| !shared(state) && partitioner.holds(call, state);
    let cut = Cut::new(function, &choices, &holds);
    let (mut delegates, mut calls) = (Vec::new(), Vec::new());
    for stage in &cut.stages {
        calls.extend(stage.before.iter().map(|&call| function.body.calls[call].clone()));
        if stage.part.is_empty() {
            continue;
        }
        let part = cut.part(function, &program.constants, &stage.part, partitioner.needs_sizes());
        // Buffers that it would keep are read by nothing else.
        if part.outputs.is_empty() {
            continue;
        }
        let mut delegate = partitioner.lower(&part)?;
        delegate.calls = part.calls.iter().map(|&call| call.clone()).collect();
        report.delegated.push(Delegated {
            backend: partitioner.name().to_owned(),
            method: function.name.clone(),
            calls: stage.part.len(),
        });
        calls.push(delegate_call(&part, (program.delegates.len() + delegates.len()) as u32));
        delegates.push(delegate);
    }
    for (call, choice) in function.body.calls.iter().zip(&choices) {
        if let Choice::Refuse(reason) = choice {
            report.refused.push(Refused::new(partitioner.name(), &function.name, call, reason));
        }
    }
    let function = &mut program.functions[index];
    function.body.calls = calls;
    function.updates.retain(|update| !cut.held.contains_key(update));
    program.delegates.extend(delegates);
    Ok(())
}

/// The call that stands for a part.
fn delegate_call(part: &Part<'_>, delegate: u32) -> Call {
    Call {
        target: Target::Delegate(delegate),
        args: vec![("inputs".into(), part.inputs.clone().into())],
        blocks: Vec::new(),
        outputs: part.outputs.clone(),
        source: part.calls.first().and_then(|call| call.source.clone()),
    }
}

/// One step of a method that was cut: calls by their places, then those of a part.
struct Stage {
    before: Vec<usize>,
    part: Vec<usize>,
}

/// A method's calls in stages.
struct Cut {
    stages: Vec<Stage>,
    /// The call that makes a value.
    makers: HashMap<ValueId, usize>,
    follows: Vec<bool>,
    /// What is read outside of the part that makes it.
    kept: HashSet<ValueId>,
    /// The stage of each call that is in a part.
    places: Vec<Option<usize>>,
    /// Buffers, with what they hold next, that a part keeps, and the part's stage.
    held: HashMap<(ValueId, ValueId), usize>,
}

impl Cut {
    fn new(function: &Function, choices: &[Choice], holds: &dyn Fn(&Call, ValueId) -> bool) -> Self {
        let calls = &function.body.calls;
        let makers: HashMap<ValueId, usize> =
            (0..).zip(calls).flat_map(|(place, call)| call.outputs.iter().map(move |&value| (value, place))).collect();
        let reads: Vec<Vec<usize>> = calls
            .iter()
            .map(|call| all_reads(function, call).iter().filter_map(|value| makers.get(value).copied()).collect())
            .collect();
        let mut follows = vec![false; calls.len()];
        for (place, call) in calls.iter().enumerate() {
            let known = |value: &ValueId| match makers.get(value) {
                Some(&maker) => maker < place && follows[maker],
                None => matches!(function.get(*value).origin, Origin::Constant(_)),
            };
            follows[place] = choices[place] == Choice::Follow && all_reads(function, call).iter().all(known);
        }
        let taken: Vec<bool> = choices
            .iter()
            .zip(&follows)
            .map(|(choice, follows)| !follows && !matches!(choice, Choice::Refuse(_)))
            .collect();
        let stages = stages(&reads, &taken);
        let count = stages.iter().max().map_or(0, |&last| last + 1);
        let mut cut = Self {
            stages: (0..=count).map(|_| Stage { before: Vec::new(), part: Vec::new() }).collect(),
            makers,
            follows,
            kept: HashSet::new(),
            places: taken.iter().zip(&stages).map(|(taken, stage)| taken.then_some(*stage)).collect(),
            held: HashMap::new(),
        };
        cut.hold(function, holds);
        cut.keep(function);
        for (place, call) in calls.iter().enumerate() {
            if taken[place] {
                cut.stages[stages[place]].part.push(place);
            } else if !cut.follows[place] || call.outputs.iter().any(|value| cut.kept.contains(value)) {
                cut.stages[stages[place]].before.push(place);
            }
        }
        cut
    }

    /// Notes the buffers that are read by nothing but the one call that gives their next contents.
    fn hold(&mut self, function: &Function, holds: &dyn Fn(&Call, ValueId) -> bool) {
        let read_elsewhere = |state: ValueId, maker: usize| {
            let given = function.body.outputs.contains(&state) || function.updates.iter().any(|(_, new)| *new == state);
            let mut calls = function.body.calls.iter().enumerate().filter(|(place, _)| *place != maker);
            given || calls.any(|(_, call)| all_reads(function, call).contains(&state))
        };
        for &(state, next) in &function.updates {
            let Some(&maker) = self.makers.get(&next) else { continue };
            let is_state = matches!(function.get(state).origin, Origin::State(_));
            if let Some(stage) = self.places[maker]
                && is_state
                && !read_elsewhere(state, maker)
                && holds(&function.body.calls[maker], state)
            {
                self.held.insert((state, next), stage);
            }
        }
    }

    /// Notes what calls of other parts or none, the caller and the method's state read.
    fn keep(&mut self, function: &Function) {
        let calls = &function.body.calls;
        let updates = function.updates.iter().filter(|update| !self.held.contains_key(update));
        self.kept.extend(function.body.outputs.iter().chain(updates.map(|(_, value)| value)));
        self.kept.extend(function.outputs.iter().filter_map(|output| match output {
            Output::Value(value) => Some(*value),
            Output::Known(_) => None,
        }));
        self.kept.extend(function.definitions.values().map(|definition| match definition {
            Definition::SizeOf(value, _) | Definition::Value(value) => *value,
        }));
        for place in (0..calls.len()).rev() {
            let wanted = !self.follows[place] || calls[place].outputs.iter().any(|value| self.kept.contains(value));
            let stage = self.places[place];
            for value in all_reads(function, &calls[place]) {
                let maker = self.makers.get(&value).and_then(|&maker| self.places[maker]);
                if if stage.is_none() { wanted } else { maker.is_some() && maker != stage } {
                    self.kept.insert(value);
                }
            }
        }
    }

    /// A part with what its calls need of those that follow.
    fn part<'p>(
        &self,
        function: &'p Function,
        constants: &'p Constants<'p>,
        taken: &[usize],
        needs_sizes: bool,
    ) -> Part<'p> {
        let calls = &function.body.calls;
        let mut members: HashSet<usize> = taken.iter().copied().collect();
        let mut open: Vec<usize> = taken.to_vec();
        while let Some(place) = open.pop() {
            calls[place].reads(&mut |value| {
                if let Some(&maker) = self.makers.get(&value)
                    && self.follows[maker]
                    && members.insert(maker)
                {
                    open.push(maker);
                }
            });
        }
        let mut order: Vec<usize> = members.iter().copied().collect();
        order.sort_unstable();
        let made: HashSet<ValueId> = order.iter().flat_map(|&place| calls[place].outputs.iter().copied()).collect();
        let stage = taken.first().and_then(|&place| self.places[place]);
        let mut states: Vec<(ValueId, ValueId)> =
            self.held.iter().filter(|(_, own)| Some(**own) == stage).map(|(update, _)| *update).collect();
        states.sort_unstable();
        let mut seen: HashSet<ValueId> = states.iter().map(|(state, _)| *state).collect();
        let mut inputs = Vec::new();
        for &place in &order {
            calls[place].reads(&mut |value| {
                let known = matches!(function.get(value).origin, Origin::Constant(_));
                if !known && !made.contains(&value) && seen.insert(value) {
                    inputs.push(value);
                }
            });
        }
        if needs_sizes {
            let tells = |value: &ValueId, symbol| {
                let sizes = function.tensor(*value).map_or(&[][..], |ty| &ty.sizes);
                sizes.iter().any(|size| size.line(symbol).is_some())
            };
            for symbol in order.iter().flat_map(|&place| all_symbols(function, &calls[place])) {
                if !inputs.iter().any(|value| tells(value, symbol)) {
                    inputs.extend(function.body.inputs.iter().find(|value| tells(value, symbol)));
                }
            }
        }
        let outputs = taken.iter().flat_map(|&place| calls[place].outputs.iter().copied());
        let outputs = outputs.filter(|value| self.kept.contains(value)).collect();
        Part { function, constants, calls: order.iter().map(|&place| &calls[place]).collect(), inputs, outputs, states }
    }
}

/// The symbols in a call's arguments and results.
fn all_symbols(function: &Function, call: &Call) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    call.args.iter().for_each(|(_, arg)| arg.symbols(&mut |symbol| symbols.push(symbol)));
    for output in &call.outputs {
        if let Kind::Tensor(ty) = &function.get(*output).kind {
            ty.sizes.iter().for_each(|size| size.symbols(&mut |symbol| symbols.push(symbol)));
        }
    }
    symbols
}

/// What a call reads itself, in its blocks, and to know the symbols in its arguments and results.
fn all_reads(function: &Function, call: &Call) -> Vec<ValueId> {
    let mut values = Vec::new();
    let mut note = |call: &Call| {
        call.reads(&mut |value| values.push(value));
        let mut symbol = |symbol| match function.definitions.get(&symbol) {
            Some(Definition::SizeOf(value, _) | Definition::Value(value)) => values.push(*value),
            None => {}
        };
        call.args.iter().for_each(|(_, arg): &(_, Arg)| arg.symbols(&mut symbol));
        for output in &call.outputs {
            if let Kind::Tensor(ty) = &function.get(*output).kind {
                ty.sizes.iter().for_each(|size| size.symbols(&mut symbol));
            }
        }
    };
    note(call);
    call.blocks.iter().for_each(|block: &Block| block.walk(&mut note));
    for block in &call.blocks {
        values.extend(&block.outputs);
    }
    values.retain(|value| !call.outputs.contains(value));
    values
}

/// The example in the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/partitioners.md")]
struct Documentation;

#[cfg(test)]
mod tests;
