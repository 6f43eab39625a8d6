//! Scaled dot-product attention, whatever operator asks for it.
//!
//! PyTorch's own operators have `[batch, head, position, feature]` tensors, the language-model ones (`llama`) mostly
//! `[batch, position, head, feature]`; both describe the same [`Attention`] to the kernel. Queries, keys and values may be
//! float32, half or bfloat16, and eight-bit integers with parameters per row. Dropout does nothing: programs run for
//! inference.
use crate::dense::{buffer_bytes, convert_scratch, converted, floats, reorder_scratch, row_major, write_row_major};
use crate::operands::{elements, misaligned};
use crate::ops;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Shape, Tensor};
use sconce_kernels::Isa;
use sconce_kernels::attention::{Attention, Layout, Mask, MaskValues, Operand, Values, attention};
use sconce_kernels::view::view_mut;
use sconce_schema::Sizes;

/// Attention as PyTorch names it.
pub(crate) static OPS: &[Op] = ops! {
    "aten::scaled_dot_product_attention.out" [10] writes [8] scratch |args| scratch(args, [0, 1, 2, 3, 8], Layout::HeadsFirst), => scaled_dot_product;
};

fn scaled_dot_product(call: &mut Call<'_>) -> Result<(), Fault> {
    let [query, key, value] = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
    let question = Question {
        layout: Layout::HeadsFirst,
        keys: None,
        causal_from: call.bool(5)?.then_some(0),
        scale: call.optional(6, |args, i| args.double(i))?,
        mask: if call.is_none(3)? { None } else { Some(3) },
        parameters: [None; 3],
    };
    question.answer(call, [query, key, value], 8)
}

/// An attention but for its queries, keys and values.
pub(crate) struct Question {
    pub(crate) layout: Layout,
    /// How many of the keys there are count; all, if not given.
    pub(crate) keys: Option<usize>,
    pub(crate) causal_from: Option<usize>,
    /// One over the square root of the number of features, if not given.
    pub(crate) scale: Option<f64>,
    /// The argument that is the mask.
    pub(crate) mask: Option<usize>,
    /// For integers: the arguments that are zero points and scales of query, key and value.
    pub(crate) parameters: [Option<(usize, usize)>; 3],
}

/// Batch, heads, positions and features of a tensor with two to four dimensions.
fn sizes(argument: usize, shape: &Shape, layout: Layout) -> Result<[usize; 4], Fault> {
    match (layout, shape.sizes()) {
        (Layout::HeadsFirst, &[batch, heads, positions, features]) => Ok([batch, heads, positions, features]),
        (Layout::HeadsFirst, &[heads, positions, features]) => Ok([1, heads, positions, features]),
        (Layout::HeadsFirst, &[positions, features]) => Ok([1, 1, positions, features]),
        (Layout::PositionsFirst, &[batch, positions, heads, features]) => Ok([batch, heads, positions, features]),
        _ => {
            let text = "attention needs a tensor of batch, heads, positions and features here, not of {} dimensions";
            Err(Fault::argument(argument, text).with([shape.rank()]))
        }
    }
}

fn operand<'a>(values: Values<'a>, [_, heads, positions, features]: [usize; 4], layout: Layout) -> Operand<'a> {
    let row = match layout {
        Layout::HeadsFirst => [heads * positions, positions, 1],
        Layout::PositionsFirst => [heads * positions, 1, heads],
    };
    Operand { values, features, strides: row.map(|rows| rows * features) }
}

/// Room for the kernel and for query, key, value, mask and output in another order or type.
pub(crate) fn scratch(args: &Args<'_>, arguments: [usize; 5], layout: Layout) -> usize {
    let [query, key, value, mask, _] = arguments;
    let described = |argument: usize| {
        let (dtype, shape) = args.tensor_type(argument)?;
        let values = match dtype {
            ScalarType::Float => Values::F32(&[]),
            _ => Values::F16(&[]),
        };
        let sizes = sizes(argument, &shape, layout)?;
        Ok::<_, Fault>((sizes, operand(values, sizes, layout)))
    };
    let (Ok((sizes, query)), Ok((key_sizes, key)), Ok((_, value))) =
        (described(query), described(key), described(value))
    else {
        return 0;
    };
    if key_sizes[1] == 0 {
        return 0;
    }
    let [batch, heads, queries, _] = sizes;
    let [_, key_heads, keys, _] = key_sizes;
    let described = Attention {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        query,
        key,
        value,
        scale: 1.0,
        causal_from: None,
        mask: None,
        unseen: 0.0,
        layout,
    };
    let own = described.scratch(args.parallel().width()).saturating_mul(size_of::<f32>());
    reorder_scratch(args, &arguments).saturating_add(buffer_bytes(own)).saturating_add(convert_scratch(
        args,
        mask,
        &[ScalarType::Float, ScalarType::Bool],
    ))
}

