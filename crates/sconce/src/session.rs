//! What one caller changes: the blocks of a method.
//!
//! Their sizes are known before the first run, but for what lies in arenas of tensors that nothing bounds, and for the
//! scratch of calls that take those: such a run stops when it lacks memory, and goes on here with more.
use crate::buffer::Buffer;
use crate::module::Shared;
use crate::prepared::{self, Part, Prepared};
use crate::{Error, Input, Value, layout};
use sconce_core::{
    Arena, Block, DelegateState, Environment, Error as CoreError, Execution, Folded, Growth, Method, Owned, Platform,
    Quiet, Shape, Site, Step, ValueInfo,
};
use sconce_format::pte::InstructionArguments;
use sconce_kernels::view::view_mut;
use sconce_parallel::Pool;
use std::sync::Arc;

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
        let words = view.scratch_words(&mut state, registry, &loaded.kernels, &[], &[], &*shared.pool);
        needs.scratch = words.saturating_mul(8);
        needs.check(view, shared)?;
        Ok((needs, state))
    }

    /// The state of a method that needs this, before its first run.
    fn state(&self, method: Method<'_>) -> Result<Vec<u64>, Error> {
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
    state: Vec<u64>,
    arenas: Vec<Buffer>,
    scratch: Buffer,
}

impl Blocks {
    /// Blocks of these sizes, around a state that was just made.
    pub(crate) fn new(view: Method<'_>, needs: &Needs, state: Vec<u64>) -> Result<Self, Error> {
        let mut arenas = needs.arenas.iter().map(|&bytes| reserved(bytes)).collect::<Result<Vec<_>, _>>()?;
        view.init_arenas(&mut borrow(&mut arenas)).map_err(|error| run_error(view, error))?;
        Ok(Self { state, arenas, scratch: reserved(needs.scratch)? })
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
    fn run<R>(
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
    fn needs(&self) -> Needs {
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
        let Context { shared, method, pool, platform, prepared, inputs } = context;
        let loaded = shared.loaded(method)?;
        let view = shared.method(method);
        let environment = Environment {
            registry: &*shared.options.registry,
            parallel: pool,
            platform,
            instruction_limit: shared.options.limits.instructions,
        };
        let mut arenas = borrow(&mut self.arenas);
        let regions = prepared.map(Prepared::regions).unwrap_or_default();
        let mut execution = Execution::new(
            view,
            environment,
            &loaded.kernels,
            prepared.map_or(&[], |prepared| &prepared.delegates),
            states,
            &mut self.state,
            &mut arenas,
            view_mut(self.scratch.as_mut()).unwrap_or_default(),
        );
        if let Some(Prepared { folding, lent, .. }) = prepared {
            execution.set_folded(Folded { bytes: folding.bytes(), skip: &folding.skip });
            execution.set_regions(&regions);
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
    pub(crate) pool: &'a Pool,
    pub(crate) platform: &'a dyn Platform,
    pub(crate) prepared: Option<&'a Prepared>,
    pub(crate) inputs: Option<&'a [sconce_core::Value<'a>]>,
}

/// A method with the memory for running it. One thread at a time; make one per thread.
pub struct Session {
    shared: Arc<Shared>,
    method: usize,
    pool: Arc<Pool>,
    blocks: Blocks,
    /// Of the method's delegates, then of what is planned.
    states: Vec<Owned<dyn DelegateState>>,
}

/// The outputs of a run, where they are.
pub struct Outputs<'r, 'e> {
    execution: &'r Execution<'e>,
}

impl Outputs<'_, '_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.execution.outputs()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Output `index`.
    pub fn get(&self, index: usize) -> Result<sconce_core::Value<'_>, Error> {
        self.execution.output(index).map_err(Error::Core)
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, method: usize) -> Result<Self, Error> {
        let prepared = shared.prepared(method)?;
        let view = shared.method(method);
        let mut state = prepared.needs.state(view)?;
        let scratch = scratch_words(&shared, method, &mut state, &shared.pool)?.saturating_mul(8);
        let needs = Needs { scratch, ..prepared.needs.clone() };
        let mut blocks = Blocks::new(view, &needs, state)?;
        let states = prepared.all_delegates().enumerate().map(|(index, delegate)| {
            let name = view.backend_name(index).unwrap_or("").to_owned();
            delegate.new_state().map_err(|fault| Error::Backend { name, fault, reason: String::new() })
        });
        let states = states.collect::<Result<Vec<_>, _>>()?;
        for &(value, offset) in &prepared.folding.places {
            view.place_folded(&mut blocks.state, value, offset);
        }
        let pool = shared.pool.clone();
        Ok(Self { shared, method, pool, blocks, states })
    }

    /// Uses its own threads instead of the module's: so many, or one per physical core if that is 0, and
    /// [`most_threads`](crate::most_threads) at most.
    pub fn set_threads(&mut self, threads: usize) -> Result<(), Error> {
        self.pool = Arc::new(Pool::new(threads));
        let view = self.shared.method(self.method);
        let mut fresh = self.shared.prepared(self.method)?.needs.state(view)?;
        let words = scratch_words(&self.shared, self.method, &mut fresh, &self.pool)?;
        self.blocks.scratch = reserved(words.saturating_mul(8))?;
        Ok(())
    }

    /// The method's name.
    pub fn method(&self) -> &str {
        self.view().name()
    }

    /// The method, for looking at inputs and outputs.
    pub fn view(&self) -> Method<'_> {
        self.shared.method(self.method)
    }

