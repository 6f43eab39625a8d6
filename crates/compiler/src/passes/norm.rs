//! A batch norm after a convolution becomes a part of it.
//!
//! With known statistics a batch norm is a factor and a summand for each channel. A convolution's filters can take the
//! factor and its bias the rest, so that nothing is left to do when the program runs.

use super::{Pass, read_counts, replace};
use crate::Error;
use crate::ir::{Arg, Call, Constants, Function, Kind, Origin, TensorType, ValueId};
use sconce_format::ScalarType;
use std::collections::HashMap;

/// Folds batch norms into the convolutions before them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldBatchNorm;

const NORM: &str = "aten::_native_batch_norm_legit_no_training";

impl Pass for FoldBatchNorm {
    fn name(&self) -> &'static str {
        "fold batch norms"
    }

    fn run(&self, function: &mut Function, constants: &mut Constants<'_>) -> Result<usize, Error> {
        let counts = read_counts(function);
        let makers: HashMap<ValueId, usize> =
            function.body.calls.iter().enumerate().fold(HashMap::new(), |mut makers, (place, call)| {
                makers.extend(call.outputs.iter().map(|value| (*value, place)));
                makers
            });
        let mut replaced = HashMap::new();
        for place in 0..function.body.calls.len() {
            let call = &function.body.calls[place];
            if call.operator() != Some(NORM) || call.outputs.iter().skip(1).any(|value| counts[value.0 as usize] > 0) {
                continue;
            }
            let Arg::Value(input) = *call.arg("input") else { continue };
            let Some(&maker) = makers.get(&input).filter(|_| counts[input.0 as usize] == 1) else { continue };
            if function.body.calls[maker].operator() != Some("aten::convolution") {
                continue;
            }
            if let Some((weight, bias)) = folded(function, constants, maker, place) {
                let output = function.body.calls[place].outputs[0];
                let convolution = &mut function.body.calls[maker];
                convolution.set("weight", weight);
                convolution.set("bias", bias);
                replaced.insert(output, input);
            }
        }
        replace(function, &replaced);
        Ok(replaced.len())
    }
}

/// The filters and the bias that do both.
fn folded(
    function: &mut Function,
    constants: &mut Constants<'_>,
    convolution: usize,
    norm: usize,
) -> Option<(ValueId, ValueId)> {
    let calls = &function.body.calls;
    let (convolution, norm) = (&calls[convolution], &calls[norm]);
    let Arg::Value(weight) = *convolution.arg("weight") else { return None };
    let shape = function.tensor(weight)?.numbers()?;
    let transposed = *convolution.arg("transposed") == Arg::Bool(true);
    let groups = match convolution.arg("groups") {
        Arg::Int(groups) => usize::try_from(groups.number()?).ok()?,
        _ => 1,
    };
    if transposed && groups != 1 {
        return None;
    }
    let filters = numbers(function, constants, convolution, "weight")?;
    let axis = usize::from(transposed);
    let channels = usize::try_from(*shape.get(axis)?).ok()?;
    let of = |name: &str, default: f32| match norm.arg(name) {
        Arg::None => Some(vec![default; channels]),
        _ => numbers(function, constants, norm, name).filter(|numbers| numbers.len() == channels),
    };
    let (mean, variance) = (of("running_mean", 0.0)?, of("running_var", 1.0)?);
    let (scale, shift) = (of("weight", 1.0)?, of("bias", 0.0)?);
    let Arg::Float(epsilon) = *norm.arg("eps") else { return None };
    let bias = match convolution.arg("bias") {
        Arg::None => vec![0.0; channels],
        _ => numbers(function, constants, convolution, "bias").filter(|numbers| numbers.len() == channels)?,
    };
    let factor: Vec<f64> = scale
        .iter()
        .zip(&variance)
        .map(|(scale, variance)| f64::from(*scale) / (f64::from(*variance) + epsilon).sqrt())
        .collect();
    let inner = shape.iter().skip(axis + 1).map(|&size| usize::try_from(size).unwrap_or(1));
    let inner = inner.fold(1, usize::saturating_mul);
    let scaled = filters
        .iter()
        .enumerate()
        .map(|(place, filter)| (f64::from(*filter) * factor[place / inner.max(1) % channels]) as f32);
    let scaled: Vec<u8> = scaled.flat_map(f32::to_le_bytes).collect();
    let moved =
        (0..channels).map(|c| ((f64::from(bias[c]) - f64::from(mean[c])) * factor[c] + f64::from(shift[c])) as f32);
    let moved: Vec<u8> = moved.flat_map(f32::to_le_bytes).collect();
    let (name, ty) = (function.get(weight).name.clone(), function.tensor(weight)?.clone());
    let (scaled, moved) =
        (constants.add(format!("{name}.folded"), scaled), constants.add(format!("{name}.moved"), moved));
    let weight = function.value(Kind::Tensor(ty), Origin::Constant(scaled), name.as_str());
    let ty = TensorType::fixed(ScalarType::Float, &[channels as i64]);
    Some((weight, function.value(Kind::Tensor(ty), Origin::Constant(moved), name)))
}

/// The elements of a known argument of type float32.
fn numbers(function: &Function, constants: &Constants<'_>, call: &Call, name: &str) -> Option<Vec<f32>> {
    let Arg::Value(value) = *call.arg(name) else { return None };
    let Origin::Constant(constant) = function.get(value).origin else { return None };
    if function.tensor(value)?.dtype != ScalarType::Float {
        return None;
    }
    let (elements, _) = constants.bytes(constant).as_chunks::<4>();
    Some(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
