//! Tensors as C holds them.
//!
//! A tensor's elements are its own, or memory of the caller; either way they are `capacity` bytes from `start` on, of which
//! the present sizes use the first ones, row-major. Sizes are kept twice: as the runtime takes them, and as C reads them.
use crate::arguments::{self, Place, list, missing};
use crate::entry::{self, here};
use crate::status::{ETErrorCode, ETStatus, Failure, Outcome};
use sconce::core::{MAX_RANK, Shape, Tensor};
use sconce::{Buffer, ScalarType};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

/// The element types, in the order of their numbers in the header.
const TYPES: [ScalarType; 13] = [
    ScalarType::Float,
    ScalarType::Double,
    ScalarType::Long,
    ScalarType::Int,
    ScalarType::Short,
    ScalarType::Char,
    ScalarType::Byte,
    ScalarType::Bool,
    ScalarType::UInt16,
    ScalarType::UInt32,
    ScalarType::UInt64,
    ScalarType::Half,
    ScalarType::BFloat16,
];

/// The number of an element type, or -1.
pub(crate) fn type_number(dtype: ScalarType) -> i32 {
    TYPES.iter().zip(0..).find(|(candidate, _)| **candidate == dtype).map_or(-1, |(_, number)| number)
}

/// Elements with a shape.
pub struct ETTensor {
    dtype: ScalarType,
    shape: Shape,
    sizes: [i64; MAX_RANK],
    start: *mut u8,
    capacity: usize,
    /// What `start` points to, unless that is the caller's.
    _own: Option<Buffer>,
}

impl ETTensor {
    /// A tensor over its own row-major elements, which the buffer has room for.
    fn new(dtype: ScalarType, shape: Shape, mut own: Buffer) -> Self {
        let (start, capacity) = (own.as_mut().as_mut_ptr(), own.as_ref().len());
        Self { dtype, shape, sizes: c_sizes(&shape), start, capacity, _own: Some(own) }
    }

    /// A row-major copy of a tensor of the runtime.
    pub(crate) fn copy_of(tensor: &Tensor<'_>) -> Outcome<Box<Self>> {
        let bytes = tensor.data.len();
        let memory = || Failure::new(ETErrorCode::OutOfMemory, format_args!("{bytes} bytes could not be had"));
        let shape = Shape::contiguous(tensor.sizes()).unwrap_or(tensor.shape);
        let own = if tensor.shape.is_contiguous() {
            Buffer::copy_of(tensor.data).ok_or_else(memory)?
        } else {
            let mut own = Buffer::zeroed(bytes).ok_or_else(memory)?;
            sconce::reorder(tensor.dtype.size(), &tensor.shape, tensor.data, &shape, own.as_mut());
            own
        };
        Ok(Box::new(Self::new(tensor.dtype, shape, own)))
    }

    /// A tensor of rank 0.
    pub(crate) fn number(dtype: ScalarType, bytes: &[u8]) -> Outcome<Box<Self>> {
        Self::copy_of(&Tensor { dtype, shape: Shape::SCALAR, data: bytes })
    }

    /// The elements for the runtime to read.
    pub(crate) fn view(&self) -> Tensor<'_> {
        // SAFETY: `start` is valid for `capacity` bytes as long as the tensor, by construction or by what the header asks
        // of those who lend memory, and the present sizes take no more.
        let data = unsafe { std::slice::from_raw_parts(self.start, self.bytes()) };
        Tensor { dtype: self.dtype, shape: self.shape, data }
    }

    /// Whether it can take output `index`.
    pub(crate) fn fits(&self, index: usize, result: &Tensor<'_>) -> Outcome {
        if result.dtype != self.dtype {
            let (have, want) = (self.dtype, result.dtype);
            return Err(Failure::argument(format_args!("output {index} is {want}, but the tensor for it is {have}")));
        }
        let (need, room) = (result.data.len(), self.capacity);
        if need > room {
            let sizes = result.sizes();
            let sentence = format!("output {index} of sizes {sizes:?} takes {need} bytes, its tensor has {room}");
            return Err(Failure::argument(sentence));
        }
        Ok(())
    }

    /// Takes the sizes and elements of a result, which fits.
    pub(crate) fn assign(&mut self, result: &Tensor<'_>) {
        assert!(result.data.len() <= self.capacity, "a result that was not checked");
        self.shape = Shape::contiguous(result.sizes()).unwrap_or(result.shape);
        self.sizes = c_sizes(&self.shape);
        // SAFETY: `start` is valid for `capacity` bytes, which are enough, and nobody else looks at them: a tensor is for one thread at a
        // time, and `apart` has checked that no input or other output of the call shares them.
        let target = unsafe { std::slice::from_raw_parts_mut(self.start, result.data.len()) };
        match result.shape.is_contiguous() {
            true => target.copy_from_slice(result.data),
            false => sconce::reorder(result.dtype.size(), &result.shape, result.data, &self.shape, target),
        }
    }

    fn bytes(&self) -> usize {
        self.shape.numel().unwrap_or(0) * self.dtype.size()
    }

    /// The addresses of all its memory.
    pub(crate) fn span(&self) -> Range<usize> {
        let start = self.start.addr();
        start..start + self.capacity
    }
}

