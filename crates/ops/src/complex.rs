//! Complex numbers: one small body for all operators that take them.
//!
//! Copies move complex elements as any others. Where an operator computes, elements are read as pairs of `f64`, combined
//! and written back in the output's type; real operands have no imaginary part, and a real output drops it, as in
//! PyTorch. So there is one loop, whatever the types are.
use crate::elementwise::{GRAIN, Source};
use crate::linear::{Product, fits, sizes};
use crate::operands::{broadcast_sizes, meet, misaligned};
use crate::ops;
use crate::typed::{Typed, for_dtype, unsupported};
use sconce_core::{Call, Fault, Op, Parallel, ScalarType, Serial, Tensor, TensorMut};
use sconce_kernels::view::{Plain, view, view_mut};
use sconce_kernels::{Complex, split};

/// A complex number in which everything computes.
pub(crate) type Number = Complex<f64>;

/// Operators that make, take apart or mirror complex numbers.
pub(crate) static OPS: &[Op] = ops! {
    "aten::complex.out" [4] writes [2] => |call| pair(call, |[re, im]| Complex { re: re.re, im: im.re });
    "aten::polar.out" [4] writes [2] => |call| pair(call, |[length, angle]| {
        let (sin, cos) = libm::sincos(angle.re);
        Complex { re: length.re * cos, im: length.re * sin }
    });
    "aten::_conj_copy.out" [3] writes [1] => |call| map(call, conjugate);
    "aten::_conj_physical.out" [3] writes [1] => |call| map(call, conjugate);
    "aten::conj_physical.out" [3] writes [1] => |call| map(call, conjugate);
    "aten::angle.out" [3] writes [1] => angle;
    "aten::real_copy.out" [3] writes [1] => |call| map(call, |x| x);
    "aten::view_as_complex_copy.out" [3] writes [1] => view_as_complex;
};

pub(crate) fn is_complex(dtype: ScalarType) -> bool {
    matches!(dtype, ScalarType::ComplexFloat | ScalarType::ComplexDouble)
}

/// Whether one of two arguments is a tensor of complex numbers.
pub(crate) fn is_among(call: &Call<'_>, arguments: [usize; 2]) -> bool {
    arguments.into_iter().any(|argument| call.tensor_type(argument).is_ok_and(|(dtype, _)| is_complex(dtype)))
}

pub(crate) fn add(a: Number, b: Number) -> Number {
    Complex { re: a.re + b.re, im: a.im + b.im }
}

pub(crate) fn scale(a: Number, by: f64) -> Number {
    Complex { re: a.re * by, im: a.im * by }
}

