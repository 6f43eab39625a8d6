//! The same elements elsewhere: other sizes, other orders, parts of tensors, several in one, slices by their numbers.

use super::Row;
use crate::arguments::Arguments;
use crate::ggml::builder::Builder;
use crate::ir::{Arg, Call, ValueId};
use crate::size::Size;
use sconce_format::ggml::{Extent, MAX_RANK, Op, shape};

pub(super) const ROWS: &[Row] = &[
    ("aten::view", |b, c| moved(b, c, Op::View)),
    ("aten::clone", |b, c| moved(b, c, Op::View)),
    ("aten::_to_copy", |b, c| moved(b, c, Op::View)),
    ("aten::permute", permute),
    ("aten::expand", expand),
    ("aten::slice.Tensor", slice),
    ("aten::select.int", select),
    ("aten::split_with_sizes", split),
    ("aten::cat", cat),
    ("aten::stack", stack),
    ("aten::repeat", repeat),
    ("aten::constant_pad_nd", pad),
    ("aten::index.Tensor", index),
    ("aten::index_put", put_slices),
    ("aten::index_copy", put_slices),
];

/// An operation that moves elements and leaves them what they are.
fn moved(b: &mut Builder<'_>, call: &Call, op: Op) -> Result<(), String> {
    let value = Arguments(call).tensor("self")?;
    if b.ty(value)?.dtype != b.ty(call.outputs[0])?.dtype {
        return Err(format!("it makes {} of {}", b.ty(call.outputs[0])?.dtype, b.ty(value)?.dtype));
    }
    let tensor = b.moved(value)?;
    b.define(call.outputs[0], op, vec![tensor])
}

fn permute(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let sizes = b.bounds(Arguments(call).tensor("self")?)?;
    let dims = Arguments(call).ints("dims")?;
    let order: Option<Vec<usize>> = dims.iter().map(|&dim| crate::lower::place(dim, sizes.len())).collect();
    let order = order.ok_or_else(|| format!("it permutes {} dimensions by {dims:?}", sizes.len()))?;
    shape::permuted(&sizes, &order).ok_or_else(|| format!("ggml has four dimensions, too few for {sizes:?}"))?;
    moved(b, call, Op::Permute { order: order.into_iter().map(|dim| dim as u32).collect() })
}

fn expand(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    super::maps::fits(b, &[Arguments(call).tensor("self")?], call.outputs[0])?;
    moved(b, call, Op::Expand)
}

/// A position along a dimension, counted from the front.
fn position(b: &Builder<'_>, arg: &Arg, of: &Size) -> Result<Extent, String> {
    let position = match arg {
        Arg::None => Size::from(0),
        Arg::Int(size) => size.clone(),
        other => return Err(format!("it begins at {other:?}")),
    };
    match (position.number(), of.number()) {
        (Some(from @ 0..), Some(size)) => Ok(from.min(size).into()),
        (Some(from @ 0..), None) => Ok(from.into()),
        (Some(from), _) => match of.plus(&from.into()) {
            start if start.number().is_none_or(|start| start >= 0) => b.extent(&start),
            _ => Ok(0.into()),
        },
        (None, _) => b.extent(&position),
    }
}

fn slice(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let sizes = &b.ty(arguments.tensor("self")?)?.sizes;
    let dim = arguments.dim("dim", 0, sizes.len())?;
    let start = position(b, call.arg("start"), sizes.get(dim).ok_or("it cuts a tensor without dimensions")?)?;
    let step = arguments.natural("step", 1)?;
    moved(b, call, Op::Slice { dim: dim as u32, start, step })
}

/// One place along a dimension, which goes.
fn select(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let value = arguments.tensor("self")?;
    let mut sizes = b.ty(value)?.sizes.clone();
    let dim = arguments.dim("dim", 0, sizes.len())?;
    let size = sizes.get_mut(dim).ok_or("it cuts a tensor without dimensions")?;
    let start = position(b, call.arg("index"), size)?;
    *size = 1.into();
    let tensor = b.moved(value)?;
    let piece = b.between(value, &sizes, Op::Slice { dim: dim as u32, start, step: 1 }, vec![tensor])?;
    b.define(call.outputs[0], Op::View, vec![piece])
}

fn split(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let value = arguments.tensor("self")?;
    let dim = arguments.dim("dim", 0, b.ty(value)?.rank())?;
    let Arg::Ints(pieces) = call.arg("split_sizes") else { return Err("its pieces are not known".to_owned()) };
    let (tensor, mut start) = (b.moved(value)?, Size::from(0));
    for (&piece, size) in call.outputs.iter().zip(pieces) {
        let op = Op::Slice { dim: dim as u32, start: b.extent(&start)?, step: 1 };
        b.define(piece, op, vec![tensor])?;
        start = start.plus(size);
    }
    Ok(())
}

fn cat(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let result = b.ty(call.outputs[0])?;
    let dim = Arguments(call).dim("dim", 0, result.rank())?;
    let values = Arguments(call).tensors("tensors")?;
    let mut sources = Vec::new();
    for value in values {
        if b.ty(value)?.dtype != result.dtype || b.ty(value)?.rank() != result.rank() {
            return Err("it joins tensors of several kinds".to_owned());
        }
        sources.push(b.moved(value)?);
    }
    let op = Op::Concat { dim: dim as u32 };
    if !op.takes(sources.len()) {
        return Err(format!("it joins {} tensors", sources.len()));
    }
    b.define(call.outputs[0], op, sources)
}

