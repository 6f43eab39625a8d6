//! From the model to a file, laid out as the official exporter does: constants in the first segment, then initial states,
//! delegate payloads and named data, equal ones shared.

use super::{Bytes, Chain, CompileSpec, Delegate, Frame, Instruction, Memory, Plan, Program, Storage, Tensor, Value};
use crate::FileKind;
use crate::builder::{Builder, Pieces, Segments, Slot, pack, splice};
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

fn index(index: u32) -> Slot {
    Slot::I32(index as i32)
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
            b.table(&[data])
        });
        let segments = self.segments.tables(b);
        b.table(&[
            Slot::U32(program.version),
            plans,
            constant_buffer,
            inline,
            segments,
            constant_segment,
            initial_states,
            named,
        ])
    }

    /// The fields `constant_buffer` and `constant_segment`.
    fn constants(&mut self, program: &'m Program<'_>) -> (Slot, Slot) {
        let b = &mut self.builder;
        if program.inline_constants {
            let placeholder = [Bytes::default()];
            let all: Vec<_> = placeholder.iter().chain(&program.constants).collect();
            let buffers = b.tables(&all, |b, bytes| {
                let storage = b.bytes(bytes, INLINE_ALIGNMENT);
                b.table(&[storage])
            });
            return (buffers, Slot::Absent);
        }
        let (data, offsets) = pack(&program.constants, self.options.constant_alignment);
        let segment = self.segments.push(data, self.options.segment_alignment);
        let offsets = b.scalars(&offsets);
        (b.vector(&[]), b.table(&[Slot::U32(segment), offsets]))
    }

    fn initial_states(&mut self, program: &'m Program<'_>) -> Slot {
        if program.initial_states.is_empty() {
            return Slot::Absent;
        }
        let (data, offsets) = pack(&program.initial_states, 1);
        let segment = self.segments.push(data, self.options.segment_alignment);
        let offsets = self.builder.scalars(&offsets);
        let table = self.builder.table(&[Slot::U32(segment), offsets]);
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
            b.table(&[key, Slot::U32(segment)])
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
            b.table(&[input, output])
        } else {
            Slot::Absent
        };
        let values = b.tables(&plan.values, value);
        let inputs = b.scalars(&signed(&plan.inputs));
        let outputs = b.scalars(&signed(&plan.outputs));
        let chains = b.tables(&plan.chains, chain);
        let operators = b.tables(&plan.operators, |b, operator| {
            let (name, overload) = (b.string(&operator.name), b.string(&operator.overload));
            b.table(&[name, overload])
        });
        let sizes: Vec<_> = plan.buffer_sizes.iter().map(|&size| size as i64).collect();
        let sizes = b.scalars(&sizes);
        let devices = if plan.buffer_devices.is_empty() {
            Slot::Absent
        } else {
            b.tables(&plan.buffer_devices, |b, entry| {
                b.table(&[Slot::I32(entry.buffer), Slot::I8(entry.device.0), Slot::I8(entry.device.1)])
            })
        };
        b.table(&[name, encodings, values, inputs, outputs, chains, operators, delegates, sizes, devices])
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
        let processed = b.table(&[Slot::I8(i8::from(!delegate.inline)), Slot::U32(place)]);
        let specs = b.tables(&delegate.specs, |b, CompileSpec { key, value }| {
            let (key, value) = (b.string(key), b.scalars(value));
            b.table(&[key, value])
        });
        b.table(&[id, processed, specs])
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
            b.table(&[items])
        })
    };
    b.table(&[inputs, outputs, instructions, traces])
}

fn frame(b: &mut Builder, frame: &Frame) -> Slot {
    let filename = b.optional_string(frame.filename.as_deref());
    let name = b.optional_string(frame.name.as_deref());
    let context = b.optional_string(frame.context.as_deref());
    b.table(&[filename, Slot::I32(frame.line), name, context])
}

fn instruction(b: &mut Builder, instruction: &Instruction) -> Slot {
    let (kind, arguments) = match instruction {
        Instruction::Kernel { operator, args } => {
            let args = b.scalars(&signed(args));
            (1, b.table(&[index(*operator), args]))
        }
        Instruction::Delegate { delegate, args } => {
            let args = b.scalars(&signed(args));
            (2, b.table(&[index(*delegate), args]))
        }
        Instruction::Move { from, to } => (3, b.table(&[index(*from), index(*to)])),
        Instruction::JumpFalse { condition, target } => (4, b.table(&[index(*condition), index(*target)])),
        Instruction::Free { value } => (5, b.table(&[index(*value)])),
    };
    b.table(&[Slot::U8(kind), arguments])
}

fn value(b: &mut Builder, value: &Value) -> Slot {
    let (kind, field) = match value {
        Value::Null => (1, Slot::Absent),
        Value::Int(value) => (2, Slot::I64(*value)),
        Value::Bool(value) => (3, Slot::Bool(*value)),
        Value::Double(value) => (4, Slot::F64(*value)),
        Value::Tensor(value) => {
            let tensor = tensor(b, value);
            return b.table(&[Slot::U8(5), tensor]);
        }
        Value::String(value) => (6, b.string(value)),
        Value::IntList(items) => {
            let items: Vec<_> = items.iter().map(|&item| i64::from(item)).collect();
            (7, b.scalars(&items))
        }
        Value::DoubleList(items) => (8, b.scalars(items)),
        Value::BoolList(items) => (9, b.scalars(items)),
        Value::TensorList(items) => (10, b.scalars(&signed(items))),
        Value::OptionalTensorList(items) => {
            let items: Vec<_> = items.iter().map(|item| item.map_or(-1, |item| item as i32)).collect();
            (11, b.scalars(&items))
        }
    };
    let content = b.table(&[field]);
    b.table(&[Slot::U8(kind), content])
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
        b.table(&[Slot::U32(id), Slot::U32(offset as u32), Slot::U32((offset >> 32) as u32)])
    });
    let external = matches!(tensor.storage, Storage::External(_));
    let extra = if external || tensor.name.is_some() || tensor.device != (0, 0) {
        let name = b.optional_string(tensor.name.as_deref());
        let (device, location) = (tensor.device, Slot::I8(i8::from(external)));
        b.table(&[Slot::Absent, name, location, Slot::I8(device.0), Slot::I8(device.1)])
    } else {
        Slot::Absent
    };
    let sizes = b.scalars(&tensor.sizes);
    let dim_order = b.scalars(&tensor.dim_order);
    b.table(&[
        Slot::U8(tensor.dtype.code()),
        Slot::Absent,
        sizes,
        dim_order,
        Slot::Bool(tensor.requires_grad),
        Slot::U32(data),
        allocation,
        Slot::Absent,
        Slot::I8(tensor.dynamism as i8),
        extra,
    ])
}
