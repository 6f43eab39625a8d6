//! Work that is the same in every run, done once: operators that compute from constants alone.
//!
//! Exporters write a linear layer as a transpose of its weight, then a product, and a plain number as a tensor to be
//! converted, every time the program runs. When a method is prepared, such calls run once; all sessions read
//! the results and skip the calls. That costs memory as large as the results (the transposed weights), so there is a
//! bound, and [`Options::fold`](crate::Options::fold) turns it off.
//!
//! Data flow in a program goes by address, so a call is folded only if nothing else depends on its planned memory: the
//! method has no jumps, moves or frees, the call alone writes its result, and no value that nobody writes shares memory
//! with it (such a value is a view of the result).
use crate::buffer::Buffer;
use sconce_core::{KernelId, Method, Registry};
use sconce_format::pte::{InstructionArguments, KernelTypes, Tensor};
use std::cell::OnceCell;
use std::ops::Range;

/// Results start at multiples of this.
const ALIGN: usize = 64;

/// The folded results of a method.
#[derive(Default)]
pub(crate) struct Folding {
    pub(crate) bytes: Option<Buffer>,
    pub(crate) skip: Vec<u64>,
    /// Value and offset of each result.
    pub(crate) places: Vec<(u32, usize)>,
}

/// A call that computes from constants alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) instruction: u32,
    pub(crate) value: u32,
    pub(crate) bytes: usize,
}

impl Folding {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |buffer| buffer.as_ref())
    }

    /// Whether an instruction of the first chain need not run.
    pub(crate) fn skips(&self, instruction: u32) -> bool {
        let word = usize::try_from(instruction / 64).ok().and_then(|word| self.skip.get(word));
        word.is_some_and(|word| word >> (instruction % 64) & 1 != 0)
    }

    /// The result that a value stands for, and what follows it.
    #[cfg(feature = "engine")]
    pub(crate) fn result(&self, value: u32) -> Option<&[u8]> {
        let (_, offset) = self.places.iter().find(|(place, _)| *place == value)?;
        self.bytes().get(*offset..)
    }

    /// Puts results one after the other. `results` gives the bytes of each candidate, or `None` where it failed.
    pub(crate) fn collect(
        candidates: &[Candidate],
        instructions: usize,
        mut result: impl FnMut(Candidate, &mut [u8]) -> Option<()>,
    ) -> Option<Self> {
        let total = candidates.iter().map(|candidate| candidate.bytes.next_multiple_of(ALIGN)).sum();
        let mut bytes = Buffer::zeroed(total)?;
        let mut folding = Self { skip: vec![0; instructions.div_ceil(64)], ..Self::default() };
        let mut offset = 0;
        for &candidate in candidates {
            if result(candidate, &mut bytes.as_mut()[offset..offset + candidate.bytes]).is_some() {
                folding.skip[candidate.instruction as usize / 64] |= 1 << (candidate.instruction % 64);
                folding.places.push((candidate.value, offset));
            }
            offset += candidate.bytes.next_multiple_of(ALIGN);
        }
        folding.bytes = Some(bytes);
        Some(folding)
    }
}

/// What a method's instructions say about one of its values.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// How many instructions write it.
    writes: usize,
    /// Whether callers see it.
    outside: bool,
}

/// The calls of a method that can be folded, at most `limit` bytes of results.
pub(crate) fn candidates(
    method: Method<'_>,
    registry: &dyn Registry,
    kernels: &[KernelId],
    limit: usize,
) -> Vec<Candidate> {
    let plan = method.plan();
    let Some(chain) = plan.chains().get(0).filter(|_| plan.chains().len() == 1) else { return Vec::new() };
    let mut uses = vec![Uses::default(); plan.values().len()];
    for index in plan.inputs().iter().chain(plan.outputs().iter()) {
        if let Some(uses) = usize::try_from(index).ok().and_then(|index| uses.get_mut(index)) {
            uses.outside = true;
        }
    }
    let mut calls = Vec::new();
    for (instruction, index) in chain.instructions().iter().zip(0u32..) {
        let (args, writes) = match instruction.instr_args() {
            InstructionArguments::KernelCall(call) => {
                let id = usize::try_from(call.op_index()).ok().and_then(|index| kernels.get(index));
                let Some(kernel) = id.and_then(|&id| registry.kernel(id)) else { return Vec::new() };
                // An operator without outputs in memory sets its last argument.
                let last = 1u32.checked_shl(call.args().len().saturating_sub(1) as u32).unwrap_or(0);
                let writes = if kernel.writes() == 0 { last } else { kernel.writes() };
                (call.args(), writes)
            }
            InstructionArguments::DelegateCall(call) => (call.args(), u32::MAX),
            _ => return Vec::new(),
        };
        let args: Vec<usize> = args.iter().filter_map(|index| usize::try_from(index).ok()).collect();
        for (position, &value) in args.iter().enumerate() {
            if position >= 32 || writes >> position & 1 != 0 {
                uses[value].writes += 1;
            }
        }
        calls.push((index, args, writes));
    }
    let analysis = Analysis::new(method, uses);
    // A bound on the comparisons below, far above what real programs need.
    if calls.len().saturating_mul(analysis.unwritten.len()) > 50_000_000 {
        return Vec::new();
    }
    let mut total = 0usize;
    let foldable =
        calls.iter().filter_map(|(instruction, args, writes)| analysis.candidate(*instruction, args, *writes));
    foldable
        .filter(|candidate| {
            total = total.saturating_add(candidate.bytes.next_multiple_of(ALIGN));
            total <= limit
        })
        .collect()
}

