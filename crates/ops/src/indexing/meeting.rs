//! Scattering where elements may meet: what arrives at a place is joined with what is there.
//!
//! An index tensor of one dimension (`index_add` and its kin) is an index tensor of the source's sizes that is repeated
//! along all dimensions but one, so that both kinds go the same way through [`along`](super::along).
use super::along::{Along, Scattered, copied, one_dim, replace, scatter};
use super::{Positions, out_of_range};
use crate::dense::wide_bytes;
use crate::fill::element_bytes;
use crate::operands::{misaligned, same_type, shape_fault, signed};
use crate::ops;
use crate::strided::{View, copy_element, layout, offsets};
use crate::typed::{Typed, for_dtype};
use sconce_core::{Call, Fault, MAX_RANK, Op, Scalar, Shape, Tensor};
use sconce_kernels::Number;
use sconce_kernels::view::{view, view_mut};
use sconce_schema::{Layout, ShapeError, normalize_dim};

/// Scattering with a reduction, and along one index.
pub(crate) static OPS: &[Op] = ops! {
    "aten::scatter.reduce_out" [7] writes [5] => |call| scatter_reduce(call, 4, None, 5);
    "aten::scatter.value_reduce_out" [7] writes [5] => |call| scatter_reduce(call, 4, None, 5);
    "aten::scatter_reduce.two_out" [8] writes [6] scratch |args| wide_bytes(args, 6), => |call| {
        scatter_reduce(call, 4, Some(5), 6)
    };
    "aten::index_reduce.out" [8] writes [6] scratch |args| wide_bytes(args, 6), => index_reduce;
    "aten::index_add.out" [7] writes [5] => index_add;
    "aten::index_copy.out" [6] writes [4] => index_copy;
    "aten::index_fill.int_Scalar_out" [6] writes [4] => index_fill;
    "aten::index_fill.int_Tensor_out" [6] writes [4] => index_fill;
    "aten::take.out" [4] writes [2] => take;
    "aten::put.out" [6] writes [4] => put;
};

/// How elements are joined.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    Sum,
    Product,
    Mean,
    Largest,
    Smallest,
}

impl Join {
    fn new(call: &Call<'_>, argument: usize) -> Result<Self, Fault> {
        match call.str(argument)? {
            "sum" | "add" => Ok(Join::Sum),
            "prod" | "multiply" => Ok(Join::Product),
            "mean" => Ok(Join::Mean),
            "amax" => Ok(Join::Largest),
            "amin" => Ok(Join::Smallest),
            _ => Err(Fault::argument(argument, "reduce must be one of sum, prod, mean, amax, amin, add, multiply")),
        }
    }

    fn of<T: Typed>(self, a: T, b: T) -> T {
        match self {
            Join::Sum | Join::Mean => a.plus(b),
            Join::Product => a.times(b),
            Join::Largest if b > a || b.is_nan() => b,
            Join::Smallest if b < a || b.is_nan() => b,
            _ => a,
        }
    }
}

/// What takes part in a place's result.
struct Meeting<'c> {
    along: Along<'c>,
    source: Scattered<'c>,
    join: Join,
    /// Whether what was there before takes part; absent where that goes without saying and nothing is counted.
    include_self: Option<bool>,
}

/// Joins what is scattered with a copy of argument 0.
fn meet(call: &mut Call<'_>, x: Tensor<'_>, meeting: &Meeting<'_>, out: usize) -> Result<(), Fault> {
    let target = copied(call, x, out)?;
    let counts = match meeting.include_self {
        Some(_) => view_mut::<i64>(call.scratch(target.numel().saturating_mul(8))?).ok_or(misaligned(out))?,
        None => &mut [],
    };
    counts.fill(0);
    for_dtype!(numbers, x.dtype, 0, T => {
        let values = view::<T>(meeting.source.data).ok_or(misaligned(3))?;
        join_all(meeting, &target.shape, values, view_mut::<T>(target.data).ok_or(misaligned(out))?, counts);
        Ok(())
    })
}

