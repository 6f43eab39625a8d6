//! Writing FlatBuffers: a table is its fields, a file is tables, a header spliced in, and segments.
//!
//! Thin over the `flatbuffers` crate, which lays out and deduplicates; what is added here are tables by the names of their
//! fields ([`Fields`], from the rows that also read them), alignment of byte vectors beyond eight, and the parts of a file
//! around the FlatBuffer. Equal calls give equal bytes.

use core::marker::PhantomData;
use flatbuffers::{FlatBufferBuilder, Push, UnionWIPOffset, WIPOffset};
use std::collections::BTreeMap;
use std::vec::Vec;

/// The content of one field.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    Absent,
    Bool(bool),
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    /// A string, vector or table written before.
    Ref(WIPOffset<UnionWIPOffset>),
}

macro_rules! slots {
    ($($t:ident $variant:ident)*) => {$(
        impl From<$t> for Slot {
            fn from(value: $t) -> Slot {
                Slot::$variant(value)
            }
        }
    )*};
}
slots!(bool Bool u8 U8 i8 I8 u16 U16 i16 I16 u32 U32 i32 I32 u64 U64 i64 I64 f32 F32 f64 F64);

impl Slot {
    /// Bytes in the table, 0 for what is not stored.
    fn size(self) -> usize {
        match self {
            Slot::Absent => 0,
            Slot::Bool(_) | Slot::U8(_) | Slot::I8(_) => 1,
            Slot::U16(_) | Slot::I16(_) => 2,
            Slot::U32(_) | Slot::I32(_) | Slot::F32(_) | Slot::Ref(_) => 4,
            Slot::U64(_) | Slot::I64(_) | Slot::F64(_) => 8,
        }
    }

    /// Whether it is a number all of whose bits are zero.
    fn is_zero(self) -> bool {
        match self {
            Slot::Absent | Slot::Ref(_) => false,
            Slot::Bool(value) => !value,
            Slot::U8(value) => value == 0,
            Slot::I8(value) => value == 0,
            Slot::U16(value) => value == 0,
            Slot::I16(value) => value == 0,
            Slot::U32(value) => value == 0,
            Slot::I32(value) => value == 0,
            Slot::U64(value) => value == 0,
            Slot::I64(value) => value == 0,
            Slot::F32(value) => value.to_bits() == 0,
            Slot::F64(value) => value.to_bits() == 0,
        }
    }
}

/// A table of the kind `T` before it is written; its rows give it functions that set a field each.
pub(crate) struct Fields<T> {
    slots: Vec<(u16, Slot)>,
    kind: PhantomData<T>,
}

impl<T> Fields<T> {
    pub(crate) fn new() -> Fields<T> {
        Fields { slots: Vec::new(), kind: PhantomData }
    }

    /// Sets a field.
    pub(crate) fn field(mut self, id: u16, slot: Slot) -> Fields<T> {
        self.slots.push((id, slot));
        self
    }

    /// Sets a field for which zero is the same as nothing.
    pub(crate) fn unless_zero(self, id: u16, slot: Slot) -> Fields<T> {
        if slot.is_zero() { self } else { self.field(id, slot) }
    }

    /// Writes the table.
    pub(crate) fn write(mut self, b: &mut Builder) -> Slot {
        self.slots.sort_by_key(|(id, _)| *id);
        b.fields(&self.slots)
    }
}

/// A FlatBuffer in the making. Parts are written before the tables that refer to them.
pub(crate) struct Builder {
    inner: FlatBufferBuilder<'static>,
    alignment: usize,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { inner: FlatBufferBuilder::new(), alignment: 16 }
    }

    /// Pads so that after `len` more bytes the position is aligned. The buffer grows towards its start, and positions
    /// count from its end.
    fn pad(&mut self, len: usize, alignment: usize) {
        while !(self.inner.unfinished_data().len() + len).is_multiple_of(alignment) {
            self.inner.push(0u8);
        }
    }

    pub(crate) fn string(&mut self, text: &str) -> Slot {
        Slot::Ref(self.inner.create_string(text).as_union_value())
    }

    pub(crate) fn optional_string(&mut self, text: Option<&str>) -> Slot {
        text.map_or(Slot::Absent, |text| self.string(text))
    }

    pub(crate) fn scalars<S: Push<Output: 'static>>(&mut self, items: &[S]) -> Slot {
        Slot::Ref(WIPOffset::new(self.inner.create_vector(items).value()))
    }

    /// A vector of bytes whose content is aligned in the file.
    pub(crate) fn bytes(&mut self, bytes: &[u8], alignment: usize) -> Slot {
        self.alignment = self.alignment.max(alignment);
        self.pad(bytes.len(), alignment);
        self.scalars(bytes)
    }

    /// A vector of what was written before.
    pub(crate) fn vector(&mut self, items: &[Slot]) -> Slot {
        let items: Vec<_> =
            items.iter().filter_map(|item| if let Slot::Ref(at) = item { Some(*at) } else { None }).collect();
        self.scalars(&items)
    }

    /// A vector made of one table per item.
    pub(crate) fn tables<'t, T>(&mut self, items: &'t [T], mut table: impl FnMut(&mut Builder, &'t T) -> Slot) -> Slot {
        let slots: Vec<_> = items.iter().map(|item| table(self, item)).collect();
        self.vector(&slots)
    }

    /// A table of any kind, as tests write it: the position of a slot is its field id.
    #[cfg(test)]
    pub(crate) fn table(&mut self, slots: &[Slot]) -> Slot {
        self.fields(&(0..).zip(slots.iter().copied()).collect::<Vec<_>>())
    }

    /// A table, the largest fields first.
    fn fields(&mut self, fields: &[(u16, Slot)]) -> Slot {
        let start = self.inner.start_table();
        for size in [8, 4, 2, 1] {
            for &(id, slot) in fields.iter().filter(|(_, slot)| slot.size() == size) {
                let entry = 4 + 2 * id;
                match slot {
                    Slot::Absent => {}
                    Slot::Bool(value) => self.inner.push_slot_always(entry, value),
                    Slot::U8(value) => self.inner.push_slot_always(entry, value),
                    Slot::I8(value) => self.inner.push_slot_always(entry, value),
                    Slot::U16(value) => self.inner.push_slot_always(entry, value),
                    Slot::I16(value) => self.inner.push_slot_always(entry, value),
                    Slot::U32(value) => self.inner.push_slot_always(entry, value),
                    Slot::I32(value) => self.inner.push_slot_always(entry, value),
                    Slot::U64(value) => self.inner.push_slot_always(entry, value),
                    Slot::I64(value) => self.inner.push_slot_always(entry, value),
                    Slot::F32(value) => self.inner.push_slot_always(entry, value),
                    Slot::F64(value) => self.inner.push_slot_always(entry, value),
                    Slot::Ref(value) => self.inner.push_slot_always(entry, value),
                }
            }
        }
        Slot::Ref(self.inner.end_table(start).as_union_value())
    }

    /// The finished FlatBuffer.
    pub(crate) fn finish(mut self, root: Slot, identifier: [u8; 4]) -> Vec<u8> {
        // What follows are the eight bytes of identifier and root offset.
        self.pad(8, self.alignment);
        if let (Slot::Ref(root), Ok(identifier)) = (root, core::str::from_utf8(&identifier)) {
            self.inner.finish(root, Some(identifier));
        }
        self.inner.finished_data().to_vec()
    }
}

