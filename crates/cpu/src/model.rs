//! A graph made ready, and what a caller keeps to run it.

use crate::lowered::Lowered;
use crate::memory::{Bank, Memory, Pace};
use crate::plan::Plan;
use crate::profile::{Times, print_estimates};
use crate::steps::Context;
use crate::weights::{Known, check, model_name, packed_prefix};
use sconce_graph::{Constants, Graph, Shape, infer};
use sconce_kernels::{Isa, Parallel};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans that a model keeps.
const PLANS: usize = 8;
/// Forms of a graph that a model keeps for sizes that the first one is not for.
const FORMS: usize = 2;
/// Constants of at most so many bytes, those of a page, come from a file with what lies around them. Larger ones that are read
/// where they are, page by page, are worth asking for ([`Constants::will_read`]).
pub const LITTLE: usize = 4096;

/// Why a graph cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// How sums, products and means of bytes are rounded to bytes. What is no operation on bytes in the graph is not touched by
/// this: its numbers are computed and converted as PyTorch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// As XNNPACK: sums in whole numbers with halves up, means with the zero added before they are rounded to even.
    #[default]
    Xnnpack,
    /// As PyTorch: in `float32`, to even, then the zero is added.
    PyTorch,
}

/// What can be chosen.
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
            memory: usize::try_from(8u64 << 30).unwrap_or(usize::MAX / 4),
        }
    }
}

impl Options {
    /// What the names of weights start with that were packed for these options.
    pub fn packed_prefix(&self) -> String {
        packed_prefix(self.isa, self.exact)
    }

    /// The same, with the instruction set of this name, if this machine has it.
    pub fn with_instructions(self, name: &str) -> Option<Self> {
        Isa::available().find(|isa| isa.name() == name).map(|isa| Self { isa, ..self })
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
        sconce_graph::verify(&graph).map_err(|invalid| Error(invalid.to_string()))?;
        check(&graph, constants).map_err(Error)?;
        let model = Self {
            given: options.varies.then(|| graph.clone()),
            form: Arc::new(Lowered::new(graph, &options, constants)),
            options,
            plans: Mutex::default(),
            bank: Bank::shared(),
            pace: Pace::default(),
        };
        model.form.packed().check(model.graph(), constants, options.memory).map_err(Error)?;
        // What cannot be planned is said now, not in the first run.
        let bounds = model.bounds();
        let plan = model.plan(&bounds.iter().map(Shape::as_slice).collect::<Vec<_>>(), options.width)?;
        // Packed weights are read ahead all at once, and single pages of a file, one after the other, wait behind them.
        for (constant, _) in plan.constants().filter(|(_, bytes)| *bytes > LITTLE) {
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

    /// The plan for inputs of these sizes and so many threads.
    pub fn plan(&self, inputs: &[&[usize]], width: usize) -> Result<Arc<Plan>, Error> {
        let Plans { plans, forms } = &mut *self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = plans.iter().position(|plan| plan.suits(inputs, width)) {
            plans[..=place].rotate_right(1);
            return Ok(plans[0].clone());
        }
        let (form, sizes) = self.form(forms, inputs).map_err(Error)?;
        // A plan holds the weights of its form.
        plans.retain(|plan| plan.is_of(&self.form) || forms.iter().any(|form| plan.is_of(form)));
        let plan = Arc::new(Plan::new(&form, sizes, &self.options, width, inputs).map_err(Error)?);
        plans.truncate(PLANS - 1);
        plans.insert(0, plan.clone());
        Ok(plan)
    }

    /// A form of the graph that holds for inputs of these sizes, and the sizes of its values then. Where none of those that
    /// are there does, the graph is lowered once more.
    fn form(&self, forms: &mut Vec<Arc<Lowered>>, inputs: &[&[usize]]) -> Result<(Arc<Lowered>, Vec<Shape>), String> {
        let bounds = self.bounds();
        if bounds.iter().map(Shape::as_slice).eq(inputs.iter().copied()) {
            return Ok((self.form.clone(), infer(self.graph(), inputs)?));
        }
        let graph = self.given.as_ref().ok_or_else(|| {
            format!(
                "inputs have sizes {inputs:?} where {bounds:?} are declared, in a program whose sizes do not change"
            )
        })?;
        let given = infer(graph, inputs)?;
        for form in [&self.form].into_iter().chain(&*forms) {
            if let Some(sizes) = form.sizes(graph, &given, inputs) {
                return Ok((form.clone(), sizes));
            }
        }
        let form = Arc::new(Lowered::for_sizes(graph, &given, &self.options)?);
        let sizes = infer(form.graph(), inputs)?;
        forms.truncate(FORMS - 1);
        forms.insert(0, form.clone());
        Ok((form, sizes))
    }

    /// What a caller keeps who will soon run the plan that was used last.
    pub fn session(&self) -> Session {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.plans.first().into_iter().for_each(|plan| self.bank.expect(plan.arena_bytes()));
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
        plan.check_arguments(inputs, outputs).map_err(Error)?;
        let started = self.pace.start();
        let missing = || Error(format!("there is no memory for an arena of {} bytes", plan.arena_bytes()));
        let mut arena = self.bank.lend(par, plan.arena_bytes()).ok_or_else(missing)?;
        let form = plan.form();
        let known = Known { graph: form.graph(), constants, packed: form.packed() };
        let context = Context { isa: self.options.isa, par, known };
        let mut memory = Memory::new(inputs, outputs, arena.bytes_mut(), known);
        match &mut session.watched {
            Some(watched) => {
                watched.plan = Some(plan.clone());
                plan.run(&context, &mut memory, watched.times.watch(plan.steps().len()));
            }
            None => plan.run(&context, &mut memory, |_| ()),
        }
        self.pace.finish(started, || form.packed().settle() || arena.settle());
        self.bank.give_back(arena);
        Ok(())
    }

    /// Writes a plan of the model, with what its steps may take on this machine.
    pub fn print_plan(&self, plan: &Plan, out: &mut dyn fmt::Write) -> fmt::Result {
        print_estimates(plan, self.options.isa, out)
    }

    /// Writes the last plan that a session ran, with what its steps took since [`Session::watch`].
    pub fn print_times(&self, session: &Session, out: &mut dyn fmt::Write) -> fmt::Result {
        let watched = session.watched.as_ref().and_then(|watched| Some((&watched.times, watched.plan.as_ref()?)));
        watched.map_or(Ok(()), |(times, plan)| times.print(plan, self.options.isa, out))
    }
}

/// What one caller changes while running a model.
#[derive(Debug, Default)]
pub struct Session {
    watched: Option<Watched>,
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
