//! The rules of a program beyond those of FlatBuffers: indices are in range, segments lie inside the file, tensors have
//! known types and bounded sizes. `File::parse` checks them once; everything that later indexes a value table, a segment or
//! an instruction list relies on it.
//!
//! Planned memory is not held against the declared buffer sizes: exporters are known to declare too little, and the
//! runtime sizes its arenas from the tensors.

use super::{
    BackendDelegate, Chain, ExecutionPlan, File, Instruction, InstructionArguments, KernelTypes, MAX_RANK, Tensor,
};
use crate::flatbuf::Scalars;
use crate::{Error, Place, Rule, ScalarType};

type Checked = Result<(), Error>;

/// The payloads of a method's delegates may have `MOST_SHARED` times the bytes of the file together, or `FEW_SHARED` bytes.
/// Delegates share payloads that are equal, but each is imported for itself.
const MOST_SHARED: u64 = 16;
const FEW_SHARED: u64 = 64 << 20;
/// The lists that a method's calls name may have as many items together as the file has bytes, or `FEW_LISTED`. Calls share
/// lists, but each reads all items for itself.
const FEW_LISTED: u64 = 1 << 20;

/// Positions in messages; files cannot hold more than 32 bits' worth of anything.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

pub(crate) fn ensure(holds: bool, place: Place, rule: Rule) -> Checked {
    if holds { Ok(()) } else { Err(Error::broken(place, rule)) }
}

/// Checks that an index from a file is below `len`.
pub(crate) fn index(place: Place, rule: Rule, found: i64, len: usize) -> Checked {
    match usize::try_from(found) {
        Ok(found) if found < len => Ok(()),
        _ => Err(Error::invalid(place, rule, found, len)),
    }
}

fn indices(place: Place, rule: Rule, found: Scalars<'_, i32>, len: usize) -> Checked {
    found.iter().try_for_each(|found| index(place, rule, i64::from(found), len))
}

pub(super) fn check(file: File<'_>, file_size: u64) -> Checked {
    let program = file.program();
    segments(file, file_size)?;
    for (i, named) in program.named_data().iter().enumerate() {
        let place = Place::NamedData(number(i));
        ensure(named.key().is_some(), place, Rule::KeyMissing)?;
        index(place, Rule::SegmentIndex, i64::from(named.segment_index()), program.segments().len())?;
    }
    ensure(program.execution_plan().is_present(), Place::File, Rule::PlansMissing)?;
    program.execution_plan().iter().enumerate().try_for_each(|(i, plan)| method(file, plan, number(i), file_size))
}

fn segments(file: File<'_>, file_size: u64) -> Checked {
    let program = file.program();
    let count = program.segments().len();
    for (i, segment) in program.segments().iter().enumerate() {
        let place = Place::Segment(number(i));
        if segment.size() > 0 && file.header().segment_base == 0 {
            return Err(Error::invalid(place, Rule::SegmentUnreachable, segment.size(), 0));
        }
        let end = file.segment(number(i)).map_or(u64::MAX, |range| range.end);
        if end > file_size {
            return Err(Error::invalid(place, Rule::SegmentOutside, end, file_size));
        }
    }
    if let Some(constants) = program.constant_segment() {
        let (inside, inline) = (constants.offsets().len(), program.constant_buffer().len());
        if inside > 1 && inline > 0 {
            return Err(Error::invalid(Place::File, Rule::ConstantsTwice, inside, inline));
        }
        if inside > 1 {
            index(Place::File, Rule::SegmentIndex, i64::from(constants.segment_index()), count)?;
        }
    }
    for states in program.mutable_data_segments().iter() {
        index(Place::File, Rule::SegmentIndex, i64::from(states.segment_index()), count)?;
    }
    Ok(())
}

