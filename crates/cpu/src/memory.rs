//! How a step gets at its inputs and outputs.
//!
//! During a run there are a few blocks of memory: the caller's inputs, the caller's outputs, an arena and the
//! constants. A [`Slot`] is a range in one of them. An [`Io`] is all slots of one step, and it exists only if nothing
//! that the step writes overlaps anything else that it reads or writes: [`Io::new`] is the one place where this is
//! checked, when the plan is made. [`Memory::buffers`] then hands out slices for one step at a time.
#![allow(unsafe_code, reason = "disjoint slices of few blocks, by ranges that were checked when they were given out")]

mod bank;
mod pace;
mod pages;

use crate::weights::Known;
pub(crate) use bank::Bank;
pub(crate) use pace::Pace;
pub(crate) use pages::{Aligned, Store};
use sconce_graph::ValueId;
use sconce_graph::engine::reuse;
use std::marker::PhantomData;
use std::ops::Range;

/// The alignment of every buffer in an arena.
pub(crate) const ALIGN: usize = 64;

/// A block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Block {
    /// An input of the call.
    Input(usize),
    /// An output of the call.
    Output(usize),
    /// The arena.
    Arena,
    /// A constant of the graph.
    Constant(ValueId),
}

/// Some bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) block: Block,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

impl Slot {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self { block: Block::Arena, start: 0, bytes: 0 };

    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.range(), other.range());
        self.block == other.block && a.start < b.end && b.start < a.end && self.bytes > 0 && other.bytes > 0
    }

    fn writable(&self) -> bool {
        matches!(self.block, Block::Output(_) | Block::Arena)
    }
}

/// What a step reads and writes; nothing written overlaps anything else.
#[derive(Clone, Debug)]
pub(crate) struct Io {
    reads: Vec<Slot>,
    writes: [Slot; 3],
}

impl Io {
    /// The constants among what is read, and how many bytes of each.
    pub(crate) fn constants(&self) -> impl Iterator<Item = (ValueId, usize)> {
        self.reads.iter().filter_map(|slot| match slot.block {
            Block::Constant(value) => Some((value, slot.bytes)),
            _ => None,
        })
    }

    /// The slots of a step that reads `reads` and writes its result, perhaps a second one, and scratch.
    pub(crate) fn new(reads: Vec<Slot>, output: Slot, second: Slot, scratch: Slot) -> Result<Self, String> {
        let writes = [output, second, scratch];
        for (i, write) in writes.iter().enumerate() {
            let mut others = reads.iter().chain(&writes[i + 1..]);
            if !write.writable() || others.any(|other| write.overlaps(other)) {
                return Err(format!("a step would write {write:?} over something it needs: {reads:?}, {writes:?}"));
            }
        }
        Ok(Self { reads, writes })
    }

    /// What is read.
    pub(crate) fn reads(&self) -> &[Slot] {
        &self.reads
    }

    /// What is written: the results, and scratch.
    pub(crate) fn writes(&self) -> &[Slot] {
        &self.writes
    }

    /// Bytes of what is read and of the results.
    pub(crate) fn bytes(&self) -> usize {
        self.reads.iter().chain(&self.writes[..2]).map(|slot| slot.bytes).sum()
    }
}

/// An empty list that has memory for the places of a run's outputs.
pub(crate) type Room = Vec<(usize, usize)>;

/// All memory of one run.
pub(crate) struct Memory<'a> {
    inputs: &'a [&'a [u8]],
    outputs: Vec<(*mut u8, usize)>,
    arena: (*mut u8, usize),
    known: Known<'a>,
    held: PhantomData<&'a mut [u8]>,
}

