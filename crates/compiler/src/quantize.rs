//! Small integers in the place of numbers, after training and without it.
//!
//! | [`Scheme`] | weights | activations |
//! |---|---|---|
//! | `Int8` | 8 bits, a scale for each output channel | 8 bits, a grid for each value, found on calibration inputs |
//! | `Int8Dynamic` | 8 bits, a scale for each output channel | 8 bits, a grid for each row, found when the program runs |
//! | `Int4` | 4 bits, a scale for each group of a row | as before |
//!
//! The method is lowered except for the operators that matter here, batch norms are folded, and then calls of
//! `quantized_decomposed` are written around what works on integers (`plan`, `insert`, `dynamic`), as PyTorch's own
//! quantisers do. Partitioners recognise these patterns; without one, the calls run as they are, which gives the same
//! numbers but no speed.
//!
//! Grids come from what values are on calibration inputs (`calibrate`, [`observe`]); what all this costs is measured on
//! the same inputs (`accuracy`).

mod accuracy;
mod calibrate;
mod dynamic;
mod insert;
pub mod observe;
mod plan;
mod weights;

pub use calibrate::Calibrator;

use crate::Error;
use crate::ir::{Constants, Function, Origin, Output, Program, ValueId, debug_verify};
use calibrate::floats;
use observe::{Grid, Histogram};
use plan::Plan;
use std::collections::{HashMap, HashSet};

/// Which integers stand for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Weights and activations of 8 bits, grids of activations fixed.
    Int8,
    /// The same for linear layers only, grids of activations found when the program runs.
    Int8Dynamic,
    /// The same with weights of 4 bits.
    Int4 {
        /// Neighbours in a row that share a scale; a row must be a multiple of it, or has 8 bits.
        group_size: usize,
    },
}

/// How to quantise.
pub struct Quantization {
    /// Which integers stand for what.
    pub scheme: Scheme,
    /// Runs programs on inputs of their kind. [`Scheme::Int8`] needs one; the others use one to measure what they cost.
    pub calibrator: Option<Box<dyn Calibrator>>,
}

/// A value and how much louder it is than the noise that quantisation adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name in the export.
    pub name: String,
    /// The signal-to-noise ratio in dB.
    pub decibels: f64,
}

/// What quantisation did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Calls that work on integers.
    pub calls: usize,
    /// Bytes of constants that methods read, before and after.
    pub bytes: [u64; 2],
    /// The outputs of the method; empty without calibration inputs.
    pub outputs: Vec<Layer>,
    /// What calls on integers make, the worst first; empty without calibration inputs.
    pub layers: Vec<Layer>,
    /// Convolutions and linear layers that stay as they are.
    pub left: Vec<Left>,
}

/// A layer that stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Its name in the export.
    pub name: String,
    /// Why.
    pub reason: &'static str,
}

/// Whether an operator must not be rewritten before quantisation.
pub fn keeps(operator: &str) -> bool {
    plan::keeps(operator)
}

/// Quantises all methods of a program, which are lowered except for what [`keeps`] names.
pub fn quantize(program: &mut Program<'_>, quantization: &Quantization) -> Result<Report, Error> {
    let Program { functions, constants, .. } = program;
    let mut report = Report::default();
    for function in functions {
        let calibrator = quantization.calibrator.as_deref().filter(|own| own.knows(&function.name));
        report.bytes[0] += constant_bytes(function, constants);
        let exact = function.clone();
        let (made, left) = match (quantization.scheme, calibrator) {
            (Scheme::Int8, Some(calibrator)) => fixed(function, constants, calibrator)?,
            (Scheme::Int8, None) if Plan::of(function, constants, &HashSet::new()).nodes.is_empty() => {
                Outcome::default()
            }
            (Scheme::Int8, None) => {
                let name = &function.name;
                return Err(Error::unsupported(format!(
                    "int8 of the method {name:?} without inputs to calibrate it with"
                )));
            }
            (scheme, _) => dynamic::insert(function, constants, scheme),
        };
        debug_verify(function, constants, "quantisation");
        let named = |(value, reason)| Left { name: exact.get(value).name.clone(), reason };
        report.left.extend(left.into_iter().map(named));
        report.calls += made.len();
        report.bytes[1] += constant_bytes(function, constants);
        if let Some(calibrator) = calibrator {
            measure(&exact, function, constants, &made, calibrator, &mut report)?;
        }
    }
    Ok(report)
}

