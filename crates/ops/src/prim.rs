//! The operators that come with every runtime: arithmetic on numbers, sizes of tensors, views.
//!
//! They take numbers and answer in their last argument. Integers and floating-point numbers mix as in Python.
use crate::ops;
use crate::typed::for_dtype;
use sconce_core::Scalar::{self, Bool, Double, Int};
use sconce_core::{Call, Code, Fault, MAX_RANK, Op, ScalarType};
use sconce_kernels::Number;
use sconce_kernels::view::view;

/// A row of a function of numbers: patterns of arguments and the result.
macro_rules! scalar {
    ($($pattern:pat => $result:expr),+ $(,)?) => {
        |call| {
            let result = match numbers(call)? {
                $($pattern => $result,)+
                _ => return Err(Fault::new(Code::InvalidType, "the operator does not take numbers of these kinds")),
            };
            call.set(call.len() - 1, result)
        }
    };
}

/// A comparison of two numbers.
macro_rules! compare {
    (|$a:ident, $b:ident| $body:expr) => {
        scalar! {
            [Int($a), Int($b), _] => Bool($body),
            [Bool(a), Bool(b), _] => {
                let ($a, $b) = (u8::from(a), u8::from(b));
                Bool($body)
            },
            [a @ (Int(_) | Double(_)), b @ (Int(_) | Double(_)), _] => { let ($a, $b) = (a.to_f64(), b.to_f64()); Bool($body) },
        }
    };
}

/// Arithmetic of two numbers, integers apart.
macro_rules! arithmetic {
    (int |$i:ident, $j:ident| $int:expr, real |$a:ident, $b:ident| $real:expr) => {
        scalar! {
            [Int($i), Int($j), _] => Int($int),
            [a @ (Int(_) | Double(_)), b @ (Int(_) | Double(_)), _] => { let ($a, $b) = (a.to_f64(), b.to_f64()); Double($real) },
        }
    };
}

/// The prim operators.
pub(crate) static OPS: &[Op] = ops! {
    "aten::sym_size.int" [3] writes [] => sym_size;
    "aten::sym_numel" [2] writes [] => sym_numel;
    "aten::_local_scalar_dense" [2] writes [] => local_scalar_dense;
    "executorch_prim::add.Scalar" [3] writes [] => arithmetic!(int |i, j| i.wrapping_add(j), real |a, b| a + b);
    "executorch_prim::sub.Scalar" [3] writes [] => arithmetic!(int |i, j| i.wrapping_sub(j), real |a, b| a - b);
    "executorch_prim::mul.Scalar" [3] writes [] => arithmetic!(int |i, j| i.wrapping_mul(j), real |a, b| a * b);
    "executorch_prim::floordiv.Scalar" [3] writes [] => floor_divide;
    "executorch_prim::truediv.Scalar" [3] writes [] => scalar! {
        [a @ (Int(_) | Double(_)), b @ (Int(_) | Double(_)), _] => Double(a.to_f64() / b.to_f64()),
    };
    "executorch_prim::sym_float.Scalar" [2] writes [] => |call| call.set(1, Double(call.scalar(0)?.to_f64()));
    "executorch_prim::sym_int.Scalar" [2] writes [] => |call| call.set(1, Int(call.scalar(0)?.to_i64()));
    "executorch_prim::eq.Scalar" [3] writes [] => compare!(|a, b| a == b);
    "executorch_prim::gt.Scalar" [3] writes [] => compare!(|a, b| a > b);
    "executorch_prim::lt.Scalar" [3] writes [] => compare!(|a, b| a < b);
    "executorch_prim::ge.Scalar" [3] writes [] => compare!(|a, b| a >= b);
    "executorch_prim::le.Scalar" [3] writes [] => compare!(|a, b| a <= b);
    "executorch_prim::neg.Scalar" [2] writes [] => scalar! {
        [Int(a), _, _] => Int(a.wrapping_neg()),
        [Double(a), _, _] => Double(-a),
    };
    "executorch_prim::sym_not.Scalar" [2] writes [] => scalar! { [Bool(a), _, _] => Bool(!a) };
    "executorch_prim::sym_ite.Scalar" [4] writes [] => scalar! { [Bool(a), yes, no] => if a { yes } else { no } };
    "executorch_prim::sym_max.Scalar" [3] writes [] => arithmetic!(int |a, b| a.max(b), real |a, b| a.max(b));
    "executorch_prim::sym_min.Scalar" [3] writes [] => arithmetic!(int |a, b| a.min(b), real |a, b| a.min(b));
    "executorch_prim::floordiv.int" [3] writes [] => |call| truncated(call, i64::checked_div);
    "executorch_prim::mod.int" [3] writes [] => |call| truncated(call, i64::checked_rem);
    "executorch_prim::mod.Scalar" [3] writes [] => |call| truncated(call, floored_remainder);
    "executorch_prim::ceil.Scalar" [2] writes [] => scalar! { [Double(a), _, _] => Int(libm::ceil(a) as i64) };
    "executorch_prim::round.Scalar" [2] writes [] => scalar! { [Double(a), _, _] => Int(libm::rint(a) as i64) };
    "executorch_prim::trunc.Scalar" [2] writes [] => scalar! { [Double(a), _, _] => Int(libm::trunc(a) as i64) };
    "executorch_prim::et_copy_index.tensor" [3] writes [0] => copy_index;
    "executorch_prim::et_view.default" [3] writes [] => view_as;
};

