//! Errors as sentences: what is wrong, with the names and numbers, and what to do about it.
use crate::ScalarType;
use sconce_core::{Code, Fault};
use std::fmt;

/// Everything that can go wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened or read.
    Io {
        /// The file.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file is not what it should be.
    Format {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: sconce_format::Error,
    },
    /// Two external data files have an entry of the same name.
    DuplicateData {
        /// The second file.
        file: String,
        /// The name.
        key: String,
    },
    /// The program uses operators that the registry lacks.
    MissingOperators {
        /// All of them.
        names: Vec<String>,
    },
    /// The program was delegated to backends that the registry lacks.
    MissingBackends {
        /// All of them.
        names: Vec<String>,
        /// Those that are there.
        available: Vec<String>,
    },
    /// A backend is there but says that it cannot run on this machine.
    BackendUnavailable {
        /// The backend.
        name: String,
    },
    /// A backend refused its payload.
    Backend {
        /// The backend.
        name: String,
        /// Why.
        fault: Fault,
        /// What the backend said about it, if it did.
        reason: String,
    },
    /// This machine has no instruction set of that name, or this build does not know it.
    InstructionSet {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<&'static str>,
    },
    /// The process has settled on another instruction set than the one asked for.
    InstructionsSettled {
        /// The name asked for.
        name: &'static str,
        /// What is in use.
        settled: &'static str,
    },
    /// The program has no such method.
    MethodNotFound {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },
    /// A call has too many or too few inputs.
    InputCount {
        /// The method.
        method: String,
        /// Inputs it takes.
        want: usize,
        /// Inputs given.
        have: usize,
    },
    /// An input does not fit.
    Input {
        /// The method.
        method: Box<str>,
        /// Which input.
        index: usize,
        /// What the program calls it, if it has a name for it.
        name: Option<Box<str>>,
        /// What the method takes there.
        want: Box<str>,
        /// What was given.
        have: Box<str>,
        /// What does not fit.
        fault: Fault,
    },
    /// An instruction failed.
    Run {
        /// The method.
        method: Box<str>,
        /// The instruction's index.
        instruction: u32,
        /// The operator or backend it calls.
        callee: Box<str>,
        /// Why.
        fault: Fault,
        /// What the backend said about it, if it did.
        reason: Box<str>,
    },
    /// The method needs more memory than allowed.
    MemoryLimit {
        /// The method.
        method: String,
        /// Bytes it needs.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A session cannot go back to what another kind of session has left.
    Snapshot {
        /// The method of the session.
        method: String,
        /// That of the snapshot.
        of: String,
    },
    /// Memory could not be had.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A tensor has more dimensions than the runtime knows.
    Rank {
        /// How many.
        rank: usize,
    },
    /// A dimension order does not name every dimension once.
    DimOrder {
        /// Sizes.
        sizes: Vec<usize>,
        /// The order.
        order: Vec<u8>,
    },
    /// A tensor's bytes do not fit its sizes.
    TensorSize {
        /// Element type.
        dtype: ScalarType,
        /// Sizes.
        sizes: Vec<usize>,
        /// Bytes given.
        bytes: usize,
    },
    /// A tensor holds other elements than asked for.
    DType {
        /// What it holds.
        have: ScalarType,
        /// What was asked for.
        want: ScalarType,
    },
    /// A value is of another kind than asked for.
    Kind {
        /// What it is.
        have: &'static str,
        /// What was asked for.
        want: &'static str,
    },
    /// Something else that the runtime found.
    Core(sconce_core::Error),
}

impl Error {
    /// The number by which the C++ runtime reports such an error.
    pub fn code(&self) -> u32 {
        let code = match self {
            Error::Io { .. } => Code::AccessFailed,
            Error::Format { .. } => Code::InvalidProgram,
            Error::DuplicateData { .. }
            | Error::InstructionSet { .. }
            | Error::MethodNotFound { .. }
            | Error::InputCount { .. } => Code::InvalidArgument,
            Error::InstructionsSettled { .. } => Code::InvalidState,
            Error::MissingOperators { .. } => Code::OperatorMissing,
            Error::MissingBackends { .. } | Error::BackendUnavailable { .. } => Code::NotFound,
            Error::Backend { fault, .. } | Error::Input { fault, .. } | Error::Run { fault, .. } => fault.code,
            Error::Snapshot { .. } => Code::InvalidArgument,
            Error::MemoryLimit { .. } => Code::OutOfResources,
            Error::OutOfMemory { .. } => Code::MemoryAllocationFailed,
            Error::Rank { .. } | Error::DimOrder { .. } | Error::TensorSize { .. } => Code::InvalidArgument,
            Error::DType { .. } | Error::Kind { .. } => Code::InvalidType,
            Error::Core(error) => error.code(),
        };
        code as u32
    }

    /// The same, if it is about a run, with what a backend says about it.
    pub(crate) fn because(mut self, said: String) -> Self {
        if let Error::Run { reason, .. } = &mut self {
            *reason = said.into();
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { file, error } => write!(f, "cannot read {file}: {error}"),
            Error::Format { file, error } => write!(f, "{file}: {error}"),
            Error::DuplicateData { file, key } => {
                write!(f, "{file}: an earlier data file already has an entry named `{key}`; pass only one of them")
            }
            Error::MissingOperators { names } => {
                write!(
                    f,
                    "the program uses {} operator(s) that this build lacks: {}; ",
                    names.len(),
                    names.join(", ")
                )?;
                f.write_str("register kernels of these names with `Registry::add_kernel`, or export without them")
            }
            Error::MissingBackends { names, available } => {
                write!(
                    f,
                    "the program was exported for the backend(s) {}, which this build lacks; ",
                    names.join(", ")
                )?;
                match available.as_slice() {
                    [] => f.write_str("it has none. ")?,
                    names => write!(f, "it has {}. ", names.join(", "))?,
                }
                f.write_str("Register the backend, or export without it")
            }
            Error::BackendUnavailable { name } => write!(f, "the backend {name} cannot run on this machine"),
            Error::Backend { name, fault, reason } => {
                write!(f, "the backend {name} cannot take its part of the program: {fault}")?;
                if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
            }
            Error::InstructionSet { name, available } => {
                write!(f, "this machine has no instruction set `{name}`; it has {}", available.join(", "))
            }
            Error::InstructionsSettled { name, settled } => write!(
                f,
                "this process uses the instruction set `{settled}` already; choose `{name}` before anything else is loaded"
            ),
            Error::MethodNotFound { name, available } => {
                write!(f, "the program has no method `{name}`; it has {}", available.join(", "))
            }
            Error::InputCount { method, want, have } => {
                write!(f, "`{method}` takes {want} input(s), {have} were given")
            }
            Error::Input { method, index, name, want, have, fault } => {
                write!(f, "input {index}")?;
                name.iter().try_for_each(|name| write!(f, " ({name})"))?;
                write!(f, " of `{method}` must be {want}, but {have} was given: {fault}")
            }
            Error::Run { method, instruction, callee, fault, reason } => {
                write!(f, "`{method}` failed at instruction {instruction}, {callee}: {fault}")?;
                if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
            }
            Error::MemoryLimit { method, bytes, limit } => write!(
                f,
                "`{method}` needs {bytes} bytes, the limit is {limit}; raise it with `Options::memory_limit` \
                 (`--memory-limit`) if you trust the file"
            ),
            Error::Snapshot { method, of } => write!(
                f,
                "a session of `{method}` cannot go back to a snapshot of `{of}`: both must be of one method of one module"
            ),
            Error::OutOfMemory { bytes } => write!(f, "{bytes} bytes of memory could not be had"),
            Error::Rank { rank } => write!(f, "a tensor may have 16 dimensions at most, not {rank}"),
            Error::DimOrder { sizes, order } => {
                write!(f, "the dimension order {order:?} does not name each of the {} dimensions once", sizes.len())
            }
            Error::TensorSize { dtype, sizes, bytes } => {
                let want = sizes.iter().try_fold(dtype.size(), |n, &size| n.checked_mul(size));
                let want = want.map_or("too many to count".to_owned(), |n| format!("{n} bytes"));
                write!(f, "a {} tensor of sizes {sizes:?} has {want}, {bytes} were given", dtype.name())
            }
            Error::DType { have, want } => {
                write!(f, "the tensor holds {}, not {}", have.name(), want.name())
            }
            Error::Kind { have, want } => write!(f, "the value is {have}, not {want}"),
            Error::Core(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { error, .. } => Some(error),
            Error::Format { error, .. } => Some(error),
            Error::Core(error) => Some(error),
            _ => None,
        }
    }
}
