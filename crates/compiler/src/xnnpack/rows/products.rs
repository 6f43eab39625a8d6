//! Convolutions, linear layers and products of matrices. Their weights are known, and lie as XNNPACK wants them.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, Layout, float};
use super::super::quantization::{self, Grid};
use super::super::scope::Scope;
use super::super::tensor::Tensor;
use super::maps::norm_factors;
use super::quantized::{dynamic_input, integer_bias, integer_weight};
use super::{Integers, Joins, Row, both, row, tail};
use crate::ir::{Call, ValueId};
use sconce_format::ScalarType;
use sconce_format::xnnpack::NONE;
use sconce_format::xnnpack::model::{Binary, Convolution, FullyConnected, Operation};

pub(super) const ROWS: &[Row] = &[
    both("aten::convolution", Integers::Weights, convolution),
    both("aten::linear", Integers::Weights, |b, c| {
        let arguments = Arguments(c);
        let weight = Weight { value: arguments.tensor("weight")?, transposed: false };
        linear(b, c, "input", weight, arguments.optional("bias"))
    }),
    row("aten::mm", |b, c| {
        let weight = Weight { value: Arguments(c).tensor("mat2")?, transposed: true };
        linear(b, c, "self", weight, None)
    }),
    row("aten::addmm", addmm),
    row("aten::bmm", bmm),
];

/// The weight of a linear layer.
#[derive(Clone, Copy)]
struct Weight {
    value: ValueId,
    /// Whether it is `[in, out]`, not `[out, in]`.
    transposed: bool,
}

/// Whether the weights of a call are dequantised integers of a kind that goes with integer operands.
pub(super) fn has_integer_weights(b: &Builder<'_>, call: &Call) -> bool {
    let maker = Arguments(call).optional("weight").and_then(|weight| b.scope.maker(weight));
    let grid = integer_grid(b.scope, call).filter(|_| !maker.is_some_and(quantization::has_four_bits));
    match (grid, call.operator()) {
        (Some(Grid::Whole { zero: 0, .. }), _) => true,
        (Some(Grid::Channels { axis: 0, .. }), Some("aten::linear")) => true,
        (Some(Grid::Channels { axis, .. }), _) => {
            let (transposed, groups) = (Arguments(call).bool("transposed", false), Arguments(call).int("groups", 1));
            axis == usize::from(transposed) && (!transposed || groups == Ok(1))
        }
        _ => false,
    }
}

/// What the integers stand for that a call's weights are made of.
pub(super) fn integer_grid(scope: &Scope<'_>, call: &Call) -> Option<Grid> {
    let maker = scope.maker(Arguments(call).optional("weight")?)?;
    quantization::is_dequantize(maker.operator()?).then(|| Grid::of(scope, maker).ok())?
}

/// Sizes of a convolution with the height that one of one dimension lacks.
struct Window {
    kernel: [u32; 2],
    stride: [u32; 2],
    padding: [u32; 2],
    dilation: [u32; 2],
    extra: [u32; 2],
    transposed: bool,
    /// Channels of the input and of the output in a group, and the groups.
    channels: [u32; 2],
    groups: u32,
}

impl Window {
    fn of(b: &Builder<'_>, call: &Call) -> Result<Self, String> {
        let arguments = Arguments(call);
        let sizes = b.scope.ty(arguments.tensor("weight")?)?.numbers().ok_or("its weight has unknown sizes")?;
        let sizes = sizes.into_iter().map(u32::try_from).collect::<Result<Vec<_>, _>>();
        let (kernel, line) = match sizes.map_err(|_| "its weight has negative sizes")?.as_slice() {
            [first, second, height, width] => ([*first, *second, *height, *width], false),
            [first, second, width] => ([*first, *second, 1, *width], true),
            other => {
                return Err(format!("it has {} dimensions; XNNPACK has one or two", other.len().saturating_sub(2)));
            }
        };
        let transposed = arguments.bool("transposed", false);
        let groups = arguments.natural("groups", 1)?.max(1);
        if kernel[0] % groups != 0 {
            return Err(format!("{} channels are not {groups} equal groups", kernel[0]));
        }
        let channels = if transposed { [kernel[0] / groups, kernel[1]] } else { [kernel[1], kernel[0] / groups] };
        Ok(Self {
            kernel: [kernel[2], kernel[3]],
            stride: arguments.pair("stride", 1, line)?,
            padding: arguments.pair("padding", 0, line)?,
            dilation: arguments.pair("dilation", 1, line)?,
            extra: arguments.pair("output_padding", 0, line)?,
            transposed,
            channels,
            groups,
        })
    }

