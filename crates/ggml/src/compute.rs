//! From operations to ggml's: one function for each row of the operations' table.
//!
//! A [`Value`] has torch's sizes, of any rank, and a tensor of ggml with the same elements: either one after the other, in
//! whatever four sizes, or, for up to four dimensions, with the strides that a permutation left. Operations ask for the
//! sizes that suit them ([`Value::shaped`]), and what lies otherwise is copied first. So ranks above four need no rules of
//! their own, and nothing is guessed about layouts.

use crate::sys::{Context, Map, Meet, Sizes, Tensor, Window};
use sconce_format::ggml::{Bound, Element, Op, shape};

/// A tensor with torch's sizes.
#[derive(Clone)]
pub(crate) struct Value<'c> {
    pub(crate) tensor: Tensor<'c>,
    pub(crate) sizes: Vec<usize>,
    /// What its elements stand for.
    pub(crate) element: Element,
    /// The input that it is, as indices.
    pub(crate) input: Option<usize>,
    /// Whether it is kept from run to run, so that what is put into it stays there.
    pub(crate) kept: bool,
}

/// What a graph is built in.
pub(crate) struct Scope<'c, 'b> {
    pub(crate) context: &'c Context,
    /// The sizes for the present inputs.
    pub(crate) bound: &'b Bound,
    /// For each input, below which number its indices must be, and whether they may be counted from the end.
    pub(crate) limits: Vec<Option<Limit>>,
    /// Further copies of inputs that are indices, written before each run after the inputs.
    pub(crate) copies: Vec<(Tensor<'c>, usize, Limit)>,
    /// Constants that are written before each run, after those.
    pub(crate) constants: Vec<(Tensor<'c>, Vec<u8>)>,
}

/// What indices must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Below this.
    pub(crate) below: usize,
    /// Whether -1 is the last one.
    pub(crate) from_end: bool,
}

type Built<'c> = Result<Tensor<'c>, String>;

/// Sizes for ggml: the innermost first, at most four.
pub(crate) fn ggml_sizes(sizes: &[usize]) -> Result<Sizes, String> {
    if sizes.len() > shape::DIMS {
        return Err(format!("{sizes:?} are more than four dimensions"));
    }
    let mut four = [1; 4];
    for (place, &size) in four.iter_mut().zip(sizes.iter().rev()) {
        *place = i64::try_from(size).map_err(|_| format!("the size {size} is too large"))?;
    }
    Ok(four)
}

impl<'c> Value<'c> {
    pub(crate) fn new(tensor: Tensor<'c>, element: Element, sizes: &[usize]) -> Self {
        Self { tensor, sizes: sizes.to_vec(), element, input: None, kept: false }
    }

    /// The elements one after the other, in these sizes.
    fn shaped(&self, sizes: &[usize]) -> Built<'c> {
        self.tensor.contiguous()?.reshape(ggml_sizes(sizes)?)
    }

    /// All elements but the last dimension as rows.
    fn rows(&self, row: usize) -> Built<'c> {
        let count: usize = self.sizes.iter().product();
        if row == 0 || !count.is_multiple_of(row) {
            return Err(format!("rows of {row} of the sizes {:?}", self.sizes));
        }
        self.shaped(&[count / row, row])
    }

    /// In its own sizes, of which there are at most four, with whatever strides it has.
    fn strided(&self) -> Built<'c> {
        let wanted = ggml_sizes(&self.sizes)?;
        if self.tensor.sizes() == wanted { Ok(self.tensor) } else { self.shaped(&self.sizes) }
    }

    /// In its own sizes with rows that ggml can multiply.
    fn multipliable(&self) -> Built<'c> {
        let tensor = self.strided()?;
        if tensor.has_rows() { Ok(tensor) } else { tensor.contiguous() }
    }

    fn last(&self) -> usize {
        self.sizes.last().copied().unwrap_or(1)
    }
}

