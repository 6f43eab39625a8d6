//! Places in sorted rows.
use super::{Keys, across, real_key};
use crate::elementwise::binary::source;
use crate::elementwise::{Source, storer};
use crate::indexing::Positions;
use crate::ops;
use crate::strided::{Target, View, layout, offsets};
use sconce_core::{Call, Fault, Op, Scalar, Shape, Tensor};
use sconce_kernels::Isa;

/// Binary search.
pub(crate) static OPS: &[Op] = ops! {
    "aten::bucketize.Tensor_out" [6] writes [4] => |call| bucketize(call);
    "aten::bucketize.Scalar_out" [6] writes [4] => |call| bucketize(call);
    "aten::searchsorted.Tensor_out" [8] writes [6] => |call| search_sorted(call);
    "aten::searchsorted.Scalar_out" [8] writes [6] => |call| search_sorted(call);
};

fn bucketize(call: &mut Call<'_>) -> Result<(), Fault> {
    let (values, boundaries, right) = (source(call, 0)?, call.tensor(1)?, call.bool(3)?);
    if boundaries.shape.rank() != 1 {
        return Err(
            Fault::argument(1, "the boundaries must have one dimension, not {}").with([boundaries.shape.rank()])
        );
    }
    search(call, Rows { argument: 1, sequence: boundaries, sorter: None }, values, right, 4)
}

fn search_sorted(call: &mut Call<'_>) -> Result<(), Fault> {
    let (sequence, values, mut right) = (call.tensor(0)?, source(call, 1)?, call.bool(3)?);
    if !call.is_none(4)? {
        right |= match call.str(4)? {
            "left" => false,
            "right" => true,
            _ => return Err(Fault::argument(4, "the side must be `left` or `right`")),
        };
    }
    let sorter = call.optional_tensor(5)?;
    search(call, Rows { argument: 0, sequence, sorter }, values, right, 6)
}

/// Sorted rows: one for all values, or one for each row of values.
struct Rows<'c> {
    argument: usize,
    sequence: Tensor<'c>,
    /// Positions that put a row in order, where it is not.
    sorter: Option<Tensor<'c>>,
}

fn key_of(scalar: Scalar, real: bool) -> i64 {
    if real { real_key(scalar.to_f64()) } else { scalar.to_i64() }
}

/// How many elements of a row are below a value, or (`right`) not above it.
fn search(call: &mut Call<'_>, rows: Rows<'_>, values: Source<'_>, right: bool, out: usize) -> Result<(), Fault> {
    let sequence = View::from(rows.sequence);
    let shape = values.shape();
    let (axis, per_row) = check_rows(&rows, &shape)?;
    let n = rows.sequence.sizes()[axis];
    let real = !rows.sequence.dtype.is_integral(true)
        || match values {
            Source::Tensor(tensor) => !tensor.dtype.is_integral(true),
            Source::Scalar(scalar) => matches!(scalar, Scalar::Double(_)),
        };
    let keys = Keys::new(rows.argument, sequence.dtype, sequence.data, real)?;
    let sorter = match &rows.sorter {
        Some(sorter) => {
            let positions = Positions::new(5, sorter)?;
            positions.check(5, n)?;
            Some((positions, across(&layout(&sorter.shape), axis)))
        }
        None => None,
    };
    let (starts, step) = across(&sequence.layout, axis);
    let (mut starts, mut sorter_starts) = (offsets(&starts), sorter.as_ref().map(|(_, (starts, _))| offsets(starts)));
    let target = Target::from(call.out(out, shape.sizes())?);
    let store = storer::<i64>(out, target.dtype, target.data)?;
    let size = target.dtype.size();
    let (mut start, mut sorter_start) = (0, 0);
    for (i, (from, to)) in offsets(&layout(&shape)).zip(offsets(&target.layout)).enumerate() {
        if i % per_row == 0 {
            start = starts.next().unwrap_or(0);
            sorter_start = sorter_starts.as_mut().and_then(|starts| starts.next()).unwrap_or(0);
        }
        let value = match values {
            Source::Scalar(scalar) => key_of(scalar, real),
            Source::Tensor(tensor) => {
                let mut key = [0];
                Keys::new(0, tensor.dtype, tensor.data, real)?.load(tensor.data, from, 1, &mut key);
                key[0]
            }
        };
        let place = partition(n, |i| {
            let position = match &sorter {
                Some((positions, (_, step))) => positions.get(sorter_start + i * step) as usize,
                None => i,
            };
            let mut key = [0];
            keys.load(sequence.data, start + position * step, 1, &mut key);
            key[0] < value || (right && key[0] == value)
        });
        store(Isa::detect(), &[place as i64], &mut target.data[to * size..(to + 1) * size]);
    }
    Ok(())
}

/// The dimension of the rows, and how many values are looked up in each.
fn check_rows(rows: &Rows<'_>, values: &Shape) -> Result<(usize, usize), Fault> {
    let sequence = &rows.sequence.shape;
    let none = Fault::argument(rows.argument, "the sorted rows must have a dimension");
    let axis = sequence.rank().checked_sub(1).ok_or(none)?;
    if rows.sorter.is_some_and(|sorter| sorter.sizes() != sequence.sizes()) {
        return Err(Fault::argument(5, "the sorter must have the sizes of the rows"));
    }
    if axis == 0 {
        return Ok((axis, usize::MAX));
    }
    let outer = values.sizes().split_last().filter(|(_, outer)| *outer == &sequence.sizes()[..axis]);
    let (&last, _) = outer.ok_or(Fault::argument(1, "rows and values must agree in all dimensions but the last"))?;
    Ok((axis, last.max(1)))
}

/// The first of `0..n` for which `before` is false; it must not become true again.
fn partition(n: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
