//! Linear layers, products of matrices, convolutions, embeddings and attention.

use super::Row;
use crate::arguments::Arguments;
use crate::ggml::builder::Builder;
use crate::ir::{Call, ValueId};
use crate::size::Size;
use sconce_format::ScalarType;
use sconce_format::ggml::Op;

pub(super) const ROWS: &[Row] = &[
    ("aten::linear", linear),
    ("aten::mm", |b, c| product(b, c, "self", None)),
    ("aten::addmm", addmm),
    ("aten::bmm", bmm),
    ("aten::embedding", embedding),
    ("aten::convolution", convolution),
    ("aten::scaled_dot_product_attention", attention),
];

fn linear(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let weight = arguments.tensor("weight")?;
    if b.ty(weight)?.rank() != 2 {
        return Err("its weight is no matrix".to_owned());
    }
    let mut sources = vec![b.float(arguments.tensor("input")?)?, b.weight(weight, false)?];
    let heads = b.alternating(weight);
    if let Some(bias) = arguments.optional("bias") {
        if b.alternating(bias) != heads {
            return Err("its weight is in the file of weights, and its bias is not".to_owned());
        }
        sources.push(b.float(bias)?);
    }
    match heads {
        None => b.define(call.outputs[0], Op::Linear, sources),
        Some(heads) => b.define_halves(call.outputs[0], heads, Op::Linear, sources),
    }
}

/// A product of two matrices, plus a bias.
fn product(b: &mut Builder<'_>, call: &Call, left: &str, bias: Option<ValueId>) -> Result<(), String> {
    let arguments = Arguments(call);
    let (left, right) = (arguments.tensor(left)?, arguments.tensor("mat2")?);
    let mut sources = vec![b.float(left)?, b.weight(right, true)?];
    if let Some(bias) = bias {
        sources.push(b.float(bias)?);
    }
    b.define(call.outputs[0], Op::Linear, sources)
}

fn addmm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.float("alpha", 1.0)? != 1.0 || arguments.float("beta", 1.0)? != 1.0 {
        return Err("it multiplies what it adds (alpha, beta)".to_owned());
    }
    let bias = arguments.tensor("self")?;
    let width = b.ty(call.outputs[0])?.sizes.last().cloned();
    if b.ty(bias)?.rank() == 1 && b.ty(bias)?.sizes.first() == width.as_ref() {
        return product(b, call, "mat1", Some(bias));
    }
    let result = call.outputs[0];
    super::maps::fits(b, &[bias, result], result)?;
    let sources = vec![b.float(arguments.tensor("mat1")?)?, b.weight(arguments.tensor("mat2")?, true)?];
    let product = b.between(result, &b.ty(result)?.sizes, Op::Linear, sources)?;
    let bias = b.float(bias)?;
    b.define(result, Op::Add, vec![product, bias])
}

fn bmm(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let sources = vec![b.float(arguments.tensor("self")?)?, b.float(arguments.tensor("mat2")?)?];
    b.define(call.outputs[0], Op::MatMul, sources)
}

fn embedding(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    let weight = arguments.tensor("weight")?;
    if b.ty(weight)?.rank() != 2 {
        return Err("its table is no matrix".to_owned());
    }
    let indices = b.indices(arguments.tensor("indices")?)?;
    let table = b.weight(weight, false)?;
    b.define(call.outputs[0], Op::Embedding, vec![table, indices])
}

/// A convolution; one of a single dimension is one of images of height 1.
fn convolution(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.bool("transposed", false) {
        return Err("ggml's transposed convolutions have no padding".to_owned());
    }
    let (input, weight) = (arguments.tensor("input")?, arguments.tensor("weight")?);
    let rank = b.ty(input)?.rank();
    if b.ty(weight)?.rank() != rank || !matches!(rank, 3 | 4) {
        return Err(format!("it has {rank} dimensions, not those of an image"));
    }
    let line = rank == 3;
    let op = Op::Conv2d {
        stride: arguments.pair("stride", 1, line)?,
        padding: arguments.pair("padding", 0, line)?,
        dilation: arguments.pair("dilation", 1, line)?,
        groups: arguments.natural("groups", 1)?,
    };
    let mut sources = Vec::new();
    for value in [input, weight] {
        let tensor = b.float(value)?;
        let sizes = b.ty(value)?.sizes.clone();
        sources.push(if line { b.between(value, &as_image(&sizes), Op::View, vec![tensor])? } else { tensor });
    }
    if let Some(bias) = arguments.optional("bias") {
        sources.push(b.float(bias)?);
    }
    let result = call.outputs[0];
    if line {
        let image = as_image(&b.ty(result)?.sizes);
        let image = b.between(result, &image, op, sources)?;
        return b.define(result, Op::View, vec![image]);
    }
    b.define(result, op, sources)
}

fn as_image(sizes: &[Size]) -> Vec<Size> {
    let mut image = sizes.to_vec();
    image.insert(image.len().min(2), Size::from(1));
    image
}

fn attention(b: &mut Builder<'_>, call: &Call) -> Result<(), String> {
    let arguments = Arguments(call);
    if arguments.float("dropout_p", 0.0)? != 0.0 {
        return Err("it drops scores at random".to_owned());
    }
    let values = ["query", "key", "value"].map(|name| arguments.tensor(name));
    let [query, key, value] = values;
    let (query, key, value) = (query?, key?, value?);
    let (q, k, v) = (b.ty(query)?, b.ty(key)?, b.ty(value)?);
    let rank = q.rank();
    if !matches!(rank, 3 | 4) || k.rank() != rank || v.rank() != rank {
        return Err("ggml's attention has three or four dimensions".to_owned());
    }
    let heads = |sizes: &[Size]| sizes[rank - 3].clone();
    let batch = |sizes: &[Size]| sizes[..rank - 3].to_vec();
    let grouped = arguments.bool("enable_gqa", false) || heads(&q.sizes) == heads(&k.sizes);
    if !grouped
        || heads(&k.sizes) != heads(&v.sizes)
        || batch(&q.sizes) != batch(&k.sizes)
        || batch(&k.sizes) != batch(&v.sizes)
    {
        return Err("its heads or batches are broadcast".to_owned());
    }
    let causal = arguments.bool("is_causal", false);
    let mut sources = vec![b.float(query)?, b.float(key)?, b.float(value)?];
    if let Some(mask) = arguments.optional("attn_mask") {
        let ty = b.ty(mask)?;
        if causal || ty.rank() > 4 || !matches!(ty.dtype, ScalarType::Float | ScalarType::Bool) {
            return Err("its mask is none of ggml's".to_owned());
        }
        sources.push(b.moved(mask)?);
    }
    let width = q.sizes[rank - 1].number().ok_or("the size of its heads is not known")?;
    let scale = arguments.number("scale")?.unwrap_or(1.0 / (width as f64).sqrt()) as f32;
    b.define(call.outputs[0], Op::Attention { scale, causal }, sources)
}
