//! The cases that a bundled program carries.
use crate::golden::{self, Golden};
use sconce::format::bpte;
use sconce::{Tensor, Value};

/// A bundled case as the arrays of a call.
pub(super) fn bundled(case: bpte::BundledMethodTestCase<'_>) -> Result<Golden, String> {
    let array = |value: bpte::Value<'_>| match value.val() {
        bpte::ValueUnion::Tensor(tensor) => {
            let sizes = tensor.sizes().iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
            let sizes = sizes.map_err(|error| error.to_string())?;
            let made =
                Tensor::with_dim_order(tensor.dtype(), &sizes, tensor.dim_order().bytes(), tensor.data().bytes());
            made.map(|tensor| tensor.to_contiguous()).map_err(|error| error.to_string())
        }
        bpte::ValueUnion::Int(value) => number(Value::Int(value.int_val())),
        bpte::ValueUnion::Double(value) => number(Value::Double(value.double_val())),
        bpte::ValueUnion::Bool(value) => number(Value::Bool(value.bool_val())),
        bpte::ValueUnion::None => Err("the bundle has an empty value".to_owned()),
    };
    let arrays = |values: sconce::format::flatbuf::Vector<'_, bpte::Value<'_>>| {
        values.iter().enumerate().map(|(index, value)| Ok((index, array(value)?))).collect::<Result<_, String>>()
    };
    Ok(Golden { inputs: arrays(case.inputs())?, outputs: arrays(case.expected_outputs())?, ..Golden::default() })
}

fn number(value: Value) -> Result<Tensor, String> {
    golden::as_array(&value).ok_or_else(|| format!("{} cannot be compared", value.kind()))
}
