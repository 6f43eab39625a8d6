//! `sconce compile`: from an exported program to one that runs.
mod calibration;
mod quantization;

use crate::failure::Failure;
use crate::model;
use sconce::{Module, Value};
use sconce_compiler::partition::{Partitioner, Report};
use sconce_compiler::passes::Executor;
use sconce_compiler::xnnpack::Xnnpack;
use sconce_compiler::{Compiled, Options};
use sconce_format::pt2::Archive;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compile an exported program (.pt2) to a program that runs on devices (.pte)
#[derive(Debug, clap::Args)]
pub(crate) struct Compile {
    /// The exported program, as torch.export.save writes it
    #[arg(value_name = "MODEL.pt2")]
    model: PathBuf,
    /// The program to write [default: MODEL.pte]
    #[arg(short, long, value_name = "MODEL.pte")]
    output: Option<PathBuf>,
    /// A backend that runs what it can; several choose in this order. `portable` leaves all to operators
    #[arg(short, long, value_enum, value_name = "NAME")]
    backend: Vec<Backend>,
    /// Print each call that a backend does not run, why, and where it came from
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    quantization: quantization::Arguments,
}

/// What runs calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// The operators of the runtime.
    Portable,
    /// XNNPACK, or what stands for it.
    Xnnpack,
}

impl Backend {
    fn partitioner(self) -> Option<Box<dyn Partitioner>> {
        match self {
            Self::Portable => None,
            Self::Xnnpack => Some(Box::new(Xnnpack)),
        }
    }
}

impl Compile {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let output = self.output.clone().unwrap_or_else(|| self.model.with_extension("pte"));
        let Compiled { program, report, quantized } = with_backends(&self.model, &self.backend, &self.quantization)?;
        std::fs::write(&output, &program)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", output.display())))?;
        if self.explain {
            report.refused.iter().try_for_each(|refused| writeln!(out, "{refused}"))?;
        }
        table(&report, out)?;
        writeln!(out, "{}: {} bytes", output.display(), program.len())?;
        if let Some(quantized) = &quantized {
            self.quantization.print(quantized, out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Who runs how many calls.
fn table(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{:<10} {:>6} {:>6}", "", "parts", "calls")?;
    for (backend, parts, calls) in report.by_backend() {
        writeln!(out, "{backend:<10} {parts:>6} {calls:>6}")?;
    }
    writeln!(out, "{:<10} {:>6} {:>6}", "operators", "", report.left)?;
    writeln!(out, "{:<10} {:>6} {:>6}", "all", report.delegated.len(), report.calls())?;
    Ok(())
}

/// The program that an exported one becomes without backends.
pub(crate) fn compile(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(with_backends(path, &[], &quantization::Arguments::default())?.program)
}

/// What an exported program becomes with these backends.
fn with_backends(
    path: &Path,
    backends: &[Backend],
    quantization: &quantization::Arguments,
) -> Result<Compiled, Failure> {
    let file = model::read(path)?;
    let failed = |error: String| Failure::new(format!("{}: {error}", path.display()));
    let archive = Archive::read(&file).map_err(|error| failed(error.to_string()))?;
    let partitioners = backends.iter().filter_map(|backend| backend.partitioner()).collect();
    let quantization = quantization.quantization(&archive)?;
    let options = Options { partitioners, quantization, executor: Some(Box::new(Here)), ..Options::default() };
    sconce_compiler::compile(&archive, &options).map_err(|error| failed(error.to_string()))
}

/// Runs what the compiler wants to know, with the runtime of this command.
struct Here;

impl Executor for Here {
    fn run(&self, program: &[u8], inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
        if !inputs.is_empty() {
            return Err("constants take no inputs".to_owned());
        }
        let module = Module::load(program).map_err(|error| error.to_string())?;
        let outputs = module.forward(&[]).map_err(|error| error.to_string())?;
        let bytes = |output: &Value| match output {
            Value::Tensor(tensor) => Ok(tensor.bytes().to_vec()),
            other => Err(format!("{other:?} is no tensor")),
        };
        outputs.iter().map(bytes).collect()
    }
}
