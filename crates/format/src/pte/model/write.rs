//! From the model to a file, laid out as the official exporter does: constants in the first segment, then initial states,
//! delegate payloads and named data, equal ones shared.

use super::super::schema;
use super::{Bytes, Chain, CompileSpec, Delegate, Frame, Instruction, Memory, Plan, Program, Storage, Tensor, Value};
use crate::FileKind;
use crate::builder::{Builder, Fields, Pieces, Segments, Slot, pack, splice};
use std::vec::Vec;

/// How a program is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Alignment of every segment in the file; 128 by default.
    pub segment_alignment: usize,
    /// Alignment of every constant in its segment; 16 by default.
    pub constant_alignment: usize,
    /// Whether to write the extended header even if there are no segments to find; not by default.
    pub always_header: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_alignment: 128, constant_alignment: 16, always_header: false }
    }
}

/// Alignment of byte vectors in the FlatBuffers part.
const INLINE_ALIGNMENT: usize = 16;

impl Program<'_> {
    /// The program as a file. Indices are written as they are: whether they make sense, [`Program::read`] says.
    pub fn write(&self) -> Vec<u8> {
        self.write_with(Options::default())
    }

    /// The program as a file with a layout of choice. Alignments must not be 0.
    pub fn write_with(&self, options: Options) -> Vec<u8> {
        let mut writer = Writer { builder: Builder::new(), segments: Segments::default(), inline: Vec::new(), options };
        let root = writer.program(self);
        let Writer { builder, segments, .. } = writer;
        let flatbuffer = builder.finish(root, FileKind::Program.identifier());
        if segments.data.len() == 0 && !options.always_header {
            return flatbuffer;
        }
        assemble(&flatbuffer, &segments.data, options.segment_alignment)
    }
}

/// Header, FlatBuffers part and segments.
fn assemble(flatbuffer: &[u8], segments: &Pieces<'_>, alignment: usize) -> Vec<u8> {
    const HEADER: usize = 32;
    let program_size = flatbuffer.len() + HEADER;
    let base = if segments.len() == 0 { 0 } else { program_size.next_multiple_of(alignment) };
    let mut header = Vec::from(*b"eh00");
    header.extend_from_slice(&(HEADER as u32).to_le_bytes());
    for number in [program_size, base, segments.len()] {
        header.extend_from_slice(&(number as u64).to_le_bytes());
    }
    let mut file = splice(flatbuffer, &header);
    if segments.len() > 0 {
        segments.write(&mut file, base);
    }
    file
}

struct Writer<'m> {
    builder: Builder,
    segments: Segments<'m>,
    /// Payloads in the FlatBuffers part.
    inline: Vec<&'m [u8]>,
    options: Options,
}

/// Indices as the format stores them.
fn signed(indices: &[u32]) -> Vec<i32> {
    indices.iter().map(|&index| index as i32).collect()
}

fn subsegments(segment: u32, offsets: Slot) -> Fields<schema::SubsegmentOffsets<'static>> {
    schema::SubsegmentOffsets::fields().segment_index(segment).offsets(offsets)
}

impl<'m> Writer<'m> {
    fn program(&mut self, program: &'m Program<'_>) -> Slot {
        let (constant_buffer, constant_segment) = self.constants(program);
        let initial_states = self.initial_states(program);
        let plans: Vec<_> = program.plans.iter().map(|plan| self.plan(plan)).collect();
        let plans = self.builder.vector(&plans);
        let named = self.named_data(program);
        let b = &mut self.builder;
        let inline = b.tables(&self.inline, |b, bytes| {
            let data = b.bytes(bytes, INLINE_ALIGNMENT);
            schema::BackendDelegateInlineData::fields().data(data).write(b)
        });
        let segment = |offset, size| schema::DataSegment::fields().offset(offset).size(size);
        let segments = self.segments.tables(b, segment);
        schema::Program::fields()
            .version(program.version)
            .execution_plan(plans)
            .constant_buffer(constant_buffer)
            .backend_delegate_data(inline)
            .segments(segments)
            .constant_segment(constant_segment)
            .mutable_data_segments(initial_states)
            .named_data(named)
            .write(b)
    }

    /// The fields `constant_buffer` and `constant_segment`.
    fn constants(&mut self, program: &'m Program<'_>) -> (Slot, Slot) {
        let b = &mut self.builder;
        if program.inline_constants {
            let placeholder = [Bytes::default()];
            let all: Vec<_> = placeholder.iter().chain(&program.constants).collect();
            let buffers = b.tables(&all, |b, bytes| {
                let storage = b.bytes(bytes, INLINE_ALIGNMENT);
                schema::Buffer::fields().storage(storage).write(b)
            });
            return (buffers, Slot::Absent);
        }
        let (data, offsets) = pack(&program.constants, self.options.constant_alignment);
        let segment = self.segments.push(data, self.options.segment_alignment);
        let offsets = b.scalars(&offsets);
        (b.vector(&[]), subsegments(segment, offsets).write(b))
    }

