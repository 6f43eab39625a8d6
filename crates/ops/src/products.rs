//! Products beside plain matrix multiplication: with vectors, and with something added.
//!
//! A vector is a matrix with one row or one column, so that all of them are a [`Product`]; what is added broadcasts to
//! the result.
use crate::complex;
use crate::dense::{buffer_bytes, converted, reorder_scratch, wide_bytes, write_converted};
use crate::linear::{Product, add_scaled, fits, sizes};
use crate::operands::{elements, meet, misaligned, shape_fault};
use crate::ops;
use crate::strided::layout;
use crate::typed::for_dtype;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Shape, Tensor};
use sconce_kernels::gemm::gemm_scratch;
use sconce_kernels::map::Broadcast;
use sconce_kernels::view::view_mut;
use sconce_schema::{Layout, normalize_dims, shapes};

/// Products with vectors and sums.
pub(crate) static OPS: &[Op] = ops! {
    "aten::mv.out" [4] writes [2] scratch |args| scratch(args, [0, 1], 2), => |call| matrix_vector(call, None, [0, 1], 2);
    "aten::addmv.out" [7] writes [5] scratch |args| scratch(args, [1, 2], 5), => |call| matrix_vector(call, Some(0), [1, 2], 5);
    "aten::dot.out" [4] writes [2] scratch |args| scratch(args, [0, 1], 2), => dot;
    "aten::vdot.out" [4] writes [2] scratch |args| scratch(args, [0, 1], 2), => vdot;
    "aten::outer.out" [4] writes [2] scratch |args| scratch(args, [0, 1], 2), => |call| outer(call, None, [0, 1], 2);
    "aten::ger.out" [4] writes [2] scratch |args| scratch(args, [0, 1], 2), => |call| outer(call, None, [0, 1], 2);
    "aten::addr.out" [7] writes [5] scratch |args| scratch(args, [1, 2], 5), => |call| outer(call, Some(0), [1, 2], 5);
    "aten::baddbmm.out" [7] writes [5] scratch |args| scratch(args, [1, 2], 5), => add_batched;
    "aten::addbmm.out" [7] writes [5] scratch |args| {
        scratch(args, [1, 2], 5).saturating_add(buffer_bytes(args.capacity(1).unwrap_or(0)))
    }, => sum_batched;
    "aten::_trilinear.out" [10] writes [8] scratch |args| {
        [0, 1, 2, 8].iter().map(|&argument| wide_bytes(args, argument)).fold(0, usize::saturating_add)
    }, => three;
};

/// An upper bound for all forms: operands in another order, and the kernel's own for any way to see them as matrices.
fn scratch(args: &Args<'_>, [a, b]: [usize; 2], out: usize) -> usize {
    // A side of the product is no longer than either tensor that has it, of which one may be empty.
    let count = |argument: usize| args.tensor_type(argument).ok().and_then(|(_, shape)| shape.numel()).unwrap_or(0);
    let longest = count(a).max(count(b)).max(count(out));
    let floats = match args.tensor_type(a) {
        Ok((ScalarType::Float, _)) => gemm_scratch(longest, longest, longest, args.parallel().width()),
        _ => 0,
    };
    reorder_scratch(args, &[a, b, out]).saturating_add(buffer_bytes(floats.saturating_mul(size_of::<f32>())))
}

/// Computes a product, plus `beta` times argument `added` (with `beta` and `alpha` just before the output).
fn run<'c>(
    call: &mut Call<'c>,
    product: Product<'c>,
    added: Option<usize>,
    out: usize,
    sizes: &[usize],
) -> Result<(), Fault> {
    let Some(argument) = added else { return product.run(call, out, sizes, |_, _| Ok(())) };
    let (added, beta, alpha) = (call.tensor(argument)?, call.scalar(out - 2)?, call.scalar(out - 1)?);
    let result = Shape::contiguous(sizes).unwrap_or(Shape::SCALAR);
    let walk = meet(&result, [&added.shape]).map_err(|fault| fault.at(argument))?;
    product.run(call, out, sizes, |parallel, bytes| {
        for_dtype!(numbers, product.a.dtype, out, T => {
            let (added, out) = (elements::<T>(argument, &added)?, view_mut::<T>(bytes).ok_or(misaligned(out))?);
            add_scaled(parallel, &walk, (beta, added), (alpha, out));
            Ok(())
        })
    })
}

fn plain<'c>((m, n, k): (usize, usize, usize), a: Tensor<'c>, b: Tensor<'c>) -> Product<'c> {
    Product { batch: 1, m, n, k, a, b, transposed: false, per_column: None }
}

fn matrix_vector(call: &mut Call<'_>, added: Option<usize>, [a, b]: [usize; 2], out: usize) -> Result<(), Fault> {
    let (matrix, vector) = (call.tensor(a)?, call.tensor(b)?);
    let ([m, k], [rows]) = (sizes(a, &matrix.shape)?, sizes(b, &vector.shape)?);
    fits(b, k, rows)?;
    run(call, plain((m, 1, k), matrix, vector), added, out, &[m])
}

