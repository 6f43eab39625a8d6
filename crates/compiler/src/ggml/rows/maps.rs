//! Functions of single elements, of elements that meet, of rows and of windows.

use super::Row;
use crate::arguments::Arguments;
use crate::ggml::builder::Builder;
use crate::ir::{Arg, Call, ValueId};
use crate::size::Size;
use sconce_format::ScalarType;
use sconce_format::ggml::{Op, shape};

pub(super) const ROWS: &[Row] = &[
    ("aten::abs", |b, c| map(b, c, Op::Abs)),
    ("aten::ceil", |b, c| map(b, c, Op::Ceil)),
    ("aten::cos", |b, c| map(b, c, Op::Cos)),
    ("aten::exp", |b, c| map(b, c, Op::Exp)),
    ("aten::expm1", |b, c| map(b, c, Op::ExpMinusOne)),
    ("aten::floor", |b, c| map(b, c, Op::Floor)),
    ("aten::hardswish", |b, c| map(b, c, Op::HardSwish)),
    ("aten::hardsigmoid", |b, c| map(b, c, Op::HardSigmoid)),
    ("aten::log", |b, c| map(b, c, Op::Log)),
    ("aten::neg", |b, c| map(b, c, Op::Negate)),
    ("aten::relu", |b, c| map(b, c, Op::Relu)),
    ("aten::rsqrt", |b, c| map(b, c, Op::ReciprocalSquareRoot)),
    ("aten::sigmoid", |b, c| map(b, c, Op::Sigmoid)),
    ("aten::silu", |b, c| map(b, c, Op::Silu)),
    ("aten::sin", |b, c| map(b, c, Op::Sin)),
    ("aten::sqrt", |b, c| map(b, c, Op::SquareRoot)),
    ("aten::square", |b, c| map(b, c, Op::Square)),
    ("aten::tanh", |b, c| map(b, c, Op::Tanh)),
    ("aten::trunc", |b, c| map(b, c, Op::Trunc)),
    ("aten::gelu", gelu),
    ("aten::elu", elu),
    ("aten::leaky_relu", |b, c| {
        let slope = Arguments(c).float("negative_slope", 0.01)?;
        map(b, c, Op::LeakyRelu { slope })
    }),
    ("aten::pow.Tensor_Scalar", power),
    ("aten::relu6", |b, c| map(b, c, Op::Clamp { low: 0.0, high: 6.0 })),
    ("aten::hardtanh", |b, c| limits(b, c, ["min_val", "max_val"], (-1.0, 1.0))),
    ("aten::clamp", |b, c| limits(b, c, ["min", "max"], OPEN)),
    ("aten::clamp_min", |b, c| limits(b, c, ["min", "max"], OPEN)),
    ("aten::clamp_max", |b, c| limits(b, c, ["min", "max"], OPEN)),
    ("aten::add.Tensor", |b, c| meet(b, c, Op::Add)),
    ("aten::add.Scalar", |b, c| line(b, c, |other, alpha| (1.0, other * alpha))),
    ("aten::sub.Tensor", |b, c| meet(b, c, Op::Subtract)),
    ("aten::sub.Scalar", |b, c| line(b, c, |other, alpha| (1.0, -other * alpha))),
    ("aten::rsub.Scalar", |b, c| line(b, c, |other, alpha| (-alpha, other))),
    ("aten::mul.Tensor", |b, c| meet(b, c, Op::Multiply)),
    ("aten::mul.Scalar", |b, c| line(b, c, |other, _| (other, 0.0))),
    ("aten::div.Tensor", |b, c| meet(b, c, Op::Divide)),
    ("aten::div.Scalar", |b, c| line(b, c, |other, _| (1.0 / other, 0.0))),
    ("aten::softmax.int", |b, c| along(b, c, |dim| Op::Softmax { dim })),
    ("aten::_softmax", |b, c| along(b, c, |dim| Op::Softmax { dim })),
    ("aten::cumsum", |b, c| along(b, c, |dim| Op::CumulativeSum { dim })),
    ("aten::mean.dim", |b, c| reduce(b, c, |dims| Op::Mean { dims })),
    ("aten::mean", |b, c| reduce(b, c, |dims| Op::Mean { dims })),
    ("aten::sum.dim_IntList", |b, c| reduce(b, c, |dims| Op::Sum { dims })),
    ("aten::sum", |b, c| reduce(b, c, |dims| Op::Sum { dims })),
    ("aten::layer_norm", layer_norm),
    ("aten::native_layer_norm", layer_norm),
    ("aten::rms_norm", rms_norm),
    ("aten::group_norm", group_norm),
    ("aten::max_pool2d", max_pool),
    ("aten::avg_pool2d", avg_pool),
];

const OPEN: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

fn map(b: &mut Builder<'_>, call: &Call, op: Op) -> Result<(), String> {
    let value = b.float(Arguments(call).tensor("self")?)?;
    same(b, call)?;
    b.define(call.outputs[0], op, vec![value])
}

