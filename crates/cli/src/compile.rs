//! `sconce compile`: from an exported program to one that runs.
mod calibration;
mod proof;
mod quantization;
mod report;

use crate::compare::Tolerances;
use crate::failure::Failure;
use crate::model;
use crate::output::Output;
use crate::progress::Progress;
use proof::Pair;
use sconce::Options;
use sconce::compile::ggml::Weights;
use sconce::compile::memory::{Plan, Tiers};
use sconce::compile::{
    Archive, BackendOptions, Compiled, Export, Options as Settings, debug::DebugMap, emit, options, options_with,
};
use sconce::format::FileKind;
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
        let path = self.output.clone().unwrap_or_else(|| self.model.with_extension("pte"));
        let progress = Progress::start("compiling");
        let file = open(&self.model)?;
        let archive = archive(&self.model, file.bytes())?;
        self.check_paths(&path)?;
        let options = self.settings(&archive)?;
        let compiled = self.compile(&archive, &options)?;
        progress.now("loading the compiled program");
        let missing = self.write(&path, &compiled)?;
        drop(progress);
        self.print(&compiled, out)?;
        let agrees = if self.check { self.compare(&archive, &compiled, options, out)? } else { true };
        writeln!(out, "{}", report::sentence(&compiled.report, &path, &compiled.program))?;
        if let Some(backends) = missing {
            writeln!(out, "it was not tried: this build lacks {backends}")?;
        }
        compiled.quantized.iter().try_for_each(|quantized| self.quantization.print_json(quantized, out))?;
        Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn compile(&self, archive: &Archive<'_>, options: &Settings) -> Result<Compiled, Failure> {
        sconce::compile::compile(archive, options).map_err(|error| failed(&self.model, error))
    }

    fn settings(&self, archive: &Archive<'_>) -> Result<Settings, Failure> {
        let names = self.backend.iter().map(String::as_str);
        let own = BackendOptions { blocks: self.quantization.blocks(&self.backend)?, weights: self.weights(archive)? };
        let mut options = options_with(names, &own).map_err(|error| Failure::usage(error.to_string()))?;
        options.emit = emit::Options {
            stack_traces: self.stack_traces,
            external: self.external_weights.is_some(),
            debug_map: self.debug_map.is_some(),
        };
        if !self.arena.is_empty() {
            options.planner = Box::new(Tiers { limits: self.arena.clone() });
        }
        options.quantization = self.quantization.quantization(archive)?;
        Ok(options)
    }

    /// Writes the program and what goes beside it, all or nothing, if the program can be loaded. The backends for that are
    /// told that this build lacks.
    fn write(&self, path: &Path, compiled: &Compiled) -> Result<Option<String>, Failure> {
        let (plan, map) = (compiled.memory.first().map(Plan::svg), compiled.debug.as_ref().map(DebugMap::json));
        let files = [
            (self.external_weights.as_deref(), compiled.data.as_deref()),
            (self.draw_memory.as_deref(), plan.as_deref().map(str::as_bytes)),
            (self.debug_map.as_deref(), map.as_deref().map(str::as_bytes)),
        ];
        let program = Output::new(path, &compiled.program)?;
        let asked = files.into_iter().filter_map(|(path, bytes)| path.zip(bytes));
        let beside = asked.map(|(path, bytes)| Output::new(path, bytes)).collect::<Result<Vec<_>, _>>()?;
        let weights = beside.first().filter(|_| compiled.data.is_some()).and_then(Output::draft);
        let missing = proof::load(&program, self.options(weights))?;
        beside.into_iter().chain([program]).try_for_each(Output::keep)?;
        Ok(missing)
    }

    /// Every file is another one.
    fn check_paths(&self, program: &Path) -> Result<(), Failure> {
        let outputs =
            [Some(program), self.external_weights.as_deref(), self.debug_map.as_deref(), self.draw_memory.as_deref()];
        let mut seen = vec![&*self.model];
        for path in outputs.into_iter().flatten() {
            let regular = !path.exists() || path.is_file();
            if regular && seen.contains(&path) {
                let text = format!("{} would be read and written, or written twice", path.display());
                return Err(
                    Failure::usage(text).hint("give each output a name of its own, the program with `-o MODEL.pte`")
                );
            }
            seen.push(path);
        }
        Ok(())
    }

    /// How to load the program, with its weights where they lie.
    fn options(&self, weights: Option<&Path>) -> Options {
        let kept = self.weights.as_deref();
        weights.into_iter().chain(kept).fold(Options::new(), Options::data)
    }

    /// Runs the program and its twin without backends, quantised alike, on the inputs of the export.
    fn compare(
        &self,
        archive: &Archive<'_>,
        compiled: &Compiled,
        mut options: Settings,
        out: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let _progress = Progress::start("comparing with each operator by itself");
        (options.partitioners, options.emit) = (Vec::new(), emit::Options::default());
        let plain = self.compile(archive, &options)?;
        let pair = Pair {
            compiled: self.options(self.external_weights.as_deref()).load(&compiled.program)?,
            plain: Options::new().plan(false).load(&plain.program)?,
        };
        let tolerances = compiled.quantized.as_ref().map_or_else(Tolerances::default, |_| Tolerances::quantised());
        pair.compare(archive, &tolerances, out)
    }

    fn print(&self, compiled: &Compiled, out: &mut dyn Write) -> Result<(), Failure> {
        if self.explain {
            compiled.report.refused.iter().try_for_each(|refused| writeln!(out, "{refused}"))?;
        }
        report::table(&compiled.report, out)?;
        compiled.memory.iter().try_for_each(|plan| report::memory(plan, out))?;
        compiled.quantized.iter().try_for_each(|quantized| self.quantization.print(quantized, out))
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

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn open(path: &Path) -> Result<Export, Failure> {
    if path.is_dir() {
        return Err(model::folder(path));
    }
    Export::open(path).map_err(|error| model::unreadable(path, &error))
}

fn archive<'f>(path: &Path, file: &'f [u8]) -> Result<Archive<'f>, Failure> {
    Archive::read(file).map_err(|error| match model::kind(file) {
        Some(FileKind::Program) => {
            let text = format!("{} is a program already", path.display());
            Failure::new(text).hint(format!("`sconce run {}` runs it", path.display()))
        }
        _ => {
            failed(path, error).hint("`torch.export.save(torch.export.export(model, (x,)), \"model.pt2\")` writes one")
        }
    })
}

/// The program that an exported one becomes with these backends.
pub(crate) fn compile(path: &Path, backends: &[String]) -> Result<Vec<u8>, Failure> {
    let file = open(path)?;
    let options = options(backends.iter().map(String::as_str)).map_err(|error| Failure::usage(error.to_string()))?;
    let compiled = sconce::compile::compile(&archive(path, file.bytes())?, &options);
    Ok(compiled.map_err(|error| failed(path, error))?.program)
}
