//! The compiler, with this runtime to compute what it wants to know.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sconce::compile::{Archive, compile, options};
//!
//! let file = std::fs::read("model.pt2")?;
//! let compiled = compile(&Archive::read(&file)?, &options(["xnnpack"])?)?;
//! std::fs::write("model.pte", compiled.program)?;
//! # Ok(())
//! # }
//! ```
use crate::{Module, Value};

pub use sconce_compiler::*;
pub use sconce_format::pt2::Archive;

/// A backend's name, and what decides which calls it runs.
type Backend = (&'static str, fn() -> Box<dyn partition::Partitioner>);

/// The backends that programs can be compiled for. To add one, add a row.
const TABLE: &[Backend] = &[("xnnpack", || Box::new(xnnpack::Xnnpack))];

/// The names of the backends that programs can be compiled for.
pub fn backends() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Default options for these backends, which choose in this order. `portable` is the name of none.
pub fn options<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Options, UnknownBackend> {
    let mut partitioners = Vec::new();
    for name in names.into_iter().filter(|name| *name != "portable") {
        let found = TABLE.iter().find(|(known, _)| *known == name);
        partitioners.push(found.ok_or_else(|| UnknownBackend(name.to_owned()))?.1());
    }
    Ok(Options { partitioners, executor: Some(Box::new(Runtime)), ..Options::default() })
}

/// A backend that programs cannot be compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBackend(pub String);

impl std::fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<_> = backends().collect();
        write!(f, "the compiler has no backend {:?}; it has {}, and portable for none", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownBackend {}

/// Runs what the compiler wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime;

impl passes::Executor for Runtime {
    fn run(&self, program: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let module = Module::load(program).map_err(|error| error.to_string())?;
        let outputs = module.forward(&[]).map_err(|error| error.to_string())?;
        let bytes = |output: &Value| match output {
            Value::Tensor(tensor) => Ok(tensor.bytes().to_vec()),
            other => Err(format!("{} is no tensor", other.kind())),
        };
        outputs.iter().map(bytes).collect()
    }
}
