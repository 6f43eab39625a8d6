//! Sorted lines and what can be read from them: the largest, the k-th, the median, the mode; running extremes.
//!
//! Equal elements keep their order, in descending order too. Where PyTorch leaves open which of equal elements is named,
//! it is the first.
use super::{Keys, Lines, NAN, across};
use crate::dense::buffer_bytes;
use crate::operands::{elements_mut, misaligned, same_type};
use crate::ops;
use crate::strided::{copy_element, layout, offsets};
use core::cmp::Ordering;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::view::view_mut;
use sconce_schema::Sizes;

/// Sorting and selection.
pub(crate) static OPS: &[Op] = ops! {
    "aten::sort.values" [6] writes [3, 4] scratch line_scratch, => |call| sort(call, 1, [3, 4]);
    "aten::sort.values_stable" [7] writes [4, 5] scratch line_scratch, => |call| sort(call, 2, [4, 5]);
    "aten::topk.values" [8] writes [5, 6] scratch line_scratch, => topk;
    "aten::kthvalue.values" [7] writes [4, 5] scratch line_scratch, => kth_value;
    "aten::median.dim_values" [6] writes [3, 4] scratch line_scratch, => |call| median(call, false);
    "aten::nanmedian.dim_values" [6] writes [3, 4] scratch line_scratch, => |call| median(call, true);
    "aten::median.out" [3] writes [1] scratch whole_scratch, => |call| median_of_all(call, false);
    "aten::nanmedian.out" [3] writes [1] scratch whole_scratch, => |call| median_of_all(call, true);
    "aten::mode.values" [6] writes [3, 4] scratch line_scratch, => mode;
    "aten::cummax.out" [5] writes [2, 3] scratch line_scratch, => |call| running_extreme(call, true);
    "aten::cummin.out" [5] writes [2, 3] scratch line_scratch, => |call| running_extreme(call, false);
};

/// Keys and positions of a line.
fn line_scratch(args: &Args<'_>) -> usize {
    let longest = args.tensor_type(0).ok().and_then(|(_, shape)| shape.sizes().iter().max().copied()).unwrap_or(1);
    2 * buffer_bytes(longest.max(1).saturating_mul(8)).min(usize::MAX / 2)
}

/// Keys and positions of all elements.
fn whole_scratch(args: &Args<'_>) -> usize {
    let count = args.tensor_type(0).map_or(0, |(dtype, _)| args.capacity(0).unwrap_or(0) / dtype.size());
    2 * buffer_bytes(count.saturating_mul(8)).min(usize::MAX / 2)
}

/// The outputs of a selection: values, and their positions where these are wanted.
#[derive(Clone, Copy)]
struct Outs<'s> {
    values: usize,
    indices: Option<usize>,
    sizes: &'s [usize],
    /// Results per line.
    count: usize,
}

/// Arranges the positions of every line and writes the first of them, with their elements. `arrange` gets the line's keys
/// and its positions in order.
fn select<'c>(
    call: &mut Call<'c>,
    lines: &Lines<'c>,
    outs: Outs<'_>,
    arrange: impl Fn(&[i64], &mut [u64]),
) -> Result<(), Fault> {
    let load = Keys::new(0, lines.x.dtype, lines.x.data, false)?;
    let keys = view_mut::<i64>(call.scratch(lines.n.saturating_mul(8))?).ok_or(misaligned(0))?;
    let order = positions(call, lines.n)?;
    let values = call.out(outs.values, outs.sizes)?;
    same_type(outs.values, values.dtype, lines.x.dtype)?;
    let (value_starts, value_step) = outputs(lines, &values.shape);
    let (mut indices, index_starts, index_step) = match outs.indices {
        None => (None, value_starts, 0),
        Some(argument) => {
            let indices = call.out(argument, outs.sizes)?;
            let (starts, step) = outputs(lines, &indices.shape);
            (Some(elements_mut::<i64>(argument, indices)?), starts, step)
        }
    };
    let places = offsets(&value_starts).zip(offsets(&index_starts));
    for (from, (value_at, index_at)) in offsets(&lines.starts).zip(places) {
        load.load(lines.x.data, from, lines.step, keys);
        order.iter_mut().zip(0u64..).for_each(|(position, i)| *position = i);
        arrange(keys, order);
        for (rank, &position) in order.iter().take(outs.count).enumerate() {
            let (source, target) = (from + position as usize * lines.step, value_at + rank * value_step);
            copy_element(lines.x.dtype.size(), lines.x.data, source, values.data, target);
            let place = indices.as_mut().and_then(|indices| indices.get_mut(index_at + rank * index_step));
            place.into_iter().for_each(|place| *place = position as i64);
        }
    }
    Ok(())
}

