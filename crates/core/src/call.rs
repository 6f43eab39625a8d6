//! One kernel or delegate call: its arguments and its memory.
//!
//! [`Args`] is what is known without data (types, sizes, numbers): enough to state how much scratch a call needs before
//! anything runs. [`Call`] adds the data. A kernel takes its inputs first, then its outputs with the sizes they get:
//!
//! ```ignore
//! fn relu(call: &mut Call<'_>) -> Result<(), Fault> {
//!     let x = call.tensor(0)?;
//!     let out = call.out(1, x.sizes())?;
//!     ...
//! }
//! ```
use crate::execution::Memory;
use crate::memory::{Block, CLAIM_WORDS, Growth, Ledger, Scratch, Span, Wanted};
use crate::regions::Indices;
use crate::state::{Place, Record, Slot, State};
use crate::tensor::byte_size;
use crate::{Code, Fault, MAX_RANK, Method, Parallel, Program, ScalarType, Shape, Tensor, TensorMut};
use core::ops::Deref;
use sconce_format::pte::KernelTypes;

/// A number or truth value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as a floating-point number.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Int(value) => value as f64,
            Scalar::Double(value) => value,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The value as an integer; fractions are cut off.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Int(value) => value,
            Scalar::Double(value) => value as i64,
            Scalar::Bool(value) => i64::from(value),
        }
    }

    /// Whether the value is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Int(value) => value != 0,
            Scalar::Double(value) => value != 0.0,
            Scalar::Bool(value) => value,
        }
    }
}

/// A short list of integers, by value.
#[derive(Clone, Copy, Debug)]
pub struct Ints {
    len: usize,
    items: [i64; MAX_RANK],
}

impl Deref for Ints {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.items[..self.len]
    }
}

/// The arguments of a call, without their data.
#[derive(Clone, Copy)]
pub struct Args<'c> {
    pub(crate) method: Method<'c>,
    pub(crate) indices: Indices<'c>,
    pub(crate) state: State<'c>,
    pub(crate) parallel: &'c dyn Parallel,
}

