//! Windows over images, means, other resolutions, and what looks along the innermost dimension.

use super::super::arguments::Arguments;
use super::super::builder::{Builder, Layout, float};
use super::super::tensor::Tensor;
use super::shape::join;
use super::{Integers, Joins, Row, both, row, tail};
use crate::ir::{Arg, Call, ValueId};
use sconce_format::xnnpack::model::{Binary, Operation, Pooling, Resizing, Unary};

pub(super) const ROWS: &[Row] = &[
    both("aten::max_pool2d", Integers::Same, max_pool),
    both("aten::max_pool2d_with_indices", Integers::Same, max_pool),
    row("aten::avg_pool2d", avg_pool),
    both("aten::mean.dim", Integers::Any, mean),
    both("aten::adaptive_avg_pool2d", Integers::Any, adaptive_mean),
    row("aten::upsample_bilinear2d.vec", resize),
    row("aten::upsample_bilinear2d", resize),
    row("aten::upsample_nearest2d.vec", repeat),
    row("aten::upsample_nearest2d", repeat),
    row("aten::prelu", prelu),
    row("aten::_prelu_kernel", prelu),
    row("aten::softmax.int", softmax),
    row("aten::_softmax", softmax),
];

/// The most channels that one slope is repeated for.
const MOST_CHANNELS: usize = 1 << 20;
/// Corner pixels stay where they are.
const ALIGN_CORNERS: u32 = 8;
/// Reduced dimensions stay.
const KEEP_DIMS: u32 = 0x40;

/// A window, and how it moves.
struct Window {
    kernel: [u32; 2],
    stride: [u32; 2],
    /// Before and after, of height and width.
    padding: [[u32; 2]; 2],
    dilation: [u32; 2],
}

impl Window {
    fn of(call: &Call) -> Result<Self, String> {
        let arguments = Arguments(call);
        let kernel = arguments.pair("kernel_size", 1, false)?;
        let stride = if arguments.ints("stride")?.is_empty() { kernel } else { arguments.pair("stride", 1, false)? };
        let padding = arguments.pair("padding", 0, false)?;
        let dilation = arguments.pair("dilation", 1, false)?;
        if kernel == [1, 1] {
            return Err("its window is a single element".to_owned());
        }
        Ok(Self { kernel, stride, padding: padding.map(|own| [own; 2]), dilation })
    }

    fn table(&self, input_id: u32, output_id: u32) -> Pooling {
        Pooling {
            padding_top: self.padding[0][0],
            padding_right: self.padding[1][1],
            padding_bottom: self.padding[0][1],
            padding_left: self.padding[1][0],
            pooling_height: self.kernel[0],
            pooling_width: self.kernel[1],
            stride_height: self.stride[0],
            stride_width: self.stride[1],
            dilation_height: self.dilation[0],
            dilation_width: self.dilation[1],
            input_id,
            output_id,
            flags: KEEP_DIMS,
        }
    }
}

/// The four dimensions of an image with a batch.
fn image(b: &Builder<'_>, value: ValueId) -> Result<(), String> {
    match b.scope.ty(value)?.rank() {
        4 => Ok(()),
        rank => Err(format!("its operand has {rank} dimensions, not four")),
    }
}

fn max_pool(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    image(b, value)?;
    if call.outputs.iter().skip(1).any(|&value| !b.scope.is_unread(value)) {
        return Err("its indices are read".to_owned());
    }
    let mut window = Window::of(call)?;
    if window.stride[0] > window.kernel[0] || window.stride[1] > window.kernel[1] {
        return Err("its window jumps over elements".to_owned());
    }
    let result = tail(b, call, Joins::Nothing).value;
    image(b, result)?;
    if Arguments(call).bool("ceil_mode", false) {
        round_up(b, &mut window, value, result)?;
    }
    let (input, output) = (b.operand(value, Layout::Channels)?, b.define(result, Layout::Channels)?);
    b.node(Operation::MaxPooling2d(window.table(input, output)), None);
    Ok(())
}