/// Room for the positions of a line.
fn positions<'c>(call: &mut Call<'c>, n: usize) -> Result<&'c mut [u64], Fault> {
    let bytes = call.scratch(n.saturating_mul(size_of::<u64>()))?;
    view_mut(bytes).ok_or(misaligned(0))
}

/// Where the results of lines start in an output, which has the dimension or lacks it.
fn outputs(lines: &Lines<'_>, shape: &sconce_core::Shape) -> (sconce_schema::Layout, usize) {
    let layout = layout(shape);
    if layout.rank() == lines.x.layout.rank() { across(&layout, lines.axis) } else { (layout, 0) }
}

/// Compares positions by their keys, then by themselves.
fn by_key(keys: &[i64], descending: bool) -> impl Fn(&u64, &u64) -> Ordering {
    move |&a, &b| {
        let ascending = keys[a as usize].cmp(&keys[b as usize]);
        (if descending { ascending.reverse() } else { ascending }).then(a.cmp(&b))
    }
}

/// Brings the position that would be at `rank` in a sorted line to the front.
fn bring_to_front(keys: &[i64], order: &mut [u64], rank: usize) {
    if rank < order.len() {
        order.select_nth_unstable_by(rank, by_key(keys, false));
        order.swap(0, rank);
    }
}

fn sort(call: &mut Call<'_>, dim: usize, [values, indices]: [usize; 2]) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let descending = call.bool(dim + 1)?;
    let lines = Lines::along(call, x, dim)?;
    let outs = Outs { values, indices: Some(indices), sizes: x.sizes(), count: lines.n };
    select(call, &lines, outs, |keys, order| order.sort_unstable_by(by_key(keys, descending)))
}

fn topk(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let lines = Lines::along(call, x, 2)?;
    let k = usize::try_from(call.int(1)?).ok().filter(|&k| k <= lines.n);
    let k = k.ok_or(Fault::argument(1, "the dimension has only {} elements").with([lines.n]))?;
    let largest = call.bool(3)?;
    let mut sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    sizes.get_mut(lines.axis).into_iter().for_each(|size| *size = k);
    select(call, &lines, Outs { values: 5, indices: Some(6), sizes: &sizes, count: k }, |keys, order| {
        if k > 0 && k < order.len() {
            if k <= FEW {
                return keep_first(order, k, by_key(keys, largest));
            }
            order.select_nth_unstable_by(k - 1, by_key(keys, largest));
        }
        order[..k].sort_unstable_by(by_key(keys, largest));
    })
}

/// Up to n results it pays to keep them sorted while the line is read.
const FEW: usize = 64;

/// Brings the first `k` of a line to its front, in order. Most of a long line is only compared with the last of them.
fn keep_first(line: &mut [u64], k: usize, compare: impl Fn(&u64, &u64) -> core::cmp::Ordering) {
    line[..k].sort_unstable_by(&compare);
    for i in k..line.len() {
        let next = line[i];
        if compare(&next, &line[k - 1]).is_lt() {
            let at = line[..k].partition_point(|kept| compare(kept, &next).is_lt());
            line.copy_within(at..k - 1, at + 1);
            line[at] = next;
        }
    }
}

