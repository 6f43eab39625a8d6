//! Whether outputs are what golden ones say.
use super::step::{Precision, precisions};
use crate::compare::{self, Tolerances};
use crate::golden::{self, Golden};
use crate::npy;
use crate::numbers::short;
use sconce::{Session, Tensor};
use std::cell::OnceCell;

/// What became of one call.
pub(super) enum Outcome {
    /// All outputs are as they should be; the words say how near, and whether somebody should know.
    Passed { words: String, notable: bool },
    /// There was nothing to compare with.
    Skipped,
    /// What is wrong, one line each.
    Failed(Vec<String>),
}

/// How outputs are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standard {
    /// How far numbers may be apart.
    pub(super) tolerances: Tolerances,
    /// How many steps of a quantised output; 0: as if nothing were quantised.
    pub(super) steps: usize,
}

/// An output that passed.
struct Near {
    index: usize,
    error: f64,
    /// By what it passed, if not by the tolerances of its type.
    by: Option<String>,
}

/// Makes a call and compares its outputs.
pub(super) fn judge(session: &mut Session, golden: Golden, standard: &Standard) -> Result<Outcome, String> {
    let mut golden = golden.of(session.view())?;
    let inputs = golden::bind(session.view(), golden.inputs)?;
    let outputs = session.run(&golden::borrow(&inputs)).map_err(|error| error.to_string())?;
    let comparable = outputs.iter().any(|output| golden::as_array(output).is_some());
    if golden.outputs.is_empty() && comparable {
        return Ok(Outcome::Skipped);
    }
    let known = OnceCell::new();
    let (mut near, mut wrong) = (Vec::new(), Vec::new());
    for (index, output) in outputs.iter().enumerate() {
        let verdict = match (golden::as_array(output), golden.outputs.remove(&index)) {
            (Some(have), Some(want)) => {
                let want = npy::reinterpret(want, have.dtype());
                let precision = || {
                    let all = known.get_or_init(|| precisions(session.view()));
                    all.get(index).copied().unwrap_or(Precision::Full)
                };
                compare_output(&have, &want, standard, precision).map(|(error, by)| Some(Near { index, error, by }))
            }
            (Some(_), None) => Err("is not in the golden file".to_owned()),
            (None, Some(_)) => Err(format!("is {}, the golden one is an array", output.kind())),
            (None, None) => Ok(None),
        };
        match verdict {
            Ok(own) => near.extend(own),
            Err(text) => wrong.push(format!("out{index} {text}")),
        }
    }
    wrong.extend(golden.outputs.keys().map(|index| format!("out{index} is in the golden file, the method has none")));
    Ok(if wrong.is_empty() { passed(&near) } else { Outcome::Failed(wrong) })
}

/// The largest error of an output, and by what it passed if that is not its type's tolerance; or what is wrong with it.
fn compare_output(
    have: &Tensor,
    want: &Tensor,
    standard: &Standard,
    precision: impl FnOnce() -> Precision,
) -> Result<(f64, Option<String>), String> {
    let Standard { tolerances, steps } = standard;
    let difference = match compare::compare(have, want, tolerances) {
        Ok(error) => return Ok((error, None)),
        Err(difference) => difference,
    };
    let Some(error) = difference.error().filter(|_| *steps > 0) else { return Err(difference.to_string()) };
    match precision() {
        Precision::Full => Err(difference.to_string()),
        Precision::Step(step) => {
            let (taken, step_text) = (format!("{:.2}", error / step), short(step));
            let within = Tolerances { slack: *steps as f64 * step, ..*tolerances };
            match compare::compare(have, want, &within) {
                Ok(error) => Ok((error, Some(format!("{taken} of {steps} step(s) of {step_text}")))),
                Err(_) => Err(format!("{difference}, {taken} steps of {step_text}; `--steps` allows {steps}")),
            }
        }
        Precision::Coarse => {
            let coarse = Tolerances::quantised();
            let held = "rtol 0.04 and atol 0.1, as it comes of quantised values";
            match compare::compare(have, want, &coarse) {
                Ok(error) => Ok((error, Some(format!("held to {held}")))),
                Err(difference) => Err(format!("{difference}, held to {held}")),
            }
        }
    }
}

fn passed(near: &[Near]) -> Outcome {
    let say = |own: &Near| {
        let by = own.by.as_ref().map_or_else(String::new, |by| format!(", {by}"));
        format!("out{} largest error {}{by}", own.index, short(own.error))
    };
    let notable: Vec<String> = near.iter().filter(|own| own.by.is_some()).map(say).collect();
    let words = match near.iter().max_by(|a, b| a.error.total_cmp(&b.error)) {
        _ if !notable.is_empty() => notable.join("; "),
        Some(own) => say(own),
        None => "there is nothing to compare".to_owned(),
    };
    Outcome::Passed { words, notable: !notable.is_empty() }
}
