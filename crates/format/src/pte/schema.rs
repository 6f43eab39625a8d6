//! The FlatBuffers tables of a `.pte` file, with the names and ids that its schema gives their fields.

use crate::ScalarType;
use crate::flatbuf::tables;
use core::fmt;
use core::ops::Range;

tables! {
    /// The root: all methods of a file and where its data lies.
    table Program {
        0 version: u32,
        1 execution_plan: [ExecutionPlan],
        /// Constants of old files; newer ones keep them in `constant_segment`.
        2 constant_buffer: [Buffer],
        3 backend_delegate_data: [BackendDelegateInlineData],
        4 segments: [DataSegment],
        5 constant_segment: SubsegmentOffsets,
        6 mutable_data_segments: [SubsegmentOffsets],
        7 named_data: [NamedData],
    }

    /// One method.
    table ExecutionPlan {
        0 name: str,
        1 container_meta_type: ContainerMetadata,
        2 values: [EValue],
        3 inputs: [i32],
        4 outputs: [i32],
        5 chains: [Chain],
        6 operators: [Operator],
        7 delegates: [BackendDelegate],
        /// Bytes of each planned buffer; entry 0 is reserved.
        8 non_const_buffer_sizes: [i64],
        9 non_const_buffer_device: [NonConstBufferDevice],
    }

    /// The device of a planned buffer that is not on the CPU.
    table NonConstBufferDevice { 0 buffer_idx: i32, 1 device_type: i8, 2 device_index: i8 }

    /// How the flat inputs and outputs nest in the original Python call.
    table ContainerMetadata { 0 encoded_inp_str: str, 1 encoded_out_str: str }

    /// A sequence of instructions.
    table Chain { 0 inputs: [i32], 1 outputs: [i32], 2 instructions: [Instruction], 3 stacktrace: [FrameList] }

    /// Where an instruction came from.
    table FrameList { 0 items: [Frame] }
    /// One line of Python source.
    table Frame { 0 filename: str, 1 lineno: i32, 2 name: str, 3 context: str }

    /// One step of a method.
    table Instruction { 0 instr_args: union InstructionArguments }

    /// What an instruction does.
    union InstructionArguments { 1 KernelCall, 2 DelegateCall, 3 MoveCall, 4 JumpFalseCall, 5 FreeCall }

    /// Runs an operator.
    table KernelCall { 0 op_index: i32, 1 args: [i32] }
    /// Runs a delegate.
    table DelegateCall { 0 delegate_index: i32, 1 args: [i32] }
    /// Lets one value stand for another.
    table MoveCall { 0 move_from: i32, 1 move_to: i32 }
    /// Goes elsewhere if a value is false.
    table JumpFalseCall { 0 cond_value_index: i32, 1 destination_instruction: i32 }
    /// Ends the use of a tensor's memory.
    table FreeCall { 0 value_index: i32 }

    /// An operator's name.
    table Operator { 0 name: str, 1 overload: str }

    /// A part of the method that a backend runs.
    table BackendDelegate { 0 id: str, 1 processed: BackendDelegateDataReference, 2 compile_specs: [CompileSpec] }
    /// Where a delegate's payload is: location 0 inline, 1 in a segment.
    table BackendDelegateDataReference { 0 location: i8, 1 index: u32 }
    /// An option that a backend was given at export.
    table CompileSpec { 0 key: str, 1 value: [u8] }
    /// A payload inside the FlatBuffers part.
    table BackendDelegateInlineData { 0 data: [u8] }

    /// A slot of the value table.
    table EValue { 0 val: union KernelTypes }

    /// What a value can be.
    union KernelTypes {
        1 Null, 2 Int, 3 Bool, 4 Double, 5 Tensor, 6 String, 7 IntList, 8 DoubleList, 9 BoolList, 10 TensorList,
        11 OptionalTensorList,
    }

    /// No value.
    table Null {}
    /// An integer.
    table Int { 0 int_val: i64 }
    /// A truth value.
    table Bool { 0 bool_val: bool }
    /// A floating-point number.
    table Double { 0 double_val: f64 }
    /// A string.
    table String { 0 string_val: str }
    /// A list of integers, as *indices of the values* that hold them.
    table IntList { 0 items: [i64] }
    /// A list of numbers, literally.
    table DoubleList { 0 items: [f64] }
    /// A list of truth values, literally.
    table BoolList { 0 items: [bool] }
    /// A list of tensors, as value indices.
    table TensorList { 0 items: [i32] }
    /// A list of tensors, as value indices, with -1 for none.
    table OptionalTensorList { 0 items: [i32] }

    /// A tensor's description.
    table Tensor {
        0 scalar_type: i8,
        1 storage_offset: i32,
        2 sizes: [i32],
        3 dim_order: [u8],
        4 requires_grad: bool,
        5 data_buffer_idx: u32,
        6 allocation_info: AllocationDetails,
        7 layout: i8,
        /// 0 static, 1 bounded by `sizes`, 2 unbounded.
        8 shape_dynamism: i8,
        9 extra_tensor_info: ExtraTensorInfo,
    }

    /// Where planned memory lies.
    table AllocationDetails { 0 memory_id: u32, 1 memory_offset_low: u32, 2 memory_offset_high: u32 }

    /// What only some tensors have.
    table ExtraTensorInfo {
        0 mutable_data_segments_idx: u64,
        1 fully_qualified_name: str,
        /// 0 in this file, 1 external.
        2 location: i8,
        3 device_type: i8,
        4 device_index: i8,
    }

    /// A constant of old files.
    table Buffer { 0 storage: [u8] }
    /// A range of bytes, counted from the header's segment base.
    table DataSegment { 0 offset: u64, 1 size: u64 }
    /// Where things begin in a segment.
    table SubsegmentOffsets { 0 segment_index: u32, 1 offsets: [u64] }
    /// A name for a segment.
    table NamedData { 0 key: str, 1 segment_index: u32 }
}