/// Checks that what a call writes is apart from what it reads and from what else it writes.
pub(crate) fn apart(inputs: &[Range<usize>], outputs: &[Range<usize>]) -> Outcome {
    let shared = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start) < a.end.min(b.end);
    for (index, output) in outputs.iter().enumerate() {
        let earlier = outputs.iter().take(index).any(|other| shared(output, other));
        if earlier || inputs.iter().any(|input| shared(output, input)) {
            let sentence = "shares memory with an input or another output; give each its own";
            return Err(Failure::argument(format_args!("the tensor for output {index} {sentence}")));
        }
    }
    Ok(())
}

fn c_sizes(shape: &Shape) -> [i64; MAX_RANK] {
    let mut sizes = [0; MAX_RANK];
    // What a machine has in memory can be counted with 63 bits.
    sizes.iter_mut().zip(shape.sizes()).for_each(|(slot, &size)| *slot = i64::try_from(size).unwrap_or(i64::MAX));
    sizes
}

/// Sizes as C gives them.
pub(crate) unsafe fn read_shape(shape: *const i64, rank: i32) -> Outcome<Shape> {
    if !(0..=MAX_RANK as i32).contains(&rank) {
        return Err(Failure::argument(format_args!("the rank is {rank}, it must be 0 to {MAX_RANK}")));
    }
    // SAFETY: as everywhere, `shape` is NULL or has `rank` sizes.
    let given = unsafe { list(shape, rank, "shape") }?;
    let mut sizes = [0; MAX_RANK];
    for (slot, size) in sizes.iter_mut().zip(given) {
        let negative = || Failure::argument(format_args!("the shape {given:?} has a size that no memory has"));
        *slot = usize::try_from(*size).map_err(|_| negative())?;
    }
    Shape::contiguous(sizes.get(..given.len()).unwrap_or(&[])).ok_or_else(|| missing("shape"))
}

/// Type and shape of a tensor whose elements take `data_size` bytes.
unsafe fn describe(data_size: usize, shape: *const i64, rank: i32, dtype: i32) -> Outcome<(ScalarType, Shape)> {
    let Some(&dtype) = usize::try_from(dtype).ok().and_then(|number| TYPES.get(number)) else {
        return Err(Failure::argument(format_args!("there is no element type {dtype}; see ETDType")));
    };
    // SAFETY: the caller's promise is handed on.
    let shape = unsafe { read_shape(shape, rank) }?;
    let need = shape.numel().and_then(|count| count.checked_mul(dtype.size()));
    match need.filter(|&need| isize::try_from(need).is_ok()) {
        Some(need) if need == data_size => Ok((dtype, shape)),
        Some(need) => Err(Failure::argument(format_args!(
            "data size mismatch: {dtype} {shape:?} takes {need} bytes, got {data_size}"
        ))),
        None => Err(Failure::argument(format_args!("{dtype} {shape:?} is more than any memory"))),
    }
}

/// Makes a tensor with a copy of `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_create(
    data: *const c_void,
    data_size: usize,
    shape: *const i64,
    rank: i32,
    dtype: i32,
    out_tensor: *mut *mut ETTensor,
) -> *mut ETStatus {
    entry::status(here!(et_tensor_create), || {
        let out = Place::new(out_tensor, "out_tensor")?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (dtype, shape) = unsafe { describe(data_size, shape, rank, dtype) }?;
        // SAFETY: as above.
        let data = unsafe { arguments::bytes(data.cast(), data_size, "data") }?;
        out.set(Box::into_raw(ETTensor::copy_of(&Tensor { dtype, shape, data })?));
        Ok(())
    })
}

/// Makes a tensor over memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_borrow(
    data: *mut c_void,
    data_size: usize,
    shape: *const i64,
    rank: i32,
    dtype: i32,
    out_tensor: *mut *mut ETTensor,
) -> *mut ETStatus {
    entry::status(here!(et_tensor_borrow), || {
        let out = Place::new(out_tensor, "out_tensor")?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (dtype, shape) = unsafe { describe(data_size, shape, rank, dtype) }?;
        let start = match (data.is_null(), data_size) {
            (true, 0) => ptr::without_provenance_mut(dtype.size()),
            (true, _) => return Err(missing("data")),
            _ => data.cast::<u8>(),
        };
        if !start.addr().is_multiple_of(dtype.size()) {
            return Err(Failure::argument(format_args!("data at {data:p} is not aligned for {dtype}")));
        }
        let sizes = c_sizes(&shape);
        let tensor = ETTensor { dtype, shape, sizes, start, capacity: data_size, _own: None };
        out.set(Box::into_raw(Box::new(tensor)));
        Ok(())
    })
}

