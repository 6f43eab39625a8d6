//! Values, nodes and constants.

use crate::op::{Function, Op};
use crate::types::{Element, Type};
use std::ops::Range;
use std::sync::Arc;

/// Names a value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Names a constant of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstantId(pub u32);

impl ValueId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ConstantId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes that do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Constant {
    /// Where they are.
    pub source: Source,
    /// If not empty, the bytes hold the dimensions of plain numbers in another order: dimension `i` of the value is
    /// dimension `order[i]` of the bytes.
    pub order: Vec<usize>,
}

/// Where the bytes of a constant are. Whoever runs a graph can find them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Under this name in the program's named data.
    Named(Arc<str>),
    /// In this range of the delegate's payload.
    Payload(Range<usize>),
    /// In this range of the program's file.
    Program(Range<u64>),
    /// In the value of this number of the program's method.
    Value(u32),
    /// Here.
    Bytes(Arc<[u8]>),
}

impl Default for Source {
    /// No bytes.
    fn default() -> Self {
        Self::Payload(0..0)
    }
}

/// Finds the bytes of constants.
pub trait Constants: Sync {
    /// The bytes, if they are there.
    fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]>;

    /// Says that these bytes will be read soon, where they are: a wish, which may come to nothing.
    fn will_read(&self, _source: &Source) {}

    /// Says that these bytes are not needed any more, as a rule. They must stay readable, but need not stay in memory.
    fn release(&self, _source: &Source) {}

    /// Finds bytes by a name that no graph mentions: what an engine made of constants before, for [`Constants::entry`].
    fn find(&self, _name: &str) -> Option<u32> {
        None
    }

    /// The bytes that [`Constants::find`] found.
    fn entry(&self, _entry: u32) -> Option<&[u8]> {
        None
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The caller passes it.
    Input,
    /// It is known.
    Constant(ConstantId),
    /// A node makes it.
    Node,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Value {
    /// Its type.
    pub ty: Type,
    /// Where it comes from.
    pub origin: Origin,
}

impl Value {
    /// Counts its constants from `first` on, for a graph that becomes a part of another.
    pub fn move_constants(&mut self, first: u32) {
        if let Origin::Constant(ConstantId(id)) = &mut self.origin {
            *id = id.saturating_add(first);
        }
        if let Some(ConstantId(id)) = self.ty.scales_mut() {
            *id = id.saturating_add(first);
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From what. Inputs that may be left out come last.
    pub inputs: Vec<ValueId>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
    /// What is done to each element of the (only) output before it is stored, in this order.
    pub then: Vec<Then>,
}

impl Node {
    /// A node without further steps.
    pub fn new(op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>) -> Self {
        Self { op, inputs, outputs, then: Vec::new() }
    }

    /// All values it reads.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        let further = self.then.iter().filter_map(|then| match then {
            Then::Apply(_) => None,
            Then::Add(value) | Then::Multiply(value) => Some(*value),
        });
        self.inputs.iter().copied().chain(further)
    }

    /// Puts other values in the place of those it reads.
    pub fn map_reads(&mut self, replace: impl Fn(ValueId) -> ValueId) {
        for value in &mut self.inputs {
            *value = replace(*value);
        }
        for then in &mut self.then {
            if let Then::Add(value) | Then::Multiply(value) = then {
                *value = replace(*value);
            }
        }
    }
}

/// A step taken on each result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub enum Then {
    /// A function of the element.
    Apply(Function),
    /// The element of a value of the same sizes is added.
    Add(ValueId),
    /// It is multiplied by the element of a value of the same sizes.
    Multiply(ValueId),
}

/// Values and the nodes that make them, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Graph {
    /// The values, by [`ValueId`].
    pub values: Vec<Value>,
    /// The nodes: each reads only inputs, constants and results of nodes before it.
    pub nodes: Vec<Node>,
    /// The constants, by [`ConstantId`].
    pub constants: Vec<Constant>,
    /// What the caller passes.
    pub inputs: Vec<ValueId>,
    /// What the caller gets.
    pub outputs: Vec<ValueId>,
}