impl<'c> Scope<'c, '_> {
    /// The value of an operation; `sizes` are those that the payload says it has.
    pub(crate) fn compute(
        &mut self,
        op: &Op,
        operands: &[&Value<'c>],
        element: Element,
        sizes: &[usize],
    ) -> Result<Value<'c>, String> {
        let [first, rest @ ..] = operands else { return Err("nothing to compute with".to_owned()) };
        let count: usize = sizes.iter().product();
        let mut input = None;
        let tensor = match op {
            Op::Add => meet(Meet::Add, operands, sizes)?,
            Op::Subtract => meet(Meet::Subtract, operands, sizes)?,
            Op::Multiply => meet(Meet::Multiply, operands, sizes)?,
            Op::Divide => meet(Meet::Divide, operands, sizes)?,
            Op::ReciprocalSquareRoot => self.reciprocal(first.tensor.contiguous()?.map(Map::SquareRoot)?)?,
            Op::GeluTanh => gelu_tanh(first.tensor.contiguous()?)?,
            Op::LeakyRelu { slope } => first.tensor.contiguous()?.leaky_relu(*slope)?,
            Op::Clamp { low, high } => first.tensor.contiguous()?.clamp(*low, *high)?,
            Op::Scale { by, plus } => first.tensor.contiguous()?.scale(*by, *plus)?,
            Op::Linear => linear(first, rest)?,
            Op::MatMul => mat_mul(first, rest)?,
            Op::Embedding | Op::Select { .. } => self.select(op, first, rest)?,
            Op::Put { dim } => self.put(*dim, first, rest)?,
            Op::Softmax { dim } => along(first, *dim, |rows| rows.map(Map::Softmax))?,
            Op::CumulativeSum { dim } => along(first, *dim, |rows| rows.map(Map::CumulativeSum))?,
            Op::LayerNorm { dims, epsilon, weight, bias } => {
                layer_norm(first, rest, *dims, *epsilon, [*weight, *bias])?
            }
            Op::RmsNorm { epsilon } => {
                let normed = first.rows(first.last())?.rms_norm(*epsilon)?;
                rest.first().map_or(Ok(normed), |weight| normed.meet(Meet::Multiply, weight.rows(first.last())?))?
            }
            Op::GroupNorm { groups, epsilon } => {
                first.strided()?.contiguous()?.group_norm(number(*groups)?, *epsilon)?
            }
            Op::Conv2d { stride, padding, dilation, groups } => {
                let [stride, padding, dilation] = [pair(*stride)?, pair(*padding)?, pair(*dilation)?];
                convolution(first, rest, &Window { stride, padding, dilation }, *groups)?
            }
            Op::MaxPool2d { kernel, stride, padding } => {
                let window = Window { stride: pair(*stride)?, padding: pair(*padding)?, dilation: [1; 2] };
                first.shaped(&first.sizes)?.pool(pair(*kernel)?, &window, true)?
            }
            Op::AvgPool2d { kernel, stride } => {
                let window = Window { stride: pair(*stride)?, padding: [0; 2], dilation: [1; 2] };
                first.shaped(&first.sizes)?.pool(pair(*kernel)?, &window, false)?
            }
            Op::Mean { dims } => reduce(first, dims, true)?,
            Op::Sum { dims } => reduce(first, dims, false)?,
            Op::View => {
                input = first.input;
                first.tensor.contiguous()?
            }
            Op::Permute { order } => permute(first, order)?,
            Op::Slice { dim, start, step } => slice(first, *dim, self.bound.value(start), *step, sizes)?,
            Op::Concat { dim } => concat(operands, *dim)?,
            Op::Expand => expand(first, sizes)?,
            Op::Pad { around } => pad(first, around)?,
            Op::Attention { scale, causal } => self.attention(first, rest, *scale, *causal)?,
            Op::Rope { dims, mode, base } => {
                let [positions] = rest else { return Err("a rotation needs positions".to_owned()) };
                let positions = positions.shaped(&[positions.sizes.iter().product()])?;
                first.strided()?.contiguous()?.rope(positions, number(*dims)?, number(*mode)?, *base)?
            }
            Op::Convert => first.tensor.contiguous()?.cast(element)?,
            Op::Leaf => return Err("it is not computed".to_owned()),
            other => first.tensor.contiguous()?.map(map(other)?)?,
        };
        if tensor.count() != count {
            return Err(format!("{} gives {:?}, and the payload says {sizes:?}", op.name(), tensor.sizes()));
        }
        Ok(Value { tensor, sizes: sizes.to_vec(), element, input, kept: false })
    }

    /// One over each element.
    fn reciprocal(&mut self, tensor: Tensor<'c>) -> Built<'c> {
        let one = self.constant(&[1.0])?.repeat(tensor.sizes())?;
        one.meet(Meet::Divide, tensor)
    }

    /// Numbers that are known.
    fn constant(&mut self, numbers: &[f32]) -> Built<'c> {
        let tensor = self.context.leaf(Element::F32, ggml_sizes(&[numbers.len()])?)?;
        self.constants.push((tensor, numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()));
        Ok(tensor)
    }

    /// Indices that are an input, checked against a limit. An input that is used with several limits is written several
    /// times: what is counted from the end depends on where that is.
    fn indices(&mut self, of: &Value<'c>, limit: Limit) -> Built<'c> {
        let input = of.input.ok_or("indices must be an input")?;
        let count = of.sizes.iter().product();
        let known = self.limits.get_mut(input).ok_or("there is no such input")?;
        if *known.get_or_insert(limit) == limit {
            return of.shaped(&[count]);
        }
        if let Some((tensor, ..)) = self.copies.iter().find(|(_, own, other)| (*own, *other) == (input, limit)) {
            return Ok(*tensor);
        }
        let copy = self.context.leaf(Element::I32, ggml_sizes(&[count])?)?;
        self.copies.push((copy, input, limit));
        Ok(copy)
    }

    fn select(&mut self, op: &Op, table: &Value<'c>, rest: &[&Value<'c>]) -> Built<'c> {
        let [numbers] = rest else { return Err("a table needs numbers".to_owned()) };
        let dim = if let Op::Select { dim } = op { *dim as usize } else { 0 };
        let [outer, count, inner] = shape::around(&table.sizes, dim).ok_or("a dimension that is not there")?;
        if outer != 1 {
            return Err("ggml selects along the outermost dimension only".to_owned());
        }
        let limit = Limit { below: count, from_end: matches!(op, Op::Select { .. }) };
        let numbers = self.indices(numbers, limit)?;
        table.tensor.contiguous()?.reshape(ggml_sizes(&[count, inner])?)?.rows(numbers)
    }

    fn put(&mut self, dim: u32, into: &Value<'c>, rest: &[&Value<'c>]) -> Built<'c> {
        let [values, numbers] = rest else { return Err("values or numbers are missing".to_owned()) };
        let [outer, count, inner] = shape::around(&into.sizes, dim as usize).ok_or("a dimension that is not there")?;
        let each: usize = numbers.sizes.iter().product();
        let numbers = self.indices(numbers, Limit { below: count, from_end: true })?;
        let values = values.shaped(&[outer, each, inner])?;
        let whole = into.shaped(&[outer, count, inner])?;
        // What is not kept may still be read as it was.
        let whole = if into.kept { whole } else { whole.copy()? };
        whole.put_rows(values, numbers)
    }

    /// A mask of truth values, or one that this makes, is exact in half precision, so that ggml need not keep the scores.
    fn attention(&mut self, query: &Value<'c>, rest: &[&Value<'c>], scale: f32, causal: bool) -> Built<'c> {
        let [key, value, mask @ ..] = rest else { return Err("keys or values are missing".to_owned()) };
        let [q, k, v] = [query.multipliable()?, key.multipliable()?, value.multipliable()?];
        let ([_, t, _, _], [_, s, _, _]) = (q.sizes(), k.sizes());
        let fitted = |mask: &Value<'c>| {
            let mask = mask.strided()?.contiguous()?;
            mask.repeat([s, t, mask.sizes()[2], mask.sizes()[3]])
        };
        let mask = match mask.first() {
            Some(_) if causal => return Err("a mask beside a causal one".to_owned()),
            None if causal => Some(self.causal(s, t)?),
            Some(mask) if mask.element == Element::Bool => Some(fitted(mask)?.map(Map::Log)?),
            None => None,
            Some(mask) => {
                let scores = k.mul_mat(q)?.masked_softmax(fitted(mask)?, scale)?;
                return v.permute([1, 0, 2, 3])?.contiguous()?.mul_mat(scores);
            }
        };
        let mask = mask.map(|mask| mask.cast(Element::F16)).transpose()?;
        q.attention(k, v, mask, scale)?.permute([0, 2, 1, 3])
    }

    /// Zeros where a query sees a key, and minus infinity elsewhere.
    fn causal(&mut self, keys: i64, queries: i64) -> Built<'c> {
        let row = |row| (0..keys).map(move |column| if column <= row { 0.0 } else { f32::NEG_INFINITY });
        let mask: Vec<f32> = (0..queries).flat_map(row).collect();
        self.constant(&mask)?.reshape([keys, queries, 1, 1])
    }
}