/// The result must be what ggml computes.
fn same(b: &Builder<'_>, call: &Call) -> Result<(), String> {
    match b.ty(call.outputs[0])?.dtype {
        ScalarType::Float => Ok(()),
        other => Err(format!("it makes {other}, and ggml computes float32")),
    }
}

fn gelu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    map(b, call, if Arguments(call).text("approximate") == "tanh" { Op::GeluTanh } else { Op::Gelu })
}

fn elu(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    for name in ["alpha", "scale", "input_scale"] {
        if Arguments(call).float(name, 1.0)? != 1.0 {
            return Err(format!("ggml's ELU has no {name}"));
        }
    }
    map(b, call, Op::Elu)
}

fn power(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    match Arguments(call).number("exponent")? {
        Some(2.0) => map(b, call, Op::Square),
        Some(0.5) => map(b, call, Op::SquareRoot),
        Some(-0.5) => map(b, call, Op::ReciprocalSquareRoot),
        Some(exponent) => Err(format!("ggml has no power of {exponent}")),
        None => Err("its exponent is missing".to_owned()),
    }
}

fn limits(b: &mut Builder<'_>, call: &Call, [low, high]: [&str; 2], open: (f64, f64)) -> Result<(), String> {
    let (low, high) = (Arguments(call).float(low, open.0)?, Arguments(call).float(high, open.1)?);
    if low <= high { map(b, call, Op::Clamp { low, high }) } else { Err(format!("its limits are {low} and {high}")) }
}

/// A straight line of each element.
fn line(b: &mut Builder<'_>, call: &Call, of: fn(f64, f64) -> (f64, f64)) -> Result<(), String> {
    let arguments = Arguments(call);
    if !arguments.text("rounding_mode").is_empty() {
        return Err("it rounds the quotient".to_owned());
    }
    let other = arguments.number("other")?.ok_or("its operand is missing")?;
    let (by, plus) = of(other, arguments.number("alpha")?.unwrap_or(1.0));
    map(b, call, Op::Scale { by: by as f32, plus: plus as f32 })
}

/// A function of two elements that meet.
fn meet(b: &mut Builder<'_>, call: &Call, op: Op) -> Result<(), String> {
    let arguments = Arguments(call);
    if !arguments.text("rounding_mode").is_empty() {
        return Err("it rounds the quotient".to_owned());
    }
    if let Arg::Int(_) | Arg::Float(_) = call.arg("other") {
        return match op {
            Op::Add => line(b, call, |other, alpha| (1.0, other * alpha)),
            Op::Subtract => line(b, call, |other, alpha| (1.0, -other * alpha)),
            Op::Multiply => line(b, call, |other, _| (other, 0.0)),
            _ => line(b, call, |other, _| (1.0 / other, 0.0)),
        };
    }
    same(b, call)?;
    let (left, right) = (arguments.tensor("self")?, arguments.tensor("other")?);
    fits(b, &[left, right], call.outputs[0])?;
    let (left, mut other) = (b.float(left)?, b.float(right)?);
    if let Some(alpha) = arguments.number("alpha")?.filter(|&alpha| alpha != 1.0) {
        let scale = Op::Scale { by: alpha as f32, plus: 0.0 };
        other = b.between(right, &b.ty(right)?.sizes, scale, vec![other])?;
    }
    b.define(call.outputs[0], op, vec![left, other])
}

/// Operands that are broadcast must differ in at most four dimensions.
pub(super) fn fits(b: &Builder<'_>, operands: &[ValueId], result: ValueId) -> Result<(), String> {
    let sizes = operands.iter().map(|&value| b.bounds(value)).collect::<Result<Vec<_>, _>>()?;
    let sizes: Vec<&[usize]> = sizes.iter().map(Vec::as_slice).collect();
    let joined = shape::broadcast(&sizes, &b.bounds(result)?);
    joined.map(drop).ok_or_else(|| format!("ggml has four dimensions, too few for {sizes:?}"))
}

fn along(b: &mut Builder<'_>, call: &Call, op: fn(u32) -> Op) -> Result<(), String> {
    let value = Arguments(call).tensor("self")?;
    let rank = b.ty(value)?.rank();
    if rank == 0 {
        return Err("it works along a dimension of a single number".to_owned());
    }
    let dim = Arguments(call).dim("dim", 0, rank)?;
    map(b, call, op(dim as u32))
}

fn reduce(b: &mut Builder<'_>, call: &Call, op: fn(Vec<u32>) -> Op) -> Result<(), String> {
    let value = Arguments(call).tensor("self")?;
    let sizes = b.bounds(value)?;
    let given = Arguments(call).ints("dim")?;
    let dims: Option<Vec<usize>> = match given.is_empty() {
        true => Some((0..sizes.len()).collect()),
        false => given.iter().map(|&dim| crate::lower::place(dim, sizes.len())).collect(),
    };
    let dims = dims.ok_or_else(|| format!("it reduces the dimensions {given:?} of {}", sizes.len()))?;
    let order: Vec<usize> = (0..sizes.len()).filter(|dim| !dims.contains(dim)).chain(dims.iter().copied()).collect();
    shape::permuted(&sizes, &order).ok_or_else(|| format!("ggml has four dimensions, too few for {sizes:?}"))?;
    map(b, call, op(dims.into_iter().map(|dim| dim as u32).collect()))
}