    /// Bytes that this session takes now.
    pub fn needs(&self) -> Needs {
        self.blocks.needs()
    }

    /// Runs the method and copies its outputs.
    pub fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Value>, Error> {
        self.run_with(inputs, |outputs| (0..outputs.len()).map(|i| Value::from_core(outputs.get(i)?)).collect())?
    }

    /// Runs the method and shows its outputs to `see` where they are.
    pub fn run_with<R>(&mut self, inputs: &[Input<'_>], see: impl FnOnce(&Outputs<'_, '_>) -> R) -> Result<R, Error> {
        self.run_on(inputs, &Quiet, see)
    }

    /// Runs the method on a platform that logs, or hears of every instruction and the time it took.
    pub fn run_traced(&mut self, inputs: &[Input<'_>], platform: &dyn Platform) -> Result<(), Error> {
        self.run_on(inputs, platform, |_| ())
    }

    /// Runs the method on a platform, and shows its outputs to `see` where they are.
    pub fn run_on<R>(
        &mut self,
        inputs: &[Input<'_>],
        platform: &dyn Platform,
        see: impl FnOnce(&Outputs<'_, '_>) -> R,
    ) -> Result<R, Error> {
        let mut see = Some(see);
        let seen = self.with_execution(inputs, platform, |execution| {
            execution.execute()?;
            Ok(see.take().map(|see| see(&Outputs { execution })))
        });
        seen.map(|seen| seen.expect("a run ends once"))
    }

    /// Runs the method some times, and tells what the steps of each delegate took, then those of each planned run of calls,
    /// at best: texts like those of [`Module::delegate_plans`](crate::Module::delegate_plans), empty for what has not run.
    pub fn step_times(&mut self, inputs: &[Input<'_>], runs: usize) -> Result<Vec<String>, Error> {
        let shared = self.shared.clone();
        let prepared = shared.prepared(self.method)?;
        let parts = || prepared.all_delegates().map(|delegate| prepared::part(&**delegate));
        let watch = |(part, state): (Option<&Part>, &mut Owned<dyn DelegateState>)| {
            part.into_iter().for_each(|part| part.watch(&mut **state));
        };
        parts().zip(&mut self.states).for_each(watch);
        for _ in 0..runs {
            self.run_with(inputs, |_| ())?;
        }
        let times = parts().zip(&mut self.states);
        Ok(times.map(|(part, state)| part.map_or(String::new(), |part| part.times_text(&mut **state))).collect())
    }

    /// What an instruction runs, in words: an operator or a backend, and how many more calls where several are planned as
    /// one. This is what a platform hears the times of.
    pub fn callee(&self, chain: u32, instruction: u32) -> String {
        let name = callee(self.view(), chain, instruction);
        let prepared = self.shared.prepared(self.method).ok().filter(|_| chain == 0);
        let planned = prepared.map_or(&[][..], Prepared::planned).iter();
        match planned.clone().find(|planned| planned.instructions.start == instruction) {
            Some(planned) if planned.calls > 1 => format!("{name} and {} more, planned as one", planned.calls - 1),
            _ => name,
        }
    }

    /// Runs the method one instruction at a time; `see` hears of each before it runs and may stop the run by answering
    /// false. Gives the number of instructions that ran.
    pub fn step_through(&mut self, inputs: &[Input<'_>], mut see: impl FnMut(usize) -> bool) -> Result<usize, Error> {
        let mut ran = 0;
        self.with_execution(inputs, &Quiet, |execution| {
            while see(ran) && execution.step()? == Step::Ran {
                ran += 1;
            }
            execution.reset();
            Ok(ran)
        })
    }

    fn with_execution<R>(
        &mut self,
        inputs: &[Input<'_>],
        platform: &dyn Platform,
        body: impl for<'r> FnMut(&'r mut Execution<'_>) -> Result<R, CoreError>,
    ) -> Result<R, Error> {
        let method = self.shared.method(self.method);
        if inputs.len() != method.inputs() {
            let (want, have) = (method.inputs(), inputs.len());
            return Err(Error::InputCount { method: method.name().to_owned(), want, have });
        }
        let reordered = reorder_inputs(method, inputs)?;
        let values: Vec<_> = inputs.iter().enumerate().map(|(i, input)| value(method, i, input, &reordered)).collect();
        let prepared = self.shared.prepared(self.method)?;
        let context = Context {
            shared: &self.shared,
            method: self.method,
            pool: &self.pool,
            platform,
            prepared: Some(prepared),
            inputs: Some(&values),
        };
        let result = self.blocks.run(context, &mut self.states, body)?;
        result.map_err(|error| {
            let mut reason = String::new();
            for (delegate, state) in prepared.all_delegates().zip(&mut self.states) {
                // Writing to a string does not fail.
                let _ = delegate.print_reason(&mut **state, &mut reason);
            }
            run_error(method, error).because(reason)
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("method", &self.method()).field("needs", &self.needs()).finish()
    }
}

/// Words of scratch that a session takes, given a fresh state.
fn scratch_words(shared: &Shared, method: usize, state: &mut [u64], pool: &Pool) -> Result<usize, Error> {
    let (loaded, prepared, view) = (shared.loaded(method)?, shared.prepared(method)?, shared.method(method));
    let registry = &*shared.options.registry;
    Ok(view.scratch_words(state, registry, &loaded.kernels, &prepared.delegates, &prepared.regions(), pool))
}

/// Memory of which a run may use little: what is planned lies elsewhere.
fn reserved(bytes: usize) -> Result<Buffer, Error> {
    Buffer::reserved(bytes).ok_or(Error::OutOfMemory { bytes })
}

fn zeroed_words(words: usize) -> Result<Vec<u64>, Error> {
    let mut block = Vec::new();
    block.try_reserve_exact(words).map_err(|_| Error::OutOfMemory { bytes: words.saturating_mul(8) })?;
    block.resize(words, 0);
    Ok(block)
}

fn borrow(arenas: &mut [Buffer]) -> Vec<Arena<'_>> {
    arenas.iter_mut().map(|arena| Arena::new(arena.as_mut())).collect()
}

/// Copies of the tensors that are laid out otherwise than the method takes them, by input.
fn reorder_inputs(method: Method<'_>, inputs: &[Input<'_>]) -> Result<Vec<Option<(Shape, Buffer)>>, Error> {
    let reorder = |(index, input): (usize, &Input<'_>)| {
        let given = match input {
            Input::Tensor(tensor) => tensor.view(),
            Input::View(tensor) => *tensor,
            _ => return Ok(None),
        };
        let Some(ValueInfo::Tensor { shape, .. }) = method.input(index) else { return Ok(None) };
        let Some(target) = shape.resized(given.sizes()).filter(|target| target.order() != given.shape.order()) else {
            return Ok(None);
        };
        let bytes = given.data.len();
        let mut copy = Buffer::zeroed(bytes).ok_or(Error::OutOfMemory { bytes })?;
        layout::reorder(given.dtype.size(), &given.shape, given.data, &target, copy.as_mut());
        Ok(Some((target, copy)))
    };
    inputs.iter().enumerate().map(reorder).collect()
}

fn value<'v>(
    method: Method<'v>,
    index: usize,
    input: &Input<'v>,
    reordered: &'v [Option<(Shape, Buffer)>],
) -> sconce_core::Value<'v> {
    let tensor = |given: sconce_core::Tensor<'v>| {
        sconce_core::Value::Tensor(match reordered.get(index) {
            Some(Some((shape, copy))) => sconce_core::Tensor { dtype: given.dtype, shape: *shape, data: copy.as_ref() },
            _ => given,
        })
    };
    match *input {
        Input::None => sconce_core::Value::None,
        Input::Tensor(given) => tensor(given.view()),
        Input::View(given) => tensor(given),
        Input::Int(value) => sconce_core::Value::Int(value),
        Input::Double(value) => sconce_core::Value::Double(value),
        Input::Bool(value) => sconce_core::Value::Bool(value),
        Input::Str(value) => sconce_core::Value::Str(value),
        Input::Recorded => match method.input(index) {
            Some(ValueInfo::Int(value)) => sconce_core::Value::Int(value),
            Some(ValueInfo::Double(value)) => sconce_core::Value::Double(value),
            Some(ValueInfo::Bool(value)) => sconce_core::Value::Bool(value),
            Some(ValueInfo::Str(value)) => sconce_core::Value::Str(value),
            _ => sconce_core::Value::None,
        },
    }
}

fn input_error(method: Method<'_>, values: &[sconce_core::Value<'_>], error: CoreError) -> Error {
    match error {
        CoreError::At { site: Site::Input(index), fault } => {
            let index = index as usize;
            let want = method.input(index).map_or(String::new(), |info| describe(&info)).into();
            let have = values.get(index).map_or(String::new(), describe_value).into();
            let name = method.input_name(index).map(Box::from);
            Error::Input { method: method.name().into(), index, name, want, have, fault }
        }
        error => run_error(method, error),
    }
}

fn run_error(method: Method<'_>, error: CoreError) -> Error {
    let CoreError::At { site: Site::Instruction { chain, index }, fault } = error else { return Error::Core(error) };
    let callee = callee(method, chain, index).into();
    Error::Run { method: method.name().into(), instruction: index, callee, fault, reason: "".into() }
}

/// What an instruction runs, in words.
fn callee(method: Method<'_>, chain: u32, instruction: u32) -> String {
    let plan = method.plan();
    let chain = plan.chains().get(chain as usize);
    let instruction = chain.and_then(|chain| chain.instructions().get(instruction as usize));
    match instruction.map(|instruction| instruction.instr_args()) {
        Some(InstructionArguments::KernelCall(call)) => usize::try_from(call.op_index())
            .ok()
            .and_then(|index| plan.operators().get(index))
            .map_or(String::new(), |operator| operator.to_string()),
        Some(InstructionArguments::DelegateCall(call)) => usize::try_from(call.delegate_index())
            .ok()
            .and_then(|index| method.backend_name(index))
            .map_or(String::new(), |name| format!("backend {name}")),
        _ => "control flow".to_owned(),
    }
}

/// What a method takes or gives, in words.
pub fn describe(info: &ValueInfo<'_>) -> String {
    match info {
        ValueInfo::None => "none".to_owned(),
        ValueInfo::Tensor { dtype, shape, unbound: true, .. } => {
            format!("{} of {} dimensions, of any size", dtype.name(), shape.rank())
        }
        ValueInfo::Tensor { dtype, shape, dynamic, .. } => {
            let bound = if *dynamic { "at most " } else { "" };
            format!("{} {bound}{:?}", dtype.name(), shape.sizes())
        }
        ValueInfo::Int(value) => format!("the integer {value}"),
        ValueInfo::Double(value) => format!("the number {value}"),
        ValueInfo::Bool(value) => format!("the bool {value}"),
        ValueInfo::Str(value) => format!("the string {value:?}"),
        ValueInfo::List => "a list".to_owned(),
    }
}

fn describe_value(value: &sconce_core::Value<'_>) -> String {
    match value {
        sconce_core::Value::None => "none".to_owned(),
        sconce_core::Value::Tensor(tensor) => format!("{} {:?}", tensor.dtype.name(), tensor.sizes()),
        sconce_core::Value::Int(value) => format!("the integer {value}"),
        sconce_core::Value::Double(value) => format!("the number {value}"),
        sconce_core::Value::Bool(value) => format!("the bool {value}"),
        sconce_core::Value::Str(value) => format!("the string {value:?}"),
    }
}
