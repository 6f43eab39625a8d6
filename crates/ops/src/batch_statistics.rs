//! Batch normalisation with the statistics of the batch itself, as in training.
//!
//! Everything computes in float32, or float64 for doubles, on row-major elements. Running statistics, where there are
//! some, move towards those of the batch; without training they are the ones that count.
use crate::dense::{buffer_bytes, converted_row_major, converted_scratch, write_converted};
use crate::operands::misaligned;
use crate::ops;
use crate::typed::{Typed, for_floating};
use sconce_core::{Args, Call, Fault, Op};
use sconce_kernels::norm::{Affine, Statistics, batch_moments, batch_norm};
use sconce_kernels::view::view_mut;
use sconce_kernels::{Float, Isa};

/// Batch normalisation in training.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_native_batch_norm_legit.out" [12] writes [3, 4, 8, 9, 10] scratch |args| scratch(args, WITH_RUNNING), => |call| batch(call, WITH_RUNNING);
    "aten::_native_batch_norm_legit.no_stats_out" [10] writes [6, 7, 8] scratch |args| scratch(args, WITHOUT), => |call| batch(call, WITHOUT);
};

/// Where arguments stand: the running mean (the variance follows) if there is one, `training` if it is not settled,
/// momentum (epsilon follows) and the output (saved mean and saved reciprocal deviation follow).
#[derive(Clone, Copy)]
struct Form {
    running: Option<usize>,
    training: Option<usize>,
    momentum: usize,
    out: usize,
}

const WITH_RUNNING: Form = Form { running: Some(3), training: Some(5), momentum: 6, out: 8 };
const WITHOUT: Form = Form { running: None, training: Some(3), momentum: 4, out: 6 };
const GIVEN: Form = Form { running: Some(3), training: None, momentum: 5, out: 7 };

/// Batch normalisation with running statistics that only count, where the arguments differ in type.
pub(crate) fn given(call: &mut Call<'_>) -> Result<(), Fault> {
    batch(call, GIVEN)
}

/// Scratch for [`given`].
pub(crate) fn given_scratch(args: &Args<'_>) -> usize {
    scratch(args, GIVEN)
}

fn scratch(args: &Args<'_>, form: Form) -> usize {
    let channels = args.tensor_type(0).ok().and_then(|(_, x)| x.sizes().get(1).copied()).unwrap_or(0);
    let running = form.running.map_or(0, |mean| converted_scratch(args, &[mean, mean, mean + 1, mean + 1]));
    let operands = converted_scratch(args, &[0, 1, 2, form.out, form.out + 1, form.out + 2]);
    let moments = buffer_bytes(channels.saturating_mul(8)).saturating_mul(2);
    operands.saturating_add(running).saturating_add(moments)
}

fn batch(call: &mut Call<'_>, form: Form) -> Result<(), Fault> {
    let (dtype, _) = call.tensor_type(0)?;
    for_floating!(dtype, 0, C => normalise::<C>(call, form))
}

/// One value per channel, converted; `None` for an absent argument.
fn per_channel<'c, C: Typed>(call: &mut Call<'c>, argument: usize, channels: usize) -> Result<Option<&'c [C]>, Fault> {
    let Some(tensor) = call.optional_tensor(argument)? else { return Ok(None) };
    if tensor.numel() != channels {
        let text = "one value for each of {} channels is needed, not {}";
        return Err(Fault::argument(argument, text).with([channels, tensor.numel()]));
    }
    converted_row_major(call, argument, tensor).map(Some)
}

fn normalise<C: Typed + Float<Compute = C>>(call: &mut Call<'_>, form: Form) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let [_, channels, ref spatial @ ..] = *x.sizes() else {
        let text = "a tensor with channels is needed here, this one has {} dimensions";
        return Err(Fault::argument(0, text).with([x.shape.rank()]));
    };
    let inner: usize = spatial.iter().product();
    let training = form.training.map_or(Ok(false), |argument| call.bool(argument))?;
    let (momentum, epsilon) = (call.double(form.momentum)?, call.double(form.momentum + 1)?);
    let affine = Affine { weight: per_channel::<C>(call, 1, channels)?, bias: per_channel(call, 2, channels)? };
    let mut running = [None, None];
    if let Some(first) = form.running {
        running = [per_channel::<C>(call, first, channels)?, per_channel(call, first + 1, channels)?];
    }
    let data = converted_row_major::<C>(call, 0, x)?;
    let bytes = channels.saturating_mul(size_of::<C>());
    let means = view_mut::<C>(call.scratch(bytes)?).ok_or(misaligned(0))?;
    let variances = view_mut::<C>(call.scratch(bytes)?).ok_or(misaligned(0))?;
    match running {
        _ if training => batch_moments(call.parallel(), inner, data, means, variances),
        [Some(mean), Some(variance)] => {
            means.copy_from_slice(mean);
            variances.copy_from_slice(variance);
        }
        _ => return Err(Fault::argument(0, "without running statistics, it must be training")),
    }
    let statistics = Statistics { mean: &*means, variance: &*variances, epsilon };
    let (out, parallel) = (call.out(form.out, x.sizes())?, call.parallel());
    write_converted::<C>(call, form.out, out, |out| {
        batch_norm(Isa::detect(), parallel, (channels, inner), data, statistics, affine, out);
        Ok(())
    })?;
    let saved = if training { channels } else { 0 };
    let scale = |variance: C| C::from_f64(1.0 / libm::sqrt(variance.to_f64() + epsilon));
    write_each(call, form.out + 1, saved, |channel| means[channel])?;
    write_each(call, form.out + 2, saved, |channel| scale(variances[channel]))?;
    let ([Some(mean), Some(variance)], Some(first), true) = (running, form.running, training) else { return Ok(()) };
    // A running variance is unbiased.
    let count = (data.len() / channels.max(1)) as f64;
    let unbiased = count / (count - 1.0);
    let moved = |old: C, new: f64| C::from_f64(momentum * new + (1.0 - momentum) * old.to_f64());
    write_each(call, first, channels, |channel| moved(mean[channel], means[channel].to_f64()))?;
    write_each(call, first + 1, channels, |channel| moved(variance[channel], variances[channel].to_f64() * unbiased))
}

/// Writes one value per channel.
fn write_each<C: Typed>(
    call: &mut Call<'_>,
    argument: usize,
    channels: usize,
    value: impl Fn(usize) -> C,
) -> Result<(), Fault> {
    let out = call.out(argument, &[channels])?;
    write_converted::<C>(call, argument, out, |out| {
        out.iter_mut().enumerate().for_each(|(channel, out)| *out = value(channel));
        Ok(())
    })
}
