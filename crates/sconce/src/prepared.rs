//! What is decided once per method, for all its sessions: results that are computed ahead, calls that are planned as one,
//! the delegates, and which inputs need no copy.
//!
//! Operators that compute from constants alone run once (see [`folding`](crate::folding)). Runs of kernel calls that the
//! engines can take become regions. Which comes first matters: regions want to know small constants (the 3 and 6 of a
//! hard swish), but prefer large ones, such as weights to be transposed, as they are in the file. So small results come
//! first, then regions, then the rest. A delegate called only inside regions is inlined there and never
//! instantiated.
use crate::blocks::{Blocks, Context, Needs};
use crate::folding::{Candidate, Folding, candidates};
use crate::lending::Decided;
use crate::module::Shared;
use crate::{Error, Options};
use engines::Imports;
use sconce_core::{
    Call, Code, Delegate, DelegateState, Error as CoreError, Execution, Fault, Method, OptionValue, Owned, Quiet,
    Region, Regions, RuntimeOption, Serial, Site,
};
use sconce_format::pte::InstructionArguments;
use std::cell::RefCell;

/// The most bytes of a result that regions are told of.
const SMALL: usize = 4096;

/// The decisions for a method.
#[derive(Default)]
pub(crate) struct Prepared {
    /// What a session takes where each operator runs by itself.
    pub(crate) needs: Needs,
    pub(crate) folding: Folding,
    /// Runs of calls that are planned as one.
    pub(crate) regions: Planned,
    /// Why calls are not in them, if there is something to say.
    pub(crate) unplanned: Option<String>,
    /// By number, as calls name them; then those of the regions.
    pub(crate) delegates: Vec<Owned<dyn Delegate>>,
    /// For each input, whether it is read where the caller has it; nothing if none is.
    pub(crate) lent: Vec<bool>,
}

/// The runs of calls of a method that are planned as one.
#[derive(Default)]
pub(crate) struct Planned {
    list: Vec<Region>,
    args: Vec<u32>,
    /// By region, how many of the instructions are calls, of kernels or delegates.
    calls: Vec<usize>,
}

impl Planned {
    /// As the core takes them.
    pub(crate) fn regions(&self) -> Regions<'_> {
        Regions { list: &self.list, args: &self.args }
    }

    /// The regions, and how many calls each stands for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Region, usize)> {
        self.list.iter().zip(self.calls.iter().copied())
    }

    /// The region that an instruction of the first chain is in.
    pub(crate) fn around(&self, instruction: u32) -> Option<&Region> {
        self.list.iter().find(|region| region.instructions.contains(&instruction))
    }

    /// Adds a region, whose delegate has this number.
    #[cfg(feature = "engine")]
    fn push(&mut self, instructions: std::ops::Range<u32>, args: &[u32], calls: usize, delegate: usize) {
        let first = self.args.len();
        self.args.extend(args);
        self.list.push(Region { instructions, args: first..self.args.len(), delegate });
        self.calls.push(calls);
    }
}

impl Prepared {
    /// Decides for a method.
    pub(crate) fn new(shared: &Shared, method: usize) -> Result<Self, Error> {
        let loaded = shared.loaded(method)?;
        let view = shared.method(method);
        let options = &shared.options;
        let found = candidates(view, &*options.registry, &loaded.kernels, options.limits.folded);
        let (needs, state) = Needs::of(shared, method)?;
        let mut blocks = Blocks::new(view, &needs, state)?;
        let imports = Imports::of(shared, view);
        if !options.plan {
            let folding = fold(shared, method, &mut blocks, &found)?;
            return Self::with(shared, method, needs, folding, engines::Regions::default(), imports);
        }
        let is_small = |candidate: &Candidate| candidate.bytes <= SMALL;
        let small: Vec<_> = found.iter().copied().filter(is_small).collect();
        let folding = fold(shared, method, &mut blocks, &small)?;
        let regions = engines::regions(shared, method, &mut blocks, &folding, &imports)?;
        let inside = |candidate: &Candidate| regions.planned.around(candidate.instruction).is_some();
        let rest: Vec<_> = found.into_iter().filter(|candidate| is_small(candidate) || !inside(candidate)).collect();
        let folding = if rest.len() == small.len() { folding } else { fold(shared, method, &mut blocks, &rest)? };
        Self::with(shared, method, needs, folding, regions, imports)
    }

    /// What follows from results and regions.
    fn with(
        shared: &Shared,
        method: usize,
        needs: Needs,
        folding: Folding,
        regions: engines::Regions,
        imports: Imports,
    ) -> Result<Self, Error> {
        let engines::Regions { planned: regions, delegates: own, reason: unplanned } = regions;
        let mut delegates = delegates(shared, method, &regions, imports)?;
        delegates.extend(own);
        let decided = Decided {
            method: shared.method(method),
            registry: &*shared.options.registry,
            kernels: &shared.loaded(method)?.kernels,
            folding: &folding,
            regions: &regions,
            delegates: &delegates,
        };
        let lent = decided.lent();
        Ok(Self { needs, folding, regions, unplanned, delegates, lent })
    }

