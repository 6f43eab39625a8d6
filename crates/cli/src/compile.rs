//! `sconce compile`: from an exported program to one that runs.
mod calibration;
mod quantization;

use crate::compare::{self, Tolerances};
use crate::failure::Failure;
use crate::{golden, model};
use sconce::compile::ggml::{Ggml, Weights};
use sconce::compile::{Archive, Compiled, Export, emit, memory::Tiers, options, options_with, partition::Report};
use sconce::{Module, Options};
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
    #[arg(short, long, value_name = "NAME")]
    backend: Vec<String>,
    /// Print each call that a backend does not run, why, and where it came from
    #[arg(long)]
    explain: bool,
    /// Write the module's tensors to a file of their own instead of the program
    #[arg(long, value_name = "WEIGHTS.ptd")]
    external_weights: Option<PathBuf>,
    /// Leave the weights of ggml's part in this file; the program then runs with `--data MODEL.gguf`
    #[arg(long, value_name = "MODEL.gguf")]
    weights: Option<PathBuf>,
    /// Let instructions carry the lines of Python that they came from
    #[arg(long)]
    stack_traces: bool,
    /// Write what each instruction and each node of a delegate came from: handles, nodes of the export, lines of Python
    #[arg(long, value_name = "MAP.json")]
    debug_map: Option<PathBuf>,
    /// A block of memory that the device sets apart for tensors: bytes (4096, 64K, 2M), or `any` without a limit. Given
    /// several times, the fastest comes first: each tensor lies in the first one where it fits as long as it is wanted
    #[arg(long, value_name = "BYTES", value_parser = arena)]
    arena: Vec<u64>,
    /// Draw where tensors lie: instructions from left to right, addresses from bottom to top
    #[arg(long, value_name = "PLAN.svg")]
    draw_memory: Option<PathBuf>,
    /// Run the program with the inputs of the export, and compare with each operator run by itself without backends
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    quantization: quantization::Arguments,
}

