//! A graph made ready, and what a caller keeps to run it.

use crate::lowered::Lowered;
use crate::memory::{Bank, Memory, Pace, Room};
use crate::plan::Plan;
use crate::profile::{Times, report};
use crate::steps::Context;
use crate::weights::{Known, check, model_name, packed_prefix};
use sconce_graph::engine::{self, Error, PlanReport, Rounding};
use sconce_graph::{Constants, Graph, Shape, infer};
use sconce_kernels::{Isa, Parallel};
use std::mem::take;
use std::sync::{Arc, Mutex, TryLockError};

/// Plans that a model keeps.
const PLANS: usize = 8;
/// Forms of a graph that a model keeps for sizes that the first one is not for.
const FORMS: usize = 2;
/// Constants up to a page come from a file with their neighbours. Larger ones that are read in place are worth a prefetch
/// ([`Constants::will_read`]).
const PAGE: usize = 4096;

/// The options of a load as this engine takes them.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The instructions to use.
    pub isa: Isa,
    /// The most bytes an arena may take, and filters that layers share where each packs its own.
    pub memory: usize,
    /// Leaves out Winograd's method: it rounds more than plain sums of products do, or takes more memory than they.
    pub exact: bool,
    /// Where numbers go that lie between two bytes.
    pub rounding: Rounding,
    /// Threads that runs are expected to have.
    pub width: usize,
    /// Whether runs may come with other sizes than those of the graph's types. If not, less has to be kept for them.
    pub varies: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            isa: Isa::detect(),
            exact: false,
            rounding: Rounding::default(),
            width: 1,
            varies: true,
            memory: engine::Options::default().memory,
        }
    }
}

impl Options {
    /// What the options of a load come to here: the instruction set has to be one of this machine.
    pub fn of(options: &engine::Options) -> Result<Self, Error> {
        let engine::Options { memory, exact, rounding, width, varies, .. } = *options;
        let own = Self { isa: Isa::detect(), memory, exact, rounding, width, varies };
        let Some(name) = &options.instructions else { return Ok(own) };
        own.with_instructions(name)
            .ok_or_else(|| Error::Refused(format!("this machine lacks the instruction set {name} that was asked for")))
    }

    /// The same, with the instruction set of this name, if this machine has it.
    pub fn with_instructions(self, name: &str) -> Option<Self> {
        Isa::available().find(|isa| isa.name() == name).map(|isa| Self { isa, ..self })
    }

    /// What the names of weights start with that were packed for these options.
    pub fn packed_prefix(&self) -> String {
        packed_prefix(self.isa, self.exact)
    }
}

/// A graph that is ready to be run, by any number of sessions at once.
#[derive(Debug)]
pub struct Model {
    /// The graph as it came, if sizes may vary.
    given: Option<Graph>,
    /// The form that it has for the sizes of its types, and so for nearly all others.
    form: Arc<Lowered>,
    options: Options,
    plans: Mutex<Plans>,
    bank: Arc<Bank>,
    pace: Pace,
}

/// What was planned so far, what was used last first.
#[derive(Debug, Default)]
struct Plans {
    plans: Vec<Arc<Plan>>,
    /// Further forms of the graph.
    forms: Vec<Arc<Lowered>>,
}

impl Model {
    /// Makes a graph ready. Its constants must be there; they are read when a step first needs them.
    pub fn new(graph: Graph, options: Options, constants: &dyn Constants) -> Result<Self, Error> {
        sconce_graph::verify(&graph).map_err(|invalid| Error::Refused(invalid.to_string()))?;
        Self::of_valid(graph, options, constants)
    }

    /// The same of a graph that was verified.
    pub(crate) fn of_valid(graph: Graph, options: Options, constants: &dyn Constants) -> Result<Self, Error> {
        debug_assert_eq!(sconce_graph::verify(&graph), Ok(()));
        check(&graph, constants).map_err(Error::Refused)?;
        let model = Self {
            given: options.varies.then(|| graph.clone()),
            form: Arc::new(Lowered::new(graph, &options, constants)),
            options,
            plans: Mutex::default(),
            bank: Bank::shared(),
            pace: Pace::default(),
        };
        model.form.packed().check(model.graph(), constants, options.memory).map_err(Error::Refused)?;
        // What cannot be planned is said now, not in the first run.
        let bounds = model.bounds();
        let plan = model.plan(&bounds.iter().map(Shape::as_slice).collect::<Vec<_>>(), options.width)?;
        // Packed weights are read ahead all at once, and single pages of a file, one after the other, wait behind them.
        for (constant, _) in plan.constants().filter(|(_, bytes)| *bytes > PAGE) {
            constants.will_read(&model.graph().constants[constant.index()].source);
        }
        Ok(model)
    }