    fn is_depthwise(&self) -> bool {
        self.channels[0] == 1 && !self.transposed
    }

    /// The filter as XNNPACK wants it: `[out, height, width, in]`, for one image channel each `[1, height, width, out]`.
    fn filter<'a>(&self, weight: Tensor<'a>) -> Tensor<'a> {
        let [height, width] = self.kernel.map(|size| size as usize);
        let ([inputs, outputs], groups) = (self.channels.map(|size| size as usize), self.groups as usize);
        if self.transposed {
            let weight = weight.reshaped(vec![groups, inputs, outputs, height, width]).permuted(&[0, 2, 3, 4, 1]);
            return weight.reshaped(vec![groups * outputs, height, width, inputs]);
        }
        let weight = weight.reshaped(vec![groups * outputs, inputs, height, width]);
        weight.permuted(if self.is_depthwise() { &[1, 2, 3, 0] } else { &[0, 2, 3, 1] })
    }

    /// A node without its values.
    fn table(&self) -> Convolution {
        Convolution {
            padding_top: self.padding[0],
            padding_right: self.padding[1],
            padding_bottom: self.padding[0],
            padding_left: self.padding[1],
            kernel_height: self.kernel[0],
            kernel_width: self.kernel[1],
            subsampling_height: self.stride[0],
            subsampling_width: self.stride[1],
            dilation_height: self.dilation[0],
            dilation_width: self.dilation[1],
            group_input_channels: self.channels[0],
            group_output_channels: self.channels[1],
            groups: self.groups,
            adjustment_height: self.extra[0],
            adjustment_width: self.extra[1],
            ..Convolution::default()
        }
    }

    /// The dimension of the filter that output channels are in.
    fn channel_dim(&self) -> usize {
        if self.is_depthwise() { 3 } else { 0 }
    }
}

fn convolution(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let (weight, bias) = (arguments.tensor("weight")?, arguments.optional("bias"));
    let window = Window::of(b, call)?;
    must_be_known(b.scope, weight, "weight")?;
    bias.map_or(Ok(()), |bias| must_be_known(b.scope, bias, "bias"))?;
    let input = b.read(call, "input")?;
    let rank = b.scope.ty(input)?.rank();
    if rank != b.scope.ty(weight)?.rank() {
        return Err(format!("its input has {rank} dimensions"));
    }
    let dynamic = dynamic_input(b.scope, call);
    let result = tail(b, call, if dynamic.is_some() { Joins::Limits } else { Joins::Norm });
    let shape = |tensor| window.filter(tensor);
    let [input1_id, filter_id, bias_id] = if let Some(dynamic) = dynamic {
        let input = b.rows(dynamic, Layout::Channels, 3)?;
        let filter = integer_weight(b, call, shape, window.channel_dim())?;
        [input, filter, shifted_bias(b, bias, None, ScalarType::Float)?]
    } else if b.quantized {
        let input_id = b.operand(input, Layout::Channels)?;
        let filter = integer_weight(b, call, shape, window.channel_dim())?;
        [input_id, filter, integer_bias(b, call, input)?]
    } else {
        let input_id = b.operand(input, Layout::Channels)?;
        let dtype = b.scope.ty(weight)?.dtype;
        let filter = b.constant(float(dtype)?, |scope| {
            let weight = scope.known(weight)?;
            Ok(window.filter(match result.norm {
                Some(norm) => {
                    scaled(weight, &norm_factors(scope, norm)?.0, usize::from(window.transposed), window.groups)?
                }
                None => weight,
            }))
        })?;
        [input_id, filter, shifted_bias(b, bias, result.norm, dtype)?]
    };
    let output_id = b.define(result.value, Layout::Channels)?;
    let table = Convolution { input1_id, filter_id, bias_id, output_id, ..window.table() };
    let operation = match (window.transposed, window.is_depthwise()) {
        (true, _) => Operation::ConvTranspose2d(table),
        (false, true) => Operation::DepthwiseConv2d(table),
        (false, false) => Operation::Conv2d(table),
    };
    b.node(operation, result.range);
    Ok(())
}

fn must_be_known(scope: &Scope<'_>, value: ValueId, what: &str) -> Result<(), String> {
    if scope.is_known(value) { Ok(()) } else { Err(format!("its {what} is not constant")) }
}

