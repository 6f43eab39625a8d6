//! GGUF: the weights of a language model with what its makers say about it.
//!
//! ```text
//! 0      "GGUF", version (u32: 2 or 3), count of tensors (u64), count of metadata (u64)
//! 24     metadata: name, kind (u32), value
//! ...    tensors: name, count of sizes (u32), sizes (u64 each, the innermost first), type (u32), offset (u64)
//! ...    the data of the tensors, each at a multiple of `general.alignment` (32 if it is not there)
//! ```
//!
//! Text is its length (u64) and its bytes. [`File::parse`] reads and checks everything but the data, which stay where they
//! are: a tensor is a name, its sizes and a range of the file. What it keeps grows with the entries that are really there,
//! not with the counts that the file states.

mod value;

pub use value::{Array, Value};

use crate::{Element, Error, Place, Rule};
use core::ops::Range;
use std::collections::HashMap;
use std::vec::Vec;
use value::{Cursor, size};

/// The first bytes of a file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The last version that is read.
const VERSION: u32 = 3;

/// Most dimensions of a tensor. ggml has four.
const MAX_RANK: u32 = 8;

/// Where data may begin if the file does not say.
const ALIGNMENT: u64 = 32;

/// A file.
#[derive(Clone, Debug)]
pub struct File<'a> {
    bytes: &'a [u8],
    version: u32,
    metadata: Vec<(&'a str, Value<'a>)>,
    tensors: Vec<Tensor<'a>>,
    places: HashMap<&'a str, usize>,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Its name, which no other one has.
    pub name: &'a str,
    /// Its sizes, the outermost first.
    pub sizes: Vec<usize>,
    /// The number of its type in ggml.
    pub kind: u32,
    /// The bytes in the file; `None` if the type is not one of [`Element`], so that nobody knows how many they are.
    pub range: Option<Range<u64>>,
}

impl Tensor<'_> {
    /// What it is made of, if that is known.
    pub fn element(&self) -> Option<Element> {
        Element::of_ggml(self.kind)
    }
}

impl<'a> File<'a> {
    /// Whether bytes begin as such a file does.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads a whole file and checks all but its data.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        if !Self::begins(bytes) {
            return Err(Error::Corrupt { offset: 0, what: "a GGUF file begins with the letters GGUF" });
        }
        let mut cursor = Cursor { bytes, at: MAGIC.len() };
        let version = cursor.u32()?;
        if !(2..=VERSION).contains(&version) {
            return Err(Error::invalid(Place::File, Rule::GgufVersion, version, VERSION));
        }
        let (tensors, metadata) = (cursor.u64()?, cursor.u64()?);
        let metadata = (0..metadata).map(|index| entry(&mut cursor, place(index))).collect::<Result<Vec<_>, _>>()?;
        let mut file = Self { bytes, version, metadata, tensors: Vec::new(), places: HashMap::new() };
        let alignment = file.alignment()?;
        for index in 0..tensors {
            let index = place(index);
            let tensor = tensor(&mut cursor, index, alignment)?;
            if let Some(earlier) = file.places.insert(tensor.name, file.tensors.len()) {
                return Err(Error::invalid(Place::Tensor(index), Rule::NameTwice, size(earlier), 0));
            }
            file.tensors.push(tensor);
        }
        file.place(size(cursor.at).checked_next_multiple_of(alignment).unwrap_or(u64::MAX))?;
        Ok(file)
    }

    /// Counts the ranges of tensors from the start of the file.
    fn place(&mut self, start: u64) -> Result<(), Error> {
        let limit = size(self.bytes.len());
        for (index, tensor) in (0..).zip(&mut self.tensors) {
            let Some(range) = &mut tensor.range else { continue };
            let moved = |offset: u64| offset.checked_add(start).filter(|&offset| offset <= limit);
            let (Some(first), Some(end)) = (moved(range.start), moved(range.end)) else {
                let end = range.end.saturating_add(start);
                return Err(Error::invalid(Place::Tensor(index), Rule::SegmentOutside, end, limit));
            };
            *range = first..end;
        }
        Ok(())
    }

    fn alignment(&self) -> Result<u64, Error> {
        let Some(value) = self.value("general.alignment") else { return Ok(ALIGNMENT) };
        let found = value.natural().unwrap_or(0);
        match found.is_power_of_two() && found <= 1 << 31 {
            true => Ok(found),
            false => Err(Error::invalid(Place::File, Rule::Alignment, found, 0)),
        }
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the file says about the model, in its order.
    pub fn metadata(&self) -> &[(&'a str, Value<'a>)] {
        &self.metadata
    }

    /// The value of a name, such as `general.architecture`; of several the first.
    pub fn value(&self, name: &str) -> Option<Value<'a>> {
        self.metadata.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.tensors.get(*self.places.get(name)?)
    }

    /// The bytes of a tensor; `None` if its type is not known.
    pub fn data(&self, tensor: &Tensor<'_>) -> Option<&'a [u8]> {
        let range = tensor.range.as_ref()?;
        self.bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }
}

/// A position for errors.
fn place(index: u64) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn entry<'a>(cursor: &mut Cursor<'a>, index: u32) -> Result<(&'a str, Value<'a>), Error> {
    let (name, kind) = (cursor.name()?, cursor.u32()?);
    Ok((name, cursor.value(kind, Place::Metadata(index), 0)?))
}

/// A tensor whose range is counted from the start of the data.
fn tensor<'a>(cursor: &mut Cursor<'a>, index: u32, alignment: u64) -> Result<Tensor<'a>, Error> {
    let place = Place::Tensor(index);
    let (name, rank) = (cursor.name()?, cursor.u32()?);
    if rank > MAX_RANK {
        return Err(Error::invalid(place, Rule::RankTooLarge, rank, MAX_RANK));
    }
    let mut sizes = (0..rank).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>()?;
    sizes.reverse();
    let (kind, offset) = (cursor.u32()?, cursor.u64()?);
    if !offset.is_multiple_of(alignment) {
        return Err(Error::invalid(place, Rule::TensorUnaligned, offset, alignment));
    }
    let too_large = || Error::broken(place, Rule::TensorTooLarge);
    let sizes: Vec<usize> =
        sizes.into_iter().map(|size| usize::try_from(size).map_err(|_| too_large())).collect::<Result<_, _>>()?;
    let range = match Element::of_ggml(kind) {
        None => None,
        Some(element) => {
            let (row, (block, _)) = (sizes.last().copied().unwrap_or(1), element.block());
            if !row.is_multiple_of(block) {
                return Err(Error::invalid(place, Rule::TensorRows, size(row), size(block)));
            }
            let end = element.bytes(&sizes).and_then(|bytes| offset.checked_add(size(bytes)));
            Some(offset..end.ok_or_else(too_large)?)
        }
    };
    Ok(Tensor { name, sizes, kind, range })
}

#[cfg(test)]
mod tests;
