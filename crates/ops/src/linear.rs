//! Matrix products.
use crate::dense::{buffer_bytes, reorder_scratch, row_major, write_row_major};
use crate::operands::{elements, meet, misaligned};
use crate::ops;
use crate::typed::{Typed, for_dtype};
use sconce_core::{Args, Call, Fault, Op, Parallel, Scalar, ScalarType, Shape, Tensor};
use sconce_kernels::Isa;
use sconce_kernels::gemm::{Epilogue, Gemm, Init, Matrix, bmm, gemm_scratch, generic};
use sconce_kernels::map::{Broadcast, binary_in_place};
use sconce_kernels::view::view_mut;

/// Matrix products.
pub(crate) static OPS: &[Op] = ops! {
    "aten::mm.out" [4] writes [2] scratch |args| product_scratch(args, [0, 1], 2), => mm;
    "aten::bmm.out" [4] writes [2] scratch |args| product_scratch(args, [0, 1], 2), => batched;
    "aten::addmm.out" [7] writes [5] scratch |args| product_scratch(args, [1, 2], 5), => addmm;
    "aten::linear.out" [5] writes [3] scratch |args| product_scratch(args, [0, 1], 3), => linear;
};

/// `batch` products of an `m` by `k` with a `k` by `n` matrix, the second perhaps given transposed, and a value added to
/// each column.
#[derive(Clone, Copy)]
pub(crate) struct Product<'c> {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Tensor<'c>,
    pub(crate) b: Tensor<'c>,
    pub(crate) transposed: bool,
    pub(crate) per_column: Option<Tensor<'c>>,
}

/// An upper bound that serves all forms: operands in another order, and the kernel's own.
fn product_scratch(args: &Args<'_>, [a, b]: [usize; 2], out: usize) -> usize {
    let (Ok((dtype, a_shape)), Ok((_, out_shape))) = (args.tensor_type(a), args.tensor_type(out)) else { return 0 };
    let k = a_shape.sizes().last().copied().unwrap_or(0);
    let (&n, outer) = out_shape.sizes().split_last().unwrap_or((&0, &[]));
    let rows = outer.iter().fold(1, |rows: usize, &size| rows.saturating_mul(size));
    let floats = if dtype == ScalarType::Float { gemm_scratch(rows, n, k, args.parallel().width()) } else { 0 };
    reorder_scratch(args, &[a, b, out]).saturating_add(buffer_bytes(floats.saturating_mul(4)))
}

pub(crate) fn sizes<const N: usize>(argument: usize, shape: &Shape) -> Result<[usize; N], Fault> {
    let text = "a tensor of {} dimensions is needed here, this one has {}";
    shape.sizes().try_into().map_err(|_| Fault::argument(argument, text).with([N, shape.rank()]))
}

pub(crate) fn fits(argument: usize, columns: usize, rows: usize) -> Result<(), Fault> {
    let text = "the matrices do not fit: {} columns meet {} rows";
    if columns == rows { Ok(()) } else { Err(Fault::argument(argument, text).with([columns, rows])) }
}

fn mm(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let ([m, k], [rows, n]) = (sizes(0, &a.shape)?, sizes(1, &b.shape)?);
    fits(1, k, rows)?;
    let product = Product { batch: 1, m, n, k, a, b, transposed: false, per_column: None };
    product.run(call, 2, &[m, n], |_, _| Ok(()))
}

fn batched(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let ([batch, m, k], [b_batch, rows, n]) = (sizes(0, &a.shape)?, sizes(1, &b.shape)?);
    if batch != b_batch {
        return Err(Fault::argument(1, "{} matrices meet {}").with([batch, b_batch]));
    }
    fits(1, k, rows)?;
    let product = Product { batch, m, n, k, a, b, transposed: false, per_column: None };
    product.run(call, 2, &[batch, m, n], |_, _| Ok(()))
}

/// `beta * self + alpha * (a @ b)`
fn addmm(call: &mut Call<'_>) -> Result<(), Fault> {
    let (added, a, b) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let ([m, k], [rows, n]) = (sizes(1, &a.shape)?, sizes(2, &b.shape)?);
    fits(2, k, rows)?;
    let (beta, alpha) = (call.scalar(3)?, call.scalar(4)?);
    let plain = alpha.to_f64() == 1.0 && beta.to_f64() == 1.0 && added.sizes() == [n] && added.dtype == a.dtype;
    let product = Product { batch: 1, m, n, k, a, b, transposed: false, per_column: plain.then_some(added) };
    product.run(call, 5, &[m, n], |parallel, bytes| {
        if plain {
            return Ok(());
        }
        let matrix = Shape::contiguous(&[m, n]).unwrap_or(Shape::SCALAR);
        let walk = meet(&matrix, [&added.shape]).map_err(|fault| fault.at(0))?;
        for_dtype!(numbers, a.dtype, 1, T => {
            let (added, out) = (elements::<T>(0, &added)?, view_mut::<T>(bytes).ok_or(misaligned(5))?);
            add_scaled(parallel, &walk, (beta, added), (alpha, out));
            Ok(())
        })
    })
}