pub(crate) fn multiply(a: Number, b: Number) -> Number {
    Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

/// Divides by way of the quotient of the divisor's parts, the smaller by the larger, so that nothing overflows on the way.
/// By zero each part is divided by itself.
pub(crate) fn divide(a: Number, b: Number) -> Number {
    if b.re.abs() >= b.im.abs() {
        if b.re == 0.0 && b.im == 0.0 {
            return scale(a, f64::INFINITY);
        }
        let ratio = b.im / b.re;
        let factor = 1.0 / (b.re + b.im * ratio);
        return Complex { re: (a.re + a.im * ratio) * factor, im: (a.im - a.re * ratio) * factor };
    }
    let ratio = b.re / b.im;
    let factor = 1.0 / (b.re * ratio + b.im);
    Complex { re: (a.re * ratio + a.im) * factor, im: (a.im * ratio - a.re) * factor }
}

pub(crate) fn length(a: Number) -> Number {
    Complex { re: libm::hypot(a.re, a.im), im: 0.0 }
}

pub(crate) fn conjugate(a: Number) -> Number {
    Complex { re: a.re, im: -a.im }
}

/// An answer, as a number.
pub(crate) fn truth(answer: bool) -> Number {
    Complex { re: f64::from(u8::from(answer)), im: 0.0 }
}

/// Reads element `at`.
type Read = fn(data: &[u8], at: usize) -> Number;
/// Writes element `at`.
type Write = fn(data: &mut [u8], at: usize, value: Number);

fn read_element<T: Plain>(data: &[u8], at: usize) -> Option<T> {
    view::<T>(data).and_then(|all| all.get(at)).copied()
}

fn write_element<T: Plain>(data: &mut [u8], at: usize, value: T) {
    if let Some(slot) = view_mut::<T>(data).and_then(|all| all.get_mut(at)) {
        *slot = value;
    }
}

fn read_real<T: Typed>(data: &[u8], at: usize) -> Number {
    Complex { re: read_element::<T>(data, at).map_or(0.0, T::to_f64), im: 0.0 }
}

fn write_real<T: Typed>(data: &mut [u8], at: usize, value: Number) {
    write_element(data, at, T::from_f64(value.re));
}

fn reader(argument: usize, dtype: ScalarType, data: &[u8]) -> Result<Read, Fault> {
    match dtype {
        ScalarType::ComplexFloat => {
            view::<Complex<f32>>(data).ok_or(misaligned(argument))?;
            Ok(|data, at| {
                let x = read_element::<Complex<f32>>(data, at).unwrap_or_default();
                Complex { re: x.re.into(), im: x.im.into() }
            })
        }
        ScalarType::ComplexDouble => {
            view::<Number>(data).ok_or(misaligned(argument))?;
            Ok(|data, at| read_element(data, at).unwrap_or_default())
        }
        other => for_dtype!(numbers, other, argument, T => {
            view::<T>(data).map(|_| read_real::<T> as Read).ok_or(misaligned(argument))
        }),
    }
}

fn writer(argument: usize, dtype: ScalarType, data: &[u8]) -> Result<Write, Fault> {
    match dtype {
        ScalarType::ComplexFloat => {
            view::<Complex<f32>>(data).ok_or(misaligned(argument))?;
            Ok(|data, at, x| write_element(data, at, Complex { re: x.re as f32, im: x.im as f32 }))
        }
        ScalarType::ComplexDouble => {
            view::<Number>(data).ok_or(misaligned(argument))?;
            Ok(write_element::<Number>)
        }
        other => for_dtype!(numbers, other, argument, T => {
            view::<T>(data).map(|_| write_real::<T> as Write).ok_or(misaligned(argument))
        }),
    }
}

/// What an operand's value comes from.
enum Operand<'c> {
    Elements(&'c [u8], Read),
    Constant(Number),
}

/// Applies `f` to operands that broadcast to the output.
pub(crate) fn combine<const N: usize>(
    parallel: &dyn Parallel,
    sources: [Source<'_>; N],
    out_argument: usize,
    out: TensorMut<'_>,
    f: impl Fn([Number; N]) -> Number + Sync,
) -> Result<(), Fault> {
    let walk = meet(&out.shape, sources.map(|source| source.shape()).each_ref())?;
    let mut operands = [const { Operand::Constant(Complex { re: 0.0, im: 0.0 }) }; N];
    for (argument, (operand, source)) in operands.iter_mut().zip(&sources).enumerate() {
        *operand = match source {
            Source::Tensor(tensor) => Operand::Elements(tensor.data, reader(argument, tensor.dtype, tensor.data)?),
            Source::Scalar(scalar) => Operand::Constant(Complex { re: scalar.to_f64(), im: 0.0 }),
        };
    }
    let (write, size) = (writer(out_argument, out.dtype, out.data)?, out.dtype.size());
    let parallel = if walk.len() > 2 * GRAIN { parallel } else { &Serial };
    split::chunks(parallel, out.data, GRAIN * size, |task, target| {
        let start = task * GRAIN;
        walk.rows(start..start + target.len() / size, |row, len, offsets, steps| {
            for i in 0..len {
                let mut values = [Number::default(); N];
                for (n, (value, operand)) in values.iter_mut().zip(&operands).enumerate() {
                    *value = match operand {
                        Operand::Elements(data, read) => read(data, offsets[n] + i * steps[n]),
                        Operand::Constant(constant) => *constant,
                    };
                }
                write(target, row + i, f(values));
            }
        });
    });
    Ok(())
}

/// A function of argument 0.
pub(crate) fn map(call: &mut Call<'_>, f: impl Fn(Number) -> Number + Sync) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let out = call.out(1, x.sizes())?;
    combine(call.parallel(), [Source::Tensor(x)], 1, out, |[x]| f(x))
}

/// The angle in the complex plane; of a real number, which has no signed zero in the other direction, 0 or pi.
fn angle(call: &mut Call<'_>) -> Result<(), Fault> {
    let complex = is_complex(call.tensor_type(0)?.0);
    map(call, move |x| {
        let zero = !complex && x.re == 0.0;
        Complex { re: if zero { 0.0 } else { libm::atan2(x.im, x.re) }, im: 0.0 }
    })
}

/// A function of arguments 0 and 1.
fn pair(call: &mut Call<'_>, f: impl Fn([Number; 2]) -> Number + Sync) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let out = call.out(2, &broadcast_sizes([&a.shape, &b.shape])?)?;
    combine(call.parallel(), [Source::Tensor(a), Source::Tensor(b)], 2, out, f)
}

/// The product of two vectors, the first one's conjugate with the second.
pub(crate) fn inner(call: &mut Call<'_>) -> Result<(), Fault> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let ([count], [other]) = (sizes(0, &a.shape)?, sizes(1, &b.shape)?);
    fits(1, count, other)?;
    let out = call.out(2, &[])?;
    let (left, right) = (reader(0, a.dtype, a.data)?, reader(1, b.dtype, b.data)?);
    let write = writer(2, out.dtype, out.data)?;
    let at = |tensor: &Tensor<'_>, i: usize| i * tensor.shape.strides()[0];
    let term = |i: usize| multiply(conjugate(left(a.data, at(&a, i))), right(b.data, at(&b, i)));
    write(out.data, 0, (0..count).map(term).fold(Number::default(), add));
    Ok(())
}

/// Pairs along the last dimension become complex numbers.
fn view_as_complex(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let Some((&2, sizes)) = x.sizes().split_last() else {
        return Err(Fault::argument(0, "the last dimension must have size 2: real and imaginary part"));
    };
    let out = call.out(1, sizes)?;
    if !x.shape.is_contiguous() || !out.shape.is_contiguous() || x.data.len() != out.data.len() {
        return Err(Fault::argument(1, "row-major tensors of pairs and of complex numbers are needed here"));
    }
    out.data.copy_from_slice(x.data);
    Ok(())
}

/// Matrix products of complex numbers: plain loops.
pub(crate) fn product(product: &Product<'_>, out: &mut [u8]) -> Result<(), Fault> {
    let (m, n, k) = (product.m, product.n, product.k);
    let (a, b) = (reader(0, product.a.dtype, product.a.data)?, reader(1, product.b.dtype, product.b.data)?);
    let write = writer(2, product.a.dtype, out)?;
    if product.transposed || product.per_column.is_some() {
        return Err(unsupported(0, product.a.dtype));
    }
    for i in 0..product.batch * m * n {
        let (batch, row, column) = (i / (m * n), i / n % m, i % n);
        let term = |p: usize| {
            let left = a(product.a.data, (batch * m + row) * k + p);
            multiply(left, b(product.b.data, (batch * k + p) * n + column))
        };
        write(out, i, (0..k).map(term).fold(Number::default(), add));
    }
    Ok(())
}
