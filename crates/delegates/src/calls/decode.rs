//! Calls to nodes: a row for each operator that the graph can express.
//!
//! A row gets the arguments of its call and answers nothing if they ask for something that the graph has no word for;
//! then the run of calls ends before that call. What it has added to the graph by then is taken back. To let another
//! operator join, add a row.

mod conditions;
mod images;

use super::builder::Builder;
use super::flow::kind;
use sconce_format::ScalarType;
use sconce_format::pte::KernelTypes;
use sconce_graph::{Combine, Comparison, Function, Op, Reduction, Source, Type, ValueId};

/// Adds a call to the graph.
type Row = fn(&mut Site<'_, '_, '_, '_>) -> Option<()>;

/// A call.
pub(super) struct Site<'b, 'f, 'k, 'a> {
    pub(super) builder: &'b mut Builder<'f, 'k, 'a>,
    pub(super) args: &'b [u32],
    /// The instruction.
    pub(super) step: usize,
}

/// The row of an operator.
pub(super) fn row(name: &str) -> Option<Row> {
    ROWS.iter().find(|(known, _)| *known == name).map(|(_, row)| *row)
}

const ROWS: &[(&str, Row)] = &[
    ("aten::abs.out", |site| site.map(Function::Abs)),
    ("aten::neg.out", |site| site.map(Function::Negate)),
    ("aten::ceil.out", |site| site.map(Function::Ceil)),
    ("aten::floor.out", |site| site.map(Function::Floor)),
    ("aten::sqrt.out", |site| site.map(Function::SquareRoot)),
    ("aten::rsqrt.out", |site| site.map(Function::ReciprocalSquareRoot)),
    ("aten::exp.out", |site| site.map(Function::Exp)),
    ("aten::log.out", |site| site.map(Function::Log)),
    ("aten::sin.out", |site| site.map(Function::Sin)),
    ("aten::cos.out", |site| site.map(Function::Cos)),
    ("aten::tanh.out", |site| site.map(Function::Tanh)),
    ("aten::sigmoid.out", |site| site.map(Function::Sigmoid)),
    ("aten::relu.out", |site| site.map(Function::Clamp { low: 0.0, high: f32::INFINITY })),
    ("aten::gelu.out", |site| {
        let function = if site.str(1)? == "tanh" { Function::GeluTanh } else { Function::Gelu };
        site.map(function)
    }),
    ("aten::leaky_relu.out", |site| {
        let slope = site.number(1)? as f32;
        site.map(Function::LeakyRelu { slope })
    }),
    ("aten::elu.out", |site| {
        let alpha = site.number(1)? as f32;
        (site.number(2)? == 1.0 && site.number(3)? == 1.0).then_some(())?;
        site.map(Function::Elu { alpha })
    }),
    ("aten::hardtanh.out", |site| site.limits(1, 2)),
    ("aten::clamp.out", |site| site.limits(1, 2)),
    ("aten::add.out", |site| site.combine(Combine::Add, Some(2))),
    ("aten::sub.out", |site| site.combine(Combine::Subtract, Some(2))),
    ("aten::mul.out", |site| site.combine(Combine::Multiply, None)),
    ("aten::div.out", |site| site.combine(Combine::Divide, None)),
    ("aten::maximum.out", |site| site.combine(Combine::Maximum, None)),
    ("aten::minimum.out", |site| site.combine(Combine::Minimum, None)),
    ("aten::add.Scalar_out", |site| site.combine(Combine::Add, Some(2))),
    ("aten::sub.Scalar_out", |site| site.combine(Combine::Subtract, Some(2))),
    ("aten::mul.Scalar_out", |site| site.combine(Combine::Multiply, None)),
    ("aten::div.Scalar_out", |site| site.combine(Combine::Divide, None)),
    ("aten::eq.Scalar_out", |site| site.compare(Comparison::Equal)),
    ("aten::ne.Scalar_out", |site| site.compare(Comparison::NotEqual)),
    ("aten::lt.Scalar_out", |site| site.compare(Comparison::Less)),
    ("aten::le.Scalar_out", |site| site.compare(Comparison::LessEqual)),
    ("aten::gt.Scalar_out", |site| site.compare(Comparison::Greater)),
    ("aten::ge.Scalar_out", |site| site.compare(Comparison::GreaterEqual)),
    ("aten::logical_not.out", |site| site.not()),
    ("aten::any.out", |site| site.any()),
    ("aten::where.self_out", |site| site.choose()),
    ("aten::full_like.out", |site| site.fill()),
    ("aten::convolution.out", |site| site.convolution()),
    ("aten::_native_batch_norm_legit_no_training.out", |site| site.batch_norm()),
    ("aten::native_layer_norm.out", |site| site.layer_norm()),
    ("aten::linear.out", |site| site.linear()),
    ("aten::addmm.out", |site| site.addmm()),
    ("aten::mm.out", |site| site.product(0, 1)),
    ("aten::bmm.out", |site| site.product(0, 1)),
    ("aten::_softmax.out", |site| site.softmax()),
    ("aten::mean.dim_out", |site| site.reduce(Reduction::Mean)),
    ("aten::mean.out", |site| site.reduce(Reduction::Mean)),
    ("aten::sum.IntList_out", |site| site.reduce(Reduction::Sum)),
    ("aten::max_pool2d_with_indices.out", |site| site.max_pool()),
    ("aten::avg_pool2d.out", |site| site.avg_pool()),
    ("aten::view_copy.out", |site| site.reshape()),
    ("aten::unsqueeze_copy.out", |site| site.reshape()),
    ("aten::squeeze_copy.dim_out", |site| site.reshape()),
    ("aten::squeeze_copy.dims_out", |site| site.reshape()),
    ("aten::expand_copy.out", |site| site.reshape()),
    ("aten::clone.out", |site| site.reshape()),
    ("aten::alias_copy.out", |site| site.reshape()),
    ("aten::detach_copy.out", |site| site.reshape()),
    ("dim_order_ops::_clone_dim_order.out", |site| site.reshape()),
    ("dim_order_ops::_to_dim_order_copy.out", |site| site.convert()),
    ("aten::_to_copy.out", |site| site.convert()),
    ("aten::permute_copy.out", |site| {
        let rank = site.sizes(0)?.len();
        let order = site.ints(1)?.into_iter().map(|dim| place(dim, rank)).collect::<Option<Vec<_>>>()?;
        site.transpose(order)
    }),
    ("aten::transpose_copy.int_out", |site| {
        let rank = site.sizes(0)?.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(place(site.int(1)?, rank)?, place(site.int(2)?, rank)?);
        site.transpose(order)
    }),
    ("aten::t_copy.out", |site| {
        let order = (0..site.sizes(0)?.len()).rev().collect();
        site.transpose(order)
    }),
    ("aten::slice_copy.Tensor_out", |site| site.slice()),
    ("aten::select_copy.int_out", |site| site.select()),
    ("aten::split_with_sizes_copy.out", |site| site.split()),
    ("aten::cat.out", |site| site.concat()),
    ("aten::constant_pad_nd.out", |site| site.pad()),
    ("aten::upsample_bilinear2d.vec_out", |site| site.bilinear()),
    ("aten::upsample_nearest2d.vec_out", |site| site.nearest()),
];

