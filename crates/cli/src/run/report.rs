//! What calls gave, for people and for programs.
use crate::failure::Failure;
use crate::ranking::Guess;
use crate::times::Times;
use crate::{names, paint, print};
use console::{Alignment, pad_str};
use sconce::core::Method;
use sconce::{PackedWeights, Value};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What was run, and how it is told.
pub(super) struct Report {
    pub(super) model: String,
    pub(super) method: String,
    pub(super) packed: Option<PackedWeights>,
    pub(super) json: bool,
}

/// What a call gave.
pub(super) struct Answer<'a> {
    /// How long it took.
    pub(super) first_ms: f64,
    /// How long further calls took.
    pub(super) repeated: Option<Times>,
    pub(super) outputs: &'a [Value],
    /// The most likely classes, if there are labels.
    pub(super) top: Option<&'a [Guess]>,
    /// What was done to images.
    pub(super) done: &'a [String],
}

impl Answer<'_> {
    fn json(&self) -> Json {
        let values: Vec<_> = self.outputs.iter().map(print::json_value).collect();
        let mut report = json!({ "milliseconds": self.first_ms, "outputs": values });
        if let Some(times) = &self.repeated {
            report["repeated"] = json!(times);
        }
        if let Some(top) = self.top {
            report["top"] = json!(top);
        }
        if !self.done.is_empty() {
            report["preparation"] = json!(self.done);
        }
        report
    }
}

impl Report {
    /// Tells of one call.
    pub(super) fn one(&self, answer: &Answer<'_>, method: Method<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        if self.json {
            let mut report = answer.json();
            report["method"] = json!(self.method);
            if let Some(packed) = &self.packed {
                report["packed_weights"] = json!(packed_words(packed));
            }
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
        }
        answer.done.iter().try_for_each(|done| writeln!(out, "{done}"))?;
        writeln!(out, "{} {}: first run in {:.3} ms", self.model, self.method, answer.first_ms)?;
        if let Some(times) = &answer.repeated {
            let Times { min_ms, median_ms, p90_ms, p99_ms, runs, runs_per_second } = times;
            writeln!(
                out,
                "{runs} more run(s): p50 {median_ms:.3} ms, p90 {p90_ms:.3} ms, p99 {p99_ms:.3} ms, fastest {min_ms:.3} ms, \
                 {runs_per_second:.1} runs per second"
            )?;
        }
        if let Some(packed) = &self.packed {
            writeln!(out, "packed weights: {}", packed_words(packed))?;
        }
        let outputs = answer.outputs.iter().zip(names::outputs(method)).enumerate();
        let rows = outputs.map(|(index, (value, name))| (format!("out{index}"), name, print::summary(value)));
        print::table(out, "", &names::rows(rows), &[])?;
        let row = |guess: &Guess| vec![percent(guess), guess.label.clone()];
        Ok(print::table(out, "  ", &answer.top.unwrap_or_default().iter().map(row).collect::<Vec<_>>(), &[0])?)
    }

    /// Begins to tell of several calls.
    pub(super) fn lines(&self, files: &[PathBuf]) -> Lines<'_> {
        let width = files.iter().map(|file| file.display().to_string().chars().count()).max().unwrap_or(0);
        Lines { report: self, width, times: Vec::new(), failed: 0, answers: Vec::new() }
    }
}

/// Several calls, of which each has a line.
pub(super) struct Lines<'r> {
    report: &'r Report,
    width: usize,
    times: Vec<f64>,
    failed: usize,
    /// For JSON, which is printed in the end.
    answers: Vec<Json>,
}

impl Lines<'_> {
    /// Tells of a call.
    pub(super) fn add(&mut self, file: &Path, answer: &Answer<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        self.times.push(answer.first_ms);
        if self.report.json {
            let mut own = answer.json();
            own["file"] = json!(file.display().to_string());
            self.answers.push(own);
            return Ok(());
        }
        // What is done to all images alike is told once.
        if self.times.len() == 1 {
            answer.done.iter().try_for_each(|done| writeln!(out, "{done}"))?;
        }
        let said = match answer.top.and_then(<[Guess]>::first) {
            Some(guess) => format!("{}  {}", pad_str(&percent(guess), 8, Alignment::Right, None), guess.label),
            None => {
                let outputs = answer.outputs.iter().enumerate();
                outputs
                    .map(|(index, value)| format!("out{index} {}", print::summary(value)))
                    .collect::<Vec<_>>()
                    .join("; ")
            }
        };
        Ok(writeln!(out, "{:<width$}  {said}", file.display().to_string(), width = self.width)?)
    }

    /// Tells of a call that failed.
    pub(super) fn fail(&mut self, file: &Path, failure: &Failure, out: &mut dyn Write) -> Result<(), Failure> {
        self.failed += 1;
        if self.report.json {
            self.answers.push(json!({ "file": file.display().to_string(), "error": failure.message() }));
            return Ok(());
        }
        Ok(writeln!(out, "{} {}: {}", paint::bad("FAIL"), file.display(), failure.message())?)
    }

    /// Sums up.
    pub(super) fn close(self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        if self.report.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&self.answers)?)?;
        } else {
            let first = self.times.first().map_or_else(String::new, |first| format!(", the first in {first:.3} ms"));
            let rest = Times::of(self.times.get(1..).unwrap_or_default().to_vec());
            let rest = match rest.runs {
                0 => String::new(),
                _ => format!(", the others in {:.3} ms (p50) to {:.3} ms (p99)", rest.median_ms, rest.p99_ms),
            };
            writeln!(out, "{} {}: {} call(s){first}{rest}", self.report.model, self.report.method, self.times.len())?;
            self.report.packed.iter().try_for_each(|own| writeln!(out, "packed weights: {}", packed_words(own)))?;
        }
        Ok(if self.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn percent(guess: &Guess) -> String {
    let percent = guess.probability * 100.0;
    paint::share(&format!("{percent:.2} %"), percent)
}

/// What became of packed weights.
fn packed_words(packed: &PackedWeights) -> String {
    match packed {
        PackedWeights::Used { file, layers } => {
            format!("used, {} from {}", print::counted(*layers, "layer"), file.display())
        }
        PackedWeights::Unsuitable { file, reason } | PackedWeights::Refused { file, reason } => {
            format!("ignored, because {reason} ({})", file.display())
        }
        _ => "unknown".to_owned(),
    }
}