    /// What of the method runs on engines.
    #[cfg(feature = "pack")]
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.delegates.iter().filter_map(|delegate| part(&**delegate))
    }
}

/// An execution of single instructions, before anything is decided.
fn alone(shared: &Shared, method: usize) -> Context<'_> {
    Context { shared, method, parallel: &Serial, platform: &Quiet, prepared: None, inputs: None }
}

/// Runs operators that compute from constants alone and keeps their results.
fn fold(shared: &Shared, method: usize, blocks: &mut Blocks, found: &[Candidate]) -> Result<Folding, Error> {
    if found.is_empty() {
        return Ok(Folding::default());
    }
    let view = shared.method(method);
    let instructions = view.plan().chains().get(0).map_or(0, |chain| chain.instructions().len());
    let folding = blocks.execute(alone(shared, method), &mut [], |execution| {
        Folding::collect(found, instructions, |candidate, into| result(execution, candidate, into))
    })?;
    // What comes next computes from constants alone as well, so nobody reads what this left in the arenas.
    blocks.clear_state(view)?;
    Ok(folding.unwrap_or_default())
}

fn result(execution: &mut Execution<'_>, candidate: Candidate, into: &mut [u8]) -> Option<()> {
    execution.seek(candidate.instruction);
    execution.step().ok()?;
    into.copy_from_slice(execution.tensor(candidate.value).ok().filter(|t| t.data.len() == into.len())?.data);
    Some(())
}

/// Stands for a delegate all of whose calls are planned with their neighbours.
struct Joined;

impl Delegate for Joined {
    fn outputs(&self) -> usize {
        0
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        Ok(Owned::from_box(Box::new(())))
    }

    fn copy_state(&self, _: &dyn DelegateState) -> Result<Owned<dyn DelegateState>, Fault> {
        self.new_state()
    }

    fn execute(&self, _: &mut dyn DelegateState, _: &mut Call<'_>) -> Result<(), Fault> {
        Err(Fault::new(Code::InvalidState, "the delegate is planned with its neighbours and does not run alone"))
    }
}

/// The delegates of a method, but for those that joined regions.
fn delegates(
    shared: &Shared,
    method: usize,
    regions: &Planned,
    mut imports: Imports,
) -> Result<Vec<Owned<dyn Delegate>>, Error> {
    let (view, registry, options) = (shared.method(method), &*shared.options.registry, told(&shared.options));
    let make = |(index, joined): (usize, bool)| {
        if joined {
            return Ok(Owned::from_box(Box::new(Joined) as Box<dyn Delegate>));
        }
        if let Some(made) = imports.delegate(view, index) {
            return made;
        }
        let reason = RefCell::new(String::new());
        let explain = |sentence: &dyn std::fmt::Display| *reason.borrow_mut() = sentence.to_string();
        let made = view.init_delegate(index, registry, &options, &shared.pool.lease(), &explain);
        made.map_err(|error| delegate_error(view, index, error, reason.take()))
    };
    joined(view, regions).into_iter().enumerate().map(make).collect()
}

/// Whether each delegate is called, and in regions alone.
fn joined(view: Method<'_>, regions: &Planned) -> Vec<bool> {
    let (mut inside, mut outside) = (vec![false; view.delegates()], vec![false; view.delegates()]);
    for (number, chain) in view.plan().chains().iter().enumerate() {
        for (instruction, index) in chain.instructions().iter().zip(0u32..) {
            let InstructionArguments::DelegateCall(call) = instruction.instr_args() else { continue };
            let within = number == 0 && regions.around(index).is_some();
            let calls = if within { &mut inside } else { &mut outside };
            let delegate = usize::try_from(call.delegate_index()).ok();
            delegate.and_then(|delegate| calls.get_mut(delegate)).into_iter().for_each(|called| *called = true);
        }
    }
    inside.into_iter().zip(outside).map(|(inside, outside)| inside && !outside).collect()
}

/// What delegates are told that are not graphs.
fn told(options: &Options) -> Vec<RuntimeOption<'static>> {
    let memory = i64::try_from(options.limits.memory).ok();
    Vec::from_iter(memory.map(|bytes| RuntimeOption { key: "memory_limit", value: OptionValue::Int(bytes) }))
}

fn delegate_error(method: Method<'_>, index: usize, error: CoreError, reason: String) -> Error {
    let name = method.backend_name(index).unwrap_or("").to_owned();
    match error {
        CoreError::BackendUnavailable { .. } => Error::BackendUnavailable { name },
        CoreError::At { site: Site::Delegate(_), fault } => Error::Backend { name, fault, reason },
        error => Error::Core(error),
    }
}

/// What of a method runs on engines.
#[cfg(feature = "engine")]
mod engines;
#[cfg(not(feature = "engine"))]
#[path = "prepared/no_engines.rs"]
mod engines;

pub(crate) use engines::{Part, part};
