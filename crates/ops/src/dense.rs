//! Operands as kernels want them: row-major, of one element type.
//!
//! Most tensors already are; then these functions cost nothing. A tensor in another dimension order or element type is
//! converted into scratch, and an operator that uses them states that scratch with the functions beside.
use crate::elementwise::{Source, each1, run};
use crate::operands::{elements, misaligned};
use crate::typed::Typed;
use sconce_core::{Args, Call, Fault, ScalarType, Shape, Tensor, TensorMut};
use sconce_kernels::copy::{Copy, copy};
use sconce_kernels::view::{bytes_of, view, view_mut};
use sconce_kernels::{Isa, Parallel};

/// Scratch is handed out in steps of this many bytes.
const STEP: usize = 64;

/// Bytes of scratch that a buffer takes.
pub(crate) fn buffer_bytes(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(STEP).unwrap_or(usize::MAX)
}

/// Scratch as floats.
pub(crate) fn floats<'c>(call: &mut Call<'c>, argument: usize, len: usize) -> Result<&'c mut [f32], Fault> {
    view_mut(call.scratch(len.saturating_mul(size_of::<f32>()))?).ok_or(misaligned(argument))
}

/// Copies elements of `size` bytes from one dimension order to another of the same sizes. Both slices have room for all
/// elements.
pub fn reorder(parallel: &dyn Parallel, size: usize, from: (&Shape, &[u8]), to: (&Shape, &mut [u8])) {
    let (from_strides, to_strides, rank) = (from.0.strides(), to.0.strides(), from.0.rank());
    let plan = Copy { shape: from.0.sizes(), from_strides: &from_strides[..rank], to_strides: &to_strides[..rank] };
    copy(Isa::detect(), parallel, size, &plan, from.1, to.1);
}

/// A tensor in the dimension order of `wanted`, which has its sizes.
pub(crate) fn in_order<'c>(call: &mut Call<'c>, tensor: Tensor<'c>, wanted: &Shape) -> Result<Tensor<'c>, Fault> {
    if same_order(&tensor.shape, wanted) {
        return Ok(Tensor { shape: *wanted, ..tensor });
    }
    let scratch = call.scratch(tensor.data.len())?;
    reorder(call.parallel(), tensor.dtype.size(), (&tensor.shape, tensor.data), (wanted, scratch));
    Ok(Tensor { shape: *wanted, data: scratch, ..tensor })
}

/// Whether elements of tensors of equal sizes lie in the same order.
fn same_order(a: &Shape, b: &Shape) -> bool {
    let (x, y) = (a.strides(), b.strides());
    a.sizes().iter().enumerate().all(|(dim, &size)| size <= 1 || x[dim] == y[dim])
}

/// A tensor in row-major order.
pub(crate) fn row_major<'c>(call: &mut Call<'c>, tensor: Tensor<'c>) -> Result<Tensor<'c>, Fault> {
    match Shape::contiguous(tensor.sizes()) {
        Some(wanted) => in_order(call, tensor, &wanted),
        None => Ok(tensor),
    }
}

/// Runs `body` on a row-major buffer for an output and brings it into the output's order.
pub(crate) fn write_row_major(
    call: &mut Call<'_>,
    out: TensorMut<'_>,
    body: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if out.shape.is_contiguous() {
        return body(out.data);
    }
    let buffer = call.scratch(out.data.len())?;
    body(buffer)?;
    let from = Shape::contiguous(out.sizes()).unwrap_or(out.shape);
    reorder(call.parallel(), out.dtype.size(), (&from, buffer), (&out.shape, out.data));
    Ok(())
}

/// Scratch for bringing these tensor arguments (inputs or outputs) into row-major order.
pub(crate) fn reorder_scratch(args: &Args<'_>, arguments: &[usize]) -> usize {
    let bytes = |&argument: &usize| match args.tensor_type(argument) {
        Ok((_, shape)) if !shape.is_contiguous() => buffer_bytes(args.capacity(argument).unwrap_or(0)),
        _ => 0,
    };
    arguments.iter().map(bytes).fold(0, usize::saturating_add)
}

/// A tensor's elements as another type, in memory order.
pub(crate) fn converted<'c, T: Typed>(
    call: &mut Call<'c>,
    argument: usize,
    tensor: Tensor<'c>,
) -> Result<&'c [T], Fault> {
    if tensor.dtype == T::DTYPE {
        return elements(argument, &tensor);
    }
    let scratch = call.scratch(tensor.numel().saturating_mul(size_of::<T>()))?;
    convert(
        call.parallel(),
        argument,
        tensor,
        TensorMut { dtype: T::DTYPE, shape: tensor.shape, data: &mut *scratch },
    )?;
    view(scratch).ok_or(misaligned(argument))
}

