//! Normalisation: batch (with given statistics), layer and group.
use crate::batch_statistics;
use crate::convolution::layout_of;
use crate::dense::{
    converted_row_major, converted_scratch, reorder_scratch, row_major, store, wide_bytes, write_converted,
    write_row_major,
};
use crate::operands::{elements, elements_mut, misaligned};
use crate::ops;
use crate::typed::{Typed, for_dtype, for_floating};
use sconce_core::{Args, Call, Fault, Op, Parallel, Tensor};
use sconce_kernels::conv::Layout;
use sconce_kernels::norm::{Affine, Statistics, batch_norm, group_norm, layer_norm};
use sconce_kernels::view::view_mut;
use sconce_kernels::{Float, Isa};
use sconce_schema::Sizes;

/// Normalisations.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_native_batch_norm_legit_no_training.out" [11] writes [7, 8, 9] scratch |args| batch_scratch(args), => batch;
    "aten::native_layer_norm.out" [9] writes [5, 6, 7] scratch |args| row_scratch(args, LAYER), => layer;
    "aten::native_group_norm.out" [12] writes [8, 9, 10] scratch |args| row_scratch(args, GROUP), => group;
};

/// Weight and bias of `count` elements each, either of which may be absent.
fn affine<'c, T: Typed>(
    weight: &'c Option<Tensor<'c>>,
    bias: &'c Option<Tensor<'c>>,
    count: usize,
) -> Result<Affine<'c, T>, Fault> {
    let slice = |argument: usize, tensor: &Option<Tensor<'c>>| match tensor {
        None => Ok(None),
        Some(tensor) if tensor.numel() == count => elements::<T>(argument, tensor).map(Some),
        Some(tensor) => Err(Fault::argument(argument, "{} elements are needed, not {}").with([count, tensor.numel()])),
    };
    Ok(Affine { weight: slice(1, weight)?, bias: slice(2, bias)? })
}

/// Whether statistics or affine parameters (arguments 1 to 4) have another type than the input.
fn mixed(args: &Args<'_>) -> bool {
    let dtype = |argument: usize| args.tensor_type(argument).ok().map(|(dtype, _)| dtype);
    (1..=4).filter_map(dtype).any(|other| Some(other) != dtype(0))
}

fn batch_scratch(args: &Args<'_>) -> usize {
    if mixed(args) {
        return batch_statistics::given_scratch(args);
    }
    match (args.tensor_type(0), args.tensor_type(7)) {
        (Ok((_, x)), Ok((_, out))) if layout_of(&x) == layout_of(&out) => 0,
        _ => reorder_scratch(args, &[0, 7]),
    }
}

/// Batch normalisation with running statistics. The saved statistics are empty.
fn batch(call: &mut Call<'_>) -> Result<(), Fault> {
    if mixed(call) {
        return batch_statistics::given(call);
    }
    let x = call.tensor(0)?;
    let (weight, bias) = (call.optional_tensor(1)?, call.optional_tensor(2)?);
    let (mean, variance) = (call.tensor(3)?, call.tensor(4)?);
    let epsilon = call.double(6)?;
    let Some(&channels) = x.sizes().get(1) else {
        return Err(Fault::argument(0, "a tensor with channels is needed here"));
    };
    for (argument, statistic) in [(3, &mean), (4, &variance)] {
        if statistic.numel() != channels {
            return Err(Fault::argument(argument, "one value for each of {} channels is needed").with([channels]));
        }
    }
    let (_, out_shape) = call.tensor_type(7)?;
    let last = layout_of(&x.shape) == Layout::ChannelsLast && layout_of(&out_shape) == Layout::ChannelsLast;
    let x = if last { x } else { row_major(call, x)? };
    let inner = if last { 1 } else { x.sizes()[2..].iter().product() };
    let out = call.out(7, x.sizes())?;
    call.out(8, &[0])?;
    call.out(9, &[0])?;
    let parallel = call.parallel();
    let compute = |bytes: &mut [u8]| {
        for_dtype!(floats, x.dtype, 0, T => {
            let statistics = Statistics { mean: elements::<T>(3, &mean)?, variance: elements(4, &variance)?, epsilon };
            let affine = affine::<T>(&weight, &bias, channels)?;
            let out = view_mut::<T>(bytes).ok_or(misaligned(7))?;
            batch_norm(Isa::detect(), parallel, (channels, inner), elements(0, &x)?, statistics, affine, out);
            Ok(())
        })
    };
    if out.dtype != x.dtype {
        return Err(Fault::argument(7, "the output must have the element type of the input"));
    }
    if last { compute(out.data) } else { write_row_major(call, out, compute) }
}

fn layer(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let (normalized, epsilon) = (call.ints(1)?, call.double(4)?);
    let split = x.shape.rank().checked_sub(normalized.len());
    let trailing =
        |split: &usize| x.sizes()[*split..].iter().zip(normalized.iter()).all(|(&a, &b)| usize::try_from(b) == Ok(a));
    let split =
        split.filter(trailing).ok_or(Fault::argument(1, "the normalised shape must be the input's last sizes"))?;
    let n: usize = x.sizes()[split..].iter().product();
    let mut kept = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    kept.iter_mut().skip(split).for_each(|size| *size = 1);
    rows(call, LAYER, x, Rows::Layer(n), epsilon, &kept)
}