/// A dimension that may be counted from the end.
fn place(dim: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    usize::try_from(if dim < 0 { dim + rank } else { dim })
        .ok()
        .filter(|&dim| i64::try_from(dim).is_ok_and(|d| d < rank))
}

impl Site<'_, '_, '_, '_> {
    fn arg(&self, index: usize) -> Option<u32> {
        self.args.get(index).copied()
    }

    fn kind(&self, index: usize) -> Option<KernelTypes<'_>> {
        Some(kind(self.builder.flow.method, self.arg(index)?))
    }

    /// A value that is the same in every run.
    fn fixed(&self, index: usize) -> Option<KernelTypes<'_>> {
        let value = self.arg(index).filter(|&value| !self.builder.flow.is_changed(value))?;
        Some(kind(self.builder.flow.method, value))
    }

    fn is_none(&self, index: usize) -> bool {
        matches!(self.fixed(index), Some(KernelTypes::Null(_) | KernelTypes::None))
    }

    fn int(&self, index: usize) -> Option<i64> {
        match self.fixed(index)? {
            KernelTypes::Int(value) => Some(value.int_val()),
            _ => None,
        }
    }

    fn bool(&self, index: usize) -> Option<bool> {
        match self.fixed(index)? {
            KernelTypes::Bool(value) => Some(value.bool_val()),
            _ => None,
        }
    }

    fn str(&self, index: usize) -> Option<&str> {
        match self.fixed(index)? {
            KernelTypes::String(value) => value.string_val(),
            _ => None,
        }
    }

    /// A number, or a known tensor of a single one.
    fn number(&mut self, index: usize) -> Option<f64> {
        let value = self.arg(index)?;
        match kind(self.builder.flow.method, value) {
            KernelTypes::Int(number) => (!self.builder.flow.is_changed(value)).then(|| number.int_val() as f64),
            KernelTypes::Double(number) => (!self.builder.flow.is_changed(value)).then(|| number.double_val()),
            KernelTypes::Tensor(tensor) if tensor.rank() == 0 => {
                let mark = self.builder.mark();
                let numbers = self.builder.read(value).and_then(|read| self.builder.numbers(read));
                self.builder.go_back(&mark);
                numbers?.first().copied()
            }
            _ => None,
        }
    }

    fn ints(&self, index: usize) -> Option<Vec<i64>> {
        let KernelTypes::IntList(list) = self.fixed(index)? else { return None };
        let item = |item: i64| {
            let value = u32::try_from(item).ok().filter(|&value| !self.builder.flow.is_changed(value))?;
            match kind(self.builder.flow.method, value) {
                KernelTypes::Int(value) => Some(value.int_val()),
                _ => None,
            }
        };
        list.items().iter().map(item).collect()
    }

    /// One or two numbers for height and width.
    fn pair(&self, index: usize) -> Option<[usize; 2]> {
        match *self.ints(index)?.as_slice() {
            [both] => Some([usize::try_from(both).ok()?; 2]),
            [height, width] => Some([usize::try_from(height).ok()?, usize::try_from(width).ok()?]),
            _ => None,
        }
    }

    fn sizes(&self, index: usize) -> Option<Vec<usize>> {
        self.builder.sizes(self.arg(index)?)
    }

    fn tensor(&mut self, index: usize) -> Option<ValueId> {
        let value = self.arg(index)?;
        self.builder.read(value)
    }

    fn floats(&mut self, index: usize) -> Option<ValueId> {
        let value = self.tensor(index)?;
        self.builder.graph.ty(value).is(ScalarType::Float).then_some(value)
    }

    /// A tensor of constants, or nothing where there is none.
    fn constant(&mut self, index: usize) -> Option<Option<ValueId>> {
        if self.is_none(index) {
            return Some(None);
        }
        let value = self.floats(index)?;
        self.builder.graph.as_constant(value).map(|_| Some(value))
    }

    fn constant_floats(&self, index: usize) -> Option<Vec<f32>> {
        let bytes = self.builder.known(self.arg(index)?)?;
        let KernelTypes::Tensor(tensor) = self.fixed(index)? else { return None };
        let floats = bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word));
        (tensor.dtype() == ScalarType::Float).then(|| floats.collect())
    }

    fn node(&mut self, op: Op, inputs: Vec<ValueId>) -> Option<ValueId> {
        self.builder.node(op, inputs)
    }

    /// Gives the result to the output argument `index`.
    fn give(&mut self, index: usize, made: ValueId) -> Option<()> {
        let value = self.arg(index)?;
        let sizes = self.builder.sizes(value)?;
        let made = self.builder.reshaped(made, &sizes)?;
        self.builder.write(value, made)
    }

    /// Gives the result to the last argument.
    fn give_last(&mut self, made: ValueId) -> Option<()> {
        self.give(self.last()?, made)
    }

    fn last(&self) -> Option<usize> {
        self.args.len().checked_sub(1)
    }

    fn map(&mut self, function: Function) -> Option<()> {
        let x = self.floats(0)?;
        let y = self.node(Op::Map(function), vec![x])?;
        self.give_last(y)
    }

    fn limits(&mut self, low: usize, high: usize) -> Option<()> {
        let mut limit = |index, none| match self.is_none(index) {
            true => Some(none),
            false => self.number(index).map(|x| x as f32),
        };
        let (low, high) = (limit(low, f32::NEG_INFINITY)?, limit(high, f32::INFINITY)?);
        (low <= high).then_some(())?;
        self.map(Function::Clamp { low, high })
    }

    /// A function of two tensors, or of a tensor and a number; the second may have a factor.
    fn combine(&mut self, kind: Combine, factor: Option<usize>) -> Option<()> {
        if let Some(factor) = factor {
            (self.number(factor)? == 1.0).then_some(())?;
        }
        if let Some(value) = self.number(1).map(|value| value as f32) {
            match kind {
                Combine::Add => return self.map(Function::Plus { value }),
                Combine::Subtract => return self.map(Function::Plus { value: -value }),
                Combine::Multiply => return self.map(Function::Times { value }),
                Combine::Divide => return self.map(Function::Over { value }),
                _ => {}
            }
        }
        let inputs = vec![self.floats(0)?, self.floats(1)?];
        let y = self.node(Op::Combine(kind), inputs)?;
        self.give_last(y)
    }

    fn transpose(&mut self, order: Vec<usize>) -> Option<()> {
        let x = self.tensor(0)?;
        let mut dims = order.clone();
        dims.sort_unstable();
        dims.into_iter().eq(0..self.builder.graph.ty(x).dims.len()).then_some(())?;
        let y = match self.builder.graph.as_constant(x) {
            Some(_) => self.builder.graph.reordered(x, &order)?,
            None => self.node(Op::Transpose { order }, vec![x])?,
        };
        self.give_last(y)
    }

    /// The same elements with the sizes of the output.
    fn reshape(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        self.give_last(x)
    }

    /// The same numbers as another type, if they are known and few, or already of that type.
    fn convert(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        let KernelTypes::Tensor(output) = self.kind(self.last()?)? else { return None };
        if self.builder.graph.ty(x).is(output.dtype()) {
            return self.give_last(x);
        }
        (output.dtype() == ScalarType::Float && output.numel() <= 64).then_some(())?;
        let numbers: Vec<f32> = self.builder.numbers(x)?.into_iter().map(|number| number as f32).collect();
        let y = self.vector(&numbers);
        self.give_last(y)
    }

    /// Numbers as a constant of the graph.
    fn vector(&mut self, numbers: &[f32]) -> ValueId {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.builder.graph.constant_value(Type::plain(ScalarType::Float, &[numbers.len()]), Source::Bytes(bytes))
    }

    /// Leaves out an output, if nobody reads it.
    fn unread(&mut self, index: usize) -> Option<()> {
        let value = self.arg(index)?;
        self.builder.leave_out(value, self.step)
    }

    fn layer_norm(&mut self) -> Option<()> {
        let x = self.floats(0)?;
        let dims = self.ints(1)?.len();
        // A bias without a weight has no word.
        let (weight, bias) = (self.constant(2)?, self.constant(3)?);
        (weight.is_some() || bias.is_none()).then_some(())?;
        let epsilon = self.number(4)? as f32;
        let inputs = [Some(x), weight, bias].into_iter().flatten().collect();
        let y = self.node(Op::LayerNorm { dims, epsilon }, inputs)?;
        self.unread(6)?;
        self.unread(7)?;
        self.give(5, y)
    }

    fn linear(&mut self) -> Option<()> {
        let inputs = [Some(self.floats(0)?), Some(self.constant(1)??), self.constant(2)?];
        let y = self.node(Op::Linear { transposed: false }, inputs.into_iter().flatten().collect())?;
        self.give_last(y)
    }

    /// The product of two matrices; with a constant on the right, a linear layer.
    fn matmul(&mut self, a: usize, b: usize, bias: Option<ValueId>) -> Option<ValueId> {
        let (a, b) = (self.floats(a)?, self.floats(b)?);
        let matrix = self.builder.graph.ty(b).dims.len() == 2;
        if self.builder.graph.as_constant(b).is_some() && matrix {
            let filter = self.builder.graph.reordered(b, &[1, 0])?;
            let inputs = [Some(a), Some(filter), bias].into_iter().flatten().collect();
            return self.node(Op::Linear { transposed: false }, inputs);
        }
        let product = self.node(Op::MatMul, vec![a, b])?;
        match bias {
            Some(bias) => self.node(Op::Combine(Combine::Add), vec![product, bias]),
            None => Some(product),
        }
    }

    fn product(&mut self, a: usize, b: usize) -> Option<()> {
        let y = self.matmul(a, b, None)?;
        self.give_last(y)
    }

    fn addmm(&mut self) -> Option<()> {
        (self.number(3)? == 1.0 && self.number(4)? == 1.0).then_some(())?;
        let bias = self.floats(0)?;
        let columns = *self.sizes(2)?.last()?;
        let is_row = self.builder.graph.as_constant(bias).is_some() && self.sizes(0)? == [columns];
        let y = match is_row {
            true => self.matmul(1, 2, Some(bias))?,
            false => {
                let product = self.matmul(1, 2, None)?;
                self.node(Op::Combine(Combine::Add), vec![product, bias])?
            }
        };
        self.give_last(y)
    }

    fn softmax(&mut self) -> Option<()> {
        let x = self.floats(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        let dim = place(self.int(1)?, rank)?;
        if dim + 1 == rank {
            let y = self.node(Op::Softmax, vec![x])?;
            return self.give_last(y);
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(dim, rank - 1);
        let last = self.node(Op::Transpose { order: order.clone() }, vec![x])?;
        let y = self.node(Op::Softmax, vec![last])?;
        let y = self.node(Op::Transpose { order }, vec![y])?;
        self.give_last(y)
    }

    fn reduce(&mut self, of: Reduction) -> Option<()> {
        let x = self.floats(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        let dims = if self.is_none(1) { Vec::new() } else { self.ints(1)? };
        let mut axes = dims.into_iter().map(|dim| place(dim, rank)).collect::<Option<Vec<_>>>()?;
        if axes.is_empty() {
            axes = (0..rank).collect();
        }
        axes.sort_unstable();
        axes.dedup();
        // The engine takes neighbours. (Height and width still are when channels come last.)
        axes.windows(2).all(|pair| pair[0] + 1 == pair[1]).then_some(())?;
        self.is_none(3).then_some(())?;
        let y = self.node(Op::Reduce { of, axes, keep: true }, vec![x])?;
        self.give_last(y)
    }

    /// Elements `start..start + size` along a dimension.
    fn part(&mut self, x: ValueId, dim: usize, start: usize, size: usize) -> Option<ValueId> {
        let whole = self.builder.graph.ty(x).sizes();
        (size > 0).then_some(())?;
        let mut starts = vec![0; whole.len()];
        let mut sizes = whole;
        (starts[dim], sizes[dim]) = (start, size);
        self.node(Op::Slice { starts, sizes: sizes.into_vec() }, vec![x])
    }

    fn slice(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        let sizes = self.sizes(0)?;
        let dim = place(self.int(1)?, sizes.len())?;
        (self.int(4)? == 1).then_some(())?;
        let length = i64::try_from(sizes[dim]).ok()?;
        let bound = |index, none| if self.is_none(index) { Some(none) } else { self.int(index) };
        let within =
            |at: i64| usize::try_from(if at < 0 { at.saturating_add(length) } else { at }.clamp(0, length)).ok();
        let (start, end) = (within(bound(2, 0)?)?, within(bound(3, length)?)?);
        let y = self.part(x, dim, start, end.checked_sub(start)?)?;
        self.give_last(y)
    }

    fn select(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        let sizes = self.sizes(0)?;
        let dim = place(self.int(1)?, sizes.len())?;
        let y = self.part(x, dim, place(self.int(2)?, sizes[dim])?, 1)?;
        self.give_last(y)
    }

    fn split(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        let dim = place(self.int(2)?, self.sizes(0)?.len())?;
        let (sizes, outputs) = (self.ints(1)?, self.builder.flow.members(self.arg(3)?));
        (sizes.len() == outputs.len()).then_some(())?;
        let mut start = 0;
        for (size, output) in sizes.into_iter().zip(outputs) {
            let size = usize::try_from(size).ok()?;
            let part = self.part(x, dim, start, size)?;
            self.builder.write(output, part)?;
            start += size;
        }
        Some(())
    }

    fn concat(&mut self) -> Option<()> {
        let inputs = self.builder.flow.members(self.arg(0)?);
        let inputs = inputs.into_iter().map(|value| self.builder.read(value)).collect::<Option<Vec<_>>>()?;
        let first = self.builder.graph.ty(*inputs.first()?).clone();
        inputs.iter().all(|&input| self.builder.graph.ty(input).element == first.element).then_some(())?;
        let axis = place(self.int(1)?, first.dims.len())?;
        let y = self.node(Op::Concat { axis }, inputs)?;
        self.give_last(y)
    }

    fn pad(&mut self) -> Option<()> {
        let x = self.floats(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        let borders = self.ints(1)?;
        for (index, pair) in borders.chunks_exact(2).enumerate() {
            let dim = rank.checked_sub(index + 1)?;
            (before[dim], after[dim]) = (usize::try_from(pair[0]).ok()?, usize::try_from(pair[1]).ok()?);
        }
        let value = self.number(2)? as f32;
        let y = self.node(Op::Pad { before, after, value }, vec![x])?;
        self.give_last(y)
    }
}
