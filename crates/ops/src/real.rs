//! Functions of real numbers, once for `f32` and `f64`.
//!
//! `f32` comes from the kernels, whose functions are written so that loops over them vectorise; `f64` from `libm`.
use sconce_kernels::{Float, math};

/// A floating-point type that computes in itself.
pub(crate) trait Real:
    Float<Compute = Self>
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + core::ops::Div<Output = Self>
    + core::ops::Neg<Output = Self>
    + crate::typed::Typed
{
    fn copysign(self, sign: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn round_ties_even(self) -> Self;
    fn sqrt(self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn expm1(self) -> Self;
    fn log(self) -> Self;
    fn log1p(self) -> Self;
    fn log2(self) -> Self;
    fn log10(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn atan2(self, other: Self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    fn erf(self) -> Self;
    fn sigmoid(self) -> Self;
    fn pow(self, exponent: Self) -> Self;
}

macro_rules! real {
    ($type:ty, $($name:ident ($($argument:ident),*) = $function:path;)*) => {
        impl Real for $type {
            $(#[inline(always)]
            fn $name(self $(, $argument: Self)*) -> Self {
                $function(self $(, $argument)*)
            })*
        }
    };
}

real! { f64,
    copysign(sign) = libm::copysign; floor() = libm::floor; ceil() = libm::ceil;
    trunc() = libm::trunc; round_ties_even() = libm::rint; sqrt() = libm::sqrt; rem(other) = libm::fmod;
    expm1() = libm::expm1; log() = libm::log; log1p() = libm::log1p; log2() = libm::log2;
    log10() = libm::log10; asin() = libm::asin;
    acos() = libm::acos; atan() = libm::atan; atan2(other) = libm::atan2; sinh() = libm::sinh; cosh() = libm::cosh;
    asinh() = libm::asinh; acosh() = acosh; atanh() = libm::atanh; erf() = libm::erf;
    sigmoid() = sigmoid; pow(exponent) = libm::pow;
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// `libm` gives a number below 1, too.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

real! { f32,
    copysign(sign) = libm::copysignf; floor() = libm::floorf; ceil() = libm::ceilf;
    trunc() = libm::truncf; round_ties_even() = libm::rintf; sqrt() = math::sqrt; rem(other) = libm::fmodf;
    expm1() = math::expm1; log() = math::log; log1p() = math::log1p; log2() = math::log2;
    log10() = math::log10; asin() = math::asin;
    acos() = math::acos; atan() = math::atan; atan2(other) = math::atan2; sinh() = math::sinh;
    cosh() = math::cosh; asinh() = math::asinh; acosh() = math::acosh;
    atanh() = math::atanh; erf() = math::erf; sigmoid() = math::sigmoid; pow(exponent) = math::pow;
}