fn number(count: u32) -> Result<i32, String> {
    i32::try_from(count).map_err(|_| format!("{count} is too large"))
}

fn pair([rows, columns]: [u32; 2]) -> Result<[i32; 2], String> {
    Ok([number(rows)?, number(columns)?])
}

/// What ggml has itself.
fn map(op: &Op) -> Result<Map, String> {
    Ok(match op {
        Op::Negate => Map::Negate,
        Op::Abs => Map::Abs,
        Op::Square => Map::Square,
        Op::SquareRoot => Map::SquareRoot,
        Op::Log => Map::Log,
        Op::Exp => Map::Exp,
        Op::ExpMinusOne => Map::ExpMinusOne,
        Op::Cos => Map::Cos,
        Op::Sin => Map::Sin,
        Op::Sigmoid => Map::Sigmoid,
        Op::Silu => Map::Silu,
        Op::Relu => Map::Relu,
        Op::Tanh => Map::Tanh,
        Op::Gelu => Map::Gelu,
        Op::Elu => Map::Elu,
        Op::HardSwish => Map::HardSwish,
        Op::HardSigmoid => Map::HardSigmoid,
        Op::Floor => Map::Floor,
        Op::Ceil => Map::Ceil,
        Op::Trunc => Map::Trunc,
        other => return Err(format!("ggml has no {}", other.name())),
    })
}

