//! The memory of arrays: that of NumPy as tensors, and that of tensors as NumPy arrays, without a copy.
//!
//! Both ways go through `__array_interface__`, a dictionary with an address, sizes and strides. It needs no NumPy at
//! build time, works in all versions of NumPy, and for arrays that are read-only. Its type strings are NumPy's, and one
//! more that NumPy lacks: `bfloat16`.
//!
//! What is read stays where it is: an [`Array`] keeps the object that owns the memory. As everywhere in Python, nobody
//! may write into an array while a run that was given it is under way.
#![allow(unsafe_code)] // Other people's memory as a slice, in one place.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sconce::core::{Shape, Tensor as View};
use sconce::{Error, ScalarType};

/// Element types and their names in `__array_interface__`, without the byte order.
const TYPES: &[(ScalarType, &str)] = &[
    (ScalarType::Bool, "b1"),
    (ScalarType::Byte, "u1"),
    (ScalarType::UInt16, "u2"),
    (ScalarType::UInt32, "u4"),
    (ScalarType::UInt64, "u8"),
    (ScalarType::Char, "i1"),
    (ScalarType::Short, "i2"),
    (ScalarType::Int, "i4"),
    (ScalarType::Long, "i8"),
    (ScalarType::Half, "f2"),
    (ScalarType::Float, "f4"),
    (ScalarType::Double, "f8"),
    (ScalarType::ComplexFloat, "c8"),
    (ScalarType::ComplexDouble, "c16"),
];

/// The one that NumPy lacks.
const BFLOAT16: &str = "bfloat16";

const NATIVE: char = if cfg!(target_endian = "little") { '<' } else { '>' };

/// An array of Python, read where it is.
pub(crate) struct Array {
    /// Keeps the memory.
    _owner: Py<PyAny>,
    address: usize,
    bytes: usize,
    dtype: ScalarType,
    shape: Shape,
}

impl Array {
    /// Reads an object that has `__array_interface__`, or tells that it has none. Where its elements do not lie side by
    /// side, a copy is taken. If they lie as in `preferred` too, that is the order they are said to be in.
    pub(crate) fn read(object: &Bound<'_, PyAny>, preferred: Option<&Shape>) -> PyResult<Self> {
        match Self::in_place(object, preferred)? {
            Some(array) => Ok(array),
            None => {
                let copy = object.call_method0("copy")?;
                let again = Self::in_place(&copy, preferred)?;
                again.ok_or_else(|| PyValueError::new_err("the copy of an array has gaps as well"))
            }
        }
    }

    /// `None` where elements have gaps between them, or lie across their alignment.
    fn in_place(object: &Bound<'_, PyAny>, preferred: Option<&Shape>) -> PyResult<Option<Self>> {
        let interface = object.getattr("__array_interface__")?;
        let interface = interface.cast::<PyDict>()?;
        let field = |name: &str| {
            let missing = || PyTypeError::new_err(format!("the array interface has no entry {name:?}"));
            interface.get_item(name)?.ok_or_else(missing)
        };
        let dtype = dtype(field("typestr")?.extract()?)?;
        let sizes: Vec<usize> = field("shape")?.extract()?;
        let (address, _read_only): (usize, bool) = field("data")?.extract()?;
        let strides: Option<Vec<isize>> =
            interface.get_item("strides")?.map(|given| given.extract()).transpose()?.flatten();
        let plain =
            Shape::contiguous(&sizes).ok_or(Error::Rank { rank: sizes.len() }).map_err(crate::error::runtime)?;
        let count = |n: usize| n.checked_mul(dtype.size()).filter(|&bytes| isize::try_from(bytes).is_ok());
        let Some(bytes) = plain.numel().and_then(count) else {
            return Err(PyValueError::new_err(format!("an array of shape {sizes:?} cannot be counted")));
        };
        let shape = match &strides {
            Some(strides) if bytes > 0 => dense(dtype.size(), &sizes, strides, preferred),
            _ => Some(plain),
        };
        let readable = bytes == 0 || (address != 0 && address % dtype.size().min(8) == 0);
        let own = |shape| Self { _owner: object.clone().unbind(), address, bytes, dtype, shape };
        Ok(shape.filter(|_| readable).map(own))
    }

