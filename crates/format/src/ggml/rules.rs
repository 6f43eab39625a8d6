//! What the tensors of a payload must obey, and the sizes that follow from those of the inputs.

use super::{Element, Extent, Graph, MAX_RANK, Op, Role, Tensor, at};
use std::borrow::ToOwned;
use std::string::String;
use std::vec::Vec;

/// Most elements of a tensor, so that bytes never overflow.
pub const MOST: usize = if usize::BITS > 32 { 1 << (usize::BITS - 24) } else { 1 << 27 };

pub(super) fn check(graph: &Graph) -> Result<(), String> {
    for (place, tensor) in (0..).zip(&graph.tensors) {
        tensor_rules(place, tensor).map_err(|reason| at(place, &reason))?;
    }
    for (what, marked) in [("input", graph.inputs()), ("output", graph.outputs())] {
        for (index, &place) in (0..).zip(&marked) {
            let role = graph.get(place).map(|tensor| &tensor.role);
            if !matches!(role, Some(Role::Input(own) | Role::Output(own)) if *own == index) {
                return Err(std::format!("the payload has no {what} {index}, or two of them"));
            }
        }
    }
    Ok(())
}

fn tensor_rules(place: u32, tensor: &Tensor) -> Result<(), String> {
    let (rank, sources) = (tensor.sizes.len(), tensor.sources.len());
    if rank > MAX_RANK {
        return Err(std::format!("it has {rank} dimensions, and at most {MAX_RANK} are supported"));
    }
    if let Some(later) = tensor.sources.iter().find(|&&source| source >= place) {
        return Err(std::format!("it is computed from tensor {later}, which does not come before it"));
    }
    if !tensor.op.takes(sources) {
        return Err(std::format!("{} is not computed from {sources} tensors", tensor.op.name()));
    }
    let known = || -> Option<Vec<usize>> {
        tensor.sizes.iter().map(|size| size.fixed().and_then(|size| usize::try_from(size).ok())).collect()
    };
    match &tensor.role {
        Role::Inside | Role::Output(_) if tensor.op == Op::Leaf => Err("nothing says where it comes from".to_owned()),
        Role::Inside | Role::Output(_) => computed(tensor),
        _ if tensor.op != Op::Leaf => Err(std::format!("it is given, and yet computed by {}", tensor.op.name())),
        Role::Input(_) if tensor.sizes.iter().all(|size| size.fixed().is_some() || size.as_symbol().is_some()) => {
            computed(tensor)
        }
        Role::Input(_) => Err("the size of an input is an expression".to_owned()),
        Role::Constant(_) | Role::State(_) => {
            let sizes = known().ok_or("what is kept has sizes that depend on inputs")?;
            let count =
                sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size)).filter(|&count| count <= MOST);
            match count.and_then(|_| tensor.element.bytes(&sizes)) {
                Some(_) => Ok(()),
                None => Err(std::format!("a tensor of {} cannot have the sizes {sizes:?}", tensor.element.name())),
            }
        }
    }
}

/// What is not kept has plain elements.
fn computed(tensor: &Tensor) -> Result<(), String> {
    match tensor.element {
        element if element.is_quantized() => Err(std::format!("only constants can be {}", element.name())),
        Element::I64 if tensor.op != Op::Leaf => Err("only inputs can be int64".to_owned()),
        _ => Ok(()),
    }
}

/// The sizes of all tensors for some inputs.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The sizes of each tensor.
    pub sizes: Vec<Vec<usize>>,
    symbols: [Option<i64>; 256],
}

impl Bound {
    /// What an extent is for these inputs.
    pub fn value(&self, extent: &Extent) -> Option<i64> {
        extent.value(&|symbol| self.symbols[usize::from(symbol)])
    }
}

pub(super) fn bind(graph: &Graph, inputs: &[&[usize]]) -> Result<Bound, String> {
    let mut symbols: [Option<i64>; 256] = [None; 256];
    for (tensor, given) in graph.inputs().iter().filter_map(|&place| graph.get(place)).zip(inputs) {
        let unfit = || std::format!("an input has the sizes {given:?}, and the payload wants {:?}", tensor.sizes);
        if given.len() != tensor.sizes.len() {
            return Err(unfit());
        }
        for (size, &given) in tensor.sizes.iter().zip(*given) {
            let given = i64::try_from(given).map_err(|_| unfit())?;
            let known = match size.as_symbol() {
                Some(symbol) => *symbols[usize::from(symbol)].get_or_insert(given),
                None => size.fixed().ok_or_else(unfit)?,
            };
            if known != given {
                return Err(unfit());
            }
        }
    }
    let mut bound = Bound { sizes: Vec::with_capacity(graph.tensors.len()), symbols };
    let value = |bound: &Bound, size: &Extent| {
        let value = bound.value(size).and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| std::format!("the size {size:?} has no value for these inputs"))
    };
    for (place, tensor) in (0..).zip(&graph.tensors) {
        let sizes = tensor.sizes.iter().map(|size| value(&bound, size)).collect::<Result<Vec<_>, _>>();
        let sizes = sizes.map_err(|reason| at(place, &reason))?;
        if sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size)).is_none_or(|count| count > MOST) {
            return Err(at(place, &std::format!("the sizes {sizes:?} are too large")));
        }
        bound.sizes.push(sizes);
    }
    Ok(bound)
}
