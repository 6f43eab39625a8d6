//! Attention as products and a softmax.

use super::activation::masked_softmax;
use super::dropout::{dropped, probability};
use super::{Answer, Table};
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::lower::Site;
use crate::lower::calls::broadcast;
use crate::size::Size;
use sconce_format::ScalarType;

pub(super) const RULES: Table = &[
    ("aten::scaled_dot_product_attention", |site| attend(site).map(|(result, ..)| vec![result])),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", flash),
    ("aten::_scaled_dot_product_attention_math", |site| attend(site).map(|(result, weights, _)| vec![result, weights])),
];

/// The result, the weights and the scores that they come from.
fn attend(site: &mut Site<'_, '_>) -> Result<(ValueId, ValueId, ValueId), Error> {
    let [query, key, value] = ["query", "key", "value"].map(|name| site.tensor(name));
    let (query, mut key, mut value) = (query?, key?, value?);
    if site.bool("enable_gqa", false) {
        key = for_heads(site, key, query)?;
        value = for_heads(site, value, query)?;
    }
    let mut scores = scores(site, query, key)?;
    let last = site.ty(scores).rank() - 1;
    let weights = match mask(site, scores)? {
        Some(mask) => {
            let ty = site.plain_type(scores);
            scores = site.binary("aten::add.Tensor", scores, mask, &ty);
            masked_softmax(site, scores, last)
        }
        None => {
            let ty = site.plain_type(scores);
            let args = [("self", scores.into()), ("dim", (last as i64).into()), ("half_to_float", false.into())];
            site.call("aten::_softmax", args, ty)
        }
    };
    if *site.arg("dropout_mask") != Arg::None {
        return Err(Error::unsupported("attention with a given mask for its dropout"));
    }
    let p = probability(site, "dropout_p", 0.0)?;
    let weights = dropped(site, weights, p);
    let ty = site.result(0);
    Ok((site.matmul(weights, value, TensorType::new(ty.dtype, ty.sizes)), weights, scores))
}

/// Products of queries and keys. Both get the root of the scale, which keeps half-precision numbers in range.
fn scores(site: &mut Site<'_, '_>, query: ValueId, key: ValueId) -> Result<ValueId, Error> {
    let q = site.ranked(site.plain_type(query), 2)?;
    let k = site.ranked(site.plain_type(key), 2)?;
    let (rank, features) = (q.rank(), q.sizes[q.rank() - 1].number());
    let scale = match features {
        Some(features) => site.float("scale", 1.0 / (features as f64).sqrt())?,
        None => site.float("scale", f64::NAN)?,
    };
    if scale.is_nan() {
        return Err(Error::unsupported("attention with an unknown number of features"));
    }
    let root = scale.abs().sqrt();
    let query = site.scalar_call("aten::mul.Scalar", query, if scale < 0.0 { -root } else { root });
    let key = site.transposed(key, k.rank() - 2, k.rank() - 1);
    let key = site.scalar_call("aten::mul.Scalar", key, root);
    let mut sizes = broadcast(&q.sizes[..rank - 2], &k.sizes[..k.rank() - 2]);
    sizes.extend([q.sizes[rank - 2].clone(), k.sizes[k.rank() - 2].clone()]);
    Ok(site.matmul(query, key, q.with_sizes(sizes)))
}

/// What is added to the scores: the given mask, with minus infinity where it says no, or that of the past.
fn mask(site: &mut Site<'_, '_>, scores: ValueId) -> Result<Option<ValueId>, Error> {
    let ty = site.plain_type(scores);
    let allowed = match site.optional_tensor("attn_mask") {
        Some(mask) if site.ty(mask).dtype == ScalarType::Bool => mask,
        Some(mask) => return Ok(Some(site.cast(mask, ty.dtype))),
        None if site.bool("is_causal", false) => past(site, &ty.sizes[ty.rank() - 2..]),
        None => return Ok(None),
    };
    let zero = site.number(0.0, ty.dtype);
    let never = site.number(f64::NEG_INFINITY, ty.dtype);
    let own = ty.with_sizes(site.ty(allowed).sizes);
    Ok(Some(site.choose(allowed, zero, never, &own)))
}

/// For each query the keys that are not after it.
fn past(site: &mut Site<'_, '_>, sizes: &[Size]) -> ValueId {
    let queries = site.count_up(sizes[0].clone());
    let queries = site.unsqueeze(queries, 1);
    let keys = site.count_up(sizes[1].clone());
    let keys = site.unsqueeze(keys, 0);
    site.compare("aten::ge.Tensor", queries, keys)
}

/// Keys or values, each head as often as queries share it.
fn for_heads(site: &mut Site<'_, '_>, value: ValueId, query: ValueId) -> Result<ValueId, Error> {
    let (ty, q) = (site.ranked(site.plain_type(value), 3)?, site.ranked(site.ty(query), 3)?);
    let heads = ty.rank() - 3;
    let repeats = q.sizes[q.rank() - 3].floor_div(&ty.sizes[heads]);
    if repeats.number() == Some(1) {
        return Ok(value);
    }
    let mut sizes = ty.sizes.clone();
    sizes[heads] = sizes[heads].times(&repeats);
    let wide = site.unsqueeze(value, heads + 1);
    let mut repeated = site.ty(wide).sizes;
    repeated[heads + 1] = repeats;
    let wide = site.expand(wide, &repeated);
    Ok(site.view(wide, sizes))
}

/// As the other one, with the logarithms of the sums.
fn flash(site: &mut Site<'_, '_>) -> Answer {
    let (result, weights, scores) = attend(site)?;
    let rest = site.result(1);
    let last = site.ty(weights).rank() as i64 - 1;
    let wide = site.cast(scores, rest.dtype);
    let logarithms = site.call("aten::logsumexp", [("self", wide.into()), ("dim", vec![last].into())], rest);
    Ok(vec![result, logarithms])
}