/// `out = beta * added + alpha * out`; a `beta` of zero takes nothing from `added`, not even NaN.
pub(crate) fn add_scaled<T: Typed>(
    parallel: &dyn Parallel,
    walk: &Broadcast<1>,
    (beta, added): (Scalar, &[T]),
    (alpha, out): (Scalar, &mut [T]),
) {
    let isa = Isa::detect();
    if T::INTEGER {
        let (beta, alpha) = (beta.to_i64(), alpha.to_i64());
        let sum = |out: T, added: T| {
            T::from_i64(alpha.wrapping_mul(out.to_i64()).wrapping_add(beta.wrapping_mul(added.to_i64())))
        };
        binary_in_place(isa, parallel, walk, out, added, sum);
    } else {
        let (beta, alpha) = (beta.to_f64(), alpha.to_f64());
        let scaled = |added: T| if beta == 0.0 { 0.0 } else { beta * added.to_f64() };
        let sum = |out: T, added: T| T::from_f64(alpha * out.to_f64() + scaled(added));
        binary_in_place(isa, parallel, walk, out, added, sum);
    }
}

/// `x @ weight.T + bias` over the last dimension.
fn linear(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, weight, bias) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2)?);
    let [n, columns] = sizes(1, &weight.shape)?;
    let Some((&k, leading)) = x.sizes().split_last() else {
        return Err(Fault::argument(0, "a tensor without dimensions has no features"));
    };
    fits(1, k, columns)?;
    let mut out_sizes = sconce_schema::Sizes::new(leading).unwrap_or(sconce_schema::Sizes::SCALAR);
    out_sizes.push(n).ok_or(Fault::argument(0, "the tensor has too many dimensions"))?;
    if bias.is_some_and(|bias| bias.sizes() != [n]) {
        return Err(Fault::argument(2, "the bias must have {} elements").with([n]));
    }
    let m = leading.iter().product();
    let product = Product { batch: 1, m, n, k, a: x, b: weight, transposed: true, per_column: bias };
    product.run(call, 3, &out_sizes, |_, _| Ok(()))
}

impl<'c> Product<'c> {
    /// Computes into output `out`; `finish` may change the row-major result before it is stored.
    pub(crate) fn run(
        mut self,
        call: &mut Call<'c>,
        out: usize,
        sizes: &[usize],
        finish: impl FnOnce(&dyn Parallel, &mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.a = row_major(call, self.a)?;
        self.b = row_major(call, self.b)?;
        let target = call.out(out, sizes)?;
        if target.dtype != self.a.dtype || self.b.dtype != self.a.dtype {
            return Err(Fault::argument(out, "matrices and result must have one element type"));
        }
        let floats = if self.a.dtype == ScalarType::Float {
            gemm_scratch(self.m * self.batch, self.n, self.k, call.parallel().width()).saturating_mul(4)
        } else {
            0
        };
        let scratch = call.scratch(floats)?;
        let parallel = call.parallel();
        write_row_major(call, target, |bytes| {
            self.compute(parallel, bytes, scratch)?;
            finish(parallel, bytes)
        })
    }

    /// Computes from row-major matrices into a row-major one.
    pub(crate) fn compute(&self, parallel: &dyn Parallel, out: &mut [u8], scratch: &mut [u8]) -> Result<(), Fault> {
        if self.a.dtype == ScalarType::Float {
            return self.compute_f32(parallel, out, scratch);
        }
        if crate::complex::is_complex(self.a.dtype) {
            return crate::complex::product(self, out);
        }
        for_dtype!(numbers, self.a.dtype, 0, T => self.compute_other::<T>(parallel, out))
    }

    fn compute_f32(&self, parallel: &dyn Parallel, out: &mut [u8], scratch: &mut [u8]) -> Result<(), Fault> {
        let (m, n, k) = (self.m, self.n, self.k);
        let (a, b) = (elements::<f32>(0, &self.a)?, elements::<f32>(1, &self.b)?);
        let init = match &self.per_column {
            Some(values) => Init::PerColumn(elements(2, values)?),
            None => Init::Zero,
        };
        let product = Gemm { m, n, k, a: Matrix::row_major(a, k), b: self.right(b), init, epilogue: Epilogue::None };
        let out = view_mut::<f32>(out).ok_or(misaligned(2))?;
        let scratch = view_mut::<f32>(scratch).ok_or(misaligned(2))?;
        bmm(Isa::detect(), parallel, self.batch, &product, (m * k, k * n), (out, n, m * n), scratch);
        Ok(())
    }

    fn compute_other<T: Typed + generic::Product>(&self, parallel: &dyn Parallel, out: &mut [u8]) -> Result<(), Fault> {
        let (m, n, k) = (self.m, self.n, self.k);
        let (a, b) = (elements::<T>(0, &self.a)?, elements::<T>(1, &self.b)?);
        let init = match &self.per_column {
            Some(values) => Init::PerColumn(elements(2, values)?),
            None => Init::Zero,
        };
        let out = view_mut::<T>(out).ok_or(misaligned(2))?;
        for i in 0..self.batch {
            let (a, b) = (Matrix::row_major(&a[i * m * k..], k), self.right(&b[i * k * n..]));
            generic::gemm(Isa::detect(), parallel, (m, n, k), a, b, init, &mut out[i * m * n..], n);
        }
        Ok(())
    }

    fn right<'b, T>(&self, b: &'b [T]) -> Matrix<'b, T> {
        if self.transposed { Matrix::transposed(b, self.k) } else { Matrix::row_major(b, self.n) }
    }
}