    /// The array as a tensor. Elements of `uint16` may stand for those of `bfloat16`, as in NumPy they must.
    pub(crate) fn view(&self, wanted: Option<ScalarType>) -> View<'_> {
        let dtype = match (self.dtype, wanted) {
            (ScalarType::UInt16, Some(ScalarType::BFloat16)) => ScalarType::BFloat16,
            (dtype, _) => dtype,
        };
        let data = if self.bytes == 0 {
            &[]
        } else {
            let start = std::ptr::with_exposed_provenance::<u8>(self.address);
            // SAFETY: `in_place` found a non-null address and sizes that fill exactly these bytes (they fit `isize`) in
            // the interface of `_owner`, which `self` keeps and whose protocol keeps the memory; the package's pages say
            // that nobody may write to an array that a run was given.
            unsafe { std::slice::from_raw_parts(start, self.bytes) }
        };
        View { dtype, shape: self.shape, data }
    }
}

/// The element type of a type string such as `<f4`.
fn dtype(name: &str) -> PyResult<ScalarType> {
    if name == BFLOAT16 {
        return Ok(ScalarType::BFloat16);
    }
    let native = name.strip_prefix([NATIVE, '|', '=']);
    let found = native.and_then(|name| TYPES.iter().find(|row| row.1 == name));
    found.map(|row| row.0).ok_or_else(|| {
        let names: Vec<_> = TYPES.iter().map(|row| row.0.name()).collect();
        let names = names.join(", ");
        PyTypeError::new_err(format!("arrays of type {name:?} are not tensors: those can have {names}, {BFLOAT16}"))
    })
}

/// The shape of elements that lie side by side, at these byte strides.
fn dense(element: usize, sizes: &[usize], strides: &[isize], preferred: Option<&Shape>) -> Option<Shape> {
    if sizes.len() != strides.len() {
        return None;
    }
    let fits = |shape: &Shape| {
        let expected = shape.strides();
        let mut dims = sizes.iter().zip(strides).zip(expected);
        dims.all(|((&size, &have), want)| size == 1 || usize::try_from(have).ok() == want.checked_mul(element))
    };
    let mut order: Vec<u8> = (0u8..).take(sizes.len()).collect();
    order.sort_by_key(|&dim| strides.get(usize::from(dim)).map(|&stride| std::cmp::Reverse(stride)));
    let candidates =
        [preferred.and_then(|shape| shape.resized(sizes)), Shape::contiguous(sizes), Shape::new(sizes, &order)];
    candidates.into_iter().flatten().find(fits)
}

/// A result. NumPy makes an array of it that uses its memory and keeps it: `numpy.asarray(tensor)`.
#[pyclass(frozen, module = "sconce._sconce")]
pub(crate) struct Tensor {
    tensor: sconce::Tensor,
    /// Where its elements are, to be read and written.
    address: usize,
}

impl Tensor {
    pub(crate) fn new(mut tensor: sconce::Tensor) -> Self {
        // Only Python touches the elements from here on; they do not move with the tensor.
        let address = tensor.bytes_mut().as_mut_ptr().expose_provenance();
        Self { tensor, address }
    }
}

#[pymethods]
impl Tensor {
    /// The element type by PyTorch's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().name()
    }

    /// The sizes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.sizes())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dtype, element) = (self.tensor.dtype(), self.tensor.dtype().size());
        let name = match TYPES.iter().find(|row| row.0 == dtype) {
            Some(row) => row.1.to_owned(),
            None => format!("u{element}"),
        };
        let shape = Shape::new(self.tensor.sizes(), self.tensor.dim_order()).unwrap_or(Shape::SCALAR);
        let strides = shape.strides();
        let strides = strides.iter().take(shape.rank()).map(|stride| stride * element);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, self.tensor.sizes())?)?;
        interface.set_item("typestr", format!("{NATIVE}{name}"))?;
        interface.set_item("strides", PyTuple::new(py, strides.collect::<Vec<_>>())?)?;
        interface.set_item("data", (self.address, false))?;
        Ok(interface)
    }
}