/// Weights with a factor for each output channel. Those are in dimension `axis`: the first, or in a transposed
/// convolution the second, where the inputs before it tell the group.
fn scaled(weight: Tensor<'_>, factors: &[f32], axis: usize, groups: u32) -> Result<Tensor<'static>, String> {
    let mut numbers = weight.numbers().ok_or("its weight has no numbers")?;
    let inner: usize = weight.sizes[axis + 1..].iter().product();
    let own = weight.sizes[axis];
    let rows = weight.sizes[..axis].iter().product::<usize>().max(1) / groups as usize;
    for (place, numbers) in numbers.chunks_mut(inner.max(1)).enumerate() {
        let (channel, before) = (place % own, place / own);
        let group = if axis == 0 { 0 } else { before / rows.max(1) };
        let factor = factors.get(group * own + channel).ok_or("its normalisation has fewer channels")?;
        numbers.iter_mut().for_each(|number| *number *= factor);
    }
    Ok(Tensor::floats(weight.dtype, &weight.sizes, &numbers))
}

/// The bias after batch normalisation; none if there is neither.
fn shifted_bias(
    b: &mut Builder<'_>,
    bias: Option<ValueId>,
    norm: Option<&Call>,
    dtype: ScalarType,
) -> Result<u32, String> {
    if bias.is_none() && norm.is_none() {
        return Ok(NONE);
    }
    b.constant(float(dtype)?, |scope| {
        let own = bias.map(|bias| scope.known(bias)).transpose()?;
        let Some(norm) = norm else { return own.ok_or_else(|| "it has no bias".to_owned()) };
        let (factors, mut summands) = norm_factors(scope, norm)?;
        if let Some(own) = own {
            let own = own.numbers().ok_or("its bias has no numbers")?;
            summands.iter_mut().zip(own).zip(&factors).for_each(|((sum, own), factor)| *sum += own * factor);
        }
        Ok(Tensor::floats(dtype, &[summands.len()], &summands))
    })
}

fn linear(b: &mut Builder<'_>, call: &Call, input: &str, weight: Weight, bias: Option<ValueId>) -> Result<(), String> {
    must_be_known(b.scope, weight.value, "weight")?;
    bias.map_or(Ok(()), |bias| must_be_known(b.scope, bias, "bias"))?;
    if b.scope.ty(weight.value)?.rank() != 2 {
        return Err("its weight is no matrix".to_owned());
    }
    let dynamic = dynamic_input(b.scope, call);
    let value = b.read(call, input)?;
    let result = tail(b, call, Joins::Limits);
    let dtype = b.scope.ty(weight.value)?.dtype;
    let (input1_id, filter_id, bias_id) = if let Some(dynamic) = dynamic {
        let input = b.rows(dynamic, Layout::Plain, 1)?;
        let filter = integer_weight(b, call, |tensor| tensor, 0)?;
        (input, filter, shifted_bias(b, bias, None, ScalarType::Float)?)
    } else if b.quantized {
        let input = b.operand(value, Layout::Plain)?;
        (input, integer_weight(b, call, |tensor| tensor, 0)?, integer_bias(b, call, value)?)
    } else {
        let input = b.operand(value, Layout::Plain)?;
        let filter = b.constant(float(dtype)?, |scope| {
            let tensor = scope.known(weight.value)?;
            Ok(if weight.transposed { tensor.permuted(&[1, 0]) } else { tensor })
        })?;
        (input, filter, shifted_bias(b, bias, None, dtype)?)
    };
    let output_id = b.define(result.value, Layout::Plain)?;
    b.node(
        Operation::FullyConnected(FullyConnected { input1_id, filter_id, bias_id, output_id, flags: 0 }),
        result.range,
    );
    Ok(())
}

/// A product plus a known row.
fn addmm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    for name in ["alpha", "beta"] {
        if arguments.number(name)?.is_some_and(|factor| factor != 1.0) {
            return Err(format!("it multiplies by a number ({name})"));
        }
    }
    let bias = arguments.tensor("self")?;
    let (row, result) = (&b.scope.ty(bias)?.sizes, &b.scope.ty(call.outputs[0])?.sizes);
    if row.len() != 1 || row.first() != result.get(1) {
        return Err("what it adds is not a row".to_owned());
    }
    linear(b, call, "mat1", Weight { value: arguments.tensor("mat2")?, transposed: true }, Some(bias))
}

fn bmm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let (left, right) = (b.read(call, "self")?, b.read(call, "mat2")?);
    let (input1_id, input2_id) = (b.operand(left, Layout::Plain)?, b.operand(right, Layout::Plain)?);
    let output_id = b.define(call.outputs[0], Layout::Plain)?;
    b.node(Operation::BatchMatrixMultiply(Binary { input1_id, input2_id, output_id, flags: 0 }), None);
    Ok(())
}