struct Analysis<'a> {
    method: Method<'a>,
    uses: Vec<Uses>,
    /// Planned memory of the tensors that no instruction writes.
    unwritten: Vec<(u32, Range<u64>)>,
    /// By value: whether it is the same in every run. Many calls may ask for one long list.
    constants: Vec<OnceCell<bool>>,
}

impl<'a> Analysis<'a> {
    fn new(method: Method<'a>, uses: Vec<Uses>) -> Self {
        let values = method.plan().values().iter().zip(&uses).filter(|(_, uses)| uses.writes == 0);
        let memory = values.filter_map(|(value, _)| match value.val() {
            KernelTypes::Tensor(tensor) => tensor.planned(),
            _ => None,
        });
        let unwritten = memory.collect();
        let constants = vec![OnceCell::new(); uses.len()];
        Self { method, uses, unwritten, constants }
    }

    fn value(&self, index: usize) -> KernelTypes<'a> {
        self.method.plan().values().get(index).map_or(KernelTypes::None, |value| value.val())
    }

    fn candidate(&self, instruction: u32, args: &[usize], writes: u32) -> Option<Candidate> {
        if writes.count_ones() != 1 {
            return None;
        }
        let written = *args.get(writes.trailing_zeros() as usize)?;
        let inputs = || args.iter().filter(|&&value| value != written);
        let has_tensor = inputs().any(|&value| matches!(self.value(value), KernelTypes::Tensor(_)));
        let KernelTypes::Tensor(result) = self.value(written) else { return None };
        let uses = self.uses[written];
        let alone = uses.writes == 1 && !uses.outside && !result.is_dynamic() && !self.is_viewed(&result);
        if !has_tensor || !alone || !inputs().all(|&value| self.is_constant(value)) {
            return None;
        }
        let bytes = usize::try_from(result.nbytes()).ok()?;
        Some(Candidate { instruction, value: u32::try_from(written).ok()?, bytes })
    }

    /// Whether a value is the same in every run.
    fn is_constant(&self, index: usize) -> bool {
        self.constants.get(index).is_some_and(|known| *known.get_or_init(|| self.stays(index)))
    }

    fn stays(&self, index: usize) -> bool {
        self.is_unwritten(index)
            && match self.value(index) {
                KernelTypes::Tensor(tensor) => tensor.is_constant(),
                KernelTypes::IntList(list) => list.items().iter().all(|item| self.is_constant_item(item)),
                KernelTypes::TensorList(list) => list.items().iter().all(|item| self.is_constant_item(item.into())),
                KernelTypes::OptionalTensorList(list) => {
                    list.items().iter().all(|item| item < 0 || self.is_constant_item(item.into()))
                }
                _ => true,
            }
    }

    /// The same for an element of a list, which is no list itself.
    fn is_constant_item(&self, index: i64) -> bool {
        usize::try_from(index).is_ok_and(|index| {
            self.is_unwritten(index)
                && match self.value(index) {
                    KernelTypes::Int(_) | KernelTypes::Null(_) => true,
                    KernelTypes::Tensor(tensor) => tensor.is_constant(),
                    _ => false,
                }
        })
    }

    fn is_unwritten(&self, index: usize) -> bool {
        self.uses.get(index).is_some_and(|uses| uses.writes == 0)
    }

    /// Whether a value that no instruction writes shares memory with a result.
    fn is_viewed(&self, result: &Tensor<'a>) -> bool {
        let Some((memory, range)) = result.planned() else { return true };
        let shares =
            |(id, other): &(u32, Range<u64>)| *id == memory && other.start < range.end && range.start < other.end;
        self.unwritten.iter().any(shares)
    }
}
