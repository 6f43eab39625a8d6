//! A loaded program, shared by all its sessions.
use crate::external::External;
use crate::instructions;
use crate::map::FileBytes;
#[cfg(feature = "engine")]
use crate::packs::Found;
use crate::prepared::{self, Prepared};
use crate::session::Session;
use crate::{Buffer, Error, Input, Needs, Options, Value, threads};
use sconce_core::{DataLoader as _, Delegate, Error as CoreError, KernelId, Method, Program, Registry as _};
use sconce_format::pte::{HEAD_BYTES, Header};
use sconce_parallel::Pool;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What a program that comes from no file is called.
const IN_MEMORY: &str = "the program";

/// Where a program comes from.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    /// A file.
    Path(PathBuf),
    /// Bytes in memory; they are copied.
    Bytes(&'a [u8]),
    /// Bytes that the module takes over.
    Buffer(Buffer),
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source::Bytes(bytes)
    }
}

impl From<Buffer> for Source<'_> {
    fn from(buffer: Buffer) -> Self {
        Source::Buffer(buffer)
    }
}

impl<'a> From<&'a Vec<u8>> for Source<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Source::Bytes(bytes)
    }
}

macro_rules! paths {
    ($($type:ty),*) => { $(impl From<$type> for Source<'_> {
        fn from(path: $type) -> Self { Source::Path(PathBuf::from(path)) }
    })* };
}
paths!(&str, String, &String, &Path, PathBuf, &PathBuf);

/// A program with its weights, resolved operators and delegates. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Module {
    pub(crate) shared: Arc<Shared>,
    /// By method, the session of [`Module::run`].
    easy: Arc<[Mutex<Option<Session>>]>,
}

/// A run of calls, of kernels and of delegates, that is planned as one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedCalls {
    /// Instructions of the method's first chain.
    pub instructions: Range<u32>,
    /// How many calls it stands for.
    pub calls: usize,
}

/// What became of weights that were packed ahead of time, in `MODEL.packed.ptd` beside `MODEL.pte`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackedWeights {
    /// Layers find theirs in the file.
    Used {
        /// The file.
        file: PathBuf,
        /// How many layers.
        layers: usize,
    },
    /// The file is of this program, but not for how it runs here.
    Unsuitable {
        /// The file.
        file: PathBuf,
        /// Why none of it is used.
        reason: String,
    },
    /// The file is not what it should be.
    Refused {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl PackedWeights {
    /// A sentence about a file that somebody should make anew or remove.
    fn warning(&self) -> Option<String> {
        let Self::Refused { file, reason } = self else { return None };
        Some(format!("{} is not used: {reason}. `sconce pack` makes it anew", file.display()))
    }
}

/// What all sessions of a module use and none changes.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) loader: FileBytes,
    pub(crate) external: External,
    warnings: Vec<String>,
    packed: Option<PackedWeights>,
    pub(crate) header: Header,
    pub(crate) options: Options,
    pub(crate) pool: Arc<Pool>,
    loaded: Vec<OnceLock<Loaded>>,
    /// Held while a method is loaded or prepared, so that two threads do not do the same work.
    loading: Mutex<()>,
}

/// What loading a method gives.
pub(crate) struct Loaded {
    pub(crate) kernels: Vec<KernelId>,
    /// Made with the method's first session.
    prepared: OnceLock<Prepared>,
}

