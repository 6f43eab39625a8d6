//! Arguments as entries of a program's table of values.

use super::Emitter;
use crate::Error;
use crate::ir::{Arg, MemoryFormat};
use crate::signature::{Parameter, Takes};
use sconce_format::ScalarType;
use sconce_format::pte::model::{Storage, Tensor, Value};

/// A known argument.
pub(super) fn plain(arg: &Arg) -> Value {
    match arg {
        Arg::Int(size) => Value::Int(size.number().unwrap_or(0)),
        Arg::Float(number) => Value::Double(*number),
        Arg::Bool(truth) => Value::Bool(*truth),
        Arg::Text(text) => Value::String(text.clone()),
        Arg::Floats(numbers) => Value::DoubleList(numbers.clone()),
        Arg::Bools(truths) => Value::BoolList(truths.clone()),
        Arg::Dtype(dtype) => Value::Int(i64::from(dtype.code())),
        // The codes of torch's enum of memory formats; channels last in three dimensions has one of its own.
        Arg::MemoryFormat(MemoryFormat::Contiguous) => Value::Int(0),
        Arg::MemoryFormat(MemoryFormat::Preserve) => Value::Int(1),
        Arg::MemoryFormat(MemoryFormat::ChannelsLast) => Value::Int(2),
        Arg::None | Arg::Value(_) | Arg::Values(_) | Arg::Ints(_) => Value::Null,
    }
}

impl<'p> Emitter<'_, '_, 'p> {
    /// The entry of an argument for a parameter.
    pub(super) fn argument(&mut self, arg: &Arg, takes: Takes, parameter: Option<&Parameter>) -> Result<u32, Error> {
        match (takes, arg) {
            (Takes::Tensor, Arg::None) if parameter.is_some_and(|parameter| !parameter.optional) => {
                Ok(self.no_tensor())
            }
            (_, Arg::Value(value)) => self.read(*value),
            (Takes::Tensors, Arg::Values(values)) => self.tensors(values, parameter),
            (Takes::Float, Arg::Int(size)) => match size.number() {
                Some(number) => Ok(self.plain(Value::Double(number as f64))),
                None => self.size(size),
            },
            (Takes::Ints, Arg::Ints(sizes)) => {
                let items = sizes.iter().map(|size| self.size(size)).collect::<Result<Vec<_>, _>>()?;
                Ok(self.plain(Value::IntList(items)))
            }
            (Takes::Ints, Arg::Int(size)) => {
                let item = self.size(size)?;
                Ok(self.plain(Value::IntList(vec![item])))
            }
            (Takes::Floats, Arg::Ints(sizes)) => {
                let numbers = sizes.iter().map(|size| size.number().unwrap_or(0) as f64).collect();
                Ok(self.plain(Value::DoubleList(numbers)))
            }
            (_, Arg::Int(size)) => self.size(size),
            (_, arg) => Ok(self.plain(plain(arg))),
        }
    }

    /// The entry of a plain value; equal ones share it.
    pub(super) fn plain(&mut self, value: Value) -> u32 {
        let key = format!("{value:?}");
        if let Some(entry) = self.plain.get(&key) {
            return *entry;
        }
        let entry = self.plan.value(value);
        self.plain.insert(key, entry);
        entry
    }

    /// A tensor that stands for none.
    fn no_tensor(&mut self) -> u32 {
        self.plan.value(Tensor::new(ScalarType::Byte, [0], Storage::Unplanned))
    }

    fn tensors(&mut self, values: &[Option<crate::ir::ValueId>], parameter: Option<&Parameter>) -> Result<u32, Error> {
        let mut entries = Vec::new();
        for value in values {
            entries.push(value.map(|value| self.read(value)).transpose()?);
        }
        let list = match entries.iter().copied().collect::<Option<Vec<_>>>() {
            Some(all) if !parameter.is_some_and(|parameter| parameter.holes) => Value::TensorList(all),
            _ => Value::OptionalTensorList(entries),
        };
        Ok(self.plain(list))
    }
}
