//! `sconce pack`: weights in the order of this machine's kernels, for quick first runs.
use crate::failure::Failure;
use crate::model::{self, Loading};
use crate::{output, print};
use sconce::{instruction_set, packed_beside};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Pack a program's weights ahead of time, into a file beside it that later loads find
#[derive(clap::Args, Debug)]
pub(crate) struct Pack {
    /// The program
    #[arg(value_name = "MODEL.pte")]
    model: PathBuf,
    /// An instruction set to pack for, of those that `sconce --version` lists; may be given several times [default: the one
    /// in use]
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// The file [default: MODEL.packed.ptd, which is where loads look]
    #[arg(long, short, value_name = "FILE.ptd")]
    output: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
}

impl Pack {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let targets: Vec<&str> = match &self.target[..] {
            [] => vec![instruction_set()?],
            named => named.iter().map(String::as_str).collect(),
        };
        model::refuse_backends(&self.model, &self.loading.backend)?;
        let loading = self.loading.or_beside(&self.model);
        let bytes = loading.options().pack(&self.model, &targets)?;
        let path = self.output.clone().unwrap_or_else(|| packed_beside(&self.model));
        output::write(&path, &bytes)?;
        let size = print::size(bytes.len() as u64);
        writeln!(out, "wrote {}, {size}: weights for {}", path.display(), targets.join(", "))?;
        Ok(ExitCode::SUCCESS)
    }
}
