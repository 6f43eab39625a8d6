//! The state block: everything about a method's values that a run may change, in plain `u64` words.
//!
//! ```text
//! word 0        chain << 32 | instruction: where stepping goes on
//! word 1        instructions executed in this run
//! word 2        1 when a FreeCall took memory from a tensor in this run
//! word 3        1 when there are tensors that nothing bounds
//! word 4 ..     two words per value: a tag and a payload
//! then          one record per tensor value:
//!               dtype | rank << 8 | dynamism << 16 | place << 24 | arena << 32
//!               offset or index of the place
//!               largest number of elements, where there is one
//!               sizes, two per word; dimension order, eight per word
//! ```
//!
//! A tensor value's payload is the position of its record, so moving a value aliases the tensor, as the instruction set
//! wants. Lists and strings never change; their values say where in the program they are. Words instead of structures:
//! a caller can keep the block anywhere, between calls and without lifetimes, and whatever it holds, decoding it is safe.
//! Access goes through [`Cell`]s because arguments of one call are looked at while its outputs are resized.
use crate::{Code, Fault, MAX_RANK, ScalarType, Shape};
use core::cell::Cell;

const PROGRAM_COUNTER: usize = 0;
const EXECUTED: usize = 1;
const FREED: usize = 2;
const GROWS: usize = 3;
const HEADER: usize = 4;
const RECORD_HEAD: usize = 3;
/// The largest size along one dimension that files can hold.
const MOST_SIZE: usize = i32::MAX as usize;

/// A value slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(Record),
    /// A list or string, at this index of the program's value table.
    Static(u32),
    /// A floating-point number.
    Double(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

/// Where a tensor's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: freed, or never given memory.
    None,
    /// In an arena.
    Arena {
        /// Memory id; 0 is the runtime's own.
        id: u16,
        /// First byte.
        offset: usize,
    },
    /// In the constant segment, from this byte on.
    Constant(usize),
    /// In the program's legacy constant buffer of this index.
    Inline(u32),
    /// In external data, as this entry.
    External(u32),
    /// In the caller's input of this index.
    Input(u32),
    /// In the results computed ahead of all runs, from this byte on.
    Folded(usize),
}

/// Whether a tensor's sizes may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dynamism {
    /// They stay.
    Static = 0,
    /// There are never more elements than recorded.
    Bound = 1,
    /// Nothing bounds them; memory grows.
    Unbound = 2,
}

/// A tensor's record, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record(u32);

/// A state block, seen through cells.
#[derive(Clone, Copy)]
pub struct State<'s> {
    words: &'s [Cell<u64>],
}

/// Words that a record of this rank takes.
pub(crate) fn record_words(rank: usize) -> usize {
    RECORD_HEAD + rank.div_ceil(2) + rank.div_ceil(8)
}

/// Words before the first record.
pub(crate) fn head_words(values: usize) -> usize {
    HEADER + 2 * values
}

impl<'s> State<'s> {
    /// A view of a block.
    pub fn new(words: &'s mut [u64]) -> Self {
        Self { words: Cell::from_mut(words).as_slice_of_cells() }
    }

