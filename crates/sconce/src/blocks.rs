//! The memory of a method that one caller changes.
//!
//! Sizes are known before the first run, but for what lies in arenas of tensors that nothing bounds, and for the scratch of
//! calls that take those: such a run stops when it lacks memory, and goes on here with more.
use crate::Error;
use crate::buffer::Buffer;
use crate::describe::{input_error, run_error};
use crate::module::Shared;
use crate::prepared::Prepared;
use sconce_core::{
    Arena, Block, DelegateState, Environment, Error as CoreError, Execution, Folded, Growth, Method, Owned, Parallel,
    Platform, Regions,
};
use sconce_kernels::view::view_mut;

/// Bytes that a session of a method takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Values and tensor records.
    pub state: usize,
    /// Planned memory by id; the first is for tensors that the exporter left unplanned.
    pub arenas: Vec<usize>,
    /// The most that one instruction uses for itself.
    pub scratch: usize,
}

impl Needs {
    /// What is known from the program alone, whether or not this build has its operators: everything but scratch.
    pub fn planned(method: Method<'_>) -> Self {
        let arenas = (0..method.arenas()).map(|id| method.arena_bytes(id).unwrap_or(usize::MAX)).collect();
        Self { state: method.state_words().saturating_mul(8), arenas, scratch: 0 }
    }

    /// What a session will take where each operator runs by itself, and the initial state.
    pub(crate) fn of(shared: &Shared, method: usize) -> Result<(Self, Vec<u64>), Error> {
        let loaded = shared.loaded(method)?;
        let view = shared.method(method);
        let mut needs = Self::planned(view);
        needs.check(view, shared)?;
        let mut state = needs.state(view)?;
        let registry = &*shared.options.registry;
        let words =
            view.scratch_words(&mut state, registry, &loaded.kernels, &[], Regions::default(), &shared.pool.lease());
        needs.scratch = words.saturating_mul(8);
        needs.check(view, shared)?;
        Ok((needs, state))
    }

    /// The state of a method that needs this, before its first run.
    pub(crate) fn state(&self, method: Method<'_>) -> Result<Vec<u64>, Error> {
        let mut state = zeroed_words(self.state / 8)?;
        method.init_state(&mut state).map_err(|error| run_error(method, error))?;
        Ok(state)
    }

    fn check(&self, method: Method<'_>, shared: &Shared) -> Result<(), Error> {
        let (bytes, limit) = (self.total(), shared.options.limits.memory);
        let too_much = || Error::MemoryLimit { method: method.name().to_owned(), bytes, limit };
        if bytes > limit { Err(too_much()) } else { Ok(()) }
    }

    /// All of it.
    pub fn total(&self) -> usize {
        self.arenas.iter().fold(self.state.saturating_add(self.scratch), |sum, &arena| sum.saturating_add(arena))
    }
}

/// The memory of a method.
pub(crate) struct Blocks {
    pub(crate) state: Vec<u64>,
    arenas: Vec<Buffer>,
    pub(crate) scratch: Buffer,
}

impl Blocks {
    /// Blocks of these sizes, around a state that was just made.
    pub(crate) fn new(view: Method<'_>, needs: &Needs, state: Vec<u64>) -> Result<Self, Error> {
        let mut arenas = needs.arenas.iter().map(|&bytes| reserved(bytes)).collect::<Result<Vec<_>, _>>()?;
        let mut list: Vec<_> = arenas.iter_mut().map(|arena| Arena::new(arena.as_mut())).collect();
        view.init_arenas(&mut list).map_err(|error| run_error(view, error))?;
        drop(list);
        Ok(Self { state, arenas, scratch: reserved(needs.scratch)? })
    }

    /// Values, tensor records and the bytes of arenas, for another time.
    pub(crate) fn copy(&self) -> Result<Self, Error> {
        let arenas = self.arenas.iter().map(|arena| {
            let mut copy = reserved(arena.as_ref().len())?;
            copy.as_mut().copy_from_slice(arena.as_ref());
            Ok(copy)
        });
        let mut state = zeroed_words(self.state.len())?;
        state.copy_from_slice(&self.state);
        Ok(Self {
            state,
            arenas: arenas.collect::<Result<_, Error>>()?,
            scratch: reserved(self.scratch.as_ref().len())?,
        })
    }

    /// Brings the state back to where it is before the first run. Arenas stay as they are.
    pub(crate) fn clear_state(&mut self, view: Method<'_>) -> Result<(), Error> {
        view.init_state(&mut self.state).map_err(|error| run_error(view, error))
    }

    /// An execution over the blocks, at the first instruction, for `body` to run.
    pub(crate) fn execute<R>(
        &mut self,
        context: Context<'_>,
        states: &mut [Owned<dyn DelegateState>],
        body: impl for<'r> FnOnce(&'r mut Execution<'_>) -> R,
    ) -> Result<R, Error> {
        self.execute_from(Start::First, context, states, body)
    }

    /// The same for a body that runs the method: where it stops for want of memory, it goes on with more.
    pub(crate) fn run<R>(
        &mut self,
        context: Context<'_>,
        states: &mut [Owned<dyn DelegateState>],
        mut body: impl for<'r> FnMut(&'r mut Execution<'_>) -> Result<R, CoreError>,
    ) -> Result<Result<R, CoreError>, Error> {
        let mut start = Start::First;
        loop {
            match self.execute_from(start, context, states, &mut body) {
                Err(Error::Core(CoreError::Growth(growth))) => self.grow(context, growth)?,
                Ok(Err(CoreError::Growth(growth))) => {
                    self.grow(context, growth)?;
                    start = Start::Resumed;
                }
                done => return done,
            }
        }
    }