impl<'c> Args<'c> {
    /// How many arguments there are, the returned value included.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The threads that the call may use.
    pub fn parallel(&self) -> &'c dyn Parallel {
        self.parallel
    }

    fn value_index(&self, argument: usize) -> Result<usize, Fault> {
        let index = self.indices.get(argument);
        index.ok_or(Fault::new(Code::InvalidProgram, "the call has only {} arguments").with([self.len()]).at(argument))
    }

    fn slot(&self, argument: usize) -> Result<Slot, Fault> {
        Ok(self.state.slot(self.value_index(argument)?))
    }

    /// Whether the argument is absent.
    pub fn is_none(&self, argument: usize) -> Result<bool, Fault> {
        Ok(self.slot(argument)? == Slot::None)
    }

    fn record(&self, argument: usize) -> Result<Record, Fault> {
        match self.slot(argument)? {
            Slot::Tensor(record) => Ok(record),
            _ => Err(wrong_type(argument, "a tensor is needed here")),
        }
    }

    /// Type and present sizes of a tensor argument.
    pub fn tensor_type(&self, argument: usize) -> Result<(ScalarType, Shape), Fault> {
        let record = self.record(argument)?;
        Ok((self.state.dtype(record), self.state.shape(record)))
    }

    /// Largest number of bytes that a tensor argument may have.
    pub fn capacity(&self, argument: usize) -> Result<usize, Fault> {
        Ok(self.state.capacity_bytes(self.record(argument)?))
    }

    /// A number or truth value.
    pub fn scalar(&self, argument: usize) -> Result<Scalar, Fault> {
        match self.slot(argument)? {
            Slot::Int(value) => Ok(Scalar::Int(value)),
            Slot::Double(value) => Ok(Scalar::Double(value)),
            Slot::Bool(value) => Ok(Scalar::Bool(value)),
            _ => Err(wrong_type(argument, "a number is needed here")),
        }
    }

    /// An integer.
    pub fn int(&self, argument: usize) -> Result<i64, Fault> {
        match self.slot(argument)? {
            Slot::Int(value) => Ok(value),
            _ => Err(wrong_type(argument, "an integer is needed here")),
        }
    }

    /// A truth value.
    pub fn bool(&self, argument: usize) -> Result<bool, Fault> {
        match self.slot(argument)? {
            Slot::Bool(value) => Ok(value),
            _ => Err(wrong_type(argument, "a bool is needed here")),
        }
    }

    /// A floating-point number; integers convert.
    pub fn double(&self, argument: usize) -> Result<f64, Fault> {
        match self.slot(argument)? {
            Slot::Double(value) => Ok(value),
            Slot::Int(value) => Ok(value as f64),
            _ => Err(wrong_type(argument, "a floating-point number is needed here")),
        }
    }

    /// `None` for an absent argument, else what `get` makes of it.
    pub fn optional<T>(
        &self,
        argument: usize,
        get: impl FnOnce(&Self, usize) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        if self.is_none(argument)? { Ok(None) } else { get(self, argument).map(Some) }
    }

    fn constant(&self, argument: usize) -> Result<KernelTypes<'c>, Fault> {
        match self.slot(argument)? {
            Slot::Static(index) => Ok(self.method.value(index)),
            _ => Err(wrong_type(argument, "a list or string is needed here")),
        }
    }

    /// A string.
    pub fn str(&self, argument: usize) -> Result<&'c str, Fault> {
        match self.constant(argument)? {
            KernelTypes::String(value) => Ok(value.string_val().unwrap_or("")),
            _ => Err(wrong_type(argument, "a string is needed here")),
        }
    }

    /// Length of a list.
    pub fn list_len(&self, argument: usize) -> Result<usize, Fault> {
        match self.constant(argument)? {
            KernelTypes::IntList(list) => Ok(list.items().len()),
            KernelTypes::DoubleList(list) => Ok(list.items().len()),
            KernelTypes::BoolList(list) => Ok(list.items().len()),
            KernelTypes::TensorList(list) => Ok(list.items().len()),
            KernelTypes::OptionalTensorList(list) => Ok(list.items().len()),
            _ => Err(wrong_type(argument, "a list is needed here")),
        }
    }

    /// An element of a list of integers. The list holds indices of values, which may change from run to run.
    pub fn int_in(&self, argument: usize, position: usize) -> Result<i64, Fault> {
        let KernelTypes::IntList(list) = self.constant(argument)? else {
            return Err(wrong_type(argument, "a list of integers is needed here"));
        };
        match list
            .items()
            .get(position)
            .and_then(|index| usize::try_from(index).ok())
            .map(|index| self.state.slot(index))
        {
            Some(Slot::Int(value)) => Ok(value),
            _ => Err(wrong_type(argument, "element {} of the list is not an integer").with([position])),
        }
    }

    /// A list of at most [`MAX_RANK`] integers.
    pub fn ints(&self, argument: usize) -> Result<Ints, Fault> {
        let len = self.list_len(argument)?;
        let mut items = [0; MAX_RANK];
        let Some(slots) = items.get_mut(..len) else {
            return Err(Fault::argument(argument, "a list of {} integers is longer than {}").with([len, MAX_RANK]));
        };
        for (position, slot) in slots.iter_mut().enumerate() {
            *slot = self.int_in(argument, position)?;
        }
        Ok(Ints { len, items })
    }

    /// An element of a list of floating-point numbers.
    pub fn double_in(&self, argument: usize, position: usize) -> Result<f64, Fault> {
        match self.constant(argument)? {
            KernelTypes::DoubleList(list) => list.items().get(position),
            _ => None,
        }
        .ok_or(wrong_type(argument, "a list of floating-point numbers is needed here"))
    }

    /// An element of a list of truth values.
    pub fn bool_in(&self, argument: usize, position: usize) -> Result<bool, Fault> {
        match self.constant(argument)? {
            KernelTypes::BoolList(list) => list.items().get(position),
            _ => None,
        }
        .ok_or(wrong_type(argument, "a list of bools is needed here"))
    }

    fn record_in(&self, argument: usize, position: usize) -> Result<Option<Record>, Fault> {
        let index = match self.constant(argument)? {
            KernelTypes::TensorList(list) => list.items().get(position),
            KernelTypes::OptionalTensorList(list) => list.items().get(position),
            _ => return Err(wrong_type(argument, "a list of tensors is needed here")),
        };
        let Some(index) = index else {
            return Err(Fault::argument(argument, "the list has no element {}").with([position]));
        };
        match usize::try_from(index).map(|index| self.state.slot(index)) {
            Err(_) | Ok(Slot::None) => Ok(None),
            Ok(Slot::Tensor(record)) => Ok(Some(record)),
            Ok(_) => Err(wrong_type(argument, "element {} of the list is not a tensor").with([position])),
        }
    }

    /// Type and present sizes of a tensor in a list; `None` where the list has a gap.
    pub fn tensor_type_in(&self, argument: usize, position: usize) -> Result<Option<(ScalarType, Shape)>, Fault> {
        let record = self.record_in(argument, position)?;
        Ok(record.map(|record| (self.state.dtype(record), self.state.shape(record))))
    }

    /// Every tensor that an argument stands for, with its key in the ledger.
    pub(crate) fn records(&self, argument: usize) -> impl Iterator<Item = (u64, Record)> + '_ {
        let count = match self.slot(argument) {
            Ok(Slot::Tensor(_)) => 1,
            Ok(Slot::Static(_)) => self.list_len(argument).unwrap_or(0),
            _ => 0,
        };
        (0..count).filter_map(move |position| match self.slot(argument) {
            Ok(Slot::Tensor(record)) => Some((key(argument, None), record)),
            _ => Some((key(argument, Some(position)), self.record_in(argument, position).ok()??)),
        })
    }
}

