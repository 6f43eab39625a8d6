//! What can be an element of a tensor, and how one kind becomes another.
//!
//! [`Element`] is anything a slice can hold. [`Number`] adds arithmetic as PyTorch does it (integers wrap) and the two
//! lossless carriers, `i64` and `f64`, through which [`convert`] goes from any kind to any other. [`Float`] names the
//! type in which a kind computes: half and bfloat16 in `f32`, the others in themselves.
//!
//! The half conversions are branch-free so that loops over them vectorise without special instructions.
use core::fmt::Debug;
use half::{bf16, f16};

/// A value that a tensor can hold.
pub trait Element: Copy + Send + Sync + 'static + PartialEq + Debug {}

/// A truth value as it lies in a file: one byte, true when it is not zero.
///
/// Rust's `bool` may only be 0 or 1, which bytes from a file do not promise.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The truth value.
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl PartialOrd for Bool {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        self.get().partial_cmp(&other.get())
    }
}

/// A complex number as PyTorch stores it: real part, then imaginary part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

impl Element for Complex<f32> {}
impl Element for Complex<f64> {}

/// A kind of number: integers (which wrap), floating point, and [`Bool`] (which saturates at true).
pub trait Number: Element + PartialOrd + Default {
    /// The type in which sums are kept: `i64` for integers and truth values, `f64` for floats.
    type Sum: Number;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The value below all others; minus infinity for floats.
    const LOWEST: Self;
    /// The value above all others; infinity for floats.
    const HIGHEST: Self;
    /// Whether values are whole numbers or truth values, which an `i64` carries (`u64` modulo 2^64).
    const INTEGER: bool;

    /// Sum; wraps for integers.
    fn plus(self, other: Self) -> Self;
    /// Difference; wraps for integers.
    fn minus(self, other: Self) -> Self;
    /// Product; wraps for integers.
    fn times(self, other: Self) -> Self;
    /// The value as `f64`.
    fn to_f64(self) -> f64;
    /// The value cut to a whole number; out of range is unspecified.
    fn to_i64(self) -> i64;
    /// Rounds to the nearest (floats) or cuts towards zero (integers); [`Bool`] is "not zero".
    fn from_f64(value: f64) -> Self;
    /// Rounds to the nearest (floats) or keeps the low bits (integers); [`Bool`] is "not zero".
    fn from_i64(value: i64) -> Self;
    /// Whether this is not a number; never for integers.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

/// A type in which floating-point kinds compute: `f32` or `f64`.
pub trait Compute:
    Float<Compute = Self>
    + crate::math::Math
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + core::ops::Div<Output = Self>
    + core::ops::Neg<Output = Self>
    + core::ops::AddAssign
{
}

impl Compute for f32 {}
impl Compute for f64 {}

/// A floating-point kind and the type in which it computes.
pub trait Float: Number {
    /// `f32` for half, bfloat16 and `f32`; `f64` for `f64`.
    type Compute: Float<Compute = Self::Compute>
        + crate::math::Math
        + core::ops::Add<Output = Self::Compute>
        + core::ops::Sub<Output = Self::Compute>
        + core::ops::Mul<Output = Self::Compute>
        + core::ops::Div<Output = Self::Compute>
        + core::ops::Neg<Output = Self::Compute>
        + core::ops::AddAssign;

    /// Widens to the compute type.
    fn widen(self) -> Self::Compute;
    /// Rounds from the compute type.
    fn narrow(value: Self::Compute) -> Self;
}

/// Converts as PyTorch's `.to()`: floats are cut towards zero to become integers, integers wrap, truth is "not zero".
#[inline(always)]
pub fn convert<A: Number, B: Number>(value: A) -> B {
    if A::INTEGER { B::from_i64(value.to_i64()) } else { B::from_f64(value.to_f64()) }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Element for $t {}
        impl Number for $t {
            type Sum = i64;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            const INTEGER: bool = true;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn from_f64(value: f64) -> Self { value as i64 as $t }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { value as $t }
        }
    )*};
}
integers!(u8, i8, i16, u16, i32, u32, i64, u64);

impl Element for Bool {}
impl Number for Bool {
    type Sum = i64;
    const ZERO: Self = Bool(0);
    const ONE: Self = Bool(1);
    const LOWEST: Self = Bool(0);
    const HIGHEST: Self = Bool(1);
    const INTEGER: bool = true;
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        (self.get() | other.get()).into()
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        (self.get() ^ other.get()).into()
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        (self.get() & other.get()).into()
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.to_i64() as f64
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.get().into()
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        (value != 0.0).into()
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        (value != 0).into()
    }
}

