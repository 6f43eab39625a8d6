//! The payload of the XNNPACK delegate: a graph of values and nodes, and constants.
//!
//! ```text
//! 0                     0 (u32), "XH00", header size 30 (u16)
//! 10                    flatbuffer_offset, flatbuffer_size, constant_data_offset (u32), constant_data_size (u64)
//! flatbuffer_offset     FlatBuffers part: identifier "XN01" (or "XN00"), the graph
//! constant_data_offset  constants
//! ```
//!
//! Constants lie in the payload or are found by name among the named data of the program. Old payloads are the
//! FlatBuffers part alone, with the constants inside.
//!
//! The graph lists all values, then the nodes in the order in which they run. A value's id is its position in the list,
//! as all exporters number them; the format would allow other numbers. Values are inputs or outputs (bound to the
//! arguments of the call by *external id*), constants, or in between.

mod datatype;
#[cfg(feature = "write")]
pub mod model;
mod rules;
mod schema;

pub use datatype::{Datatype, Scheme};
pub use schema::*;

use crate::flatbuf::{self, Scalar, Vector};
use crate::{Error, FileKind};

/// The name that programs have for the backend.
pub const BACKEND: &str = "XnnpackBackend";

/// Most dimensions a value can have.
pub const MAX_RANK: usize = 6;

/// Most inputs and outputs a graph can have together.
pub const MAX_EXTERNS: usize = 4096;

/// Bytes of the header that are used.
const HEADER: u16 = 30;

/// Where the parts of a payload are. Plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Where the FlatBuffers part begins.
    pub flatbuffer_offset: u64,
    /// Bytes of the FlatBuffers part.
    pub flatbuffer_size: u64,
    /// Where offsets of constants are counted from; 0 in old payloads, which have the constants in the FlatBuffers part.
    pub constant_data_offset: u64,
    /// Bytes of all constants in the payload.
    pub constant_data_size: u64,
}

impl Header {
    /// Reads the head of a payload.
    pub fn parse(payload: &[u8]) -> Result<Header, Error> {
        let actual = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        let truncated = Error::Truncated { expected: u64::from(HEADER), actual };
        if flatbuf::identifier(payload).ok_or(truncated)? != *b"XH00" {
            check_identifier(payload)?;
            return Ok(Header { flatbuffer_size: actual, ..Header::default() });
        }
        if u16::read(payload, 8).ok_or(truncated)? < HEADER {
            return Err(Error::Corrupt { offset: 8, what: "the header is shorter than 30 bytes" });
        }
        let number = |at| u32::read(payload, at).map(u64::from).ok_or(truncated);
        let header = Header {
            flatbuffer_offset: number(10)?,
            flatbuffer_size: number(14)?,
            constant_data_offset: number(18)?,
            constant_data_size: u64::read(payload, 22).ok_or(truncated)?,
        };
        header.check(actual)?;
        Ok(header)
    }

    fn check(&self, actual: u64) -> Result<(), Error> {
        if self.flatbuffer_offset < u64::from(HEADER) || self.flatbuffer_size < 8 {
            return Err(Error::Corrupt { offset: 10, what: "the FlatBuffers part is inside the header or empty" });
        }
        let graph_end = self.flatbuffer_offset.saturating_add(self.flatbuffer_size);
        if self.constant_data_offset < graph_end {
            return Err(Error::Corrupt { offset: 18, what: "the constants begin before the FlatBuffers part ends" });
        }
        // Where there are no constants, the padding in front of them may be missing.
        let data_end = self.constant_data_offset.saturating_add(self.constant_data_size);
        let expected = if self.constant_data_size > 0 { data_end } else { graph_end };
        if expected > actual { Err(Error::Truncated { expected, actual }) } else { Ok(()) }
    }
}

/// Accepts both versions of the FlatBuffers part; they differ in where constants are.
fn check_identifier(flatbuffer: &[u8]) -> Result<(), Error> {
    let found = flatbuf::identifier(flatbuffer).unwrap_or_default();
    let expected = FileKind::Xnnpack;
    match &found {
        b"XN00" | b"XN01" => Ok(()),
        [b'X', b'N' | b'H', b'0'..=b'9', b'0'..=b'9'] => Err(Error::IncompatibleVersion { expected, found }),
        _ => Err(Error::NotAProgram { expected, found }),
    }
}

/// Where a constant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant<'a> {
    /// In the payload.
    Bytes(&'a [u8]),
    /// Among the named data of the program, under this key.
    Named(&'a str),
}

/// A payload.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    graph: Graph<'a>,
    header: Header,
    constants: &'a [u8],
}

/// The part of a payload of `size` bytes at `offset`.
fn part(payload: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    payload.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

impl<'a> File<'a> {
    /// Verifies a whole payload and all rules.
    pub fn parse(payload: &'a [u8]) -> Result<File<'a>, Error> {
        let header = Header::parse(payload)?;
        let flatbuffer = part(payload, header.flatbuffer_offset, header.flatbuffer_size).unwrap_or_default();
        check_identifier(flatbuffer)?;
        Graph::verify(flatbuffer)?;
        let file = File::reopen(payload, header);
        rules::check(file)?;
        Ok(file)
    }

    /// A view over bytes that [`File::parse`] accepted before, at no cost.
    pub fn reopen(payload: &'a [u8], header: Header) -> File<'a> {
        let flatbuffer = part(payload, header.flatbuffer_offset, header.flatbuffer_size);
        let constants = part(payload, header.constant_data_offset, header.constant_data_size);
        File { graph: Graph::root(flatbuffer.unwrap_or_default()), header, constants: constants.unwrap_or_default() }
    }

    /// What the head of the payload said.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The root table.
    pub fn graph(&self) -> Graph<'a> {
        self.graph
    }

    /// All values; a value's position is its id.
    pub fn values(&self) -> Vector<'a, XValue<'a>> {
        self.graph.xvalues()
    }

    /// The value that nodes call `id`.
    pub fn value(&self, id: u32) -> Option<XValue<'a>> {
        self.values().get(usize::try_from(id).ok()?)
    }

    /// All nodes, in the order in which they run.
    pub fn nodes(&self) -> Vector<'a, XNode<'a>> {
        self.graph.xnodes()
    }

    /// The values that are inputs or outputs, each with its id, in the order of ids.
    pub fn externs(&self) -> impl Iterator<Item = (u32, TensorValue<'a>)> + use<'a> {
        let tensors = (0..).zip(self.values().iter().map(XValue::tensor));
        tensors.filter(|(_, tensor)| tensor.external().is_some())
    }

    /// Number of constants. They are counted from 1, so this is also the last index.
    pub fn constant_count(&self) -> usize {
        let list = if self.is_legacy() { self.graph.constant_buffer().len() } else { self.graph.constant_data().len() };
        list.saturating_sub(1)
    }

    /// Constant `index`, counted from 1.
    pub fn constant(&self, index: u32) -> Option<Constant<'a>> {
        let index = usize::try_from(index).ok().filter(|&index| index > 0)?;
        if self.is_legacy() {
            return self.graph.constant_buffer().get(index).map(|buffer| Constant::Bytes(buffer.storage().bytes()));
        }
        let entry = self.graph.constant_data().get(index)?;
        match entry.named_key() {
            Some(key) => Some(Constant::Named(key)),
            None => part(self.constants, entry.offset(), entry.size()).map(Constant::Bytes),
        }
    }

    /// Whether the constants are in the FlatBuffers part.
    fn is_legacy(&self) -> bool {
        self.header.constant_data_offset == 0
    }
}

#[cfg(all(test, feature = "write"))]
mod tests;
