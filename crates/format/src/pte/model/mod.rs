//! A program as owned values, to be made, changed and written.
//!
//! The model says what a program means; how it lies in a file (offsets, segments, placeholders at index 0, shared bytes)
//! is the writer's business. Reading gives a model, writing the model gives a file that reads as an equal model. The
//! large parts (constants, payloads) borrow from the file they were read from.
//!
//! ```
//! use sconce_format::{ScalarType, pte::model::*};
//!
//! let mut program = Program::default();
//! let bias = program.constant(vec![0; 8]);
//! let mut plan = Plan::new("forward");
//! let memory = |offset| Storage::Planned(Memory { id: 1, offset });
//! let x = plan.value(Tensor::new(ScalarType::Float, [2], memory(0)));
//! let b = plan.value(Tensor::new(ScalarType::Float, [2], bias));
//! let alpha = plan.value(Value::Int(1));
//! let y = plan.value(Tensor::new(ScalarType::Float, [2], memory(16)));
//! plan.call("aten::add.out", [x, b, alpha, y, y]);
//! (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![y], vec![0, 32]);
//! program.plans.push(plan);
//!
//! let file = program.write();
//! assert_eq!(Program::read(&file), Ok(program));
//! ```

mod read;
mod write;

pub use write::Options;

use crate::ScalarType;
use std::borrow::Cow;
use std::borrow::ToOwned;
use std::string::String;
use std::vec::Vec;

/// Bytes that are owned or borrowed from a file.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// A whole program file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program<'a> {
    /// Always 0 so far.
    pub version: u32,
    /// The methods.
    pub plans: Vec<Plan<'a>>,
    /// What [`Storage::Constant`] refers to. Constants that no tensor uses are read as empty.
    pub constants: Vec<Bytes<'a>>,
    /// Whether constants are in the FlatBuffers part, as in old files.
    pub inline_constants: bool,
    /// What [`Storage::Initialised`] refers to. States that no tensor uses are read as empty.
    pub initial_states: Vec<Bytes<'a>>,
    /// Data that backends ask for by name.
    pub named_data: Vec<NamedData<'a>>,
}

/// Data with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedData<'a> {
    /// The name.
    pub key: String,
    /// The data.
    pub data: Bytes<'a>,
}

/// One method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// Its name, such as `forward`.
    pub name: String,
    /// How the inputs nest in Python.
    pub input_encoding: Option<String>,
    /// How the outputs nest in Python.
    pub output_encoding: Option<String>,
    /// The value table, which everything below refers to by index.
    pub values: Vec<Value>,
    /// The values that callers set.
    pub inputs: Vec<u32>,
    /// The values that callers get.
    pub outputs: Vec<u32>,
    /// The instructions; one chain, unless something unusual is written.
    pub chains: Vec<Chain>,
    /// The operators that instructions refer to.
    pub operators: Vec<Operator>,
    /// The delegates that instructions refer to.
    pub delegates: Vec<Delegate<'a>>,
    /// Bytes of each planned buffer by [`Memory::id`]; entry 0 is reserved and 0.
    pub buffer_sizes: Vec<u64>,
    /// Buffers that are not on the CPU.
    pub buffer_devices: Vec<BufferDevice>,
}

/// A slot of the value table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
    /// A tensor.
    Tensor(Tensor),
    /// A string.
    String(String),
    /// Integers, as indices of the values that hold them.
    IntList(Vec<u32>),
    /// Numbers.
    DoubleList(Vec<f64>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Tensors, as indices of values that come before the list.
    TensorList(Vec<u32>),
    /// Tensors or none, as indices of values that come before the list.
    OptionalTensorList(Vec<Option<u32>>),
}

/// A tensor's description.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: ScalarType,
    /// Sizes; what they are at first, and upper bounds unless `dynamism` says otherwise.
    pub sizes: Vec<i32>,
    /// Dimensions from outermost to innermost.
    pub dim_order: Vec<u8>,
    /// Whether the shape may change.
    pub dynamism: Dynamism,
    /// Whether the tensor is trained.
    pub requires_grad: bool,
    /// Where its data is.
    pub storage: Storage,
    /// The parameter's name; needed where the data is external.
    pub name: Option<String>,
    /// Device kind (0: CPU, 1: CUDA) and index.
    pub device: (i8, i8),
}

/// Whether a tensor's shape may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dynamism {
    /// It stays what it is.
    #[default]
    Static = 0,
    /// It has not more elements than the sizes say.
    Bound = 1,
    /// Nothing says how many elements it may have.
    Unbound = 2,
}

