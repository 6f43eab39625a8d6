//! Programs of one operator, made, run and looked at.
//!
//! ```ignore
//! let y = run("aten::add.out", args![floats(&[2], &[1.0, 2.0]), 10.0, 1, out::<f32>(&[2])])?;
//! assert_eq!(y[0], floats(&[2], &[11.0, 12.0]));
//! ```
//!
//! Arguments are those of the schema, in order, with `out` where an output stands; the returned value that ends every
//! call is added. Tensors hold row-major values; [`Tensor::order`] says how they lie in the program's memory. Outputs may
//! become smaller than they are declared.
#![allow(unreachable_pub, reason = "a test binary has no outside")]

use sconce_core::{
    Arena, Bytes, Environment, Execution, KernelId, NoData, Program, Quiet, Regions, ScalarType, Serial, Shape, Tables,
    Value,
};
use sconce_format::pte::model;
use sconce_kernels::Bool;
use sconce_kernels::view::{Plain, bytes_of, bytes_of_mut, view};

/// A Rust type of elements.
pub trait Element: Plain {
    /// The element type.
    const DTYPE: ScalarType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),*) => { $(impl Element for $type { const DTYPE: ScalarType = ScalarType::$dtype; })* };
}
elements! {
    u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long, f32 => Float, f64 => Double, Bool => Bool,
    half::f16 => Half, half::bf16 => BFloat16
}

/// A tensor with row-major values, equal to another if types, sizes and bytes are, wherever they lie.
#[derive(Clone)]
pub struct Tensor {
    pub dtype: ScalarType,
    pub sizes: Vec<usize>,
    /// Dimensions from outermost to innermost in the program's memory.
    pub order: Vec<u8>,
    pub data: Vec<u8>,
}

/// A tensor with these values.
pub fn tensor<T: Element>(sizes: &[usize], values: &[T]) -> Tensor {
    assert_eq!(sizes.iter().product::<usize>(), values.len(), "values of sizes {sizes:?}");
    let order = (0..sizes.len() as u8).collect();
    Tensor { dtype: T::DTYPE, sizes: sizes.to_vec(), order, data: bytes_of(values).to_vec() }
}

/// A tensor of float32.
pub fn floats(sizes: &[usize], values: &[f32]) -> Tensor {
    tensor(sizes, values)
}

/// A tensor of int64.
pub fn longs(sizes: &[usize], values: &[i64]) -> Tensor {
    tensor(sizes, values)
}

/// A tensor of bools.
pub fn bools(sizes: &[usize], values: &[bool]) -> Tensor {
    tensor(sizes, &values.iter().map(|&value| Bool::from(value)).collect::<Vec<_>>())
}

/// A tensor of float32 that counts from 0.
pub fn counting(sizes: &[usize]) -> Tensor {
    tensor(sizes, &(0..sizes.iter().product::<usize>()).map(|i| i as f32).collect::<Vec<_>>())
}

impl Tensor {
    /// The same values in another memory order.
    pub fn order(mut self, order: &[u8]) -> Self {
        self.order = order.to_vec();
        self
    }

    /// The values of a type, row-major.
    pub fn values<T: Element>(&self) -> Vec<T> {
        assert_eq!(self.dtype, T::DTYPE);
        let mut aligned = vec![0u128; self.data.len().div_ceil(16)];
        let bytes = &mut bytes_of_mut(&mut aligned)[..self.data.len()];
        bytes.copy_from_slice(&self.data);
        view(bytes).expect("aligned bytes").to_vec()
    }

    /// Float32 values within `tolerance` of these.
    #[track_caller]
    pub fn assert_close(&self, sizes: &[usize], values: &[f32], tolerance: f32) {
        assert_eq!(self.sizes, sizes);
        let have = self.values::<f32>();
        let close = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= tolerance || (a.is_nan() && b.is_nan());
        assert!(have.len() == values.len() && have.iter().zip(values).all(close), "{have:?} is not {values:?}");
    }

    fn shape(&self) -> Shape {
        Shape::new(&self.sizes, &self.order).expect("an order of the dimensions")
    }

