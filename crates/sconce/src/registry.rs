//! The operators and backends that a module may use.
//!
//! A registry is a value: it starts from the default or from nothing, grows, and is passed to the loader through
//! [`Options::registry`](crate::Options::registry). Backends and kernels that a whole process should know are registered
//! once with [`register_backend`] and [`register_kernel`]; every default registry made later has them.
#[cfg(feature = "engine")]
use sconce_backends::{Engines, GraphBackend};
use sconce_core::{Backend, Kernel, KernelId, Op};
use sconce_format::pte::Operator;
#[cfg(feature = "engine")]
use sconce_graph::payload::Payload;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Kernels and backends by name.
#[derive(Clone, Default)]
pub struct Registry {
    tables: Vec<&'static [Op]>,
    custom: Vec<(String, Arc<dyn Kernel>)>,
    backends: Vec<Entry>,
}

/// Who runs what was delegated under a name.
#[derive(Clone)]
enum Entry {
    /// The engines of the load: the payload is a graph.
    #[cfg(feature = "engine")]
    Graph(Arc<GraphBackend>),
    /// The backend by itself.
    Whole(Arc<dyn Backend>),
}

impl Entry {
    fn backend(&self) -> &dyn Backend {
        match self {
            #[cfg(feature = "engine")]
            Self::Graph(backend) => &**backend,
            Self::Whole(backend) => &**backend,
        }
    }

    fn name(&self) -> &str {
        self.backend().name()
    }

    fn shared(&self) -> Arc<dyn Backend> {
        match self {
            #[cfg(feature = "engine")]
            Self::Graph(backend) => backend.clone(),
            Self::Whole(backend) => backend.clone(),
        }
    }
}

/// The table number under which the application's own kernels are found.
const CUSTOM: u16 = u16::MAX - 1;

impl Registry {
    /// No operators, no backends.
    pub fn empty() -> Self {
        Self::default()
    }

    /// All operators and backends of this build, and those registered for the process.
    pub fn with_defaults() -> Self {
        let process = lock(process()).clone();
        Self { tables: sconce_ops::TABLES.to_vec(), custom: process.kernels, backends: process.backends }
    }

    /// The default registry, made once until something is registered for the process.
    pub(crate) fn shared_default() -> Arc<Self> {
        static SHARED: Mutex<Option<Arc<Registry>>> = Mutex::new(None);
        let mut shared = lock(&SHARED);
        let current = lock(process()).counts();
        match shared.as_ref().filter(|registry| (registry.backends.len(), registry.custom.len()) == current) {
            Some(registry) => registry.clone(),
            None => shared.insert(Arc::new(Self::with_defaults())).clone(),
        }
    }

    /// Adds a kernel under its full name (`namespace::operator.overload`). It goes before those already there.
    pub fn add_kernel(&mut self, name: impl Into<String>, kernel: impl Kernel + 'static) -> &mut Self {
        self.custom.push((name.into(), Arc::new(kernel)));
        self
    }

    /// Adds a table of operators.
    pub fn add_ops(&mut self, ops: &'static [Op]) -> &mut Self {
        self.tables.push(ops);
        self
    }

    /// Adds a backend. It goes before one of the same name.
    pub fn add_backend(&mut self, backend: impl Backend + 'static) -> &mut Self {
        self.backends.push(Entry::Whole(Arc::new(backend)));
        self
    }

    /// Adds a format of payloads that are graphs: the engines of each load run them. It goes before a backend of the same name.
    #[cfg(feature = "engine")]
    pub fn add_payload(&mut self, payload: impl Payload + 'static) -> &mut Self {
        self.backends.push(graph(payload));
        self
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.backends.iter().rev().find(|entry| entry.name() == name)
    }

    /// The format of the payloads for the backend of this name, if they are graphs.
    #[cfg(feature = "engine")]
    pub(crate) fn graphs(&self, name: &str) -> Option<&GraphBackend> {
        match self.entry(name)? {
            Entry::Graph(backend) => Some(backend),
            Entry::Whole(_) => None,
        }
    }

