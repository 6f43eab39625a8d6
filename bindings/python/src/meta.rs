//! What a method takes and gives, as dictionaries.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sconce::core::{Method, ValueInfo};
use sconce::format::pte::KernelTypes;

/// Everything that is known about a method without running it.
pub(crate) fn describe<'py>(py: Python<'py>, method: Method<'_>) -> PyResult<Bound<'py, PyDict>> {
    let plan = method.plan();
    let nesting = plan.container_meta_type();
    let taken = (0..method.inputs()).map(|index| (method.input(index), method.input_name(index)));
    let given = (0..method.outputs()).map(|index| (method.output(index), method.output_name(index)));
    let inputs = values(py, method, taken, plan.inputs().iter())?;
    let outputs = values(py, method, given, plan.outputs().iter())?;
    let backends: Vec<_> = (0..method.delegates()).filter_map(|index| method.backend_name(index)).collect();
    let described = PyDict::new(py);
    described.set_item("name", method.name())?;
    described.set_item("inputs", inputs)?;
    described.set_item("outputs", outputs)?;
    described.set_item("input_nesting", nesting.and_then(|own| own.encoded_inp_str()).unwrap_or(""))?;
    described.set_item("output_nesting", nesting.and_then(|own| own.encoded_out_str()).unwrap_or(""))?;
    described.set_item("backends", backends)?;
    Ok(described)
}

fn values<'a, 'py>(
    py: Python<'py>,
    method: Method<'_>,
    infos: impl Iterator<Item = (Option<ValueInfo<'a>>, Option<&'a str>)>,
    indices: impl Iterator<Item = i32>,
) -> PyResult<Bound<'py, PyTuple>> {
    let described: Vec<_> = infos
        .zip(indices)
        .map(|((info, name), index)| {
            let described = value(py, info.unwrap_or(ValueInfo::None), is_planned(method, index))?;
            described.set_item("name", name)?;
            Ok(described)
        })
        .collect::<PyResult<_>>()?;
    PyTuple::new(py, described)
}

/// A tensor is its type and sizes; another value is its kind and what the program recorded.
fn value<'py>(py: Python<'py>, info: ValueInfo<'_>, planned: bool) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    let recorded = match info {
        ValueInfo::None => ("none", py.None()),
        ValueInfo::List => ("list", py.None()),
        ValueInfo::Int(value) => ("int", value.into_pyobject(py)?.into_any().unbind()),
        ValueInfo::Double(value) => ("float", value.into_pyobject(py)?.into_any().unbind()),
        ValueInfo::Bool(value) => ("bool", value.into_pyobject(py)?.to_owned().into_any().unbind()),
        ValueInfo::Str(value) => ("str", value.into_pyobject(py)?.into_any().unbind()),
        ValueInfo::Tensor { dtype, shape, dynamic, .. } => {
            described.set_item("dtype", dtype.name())?;
            described.set_item("code", dtype.code())?;
            described.set_item("itemsize", dtype.size())?;
            described.set_item("shape", PyTuple::new(py, shape.sizes())?)?;
            described.set_item("dim_order", PyTuple::new(py, shape.order())?)?;
            described.set_item("dynamic", dynamic)?;
            described.set_item("planned", planned)?;
            ("tensor", py.None())
        }
    };
    described.set_item("kind", recorded.0)?;
    described.set_item("value", recorded.1)?;
    Ok(described)
}

/// Whether the program itself has a place for a tensor.
fn is_planned(method: Method<'_>, index: i32) -> bool {
    let value = usize::try_from(index).ok().and_then(|index| method.plan().values().get(index));
    match value.map(|value| value.val()) {
        Some(KernelTypes::Tensor(tensor)) => tensor.allocation_info().is_some() || tensor.data_buffer_idx() != 0,
        _ => false,
    }
}