impl<'a> Memory<'a> {
    /// Borrows everything for a run. `room` is of the run before, so that this one need not ask for memory.
    pub(crate) fn new(
        inputs: &'a [&'a [u8]],
        outputs: &'a mut [&mut [u8]],
        arena: &'a mut [u8],
        known: Known<'a>,
        room: Room,
    ) -> Self {
        let mut list: Vec<(*mut u8, usize)> = reuse(room);
        list.extend(outputs.iter_mut().map(|output| (output.as_mut_ptr(), output.len())));
        Self { inputs, outputs: list, arena: (arena.as_mut_ptr(), arena.len()), known, held: PhantomData }
    }

    /// What the next run may have.
    pub(crate) fn into_room(self) -> Room {
        reuse(self.outputs)
    }

    fn start(&self, slot: Slot) -> *mut u8 {
        let (start, len) = match slot.block {
            Block::Output(index) => self.outputs[index],
            _ => self.arena,
        };
        assert!(slot.range().end <= len, "{slot:?} does not fit {len} bytes");
        start.wrapping_add(slot.start)
    }

    /// The bytes of a slot that nobody writes while they are held.
    fn read(&self, slot: Slot) -> &'a [u8] {
        match slot.block {
            Block::Input(index) => &self.inputs[index][slot.range()],
            Block::Constant(value) => &self.known.aligned(value)[slot.range()],
            // SAFETY: `start` checked the range; the block is borrowed for 'a, and `buffers` lets no one write it while
            // the slice is in use.
            _ => unsafe { std::slice::from_raw_parts(self.start(slot), slot.bytes) },
        }
    }

    /// The slices of one step. They end with the exclusive borrow of the memory, so there is one step at a time.
    pub(crate) fn buffers<'m>(&'m mut self, io: &'m Io) -> Buffers<'m> {
        let [output, second, scratch] = io.writes.map(|slot| {
            // SAFETY: `start` checked the range, and blocks do not overlap each other. `Io::new` made sure that what is
            // written overlaps no other slot of this step, and the borrow of `self` keeps other steps away.
            unsafe { std::slice::from_raw_parts_mut(self.start(slot), slot.bytes) }
        });
        Buffers { memory: self, reads: &io.reads, output, second, scratch }
    }
}

/// The slices of one step.
pub(crate) struct Buffers<'m> {
    memory: &'m Memory<'m>,
    reads: &'m [Slot],
    /// The result.
    pub(crate) output: &'m mut [u8],
    /// The second result, if there is one.
    pub(crate) second: &'m mut [u8],
    /// Memory for the step's own use, holding anything.
    pub(crate) scratch: &'m mut [u8],
}

impl<'m> Buffers<'m> {
    /// The bytes of input `index`.
    pub(crate) fn read(&self, index: usize) -> &'m [u8] {
        self.memory.read(self.reads[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Packed;
    use sconce_graph::{Constants, Graph, Source};

    struct Nothing;

    impl Constants for Nothing {
        fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
            None
        }
    }

    fn arena(start: usize, bytes: usize) -> Slot {
        Slot { block: Block::Arena, start, bytes }
    }

    #[test]
    fn overlapping_writes_are_refused() {
        assert!(Io::new(vec![arena(0, 64)], arena(64, 64), Slot::EMPTY, arena(128, 8)).is_ok());
        assert!(Io::new(vec![arena(0, 65)], arena(64, 64), Slot::EMPTY, Slot::EMPTY).is_err());
        assert!(Io::new(vec![], arena(0, 64), arena(60, 8), Slot::EMPTY).is_err());
        assert!(Io::new(vec![], arena(0, 64), Slot::EMPTY, arena(63, 1)).is_err());
        let input = Slot { block: Block::Input(0), start: 0, bytes: 4 };
        assert!(Io::new(vec![], input, Slot::EMPTY, Slot::EMPTY).is_err());
    }

    #[test]
    fn a_step_sees_its_slices() {
        let input = [1u8, 2, 3];
        let (inputs, mut output, mut block) =
            ([&input[..]], [0u8; 4], Aligned::try_new(&sconce_kernels::Serial, 100).unwrap());
        let mut outputs = [&mut output[..]];
        let graph = Graph::default();
        let packed = Packed::new(&graph, sconce_kernels::Isa::Scalar, false, &Nothing);
        let known = Known { graph: &graph, constants: &Nothing, packed: &packed };
        {
            let mut memory = Memory::new(&inputs, &mut outputs, block.bytes_mut(), known, Room::new());
            let first = Io::new(
                vec![Slot { block: Block::Input(0), start: 1, bytes: 2 }],
                arena(64, 2),
                Slot::EMPTY,
                Slot::EMPTY,
            );
            let first = first.unwrap();
            let buffers = memory.buffers(&first);
            buffers.output.copy_from_slice(buffers.read(0));
            let second = Io::new(
                vec![arena(64, 2)],
                Slot { block: Block::Output(0), start: 2, bytes: 2 },
                Slot::EMPTY,
                Slot::EMPTY,
            );
            let second = second.unwrap();
            let buffers = memory.buffers(&second);
            buffers.output.copy_from_slice(buffers.read(0));
        }
        assert_eq!(output, [0, 0, 2, 3]);
    }
}