    /// The sizes of the inputs' types.
    fn bounds(&self) -> Vec<Shape> {
        self.graph().inputs.iter().map(|&id| self.graph().ty(id).sizes()).collect()
    }

    /// The graph as it is run.
    pub fn graph(&self) -> &Graph {
        self.form.graph()
    }

    /// Bytes of packed weights.
    pub fn packed_bytes(&self) -> usize {
        self.form.packed().bytes()
    }

    /// What this model has packed so far, each under the name by which a later one of the same graph and options finds it
    /// with [`Constants::find`].
    pub fn packed(&self, sink: &mut dyn FnMut(&str, &[u8])) {
        self.form.packed().each(&model_name(self.graph(), self.options.isa, self.options.exact), sink);
    }

    /// The plan for inputs of these sizes on `width` threads.
    ///
    /// Plans that were made before are shared by all sessions, but none waits for another: who finds the list held makes its
    /// own plan, and nobody plans while holding it.
    pub fn plan(&self, inputs: &[&[usize]], width: usize) -> Result<Arc<Plan>, Error> {
        if let Some(plan) = self.kept(|kept| kept.find(inputs, width)).flatten() {
            return Ok(plan);
        }
        let forms = self.kept(|kept| kept.forms.clone()).unwrap_or_default();
        let (form, sizes) = self.form(&forms, inputs)?;
        let plan = Plan::new(&form, sizes, &self.options, width, inputs).map_err(Error::Refused)?;
        let plan = Arc::new(plan);
        self.kept(|kept| kept.keep(&self.form, form, plan.clone()));
        Ok(plan)
    }

