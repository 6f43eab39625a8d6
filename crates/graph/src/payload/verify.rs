//! What holds of every function that a reader gives.
//!
//! 1. Its graph is one ([`verify`](crate::verify())).
//! 2. Every input and output of the graph is bound, and every argument of the call is bound once.
//! 3. Every state is bound: by inputs, by at most one output, and all of them have its sizes and its kind of numbers.

use super::{Binding, Function};
use crate::graph::{Constant, Node, Source, Value, ValueId};
use crate::types::{Element, Type};
use std::collections::HashSet;
use std::mem::size_of;

impl Function {
    /// Checks the function against the rules above.
    pub fn verify(&self) -> Result<(), String> {
        crate::verify(&self.graph).map_err(|invalid| invalid.to_string())?;
        let Self { graph, inputs, outputs, .. } = self;
        if inputs.len() != graph.inputs.len() || outputs.len() != graph.outputs.len() {
            return Err("binds another number of values than its graph has".to_owned());
        }
        if !is_whole(inputs) || !is_whole(outputs) {
            return Err("does not bind every argument of its call once".to_owned());
        }
        let mut states = vec![(None, 0); self.state.len()];
        self.bind(&graph.inputs, inputs, &mut states)?;
        states.iter_mut().for_each(|(_, count)| *count = 0);
        self.bind(&graph.outputs, outputs, &mut states)?;
        match states.iter().position(|(ty, count)| ty.is_none() || *count > 1) {
            Some(number) => Err(format!("binds state {number} to nothing, or to more than one output")),
            None => Ok(()),
        }
    }

    /// Notes the type of every state, and how often it is bound.
    fn bind<'f>(
        &'f self,
        ids: &[ValueId],
        bindings: &[Binding],
        states: &mut [(Option<&'f Type>, usize)],
    ) -> Result<(), String> {
        for (&id, binding) in ids.iter().zip(bindings) {
            let Binding::State(number) = *binding else { continue };
            let ty = self.graph.ty(id);
            let lacks = || format!("binds a value to state {number}, which it does not have");
            let (known, count) = states.get_mut(number).ok_or_else(lacks)?;
            let known = known.get_or_insert(ty);
            if known.sizes() != ty.sizes() || !are_alike(&known.element, &ty.element) {
                return Err(format!("binds values of {known} and of {ty} to state {number}"));
            }
            *count += 1;
        }
        Ok(())
    }

    /// About how many bytes it takes in memory. What several constants share counts once.
    pub fn bytes(&self) -> usize {
        let Self { graph, inputs, outputs, state, name } = self;
        let value = |value: &Value| size_of::<Value>() + size_of_val(&value.ty.dims[..]);
        let node = |node: &Node| {
            let ids = node.inputs.len() + node.outputs.len();
            // Attributes are lists of sizes, which take about as much as their text.
            size_of::<Node>() + ids * size_of::<ValueId>() + size_of_val(&node.then[..]) + node.op.to_string().len()
        };
        let mut shared = HashSet::new();
        let mut once = |bytes: &[u8]| if shared.insert(bytes.as_ptr()) { bytes.len() } else { 0 };
        let constant = |constant: &Constant| {
            size_of::<Constant>()
                + match &constant.source {
                    Source::Bytes(bytes) => once(bytes),
                    Source::Named(name) => once(name.as_bytes()),
                    Source::Payload(_) | Source::Program(_) | Source::Value(_) => 0,
                }
        };
        let bound = size_of_val(&inputs[..]) + size_of_val(&outputs[..]);
        graph.values.iter().map(value).sum::<usize>()
            + graph.nodes.iter().map(node).sum::<usize>()
            + graph.constants.iter().map(constant).sum::<usize>()
            + state.iter().map(|state| state.initial.len()).sum::<usize>()
            + (name.len() + bound)
    }
}

/// Whether the arguments that are bound are all from the first to the last, each once.
fn is_whole(bindings: &[Binding]) -> bool {
    let numbers = bindings.iter().filter_map(|binding| match binding {
        Binding::Argument(number) => Some(*number),
        Binding::State(_) => None,
    });
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    let count = numbers.len();
    numbers.into_iter().eq(0..count)
}

/// Whether elements are stored in the same way.
fn are_alike(one: &Element, other: &Element) -> bool {
    match (one, other) {
        (Element::Plain(one), Element::Plain(other)) => one == other,
        (Element::Quantized(one), Element::Quantized(other)) => one.storage == other.storage,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use Binding::{Argument, State as OfState};

    const SUM: &str = "%0: float32[4] = input\n\
                       %1: float32[4] = input\n\
                       %2: float32[4] = add %0, %1\n\
                       output %2\n";

    fn function(text: &str, inputs: &[Binding], outputs: &[Binding], states: usize) -> Function {
        let graph = crate::parse(text).unwrap();
        let state = vec![State { initial: vec![1] }; states];
        Function { graph, inputs: inputs.into(), outputs: outputs.into(), state, ..Function::default() }
    }

    #[test]
    fn functions_may_bind_in_any_order() {
        for (inputs, outputs, states) in [
            ([Argument(0), Argument(1)], [Argument(0)], 0),
            ([Argument(1), Argument(0)], [Argument(0)], 0),
            ([OfState(0), Argument(0)], [OfState(0)], 1),
            ([OfState(0), OfState(0)], [Argument(0)], 1),
            ([OfState(1), Argument(0)], [OfState(0)], 2),
        ] {
            function(SUM, &inputs, &outputs, states).verify().unwrap();
        }
    }

    #[test]
    fn what_is_bound_wrongly_is_told() {
        let two = SUM.replace("output %2", "output %2, %2");
        let unlike = SUM.replace("%0: float32[4]", "%0: float32[1]");
        for (text, inputs, outputs, states, expected) in [
            (SUM, &[Argument(0)][..], &[Argument(0)][..], 0, "binds another number of values"),
            (SUM, &[Argument(0), Argument(2)], &[Argument(0)], 0, "does not bind every argument of its call once"),
            (SUM, &[Argument(0), Argument(0)], &[Argument(0)], 0, "does not bind every argument of its call once"),
            (SUM, &[OfState(0), Argument(0)], &[Argument(1)], 1, "does not bind every argument of its call once"),
            (SUM, &[OfState(0), Argument(0)], &[OfState(0)], 0, "binds a value to state 0, which it does not have"),
            (SUM, &[Argument(0), Argument(1)], &[Argument(0)], 1, "binds state 0 to nothing"),
            (
                &unlike,
                &[OfState(0), Argument(0)],
                &[OfState(0)],
                1,
                "values of float32[1] and of float32[4] to state 0",
            ),
            (&two, &[OfState(0), Argument(0)], &[OfState(0), OfState(0)], 1, "or to more than one output"),
        ] {
            let found = function(text, inputs, outputs, states).verify().unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn bytes_count_what_is_held() {
        let small = function(SUM, &[Argument(0), Argument(1)], &[Argument(0)], 0).bytes();
        let mut large = function(SUM, &[Argument(0), Argument(1)], &[Argument(0)], 0);
        large.state.push(State { initial: vec![0; 1000] });
        large.graph.constant(Source::Bytes(vec![0; 1000].into()));
        assert!(large.bytes() >= small + 2000 && small < 2000, "{small}");
    }
}