    fn get(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, Cell::get)
    }

    fn set(&self, index: usize, word: u64) {
        if let Some(cell) = self.words.get(index) {
            cell.set(word);
        }
    }

    /// Chain and instruction that come next.
    pub fn program_counter(&self) -> (u32, u32) {
        let word = self.get(PROGRAM_COUNTER);
        ((word >> 32) as u32, word as u32)
    }

    /// Sets chain and instruction that come next.
    pub fn set_program_counter(&self, chain: u32, instruction: u32) {
        self.set(PROGRAM_COUNTER, u64::from(chain) << 32 | u64::from(instruction));
    }

    /// Counts an executed instruction and gives the number so far.
    pub fn count_instruction(&self) -> u64 {
        let executed = self.get(EXECUTED).saturating_add(1);
        self.set(EXECUTED, executed);
        executed
    }

    /// Goes back to the first instruction.
    pub fn rewind(&self) {
        self.set(PROGRAM_COUNTER, 0);
        self.set(EXECUTED, 0);
    }

    /// Whether a tensor lost its memory to a `FreeCall`.
    pub fn freed(&self) -> bool {
        self.get(FREED) != 0
    }

    /// Remembers, or forgets, that a tensor lost its memory.
    pub fn set_freed(&self, freed: bool) {
        self.set(FREED, u64::from(freed));
    }

    /// Whether there are tensors that nothing bounds.
    pub fn grows(&self) -> bool {
        self.get(GROWS) != 0
    }

    /// Value `index`.
    pub fn slot(&self, index: usize) -> Slot {
        let at = HEADER + 2 * index;
        let payload = self.get(at + 1);
        match self.get(at) {
            1 => Slot::Tensor(Record(payload as u32)),
            2 => Slot::Static(payload as u32),
            3 => Slot::Double(f64::from_bits(payload)),
            4 => Slot::Int(payload as i64),
            5 => Slot::Bool(payload != 0),
            _ => Slot::None,
        }
    }

    /// Sets value `index`.
    pub fn set_slot(&self, index: usize, slot: Slot) {
        let (tag, payload) = match slot {
            Slot::None => (0, 0),
            Slot::Tensor(Record(at)) => (1, u64::from(at)),
            Slot::Static(index) => (2, u64::from(index)),
            Slot::Double(value) => (3, value.to_bits()),
            Slot::Int(value) => (4, value as u64),
            Slot::Bool(value) => (5, u64::from(value)),
        };
        let at = HEADER + 2 * index;
        self.set(at, tag);
        self.set(at + 1, payload);
    }

    /// Writes a record at word `at` and gives it with the position of the next.
    pub(crate) fn add_record(
        &self,
        at: usize,
        dtype: ScalarType,
        shape: &Shape,
        dynamism: Dynamism,
        capacity: usize,
    ) -> (Record, usize) {
        let record = Record(at as u32);
        let rank = shape.rank();
        self.set(at, u64::from(dtype.code()) | (rank as u64) << 8 | (dynamism as u64) << 16);
        if dynamism == Dynamism::Unbound {
            self.set(GROWS, 1);
        }
        self.set(at + 1, 0);
        self.set(at + 2, capacity as u64);
        self.write_sizes(record, shape.sizes());
        let order_at = at + RECORD_HEAD + rank.div_ceil(2);
        for (i, chunk) in shape.order().chunks(8).enumerate() {
            let word = chunk.iter().rev().fold(0u64, |word, &dim| word << 8 | u64::from(dim));
            self.set(order_at + i, word);
        }
        (record, at + record_words(rank))
    }

    fn head(&self, record: Record) -> u64 {
        self.get(record.0 as usize)
    }

    fn rank(&self, record: Record) -> usize {
        usize::from((self.head(record) >> 8) as u8).min(MAX_RANK)
    }

    fn write_sizes(&self, record: Record, sizes: &[usize]) {
        let at = record.0 as usize + RECORD_HEAD;
        for (i, pair) in sizes.chunks(2).enumerate() {
            let word = pair.iter().rev().fold(0u64, |word, &size| word << 32 | size as u64 & 0xffff_ffff);
            self.set(at + i, word);
        }
    }

    /// Element type of a tensor.
    pub fn dtype(&self, record: Record) -> ScalarType {
        ScalarType::from_u8(self.head(record) as u8).unwrap_or(ScalarType::Byte)
    }

    /// Present sizes and the dimension order of a tensor.
    pub fn shape(&self, record: Record) -> Shape {
        let rank = self.rank(record);
        let at = record.0 as usize + RECORD_HEAD;
        let mut sizes = [0usize; MAX_RANK];
        let mut order = [0u8; MAX_RANK];
        for i in 0..rank {
            sizes[i] = (self.get(at + i / 2) >> (32 * (i % 2))) as u32 as usize;
            order[i] = (self.get(at + rank.div_ceil(2) + i / 8) >> (8 * (i % 8))) as u8;
        }
        Shape::new(&sizes[..rank], &order[..rank]).unwrap_or(Shape::SCALAR)
    }

    /// Largest number of elements a tensor may have; those it has, if nothing bounds it.
    pub fn capacity(&self, record: Record) -> usize {
        if self.is_unbound(record) {
            return self.shape(record).numel().unwrap_or(usize::MAX);
        }
        usize::try_from(self.get(record.0 as usize + 2)).unwrap_or(0)
    }

    /// The same in bytes.
    pub fn capacity_bytes(&self, record: Record) -> usize {
        self.capacity(record).saturating_mul(self.dtype(record).size())
    }

    /// Whether a tensor's sizes may change.
    pub fn is_dynamic(&self, record: Record) -> bool {
        (self.head(record) >> 16) as u8 != Dynamism::Static as u8
    }

    /// Whether nothing bounds a tensor's sizes.
    pub fn is_unbound(&self, record: Record) -> bool {
        (self.head(record) >> 16) as u8 == Dynamism::Unbound as u8
    }

    /// Where a tensor's bytes are.
    pub fn place(&self, record: Record) -> Place {
        let head = self.head(record);
        let payload = self.get(record.0 as usize + 1);
        match (head >> 24) as u8 {
            1 => Place::Arena { id: (head >> 32) as u16, offset: payload as usize },
            2 => Place::Constant(payload as usize),
            3 => Place::Inline(payload as u32),
            4 => Place::External(payload as u32),
            5 => Place::Input(payload as u32),
            6 => Place::Folded(payload as usize),
            _ => Place::None,
        }
    }

    /// Says where a tensor's bytes are.
    pub fn set_place(&self, record: Record, place: Place) {
        let (kind, id, payload) = match place {
            Place::None => (0u64, 0, 0),
            Place::Arena { id, offset } => (1, id, offset as u64),
            Place::Constant(offset) => (2, 0, offset as u64),
            Place::Inline(index) => (3, 0, u64::from(index)),
            Place::External(entry) => (4, 0, u64::from(entry)),
            Place::Input(index) => (5, 0, u64::from(index)),
            Place::Folded(offset) => (6, 0, offset as u64),
        };
        let kept = self.head(record) & 0x00ff_ffff;
        self.set(record.0 as usize, kept | kind << 24 | u64::from(id) << 32);
        self.set(record.0 as usize + 1, payload);
    }

    /// Gives a tensor other sizes: the same rank always, the same sizes where they are static, and never more elements
    /// than its bound, if it has one.
    pub fn resize(&self, record: Record, sizes: &[usize]) -> Result<(), Fault> {
        let shape = self.shape(record);
        if shape.sizes() == sizes {
            return Ok(());
        }
        if shape.rank() != sizes.len() {
            let fault = Fault::new(Code::NotSupported, "a tensor of rank {} cannot become one of rank {}");
            return Err(fault.with([shape.rank(), sizes.len()]));
        }
        if !self.is_dynamic(record) {
            return Err(static_mismatch(shape.sizes(), sizes));
        }
        let numel = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        match numel {
            Some(_) if self.is_unbound(record) && sizes.iter().all(|&size| size <= MOST_SIZE) => {
                self.write_sizes(record, sizes);
                Ok(())
            }
            Some(numel) if numel <= self.capacity(record) && !self.is_unbound(record) => {
                self.write_sizes(record, sizes);
                Ok(())
            }
            _ if self.is_unbound(record) => {
                Err(Fault::new(Code::NotSupported, "a tensor has at most {} elements along a dimension")
                    .with([MOST_SIZE]))
            }
            _ => {
                let fault = Fault::new(Code::NotSupported, "{} elements are more than the {} it was exported for");
                Err(fault.with([numel.unwrap_or(usize::MAX), self.capacity(record)]))
            }
        }
    }
}