    fn initial_states(&mut self, program: &'m Program<'_>) -> Slot {
        if program.initial_states.is_empty() {
            return Slot::Absent;
        }
        let (data, offsets) = pack(&program.initial_states, 1);
        let segment = self.segments.push(data, self.options.segment_alignment);
        let offsets = self.builder.scalars(&offsets);
        let table = subsegments(segment, offsets).write(&mut self.builder);
        self.builder.vector(&[table])
    }

    fn named_data(&mut self, program: &'m Program<'_>) -> Slot {
        if program.named_data.is_empty() {
            return Slot::Absent;
        }
        let (segments, alignment) = (&mut self.segments, self.options.segment_alignment);
        self.builder.tables(&program.named_data, |b, named| {
            let segment = segments.share(&named.data, alignment);
            let key = b.string(&named.key);
            schema::NamedData::fields().key(key).segment_index(segment).write(b)
        })
    }

    fn plan(&mut self, plan: &'m Plan<'_>) -> Slot {
        let delegates: Vec<_> = plan.delegates.iter().map(|delegate| self.delegate(delegate)).collect();
        let b = &mut self.builder;
        let delegates = b.vector(&delegates);
        let name = b.string(&plan.name);
        let encodings = if plan.input_encoding.is_some() || plan.output_encoding.is_some() {
            let input = b.optional_string(plan.input_encoding.as_deref());
            let output = b.optional_string(plan.output_encoding.as_deref());
            schema::ContainerMetadata::fields().encoded_inp_str(input).encoded_out_str(output).write(b)
        } else {
            Slot::Absent
        };
        let values = b.tables(&plan.values, value);
        let inputs = b.scalars(&signed(&plan.inputs));
        let outputs = b.scalars(&signed(&plan.outputs));
        let chains = b.tables(&plan.chains, chain);
        let operators = b.tables(&plan.operators, |b, operator| {
            let (name, overload) = (b.string(&operator.name), b.string(&operator.overload));
            schema::Operator::fields().name(name).overload(overload).write(b)
        });
        let sizes: Vec<_> = plan.buffer_sizes.iter().map(|&size| size as i64).collect();
        let sizes = b.scalars(&sizes);
        let devices = if plan.buffer_devices.is_empty() {
            Slot::Absent
        } else {
            b.tables(&plan.buffer_devices, |b, entry| {
                let (kind, index) = entry.device;
                let device = schema::NonConstBufferDevice::fields().buffer_idx(entry.buffer);
                device.device_type(kind).device_index(index).write(b)
            })
        };
        schema::ExecutionPlan::fields()
            .name(name)
            .container_meta_type(encodings)
            .values(values)
            .inputs(inputs)
            .outputs(outputs)
            .chains(chains)
            .operators(operators)
            .delegates(delegates)
            .non_const_buffer_sizes(sizes)
            .non_const_buffer_device(devices)
            .write(b)
    }

    fn delegate(&mut self, delegate: &'m Delegate<'_>) -> Slot {
        let payload = &*delegate.payload;
        let place = if delegate.inline {
            let known = self.inline.iter().position(|known| *known == payload);
            known.unwrap_or_else(|| {
                self.inline.push(payload);
                self.inline.len() - 1
            }) as u32
        } else {
            self.segments.share(payload, self.options.segment_alignment)
        };
        let b = &mut self.builder;
        let id = b.string(&delegate.backend);
        let location = i8::from(!delegate.inline);
        let processed = schema::BackendDelegateDataReference::fields().location(location).index(place).write(b);
        let specs = b.tables(&delegate.specs, |b, CompileSpec { key, value }| {
            let (key, value) = (b.string(key), b.scalars(value));
            schema::CompileSpec::fields().key(key).value(value).write(b)
        });
        schema::BackendDelegate::fields().id(id).processed(processed).compile_specs(specs).write(b)
    }
}

fn chain(b: &mut Builder, chain: &Chain) -> Slot {
    let (inputs, outputs) = (b.scalars::<i32>(&[]), b.scalars::<i32>(&[]));
    let instructions = b.tables(&chain.instructions, instruction);
    let traces = if chain.stack_traces.is_empty() {
        Slot::Absent
    } else {
        b.tables(&chain.stack_traces, |b, frames| {
            let items = b.tables(frames, frame);
            schema::FrameList::fields().items(items).write(b)
        })
    };
    let chain = schema::Chain::fields().inputs(inputs).outputs(outputs);
    chain.instructions(instructions).stacktrace(traces).write(b)
}

fn frame(b: &mut Builder, frame: &Frame) -> Slot {
    let filename = b.optional_string(frame.filename.as_deref());
    let name = b.optional_string(frame.name.as_deref());
    let context = b.optional_string(frame.context.as_deref());
    schema::Frame::fields().filename(filename).lineno(frame.line).name(name).context(context).write(b)
}

