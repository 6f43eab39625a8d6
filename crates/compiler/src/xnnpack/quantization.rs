//! Integers that stand for numbers: the calls that exports write around an operator, and the grids they stand for.
//!
//! ```text
//! int8 ─▶ dequantize ─▶ operator [─▶ activation] ─▶ quantize ─▶ int8        becomes one node on int8 values
//! float ─▶ choose_qparams, quantize, dequantize ─▶ linear                   becomes a conversion per row and one node
//! int8 weight ─▶ dequantize                                                 becomes the weight of the node
//! ```
//!
//! A call that is not part of such a pattern is a conversion node of its own.

use super::arguments::Arguments;
use super::scope::Scope;
use super::tensor::Tensor;
use crate::ir::{Arg, Call, ValueId};
use sconce_format::ScalarType;

/// Integers to numbers, known parameters per tensor.
pub(super) const DEQUANTIZE: &str = "quantized_decomposed::dequantize_per_tensor";
/// Numbers to integers, known parameters per tensor.
pub(super) const QUANTIZE: &str = "quantized_decomposed::quantize_per_tensor";

/// Operators that find parameters when the program runs.
const CHOOSE: &[&str] = &[
    "quantized_decomposed::choose_qparams.tensor",
    "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "torchao::choose_qparams_affine",
];
/// Numbers to integers with such parameters, and back.
const QUANTIZE_DYNAMIC: &[&str] = &[
    "quantized_decomposed::quantize_per_tensor.tensor",
    "quantized_decomposed::quantize_per_token",
    "torchao::quantize_affine",
];
const DEQUANTIZE_DYNAMIC: &[&str] = &[
    "quantized_decomposed::dequantize_per_tensor.tensor",
    "quantized_decomposed::dequantize_per_token",
    "torchao::dequantize_affine",
];

/// The numbers that a call dequantises after they were quantised with parameters found from them.
pub(super) fn dynamic_source(scope: &Scope<'_>, dequantize: &Call) -> Option<ValueId> {
    let quantize = scope.maker(Arguments(dequantize).optional("input")?)?;
    let value = Arguments(quantize).optional("input")?;
    let parameters = |call: &Call| -> Option<[ValueId; 2]> {
        let argument = |names: [&str; 2]| names.into_iter().find_map(|name| Arguments(call).optional(name));
        Some([argument(["scale", "scales"])?, argument(["zero_point", "zero_points"])?])
    };
    let own = parameters(quantize)?;
    let choose = scope.maker(own[0])?;
    let is = |call: &Call, names: &[&str]| call.operator().is_some_and(|name| names.contains(&name));
    let chain = is(dequantize, DEQUANTIZE_DYNAMIC) && is(quantize, QUANTIZE_DYNAMIC) && is(choose, CHOOSE);
    let same = choose.outputs == own && parameters(dequantize) == Some(own);
    (chain && same && Arguments(choose).optional("input") == Some(value)).then_some(value)
}

/// Whether a call is a step of a dynamic quantisation.
pub(super) fn is_dynamic_step(call: &Call) -> bool {
    call.operator()
        .is_some_and(|name| [CHOOSE, QUANTIZE_DYNAMIC, DEQUANTIZE_DYNAMIC].iter().any(|names| names.contains(&name)))
}

/// Whether a call makes numbers of integers with one scale, or with scales found when the program runs.
pub(super) fn makes_numbers(call: &Call) -> bool {
    call.operator().is_some_and(|name| name == DEQUANTIZE || DEQUANTIZE_DYNAMIC.contains(&name))
}

/// Whether a call dequantises integers of four bits.
pub(super) fn has_four_bits(call: &Call) -> bool {
    Arguments(call).int("quant_min", -128) == Ok(-8) && Arguments(call).int("quant_max", 127) == Ok(7)
}

/// Whether an operator makes numbers of integers.
pub(super) fn is_dequantize(name: &str) -> bool {
    matches!(
        name,
        DEQUANTIZE
            | "quantized_decomposed::dequantize_per_channel"
            | "quantized_decomposed::dequantize_per_channel_group"
            | "torchao::dequantize_affine"
    )
}

/// The numbers that integers stand for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Grid {
    /// One scale and zero point.
    Whole {
        /// The distance of two numbers.
        scale: f32,
        /// The integer that stands for 0.
        zero: i32,
    },
    /// A scale for each index of a dimension, zero points of 0.
    Channels {
        /// The dimension.
        axis: usize,
        /// The distances.
        scales: Vec<f32>,
    },
    /// A scale for each group in a row of a matrix, zero points of 0.
    Groups {
        /// Elements in a group.
        size: usize,
        /// The distances, row by row.
        scales: Vec<f32>,
    },
}