    /// Makes a block larger, and more than it must be, so that it is seldom; what it holds stays.
    fn grow(&mut self, context: Context<'_>, growth: Growth) -> Result<(), Error> {
        let (view, limit) = (context.shared.method(context.method), context.shared.options.limits.memory);
        let all = self.needs().total();
        let block = match growth.block {
            Block::Arena(id) => self.arenas.get_mut(usize::from(id)),
            Block::Scratch => Some(&mut self.scratch),
        };
        let block = block.ok_or(Error::Core(CoreError::Growth(growth)))?;
        let old = block.as_ref().len();
        let others = all.saturating_sub(old);
        let bytes = growth.bytes.saturating_add(ROUND - 1) / ROUND * ROUND;
        if bytes > limit.saturating_sub(others) || bytes <= old {
            let bytes = others.saturating_add(bytes);
            return Err(Error::MemoryLimit { method: view.name().to_owned(), bytes, limit });
        }
        let twice = old.saturating_mul(2).min(limit.saturating_sub(others) / ROUND * ROUND);
        let mut larger = reserved(bytes.max(twice))?;
        larger.as_mut()[..old].copy_from_slice(block.as_ref());
        *block = larger;
        Ok(())
    }

    /// What they take.
    pub(crate) fn needs(&self) -> Needs {
        Needs {
            state: self.state.len() * 8,
            arenas: self.arenas.iter().map(|arena| arena.as_ref().len()).collect(),
            scratch: self.scratch.as_ref().len(),
        }
    }

    fn execute_from<R>(
        &mut self,
        start: Start,
        context: Context<'_>,
        states: &mut [Owned<dyn DelegateState>],
        body: impl for<'r> FnOnce(&'r mut Execution<'_>) -> R,
    ) -> Result<R, Error> {
        let Context { shared, method, parallel, platform, prepared, inputs } = context;
        let loaded = shared.loaded(method)?;
        let view = shared.method(method);
        let environment = Environment {
            registry: &*shared.options.registry,
            parallel,
            platform,
            instruction_limit: shared.options.limits.instructions,
        };
        let (mut few, mut many) = (std::array::from_fn(|_| Arena::new(&mut [])), Vec::new());
        let arenas = borrow(&mut self.arenas, &mut few, &mut many);
        let mut execution = Execution::new(
            view,
            environment,
            &loaded.kernels,
            prepared.map_or(&[], |prepared| &prepared.delegates),
            states,
            &mut self.state,
            arenas,
            view_mut(self.scratch.as_mut()).unwrap_or_default(),
        );
        if let Some(Prepared { folding, regions, lent, .. }) = prepared {
            execution.set_folded(Folded { bytes: folding.bytes(), skip: &folding.skip });
            execution.set_regions(regions.regions());
            execution.lend_inputs(lent);
        }
        match start {
            Start::Resumed => execution.resume(inputs.unwrap_or_default()),
            Start::First => {
                execution.reset();
                if let Some(inputs) = inputs {
                    execution.set_inputs(inputs).map_err(|error| input_error(view, inputs, error))?;
                }
            }
        }
        Ok(body(&mut execution))
    }
}

/// Where an execution begins.
#[derive(Clone, Copy)]
enum Start {
    /// At the first instruction.
    First,
    /// Where the one before stopped for want of memory.
    Resumed,
}

/// Blocks grow to multiples of this.
const ROUND: usize = 64;

/// What an execution uses beside its blocks.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) method: usize,
    pub(crate) parallel: &'a dyn Parallel,
    pub(crate) platform: &'a dyn Platform,
    pub(crate) prepared: Option<&'a Prepared>,
    pub(crate) inputs: Option<&'a [sconce_core::Value<'a>]>,
}

/// Memory of which a run may use little: what is planned lies elsewhere.
pub(crate) fn reserved(bytes: usize) -> Result<Buffer, Error> {
    Buffer::reserved(bytes).ok_or(Error::OutOfMemory { bytes })
}

fn zeroed_words(words: usize) -> Result<Vec<u64>, Error> {
    let mut block = Vec::new();
    block.try_reserve_exact(words).map_err(|_| Error::OutOfMemory { bytes: words.saturating_mul(8) })?;
    block.resize(words, 0);
    Ok(block)
}

/// Arenas that are listed without memory of their own; few programs have more.
const FEW: usize = 8;

/// Arenas as an execution takes them, in one of two lists.
fn borrow<'l, 'b>(
    arenas: &'b mut [Buffer],
    few: &'l mut [Arena<'b>; FEW],
    many: &'l mut Vec<Arena<'b>>,
) -> &'l mut [Arena<'b>] {
    let count = arenas.len();
    let mut listed = arenas.iter_mut().map(|arena| Arena::new(arena.as_mut()));
    if count > FEW {
        many.extend(listed);
        return many;
    }
    few.iter_mut().zip(&mut listed).for_each(|(place, arena)| *place = arena);
    &mut few[..count]
}