    /// The bytes as they lie in memory.
    fn laid_out(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.data.len()];
        let plain = Shape::contiguous(&self.sizes).expect("few dimensions");
        sconce_ops::reorder(&Serial, self.dtype.size(), (&plain, &self.data), (&self.shape(), &mut bytes));
        bytes
    }

    fn described(&self, storage: model::Storage) -> model::Tensor {
        let sizes: Vec<i32> = self.sizes.iter().map(|&size| size as i32).collect();
        model::Tensor { dim_order: self.order.clone(), ..model::Tensor::new(self.dtype, sizes, storage) }
    }
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        (self.dtype, &self.sizes, &self.data) == (other.dtype, &other.sizes, &other.data)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}{:?} ", self.dtype, self.sizes)?;
        match self.dtype {
            ScalarType::Float => self.values::<f32>().fmt(f),
            ScalarType::Double => self.values::<f64>().fmt(f),
            ScalarType::Long => self.values::<i64>().fmt(f),
            ScalarType::Int => self.values::<i32>().fmt(f),
            _ => self.data.fmt(f),
        }
    }
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Arg {
    None,
    Int(i64),
    Double(f64),
    Bool(bool),
    Str(String),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Tensor(Tensor),
    /// A list in which tensors may be missing.
    Tensors(Vec<Option<Tensor>>),
    /// A tensor that the operator changes; it is an output.
    InPlace(Tensor),
    /// An output of at most these sizes.
    Out(Tensor),
    /// A list of outputs.
    Outs(Vec<Tensor>),
}

/// A place for an output of at most these sizes, which holds zeros.
pub fn zeros<T: Element>(sizes: &[usize]) -> Tensor {
    let bytes = sizes.iter().product::<usize>() * T::DTYPE.size();
    Tensor { dtype: T::DTYPE, sizes: sizes.to_vec(), order: (0..sizes.len() as u8).collect(), data: vec![0; bytes] }
}

/// An output of at most these sizes.
pub fn out<T: Element>(sizes: &[usize]) -> Arg {
    Arg::Out(zeros::<T>(sizes))
}

macro_rules! arguments {
    ($($type:ty => $make:expr),* $(,)?) => {
        $(impl From<$type> for Arg { fn from(value: $type) -> Self { ($make)(value) } })*
    };
}
arguments! {
    i64 => Arg::Int,
    f64 => Arg::Double,
    bool => Arg::Bool,
    &str => |value: &str| Arg::Str(value.to_owned()),
    &[i64] => |value: &[i64]| Arg::Ints(value.to_vec()),
    Tensor => Arg::Tensor,
    Vec<Tensor> => |list: Vec<Tensor>| Arg::Tensors(list.into_iter().map(Some).collect()),
    Vec<Option<Tensor>> => Arg::Tensors,
    Option<Tensor> => |value: Option<Tensor>| value.map_or(Arg::None, Arg::Tensor),
    () => |()| Arg::None,
}
impl<const N: usize> From<[i64; N]> for Arg {
    fn from(value: [i64; N]) -> Self {
        Arg::Ints(value.to_vec())
    }
}

/// Arguments from anything that is one; `()` is none.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$($crate::support::Arg::from($arg)),*] };
}
pub(crate) use args;

/// A program under construction: its outputs lie behind each other in one buffer.
struct Builder {
    program: model::Program<'static>,
    plan: model::Plan<'static>,
    used: u64,
}

impl Builder {
    fn place(&mut self, tensor: &Tensor) -> model::Memory {
        let memory = model::Memory { id: 1, offset: self.used };
        self.used += tensor.data.len().next_multiple_of(16) as u64;
        memory
    }

    fn constant(&mut self, tensor: &Tensor) -> u32 {
        let storage = self.program.constant(tensor.laid_out());
        self.plan.value(tensor.described(storage))
    }

    fn output(&mut self, tensor: &Tensor) -> u32 {
        let memory = self.place(tensor);
        let described = tensor.described(model::Storage::Planned(memory));
        let index = self.plan.value(model::Tensor { dynamism: model::Dynamism::Bound, ..described });
        self.plan.outputs.push(index);
        index
    }