    /// Does something with what was planned so far, unless somebody else is at it.
    fn kept<R>(&self, with: impl FnOnce(&mut Plans) -> R) -> Option<R> {
        match self.plans.try_lock() {
            Ok(mut plans) => Some(with(&mut plans)),
            Err(TryLockError::Poisoned(plans)) => Some(with(&mut plans.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A form of the graph that holds for inputs of these sizes, and the sizes of its values then. Where none of those that
    /// are there does, the graph is lowered once more.
    fn form(&self, forms: &[Arc<Lowered>], inputs: &[&[usize]]) -> Result<(Arc<Lowered>, Vec<Shape>), Error> {
        let bounds = self.bounds();
        if bounds.iter().map(Shape::as_slice).eq(inputs.iter().copied()) {
            return Ok((self.form.clone(), infer(self.graph(), inputs).map_err(Error::Sizes)?));
        }
        let graph = self.given.as_ref().ok_or_else(|| {
            Error::Sizes(format!(
                "inputs have sizes {inputs:?} where {bounds:?} are declared, in a program whose sizes do not change"
            ))
        })?;
        let given = infer(graph, inputs).map_err(Error::Sizes)?;
        for form in [&self.form].into_iter().chain(forms) {
            if let Some(sizes) = form.sizes(graph, &given, inputs) {
                return Ok((form.clone(), sizes));
            }
        }
        let form = Arc::new(Lowered::for_sizes(graph, &given, &self.options).map_err(Error::Refused)?);
        let sizes = infer(form.graph(), inputs).map_err(Error::Sizes)?;
        Ok((form, sizes))
    }

    /// What a caller keeps who will soon run the plan that was used last.
    pub fn session(&self) -> Session {
        let last = self.kept(|kept| kept.plans.first().cloned()).flatten();
        last.iter().for_each(|plan| self.bank.expect(plan.arena_bytes()));
        Session::default()
    }

    /// Runs a plan of this model. Inputs and outputs are as long as the plan says.
    pub fn run(
        &self,
        plan: &Arc<Plan>,
        session: &mut Session,
        par: &dyn Parallel,
        constants: &dyn Constants,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        plan.check_arguments(inputs, outputs).map_err(Error::Failed)?;
        let started = self.pace.start();
        let missing = || Error::Memory(format!("there is no memory for an arena of {} bytes", plan.arena_bytes()));
        let mut arena = self.bank.lend(par, plan.arena_bytes()).ok_or_else(missing)?;
        let form = plan.form();
        let known = Known { graph: form.graph(), constants, packed: form.packed() };
        let context = Context { isa: self.options.isa, par, known };
        let mut memory = Memory::new(inputs, outputs, arena.bytes_mut(), known, take(&mut session.room));
        match &mut session.watched {
            Some(watched) => {
                watched.plan = Some(plan.clone());
                plan.run(&context, &mut memory, watched.times.watch(plan.steps().len()));
            }
            None => plan.run(&context, &mut memory, |_| ()),
        }
        session.room = memory.into_room();
        self.pace.finish(started, || form.packed().settle() || arena.settle());
        self.bank.give_back(arena);
        Ok(())
    }

    /// A plan of the model, with what its steps may take on this machine.
    pub fn report(&self, plan: &Plan) -> PlanReport {
        report(plan, self.options.isa, None)
    }

    /// The last plan that a session ran, with what its steps took since [`Session::watch`].
    pub fn times(&self, session: &Session) -> Option<PlanReport> {
        let Watched { times, plan } = session.watched.as_ref()?;
        Some(report(plan.as_ref()?, self.options.isa, Some(times)))
    }
}

impl Plans {
    /// The plan for inputs of these sizes, which is then the one that was used last.
    fn find(&mut self, inputs: &[&[usize]], width: usize) -> Option<Arc<Plan>> {
        let place = self.plans.iter().position(|plan| plan.suits(inputs, width))?;
        self.plans[..=place].rotate_right(1);
        self.plans.first().cloned()
    }

    /// Keeps a plan and the form that it is for, if that is not the model's `first` one.
    fn keep(&mut self, first: &Arc<Lowered>, form: Arc<Lowered>, plan: Arc<Plan>) {
        if !Arc::ptr_eq(first, &form) && !self.forms.iter().any(|own| Arc::ptr_eq(own, &form)) {
            self.forms.truncate(FORMS - 1);
            self.forms.insert(0, form);
        }
        // A plan holds the weights of its form.
        self.plans.retain(|plan| plan.is_of(first) || self.forms.iter().any(|form| plan.is_of(form)));
        self.plans.truncate(PLANS - 1);
        self.plans.insert(0, plan);
    }
}

/// What one caller changes while running a model.
#[derive(Debug, Default)]
pub struct Session {
    watched: Option<Watched>,
    room: Room,
}

/// What is known of the runs of a session that is watched.
#[derive(Debug, Default)]
struct Watched {
    times: Times,
    plan: Option<Arc<Plan>>,
}

impl Session {
    /// Takes the time of every step from now on.
    pub fn watch(&mut self) {
        self.watched = Some(Watched::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_graph::{Dim, Source, parse};
    use sconce_kernels::Serial;

    struct Nothing;

    impl Constants for Nothing {
        fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
            None
        }
    }

    /// Somebody else is at the list of plans and at the bank for as long as the sessions run: who waited would never end.
    #[test]
    fn sessions_wait_for_nobody() {
        let graph = parse("%0: float32[8] = input\n%1: float32[8] = negate %0\noutput %1\n").unwrap();
        assert_eq!(graph.ty(graph.inputs[0]).dims, [Dim::Fixed(8)]);
        let model = Model::new(graph, Options::default(), &Nothing).unwrap();
        let held = model.plans.lock().unwrap();
        let idle = model.bank.hold();
        std::thread::scope(|scope| {
            for count in 1..=8usize {
                let model = &model;
                scope.spawn(move || {
                    let (mut session, bytes) = (model.session(), vec![0x3f; 4 * count]);
                    let plan = model.plan(&[&[count]], 1).unwrap();
                    let mut found = vec![0; 4 * count];
                    model.run(&plan, &mut session, &Serial, &Nothing, &[&bytes], &mut [&mut found]).unwrap();
                    let expected = -f32::from_le_bytes([0x3f; 4]);
                    assert!(found.as_chunks().0.iter().all(|number| f32::from_le_bytes(*number) == expected));
                });
            }
        });
        drop((held, idle));
    }
}