/// Where a tensor's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere until the caller supplies it.
    Unplanned,
    /// In a planned buffer, undefined at first.
    Planned(Memory),
    /// Entry of [`Program::constants`].
    Constant(u32),
    /// In a planned buffer, a copy of an entry of [`Program::initial_states`] at first.
    Initialised(Memory, u32),
    /// In another file under the tensor's name; copied to a planned buffer if there is one.
    External(Option<Memory>),
}

/// A place in a planned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The buffer, counted from 1.
    pub id: u32,
    /// Byte offset in it.
    pub offset: u64,
}

/// A planned buffer that is not on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDevice {
    /// The buffer, as in [`Memory::id`].
    pub buffer: i32,
    /// Device kind (0: CPU, 1: CUDA) and index.
    pub device: (i8, i8),
}

/// A sequence of instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// Where each came from; may be left empty.
    pub stack_traces: Vec<Vec<Frame>>,
}

/// One line of Python source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The file.
    pub filename: Option<String>,
    /// The line.
    pub line: i32,
    /// The function.
    pub name: Option<String>,
    /// The text of the line.
    pub context: Option<String>,
}

/// One step of a method. Numbers are indices of values unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Runs an operator.
    Kernel {
        /// Index of the operator.
        operator: u32,
        /// Its arguments in schema order, outputs last.
        args: Vec<u32>,
    },
    /// Runs a delegate.
    Delegate {
        /// Index of the delegate.
        delegate: u32,
        /// Inputs, then outputs.
        args: Vec<u32>,
    },
    /// Lets one value stand for another.
    Move {
        /// The value read.
        from: u32,
        /// The value set.
        to: u32,
    },
    /// Goes elsewhere if a value is false.
    JumpFalse {
        /// The value tested.
        condition: u32,
        /// Index of the next instruction then.
        target: u32,
    },
    /// Ends the use of a tensor's memory.
    Free {
        /// The tensor.
        value: u32,
    },
}

/// An operator's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Such as `aten::add`.
    pub name: String,
    /// Such as `out`; may be empty.
    pub overload: String,
}

/// A part of a method that a backend runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Delegate<'a> {
    /// The backend's id.
    pub backend: String,
    /// What the backend compiled; written once however many delegates share it.
    pub payload: Bytes<'a>,
    /// Whether the payload is in the FlatBuffers part instead of a segment.
    pub inline: bool,
    /// The options of the compilation.
    pub specs: Vec<CompileSpec>,
}

/// An option that a backend was given at export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileSpec {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// Index of a new last element.
fn add<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    (list.len() - 1) as u32
}

impl<'a> Program<'a> {
    /// Adds a constant, or finds an equal one, and says how a tensor refers to it.
    pub fn constant(&mut self, bytes: impl Into<Bytes<'a>>) -> Storage {
        let bytes = bytes.into();
        let known = self.constants.iter().position(|constant| *constant == bytes);
        Storage::Constant(known.map_or_else(|| add(&mut self.constants, bytes), |index| index as u32))
    }
}

impl Plan<'_> {
    /// A method with one empty chain.
    pub fn new(name: &str) -> Self {
        Plan {
            name: name.to_owned(),
            chains: Vec::from([Chain::default()]),
            buffer_sizes: Vec::from([0]),
            ..Plan::default()
        }
    }

    /// Adds a value and gives its index.
    pub fn value(&mut self, value: impl Into<Value>) -> u32 {
        add(&mut self.values, value.into())
    }

    /// The index of an operator by its full name, such as `aten::add.out`; added if need be.
    pub fn operator(&mut self, full_name: &str) -> u32 {
        let (name, overload) = full_name.split_once('.').unwrap_or((full_name, ""));
        let known = self.operators.iter().position(|op| op.name == name && op.overload == overload);
        known.map_or_else(
            || add(&mut self.operators, Operator { name: name.to_owned(), overload: overload.to_owned() }),
            |index| index as u32,
        )
    }

    /// Appends an instruction to the last chain.
    pub fn push(&mut self, instruction: Instruction) {
        if self.chains.is_empty() {
            self.chains.push(Chain::default());
        }
        if let Some(chain) = self.chains.last_mut() {
            chain.instructions.push(instruction);
        }
    }

    /// Appends the call of an operator by its full name.
    pub fn call(&mut self, full_name: &str, args: impl Into<Vec<u32>>) {
        let operator = self.operator(full_name);
        self.push(Instruction::Kernel { operator, args: args.into() });
    }
}

impl Tensor {
    /// A static contiguous tensor.
    pub fn new(dtype: ScalarType, sizes: impl Into<Vec<i32>>, storage: Storage) -> Tensor {
        let sizes = sizes.into();
        let dim_order = (0..=u8::MAX).take(sizes.len()).collect();
        Tensor {
            dtype,
            sizes,
            dim_order,
            dynamism: Dynamism::Static,
            requires_grad: false,
            storage,
            name: None,
            device: (0, 0),
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}