impl Module {
    /// Loads a program from a file path, or from bytes, with the default [`Options`].
    ///
    /// A file is mapped into memory: it must not change while the module lives. Where that cannot be promised, use
    /// [`Options::copy`].
    pub fn load<'a>(source: impl Into<Source<'a>>) -> Result<Self, Error> {
        Options::new().load(source)
    }

    pub(crate) fn with_options(source: Source<'_>, options: Options) -> Result<Self, Error> {
        instructions::settle(options.instructions.as_deref())?;
        let (name, loader, beside) = match source {
            Source::Path(path) => {
                let loader = open(&path, options.copy)?;
                let beside = options.packed.then(|| Found::beside(&path, options.copy)).flatten();
                (path.display().to_string(), loader, beside)
            }
            Source::Bytes(bytes) => {
                let copied = FileBytes::from_bytes(bytes);
                (IN_MEMORY.to_owned(), copied.map_err(|_| Error::OutOfMemory { bytes: bytes.len() })?, None)
            }
            Source::Buffer(buffer) => (IN_MEMORY.to_owned(), FileBytes::Copied(buffer), None),
        };
        let mut external = External::default();
        for path in &options.data {
            let file = open(path, options.copy)?;
            file.read_ahead();
            external.add(&path.display().to_string(), file)?;
        }
        let head = loader.bytes().get(..HEAD_BYTES).unwrap_or(loader.bytes());
        if let Ok(header) = Header::parse(head, loader.size()) {
            loader.look(header.program_size);
        }
        let program = Program::load(&loader, &external).map_err(|error| match error {
            CoreError::Format(error) => Error::Format { file: name.clone(), error },
            error => Error::Core(error),
        })?;
        if !options.lazy {
            check(&program.methods().collect::<Vec<_>>(), &options)?;
        }
        let (header, methods) = (program.header(), program.methods().len());
        let (packs, packed) = match beside.map(|found| found.open(program, &loader, &external, &options)) {
            Some((packs, packed)) => (packs, Some(packed)),
            None => (External::default(), None),
        };
        let mut warnings = Vec::from_iter(packed.as_ref().and_then(PackedWeights::warning));
        if packs.is_empty() {
            loader.read_ahead();
        }
        external.append(packs);
        warnings.extend(threads::too_many_threads(options.threads));
        let pool = Arc::new(Pool::new(options.threads));
        let loaded = (0..methods).map(|_| OnceLock::new()).collect();
        let shared = Arc::new(Shared {
            name,
            loader,
            external,
            warnings,
            packed,
            header,
            options,
            pool,
            loaded,
            loading: Mutex::new(()),
        });
        let easy = (0..methods).map(|_| Mutex::default()).collect();
        Ok(Self { shared, easy })
    }

    /// The program.
    pub fn program(&self) -> Program<'_> {
        self.shared.program()
    }

    /// The file it was loaded from.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The names of its methods.
    pub fn methods(&self) -> Vec<String> {
        self.program().methods().map(|method| method.name().to_owned()).collect()
    }

    /// What was odd about the load, but no reason not to.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// What became of the packed weights beside it, if there are some.
    pub fn packed_weights(&self) -> Option<&PackedWeights> {
        self.shared.packed.as_ref()
    }

    /// Data from beside the program.
    #[cfg(feature = "pack")]
    pub(crate) fn external(&self) -> &External {
        &self.shared.external
    }

    /// The program's file.
    #[cfg(feature = "pack")]
    pub(crate) fn file(&self) -> &FileBytes {
        &self.shared.loader
    }

    /// What the delegates and planned calls of a method have packed so far.
    #[cfg(feature = "pack")]
    pub(crate) fn packed(&self, method: &str, sink: &mut dyn FnMut(&str, &[u8])) -> Result<(), Error> {
        let index = self.find(method)?;
        self.shared.prepared(index)?.parts().for_each(|part| part.packed(sink));
        Ok(())
    }

    /// Threads that its sessions use unless they are told otherwise.
    pub fn threads(&self) -> usize {
        self.shared.pool.width()
    }

    /// Bytes that a session of a method takes where each operator runs by itself, as on machines without an engine.
    pub fn needs(&self, method: &str) -> Result<Needs, Error> {
        Needs::of(&self.shared, self.find(method)?).map(|(needs, _)| needs)
    }

    /// The instructions of a method's first chain that compute from constants alone: they run once, for all sessions.
    pub fn folded(&self, method: &str) -> Result<Vec<u32>, Error> {
        let index = self.find(method)?;
        let chain = self.shared.method(index).plan().chains().get(0);
        let prepared = self.shared.prepared(index)?;
        let count = chain.map_or(0, |chain| chain.instructions().len());
        let instructions = (0..u32::try_from(count).unwrap_or(u32::MAX)).filter(|&i| prepared.folding.skips(i));
        Ok(instructions.collect())
    }

    /// What each delegate of a method will do, as its engine prints it; nothing for one that is planned with its neighbours
    /// (see [`Module::planned_calls`]).
    pub fn delegate_plans(&self, method: &str) -> Result<Vec<String>, Error> {
        let prepared = self.shared.prepared(self.find(method)?)?;
        let own = self.shared.method(self.find(method)?).delegates();
        Ok(prepared.delegates.iter().take(own).map(|delegate| self.print(&**delegate)).collect())
    }

    /// The runs of calls of a method that are planned as one.
    pub fn planned_calls(&self, method: &str) -> Result<Vec<PlannedCalls>, Error> {
        let prepared = self.shared.prepared(self.find(method)?)?;
        let regions = prepared.regions.iter();
        Ok(regions.map(|(region, calls)| PlannedCalls { instructions: region.instructions.clone(), calls }).collect())
    }

    /// What the engine will do for each of [`Module::planned_calls`].
    pub fn call_plans(&self, method: &str) -> Result<Vec<String>, Error> {
        let prepared = self.shared.prepared(self.find(method)?)?;
        let own = self.shared.method(self.find(method)?).delegates();
        Ok(prepared.delegates.iter().skip(own).map(|delegate| self.print(&**delegate)).collect())
    }

    /// Why some call of a method is not among [`Module::planned_calls`]: a sentence, if there is something to say.
    pub fn unplanned_reason(&self, method: &str) -> Result<Option<String>, Error> {
        Ok(self.shared.prepared(self.find(method)?)?.unplanned.clone())
    }

    fn print(&self, delegate: &dyn Delegate) -> String {
        prepared::part(delegate).map_or(String::new(), |part| part.plan_text(self.threads()))
    }

    /// Makes a session for the method `forward`.
    pub fn session(&self) -> Result<Session, Error> {
        self.method_session("forward")
    }

    /// Makes a session for a method.
    pub fn method_session(&self, method: &str) -> Result<Session, Error> {
        Session::new(self.shared.clone(), self.find(method)?)
    }

    fn find(&self, method: &str) -> Result<usize, Error> {
        let found = self.program().methods().position(|candidate| candidate.name() == method);
        found.ok_or_else(|| Error::MethodNotFound { name: method.to_owned(), available: self.methods() })
    }

    /// Runs `forward` in the module's own session. See [`Module::run`].
    pub fn forward(&self, inputs: &[Input<'_>]) -> Result<Vec<Value>, Error> {
        self.run("forward", inputs)
    }

    /// Runs a method in the module's own session of that method, one caller at a time. What the program keeps from run to run
    /// is kept here, too; for a beginning of its own, a caller makes a [`Session`].
    pub fn run(&self, method: &str, inputs: &[Input<'_>]) -> Result<Vec<Value>, Error> {
        let index = self.find(method)?;
        let mut session = self.easy[index].lock().unwrap_or_else(PoisonError::into_inner);
        match session.as_mut() {
            Some(session) => session.run(inputs),
            None => session.insert(Session::new(self.shared.clone(), index)?).run(inputs),
        }
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn program(&self) -> Program<'_> {
        Program::reopen(self.header, &self.loader, &self.external).expect("the bytes that were loaded before")
    }

    pub(crate) fn method(&self, index: usize) -> Method<'_> {
        self.program().methods().nth(index).expect("the index of a method that was found")
    }

    /// The right to load or prepare.
    fn loading(&self) -> MutexGuard<'_, ()> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is decided once for all sessions of a method, the first time one is made.
    pub(crate) fn prepared(&self, index: usize) -> Result<&Prepared, Error> {
        let cell = &self.loaded(index)?.prepared;
        if let Some(prepared) = cell.get() {
            return Ok(prepared);
        }
        let _loading = self.loading();
        if let Some(prepared) = cell.get() {
            return Ok(prepared);
        }
        let prepared = Prepared::new(self, index)?;
        Ok(cell.get_or_init(|| prepared))
    }

    /// Resolves operators, the first time a method is used.
    pub(crate) fn loaded(&self, index: usize) -> Result<&Loaded, Error> {
        let cell = &self.loaded[index];
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let _loading = self.loading();
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let method = self.method(index);
        let registry = &*self.options.registry;
        check(&[method], &self.options)?;
        let mut kernels = vec![KernelId::NONE; method.operators()];
        method.resolve(registry, &mut kernels).map_err(Error::Core)?;
        Ok(cell.get_or_init(|| Loaded { kernels, prepared: OnceLock::new() }))
    }
}

