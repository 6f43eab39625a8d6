//! Python objects as inputs of a method.
use crate::array::Array;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use sconce::core::{Method, ValueInfo};
use sconce::{Input, ScalarType};

/// An input that no longer needs the interpreter's lock.
pub(crate) enum Given {
    None,
    Int(i64),
    Double(f64),
    Bool(bool),
    Str(String),
    /// And the element type that the method takes.
    Array(Array, Option<ScalarType>),
}

impl Given {
    /// What an object is, as input `index` of a method. Where the method takes a number, whatever converts to one is that
    /// number: an integer for a floating-point one, a scalar of NumPy.
    pub(crate) fn read(method: Method<'_>, index: usize, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(method.input(index), &format!("input {index} of `{}`", method.name()), object)
    }

    /// What an object is, where this is wanted; `place` says where that is.
    pub(crate) fn of(wanted: Option<ValueInfo<'_>>, place: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self::None);
        }
        if object.is_instance_of::<PyBool>() {
            return Ok(Self::Bool(object.extract()?));
        }
        let number = match wanted {
            Some(ValueInfo::Int(_)) => object.extract().ok().map(Self::Int),
            Some(ValueInfo::Double(_)) => object.extract().ok().map(Self::Double),
            _ => None,
        };
        if let Some(number) = number {
            return Ok(number);
        }
        if object.is_instance_of::<PyInt>() {
            return Ok(Self::Int(object.extract()?));
        }
        if object.is_instance_of::<PyFloat>() {
            return Ok(Self::Double(object.extract()?));
        }
        if object.is_instance_of::<PyString>() {
            return Ok(Self::Str(object.extract()?));
        }
        if !object.hasattr("__array_interface__")? {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{place} is of type {kind}: neither an array, a tensor, a number, a string nor None"
            )));
        }
        let (dtype, shape) = match wanted {
            Some(ValueInfo::Tensor { dtype, shape, .. }) => (Some(dtype), Some(shape)),
            _ => (None, None),
        };
        Ok(Self::Array(Array::read(object, shape.as_ref())?, dtype))
    }

    /// Borrowed for a run.
    pub(crate) fn input(&self) -> Input<'_> {
        match self {
            Self::None => Input::None,
            Self::Int(value) => Input::Int(*value),
            Self::Double(value) => Input::Double(*value),
            Self::Bool(value) => Input::Bool(*value),
            Self::Str(value) => Input::Str(value),
            Self::Array(array, wanted) => Input::View(array.view(*wanted)),
        }
    }
}
