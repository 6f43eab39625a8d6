//! What quantisation costs: signal and noise of the quantised program against the one on numbers.
//!
//! Both methods become one, which computes everything twice from the same inputs, so that values can be compared run by
//! run and nothing has to be kept.

use super::Layer;
use super::calibrate::{self, Calibrator, floats};
use crate::Error;
use crate::ir::{Block, Constants, Function, ValueId};
use std::collections::HashMap;

/// How much louder a signal is than its noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ratio {
    signal: f64,
    noise: f64,
}

impl Ratio {
    pub(super) fn add(&mut self, exact: impl Iterator<Item = f32>, found: impl Iterator<Item = f32>) {
        for (exact, found) in exact.zip(found).filter(|(exact, found)| exact.is_finite() && found.is_finite()) {
            self.signal += f64::from(exact).powi(2);
            self.noise += (f64::from(exact) - f64::from(found)).powi(2);
        }
    }

    /// In decibels; infinite without noise.
    pub(super) fn decibels(self) -> f64 {
        if self.noise == 0.0 { f64::INFINITY } else { 10.0 * (self.signal / self.noise).log10() }
    }
}

/// The ratios of pairs of a value of the method on numbers and one of the quantised method.
pub(super) fn layers(
    exact: &Function,
    quantized: &Function,
    constants: &Constants<'_>,
    pairs: &[(ValueId, ValueId)],
    calibrator: &dyn Calibrator,
) -> Result<Vec<Layer>, Error> {
    let (both, renamed) = join(exact, quantized);
    let pairs: Vec<_> =
        pairs.iter().map(|(exact, own)| (renamed.get(exact).copied().unwrap_or(*exact), *own)).collect();
    let mut ratios = vec![Ratio::default(); pairs.len()];
    calibrate::compare(&both, constants, &pairs, calibrator, &mut |place, exact, found| {
        ratios[place].add(floats(exact), floats(found));
    })?;
    let layer = |((value, _), ratio): (&(ValueId, ValueId), &Ratio)| Layer {
        name: both.get(*value).name.clone(),
        decibels: ratio.decibels(),
    };
    Ok(pairs.iter().zip(&ratios).map(layer).collect())
}

/// One method that does what both do, and the names of the first one's values in it.
fn join(exact: &Function, quantized: &Function) -> (Function, HashMap<ValueId, ValueId>) {
    let (mut both, mut renamed) = (quantized.clone(), HashMap::new());
    let mut body = exact.body.clone();
    rename(&mut body, &mut both, &mut renamed);
    both.body.calls.extend(body.calls);
    (both, renamed)
}

fn rename(block: &mut Block, function: &mut Function, renamed: &mut HashMap<ValueId, ValueId>) {
    let new = |value: &mut ValueId, function: &mut Function, renamed: &mut HashMap<ValueId, ValueId>| {
        let own = function.get(*value).clone();
        let fresh = function.value(own.kind, own.origin, own.name);
        renamed.insert(*value, fresh);
        *value = fresh;
    };
    for call in &mut block.calls {
        for (_, arg) in &mut call.args {
            arg.replace(&mut |value| renamed.get(&value).copied().unwrap_or(value));
        }
        for inner in &mut call.blocks {
            inner.inputs.iter_mut().for_each(|value| new(value, function, renamed));
            rename(inner, function, renamed);
        }
        call.outputs.iter_mut().for_each(|value| new(value, function, renamed));
    }
    block.outputs.iter_mut().for_each(|value| *value = renamed.get(value).copied().unwrap_or(*value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_decibels_are_a_tenth_of_the_power() {
        let mut ratio = Ratio::default();
        ratio.add([10.0, 0.0].into_iter(), [10.0, 1.0].into_iter());
        assert!((ratio.decibels() - 20.0).abs() < 1e-9);
        ratio.add([0.0, f32::NAN].into_iter(), [3.0, 1.0].into_iter());
        assert!((ratio.decibels() - 10.0).abs() < 1e-9);
        assert_eq!(Ratio::default().decibels(), f64::INFINITY);
    }
}
