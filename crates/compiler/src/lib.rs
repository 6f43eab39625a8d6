//! From an exported PyTorch program (`.pt2`) to a program that runs on a device (`.pte`).
//!
//! ```text
//! .pt2 ── import ──▶ calls ── lower ──▶ calls the runtime has ── partition ──▶ delegates ── emit ──▶ .pte
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`mod@import`] | names, mutation and views become values that are made once |
//! | [`ir`] | the form in between: calls of operators by name; [`size`]: sizes that are not known yet |
//! | [`lower`] | operators that no runtime has, in terms of those that one has |
//! | [`passes`] | what is computed twice, for nobody, or could be known already |
//! | [`partition`] | what backends run; [`xnnpack`]: what XNNPACK runs |
//! | [`signature`] | the operators that runtimes have |
//! | [`memory`] | where tensors lie |
//! | [`mod@emit`] | the instructions and the table of values |
#![forbid(unsafe_code)]

pub mod emit;
mod error;
mod import;
pub mod ir;
pub mod lower;
pub mod memory;
pub mod partition;
pub mod passes;
pub mod signature;
pub mod size;
mod sympy;
pub mod xnnpack;

pub use error::Error;
pub use import::import;

use ir::{Constants, Function};
use passes::{Executor, FoldConstants, Pass};
use sconce_format::pt2::Archive;

/// How to compile.
pub struct Options {
    /// How the program is written.
    pub emit: emit::Options,
    /// Decides where tensors lie.
    pub planner: Box<dyn memory::Planner>,
    /// A user's own passes; they run once, before the compiler's.
    pub passes: Vec<Box<dyn Pass>>,
    /// Runs what can be known already; without one, everything is left to the program.
    pub executor: Option<Box<dyn Executor>>,
    /// Decide what backends run; the first one chooses first. None: operators of the runtime run all.
    pub partitioners: Vec<Box<dyn partition::Partitioner>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            emit: emit::Options::default(),
            planner: Box::new(memory::Smallest),
            passes: Vec::new(),
            executor: None,
            partitioners: Vec::new(),
        }
    }
}

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The bytes of the `.pte` file.
    pub program: Vec<u8>,
    /// Who runs what.
    pub report: partition::Report,
}

/// Compiles a `.pt2` archive to a `.pte` program.
pub fn compile(archive: &Archive<'_>, options: &Options) -> Result<Compiled, Error> {
    let mut program = import(archive)?;
    let mut report = partition::partition(&mut program, &options.partitioners, &|function, constants| tidy(function, constants, options))?;
    for function in &mut program.functions {
        lower::lower(function, &mut program.constants)?;
        for pass in &options.passes {
            pass.run(function, &mut program.constants)?;
        }
        tidy(function, &mut program.constants, options)?;
        function.body.walk(&mut |call| report.left += usize::from(call.operator().is_some()));
    }
    let program = emit::emit(&program, &*options.planner, options.emit)?.write();
    Ok(Compiled { program, report })
}

/// Runs the compiler's own passes.
fn tidy(function: &mut Function, constants: &mut Constants<'_>, options: &Options) -> Result<(), Error> {
    let standard = passes::standard();
    passes::run(&standard, function, constants)?;
    if let Some(executor) = &options.executor {
        let fold = FoldConstants { executor: &**executor };
        if fold.run(function, constants)? > 0 {
            passes::run(&standard, function, constants)?;
        }
    }
    Ok(())
}
