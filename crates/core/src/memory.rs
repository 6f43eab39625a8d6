//! Who may touch which bytes during one call: the only place where arena memory becomes slices.
//!
//! Values of a program may share memory, on purpose (views that were planned away, in-place operators) or by malice. A
//! kernel is safe Rust that wants `&[u8]` for what it reads and `&mut [u8]` for what it writes, so the two must never
//! overlap. The rule: before a kernel runs, the runtime *claims* the range of everything the kernel may write. Claims
//! are disjoint from each other; a claim is handed out at most once; and nothing that overlaps a claim is ever handed
//! out for reading (the caller gets a copy in scratch instead). That holds whatever happens to the tensors' records
//! meanwhile, because ranges are compared when memory is handed out.
#![allow(unsafe_code)] // Splits arenas into disjoint slices, see above.
use crate::{Code, Fault};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Memory that tensors are planned into, borrowed for a call.
#[derive(Debug)]
pub struct Arena<'a> {
    start: NonNull<u8>,
    len: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> Arena<'a> {
    /// An arena over `memory`. Its start should be aligned to 16 bytes or more; tensors in it are aligned to their
    /// offsets.
    pub fn new(memory: &'a mut [u8]) -> Self {
        Self { len: memory.len(), start: NonNull::from(memory).cast(), borrow: PhantomData }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of a range, outside of any call.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Option<&[u8]> {
        let start = self.range(offset, len)?;
        // SAFETY: the range is inside the arena, which this borrows; a `Ledger` would borrow all arenas mutably.
        Some(unsafe { core::slice::from_raw_parts(start, len) })
    }

    /// The bytes of a range, to be written, outside of any call.
    pub(crate) fn bytes_mut(&mut self, offset: usize, len: usize) -> Option<&mut [u8]> {
        let start = self.range(offset, len)?;
        // SAFETY: the range is inside the arena, which this borrows mutably.
        Some(unsafe { core::slice::from_raw_parts_mut(start, len) })
    }

    fn range(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        // SAFETY: `offset <= end <= self.len`, so the pointer stays inside the arena or one past its end.
        (end <= self.len).then(|| unsafe { self.start.as_ptr().add(offset) })
    }
}

/// Memory that a run cannot go on without, because of tensors that nothing bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Which block is too small.
    pub block: Block,
    /// How many bytes it must have at least.
    pub bytes: usize,
}

/// A block of a session that may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The arena of this number.
    Arena(u16),
    /// Scratch.
    Scratch,
}

/// Where a call notes what it lacks; none in methods whose tensors all have bounds.
pub(crate) type Wanted<'c> = Option<&'c Cell<Option<Growth>>>;

/// A range of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) arena: u16,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Span {
    fn overlaps(&self, other: &Span) -> bool {
        let ends_after = |a: &Span, b: &Span| a.offset.saturating_add(a.len) > b.offset;
        self.arena == other.arena && self.len > 0 && other.len > 0 && ends_after(self, other) && ends_after(other, self)
    }
}

/// Words that a claim takes in scratch.
pub(crate) const CLAIM_WORDS: usize = 4;
const TAKEN: u64 = 1;

/// The claims of one call, over arenas that nobody else touches meanwhile.
pub(crate) struct Ledger<'c> {
    arenas: &'c [Arena<'c>],
    /// Key, arena << 1 | taken, offset, length; per claim.
    claims: &'c [Cell<u64>],
    count: Cell<usize>,
}

