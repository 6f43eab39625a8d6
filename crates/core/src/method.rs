//! A method before it runs: what it takes, what it needs, and how its blocks are filled.
//!
//! The numbers here are exact, and known before anything is allocated: [`Method::state_words`],
//! [`Method::arena_bytes`] for every memory id, and [`Method::scratch_words`] once the kernels are resolved. Arenas are
//! sized by the tensors in them, not by what the file declares: some exporters declare too little. Tensors that the
//! exporter left without memory (unplanned outputs) live in arena 0, which the file format leaves free.
use crate::call::Args;
use crate::loader::{EXTERNAL_MISSING, Part, load};
use crate::memory::{CLAIM_WORDS, scratch_words};
use crate::regions::Indices;
use crate::state::{Dynamism, Place, Record, Slot, State, head_words, record_words};
use crate::tensor::byte_size;
use crate::{
    Arena, Code, CompileSpecs, Delegate, Error, Fault, InitContext, KernelId, MAX_RANK, Owned, Parallel, Program,
    Regions, Registry, RuntimeOption, ScalarType, Shape, Site,
};
use sconce_format::pte::{self, ExecutionPlan, InstructionArguments, KernelTypes, Payload};

/// Tensors start at multiples of this in arena 0.
const ALIGN: usize = 16;
/// Pairs of an input and an output of a call that are compared to find those that share memory.
const MOST_COMPARED: usize = 1 << 18;

/// A method of a program.
#[derive(Clone, Copy)]
pub struct Method<'a> {
    program: Program<'a>,
    plan: ExecutionPlan<'a>,
}

/// What tensors without memory in the file have taken so far: bytes of arena 0, and arenas of their own.
#[derive(Default)]
struct Own {
    bytes: usize,
    arenas: usize,
}

/// What an input or output is, as the program records it.
#[derive(Clone, Copy, Debug)]
pub enum ValueInfo<'a> {
    /// Nothing.
    None,
    /// A tensor.
    Tensor {
        /// Element type.
        dtype: ScalarType,
        /// Sizes (upper bounds where dynamic) and dimension order.
        shape: Shape,
        /// Whether sizes may be smaller.
        dynamic: bool,
        /// Whether they may be larger as well, because nothing bounds them.
        unbound: bool,
    },
    /// An integer, with the recorded value.
    Int(i64),
    /// A floating-point number, with the recorded value.
    Double(f64),
    /// A truth value, with the recorded value.
    Bool(bool),
    /// A string, with the recorded value.
    Str(&'a str),
    /// A list.
    List,
}

impl<'a> Method<'a> {
    pub(crate) fn new(program: Program<'a>, plan: ExecutionPlan<'a>) -> Self {
        Self { program, plan }
    }

