//! Values where a part begins and ends: tensors of the program outside, values of a graph inside.

use sconce_core::{Code, Fault, ScalarType, Shape as Layout, Tensor, TensorMut};
use sconce_graph::{Element, Shape, Storage, Type};

/// The element type of the tensor that holds a value.
pub(super) fn border_type(ty: &Type) -> ScalarType {
    match &ty.element {
        Element::Plain(dtype) => *dtype,
        Element::Quantized(quantized) => match quantized.storage {
            Storage::Int8 => ScalarType::Char,
            Storage::UInt8 | Storage::Int4 => ScalarType::Byte,
            Storage::Int32 => ScalarType::Int,
        },
    }
}

/// Bytes of a value of these sizes; `None` where nobody has as many.
pub(super) fn bytes_of(element: &Element, sizes: &[usize]) -> Option<usize> {
    element.bytes(sizes.iter().try_fold(1usize, |count, size| count.checked_mul(*size))?)
}

/// Checks that a tensor is an input of this type and these sizes.
pub(super) fn check_input(ty: &Type, sizes: &[usize], tensor: &Tensor<'_>) -> Result<(), Fault> {
    match border_type(ty) == tensor.dtype {
        true => check_bytes(ty, sizes, tensor.data, tensor.dtype),
        false => Err(Fault::new(Code::InvalidType, "the delegate takes another element type here")),
    }
}

/// Checks that a tensor has room for an output of this type and these sizes.
pub(super) fn check_output(ty: &Type, sizes: &[usize], tensor: &mut TensorMut<'_>) -> Result<(), Fault> {
    let dtype = tensor.dtype;
    match border_type(ty) == dtype || is_wider(ty, tensor) {
        true => check_bytes(ty, sizes, produced(ty, tensor), dtype),
        false => Err(Fault::new(Code::InvalidType, "the delegate gives another element type here")),
    }
}

fn check_bytes(ty: &Type, sizes: &[usize], bytes: &[u8], dtype: ScalarType) -> Result<(), Fault> {
    let wanted = bytes_of(&ty.element, sizes).unwrap_or(usize::MAX);
    match (bytes.len() == wanted, bytes.as_ptr().addr().is_multiple_of(dtype.size().min(8))) {
        (true, true) => Ok(()),
        (false, _) => {
            let text = "the delegate has {} bytes here, the program's tensor {}";
            Err(Fault::new(Code::InvalidArgument, text).with([wanted, bytes.len()]))
        }
        (_, false) => Err(Fault::new(Code::InvalidArgument, "the tensor's address is not a multiple of its element")),
    }
}

/// Whether a program wants indices in words where the graph makes half words.
fn is_wider(ty: &Type, tensor: &TensorMut<'_>) -> bool {
    border_type(ty) == ScalarType::Int && tensor.dtype == ScalarType::Long
}

/// Sizes from the outermost to the innermost in memory, as the payload counts them. A single element has one dimension
/// there.
pub(super) fn in_memory(layout: &Layout) -> Shape {
    match layout.rank() {
        0 => Shape::from_slice(&[1]),
        _ => layout.order().iter().map(|&dim| layout.sizes()[usize::from(dim)]).collect(),
    }
}

/// The sizes of a tensor of this dimension order whose sizes in memory are `sizes`.
pub(super) fn logical(layout: &Layout, sizes: &[usize]) -> Shape {
    let mut logical = Shape::from_elem(1, layout.rank());
    for (&dim, &size) in layout.order().iter().zip(sizes) {
        logical[usize::from(dim)] = size;
    }
    logical
}

/// The bytes of an output that engines write: the first half of indices that are widened afterwards.
pub(super) fn produced<'a>(ty: &Type, output: &'a mut TensorMut<'_>) -> &'a mut [u8] {
    let bytes = if is_wider(ty, output) { output.data.len() / 2 } else { output.data.len() };
    &mut output.data[..bytes]
}

/// Makes words of the half words in the first half, from the last to the first, where the program wants them.
pub(super) fn widen(ty: &Type, output: &mut TensorMut<'_>) {
    if !is_wider(ty, output) {
        return;
    }
    for index in (0..output.data.len() / 8).rev() {
        let mut narrow = [0; 4];
        narrow.copy_from_slice(&output.data[index * 4..][..4]);
        let wide = i64::from(i32::from_ne_bytes(narrow));
        output.data[index * 8..][..8].copy_from_slice(&wide.to_ne_bytes());
    }
}
