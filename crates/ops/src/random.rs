//! Operators that draw: dropout, coin flips and draws from given probabilities.
//!
//! Values come from the generator of [`fill`](crate::fill): they follow the seed and each element's row-major position, and
//! are not PyTorch's.
use crate::dense::{converted_row_major, converted_scratch, wide_bytes, write_converted};
use crate::fill::{next_stream, uniform};
use crate::ops;
use crate::typed::{for_floating, unsupported};
use sconce_core::{Args, Call, Fault, Op, TensorMut};

/// Operators that draw.
pub(crate) static OPS: &[Op] = ops! {
    "aten::native_dropout.out" [6] writes [3, 4] scratch |args| converted_scratch(args, &[0, 3, 4]), => dropout;
    "aten::bernoulli.out" [4] writes [2] scratch |args| drawing_scratch(args, 0, 2), => |call| flip_by_tensor(call, 0, 2);
    "aten::bernoulli.Tensor_out" [5] writes [3] scratch |args| drawing_scratch(args, 1, 3), => |call| flip_by_tensor(call, 1, 3);
    "aten::bernoulli.float_out" [5] writes [3] scratch |args| wide_bytes(args, 3), => flip;
    "aten::multinomial.out" [6] writes [4] scratch |args| drawing_scratch(args, 0, 4), => multinomial;
};

/// Room for probabilities as doubles and for what is drawn.
fn drawing_scratch(args: &Args<'_>, probabilities: usize, out: usize) -> usize {
    wide_bytes(args, probabilities).saturating_add(wide_bytes(args, out))
}

/// A fault unless this is a probability.
fn probability(argument: usize, p: f64) -> Result<f64, Fault> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(Fault::argument(argument, "a probability must be from 0 to 1")) }
}

/// Elements that are dropped become zero, the others grow so that the mean stays; the second output says which stayed.
fn dropout(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, p) = (call.tensor(0)?, probability(1, call.double(1)?)?);
    let train = call.optional(2, |args, i| args.bool(i))?.unwrap_or(true);
    let (out, mask) = (call.out(3, x.sizes())?, call.out(4, x.sizes())?);
    let stream = if train { next_stream() } else { 0 };
    let stays = |index: usize| !train || uniform(stream, index as u64) >= p;
    let growth = if train && p < 1.0 { 1.0 / (1.0 - p) } else { 1.0 };
    for_floating!(x.dtype, 0, C => {
        let x = converted_row_major::<C>(call, 0, x)?;
        write_converted::<C>(call, 3, out, |out| {
            for (i, (out, &x)) in out.iter_mut().zip(x).enumerate() {
                *out = if stays(i) { x * growth as C } else { 0.0 };
            }
            Ok(())
        })
    })?;
    write_converted::<u8>(call, 4, mask, |mask| {
        mask.iter_mut().enumerate().for_each(|(i, mask)| *mask = u8::from(stays(i)));
        Ok(())
    })
}

/// Ones with the probabilities of a tensor argument, in the sizes of argument 0; zeros elsewhere.
fn flip_by_tensor(call: &mut Call<'_>, probabilities: usize, out: usize) -> Result<(), Fault> {
    let ((_, shape), p) = (call.tensor_type(0)?, call.tensor(probabilities)?);
    if p.sizes() != shape.sizes() {
        return Err(Fault::argument(probabilities, "there must be one probability for each element"));
    }
    if !p.dtype.is_floating() {
        return Err(unsupported(probabilities, p.dtype));
    }
    let p = converted_row_major::<f64>(call, probabilities, p)?;
    p.iter().try_for_each(|&p| probability(probabilities, p).map(drop))?;
    let target = call.out(out, shape.sizes())?;
    flips(call, out, target, |index| p.get(index).copied().unwrap_or(0.0))
}

fn flip(call: &mut Call<'_>) -> Result<(), Fault> {
    let ((_, shape), p) = (call.tensor_type(0)?, probability(1, call.double(1)?)?);
    let target = call.out(3, shape.sizes())?;
    flips(call, 3, target, |_| p)
}

/// Ones with the probabilities that `p` gives.
fn flips(call: &mut Call<'_>, argument: usize, out: TensorMut<'_>, p: impl Fn(usize) -> f64) -> Result<(), Fault> {
    let stream = next_stream();
    write_converted::<u8>(call, argument, out, |out| {
        out.iter_mut().enumerate().for_each(|(i, out)| *out = u8::from(uniform(stream, i as u64) < p(i)));
        Ok(())
    })
}

/// Positions drawn with the probabilities of a row, which need not add up to 1.
fn multinomial(call: &mut Call<'_>) -> Result<(), Fault> {
    let (weights, replacement) = (call.tensor(0)?, call.bool(2)?);
    let samples = usize::try_from(call.int(1)?).ok().filter(|&samples| samples > 0);
    let samples = samples.ok_or(Fault::argument(1, "one position at least must be drawn"))?;
    let (rows, n) = match *weights.sizes() {
        [n] => (None, n),
        [rows, n] => (Some(rows), n),
        _ => return Err(Fault::argument(0, "the probabilities must be a row or a matrix")),
    };
    if n == 0 || (!replacement && samples > n) {
        let text = "{} positions cannot be drawn from {} without drawing one twice";
        return Err(Fault::argument(1, text).with([samples, n]));
    }
    let sizes = [rows.unwrap_or(1), samples];
    let out = call.out(4, &sizes[usize::from(rows.is_none())..])?;
    let stream = next_stream();
    if !weights.dtype.is_floating() {
        return Err(unsupported(0, weights.dtype));
    }
    let weights = converted_row_major::<f64>(call, 0, weights)?;
    write_converted::<i64>(call, 4, out, |drawn| {
        for (row, (weights, drawn)) in weights.chunks_exact(n).zip(drawn.chunks_exact_mut(samples)).enumerate() {
            let total: f64 = weights.iter().sum();
            let valid = weights.iter().all(|&weight| weight >= 0.0) && total > 0.0 && total.is_finite();
            if !valid {
                return Err(Fault::argument(0, "probabilities must not be negative, NaN or infinite, nor all zero"));
            }
            if replacement {
                draw_again(weights, total, |draw| uniform(stream, (row * samples + draw) as u64), drawn);
            } else {
                draw_once(weights, |at| uniform(stream, (row * n + at) as u64), drawn);
            }
        }
        Ok(())
    })
}

/// Positions where the running sum of weights passes a uniform share of the total.
fn draw_again(weights: &[f64], total: f64, unit: impl Fn(usize) -> f64, drawn: &mut [i64]) {
    for (draw, position) in drawn.iter_mut().enumerate() {
        let mut left = unit(draw) * total;
        let passed = weights.iter().position(|&weight| {
            left -= weight;
            weight > 0.0 && left < 0.0
        });
        // Rounding may leave a little after the last one.
        let last = || weights.iter().rposition(|&weight| weight > 0.0);
        *position = passed.or_else(last).unwrap_or(0) as i64;
    }
}

/// Different positions: those whose exponential waiting times, at rates equal to the weights, end first.
fn draw_once(weights: &[f64], unit: impl Fn(usize) -> f64, drawn: &mut [i64]) {
    let time = |(at, weight): (usize, &f64)| (-libm::log(1.0 - unit(at)) / weight, at);
    let mut last = (f64::NEG_INFINITY, 0);
    for position in drawn {
        let later = weights.iter().enumerate().map(time).filter(|&candidate| candidate > last);
        last = later.reduce(|a, b| if b < a { b } else { a }).unwrap_or(last);
        *position = last.1 as i64;
    }
}
