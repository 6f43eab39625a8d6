//! The payload of the ggml delegate: a list of tensors, each with how it is computed.
//!
//! A FlatBuffer with the identifier `GG01`. Tensors refer to earlier ones; inputs, outputs, constants (by their names among
//! the named data) and states (kept from run to run, with what they hold at first) are marked. Sizes may depend on those
//! of the inputs: an input's size can be a symbol, all others are numbers or expressions of symbols.
//!
//! Payloads of the same tables without an identifier, as other exporters write them, are read too (`legacy`); what they
//! leave open is settled there.

mod extent;
mod legacy;
mod op;
mod rules;
mod schema;
pub mod shape;

pub use crate::Element;
pub use extent::{Combine, Extent, Step};
pub use op::Op;
pub use rules::{Bound, MOST};
pub use schema::*;

use crate::builder::{Builder, Slot};
use crate::{FileKind, flatbuf};
use std::borrow::ToOwned;
use std::string::{String, ToString};
use std::vec::Vec;

/// The name that programs have for the backend.
pub const BACKEND: &str = "GgmlBackend";

/// Most dimensions a tensor can have.
pub const MAX_RANK: usize = 8;

/// The version of the rules that are written.
const VERSION: u32 = 1;

/// A whole payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Every tensor after those that it is computed from.
    pub tensors: Vec<Tensor>,
}

/// A tensor and how it is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its elements.
    pub element: Element,
    /// Its sizes, the outermost first.
    pub sizes: Vec<Extent>,
    /// How it is computed.
    pub op: Op,
    /// What it is computed from, by position.
    pub sources: Vec<u32>,
    /// What it is for the caller.
    pub role: Role,
}

/// What a tensor is for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    Inside,
    /// This argument.
    Input(u32),
    /// This result.
    Output(u32),
    /// The named data of this name.
    Constant(String),
    /// Kept from run to run; the named data of this name at first, or zeros.
    State(Option<String>),
}

impl Graph {
    /// Adds a tensor and gives its position.
    pub fn push(&mut self, tensor: Tensor) -> u32 {
        self.tensors.push(tensor);
        self.tensors.len() as u32 - 1
    }

    /// A tensor by its position.
    pub fn get(&self, tensor: u32) -> Option<&Tensor> {
        self.tensors.get(usize::try_from(tensor).ok()?)
    }

    /// The positions of inputs, or of outputs, in their order.
    pub fn inputs(&self) -> Vec<u32> {
        self.marked(|role| if let Role::Input(index) = role { Some(*index) } else { None })
    }

    /// The positions of outputs in their order.
    pub fn outputs(&self) -> Vec<u32> {
        self.marked(|role| if let Role::Output(index) = role { Some(*index) } else { None })
    }

    fn marked(&self, index: impl Fn(&Role) -> Option<u32>) -> Vec<u32> {
        let mut found: Vec<(u32, u32)> =
            (0..).zip(&self.tensors).filter_map(|(place, tensor)| Some((index(&tensor.role)?, place))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, place)| place).collect()
    }

    /// Reads a payload and checks all rules; the error is a sentence.
    pub fn read(payload: &[u8]) -> Result<Self, String> {
        let identified = flatbuf::identifier(payload) == Some(FileKind::Ggml.identifier());
        GraphTable::verify(payload).map_err(|error| error.to_string())?;
        let table = GraphTable::root(payload);
        if identified && table.version() != VERSION {
            return Err(std::format!(
                "the payload is of version {}, and only version {VERSION} is supported",
                table.version()
            ));
        }
        let graph = if identified { read(table)? } else { legacy::read(table)? };
        rules::check(&graph)?;
        Ok(graph)
    }

    /// The payload.
    pub fn write(&self) -> Vec<u8> {
        let mut b = Builder::new();
        let numbered: Vec<(i32, &Tensor)> = (0..).zip(&self.tensors).collect();
        let tensors = b.tables(&numbered, |b, (id, tensor)| tensor.write(b, *id));
        let root = GraphTable::fields().tensors(tensors).version(VERSION).write(&mut b);
        b.finish(root, FileKind::Ggml.identifier())
    }

    /// The sizes of all tensors for these sizes of the inputs.
    pub fn bind(&self, inputs: &[&[usize]]) -> Result<Bound, String> {
        rules::bind(self, inputs)
    }
}

impl Tensor {
    /// One that is computed and stays inside.
    pub fn new(element: Element, sizes: Vec<Extent>, op: Op, sources: Vec<u32>) -> Self {
        Self { element, sizes, op, sources, role: Role::Inside }
    }

