//! Who reads and writes which bytes of planned memory.
//!
//! Data flow in a program goes by address: an exporter gives several tensors the same memory, because one is dead before
//! the next is made, or because one is a view of the other. So a value is what was last written at its bytes. Tensors
//! without planned memory count as memory of their own.

use sconce_core::Method;
use sconce_format::flatbuf::Scalars;
use sconce_format::pte::{InstructionArguments, KernelTypes, Tensor};
use std::ops::Range;

/// Instructions and values of a method that is followed: what is compared with what grows with their squares, and no real
/// program comes near.
const MOST_STEPS: usize = 10_000;
const MOST_VALUES: usize = 100_000;
/// Arguments of all calls, lists opened: many calls may name one long list.
const MOST_ARGUMENTS: usize = 1_000_000;
/// Comparisons of tensors that nobody writes with those that somebody does.
const MOST_VIEWS: usize = 50_000_000;

/// Bytes of planned memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    id: u64,
    range: Range<u64>,
}

impl Bytes {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.id == other.id && self.range.start < other.range.end && other.range.start < self.range.end
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.id == other.id && self.range.start <= other.range.start && other.range.end <= self.range.end
    }
}

/// What is known about the operator of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Callee {
    /// Bit `i` is set when argument `i` is written.
    pub writes: u32,
    /// Whether it does what its name says in PyTorch, and not what an application put in its place.
    pub standard: bool,
}

/// What an instruction calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An operator, by number.
    Operator(usize),
    /// A delegate, by number.
    Delegate(usize),
}

/// An instruction.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// What is called with which arguments, if that may join a region.
    pub(super) call: Option<(Target, Vec<u32>)>,
    reads: Vec<u32>,
    /// Values that are written whole, and no matter what they held.
    writes: Vec<u32>,
    /// Values that may change.
    changes: Vec<u32>,
    /// Whether it has no effect, because its result is known.
    pub(super) is_folded: bool,
}

/// The instructions of a method with one chain.
pub(super) struct Accesses<'a> {
    pub(super) method: Method<'a>,
    pub(super) steps: Vec<Step>,
    /// By value: all bytes that it may stand for.
    memory: Vec<Vec<Bytes>>,
    /// By value: whether it stands for other bytes at other times.
    wanders: Vec<bool>,
    /// By value: whether an instruction may change it.
    changed: Vec<bool>,
    /// By value: whether it is the result of a folded instruction, which is read elsewhere.
    given: Vec<bool>,
    /// By instruction: whether a jump leads to it.
    targets: Vec<bool>,
    has_jumps: bool,
    /// Memory that keeps its content from run to run.
    kept: Vec<Bytes>,
    /// Values that the caller gives, sorted, each once.
    inputs: Vec<u32>,
    /// Values that the method returns, each once.
    returned: Vec<u32>,
    /// Arguments that may follow.
    room: usize,
}

impl<'a> Accesses<'a> {
    /// Follows a method. `callee` tells of its operators by number, `is_folded` of its instructions, `outputs` how many of
    /// the last arguments a delegate writes, where that is known.
    pub(super) fn new(
        method: Method<'a>,
        callee: &dyn Fn(usize) -> Option<Callee>,
        is_folded: &dyn Fn(u32) -> bool,
        outputs: &dyn Fn(usize) -> Option<usize>,
    ) -> Option<Self> {
        let plan = method.plan();
        let chain = plan.chains().get(0).filter(|_| plan.chains().len() == 1)?;
        let values = plan.values().len();
        if chain.instructions().len() > MOST_STEPS || values > MOST_VALUES {
            return None;
        }
        let tensors: Vec<_> = (0..values).map(|index| tensor(method, index)).collect();
        let own = tensors.iter().enumerate().map(|(index, tensor)| tensor.and_then(|tensor| own_bytes(index, tensor)));
        let mut accesses = Self {
            method,
            steps: Vec::with_capacity(chain.instructions().len()),
            memory: own.map(|bytes| bytes.into_iter().collect()).collect(),
            wanders: vec![false; values],
            changed: vec![false; values],
            given: vec![false; values],
            targets: vec![false; chain.instructions().len() + 1],
            has_jumps: false,
            kept: Vec::new(),
            inputs: once(plan.inputs()),
            returned: once(plan.outputs()),
            room: MOST_ARGUMENTS,
        };
        for (instruction, index) in chain.instructions().iter().zip(0u32..) {
            let mut step = accesses.step(instruction.instr_args(), callee, outputs)?;
            if is_folded(index) {
                for &value in &step.writes {
                    *accesses.given.get_mut(index_of(value))? = true;
                }
                step = Step { is_folded: true, ..Step::default() };
            }
            for &value in step.writes.iter().chain(&step.changes) {
                *accesses.changed.get_mut(index_of(value))? = true;
            }
            accesses.steps.push(step);
        }
        let written = accesses.changed.iter().filter(|changed| **changed).count();
        let views = tensors.iter().flatten().filter(|tensor| tensor.data_buffer_idx() == 0 && !tensor.is_external());
        if written.saturating_mul(views.count().saturating_sub(written)) > MOST_VIEWS {
            return None;
        }
        accesses.kept = accesses.kept_memory(&tensors);
        Some(accesses)
    }

