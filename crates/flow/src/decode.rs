//! Calls to nodes: a row for each operator that the graph can express.
//!
//! A row gets the arguments of its call and answers nothing if they ask for something that the graph has no word for;
//! then the run of calls ends before that call. What it has added to the graph by then is taken back. To let another
//! operator join, add a row.

mod arithmetic;
mod conditions;
mod images;
mod parts;

use crate::accesses::kind;
use crate::builder::Builder;
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
    ("aten::round.out", |site| site.map(Function::Round)),
    ("aten::square.out", |site| site.map(Function::Square)),
    ("aten::reciprocal.out", |site| site.map(Function::Reciprocal)),
    ("aten::sqrt.out", |site| site.map(Function::SquareRoot)),
    ("aten::rsqrt.out", |site| site.map(Function::ReciprocalSquareRoot)),
    ("aten::exp.out", |site| site.map(Function::Exp)),
    ("aten::log.out", |site| site.map(Function::Log)),
    ("aten::sin.out", |site| site.map(Function::Sin)),
    ("aten::cos.out", |site| site.map(Function::Cos)),
    ("aten::tanh.out", |site| site.map(Function::Tanh)),
    ("aten::sigmoid.out", |site| site.map(Function::Sigmoid)),
    ("aten::relu.out", |site| site.map(Function::Clamp { low: 0.0, high: f32::INFINITY })),
    ("aten::silu.out", |site| site.map(Function::Silu)),
    ("aten::erf.out", |site| site.map(Function::Erf)),
    ("aten::hardsigmoid.out", |site| site.map(Function::HardSigmoid)),
    ("aten::hardswish.out", |site| site.map(Function::HardSwish)),
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
    ("aten::hardtanh.out", |site| site.limits(Some(1), Some(2))),
    ("aten::clamp.out", |site| site.limits(Some(1), Some(2))),
    ("aten::clamp_min.out", |site| site.limits(Some(1), None)),
    ("aten::clamp_max.out", |site| site.limits(None, Some(1))),
    ("aten::pow.Tensor_Scalar_out", |site| site.power()),
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
    ("aten::rsub.Scalar_out", |site| site.subtract_from(2)),
    ("aten::rsub.Tensor_out", |site| site.subtract_from(2)),
    ("aten::_prelu_kernel.out", |site| site.combine(Combine::PRelu, None)),
    ("aten::eq.Scalar_out", |site| site.compare(Comparison::Equal)),
    ("aten::ne.Scalar_out", |site| site.compare(Comparison::NotEqual)),
    ("aten::lt.Scalar_out", |site| site.compare(Comparison::Less)),
    ("aten::le.Scalar_out", |site| site.compare(Comparison::LessEqual)),
    ("aten::gt.Scalar_out", |site| site.compare(Comparison::Greater)),
    ("aten::ge.Scalar_out", |site| site.compare(Comparison::GreaterEqual)),
    ("aten::logical_not.out", |site| site.not()),
    ("aten::any.out", |site| site.any()),
    ("aten::where.self_out", |site| site.choose()),
    ("aten::masked_fill.Scalar_out", |site| site.fill_where()),
    ("aten::scalar_tensor.out", |site| site.repeated(0)),
    ("aten::full.out", |site| site.repeated(1)),
    ("aten::full_like.out", |site| site.fill()),
    ("aten::convolution.out", |site| site.convolution()),
    ("aten::_native_batch_norm_legit_no_training.out", |site| site.batch_norm()),
    ("aten::native_layer_norm.out", |site| site.layer_norm()),
    ("aten::native_group_norm.out", |site| site.group_norm()),
    ("aten::linear.out", |site| site.linear()),
    ("aten::addmm.out", |site| site.addmm()),
    ("aten::mm.out", |site| site.product(0, 1)),
    ("aten::bmm.out", |site| site.product(0, 1)),
    ("aten::_softmax.out", |site| site.softmax(Op::Softmax)),
    ("aten::_log_softmax.out", |site| site.softmax(Op::LogSoftmax)),
    ("aten::mean.dim_out", |site| site.reduce(Reduction::Mean, Some(3))),
    ("aten::mean.out", |site| site.reduce(Reduction::Mean, Some(3))),
    ("aten::sum.IntList_out", |site| site.reduce(Reduction::Sum, Some(3))),
    ("aten::amax.out", |site| site.reduce(Reduction::Maximum, None)),
    ("aten::amin.out", |site| site.reduce(Reduction::Minimum, None)),
    ("aten::max_pool2d_with_indices.out", |site| site.max_pool()),
    ("aten::avg_pool2d.out", |site| site.avg_pool()),
    ("aten::_adaptive_avg_pool2d.out", |site| site.adaptive_avg_pool()),
    ("aten::view_copy.out", |site| site.reshape()),
    ("aten::unsqueeze_copy.out", |site| site.reshape()),
    ("aten::squeeze_copy.dim_out", |site| site.reshape()),
    ("aten::squeeze_copy.dims_out", |site| site.reshape()),
    ("aten::expand_copy.out", |site| site.expand()),
    ("aten::clone.out", |site| site.reshape()),
    ("aten::lift_fresh_copy.out", |site| site.reshape()),
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
    ("aten::narrow_copy.out", |site| site.narrow()),
    ("aten::split_with_sizes_copy.out", |site| site.split_with_sizes()),
    ("aten::split_copy.Tensor_out", |site| site.split()),
    ("aten::unbind_copy.int_out", |site| site.unbind()),
    ("aten::cat.out", |site| site.concat()),
    ("aten::stack.out", |site| site.stack()),
    ("aten::constant_pad_nd.out", |site| site.pad()),
    ("aten::upsample_bilinear2d.vec_out", |site| site.bilinear()),
    ("aten::upsample_nearest2d.vec_out", |site| site.nearest()),
];

/// How often a number is written out.
const MOST_REPEATED: usize = 64 * 1024;

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

    fn doubles(&self, index: usize) -> Option<Vec<f64>> {
        match self.fixed(index)? {
            KernelTypes::DoubleList(list) => Some(list.items().iter().collect()),
            _ => None,
        }
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

    /// A known number, again and again.
    fn repeated(&mut self, index: usize) -> Option<()> {
        let (value, sizes) = (self.number(index)? as f32, self.sizes(self.last()?)?);
        let count = sizes.iter().product();
        (count <= MOST_REPEATED).then_some(())?;
        let y = self.vector(&vec![value; count]);
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
}