    fn write(&self, b: &mut Builder, id: i32) -> Slot {
        let bound = |extent: &Extent| extent.fixed().unwrap_or(0);
        let innermost: Vec<&Extent> = self.sizes.iter().rev().collect();
        let ne: Vec<i64> = innermost.iter().map(|extent| bound(extent)).collect();
        let ids: Vec<i32> = innermost
            .iter()
            .map(|extent| match (extent.fixed(), extent.as_symbol()) {
                (Some(_), _) => -1,
                (None, Some(symbol)) => symbol.into(),
                (None, None) => -2,
            })
            .collect();
        let mut codes = Vec::new();
        for (extent, id) in innermost.iter().zip(&ids) {
            let code = if *id == -2 { extent.bytes() } else { Vec::new() };
            codes.extend((code.len() as u16).to_le_bytes());
            codes.extend(code);
        }
        let sources: Vec<i32> = self.sources.iter().map(|&source| source as i32).collect();
        let (ne, sources, parameters) = (b.scalars(&ne), b.scalars(&sources), b.scalars(&self.op.parameters()));
        let key = match &self.role {
            Role::Constant(key) | Role::State(Some(key)) => b.string(key),
            _ => Slot::Absent,
        };
        let (input, output, index) = match self.role {
            Role::Input(index) => (true, false, index as i32),
            Role::Output(index) => (false, true, index as i32),
            _ => (false, false, -1),
        };
        let (ids, codes) = (b.scalars(&ids), b.scalars(&codes));
        TensorTable::fields()
            .id(id)
            .element(self.element.code())
            .ne(ne)
            .op(self.op.code())
            .src_ids(sources)
            .op_params(parameters)
            .data_key(key)
            .is_input(input)
            .is_output(output)
            .input_index(index)
            .sym_dim_ids(ids)
            .sym_dim_exprs(codes)
            .elem_size(self.element.scalar().map_or(0, |scalar| scalar.size() as u8))
            .is_mutable(matches!(self.role, Role::State(_)))
            .write(b)
    }
}

/// The tensors of a payload with an identifier.
fn read(table: GraphTable<'_>) -> Result<Graph, String> {
    let mut graph = Graph::default();
    for (place, tensor) in (0..).zip(table.tensors().iter()) {
        let read = || {
            if tensor.id() != place {
                return Err(std::format!("its id is {}, not its position", tensor.id()));
            }
            let element = Element::of(tensor.element())
                .ok_or_else(|| std::format!("its elements are of type {}", tensor.element()))?;
            let source = |id: i32| u32::try_from(id).map_err(|_| std::format!("it is computed from tensor {id}"));
            Ok(Tensor {
                element,
                sizes: sizes(tensor)?,
                op: Op::read(tensor.op(), tensor.op_params().bytes())?,
                sources: tensor.src_ids().iter().map(source).collect::<Result<_, _>>()?,
                role: role(tensor)?,
            })
        };
        graph.tensors.push(read().map_err(|reason| at(place as u32, &reason))?);
    }
    Ok(graph)
}

fn at(place: u32, reason: &str) -> String {
    std::format!("tensor {place} of the payload: {reason}")
}

/// The sizes of a tensor, the outermost first.
fn sizes(tensor: TensorTable<'_>) -> Result<Vec<Extent>, String> {
    let (ids, mut codes) = (tensor.sym_dim_ids(), tensor.sym_dim_exprs().bytes());
    let mut sizes = Vec::new();
    for (place, size) in tensor.ne().iter().enumerate() {
        let code = match codes.split_first_chunk::<2>() {
            Some((length, rest)) => {
                let (code, rest) = rest
                    .split_at_checked(usize::from(u16::from_le_bytes(*length)))
                    .ok_or("the code of a size ends before it should")?;
                codes = rest;
                code
            }
            None => &[],
        };
        sizes.push(match ids.get(place).unwrap_or(-1) {
            -1 => Extent::Fixed(size),
            -2 => Extent::read(code)?,
            symbol => Extent::symbol(u8::try_from(symbol).map_err(|_| std::format!("a size is the symbol {symbol}"))?),
        });
    }
    sizes.reverse();
    Ok(sizes)
}

fn role(tensor: TensorTable<'_>) -> Result<Role, String> {
    let index =
        || u32::try_from(tensor.input_index()).map_err(|_| std::format!("it is argument {}", tensor.input_index()));
    let key = tensor.data_key().map(ToOwned::to_owned);
    Ok(match (tensor.is_input(), tensor.is_output(), tensor.is_mutable(), key) {
        (false, false, true, key) => Role::State(key),
        (true, false, false, None) => Role::Input(index()?),
        (false, true, false, None) => Role::Output(index()?),
        (false, false, false, Some(key)) => Role::Constant(key),
        (false, false, false, None) => Role::Inside,
        _ => return Err("it is several of input, output, constant and state".to_owned()),
    })
}

#[cfg(test)]
mod tests;