    fn step(
        &mut self,
        instruction: InstructionArguments<'a>,
        callee: &dyn Fn(usize) -> Option<Callee>,
        outputs: &dyn Fn(usize) -> Option<usize>,
    ) -> Option<Step> {
        let mut step = Step::default();
        match instruction {
            InstructionArguments::KernelCall(call) => {
                let op = usize::try_from(call.op_index()).ok()?;
                let args: Vec<u32> = call.args().iter().map(|arg| u32::try_from(arg).ok()).collect::<Option<_>>()?;
                let name = self.method.plan().operators().get(op)?.to_string();
                if name == "executorch_prim::et_view.default" {
                    let (&base, &view) = (args.first()?, args.last()?);
                    self.wander(view, base);
                }
                let callee = callee(op)?;
                self.sort_arguments(&mut step, &args, callee.writes, name.ends_with("out"))?;
                step.call = callee.standard.then_some((Target::Operator(op), args));
            }
            InstructionArguments::DelegateCall(call) => {
                let args: Vec<u32> = call.args().iter().map(|arg| u32::try_from(arg).ok()).collect::<Option<_>>()?;
                let delegate = usize::try_from(call.delegate_index()).ok()?;
                match outputs(delegate).and_then(|outputs| args.len().checked_sub(outputs)) {
                    Some(inputs) => {
                        (step.reads, step.writes) = (args[..inputs].to_vec(), args[inputs..].to_vec());
                        step.call = Some((Target::Delegate(delegate), args));
                    }
                    None => (step.reads, step.changes) = (args.clone(), args),
                }
            }
            InstructionArguments::MoveCall(call) => {
                let (from, to) = (u32::try_from(call.move_from()).ok()?, u32::try_from(call.move_to()).ok()?);
                self.wander(to, from);
                (step.reads, step.changes) = (vec![from], vec![to]);
            }
            InstructionArguments::JumpFalseCall(call) => {
                self.has_jumps = true;
                *self.targets.get_mut(usize::try_from(call.destination_instruction()).ok()?)? = true;
                step.reads = vec![u32::try_from(call.cond_value_index()).ok()?];
            }
            InstructionArguments::FreeCall(call) => step.changes = vec![u32::try_from(call.value_index()).ok()?],
            InstructionArguments::None => {}
        }
        Some(step)
    }

    /// Parts the arguments of a call, lists opened, into what is read and what is written.
    fn sort_arguments(&mut self, step: &mut Step, args: &[u32], writes: u32, overwrites: bool) -> Option<()> {
        // The last argument is the result, which is one of those before or a number that is set.
        for (position, &arg) in args.iter().enumerate() {
            let written = position < 32 && writes >> position & 1 != 0;
            let numbers = self.members(arg);
            self.room = self.room.checked_sub(numbers.len())?;
            match written {
                true if overwrites => step.writes.extend(numbers),
                true => {
                    step.reads.extend(&numbers);
                    step.changes.extend(numbers);
                }
                false if position + 1 == args.len() => step.changes.extend(numbers),
                false => step.reads.extend(numbers),
            }
        }
        Some(())
    }

    /// A value, or the values of a list.
    pub(super) fn members(&self, value: u32) -> Vec<u32> {
        let items = |items: &mut dyn Iterator<Item = i64>| items.filter_map(|item| u32::try_from(item).ok()).collect();
        match kind(self.method, value) {
            KernelTypes::TensorList(list) => items(&mut list.items().iter().map(i64::from)),
            KernelTypes::OptionalTensorList(list) => items(&mut list.items().iter().map(i64::from)),
            KernelTypes::IntList(list) => items(&mut list.items().iter()),
            _ => vec![value],
        }
    }

    /// Value `to` will stand for the bytes of `from`.
    fn wander(&mut self, to: u32, from: u32) {
        let bytes = self.memory.get(index_of(from)).cloned().unwrap_or_default();
        for value in [to, from] {
            if let Some(wanders) = self.wanders.get_mut(index_of(value)) {
                *wanders = true;
            }
        }
        if let Some(memory) = self.memory.get_mut(index_of(to)) {
            for bytes in bytes {
                if !memory.contains(&bytes) {
                    memory.push(bytes);
                }
            }
        }
    }