/// Pads the end, so that windows that start inside of the image fit; padding does not count as an element.
fn round_up(b: &Builder<'_>, window: &mut Window, value: ValueId, result: ValueId) -> Result<(), String> {
    let (Some(from), Some(to)) = (b.scope.ty(value)?.numbers(), b.scope.ty(result)?.numbers()) else {
        return Err("it rounds sizes up that are not known before the program runs".to_owned());
    };
    for dim in 0..2 {
        let reach = i64::from(window.dilation[dim]).saturating_mul(i64::from(window.kernel[dim].saturating_sub(1)));
        let last = to[dim + 2].saturating_sub(1).saturating_mul(i64::from(window.stride[dim]));
        let wanted = last.saturating_add(reach).saturating_add(1);
        let missing = wanted.saturating_sub(from[dim + 2]).saturating_sub(i64::from(window.padding[dim][0]));
        let missing = u32::try_from(missing.max(0)).map_err(|_| "its padding is too large")?;
        window.padding[dim][1] = window.padding[dim][1].max(missing);
    }
    Ok(())
}

fn avg_pool(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    image(b, value)?;
    let (window, arguments) = (Window::of(call)?, Arguments(call));
    if arguments.bool("ceil_mode", false) {
        return Err("it rounds sizes up".to_owned());
    }
    if arguments.bool("count_include_pad", true) && window.padding != [[0; 2]; 2] {
        return Err("padding counts in its mean".to_owned());
    }
    let area = i64::from(window.kernel[0]).saturating_mul(i64::from(window.kernel[1]));
    if arguments.int("divisor_override", area)? != area {
        return Err("it divides by another number than that of elements".to_owned());
    }
    let (input, output) = (b.operand(value, Layout::Channels)?, b.define(call.outputs[0], Layout::Channels)?);
    b.node(Operation::AvgPooling2d(window.table(input, output)), None);
    Ok(())
}

/// The mean of each channel of an image.
fn mean(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let (value, arguments) = (b.read(call, "self")?, Arguments(call));
    image(b, value)?;
    let mut dims = arguments.ints("dim")?.iter().map(|&dim| crate::lower::place(dim, 4)).collect::<Vec<_>>();
    dims.sort_unstable();
    if dims != [Some(2), Some(3)] {
        return Err("it is not the mean over height and width".to_owned());
    }
    let result = tail(b, call, Joins::Nothing).value;
    if !b.quantized && b.scope.ty(value)?.dtype != b.scope.ty(result)?.dtype {
        return Err("its result has another type".to_owned());
    }
    if arguments.bool("keepdim", false) {
        return whole_mean(b, value, result);
    }
    let new_shape = b.new_shape(result, Layout::Plain)?;
    let dims = b.dims(value, Layout::Channels)?;
    let kept = b.between(result, &[dims[0], 1, 1, dims[3]])?;
    let input_id = b.operand(value, Layout::Channels)?;
    b.node(Operation::GlobalAvgPooling2d(Unary { input_id, output_id: kept, flags: KEEP_DIMS }), None);
    let output = b.define(result, Layout::Plain)?;
    b.reshape_to(kept, output, new_shape);
    Ok(())
}

fn whole_mean(b: &mut Builder<'_>, value: ValueId, result: ValueId) -> Result<(), String> {
    let (input_id, output_id) = (b.operand(value, Layout::Channels)?, b.define(result, Layout::Channels)?);
    b.node(Operation::GlobalAvgPooling2d(Unary { input_id, output_id, flags: KEEP_DIMS }), None);
    Ok(())
}