/// Byte strings one after the other, which are copied only when the file is put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces<'a> {
    /// Where each one lies, in ascending order.
    places: Vec<(usize, &'a [u8])>,
    len: usize,
}

impl<'a> Pieces<'a> {
    /// How many bytes they take.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Leaves room up to a multiple of the alignment.
    fn align(&mut self, alignment: usize) {
        self.len = self.len.next_multiple_of(alignment);
    }

    /// Adds one and gives its place.
    fn push(&mut self, bytes: &'a [u8]) -> usize {
        let place = self.len;
        self.places.push((place, bytes));
        self.len += bytes.len();
        place
    }

    /// Writes them at a place of a file that is not written further yet; room between them becomes zeros.
    pub(crate) fn write(&self, file: &mut Vec<u8>, start: usize) {
        file.reserve_exact((start + self.len).saturating_sub(file.len()));
        for (place, bytes) in &self.places {
            file.resize(start + place, 0);
            file.extend_from_slice(bytes);
        }
        file.resize(start + self.len, 0);
    }
}

/// Segments in the making: bytes one after the other, each at its alignment.
#[derive(Default)]
pub(crate) struct Segments<'a> {
    /// Offset and size of each.
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) data: Pieces<'a>,
    known: BTreeMap<&'a [u8], u32>,
}

impl<'a> Segments<'a> {
    /// Adds a segment and gives its index.
    pub(crate) fn push(&mut self, segment: Pieces<'a>, alignment: usize) -> u32 {
        if segment.len > 0 {
            self.data.align(alignment);
        }
        let start = self.data.len;
        self.ranges.push((start as u64, segment.len as u64));
        self.data.places.extend(segment.places.into_iter().map(|(place, bytes)| (start + place, bytes)));
        self.data.len += segment.len;
        self.ranges.len() as u32 - 1
    }

    /// Adds a segment unless one with these bytes was added in this way before.
    pub(crate) fn share(&mut self, bytes: &'a [u8], alignment: usize) -> u32 {
        if let Some(&index) = self.known.get(bytes) {
            return index;
        }
        let index = self.push(Pieces { places: Vec::from([(0, bytes)]), len: bytes.len() }, alignment);
        self.known.insert(bytes, index);
        index
    }

    /// The segments as tables, which `table` begins of an offset and a size.
    pub(crate) fn tables<T>(&self, b: &mut Builder, table: impl Fn(u64, u64) -> Fields<T>) -> Slot {
        b.tables(&self.ranges, |b, &(offset, size)| table(offset, size).write(b))
    }
}

/// Packs byte strings at an alignment; equal ones share their place. Gives the packed bytes and the offsets, which start
/// with the placeholder that index 0 is in all such lists.
pub(crate) fn pack<'a>(items: &'a [impl AsRef<[u8]>], alignment: usize) -> (Pieces<'a>, Vec<u64>) {
    let (mut data, mut offsets, mut known) = (Pieces::default(), Vec::from([0]), BTreeMap::new());
    for item in items {
        let item = item.as_ref();
        let offset = *known.entry(item).or_insert_with(|| {
            data.align(alignment);
            data.push(item) as u64
        });
        offsets.push(offset);
    }
    (data, offsets)
}

/// Puts a header between the identifier and the rest of a FlatBuffer and moves the root offset accordingly. The header's
/// length must be a multiple of the largest alignment in use.
pub(crate) fn splice(flatbuffer: &[u8], header: &[u8]) -> Vec<u8> {
    let Some((head, body)) = flatbuffer.split_first_chunk::<8>() else {
        return flatbuffer.to_vec();
    };
    let [a, b, c, d, identifier @ ..] = *head;
    let root = u32::from_le_bytes([a, b, c, d]) + header.len() as u32;
    [&root.to_le_bytes(), &identifier, header, body].concat()
}
