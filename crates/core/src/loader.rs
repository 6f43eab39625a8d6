//! Where a program's bytes come from.
//!
//! A [`DataLoader`] is a file, a memory map, a buffer or flash. What it hands out stays valid and unchanged as long as
//! the loader itself, so that constants are used in place. [`NamedData`] is data by name from beside the program
//! (`.ptd` files).
use crate::{Code, Error, Fault};
use sconce_format::ptd;

/// What bytes are loaded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The FlatBuffers part.
    Program,
    /// Constants.
    Constant,
    /// Initial values of mutable buffers.
    Mutable,
    /// A delegate's payload or named data.
    Delegate,
}

/// A source of bytes.
pub trait DataLoader: Send + Sync {
    /// Size of the whole file.
    fn size(&self) -> u64;

    /// `len` bytes from `offset` on, valid and unchanged as long as `self`; `None` when they cannot be had.
    fn load(&self, offset: u64, len: u64, part: Part) -> Option<&[u8]>;

    /// Copies bytes from `offset` on into `into`; `None` when they cannot be had.
    fn load_into(&self, offset: u64, into: &mut [u8], part: Part) -> Option<()> {
        let len = u64::try_from(into.len()).ok()?;
        into.copy_from_slice(self.load(offset, len, part)?);
        Some(())
    }

    /// Says that these bytes, of those it gave out, are about to be read, a few of many: a wish, which may come to nothing.
    fn will_read(&self, _bytes: &[u8]) {}

    /// Says that a delegate needs these bytes no longer. They must stay valid, but need not stay in memory.
    fn release(&self, _offset: u64, _len: u64) {}
}

/// A program that is in memory as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl DataLoader for Bytes<'_> {
    fn size(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }

    fn load(&self, offset: u64, len: u64, _part: Part) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.0.get(start..end)
    }
}

/// Loads, or says which bytes could not be had.
pub(crate) fn load(loader: &dyn DataLoader, range: core::ops::Range<u64>, part: Part) -> Result<&[u8], Error> {
    let (offset, len) = (range.start, range.end.saturating_sub(range.start));
    loader.load(offset, len, part).ok_or(Error::Access { offset, len })
}

/// Data found by name outside the program.
pub trait NamedData: Send + Sync {
    /// The entry of this name.
    fn find(&self, key: &str) -> Option<u32>;

    /// An entry's bytes.
    fn bytes(&self, entry: u32) -> Option<&[u8]>;

    /// An entry's type and shape, where the file states them.
    fn layout(&self, entry: u32) -> Option<ptd::TensorLayout<'_>>;

    /// Says that a delegate needs an entry's bytes no longer. They must stay valid, but need not stay in memory.
    fn release(&self, _entry: u32) {}
}

/// No external data at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoData;

impl NamedData for NoData {
    fn find(&self, _key: &str) -> Option<u32> {
        None
    }

    fn bytes(&self, _entry: u32) -> Option<&[u8]> {
        None
    }

    fn layout(&self, _entry: u32) -> Option<ptd::TensorLayout<'_>> {
        None
    }
}

/// The fault for a name that no external file has.
pub(crate) const EXTERNAL_MISSING: Fault = Fault::new(
    Code::NotFound,
    "its data is outside the program, and no external data file has its name; load the program with its .ptd file",
);
