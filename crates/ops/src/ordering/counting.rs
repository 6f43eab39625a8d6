//! How often values occur.
use crate::dense::{convert_scratch, converted, converted_row_major, store, wide_bytes};
use crate::operands::{misaligned, signed};
use crate::ops;
use sconce_core::{Args, Call, Fault, Op, ScalarType};
use sconce_kernels::view::view_mut;

/// Histograms.
pub(crate) static OPS: &[Op] = ops! {
    "aten::histc.out" [6] writes [4] scratch |args| counts_scratch(args, 4, ScalarType::Double), => histogram;
    "aten::histogram.bin_ct_out" [8] writes [5, 6] scratch |args| edges_scratch(args, 3, [5, 6]), => |call| {
        let bins = bins(call)?;
        histogram_with_edges(call, bins, 3, [5, 6])
    };
    "aten::histogram.bins_tensor_out" [7] writes [4, 5] scratch |args| {
        edges_scratch(args, 2, [4, 5]).saturating_add(wide_bytes(args, 1))
    }, => |call| {
        let (_, shape) = call.tensor_type(1)?;
        let none = Fault::argument(1, "a row of at least two edges is needed here");
        let bins = shape.numel().filter(|_| shape.rank() == 1).and_then(|edges| edges.checked_sub(1));
        histogram_with_edges(call, bins.filter(|&bins| bins > 0).ok_or(none)?, 2, [4, 5])
    };
    "aten::bincount.out" [5] writes [3] scratch |args| {
        let weights = convert_scratch(args, 1, &[ScalarType::Double]);
        counts_scratch(args, 3, ScalarType::Long).saturating_add(weights)
    }, => count_values;
};

fn counts_scratch(args: &Args<'_>, out: usize, native: ScalarType) -> usize {
    convert_scratch(args, 0, &[native]).saturating_add(wide_bytes(args, out))
}

fn edges_scratch(args: &Args<'_>, weight: usize, [counts, edges]: [usize; 2]) -> usize {
    let all = [0, weight, counts, edges];
    all.iter().map(|&argument| wide_bytes(args, argument)).fold(0, usize::saturating_add)
}

/// How many bins argument 1 asks for.
fn bins(call: &Call<'_>) -> Result<usize, Fault> {
    let bins = call.int(1)?;
    let count = usize::try_from(bins).ok().filter(|&bins| bins > 0);
    count.ok_or(Fault::argument(1, "there must be at least one bin, not {}").with_signed([bins]))
}

/// Edges at equal distances, over the range in argument 2 or that of the elements.
fn equal_edges(call: &Call<'_>, data: &[f64], edges: &mut [f64]) -> Result<(), Fault> {
    let (mut low, mut high) = match call.is_none(2)? {
        false => (call.double_in(2, 0)?, call.double_in(2, 1)?),
        true if data.is_empty() => (0.0, 1.0),
        true => data.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x))),
    };
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return Err(Fault::argument(2, "the range must be finite and must not end before it starts"));
    }
    if low == high {
        (low, high) = (low - 0.5, high + 0.5);
    }
    let last = edges.len() - 1;
    let step = (high - low) / last as f64;
    edges.iter_mut().enumerate().for_each(|(i, edge)| *edge = low + step * i as f64);
    edges[last] = high;
    Ok(())
}

/// The sum of weights between edges, of which the last belongs to the last bin, and the edges; as a density the sums are
/// divided by their total and by the width of the bin.
fn histogram_with_edges(call: &mut Call<'_>, bins: usize, weight: usize, outs: [usize; 2]) -> Result<(), Fault> {
    let (x, weights, density) = (call.tensor(0)?, call.optional_tensor(weight)?, call.bool(weight + 1)?);
    if weights.is_some_and(|weights| weights.sizes() != x.sizes()) {
        return Err(Fault::argument(weight, "there must be as many weights as elements"));
    }
    let data = converted_row_major::<f64>(call, 0, x)?;
    let weights = weights.map(|weights| converted_row_major::<f64>(call, weight, weights)).transpose()?;
    let edges = view_mut::<f64>(call.scratch((bins + 1).saturating_mul(8))?).ok_or(misaligned(outs[1]))?;
    match call.tensor(1) {
        Ok(given) => edges.copy_from_slice(converted::<f64>(call, 1, given)?),
        Err(_) => equal_edges(call, data, edges)?,
    }
    let counts = view_mut::<f64>(call.scratch(bins.saturating_mul(8))?).ok_or(misaligned(outs[0]))?;
    counts.fill(0.0);
    for (i, &x) in data.iter().enumerate().filter(|(_, x)| (edges[0]..=edges[bins]).contains(*x)) {
        let bin = edges.partition_point(|&edge| edge <= x).saturating_sub(1).min(bins - 1);
        counts[bin] += weights.map_or(1.0, |weights| weights[i]);
    }
    if density {
        let total: f64 = counts.iter().sum();
        counts.iter_mut().zip(edges.windows(2)).for_each(|(count, edge)| *count /= total * (edge[1] - edge[0]));
    }
    let (hist, bin_edges) = (call.out(outs[0], &[bins])?, call.out(outs[1], &[bins + 1])?);
    store(call, outs[0], counts, hist)?;
    store(call, outs[1], edges, bin_edges)
}

/// The number of elements in each of equal parts of a range; of the elements' own range where none is given.
fn histogram(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (bins, dtype) = (bins(call)?, x.dtype);
    let [mut low, mut high] = [call.scalar(2)?, call.scalar(3)?].map(|end| rounded(dtype, end.to_f64()));
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
        // Every operation is rounded, as it decides to which side of an edge an element goes.
        let scaled = rounded(dtype, rounded(dtype, x - low) * rounded(dtype, bins as f64));
        let bin = rounded(dtype, scaled / rounded(dtype, high - low)) as usize;
        counts[bin.min(bins - 1)] += 1.0;
    }
    store(call, 4, counts, out)
}

/// The number of an element type next to this one.
fn rounded(dtype: ScalarType, x: f64) -> f64 {
    match dtype {
        ScalarType::Float => f64::from(x as f32),
        ScalarType::Half => half::f16::from_f64(x).to_f64(),
        ScalarType::BFloat16 => half::bf16::from_f64(x).to_f64(),
        _ => x,
    }
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
