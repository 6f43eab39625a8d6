//! The language-model operators: attention over caches of keys and values, and what goes with it.
//!
//! Their tensors are `[batch, position, head, feature]`. Caches are written in place, so an operator names them among the
//! arguments it writes. The names without `.out` are the same operators with the returned value as their output.
pub(crate) mod delta_rule;
pub(crate) mod experts;
pub(crate) mod hadamard;

use crate::attention::{Question, scratch};
use crate::copies::copy_as_is;
use crate::dense::{reorder_scratch, row_major};
use crate::operands::{elements, same_type};
use crate::ops;
use sconce_core::{Call, Fault, Op, Tensor, TensorMut};
use sconce_kernels::Isa;
use sconce_kernels::attention::Layout;
use sconce_kernels::copy::{Copy, contiguous_strides, copy};

/// Attention over caches, and caches.
pub(crate) static OPS: &[Op] = ops! {
    "llama::custom_sdpa.out" [10] writes [8] scratch |args| scratch(args, [0, 1, 2, 4, 8], Layout::PositionsFirst), => |call| {
        let tensors = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
        attend(call, tensors, [3, 4], [None; 3], Layout::PositionsFirst, 8)
    };
    "llama::custom_quantized_sdpa.out" [17] writes [15] scratch |args| {
        scratch(args, [0, 1, 2, 4, 15], Layout::PositionsFirst).max(scratch(args, [0, 1, 2, 4, 15], Layout::HeadsFirst))
    }, => |call| {
        let tensors = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
        let layout = if call.bool(14)? { Layout::HeadsFirst } else { Layout::PositionsFirst };
        attend(call, tensors, [3, 4], [Some((8, 9)), Some((10, 11)), Some((12, 13))], layout, 15)
    };
    "llama::sdpa_with_kv_cache.out" [13] writes [3, 4, 11] scratch |args| cached_scratch(args, 11), => |call| cached(call, 11);
    "llama::sdpa_with_kv_cache" [12] writes [3, 4, 11] scratch |args| cached_scratch(args, 11), => |call| cached(call, 11);
    "llama::update_cache.out" [5] writes [1] scratch |args| reorder_scratch(args, &[0]), => |call| update(call, None);
    "llama::update_cache" [4] writes [1] scratch |args| reorder_scratch(args, &[0]), => |call| update(call, None);
    "llama::update_cache_with_indices.out" [6] writes [1] scratch |args| reorder_scratch(args, &[0, 3]), => |call| update(call, Some(3));
    "llama::update_cache_with_indices" [5] writes [1] scratch |args| reorder_scratch(args, &[0, 3]), => |call| update(call, Some(3));
    "llama::fallback.out" [3] writes [1] => |call| copy_as_is(call, 1);
    "preprocess::tile_crop.out" [4] writes [2] scratch |args| reorder_scratch(args, &[0]), => tile_crop;
};

fn cached_scratch(args: &sconce_core::Args<'_>, out: usize) -> usize {
    scratch(args, [0, 3, 4, 7, out], Layout::PositionsFirst).saturating_add(reorder_scratch(args, &[1, 2]))
}

/// A position or length from the program.
fn natural(argument: usize, value: i64) -> Result<usize, Fault> {
    let text = "a position must not be negative, this one is {}";
    usize::try_from(value).map_err(|_| Fault::argument(argument, text).with_signed([value]))
}

/// Attention from position `start` on. Dropout, causality and scale follow the argument `mask`. Without a mask only the keys
/// up to the last query count.
fn attend<'c>(
    call: &mut Call<'c>,
    tensors: [Tensor<'c>; 3],
    [start, mask]: [usize; 2],
    parameters: [Option<(usize, usize)>; 3],
    layout: Layout,
    out: usize,
) -> Result<(), Fault> {
    let positions = tensors[0].sizes().get(if layout == Layout::HeadsFirst { 2 } else { 1 }).copied().unwrap_or(0);
    let (first, causal) = (natural(start, call.int(start)?)?, call.bool(mask + 2)?);
    let masked = !call.is_none(mask)?;
    if masked && causal {
        return Err(Fault::argument(mask, "attention takes a mask or is causal, not both"));
    }
    let question = Question {
        layout,
        keys: if masked { None } else { Some(first.saturating_add(positions)) },
        causal_from: causal.then_some(first),
        scale: call.optional(mask + 3, |args, i| args.double(i))?,
        mask: masked.then_some(mask),
        parameters,
    };
    question.answer(call, tensors, out)
}

