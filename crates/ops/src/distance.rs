//! Distances between rows: of two sets of vectors, or of one set with itself.
//!
//! The distance of order `p` is `sum(|a - b|^p)^(1/p)`; order 0 counts the differences that are not zero, infinity takes
//! the largest. Float32 and float64 compute in themselves, and sum in float64.
use crate::dense::{converted, reorder_scratch, row_major, store, wide_bytes};
use crate::norms::norm;
use crate::operands::{broadcast_sizes, elements, elements_mut, same_type, shape_fault};
use crate::ops;
use crate::strided::{layout, offsets};
use crate::typed::Typed;
use sconce_core::{Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::split;
use sconce_schema::shapes;

/// Distances.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_cdist_forward.out" [6] writes [4] scratch |args| reorder_scratch(args, &[0, 1]), => between;
    "aten::dist.out" [5] writes [3] scratch |args| wide_bytes(args, 0).saturating_add(wide_bytes(args, 1)), => whole;
    "aten::_pdist_forward.out" [4] writes [2] scratch |args| reorder_scratch(args, &[0]), => within;
};

/// The norm of the difference of two tensors that broadcast to each other.
fn whole(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b, p) = (call.tensor(0)?, call.tensor(1)?, call.scalar(2)?.to_f64());
    let sizes = broadcast_sizes([&a.shape, &b.shape])?;
    let spread = |shape| layout(shape).broadcast_to(&sizes).map_err(shape_fault);
    let places = offsets(&spread(&a.shape)?).zip(offsets(&spread(&b.shape)?));
    let (a, b) = (converted::<f64>(call, 0, a)?, converted::<f64>(call, 1, b)?);
    let differences = places.filter_map(|(i, j)| Some(a.get(i)? - b.get(j)?));
    let target = call.out(3, &[])?;
    store(call, 3, &[norm(differences, p)], target)
}

fn order(call: &Call<'_>, argument: usize) -> Result<f64, Fault> {
    let p = call.double(argument)?;
    if p >= 0.0 { Ok(p) } else { Err(Fault::argument(argument, "the order of a distance must not be negative")) }
}

/// The distance of order `p` between two rows.
fn distance<T: Typed>(p: f64, a: &[T], b: &[T]) -> T {
    let differences = a.iter().zip(b).map(|(a, b)| a.minus(*b).to_f64().abs());
    T::from_f64(if p == 0.0 {
        differences.filter(|&x| x != 0.0).count() as f64
    } else if p == 1.0 {
        differences.sum()
    } else if p == 2.0 {
        libm::sqrt(differences.map(|x| x * x).sum())
    } else if p == f64::INFINITY {
        differences.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most })
    } else {
        libm::pow(differences.map(|x| libm::pow(x, p)).sum(), 1.0 / p)
    })
}

/// Distances from each row of the first to each row of the second; leading dimensions broadcast.
fn between(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b, p) = (call.tensor(0)?, call.tensor(1)?, order(call, 2)?);
    same_type(1, b.dtype, a.dtype)?;
    let (a, b) = (row_major(call, a)?, row_major(call, b)?);
    match a.dtype {
        ScalarType::Float => between_rows::<f32>(call, a, b, p),
        ScalarType::Double => between_rows::<f64>(call, a, b, p),
        other => Err(crate::typed::unsupported(0, other)),
    }
}

fn between_rows<'c, T: Typed>(call: &mut Call<'c>, a: Tensor<'c>, b: Tensor<'c>, p: f64) -> Result<(), Fault> {
    let ([a_batch @ .., rows, features], [b_batch @ .., columns, b_features]) = (a.sizes(), b.sizes()) else {
        return Err(Fault::argument(0, "tensors of at least 2 dimensions are needed here"));
    };
    if features != b_features {
        return Err(Fault::argument(1, "rows have {} features and {}").with([*features, *b_features]));
    }
    let batch = shapes::broadcast([a_batch, b_batch]).map_err(shape_fault)?;
    let (rows, columns, features) = (*rows, *columns, *features);
    let mut sizes = batch;
    let room = sizes.push(rows).and_then(|()| sizes.push(columns));
    room.ok_or(Fault::argument(0, "the tensor has too many dimensions"))?;
    let out = call.out(4, &sizes)?;
    if !out.shape.is_contiguous() {
        return Err(Fault::argument(4, "a row-major output is needed here"));
    }
    let (left, right, out) = (elements::<T>(0, &a)?, elements::<T>(1, &b)?, elements_mut::<T>(4, out)?);
    split::chunks(call.parallel(), out, columns.max(1), |row, out| {
        let (item, row) = (row / rows.max(1), row % rows.max(1));
        let left = &left[(own_item(item, &batch, a_batch) * rows + row) * features..][..features];
        let others = &right[own_item(item, &batch, b_batch) * columns * features..];
        for (column, out) in out.iter_mut().enumerate() {
            *out = distance(p, left, &others[column * features..][..features]);
        }
    });
    Ok(())
}

/// Item `index` of a batch, among the items of an operand that broadcasts to it.
pub(crate) fn own_item(mut index: usize, batch: &[usize], own: &[usize]) -> usize {
    let (mut item, mut step) = (0, 1);
    for (&size, &own) in batch.iter().rev().zip(own.iter().rev()) {
        item += if own == 1 { 0 } else { index % size * step };
        (index, step) = (index / size, step * own);
    }
    item
}

/// Distances of each row to all after it, one after the other.
fn within(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, p) = (call.tensor(0)?, order(call, 1)?);
    let x = row_major(call, x)?;
    match x.dtype {
        ScalarType::Float => within_rows::<f32>(call, x, p),
        ScalarType::Double => within_rows::<f64>(call, x, p),
        other => Err(crate::typed::unsupported(0, other)),
    }
}

fn within_rows<'c, T: Typed>(call: &mut Call<'c>, x: Tensor<'c>, p: f64) -> Result<(), Fault> {
    let &[rows, features] = x.sizes() else {
        return Err(Fault::argument(0, "a matrix is needed here, not {} dimensions").with([x.shape.rank()]));
    };
    let count = rows.checked_mul(rows.saturating_sub(1)).ok_or(Fault::argument(0, "the matrix has too many rows"))? / 2;
    let out = call.out(2, &[count])?;
    let (x, out) = (elements::<T>(0, &x)?, elements_mut::<T>(2, out)?);
    let row = |i: usize| &x[i * features..][..features];
    let pairs = (0..rows).flat_map(|i| (i + 1..rows).map(move |j| (i, j)));
    out.iter_mut().zip(pairs).for_each(|(out, (i, j))| *out = distance(p, row(i), row(j)));
    Ok(())
}
