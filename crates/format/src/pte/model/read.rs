//! From a checked file to the model.

use super::{
    BufferDevice, Bytes, Chain, CompileSpec, Delegate, Dynamism, Frame, Instruction, Memory, NamedData, Operator, Plan,
    Program, Storage, Tensor, Value,
};
use crate::Error;
use crate::pte::{self, File, HEAD_BYTES, Header, InstructionArguments, KernelTypes, Payload};
use core::ops::Range;
use std::borrow::ToOwned;
use std::string::String;
use std::vec::Vec;

impl<'a> Program<'a> {
    /// Reads and checks a whole program file.
    pub fn read(bytes: &'a [u8]) -> Result<Program<'a>, Error> {
        let file_size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let header = Header::parse(bytes.get(..HEAD_BYTES).unwrap_or(bytes), file_size)?;
        let source = Source { bytes, file: File::parse(bytes, header, file_size)? };
        Ok(source.program())
    }
}

/// An index that was checked to be valid, hence not negative.
fn index(found: impl TryInto<u32>) -> u32 {
    found.try_into().unwrap_or_default()
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(ToOwned::to_owned)
}

fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

struct Source<'a> {
    bytes: &'a [u8],
    file: File<'a>,
}

impl<'a> Source<'a> {
    /// The bytes of a range of the file; none where the file has none.
    fn slice(&self, range: Option<Range<u64>>) -> Bytes<'a> {
        let find =
            |range: Range<u64>| self.bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?);
        Bytes::Borrowed(range.and_then(find).unwrap_or_default())
    }

    fn program(&self) -> Program<'a> {
        let root = self.file.program();
        let inside = root.constant_segment().map_or(0, |segment| segment.offsets().len());
        let states = root.mutable_data_segments().get(0).map_or(0, |segment| segment.offsets().len());
        let inline_constants = inside <= 1 && root.constant_buffer().len() > 1;
        let count = inside.max(root.constant_buffer().len());
        let (constant_sizes, state_sizes) = self.used(count, states);
        let constant = |(at, &size): (usize, &u64)| match inline_constants {
            true => Bytes::Borrowed(self.file.inline_constant(index(at)).unwrap_or_default()),
            false => self.slice(self.file.constant(index(at), size)),
        };
        let state = |(at, &size): (usize, &u64)| self.slice(self.file.mutable_initial(index(at), size));
        Program {
            version: root.version(),
            plans: root.execution_plan().iter().map(|plan| self.plan(plan)).collect(),
            constants: constant_sizes.iter().enumerate().skip(1).map(constant).collect(),
            inline_constants,
            initial_states: state_sizes.iter().enumerate().skip(1).map(state).collect(),
            named_data: root.named_data().iter().map(|named| self.named(named)).collect(),
        }
    }

    fn named(&self, named: pte::NamedData<'a>) -> NamedData<'a> {
        NamedData { key: text(named.key()), data: self.slice(self.file.segment(named.segment_index())) }
    }

    /// How many bytes tensors use of each constant and of each initial state: the file does not say.
    fn used(&self, constants: usize, states: usize) -> (Vec<u64>, Vec<u64>) {
        let mut used = (std::vec![0; constants], std::vec![0; states]);
        let values = self.file.program().execution_plan();
        for value in values.iter().flat_map(|plan| plan.values().iter()) {
            let KernelTypes::Tensor(tensor) = value.val() else { continue };
            let sizes = if tensor.is_constant() {
                &mut used.0
            } else if tensor.has_initial_state() {
                &mut used.1
            } else {
                continue;
            };
            let entry: Option<&mut u64> =
                usize::try_from(tensor.data_buffer_idx()).ok().and_then(|at| sizes.get_mut(at));
            if let Some(size) = entry {
                *size = tensor.nbytes().max(*size);
            }
        }
        used
    }

    fn plan(&self, plan: pte::ExecutionPlan<'a>) -> Plan<'a> {
        let encodings = plan.container_meta_type();
        Plan {
            name: text(plan.name()),
            input_encoding: owned(encodings.and_then(|e| e.encoded_inp_str())),
            output_encoding: owned(encodings.and_then(|e| e.encoded_out_str())),
            values: plan.values().iter().map(|value| self::value(value.val())).collect(),
            inputs: plan.inputs().iter().map(index).collect(),
            outputs: plan.outputs().iter().map(index).collect(),
            chains: plan.chains().iter().map(chain).collect(),
            operators: plan.operators().iter().map(operator).collect(),
            delegates: plan.delegates().iter().map(|delegate| self.delegate(delegate)).collect(),
            buffer_sizes: plan.non_const_buffer_sizes().iter().map(|size| u64::try_from(size).unwrap_or(0)).collect(),
            buffer_devices: plan.non_const_buffer_device().iter().map(buffer_device).collect(),
        }
    }

    fn delegate(&self, delegate: pte::BackendDelegate<'a>) -> Delegate<'a> {
        let (payload, inline) = match self.file.delegate_payload(delegate) {
            Some(Payload::Inline(bytes)) => (Bytes::Borrowed(bytes), true),
            Some(Payload::Segment(range)) => (self.slice(Some(range)), false),
            None => (Bytes::default(), false),
        };
        let spec =
            |spec: pte::CompileSpec<'_>| CompileSpec { key: text(spec.key()), value: spec.value().bytes().to_vec() };
        let specs = delegate.compile_specs().iter().map(spec).collect();
        Delegate { backend: text(delegate.id()), payload, inline, specs }
    }
}

fn operator(operator: pte::Operator<'_>) -> Operator {
    Operator { name: text(operator.name()), overload: text(operator.overload()) }
}

fn buffer_device(entry: pte::NonConstBufferDevice<'_>) -> BufferDevice {
    BufferDevice { buffer: entry.buffer_idx(), device: (entry.device_type(), entry.device_index()) }
}

fn chain(chain: pte::Chain<'_>) -> Chain {
    let trace = |list: pte::FrameList<'_>| list.items().iter().map(frame).collect();
    Chain {
        instructions: chain.instructions().iter().filter_map(|step| instruction(step.instr_args())).collect(),
        stack_traces: chain.stacktrace().iter().map(trace).collect(),
    }
}

fn frame(frame: pte::Frame<'_>) -> Frame {
    Frame {
        filename: owned(frame.filename()),
        line: frame.lineno(),
        name: owned(frame.name()),
        context: owned(frame.context()),
    }
}

fn instruction(arguments: InstructionArguments<'_>) -> Option<Instruction> {
    Some(match arguments {
        InstructionArguments::None => return None,
        InstructionArguments::KernelCall(call) => {
            Instruction::Kernel { operator: index(call.op_index()), args: call.args().iter().map(index).collect() }
        }
        InstructionArguments::DelegateCall(call) => {
            let args = call.args().iter().map(index).collect();
            Instruction::Delegate { delegate: index(call.delegate_index()), args }
        }
        InstructionArguments::MoveCall(call) => {
            Instruction::Move { from: index(call.move_from()), to: index(call.move_to()) }
        }
        InstructionArguments::JumpFalseCall(call) => Instruction::JumpFalse {
            condition: index(call.cond_value_index()),
            target: index(call.destination_instruction()),
        },
        InstructionArguments::FreeCall(call) => Instruction::Free { value: index(call.value_index()) },
    })
}

fn value(value: KernelTypes<'_>) -> Value {
    match value {
        KernelTypes::None | KernelTypes::Null(_) => Value::Null,
        KernelTypes::Int(int) => Value::Int(int.int_val()),
        KernelTypes::Bool(bool) => Value::Bool(bool.bool_val()),
        KernelTypes::Double(double) => Value::Double(double.double_val()),
        KernelTypes::Tensor(tensor) => Value::Tensor(self::tensor(tensor)),
        KernelTypes::String(string) => Value::String(text(string.string_val())),
        KernelTypes::IntList(list) => Value::IntList(list.items().iter().map(index).collect()),
        KernelTypes::DoubleList(list) => Value::DoubleList(list.items().iter().collect()),
        KernelTypes::BoolList(list) => Value::BoolList(list.items().iter().collect()),
        KernelTypes::TensorList(list) => Value::TensorList(list.items().iter().map(index).collect()),
        KernelTypes::OptionalTensorList(list) => {
            Value::OptionalTensorList(list.items().iter().map(|item| u32::try_from(item).ok()).collect())
        }
    }
}

fn tensor(tensor: pte::Tensor<'_>) -> Tensor {
    let memory = tensor.allocation_info().map(|info| Memory { id: info.memory_id(), offset: info.offset() });
    let storage = match (tensor.data_buffer_idx().checked_sub(1), memory) {
        (_, memory) if tensor.is_external() => Storage::External(memory),
        (None, None) => Storage::Unplanned,
        (None, Some(memory)) => Storage::Planned(memory),
        (Some(constant), None) => Storage::Constant(constant),
        (Some(state), Some(memory)) => Storage::Initialised(memory, state),
    };
    Tensor {
        dtype: tensor.dtype(),
        sizes: tensor.sizes().iter().collect(),
        dim_order: tensor.dim_order().bytes().to_vec(),
        dynamism: match (tensor.is_dynamic(), tensor.is_unbound()) {
            (false, _) => Dynamism::Static,
            (true, false) => Dynamism::Bound,
            (true, true) => Dynamism::Unbound,
        },
        requires_grad: tensor.requires_grad(),
        storage,
        name: owned(tensor.fully_qualified_name()),
        device: tensor.extra_tensor_info().map_or((0, 0), |info| (info.device_type(), info.device_index())),
    }
}
