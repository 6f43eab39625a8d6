//! The steps of a plan, by family.

mod attention;
mod bias;
mod choice;
mod conditions;
mod convert;
mod convolution;
mod elementwise;
mod image;
mod int8;
mod layout;
mod matmul;
mod norm;
mod quantized;
mod strips;
mod tail;

pub(crate) use attention::Attention;
pub(crate) use bias::Bias;
pub(crate) use choice::Choice;
pub(crate) use conditions::{Any, Compare, Fill, Not, Select};
pub(crate) use convert::{CombineKinds, Convert, Kind, ROW_HEAD, ReduceInt8, table, table_of_int8};
pub(crate) use convolution::{Convolution, DepthwiseConvolution, Filter, Gated, Parameters, Pixels, Winograd};
use elementwise::combine;
pub(crate) use elementwise::{Combine, Map, Reduce, Softmax};
pub(crate) use image::{ArgMaxPool, Pool, PoolKind, ResizeBilinear, ResizeNearest};
pub(crate) use int8::{GateInt8, MapInt8, Repeat, SumInt8, ToInt8};
pub(crate) use layout::{Border, Concat, Pad, Rearrange};
pub(crate) use matmul::MatMul;
pub(crate) use norm::{Affine, GroupNorm, LayerNorm, RmsNorm};
pub(crate) use quantized::{ConvolutionDynamic, ConvolutionInt8, DepthwiseInt8, WinogradInt8};
pub(crate) use strips::{Part, Rows, Strips, Window};
pub(crate) use tail::Tail;

use crate::memory::Buffers;
use crate::weights::Known;
use sconce_graph::Function as GraphFunction;
use sconce_kernels::epilogue::{Function, Then, finish};
use sconce_kernels::{Isa, Parallel, split, view};
use std::ops::{Deref, Range};

/// What steps share during a run.
pub(crate) struct Context<'a> {
    pub(crate) isa: Isa,
    pub(crate) par: &'a dyn Parallel,
    pub(crate) known: Known<'a>,
}

/// Multiplications of a step, of `float32` and of int8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) floats: u64,
    pub(crate) bytes: u64,
}

impl Work {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { floats: self.floats + other.floats, bytes: self.bytes + other.bytes }
    }
}

/// The product of some sizes.
fn times(sizes: &[usize]) -> u64 {
    sizes.iter().fold(1, |product: u64, &size| product.saturating_mul(size as u64))
}

/// Rows that lie apart, because rows of something else lie between them. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Apart {
    /// A row.
    pub(crate) width: usize,
    /// From one row to the next.
    pub(crate) stride: usize,
}

/// One step of a plan: all decisions are made, it only has to run.
pub(crate) trait Step: Send + Sync {
    /// Computes the outputs.
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>);

    /// What it does, for people.
    fn describe(&self) -> String;

    /// How it is cut, for people: into tiles, and into parts for so many threads.
    fn cut(&self, _: Isa, _threads: usize) -> Option<String> {
        None
    }

    /// How much it multiplies, if that is what takes its time.
    fn work(&self) -> Work {
        Work::default()
    }
}

/// What [`elements`] and [`elements_mut`] count on.
const WHOLE: &str = "buffers are aligned and hold whole elements of their type";

/// Bytes as elements.
pub(crate) fn elements<T: view::Plain>(bytes: &[u8]) -> &[T] {
    view::view(bytes).expect(WHOLE)
}

/// Bytes as elements to write.
pub(crate) fn elements_mut<T: view::Plain>(bytes: &mut [u8]) -> &mut [T] {
    view::view_mut(bytes).expect(WHOLE)
}

/// Most steps that follow a node.
pub(crate) const MOST_AFTER: usize = 4;

/// What follows a step on each result. Values are named by their place among the step's reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum After {
    Apply(Function),
    Add(usize),
    Multiply(usize),
}

