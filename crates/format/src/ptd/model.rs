//! A data file as owned values, to be made, changed and written.

use super::{DataSegment, File, FlatTensor, HEAD_BYTES, Header, NamedData, TensorLayout};
use crate::builder::{Builder, Pieces, Segments, Slot, splice};
use crate::{Error, FileKind, ScalarType};
use std::borrow::{Cow, ToOwned};
use std::string::String;
use std::vec::Vec;

/// A whole data file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data<'a> {
    /// Always 0 so far.
    pub version: u32,
    /// What the file holds.
    pub entries: Vec<Entry<'a>>,
}

/// Data with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub key: String,
    /// The bytes; written once however many names share them.
    pub data: Cow<'a, [u8]>,
    /// How to read them as a tensor; `None` for opaque data.
    pub layout: Option<Layout>,
}

/// A tensor's type and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Element type.
    pub dtype: ScalarType,
    /// Sizes.
    pub sizes: Vec<i32>,
    /// Dimensions from outermost to innermost.
    pub dim_order: Vec<u8>,
}

impl<'a> Data<'a> {
    /// Reads and checks a whole data file.
    pub fn read(bytes: &'a [u8]) -> Result<Data<'a>, Error> {
        let file_size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let header = Header::parse(bytes.get(..HEAD_BYTES).unwrap_or(bytes), file_size)?;
        let file = File::parse(bytes, header, file_size)?;
        let entry = |index| {
            let range = file.range(index);
            let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
            let data = start.ok().zip(end.ok()).and_then(|(start, end)| bytes.get(start..end)).unwrap_or_default();
            let layout = file.layout(index).map(|layout| Layout {
                dtype: layout.dtype(),
                sizes: layout.sizes().iter().collect(),
                dim_order: layout.dim_order().bytes().to_vec(),
            });
            Entry { key: file.key(index).to_owned(), data: Cow::Borrowed(data), layout }
        };
        Ok(Data { version: file.root().version(), entries: (0..file.len()).map(entry).collect() })
    }

    /// The data as a file, every segment aligned to 128 bytes.
    pub fn write(&self) -> Vec<u8> {
        self.write_aligned(128)
    }

    /// The data as a file with every segment aligned as asked for. The alignment must not be 0.
    pub fn write_aligned(&self, alignment: usize) -> Vec<u8> {
        let (mut b, mut segments) = (Builder::new(), Segments::default());
        let named = b.tables(&self.entries, |b, entry| {
            let segment = segments.share(&entry.data, alignment);
            let key = b.string(&entry.key);
            let layout = entry.layout.as_ref().map_or(Slot::Absent, |layout| {
                let (sizes, dim_order) = (b.scalars(&layout.sizes), b.scalars(&layout.dim_order));
                let table = TensorLayout::fields().scalar_type(layout.dtype.code() as i8);
                table.sizes(sizes).dim_order(dim_order).write(b)
            });
            NamedData::fields().key(key).segment_index(segment).tensor_layout(layout).write(b)
        });
        let ranges = segments.tables(&mut b, |offset, size| DataSegment::fields().offset(offset).size(size));
        let root = FlatTensor::fields().version(self.version).segments(ranges).named_data(named).write(&mut b);
        assemble(&b.finish(root, FileKind::Tensors.identifier()), &segments.data, alignment)
    }
}

/// Header, FlatBuffers part and segments.
fn assemble(flatbuffer: &[u8], segments: &Pieces<'_>, alignment: usize) -> Vec<u8> {
    const HEADER: usize = 40;
    let tables_end = 8 + HEADER + flatbuffer.len();
    let base = tables_end.next_multiple_of(alignment);
    let mut header = Vec::from(*b"FH01");
    header.extend_from_slice(&(HEADER as u32).to_le_bytes());
    for number in [8 + HEADER, flatbuffer.len(), base, segments.len()] {
        header.extend_from_slice(&(number as u64).to_le_bytes());
    }
    let mut file = splice(flatbuffer, &header);
    segments.write(&mut file, base);
    file
}