/// Writes groups out for runtimes that have no operator for them.
pub(crate) fn expand_groups(function: &mut Function, constants: &mut Constants<'_>) -> Result<(), Error> {
    dynamic::expand_groups(function, constants)
}

/// What was quantised: which value stands for each that a call on integers makes; and what layers that stay as they are
/// make, with the reason.
type Outcome = (Vec<(ValueId, ValueId)>, Vec<(ValueId, &'static str)>);

/// Grids for activations that calibration found.
fn fixed(
    function: &mut Function,
    constants: &mut Constants<'_>,
    calibrator: &dyn Calibrator,
) -> Result<Outcome, Error> {
    let (plan, histograms) = observed(function, constants, calibrator)?;
    let left = plan.left.iter().map(|(place, reason)| (function.body.calls[*place].outputs[0], *reason)).collect();
    let grids: HashMap<ValueId, Grid> = histograms.iter().map(|(value, own)| (*value, own.grid())).collect();
    let replaced = insert::insert(function, constants, &plan, &grids);
    let mut made: Vec<_> = replaced.into_iter().collect();
    made.sort_unstable();
    Ok((made, left))
}

/// A plan all of whose values have a grid, and what those were on the inputs, by the value that stands for a grid.
fn observed(
    function: &Function,
    constants: &Constants<'_>,
    calibrator: &dyn Calibrator,
) -> Result<(Plan, HashMap<ValueId, Histogram>), Error> {
    let mut endless = HashSet::new();
    loop {
        let plan = Plan::of(function, constants, &endless);
        let mut histograms: HashMap<ValueId, Histogram> = HashMap::new();
        let before = endless.len();
        calibrate::observe(function, constants, &plan.observed, calibrator, &mut |place, bytes| {
            let value = plan.observed[place];
            if floats(bytes).any(observe::is_endless) {
                endless.insert(value);
            }
            histograms.entry(plan.grid_of(value)).or_default().add(floats(bytes));
        })?;
        if endless.len() == before {
            return Ok((plan, histograms));
        }
    }
}

/// Compares outputs and what calls on integers make.
fn measure(
    exact: &Function,
    quantized: &Function,
    constants: &Constants<'_>,
    made: &[(ValueId, ValueId)],
    calibrator: &dyn Calibrator,
    report: &mut Report,
) -> Result<(), Error> {
    let value = |output: &Output| match output {
        Output::Value(value) => Some(*value),
        Output::Known(_) => None,
    };
    let outputs = exact.outputs.iter().zip(&quantized.outputs).filter_map(|(a, b)| Some((value(a)?, value(b)?)));
    let is_float = |(value, _): &(ValueId, ValueId)| {
        exact.tensor(*value).is_some_and(|ty| ty.dtype == sconce_format::ScalarType::Float)
    };
    let mut pairs: Vec<_> = outputs.filter(is_float).collect();
    let count = pairs.len();
    pairs.extend(made);
    let mut found = accuracy::layers(exact, quantized, constants, &pairs, calibrator)?;
    report.layers = found.split_off(count);
    report.layers.sort_by(|a, b| a.decibels.total_cmp(&b.decibels));
    report.outputs = found;
    Ok(())
}

/// Bytes of the constants that a method reads.
fn constant_bytes(function: &Function, constants: &Constants<'_>) -> u64 {
    let mut read = HashSet::new();
    function.body.walk(&mut |call| {
        call.reads(&mut |value| {
            if let Origin::Constant(constant) = function.get(value).origin {
                read.insert(constant);
            }
        });
    });
    read.into_iter().map(|constant| constants.bytes(constant).len() as u64).sum()
}

#[cfg(test)]
mod tests;
