//! A program as calls of operators by name: what is read from an exported file, lowered, cut into parts and emitted.
//!
//! A [`Function`] is one method. Its [`Block`] holds calls in the order in which they run; branches and loop bodies are
//! blocks inside a call. Every value is made once, nothing is changed in place, and no value shares memory with another:
//! what the export wrote as mutation and views became plain results when it was read. Arguments go by the names of the
//! operator's signature; one that is missing has its default.
//!
//! ```text
//! %2: float32[1, s0, 8] = aten::mul.Tensor(self: %0, other: %1)
//! ```
//!
//! A program prints as text of that form, and [`parse`] reads it back; [`verify`](fn@verify) states what holds between passes.

mod text;
mod verify;

pub use text::parse;
pub use verify::{Invalid, verify, verify_method};
pub(crate) use verify::{debug_verify, view};

use crate::debug::PayloadNode;
use crate::size::{Size, Symbol, Symbols};
use sconce_format::ScalarType;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A value of a function by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// A constant of a program by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstantId(pub u32);

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Its elements.
    pub dtype: ScalarType,
    /// Its sizes, the outermost first.
    pub sizes: Vec<Size>,
    /// Its dimensions from the outermost in memory to the innermost.
    pub order: Vec<u8>,
}

impl TensorType {
    /// A tensor whose last dimension is the innermost.
    pub fn new(dtype: ScalarType, sizes: impl Into<Vec<Size>>) -> Self {
        let sizes = sizes.into();
        let order = (0..=u8::MAX).take(sizes.len()).collect();
        Self { dtype, sizes, order }
    }

    /// The same with known sizes.
    pub fn fixed(dtype: ScalarType, sizes: &[i64]) -> Self {
        Self::new(dtype, sizes.iter().map(|&size| size.into()).collect::<Vec<_>>())
    }

    /// How many dimensions it has.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// The size of a dimension; one where there is none, as torch counts a tensor without dimensions.
    pub fn size(&self, dim: usize) -> Size {
        self.sizes.get(dim).cloned().unwrap_or_else(|| 1.into())
    }

    /// The sizes, if all of them are known.
    pub fn numbers(&self) -> Option<Vec<i64>> {
        self.sizes.iter().map(Size::number).collect()
    }

    /// The same sizes with other elements.
    pub fn with_dtype(&self, dtype: ScalarType) -> Self {
        Self { dtype, ..self.clone() }
    }

    /// The same elements with other sizes, the last dimension innermost.
    pub fn with_sizes(&self, sizes: impl Into<Vec<Size>>) -> Self {
        Self::new(self.dtype, sizes)
    }

    /// How many elements there are.
    pub fn count(&self) -> Size {
        self.sizes.iter().fold(Size::from(1), |count, size| count.times(size))
    }

    /// Whether the last dimension is the innermost, and so on.
    pub fn is_contiguous(&self) -> bool {
        self.order.is_sorted()
    }
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor.
    Tensor(TensorType),
    /// An integer; [`Function::definitions`] may name the symbol that stands for it.
    Int,
    /// A floating-point number.
    Float,
    /// A truth value.
    Bool,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// The caller passes it.
    Input,
    /// It is an input of a block inside a call.
    Block,
    /// It is known.
    Constant(ConstantId),
    /// The method keeps it from run to run; the constant is what it holds at first.
    State(ConstantId),
    /// A call makes it.
    Call,
}

/// Something calls read and make.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// Where it comes from.
    pub origin: Origin,
    /// Its name in the export, or that of what it was made from.
    pub name: String,
}

/// What is passed to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Nothing.
    None,
    /// A value.
    Value(ValueId),
    /// Values, some of them missing.
    Values(Vec<Option<ValueId>>),
    /// An integer.
    Int(Size),
    /// Integers.
    Ints(Vec<Size>),
    /// A number.
    Float(f64),
    /// Numbers.
    Floats(Vec<f64>),
    /// A truth value.
    Bool(bool),
    /// Truth values.
    Bools(Vec<bool>),
    /// A word.
    Text(String),
    /// An element type.
    Dtype(ScalarType),
    /// How dimensions lie in memory.
    MemoryFormat(MemoryFormat),
}

/// How dimensions lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFormat {
    /// The last one innermost.
    Contiguous,
    /// The second one innermost.
    ChannelsLast,
    /// As those of the argument.
    Preserve,
}

impl From<ValueId> for Arg {
    fn from(value: ValueId) -> Self {
        Self::Value(value)
    }
}

impl From<i64> for Arg {
    fn from(number: i64) -> Self {
        Self::Int(number.into())
    }
}

impl From<Size> for Arg {
    fn from(size: Size) -> Self {
        Self::Int(size)
    }
}