fn group(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let number = |argument: usize| -> Result<usize, Fault> {
        usize::try_from(call.int(argument)?).map_err(|_| Fault::argument(argument, "the number is negative"))
    };
    let (batch, channels, inner, groups) = (number(3)?, number(4)?, number(5)?, number(6)?);
    let epsilon = call.double(7)?;
    let elements_told = batch.checked_mul(channels).and_then(|n| n.checked_mul(inner));
    if elements_told != Some(x.numel()) || groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Fault::argument(6, "batch, channels, size and groups do not fit the input"));
    }
    rows(call, GROUP, x, Rows::Group { channels, groups, inner }, epsilon, &[batch, groups])
}

/// Where arguments stand: the weight (the bias follows) and the output (means and reciprocal deviations follow).
#[derive(Clone, Copy)]
struct Form {
    weight: usize,
    out: usize,
}

const LAYER: Form = Form { weight: 2, out: 5 };
const GROUP: Form = Form { weight: 1, out: 8 };

impl Form {
    /// Whether parameters or results have another type than the input.
    fn is_mixed(self, args: &Args<'_>) -> bool {
        let dtype = |argument: usize| args.tensor_type(argument).ok().map(|(dtype, _)| dtype);
        let others = [self.weight, self.weight + 1, self.out, self.out + 1, self.out + 2];
        others.into_iter().filter_map(dtype).any(|other| Some(other) != dtype(0))
    }
}

/// Which elements are normalised together.
#[derive(Clone, Copy)]
enum Rows {
    /// Rows of this many elements.
    Layer(usize),
    /// Groups of channels.
    Group { channels: usize, groups: usize, inner: usize },
}

impl Rows {
    /// How many weights there are.
    fn weights(self) -> usize {
        match self {
            Rows::Layer(n) => n,
            Rows::Group { channels, .. } => channels,
        }
    }

    fn run<T: Float>(
        self,
        parallel: &dyn Parallel,
        (x, affine, epsilon): (&[T], Affine<'_, T>, f64),
        out: &mut [T],
        moments: (&mut [T], &mut [T]),
    ) {
        let isa = Isa::detect();
        match self {
            Rows::Layer(n) => layer_norm(isa, parallel, n, x, affine, epsilon, out, Some(moments)),
            Rows::Group { channels, groups, inner } => {
                group_norm(isa, parallel, (channels, groups, inner), x, affine, epsilon, out, Some(moments));
            }
        }
    }
}

fn row_scratch(args: &Args<'_>, form: Form) -> usize {
    let Form { weight, out } = form;
    if !form.is_mixed(args) {
        return reorder_scratch(args, &[0, out]);
    }
    let moments = wide_bytes(args, out + 1).saturating_add(wide_bytes(args, out + 2));
    converted_scratch(args, &[0, weight, weight + 1, out]).saturating_add(moments)
}

/// Normalises rows; `kept` are the sizes of the moments.
fn rows<'c>(
    call: &mut Call<'c>,
    form: Form,
    x: Tensor<'c>,
    rows: Rows,
    epsilon: f64,
    kept: &[usize],
) -> Result<(), Fault> {
    if form.is_mixed(call) {
        return for_floating!(x.dtype, 0, C => mixed_rows::<C>(call, form, x, rows, epsilon, kept));
    }
    let (weight, bias) = (call.optional_tensor(form.weight)?, call.optional_tensor(form.weight + 1)?);
    let x = row_major(call, x)?;
    let (out, parallel) = (call.out(form.out, x.sizes())?, call.parallel());
    let (means, scales) = (call.out(form.out + 1, kept)?, call.out(form.out + 2, kept)?);
    write_row_major(call, out, |bytes| {
        for_dtype!(floats, x.dtype, 0, T => {
            let affine = affine::<T>(&weight, &bias, rows.weights()).map_err(|fault| fault.at(form.weight))?;
            let moments = (elements_mut::<T>(form.out + 1, means)?, elements_mut::<T>(form.out + 2, scales)?);
            let out = view_mut::<T>(bytes).ok_or(misaligned(form.out))?;
            rows.run(parallel, (elements(0, &x)?, affine, epsilon), out, moments);
            Ok(())
        })
    })
}

/// [`rows`] where types differ: everything computes as `C`.
fn mixed_rows<'c, C: Typed + Float>(
    call: &mut Call<'c>,
    form: Form,
    x: Tensor<'c>,
    rows: Rows,
    epsilon: f64,
    kept: &[usize],
) -> Result<(), Fault> {
    let mut parameters = [None, None];
    for (argument, parameter) in (form.weight..).zip(&mut parameters) {
        let Some(tensor) = call.optional_tensor(argument)? else { continue };
        if tensor.numel() != rows.weights() {
            let text = "{} elements are needed, not {}";
            return Err(Fault::argument(argument, text).with([rows.weights(), tensor.numel()]));
        }
        *parameter = Some(converted_row_major::<C>(call, argument, tensor)?);
    }
    let [weight, bias] = parameters;
    let data = converted_row_major::<C>(call, 0, x)?;
    let (out, parallel) = (call.out(form.out, x.sizes())?, call.parallel());
    let (mean_out, scale_out) = (call.out(form.out + 1, kept)?, call.out(form.out + 2, kept)?);
    let bytes = mean_out.numel().saturating_mul(size_of::<C>());
    let means = view_mut::<C>(call.scratch(bytes)?).ok_or(misaligned(form.out + 1))?;
    let scales = view_mut::<C>(call.scratch(bytes)?).ok_or(misaligned(form.out + 2))?;
    write_converted::<C>(call, form.out, out, |out| {
        rows.run(parallel, (data, Affine { weight, bias }, epsilon), out, (&mut *means, &mut *scales));
        Ok(())
    })?;
    store(call, form.out + 1, means, mean_out)?;
    store(call, form.out + 2, scales, scale_out)
}
