//! What holds of every graph.
//!
//! 1. Every id names a value or constant of the graph.
//! 2. A value is made once: as an input, as a constant, or by one node; and a node reads only what was made before it.
//! 3. Sizes of results are those that [`infer`](crate::infer) tells from the sizes of the inputs.
//! 4. An operation has as many outputs as it makes; steps after it are for operations with one output, whose elements are
//!    plain numbers or quantised per tensor.
//! 5. The order of a constant's dimensions is one of all dimensions of plain numbers.
//! 6. Scales are as many as the type asks for, where their constant is in the graph itself.
//! 7. Comparisons make bools, and what takes conditions takes bools; no further steps follow those that make bools.

use crate::graph::{Graph, Node, Origin, Source, Value, ValueId};
use crate::infer::{Operands, Shape, Shapes, result_shapes};
use crate::op::Op;
use crate::types::{Element, Scheme};
use sconce_format::ScalarType;
use smallvec::SmallVec;
use std::fmt;

/// Why a graph is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Checks a graph against the rules above.
pub fn verify(graph: &Graph) -> Result<(), Invalid> {
    let invalid = |text: String| Err(Invalid(text));
    let mut made = vec![false; graph.values.len()];
    for (index, value) in graph.values.iter().enumerate() {
        let constants = [value.ty.scales(), constant_of(value.origin)];
        if constants.into_iter().flatten().any(|id| id.index() >= graph.constants.len()) {
            return invalid(format!("%{index} refers to a constant that is not there"));
        }
        if is_disordered(graph, value) {
            return invalid(format!("the dimensions of %{index} of type {} cannot be in the order given", value.ty));
        }
        made[index] = matches!(value.origin, Origin::Constant(_));
        if scales_missing(graph, index) {
            return invalid(format!("%{index} of type {} has too few scales", value.ty));
        }
    }
    for &input in &graph.inputs {
        if graph.values.get(input.index()).map(|value| value.origin) != Some(Origin::Input) {
            return invalid(format!("{input} is listed as an input and is none"));
        }
        make(&mut made, input)?;
    }
    for (place, node) in graph.nodes.iter().enumerate() {
        if let Some(read) = node.reads().find(|id| made.get(id.index()) != Some(&true)) {
            return invalid(format!("node {place}, {node}, reads {read} before it is made"));
        }
        let inputs: SmallVec<[Shape; 4]> = node.inputs.iter().map(|&id| graph.ty(id).sizes()).collect();
        let inputs: Operands<'_> = inputs.iter().map(|sizes| &**sizes).collect();
        let Some(expected) = result_shapes(&node.op, &inputs) else {
            return invalid(format!("node {place}, {node}, does not take inputs of sizes {inputs:?}"));
        };
        node.outputs.iter().try_for_each(|&output| make(&mut made, output))?;
        let mut outputs = node.outputs.iter().zip(&expected);
        if node.outputs.len() != expected.len() || !outputs.all(|(&id, sizes)| graph.ty(id).has_sizes(sizes)) {
            let found: Shapes = node.outputs.iter().map(|&id| graph.ty(id).sizes()).collect();
            return invalid(format!("node {place}, {node}, makes {found:?} where sizes {expected:?} follow"));
        }
        if is_mistyped(graph, node) {
            return invalid(format!("node {place}, {node}, has conditions that are no bools"));
        }
        if !node.then.is_empty() && node.outputs.len() != 1 {
            return invalid(format!("node {place}, {node}, has further steps and several outputs"));
        }
        if let Some(ty) = node.outputs.iter().map(|&id| graph.ty(id)).find(|ty| !takes_steps(&ty.element))
            && !node.then.is_empty()
        {
            return invalid(format!("node {place}, {node}, has further steps and makes {ty}"));
        }
        if let Some(other) = node.reads().skip(node.inputs.len()).find(|&id| !graph.ty(id).has_sizes(&expected[0])) {
            return invalid(format!("node {place}, {node}: {other} is not of the result's size {:?}", expected[0]));
        }
    }
    match graph.outputs.iter().find(|id| made.get(id.index()) != Some(&true)) {
        Some(output) => invalid(format!("output {output} is never made")),
        None => Ok(()),
    }
}

fn constant_of(origin: Origin) -> Option<crate::ConstantId> {
    match origin {
        Origin::Constant(id) => Some(id),
        Origin::Input | Origin::Node => None,
    }
}

fn make(made: &mut [bool], id: ValueId) -> Result<(), Invalid> {
    match made.get_mut(id.index()) {
        None => Err(Invalid(format!("{id} is not a value of the graph"))),
        Some(true) => Err(Invalid(format!("{id} is made twice"))),
        Some(made) => {
            *made = true;
            Ok(())
        }
    }
}

/// Whether steps can make such elements: numbers, or integers of one scale.
fn takes_steps(element: &Element) -> bool {
    match element {
        Element::Plain(_) => true,
        Element::Quantized(quantized) => matches!(quantized.scheme, Scheme::PerTensor { .. }),
    }
}

/// Whether a node takes or makes a condition that is no bool.
fn is_mistyped(graph: &Graph, node: &Node) -> bool {
    let is_bool = |id: &ValueId| graph.ty(*id).is(ScalarType::Bool);
    let made = node.outputs.iter().all(is_bool) && node.then.is_empty();
    match node.op {
        Op::Compare { .. } => !made || node.inputs.iter().any(is_bool),
        Op::Not | Op::Any => !made || !node.inputs.iter().all(is_bool),
        Op::Select => !node.inputs.first().is_some_and(is_bool),
        _ => false,
    }
}

/// Whether a constant's order of dimensions does not suit the value.
fn is_disordered(graph: &Graph, value: &Value) -> bool {
    let Some(id) = constant_of(value.origin) else { return false };
    let order = &graph.constants[id.index()].order;
    if order.is_empty() {
        return false;
    }
    let mut order = order.clone();
    order.sort_unstable();
    let whole = order.iter().copied().eq(0..value.ty.dims.len()) && value.ty.quantized().is_none();
    !whole
}

/// Whether scales that the graph itself holds are too few.
fn scales_missing(graph: &Graph, index: usize) -> bool {
    let ty = &graph.values[index].ty;
    let Element::Quantized(quantized) = &ty.element else { return false };
    let sizes = ty.sizes();
    let wanted = match &quantized.scheme {
        Scheme::PerChannel { axis, .. } => match sizes.get(*axis) {
            Some(size) => size.checked_mul(4),
            None => return true,
        },
        Scheme::PerGroup { size, .. } => match sizes[..] {
            [rows, columns] if *size > 0 => columns.div_ceil(*size).checked_mul(rows).and_then(|n| n.checked_mul(2)),
            _ => return true,
        },
        Scheme::PerTensor { .. } => return false,
        Scheme::PerToken { dims } => return *dims > sizes.len(),
    };
    match ty.scales().map(|id| &graph.constants[id.index()].source) {
        Some(Source::Bytes(bytes)) => wanted.is_none_or(|wanted| bytes.len() < wanted),
        _ => false,
    }
}