fn method(file: File<'_>, plan: ExecutionPlan<'_>, method: u32, file_size: u64) -> Checked {
    let place = Place::Method(method);
    ensure(plan.name().is_some(), place, Rule::NameMissing)?;
    ensure(plan.values().is_present(), place, Rule::ValuesMissing)?;
    ensure(plan.inputs().is_present(), place, Rule::InputsMissing)?;
    ensure(plan.outputs().is_present(), place, Rule::OutputsMissing)?;
    ensure(plan.non_const_buffer_sizes().is_present(), place, Rule::BufferSizesMissing)?;
    ensure(plan.delegates().is_present(), place, Rule::DelegatesMissing)?;
    ensure(!plan.chains().is_empty(), place, Rule::ChainsMissing)?;
    let count = plan.values().len();
    indices(place, Rule::InputIndex, plan.inputs(), count)?;
    indices(place, Rule::OutputIndex, plan.outputs(), count)?;
    if let Some(size) = plan.non_const_buffer_sizes().iter().find(|size| *size < 0) {
        return Err(Error::invalid(place, Rule::BufferSizeNegative, size, 0));
    }
    for (i, operator) in plan.operators().iter().enumerate() {
        let place = Place::Operator { method, operator: number(i) };
        ensure(operator.name().is_some(), place, Rule::NameMissing)?;
    }
    for value in 0..count {
        self::value(file, plan, value, Place::Value { method, value: number(value) })?;
    }
    let mut payloads = 0u64;
    for (i, delegate) in plan.delegates().iter().enumerate() {
        self::delegate(file, delegate, Place::Delegate { method, delegate: number(i) })?;
        payloads = payloads.saturating_add(file.delegate_payload(delegate).map_or(0, |payload| payload.len()));
    }
    let most = file_size.saturating_mul(MOST_SHARED).max(FEW_SHARED);
    if payloads > most {
        return Err(Error::invalid(place, Rule::PayloadsShared, payloads, most));
    }
    plan.chains().iter().enumerate().try_for_each(|(i, chain)| instructions(plan, chain, method, number(i)))?;
    lists(plan, place, file_size.max(FEW_LISTED))
}

/// Holds what calls name by lists against the most that it may be.
fn lists(plan: ExecutionPlan<'_>, place: Place, most: u64) -> Checked {
    let length = |value: usize| match plan.values().get(value).map(|value| value.val()) {
        Some(KernelTypes::IntList(list)) => list.items().len(),
        Some(KernelTypes::TensorList(list)) => list.items().len(),
        Some(KernelTypes::OptionalTensorList(list)) => list.items().len(),
        _ => 0,
    };
    let calls = || plan.chains().iter().flat_map(|chain| chain.instructions().iter()).map(arguments);
    let longest = (0..plan.values().len()).map(length).max().unwrap_or(0) as u64;
    let named = calls().fold(0, |named: u64, args| named.saturating_add(args.len() as u64));
    if longest.saturating_mul(named) <= most {
        return Ok(());
    }
    let lengths = calls().flat_map(|args| args.iter()).filter_map(|value| usize::try_from(value).ok()).map(length);
    match lengths.fold(0, |items: u64, length| items.saturating_add(length as u64)) {
        items if items > most => Err(Error::invalid(place, Rule::ListsShared, items, most)),
        _ => Ok(()),
    }
}

