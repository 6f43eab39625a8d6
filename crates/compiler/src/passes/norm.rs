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
            let same = function.get(call.outputs[0]).kind == function.get(input).kind;
            if function.body.calls[maker].operator() != Some("aten::convolution") || !same {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().copied().flat_map(f32::to_le_bytes).collect()
    }

    /// A convolution of one channel to two and a batch norm; the last number says who else reads what lies between.
    fn folded(convolution: &str, further: &str) -> (Vec<String>, Vec<Vec<u8>>) {
        let text = format!(
            "@0 = \"w\" {:?}\n@1 = \"mean\" {:?}\n@2 = \"variance\" {:?}\nmethod \"f\"\n\
             %0: float32[1, 1, 1, 1] = input\n%1: float32[2, 1, 1, 1] = constant @0\n%2: float32[2] = constant @1\n\
             %3: float32[2] = constant @2\n%4: float32[1, 2, 1, 1] = {convolution}(input: %0, weight: %1)\n\
             %5: float32[1, 2, 1, 1], %6: float32[0], %7: float32[0] = {NORM}(input: %4, running_mean: %2, \
             running_var: %3, eps: 1.0)\noutput %5{further}",
            bytes(&[2.0, 3.0]),
            bytes(&[1.0, -1.0]),
            bytes(&[3.0, 15.0])
        );
        let mut program = parse(&text).unwrap();
        FoldBatchNorm.run(&mut program.functions[0], &mut program.constants).unwrap();
        let outputs =
            program.to_string().lines().filter(|line| line.starts_with("output")).map(str::to_owned).collect();
        (outputs, program.constants.0.iter().skip(3).map(|constant| constant.bytes.to_vec()).collect())
    }

    #[test]
    fn factors_go_into_filters_and_the_rest_into_the_bias() {
        // The factors are 1 / sqrt(3 + 1) and 1 / sqrt(15 + 1).
        let (outputs, made) = folded("aten::convolution", "");
        assert_eq!((outputs, made), (vec!["output %4".to_owned()], vec![bytes(&[1.0, 0.75]), bytes(&[-0.5, 0.25])]));
    }

    #[test]
    fn what_others_read_stays() {
        assert_eq!(folded("aten::convolution", "\noutput %4").0, ["output %5", "output %4"]);
        assert_eq!(folded("aten::abs", "").0, ["output %5"]);
    }
}
