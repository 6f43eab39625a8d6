//! Running a method: the instruction loop.
//!
//! An [`Execution`] borrows everything one call needs, shared parts and the session's blocks alike. Inputs are set all
//! at once, `execute` runs to the end, and outputs are read where they are. `step` runs one instruction; the position
//! is kept in the state block, so stepping may go on in a later `Execution` over the same blocks.
//!
//! Tensors that nothing bounds lie in arenas that grow. When one of these, or scratch, is too small for a call, the run
//! stops before that call with [`Error::Growth`]; whoever owns the blocks gives it a larger one with the same content, and
//! goes on ([`Execution::resume`]). The call is made again from its beginning: a kernel asks for its outputs before it
//! writes any.
use crate::call::Args;
use crate::memory::{Block, Growth};
use crate::regions::Indices;
use crate::state::{Place, Record, Slot, State};
use crate::tensor::byte_size;
use crate::{
    Arena, Call, Code, Delegate, DelegateState, Error, Event, Fault, KernelId, Level, Method, Owned, Parallel,
    Platform, Program, Region, Regions, Registry, Shape, Site, Tensor,
};
use core::cell::Cell;
use sconce_format::flatbuf::Scalars;
use sconce_format::pte::{InstructionArguments, KernelTypes};

/// An input or an output.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(Tensor<'a>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(&'a str),
}

/// What a call uses besides the program and its blocks.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Kernels and backends, as at load.
    pub registry: &'a dyn Registry,
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// Log and clock.
    pub platform: &'a dyn Platform,
    /// Most instructions that one run may execute.
    pub instruction_limit: u64,
}

/// What [`Execution::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One instruction ran.
    Ran,
    /// There was none left.
    End,
}

/// Results that a caller computed ahead of all runs, because they come from constants alone.
#[derive(Clone, Copy, Default)]
pub struct Folded<'a> {
    /// Their bytes; [`Method::place_folded`] says which tensor begins where.
    pub bytes: &'a [u8],
    /// A bit for every instruction of the first chain that need not run.
    pub skip: &'a [u64],
}

impl Folded<'_> {
    fn skips(&self, chain: u32, index: u32) -> bool {
        let word = usize::try_from(index / 64).ok().and_then(|word| self.skip.get(word));
        chain == 0 && word.is_some_and(|word| word >> (index % 64) & 1 != 0)
    }
}

/// What the address of an input must be a multiple of, for it to be read where it is: that is enough for all elements.
const LENT_ALIGN: usize = 16;

/// Bytes outside of arenas: constants, inputs and folded results.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) program: Program<'a>,
    inputs: &'a [Value<'a>],
    folded: &'a [u8],
}

impl<'a> Memory<'a> {
    /// The first `len` bytes at a place that is not in an arena.
    pub(crate) fn outside(&self, place: Place, len: usize) -> Result<&'a [u8], Fault> {
        let bytes = match place {
            Place::Constant(offset) => self.program.constants().get(offset..),
            Place::Inline(index) => self.program.file().inline_constant(index),
            Place::External(entry) => self.program.external().bytes(entry),
            Place::Input(index) => match usize::try_from(index).ok().and_then(|index| self.inputs.get(index)) {
                Some(Value::Tensor(tensor)) => Some(tensor.data),
                _ => None,
            },
            Place::Folded(offset) => self.folded.get(offset..),
            Place::None | Place::Arena { .. } => None,
        };
        let missing = Fault::new(Code::InvalidState, "the tensor has no data: it was freed, or nothing has filled it");
        let bytes = bytes.ok_or(missing)?;
        let short = Fault::new(Code::InvalidProgram, "the tensor's data has {} bytes, {} are needed");
        bytes.get(..len).ok_or(short.with([bytes.len(), len]))
    }
}

/// The states of a method's delegates, in its order.
type States<'a> = &'a mut [Owned<dyn DelegateState>];

/// One call of a method.
pub struct Execution<'a> {
    method: Method<'a>,
    environment: Environment<'a>,
    kernels: &'a [KernelId],
    delegates: &'a [Owned<dyn Delegate>],
    states: States<'a>,
    state: State<'a>,
    arenas: &'a mut [Arena<'a>],
    scratch: &'a mut [u64],
    inputs: &'a [Value<'a>],
    folded: Folded<'a>,
    regions: Regions<'a>,
    lent: &'a [bool],
    wanted: Cell<Option<Growth>>,
    resumed: bool,
}