    /// Whether a kernel is one of this build's operators, and not the application's own.
    #[cfg(feature = "engine")]
    pub(crate) fn is_standard(&self, id: KernelId) -> bool {
        let table = self.tables.get(usize::from(id.table));
        table.is_some_and(|table| sconce_ops::TABLES.iter().any(|standard| std::ptr::eq(*standard, *table)))
    }

    /// The names of all backends.
    pub fn backend_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.backends.iter().map(|entry| entry.name().to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The names of all operators.
    pub fn operator_names(&self) -> Vec<String> {
        let ops = self.tables.iter().flat_map(|table| table.iter()).map(|op| op.name.to_owned());
        let mut names: Vec<_> = ops.chain(self.custom.iter().map(|(name, _)| name.clone())).collect();
        names.sort();
        names.dedup();
        names
    }
}

impl sconce_core::Registry for Registry {
    fn find_kernel(&self, operator: &Operator<'_>) -> Option<KernelId> {
        let wanted = operator.full_name();
        let custom = self.custom.iter().rposition(|(name, _)| wanted == **name);
        if let Some(row) = custom.and_then(|row| u16::try_from(row).ok()) {
            return Some(KernelId { table: CUSTOM, row });
        }
        sconce_core::Tables { ops: &self.tables, backends: &[] }.find_kernel(operator)
    }

    fn kernel(&self, id: KernelId) -> Option<&dyn Kernel> {
        let row = usize::from(id.row);
        if id.table == CUSTOM {
            return self.custom.get(row).map(|(_, kernel)| &**kernel);
        }
        let op = self.tables.get(usize::from(id.table))?.get(row)?;
        Some(op)
    }

    fn find_backend(&self, name: &str) -> Option<&dyn Backend> {
        self.entry(name).map(Entry::backend)
    }
}

/// The backends of this build: a row for each.
fn built_in() -> Vec<Entry> {
    vec![
        #[cfg(feature = "xnnpack")]
        graph(sconce_payloads::Xnnpack),
        #[cfg(feature = "ggml")]
        Entry::Whole(Arc::new(sconce_backends::GgmlBackend::default())),
    ]
}

/// A format of payloads. Loads run them on their own engines; these here are for who asks the backend itself.
#[cfg(feature = "engine")]
fn graph(payload: impl Payload + 'static) -> Entry {
    let engines = Engines { list: crate::options::engines(), options: Default::default() };
    Entry::Graph(Arc::new(GraphBackend::new(payload, engines)))
}

/// What every default registry has beside the operators of this build.
#[derive(Clone, Default)]
struct Process {
    backends: Vec<Entry>,
    kernels: Vec<(String, Arc<dyn Kernel>)>,
}

impl Process {
    fn counts(&self) -> (usize, usize) {
        (self.backends.len(), self.kernels.len())
    }
}

fn process() -> &'static Mutex<Process> {
    static PROCESS: OnceLock<Mutex<Process>> = OnceLock::new();
    PROCESS.get_or_init(|| Mutex::new(Process { backends: built_in(), kernels: Vec::new() }))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a backend for every default registry made from now on.
pub fn register_backend(backend: impl Backend + 'static) {
    lock(process()).backends.push(Entry::Whole(Arc::new(backend)));
}

/// Registers a kernel under its full name (`namespace::operator.overload`) for every default registry made from now on.
pub fn register_kernel(name: impl Into<String>, kernel: impl Kernel + 'static) {
    lock(process()).kernels.push((name.into(), Arc::new(kernel)));
}

/// The backend registered for the process under this name.
pub fn get_backend_class(name: &str) -> Option<Arc<dyn Backend>> {
    lock(process()).backends.iter().rev().find(|entry| entry.name() == name).map(Entry::shared)
}
