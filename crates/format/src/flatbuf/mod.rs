//! A checked zero-copy reader for FlatBuffers.
//!
//! The encoding: a *table* starts with a signed distance back to its *vtable*, which lists for each field id where in the
//! table the field lies (0: absent, the reader supplies the default). Scalars lie in place; strings, vectors and other
//! tables are reached by an unsigned distance forward from the field. A union is two fields: a byte that names the member
//! and the member's table. Everything is little endian.
//!
//! Three layers:
//! - [`Table`], [`Vector`] and [`Scalars`] read. Every read is checked against the buffer and falls back to the default,
//!   so that no bytes whatsoever can make an accessor panic, loop or read outside. No alignment is needed.
//! - `tables!` turns rows (field id, name, type) into typed views, into a static [`Schema`] and, with the feature `write`,
//!   into what writes them. A new format is rows, not code.
//! - [`verify`] walks a buffer once along a [`Schema`] and accepts it or says what is wrong where. After it has accepted,
//!   the fall-backs above are never taken.

mod tables;
mod verify;

#[cfg(feature = "write")]
pub(crate) use tables::setter;
pub(crate) use tables::{accessor, class, kind, tables};
pub(crate) use verify::{Field, Kind};
pub use verify::{Schema, verify};

use crate::Error;
use core::fmt;
use core::marker::PhantomData;

/// A number stored in place. Implemented for Rust's fixed-size numbers and `bool`.
pub trait Scalar: Copy + Default + PartialEq + fmt::Debug {
    /// Bytes in the file.
    const SIZE: usize;
    /// The number at a byte offset, or `None` outside the buffer.
    fn read(bytes: &[u8], at: usize) -> Option<Self>;
}

macro_rules! scalars {
    ($($t:ty)*) => {$(
        impl Scalar for $t {
            const SIZE: usize = size_of::<$t>();
            #[inline]
            fn read(bytes: &[u8], at: usize) -> Option<$t> {
                Some(<$t>::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
            }
        }
    )*};
}
scalars!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

impl Scalar for bool {
    const SIZE: usize = 1;
    #[inline]
    fn read(bytes: &[u8], at: usize) -> Option<bool> {
        bytes.get(at).map(|&byte| byte != 0)
    }
}

/// A `u32` of the file as a length or distance.
fn read_usize(bytes: &[u8], at: usize) -> Option<usize> {
    u32::read(bytes, at).and_then(|n| usize::try_from(n).ok())
}

/// Where the distance stored at `at` leads.
fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(read_usize(bytes, at)?)
}

/// The `len` elements of `size` bytes of the vector at `at`.
fn vector_bytes(bytes: &[u8], at: usize, size: usize) -> Option<&[u8]> {
    let start = at.checked_add(4)?;
    let end = read_usize(bytes, at)?.checked_mul(size)?.checked_add(start)?;
    bytes.get(start..end)
}

fn string_at(bytes: &[u8], at: usize) -> Option<&str> {
    core::str::from_utf8(vector_bytes(bytes, at, 1)?).ok()
}

/// One table in a buffer.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    bytes: &'a [u8],
    /// Position of the table; 0, where the buffer's own root offset lies, stands for "no table".
    at: usize,
}

impl<'a> Table<'a> {
    /// A table without fields that is nowhere.
    pub const ABSENT: Table<'static> = Table { bytes: &[], at: 0 };

    /// The root table of a buffer.
    pub fn root(bytes: &'a [u8]) -> Table<'a> {
        Table { bytes, at: follow(bytes, 0).unwrap_or(0) }
    }

    /// Whether there is a table at all.
    pub fn is_present(self) -> bool {
        self.at != 0
    }

    /// Byte offset of a field in the buffer, or `None` if it is absent.
    fn field(self, id: u16) -> Option<usize> {
        if self.at == 0 {
            return None;
        }
        let back = isize::try_from(i32::read(self.bytes, self.at)?).ok()?.checked_neg()?;
        let vtable = self.at.checked_add_signed(back)?;
        let entry = usize::from(id).checked_mul(2)?.checked_add(4)?;
        if entry.checked_add(2)? > usize::from(u16::read(self.bytes, vtable)?) {
            return None;
        }
        match u16::read(self.bytes, vtable.checked_add(entry)?)? {
            0 => None,
            offset => self.at.checked_add(usize::from(offset)),
        }
    }

    /// Where a field that holds a distance leads.
    fn target(self, id: u16) -> Option<usize> {
        follow(self.bytes, self.field(id)?)
    }

    /// Whether the field is stored.
    pub fn has(self, id: u16) -> bool {
        self.field(id).is_some()
    }

    /// A number.
    pub fn scalar<S: Scalar>(self, id: u16, default: S) -> S {
        self.field(id).and_then(|at| S::read(self.bytes, at)).unwrap_or(default)
    }

    /// A string.
    pub fn string(self, id: u16) -> Option<&'a str> {
        string_at(self.bytes, self.target(id)?)
    }