impl<'a> Execution<'a> {
    /// Puts together what a call needs. `kernels` comes from [`Method::resolve`], `delegates` from
    /// [`Method::init_delegate`] and `states` from [`Delegate::new_state`], each in the method's order, and then those of
    /// regions; `state` was
    /// filled by [`Method::init_state`], `arenas` by [`Method::init_arenas`].
    #[expect(clippy::too_many_arguments, reason = "each is a block of its own that the caller keeps")]
    pub fn new(
        method: Method<'a>,
        environment: Environment<'a>,
        kernels: &'a [KernelId],
        delegates: &'a [Owned<dyn Delegate>],
        states: &'a mut [Owned<dyn DelegateState>],
        state: &'a mut [u64],
        arenas: &'a mut [Arena<'a>],
        scratch: &'a mut [u64],
    ) -> Self {
        let state = State::new(state);
        Self {
            method,
            environment,
            kernels,
            delegates,
            states,
            state,
            arenas,
            scratch,
            inputs: &[],
            folded: Folded::default(),
            regions: Regions::default(),
            lent: &[],
            wanted: Cell::new(None),
            resumed: false,
        }
    }

    /// Uses results that were computed ahead. The tensors must have been placed in the state block.
    pub fn set_folded(&mut self, folded: Folded<'a>) {
        self.folded = folded;
    }

    /// Runs these regions, each as one step.
    pub fn set_regions(&mut self, regions: Regions<'a>) {
        self.regions = regions;
    }

    /// Reads those inputs where the caller has them that are true here, by number, though the program planned memory for them:
    /// nothing that runs writes them, or finds them in that memory under another name.
    pub fn lend_inputs(&mut self, lent: &'a [bool]) {
        self.lent = lent;
    }

    /// Lets the next step be instruction `index` of the first chain.
    pub fn seek(&mut self, index: u32) {
        self.state.set_program_counter(0, index);
    }

    /// The tensor that value `index` of the method is now.
    pub fn tensor(&self, index: u32) -> Result<Tensor<'_>, Error> {
        let at = Error::at(Site::Value(index));
        match self.state.slot(index as usize) {
            Slot::Tensor(record) => {
                let (dtype, shape) = (self.state.dtype(record), self.state.shape(record));
                Ok(Tensor { dtype, shape, data: self.bytes(record).map_err(at)? })
            }
            _ => Err(at(Fault::new(Code::InvalidType, "the value is not a tensor"))),
        }
    }

    /// Sets all inputs. Tensors with planned memory are copied, unless they are lent; the others are read where they are.
    pub fn set_inputs(&mut self, inputs: &'a [Value<'a>]) -> Result<(), Error> {
        if inputs.len() != self.method.inputs() {
            let fault = Fault::new(Code::InvalidArgument, "the method takes {} inputs, {} were given");
            let fault = fault.with([self.method.inputs(), inputs.len()]);
            return Err(Error::At { site: Site::Method, fault });
        }
        if self.state.program_counter() != (0, 0) {
            let fault = Fault::new(Code::InvalidState, "inputs cannot be set in the middle of a run");
            return Err(Error::At { site: Site::Method, fault });
        }
        if self.state.freed() {
            self.method.init_places(self.state)?;
        }
        self.inputs = inputs;
        for (value, number) in inputs.iter().zip(0u32..) {
            let set = self.set_input(number, value);
            set.map_err(|fault| self.stopped(fault, Site::Input(number)))?;
        }
        Ok(())
    }

    /// Goes on with a run that stopped for want of memory: with the inputs that it has, over blocks that grew.
    pub fn resume(&mut self, inputs: &'a [Value<'a>]) {
        (self.inputs, self.resumed) = (inputs, true);
    }

    /// What a fault means: memory to be had, or an error.
    fn stopped(&self, fault: Fault, site: Site) -> Error {
        self.wanted.take().map_or(Error::At { site, fault }, Error::Growth)
    }

    fn set_input(&mut self, number: u32, value: &Value<'_>) -> Result<(), Fault> {
        let index = self.method.input_index(number as usize).unwrap_or(u32::MAX);
        let recorded = |text| Fault::new(Code::InvalidArgument, text);
        match (self.state.slot(index as usize), value) {
            (Slot::Tensor(record), Value::Tensor(tensor)) => self.set_tensor(number, record, tensor),
            (Slot::None, Value::None) => Ok(()),
            (Slot::Int(have), Value::Int(given)) => {
                let text = "the program was exported for the number {}, it cannot take {}";
                if have == *given { Ok(()) } else { Err(recorded(text).with_signed([have, *given])) }
            }
            (Slot::Bool(have), Value::Bool(given)) if have == *given => Ok(()),
            (Slot::Double(have), Value::Double(given)) if close(have, *given) => Ok(()),
            (Slot::Static(_), Value::Str(given)) => match self.method.value(index) {
                KernelTypes::String(have) if have.string_val() == Some(given) => Ok(()),
                _ => Err(recorded("the program was exported for another string")),
            },
            (Slot::Bool(_), Value::Bool(_)) | (Slot::Double(_), Value::Double(_)) => {
                Err(recorded("the program was exported for another number here, which is fixed"))
            }
            _ => Err(Fault::new(Code::InvalidType, "the input has another kind than the program was exported for")),
        }
    }

    fn set_tensor(&mut self, number: u32, record: Record, tensor: &Tensor<'_>) -> Result<(), Fault> {
        if tensor.dtype != self.state.dtype(record) {
            return Err(Fault::new(
                Code::InvalidArgument,
                "the tensor has another element type than the program takes",
            ));
        }
        self.state.resize(record, tensor.sizes())?;
        let shape = self.state.shape(record);
        if !same_layout(&shape, &tensor.shape) {
            let text = "the tensor's dimensions lie in memory in another order than the program takes";
            return Err(Fault::new(Code::InvalidArgument, text));
        }
        let len = byte_size(tensor.dtype, &shape).unwrap_or(usize::MAX);
        if tensor.data.len() != len {
            let fault = Fault::new(Code::InvalidArgument, "{} bytes were given, {} are needed");
            return Err(fault.with([tensor.data.len(), len]));
        }
        if self.lent.get(number as usize).copied().unwrap_or(false) {
            if tensor.data.as_ptr().addr().is_multiple_of(LENT_ALIGN) {
                self.state.set_place(record, Place::Input(number));
                return Ok(());
            }
            self.state.set_place(record, self.method.input_place(number)?);
        }
        match self.state.place(record) {
            Place::None | Place::Input(_) => self.state.set_place(record, Place::Input(number)),
            Place::Arena { id, offset } => {
                let arena = self.arenas.get_mut(usize::from(id)).and_then(|arena| arena.bytes_mut(offset, len));
                let small = Fault::new(Code::MemoryAllocationFailed, "the input's arena is too small");
                if arena.is_none() && self.state.is_unbound(record) {
                    let growth = Growth { block: Block::Arena(id), bytes: offset.saturating_add(len) };
                    self.wanted.set(Some(growth));
                }
                arena.ok_or(small)?.copy_from_slice(tensor.data);
            }
            _ => return Err(Fault::new(Code::InvalidProgram, "the program uses a constant as an input")),
        }
        Ok(())
    }

    /// Runs to the end, from the first instruction or from where the run stopped for want of memory.
    pub fn execute(&mut self) -> Result<(), Error> {
        if self.state.program_counter() != (0, 0) && !self.resumed {
            let fault = Fault::new(Code::InvalidState, "the method is being stepped through; finish or reset it first");
            return Err(Error::At { site: Site::Method, fault });
        }
        self.inputs_are_set()?;
        let result = loop {
            match self.step() {
                Ok(Step::Ran) => {}
                Ok(Step::End) => break Ok(()),
                Err(error @ Error::Growth(_)) => return Err(error),
                Err(error) => break Err(error),
            }
        };
        self.reset();
        result
    }

    fn inputs_are_set(&self) -> Result<(), Error> {
        if self.inputs.len() == self.method.inputs() {
            return Ok(());
        }
        let fault = Fault::new(Code::InvalidArgument, "the method's {} inputs are not set");
        Err(Error::At { site: Site::Method, fault: fault.with([self.method.inputs()]) })
    }

    /// Goes back to the first instruction.
    pub fn reset(&mut self) {
        self.state.rewind();
    }

    /// Runs one instruction.
    pub fn step(&mut self) -> Result<Step, Error> {
        let (mut chain, mut index) = self.state.program_counter();
        let instruction = loop {
            let Some(current) = self.method.plan().chains().get(chain as usize) else { return Ok(Step::End) };
            match current.instructions().get(index as usize) {
                Some(instruction) => break instruction,
                None => (chain, index) = (chain + 1, 0),
            }
        };
        let site = Site::Instruction { chain, index };
        if self.state.count_instruction() > self.environment.instruction_limit {
            let fault = Fault::new(Code::InvalidProgram, "the run was stopped after {} instructions");
            let limit = usize::try_from(self.environment.instruction_limit).unwrap_or(usize::MAX);
            return Err(Error::At { site, fault: fault.with([limit]) });
        }
        if self.folded.skips(chain, index) {
            self.state.set_program_counter(chain, index.saturating_add(1));
            return Ok(Step::Ran);
        }
        let platform = self.environment.platform;
        let start = if platform.traces() { platform.ticks() } else { 0 };
        let ran = match self.regions.at(index).filter(|_| chain == 0) {
            Some(region) => self.run_region(region),
            None => self.run_instruction(instruction.instr_args(), index),
        };
        let next = ran.map_err(|fault| {
            let error = self.stopped(fault, site);
            if !matches!(error, Error::Growth(_)) {
                platform.log(Level::Error, format_args!("instruction {index} of chain {chain}: {fault}"));
            }
            error
        })?;
        if platform.traces() {
            platform.trace(Event { chain, instruction: index, start, end: platform.ticks() });
        }
        self.state.set_program_counter(chain, next);
        Ok(Step::Ran)
    }

    /// Runs the instructions of a region and gives the index of the next.
    fn run_region(&mut self, region: &Region) -> Result<u32, Fault> {
        self.delegated(region.delegate, Indices::Region(self.regions.values(region)))?;
        Ok(region.instructions.end)
    }

    /// Runs an instruction and gives the index of the next.
    fn run_instruction(&mut self, instruction: InstructionArguments<'a>, index: u32) -> Result<u32, Fault> {
        match instruction {
            InstructionArguments::KernelCall(call) => self.kernel_call(call.op_index(), call.args())?,
            InstructionArguments::DelegateCall(call) => self.delegate_call(call.delegate_index(), call.args())?,
            InstructionArguments::MoveCall(call) => {
                let slot = self.state.slot(value_index(call.move_from())?);
                self.state.set_slot(value_index(call.move_to())?, slot);
            }
            InstructionArguments::JumpFalseCall(call) => {
                if !self.condition(value_index(call.cond_value_index())?)? {
                    let text = "the jump goes to an instruction that does not exist";
                    return u32::try_from(call.destination_instruction())
                        .map_err(|_| Fault::new(Code::InvalidProgram, text));
                }
            }
            InstructionArguments::FreeCall(call) => match self.state.slot(value_index(call.value_index())?) {
                Slot::Tensor(record) => {
                    self.state.set_place(record, Place::None);
                    self.state.set_freed(true);
                }
                _ => return Err(Fault::new(Code::InvalidType, "only a tensor can be freed")),
            },
            InstructionArguments::None => return Err(Fault::new(Code::InvalidProgram, "the instruction is empty")),
        }
        Ok(index.saturating_add(1))
    }

    /// The arguments of a call, over blocks that stay borrowed while the call runs.
    fn call<'c>(
        &'c mut self,
        indices: Indices<'c>,
        writes: impl Fn(usize) -> bool,
    ) -> Result<(Call<'c>, States<'c>), Fault> {
        let args = Args { method: self.method, indices, state: self.state, parallel: self.environment.parallel };
        let memory = Memory { program: self.method.program(), inputs: self.inputs, folded: self.folded.bytes };
        self.wanted.set(None);
        let wanted = self.state.grows().then_some(&self.wanted);
        Ok((Call::new(args, memory, &mut *self.arenas, &mut *self.scratch, wanted, writes)?, &mut *self.states))
    }

    fn kernel_call(&mut self, op_index: i32, indices: Scalars<'a, i32>) -> Result<(), Fault> {
        let id = usize::try_from(op_index).ok().and_then(|index| self.kernels.get(index));
        let registry = self.environment.registry;
        let missing = Fault::new(Code::OperatorMissing, "the operator was not resolved when the method was loaded");
        let kernel = id.and_then(|&id| registry.kernel(id)).ok_or(missing)?;
        if indices.len() != kernel.arity() {
            let fault = Fault::new(Code::InvalidProgram, "the operator takes {} arguments, the call has {}");
            return Err(fault.with([kernel.arity(), indices.len()]));
        }
        let writes = kernel.writes();
        let (mut call, _) =
            self.call(Indices::File(indices), |argument| argument < 32 && writes >> argument & 1 != 0)?;
        kernel.run(&mut call)
    }

    fn delegate_call(&mut self, delegate_index: i32, indices: Scalars<'a, i32>) -> Result<(), Fault> {
        let missing = Fault::new(Code::DelegateInvalidHandle, "the delegate was not made when the method was loaded");
        self.delegated(usize::try_from(delegate_index).map_err(|_| missing)?, Indices::File(indices))
    }

    fn delegated(&mut self, index: usize, indices: Indices<'a>) -> Result<(), Fault> {
        let missing = Fault::new(Code::DelegateInvalidHandle, "the delegate was not made when the method was loaded");
        let delegate = &**self.delegates.get(index).ok_or(missing)?;
        let inputs = indices.len().saturating_sub(delegate.outputs());
        let (mut call, states) = self.call(indices, |argument| argument >= inputs)?;
        let missing = Fault::new(Code::DelegateInvalidHandle, "the session has no state for this delegate");
        delegate.execute(&mut **states.get_mut(index).ok_or(missing)?, &mut call)
    }

    /// A truth value, or whether all elements of a tensor of truth values are true.
    fn condition(&self, index: usize) -> Result<bool, Fault> {
        match self.state.slot(index) {
            Slot::Bool(value) => Ok(value),
            Slot::Tensor(record) if self.state.dtype(record) == crate::ScalarType::Bool => {
                Ok(self.bytes(record)?.iter().all(|&byte| byte != 0))
            }
            _ => Err(Fault::new(Code::InvalidProgram, "the condition of a jump must be a bool or a tensor of bools")),
        }
    }

    fn bytes(&self, record: Record) -> Result<&[u8], Fault> {
        let len = byte_size(self.state.dtype(record), &self.state.shape(record)).unwrap_or(usize::MAX);
        match self.state.place(record) {
            Place::Arena { id, offset } => {
                let arena = self.arenas.get(usize::from(id)).and_then(|arena| arena.bytes(offset, len));
                arena.ok_or(Fault::new(Code::MemoryAllocationFailed, "the tensor is outside of its arena"))
            }
            place => Memory { program: self.method.program(), inputs: self.inputs, folded: self.folded.bytes }
                .outside(place, len),
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.method.outputs()
    }

    /// Output `index`, where it is. It is valid until the blocks are used again.
    pub fn output(&self, index: usize) -> Result<Value<'_>, Error> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let at = Error::at(Site::Output(number));
        let missing = Fault::new(Code::InvalidArgument, "the method has only {} outputs").with([self.outputs()]);
        let value = self.method.output_index(index).ok_or_else(|| at(missing))?;
        match self.state.slot(value as usize) {
            Slot::None => Ok(Value::None),
            Slot::Int(value) => Ok(Value::Int(value)),
            Slot::Double(value) => Ok(Value::Double(value)),
            Slot::Bool(value) => Ok(Value::Bool(value)),
            Slot::Static(index) => match self.method.value(index) {
                KernelTypes::String(value) => Ok(Value::Str(value.string_val().unwrap_or(""))),
                _ => Err(at(Fault::new(Code::NotSupported, "a list cannot be an output"))),
            },
            Slot::Tensor(record) => {
                let data = self.bytes(record).map_err(at)?;
                Ok(Value::Tensor(Tensor { dtype: self.state.dtype(record), shape: self.state.shape(record), data }))
            }
        }
    }
}

fn value_index(index: i32) -> Result<usize, Fault> {
    usize::try_from(index).map_err(|_| Fault::new(Code::InvalidProgram, "a value index is negative"))
}

/// Recorded floating-point inputs are compared with a tolerance.
fn close(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-4 + 1e-5 * b.abs()
}

/// Whether two tensors of the same sizes have their elements in the same order in memory.
fn same_layout(a: &Shape, b: &Shape) -> bool {
    let (sizes, x, y) = (a.sizes(), a.strides(), b.strides());
    sizes == b.sizes() && sizes.iter().zip(x.iter().zip(y)).all(|(&size, (&x, y))| size <= 1 || x == y)
}
