//! Program files, `.pte`.
//!
//! ```text
//! 0             root offset (u32), identifier "ET12"
//! 8             optional: "eh00", length, program_size, segment_base, segment_data_size
//! ...           FlatBuffers part, program_size bytes from 0
//! segment_base  segments: constants, initial states, delegate payloads, named data
//! ```
//!
//! Only the FlatBuffers part must be in memory to read a program; segments are given as byte ranges of the file and may
//! be mapped, loaded later or executed in place. [`Header`] tells from the first [`HEAD_BYTES`] how much to load, and
//! [`File::parse`] checks everything that can be checked without the segments' content.

#[cfg(feature = "write")]
pub mod model;
mod rules;
mod schema;

pub(crate) use rules::{ensure, index, number, shape};
pub use schema::*;

use crate::flatbuf::{self, Scalar};
use crate::{Error, FileKind};
use core::ops::Range;

/// How much of a file [`Header::parse`] wants to see.
pub const HEAD_BYTES: usize = 64;

/// Most dimensions a tensor can have.
pub const MAX_RANK: usize = 16;

/// What the head of a file says about where things are. Plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the FlatBuffers part, from the start of the file.
    pub program_size: u64,
    /// Where segments are counted from; 0 when there are none.
    pub segment_base: u64,
    /// Bytes of all segments; 0 when there are none, and in old files.
    pub segment_data_size: u64,
}

impl Header {
    /// Reads the first bytes of a file: [`HEAD_BYTES`] of them, or all of a shorter file.
    pub fn parse(head: &[u8], file_size: u64) -> Result<Header, Error> {
        check_identifier(head, file_size, FileKind::Program)?;
        if head.get(8..12) != Some(b"eh00") {
            return Ok(Header { program_size: file_size, segment_base: 0, segment_data_size: 0 });
        }
        let length = u32::read(head, 12).ok_or(Error::Truncated { expected: 32, actual: file_size })?;
        if length < 24 {
            return Err(Error::Corrupt { offset: 12, what: "the extended header is shorter than 24 bytes" });
        }
        let expected = if length < 32 { 32 } else { 40 };
        let number = |at| u64::read(head, at).ok_or(Error::Truncated { expected, actual: file_size });
        let header = Header {
            program_size: number(16)?,
            segment_base: number(24)?,
            segment_data_size: if length < 32 { 0 } else { number(32)? },
        };
        let end = header.segment_base.checked_add(header.segment_data_size);
        let end = end.ok_or(Error::Corrupt { offset: 24, what: "the segments end beyond the largest file" })?;
        // Without a size of the segments, where they begin says nothing: they may all be empty.
        let data_end = if header.segment_data_size > 0 { end } else { 0 };
        let expected = data_end.max(header.program_size);
        if expected > file_size {
            return Err(Error::Truncated { expected, actual: file_size });
        }
        Ok(header)
    }
}

/// Tells another kind of file from another version of this kind.
pub(crate) fn check_identifier(head: &[u8], file_size: u64, expected: FileKind) -> Result<(), Error> {
    let found = flatbuf::identifier(head).ok_or(Error::Truncated { expected: 8, actual: file_size })?;
    let wanted = expected.identifier();
    if found == wanted {
        Ok(())
    } else if found[..2] == wanted[..2] && found[2..].iter().all(u8::is_ascii_digit) {
        Err(Error::IncompatibleVersion { expected, found })
    } else {
        Err(Error::NotAProgram { expected, found })
    }
}

/// The first `size` bytes of a buffer, or an error that says how many are missing.
pub(crate) fn leading(bytes: &[u8], size: u64) -> Result<&[u8], Error> {
    let part = usize::try_from(size).ok().and_then(|size| bytes.get(..size));
    part.ok_or_else(|| Error::Truncated { expected: size, actual: u64::try_from(bytes.len()).unwrap_or(u64::MAX) })
}

/// A delegate's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Bytes in the FlatBuffers part.
    Inline(&'a [u8]),
    /// An absolute byte range of the file.
    Segment(Range<u64>),
}

