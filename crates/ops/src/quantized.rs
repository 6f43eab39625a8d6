//! Quantisation: `quantized_decomposed`, the operators between real numbers and small integers.
//!
//! `real = scale * (quantised - zero_point)`, with one pair of parameters for a tensor, for each channel, or for each
//! token (every row along the last dimension). All three are one walk over `[outer, channels, inner]` with a pair of
//! parameters per channel. Rounding is to the nearest, ties to even, of the value times the reciprocal of the scale, in
//! the type of the scales; the zero point is added after it, for tokens before it, as PyTorch does.
use crate::dense::{buffer_bytes, converted, reorder_scratch, row_major};
use crate::operands::{elements, misaligned};
use crate::ops;
use crate::typed::{Typed, for_dtype};
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::view::{view, view_mut};
use sconce_kernels::{Float, Isa, Number, math, split};
use sconce_schema::{Sizes, normalize_dim};

/// Quantisation and back.
pub(crate) static OPS: &[Op] = ops! {
    "quantized_decomposed::quantize_per_tensor.out" [8] writes [6] scratch |args| scratch(args, 6), => |call| quantize(call, Spread::Tensor, [3, 4], 6);
    "quantized_decomposed::quantize_per_tensor.Tensor_out" [8] writes [6] scratch |args| scratch(args, 6), => |call| quantize(call, Spread::Tensor, [3, 4], 6);
    "quantized_decomposed::quantize_per_channel.out" [9] writes [7] scratch |args| scratch(args, 7), => |call| quantize(call, Spread::Channel(3), [4, 5], 7);
    "quantized_decomposed::quantize_per_token.out" [8] writes [6] scratch |args| scratch(args, 6), => |call| quantize(call, Spread::Token, [3, 4], 6);
    "quantized_decomposed::dequantize_per_tensor.out" [9] writes [7] scratch |args| scratch(args, 7), => |call| dequantize(call, Spread::Tensor, 7);
    "quantized_decomposed::dequantize_per_tensor.Tensor_out" [9] writes [7] scratch |args| scratch(args, 7), => |call| dequantize(call, Spread::Tensor, 7);
    "quantized_decomposed::dequantize_per_channel.out" [10] writes [8] scratch |args| scratch(args, 8), => |call| dequantize(call, Spread::Channel(3), 8);
    "quantized_decomposed::dequantize_per_token.out" [9] writes [7] scratch |args| scratch(args, 7), => |call| dequantize(call, Spread::Token, 7);
    "quantized_decomposed::choose_qparams.Tensor_out" [8] writes [5, 6] scratch |args| scratch(args, 0), => choose_parameters;
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out" [5] writes [2, 3] scratch |args| scratch(args, 0), => choose_token_parameters;
};

/// What shares a pair of parameters.
#[derive(Clone, Copy, PartialEq)]
enum Spread {
    /// All elements.
    Tensor,
    /// The elements of a channel, along the dimension of this argument.
    Channel(usize),
    /// The elements of a row along the last dimension.
    Token,
}

/// Room for the input as float32 and for input and output in row-major order.
fn scratch(args: &Args<'_>, out: usize) -> usize {
    let floats = match args.tensor_type(0) {
        Ok((dtype, _)) => buffer_bytes((args.capacity(0).unwrap_or(0) / dtype.size()).saturating_mul(4)),
        Err(_) => 0,
    };
    floats.saturating_add(reorder_scratch(args, &[0, out]))
}

/// Scales and zero points, by channel.
#[derive(Clone, Copy)]
struct Parameters<'c> {
    scales: Numbers<'c>,
    zero_points: Option<Numbers<'c>>,
    channels: usize,
    inner: usize,
}

/// Numbers from an argument that is a number or a tensor.
#[derive(Clone, Copy)]
enum Numbers<'c> {
    One(f64),
    Many(Tensor<'c>),
}

impl<'c> Numbers<'c> {
    fn new(call: &Call<'c>, argument: usize) -> Result<Self, Fault> {
        match call.scalar(argument) {
            Ok(number) => Ok(Numbers::One(number.to_f64())),
            Err(_) => {
                let tensor = call.tensor(argument)?;
                for_dtype!(numbers, tensor.dtype, argument, T => view::<T>(tensor.data).map(|_| ()).ok_or(misaligned(argument)))?;
                Ok(Numbers::Many(tensor))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Numbers::One(_) => 1,
            Numbers::Many(tensor) => tensor.numel(),
        }
    }

    fn get(&self, index: usize) -> f64 {
        match self {
            Numbers::One(number) => *number,
            Numbers::Many(tensor) => for_dtype!(numbers, tensor.dtype, 0, T => {
                Ok(view::<T>(tensor.data).and_then(|all| all.get(index)).map_or(0.0, |number| number.to_f64()))
            })
            .unwrap_or(0.0),
        }
    }
}

impl<'c> Parameters<'c> {
    fn new(call: &Call<'c>, x: &Tensor<'c>, spread: Spread) -> Result<Self, Fault> {
        let scales = Numbers::new(call, 1)?;
        let zero_points = if call.is_none(2)? { None } else { Some(Numbers::new(call, 2)?) };
        let (channels, inner) = match spread {
            Spread::Tensor => (1, x.numel()),
            Spread::Channel(argument) => {
                let dim = normalize_dim(call.int(argument)?, x.shape.rank());
                let dim = dim.filter(|&dim| dim < x.shape.rank());
                let dim = dim.ok_or(Fault::argument(argument, "there is no such dimension"))?;
                (x.sizes()[dim], x.sizes()[dim + 1..].iter().product())
            }
            Spread::Token => {
                let inner = x.sizes().last().copied().unwrap_or(1);
                (x.numel().checked_div(inner).unwrap_or(0), inner)
            }
        };
        for (argument, numbers) in [(1, Some(scales)), (2, zero_points)] {
            if numbers.is_some_and(|numbers| numbers.len() != channels) && x.numel() > 0 {
                return Err(Fault::argument(argument, "{} parameters are needed").with([channels]));
            }
        }
        Ok(Self { scales, zero_points, channels, inner })
    }