impl Tensor<'_> {
    /// The element type. (`Byte`, the format's default, on bytes that were not checked.)
    pub fn dtype(self) -> ScalarType {
        ScalarType::from_i8(self.scalar_type()).unwrap_or(ScalarType::Byte)
    }

    /// Number of dimensions.
    pub fn rank(self) -> usize {
        self.sizes().len()
    }

    /// Number of elements; negative sizes count as zero, and what overflows as the largest number.
    pub fn numel(self) -> u64 {
        let sizes = self.sizes();
        let size = |n: i32| u64::try_from(n).unwrap_or(0);
        if sizes.iter().any(|n| n <= 0) { 0 } else { sizes.iter().fold(1, |all: u64, n| all.saturating_mul(size(n))) }
    }

    /// Bytes of all elements, with the same limits as [`Tensor::numel`].
    pub fn nbytes(self) -> u64 {
        self.numel().saturating_mul(u64::try_from(self.dtype().size()).unwrap_or(u64::MAX))
    }

    /// Whether the shape may change.
    pub fn is_dynamic(self) -> bool {
        self.shape_dynamism() != 0
    }

    /// Whether nothing bounds the shape: `sizes` are then what they are at first.
    pub fn is_unbound(self) -> bool {
        self.shape_dynamism() == 2
    }

    /// Where it is planned: the memory's id, and the bytes that it can take there.
    pub fn planned(self) -> Option<(u32, Range<u64>)> {
        let allocation = self.allocation_info()?;
        let start = allocation.offset();
        let end = if self.is_unbound() { Some(u64::MAX) } else { start.checked_add(self.nbytes()) };
        Some((allocation.memory_id(), start..end?))
    }

    /// Whether the data comes from another file, by [`Tensor::fully_qualified_name`].
    pub fn is_external(self) -> bool {
        self.extra_tensor_info().is_some_and(|info| info.location() == 1)
    }

    /// Whether the data is a constant of this file.
    pub fn is_constant(self) -> bool {
        self.data_buffer_idx() > 0 && self.allocation_info().is_none() && !self.is_external()
    }

    /// Whether the tensor lives in planned memory that starts with data of this file.
    pub fn has_initial_state(self) -> bool {
        self.data_buffer_idx() > 0 && self.allocation_info().is_some() && !self.is_external()
    }
}

impl<'a> Tensor<'a> {
    /// The name under which external data is found.
    pub fn fully_qualified_name(self) -> Option<&'a str> {
        self.extra_tensor_info().and_then(ExtraTensorInfo::fully_qualified_name)
    }
}

impl AllocationDetails<'_> {
    /// Byte offset in the planned buffer.
    pub fn offset(self) -> u64 {
        u64::from(self.memory_offset_high()) << 32 | u64::from(self.memory_offset_low())
    }
}

impl<'a> Operator<'a> {
    /// What tells it from others, to be compared with many.
    pub fn full_name(self) -> FullName<'a> {
        FullName { name: self.name().unwrap_or_default(), overload: self.overload().unwrap_or_default() }
    }
}

/// The name of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullName<'a> {
    name: &'a str,
    overload: &'a str,
}

/// Compares with a full name such as `aten::add.out`, or `prim::op` where there is no overload.
impl PartialEq<str> for FullName<'_> {
    fn eq(&self, full_name: &str) -> bool {
        match full_name.strip_prefix(self.name) {
            Some("") => self.overload.is_empty(),
            Some(rest) => !self.overload.is_empty() && rest.strip_prefix('.') == Some(self.overload),
            None => false,
        }
    }
}

/// The full name: `name.overload`, or `name` where there is no overload.
impl fmt::Display for Operator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())?;
        match self.overload() {
            None | Some("") => Ok(()),
            Some(overload) => {
                f.write_str(".")?;
                f.write_str(overload)
            }
        }
    }
}