    /// The program it belongs to.
    pub fn program(&self) -> Program<'a> {
        self.program
    }

    /// The plan in the file.
    pub fn plan(&self) -> ExecutionPlan<'a> {
        self.plan
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.plan.name().unwrap_or("")
    }

    /// Value `index` as the program records it.
    pub(crate) fn value(&self, index: u32) -> KernelTypes<'a> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.plan.values().get(index))
            .map_or(KernelTypes::None, |v| v.val())
    }

    /// Value indices of the inputs.
    pub(crate) fn input_index(&self, input: usize) -> Option<u32> {
        self.plan.inputs().get(input).and_then(|index| u32::try_from(index).ok())
    }

    /// Value indices of the outputs.
    pub(crate) fn output_index(&self, output: usize) -> Option<u32> {
        self.plan.outputs().get(output).and_then(|index| u32::try_from(index).ok())
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.plan.inputs().len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.plan.outputs().len()
    }

    /// What input `index` is.
    pub fn input(&self, index: usize) -> Option<ValueInfo<'a>> {
        self.input_index(index).map(|index| self.info(index))
    }

    /// What output `index` is.
    pub fn output(&self, index: usize) -> Option<ValueInfo<'a>> {
        self.output_index(index).map(|index| self.info(index))
    }

    /// The name of input `index`, if the program has one for it.
    pub fn input_name(&self, index: usize) -> Option<&'a str> {
        self.input_index(index).and_then(|index| self.name_of(index))
    }

    /// The name of output `index`, if the program has one for it.
    pub fn output_name(&self, index: usize) -> Option<&'a str> {
        self.output_index(index).and_then(|index| self.name_of(index))
    }

    /// A tensor's name. One of a tensor with data is where the data are found.
    fn name_of(&self, index: u32) -> Option<&'a str> {
        let KernelTypes::Tensor(tensor) = self.value(index) else { return None };
        let plain = tensor.data_buffer_idx() == 0 && !tensor.is_external();
        tensor.fully_qualified_name().filter(|name| plain && !name.is_empty())
    }

    fn info(&self, index: u32) -> ValueInfo<'a> {
        match self.value(index) {
            KernelTypes::Tensor(tensor) => match (dtype_of(&tensor), shape_of(&tensor)) {
                (Some(dtype), Some(shape)) => {
                    let (dynamic, unbound) = (tensor.is_dynamic(), tensor.is_unbound());
                    ValueInfo::Tensor { dtype, shape, dynamic, unbound }
                }
                _ => ValueInfo::None,
            },
            KernelTypes::Int(value) => ValueInfo::Int(value.int_val()),
            KernelTypes::Double(value) => ValueInfo::Double(value.double_val()),
            KernelTypes::Bool(value) => ValueInfo::Bool(value.bool_val()),
            KernelTypes::String(value) => ValueInfo::Str(value.string_val().unwrap_or("")),
            KernelTypes::None | KernelTypes::Null(_) => ValueInfo::None,
            _ => ValueInfo::List,
        }
    }

    /// Tensor values with their indices.
    fn tensors(&self) -> impl Iterator<Item = (u32, pte::Tensor<'a>)> + use<'a> {
        self.plan.values().iter().zip(0u32..).filter_map(|(value, index)| match value.val() {
            KernelTypes::Tensor(tensor) => Some((index, tensor)),
            _ => None,
        })
    }

    /// Words of its state block.
    pub fn state_words(&self) -> usize {
        let records: usize = self.tensors().map(|(_, tensor)| record_words(tensor.sizes().len())).sum();
        head_words(self.plan.values().len()) + records
    }

    /// Number of arenas, arena 0 included. Those of the file come first; then each tensor that nothing bounds, and that the
    /// file gives no memory, has one of its own.
    pub fn arenas(&self) -> usize {
        self.file_arenas()
            .saturating_add(self.tensors().filter(|(index, tensor)| self.is_homeless(*index, tensor)).count())
    }

    fn file_arenas(&self) -> usize {
        self.plan.non_const_buffer_sizes().len().max(1)
    }

    /// Whether a tensor needs an arena that the file does not count.
    fn is_homeless(&self, index: u32, tensor: &pte::Tensor<'a>) -> bool {
        tensor.is_unbound() && self.needs_memory(index, tensor)
    }

    /// Bytes of arena `id` before the first run; `None` when no machine has that many.
    pub fn arena_bytes(&self, id: usize) -> Option<usize> {
        let mut own = 0usize;
        let mut end = 0usize;
        for (index, tensor) in self.tensors() {
            let nbytes = usize::try_from(tensor.nbytes()).ok()?;
            match tensor.allocation_info() {
                Some(allocation) if usize::try_from(allocation.memory_id()).ok()? == id => {
                    end = end.max(allocation_offset(&allocation)?.checked_add(nbytes)?);
                }
                None if id == 0 && self.needs_memory(index, &tensor) && !tensor.is_unbound() => {
                    own = own.checked_add(nbytes)?.checked_next_multiple_of(ALIGN)?;
                }
                _ => {}
            }
        }
        Some(if id == 0 { own } else { end })
    }

    /// Whether a tensor has neither data nor planned memory nor a caller who brings it.
    fn needs_memory(&self, index: u32, tensor: &pte::Tensor<'a>) -> bool {
        tensor.allocation_info().is_none()
            && tensor.data_buffer_idx() == 0
            && !tensor.is_external()
            && !self.plan.inputs().iter().any(|input| u32::try_from(input) == Ok(index))
    }

    /// Operators that the registry lacks, in file order.
    pub fn missing_operators<'r>(
        &self,
        registry: &'r dyn Registry,
    ) -> impl Iterator<Item = pte::Operator<'a>> + use<'a, 'r> {
        self.plan.operators().iter().filter(|operator| registry.find_kernel(operator).is_none())
    }

    /// Number of operators, i.e. of kernel ids that [`Method::resolve`] fills.
    pub fn operators(&self) -> usize {
        self.plan.operators().len()
    }

    /// Finds the kernel of every operator. `ids` must have [`Method::operators`] elements.
    pub fn resolve(&self, registry: &dyn Registry, ids: &mut [KernelId]) -> Result<(), Error> {
        let mut count = 0;
        for (operator, id) in self.plan.operators().iter().zip(ids) {
            *id = registry.find_kernel(&operator).unwrap_or(KernelId::NONE);
            count += u32::from(*id == KernelId::NONE);
        }
        if count == 0 { Ok(()) } else { Err(Error::MissingOperators { count }) }
    }

    /// Number of delegates.
    pub fn delegates(&self) -> usize {
        self.plan.delegates().len()
    }

    /// The backend that delegate `index` asks for.
    pub fn backend_name(&self, index: usize) -> Option<&'a str> {
        self.plan.delegates().get(index).and_then(|delegate| delegate.id())
    }

    /// Makes delegate `index`. If the backend cannot, it may `explain` why.
    pub fn init_delegate(
        &self,
        index: usize,
        registry: &dyn Registry,
        options: &[RuntimeOption<'_>],
        parallel: &dyn Parallel,
        explain: &dyn Fn(&dyn core::fmt::Display),
    ) -> Result<Owned<dyn Delegate>, Error> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let invalid = Fault::new(Code::InvalidProgram, "the method has no such delegate or no payload for it");
        let invalid = Error::At { site: Site::Delegate(number), fault: invalid };
        let delegate = self.plan.delegates().get(index).ok_or(invalid)?;
        let backend = delegate.id().and_then(|name| registry.find_backend(name));
        let backend = backend.ok_or(Error::BackendNotFound { delegate: number })?;
        if !backend.is_available() {
            return Err(Error::BackendUnavailable { delegate: number });
        }
        let specs = CompileSpecs::of(delegate);
        let (program, method) = (self.program, self.name());
        let init = |bytes, position| {
            let context = InitContext { program, method, options, parallel, explain, position };
            backend.init(&context, bytes, specs).map_err(Error::at(Site::Delegate(number)))
        };
        match program.file().delegate_payload(delegate).ok_or(invalid)? {
            Payload::Inline(bytes) => init(bytes, program.position(bytes)),
            Payload::Segment(range) => {
                let made = init(load(program.loader(), range.clone(), Part::Delegate)?, Some(range.start));
                program.loader().release(range.start, range.end.saturating_sub(range.start));
                made
            }
        }
    }

    /// Fills a state block of [`Method::state_words`] words with the values as the program records them.
    pub fn init_state(&self, words: &mut [u64]) -> Result<(), Error> {
        let available = words.len();
        if available < self.state_words() {
            let text = "the state block has {} words, {} are needed";
            let fault = Fault::new(Code::MemoryAllocationFailed, text).with([available, self.state_words()]);
            return Err(Error::At { site: Site::Method, fault });
        }
        words.fill(0);
        let state = State::new(words);
        let mut at = head_words(self.plan.values().len());
        for (value, index) in self.plan.values().iter().zip(0u32..) {
            let slot = match value.val() {
                KernelTypes::Tensor(tensor) => {
                    let (record, next) = self.init_record(state, at, &tensor).map_err(Error::at(Site::Value(index)))?;
                    at = next;
                    Slot::Tensor(record)
                }
                KernelTypes::Int(value) => Slot::Int(value.int_val()),
                KernelTypes::Double(value) => Slot::Double(value.double_val()),
                KernelTypes::Bool(value) => Slot::Bool(value.bool_val()),
                KernelTypes::None | KernelTypes::Null(_) => Slot::None,
                _ => Slot::Static(index),
            };
            state.set_slot(index as usize, slot);
        }
        self.init_places(state)
    }

    fn init_record(&self, state: State<'_>, at: usize, tensor: &pte::Tensor<'a>) -> Result<(Record, usize), Fault> {
        let broken = Fault::new(Code::InvalidProgram, "the tensor's type or sizes are not valid here");
        let dtype = dtype_of(tensor).ok_or(broken)?;
        let shape = shape_of(tensor).ok_or(broken)?;
        byte_size(dtype, &shape).ok_or(broken)?;
        let dynamism = match (tensor.is_dynamic(), tensor.is_unbound()) {
            (false, _) => Dynamism::Static,
            (true, false) => Dynamism::Bound,
            (true, true) => Dynamism::Unbound,
        };
        Ok(state.add_record(at, dtype, &shape, dynamism, shape.numel().unwrap_or(0)))
    }

    /// Gives every tensor the place that the program means for it.
    pub(crate) fn init_places(&self, state: State<'_>) -> Result<(), Error> {
        let mut own = Own { bytes: 0, arenas: self.file_arenas() };
        for (index, tensor) in self.tensors() {
            let Slot::Tensor(record) = state.slot(index as usize) else { continue };
            let place = self.place(index, &tensor, &mut own).map_err(Error::at(Site::Value(index)))?;
            state.set_place(record, place);
        }
        state.set_freed(false);
        Ok(())
    }

    /// Says in a state block that tensor value `value` begins at `offset` of the folded results.
    pub fn place_folded(&self, words: &mut [u64], value: u32, offset: usize) {
        let state = State::new(words);
        if let Slot::Tensor(record) = state.slot(value as usize) {
            state.set_place(record, Place::Folded(offset));
        }
    }

    /// Where the program means an input to be.
    pub(crate) fn input_place(&self, input: u32) -> Result<Place, Fault> {
        let index = self.input_index(input as usize).unwrap_or(u32::MAX);
        match self.value(index) {
            // An input needs no memory of ours.
            KernelTypes::Tensor(tensor) => self.place(index, &tensor, &mut Own::default()),
            _ => Ok(Place::None),
        }
    }

    fn place(&self, index: u32, tensor: &pte::Tensor<'a>, own: &mut Own) -> Result<Place, Fault> {
        let broken = Fault::new(Code::InvalidProgram, "the tensor's memory is not where a tensor can be");
        if let Some(allocation) = tensor.allocation_info() {
            let id = u16::try_from(allocation.memory_id()).map_err(|_| broken)?;
            return Ok(Place::Arena { id, offset: allocation_offset(&allocation).ok_or(broken)? });
        }
        if tensor.is_external() {
            return self.external_entry(tensor).map(Place::External);
        }
        let constant = tensor.data_buffer_idx();
        if constant > 0 {
            let segment = self.program.constant_offset(constant, tensor.nbytes()).map(Place::Constant);
            return Ok(segment.unwrap_or(Place::Inline(constant)));
        }
        if !self.needs_memory(index, tensor) {
            return Ok(Place::None);
        }
        if tensor.is_unbound() {
            let id = u16::try_from(own.arenas).map_err(|_| broken)?;
            own.arenas += 1;
            return Ok(Place::Arena { id, offset: 0 });
        }
        let offset = own.bytes;
        let nbytes = usize::try_from(tensor.nbytes()).map_err(|_| broken)?;
        own.bytes = offset.checked_add(nbytes).and_then(|end| end.checked_next_multiple_of(ALIGN)).ok_or(broken)?;
        Ok(Place::Arena { id: 0, offset })
    }

    /// The external entry that holds a tensor, checked to be of its type and sizes.
    fn external_entry(&self, tensor: &pte::Tensor<'a>) -> Result<u32, Fault> {
        let name = tensor.extra_tensor_info().and_then(|extra| extra.fully_qualified_name()).unwrap_or("");
        let entry = self.program.external().find(name).ok_or(EXTERNAL_MISSING)?;
        let fits = self.program.external().layout(entry).is_some_and(|layout| {
            layout.scalar_type() == tensor.scalar_type()
                && layout.sizes().iter().eq(tensor.sizes().iter())
                && layout.dim_order().iter().eq(tensor.dim_order().iter())
        });
        let text = "the external data of its name has another type or other sizes; it belongs to another program";
        if fits { Ok(entry) } else { Err(Fault::new(Code::InvalidExternalData, text)) }
    }

    /// Copies the initial values of mutable buffers into their arenas. Arenas are expected to be zero elsewhere.
    pub fn init_arenas(&self, arenas: &mut [Arena<'_>]) -> Result<(), Error> {
        for (index, tensor) in self.tensors() {
            let initial = tensor.is_external() || tensor.data_buffer_idx() > 0;
            let (true, Some(allocation)) = (initial, tensor.allocation_info()) else { continue };
            let at = Error::at(Site::Value(index));
            let broken = Fault::new(Code::InvalidProgram, "the buffer's initial value or memory is not there");
            let target = usize::try_from(allocation.memory_id()).ok().and_then(|id| arenas.get_mut(id));
            let offset = allocation_offset(&allocation);
            let nbytes = usize::try_from(tensor.nbytes()).ok();
            let into = target.zip(offset).zip(nbytes).and_then(|((arena, offset), len)| arena.bytes_mut(offset, len));
            let into = into.ok_or_else(|| at(broken))?;
            if tensor.is_external() {
                let entry = self.external_entry(&tensor).map_err(&at)?;
                let bytes = self.program.external().bytes(entry).and_then(|bytes| bytes.get(..into.len()));
                into.copy_from_slice(bytes.ok_or_else(|| at(broken))?);
            } else {
                let range = self.program.file().mutable_initial(tensor.data_buffer_idx(), tensor.nbytes());
                let loaded = range.and_then(|r| self.program.loader().load_into(r.start, into, Part::Mutable));
                loaded.ok_or_else(|| at(broken))?;
            }
        }
        Ok(())
    }

    /// Words of scratch that the most demanding instruction needs, given a state block fresh from
    /// [`Method::init_state`]. Instructions that regions stand for need none of their own.
    pub fn scratch_words(
        &self,
        words: &mut [u64],
        registry: &dyn Registry,
        kernels: &[KernelId],
        delegates: &[Owned<dyn Delegate>],
        regions: Regions<'_>,
        parallel: &dyn Parallel,
    ) -> usize {
        let state = State::new(words);
        let delegated = |index: Option<usize>, indices| {
            let Some(delegate) = index.and_then(|index| delegates.get(index)) else { return 0 };
            let args = Args { method: *self, indices, state, parallel };
            let inputs = args.len().saturating_sub(delegate.outputs());
            scratch_words(delegate.scratch()).saturating_add(overlap_words(&args, |argument| argument >= inputs))
        };
        let instructions = self.plan.chains().iter().zip(0u32..).flat_map(|(chain, number)| {
            let alone = move |index| number > 0 || !regions.list.iter().any(|r| r.instructions.contains(&index));
            chain.instructions().iter().zip(0u32..).filter(move |(_, index)| alone(*index)).map(|(it, _)| it)
        });
        let needs = instructions.map(|instruction| match instruction.instr_args() {
            InstructionArguments::KernelCall(call) => {
                let id = usize::try_from(call.op_index()).ok().and_then(|index| kernels.get(index));
                let Some(kernel) = id.and_then(|&id| registry.kernel(id)) else { return 0 };
                let args = Args { method: *self, indices: Indices::File(call.args()), state, parallel };
                let own = scratch_words(kernel.scratch(&args));
                own.saturating_add(overlap_words(&args, |argument| {
                    argument < 32 && kernel.writes() >> argument & 1 != 0
                }))
            }
            InstructionArguments::DelegateCall(call) => {
                delegated(usize::try_from(call.delegate_index()).ok(), Indices::File(call.args()))
            }
            _ => 0,
        });
        let own = |region: &crate::Region| delegated(Some(region.delegate), Indices::Region(regions.values(region)));
        needs.chain(regions.list.iter().map(own)).max().unwrap_or(0)
    }
}

