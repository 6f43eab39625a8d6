//! Fourier transforms along one or several dimensions.
//!
//! Every transform is one of complex numbers: real input gets imaginary parts of zero, and of a result with Hermitian
//! symmetry half is kept; on the way back the other half is filled in from it. Lines are transformed dimension by
//! dimension in a buffer on the heap, with a plan made for the call: this family is for hosts with a standard library.
extern crate std;

use crate::dense::{reorder_scratch, row_major, write_row_major};
use crate::operands::misaligned;
use crate::ops;
use rustfft::num_complex::Complex as Value;
use rustfft::{FftNum, FftPlanner};
use sconce_core::{Call, Fault, Op, ScalarType, Tensor, TensorMut};
use sconce_kernels::Complex;
use sconce_kernels::view::{Plain, view, view_mut};
use sconce_schema::{Sizes, normalize_dim};
use std::vec::Vec;

/// Fourier transforms.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_fft_r2c.out" [6] writes [4] scratch |args| reorder_scratch(args, &[0, 4]), => from_real;
    "aten::_fft_c2r.out" [6] writes [4] scratch |args| reorder_scratch(args, &[0, 4]), => to_real;
    "aten::_fft_c2c.out" [6] writes [4] scratch |args| reorder_scratch(args, &[0, 4]), => between_complex;
};

/// A type of real numbers that are transformed.
trait Real: FftNum + Plain {
    fn of(value: f64) -> Self;
}
impl Real for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
}
impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// Complex numbers under transformation: row-major, with the dimensions that are transformed.
struct Lines<T> {
    sizes: Sizes,
    dims: Sizes,
    values: Vec<Value<T>>,
}

/// The dimensions of argument 1, and the last of them.
fn dims(call: &Call<'_>, rank: usize) -> Result<(Sizes, Option<usize>), Fault> {
    let mut dims = Sizes::SCALAR;
    for &dim in call.ints(1)?.iter() {
        let dim = normalize_dim(dim, rank).filter(|&dim| dim < rank && !dims.contains(&dim));
        let missing =
            Fault::argument(1, "a dimension does not exist in a tensor of {}, or is named twice").with([rank]);
        dims.push(dim.ok_or(missing)?).ok_or(missing)?;
    }
    Ok((dims, dims.last().copied()))
}

impl<T: Real> Lines<T> {
    /// Transforms along one dimension.
    fn along(&mut self, dim: usize, forward: bool) {
        let n = self.sizes[dim];
        let inner: usize = self.sizes[dim + 1..].iter().product();
        if n < 2 || inner == 0 {
            return;
        }
        let mut planner = FftPlanner::new();
        let plan = if forward { planner.plan_fft_forward(n) } else { planner.plan_fft_inverse(n) };
        let zero = Value::new(T::zero(), T::zero());
        let mut scratch = std::vec![zero; plan.get_inplace_scratch_len()];
        if inner == 1 {
            return plan.process_with_scratch(&mut self.values, &mut scratch);
        }
        let mut line = std::vec![zero; n];
        for slab in self.values.chunks_exact_mut(n * inner) {
            for column in 0..inner {
                line.iter_mut().zip(slab[column..].iter().step_by(inner)).for_each(|(to, from)| *to = *from);
                plan.process_with_scratch(&mut line, &mut scratch);
                slab[column..].iter_mut().step_by(inner).zip(&line).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// The factor by which results are normalised: argument 2 is 0 for none, 1 for the square root, 2 for the number.
    fn factor(&self, call: &Call<'_>) -> Result<T, Fault> {
        let count: f64 = self.dims.iter().map(|&dim| self.sizes[dim] as f64).product();
        match call.int(2)? {
            0 => Ok(T::of(1.0)),
            1 => Ok(T::of(1.0 / libm::sqrt(count))),
            2 => Ok(T::of(1.0 / count)),
            other => Err(Fault::argument(2, "{} is not a way to normalise: 0, 1 or 2 is").with_signed([other])),
        }
    }

    /// The size of a dimension, and how many elements one step along it is.
    fn extent(&self, dim: usize) -> (usize, usize) {
        (self.sizes[dim], self.sizes[dim + 1..].iter().product())
    }
}

/// Whether numbers of a type are, or are made of, float64.
fn is_double(argument: usize, dtype: ScalarType) -> Result<bool, Fault> {
    match dtype {
        ScalarType::Float | ScalarType::ComplexFloat => Ok(false),
        ScalarType::Double | ScalarType::ComplexDouble => Ok(true),
        other => Err(crate::typed::unsupported(argument, other)),
    }
}

/// Runs a generic function for the precision of a tensor.
macro_rules! in_precision {
    ($argument:expr, $dtype:expr, $function:ident ( $($given:expr),* )) => {
        if is_double($argument, $dtype)? { $function::<f64>($($given),*) } else { $function::<f32>($($given),*) }
    };
}

fn complex_values<T: Real>(x: &Tensor<'_>) -> Result<Vec<Value<T>>, Fault>
where
    Complex<T>: Plain,
{
    let values = view::<Complex<T>>(x.data).ok_or(misaligned(0))?;
    Ok(values.iter().map(|x| Value::new(x.re, x.im)).collect())
}

fn prepared<'c>(call: &mut Call<'c>, complex: bool) -> Result<Tensor<'c>, Fault> {
    let x = call.tensor(0)?;
    if crate::complex::is_complex(x.dtype) != complex {
        return Err(crate::typed::unsupported(0, x.dtype));
    }
    row_major(call, x)
}

/// An output of the same precision.
fn output<'c>(call: &mut Call<'c>, sizes: &[usize], dtype: ScalarType) -> Result<TensorMut<'c>, Fault> {
    let out = call.out(4, sizes)?;
    crate::operands::same_type(4, out.dtype, dtype)?;
    Ok(out)
}