impl<'c> Ledger<'c> {
    /// An empty ledger with room for `claims.len() / CLAIM_WORDS` claims.
    pub(crate) fn new<'a: 'c>(arenas: &'c mut [Arena<'a>], claims: &'c mut [u64]) -> Self {
        Self { arenas, claims: Cell::from_mut(claims).as_slice_of_cells(), count: Cell::new(0) }
    }

    /// Bytes of an arena from `offset` on.
    pub(crate) fn room(&self, arena: u16, offset: usize) -> usize {
        self.arenas.get(usize::from(arena)).map_or(0, |arena| arena.len.saturating_sub(offset))
    }

    fn claim_cells(&self, index: usize) -> Option<&'c [Cell<u64>; CLAIM_WORDS]> {
        let (cells, _) = self.claims.as_chunks::<CLAIM_WORDS>();
        cells.get(index).filter(|_| index < self.count.get())
    }

    fn span(cells: &[Cell<u64>; CLAIM_WORDS]) -> Span {
        Span { arena: (cells[1].get() >> 1) as u16, offset: cells[2].get() as usize, len: cells[3].get() as usize }
    }

    fn claims(&self) -> impl Iterator<Item = &'c [Cell<u64>; CLAIM_WORDS]> + '_ {
        (0..self.count.get()).filter_map(|index| self.claim_cells(index))
    }

    /// Claims a range for writing, under a key of the caller's.
    pub(crate) fn claim(&self, key: u64, span: Span) -> Result<(), Fault> {
        if self.claims().any(|cells| Self::span(cells).overlaps(&span)) {
            return Err(Fault::new(Code::InvalidProgram, "two outputs of one instruction share memory"));
        }
        let index = self.count.get();
        self.count.set(index + 1);
        let Some(cells) = self.claim_cells(index) else {
            self.count.set(index);
            return Err(Fault::new(Code::MemoryAllocationFailed, "scratch has no room for the list of outputs"));
        };
        let words = [key, u64::from(span.arena) << 1, span.offset as u64, span.len as u64];
        cells.iter().zip(words).for_each(|(cell, word)| cell.set(word));
        Ok(())
    }

    /// Memory to read, unless it overlaps a claim: then `None`, and [`Ledger::copy`] is the way.
    pub(crate) fn read(&self, span: Span) -> Result<Option<&'c [u8]>, Fault> {
        if self.claims().any(|cells| Self::span(cells).overlaps(&span)) {
            return Ok(None);
        }
        let start = self.locate(span)?;
        // SAFETY: the range is inside an arena that this ledger borrows for 'c; it overlaps no claim, and only claimed
        // ranges are ever handed out for writing.
        Ok(Some(unsafe { core::slice::from_raw_parts(start, span.len) }))
    }

    /// Copies memory that overlaps claims not yet handed out.
    pub(crate) fn copy(&self, span: Span, into: &mut [u8]) -> Result<(), Fault> {
        let taken = |cells: &&[Cell<u64>; CLAIM_WORDS]| cells[1].get() & TAKEN != 0;
        if self.claims().filter(taken).any(|cells| Self::span(cells).overlaps(&span)) || into.len() != span.len {
            return Err(Fault::new(Code::Internal, "an input was asked for after the output that shares its memory"));
        }
        let start = self.locate(span)?;
        // SAFETY: the range is inside an arena that this ledger borrows; no slice that is written overlaps it now, and
        // the reference ends with this function.
        into.copy_from_slice(unsafe { core::slice::from_raw_parts(start, span.len) });
        Ok(())
    }

    /// Hands out the first `len` bytes of the claim with this key, once.
    pub(crate) fn write(&self, key: u64, len: usize) -> Result<&'c mut [u8], Fault> {
        let Some(cells) = self.claims().find(|cells| cells[0].get() == key) else {
            return Err(Fault::new(Code::Internal, "this argument is not one that the operator writes"));
        };
        let span = Self::span(cells);
        if cells[1].get() & TAKEN != 0 {
            return Err(Fault::new(Code::Internal, "this output was taken already"));
        }
        if len > span.len {
            return Err(
                Fault::new(Code::Internal, "{} bytes are more than the {} of this output").with([len, span.len])
            );
        }
        let start = self.locate(span)?;
        cells[1].set(cells[1].get() | TAKEN);
        // SAFETY: the range is inside an arena that this ledger borrows for 'c; it is a claim, disjoint from all other
        // claims, now marked as taken so that it is handed out once; readers never get memory that overlaps a claim.
        Ok(unsafe { core::slice::from_raw_parts_mut(start, len) })
    }

    fn locate(&self, span: Span) -> Result<*mut u8, Fault> {
        self.arenas.get(usize::from(span.arena)).and_then(|arena| arena.range(span.offset, span.len)).ok_or(
            Fault::new(Code::MemoryAllocationFailed, "bytes {}.. ({} of them) are outside of arena {}").with([
                span.offset,
                span.len,
                usize::from(span.arena),
            ]),
        )
    }
}

/// Words that are used up from the front, for one call.
pub(crate) struct Scratch<'c> {
    rest: Cell<&'c mut [u64]>,
    all: usize,
    wanted: Wanted<'c>,
}

impl<'c> Scratch<'c> {
    pub(crate) fn new(words: &'c mut [u64], wanted: Wanted<'c>) -> Self {
        Self { all: words.len(), rest: Cell::new(words), wanted }
    }