/// One result per line; there must be something to choose from.
fn one_of_each<'c>(
    call: &mut Call<'c>,
    x: Tensor<'c>,
    lines: &Lines<'c>,
    keep: bool,
    [values, indices]: [usize; 2],
    arrange: impl Fn(&[i64], &mut [u64]),
) -> Result<(), Fault> {
    let mut sizes = Sizes::SCALAR;
    for (dim, &size) in x.sizes().iter().enumerate() {
        match dim == lines.axis {
            false => sizes.push(size),
            true if keep => sizes.push(1),
            true => Some(()),
        };
    }
    if lines.n == 0 && sizes.numel() != Some(0) {
        return Err(Fault::argument(0, "the dimension has no elements to choose from"));
    }
    select(call, lines, Outs { values, indices: Some(indices), sizes: &sizes, count: 1 }, arrange)
}

fn kth_value(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let lines = Lines::along(call, x, 2)?;
    let k = usize::try_from(call.int(1)?).ok().filter(|k| (1..=lines.n).contains(k));
    let k = k.ok_or(Fault::argument(1, "k must be in 1..={}").with([lines.n]))?;
    let keep = call.bool(3)?;
    one_of_each(call, x, &lines, keep, [4, 5], |keys, order| bring_to_front(keys, order, k - 1))
}

/// Brings the middle element to the front, of an even number the lower. NaN is the middle of every line in which it is,
/// unless it is `ignored`.
fn middle(keys: &[i64], order: &mut [u64], has_nan: bool, ignored: bool) {
    let first = keys.iter().position(|&key| key == NAN).filter(|_| has_nan);
    match first {
        Some(first) if !ignored => order.swap(0, first),
        Some(_) => {
            let numbers = keys.iter().filter(|&&key| key != NAN).count();
            bring_to_front(keys, order, numbers.saturating_sub(1) / 2);
        }
        None => bring_to_front(keys, order, keys.len().saturating_sub(1) / 2),
    }
}

fn median(call: &mut Call<'_>, ignored: bool) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let lines = Lines::along(call, x, 1)?;
    let (keep, floating) = (call.bool(2)?, x.dtype.is_floating());
    one_of_each(call, x, &lines, keep, [3, 4], |keys, order| middle(keys, order, floating, ignored))
}

fn median_of_all(call: &mut Call<'_>, ignored: bool) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    if x.numel() == 0 {
        let out = call.out(1, &[])?;
        let nan = crate::fill::element_bytes(1, out.dtype, sconce_core::Scalar::Double(f64::NAN))?;
        copy_element(out.dtype.size(), &nan, 0, out.data, 0);
        return Ok(());
    }
    let (lines, floating) = (Lines::all(x), x.dtype.is_floating());
    let outs = Outs { values: 1, indices: None, sizes: &[], count: 1 };
    select(call, &lines, outs, |keys, order| middle(keys, order, floating, ignored))
}

/// The most frequent element, of several the smallest; its last position.
fn mode(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let lines = Lines::along(call, x, 1)?;
    let keep = call.bool(2)?;
    one_of_each(call, x, &lines, keep, [3, 4], |keys, order| {
        order.sort_unstable_by(by_key(keys, false));
        let groups = order.chunk_by(|&a, &b| keys[a as usize] == keys[b as usize]);
        let longest = groups.fold(&order[..0], |best, group| if group.len() > best.len() { group } else { best });
        if let Some(&last) = longest.last() {
            order[0] = last;
        }
    })
}

/// The largest or smallest element so far, the latest of equal ones. NaN wins over all that follow.
fn running_extreme(call: &mut Call<'_>, max: bool) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (lines, floating) = (Lines::along(call, x, 1)?, x.dtype != ScalarType::Bool && x.dtype.is_floating());
    let outs = Outs { values: 2, indices: Some(3), sizes: x.sizes(), count: lines.n };
    select(call, &lines, outs, |keys, order| {
        let beats = |key: i64, best: i64| match floating && (key == NAN || best == NAN) {
            true => key == NAN,
            false if max => key >= best,
            false => key <= best,
        };
        let mut best = 0u64;
        for position in order {
            if beats(keys[*position as usize], keys[best as usize]) {
                best = *position;
            }
            *position = best;
        }
    })
}
