//! Where planned tensors lie.
//!
//! A [`Planner`] gets what every tensor needs (how many bytes, from which instruction to which) and says where each one
//! lies in one block of memory. The default, [`Smallest`], tries several ways and takes the one that needs the least.

use sconce_graph::memory::{Buffer, place};

/// Bytes that are wanted from one instruction to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many.
    pub bytes: u64,
    /// The instruction that first touches them.
    pub first: usize,
    /// The instruction that last does.
    pub last: usize,
}

/// Decides where tensors lie.
pub trait Planner {
    /// An offset for each, and the bytes that it takes in all. Two that are wanted at the same time must not overlap;
    /// offsets must be multiples of 16.
    fn place(&self, wanted: &[Wanted]) -> (Vec<u64>, u64);
}

/// What every offset is a multiple of.
pub const ALIGNMENT: u64 = 16;

/// The default: the smallest of several plans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smallest;

impl Planner for Smallest {
    fn place(&self, wanted: &[Wanted]) -> (Vec<u64>, u64) {
        let buffers: Vec<Buffer> = wanted
            .iter()
            .map(|own| Buffer {
                bytes: usize::try_from(own.bytes.next_multiple_of(ALIGNMENT)).unwrap_or(usize::MAX / 2),
                first: own.first,
                last: own.last,
            })
            .collect();
        let (offsets, total) = place(&buffers, ALIGNMENT as usize);
        (offsets.into_iter().map(|offset| offset as u64).collect(), total as u64)
    }
}