/// Means of equal parts of an image.
fn adaptive_mean(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    image(b, value)?;
    let size = Arguments(call).pair("output_size", 1, false)?;
    if size == [1, 1] {
        let result = tail(b, call, Joins::Nothing).value;
        return whole_mean(b, value, result);
    }
    if b.quantized {
        b.quantized = false;
        return adaptive_mean(b, call);
    }
    let sizes = b.scope.ty(value)?.numbers().ok_or("its sizes are not known before the program runs")?;
    let mut kernel = [0; 2];
    for dim in 0..2 {
        let (from, to) = (sizes[dim + 2], i64::from(size[dim]));
        if to == 0 || from % to != 0 {
            return Err(format!("{from} elements are not {to} equal parts"));
        }
        kernel[dim] = u32::try_from(from / to).unwrap_or(0);
    }
    if kernel == [1, 1] {
        return Err("its window is a single element".to_owned());
    }
    let window = Window { kernel, stride: kernel, padding: [[0; 2]; 2], dilation: [1; 2] };
    let (input, output) = (b.operand(value, Layout::Channels)?, b.define(call.outputs[0], Layout::Channels)?);
    b.node(Operation::AvgPooling2d(window.table(input, output)), None);
    Ok(())
}

/// The sizes of an image and of the one that is made of it; factors that are given must lead from one to the other.
fn resolutions(b: &Builder<'_>, call: &Call, value: ValueId) -> Result<(Vec<i64>, Vec<i64>), String> {
    let (Some(from), Some(to)) = (b.scope.ty(value)?.numbers(), b.scope.ty(call.outputs[0])?.numbers()) else {
        return Err("its sizes are not known before the program runs".to_owned());
    };
    let factors = match call.arg("scale_factors") {
        Arg::Floats(factors) => factors.clone(),
        _ => [Arguments(call).number("scales_h")?, Arguments(call).number("scales_w")?].into_iter().flatten().collect(),
    };
    for (place, factor) in factors.iter().enumerate() {
        let (from, to) = (from.get(place + 2).copied().unwrap_or(1), to.get(place + 2).copied().unwrap_or(1));
        if from as f64 * factor != to as f64 {
            return Err(format!("it makes {to} of {from} elements by the factor {factor}"));
        }
    }
    Ok((from, to))
}

/// Every element several times: as many channels, one after the other, are neighbours in a row, and rows likewise.
fn repeat(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let name = if b.is_tensor(call, "input") { "input" } else { "self" };
    let value = b.read(call, name)?;
    image(b, value)?;
    image(b, call.outputs[0])?;
    let (from, to) = resolutions(b, call, value)?;
    let mut factors = [0; 2];
    for dim in 0..2 {
        let (from, to) = (from[dim + 2], to[dim + 2]);
        match to / from.max(1) {
            factor @ 1..=5 if from * factor == to => factors[dim] = factor as u32,
            _ => return Err(format!("it makes {to} of {from} elements; that takes a whole factor up to 5")),
        }
    }
    let [n, h, w, c] = b.dims(value, Layout::Channels)?[..] else { return Err("it is no image".to_owned()) };
    let row = [factors[0], factors[1], w].iter().try_fold(c, |all, factor| all.checked_mul(*factor));
    let row = row.ok_or("its rows are too large")? / factors[0];
    let mut id = b.operand(value, Layout::Channels)?;
    if factors[1] > 1 {
        id = joined(b, value, id, &[n, h, w, c * factors[1]], factors[1])?;
    }
    let flat = b.between(value, &[n, h, row])?;
    b.reshape_to(id, flat, vec![n, h, row]);
    id = if factors[0] > 1 { joined(b, value, flat, &[n, h, row * factors[0]], factors[0])? } else { flat };
    let new_shape = b.dims(call.outputs[0], Layout::Channels)?;
    let output = b.define(call.outputs[0], Layout::Channels)?;
    b.reshape_to(id, output, new_shape);
    Ok(())
}

/// A value several times along the innermost dimension.
fn joined(b: &mut Builder<'_>, like: ValueId, id: u32, dims: &[u32], times: u32) -> Result<u32, String> {
    let output = b.between(like, dims)?;
    join(b, &vec![id; times as usize], dims.len() - 1, output);
    Ok(output)
}