/// The values that a call names; none if the instruction is no call.
fn arguments(instruction: Instruction<'_>) -> Scalars<'_, i32> {
    match instruction.instr_args() {
        InstructionArguments::KernelCall(call) => call.args(),
        InstructionArguments::DelegateCall(call) => call.args(),
        _ => Scalars::over(&[]),
    }
}

fn delegate(file: File<'_>, delegate: BackendDelegate<'_>, place: Place) -> Checked {
    ensure(delegate.id().is_some(), place, Rule::BackendIdMissing)?;
    let reference = delegate.processed().ok_or_else(|| Error::broken(place, Rule::PayloadReferenceMissing))?;
    let (rule, len) = match reference.location() {
        0 => (Rule::InlinePayload, file.program().backend_delegate_data().len()),
        1 => (Rule::SegmentIndex, file.program().segments().len()),
        other => return Err(Error::invalid(place, Rule::LocationUnknown, other, 1)),
    };
    index(place, rule, i64::from(reference.index()), len)
}

fn instructions(plan: ExecutionPlan<'_>, steps: Chain<'_>, method: u32, chain: u32) -> Checked {
    let values = plan.values().len();
    for (i, instruction) in steps.instructions().iter().enumerate() {
        let place = Place::Instruction { method, chain, instruction: number(i) };
        let arguments = instruction.instr_args();
        if !arguments.table().is_present() {
            return Err(Error::invalid(place, Rule::InstructionEmpty, arguments.code(), 0));
        }
        let argument = |found: i32| index(place, Rule::ArgumentIndex, i64::from(found), values);
        match arguments {
            InstructionArguments::None => {}
            InstructionArguments::KernelCall(call) => {
                index(place, Rule::OperatorIndex, i64::from(call.op_index()), plan.operators().len())?;
                indices(place, Rule::ArgumentIndex, call.args(), values)?;
            }
            InstructionArguments::DelegateCall(call) => {
                index(place, Rule::DelegateIndex, i64::from(call.delegate_index()), plan.delegates().len())?;
                indices(place, Rule::ArgumentIndex, call.args(), values)?;
            }
            InstructionArguments::MoveCall(call) => {
                argument(call.move_from())?;
                argument(call.move_to())?;
            }
            InstructionArguments::JumpFalseCall(call) => {
                argument(call.cond_value_index())?;
                let (target, len) = (i64::from(call.destination_instruction()), steps.instructions().len());
                // One past the last instruction is the end of the chain.
                index(place, Rule::JumpTarget, target, len.saturating_add(1))
                    .map_err(|_| Error::invalid(place, Rule::JumpTarget, target, len))?;
            }
            InstructionArguments::FreeCall(call) => argument(call.value_index())?,
        }
    }
    Ok(())
}

fn value(file: File<'_>, plan: ExecutionPlan<'_>, at: usize, place: Place) -> Checked {
    let values = plan.values();
    let Some(val) = values.get(at).map(|value| value.val()) else {
        return Ok(());
    };
    if !val.table().is_present() && !matches!(val, KernelTypes::Null(_)) {
        return Err(Error::invalid(place, Rule::PayloadMissing, val.code(), 0));
    }
    match val {
        KernelTypes::Tensor(tensor) => self::tensor(file, plan, tensor, place),
        KernelTypes::IntList(list) => {
            list.items().iter().try_for_each(|item| index(place, Rule::ListIndex, item, values.len()))
        }
        KernelTypes::TensorList(list) => tensor_list(plan, list.items(), at, place, false),
        KernelTypes::OptionalTensorList(list) => tensor_list(plan, list.items(), at, place, true),
        _ => Ok(()),
    }
}

fn tensor_list(plan: ExecutionPlan<'_>, items: Scalars<'_, i32>, at: usize, place: Place, optional: bool) -> Checked {
    for item in items.iter() {
        if optional && item == -1 {
            continue;
        }
        index(place, Rule::ListIndex, i64::from(item), plan.values().len())?;
        let value = usize::try_from(item).ok().and_then(|item| plan.values().get(item));
        match value.map(|value| value.val()) {
            Some(KernelTypes::Null(_)) if optional => {}
            Some(KernelTypes::Tensor(_)) => index(place, Rule::ListOrder, i64::from(item), at)?,
            other => return Err(Error::invalid(place, Rule::ListItemKind, other.map_or(0, KernelTypes::code), 5)),
        }
    }
    Ok(())
}

fn tensor(file: File<'_>, plan: ExecutionPlan<'_>, tensor: Tensor<'_>, place: Place) -> Checked {
    let nbytes = shape(tensor.scalar_type(), tensor.sizes(), tensor.dim_order(), place)?;
    if tensor.storage_offset() != 0 {
        return Err(Error::invalid(place, Rule::StorageOffset, tensor.storage_offset(), 0));
    }
    match tensor.shape_dynamism() {
        0..=2 => {}
        other => return Err(Error::invalid(place, Rule::DynamismUnknown, other, 2)),
    }
    if let Some(allocation) = tensor.allocation_info() {
        let (id, buffers) = (allocation.memory_id(), plan.non_const_buffer_sizes().len());
        if id == 0 || usize::try_from(id).map_or(true, |id| id >= buffers) {
            return Err(Error::invalid(place, Rule::MemoryId, id, buffers));
        }
        let end = allocation.offset().checked_add(nbytes).and_then(|end| i64::try_from(end).ok());
        end.ok_or_else(|| Error::invalid(place, Rule::AllocationTooLarge, allocation.offset(), nbytes))?;
    }
    if let Some(location) = tensor.extra_tensor_info().map(|info| info.location())
        && !(0..=1).contains(&location)
    {
        return Err(Error::invalid(place, Rule::LocationUnknown, location, 1));
    }
    data(file, tensor, nbytes, place)
}

/// Checks that the bytes a tensor starts with are there.
fn data(file: File<'_>, tensor: Tensor<'_>, nbytes: u64, place: Place) -> Checked {
    let index = tensor.data_buffer_idx();
    if tensor.is_external() {
        return ensure(tensor.fully_qualified_name().is_some(), place, Rule::ExternalNameMissing);
    }
    if tensor.has_initial_state() && file.mutable_initial(index, nbytes).is_none() {
        return Err(Error::invalid(place, Rule::InitialStateMissing, index, nbytes));
    }
    if tensor.is_constant() && file.constant(index, nbytes).is_none() {
        let inline = file.inline_constant(index).and_then(|bytes| u64::try_from(bytes.len()).ok());
        if inline.is_none_or(|inline| inline < nbytes) {
            return Err(Error::invalid(place, Rule::ConstantMissing, index, nbytes));
        }
    }
    Ok(())
}

/// Checks element type, sizes and dim_order, and gives the number of bytes. Zero sizes count as one in the overflow
/// check, because strides skip them.
pub(crate) fn shape(
    scalar_type: i8,
    sizes: Scalars<'_, i32>,
    dim_order: Scalars<'_, u8>,
    place: Place,
) -> Result<u64, Error> {
    let dtype = ScalarType::from_i8(scalar_type);
    let dtype = dtype.ok_or_else(|| Error::invalid(place, Rule::DtypeUnknown, scalar_type, 29))?;
    ensure(sizes.is_present(), place, Rule::SizesMissing)?;
    let rank = sizes.len();
    if rank > MAX_RANK {
        return Err(Error::invalid(place, Rule::RankTooLarge, rank, MAX_RANK));
    }
    if dim_order.len() != rank {
        return Err(Error::invalid(place, Rule::DimOrderLength, dim_order.len(), rank));
    }
    let mut seen = 0u32;
    for dim in dim_order.iter() {
        let bit = 1u32.checked_shl(u32::from(dim)).unwrap_or(0);
        if usize::from(dim) >= rank || seen & bit != 0 {
            return Err(Error::invalid(place, Rule::DimOrderEntry, dim, rank));
        }
        seen |= bit;
    }
    let mut product = u64::try_from(dtype.size()).ok();
    let mut empty = false;
    for size in sizes.iter() {
        let size = u64::try_from(size).map_err(|_| Error::invalid(place, Rule::SizeNegative, size, 0))?;
        empty |= size == 0;
        product = product.and_then(|product| product.checked_mul(size.max(1)));
    }
    let nbytes = product.filter(|&n| i64::try_from(n).is_ok());
    let nbytes = nbytes.ok_or_else(|| Error::broken(place, Rule::TensorTooLarge))?;
    Ok(if empty { 0 } else { nbytes })
}
