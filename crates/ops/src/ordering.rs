//! Order along a dimension: the largest elements, and running sums.
use crate::dense::{buffer_bytes, converted, reorder_scratch, row_major, store, wide_bytes};
use crate::elementwise::compute;
use crate::operands::misaligned;
use crate::ops;
use crate::typed::Typed;
use core::cmp::Ordering;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::reduce::Axis;
use sconce_kernels::view::view_mut;
use sconce_schema::{Sizes, normalize_dim};

/// Largest elements and running sums.
pub(crate) static OPS: &[Op] = ops! {
    "aten::topk.values" [8] writes [5, 6] scratch topk_scratch, => topk;
    "aten::cumsum.out" [5] writes [3] scratch |args| running_scratch(args, 3), => cumsum;
};

/// The dimension of argument `argument` of a row-major tensor, with the elements before and after it.
fn axis(call: &Call<'_>, x: &Tensor<'_>, argument: usize) -> Result<(usize, Axis), Fault> {
    let rank = x.shape.rank();
    let dim =
        normalize_dim(call.int(argument)?, rank).ok_or(Fault::argument(argument, "there is no such dimension"))?;
    Ok((dim, if rank == 0 { Axis::rows(1, 1) } else { Axis::of(x.sizes(), dim..dim + 1) }))
}

fn topk_scratch(args: &Args<'_>) -> usize {
    let row = args.tensor_type(0).ok().and_then(|(_, shape)| shape.sizes().iter().max().copied()).unwrap_or(1);
    let order = buffer_bytes(row.saturating_mul(8));
    let results = [5, 6].map(|out| wide_bytes(args, out)).into_iter().fold(order, usize::saturating_add);
    results.saturating_add(reorder_scratch(args, &[0])).saturating_add(wide_bytes(args, 0))
}

/// NaN counts as larger than everything; equal elements keep their order.
fn compare<T: Typed>(a: T, b: T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

fn topk(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (dim, axis) = axis(call, &x, 2)?;
    let k = usize::try_from(call.int(1)?).ok().filter(|&k| k <= axis.n);
    let k = k.ok_or(Fault::argument(1, "the dimension has only {} elements").with([axis.n]))?;
    let largest = call.bool(3)?;
    let mut sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    if let Some(size) = sizes.get_mut(dim) {
        *size = k;
    }
    let x = row_major(call, x)?;
    compute!(x.dtype, 0, C => {
        let data = converted::<C>(call, 0, x)?;
        let (out, index_out) = (call.out(5, &sizes)?, call.out(6, &sizes)?);
        let order = view_mut::<u64>(call.scratch(axis.n.saturating_mul(8))?).ok_or(misaligned(0))?;
        let values = view_mut::<C>(call.scratch(out.numel().saturating_mul(size_of::<C>()))?).ok_or(misaligned(5))?;
        let indices = view_mut::<i64>(call.scratch(out.numel().saturating_mul(8))?).ok_or(misaligned(6))?;
        for line in 0..axis.outer * axis.inner {
            let (outer, inner) = (line / axis.inner.max(1), line % axis.inner.max(1));
            let at = |n: usize, i: u64| (outer * n + i as usize) * axis.inner + inner;
            order.iter_mut().zip(0u64..).for_each(|(slot, i)| *slot = i);
            let by_value = |a: &u64, b: &u64| {
                let ascending = compare(data[at(axis.n, *a)], data[at(axis.n, *b)]);
                (if largest { ascending.reverse() } else { ascending }).then(a.cmp(b))
            };
            if k > 0 && k < axis.n {
                order.select_nth_unstable_by(k - 1, by_value);
            }
            order[..k].sort_unstable_by(by_value);
            for (rank, &i) in (0u64..).zip(&order[..k]) {
                values[at(k, rank)] = data[at(axis.n, i)];
                indices[at(k, rank)] = i as i64;
            }
        }
        store(call, 5, values, out)?;
        store(call, 6, indices, index_out)
    })
}

fn running_scratch(args: &Args<'_>, out: usize) -> usize {
    reorder_scratch(args, &[0]).saturating_add(wide_bytes(args, out)).saturating_add(wide_bytes(args, 0))
}

/// Sums up to and including each element.
fn cumsum(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (_, axis) = axis(call, &x, 1)?;
    let x = row_major(call, x)?;
    let sizes = x.shape;
    if call.tensor_type(3)?.0.is_integral(true) {
        running::<i64>(call, x, axis, sizes.sizes())
    } else if x.dtype == ScalarType::Double || call.tensor_type(3)?.0 == ScalarType::Double {
        running::<f64>(call, x, axis, sizes.sizes())
    } else {
        running::<f32>(call, x, axis, sizes.sizes())
    }
}

fn running<T: Typed>(call: &mut Call<'_>, x: Tensor<'_>, axis: Axis, sizes: &[usize]) -> Result<(), Fault> {
    let data = converted_any::<T>(call, x)?;
    let out = call.out(3, sizes)?;
    let slab = axis.n * axis.inner;
    for start in (0..axis.outer).map(|outer| outer * slab) {
        for at in start + axis.inner..start + slab {
            data[at] = data[at].plus(data[at - axis.inner]);
        }
    }
    store(call, 3, data, out)
}

/// A copy of the elements, converted.
fn converted_any<'c, T: Typed>(call: &mut Call<'c>, x: Tensor<'_>) -> Result<&'c mut [T], Fault> {
    let scratch = call.scratch(x.numel().saturating_mul(size_of::<T>()))?;
    let out = sconce_core::TensorMut { dtype: T::DTYPE, shape: x.shape, data: &mut *scratch };
    crate::dense::convert(call.parallel(), 0, x, out)?;
    view_mut(scratch).ok_or(misaligned(0))
}