    /// The next `count` words.
    pub(crate) fn words(&self, count: usize) -> Result<&'c mut [u64], Fault> {
        let rest = self.rest.take();
        let available = rest.len();
        match rest.split_at_mut_checked(count) {
            Some((words, rest)) => {
                self.rest.set(rest);
                Ok(words)
            }
            None => {
                let words = (self.all - available).saturating_add(count).saturating_add(SCRATCH_ALIGN / 8);
                let growth = Growth { block: Block::Scratch, bytes: words.saturating_mul(8) };
                self.wanted.inspect(|wanted| wanted.set(Some(growth)));
                let fault = Fault::new(Code::MemoryAllocationFailed, "scratch has {} bytes left, {} are needed");
                Err(fault.with([available.saturating_mul(8), count.saturating_mul(8)]))
            }
        }
    }

    /// The next `count` bytes, aligned to [`SCRATCH_ALIGN`].
    pub(crate) fn bytes(&self, count: usize) -> Result<&'c mut [u8], Fault> {
        let rest = self.rest.take();
        let skip = rest.as_ptr().align_offset(SCRATCH_ALIGN).min(rest.len());
        self.rest.set(rest);
        self.words(skip)?;
        let words = self.words(count.div_ceil(8))?;
        let len = words.len() * 8;
        // SAFETY: u64s have no padding, any bytes are valid u64s, and the slice is borrowed mutably for 'c.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), len) };
        bytes.get_mut(..count).ok_or(Fault::new(Code::Internal, "scratch is shorter than it should be"))
    }
}

/// Alignment of the scratch that kernels get.
pub const SCRATCH_ALIGN: usize = 64;

/// Words of scratch that serve one request of `bytes`, wherever it starts.
pub(crate) fn scratch_words(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.div_ceil(8).saturating_add(SCRATCH_ALIGN / 8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: usize, len: usize) -> Span {
        Span { arena: 0, offset, len }
    }

    #[test]
    fn reads_and_writes_never_overlap() {
        let mut memory = [1u8; 64];
        let mut arenas = [Arena::new(&mut memory)];
        let mut words = [0; 2 * CLAIM_WORDS];
        let ledger = Ledger::new(&mut arenas, &mut words);
        ledger.claim(1, span(16, 16)).unwrap();
        assert!(ledger.claim(2, span(31, 2)).is_err(), "claims must be disjoint");
        ledger.claim(2, span(32, 8)).unwrap();
        assert!(ledger.claim(3, span(60, 1)).is_err(), "no room for a third");
        let before = ledger.read(span(0, 16)).unwrap().unwrap();
        assert!(ledger.read(span(8, 9)).unwrap().is_none(), "overlaps claim 1");
        let mut copy = [0; 9];
        ledger.copy(span(8, 9), &mut copy).unwrap();
        let written = ledger.write(1, 8).unwrap();
        written.fill(7);
        assert!(ledger.write(1, 8).is_err(), "handed out once");
        assert!(ledger.copy(span(8, 9), &mut copy).is_err(), "the claim is being written");
        assert!(ledger.write(2, 9).is_err(), "longer than claimed");
        assert_eq!((before, copy), (&[1u8; 16][..], [1; 9]));
        assert!(ledger.read(span(60, 5)).is_err() && ledger.read(span(usize::MAX, 2)).is_err());
        assert!(ledger.read(Span { arena: 1, offset: 0, len: 1 }).is_err());
    }

    #[test]
    fn empty_ranges_overlap_nothing() {
        assert!(!span(4, 0).overlaps(&span(0, 8)));
        assert!(span(4, 1).overlaps(&span(0, 8)));
        assert!(!span(8, 1).overlaps(&span(0, 8)));
    }

    #[test]
    fn scratch_is_aligned_and_bounded() {
        let mut words = [0u64; 32];
        let wanted = Cell::new(None);
        let scratch = Scratch::new(&mut words, Some(&wanted));
        scratch.words(1).unwrap();
        let a = scratch.bytes(5).unwrap();
        let b = scratch.bytes(9).unwrap();
        assert_eq!((a.len(), a.as_ptr() as usize % SCRATCH_ALIGN), (5, 0));
        assert_eq!((b.len(), b.as_ptr() as usize % SCRATCH_ALIGN), (9, 0));
        a.fill(1);
        b.fill(2);
        assert!(a.iter().all(|&x| x == 1));
        assert!(scratch.bytes(1000).is_err());
        let growth = wanted.get().unwrap();
        assert!(growth.block == Block::Scratch && (1000..32 * 8 + 1064).contains(&growth.bytes));
    }
}
