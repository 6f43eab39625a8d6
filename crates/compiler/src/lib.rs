//! From an exported PyTorch program (`.pt2`) to a program that runs on a device (`.pte`).
//!
//! ```text
//! .pt2 ── import ──▶ calls ── [quantize] ── lower ──▶ calls the runtime has ── partition ──▶ delegates ── emit ──▶ .pte
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | `import` | names, mutation and views become values that are made once |
//! | [`ir`] | the form in between: calls of operators by name; [`size`]: sizes that are not known yet |
//! | [`lower`] | operators that no runtime has, in terms of those that one has |
//! | [`passes`] | what is computed twice, for nobody, or could be known already |
//! | [`mod@quantize`] | small integers in the place of numbers |
//! | [`partition`] | what backends run; [`xnnpack`]: what XNNPACK runs; [`mod@ggml`]: what ggml runs |
//! | [`signature`] | the operators that runtimes have |
//! | [`memory`] | where tensors lie |
//! | [`mod@emit`] | the instructions and the table of values |
//! | [`debug`] | what each instruction came from |
#![forbid(unsafe_code)]

mod arguments;
pub mod debug;
pub mod emit;
mod error;
pub mod ggml;
mod import;
pub mod ir;
pub mod lower;
pub mod memory;
pub mod partition;
pub mod passes;
pub mod quantize;
pub mod signature;
pub mod size;
mod sympy;
pub mod xnnpack;

pub use error::Error;
pub use import::import;

use ir::{Constants, Function, debug_verify, verify_method};
use passes::{Executor, FoldConstants, Pass};
use sconce_pt2::Archive;

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
    /// How numbers become small integers; without it, they stay what they are.
    pub quantization: Option<quantize::Quantization>,
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
            quantization: None,
            partitioners: Vec::new(),
        }
    }
}

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The bytes of the `.pte` file.
    pub program: Vec<u8>,
    /// The bytes of the `.ptd` file with the module's tensors, if they were to be kept outside.
    pub data: Option<Vec<u8>>,
    /// Who runs what.
    pub report: partition::Report,
    /// What quantisation did, if it was asked for.
    pub quantized: Option<quantize::Report>,
    /// Where the tensors of each method lie.
    pub memory: Vec<memory::Plan>,
    /// What each instruction came from, if that was asked for.
    pub debug: Option<debug::DebugMap>,
}

/// Compiles a `.pt2` archive to a `.pte` program.
pub fn compile(archive: &Archive<'_>, options: &Options) -> Result<Compiled, Error> {
    let mut program = import(archive)?;
    for function in &mut program.functions {
        for pass in &options.passes {
            pass.run(function, &mut program.constants)?;
            let wrong = |invalid| Error::Broken(format!("after the pass {:?} {invalid}", pass.name()));
            verify_method(function, &program.constants).map_err(wrong)?;
        }
    }
    let quantized = options.quantization.as_ref().map(|own| quantized(&mut program, own, options)).transpose()?;
    let tidy = |function: &mut Function, constants: &mut Constants<'_>| tidy(function, constants, options);
    let mut report = partition::partition(&mut program, &options.partitioners, &tidy)?;
    for function in &mut program.functions {
        quantize::expand_groups(function, &mut program.constants)?;
        lower::lower(function, &mut program.constants)?;
        tidy(function, &mut program.constants)?;
        function.body.walk(&mut |call| report.left += usize::from(call.operator().is_some()));
    }
    let emit::Emitted { program, data, memory, debug } = emit::emit(&program, &*options.planner, options.emit)?;
    let data = options.emit.external.then(|| data.write());
    let debug = options.emit.debug_map.then_some(debug::DebugMap { version: 1, methods: debug });
    Ok(Compiled { program: program.write(), data, report, quantized, memory, debug })
}

/// All that an archive's one model computes as a single delegate of the first partitioner, with the model's inputs and
/// outputs as they are: what an exporter asks that cuts programs itself. What a partitioner refuses is an error.
pub fn delegate(archive: &Archive<'_>, options: &Options) -> Result<ir::Delegate, Error> {
    let partitioner = options.partitioners.first().ok_or_else(|| Error::unsupported("no backend was named"))?;
    let mut program = import(archive)?;
    let [function] = &mut program.functions[..] else {
        return Err(Error::unsupported("an archive of several models as one delegate"));
    };
    let rule = |name: &str| if partitioner.keeps(name) { None } else { lower::rule(name) };
    lower::rewrite(function, &mut program.constants, &rule)?;
    tidy(function, &mut program.constants, options)?;
    partitioner.arrange(function);
    for (call, choice) in function.body.calls.iter().zip(partitioner.select(function, &program.constants)) {
        if let partition::Choice::Refuse(reason) = choice {
            return Err(Error::unsupported(reason).at(call.operator().unwrap_or("a branch"), ""));
        }
    }
    let mut delegate = partitioner.lower(&partition::Part {
        function,
        constants: &program.constants,
        calls: function.body.calls.iter().collect(),
        inputs: function.body.inputs.clone(),
        outputs: function.body.outputs.clone(),
        states: Vec::new(),
    })?;
    // The program goes, and its constants with it.
    for (_, data) in &mut delegate.data {
        *data = program.constants.data(data).to_vec().into();
    }
    Ok(delegate)
}

/// Quantises all methods, lowered as far as quantisation and partitioners want it.
fn quantized(
    program: &mut ir::Program<'_>,
    quantization: &quantize::Quantization,
    options: &Options,
) -> Result<quantize::Report, Error> {
    let wanted = |name: &str| options.partitioners.iter().any(|partitioner| partitioner.keeps(name));
    // Batch norms become part of the weights before those become integers.
    let kept = |name: &str| quantize::keeps(name) || (wanted(name) && name != "aten::batch_norm");
    for function in &mut program.functions {
        let rule = |name: &str| if kept(name) { None } else { lower::rule(name) };
        lower::rewrite(function, &mut program.constants, &rule)?;
        tidy(function, &mut program.constants, options)?;
    }
    quantize::quantize(program, quantization)
}

/// Runs the compiler's own passes.
fn tidy(function: &mut Function, constants: &mut Constants<'_>, options: &Options) -> Result<(), Error> {
    let standard = passes::standard();
    passes::run(&standard, function, constants)?;
    if let Some(executor) = &options.executor {
        let fold = FoldConstants { executor: &**executor };
        if fold.run(function, constants)? > 0 {
            debug_verify(function, constants, fold.name());
            passes::run(&standard, function, constants)?;
        }
    }
    Ok(())
}
