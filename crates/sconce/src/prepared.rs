//! What is decided once per method, for all its sessions: results that are computed ahead, calls that are planned as one,
//! the delegates, and which inputs need no copy.
//!
//! Operators that compute from constants alone run once (see [`folding`](crate::folding)). Runs of kernel calls that the
//! engines can take become regions. Which comes first matters: regions want to know small constants (the 3 and 6 of a
//! hard swish), but prefer large ones, such as weights to be transposed, as they are in the file. So small results come
//! first, then regions, then the rest. A delegate whose calls all lie in regions joined their plans with its whole graph,
//! and is not made.
use crate::folding::{Candidate, Folding, candidates};
use crate::lending::Decided;
use crate::module::Shared;
use crate::session::{Blocks, Context, Needs};
use crate::{Error, Options};
use engines::Imports;
use sconce_core::{
    Call, Code, Delegate, DelegateState, Error as CoreError, Execution, Fault, Method, OptionValue, Owned, Quiet,
    Region, RuntimeOption, Site,
};
use sconce_format::flatbuf::Scalars;
use sconce_format::pte::InstructionArguments;
use std::cell::RefCell;
use std::ops::Range;

/// The most bytes of a result that regions are told of.
const SMALL: usize = 4096;

/// The decisions for a method.
#[derive(Default)]
pub(crate) struct Prepared {
    /// What a session takes where each operator runs by itself.
    pub(crate) needs: Needs,
    pub(crate) folding: Folding,
    regions: Vec<Planned>,
    /// Why calls are not in them, if there is something to say.
    pub(crate) unplanned: Option<String>,
    /// By number, as calls name them.
    pub(crate) delegates: Vec<Owned<dyn Delegate>>,
    /// For each input, whether it is read where the caller has it; nothing if none is.
    pub(crate) lent: Vec<bool>,
}

/// Calls that are planned as one.
pub(crate) struct Planned {
    pub(crate) instructions: Range<u32>,
    /// How many of the instructions are calls, of kernels or delegates.
    pub(crate) calls: usize,
    /// Value numbers, as a file would hold them.
    args: Vec<u8>,
    pub(crate) delegate: Owned<dyn Delegate>,
}

impl Planned {
    /// Values that are read, then those that are written.
    pub(crate) fn values(&self) -> impl Iterator<Item = usize> {
        Scalars::<i32>::over(&self.args).iter().filter_map(|value| usize::try_from(value).ok())
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
            return Self::with(shared, method, needs, folding, (Vec::new(), None), imports);
        }
        let is_small = |candidate: &Candidate| candidate.bytes <= SMALL;
        let small: Vec<_> = found.iter().copied().filter(is_small).collect();
        let folding = fold(shared, method, &mut blocks, &small)?;
        let (regions, unplanned) = engines::regions(shared, method, &mut blocks, &folding, &imports)?;
        let inside = |candidate: &Candidate| {
            regions.iter().any(|region: &Planned| region.instructions.contains(&candidate.instruction))
        };
        let rest: Vec<_> = found.into_iter().filter(|candidate| is_small(candidate) || !inside(candidate)).collect();
        let folding = if rest.len() == small.len() { folding } else { fold(shared, method, &mut blocks, &rest)? };
        Self::with(shared, method, needs, folding, (regions, unplanned), imports)
    }

    /// What follows from results and regions.
    fn with(
        shared: &Shared,
        method: usize,
        needs: Needs,
        folding: Folding,
        (regions, unplanned): Regions,
        imports: Imports,
    ) -> Result<Self, Error> {
        let delegates = delegates(shared, method, &regions, imports)?;
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

    pub(crate) fn planned(&self) -> &[Planned] {
        &self.regions
    }

    /// The delegates of the method, then those of the regions. States are in this order.
    pub(crate) fn all_delegates(&self) -> impl Iterator<Item = &Owned<dyn Delegate>> {
        self.delegates.iter().chain(self.regions.iter().map(|planned| &planned.delegate))
    }

    /// What of the method runs on engines.
    #[cfg(feature = "pack")]
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.all_delegates().filter_map(|delegate| part(&**delegate))
    }

    /// The regions as the core takes them.
    pub(crate) fn regions(&self) -> Vec<Region<'_>> {
        let states = self.delegates.len();
        let regions = self.regions.iter().enumerate();
        let made = regions.map(|(index, planned)| Region {
            first: planned.instructions.start,
            next: planned.instructions.end,
            args: Scalars::over(&planned.args),
            delegate: &*planned.delegate,
            state: states + index,
        });
        made.collect()
    }
}

/// An execution of single instructions, before anything is decided.
fn alone(shared: &Shared, method: usize) -> Context<'_> {
    Context { shared, method, pool: &shared.pool, platform: &Quiet, prepared: None, inputs: None }
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

    fn execute(&self, _: &mut dyn DelegateState, _: &mut Call<'_>) -> Result<(), Fault> {
        Err(Fault::new(Code::InvalidState, "the delegate is planned with its neighbours and does not run alone"))
    }
}

/// The delegates of a method, but for those that joined regions.
fn delegates(
    shared: &Shared,
    method: usize,
    regions: &[Planned],
    mut imports: Imports,
) -> Result<Vec<Owned<dyn Delegate>>, Error> {
    let (view, registry, options) = (shared.method(method), &*shared.options.registry, told(&shared.options));
    let make = |(index, joined): (usize, bool)| {
        if joined {
            return Ok(Owned::from_box(Box::new(Joined) as Box<dyn Delegate>));
        }
        if let Some(made) = imports.delegate(shared, view, index) {
            return made;
        }
        let reason = RefCell::new(String::new());
        let explain = |sentence: &dyn std::fmt::Display| *reason.borrow_mut() = sentence.to_string();
        let made = view.init_delegate(index, registry, &options, &*shared.pool, &explain);
        made.map_err(|error| delegate_error(view, index, error, reason.take()))
    };
    joined(view, regions).into_iter().enumerate().map(make).collect()
}

/// Whether each delegate is called, and in regions alone.
fn joined(view: Method<'_>, regions: &[Planned]) -> Vec<bool> {
    let (mut inside, mut outside) = (vec![false; view.delegates()], vec![false; view.delegates()]);
    for (number, chain) in view.plan().chains().iter().enumerate() {
        for (instruction, index) in chain.instructions().iter().zip(0u32..) {
            let InstructionArguments::DelegateCall(call) = instruction.instr_args() else { continue };
            let within = number == 0 && regions.iter().any(|region| region.instructions.contains(&index));
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

/// Runs of calls, and why others are not among them.
type Regions = (Vec<Planned>, Option<String>);

/// What of a method runs on engines.
#[cfg(feature = "engine")]
mod engines;
#[cfg(not(feature = "engine"))]
#[path = "prepared/no_engines.rs"]
mod engines;

pub(crate) use engines::{Part, part};
