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

/// Where arguments stand: the running mean (the variance follows) if there is one, `training` (momentum and epsilon
/// follow) and the output (saved mean and saved reciprocal deviation follow).
#[derive(Clone, Copy)]
struct Form {
    running: Option<usize>,
    training: usize,
    out: usize,
}

const WITH_RUNNING: Form = Form { running: Some(3), training: 5, out: 8 };
const WITHOUT: Form = Form { running: None, training: 3, out: 6 };

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
        return Err(Fault::argument(0, "a tensor with channels is needed here, this one has {} dimensions")
            .with([x.shape.rank()]));
    };
    let inner: usize = spatial.iter().product();
    let training = call.bool(form.training)?;
    let (momentum, epsilon) = (call.double(form.training + 1)?, call.double(form.training + 2)?);
    let affine = Affine { weight: per_channel::<C>(call, 1, channels)?, bias: per_channel(call, 2, channels)? };
    let data = converted_row_major::<C>(call, 0, x)?;
    let bytes = channels.saturating_mul(size_of::<C>());
    let means = view_mut::<C>(call.scratch(bytes)?).ok_or(misaligned(0))?;
    let variances = view_mut::<C>(call.scratch(bytes)?).ok_or(misaligned(0))?;
    let mut running = [None, None];
    if let Some(first) = form.running {
        running = [per_channel::<C>(call, first, channels)?, per_channel(call, first + 1, channels)?];
    }
    match running {
        _ if training => batch_moments(call.parallel(), inner, data, means, variances),
        [Some(mean), Some(variance)] => {
            means.copy_from_slice(mean);
            variances.copy_from_slice(variance);
        }
        _ => return Err(Fault::argument(form.training, "without running statistics, it must be training")),
    }
    let statistics = Statistics { mean: &*means, variance: &*variances, epsilon };
    let (out, parallel) = (call.out(form.out, x.sizes())?, call.parallel());
    write_converted::<C>(call, form.out, out, |out| {
        batch_norm(Isa::detect(), parallel, (channels, inner), data, statistics, affine, out);
        Ok(())
    })?;
    let saved = if training { channels } else { 0 };
    let (mean_out, scale_out) = (call.out(form.out + 1, &[saved])?, call.out(form.out + 2, &[saved])?);
    write_converted::<C>(call, form.out + 1, mean_out, |out| {
        out.iter_mut().zip(&*means).for_each(|(out, &mean)| *out = mean);
        Ok(())
    })?;
    write_converted::<C>(call, form.out + 2, scale_out, |out| {
        out.iter_mut().zip(&*variances).for_each(|(out, variance)| {
            *out = C::from_f64(1.0 / libm::sqrt(variance.to_f64() + epsilon));
        });
        Ok(())
    })?;
    let ([Some(mean), Some(variance)], Some(first), true) = (running, form.running, training) else { return Ok(()) };
    let count = (data.len() / channels.max(1)) as f64;
    move_running(call, first, momentum, mean, means, 1.0)?;
    move_running(call, first + 1, momentum, variance, variances, count / (count - 1.0))
}

/// Moves a running statistic from `old` towards `new * correction` by the share `momentum`.
fn move_running<C: Typed>(
    call: &mut Call<'_>,
    argument: usize,
    momentum: f64,
    old: &[C],
    new: &[C],
    correction: f64,
) -> Result<(), Fault> {
    let running = call.in_place(argument)?;
    write_converted::<C>(call, argument, running, |running| {
        for (running, (old, new)) in running.iter_mut().zip(old.iter().zip(new)) {
            *running = C::from_f64(momentum * new.to_f64() * correction + (1.0 - momentum) * old.to_f64());
        }
        Ok(())
    })
}