/// Without an engine there is nothing to pack weights for.
#[cfg(not(feature = "engine"))]
enum Found {}

#[cfg(not(feature = "engine"))]
impl Found {
    fn beside(_: &Path, _: bool) -> Option<Self> {
        None
    }

    fn open(self, _: Program<'_>, _: &FileBytes, _: &External, _: &Options) -> (External, PackedWeights) {
        match self {}
    }
}

pub(crate) fn open(path: &Path, copy: bool) -> Result<FileBytes, Error> {
    let opened = if copy { FileBytes::read(path) } else { FileBytes::map(path) };
    opened.map_err(|error| Error::Io { file: path.display().to_string(), error })
}

/// Whether everything that methods need is registered; all that is missing is told at once.
fn check(methods: &[Method<'_>], options: &Options) -> Result<(), Error> {
    let registry = &*options.registry;
    let missing = methods.iter().flat_map(|method| method.missing_operators(registry));
    let names: BTreeSet<String> = missing.map(|operator| operator.to_string()).collect();
    if !names.is_empty() {
        return Err(Error::MissingOperators { names: names.into_iter().collect() });
    }
    let backends = methods.iter().flat_map(|method| (0..method.delegates()).filter_map(|i| method.backend_name(i)));
    let names: BTreeSet<&str> = backends.filter(|name| registry.find_backend(name).is_none()).collect();
    if !names.is_empty() {
        let names = names.into_iter().map(str::to_owned).collect();
        return Err(Error::MissingBackends { names, available: registry.backend_names() });
    }
    Ok(())
}