    fn zero_point(&self, channel: usize) -> f64 {
        self.zero_points.map_or(0.0, |zero_points| zero_points.get(channel))
    }

    /// Calls `body(channel, elements, results)` for every run of elements that share parameters.
    fn each<A: Sync, B: Send>(
        &self,
        call: &Call<'_>,
        from: &[A],
        into: &mut [B],
        body: impl Fn(usize, &[A], &mut [B]) + Sync,
    ) {
        let (isa, inner) = (Isa::detect(), self.inner.max(1));
        split::chunks(call.parallel(), into, inner, |run, into| {
            if let Some(from) = from.get(run * inner..run * inner + into.len()) {
                isa.vectorize(
                    #[inline(always)]
                    || body(run % self.channels.max(1), from, into),
                );
            }
        });
    }
}

fn quantize(call: &mut Call<'_>, spread: Spread, [low, high]: [usize; 2], out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let parameters = Parameters::new(call, &x, spread)?;
    let bound = |argument: usize| -> Result<f32, Fault> { Ok(call.int(argument)? as f32) };
    let (low, high) = (bound(low)?, bound(high)?);
    if low.is_nan() || low > high {
        return Err(Fault::argument(3, "the lowest value is above the highest"));
    }
    let wide = matches!(parameters.scales, Numbers::Many(scales) if scales.dtype == ScalarType::Double && spread != Spread::Tensor);
    let x = row_major(call, x)?;
    let from = converted::<f32>(call, 0, x)?;
    let target = call.out(out, x.sizes())?;
    if !target.shape.is_contiguous() {
        return Err(layout(out));
    }
    for_dtype!(numbers, target.dtype, out, Q => {
        let into = view_mut::<Q>(target.data).ok_or(misaligned(out))?;
        parameters.each(call, from, into, |channel, from, into| {
            let (inverse, zero_point) = (1.0 / parameters.scales.get(channel), parameters.zero_point(channel));
            let narrow = (inverse as f32, zero_point as f32);
            // Whole numbers below 2^22 need no call to be rounded to.
            let short = low - narrow.1 > -4e6 && high - narrow.1 < 4e6;
            let token = spread == Spread::Token;
            Isa::detect().vectorize(
                #[inline(always)]
                || match (wide, token) {
                    (false, false) if short => {
                        let (least, most) = (low - narrow.1, high - narrow.1);
                        for (into, &x) in into.iter_mut().zip(from) {
                            let value = (x * narrow.0).max(least).min(most);
                            *into = Q::from_i64(i64::from((value + math::ROUND - math::ROUND + narrow.1) as i32));
                        }
                    }
                    _ => {
                        for (into, &x) in into.iter_mut().zip(from) {
                            let value = match (wide, token) {
                                (false, true) => libm::rintf(x * narrow.0 + narrow.1),
                                (false, false) => libm::rintf(x * narrow.0) + narrow.1,
                                (true, true) => libm::rint(f64::from(x) * inverse + zero_point) as f32,
                                (true, false) => (libm::rint(f64::from(x) * inverse) + zero_point) as f32,
                            };
                            *into = Q::from_i64(value.max(low).min(high) as i64);
                        }
                    }
                },
            );
        });
        Ok(())
    })
}

/// Quantised tensors come in row-major order.
fn layout(argument: usize) -> Fault {
    Fault::argument(argument, "a row-major output is needed here")
}

fn dequantize(call: &mut Call<'_>, spread: Spread, out: usize) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let parameters = Parameters::new(call, &x, spread)?;
    let x = row_major(call, x)?;
    let target = call.out(out, x.sizes())?;
    if !target.shape.is_contiguous() {
        return Err(layout(out));
    }
    for_dtype!(numbers, x.dtype, 0, Q => {
        let from = elements::<Q>(0, &x)?;
        for_dtype!(floats, target.dtype, out, T => restore::<Q, T>(call, &parameters, from, target.data, out))
    })
}

fn restore<Q: Typed, T: Typed>(
    call: &Call<'_>,
    parameters: &Parameters<'_>,
    from: &[Q],
    into: &mut [u8],
    out: usize,
) -> Result<(), Fault> {
    let into = view_mut::<T>(into).ok_or(misaligned(out))?;
    parameters.each(call, from, into, |channel, from, into| {
        let (scale, zero_point) = (parameters.scales.get(channel) as f32, parameters.zero_point(channel) as i64);
        for (into, q) in into.iter_mut().zip(from) {
            *into = T::from_f64(f64::from(q.to_i64().wrapping_sub(zero_point) as f32 * scale));
        }
    });
    Ok(())
}

/// The smallest and largest of the elements.
fn range(x: &[f32]) -> (f32, f32) {
    x.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)))
}

