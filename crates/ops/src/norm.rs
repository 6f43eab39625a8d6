//! Norms of vectors along dimensions: `sum(|x|^p)^(1/p)`, in float64.
//!
//! Order 0 counts what is not zero, an infinite order takes the largest or the smallest. Powers are taken of a copy,
//! which is then summed like any other tensor.
use crate::dense::{convert, store, wide_bytes};
use crate::operands::misaligned;
use crate::ops;
use crate::reduction::{Dims, reduce_into};
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor, TensorMut};
use sconce_kernels::reduce::{Max, Min, Sum};
use sconce_kernels::view::view_mut;

/// Norms.
pub(crate) static OPS: &[Op] = ops! {
    "aten::linalg_vector_norm.out" [7] writes [5] scratch |args| scratch(args, 5), => |call| norm(call, Some(2), 5);
    "aten::norm.out" [6] writes [4] scratch |args| scratch(args, 4), => |call| norm(call, Some(2), 4);
    "aten::norm.dtype_out" [7] writes [5] scratch |args| scratch(args, 5), => |call| norm(call, Some(2), 5);
    "aten::norm.Scalar_out" [4] writes [2] scratch |args| scratch(args, 2), => |call| norm(call, None, 2);
    "aten::norm.ScalarOpt_dtype_out" [5] writes [3] scratch |args| scratch(args, 3), => |call| norm(call, None, 3);
};

fn scratch(args: &Args<'_>, out: usize) -> usize {
    wide_bytes(args, 0).saturating_add(wide_bytes(args, out))
}

/// The norm along the dimensions of argument `dims`, after which `keepdim` stands; over all without.
fn norm(call: &mut Call<'_>, dims: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let p = call.optional(1, |args, i| args.scalar(i))?.map_or(2.0, |p| p.to_f64());
    let keep = dims.map_or(Ok(false), |dims| call.bool(dims + 1))?;
    let dims = Dims::new(call, &x, dims, keep)?;
    if p.is_infinite() && dims.count(&x) == 0 {
        return Err(Fault::argument(0, "nothing has no largest or smallest element"));
    }
    let copy = call.scratch(x.numel().saturating_mul(size_of::<f64>()))?;
    let wide = TensorMut { dtype: ScalarType::Double, shape: x.shape, data: &mut *copy };
    convert(call.parallel(), 0, x, wide)?;
    let values = view_mut::<f64>(copy).ok_or(misaligned(0))?;
    let power = |x: f64| match p {
        0.0 => f64::from(u8::from(x != 0.0)),
        1.0 => x.abs(),
        2.0 => x * x,
        p if p.is_infinite() => x.abs(),
        p => libm::pow(x.abs(), p),
    };
    values.iter_mut().for_each(|x| *x = power(*x));
    let target = call.out(out, &dims.sizes)?;
    let results = call.scratch(target.numel().saturating_mul(size_of::<f64>()))?;
    let results = view_mut::<f64>(results).ok_or(misaligned(out))?;
    let x = Tensor { dtype: ScalarType::Double, ..x };
    match p {
        f64::INFINITY => reduce_into::<Max<f64>>(call, &x, values, dims, &target, results),
        f64::NEG_INFINITY => reduce_into::<Min<f64>>(call, &x, values, dims, &target, results),
        _ => reduce_into::<Sum<f64>>(call, &x, values, dims, &target, results),
    }
    let root = |x: f64| match p {
        2.0 => libm::sqrt(x),
        p if p == 0.0 || p == 1.0 || p.is_infinite() => x,
        p => libm::pow(x, 1.0 / p),
    };
    results.iter_mut().for_each(|x| *x = root(*x));
    store(call, out, results, target)
}