fn join_all<T: Typed>(meeting: &Meeting<'_>, shape: &Shape, values: &[T], target: &mut [T], counts: &mut [i64]) {
    scatter(&meeting.along, &meeting.source, shape, |from, to| {
        let (Some(&value), Some(place)) = (values.get(from), target.get_mut(to)) else { return };
        let first = counts.get_mut(to).is_some_and(|count| {
            *count += 1;
            *count == 1
        });
        let alone = first && meeting.include_self == Some(false);
        *place = if alone { value } else { meeting.join.of(*place, value) };
    });
    if meeting.join == Join::Mean {
        let own = i64::from(meeting.include_self != Some(false));
        for (place, &count) in target.iter_mut().zip(&*counts).filter(|(_, count)| **count > 0) {
            *place = match T::INTEGER {
                true => T::from_i64(place.to_i64().div_euclid(count + own)),
                false => T::from_f64(place.to_f64() / (count + own) as f64),
            };
        }
    }
}

/// Joins the elements of argument 3, a tensor or a number, at the positions in argument 2.
fn scatter_reduce(call: &mut Call<'_>, join: usize, include_self: Option<usize>, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = Along::new(call, &x.shape)?;
    let join = Join::new(call, join)?;
    let include_self = include_self.map(|argument| call.bool(argument)).transpose()?;
    let number;
    let source = match call.scalar(3) {
        Ok(value) => {
            number = [u128::from_le_bytes(element_bytes(0, x.dtype, value)?)];
            let bytes = sconce_kernels::view::bytes_of(&number);
            Scattered { data: &bytes[..x.dtype.size().min(bytes.len())], steps: [0; MAX_RANK] }
        }
        Err(_) => Scattered::tensor(call, &along, &x)?,
    };
    meet(call, x, &Meeting { along, source, join, include_self }, out)
}

/// The index tensor of one dimension in argument 2, repeated to the sizes of what it places: those of argument 0, but as
/// long as the index along the dimension in argument 1.
fn repeated<'c>(call: &Call<'c>, x: &Shape) -> Result<Along<'c>, Fault> {
    let (x, index) = (one_dim(layout(x)), call.tensor(2)?);
    let (dim, rank) = (call.int(1)?, x.rank());
    let axis = normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank });
    let axis = axis.map_err(|error| shape_fault(error).at(1))?;
    if index.shape.rank() > 1 {
        return Err(Fault::argument(2, "the index must have one dimension, not {}").with([index.shape.rank()]));
    }
    let positions = Positions::new(2, &index)?;
    positions.check(2, x.sizes[axis])?;
    let (mut sizes, mut strides) = (x.sizes, [0; MAX_RANK]);
    (sizes[axis], strides[axis]) = (positions.len(), 1);
    let index = Layout::new(&sizes, &strides[..rank]).ok_or(ShapeError::Rank(rank)).map_err(shape_fault)?;
    Ok(Along { positions, index, axis })
}

/// The tensor in argument 3, which must have exactly the sizes of the repeated index.
fn whole_source<'c>(call: &Call<'c>, along: &Along<'_>, x: &Tensor<'_>) -> Result<Scattered<'c>, Fault> {
    let (_, shape) = call.tensor_type(3)?;
    if one_dim(layout(&shape)).sizes != along.index.sizes {
        let text =
            "the source must have the sizes of the tensor, with as many positions along the dimension as the index";
        return Err(Fault::argument(3, text));
    }
    Scattered::tensor(call, along, x)
}

fn index_reduce(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = repeated(call, &x.shape)?;
    let source = whole_source(call, &along, &x)?;
    let (join, include_self) = (Join::new(call, 4)?, Some(call.bool(5)?));
    meet(call, x, &Meeting { along, source, join, include_self }, 6)
}

fn index_add(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = repeated(call, &x.shape)?;
    let source = whole_source(call, &along, &x)?;
    let factor = call.scalar(4)?;
    let target = copied(call, x, 5)?;
    for_dtype!(numbers, x.dtype, 0, T => {
        let values = view::<T>(source.data).ok_or(misaligned(3))?;
        let factor = match factor {
            Scalar::Double(factor) => T::from_f64(factor),
            whole => T::from_i64(whole.to_i64()),
        };
        let places = view_mut::<T>(target.data).ok_or(misaligned(5))?;
        scatter(&along, &source, &target.shape, |from, to| {
            if let (Some(&value), Some(place)) = (values.get(from), places.get_mut(to)) {
                *place = place.plus(value.times(factor));
            }
        });
        Ok(())
    })
}