fn between_complex(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = prepared(call, true)?;
    in_precision!(0, x.dtype, run_between_complex(call, x))
}

fn run_between_complex<'c, T: Real>(call: &mut Call<'c>, x: Tensor<'c>) -> Result<(), Fault>
where
    Complex<T>: Plain,
{
    let (dims, _) = dims(call, x.shape.rank())?;
    let sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    let mut lines = Lines { sizes, dims, values: complex_values::<T>(&x)? };
    let (forward, factor) = (call.bool(3)?, lines.factor(call)?);
    dims.iter().for_each(|&dim| lines.along(dim, forward));
    let out = output(call, &sizes, x.dtype)?;
    write_row_major(call, out, |bytes| {
        let out = view_mut::<Complex<T>>(bytes).ok_or(misaligned(4))?;
        for (out, x) in out.iter_mut().zip(&lines.values) {
            *out = Complex { re: x.re * factor, im: x.im * factor };
        }
        Ok(())
    })
}

fn from_real(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = prepared(call, false)?;
    in_precision!(0, x.dtype, run_from_real(call, x))
}

fn run_from_real<'c, T: Real>(call: &mut Call<'c>, x: Tensor<'c>) -> Result<(), Fault>
where
    Complex<T>: Plain,
{
    let (dims, last) = dims(call, x.shape.rank())?;
    let last = last.ok_or(Fault::argument(1, "a dimension to transform is needed here"))?;
    let sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    let real = view::<T>(x.data).ok_or(misaligned(0))?;
    let values = real.iter().map(|&x| Value::new(x, T::zero())).collect();
    let mut lines = Lines { sizes, dims, values };
    let factor = lines.factor(call)?;
    dims.iter().for_each(|&dim| lines.along(dim, true));
    let mut kept = sizes;
    if call.bool(3)? {
        kept[last] = if sizes[last] == 0 { 0 } else { sizes[last] / 2 + 1 };
    }
    let dtype = if x.dtype == ScalarType::Double { ScalarType::ComplexDouble } else { ScalarType::ComplexFloat };
    let out = output(call, &kept, dtype)?;
    write_row_major(call, out, |bytes| {
        let out = view_mut::<Complex<T>>(bytes).ok_or(misaligned(4))?;
        let (n, inner) = lines.extent(last);
        // Of each slab of `n` rows the first ones are kept.
        let slabs = lines.values.chunks_exact((n * inner).max(1));
        for (out, slab) in out.chunks_exact_mut((kept[last] * inner).max(1)).zip(slabs) {
            for (out, x) in out.iter_mut().zip(slab) {
                *out = Complex { re: x.re * factor, im: x.im * factor };
            }
        }
        Ok(())
    })
}

fn to_real(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = prepared(call, true)?;
    in_precision!(0, x.dtype, run_to_real(call, x))
}

fn run_to_real<'c, T: Real>(call: &mut Call<'c>, x: Tensor<'c>) -> Result<(), Fault>
where
    Complex<T>: Plain,
{
    let (dims, last) = dims(call, x.shape.rank())?;
    let last = last.ok_or(Fault::argument(1, "a dimension to transform is needed here"))?;
    let half = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    let n = usize::try_from(call.int(3)?).unwrap_or(0);
    if n == 0 || half[last] != n / 2 + 1 {
        let text = "{} values cannot stand for the half of {}";
        return Err(Fault::argument(3, text).with([half[last], n]));
    }
    let mut lines = Lines { sizes: half, dims, values: complex_values::<T>(&x)? };
    dims.iter().filter(|&&dim| dim != last).for_each(|&dim| lines.along(dim, false));
    let mut lines = completed(lines, last, n);
    let factor = lines.factor(call)?;
    lines.along(last, false);
    let dtype = if x.dtype == ScalarType::ComplexDouble { ScalarType::Double } else { ScalarType::Float };
    let sizes = lines.sizes;
    let out = output(call, &sizes, dtype)?;
    write_row_major(call, out, |bytes| {
        let out = view_mut::<T>(bytes).ok_or(misaligned(4))?;
        out.iter_mut().zip(&lines.values).for_each(|(out, x)| *out = x.re * factor);
        Ok(())
    })
}

/// Fills in the other half along a dimension: element `n - i` is the conjugate of element `i`. The imaginary parts of
/// the first, and of the middle one of an even number, do not count.
fn completed<T: Real>(half: Lines<T>, dim: usize, n: usize) -> Lines<T> {
    let (kept, inner) = half.extent(dim);
    let mut sizes = half.sizes;
    sizes[dim] = n;
    let mut values = Vec::with_capacity(half.values.len() / kept.max(1) * n);
    for slab in half.values.chunks_exact((kept * inner).max(1)) {
        for i in 0..n {
            let from = &slab[i.min(n - i) * inner..][..inner];
            values.extend(from.iter().map(|x| match i {
                _ if i == 0 || 2 * i == n => Value::new(x.re, T::zero()),
                _ if i < kept => *x,
                _ => x.conj(),
            }));
        }
    }
    Lines { sizes, dims: half.dims, values }
}
