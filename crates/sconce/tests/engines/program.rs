//! Programs of one payload, which says itself what it takes and gives.

use crate::Text;
use sconce::format::pte::model::{
    Delegate, Dynamism, Instruction, Memory, Plan, Program, Storage, Tensor as Described,
};
use sconce::graph::Graph;
use sconce::graph::payload::{Binding, Context, Payload};
use sconce::{Error, Input, ScalarType, Session, Tensor};

/// A program whose one instruction is a delegate with this payload.
pub(crate) fn program(payload: &str) -> Vec<u8> {
    let function = Text.read(payload.as_bytes(), &Context::NONE).unwrap().remove(0);
    let Graph { inputs, outputs, .. } = &function.graph;
    let mut plan = Plan::new("forward");
    let mut arguments = |ids: &[sconce::graph::ValueId], bindings: &[Binding], offset: u64| {
        let bound = ids.iter().zip(bindings);
        let mut numbered: Vec<_> = bound
            .filter_map(|(id, bound)| match bound {
                Binding::Argument(number) => Some((*number, *id)),
                Binding::State(_) => None,
            })
            .collect();
        numbered.sort_unstable();
        let value = |(number, id)| {
            let sizes: Vec<i32> =
                function.graph.ty(id).sizes().iter().map(|&size| i32::try_from(size).unwrap()).collect();
            let storage = Storage::Planned(Memory { id: 1, offset: offset + number as u64 * ROOM });
            let tensor = Described::new(ScalarType::Float, sizes, storage);
            plan.value(Described { dynamism: Dynamism::Bound, ..tensor })
        };
        numbered.into_iter().map(value).collect::<Vec<u32>>()
    };
    let (inputs, outputs) = (arguments(inputs, &function.inputs, 0), arguments(outputs, &function.outputs, 8 * ROOM));
    let payload = payload.as_bytes().into();
    plan.delegates.push(Delegate { backend: "TextBackend".into(), payload, inline: false, specs: Vec::new() });
    plan.push(Instruction::Delegate { delegate: 0, args: [&inputs[..], &outputs].concat() });
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (inputs, outputs, vec![0, 16 * ROOM]);
    Program { plans: vec![plan], ..Program::default() }.write()
}

/// Bytes for a tensor.
const ROOM: u64 = 1 << 12;

/// What a session gives for these lists.
pub(crate) fn call(session: &mut Session, lists: &[&[f32]]) -> Result<Vec<Vec<f32>>, Error> {
    let tensors: Vec<_> = lists.iter().map(|list| Tensor::from_slice(list, &[list.len()]).unwrap()).collect();
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::Tensor).collect();
    let outputs = session.run(&inputs)?;
    outputs.iter().map(|value| Ok(value.tensor()?.as_slice::<f32>()?.to_vec())).collect()
}