/// The last dimensions that a norm is over.
fn normalized(b: &Builder<'_>, call: &Call, value: ValueId) -> Result<u32, String> {
    let (shape, sizes) = (Arguments(call).ints("normalized_shape")?, &b.ty(value)?.sizes);
    let known: Vec<Option<i64>> = sizes.iter().map(Size::number).collect();
    let wanted: Vec<Option<i64>> = shape.iter().copied().map(Some).collect();
    match known.ends_with(&wanted) && !shape.is_empty() {
        true => Ok(shape.len() as u32),
        false => Err(format!("it normalises over {shape:?}")),
    }
}

fn layer_norm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let value = arguments.tensor("input")?;
    if call.outputs[1..].iter().any(|output| !b.is_unread(*output)) {
        return Err("its mean or its deviation is wanted".to_owned());
    }
    let (dims, epsilon) = (normalized(b, call, value)?, arguments.float("eps", 1e-5)?);
    let (weight, bias) = (arguments.optional("weight"), arguments.optional("bias"));
    same(b, call)?;
    let mut sources = vec![b.float(value)?];
    for value in [weight, bias].into_iter().flatten() {
        sources.push(b.float(value)?);
    }
    let op = Op::LayerNorm { dims, epsilon, weight: weight.is_some(), bias: bias.is_some() };
    b.define(call.outputs[0], op, sources)
}

fn rms_norm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let value = arguments.tensor("input")?;
    if normalized(b, call, value)? != 1 {
        return Err("it normalises over several dimensions".to_owned());
    }
    same(b, call)?;
    let mut sources = vec![b.float(value)?];
    if let Some(weight) = arguments.optional("weight") {
        sources.push(b.float(weight)?);
    }
    let epsilon = arguments.float("eps", f32::EPSILON.into())?;
    b.define(call.outputs[0], Op::RmsNorm { epsilon }, sources)
}

fn group_norm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let value = arguments.tensor("input")?;
    let sizes = b.ty(value)?.sizes.clone();
    let (4, Some(channels)) = (sizes.len(), sizes.get(1).and_then(Size::number)) else {
        return Err("ggml has group norms of images only".to_owned());
    };
    same(b, call)?;
    let op = Op::GroupNorm { groups: arguments.natural("num_groups", 1)?, epsilon: arguments.float("eps", 1e-5)? };
    let mut steps = vec![(op, None)];
    for (name, op) in [("weight", Op::Multiply), ("bias", Op::Add)] {
        if let Some(weight) = arguments.optional(name) {
            let own = b.float(weight)?;
            let column = b.between(weight, &[channels.into(), 1.into(), 1.into()], Op::View, vec![own])?;
            steps.push((op, Some(column)));
        }
    }
    let mut tensor = b.float(value)?;
    let last = steps.len() - 1;
    for (place, (op, weight)) in steps.into_iter().enumerate() {
        let sources: Vec<u32> = [Some(tensor), weight].into_iter().flatten().collect();
        if place == last {
            return b.define(call.outputs[0], op, sources);
        }
        tensor = b.between(value, &sizes, op, sources)?;
    }
    Ok(())
}

/// Rows and columns of a window.
struct Window {
    kernel: [u32; 2],
    stride: [u32; 2],
    padding: [u32; 2],
}

impl Window {
    fn of(b: &Builder<'_>, call: &Call) -> Result<Self, String> {
        let arguments = Arguments(call);
        let rank = b.ty(arguments.tensor("self")?)?.rank();
        if arguments.bool("ceil_mode", false) || rank != 4 {
            return Err("ggml's windows are on images and lie whole on them".to_owned());
        }
        let kernel = arguments.pair("kernel_size", 1, false)?;
        let stride = match arguments.ints("stride")?.is_empty() {
            true => kernel,
            false => arguments.pair("stride", 1, false)?,
        };
        Ok(Self { kernel, stride, padding: arguments.pair("padding", 0, false)? })
    }
}

fn max_pool(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let Window { kernel, stride, padding } = Window::of(b, call)?;
    if Arguments(call).pair("dilation", 1, false)? != [1; 2] {
        return Err("ggml's windows have no holes".to_owned());
    }
    map(b, call, Op::MaxPool2d { kernel, stride, padding })
}

fn avg_pool(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let Window { kernel, stride, padding } = Window::of(b, call)?;
    if padding != [0; 2] {
        return Err("ggml's means are of whole windows".to_owned());
    }
    if *call.arg("divisor_override") != Arg::None {
        return Err("ggml divides by the size of the window".to_owned());
    }
    map(b, call, Op::AvgPool2d { kernel, stride })
}