fn index_copy(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = repeated(call, &x.shape)?;
    let source = whole_source(call, &along, &x)?;
    replace(call, x, &along, source, 4)
}

/// Fills with argument 3, a number or a tensor without dimensions.
fn index_fill(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let along = repeated(call, &x.shape)?;
    let value = match call.scalar(3) {
        Ok(value) => value,
        Err(_) => single(call, 3)?,
    };
    let value = element_bytes(0, x.dtype, value)?;
    replace(call, x, &along, Scattered { data: &value, steps: [0; MAX_RANK] }, 4)
}

/// The number in a tensor without dimensions.
fn single(call: &Call<'_>, argument: usize) -> Result<Scalar, Fault> {
    let tensor = call.tensor(argument)?;
    if tensor.shape.rank() > 0 {
        return Err(Fault::argument(argument, "the value must be a tensor without dimensions"));
    }
    let none = Fault::argument(argument, "the tensor has no element");
    for_dtype!(numbers, tensor.dtype, argument, T => {
        let value = *view::<T>(tensor.data).and_then(|values| values.first()).ok_or(none)?;
        Ok(if T::INTEGER { Scalar::Int(value.to_i64()) } else { Scalar::Double(value.to_f64()) })
    })
}

/// The place of an element that is counted in row-major order, from the end if negative.
fn place(x: &Layout, argument: usize, position: i64) -> Result<usize, Fault> {
    let count = x.sizes.numel().unwrap_or(0);
    let from_front = if position < 0 { position.saturating_add(signed(count)) } else { position };
    let within = usize::try_from(from_front).ok().filter(|&at| at < count);
    let mut rest = within.ok_or(out_of_range(argument, position, signed(count)))?;
    let mut place = x.offset;
    for (&size, &stride) in x.sizes.iter().zip(x.strides()).rev() {
        place += rest % size * stride;
        rest /= size;
    }
    Ok(place)
}

/// Elements by their positions in the whole tensor.
fn take(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, index) = (View::from(call.tensor(0)?), call.tensor(1)?);
    let positions = Positions::new(1, &index)?;
    let out = call.out(2, index.sizes())?;
    same_type(2, out.dtype, x.dtype)?;
    let (from, to) = (layout(&index.shape), layout(&out.shape));
    for (at, to) in offsets(&from).zip(offsets(&to)) {
        copy_element(x.dtype.size(), x.data, place(&x.layout, 1, positions.get(at))?, out.data, to);
    }
    Ok(())
}

/// A copy in which elements are replaced, or added to, by their positions in the whole tensor.
fn put(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, index, source, accumulate) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?, call.bool(3)?);
    let positions = Positions::new(1, &index)?;
    same_type(2, source.dtype, x.dtype)?;
    if source.numel() != index.numel() {
        let text = "there are {} positions and {} elements to put there";
        return Err(Fault::argument(2, text).with([index.numel(), source.numel()]));
    }
    let target = copied(call, x, 4)?;
    let whole = layout(&target.shape);
    let pairs = || offsets(&layout(&index.shape)).zip(offsets(&layout(&source.shape)));
    if !accumulate {
        for (at, from) in pairs() {
            copy_element(x.dtype.size(), source.data, from, target.data, place(&whole, 1, positions.get(at))?);
        }
        return Ok(());
    }
    for_dtype!(numbers, x.dtype, 0, T => {
        let (values, places) = (view::<T>(source.data).ok_or(misaligned(2))?, view_mut::<T>(target.data).ok_or(misaligned(4))?);
        for (at, from) in pairs() {
            let to = place(&whole, 1, positions.get(at))?;
            if let (Some(&value), Some(place)) = (values.get(from), places.get_mut(to)) {
                *place = place.plus(value);
            }
        }
        Ok(())
    })
}