/// Another resolution, between neighbours.
fn resize(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let name = if b.is_tensor(call, "input") { "input" } else { "self" };
    let value = b.read(call, name)?;
    image(b, value)?;
    resolutions(b, call, value)?;
    let flags = if Arguments(call).bool("align_corners", false) { ALIGN_CORNERS } else { 0 };
    let (input_id, output_id) = (b.operand(value, Layout::Channels)?, b.define(call.outputs[0], Layout::Channels)?);
    let dims = b.dims(call.outputs[0], Layout::Channels)?;
    let table = Resizing { new_height: dims[1], new_width: dims[2], input_id, output_id, flags };
    b.node(Operation::StaticResizeBilinear2D(table), None);
    Ok(())
}

/// A slope for negative elements of each channel.
fn prelu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let (value, slope) = (b.read(call, "self")?, Arguments(call).tensor("weight")?);
    if !b.scope.is_known(slope) {
        return Err("its weight is not constant".to_owned());
    }
    let ty = b.scope.ty(value)?;
    let layout = if matches!(ty.rank(), 3 | 4) { Layout::Channels } else { Layout::Plain };
    let channels = ty.sizes.get(1).and_then(|size| size.number()).and_then(|size| usize::try_from(size).ok());
    let channels = channels.filter(|count| *count <= MOST_CHANNELS).ok_or("its channels are unknown, or too many")?;
    if ty.rank() == 5 {
        return Err("its operand has five dimensions".to_owned());
    }
    let input1_id = b.operand(value, layout)?;
    let (dtype, rank) = (ty.dtype, if layout == Layout::Channels { 4 } else { ty.rank() });
    let input2_id = b.constant(float(dtype)?, |scope| {
        let own = scope.known(slope)?.numbers().ok_or("its weight has no numbers")?;
        let all = if own.len() == 1 { vec![own[0]; channels] } else { own };
        let mut sizes = vec![1; rank];
        sizes[rank - 1] = all.len();
        Ok(Tensor::floats(dtype, &sizes, &all))
    })?;
    let output_id = b.define(call.outputs[0], layout)?;
    b.node(Operation::PReLU(Binary { input1_id, input2_id, output_id, flags: 0 }), None);
    Ok(())
}

/// Along the innermost dimension, which channels are if that form is there.
fn softmax(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = b.read(call, "self")?;
    let (ty, result) = (b.scope.ty(value)?, call.outputs[0]);
    if ty.dtype != b.scope.ty(result)?.dtype {
        return Err("its result has another type".to_owned());
    }
    let dim = Arguments(call).dim("dim", -1, ty.rank())?;
    let layout = match (dim, ty.rank(), b.common(&[value], result)) {
        (1, 3 | 4, Layout::Channels) => Layout::Channels,
        (dim, rank, _) if dim + 1 == rank.max(1) => Layout::Plain,
        _ => return softmax_inside(b, value, result, dim),
    };
    let (input_id, output_id) = (b.operand(value, layout)?, b.define(result, layout)?);
    b.node(Operation::Softmax(Unary { input_id, output_id, flags: 0 }), None);
    Ok(())
}

/// Along another dimension, which changes places with the last one.
fn softmax_inside(b: &mut Builder<'_>, value: ValueId, result: ValueId, dim: usize) -> Result<(), String> {
    let mut dims = b.dims(value, Layout::Plain)?;
    let mut order: Vec<usize> = (0..dims.len()).collect();
    let last = dims.len() - 1;
    order.swap(dim, last);
    dims.swap(dim, last);
    let input = b.operand(value, Layout::Plain)?;
    let (turned, done) = (b.between(value, &dims)?, b.between(value, &dims)?);
    b.transpose(input, turned, &order);
    b.node(Operation::Softmax(Unary { input_id: turned, output_id: done, flags: 0 }), None);
    let output = b.define(result, Layout::Plain)?;
    b.transpose(done, output, &order);
    Ok(())
}