/// Two values that are broadcast to the result's sizes.
fn meet<'c>(meet: Meet, operands: &[&Value<'c>], sizes: &[usize]) -> Built<'c> {
    let [left, right] = operands else { return Err("an operand is missing".to_owned()) };
    let (joined, result) = shape::broadcast(&[&left.sizes, &right.sizes], sizes)
        .ok_or_else(|| format!("{:?} and {:?} do not meet in four dimensions", left.sizes, right.sizes))?;
    let (left, right) = (left.shaped(&joined[0])?, right.shaped(&joined[1])?);
    let whole = ggml_sizes(&result)?;
    let commutes = matches!(meet, Meet::Add | Meet::Multiply);
    if commutes && left.sizes() != whole && right.sizes() == whole {
        return right.meet(meet, left);
    }
    left.repeat(whole)?.meet(meet, right)
}

/// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³)))`. ggml's own function of this name rounds through a table of half
/// precision.
fn gelu_tanh(x: Tensor<'_>) -> Built<'_> {
    let cube = x.map(Map::Square)?.meet(Meet::Multiply, x)?;
    let inner = x.meet(Meet::Add, cube.scale(0.044_715, 0.0)?)?.scale((2.0 / std::f32::consts::PI).sqrt(), 0.0)?;
    inner.map(Map::Tanh)?.scale(0.5, 0.5)?.meet(Meet::Multiply, x)
}

fn linear<'c>(x: &Value<'c>, rest: &[&Value<'c>]) -> Built<'c> {
    let [weight, bias @ ..] = rest else { return Err("the weight is missing".to_owned()) };
    let [out, inner] = weight.sizes[..] else { return Err("a weight has two dimensions".to_owned()) };
    let product = weight.tensor.contiguous()?.reshape(ggml_sizes(&[out, inner])?)?.mul_mat(x.rows(inner)?)?;
    bias.first().map_or(Ok(product), |bias| product.meet(Meet::Add, bias.shaped(&[out])?))
}

/// Matrices in the last two dimensions; those before them are equal or repeated.
fn mat_mul<'c>(left: &Value<'c>, rest: &[&Value<'c>]) -> Built<'c> {
    let [right] = rest else { return Err("an operand is missing".to_owned()) };
    let (a, b) = (left.multipliable()?, right.strided()?.permute([1, 0, 2, 3])?);
    let b = if b.has_rows() { b } else { b.contiguous()? };
    let ([_, _, c, d], [_, _, e, f]) = (a.sizes(), b.sizes());
    let [k, m, ..] = a.sizes();
    let a = if c % e == 0 && d % f == 0 { a } else { a.contiguous()?.repeat([k, m, c.max(e), d.max(f)])? };
    b.mul_mat(a)
}

/// A function of rows, along a dimension that is brought innermost and back.
fn along<'c>(value: &Value<'c>, dim: u32, function: impl FnOnce(Tensor<'c>) -> Built<'c>) -> Built<'c> {
    let [outer, count, inner] = shape::around(&value.sizes, dim as usize).ok_or("a dimension that is not there")?;
    let rows = value.shaped(&[outer, count, inner])?;
    if inner == 1 {
        return function(rows.reshape(ggml_sizes(&[outer, count])?)?);
    }
    function(rows.permute([1, 0, 2, 3])?.contiguous()?)?.permute([1, 0, 2, 3])?.contiguous()
}

fn layer_norm<'c>(x: &Value<'c>, rest: &[&Value<'c>], dims: u32, epsilon: f32, has: [bool; 2]) -> Built<'c> {
    let first = x.sizes.len().checked_sub(dims as usize).ok_or("a norm over more dimensions than there are")?;
    let row = x.sizes[first..].iter().product();
    let mut normed = x.rows(row)?.norm(epsilon)?;
    let mut rest = rest.iter();
    for (has, meet) in has.into_iter().zip([Meet::Multiply, Meet::Add]) {
        if has {
            normed = normed.meet(meet, rest.next().ok_or("a weight is missing")?.rows(row)?)?;
        }
    }
    Ok(normed)
}

fn convolution<'c>(x: &Value<'c>, rest: &[&Value<'c>], window: &Window, groups: u32) -> Built<'c> {
    let [weight, bias @ ..] = rest else { return Err("the weight is missing".to_owned()) };
    let ([n, c, h, w], [out, each, kh, kw]) = (&x.sizes[..], &weight.sizes[..]) else {
        return Err("an image has four dimensions".to_owned());
    };
    let groups = groups as usize;
    if groups == 0 || c % groups != 0 || out % groups != 0 || each * groups != *c {
        return Err(format!("{groups} groups of {c} channels and weights of {:?}", weight.sizes));
    }
    let (image, kernel) = (x.shaped(&x.sizes)?, weight.shaped(&weight.sizes)?);
    let sum = if groups == 1 || (*each == 1 && out == c) {
        image.conv(kernel, window)?
    } else {
        let (image, kernel) =
            (image.reshape(ggml_sizes(&[*n, *c, h * w])?)?, kernel.reshape(ggml_sizes(&[1, *out, each * kh * kw])?)?);
        let mut parts: Option<Tensor<'c>> = None;
        for group in 0..groups {
            let slice = |of: Tensor<'c>, count: usize, outer: usize, inner: usize| {
                let [inner, number, outer] = [inner as i64, count as i64, outer as i64];
                of.part([inner, number, outer], (group * count) as i64, 1)?.contiguous()
            };
            let image = slice(image, *each, *n, h * w)?.reshape(ggml_sizes(&[*n, *each, *h, *w])?)?;
            let kernel = slice(kernel, out / groups, 1, each * kh * kw)?.reshape(ggml_sizes(&[
                out / groups,
                *each,
                *kh,
                *kw,
            ])?)?;
            let part = image.conv(kernel, window)?.contiguous()?;
            parts = Some(parts.map_or(Ok(part), |before| before.concat(part, 2))?);
        }
        parts.ok_or("there are no groups")?
    };
    let sum = sum.contiguous()?;
    bias.first().map_or(Ok(sum), |bias| sum.meet(Meet::Add, bias.shaped(&[*out, 1, 1])?))
}

/// The sum or the mean over dimensions, which are brought innermost.
fn reduce<'c>(value: &Value<'c>, dims: &[u32], mean: bool) -> Built<'c> {
    let is_reduced = |dim: &usize| dims.iter().any(|&reduced| reduced as usize == *dim);
    let rank = value.sizes.len();
    if dims.iter().any(|&dim| dim as usize >= rank) {
        return Err(format!("a sum over {dims:?} of {rank} dimensions"));
    }
    let order: Vec<u32> =
        (0..rank).filter(|dim| !is_reduced(dim)).chain((0..rank).filter(is_reduced)).map(|dim| dim as u32).collect();
    let row: usize = (0..rank).filter(is_reduced).map(|dim| value.sizes[dim]).product();
    let sizes: Vec<usize> = order.iter().map(|&dim| value.sizes[dim as usize]).collect();
    let moved = Value::new(permute(value, &order)?, value.element, &sizes);
    let sum = moved.rows(row)?.sum_rows()?;
    if mean { sum.scale(1.0 / row as f32, 0.0) } else { Ok(sum) }
}

/// Dimensions in another order. Up to four stay where they are, seen with other strides.
fn permute<'c>(value: &Value<'c>, order: &[u32]) -> Built<'c> {
    let order: Vec<usize> = order.iter().map(|&dim| dim as usize).collect();
    let unfit = || format!("{:?} cannot be permuted by {order:?} in four dimensions", value.sizes);
    let (sizes, order, tensor) = if value.sizes.len() <= shape::DIMS {
        shape::permuted(&value.sizes, &order).ok_or_else(unfit)?;
        (value.sizes.clone(), order.clone(), value.strided()?)
    } else {
        let (sizes, order) = shape::permuted(&value.sizes, &order).ok_or_else(unfit)?;
        let tensor = value.shaped(&sizes)?;
        (sizes, order, tensor)
    };
    let mut to = [0, 1, 2, 3];
    let last = sizes.len().wrapping_sub(1);
    for (place, &dim) in order.iter().enumerate() {
        to[last - dim] = last - place;
    }
    let permuted = tensor.permute(to)?;
    if value.sizes.len() <= shape::DIMS { Ok(permuted) } else { permuted.contiguous() }
}