impl Question {
    /// Computes into output `out`. The tensors are arguments 0, 1 and 2, perhaps already changed.
    pub(crate) fn answer<'c>(&self, call: &mut Call<'c>, tensors: [Tensor<'c>; 3], out: usize) -> Result<(), Fault> {
        let layout = self.layout;
        let mut operands = [None; 3];
        for (n, (slot, tensor)) in operands.iter_mut().zip(tensors).enumerate() {
            let sizes = sizes(n, &tensor.shape, layout)?;
            let tensor = row_major(call, tensor)?;
            *slot = Some((sizes, operand(self.values(call, n, &tensor)?, sizes, layout)));
        }
        let [Some((sizes, query)), Some((key_sizes, key)), Some((value_sizes, value))] = operands else {
            return Err(Fault::argument(0, "there is nothing to attend to"));
        };
        let [batch, heads, queries, _] = sizes;
        let [_, key_heads, all_keys, _] = key_sizes;
        check(sizes, key_sizes, value_sizes)?;
        let keys = self.keys.unwrap_or(all_keys);
        if keys > all_keys {
            return Err(Fault::argument(1, "{} keys are needed, there are {}").with([keys, all_keys]));
        }
        let scale = self.scale.unwrap_or_else(|| 1.0 / libm::sqrt(query.features as f64)) as f32;
        let mask = self.mask.map(|argument| mask(call, argument, [batch, heads, queries, keys])).transpose()?;
        let asked = Attention {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            query,
            key,
            value,
            scale,
            causal_from: self.causal_from,
            mask,
            unseen: 0.0,
            layout,
        };
        let mut out_sizes = Sizes::new(tensors[0].sizes()).unwrap_or(Sizes::SCALAR);
        out_sizes.iter_mut().next_back().into_iter().for_each(|last| *last = value.features);
        let target = call.out(out, &out_sizes)?;
        let scratch = floats(call, out, asked.scratch(call.parallel().width()))?;
        let (parallel, dtype) = (call.parallel(), target.dtype);
        write_row_major(call, target, |bytes| {
            macro_rules! into {
                ($type:ty) => {{
                    let results = view_mut::<$type>(bytes).ok_or(misaligned(out))?;
                    attention(Isa::detect(), parallel, &asked, results, scratch);
                    Ok(())
                }};
            }
            match dtype {
                ScalarType::Float => into!(f32),
                ScalarType::Half => into!(half::f16),
                ScalarType::BFloat16 => into!(half::bf16),
                other => Err(crate::typed::unsupported(out, other)),
            }
        })
    }

    fn values<'c>(&self, call: &Call<'c>, n: usize, tensor: &Tensor<'c>) -> Result<Values<'c>, Fault> {
        match (tensor.dtype, self.parameters.get(n).copied().flatten()) {
            (ScalarType::Float, _) => Ok(Values::F32(elements(n, tensor)?)),
            (ScalarType::Half, _) => Ok(Values::F16(elements(n, tensor)?)),
            (ScalarType::BFloat16, _) => Ok(Values::BF16(elements(n, tensor)?)),
            (ScalarType::Char, Some((zero_points, scales))) => {
                let features = tensor.sizes().last().copied().unwrap_or(1).max(1);
                let (rows, values) = (tensor.numel() / features, elements(n, tensor)?);
                let parameter = |argument: usize| {
                    let given = call.tensor(argument)?;
                    let plain = given.shape.is_contiguous() && given.numel() == rows;
                    let text = "a row-major tensor with one parameter for each of {} rows is needed here";
                    if plain { Ok(given) } else { Err(Fault::argument(argument, text).with([rows])) }
                };
                Ok(Values::I8 {
                    values,
                    scales: elements(scales, &parameter(scales)?)?,
                    zero_points: elements(zero_points, &parameter(zero_points)?)?,
                })
            }
            (other, _) => Err(crate::typed::unsupported(n, other)),
        }
    }
}

/// Whether query, key and value fit, each given as batch, heads, positions and features.
fn check(query: [usize; 4], key: [usize; 4], value: [usize; 4]) -> Result<(), Fault> {
    if query[0] != key[0] || key[..3] != value[..3] {
        return Err(Fault::argument(1, "queries, keys and values differ in batch, heads or positions"));
    }
    if query[3] != key[3] {
        return Err(Fault::argument(1, "queries have {} features, keys {}").with([query[3], key[3]]));
    }
    if key[1] == 0 || !query[1].is_multiple_of(key[1]) {
        return Err(Fault::argument(1, "{} heads of queries cannot share {} of keys").with([query[1], key[1]]));
    }
    Ok(())
}

/// A mask, true or added, of up to four dimensions that broadcast to these.
fn mask<'c>(call: &mut Call<'c>, argument: usize, wanted: [usize; 4]) -> Result<Mask<'c>, Fault> {
    let tensor = call.tensor(argument)?;
    let given = row_major(call, tensor)?;
    let Some(missing) = 4usize.checked_sub(given.shape.rank()) else {
        return Err(Fault::argument(argument, "a mask has at most 4 dimensions, not {}").with([given.shape.rank()]));
    };
    let (own, mut strides) = (given.shape.strides(), [0; 4]);
    for (dim, &size) in given.sizes().iter().enumerate() {
        let want = wanted[missing + dim];
        if size != 1 && size != want {
            return Err(Fault::argument(argument, "the mask has size {} where {} is needed").with([size, want]));
        }
        strides[missing + dim] = if size == 1 { 0 } else { own[dim] };
    }
    let values = match given.dtype {
        ScalarType::Bool => MaskValues::Seen(elements(argument, &given)?),
        _ => MaskValues::Added(converted(call, argument, given)?),
    };
    Ok(Mask { values, strides })
}