/// Stores keys and values in their caches, then attends to all that the caches hold.
fn cached(call: &mut Call<'_>, out: usize) -> Result<(), Fault> {
    let [query, key, value] = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
    let (key, value) = (row_major(call, key)?, row_major(call, value)?);
    let start = natural(5, call.int(5)?)?;
    let (mut keys, mut values) = (call.in_place(3)?, call.in_place(4)?);
    store(3, &key, &mut keys, |_, position| start.checked_add(position))?;
    store(4, &value, &mut values, |_, position| start.checked_add(position))?;
    attend(call, [query, read(keys), read(values)], [5, 7], [None; 3], Layout::PositionsFirst, out)
}

/// A cache, from now on only read.
fn read(cache: TensorMut<'_>) -> Tensor<'_> {
    Tensor { dtype: cache.dtype, shape: cache.shape, data: cache.data }
}

/// Copies positions of `value` to those of a cache, as `place(batch, position)` says.
fn store(
    argument: usize,
    value: &Tensor<'_>,
    cache: &mut TensorMut<'_>,
    place: impl Fn(usize, usize) -> Option<usize>,
) -> Result<(), Fault> {
    same_type(argument, cache.dtype, value.dtype)?;
    let (&[batch, positions, heads, features], &[cache_batch, room, cache_heads, cache_features]) =
        (value.sizes(), cache.shape.sizes())
    else {
        return Err(Fault::argument(argument, "value and cache must have 4 dimensions"));
    };
    if [batch, heads, features] != [cache_batch, cache_heads, cache_features] || !cache.shape.is_contiguous() {
        return Err(Fault::argument(argument, "the value and a row-major cache must differ in positions only"));
    }
    let bytes = heads * features * value.dtype.size();
    if bytes == 0 {
        return Ok(());
    }
    for (i, from) in value.data.chunks_exact(bytes).enumerate() {
        let to = place(i / positions, i % positions).filter(|&to| to < room);
        let to = to.ok_or(Fault::argument(argument, "the cache has room for {} positions only").with([room]))?;
        if let Some(target) = cache.data.get_mut((i / positions * room + to) * bytes..).and_then(|t| t.get_mut(..bytes))
        {
            target.copy_from_slice(from);
        }
    }
    Ok(())
}

/// Writes to a cache from a position on, or to the positions that argument `indices` lists. The output is a placeholder
/// that nobody reads.
fn update(call: &mut Call<'_>, indices: Option<usize>) -> Result<(), Fault> {
    let value = call.tensor(0)?;
    let value = row_major(call, value)?;
    let start = call.int(2)?;
    let listed = match indices {
        Some(argument) => {
            let tensor = call.tensor(argument)?;
            let tensor = row_major(call, tensor)?;
            if Some(tensor.sizes()) != value.sizes().get(..2) {
                return Err(Fault::argument(argument, "there must be an index for each batch and position"));
            }
            Some(elements::<i64>(argument, &tensor)?)
        }
        None => None,
    };
    let positions = value.sizes().get(1).copied().unwrap_or(0);
    let mut cache = call.in_place(1)?;
    match listed {
        Some(listed) => store(1, &value, &mut cache, |batch, position| {
            listed.get(batch * positions + position).and_then(|&to| usize::try_from(to).ok())
        }),
        None => {
            let start = natural(2, start)?;
            store(1, &value, &mut cache, |_, position| start.checked_add(position))
        }
    }
}

/// `[channels, height, width]` becomes `[tiles, channels, size, size]`, tiles row by row.
fn tile_crop(call: &mut Call<'_>) -> Result<(), Fault> {
    let x = call.tensor(0)?;
    let x = row_major(call, x)?;
    let size = natural(1, call.int(1)?)?;
    let &[channels, height, width] = x.sizes() else {
        return Err(Fault::argument(0, "an image of 3 dimensions is needed here, not {}").with([x.shape.rank()]));
    };
    if size == 0 || !height.is_multiple_of(size) || !width.is_multiple_of(size) {
        let text = "tiles of size {} do not divide an image of {} by {}";
        return Err(Fault::argument(1, text).with([size, height, width]));
    }
    let (down, across) = (height / size, width / size);
    let out = call.out(2, &[down * across, channels, size, size])?;
    same_type(2, out.dtype, x.dtype)?;
    if !out.shape.is_contiguous() {
        return Err(Fault::argument(2, "a row-major output is needed here"));
    }
    let shape = [down, across, channels, size, size];
    let to = contiguous_strides(&shape);
    let from = [size * width, size, height * width, width, 1];
    let plan = Copy { shape: &shape, from_strides: &from, to_strides: &to[..shape.len()] };
    copy(Isa::detect(), call.parallel(), x.dtype.size(), &plan, x.data, out.data);
    Ok(())
}
