//! From element types, which a program names, to Rust types, for which code is compiled.
use sconce_core::{Fault, ScalarType};
use sconce_kernels::view::Plain;
use sconce_kernels::{Bool, Number};

/// A number type with the element type it stands for.
pub(crate) trait Typed: Number + Plain {
    /// The element type.
    const DTYPE: ScalarType;
}

macro_rules! typed {
    ($($type:ty => $dtype:ident),* $(,)?) => { $(impl Typed for $type { const DTYPE: ScalarType = ScalarType::$dtype; })* };
}
typed! {
    u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    f32 => Float, f64 => Double, half::f16 => Half, half::bf16 => BFloat16, Bool => Bool,
}

/// The fault for an element type that an operator does not take.
pub(crate) fn unsupported(argument: usize, dtype: ScalarType) -> Fault {
    let text = "elements of type number {} (see ScalarType) are not something this operator computes with";
    Fault { code: sconce_core::Code::NotSupported, ..Fault::argument(argument, text) }.with([usize::from(dtype.code())])
}

/// Runs an expression with `$T` standing for the Rust type of an element type: `numbers` for all, `floats` for the
/// floating ones. Other types give the fault of argument `$argument`.
macro_rules! for_dtype {
    (numbers, $dtype:expr, $argument:expr, $T:ident => $body:expr) => {
        crate::typed::for_dtype!(@match $dtype, $argument, $T => $body,
            Byte u8, Char i8, Short i16, Int i32, Long i64, UInt16 u16, UInt32 u32, UInt64 u64, Float f32, Double f64,
            Half half::f16, BFloat16 half::bf16, Bool sconce_kernels::Bool)
    };
    (floats, $dtype:expr, $argument:expr, $T:ident => $body:expr) => {
        crate::typed::for_dtype!(@match $dtype, $argument, $T => $body,
            Float f32, Double f64, Half half::f16, BFloat16 half::bf16)
    };
    (@match $dtype:expr, $argument:expr, $T:ident => $body:expr, $($variant:ident $type:ty),*) => {
        match $dtype {
            $(sconce_core::ScalarType::$variant => { type $T = $type; $body })*
            other => Err(crate::typed::unsupported($argument, other)),
        }
    };
}
pub(crate) use for_dtype;

/// Runs an expression with `$C` standing for the type in which a floating element type computes: `f64` for doubles, `f32`
/// for the shorter ones. Other types give the fault of argument `$argument`.
macro_rules! for_floating {
    ($dtype:expr, $argument:expr, $C:ident => $body:expr) => {
        match $dtype {
            sconce_core::ScalarType::Double => {
                type $C = f64;
                $body
            }
            sconce_core::ScalarType::Float | sconce_core::ScalarType::Half | sconce_core::ScalarType::BFloat16 => {
                type $C = f32;
                $body
            }
            other => Err(crate::typed::unsupported($argument, other)),
        }
    };
}
pub(crate) use for_floating;