macro_rules! floats {
    ($($t:ty, $compute:ty, $zero:expr, $one:expr, $infinity:expr, $lowest:expr,
       |$x:ident| $widen:expr, |$y:ident| $narrow:expr;)*) => {$(
        impl Element for $t {}
        impl Number for $t {
            type Sum = f64;
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LOWEST: Self = $lowest;
            const HIGHEST: Self = $infinity;
            const INTEGER: bool = false;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { Self::narrow(self.widen() + other.widen()) }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { Self::narrow(self.widen() - other.widen()) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { Self::narrow(self.widen() * other.widen()) }
            #[inline(always)]
            fn to_f64(self) -> f64 { self.widen() as f64 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.widen() as i64 }
            #[inline(always)]
            fn from_f64(value: f64) -> Self { Self::narrow(value as $compute) }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { Self::narrow(value as $compute) }
        }
        impl Float for $t {
            type Compute = $compute;
            #[inline(always)]
            fn widen(self) -> $compute { let $x = self; $widen }
            #[inline(always)]
            fn narrow($y: $compute) -> Self { $narrow }
        }
    )*};
}
floats! {
    f32, f32, 0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, |x| x, |y| y;
    f64, f64, 0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, |x| x, |y| y;
    f16, f32, f16::ZERO, f16::ONE, f16::INFINITY, f16::NEG_INFINITY, |x| f16_to_f32(x), |y| f16_from_f32(y);
    bf16, f32, bf16::ZERO, bf16::ONE, bf16::INFINITY, bf16::NEG_INFINITY, |x| bf16_to_f32(x), |y| bf16_from_f32(y);
}

#[inline(always)]
fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits((value.to_bits() as u32) << 16)
}

/// Rounds to the nearest, ties to even.
#[inline(always)]
fn bf16_from_f32(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    bf16::from_bits(if value.is_nan() { 0x7fc0 | (bits >> 16) as u16 } else { rounded as u16 })
}

#[inline(always)]
fn f16_to_f32(value: f16) -> f32 {
    let bits = value.to_bits() as u32;
    let shifted = (bits & 0x7fff) << 13;
    // Multiplying moves the exponent's bias by 112 and, at the same time, normalises subnormals.
    let finite = f32::from_bits(shifted) * f32::from_bits((127 + 112) << 23);
    let magnitude = if bits & 0x7c00 == 0x7c00 { shifted | 0x7f80_0000 } else { finite.to_bits() };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// Rounds to the nearest, ties to even.
#[inline(always)]
fn f16_from_f32(value: f32) -> f16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: re-bias the exponent and round at bit 13; a carry runs into the exponent as it should.
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + ((magnitude >> 13) & 1)) >> 13;
    // Subnormal results: adding 0.5 lets the adder shift and round, leaving the result in the low bits.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let bounded = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    let result = if magnitude > 0x7f80_0000 { 0x7e00 } else { bounded };
    f16::from_bits(sign | result as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_widens_exactly_and_comes_back() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            let wide = f16_to_f32(x);
            assert!(wide.to_bits() == x.to_f32().to_bits() || wide.is_nan() && x.is_nan(), "{bits:#x}");
            assert!(f16_from_f32(wide).to_bits() == bits || x.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn narrowing_agrees_with_the_half_crate() {
        for bits in (0..=u32::MAX).step_by(4093) {
            let x = f32::from_bits(bits);
            let (ours, theirs) = (f16_from_f32(x), f16::from_f32_const(x));
            assert!(ours == theirs || x.is_nan() && ours.is_nan(), "{x} {ours} {theirs}");
            let (ours, theirs) = (bf16_from_f32(x), bf16::from_f32_const(x));
            assert!(ours == theirs || x.is_nan() && ours.is_nan(), "{x} {ours} {theirs}");
        }
    }

    #[test]
    fn conversions_are_those_of_pytorch() {
        assert_eq!(convert::<f32, i32>(-2.9), -2);
        assert_eq!(convert::<f32, u8>(-1.0), 255);
        assert_eq!(convert::<i64, i8>(300), 44);
        assert_eq!(convert::<f64, Bool>(0.25), Bool(1));
        assert_eq!(convert::<Bool, f32>(Bool(7)), 1.0);
        assert_eq!(convert::<i64, f32>(16_777_217), 16_777_216.0);
        assert_eq!(convert::<i32, f16>(2049), f16::from_f32(2048.0));
        let _: i32 = convert(f32::NAN);
    }
}