/// The arguments but the last, as numbers; absent ones are zero.
fn numbers(call: &Call<'_>) -> Result<[Scalar; 3], Fault> {
    let mut numbers = [Int(0); 3];
    for (argument, number) in numbers.iter_mut().enumerate().take(call.len().saturating_sub(1)) {
        *number = call.scalar(argument)?;
    }
    Ok(numbers)
}

fn two_ints(call: &Call<'_>) -> Result<(i64, i64), Fault> {
    Ok((call.int(0)?, call.int(1)?))
}

fn division_by_zero() -> Fault {
    Fault::new(Code::InvalidArgument, "division by zero, or a quotient that does not fit 64 bits")
}

/// Python's floor division.
fn floor_divide(call: &mut Call<'_>) -> Result<(), Fault> {
    let result = match numbers(call)? {
        [Int(a), Int(b), _] => {
            let (quotient, rest) = a.checked_div(b).zip(a.checked_rem(b)).ok_or(division_by_zero())?;
            Int(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
        }
        [Bool(_), ..] | [_, Bool(_), _] => {
            return Err(Fault::new(Code::InvalidType, "the operator does not take numbers of these kinds"));
        }
        [a, b, _] => Double(libm::floor(a.to_f64() / b.to_f64())),
    };
    call.set(2, result)
}

/// Division as C has it, although Python's is meant: the reference runtime does so, and exported programs rely on it
/// for positive numbers only.
fn truncated(call: &mut Call<'_>, divide: fn(i64, i64) -> Option<i64>) -> Result<(), Fault> {
    let (a, b) = two_ints(call)?;
    call.set(2, Int(divide(a, b).ok_or(division_by_zero())?))
}

/// Python's remainder, which has the sign of the divisor: exporters mean that one.
fn floored_remainder(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

fn sym_size(call: &mut Call<'_>) -> Result<(), Fault> {
    let (_, shape) = call.tensor_type(0)?;
    let dim = sconce_schema::normalize_dim(call.int(1)?, shape.rank());
    let size = dim.and_then(|dim| shape.sizes().get(dim)).ok_or(Fault::argument(1, "there is no such dimension"))?;
    call.set(2, Int(i64::try_from(*size).unwrap_or(i64::MAX)))
}

fn sym_numel(call: &mut Call<'_>) -> Result<(), Fault> {
    let (_, shape) = call.tensor_type(0)?;
    call.set(1, Int(shape.numel().and_then(|numel| i64::try_from(numel).ok()).unwrap_or(i64::MAX)))
}

/// The first element, as a number.
fn local_scalar_dense(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let value = for_dtype!(numbers, x.dtype, 0, T => {
        let first = view::<T>(x.data).and_then(<[T]>::first);
        let first = first.ok_or(Fault::argument(0, "the tensor has no element"))?;
        Ok(match x.dtype {
            ScalarType::Bool => Bool(first.to_i64() != 0),
            dtype if dtype.is_floating() => Double(first.to_f64()),
            _ => Int(first.to_i64()),
        })
    })?;
    call.set(1, value)
}

/// Appends a tensor to one that has one dimension more: `to` grows to `index + 1` along its first dimension.
fn copy_index(call: &mut Call<'_>) -> Result<(), Fault> {
    let from = call.tensor(1)?;
    let (dtype, to) = call.tensor_type(0)?;
    let index = usize::try_from(call.int(2)?).map_err(|_| Fault::argument(2, "the index is negative"))?;
    if to.rank() != from.shape.rank() + 1 || dtype != from.dtype || to.sizes().get(1..) != Some(from.sizes()) {
        return Err(Fault::argument(1, "the tensor must be one slice of the tensor it is copied to"));
    }
    let mut sizes = [0; MAX_RANK];
    sizes[..to.rank()].copy_from_slice(to.sizes());
    sizes[0] = index.checked_add(1).ok_or(Fault::argument(2, "the index is too large"))?;
    let out = call.out(0, &sizes[..to.rank()])?;
    let start = index.saturating_mul(from.data.len());
    let slice = start.checked_add(from.data.len()).and_then(|end| out.data.get_mut(start..end));
    slice.ok_or(Fault::argument(2, "the index is outside of the tensor"))?.copy_from_slice(from.data);
    Ok(())
}

/// Makes the output stand for the bytes of the input with other sizes, one of which may be -1.
fn view_as(call: &mut Call<'_>) -> Result<(), Fault> {
    let (dtype, shape) = call.tensor_type(0)?;
    if call.tensor_type(2)?.0 != dtype {
        return Err(Fault::argument(2, "a view must have the element type of what it views"));
    }
    let wanted = call.ints(1)?;
    let sizes = sconce_schema::shapes::view(shape.sizes(), &wanted)
        .ok_or(Fault::argument(1, "the sizes do not have as many elements as the tensor"))?;
    call.alias(2, 0, &sizes)
}
