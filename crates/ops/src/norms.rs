//! Rare reductions: norms, logarithms of sums, counts.
//!
//! Like rare element-wise functions they compute in `f64` and are called through a pointer, here once for each row of
//! reduced elements.
use crate::dense::{buffer_bytes, converted, store, store_row_major, wide_bytes};
use crate::operands::{misaligned, shape_fault};
use crate::ops;
use crate::reduction::{Dims, reduced_last};
use crate::strided::{layout, offsets};
use sconce_core::{Args, Call, Fault, Op};
use sconce_kernels::view::view_mut;

/// Norms and counts.
pub(crate) static OPS: &[Op] = ops! {
    "aten::nansum.out" [6] writes [4] scratch |args| scratch(args, 4), => |call| {
        rows(call, Some(1), Some(2), 4, &|row| total(row.iter().copied().filter(|x| !x.is_nan())))
    };
    "aten::logsumexp.out" [5] writes [3] scratch |args| scratch(args, 3), => |call| {
        rows(call, Some(1), Some(2), 3, &log_sum_exp)
    };
    "aten::count_nonzero.out" [4] writes [2] scratch |args| scratch(args, 2), => |call| {
        rows(call, Some(1), None, 2, &count_nonzero)
    };
    "aten::count_nonzero.dim_IntList_out" [4] writes [2] scratch |args| scratch(args, 2), => |call| {
        rows(call, Some(1), None, 2, &count_nonzero)
    };
    "aten::linalg_vector_norm.out" [7] writes [5] scratch |args| scratch(args, 5), => |call| {
        norms(call, Some(2), Some(3), 5)
    };
    "aten::norm.out" [6] writes [4] scratch |args| scratch(args, 4), => |call| norms(call, Some(2), Some(3), 4);
    "aten::norm.dtype_out" [7] writes [5] scratch |args| scratch(args, 5), => |call| norms(call, Some(2), Some(3), 5);
    "aten::norm.Scalar_out" [4] writes [2] scratch |args| scratch(args, 2), => |call| norms(call, None, None, 2);
    "aten::norm.ScalarOpt_dtype_out" [5] writes [3] scratch |args| scratch(args, 3), => |call| norms(call, None, None, 3);
    "aten::trace.out" [3] writes [1] scratch |args| wide_bytes(args, 0), => trace;
};

/// The elements gathered, the elements converted, the results.
fn scratch(args: &Args<'_>, out: usize) -> usize {
    let gathered = buffer_bytes(args.capacity(0).unwrap_or(0));
    gathered.saturating_add(wide_bytes(args, 0)).saturating_add(wide_bytes(args, out))
}

/// Reduces each row of elements; dimensions and whether they are kept are in arguments.
fn rows(
    call: &mut Call<'_>,
    dims: Option<usize>,
    keep: Option<usize>,
    out: usize,
    reduce: &dyn Fn(&[f64]) -> f64,
) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let keep = keep.map_or(Ok(false), |argument| call.bool(argument))?;
    let dims = Dims::new(call, &x, dims, keep)?;
    let count = dims.count(&x);
    let gathered = reduced_last(call, x, dims)?;
    let data = converted::<f64>(call, 0, gathered)?;
    let target = call.out(out, &dims.sizes)?;
    let results = view_mut::<f64>(call.scratch(target.numel().saturating_mul(8))?).ok_or(misaligned(out))?;
    if count == 0 {
        results.fill(reduce(&[]));
    } else {
        results.iter_mut().zip(data.chunks_exact(count)).for_each(|(result, row)| *result = reduce(row));
    }
    store_row_major(call, out, results, target)
}

/// The sum; of nothing it is a positive zero.
fn total(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, x| sum + x)
}

fn count_nonzero(row: &[f64]) -> f64 {
    row.iter().filter(|&&x| x != 0.0).count() as f64
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().fold(f64::NEG_INFINITY, |most, &x| if x > most || x.is_nan() { x } else { most });
    if !largest.is_finite() {
        return largest;
    }
    libm::log(total(row.iter().map(|x| libm::exp(x - largest)))) + largest
}

/// The norm of the order in argument 1, 2 if absent.
fn norms(call: &mut Call<'_>, dims: Option<usize>, keep: Option<usize>, out: usize) -> Result<(), Fault> {
    let order = call.optional(1, |args, i| args.scalar(i))?.map_or(2.0, |order| order.to_f64());
    let x = call.tensor(0)?;
    if order.is_infinite() && Dims::new(call, &x, dims, false)?.count(&x) == 0 {
        return Err(Fault::argument(0, "the largest or smallest of no elements does not exist"));
    }
    rows(call, dims, keep, out, &|row| norm(row.iter().copied(), order))
}

/// The norm of some numbers.
pub(crate) fn norm(numbers: impl Iterator<Item = f64>, order: f64) -> f64 {
    let sizes = numbers.map(f64::abs);
    match order {
        0.0 => sizes.filter(|&x| x != 0.0).count() as f64,
        1.0 => total(sizes),
        2.0 => libm::sqrt(total(sizes.map(|x| x * x))),
        f64::INFINITY => sizes.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most }),
        f64::NEG_INFINITY => sizes.fold(f64::INFINITY, |least, x| if x < least || x.is_nan() { x } else { least }),
        _ => libm::pow(total(sizes.map(|x| libm::pow(x, order))), 1.0 / order),
    }
}

/// The sum of the diagonal of a matrix: of whole numbers in int64, of others in float64.
fn trace(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let diagonal = layout(&x.shape).diagonal(0, 0, 1).map_err(shape_fault)?;
    if diagonal.rank() != 1 {
        return Err(Fault::argument(0, "a matrix is needed here, not {} dimensions").with([x.shape.rank()]));
    }
    if x.dtype.is_integral(true) {
        let data = converted::<i64>(call, 0, x)?;
        let sum = offsets(&diagonal).filter_map(|at| data.get(at)).fold(0, |sum: i64, &x| sum.wrapping_add(x));
        let target = call.out(1, &[])?;
        store(call, 1, &[sum], target)
    } else {
        let data = converted::<f64>(call, 0, x)?;
        let sum = total(offsets(&diagonal).filter_map(|at| data.get(at)).copied());
        let target = call.out(1, &[])?;
        store(call, 1, &[sum], target)
    }
}
