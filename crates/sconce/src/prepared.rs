//! What is decided once per method, for all its sessions: results that are computed ahead, and calls that are planned as
//! one.
//!
//! Operators that compute from constants alone run once (see [`folding`](crate::folding)). Runs of kernel calls that the
//! CPU engine can take become regions. Which comes first matters: regions want to know small constants (the 3 and 6 of a
//! hard swish), but prefer large ones, such as weights to be transposed, as they are in the file. So small results come
//! first, then regions, then the rest.
use crate::Error;
use crate::folding::{Candidate, Folding, candidates};
use crate::module::Shared;
use crate::session::{Blocks, Context, Needs};
use sconce_core::{Delegate, Execution, Owned, Quiet, Region};
use sconce_format::flatbuf::Scalars;
use std::ops::Range;

/// The most bytes of a result that regions are told of.
const SMALL: usize = 4096;

/// The decisions for a method.
#[derive(Default)]
pub(crate) struct Prepared {
    pub(crate) folding: Folding,
    regions: Vec<Planned>,
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

impl Prepared {
    /// Decides for a method.
    pub(crate) fn new(shared: &Shared, method: usize) -> Result<Self, Error> {
        let loaded = shared.loaded(method)?;
        let view = shared.method(method);
        let options = &shared.options;
        let found = candidates(view, &*options.registry, &loaded.kernels, options.limits.folded);
        let (needs, state) = Needs::of(shared, method)?;
        let mut blocks = Blocks::new(view, &needs, state)?;
        if !options.plan {
            return Ok(Self { folding: fold(shared, method, &mut blocks, &found)?, regions: Vec::new() });
        }
        let is_small = |candidate: &Candidate| candidate.bytes <= SMALL;
        let small: Vec<_> = found.iter().copied().filter(is_small).collect();
        let folding = fold(shared, method, &mut blocks, &small)?;
        let regions = regions(shared, method, &mut blocks, &folding)?;
        let inside = |candidate: &Candidate| {
            regions.iter().any(|region: &Planned| region.instructions.contains(&candidate.instruction))
        };
        let rest: Vec<_> = found.into_iter().filter(|candidate| is_small(candidate) || !inside(candidate)).collect();
        let folding = if rest.len() == small.len() { folding } else { fold(shared, method, &mut blocks, &rest)? };
        Ok(Self { folding, regions })
    }

    pub(crate) fn planned(&self) -> &[Planned] {
        &self.regions
    }

    /// The regions as the core takes them; their states follow the first `states` ones.
    pub(crate) fn regions(&self, states: usize) -> Vec<Region<'_>> {
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
    blocks.clear(view)?;
    Ok(folding.unwrap_or_default())
}

fn result(execution: &mut Execution<'_>, candidate: Candidate, into: &mut [u8]) -> Option<()> {
    execution.seek(candidate.instruction);
    execution.step().ok()?;
    into.copy_from_slice(execution.tensor(candidate.value).ok().filter(|t| t.data.len() == into.len())?.data);
    Some(())
}

/// The runs of calls that the CPU engine takes, given the results that are known.
#[cfg(feature = "engine")]
fn regions(shared: &Shared, method: usize, blocks: &mut Blocks, folding: &Folding) -> Result<Vec<Planned>, Error> {
    use sconce_core::Registry as _;
    use sconce_delegates::calls::{self, Callee, Known};
    use sconce_format::pte::KernelTypes;

    let (loaded, view, registry) = (shared.loaded(method)?, shared.method(method), &shared.options.registry);
    let callee = |op: usize| {
        let id = *loaded.kernels.get(op)?;
        Some(Callee { writes: registry.kernel(id)?.writes(), standard: registry.is_standard(id) })
    };
    let is_folded = |instruction: u32| folding.skips(instruction);
    let graphs = calls::graphs(view, |backend| registry.is_built_in(backend));
    let found = blocks.execute(alone(shared, method), &mut [], |execution| {
        let execution = &*execution;
        let bytes = |value: u32| match folding.result(value) {
            Some(bytes) => Some(bytes),
            None => match view.plan().values().get(usize::try_from(value).ok()?)?.val() {
                KernelTypes::Tensor(tensor) if tensor.is_constant() => {
                    execution.tensor(value).ok().map(|tensor| tensor.data)
                }
                _ => None,
            },
        };
        let known = Known { callee: &callee, is_folded: &is_folded, bytes: &bytes, graphs: &graphs };
        calls::regions(view, &known, shared.options.engine())
    })?;
    let planned = found.into_iter().map(|region| Planned {
        instructions: region.instructions,
        calls: region.calls,
        args: region.args.iter().flat_map(|value| value.to_le_bytes()).collect(),
        delegate: region.delegate,
    });
    Ok(planned.collect())
}

#[cfg(not(feature = "engine"))]
fn regions(_: &Shared, _: usize, _: &mut Blocks, _: &Folding) -> Result<Vec<Planned>, Error> {
    Ok(Vec::new())
}