    /// A nested table.
    pub fn table(self, id: u16) -> Option<Table<'a>> {
        self.target(id).map(|at| Table { bytes: self.bytes, at })
    }

    /// A vector of numbers; without elements when the field is absent.
    pub fn scalars<S: Scalar>(self, id: u16) -> Scalars<'a, S> {
        let bytes = self.target(id).and_then(|at| vector_bytes(self.bytes, at, S::SIZE));
        Scalars { bytes, element: PhantomData }
    }

    /// A vector of tables or strings; without elements when the field is absent.
    pub fn vector<T: Element<'a>>(self, id: u16) -> Vector<'a, T> {
        let slots =
            self.target(id).and_then(|at| Some((at.checked_add(4)?, vector_bytes(self.bytes, at, 4)?.len() / 4)));
        let (at, len) = slots.unwrap_or((0, 0));
        Vector { bytes: self.bytes, at, len, element: PhantomData }
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}", self.at)
    }
}

/// A typed view of a table, as `tables!` declares them.
pub trait View<'a>: Copy {
    /// The rows of the table.
    const SCHEMA: &'static Schema;
    /// Reads a table as this type.
    fn over(table: Table<'a>) -> Self;
    /// The table under the view.
    fn table(self) -> Table<'a>;
}

/// What a vector of distances can lead to: tables and strings.
pub trait Element<'a>: Copy {
    /// The element at a byte offset; a default one if nothing sensible is there.
    fn element(bytes: &'a [u8], at: usize) -> Self;
}

impl<'a, T: View<'a>> Element<'a> for T {
    fn element(bytes: &'a [u8], at: usize) -> T {
        T::over(Table { bytes, at })
    }
}

impl<'a> Element<'a> for &'a str {
    fn element(bytes: &'a [u8], at: usize) -> &'a str {
        string_at(bytes, at).unwrap_or_default()
    }
}

/// A vector of tables or strings.
#[derive(Clone, Copy)]
pub struct Vector<'a, T> {
    bytes: &'a [u8],
    /// Position of the first distance; 0 for a vector that is absent.
    at: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<'a, T: Element<'a>> Vector<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the file stores the vector, be it empty.
    pub fn is_present(&self) -> bool {
        self.at != 0
    }

    /// Element `index`, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        let slot = index.checked_mul(4)?.checked_add(self.at)?;
        Some(T::element(self.bytes, follow(self.bytes, slot).unwrap_or(0)))
    }

    /// All elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + DoubleEndedIterator + Clone + use<'a, T> {
        let vector = *self;
        (0..self.len).map(move |index| vector.get(index).unwrap_or_else(|| T::element(&[], 0)))
    }
}

impl<'a, T: Element<'a> + fmt::Debug> fmt::Debug for Vector<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A vector of numbers.
#[derive(Clone, Copy)]
pub struct Scalars<'a, S> {
    bytes: Option<&'a [u8]>,
    element: PhantomData<S>,
}

impl<'a, S: Scalar> Scalars<'a, S> {
    /// Elements that lie in memory as a file would hold them, in little-endian order.
    pub fn over(bytes: &'a [u8]) -> Self {
        Self { bytes: Some(bytes), element: PhantomData }
    }

    fn raw(&self) -> &'a [u8] {
        self.bytes.unwrap_or_default()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.raw().len() / S::SIZE
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.raw().is_empty()
    }

    /// Whether the file stores the vector, be it empty.
    pub fn is_present(&self) -> bool {
        self.bytes.is_some()
    }

    /// Element `index`, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<S> {
        S::read(self.raw(), index.checked_mul(S::SIZE)?)
    }

    /// All elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = S> + DoubleEndedIterator + Clone + use<'a, S> {
        self.raw().chunks_exact(S::SIZE).map(|chunk| S::read(chunk, 0).unwrap_or_default())
    }
}

impl<'a> Scalars<'a, u8> {
    /// The elements as they lie in the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.raw()
    }
}

impl<S: Scalar> fmt::Debug for Scalars<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The file identifier at bytes 4 to 8 of a buffer.
pub fn identifier(bytes: &[u8]) -> Option<[u8; 4]> {
    bytes.get(4..)?.first_chunk().copied()
}

/// The buffer behind a length prefix, as size-prefixed files (ETDump) are written.
pub fn strip_size_prefix(bytes: &[u8]) -> Result<&[u8], Error> {
    vector_bytes(bytes, 0, 1).ok_or_else(|| Error::Truncated {
        expected: u32::read(bytes, 0).map_or(4, |n| u64::from(n).saturating_add(4)),
        actual: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests;
