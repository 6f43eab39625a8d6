//! `sconce compile --quantize`: what to make integers of, and what it cost.
use super::calibration::Calibration;
use crate::arguments;
use crate::failure::Failure;
use crate::print;
use sconce::compile::Archive;
use sconce::compile::ggml::Blocks;
use sconce::compile::quantize::{Layer, Quantization, Report, Scheme};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// How to quantise.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Arguments {
    /// Make small integers of weights and activations
    #[arg(long, value_enum, value_name = "SCHEME")]
    quantize: Option<Integers>,
    /// Inputs like those that the program will see, for --quantize: in0, in1, ... of one call, or of many if each array
    /// has one dimension more in front; for one of several methods METHOD=INPUTS.npz [default: the inputs of the export]
    #[arg(long, value_name = "INPUTS.npz", num_args = 1.., requires = "quantize")]
    calibrate: Vec<PathBuf>,
    /// Neighbours in a row of a weight that share a scale, for int4
    #[arg(long, value_name = "N", default_value = "32", value_parser = arguments::count, requires = "quantize")]
    group_size: usize,
    /// Print what quantisation cost as JSON, after everything else on a line of its own
    #[arg(long, requires = "quantize")]
    json: bool,
}

/// Which integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Integers {
    /// Weights and activations of 8 bits, fixed by calibration
    Int8,
    /// Linear layers: weights of 8 bits, activations of 8 bits row by row when the program runs
    Int8Dynamic,
    /// The same with weights of 4 bits in groups
    Int4,
    /// For ggml: weights of linear layers and embeddings in blocks of 8 bits
    #[value(name = "q8_0")]
    Q8_0,
    /// For ggml: blocks of 4 bits
    #[value(name = "q4_0")]
    Q4_0,
    /// For ggml: large blocks of 4 bits with scales and offsets
    #[value(name = "q4_k")]
    Q4K,
    /// For ggml: large blocks of 5 bits with scales and offsets
    #[value(name = "q5_k")]
    Q5K,
    /// For ggml: large blocks of 6 bits
    #[value(name = "q6_k")]
    Q6K,
}

impl Integers {
    /// The name of ggml's blocks, if it is one of them.
    fn blocks(self) -> Option<&'static str> {
        match self {
            Self::Int8 | Self::Int8Dynamic | Self::Int4 => None,
            Self::Q8_0 => Some("q8_0"),
            Self::Q4_0 => Some("q4_0"),
            Self::Q4K => Some("q4_k"),
            Self::Q5K => Some("q5_k"),
            Self::Q6K => Some("q6_k"),
        }
    }
}

impl Arguments {
    /// What the compiler is to do.
    pub(super) fn quantization(&self, archive: &Archive<'_>) -> Result<Option<Quantization>, Failure> {
        let scheme = match self.quantize {
            None | Some(Integers::Q8_0 | Integers::Q4_0 | Integers::Q4K | Integers::Q5K | Integers::Q6K) => {
                return Ok(None);
            }
            Some(Integers::Int8) => Scheme::Int8,
            Some(Integers::Int8Dynamic) => Scheme::Int8Dynamic,
            Some(Integers::Int4) => {
                sconce::compile::in_groups(Scheme::Int4 { group_size: 32 }, self.group_size).map_err(Failure::usage)?
            }
        };
        let calibration = if self.calibrate.is_empty() {
            if scheme == Scheme::Int8 {
                eprintln!("warning: calibrated with the inputs of the export only; pass real ones with --calibrate");
            }
            Calibration::of_export(archive)
        } else {
            Calibration::read(archive, &self.calibrate)?
        };
        Ok(Some(Quantization { scheme, calibrator: Some(Box::new(calibration)) }))
    }

    /// The blocks that weights for ggml become.
    pub(super) fn blocks(&self, backends: &[String]) -> Result<Option<Blocks>, Failure> {
        let Some(name) = self.quantize.and_then(Integers::blocks) else { return Ok(None) };
        if !backends.iter().any(|backend| backend == "ggml") {
            return Err(Failure::usage(format!("{name} is for ggml")).hint("add `--backend ggml`"));
        }
        sconce::compile::blocks(name).transpose().map_err(Failure::new)
    }

    /// Prints what quantisation did, if it is not to be JSON.
    pub(super) fn print(&self, report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        let [before, after] = report.bytes.map(print::size);
        writeln!(out, "{} calls on integers, weights of {before} became {after}", report.calls)?;
        for left in report.left.iter().take(WORST) {
            writeln!(out, "{} stays float32: {}", left.name, left.reason)?;
        }
        if report.left.len() > WORST {
            writeln!(out, "and {} more layers (--json names all)", report.left.len() - WORST)?;
        }
        for (number, output) in report.outputs.iter().enumerate() {
            writeln!(out, "out{number}: {:.1} dB above the noise of quantisation", output.decibels)?;
        }
        for layer in report.layers.iter().take(WORST) {
            writeln!(out, "{:>8.1} dB {}", layer.decibels, layer.name)?;
        }
        Ok(())
    }

    /// Prints it as JSON, if it is to be that.
    pub(super) fn print_json(&self, report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
        if self.json {
            serde_json::to_writer(&mut *out, &Cost::of(report))?;
            writeln!(out)?;
        }
        Ok(())
    }
}

/// How many layers are printed.
const WORST: usize = 5;

/// What quantisation did, as JSON.
#[derive(Serialize)]
struct Cost<'r> {
    calls: usize,
    weight_bytes_before: u64,
    weight_bytes_after: u64,
    outputs: Vec<Ratio<'r>>,
    layers: Vec<Ratio<'r>>,
    left: Vec<Float<'r>>,
}

#[derive(Serialize)]
struct Float<'r> {
    name: &'r str,
    reason: &'static str,
}

#[derive(Serialize)]
struct Ratio<'r> {
    name: &'r str,
    /// None without noise.
    decibels: Option<f64>,
}

impl<'r> Cost<'r> {
    fn of(report: &'r Report) -> Self {
        let ratio = |layer: &'r Layer| Ratio {
            name: &layer.name,
            decibels: Some(layer.decibels).filter(|own| own.is_finite()),
        };
        let [weight_bytes_before, weight_bytes_after] = report.bytes;
        Self {
            calls: report.calls,
            weight_bytes_before,
            weight_bytes_after,
            outputs: report.outputs.iter().map(ratio).collect(),
            layers: report.layers.iter().map(ratio).collect(),
            left: report.left.iter().map(|left| Float { name: &left.name, reason: left.reason }).collect(),
        }
    }
}