fn slice<'c>(value: &Value<'c>, dim: u32, start: Option<i64>, step: u32, sizes: &[usize]) -> Built<'c> {
    let start = start.ok_or("the start of a slice is not known")?;
    let [outer, count, inner] = shape::around(&value.sizes, dim as usize).ok_or("a dimension that is not there")?;
    let taken = *sizes.get(dim as usize).ok_or("a dimension that is not there")?;
    let whole = value.shaped(&[outer, count, inner])?;
    whole.part([inner as i64, taken as i64, outer as i64], start, step.into())?.contiguous()
}

fn concat<'c>(values: &[&Value<'c>], dim: u32) -> Built<'c> {
    let mut all: Option<Tensor<'c>> = None;
    for value in values {
        let around = shape::around(&value.sizes, dim as usize).ok_or("a dimension that is not there")?;
        let part = value.shaped(&around)?;
        all = Some(all.map_or(Ok(part), |before| before.concat(part, 1))?);
    }
    all.ok_or_else(|| "nothing to concatenate".to_owned())
}

fn expand<'c>(value: &Value<'c>, sizes: &[usize]) -> Built<'c> {
    let (joined, result) = shape::broadcast(&[&value.sizes], sizes)
        .ok_or_else(|| format!("{:?} cannot be expanded to {sizes:?} in four dimensions", value.sizes))?;
    value.shaped(&joined[0])?.repeat(ggml_sizes(&result)?)
}

fn pad<'c>(value: &Value<'c>, around: &[u32]) -> Built<'c> {
    let mut sides = [[0; 2]; 4];
    if around.len() != 2 * value.sizes.len() || value.sizes.len() > shape::DIMS {
        return Err(format!("{:?} padded by {around:?}", value.sizes));
    }
    for (side, pair) in sides.iter_mut().zip(around.chunks_exact(2).rev()) {
        *side = [number(pair[0])?, number(pair[1])?];
    }
    value.shaped(&value.sizes)?.pad(sides)
}
