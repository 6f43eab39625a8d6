//! `sconce compile`: from an exported program to one that runs.
use crate::failure::Failure;
use crate::model;
use sconce::{Module, Value};
use sconce_compiler::Options;
use sconce_compiler::passes::Executor;
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
}

impl Compile {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let output = self.output.clone().unwrap_or_else(|| self.model.with_extension("pte"));
        let program = compile(&self.model)?;
        std::fs::write(&output, &program)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", output.display())))?;
        writeln!(out, "{}: {} bytes", output.display(), program.len())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The program that an exported one becomes, with default options.
pub(crate) fn compile(path: &Path) -> Result<Vec<u8>, Failure> {
    let file = model::read(path)?;
    let failed = |error: String| Failure::new(format!("{}: {error}", path.display()));
    let archive = Archive::read(&file).map_err(|error| failed(error.to_string()))?;
    let options = Options { executor: Some(Box::new(Here)), ..Options::default() };
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
