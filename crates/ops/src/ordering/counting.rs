//! How often values occur.
use crate::dense::{convert_scratch, converted, store, wide_bytes};
use crate::operands::{misaligned, signed};
use crate::ops;
use sconce_core::{Args, Call, Fault, Op, ScalarType};
use sconce_kernels::view::view_mut;

/// Histograms.
pub(crate) static OPS: &[Op] = ops! {
    "aten::histc.out" [6] writes [4] scratch |args| counts_scratch(args, 4, ScalarType::Double), => histogram;
    "aten::bincount.out" [5] writes [3] scratch |args| {
        let weights = convert_scratch(args, 1, &[ScalarType::Double]);
        counts_scratch(args, 3, ScalarType::Long).saturating_add(weights)
    }, => count_values;
};

fn counts_scratch(args: &Args<'_>, out: usize, native: ScalarType) -> usize {
    convert_scratch(args, 0, &[native]).saturating_add(wide_bytes(args, out))
}

/// The number of elements in each of equal parts of a range; of the elements' own range where none is given.
fn histogram(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let bins = usize::try_from(call.int(1)?).ok().filter(|&bins| bins > 0);
    let bins = bins.ok_or(Fault::argument(1, "there must be at least one bin, not {}").with_signed([call.int(1)?]))?;
    let (mut low, mut high) = (call.scalar(2)?.to_f64(), call.scalar(3)?.to_f64());
    let data = converted::<f64>(call, 0, x)?;
    if low == high && !data.is_empty() {
        low = data.iter().copied().fold(f64::INFINITY, f64::min);
        high = data.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Err(Fault::argument(2, "the range must be finite and must not end before it starts"));
    }
    let out = call.out(4, &[bins])?;
    let counts = view_mut::<f64>(call.scratch(bins.saturating_mul(8))?).ok_or(misaligned(4))?;
    counts.fill(0.0);
    for &x in data.iter().filter(|x| (low..=high).contains(*x)) {
        let bin = ((x - low) * bins as f64 / (high - low)) as usize;
        counts[bin.min(bins - 1)] += 1.0;
    }
    store(call, 4, counts, out)
}

/// How often each number from 0 on occurs, or the sum of the weights of its occurrences.
fn count_values(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, weights, least) = (call.tensor(0)?, call.optional_tensor(1)?, call.int(2)?);
    let least = usize::try_from(least).map_err(|_| Fault::argument(2, "{} is not a length").with_signed([least]))?;
    if x.shape.rank() != 1 || !x.dtype.is_integral(true) {
        return Err(Fault::argument(0, "a row of whole numbers is needed here"));
    }
    if weights.is_some_and(|weights| weights.sizes() != x.sizes()) {
        return Err(Fault::argument(1, "there must be as many weights as numbers"));
    }
    let data = converted::<i64>(call, 0, x)?;
    let (smallest, largest) = (data.iter().min().copied().unwrap_or(0), data.iter().max().copied().unwrap_or(-1));
    if smallest < 0 {
        return Err(Fault::argument(0, "{} is negative and cannot be counted").with_signed([smallest]));
    }
    let len = usize::try_from(largest.saturating_add(1)).unwrap_or(0).max(least);
    let weights = weights.map(|weights| converted::<f64>(call, 1, weights)).transpose()?;
    let out = call.out(3, &[len])?;
    let counts = view_mut::<f64>(call.scratch(len.saturating_mul(8))?).ok_or(misaligned(3))?;
    counts.fill(0.0);
    for (i, &x) in data.iter().enumerate() {
        let weight = weights.map_or(1.0, |weights| weights[i]);
        let place = usize::try_from(x).ok().and_then(|x| counts.get_mut(x));
        *place.ok_or(Fault::argument(0, "{} is too large to count").with_signed([signed(len)]))? += weight;
    }
    store(call, 3, counts, out)
}
