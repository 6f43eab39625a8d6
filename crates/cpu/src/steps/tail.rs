//! What a product of int8 does, besides, to each element that it makes.

use super::{Kind, elements};
use crate::memory::Buffers;
use sconce_kernels::bytes::{self, Sum};
use sconce_kernels::table::Table;
use std::fmt;

/// Where a product finds the other operand of a sum among its reads.
const OTHER: usize = 1;

/// What follows a product of int8 in its step.
#[derive(Debug, Default)]
pub(crate) enum Tail {
    #[default]
    Nothing,
    /// A conversion, as a table, and from what to what.
    LookUp(Box<Table>, (Kind, Kind)),
    /// The sum of each element with another, which the step reads after the image.
    Add(Sum),
}

impl Tail {
    /// As kernels take it.
    pub(crate) fn of<'a>(&'a self, buffers: &Buffers<'a>) -> bytes::Tail<'a> {
        match self {
            Self::Add(sum) => bytes::Tail::Add(*sum, elements(buffers.read(OTHER))),
            _ => self.alone(),
        }
    }

    /// The same where there is no other operand.
    pub(crate) fn alone(&self) -> bytes::Tail<'_> {
        match self {
            Self::LookUp(table, _) => bytes::Tail::LookUp(table),
            Self::Nothing | Self::Add(_) => bytes::Tail::Nothing,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Whether it needs another operand.
    pub(crate) fn adds(&self) -> bool {
        matches!(self, Self::Add(_))
    }

    /// What it does to the second of two operands, as it does to the first.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Add(sum) => Self::Add(sum.swapped()),
            tail => tail,
        }
    }
}

/// What comes after the words for a product.
impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::LookUp(_, (from, to)) => write!(f, ", then table of {from:?} to {to:?}"),
            Self::Add(_) => write!(f, ", then sum"),
        }
    }
}
