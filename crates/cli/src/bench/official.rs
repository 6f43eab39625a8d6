//! The official runtime beside ours: a Python process that times the same program on the same inputs, turn by turn.
use crate::failure::Failure;
use crate::golden::{self, Bound};
use crate::times::Times;
use sconce::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What runs there.
const SCRIPT: &str = include_str!("official.py");

/// What a runtime takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Side {
    pub(super) load_ms: f64,
    pub(super) first_ms: f64,
    #[serde(flatten)]
    pub(super) times: Times,
}

/// What the process says first.
#[derive(Debug, Deserialize)]
struct Start {
    load_ms: f64,
    first_ms: f64,
}

/// What it says after a turn.
#[derive(Debug, Deserialize)]
struct Turn {
    times_ms: Vec<f64>,
}

/// The process. It waits while it is not its turn.
pub(super) struct Official {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
    start: Start,
    model: PathBuf,
}

impl Official {
    /// Lets it load the program and run it for the first time. All inputs must be tensors: that is what the official Python
    /// interface takes.
    pub(super) fn start(
        python: &str,
        model: &Path,
        method: &str,
        data: &[PathBuf],
        threads: usize,
        warm_up: f64,
        bound: &Bound,
    ) -> Result<Self, Failure> {
        let inputs: Option<Vec<Value>> = bound.iter().cloned().collect();
        let tensors = inputs.filter(|inputs| inputs.iter().all(|input| matches!(input, Value::Tensor(_))));
        let other = || Failure::new("the official runtime is compared on methods whose inputs are all tensors");
        let tensors = tensors.ok_or_else(other)?;
        let arrays = std::env::temp_dir().join(format!("sconce-compare-{}.npz", std::process::id()));
        golden::write(&arrays, "in", &tensors)?;
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).arg(model).arg(&arrays).arg(method);
        command.arg(threads.to_string()).arg(warm_up.to_string()).args(data);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = pipes.spawn().map_err(|error| Failure::new(format!("cannot start {python}: {error}")));
        let begun = started.and_then(|mut process| {
            let output = process.stdout.take().ok_or_else(|| Failure::new("the official runtime cannot be heard"))?;
            let (answers, start) = (BufReader::new(output), Start { load_ms: 0.0, first_ms: 0.0 });
            let mut official = Self { process, answers, start, model: model.to_owned() };
            official.start = official.hear()?;
            Ok(official)
        });
        let _ = std::fs::remove_file(&arrays);
        begun
    }

    /// Lets it run for some time, within these numbers of runs. Gives the times.
    pub(super) fn turn(&mut self, seconds: f64, runs: RangeInclusive<usize>) -> Result<Vec<f64>, Failure> {
        let line = format!("{seconds} {} {}", runs.start(), runs.end());
        let said = self.process.stdin.as_mut().map(|input| writeln!(input, "{line}").and_then(|()| input.flush()));
        match said {
            Some(Ok(())) => self.hear().map(|turn: Turn| turn.times_ms),
            _ => Err(self.failed()),
        }
    }

    /// Ends it.
    pub(super) fn finish(mut self, times: Vec<f64>) -> Result<Side, Failure> {
        drop(self.process.stdin.take());
        let ended = self.process.wait().is_ok_and(|status| status.success());
        let Start { load_ms, first_ms } = self.start;
        if ended { Ok(Side { load_ms, first_ms, times: Times::of(times) }) } else { Err(self.failed()) }
    }

    /// The next line that is an answer; libraries may print others.
    fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).is_ok_and(|length| length > 0) {
            if let Ok(answer) = serde_json::from_str(&line) {
                return Ok(answer);
            }
            line.clear();
        }
        Err(self.failed())
    }

    /// Why there is no answer, as far as the process says.
    fn failed(&mut self) -> Failure {
        drop(self.process.stdin.take());
        let mut errors = Vec::new();
        // What cannot be read says nothing.
        self.process.stderr.take().iter_mut().for_each(|pipe| _ = pipe.read_to_end(&mut errors));
        let errors = String::from_utf8_lossy(&errors);
        let reason = errors.lines().next_back().unwrap_or("it says no more");
        let failure = Failure::new(format!("the official runtime does not run {}: {reason}", self.model.display()));
        failure.hint("`--compare=PYTHON` names a Python that has executorch 1.5 or later, torch and numpy")
    }
}

impl Drop for Official {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // One that has ended already is not an error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