impl Payload<'_> {
    /// Its bytes.
    fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Segment(range) => range.end.saturating_sub(range.start),
        }
    }
}

/// A program file.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    program: Program<'a>,
    header: Header,
}

impl<'a> File<'a> {
    /// Verifies the FlatBuffers part (`program`: at least the first `header.program_size` bytes of the file) and all
    /// rules of meaning.
    pub fn parse(program: &'a [u8], header: Header, file_size: u64) -> Result<File<'a>, Error> {
        let program = leading(program, header.program_size)?;
        check_identifier(program, file_size, FileKind::Program)?;
        Program::verify(program)?;
        let file = File::reopen(program, header);
        rules::check(file, file_size)?;
        Ok(file)
    }

    /// A view over bytes that [`File::parse`] accepted before, at no cost.
    pub fn reopen(program: &'a [u8], header: Header) -> File<'a> {
        File { program: Program::root(leading(program, header.program_size).unwrap_or(program)), header }
    }

    /// What the head of the file said.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The root table.
    pub fn program(&self) -> Program<'a> {
        self.program
    }

    /// Absolute byte range of segment `index` in the file. An empty segment is nowhere: `0..0`.
    pub fn segment(&self, index: u32) -> Option<Range<u64>> {
        let segment = self.program.segments().get(usize::try_from(index).ok()?)?;
        if segment.size() == 0 {
            return Some(0..0);
        }
        let start = self.header.segment_base.checked_add(segment.offset())?;
        Some(start..start.checked_add(segment.size())?)
    }

    /// The `nbytes` at entry `index` of a segment's offsets. Entry 0 is a placeholder.
    fn subsegment(&self, table: SubsegmentOffsets<'a>, index: u32, nbytes: u64) -> Option<Range<u64>> {
        if index == 0 {
            return None;
        }
        let offset = table.offsets().get(usize::try_from(index).ok()?)?;
        let segment = self.segment(table.segment_index())?;
        let start = segment.start.checked_add(offset)?;
        let end = start.checked_add(nbytes)?;
        (end <= segment.end).then_some(start..end)
    }

    /// Absolute range of the constant of `nbytes` that a tensor's `data_buffer_idx` names; `None` when the constant
    /// segment has no such constant or it does not fit.
    pub fn constant(&self, index: u32, nbytes: u64) -> Option<Range<u64>> {
        self.subsegment(self.program.constant_segment()?, index, nbytes)
    }

    /// Absolute range of the initial state of `nbytes` that a planned tensor's `data_buffer_idx` names.
    pub fn mutable_initial(&self, index: u32, nbytes: u64) -> Option<Range<u64>> {
        self.subsegment(self.program.mutable_data_segments().get(0)?, index, nbytes)
    }

    /// A constant of an old file, which keeps them in the FlatBuffers part.
    pub fn inline_constant(&self, index: u32) -> Option<&'a [u8]> {
        if index == 0 {
            return None;
        }
        self.program.constant_buffer().get(usize::try_from(index).ok()?).map(|buffer| buffer.storage().bytes())
    }

    /// Where a delegate's payload is.
    pub fn delegate_payload(&self, delegate: BackendDelegate<'a>) -> Option<Payload<'a>> {
        let reference = delegate.processed()?;
        if reference.location() == 1 {
            return self.segment(reference.index()).map(Payload::Segment);
        }
        let data = self.program.backend_delegate_data().get(usize::try_from(reference.index()).ok()?)?;
        Some(Payload::Inline(data.data().bytes()))
    }

    /// Absolute range of the data that a backend asks for by name.
    pub fn named_data(&self, key: &str) -> Option<Range<u64>> {
        let entry = self.program.named_data().iter().find(|entry| entry.key() == Some(key))?;
        self.segment(entry.segment_index())
    }

    /// The method of this name.
    pub fn plan(&self, method: &str) -> Option<ExecutionPlan<'a>> {
        self.program.execution_plan().iter().find(|plan| plan.name() == Some(method))
    }
}

#[cfg(all(test, feature = "write"))]
mod tests;