/// What `get` says of a tensor, or `otherwise` for NULL.
unsafe fn look<R>(tensor: *const ETTensor, otherwise: R, get: impl FnOnce(&ETTensor) -> R) -> R {
    // SAFETY: NULL or a tensor of this library, as the header asks.
    match unsafe { tensor.as_ref() } {
        Some(tensor) => get(tensor),
        None => otherwise,
    }
}

/// The number of its element type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_dtype(tensor: *const ETTensor) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(tensor, 0, |tensor| type_number(tensor.dtype)) }
}

/// Its number of dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_rank(tensor: *const ETTensor) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(tensor, 0, |tensor| arguments::count(tensor.shape.rank())) }
}

/// Its sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_shape(tensor: *const ETTensor) -> *const i64 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(tensor, ptr::null(), |tensor| tensor.sizes.as_ptr()) }
}

/// Its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_data(tensor: *const ETTensor) -> *const c_void {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(tensor, ptr::null(), |tensor| tensor.start.cast_const().cast()) }
}

/// Its elements, to be changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_mutable_data(tensor: *mut ETTensor) -> *mut c_void {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(tensor, ptr::null_mut(), |tensor| tensor.start.cast()) }
}

/// The bytes of its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_data_size(tensor: *const ETTensor) -> usize {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(tensor, 0, ETTensor::bytes) }
}

/// Frees a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_free(tensor: *mut ETTensor) {
    if !tensor.is_null() {
        // SAFETY: tensors come from `Box::into_raw`, and are freed once.
        drop(unsafe { Box::from_raw(tensor) });
    }
}

/// Gives an array of tensors to C.
pub(crate) fn give(tensors: Vec<Box<ETTensor>>) -> *mut *mut ETTensor {
    let pointers: Box<[*mut ETTensor]> = tensors.into_iter().map(Box::into_raw).collect();
    Box::into_raw(pointers).cast()
}

/// Frees an array that a run returned, and the tensors in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_tensor_array_free(tensors: *mut *mut ETTensor, count: i32) {
    let Ok(length) = usize::try_from(count) else { return };
    if tensors.is_null() {
        return;
    }
    // SAFETY: the array comes from `give`, with this length, and its tensors from boxes.
    unsafe {
        let tensors = Box::from_raw(ptr::slice_from_raw_parts_mut(tensors, length));
        tensors.iter().for_each(|&tensor| et_tensor_free(tensor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_types_go_both_ways() {
        for (number, dtype) in TYPES.into_iter().enumerate() {
            assert_eq!(type_number(dtype), number as i32);
        }
        assert_eq!(type_number(ScalarType::ComplexFloat), -1);
    }

    #[test]
    fn shared_memory_is_found() {
        let check =
            |inputs: &[Range<usize>], outputs: &[Range<usize>]| apart(inputs, outputs).err().map(|e| e.sentence);
        assert_eq!(check(&[0..8, 2..6], &[8..16, 16..20]), None);
        assert!(check(&[0..1, 0..9], &[8..16, 16..20]).unwrap().contains("output 0"));
        assert!(check(&[], &[0..8, 4..5]).unwrap().contains("output 1"));
        assert_eq!(check(&[4..4, 8..8], &[0..8, 8..9]), None, "an empty tensor shares nothing");
    }

    #[test]
    fn copies_are_row_major() {
        let shape = Shape::new(&[1, 2, 1, 3], &[0, 2, 3, 1]).unwrap();
        let tensor = Tensor { dtype: ScalarType::Byte, shape, data: &[1, 4, 2, 5, 3, 6] };
        assert_eq!(ETTensor::copy_of(&tensor).unwrap().view().data, [1, 2, 3, 4, 5, 6]);
        let small = ETTensor::number(ScalarType::Byte, &[9]).unwrap();
        assert!(small.fits(0, &tensor).unwrap_err().sentence.contains("6 bytes"));
        let mut target = ETTensor::copy_of(&Tensor { dtype: ScalarType::Byte, shape, data: &[0; 6] }).unwrap();
        target.fits(0, &tensor).unwrap();
        target.assign(&tensor);
        assert_eq!(target.view().data, [1, 2, 3, 4, 5, 6]);
    }
}
