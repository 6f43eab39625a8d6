//! `sconce run`: calls of a method, with inputs from files.
mod files;
mod report;

use crate::arguments;
use crate::failure::Failure;
use crate::fill::{self, Fill};
use crate::golden::{self, Bound};
use crate::image_input::ImageOptions;
use crate::model::{self, Loading};
use crate::ranking::{self, Guess};
use crate::times::Times;
use files::Inputs;
use report::Report;
use sconce::{Session, Value};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Run a method of a program
#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    /// The program
    #[arg(value_name = "MODEL.pte")]
    model: PathBuf,
    /// Inputs of one call each: arrays (.npy, .npz), images (.png, .jpg), or folders of them. Of several, a line says what came
    #[arg(value_name = "FILE", conflicts_with_all = ["input", "fill"])]
    files: Vec<PathBuf>,
    /// An input: an array (.npy), several (.npz with in0, in1, ... or the inputs' names) or an image (.png, .jpg); may be given
    /// several times, in order
    #[arg(long, short, value_name = "FILE", conflicts_with = "fill")]
    input: Vec<PathBuf>,
    /// Fills all inputs instead
    #[arg(long, value_name = "WITH")]
    fill: Option<Fill>,
    /// The method [default: forward, or the only one]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Writes the outputs as out0, out1, ...
    #[arg(long, short, value_name = "FILE.npz")]
    output: Option<PathBuf>,
    /// Names of the classes, one per line: shows the five most likely
    #[arg(long, value_name = "FILE.txt")]
    labels: Option<PathBuf>,
    /// Runs N times more and tells how long that takes
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    repeat: Option<usize>,
    /// Prints outputs with all their values as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    image: ImageOptions,
    #[command(flatten)]
    loading: Loading,
}

/// Most runs of `--repeat` whose times are kept.
const MOST_RUNS: usize = 1_000_000;

impl Run {
    /// Runs the command.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let labels = self.labels.as_deref().map(ranking::read_labels).transpose()?;
        let files = files::named(&self.files)?;
        let module = model::load(&self.model, self.loading.options(), &self.loading.backend)?;
        let mut session = module.method_session(&model::method_name(&module, self.method.as_deref()))?;
        let report = Report {
            model: self.model.display().to_string(),
            method: session.method().to_owned(),
            packed: module.packed_weights().cloned(),
            json: self.json,
        };
        match files.as_slice() {
            [] | [_] => self.once(&mut session, files.first(), labels.as_deref(), &report, out),
            several => self.each(&mut session, several, labels.as_deref(), &report, out),
        }
    }

    /// One call, and its outputs in detail.
    fn once(
        &self,
        session: &mut Session,
        file: Option<&PathBuf>,
        labels: Option<&[String]>,
        report: &Report,
        out: &mut dyn Write,
    ) -> Result<ExitCode, Failure> {
        let inputs = match (self.fill, file) {
            (Some(with), _) => Inputs { bound: fill::inputs(session.view(), with)?, done: Vec::new() },
            (None, Some(file)) => files::of_one(session.view(), file, &self.image)?,
            (None, None) => files::read(session.view(), &self.input, &self.image)?,
        };
        let (outputs, first_ms) = timed(session, &inputs.bound)?;
        let repeated = self.repeat.map(|runs| repeat(session, &inputs.bound, runs)).transpose()?;
        if let Some(path) = &self.output {
            golden::write(path, "out", &outputs)?;
        }
        let top = labels.map(|labels| ranking::top(&outputs, labels, 5)).transpose()?;
        let answer = report::Answer { first_ms, repeated, outputs: &outputs, top: top.as_deref(), done: &inputs.done };
        report.one(&answer, session.view(), out)?;
        Ok(ExitCode::SUCCESS)
    }

    /// A call for each file, and a line for each call. One that fails does not keep the others from running.
    fn each(
        &self,
        session: &mut Session,
        files: &[PathBuf],
        labels: Option<&[String]>,
        report: &Report,
        out: &mut dyn Write,
    ) -> Result<ExitCode, Failure> {
        if self.output.is_some() || self.repeat.is_some() {
            let text = "--output and --repeat are for a call of its own, not for several files";
            return Err(Failure::usage(text).hint("name one file"));
        }
        let mut lines = report.lines(files);
        for file in files {
            let mut call = || -> Result<_, Failure> {
                let inputs = files::of_one(session.view(), file, &self.image)?;
                let (outputs, milliseconds) = timed(session, &inputs.bound)?;
                let top: Option<Vec<Guess>> = labels.map(|labels| ranking::top(&outputs, labels, 5)).transpose()?;
                Ok((outputs, milliseconds, top, inputs.done))
            };
            match call() {
                Ok((outputs, milliseconds, top, done)) => {
                    let top = top.as_deref();
                    let answer =
                        report::Answer { first_ms: milliseconds, repeated: None, outputs: &outputs, top, done: &done };
                    lines.add(file, &answer, out)?;
                }
                Err(failure) => lines.fail(file, &failure, out)?,
            }
        }
        lines.close(out)
    }
}

/// A call, and how many milliseconds it took.
fn timed(session: &mut Session, inputs: &Bound) -> Result<(Vec<Value>, f64), Failure> {
    let start = Instant::now();
    let outputs = session.run(&golden::borrow(inputs)).map_err(type_hint)?;
    Ok((outputs, start.elapsed().as_secs_f64() * 1e3))
}

/// The times of n calls.
fn repeat(session: &mut Session, inputs: &Bound, runs: usize) -> Result<Times, Failure> {
    if runs > MOST_RUNS {
        return Err(Failure::usage(format!("--repeat {runs}: {MOST_RUNS} runs are the most")));
    }
    let time = |_| {
        let start = Instant::now();
        session.run_with(&golden::borrow(inputs), |_| ()).map(|()| start.elapsed().as_secs_f64() * 1e3)
    };
    Ok(Times::of((0..runs).map(time).collect::<Result<_, _>>()?))
}

/// Wrong element types are mostly NumPy's float64.
fn type_hint(error: sconce::Error) -> Failure {
    let want = match &error {
        sconce::Error::Input { want, have, .. } => {
            let (want, have) = (want.split(' ').next().unwrap_or(""), have.split(' ').next().unwrap_or(""));
            (want != have).then(|| want.to_owned())
        }
        _ => None,
    };
    match want {
        Some(want) => Failure::from(error).hint(format!("convert the array in Python with x.astype(\"{want}\")")),
        None => Failure::from(error),
    }
}
