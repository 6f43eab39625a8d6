//! Runs of instructions that a delegate runs as one.
use core::ops::Range;
use sconce_format::flatbuf::Scalars;

/// Instructions of the first chain that a delegate runs as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Which.
    pub instructions: Range<u32>,
    /// The values that the delegate reads, then those that it writes: a part of [`Regions::args`].
    pub args: Range<usize>,
    /// Which of the execution's delegates runs them, and which of its states is that one's.
    pub delegate: usize,
}

/// The regions of a method, in the order of their instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regions<'a> {
    /// The regions.
    pub list: &'a [Region],
    /// Numbers of values.
    pub args: &'a [u32],
}

impl<'a> Regions<'a> {
    /// The region that starts with an instruction.
    pub(crate) fn at(&self, instruction: u32) -> Option<&'a Region> {
        let place = self.list.binary_search_by_key(&instruction, |region| region.instructions.start).ok()?;
        self.list.get(place)
    }

    /// The values of a region.
    pub fn values(&self, region: &Region) -> &'a [u32] {
        self.args.get(region.args.clone()).unwrap_or_default()
    }
}

/// Numbers of values: those of an instruction, as the file has them, or those of a region.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    File(Scalars<'a, i32>),
    Region(&'a [u32]),
}

impl Indices<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::File(indices) => indices.len(),
            Self::Region(indices) => indices.len(),
        }
    }

    pub(crate) fn get(&self, argument: usize) -> Option<usize> {
        match self {
            Self::File(indices) => usize::try_from(indices.get(argument)?).ok(),
            Self::Region(indices) => usize::try_from(*indices.get(argument)?).ok(),
        }
    }
}