impl Graph {
    /// A new value. (A graph has fewer than 2^32 values: each takes more than a byte of the file it comes from.)
    pub fn value(&mut self, ty: Type, origin: Origin) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value { ty, origin });
        id
    }

    /// A new input.
    pub fn input(&mut self, ty: Type) -> ValueId {
        let id = self.value(ty, Origin::Input);
        self.inputs.push(id);
        id
    }

    /// A new constant.
    pub fn constant(&mut self, source: Source) -> ConstantId {
        let id = ConstantId(u32::try_from(self.constants.len()).unwrap_or(u32::MAX));
        self.constants.push(Constant { source, order: Vec::new() });
        id
    }

    /// A constant of plain numbers with its dimensions in another order: dimension `i` of the result is dimension
    /// `order[i]` of `value`. Nothing is moved; whoever reads the bytes minds the order.
    pub fn reordered(&mut self, value: ValueId, order: &[usize]) -> Option<ValueId> {
        let Constant { source, order: inner } = self.constants[self.as_constant(value)?.index()].clone();
        let Type { element: element @ Element::Plain(_), dims } = self.ty(value).clone() else { return None };
        let joined: Vec<usize> = order.iter().map(|&dim| inner.get(dim).copied().unwrap_or(dim)).collect();
        let dims = order.iter().map(|&dim| dims[dim].clone()).collect();
        let constant = self.constant(source);
        if !joined.is_sorted() {
            self.constants[constant.index()].order = joined;
        }
        Some(self.value(Type { element, dims }, Origin::Constant(constant)))
    }

    /// A new value with known bytes.
    pub fn constant_value(&mut self, ty: Type, source: Source) -> ValueId {
        let constant = self.constant(source);
        self.value(ty, Origin::Constant(constant))
    }

    /// Appends a node with one result of type `ty`.
    pub fn node(&mut self, op: Op, inputs: Vec<ValueId>, ty: Type) -> ValueId {
        let output = self.value(ty, Origin::Node);
        self.nodes.push(Node::new(op, inputs, vec![output]));
        output
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value.index()].ty
    }

    /// The constant behind a value, if there is one.
    pub fn as_constant(&self, value: ValueId) -> Option<ConstantId> {
        match self.values[value.index()].origin {
            Origin::Constant(constant) => Some(constant),
            Origin::Input | Origin::Node => None,
        }
    }

    /// For each value the place of the node that makes it.
    pub fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.values.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            for output in &node.outputs {
                makers[output.index()] = Some(place);
            }
        }
        makers
    }

    /// For each value how often it is read; being an output of the graph counts as once.
    pub fn read_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.values.len()];
        let reads = self.nodes.iter().flat_map(Node::reads);
        for value in reads.chain(self.outputs.iter().copied()) {
            counts[value.index()] += 1;
        }
        counts
    }

    /// Drops values and constants that nothing refers to, and numbers the rest in the order of their first mention:
    /// inputs, then what each node reads and makes. Answers the new number of each value that is left.
    pub fn compact(&mut self) -> Vec<Option<ValueId>> {
        let mentions = self.inputs.iter().copied();
        let nodes = self.nodes.iter().flat_map(|node| node.reads().chain(node.outputs.iter().copied()));
        let (mut values, mut numbers) = (Vec::new(), vec![None; self.values.len()]);
        for id in mentions.chain(nodes).chain(self.outputs.iter().copied()) {
            numbers[id.index()].get_or_insert_with(|| {
                values.push(self.values[id.index()].clone());
                ValueId(values.len() as u32 - 1)
            });
        }
        let number = |id: ValueId| numbers[id.index()].unwrap_or(id);
        for node in &mut self.nodes {
            node.map_reads(number);
            node.outputs.iter_mut().for_each(|id| *id = number(*id));
        }
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(|id| *id = number(*id));
        self.values = values;
        self.compact_constants();
        numbers
    }

    fn compact_constants(&mut self) {
        let mut old = std::mem::take(&mut self.constants);
        let (mut constants, mut numbers) = (Vec::new(), vec![None; old.len()]);
        let mut number = |id: &mut ConstantId| {
            *id = *numbers[id.index()].get_or_insert_with(|| {
                constants.push(std::mem::take(&mut old[id.index()]));
                ConstantId(constants.len() as u32 - 1)
            });
        };
        for value in &mut self.values {
            if let Origin::Constant(id) = &mut value.origin {
                number(id);
            }
            if let Some(id) = value.ty.scales_mut() {
                number(id);
            }
        }
        self.constants = constants;
    }
}