fn static_mismatch(have: &[usize], want: &[usize]) -> Fault {
    let fault = Fault::new(Code::NotSupported, "dimension {} has the fixed size {} and cannot become {}");
    have.iter()
        .zip(want)
        .enumerate()
        .find(|(_, (a, b))| a != b)
        .map_or(fault, |(dim, (&a, &b))| fault.with([dim, a, b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_records_read_back() {
        let mut words = [0u64; 40];
        let state = State::new(&mut words);
        for (i, slot) in
            [Slot::Int(-3), Slot::Double(0.5), Slot::Bool(true), Slot::Static(9), Slot::None].into_iter().enumerate()
        {
            state.set_slot(i, slot);
            assert_eq!(state.slot(i), slot);
        }
        let shape = Shape::new(&[2, 3, 4], &[0, 2, 1]).unwrap();
        let (record, next) = state.add_record(head_words(5), ScalarType::Half, &shape, Dynamism::Bound, 24);
        assert_eq!(next, head_words(5) + record_words(3));
        state.set_place(record, Place::Arena { id: 7, offset: 4096 });
        assert_eq!(state.shape(record), shape);
        assert_eq!(state.dtype(record), ScalarType::Half);
        assert_eq!(state.place(record), Place::Arena { id: 7, offset: 4096 });
        assert_eq!(state.capacity_bytes(record), 48);
        state.resize(record, &[4, 3, 2]).unwrap();
        assert_eq!(state.shape(record).sizes(), [4, 3, 2]);
        assert_eq!(state.shape(record).order(), [0, 2, 1]);
    }

    #[test]
    fn resize_keeps_rank_and_bound() {
        let mut words = [0u64; 40];
        let state = State::new(&mut words);
        let shape = Shape::contiguous(&[16, 8]).unwrap();
        let (dynamic, next) = state.add_record(10, ScalarType::Float, &shape, Dynamism::Bound, 128);
        assert!(state.resize(dynamic, &[2, 9]).is_ok(), "the bound is on elements, not on single dimensions");
        assert_eq!(state.resize(dynamic, &[17, 8]).unwrap_err().code, Code::NotSupported);
        assert_eq!(state.resize(dynamic, &[8]).unwrap_err().code, Code::NotSupported);
        let (fixed, _) = state.add_record(next, ScalarType::Float, &shape, Dynamism::Static, 128);
        assert!(state.resize(fixed, &[16, 8]).is_ok());
        assert_eq!(state.resize(fixed, &[16, 7]).unwrap_err().values, [1, 8, 7]);
    }

    #[test]
    fn what_nothing_bounds_takes_any_sizes() {
        let mut words = [0u64; 40];
        let state = State::new(&mut words);
        let shape = Shape::contiguous(&[0, 8]).unwrap();
        let (bound, next) = state.add_record(10, ScalarType::Float, &shape, Dynamism::Bound, 0);
        assert!(state.resize(bound, &[1, 8]).is_err() && !state.grows());
        let (record, _) = state.add_record(next, ScalarType::Float, &shape, Dynamism::Unbound, 0);
        assert!(state.grows() && state.is_dynamic(record));
        state.resize(record, &[1000, 8]).unwrap();
        assert_eq!(state.capacity_bytes(record), 32_000);
        assert!(state.resize(record, &[8]).is_err() && state.resize(record, &[MOST_SIZE + 1, 0]).is_err());
    }

    #[test]
    fn any_words_decode() {
        let mut words = [u64::MAX; 8];
        let state = State::new(&mut words);
        for index in 0..6 {
            if let Slot::Tensor(record) = state.slot(index) {
                let _ = (state.shape(record), state.dtype(record), state.place(record));
            }
        }
        let record = Record(u32::MAX);
        let _ = (state.shape(record), state.dtype(record), state.place(record), state.resize(record, &[1]));
    }
}
