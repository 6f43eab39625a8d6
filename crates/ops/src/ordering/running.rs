//! Running sums and products along a dimension: each element with all before it.
use crate::dense::{converted, reorder_scratch, row_major, wide_bytes, write_converted};
use crate::elementwise::functions::log_add_exp;
use crate::ops;
use crate::typed::Typed;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::Isa;
use sconce_kernels::reduce::Axis;
use sconce_kernels::scan::scan;
use sconce_schema::normalize_dim;

/// Running sums and products.
pub(crate) static OPS: &[Op] = ops! {
    "aten::cumsum.out" [5] writes [3] scratch |args| running_scratch(args, 3), => |call| {
        running(call, 3, |a, b| a.wrapping_add(b), |a, b| a + b)
    };
    "aten::cumprod.out" [5] writes [3] scratch |args| running_scratch(args, 3), => |call| {
        running(call, 3, |a, b| a.wrapping_mul(b), |a, b| a * b)
    };
    "aten::logcumsumexp.out" [4] writes [2] scratch |args| running_scratch(args, 2), => |call| {
        running(call, 2, |a, _| a, log_add_exp)
    };
};

/// The dimension of argument `argument` of a row-major tensor, with the elements before and after it.
fn axis(call: &Call<'_>, x: &Tensor<'_>, argument: usize) -> Result<(usize, Axis), Fault> {
    let rank = x.shape.rank();
    let dim =
        normalize_dim(call.int(argument)?, rank).ok_or(Fault::argument(argument, "there is no such dimension"))?;
    Ok((dim, if rank == 0 { Axis::rows(1, 1) } else { Axis::of(x.sizes(), dim..dim + 1) }))
}

fn running_scratch(args: &Args<'_>, out: usize) -> usize {
    reorder_scratch(args, &[0]).saturating_add(wide_bytes(args, out)).saturating_add(wide_bytes(args, 0))
}

/// Joins each element with the result before it: whole numbers in int64, others in float64.
fn running(
    call: &mut Call<'_>,
    out: usize,
    whole: impl Fn(i64, i64) -> i64 + Sync,
    real: impl Fn(f64, f64) -> f64 + Sync,
) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (_, axis) = axis(call, &x, 1)?;
    let x = row_major(call, x)?;
    match (x.dtype, call.tensor_type(out)?.0) {
        (_, dtype) if dtype.is_integral(true) => running_in::<i64>(call, x, axis, out, whole),
        (ScalarType::Float, ScalarType::Float) => running_in::<f32>(call, x, axis, out, real),
        _ => running_in::<f64>(call, x, axis, out, real),
    }
}

fn running_in<'c, T: Typed>(
    call: &mut Call<'c>,
    x: Tensor<'c>,
    axis: Axis,
    out: usize,
    join: impl Fn(T::Sum, T::Sum) -> T::Sum + Sync,
) -> Result<(), Fault> {
    let data = converted::<T>(call, 0, x)?;
    let target = call.out(out, x.sizes())?;
    let parallel = call.parallel();
    write_converted::<T>(call, out, target, |results| {
        scan(Isa::detect(), parallel, axis, data, results, join);
        Ok(())
    })
}