impl Grid {
    /// What a call that quantises or dequantises says.
    pub(super) fn of(scope: &Scope<'_>, call: &Call) -> Result<Self, String> {
        let grid = Self::told(scope, call)?;
        let sizes =
            || scope.ty(Arguments(call).tensor("input")?)?.numbers().ok_or("its sizes are not known".to_owned());
        let fits = match &grid {
            Self::Whole { scale, .. } => scale.is_finite() && *scale > 0.0,
            Self::Channels { axis, scales } => sizes()?.get(*axis).copied() == i64::try_from(scales.len()).ok(),
            Self::Groups { size, scales } => {
                let count = scales.len().checked_mul(*size).and_then(|count| i64::try_from(count).ok());
                *size > 0 && count == sizes()?.iter().try_fold(1i64, |all, &size| all.checked_mul(size))
            }
        };
        if fits { Ok(grid) } else { Err("its scales do not go with its sizes".to_owned()) }
    }

    fn told(scope: &Scope<'_>, call: &Call) -> Result<Self, String> {
        let arguments = Arguments(call);
        match call.operator() {
            Some(DEQUANTIZE | QUANTIZE) => {
                let zero = arguments.int("zero_point", 0)?;
                let zero = i32::try_from(zero).map_err(|_| format!("the zero point {zero} is no int32"))?;
                Ok(Self::Whole { scale: arguments.float("scale", 1.0)?, zero })
            }
            Some("quantized_decomposed::dequantize_per_channel") => {
                let rank = scope.ty(arguments.tensor("input")?)?.rank();
                centred(scope, call, "zero_points")?;
                let axis = arguments.dim("axis", 0, rank)?;
                Ok(Self::Channels { axis, scales: numbers(scope, call, "scales")? })
            }
            Some("quantized_decomposed::dequantize_per_channel_group") => {
                centred(scope, call, "zero_points")?;
                let size = arguments.natural("group_size", 0)? as usize;
                Ok(Self::Groups { size, scales: numbers(scope, call, "scales")? })
            }
            Some("torchao::dequantize_affine") => Self::of_blocks(scope, call),
            _ => Err("it does not say what its integers stand for".to_owned()),
        }
    }

    /// Blocks of any sizes, of which rows and groups in rows are understood.
    fn of_blocks(scope: &Scope<'_>, call: &Call) -> Result<Self, String> {
        let arguments = Arguments(call);
        let sizes = scope.ty(arguments.tensor("input")?)?.numbers().ok_or("its sizes are not known")?;
        centred(scope, call, "zero_point")?;
        let (block, scales) = (arguments.ints("block_size")?, numbers(scope, call, "scale")?);
        match (block.as_slice(), sizes.as_slice()) {
            (block, sizes) if block == sizes && scales.len() == 1 => Ok(Self::Whole { scale: scales[0], zero: 0 }),
            ([1, group], [_, columns]) if group < columns => {
                Ok(Self::Groups { size: usize::try_from(*group).unwrap_or(0), scales })
            }
            ([1, rest @ ..], [_, others @ ..]) if rest == others => Ok(Self::Channels { axis: 0, scales }),
            _ => Err(format!("its integers stand for numbers in blocks of {block:?}")),
        }
    }

    /// The numbers that integers stand for.
    pub(super) fn dequantized(&self, tensor: &Tensor<'_>, dtype: ScalarType) -> Result<Tensor<'static>, String> {
        let mut numbers = tensor.numbers().ok_or_else(|| format!("it has elements of the type {}", tensor.dtype))?;
        match self {
            Self::Whole { scale, zero } => {
                numbers.iter_mut().for_each(|number| *number = (*number - *zero as f32) * scale);
            }
            Self::Channels { axis, scales } => {
                let inner: usize = tensor.sizes.get(axis + 1..).unwrap_or_default().iter().product();
                for (place, number) in numbers.iter_mut().enumerate() {
                    *number *= scales.get(place / inner.max(1) % scales.len().max(1)).ok_or("it has no scales")?;
                }
            }
            Self::Groups { size, scales } => {
                for (place, number) in numbers.iter_mut().enumerate() {
                    *number *= scales.get(place / (*size).max(1)).ok_or("it has fewer scales than groups")?;
                }
            }
        }
        Ok(Tensor::floats(dtype, &tensor.sizes, &numbers))
    }
}

/// Known numbers of a call's argument.
fn numbers(scope: &Scope<'_>, call: &Call, name: &str) -> Result<Vec<f32>, String> {
    let tensor = scope.known(Arguments(call).tensor(name)?)?;
    tensor.numbers().ok_or_else(|| format!("its argument {name:?} has elements of the type {}", tensor.dtype))
}

/// Zero points must all be 0 if there are any.
fn centred(scope: &Scope<'_>, call: &Call, name: &str) -> Result<(), String> {
    match call.arg(name) {
        Arg::Value(_) if numbers(scope, call, name)?.iter().any(|&zero| zero != 0.0) => {
            Err("its weights have zero points other than 0".to_owned())
        }
        _ => Ok(()),
    }
}