fn instruction(b: &mut Builder, instruction: &Instruction) -> Slot {
    use schema::InstructionArguments as Arguments;
    let whole = schema::Instruction::fields();
    let signed = |index: u32| index as i32;
    match instruction {
        Instruction::Kernel { operator, args } => {
            let args = b.scalars(&self::signed(args));
            let call = schema::KernelCall::fields().op_index(signed(*operator)).args(args).write(b);
            whole.instr_args(Arguments::KernelCall, call)
        }
        Instruction::Delegate { delegate, args } => {
            let args = b.scalars(&self::signed(args));
            let call = schema::DelegateCall::fields().delegate_index(signed(*delegate)).args(args).write(b);
            whole.instr_args(Arguments::DelegateCall, call)
        }
        Instruction::Move { from, to } => {
            let call = schema::MoveCall::fields().move_from(signed(*from)).move_to(signed(*to)).write(b);
            whole.instr_args(Arguments::MoveCall, call)
        }
        Instruction::JumpFalse { condition, target } => {
            let call = schema::JumpFalseCall::fields().cond_value_index(signed(*condition));
            let call = call.destination_instruction(signed(*target)).write(b);
            whole.instr_args(Arguments::JumpFalseCall, call)
        }
        Instruction::Free { value } => {
            let call = schema::FreeCall::fields().value_index(signed(*value)).write(b);
            whole.instr_args(Arguments::FreeCall, call)
        }
    }
    .write(b)
}

fn value(b: &mut Builder, value: &Value) -> Slot {
    use schema::KernelTypes as Types;
    let whole = schema::EValue::fields();
    match value {
        Value::Null => whole.val(Types::Null, schema::Null::fields().write(b)),
        Value::Int(value) => whole.val(Types::Int, schema::Int::fields().int_val(*value).write(b)),
        Value::Bool(value) => whole.val(Types::Bool, schema::Bool::fields().bool_val(*value).write(b)),
        Value::Double(value) => whole.val(Types::Double, schema::Double::fields().double_val(*value).write(b)),
        Value::Tensor(value) => whole.val(Types::Tensor, tensor(b, value)),
        Value::String(value) => {
            let text = b.string(value);
            whole.val(Types::String, schema::String::fields().string_val(text).write(b))
        }
        Value::IntList(items) => {
            let items: Vec<_> = items.iter().map(|&item| i64::from(item)).collect();
            let items = b.scalars(&items);
            whole.val(Types::IntList, schema::IntList::fields().items(items).write(b))
        }
        Value::DoubleList(items) => {
            let items = b.scalars(items);
            whole.val(Types::DoubleList, schema::DoubleList::fields().items(items).write(b))
        }
        Value::BoolList(items) => {
            let items = b.scalars(items);
            whole.val(Types::BoolList, schema::BoolList::fields().items(items).write(b))
        }
        Value::TensorList(items) => {
            let items = b.scalars(&signed(items));
            whole.val(Types::TensorList, schema::TensorList::fields().items(items).write(b))
        }
        Value::OptionalTensorList(items) => {
            let items: Vec<_> = items.iter().map(|item| item.map_or(-1, |item| item as i32)).collect();
            let items = b.scalars(&items);
            whole.val(Types::OptionalTensorList, schema::OptionalTensorList::fields().items(items).write(b))
        }
    }
    .write(b)
}

fn tensor(b: &mut Builder, tensor: &Tensor) -> Slot {
    let (data, memory) = match tensor.storage {
        Storage::Unplanned => (0, None),
        Storage::Planned(memory) => (0, Some(memory)),
        Storage::Constant(constant) => (constant.saturating_add(1), None),
        Storage::Initialised(memory, state) => (state.saturating_add(1), Some(memory)),
        Storage::External(memory) => (0, memory),
    };
    let allocation = memory.map_or(Slot::Absent, |Memory { id, offset }| {
        let place = schema::AllocationDetails::fields().memory_id(id);
        place.memory_offset_low(offset as u32).memory_offset_high((offset >> 32) as u32).write(b)
    });
    let extra = extra(b, tensor);
    let sizes = b.scalars(&tensor.sizes);
    let dim_order = b.scalars(&tensor.dim_order);
    schema::Tensor::fields()
        .scalar_type(tensor.dtype.code() as i8)
        .sizes(sizes)
        .dim_order(dim_order)
        .requires_grad(tensor.requires_grad)
        .data_buffer_idx(data)
        .allocation_info(allocation)
        .shape_dynamism(tensor.dynamism as i8)
        .extra_tensor_info(extra)
        .write(b)
}

/// What only some tensors have.
fn extra(b: &mut Builder, tensor: &Tensor) -> Slot {
    let external = matches!(tensor.storage, Storage::External(_));
    if !external && tensor.name.is_none() && tensor.device == (0, 0) {
        return Slot::Absent;
    }
    let name = b.optional_string(tensor.name.as_deref());
    let (kind, index) = tensor.device;
    let extra = schema::ExtraTensorInfo::fields().fully_qualified_name(name).location(i8::from(external));
    extra.device_type(kind).device_index(index).write(b)
}