/// The list of what follows, with its tensors.
pub(crate) struct Following<'a> {
    items: [Then<'a>; MOST_AFTER],
    len: usize,
}

impl<'a> Following<'a> {
    pub(crate) fn new(after: &[After], buffers: &Buffers<'a>) -> Self {
        let mut items = [Then::Apply(Function::Abs); MOST_AFTER];
        for (item, after) in items.iter_mut().zip(after) {
            *item = match *after {
                After::Apply(function) => Then::Apply(function),
                After::Add(read) => Then::Add(elements(buffers.read(read))),
                After::Multiply(read) => Then::Multiply(elements(buffers.read(read))),
            };
        }
        Self { items, len: after.len().min(MOST_AFTER) }
    }

    /// A list of functions, which need no tensors.
    pub(crate) fn functions(after: &[After]) -> Self {
        let functions = after.iter().filter_map(|after| match after {
            After::Apply(function) => Some(Then::Apply(*function)),
            After::Add(_) | After::Multiply(_) => None,
        });
        let mut following = Self { items: [Then::Apply(Function::Abs); MOST_AFTER], len: 0 };
        for (item, function) in following.items.iter_mut().zip(functions) {
            *item = function;
            following.len += 1;
        }
        following
    }

    /// The list for some elements of the output.
    pub(crate) fn part(&self, elements: Range<usize>) -> Self {
        let items = self.items.map(|item| match item {
            Then::Apply(function) => Then::Apply(function),
            Then::Add(other) => Then::Add(&other[elements.clone()]),
            Then::Multiply(other) => Then::Multiply(&other[elements.clone()]),
        });
        Self { items, len: self.len }
    }

    /// Applies the whole list to an output, for kernels that do not do it on the way.
    pub(crate) fn finish(&self, context: &Context<'_>, output: &mut [f32]) {
        const PIECE: usize = 8 * 1024;
        if self.len > 0 {
            split::chunks(context.par, output, PIECE, |piece, output| {
                finish(context.isa, self, piece * PIECE, output);
            });
        }
    }
}

impl<'a> Deref for Following<'a> {
    type Target = [Then<'a>];
    fn deref(&self) -> &[Then<'a>] {
        &self.items[..self.len]
    }
}

/// The kernel's name for a function of the graph.
pub(crate) fn function(function: GraphFunction) -> Function {
    match function {
        GraphFunction::Abs => Function::Abs,
        GraphFunction::Negate => Function::Negate,
        GraphFunction::Ceil => Function::Ceil,
        GraphFunction::Floor => Function::Floor,
        GraphFunction::Square => Function::Square,
        GraphFunction::SquareRoot => Function::SquareRoot,
        GraphFunction::ReciprocalSquareRoot => Function::ReciprocalSquareRoot,
        GraphFunction::Exp => Function::Exp,
        GraphFunction::Log => Function::Log,
        GraphFunction::Sin => Function::Sin,
        GraphFunction::Cos => Function::Cos,
        GraphFunction::Tanh => Function::Tanh,
        GraphFunction::Sigmoid => Function::Sigmoid,
        GraphFunction::Silu => Function::Silu,
        GraphFunction::Erf => Function::Erf,
        GraphFunction::Round => Function::Round,
        GraphFunction::Reciprocal => Function::Reciprocal,
        GraphFunction::Gelu => Function::Gelu,
        GraphFunction::GeluTanh => Function::GeluTanh,
        GraphFunction::HardSigmoid => Function::HardSigmoid,
        GraphFunction::HardSwish => Function::HardSwish,
        GraphFunction::Elu { alpha } => Function::Elu(alpha),
        GraphFunction::LeakyRelu { slope } => Function::LeakyRelu(slope),
        GraphFunction::Clamp { low, high } => Function::Clamp(low, high),
        GraphFunction::Plus { value } => Function::Plus(value),
        GraphFunction::Times { value } => Function::Times(value),
        GraphFunction::Over { value } => Function::Over(value),
    }
}