/// Tensors one after the other along a dimension of their own.
fn stack(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let result = b.ty(call.outputs[0])?;
    let dim = Arguments(call).dim("dim", 0, result.rank())?;
    let mut sources = Vec::new();
    for value in Arguments(call).tensors("tensors")? {
        if b.ty(value)?.dtype != result.dtype {
            return Err("it joins tensors of several kinds".to_owned());
        }
        let mut sizes = b.ty(value)?.sizes.clone();
        sizes.insert(dim.min(sizes.len()), 1.into());
        let own = b.moved(value)?;
        sources.push(b.between(value, &sizes, Op::View, vec![own])?);
    }
    let op = Op::Concat { dim: dim as u32 };
    if !op.takes(sources.len()) {
        return Err(format!("it joins {} tensors", sources.len()));
    }
    b.define(call.outputs[0], op, sources)
}

/// Each dimension with one in front of it, which is expanded.
fn repeat(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let value = Arguments(call).tensor("self")?;
    let Arg::Ints(times) = call.arg("repeats") else { return Err("how often it repeats is not known".to_owned()) };
    let own = &b.ty(value)?.sizes;
    let ahead = times.len().checked_sub(own.len()).ok_or("it repeats fewer dimensions than there are")?;
    let (mut single, mut many) = (Vec::new(), Vec::new());
    for (dim, times) in times.iter().enumerate() {
        let size = dim.checked_sub(ahead).map_or(Size::from(1), |dim| own[dim].clone());
        single.extend([Size::from(1), size.clone()]);
        many.extend([times.clone(), size]);
    }
    if single.len() > MAX_RANK || shape::broadcast(&[&b.largest(&single)?], &b.largest(&many)?).is_none() {
        return Err(format!("ggml has four dimensions, too few to repeat {}", own.len()));
    }
    let tensor = b.moved(value)?;
    let single = b.between(value, &single, Op::View, vec![tensor])?;
    let many = b.between(value, &many, Op::Expand, vec![single])?;
    b.define(call.outputs[0], Op::View, vec![many])
}

fn pad(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.float("value", 0.0)? != 0.0 {
        return Err("ggml pads with zeros".to_owned());
    }
    let rank = b.ty(arguments.tensor("self")?)?.rank();
    let amounts = arguments.ints("pad")?;
    if rank > shape::DIMS || amounts.len() > 2 * rank {
        return Err("ggml pads four dimensions".to_owned());
    }
    let mut around = vec![0; 2 * rank];
    for (place, pair) in amounts.chunks_exact(2).enumerate() {
        for (side, &amount) in pair.iter().enumerate() {
            let amount = u32::try_from(amount).map_err(|_| "it cuts (negative padding)")?;
            around[2 * (rank - 1 - place) + side] = amount;
        }
    }
    moved(b, call, Op::Pad { around })
}

/// The one dimension that a call indexes, and the indices.
fn sole_index(call: &Call) -> Result<(usize, ValueId), String> {
    let Arg::Values(indices) = call.arg("indices") else { return Err("its indices are missing".to_owned()) };
    let mut given = indices.iter().enumerate().filter_map(|(dim, index)| Some((dim, (*index)?)));
    match (given.next(), given.next()) {
        (Some(only), None) => Ok(only),
        _ => Err("it indexes several dimensions".to_owned()),
    }
}

fn index(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let (dim, numbers) = sole_index(call)?;
    let value = Arguments(call).tensor("self")?;
    let [outer, ..] = shape::around(&b.bounds(value)?, dim).ok_or("it indexes a dimension that is not there")?;
    if outer != 1 {
        return Err("ggml selects along the outermost dimension".to_owned());
    }
    let (table, numbers) = (b.moved(value)?, b.indices(numbers)?);
    b.define(call.outputs[0], Op::Select { dim: dim as u32 }, vec![table, numbers])
}

/// A call that replaces slices of a tensor.
pub(super) struct Put {
    pub(super) into: ValueId,
    dim: i64,
    values: ValueId,
    numbers: ValueId,
}

/// What a call replaces, if it does that.
pub(super) fn put(call: &Call) -> Result<Put, String> {
    let arguments = Arguments(call);
    let into = arguments.tensor("self")?;
    match call.operator() {
        Some("aten::index_put") => {
            let (dim, numbers) = sole_index(call)?;
            if arguments.bool("accumulate", false) {
                return Err("it adds to what is there".to_owned());
            }
            Ok(Put { into, dim: dim as i64, values: arguments.tensor("values")?, numbers })
        }
        Some("aten::index_copy") => {
            let (dim, numbers) = (arguments.int("dim", 0)?, arguments.tensor("index")?);
            Ok(Put { into, dim, values: arguments.tensor("source")?, numbers })
        }
        _ => Err("it replaces nothing".to_owned()),
    }
}

fn put_slices(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let Put { into, dim, values, numbers } = put(call)?;
    let mut sizes = b.ty(into)?.sizes.clone();
    let dim = crate::lower::place(dim, sizes.len()).ok_or("it indexes a dimension that is not there")?;
    let [count] = &b.ty(numbers)?.sizes[..] else { return Err("its indices are no list".to_owned()) };
    *sizes.get_mut(dim).ok_or("it indexes a tensor without dimensions")? = count.clone();
    let drop_ones =
        |sizes: &[Size]| -> Vec<Size> { sizes.iter().skip_while(|size| size.number() == Some(1)).cloned().collect() };
    if drop_ones(&b.ty(values)?.sizes) != drop_ones(&sizes) {
        return Err("what it puts there is broadcast".to_owned());
    }
    let sources = vec![b.float(into)?, b.float(values)?, b.indices(numbers)?];
    b.define(call.outputs[0], Op::Put { dim: dim as u32 }, sources)
}
