//! What one caller changes, and runs.
use crate::blocks::{Blocks, Context, Needs, reserved};
use crate::describe::{callee, run_error};
use crate::module::Shared;
use crate::prepared::{self, Part};
use crate::{Error, Input, Value};
use inputs::{Reordered, value};
use sconce_core::{
    Delegate, DelegateState, Error as CoreError, Execution, Fault, Method, Owned, Platform, Quiet, Step,
};
use sconce_graph::engine::reuse;
use sconce_parallel::Pool;
use std::mem::{swap, take};
use std::sync::Arc;

mod inputs;

/// A method with the memory for running it. One thread at a time; make one per thread.
///
/// What a program keeps from run to run (caches, counters) is the session's. A run that is refused because of its inputs
/// leaves it as it was; one that fails later leaves what it has written so far: [`Session::reset`] and [`Session::restore`]
/// bring an earlier state back.
pub struct Session {
    shared: Arc<Shared>,
    method: usize,
    pool: Arc<Pool>,
    blocks: Blocks,
    /// Of the method's delegates, then of what is planned.
    states: Vec<Owned<dyn DelegateState>>,
    /// Room for the inputs of a run.
    values: Vec<sconce_core::Value<'static>>,
    reordered: Reordered,
}

/// What the runs of a session have left at some time.
pub struct Snapshot {
    shared: Arc<Shared>,
    method: usize,
    blocks: Blocks,
    states: Vec<Owned<dyn DelegateState>>,
}

impl Snapshot {
    fn method(&self) -> &str {
        self.shared.method(self.method).name()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("method", &self.method()).finish_non_exhaustive()
    }
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
        let pool = shared.pool.clone();
        let blocks = first_blocks(&shared, method, &pool)?;
        let states = states(&shared, method, |_, delegate| delegate.new_state())?;
        Ok(Self { shared, method, pool, blocks, states, values: Vec::new(), reordered: Reordered::default() })
    }

    /// Forgets all that runs have left: buffers are as the program has them at first, as in a new session.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.blocks = first_blocks(&self.shared, self.method, &self.pool)?;
        self.states = states(&self.shared, self.method, |_, delegate| delegate.new_state())?;
        Ok(())
    }

    /// What runs have left so far, to come back to with [`Session::restore`]: a copy of the session's memory. An error if a
    /// backend of the method keeps something that it cannot copy.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let copy = |index: usize, delegate: &Owned<dyn Delegate>| delegate.copy_state(&*self.states[index]);
        let states = states(&self.shared, self.method, copy)?;
        Ok(Snapshot { shared: self.shared.clone(), method: self.method, blocks: self.blocks.copy()?, states })
    }

    /// Goes back to a snapshot of this session, or of another one of the same method and module, as often as wanted.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.shared, &snapshot.shared) || self.method != snapshot.method {
            let (method, of) = (self.method().to_owned(), snapshot.method().to_owned());
            return Err(Error::Snapshot { method, of });
        }
        let copy = |index: usize, delegate: &Owned<dyn Delegate>| delegate.copy_state(&*snapshot.states[index]);
        self.states = states(&self.shared, self.method, copy)?;
        let mut blocks = snapshot.blocks.copy()?;
        swap(&mut blocks.scratch, &mut self.blocks.scratch);
        self.blocks = blocks;
        Ok(())
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
        let parts = || prepared.delegates.iter().map(|delegate| prepared::part(&**delegate));
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
        let mut planned = prepared.into_iter().flat_map(|prepared| prepared.regions.iter());
        match planned.find(|(region, _)| region.instructions.start == instruction) {
            Some((_, calls)) if calls > 1 => format!("{name} and {} more, planned as one", calls - 1),
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
        self.reordered.fill(method, inputs)?;
        let mut values = reuse(take(&mut self.values));
        values.extend(inputs.iter().enumerate().map(|(i, input)| value(method, i, input, &self.reordered)));
        let threads = self.pool.lease();
        let prepared = self.shared.prepared(self.method)?;
        let context = Context {
            shared: &self.shared,
            method: self.method,
            parallel: &threads,
            platform,
            prepared: Some(prepared),
            inputs: Some(&values),
        };
        let result = self.blocks.run(context, &mut self.states, body)?;
        self.values = reuse(values);
        result.map_err(|error| {
            let mut reason = String::new();
            for (delegate, state) in prepared.delegates.iter().zip(&mut self.states) {
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

/// The memory of a method before the first run.
fn first_blocks(shared: &Shared, method: usize, pool: &Pool) -> Result<Blocks, Error> {
    let (prepared, view) = (shared.prepared(method)?, shared.method(method));
    let mut state = prepared.needs.state(view)?;
    let scratch = scratch_words(shared, method, &mut state, pool)?.saturating_mul(8);
    let mut blocks = Blocks::new(view, &Needs { scratch, ..prepared.needs.clone() }, state)?;
    for &(value, offset) in &prepared.folding.places {
        view.place_folded(&mut blocks.state, value, offset);
    }
    Ok(blocks)
}

/// A state of each delegate of a method.
fn states(
    shared: &Shared,
    method: usize,
    state: impl Fn(usize, &Owned<dyn Delegate>) -> Result<Owned<dyn DelegateState>, Fault>,
) -> Result<Vec<Owned<dyn DelegateState>>, Error> {
    let (prepared, view) = (shared.prepared(method)?, shared.method(method));
    let made = prepared.delegates.iter().enumerate().map(|(index, delegate)| {
        let name = view.backend_name(index).unwrap_or("the engines").to_owned();
        state(index, delegate).map_err(|fault| Error::Backend { name, fault, reason: String::new() })
    });
    made.collect()
}

/// Words of scratch that a session takes, given a fresh state.
fn scratch_words(shared: &Shared, method: usize, state: &mut [u64], pool: &Pool) -> Result<usize, Error> {
    let (loaded, prepared, view) = (shared.loaded(method)?, shared.prepared(method)?, shared.method(method));
    let (registry, regions) = (&*shared.options.registry, prepared.regions.regions());
    // As wide as runs can be, whether or not another one has the threads at the moment.
    let parallel = pool.whole();
    Ok(view.scratch_words(state, registry, &loaded.kernels, &prepared.delegates, regions, &parallel))
}