    fn argument(&mut self, arg: &Arg) -> u32 {
        let value = match arg {
            Arg::None => model::Value::Null,
            Arg::Int(value) => model::Value::Int(*value),
            Arg::Double(value) => model::Value::Double(*value),
            Arg::Bool(value) => model::Value::Bool(*value),
            Arg::Str(value) => model::Value::String(value.clone()),
            Arg::Ints(list) => {
                model::Value::IntList(list.iter().map(|&value| self.plan.value(model::Value::Int(value))).collect())
            }
            Arg::Bools(list) => model::Value::BoolList(list.clone()),
            Arg::Tensor(tensor) => return self.constant(tensor),
            Arg::Tensors(list) => {
                let items = list.iter().map(|tensor| tensor.as_ref().map(|tensor| self.constant(tensor)));
                model::Value::OptionalTensorList(items.collect())
            }
            Arg::InPlace(tensor) => {
                let memory = self.place(tensor);
                self.program.initial_states.push(tensor.laid_out().into());
                let state = self.program.initial_states.len() as u32 - 1;
                let index = self.plan.value(tensor.described(model::Storage::Initialised(memory, state)));
                self.plan.outputs.push(index);
                return index;
            }
            Arg::Out(tensor) => return self.output(tensor),
            Arg::Outs(list) => model::Value::TensorList(list.iter().map(|tensor| self.output(tensor)).collect()),
        };
        self.plan.value(value)
    }
}

/// The file of a program that calls one operator.
fn program(name: &str, args: &[Arg]) -> Vec<u8> {
    let mut builder = Builder { program: model::Program::default(), plan: model::Plan::new("forward"), used: 0 };
    let mut indices: Vec<u32> = args.iter().map(|arg| builder.argument(arg)).collect();
    let list = args.iter().position(|arg| matches!(arg, Arg::Outs(_))).map(|at| indices[at]);
    let returned = match (list, &*builder.plan.outputs) {
        (Some(list), _) => list,
        (None, &[one]) => one,
        (None, several) => {
            let several = several.to_vec();
            builder.plan.value(model::Value::TensorList(several))
        }
    };
    indices.push(returned);
    builder.plan.call(name, indices);
    builder.plan.buffer_sizes = vec![0, builder.used];
    builder.program.plans.push(builder.plan);
    builder.program.write()
}

/// Calls an operator and gives its outputs, or the error as a sentence.
pub fn run(name: &str, args: Vec<Arg>) -> Result<Vec<Tensor>, String> {
    let written = program(name, &args);
    let mut file = vec![0u128; written.len().div_ceil(16)];
    bytes_of_mut(&mut file)[..written.len()].copy_from_slice(&written);
    let loader = Bytes(&bytes_of(&file)[..written.len()]);
    run_file(&loader).map_err(|error| error.to_string())
}

fn run_file(loader: &Bytes<'_>) -> Result<Vec<Tensor>, sconce_core::Error> {
    let method = Program::load(loader, &NoData)?.method("forward")?;
    let registry = Tables { ops: sconce_ops::TABLES, backends: &[] };
    let mut kernels = vec![KernelId::NONE; method.operators()];
    method.resolve(&registry, &mut kernels)?;
    let mut state = vec![0; method.state_words()];
    method.init_state(&mut state)?;
    let mut scratch = vec![0; method.scratch_words(&mut state, &registry, &kernels, &[], Regions::default(), &Serial)];
    let sizes = (0..method.arenas()).map(|id| method.arena_bytes(id).expect("an arena"));
    let mut memory: Vec<Vec<u128>> = sizes.map(|bytes| vec![0; bytes.div_ceil(16)]).collect();
    let mut arenas: Vec<Arena<'_>> = memory.iter_mut().map(|words| Arena::new(bytes_of_mut(words))).collect();
    method.init_arenas(&mut arenas)?;
    let environment = Environment { registry: &registry, parallel: &Serial, platform: &Quiet, instruction_limit: 100 };
    let mut execution =
        Execution::new(method, environment, &kernels, &[], &mut [], &mut state, &mut arenas, &mut scratch);
    execution.set_inputs(&[])?;
    execution.execute()?;
    (0..execution.outputs()).map(|index| Ok(output(execution.output(index)?))).collect()
}

fn output(value: Value<'_>) -> Tensor {
    let Value::Tensor(tensor) = value else { panic!("{value:?} is not a tensor") };
    let (sizes, order) = (tensor.sizes().to_vec(), tensor.shape.order().to_vec());
    let mut data = vec![0; tensor.data.len()];
    let plain = Shape::contiguous(&sizes).expect("few dimensions");
    sconce_ops::reorder(&Serial, tensor.dtype.size(), (&tensor.shape, tensor.data), (&plain, &mut data));
    Tensor { dtype: tensor.dtype, sizes, order, data }
}

/// Calls an operator that has one output.
#[track_caller]
pub fn run_one(name: &str, args: Vec<Arg>) -> Tensor {
    let mut outputs = run(name, args).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(outputs.len(), 1, "{name}");
    outputs.remove(0)
}
