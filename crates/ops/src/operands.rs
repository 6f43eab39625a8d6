//! How tensors meet in memory, and typed slices of them.
use crate::typed::Typed;
use sconce_core::{Code, Fault, MAX_RANK, ScalarType, Shape, Tensor, TensorMut};
use sconce_kernels::map::Broadcast;
use sconce_kernels::view::{view, view_mut};
use sconce_schema::{ShapeError, Sizes, shapes};

/// A tensor's elements, in memory order.
pub(crate) fn elements<'c, T: Typed>(argument: usize, tensor: &Tensor<'c>) -> Result<&'c [T], Fault> {
    if tensor.dtype != T::DTYPE {
        return Err(other_type(argument));
    }
    view(tensor.data).ok_or(misaligned(argument))
}

/// An output's elements, in memory order.
pub(crate) fn elements_mut<'c, T: Typed>(argument: usize, tensor: TensorMut<'c>) -> Result<&'c mut [T], Fault> {
    if tensor.dtype != T::DTYPE {
        return Err(other_type(argument));
    }
    view_mut(tensor.data).ok_or(misaligned(argument))
}

/// A fault unless a tensor has the element type that it must have.
pub(crate) fn same_type(argument: usize, have: ScalarType, want: ScalarType) -> Result<(), Fault> {
    if have == want { Ok(()) } else { Err(other_type(argument)) }
}

fn other_type(argument: usize) -> Fault {
    Fault {
        code: Code::InvalidType,
        ..Fault::argument(argument, "the tensor must have the element type of the others")
    }
}

pub(crate) fn misaligned(argument: usize) -> Fault {
    Fault {
        code: Code::InvalidProgram,
        ..Fault::argument(argument, "the tensor's data is not aligned to its elements")
    }
}

/// The shape to which tensors broadcast.
pub(crate) fn broadcast_sizes<const N: usize>(operands: [&Shape; N]) -> Result<Sizes, Fault> {
    shapes::broadcast(operands.map(Shape::sizes)).map_err(shape_fault)
}

/// A shape error as a fault.
pub(crate) fn shape_fault(error: ShapeError) -> Fault {
    match error {
        ShapeError::Broadcast { dim, left, right } => {
            let text = "the operands do not broadcast: dimension {} is {} in the one and {} in the other";
            Fault::new(Code::InvalidArgument, text).with([dim, left, right])
        }
        ShapeError::Rank(rank) => {
            let text = "{} dimensions are more than {}, or not as many as the operator needs here";
            Fault::new(Code::InvalidArgument, text).with([rank, MAX_RANK])
        }
        ShapeError::Dim { dim, rank } => {
            let text = "there is no dimension {} in a tensor of {} dimensions";
            Fault::new(Code::InvalidArgument, text).with_signed([dim, signed(rank)])
        }
        ShapeError::Index { index, size } => {
            let text = "position {} is outside of a dimension of size {}";
            Fault::new(Code::InvalidArgument, text).with_signed([index, signed(size)])
        }
        ShapeError::Permutation { rank } => {
            let text = "the dimensions must be different ones of the {} there are";
            Fault::new(Code::InvalidArgument, text).with([rank])
        }
        ShapeError::Size(size) => {
            Fault::new(Code::InvalidArgument, "a size, step or padding of {} is not possible here").with_signed([size])
        }
        ShapeError::Multiple { size, of } => {
            Fault::new(Code::InvalidArgument, "size {} is not a multiple of {}").with([size, of])
        }
        ShapeError::Different { dim, left, right } => {
            let text = "dimension {} is {} in the one and {} in the other and must be equal";
            Fault::new(Code::InvalidArgument, text).with([dim, left, right])
        }
    }
}

/// A size as a number of a fault.
pub(crate) fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// How operands meet in an output: dimensions in the output's memory order, so that the output is walked contiguously
/// whatever the layouts are. The operands' shapes must broadcast to the output's.
pub(crate) fn meet<const N: usize>(out: &Shape, operands: [&Shape; N]) -> Result<Broadcast<N>, Fault> {
    let mut sizes = [0; MAX_RANK];
    let mut strides = [[0; MAX_RANK]; N];
    let rank = out.rank();
    for (n, operand) in operands.iter().enumerate() {
        let own = operand.strides();
        let Some(missing) = rank.checked_sub(operand.rank()) else { return Err(no_broadcast(n)) };
        for (i, &dim) in out.order().iter().enumerate() {
            let dim = usize::from(dim);
            sizes[i] = out.sizes()[dim];
            let Some(dim_of_operand) = dim.checked_sub(missing) else { continue };
            match operand.sizes()[dim_of_operand] {
                1 => {}
                size if size == sizes[i] => strides[n][i] = own[dim_of_operand],
                _ => return Err(no_broadcast(n)),
            }
        }
    }
    Ok(Broadcast::new(&sizes[..rank], strides.each_ref().map(|strides| &strides[..rank])))
}

fn no_broadcast(operand: usize) -> Fault {
    Fault::argument(operand, "the operand does not broadcast to the output")
}