fn dot(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let ([k], [rows]) = (sizes(0, &a.shape)?, sizes(1, &b.shape)?);
    fits(1, k, rows)?;
    run(call, plain((1, 1, k), a, b), None, 2, &[])
}

fn vdot(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.tensor_type(0)?.0.is_complex() { complex::inner(call) } else { dot(call) }
}

fn outer(call: &mut Call<'_>, added: Option<usize>, [a, b]: [usize; 2], out: usize) -> Result<(), Fault> {
    let (left, right) = (call.tensor(a)?, call.tensor(b)?);
    let ([m], [n]) = (sizes(a, &left.shape)?, sizes(b, &right.shape)?);
    run(call, plain((m, n, 1), left, right), added, out, &[m, n])
}

/// `beta * self + alpha * (a @ b)` for each matrix of a batch.
fn add_batched(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(1)?, call.tensor(2)?);
    let (batch, m, n, k) = batched_sizes(&a, &b)?;
    let product = Product { batch, ..plain((m, n, k), a, b) };
    run(call, product, Some(0), 5, &[batch, m, n])
}

/// `beta * self + alpha * sum(a @ b)`: one product whose inner dimension runs over batches too.
fn sum_batched(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(1)?, call.tensor(2)?);
    let (batch, m, n, k) = batched_sizes(&a, &b)?;
    let own = a.shape.strides();
    let moved = call.scratch(a.data.len())?;
    let shape = [m, batch, k];
    let to = sconce_kernels::copy::contiguous_strides(&shape);
    let plan = sconce_kernels::copy::Copy {
        shape: &shape,
        from_strides: &[own[1], own[0], own[2]],
        to_strides: &to[..shape.len()],
    };
    sconce_kernels::copy::copy(sconce_kernels::Isa::detect(), call.parallel(), a.dtype.size(), &plan, a.data, moved);
    let a = Tensor { shape: Shape::contiguous(&shape).unwrap_or(Shape::SCALAR), data: moved, ..a };
    run(call, plain((m, n, batch * k), a, b), Some(0), 5, &[m, n])
}

fn batched_sizes(a: &Tensor<'_>, b: &Tensor<'_>) -> Result<(usize, usize, usize, usize), Fault> {
    let ([batch, m, k], [b_batch, rows, n]) = (sizes(1, &a.shape)?, sizes(2, &b.shape)?);
    if batch != b_batch {
        return Err(Fault::argument(2, "{} matrices meet {}").with([batch, b_batch]));
    }
    fits(2, k, rows)?;
    Ok((batch, m, n, k))
}

/// The product of three tensors with new dimensions of size 1 (arguments 3 to 5), summed along dimensions (argument 6).
fn three(call: &mut Call<'_>) -> Result<(), Fault> {
    let spread = |n: usize| -> Result<Layout, Fault> {
        let shape = call.tensor_type(n)?.1;
        let insert = |x: Layout, &dim: &i64| x.unsqueeze(dim).map_err(|error| shape_fault(error).at(3 + n));
        call.ints(3 + n)?.iter().try_fold(layout(&shape), insert)
    };
    let layouts = [spread(0)?, spread(1)?, spread(2)?];
    let sizes = shapes::broadcast(layouts.each_ref().map(|x| &*x.sizes)).map_err(shape_fault)?;
    let [a, b, c] = layouts.map(|x| x.broadcast_to(&sizes).map_err(shape_fault));
    let layouts = [a?, b?, c?];
    let summed = normalize_dims(&call.ints(6)?, sizes.len());
    let summed = summed.ok_or(Fault::argument(6, "a dimension does not exist or is named twice"))?;
    let part = |summed_ones: bool| layouts.map(|x| x.keep(|dim, _| (summed >> dim & 1 == 1) == summed_ones));
    let (kept, summed) = (part(false), part(true));
    let walk = |parts: &[Layout; 3]| Broadcast::new(&parts[0].sizes, parts.each_ref().map(|part| part.strides()));
    let (outer, inner) = (walk(&kept), walk(&summed));
    let (a, b, c) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (a, b, c) = (converted::<f64>(call, 0, a)?, converted::<f64>(call, 1, b)?, converted::<f64>(call, 2, c)?);
    let out = call.out(8, &kept[0].sizes)?;
    write_converted::<f64>(call, 8, out, |out| {
        outer.rows(0..outer.len(), |at, len, starts, steps| {
            for (i, out) in out[at..at + len].iter_mut().enumerate() {
                let [x, y, z] = core::array::from_fn(|n| starts[n] + i * steps[n]);
                *out = 0.0;
                inner.rows(0..inner.len(), |_, len, [p, q, r], [dp, dq, dr]| {
                    let product = |i: usize| a[x + p + i * dp] * b[y + q + i * dq] * c[z + r + i * dr];
                    *out += (0..len).map(product).sum::<f64>();
                });
            }
        });
        Ok(())
    })
}