    /// Planned memory whose content a run finds as the last one left it.
    fn kept_memory(&self, tensors: &[Option<Tensor<'a>>]) -> Vec<Bytes> {
        let kept = tensors.iter().zip(0u32..).filter(|(tensor, value)| {
            let starts = tensor.is_some_and(|tensor| tensor.data_buffer_idx() > 0 || tensor.is_external());
            starts || !self.is_changed(*value) && !self.is_input(*value) && !self.is_view(*value)
        });
        kept.flat_map(|(_, value)| self.memory[index_of(value)].iter().cloned()).collect()
    }

    /// Whether a value that nobody writes lies where another is written.
    fn is_view(&self, value: u32) -> bool {
        let Some(bytes) = self.bytes(value) else { return false };
        let written = (0..self.memory.len()).filter(|&other| self.changed[other]);
        written.into_iter().any(|other| self.memory[other].iter().any(|other| other.overlaps(bytes)))
    }

    /// The bytes that a value stands for, if they are always the same.
    pub(super) fn bytes(&self, value: u32) -> Option<&Bytes> {
        match (self.memory.get(index_of(value))?.as_slice(), self.wanders.get(index_of(value))?) {
            ([bytes], false) => Some(bytes),
            _ => None,
        }
    }

    /// Whether an instruction may change a value.
    pub(super) fn is_changed(&self, value: u32) -> bool {
        self.changed.get(index_of(value)).copied().unwrap_or(true)
    }

    /// Whether the caller gives a value.
    pub(super) fn is_input(&self, value: u32) -> bool {
        self.inputs.binary_search(&value).is_ok()
    }

    /// Whether the sizes of a tensor, or of one in a list, may change.
    pub(super) fn is_resized(&self, value: u32) -> bool {
        let changes = |value: u32| tensor(self.method, index_of(value)).is_some_and(|tensor| tensor.is_dynamic());
        self.members(value).into_iter().any(changes)
    }

    /// Whether a jump leads to an instruction.
    pub(super) fn is_target(&self, step: usize) -> bool {
        self.targets.get(step).copied().unwrap_or(true)
    }

    /// Whether bytes keep their content from run to run.
    pub(super) fn is_kept(&self, bytes: &Bytes) -> bool {
        self.kept.iter().any(|kept| kept.overlaps(bytes))
    }

    /// What is read, after the instructions `steps`, of bytes that they wrote.
    pub(super) fn reads_after(&self, bytes: &Bytes, steps: Range<usize>) -> Vec<Bytes> {
        let memory = |value: u32| self.memory.get(index_of(value)).into_iter().flatten();
        let is_there = |value: u32| !self.given.get(index_of(value)).copied().unwrap_or(false);
        let touched = |value: u32| memory(value).filter(move |other| other.overlaps(bytes) && is_there(value)).cloned();
        let returned = self.returned.iter().copied().flat_map(touched);
        if self.has_jumps {
            let outside = self.steps.iter().enumerate().filter(|(index, _)| !steps.contains(index));
            let reads = outside.flat_map(|(_, step)| step.reads.iter().copied()).flat_map(touched);
            return reads.chain(returned).collect();
        }
        let (mut found, mut over) = (Vec::new(), Vec::<&Bytes>::new());
        let stale = |over: &[&Bytes], read: &Bytes| over.iter().any(|written| written.covers(read));
        for step in &self.steps[steps.end..] {
            let reads = step.reads.iter().copied().flat_map(touched);
            found.extend(reads.filter(|read| !stale(&over, read)));
            over.extend(step.writes.iter().filter_map(|&value| self.bytes(value)).filter(|w| w.overlaps(bytes)));
            if stale(&over, bytes) {
                return found;
            }
        }
        found.extend(returned.filter(|read| !stale(&over, read)));
        found
    }
}

/// Numbers of values, each once, in rising order.
fn once(values: Scalars<'_, i32>) -> Vec<u32> {
    let mut values: Vec<_> = values.iter().filter_map(|index| u32::try_from(index).ok()).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn index_of(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A value as the program records it.
pub(super) fn kind<'a>(method: Method<'a>, value: u32) -> KernelTypes<'a> {
    method.plan().values().get(index_of(value)).map_or(KernelTypes::None, |value| value.val())
}

fn tensor<'a>(method: Method<'a>, index: usize) -> Option<Tensor<'a>> {
    match method.plan().values().get(index)?.val() {
        KernelTypes::Tensor(tensor) => Some(tensor),
        _ => None,
    }
}

/// The bytes where a tensor is planned, or bytes of its own.
fn own_bytes(index: usize, tensor: Tensor<'_>) -> Option<Bytes> {
    if tensor.allocation_info().is_none() {
        let id = (1u64 << 32).checked_add(u64::try_from(index).ok()?)?;
        return Some(Bytes { id, range: 0..u64::MAX });
    }
    let (id, range) = tensor.planned()?;
    Some(Bytes { id: id.into(), range })
}

#[cfg(test)]
mod tests;
