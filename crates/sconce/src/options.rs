//! How a module is loaded and run.
use crate::Registry;
#[cfg(feature = "engine")]
use sconce_backends::Engines;
use sconce_graph::engine::Rounding;
#[cfg(feature = "engine")]
use sconce_graph::engine::{self, Engine};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bounds on what a program may ask for. Files are untrusted: a small one can ask for much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most bytes that one session may take for arenas, state and scratch, with what they grow to.
    pub memory: usize,
    /// Most instructions that one run may execute.
    pub instructions: u64,
    /// Most bytes per method for results computed ahead of all runs; see [`Options::fold`].
    pub folded: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: usize::try_from(8u64 << 30).unwrap_or(usize::MAX / 4),
            instructions: 10_000_000,
            folded: 256 << 20,
        }
    }
}

/// Options of a load, to be chained.
///
/// ```no_run
/// # fn main() -> Result<(), sconce::Error> {
/// let module = sconce::Options::new().threads(2).data("weights.ptd").load("model.pte")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(crate) threads: usize,
    pub(crate) limits: Limits,
    pub(crate) registry: Arc<Registry>,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) copy: bool,
    pub(crate) lazy: bool,
    pub(crate) plan: bool,
    pub(crate) exact: bool,
    pub(crate) rounding: Rounding,
    pub(crate) instructions: Option<String>,
    pub(crate) packed: bool,
    /// Who runs graphs, best first.
    #[cfg(feature = "engine")]
    pub(crate) engines: Vec<Arc<dyn Engine>>,
    /// The instruction set of engines, if not that of the process.
    #[cfg(feature = "engine")]
    pub(crate) engine_set: Option<String>,
}

/// The engines of this build, best first.
#[cfg(feature = "engine")]
pub(crate) fn engines() -> Vec<Arc<dyn Engine>> {
    vec![Arc::new(sconce_cpu::Cpu)]
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults: as many threads as there are physical cores, everything registered that this build has.
    pub fn new() -> Self {
        Self {
            threads: 0,
            limits: Limits::default(),
            registry: Registry::shared_default(),
            data: Vec::new(),
            copy: false,
            lazy: false,
            plan: true,
            exact: false,
            rounding: Rounding::default(),
            instructions: None,
            packed: true,
            #[cfg(feature = "engine")]
            engines: engines(),
            #[cfg(feature = "engine")]
            engine_set: None,
        }
    }

    /// Threads that a run uses, the caller's included; 0, the default, stands for one per physical core. Of very many, only
    /// [`most_threads`](crate::most_threads) are used, and the module has a warning.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Most bytes that one session may take, with what grows for tensors that nothing bounds.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Most instructions that one run may execute.
    pub fn instruction_limit(mut self, instructions: u64) -> Self {
        self.limits.instructions = instructions;
        self
    }

    /// Whether operators that compute from constants alone run once per module instead of in every run (the default).
    /// Their results, such as transposed weights, stay in memory.
    pub fn fold(mut self, fold: bool) -> Self {
        self.limits.folded = if fold { Limits::default().folded } else { 0 };
        self
    }

    /// Whether runs of kernel calls that the CPU engine can take are planned as one (the default). Otherwise each
    /// operator runs by itself, which is slower and the reference for what the engine computes.
    pub fn plan(mut self, plan: bool) -> Self {
        self.plan = plan;
        self
    }

    /// Leaves out Winograd's method for convolutions, in what is planned and in delegates: of numbers, it rounds more than plain
    /// sums of products do; of bytes, it gives the same, but takes more memory.
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// How delegates that compute in bytes round sums, products and means of them. Operators round as PyTorch does.
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// An engine that is offered the nodes of graphs before those of this build and those added before it.
    #[cfg(feature = "engine")]
    pub fn engine(mut self, engine: impl Engine + 'static) -> Self {
        self.engines.insert(0, Arc::new(engine));
        self
    }

    /// Who runs the graphs of a program, for runs on so many threads.
    #[cfg(feature = "engine")]
    pub(crate) fn engines(&self, width: usize, varies: bool) -> Engines {
        let options = engine::Options {
            exact: self.exact,
            rounding: self.rounding,
            memory: self.limits.memory,
            width,
            varies,
            instructions: self.engine_set.clone(),
            ..engine::Options::default()
        };
        Engines { list: self.engines.clone(), options }
    }

    /// The weights that an engine packs under these options.
    #[cfg(feature = "engine")]
    pub(crate) fn packs(&self) -> Option<engine::Packs> {
        let Engines { list, options } = self.engines(1, true);
        list.iter().find_map(|engine| engine.packs(&options))
    }

    /// Whether a program that is loaded from `MODEL.pte` takes the weights in `MODEL.packed.ptd`, if there is such a file
    /// (the default). `Options::pack`, of the feature `pack`, makes one.
    pub fn packed(mut self, packed: bool) -> Self {
        self.packed = packed;
        self
    }

    /// Other operators and backends than the default.
    pub fn registry(mut self, registry: impl Into<Arc<Registry>>) -> Self {
        self.registry = registry.into();
        self
    }

    /// An external data file (`.ptd`, or GGUF for delegates); may be given several times.
    pub fn data(mut self, path: impl AsRef<Path>) -> Self {
        self.data.push(path.as_ref().to_owned());
        self
    }

    /// Reads files into memory instead of mapping them, for files that may change while the module lives.
    pub fn copy(mut self, copy: bool) -> Self {
        self.copy = copy;
        self
    }

    /// Loads even when operators or backends are missing; making a session reports them then. For tools that only look.
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }

    /// The instruction set that kernels use, by its name in [`instruction_sets`](crate::instruction_sets), instead of the
    /// best one; without it, the environment variable `SCONCE_ISA` may name one. It holds for the whole process: the
    /// first module that is loaded decides, and asking for another one later is an error.
    pub fn instructions(mut self, name: impl Into<String>) -> Self {
        self.instructions = Some(name.into());
        self
    }

    /// Loads a program from a file, or from bytes. See [`Module::load`](crate::Module::load).
    pub fn load<'a>(self, source: impl Into<crate::Source<'a>>) -> Result<crate::Module, crate::Error> {
        crate::Module::with_options(source.into(), self)
    }
}
