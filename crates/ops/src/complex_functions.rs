//! Functions of complex numbers, by their real and imaginary parts.
use crate::complex::{Number, add, conjugate, divide, length, map, multiply, scale};
use sconce_core::{Call, Fault};
use sconce_kernels::Complex;

const ONE: Number = Complex { re: 1.0, im: 0.0 };

/// Runs `real`, or the function `complex` of each element where argument 0 holds complex numbers.
pub(crate) fn either(
    call: &mut Call<'_>,
    complex: fn(Number) -> Number,
    real: fn(&mut Call<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if call.tensor_type(0)?.0.is_complex() { map(call, complex) } else { real(call) }
}

/// The number of a length and an angle.
fn polar(length: f64, angle: f64) -> Number {
    let (sin, cos) = libm::sincos(angle);
    // A real number stays one, however large it is.
    Complex { re: length * cos, im: if angle == 0.0 { angle } else { length * sin } }
}

/// The number times the imaginary unit.
fn turned(x: Number) -> Number {
    Complex { re: -x.im, im: x.re }
}

pub(crate) fn exp(x: Number) -> Number {
    polar(libm::exp(x.re), x.im)
}

pub(crate) fn log(x: Number) -> Number {
    Complex { re: libm::log(length(x).re), im: libm::atan2(x.im, x.re) }
}

pub(crate) fn log2(x: Number) -> Number {
    scale(log(x), core::f64::consts::LOG2_E)
}

pub(crate) fn log10(x: Number) -> Number {
    scale(log(x), core::f64::consts::LOG10_E)
}

/// The root whose real part is not negative. The larger of its parts comes from a sum, the other from what that leaves.
pub(crate) fn sqrt(x: Number) -> Number {
    let size = libm::sqrt((length(x).re + x.re.abs()) / 2.0);
    if size == 0.0 {
        return Complex { re: 0.0, im: x.im };
    }
    let other = x.im / (2.0 * size);
    if x.re >= 0.0 { Complex { re: size, im: other } } else { Complex { re: other.abs(), im: size.copysign(x.im) } }
}

pub(crate) fn rsqrt(x: Number) -> Number {
    reciprocal(sqrt(x))
}

pub(crate) fn reciprocal(x: Number) -> Number {
    divide(ONE, x)
}

pub(crate) fn square(x: Number) -> Number {
    multiply(x, x)
}

pub(crate) fn sinh(x: Number) -> Number {
    let (sin, cos) = libm::sincos(x.im);
    Complex { re: libm::sinh(x.re) * cos, im: libm::cosh(x.re) * sin }
}

pub(crate) fn cosh(x: Number) -> Number {
    let (sin, cos) = libm::sincos(x.im);
    Complex { re: libm::cosh(x.re) * cos, im: libm::sinh(x.re) * sin }
}

/// Far from zero the quotient of both is one to the last digit, and they overflow.
pub(crate) fn tanh(x: Number) -> Number {
    if x.re.abs() < 20.0 {
        return divide(sinh(x), cosh(x));
    }
    let (sin, cos) = libm::sincos(x.im);
    Complex { re: 1f64.copysign(x.re), im: 4.0 * sin * cos * libm::exp(-2.0 * x.re.abs()) }
}

pub(crate) fn sin(x: Number) -> Number {
    // sin x = -i sinh ix, which is the turned conjugate's conjugate.
    conjugate(turned(conjugate(sinh(turned(x)))))
}

pub(crate) fn cos(x: Number) -> Number {
    cosh(turned(x))
}

pub(crate) fn tan(x: Number) -> Number {
    conjugate(turned(conjugate(tanh(turned(x)))))
}

pub(crate) fn sigmoid(x: Number) -> Number {
    reciprocal(add(ONE, exp(scale(x, -1.0))))
}

/// `x / |x|`, and zero where `x` is.
pub(crate) fn sign(x: Number) -> Number {
    let size = length(x).re;
    if size == 0.0 { Number::default() } else { scale(x, 1.0 / size) }
}

/// A power of any exponent; squares by a product.
pub(crate) fn power(x: Number, exponent: Number) -> Number {
    let zero = Number::default();
    match (x, exponent) {
        (_, y) if y == zero => ONE,
        (x, y) if y == ONE => x,
        (x, Complex { re: 2.0, im: 0.0 }) => square(x),
        (x, y) if x == zero && y.re > 0.0 && y.im == 0.0 => zero,
        _ => exp(multiply(exponent, log(x))),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn near(a: Number, re: f64, im: f64) {
        assert!((a.re - re).abs() < 1e-12 && (a.im - im).abs() < 1e-12, "{a:?} instead of {re} + {im}i");
    }

    #[test]
    fn functions_agree_with_their_series_and_identities() {
        let x = Complex { re: 0.3, im: -1.1 };
        let mut term = ONE;
        let mut sums = [Number::default(); 4];
        // Terms of the exponential series, in turn those of cosh and sinh; with signs, of cos and sin.
        for n in 0..40 {
            let sign = if n % 4 < 2 { 1.0 } else { -1.0 };
            sums[n % 2] = add(sums[n % 2], term);
            sums[2 + n % 2] = add(sums[2 + n % 2], scale(term, sign));
            term = scale(multiply(term, x), 1.0 / (n + 1) as f64);
        }
        let [even, odd, alternating, other] = sums;
        for (value, series) in
            [(cosh(x), even), (sinh(x), odd), (exp(x), add(even, odd)), (cos(x), alternating), (sin(x), other)]
        {
            near(value, series.re, series.im);
        }
        let quotients = [(tanh(x), divide(odd, even)), (tan(x), divide(other, alternating))];
        quotients.into_iter().for_each(|(value, expected)| near(value, expected.re, expected.im));
        for (value, expected) in
            [(exp(log(x)), x), (square(sqrt(x)), x), (power(x, scale(ONE, 3.0)), multiply(x, square(x)))]
        {
            near(value, expected.re, expected.im);
        }
    }

    #[test]
    fn roots_and_logarithms_are_the_principal_ones() {
        near(sqrt(Complex { re: -4.0, im: 0.0 }), 0.0, 2.0);
        near(sqrt(Complex { re: -4.0, im: -0.0 }), 0.0, -2.0);
        near(log(Complex { re: -1.0, im: 0.0 }), 0.0, core::f64::consts::PI);
        near(tanh(Complex { re: -800.0, im: 1.0 }), -1.0, 0.0);
        near(sign(Number::default()), 0.0, 0.0);
    }
}
