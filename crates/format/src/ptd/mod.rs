//! Data files, `.ptd`: tensors and blobs by name, for programs that keep their data outside.
//!
//! ```text
//! 0             root offset (u32), identifier "FT01"
//! 8             "FH01", length 40, flatbuffer_offset, flatbuffer_size, segment_base, segment_data_size
//! ...           FlatBuffers part
//! segment_base  segments, one per distinct buffer
//! ```
//!
//! Read like a program: [`Header::parse`] on the first bytes, then [`File::parse`] on [`Header::loaded_size`] bytes.

use crate::flatbuf::{Scalar, tables};
use crate::pte::{check_identifier, ensure, leading, number, shape};
use crate::{Error, FileKind, Place, Rule, ScalarType};
use core::ops::Range;

#[cfg(feature = "write")]
pub mod model;

tables! {
    /// The root.
    table FlatTensor { 0 version: u32, 1 segments: [DataSegment], 2 named_data: [NamedData] }
    /// A range of bytes, counted from the header's segment base.
    table DataSegment { 0 offset: u64, 1 size: u64 }
    /// A name for a segment.
    table NamedData { 0 key: str, 1 segment_index: u32, 2 tensor_layout: TensorLayout }
    /// How to read the bytes as a tensor.
    table TensorLayout { 0 scalar_type: i8, 1 sizes: [i32], 2 dim_order: [u8] }
}

impl TensorLayout<'_> {
    /// The element type. (`Byte`, the format's default, on bytes that were not checked.)
    pub fn dtype(self) -> ScalarType {
        ScalarType::from_i8(self.scalar_type()).unwrap_or(ScalarType::Byte)
    }
}

/// How much of a file [`Header::parse`] wants to see.
pub const HEAD_BYTES: usize = 64;

/// What the head of a file says about where things are. Plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where the FlatBuffers part goes on after the header.
    pub flatbuffer_offset: u64,
    /// Bytes of the FlatBuffers part, as it was before the header was put in.
    pub flatbuffer_size: u64,
    /// Where segments are counted from.
    pub segment_base: u64,
    /// Bytes of all segments.
    pub segment_data_size: u64,
}

impl Header {
    /// Reads the first bytes of a file: [`HEAD_BYTES`] of them, or all of a shorter file.
    pub fn parse(head: &[u8], file_size: u64) -> Result<Header, Error> {
        check_identifier(head, file_size, FileKind::Tensors)?;
        let truncated = Error::Truncated { expected: 48, actual: file_size };
        let length = u32::read(head, 12).ok_or(truncated)?;
        if head.get(8..12) != Some(b"FH01") || length < 40 {
            return Err(Error::Corrupt { offset: 8, what: "the header of at least 40 bytes is missing" });
        }
        let number = |at| u64::read(head, at).ok_or(truncated);
        let header = Header {
            flatbuffer_offset: number(16)?,
            flatbuffer_size: number(24)?,
            segment_base: number(32)?,
            segment_data_size: number(40)?,
        };
        let tables = header.flatbuffer_offset.checked_add(header.flatbuffer_size);
        let data = header.segment_base.checked_add(header.segment_data_size);
        let (Some(tables), Some(data)) = (tables, data) else {
            return Err(Error::Corrupt { offset: 16, what: "parts end beyond the largest file" });
        };
        if tables.max(data) > file_size {
            return Err(Error::Truncated { expected: tables.max(data), actual: file_size });
        }
        Ok(header)
    }

    /// How many bytes from the start of the file [`File::parse`] needs.
    pub fn loaded_size(&self) -> u64 {
        self.flatbuffer_offset.saturating_add(self.flatbuffer_size)
    }
}

/// A data file.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    root: FlatTensor<'a>,
    header: Header,
}

impl<'a> File<'a> {
    /// Verifies the FlatBuffers part (`bytes`: at least the first `header.loaded_size()` of the file) and all rules.
    pub fn parse(bytes: &'a [u8], header: Header, file_size: u64) -> Result<File<'a>, Error> {
        let bytes = leading(bytes, header.loaded_size())?;
        check_identifier(bytes, file_size, FileKind::Tensors)?;
        FlatTensor::verify(bytes)?;
        let file = File::reopen(bytes, header);
        file.check(file_size)?;
        Ok(file)
    }

    /// A view over bytes that [`File::parse`] accepted before, at no cost.
    pub fn reopen(bytes: &'a [u8], header: Header) -> File<'a> {
        File { root: FlatTensor::root(leading(bytes, header.loaded_size()).unwrap_or(bytes)), header }
    }

    /// What the head of the file said.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The root table.
    pub fn root(&self) -> FlatTensor<'a> {
        self.root
    }

    /// Number of named entries.
    pub fn len(&self) -> usize {
        self.root.named_data().len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of entry `index`; empty past the end.
    pub fn key(&self, index: usize) -> &'a str {
        self.root.named_data().get(index).and_then(NamedData::key).unwrap_or_default()
    }

    /// The entry of this name.
    pub fn find(&self, key: &str) -> Option<usize> {
        self.root.named_data().iter().position(|entry| entry.key() == Some(key))
    }

    /// Absolute byte range of entry `index` in the file; `0..0` if it is empty, and past the end.
    pub fn range(&self, index: usize) -> Range<u64> {
        let segment = self.root.named_data().get(index).and_then(|entry| self.segment(entry.segment_index()));
        segment.unwrap_or(0..0)
    }

    /// How to read entry `index` as a tensor; `None` for opaque data.
    pub fn layout(&self, index: usize) -> Option<TensorLayout<'a>> {
        self.root.named_data().get(index)?.tensor_layout()
    }

    fn segment(&self, index: u32) -> Option<Range<u64>> {
        let segment = self.root.segments().get(usize::try_from(index).ok()?)?;
        if segment.size() == 0 {
            return Some(0..0);
        }
        let start = self.header.segment_base.checked_add(segment.offset())?;
        Some(start..start.checked_add(segment.size())?)
    }

    fn check(&self, file_size: u64) -> Result<(), Error> {
        let segments = self.root.segments();
        ensure(segments.is_present(), Place::File, Rule::SegmentsMissing)?;
        ensure(self.root.named_data().is_present(), Place::File, Rule::NamedDataMissing)?;
        for index in 0..number(segments.len()) {
            let end = self.segment(index).map_or(u64::MAX, |range| range.end);
            if end > file_size {
                return Err(Error::invalid(Place::Segment(index), Rule::SegmentOutside, end, file_size));
            }
        }
        for (i, entry) in self.root.named_data().iter().enumerate() {
            let place = Place::NamedData(number(i));
            ensure(entry.key().is_some(), place, Rule::KeyMissing)?;
            let segment = usize::try_from(entry.segment_index()).ok().and_then(|index| segments.get(index));
            let Some(segment) = segment else {
                return Err(Error::invalid(place, Rule::SegmentIndex, entry.segment_index(), segments.len()));
            };
            if let Some(layout) = entry.tensor_layout() {
                let nbytes = shape(layout.scalar_type(), layout.sizes(), layout.dim_order(), place)?;
                if nbytes > segment.size() {
                    return Err(Error::invalid(place, Rule::LayoutSize, segment.size(), nbytes));
                }
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "write"))]
mod tests;