impl From<f64> for Arg {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Arg {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<ScalarType> for Arg {
    fn from(dtype: ScalarType) -> Self {
        Self::Dtype(dtype)
    }
}

impl From<Vec<Size>> for Arg {
    fn from(sizes: Vec<Size>) -> Self {
        Self::Ints(sizes)
    }
}

impl From<&[i64]> for Arg {
    fn from(numbers: &[i64]) -> Self {
        Self::Ints(numbers.iter().map(|&number| number.into()).collect())
    }
}

impl From<Vec<i64>> for Arg {
    fn from(numbers: Vec<i64>) -> Self {
        numbers.as_slice().into()
    }
}

impl From<Vec<ValueId>> for Arg {
    fn from(values: Vec<ValueId>) -> Self {
        Self::Values(values.into_iter().map(Some).collect())
    }
}

impl From<Option<ValueId>> for Arg {
    fn from(value: Option<ValueId>) -> Self {
        value.map_or(Self::None, Self::Value)
    }
}

impl Arg {
    /// Calls `each` for every value in it.
    pub fn values(&self, each: &mut dyn FnMut(ValueId)) {
        match self {
            Self::Value(value) => each(*value),
            Self::Values(values) => values.iter().flatten().copied().for_each(each),
            _ => {}
        }
    }

    /// Puts other values in the place of those in it.
    pub fn replace(&mut self, replace: &mut dyn FnMut(ValueId) -> ValueId) {
        match self {
            Self::Value(value) => *value = replace(*value),
            Self::Values(values) => values.iter_mut().flatten().for_each(|value| *value = replace(*value)),
            _ => {}
        }
    }

    /// Calls `each` for every symbol in it.
    pub fn symbols(&self, each: &mut dyn FnMut(Symbol)) {
        match self {
            Self::Int(size) => size.symbols(each),
            Self::Ints(sizes) => sizes.iter().for_each(|size| size.symbols(each)),
            _ => {}
        }
    }
}

/// What a call calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// An operator by its full name, such as `aten::add.Tensor`.
    Operator(Cow<'static, str>),
    /// A delegate of [`Program::delegates`]; the argument `inputs` is what it gets.
    Delegate(u32),
    /// The first block if the argument `condition` holds, else the second; both get `inputs`.
    Cond,
    /// The block for each index along the first dimension of `inputs`; it gets a slice of each, then all of `further`.
    /// Results are stacked.
    Map,
    /// As `Map`, but the block also gets, before the slices, and gives, before its results, what `carry` holds at first;
    /// the last of it are the first results.
    Scan,
    /// As long as the first block gives true, the second; both get `carry`, then all of `further`.
    While,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What it calls.
    pub target: Target,
    /// Arguments by name.
    pub args: Vec<(Cow<'static, str>, Arg)>,
    /// Blocks that control flow runs.
    pub blocks: Vec<Block>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
    /// Where it came from.
    pub source: Option<Arc<Source>>,
}

/// A place in the exported model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The node's number, counted from 1 in the order of the method's graph.
    pub handle: u32,
    /// The node's name in the export.
    pub node: String,
    /// The operator there, such as `torch.ops.aten.add.Tensor`.
    pub target: String,
    /// Python's stack, as the export prints it; may be empty.
    pub stack_trace: String,
    /// The innermost module's name, such as `features.0.conv`; may be empty.
    pub module: String,
}

impl Source {
    /// The innermost line of the stack; empty if there is none.
    pub fn place(&self) -> &str {
        let mut lines = self.stack_trace.lines().rev().map(str::trim);
        lines.find(|line| line.starts_with("File ")).unwrap_or("")
    }
}

impl Call {
    /// A call of an operator.
    pub fn new(
        operator: impl Into<Cow<'static, str>>,
        args: impl IntoIterator<Item = (&'static str, Arg)>,
        outputs: Vec<ValueId>,
    ) -> Self {
        let args = args.into_iter().map(|(name, arg)| (Cow::Borrowed(name), arg)).collect();
        Self { target: Target::Operator(operator.into()), args, blocks: Vec::new(), outputs, source: None }
    }

    /// The operator's name, if it calls one.
    pub fn operator(&self) -> Option<&str> {
        match &self.target {
            Target::Operator(name) => Some(name),
            _ => None,
        }
    }

    /// An argument; [`Arg::None`] if it is missing.
    pub fn arg(&self, name: &str) -> &Arg {
        self.args.iter().find(|(own, _)| own == name).map_or(&Arg::None, |(_, arg)| arg)
    }

    /// Sets an argument.
    pub fn set(&mut self, name: &'static str, arg: impl Into<Arg>) {
        let arg = arg.into();
        match self.args.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = arg,
            None => self.args.push((Cow::Borrowed(name), arg)),
        }
    }