/// Converts a tensor into one of any type and dimension order: an `i64` carries every integer and an `f64` every
/// floating-point number.
pub(crate) fn convert(
    parallel: &dyn Parallel,
    argument: usize,
    tensor: Tensor<'_>,
    out: TensorMut<'_>,
) -> Result<(), Fault> {
    if tensor.dtype.is_integral(true) {
        run(
            parallel,
            [Source::Tensor(tensor)],
            argument,
            out,
            #[inline(always)]
            |x, out| {
                each1(
                    x,
                    out,
                    #[inline(always)]
                    |x: i64| x,
                )
            },
        )
    } else {
        run(
            parallel,
            [Source::Tensor(tensor)],
            argument,
            out,
            #[inline(always)]
            |x, out| {
                each1(
                    x,
                    out,
                    #[inline(always)]
                    |x: f64| x,
                )
            },
        )
    }
}

/// Scratch for [`converted`] into elements of at most eight bytes, unless the tensor is of one of the types that compute
/// themselves.
pub(crate) fn convert_scratch(args: &Args<'_>, argument: usize, native: &[ScalarType]) -> usize {
    match args.tensor_type(argument) {
        Ok((dtype, _)) if !native.contains(&dtype) => wide_bytes(args, argument),
        _ => 0,
    }
}

/// Scratch for eight bytes per element of an argument.
pub(crate) fn wide_bytes(args: &Args<'_>, argument: usize) -> usize {
    match args.tensor_type(argument) {
        Ok((dtype, _)) => buffer_bytes((args.capacity(argument).unwrap_or(0) / dtype.size()).saturating_mul(8)),
        Err(_) => 0,
    }
}

/// Brings results into an output of any type; both in the output's memory order.
pub(crate) fn store<T: Typed>(
    call: &Call<'_>,
    argument: usize,
    results: &[T],
    out: TensorMut<'_>,
) -> Result<(), Fault> {
    if out.dtype == T::DTYPE {
        view_mut::<T>(out.data).ok_or(misaligned(argument))?.copy_from_slice(results);
        return Ok(());
    }
    let source = Tensor { dtype: T::DTYPE, shape: out.shape, data: bytes_of(results) };
    convert(call.parallel(), argument, source, out)
}

/// A tensor's elements as another type, in row-major order.
pub(crate) fn converted_row_major<'c, T: Typed>(
    call: &mut Call<'c>,
    argument: usize,
    tensor: Tensor<'c>,
) -> Result<&'c [T], Fault> {
    let row_major = Shape::contiguous(tensor.sizes()).filter(|_| !tensor.shape.is_contiguous());
    let Some(shape) = row_major else { return converted(call, argument, tensor) };
    let scratch = call.scratch(tensor.numel().saturating_mul(size_of::<T>()))?;
    let target = TensorMut { dtype: T::DTYPE, shape, data: &mut *scratch };
    convert(call.parallel(), argument, tensor, target)?;
    view(scratch).ok_or(misaligned(argument))
}

/// Runs `body` on row-major elements of a type and brings them into the type and order of an output.
pub(crate) fn write_converted<T: Typed>(
    call: &mut Call<'_>,
    argument: usize,
    out: TensorMut<'_>,
    body: impl FnOnce(&mut [T]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if out.dtype == T::DTYPE && out.shape.is_contiguous() {
        return body(view_mut(out.data).ok_or(misaligned(argument))?);
    }
    let scratch = call.scratch(out.numel().saturating_mul(size_of::<T>()))?;
    body(view_mut(&mut *scratch).ok_or(misaligned(argument))?)?;
    let shape = Shape::contiguous(out.sizes()).unwrap_or(out.shape);
    convert(call.parallel(), argument, Tensor { dtype: T::DTYPE, shape, data: scratch }, out)
}

/// Scratch for [`converted_row_major`] and [`write_converted`] of these arguments, where doubles compute as such and all
/// others as float32.
pub(crate) fn converted_scratch(args: &Args<'_>, arguments: &[usize]) -> usize {
    let bytes = |&argument: &usize| match args.tensor_type(argument) {
        Ok((ScalarType::Float | ScalarType::Double, shape)) if shape.is_contiguous() => 0,
        _ => wide_bytes(args, argument),
    };
    arguments.iter().map(bytes).fold(0, usize::saturating_add)
}

/// Brings row-major results into an output of any type and memory order.
pub(crate) fn store_row_major<T: Typed>(
    call: &Call<'_>,
    argument: usize,
    results: &[T],
    out: TensorMut<'_>,
) -> Result<(), Fault> {
    if out.shape.is_contiguous() {
        return store(call, argument, results, out);
    }
    let shape = Shape::contiguous(out.sizes()).unwrap_or(out.shape);
    convert(call.parallel(), argument, Tensor { dtype: T::DTYPE, shape, data: bytes_of(results) }, out)
}