fn wrong_type(argument: usize, text: &'static str) -> Fault {
    Fault { code: Code::InvalidType, ..Fault::argument(argument, text) }
}

/// What a tensor is called in the ledger: its argument, and its position in a list.
fn key(argument: usize, position: Option<usize>) -> u64 {
    (argument as u64) << 32 | position.map_or(0, |position| position as u64 + 1)
}

/// The arguments of a call, with their data.
pub struct Call<'c> {
    args: Args<'c>,
    memory: Memory<'c>,
    ledger: Ledger<'c>,
    scratch: Scratch<'c>,
    wanted: Wanted<'c>,
}

impl<'c> Deref for Call<'c> {
    type Target = Args<'c>;
    fn deref(&self) -> &Args<'c> {
        &self.args
    }
}

impl<'c> Call<'c> {
    /// A call that may write the arguments for which `writes` is true.
    pub(crate) fn new<'a: 'c>(
        args: Args<'c>,
        memory: Memory<'c>,
        arenas: &'c mut [crate::Arena<'a>],
        scratch: &'c mut [u64],
        wanted: Wanted<'c>,
        writes: impl Fn(usize) -> bool,
    ) -> Result<Self, Fault> {
        let written = || (0..args.len()).filter(|&argument| writes(argument));
        let count: usize = written().map(|argument| args.records(argument).count()).sum();
        let scratch = Scratch::new(scratch, wanted);
        let ledger = Ledger::new(arenas, scratch.words(count.saturating_mul(CLAIM_WORDS))?);
        for argument in written() {
            for (key, record) in args.records(argument) {
                match args.state.place(record) {
                    Place::Arena { id, offset } => {
                        // What nothing bounds may take all that follows.
                        let len = match args.state.is_unbound(record) {
                            true => ledger.room(id, offset),
                            false => args.state.capacity_bytes(record),
                        };
                        ledger.claim(key, Span { arena: id, offset, len }).map_err(|fault| fault.at(argument))?;
                    }
                    Place::None => {
                        return Err(Fault::new(Code::InvalidState, "the output has no memory").at(argument));
                    }
                    _ => {
                        let text = "the instruction would write to a constant or an input";
                        return Err(Fault::new(Code::InvalidProgram, text).at(argument));
                    }
                }
            }
        }
        Ok(Self { args, memory, ledger, scratch, wanted })
    }

    fn view(&self, argument: usize, record: Record) -> Result<Tensor<'c>, Fault> {
        let (dtype, shape) = (self.state.dtype(record), self.state.shape(record));
        let Some(len) = byte_size(dtype, &shape) else {
            return Err(Fault::new(Code::InvalidProgram, "the tensor is too large to count").at(argument));
        };
        let data = match self.state.place(record) {
            Place::Arena { id, offset } => {
                let span = Span { arena: id, offset, len };
                match self.ledger.read(span).map_err(|fault| fault.at(argument))? {
                    Some(data) => data,
                    None => self.snapshot(span).map_err(|fault| fault.at(argument))?,
                }
            }
            place => self.memory.outside(place, len).map_err(|fault| fault.at(argument))?,
        };
        Ok(Tensor { dtype, shape, data })
    }

    /// A copy of what an output is about to overwrite.
    fn snapshot(&self, span: Span) -> Result<&'c [u8], Fault> {
        let copy = self.scratch.bytes(span.len)?;
        self.ledger.copy(span, copy)?;
        Ok(copy)
    }

    /// The program that is run.
    pub fn program(&self) -> Program<'c> {
        self.memory.program
    }

    /// The bytes of a tensor among the method's values, by number, if no run changes them.
    pub fn constant_value(&self, value: u32) -> Option<&'c [u8]> {
        let Slot::Tensor(record) = self.state.slot(usize::try_from(value).ok()?) else { return None };
        match self.state.place(record) {
            Place::None | Place::Arena { .. } | Place::Input(_) => None,
            place => {
                let len = byte_size(self.state.dtype(record), &self.state.shape(record))?;
                self.memory.outside(place, len).ok()
            }
        }
    }

    /// A tensor to read.
    pub fn tensor(&self, argument: usize) -> Result<Tensor<'c>, Fault> {
        self.view(argument, self.record(argument)?)
    }

    /// A tensor to read, or nothing.
    pub fn optional_tensor(&self, argument: usize) -> Result<Option<Tensor<'c>>, Fault> {
        if self.is_none(argument)? { Ok(None) } else { self.tensor(argument).map(Some) }
    }

    /// A tensor of a list, to read; `None` where the list has a gap.
    pub fn tensor_in(&self, argument: usize, position: usize) -> Result<Option<Tensor<'c>>, Fault> {
        self.record_in(argument, position)?.map(|record| self.view(argument, record)).transpose()
    }

    fn take(&mut self, argument: usize, key: u64, record: Record, sizes: &[usize]) -> Result<TensorMut<'c>, Fault> {
        self.state.resize(record, sizes).map_err(|fault| fault.at(argument))?;
        let (dtype, shape) = (self.state.dtype(record), self.state.shape(record));
        let len = byte_size(dtype, &shape).unwrap_or(usize::MAX);
        self.has_room(record, len).map_err(|fault| fault.at(argument))?;
        let data = self.ledger.write(key, len).map_err(|fault| fault.at(argument))?;
        Ok(TensorMut { dtype, shape, data })
    }

    /// Notes what is lacking if a tensor that nothing bounds has no memory for so many bytes.
    fn has_room(&self, record: Record, len: usize) -> Result<(), Fault> {
        let Place::Arena { id, offset } = self.state.place(record) else { return Ok(()) };
        if !self.state.is_unbound(record) || len <= self.ledger.room(id, offset) {
            return Ok(());
        }
        let growth = Growth { block: Block::Arena(id), bytes: offset.saturating_add(len) };
        self.wanted.inspect(|wanted| wanted.set(Some(growth)));
        let text = "{} bytes are more than arena {} has for a tensor that nothing bounds";
        Err(Fault::new(Code::MemoryAllocationFailed, text).with([len, usize::from(id)]))
    }

    /// An output, resized. What it held before is still in it.
    pub fn out(&mut self, argument: usize, sizes: &[usize]) -> Result<TensorMut<'c>, Fault> {
        let record = self.record(argument)?;
        self.take(argument, key(argument, None), record, sizes)
    }

    /// An output of a list, resized.
    pub fn out_in(&mut self, argument: usize, position: usize, sizes: &[usize]) -> Result<TensorMut<'c>, Fault> {
        match self.record_in(argument, position)? {
            Some(record) => self.take(argument, key(argument, Some(position)), record, sizes),
            None => Err(Fault::argument(argument, "the list has no output {}").with([position])),
        }
    }

    /// An argument that is updated in place, with the sizes it has.
    pub fn in_place(&mut self, argument: usize) -> Result<TensorMut<'c>, Fault> {
        let (_, shape) = self.tensor_type(argument)?;
        self.out(argument, shape.sizes())
    }

    /// Sets an argument that is a number.
    pub fn set(&mut self, argument: usize, value: Scalar) -> Result<(), Fault> {
        let index = self.value_index(argument)?;
        let slot = match value {
            Scalar::Int(value) => Slot::Int(value),
            Scalar::Double(value) => Slot::Double(value),
            Scalar::Bool(value) => Slot::Bool(value),
        };
        match self.state.slot(index) {
            Slot::Tensor(_) | Slot::Static(_) => Err(wrong_type(argument, "the result must be a number")),
            _ => {
                self.state.set_slot(index, slot);
                Ok(())
            }
        }
    }

    /// Makes tensor `view` stand for the same bytes as tensor `base`, with these sizes.
    pub fn alias(&mut self, view: usize, base: usize, sizes: &[usize]) -> Result<(), Fault> {
        let (view_record, base_record) = (self.record(view)?, self.record(base)?);
        self.state.resize(view_record, sizes).map_err(|fault| fault.at(view))?;
        let bytes = |record| byte_size(self.state.dtype(record), &self.state.shape(record));
        if bytes(view_record) != bytes(base_record) {
            return Err(Fault::argument(view, "a view must have as many bytes as what it views"));
        }
        self.state.set_place(view_record, self.state.place(base_record));
        Ok(())
    }

    /// Scratch memory, aligned to 64 bytes. It holds anything.
    pub fn scratch(&mut self, bytes: usize) -> Result<&'c mut [u8], Fault> {
        self.scratch.bytes(bytes)
    }
}