    /// Calls `each` for every value it reads itself, not in its blocks.
    pub fn reads(&self, each: &mut dyn FnMut(ValueId)) {
        self.args.iter().for_each(|(_, arg)| arg.values(each));
    }
}

/// Calls in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// What it gets.
    pub inputs: Vec<ValueId>,
    /// The calls.
    pub calls: Vec<Call>,
    /// What it gives.
    pub outputs: Vec<ValueId>,
}

impl Block {
    /// Calls `each` for every call in it and in the blocks of its calls, outer ones first.
    pub fn walk(&self, each: &mut dyn FnMut(&Call)) {
        for call in &self.calls {
            each(call);
            call.blocks.iter().for_each(|block| block.walk(each));
        }
    }
}

/// What the caller passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A value.
    Value(ValueId),
    /// Something that was fixed at export; the program ignores what is passed.
    Fixed(Arg),
}

/// What the caller gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A value.
    Value(ValueId),
    /// An integer that is known or follows from sizes, a number, a truth value or nothing.
    Known(Arg),
}

/// One method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// Its name, such as `forward`.
    pub name: String,
    /// The values, by [`ValueId`].
    pub values: Vec<Value>,
    /// The calls. Its inputs and outputs are those of `inputs` and `outputs` that are values.
    pub body: Block,
    /// What the caller passes.
    pub inputs: Vec<Input>,
    /// What the caller gets.
    pub outputs: Vec<Output>,
    /// New contents, at the end of a run, of what the method keeps or the caller passed.
    pub updates: Vec<(ValueId, ValueId)>,
    /// The symbols in its sizes.
    pub symbols: Symbols,
    /// Where symbols are found when the program runs.
    pub definitions: HashMap<Symbol, Definition>,
    /// What the export calls its outputs, as far as that is known; inputs have the names of their values.
    pub output_names: Vec<String>,
    /// How inputs and outputs nest in Python, JSON as torch writes it; empty if unknown.
    pub nesting: [String; 2],
}

/// Where a symbol is found when the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// The size of a value along a dimension, from which it follows by a straight line ([`Size::line`]).
    SizeOf(ValueId, usize),
    /// An integer value.
    Value(ValueId),
}

impl Function {
    /// A new value.
    pub fn value(&mut self, kind: Kind, origin: Origin, name: impl Into<String>) -> ValueId {
        self.values.push(Value { kind, origin, name: name.into() });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A value by its number.
    pub fn get(&self, value: ValueId) -> &Value {
        &self.values[value.0 as usize]
    }

    /// The type of a tensor.
    pub fn tensor(&self, value: ValueId) -> Option<&TensorType> {
        match &self.get(value).kind {
            Kind::Tensor(ty) => Some(ty),
            _ => None,
        }
    }

    /// Whether nothing says how large a tensor may become when the program runs.
    pub fn is_unbound(&self, value: ValueId) -> bool {
        let is_free = |size: &Size| size.number().is_none() && i32::try_from(self.symbols.most(size)).is_err();
        self.tensor(value).is_some_and(|ty| ty.sizes.iter().any(is_free))
    }
}

/// A known tensor's bytes, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant<'a> {
    /// Its name in the module; empty if the compiler made it.
    pub name: String,
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
}

/// A part of a program that a backend runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delegate {
    /// The backend's id, such as `XnnpackBackend`.
    pub backend: String,
    /// What the backend understands.
    pub payload: Vec<u8>,
    /// Options for the backend.
    pub specs: Vec<(String, Vec<u8>)>,
    /// Data that the payload refers to by name.
    pub data: Vec<(String, Data)>,
    /// How many bytes beyond the end of a tensor the backend may read.
    pub reads_beyond: u64,
    /// What the nodes of the payload came from, if its writer tells.
    pub nodes: Vec<PayloadNode>,
    /// The calls it stands for, for those who ask what was delegated.
    pub calls: Vec<Call>,
}

/// Data of a delegate.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A constant of the program as it is: large ones are not copied.
    Constant(ConstantId),
    /// Bytes that were made for the payload.
    Bytes(Vec<u8>),
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// All methods with what they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program<'a> {
    /// The methods.
    pub functions: Vec<Function>,
    /// The constants of all methods.
    pub constants: Constants<'a>,
    /// The delegates that calls refer to.
    pub delegates: Vec<Delegate>,
    /// Methods that take nothing and give known values.
    pub known: Vec<(String, Vec<Arg>)>,
    /// Whether the export was taken apart into core operators before it was saved.
    pub decomposed: bool,
}

/// Known tensors, by [`ConstantId`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constants<'a>(pub Vec<Constant<'a>>);

impl<'a> Constants<'a> {
    /// A new constant.
    pub fn add(&mut self, name: impl Into<String>, bytes: impl Into<Cow<'a, [u8]>>) -> ConstantId {
        self.0.push(Constant { name: name.into(), bytes: bytes.into() });
        ConstantId(self.0.len() as u32 - 1)
    }

    /// The bytes of a constant.
    pub fn bytes(&self, id: ConstantId) -> &[u8] {
        &self.0[id.0 as usize].bytes
    }

    /// The bytes of a delegate's data.
    pub fn data<'d>(&'d self, data: &'d Data) -> &'d [u8] {
        match data {
            Data::Constant(id) => self.bytes(*id),
            Data::Bytes(bytes) => bytes,
        }
    }
}
