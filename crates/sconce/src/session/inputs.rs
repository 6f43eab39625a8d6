//! Inputs as the core takes them.
use crate::buffer::Buffer;
use crate::{Error, Input, layout};
use sconce_core::{Method, Shape, ValueInfo};

/// Copies of the tensors that are laid out otherwise than the method takes them, by input. Those of the run before are
/// written over.
#[derive(Default)]
pub(super) struct Reordered(Vec<Option<(Shape, Buffer)>>);

impl Reordered {
    pub(super) fn fill(&mut self, method: Method<'_>, inputs: &[Input<'_>]) -> Result<(), Error> {
        self.0.resize_with(inputs.len(), || None);
        for (index, (input, place)) in inputs.iter().zip(&mut self.0).enumerate() {
            let before = place.take();
            let given = match input {
                Input::Tensor(tensor) => tensor.view(),
                Input::View(tensor) => *tensor,
                _ => continue,
            };
            let Some(ValueInfo::Tensor { shape, .. }) = method.input(index) else { continue };
            let Some(target) = shape.resized(given.sizes()).filter(|target| target.order() != given.shape.order())
            else {
                continue;
            };
            let bytes = given.data.len();
            let room = before.map(|(_, room)| room).filter(|room| room.as_ref().len() == bytes);
            let mut copy = room.or_else(|| Buffer::zeroed(bytes)).ok_or(Error::OutOfMemory { bytes })?;
            layout::reorder(given.dtype.size(), &given.shape, given.data, &target, copy.as_mut());
            *place = Some((target, copy));
        }
        Ok(())
    }
}

pub(super) fn value<'v>(
    method: Method<'v>,
    index: usize,
    input: &Input<'v>,
    reordered: &'v Reordered,
) -> sconce_core::Value<'v> {
    let tensor = |given: sconce_core::Tensor<'v>| {
        sconce_core::Value::Tensor(match reordered.0.get(index) {
            Some(Some((shape, copy))) => sconce_core::Tensor { dtype: given.dtype, shape: *shape, data: copy.as_ref() },
            _ => given,
        })
    };
    match *input {
        Input::None => sconce_core::Value::None,
        Input::Tensor(given) => tensor(given.view()),
        Input::View(given) => tensor(given),
        Input::Int(value) => sconce_core::Value::Int(value),
        Input::Double(value) => sconce_core::Value::Double(value),
        Input::Bool(value) => sconce_core::Value::Bool(value),
        Input::Str(value) => sconce_core::Value::Str(value),
        Input::Recorded => match method.input(index) {
            Some(ValueInfo::Int(value)) => sconce_core::Value::Int(value),
            Some(ValueInfo::Double(value)) => sconce_core::Value::Double(value),
            Some(ValueInfo::Bool(value)) => sconce_core::Value::Bool(value),
            Some(ValueInfo::Str(value)) => sconce_core::Value::Str(value),
            _ => sconce_core::Value::None,
        },
    }
}
