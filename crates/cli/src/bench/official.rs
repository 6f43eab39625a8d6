//! The official runtime beside ours: a Python process that times the same program on the same inputs.
use crate::failure::Failure;
use crate::golden::{self, Bound};
use sconce::Value;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What runs there.
const SCRIPT: &str = include_str!("official.py");

/// The official runtime's times.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Times {
    pub(crate) load_ms: f64,
    pub(crate) first_ms: f64,
    pub(crate) min_ms: f64,
    pub(crate) median_ms: f64,
    pub(crate) runs: usize,
}

/// A call to be timed.
pub(crate) struct Timing<'a> {
    pub(crate) python: &'a str,
    pub(crate) model: &'a Path,
    pub(crate) method: &'a str,
    pub(crate) data: &'a [PathBuf],
    pub(crate) threads: usize,
    pub(crate) seconds: f64,
    pub(crate) warm_up: f64,
}

impl Timing<'_> {
    /// Times it. All inputs must be tensors: that is what the official Python interface takes.
    pub(crate) fn measure(&self, bound: &Bound) -> Result<Times, Failure> {
        let inputs: Option<Vec<Value>> = bound.iter().cloned().collect();
        let tensors = inputs.filter(|inputs| inputs.iter().all(|input| matches!(input, Value::Tensor(_))));
        let other = || Failure::new("the official runtime is compared on methods whose inputs are all tensors");
        let tensors = tensors.ok_or_else(other)?;
        let arrays = std::env::temp_dir().join(format!("sconce-compare-{}.npz", std::process::id()));
        golden::write(&arrays, "in", &tensors).map_err(Failure::new)?;
        let mut command = Command::new(self.python);
        command.args(["-c", SCRIPT]).arg(self.model).arg(&arrays).arg(self.method);
        command.arg(self.threads.to_string()).args([self.seconds, self.warm_up].map(|time| time.to_string()));
        command.args(self.data);
        let output = command.output();
        let _ = std::fs::remove_file(&arrays);
        let output = output.map_err(|error| Failure::new(format!("cannot start {}: {error}", self.python)))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let last = printed.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
        last.filter(|_| output.status.success()).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let reason = errors.lines().next_back().unwrap_or("it says no more");
            let failure = Failure::new(format!("the official runtime does not run {}: {reason}", self.model.display()));
            failure.hint("`--compare=PYTHON` names a Python that has executorch 1.5 or later, torch and numpy")
        })
    }
}