impl Compile {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let output = self.output.clone().unwrap_or_else(|| self.model.with_extension("pte"));
        let compiled = self.compile()?;
        write(&output, &compiled.program)?;
        if let (Some(path), Some(data)) = (&self.external_weights, &compiled.data) {
            write(path, data)?;
        }
        if let (Some(path), Some(plan)) = (&self.draw_memory, compiled.memory.first()) {
            write(path, plan.svg().as_bytes())?;
        }
        if let (Some(path), Some(map)) = (&self.debug_map, &compiled.debug) {
            write(path, map.json().as_bytes())?;
        }
        if self.explain {
            compiled.report.refused.iter().try_for_each(|refused| writeln!(out, "{refused}"))?;
        }
        table(&compiled.report, out)?;
        writeln!(out, "{}: {} bytes", output.display(), compiled.program.len())?;
        for plan in &compiled.memory {
            let parts: Vec<String> = plan.arenas.iter().map(u64::to_string).collect();
            let parts = if parts.len() > 1 { format!(" ({})", parts.join(" + ")) } else { String::new() };
            let growing = match plan.growing_arenas() {
                0 => String::new(),
                1 => ", and an arena that grows".to_owned(),
                count => format!(", and {count} arenas that grow"),
            };
            writeln!(out, "{}: {} bytes of planned memory{parts}{growing}", plan.method, plan.total())?;
        }
        if let Some(quantized) = &compiled.quantized {
            self.quantization.print(quantized, out)?;
        }
        if self.check { self.compare(&compiled, out) } else { Ok(ExitCode::SUCCESS) }
    }

    fn compile(&self) -> Result<Compiled, Failure> {
        let file = open(&self.model)?;
        let archive = archive(&self.model, file.bytes())?;
        let names = self.backend.iter().map(String::as_str);
        let own = Ggml { blocks: self.quantization.blocks(&self.backend)?, weights: self.weights(&archive)? };
        let mut options = options_with(names, &own).map_err(|error| Failure::usage(error.to_string()))?;
        options.emit = emit::Options {
            stack_traces: self.stack_traces,
            external: self.external_weights.is_some(),
            debug_map: self.debug_map.is_some(),
        };
        if !self.arena.is_empty() {
            options.planner = Box::new(Tiers { limits: self.arena.clone() });
        }
        options.quantization = self.quantization.quantization(&archive)?;
        sconce::compile::compile(&archive, &options).map_err(|error| failed(&self.model, error))
    }

    /// The weights that stay in a file.
    fn weights(&self, archive: &Archive<'_>) -> Result<Option<Weights>, Failure> {
        let Some(path) = &self.weights else { return Ok(None) };
        if !self.backend.iter().any(|backend| backend == "ggml") {
            return Err(Failure::usage("--weights is for ggml").hint("add `--backend ggml`"));
        }
        let weights = sconce::compile::weights(path)?;
        if archive.models.iter().flat_map(|model| model.names()).all(|name| weights.find(name).is_none()) {
            let (path, architecture) = (path.display(), weights.architecture());
            return Err(Failure::new(format!("{path}: it has none of the module's tensors"))
                .hint(format!("its architecture is {architecture:?}; docs/gguf.md tells which names are known")));
        }
        Ok(Some(weights))
    }

    /// Runs the program and its plain twin on the inputs of the export.
    fn compare(&self, compiled: &Compiled, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let file = open(&self.model)?;
        let archive = archive(&self.model, file.bytes())?;
        let Some(inputs) = calibration::samples(&archive) else {
            return Err(Failure::new("the export does not tell its inputs, or has several models")
                .hint("use `sconce check` with golden files"));
        };
        let data = self.external_weights.iter().chain(&self.weights).fold(Options::new(), Options::data);
        let outputs = |module: Module| -> Result<_, Failure> {
            let mut session = module.session()?;
            let bound = golden::bind(session.view(), inputs.clone()).map_err(Failure::new)?;
            Ok(session.run(&golden::borrow(&bound))?.iter().filter_map(golden::as_array).collect::<Vec<_>>())
        };
        let found = outputs(data.load(&compiled.program)?)?;
        let plain = outputs(Options::new().plan(false).load(&compile(&self.model, &[])?)?)?;
        let quantized = compiled.quantized.is_some();
        let tolerances = Tolerances { relative: quantized.then_some(4e-2), absolute: quantized.then_some(1e-1) };
        let mut failed = found.len() != plain.len();
        for (number, (found, plain)) in found.iter().zip(&plain).enumerate() {
            if let Err(complaint) = compare::compare(found, plain, &tolerances) {
                writeln!(out, "FAIL out{number} {complaint}")?;
                failed = true;
            }
        }
        writeln!(out, "{} outputs {}", found.len(), if failed { "differ" } else { "agree" })?;
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// The bytes of an arena; a K is 1024 of them, an M 1024 of those.
fn arena(text: &str) -> Result<u64, String> {
    if text == "any" {
        return Ok(u64::MAX);
    }
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    bytes.ok_or_else(|| "write bytes as 4096, 64K, 2M or any".to_owned())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn open(path: &Path) -> Result<Export, Failure> {
    Export::open(path).map_err(|error| model::unreadable(path, &error))
}

fn archive<'f>(path: &Path, file: &'f [u8]) -> Result<Archive<'f>, Failure> {
    Archive::read(file).map_err(|error| failed(path, error))
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

/// The program that an exported one becomes with these backends.
pub(crate) fn compile(path: &Path, backends: &[String]) -> Result<Vec<u8>, Failure> {
    let file = open(path)?;
    let options = options(backends.iter().map(String::as_str)).map_err(|error| Failure::usage(error.to_string()))?;
    let compiled = sconce::compile::compile(&archive(path, file.bytes())?, &options);
    Ok(compiled.map_err(|error| failed(path, error))?.program)
}
