//! Weights as integers: one scale for each output channel or group, no zero point but 0.
//!
//! The largest element decides the scale, so that none is clipped. Scales may be as small as they need to be, as long as
//! the bias of the layer still fits into 32 bits in units of `scale * input scale`. Groups have scales of 16 bits in
//! payloads; they are rounded before the weights are, so that the weights make up for it.

use crate::ir::{Constants, Function, Kind, Origin, TensorType, ValueId};
use sconce_format::ScalarType;

/// Integers and what they stand for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weights {
    /// The integers, row by row.
    pub(super) integers: Vec<i8>,
    /// A scale for each channel, or row by row for each group.
    pub(super) scales: Vec<f32>,
}

/// The scale of a channel that has only zeros.
const OF_NOTHING: f32 = 1.0 / 4096.0;
/// The largest bias in units of its scale.
const LARGEST_BIAS: f32 = (1 << 30) as f32;

/// Elements with a scale for each index of a dimension. `smallest` says what scale a channel must have at least.
pub(super) fn per_channel(numbers: &[f32], sizes: &[usize], axis: usize, smallest: &dyn Fn(usize) -> f32) -> Weights {
    let channels = sizes.get(axis).copied().unwrap_or(1).max(1);
    let inner = sizes.get(axis + 1..).unwrap_or_default().iter().product::<usize>().max(1);
    let channel = |place: usize| place / inner % channels;
    let mut largest = vec![0.0f32; channels];
    for (place, number) in numbers.iter().enumerate() {
        largest[channel(place)] = largest[channel(place)].max(number.abs());
    }
    let scale = |(channel, largest): (usize, &f32)| match largest / 127.0 {
        scale if scale.is_normal() => scale.max(smallest(channel)),
        _ => OF_NOTHING,
    };
    let scales: Vec<f32> = largest.iter().enumerate().map(scale).collect();
    let integer = |(place, number): (usize, &f32)| integer(*number, scales[channel(place)], 127);
    Weights { integers: numbers.iter().enumerate().map(integer).collect(), scales }
}

/// Elements of rows with a scale for each group of `size` neighbours; four bits.
pub(super) fn per_group(numbers: &[f32], size: usize) -> Weights {
    let scale = |group: &[f32]| {
        let (low, high) = group.iter().fold((0.0f32, 0.0f32), |(low, high), &own| (low.min(own), high.max(own)));
        match half_precision((-low / 8.0).max(high / 7.0)) {
            scale if scale.is_normal() => scale,
            _ => OF_NOTHING,
        }
    };
    let scales: Vec<f32> = numbers.chunks(size.max(1)).map(scale).collect();
    let rounded = |(place, number): (usize, &f32)| {
        let integer = (number / scales[place / size.max(1)]).round_ties_even();
        integer.clamp(-8.0, 7.0) as i8
    };
    Weights { integers: numbers.iter().enumerate().map(rounded).collect(), scales }
}

/// The nearest number with the upper 16 bits of a float32.
fn half_precision(number: f32) -> f32 {
    let bits = number.to_bits();
    let rounded = bits.saturating_add(0x7fff + (bits >> 16 & 1));
    f32::from_bits(rounded & 0xffff_0000)
}

fn integer(number: f32, scale: f32, limit: i8) -> i8 {
    let limit = f32::from(limit);
    (number / scale).round_ties_even().clamp(-limit, limit) as i8
}

/// The smallest scale with which a bias fits into 32 bits.
pub(super) fn for_bias(bias: f32, input_scale: f32) -> f32 {
    (bias.abs() / (LARGEST_BIAS * input_scale)).max(f32::MIN_POSITIVE)
}

/// The elements of a constant of type float32.
pub(super) fn numbers(function: &Function, constants: &Constants<'_>, value: ValueId) -> Option<Vec<f32>> {
    let Origin::Constant(constant) = function.get(value).origin else { return None };
    if function.tensor(value)?.dtype != ScalarType::Float {
        return None;
    }
    let (elements, _) = constants.bytes(constant).as_chunks::<4>();
    Some(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// The sizes of a tensor, if they are known.
pub(super) fn sizes(function: &Function, value: ValueId) -> Option<Vec<usize>> {
    function.tensor(value)?.numbers()?.into_iter().map(|size| usize::try_from(size).ok()).collect()
}

/// A new known tensor.
pub(super) fn constant(
    function: &mut Function,
    constants: &mut Constants<'_>,
    dtype: ScalarType,
    sizes: &[usize],
    bytes: Vec<u8>,
    name: &str,
) -> ValueId {
    let constant = constants.add("", bytes);
    let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
    function.value(Kind::Tensor(TensorType::fixed(dtype, &sizes)), Origin::Constant(constant), name)
}

/// The bytes of numbers.
pub(super) fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_their_own_scales() {
        // Two channels along dimension 1 of [2, 2]: (1, 3) and (-2, 127).
        let weights = per_channel(&[1.0, -2.0, 3.0, 127.0], &[2, 2], 1, &|_| 0.0);
        assert_eq!(weights.scales, [3.0 / 127.0, 1.0]);
        assert_eq!(weights.integers, [42, -2, 127, 127]);
    }

    #[test]
    fn scales_are_as_small_as_they_may_be() {
        assert_eq!(per_channel(&[1e-6, 0.0], &[2, 1], 0, &|_| 0.0).scales, [1e-6 / 127.0, OF_NOTHING]);
        assert_eq!(per_channel(&[1e-6], &[1, 1], 0, &|_| 0.5).scales, [0.5]);
        assert_eq!(for_bias(-2.0, 0.5), 4.0 / LARGEST_BIAS);
    }

    #[test]
    fn groups_use_all_sixteen_integers() {
        let weights = per_group(&[-8.0, 7.0, 3.4, 0.0, 14.0, -1.0, 0.9, 1.1], 4);
        assert_eq!(weights.scales, [1.0, 2.0]);
        assert_eq!(weights.integers, [-8, 7, 3, 0, 7, 0, 0, 1]);
    }

    #[test]
    fn scales_of_groups_have_sixteen_bits() {
        for number in [1.0f32, 0.1, 3.3333, 1e-5] {
            let rounded = half_precision(number);
            assert_eq!(rounded.to_bits() & 0xffff, 0);
            assert!((rounded - number).abs() <= number / 256.0);
        }
    }
}
