//! Tensors in the file's table of values: their types, and where those lie that no plan places.

use super::Emitter;
use crate::Error;
use crate::ir::{Input, Kind, Origin, Program, ValueId};
use crate::size::Size;
use sconce_format::ptd;
use sconce_format::pte::model::{Dynamism, Storage, Tensor, Value};

impl<'p> Emitter<'_, '_, 'p> {
    /// The entry of a value in the file's table.
    pub(super) fn entry(&mut self, value: ValueId) -> Result<u32, Error> {
        if let Some(entry) = self.entries.get(&value) {
            return Ok(*entry);
        }
        let storage = match self.function.get(value).origin {
            Origin::Constant(id) if self.shared.options.external => self.external(value, id.0)?,
            Origin::Constant(id) => self.constant(id.0),
            _ => Storage::Unplanned,
        };
        self.tensor_entry(value, storage)
    }

    pub(super) fn tensor_entry(&mut self, value: ValueId, storage: Storage) -> Result<u32, Error> {
        let entry = match self.function.get(value).kind {
            Kind::Tensor(_) => {
                let mut tensor = self.tensor(value)?;
                tensor.storage = storage;
                if let (Storage::External(_), Origin::Constant(id)) = (storage, &self.function.get(value).origin) {
                    tensor.name = Some(self.shared.program.constants.0[id.0 as usize].name.clone());
                }
                self.plan.value(tensor)
            }
            Kind::Int => self.plan.value(Value::Int(0)),
            Kind::Float => self.plan.value(Value::Double(0.0)),
            Kind::Bool => self.plan.value(Value::Bool(false)),
        };
        self.entries.insert(value, entry);
        Ok(entry)
    }

    /// A tensor of the module, in the file beside the program. What the compiler made itself, and a tensor of the module
    /// that is read in other sizes than the first time, stay in the program.
    pub(super) fn external(&mut self, value: ValueId, id: u32) -> Result<Storage, Error> {
        let program: &'p Program<'p> = self.shared.program;
        let constant = &program.constants.0[id as usize];
        if constant.name.is_empty() {
            return Ok(self.constant(id));
        }
        let Tensor { dtype, sizes, dim_order, .. } = self.tensor(value)?;
        let layout = Some(ptd::model::Layout { dtype, sizes, dim_order });
        let entries = &mut self.shared.data.entries;
        match entries.iter().find(|entry| entry.key == constant.name) {
            Some(known) if known.layout != layout => return Ok(self.constant(id)),
            Some(_) => {}
            None => {
                entries.push(ptd::model::Entry { key: constant.name.clone(), data: (&*constant.bytes).into(), layout })
            }
        }
        Ok(Storage::External(None))
    }

    /// Gives the tensors of the caller their names in the export. Of a tensor with data the file's field says where those are
    /// found, and it stays.
    pub(super) fn name(&mut self) {
        let function = self.function;
        let given = function.inputs.iter().map(|input| match input {
            Input::Value(value) => function.get(*value).name.as_str(),
            Input::Fixed(_) => "",
        });
        let named = self.plan.inputs.iter().zip(given);
        let outputs = self.plan.outputs.iter().zip(function.output_names.iter().map(String::as_str));
        let names: Vec<(u32, &str)> = named.chain(outputs).map(|(&entry, name)| (entry, name)).collect();
        for (entry, name) in names.into_iter().filter(|(_, name)| !name.is_empty()) {
            let Value::Tensor(tensor) = &mut self.plan.values[entry as usize] else { continue };
            if matches!(tensor.storage, Storage::Planned(_) | Storage::Unplanned) {
                tensor.name.get_or_insert_with(|| name.to_owned());
            }
        }
    }

    pub(super) fn constant(&mut self, id: u32) -> Storage {
        let program: &'p Program<'p> = self.shared.program;
        let file = &mut *self.shared.file;
        *self.shared.constants.entry(id).or_insert_with(|| file.constant(&*program.constants.0[id as usize].bytes))
    }

    /// A tensor's description, without a place.
    pub(super) fn tensor(&self, value: ValueId) -> Result<Tensor, Error> {
        let Some(ty) = self.function.tensor(value) else {
            return Err(Error::Broken("a number where a tensor must be".to_owned()));
        };
        let bound = |size: &Size| match i32::try_from(self.function.symbols.most(size)) {
            Ok(most) => Ok(most),
            // What nothing bounds has no elements at first.
            Err(_) if size.number().is_none() => Ok(0),
            Err(_) => Err(Error::unsupported(format!("a tensor of {} elements along one dimension", self.shown(size)))),
        };
        let sizes = ty.sizes.iter().map(bound).collect::<Result<Vec<_>, _>>()?;
        let mut tensor = Tensor::new(ty.dtype, sizes, Storage::Unplanned);
        tensor.dynamism = match ty.numbers() {
            Some(_) => Dynamism::Static,
            None if self.is_unbound(value) => Dynamism::Unbound,
            None => Dynamism::Bound,
        };
        tensor.dim_order.clone_from(&ty.order);
        Ok(tensor)
    }

    /// Whether nothing says how large a tensor may become.
    pub(super) fn is_unbound(&self, value: ValueId) -> bool {
        self.function.is_unbound(value)
    }

    fn shown(&self, size: &Size) -> String {
        self.function.symbols.show(size).to_string()
    }

    pub(super) fn bytes(&self, value: ValueId) -> Result<u64, Error> {
        let tensor = self.tensor(value)?;
        let too_large = || Error::unsupported("a tensor of more bytes than there can be");
        let size = u64::try_from(tensor.dtype.size()).map_err(|_| too_large())?;
        tensor
            .sizes
            .iter()
            .try_fold(size, |bytes, &size| bytes.checked_mul(u64::try_from(size).ok()?))
            .ok_or_else(too_large)
    }
}
