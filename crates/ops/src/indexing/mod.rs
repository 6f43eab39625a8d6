//! Operators whose inputs say where elements are.
//!
//! Positions are data: they are checked one and all, and one that is outside of its dimension is a fault with its value.
//! [`advanced`] picks and replaces by index tensors and masks, [`along`] gathers and scatters along one dimension,
//! [`meeting`] joins what is scattered to one place, [`masked`] has the operators whose number of results depends on values,
//! [`bags`] and [`segments`] join rows that belong together.
pub(crate) mod advanced;
pub(crate) mod along;
pub(crate) mod bags;
pub(crate) mod masked;
pub(crate) mod meeting;
pub(crate) mod segments;

use crate::operands::{misaligned, signed};
use crate::typed::unsupported;
use sconce_core::{Fault, ScalarType, Tensor};
use sconce_kernels::Isa;
use sconce_kernels::view::view;

/// A tensor of whole numbers that are positions, in memory order.
#[derive(Clone, Copy)]
pub(crate) enum Positions<'c> {
    Long(&'c [i64]),
    Int(&'c [i32]),
}

impl<'c> Positions<'c> {
    pub(crate) fn new(argument: usize, tensor: &Tensor<'c>) -> Result<Self, Fault> {
        match tensor.dtype {
            ScalarType::Long => view(tensor.data).map(Positions::Long).ok_or(misaligned(argument)),
            ScalarType::Int => view(tensor.data).map(Positions::Int).ok_or(misaligned(argument)),
            // Where there are no positions, their type does not matter.
            _ if tensor.data.is_empty() => Ok(Positions::Long(&[])),
            other => Err(unsupported(argument, other)),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> i64 {
        match self {
            Positions::Long(list) => list.get(at).copied().unwrap_or(0),
            Positions::Int(list) => list.get(at).copied().unwrap_or(0).into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Positions::Long(list) => list.len(),
            Positions::Int(list) => list.len(),
        }
    }

    /// A fault unless all are in `0..size`.
    pub(crate) fn check(&self, argument: usize, size: usize) -> Result<(), Fault> {
        let size = signed(size);
        let outside = Isa::detect().vectorize(
            #[inline(always)]
            || match self {
                Positions::Long(list) => list.iter().fold(false, |any, &position| any | !(0..size).contains(&position)),
                Positions::Int(list) => {
                    list.iter().fold(false, |any, &position| any | !(0..size).contains(&position.into()))
                }
            },
        );
        if !outside {
            return Ok(());
        }
        match (0..self.len()).map(|at| self.get(at)).find(|position| !(0..size).contains(position)) {
            Some(position) => Err(out_of_range(argument, position, size)),
            None => Ok(()),
        }
    }
}

/// The fault for a position outside of its dimension.
fn out_of_range(argument: usize, position: i64, size: i64) -> Fault {
    Fault::argument(argument, "index {} is outside of a dimension of size {}").with_signed([position, size])
}