/// Rounds to an element type, for arithmetic that PyTorch does in it.
pub(crate) fn rounding(dtype: ScalarType) -> fn(f32) -> f32 {
    match dtype {
        ScalarType::Half => |x| half::f16::narrow(x).widen(),
        ScalarType::BFloat16 => |x| half::bf16::narrow(x).widen(),
        _ => |x| x,
    }
}

/// Parameters for values between `low` and `high`, mapped to integers between `q_low` and `q_high`.
fn parameters_for(
    (low, high): (f32, f32),
    (q_low, q_high): (f32, f32),
    epsilon: f32,
    round: fn(f32) -> f32,
) -> (f32, f32) {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let scale = round(round(high - low) / (q_high - q_low)).max(epsilon);
    (scale, (q_low - libm::rintf(low / scale)).max(q_low).min(q_high))
}

fn choose_parameters(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (q_low, q_high, epsilon) = (call.int(1)? as f32, call.int(2)? as f32, call.double(3)? as f32);
    if q_low >= q_high || x.numel() == 0 {
        return Err(Fault::argument(1, "there must be values, and the lowest integer below the highest"));
    }
    let round = rounding(x.dtype);
    let x = converted::<f32>(call, 0, x)?;
    let (scale, zero_point) = parameters_for(range(x), (q_low, q_high), epsilon, round);
    let (scale_sizes, zero_point_sizes) = (call.tensor_type(5)?.1, call.tensor_type(6)?.1);
    write_one(call, 5, scale_sizes.sizes(), scale.into())?;
    write_one(call, 6, zero_point_sizes.sizes(), zero_point.into())
}

/// A single number as an output of any type.
fn write_one(call: &mut Call<'_>, argument: usize, sizes: &[usize], value: f64) -> Result<(), Fault> {
    let out = call.out(argument, sizes)?;
    for_dtype!(numbers, out.dtype, argument, T => {
        view_mut::<T>(out.data).ok_or(misaligned(argument))?.fill(T::from_f64(value));
        Ok(())
    })
}

/// A pair of parameters for every row along the last dimension, for eight-bit integers.
fn choose_token_parameters(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let Some((&last, leading)) = x.sizes().split_last().filter(|(last, _)| **last > 0) else {
        return Err(Fault::argument(0, "the tensor has no rows"));
    };
    let mut sizes = Sizes::new(leading).unwrap_or(Sizes::SCALAR);
    sizes.push(1).ok_or(Fault::argument(0, "the tensor has too many dimensions"))?;
    let round = rounding(x.dtype);
    let x = row_major(call, x)?;
    let x = converted::<f32>(call, 0, x)?;
    let (scales, zero_points) = (call.out(2, &sizes)?, call.out(3, &sizes)?);
    if scales.dtype == ScalarType::Double || scales.dtype == ScalarType::Float {
        for_dtype!(floats, scales.dtype, 2, S => for_dtype!(numbers, zero_points.dtype, 3, Z => {
            let scales = view_mut::<S>(scales.data).ok_or(misaligned(2))?;
            let zero_points = view_mut::<Z>(zero_points.data).ok_or(misaligned(3))?;
            for ((row, scale), zero_point) in x.chunks_exact(last).zip(scales).zip(zero_points) {
                let (s, z) = token_parameters(range(row), round);
                (*scale, *zero_point) = (S::from_f64(s), Z::from_f64(z));
            }
            Ok(())
        }))
    } else {
        Err(crate::typed::unsupported(2, scales.dtype))
    }
}

/// As PyTorch does it for one row: in the input's type, with the zero point from the end with the smaller error.
fn token_parameters((low, high): (f32, f32), round: fn(f32) -> f32) -> (f64, f64) {
    let (q_low, q_high) = (-128.0f32, 127.0f32);
    let (low, high) = (low.min(0.0), high.max(0.0));
    let scale = round(round(high - low) / (q_high - q_low)).max(f32::EPSILON);
    let (low, high) = (round(low / scale), round(high / scale));
    let (low_error, high_error) = (round(q_low + low), round(q_high + high));
    let zero_point = if round(low_error + high_error) > 0.0 { round(q_low - low) } else { round(q_high - high) };
    (f64::from(scale), f64::from(libm::rintf(zero_point.max(q_low).min(q_high))))
}