/// Words for the claims of a call and for copies of the inputs that share memory with its outputs. Of very many inputs and
/// outputs the last inputs are taken for ones that do.
fn overlap_words(args: &Args<'_>, writes: impl Fn(usize) -> bool) -> usize {
    let count = args.len();
    let state = args.state;
    let range = |record| match state.place(record) {
        Place::Arena { id, offset } => Some((id, offset, offset.saturating_add(state.capacity_bytes(record)))),
        _ => None,
    };
    let written =
        || (0..count).filter(|&i| writes(i)).flat_map(|i| args.records(i).map(|(_, record)| record).filter_map(range));
    let claims: usize = (0..count).filter(|&i| writes(i)).map(|i| args.records(i).count()).sum();
    let mut compared = 0usize;
    let shared = |&record: &Record| {
        compared = compared.saturating_add(claims);
        let meets = |(id, start, end)| written().any(|(i, s, e)| i == id && s < end && start < e);
        range(record).is_some_and(|range| compared > MOST_COMPARED || meets(range))
    };
    let read = (0..count).filter(|&i| !writes(i)).flat_map(|i| args.records(i).map(|(_, record)| record));
    let copies = read.filter(shared).map(|record| scratch_words(state.capacity_bytes(record)));
    let copies = copies.fold(0, usize::saturating_add);
    claims.saturating_mul(CLAIM_WORDS).saturating_add(copies)
}

fn dtype_of(tensor: &pte::Tensor<'_>) -> Option<ScalarType> {
    u8::try_from(tensor.scalar_type()).ok().and_then(ScalarType::from_u8)
}

fn shape_of(tensor: &pte::Tensor<'_>) -> Option<Shape> {
    let mut sizes = [0usize; MAX_RANK];
    let mut order = [0u8; MAX_RANK];
    let rank = tensor.sizes().len();
    let (sizes, order) = (sizes.get_mut(..rank)?, order.get_mut(..rank)?);
    for (slot, size) in sizes.iter_mut().zip(tensor.sizes().iter()) {
        *slot = usize::try_from(size).ok()?;
    }
    for (slot, dim) in order.iter_mut().zip(tensor.dim_order().iter()) {
        *slot = dim;
    }
    Shape::new(sizes, order)
}

fn allocation_offset(allocation: &pte::AllocationDetails<'_>) -> Option<usize> {
    let high = u64::from(allocation.memory_offset_high());
    usize::try_from(high << 32 | u64::from(allocation.memory_offset_low())).ok()
}
