//! Archives of arrays, `.npz`: inputs and outputs of one call under the keys `in0, in1, ...` and `out0, out1, ...`, or under
//! the names that the program records for them.
//!
//! Numbers count over all flattened inputs and outputs of the method. What is not a tensor is a zero-dim array, or left
//! out: an input then takes the value that the program recorded. Other keys are ignored.
use crate::failure::Failure;
use crate::names::{self, number};
use crate::{npy, output};
use sconce::core::{Method, ValueInfo};
use sconce::{Input, ScalarType, Tensor, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The arrays of one call, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Golden {
    /// `in0, in1, ...`
    pub(crate) inputs: BTreeMap<usize, Tensor>,
    /// `out0, out1, ...`
    pub(crate) outputs: BTreeMap<usize, Tensor>,
    /// What lies under other keys, which may be names of the program.
    pub(crate) named: BTreeMap<String, Tensor>,
    /// All keys, for messages.
    pub(crate) keys: Vec<String>,
}

impl Golden {
    /// The same with the arrays under names that the method records at their numbers.
    pub(crate) fn of(mut self, method: Method<'_>) -> Result<Self, String> {
        for (names, arrays, prefix) in
            [(names::inputs(method), &mut self.inputs, "in"), (names::outputs(method), &mut self.outputs, "out")]
        {
            for (index, name) in names.into_iter().enumerate() {
                let Some((name, array)) = name.and_then(|name| Some((name, self.named.remove(name)?))) else {
                    continue;
                };
                if arrays.insert(index, array).is_some() {
                    return Err(format!("`{name}` and `{prefix}{index}` are the same: give one of them"));
                }
            }
        }
        Ok(self)
    }
}

/// Reads the arrays of an `.npz`.
pub(crate) fn read(path: &Path) -> Result<Golden, String> {
    let at = |error: String| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let archive = ZipArchive::new(BufReader::new(file));
    let mut archive = archive.map_err(|error| at(format!("this is not an .npz archive: {error}")))?;
    let mut golden = Golden::default();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| at(error.to_string()))?;
        let name = entry.name().unwrap_or_default().into_owned();
        let key = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let place = match (number(&key, "in"), number(&key, "out")) {
            (Some(number), _) => Some((&mut golden.inputs, number)),
            (_, Some(number)) => Some((&mut golden.outputs, number)),
            _ => None,
        };
        match (place, npy::read(&mut entry)) {
            (Some((arrays, number)), array) => {
                arrays.insert(number, array.map_err(|error| at(format!("{key}: {error}")))?);
            }
            // What cannot be read is no input or output either.
            (None, array) => golden.named.extend(array.map(|array| (key.clone(), array))),
        }
        golden.keys.push(key);
    }
    Ok(golden)
}

/// Writes values under a prefix, `out0, out1, ...`. Values without a NumPy form (none, strings) are left out.
pub(crate) fn write(path: &Path, prefix: &str, values: &[Value]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot write {}: {error}", path.display()));
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (index, value) in values.iter().enumerate() {
        let Some(tensor) = as_array(value) else { continue };
        let large = tensor.bytes().len() > 1 << 31;
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(large);
        archive.start_file(format!("{prefix}{index}.npy"), options).map_err(|error| failed(&error))?;
        npy::write(&mut archive, &tensor).map_err(|error| failed(&error))?;
    }
    output::write(path, archive.finish().map_err(|error| failed(&error))?.get_ref())
}

/// A value as an array: numbers have no dimensions.
pub(crate) fn as_array(value: &Value) -> Option<Tensor> {
    match value {
        Value::Tensor(tensor) => Some(tensor.to_contiguous()),
        Value::Int(value) => Tensor::from_slice(&[*value], &[]).ok(),
        Value::Double(value) => Tensor::from_slice(&[*value], &[]).ok(),
        Value::Bool(value) => Tensor::from_bools(&[*value], &[]).ok(),
        Value::None | Value::Str(_) => None,
    }
}

/// The inputs of a call; `None` stands for the recorded value.
pub(crate) type Bound = Vec<Option<Value>>;

/// Fits arrays to the inputs of a method.
pub(crate) fn bind(method: Method<'_>, mut given: BTreeMap<usize, Tensor>) -> Result<Bound, String> {
    if let Some((&last, _)) = given.last_key_value().filter(|(last, _)| **last >= method.inputs()) {
        return Err(format!("`{}` takes {} input(s), there is no in{last}", method.name(), method.inputs()));
    }
    let inputs = (0..method.inputs()).map(|index| {
        let info = method.input(index).unwrap_or(ValueInfo::None);
        match (given.remove(&index), info) {
            (Some(array), ValueInfo::Tensor { dtype, .. }) => Ok(Some(Value::Tensor(npy::reinterpret(array, dtype)))),
            (Some(array), info) => as_value(&array, info).map(Some),
            (None, ValueInfo::Tensor { .. }) => {
                let input = names::input(method, index);
                Err(format!("{input} of `{}`, {}, is missing", method.name(), sconce::describe(&info)))
            }
            (None, _) => Ok(None),
        }
    });
    inputs.collect()
}

/// A zero-dim array as the number that the program takes.
fn as_value(array: &Tensor, info: ValueInfo<'_>) -> Result<Value, String> {
    let first = array.bytes().first().copied();
    match (info, array.dtype(), array.numel()) {
        (ValueInfo::Int(_), ScalarType::Long, 1) => {
            Ok(array.as_slice().ok().and_then(|v| v.first().copied()).map(Value::Int))
        }
        (ValueInfo::Double(_), ScalarType::Double, 1) => {
            Ok(array.as_slice().ok().and_then(|v| v.first().copied()).map(Value::Double))
        }
        (ValueInfo::Bool(_), ScalarType::Bool, 1) => Ok(first.map(|byte| Value::Bool(byte != 0))),
        (info, dtype, _) => {
            Err(format!("the method takes {} here, not {dtype} {:?}", sconce::describe(&info), array.sizes()))
        }
    }
    .and_then(|value| value.ok_or_else(|| "the array is empty".to_owned()))
}

/// Borrows inputs for a call.
pub(crate) fn borrow(bound: &Bound) -> Vec<Input<'_>> {
    bound.iter().map(|value| value.as_ref().map_or(Input::Recorded, Input::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read_back() {
        let folder = std::env::temp_dir().join(format!("sconce-golden-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("y.npz");
        let half = [sconce::f16::from_f32(0.5), sconce::f16::from_f32(-2.0)];
        let values = [
            Value::Tensor(Tensor::from_slice(&half, &[2, 1]).unwrap()),
            Value::None,
            Value::Int(-3),
            Value::Double(0.25),
            Value::Bool(true),
            Value::Str("word".to_owned()),
        ];
        write(&path, "out", &values).unwrap();
        let golden = read(&path).unwrap();
        assert_eq!(golden.outputs.keys().copied().collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!(golden.outputs[&0].as_slice::<sconce::f16>().unwrap(), half);
        assert_eq!(golden.outputs[&0].sizes(), [2, 1]);
        assert_eq!(golden.outputs[&2].as_slice::<i64>().unwrap(), [-3]);
        assert_eq!(golden.outputs[&2].sizes(), [0usize; 0]);
        assert_eq!(golden.outputs[&3].as_slice::<f64>().unwrap(), [0.25]);
        assert_eq!((golden.outputs[&4].dtype(), golden.outputs[&4].bytes()), (ScalarType::Bool, &[1][..]));
        std::fs::remove_dir_all(folder).unwrap();
        assert!(read(&path).unwrap_err().contains("cannot read"));
    }
}
