//! The payload of a part while its nodes are made.
//!
//! XNNPACK works on images with the channels innermost. A value of three or four dimensions therefore has up to two forms
//! in a payload: [`Layout::Plain`], its own dimensions, and [`Layout::Channels`], `[N, H, W, C]`. Nodes ask for operands
//! in the form they need ([`Builder::operand`]), and a form that is missing is made from the other one, once. Nodes that
//! work in any form take the one that is there ([`Builder::common`]), so that transpositions are at the borders of what
//! needs them and nowhere else. The caller's tensors are plain.
//!
//! Conversions from integers to numbers are made the same way, when somebody asks.

use super::arguments::Arguments;
use super::quantization::{DEQUANTIZE, Grid, QUANTIZE};
use super::scope::Scope;
use super::tensor::Tensor;
use crate::debug::{NO_HANDLE, PayloadNode};
use crate::ir::{Arg, Call, Data, Definition, Delegate, Origin, ValueId};
use crate::partition::Part;
use crate::size::Size;
use sconce_format::ScalarType;
use sconce_format::xnnpack::model::{
    Constant, Graph, Node, Operation, Quantization, Reshaping, Scales, Storage, Transposition, Unary,
};
use sconce_format::xnnpack::{BACKEND, Datatype, MAX_RANK};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// The order of a value's dimensions in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// The value's own.
    Plain,
    /// `[N, H, W, C]`; the height of a value of three dimensions is 1.
    Channels,
}

/// The order that makes the channels of an image innermost, and back.
pub(super) const TO_CHANNELS: [usize; 4] = [0, 2, 3, 1];
pub(super) const FROM_CHANNELS: [usize; 4] = [0, 3, 1, 2];

/// Bytes beyond a tensor's end that XNNPACK may read.
const SLACK: u64 = 64;

/// Limits of a node's output.
pub(super) type Range = Option<(f32, f32)>;

/// A payload in the making.
pub(super) struct Builder<'p> {
    pub(super) scope: &'p Scope<'p>,
    graph: Graph<'static>,
    data: Vec<(String, Data)>,
    /// Entries of the graph's constants by their keys.
    constants: HashMap<String, u32>,
    forms: HashMap<(ValueId, Layout), u32>,
    /// What was converted: a value, its form, and the dimensions of a row; 0 where integers became numbers.
    conversions: HashMap<(ValueId, Layout, i32), u32>,
    inputs: HashMap<ValueId, u32>,
    outputs: HashMap<ValueId, u32>,
    /// Results that the node of another call writes already.
    pub(super) done: HashSet<ValueId>,
    /// The number of the export's node that the present call came from.
    pub(super) handle: u32,
    /// Whether the present call works on integers.
    pub(super) quantized: bool,
    /// Whether this is a rehearsal: nodes are made for a single call to see whether that can be done, without weights.
    rehearsal: bool,
}

impl<'p> Builder<'p> {
    /// A payload with the inputs and outputs of a part.
    pub(super) fn new(scope: &'p Scope<'p>, part: &Part<'_>) -> Self {
        let mut builder = Self::rehearsal(scope);
        builder.inputs = part.inputs.iter().copied().zip(0..).collect();
        builder.outputs = part.outputs.iter().copied().zip(part.inputs.len() as u32..).collect();
        builder.rehearsal = false;
        builder
    }

    /// A payload that is not kept.
    pub(super) fn rehearsal(scope: &'p Scope<'p>) -> Self {
        Self {
            scope,
            graph: Graph::default(),
            data: Vec::new(),
            constants: HashMap::new(),
            forms: HashMap::new(),
            conversions: HashMap::new(),
            inputs: HashMap::new(),
            outputs: HashMap::new(),
            done: HashSet::new(),
            handle: NO_HANDLE,
            quantized: false,
            rehearsal: true,
        }
    }

    /// The delegate, after all nodes have been made.
    pub(super) fn finish(mut self) -> Result<Delegate, String> {
        let mut outputs: Vec<(u32, ValueId)> = self.outputs.iter().map(|(&value, &id)| (id, value)).collect();
        outputs.sort_unstable();
        for (_, value) in outputs {
            self.handle = self.scope.maker(value).map_or(NO_HANDLE, handle);
            self.operand(value, Layout::Plain)?;
        }
        let (payload, nodes) = (self.graph.write(), self.origins());
        let (backend, reads_beyond) = (BACKEND.to_owned(), SLACK);
        Ok(Delegate { backend, payload, data: self.data, reads_beyond, nodes, ..Delegate::default() })
    }

    /// What the nodes came from.
    fn origins(&self) -> Vec<PayloadNode> {
        let handles = |handle: u32| if handle == NO_HANDLE { Vec::new() } else { vec![handle] };
        let origin = |(index, node): (usize, &Node)| {
            let (runs, handles) = (node.operation.name(), handles(node.debug_handle));
            PayloadNode { index, runs, handles }
        };
        self.graph.nodes.iter().enumerate().map(origin).collect()
    }

    /// Adds a node.
    pub(super) fn node(&mut self, operation: Operation, range: Range) {
        self.graph.node(operation, range);
        if let Some(node) = self.graph.nodes.last_mut() {
            node.debug_handle = self.handle;
        }
    }

    /// Whether a value has this form already, or is known and can have any.
    pub(super) fn has(&self, value: ValueId, layout: Layout) -> bool {
        self.forms.contains_key(&(value, layout))
    }

    /// The form that is there of at least one operand and that all of them can have.
    pub(super) fn common(&self, operands: &[ValueId], result: ValueId) -> Layout {
        let rank = |value: ValueId| self.scope.function.tensor(value).map_or(0, |ty| ty.rank());
        let channels = matches!(rank(result), 3 | 4)
            && operands.iter().any(|&value| self.is_in_channels(value))
            && operands.iter().all(|&value| self.scope.is_known(value) || rank(value) == rank(result));
        if channels { Layout::Channels } else { Layout::Plain }
    }

    /// Whether only the form with innermost channels is there, of the value or of the integers that stand for it.
    fn is_in_channels(&self, value: ValueId) -> bool {
        let only = |value| self.has(value, Layout::Channels) && !self.has(value, Layout::Plain);
        only(value) || (!self.has(value, Layout::Plain) && self.integers(value).is_some_and(only))
    }

    /// The integers that a call of the part makes this value of.
    pub(super) fn integers(&self, value: ValueId) -> Option<ValueId> {
        let call = self.scope.maker(value).filter(|call| call.operator() == Some(DEQUANTIZE))?;
        Arguments(call).optional("input")
    }

    /// The payload's value for a value in a form.
    pub(super) fn operand(&mut self, value: ValueId, layout: Layout) -> Result<u32, String> {
        if let Some(&id) = self.forms.get(&(value, layout)) {
            return Ok(id);
        }
        if self.scope.is_known(value) {
            let id = self.weight(value, layout, self.scope.ty(value)?.rank())?;
            self.forms.insert((value, layout), id);
            return Ok(id);
        }
        let other = if layout == Layout::Plain { Layout::Channels } else { Layout::Plain };
        if let Some(&id) = self.forms.get(&(value, other)) {
            return self.turned(value, id, layout);
        }
        if let Some(integers) = self.integers(value).filter(|_| !self.inputs.contains_key(&value)) {
            if let Some(&id) = self.conversions.get(&(integers, layout, 0)) {
                self.alias(value, layout, id)?;
            } else {
                let input_id = self.operand(integers, layout)?;
                let output_id = self.define(value, layout)?;
                self.node(Operation::Convert(Unary { input_id, output_id, flags: 0 }), None);
                self.conversions.insert((integers, layout, 0), output_id);
            }
            return Ok(self.forms[&(value, layout)]);
        }
        let id = match self.inputs.get(&value) {
            Some(&id) => id,
            None if self.rehearsal => 0,
            None => return Err(format!("nothing makes the value {:?}", self.scope.function.get(value).name)),
        };
        let storage = Storage::External { id, input: true, output: false };
        let id = self.value(value, Layout::Plain, storage)?;
        self.forms.insert((value, Layout::Plain), id);
        if layout == Layout::Plain { Ok(id) } else { self.turned(value, id, layout) }
    }

    /// An operand of a node whose result has `rank` dimensions; a known one may have fewer.
    pub(super) fn spread(&mut self, value: ValueId, layout: Layout, rank: usize) -> Result<u32, String> {
        if self.scope.is_known(value) { self.weight(value, layout, rank) } else { self.operand(value, layout) }
    }

    /// A known value as an operand that is not a weight of a convolution or linear layer.
    fn weight(&mut self, value: ValueId, layout: Layout, rank: usize) -> Result<u32, String> {
        let dtype = float(self.scope.ty(value)?.dtype)?;
        self.constant(dtype, |scope| {
            let tensor = scope.known(value)?;
            Ok(match (layout, tensor.sizes.is_empty()) {
                (Layout::Channels, _) => in_channels(tensor, rank)?,
                (Layout::Plain, true) => tensor.reshaped(vec![1]),
                (Layout::Plain, false) => tensor,
            })
        })
    }

    /// The other form of a value.
    fn turned(&mut self, value: ValueId, id: u32, layout: Layout) -> Result<u32, String> {
        let rank = self.scope.ty(value)?.rank();
        if !matches!(rank, 3 | 4) {
            return Err(format!("it has {rank} dimensions, not those of an image"));
        }
        if self.coincides(value) {
            let (output, new_shape) = (self.define(value, layout)?, self.new_shape(value, layout)?);
            self.reshape_to(id, output, new_shape);
            return Ok(output);
        }
        match (rank, layout) {
            (4, Layout::Channels) => self.transposed(id, &TO_CHANNELS, value, layout),
            (4, Layout::Plain) => self.transposed(id, &FROM_CHANNELS, value, layout),
            (_, Layout::Channels) => {
                let rows = self.swapped(value)?;
                self.transpose(id, rows, &[0, 2, 1]);
                let (output, new_shape) = (self.define(value, layout)?, self.new_shape(value, layout)?);
                self.reshape_to(rows, output, new_shape);
                Ok(output)
            }
            (_, Layout::Plain) => {
                let (rows, mut new_shape) = (self.swapped(value)?, self.new_shape(value, layout)?);
                new_shape.swap(1, 2);
                self.reshape_to(id, rows, new_shape);
                self.transposed(rows, &[0, 2, 1], value, layout)
            }
        }
    }

    /// A value `[N, L, C]` for one of `[N, C, L]`.
    fn swapped(&mut self, value: ValueId) -> Result<u32, String> {
        let (dtype, quantization) = self.element(value)?;
        let dims = self.dims(value, Layout::Plain)?;
        Ok(self.graph.value(dtype, &[dims[0], dims[2], dims[1]], Storage::Internal, quantization))
    }

    fn transposed(&mut self, id: u32, order: &[usize], value: ValueId, layout: Layout) -> Result<u32, String> {
        let output = self.define(value, layout)?;
        self.transpose(id, output, order);
        Ok(output)
    }

    /// Adds a transposition.
    pub(super) fn transpose(&mut self, input_id: u32, output_id: u32, order: &[usize]) {
        let perm: Vec<u32> = order.iter().map(|&dim| dim as u32).collect();
        let num_dims = perm.len() as u32;
        self.node(Operation::StaticTranspose(Transposition { num_dims, perm, input_id, output_id, flags: 0 }), None);
    }

    /// Adds a change of sizes; one of them may be 0, for what is left.
    pub(super) fn reshape_to(&mut self, input_id: u32, output_id: u32, new_shape: Vec<u32>) {
        let num_dims = new_shape.len() as u32;
        self.node(Operation::StaticReshape(Reshaping { num_dims, new_shape, input_id, output_id, flags: 0 }), None);
    }

    /// Whether both forms have the same elements in the same order, whatever the sizes turn out to be.
    pub(super) fn coincides(&self, value: ValueId) -> bool {
        let Some(ty) = self.scope.function.tensor(value) else { return false };
        let one = |dim: usize| ty.sizes.get(dim).is_some_and(|size| size.number() == Some(1));
        match ty.rank() {
            3 => one(1) || one(2),
            4 => one(1) || (one(2) && one(3)),
            _ => false,
        }
    }

    /// The sizes of a value in a form as a node that changes sizes wants them: 0 for one that is not known.
    pub(super) fn new_shape(&self, value: ValueId, layout: Layout) -> Result<Vec<u32>, String> {
        let open: Vec<bool> = self.scope.ty(value)?.sizes.iter().map(|size| size.number().is_none()).collect();
        if open.iter().filter(|open| **open).count() > 1 {
            return Err("more than one of its sizes is not known before the program runs".to_owned());
        }
        let mut dims = self.dims(value, layout)?;
        for (dim, _) in open.iter().enumerate().filter(|(_, open)| **open) {
            dims[in_form(dim, open.len(), layout)] = 0;
        }
        Ok(dims)
    }

    /// The payload's value for a value that a node is about to write.
    pub(super) fn define(&mut self, value: ValueId, layout: Layout) -> Result<u32, String> {
        let storage = match (layout, self.outputs.get(&value)) {
            (Layout::Plain, Some(&id)) => Storage::External { id, input: false, output: true },
            _ => Storage::Internal,
        };
        let id = self.value(value, layout, storage)?;
        self.forms.insert((value, layout), id);
        Ok(id)
    }

    /// Lets a value be one that is there already.
    pub(super) fn alias(&mut self, value: ValueId, layout: Layout, id: u32) -> Result<(), String> {
        if layout == Layout::Plain && self.outputs.contains_key(&value) {
            let output_id = self.define(value, layout)?;
            self.node(Operation::Copy(Unary { input_id: id, output_id, flags: 0 }), None);
            return Ok(());
        }
        self.forms.insert((value, layout), id);
        Ok(())
    }

    /// A value between nodes, with the elements of another one.
    pub(super) fn between(&mut self, like: ValueId, dims: &[u32]) -> Result<u32, String> {
        let (dtype, quantization) = self.element(like)?;
        Ok(self.graph.value(dtype, dims, Storage::Internal, quantization))
    }

    /// A value converted to integers when the program runs, with a scale for each row of `row` dimensions.
    pub(super) fn rows(&mut self, value: ValueId, layout: Layout, row: i32) -> Result<u32, String> {
        if let Some(&id) = self.conversions.get(&(value, layout, row)) {
            return Ok(id);
        }
        let input_id = self.operand(value, layout)?;
        let dims = self.dims(value, layout)?;
        let quantization = Quantization::PerToken { num_nonbatch_dims: row };
        let output_id = self.graph.value(Datatype::QDInt8, &dims, Storage::Internal, quantization);
        self.node(Operation::Convert(Unary { input_id, output_id, flags: 0 }), None);
        self.conversions.insert((value, layout, row), output_id);
        Ok(output_id)
    }

    fn value(&mut self, value: ValueId, layout: Layout, storage: Storage) -> Result<u32, String> {
        let (dtype, quantization) = self.element(value)?;
        let dims = self.dims(value, layout)?;
        Ok(self.graph.value(dtype, &dims, storage, quantization))
    }

    /// The elements of a value.
    fn element(&self, value: ValueId) -> Result<(Datatype, Quantization), String> {
        let dtype = self.scope.ty(value)?.dtype;
        if dtype != ScalarType::Char {
            return Ok((float(dtype)?, Quantization::None));
        }
        match self.grid(value)? {
            Grid::Whole { scale, zero } => Ok((Datatype::QInt8, Quantization::PerTensor { scale, zero_point: zero })),
            _ => Err("its integers have more than one scale".to_owned()),
        }
    }

    /// The numbers that integers stand for: what makes them or what reads them knows.
    pub(super) fn grid(&self, value: ValueId) -> Result<Grid, String> {
        let maker = self.scope.maker(value).filter(|call| call.operator() == Some(QUANTIZE));
        let reader = || self.scope.readers(value).iter().copied().find(|call| call.operator() == Some(DEQUANTIZE));
        let call = maker.or_else(reader).ok_or("its elements are integers, and nothing says what they stand for")?;
        Grid::of(self.scope, call)
    }

    /// The sizes of a value in a form, or their upper bounds.
    pub(super) fn dims(&self, value: ValueId, layout: Layout) -> Result<Vec<u32>, String> {
        let ty = self.scope.ty(value)?;
        let mut dims = ty.sizes.iter().map(|size| self.bound(size)).collect::<Result<Vec<u32>, String>>()?;
        if dims.len() > MAX_RANK {
            return Err(format!("it has {} dimensions, more than {MAX_RANK}", dims.len()));
        }
        if layout == Layout::Channels {
            dims = match dims.as_slice() {
                [n, c, h, w] => vec![*n, *h, *w, *c],
                [n, c, l] => vec![*n, 1, *l, *c],
                _ => return Err(format!("it has {} dimensions, not those of an image", dims.len())),
            };
        }
        if dims.is_empty() { Err("it has no dimensions".to_owned()) } else { Ok(dims) }
    }

    /// The largest value of a size.
    fn bound(&self, size: &Size) -> Result<u32, String> {
        let (function, mut told) = (self.scope.function, true);
        size.symbols(&mut |symbol| {
            let value = match function.definitions.get(&symbol) {
                Some(Definition::SizeOf(value, _) | Definition::Value(value)) => *value,
                None => return told = false,
            };
            told &= matches!(function.get(value).origin, Origin::Input);
        });
        match u32::try_from(function.symbols.most(size)) {
            _ if !told => Err(format!("the size {} is known only after other calls", function.symbols.show(size))),
            Ok(most) if i32::try_from(most).is_ok() && most > 0 => Ok(most),
            Ok(0) => Err("it is empty".to_owned()),
            _ => Err(format!("the size {} has no upper bound", function.symbols.show(size))),
        }
    }

    /// Floating-point weights; in a rehearsal they are not computed.
    pub(super) fn constant(
        &mut self,
        dtype: Datatype,
        tensor: impl FnOnce(&Scope<'p>) -> Result<Tensor<'p>, String>,
    ) -> Result<u32, String> {
        if self.rehearsal {
            return Ok(self.graph.value(dtype, &[1], Storage::Internal, Quantization::None));
        }
        let tensor = tensor(self.scope)?;
        let dims: Vec<u32> = tensor.sizes.iter().map(|&size| size as u32).collect();
        Ok(self.quantized_constant(dtype, &dims, tensor.data(), Quantization::None))
    }

    /// Weights of any kind.
    pub(super) fn quantized_constant(
        &mut self,
        dtype: Datatype,
        dims: &[u32],
        data: Data,
        quantization: Quantization,
    ) -> u32 {
        let index = self.named("", data);
        self.graph.value(dtype, dims, Storage::Constant(index), quantization)
    }

    /// Scales in a constant of their own.
    pub(super) fn scales(&mut self, bytes: Vec<u8>, count: usize) -> Scales {
        Scales::Constant { index: self.named("scale_", bytes.into()), count: count as u32 }
    }

    /// The entry of a constant, which equal bytes share.
    fn named(&mut self, prefix: &str, data: Data) -> u32 {
        let bytes = self.scope.data(&data);
        let digest = Sha256::digest(bytes);
        let key: String =
            std::iter::once(prefix.to_owned()).chain(digest.iter().map(|byte| format!("{byte:02x}"))).collect();
        if let Some(&index) = self.constants.get(&key) {
            return index;
        }
        let index = self.graph.constant(Constant::Named { key: key.clone(), size: bytes.len() as u64 });
        self.data.push((key.clone(), data));
        self.constants.insert(key, index);
        index
    }

    /// A number as an operand.
    pub(super) fn number(&mut self, number: f32, dtype: ScalarType) -> Result<u32, String> {
        self.constant(float(dtype)?, |_| Ok(Tensor::floats(dtype, &[1], &[number])))
    }

    /// Whether this is a rehearsal.
    pub(super) fn rehearses(&self) -> bool {
        self.rehearsal
    }

    /// What a call reads: the integers if it works on those.
    pub(super) fn read(&self, call: &Call, name: &str) -> Result<ValueId, String> {
        let value = Arguments(call).tensor(name)?;
        Ok(if self.quantized { self.integers(value).unwrap_or(value) } else { value })
    }

    /// Whether an argument is a tensor.
    pub(super) fn is_tensor(&self, call: &Call, name: &str) -> bool {
        matches!(call.arg(name), Arg::Value(value) if self.scope.function.tensor(*value).is_some())
    }
}

/// The number of the export's node that a call came from.
pub(super) fn handle(call: &Call) -> u32 {
    call.source.as_ref().map_or(NO_HANDLE, |source| source.handle)
}

/// The place of a value's dimension in a form.
pub(super) fn in_form(dim: usize, rank: usize, layout: Layout) -> usize {
    match (layout, rank) {
        (Layout::Plain, _) => dim,
        (Layout::Channels, 4) => FROM_CHANNELS[dim],
        (Layout::Channels, _) => [0, 3, 2][dim.min(2)],
    }
}

/// The payload's type for floating-point elements.
pub(super) fn float(dtype: ScalarType) -> Result<Datatype, String> {
    match dtype {
        ScalarType::Float => Ok(Datatype::Fp32),
        ScalarType::Half => Ok(Datatype::Fp16),
        other => Err(format!("its elements are of the type {other}, not float32 or float16")),
    }
}

/// A known tensor as an operand for images of `rank` dimensions with innermost channels.
fn in_channels(tensor: Tensor<'_>, rank: usize) -> Result<Tensor<'_>, String> {
    let mut sizes = vec![1; rank.saturating_sub(tensor.sizes.len())];
    sizes.extend(&tensor.sizes);
    if sizes.len() == 3 {
        sizes.insert(2, 1);
    }
    if sizes.len() != TO_CHANNELS.len() {
        return Err(format!("a constant of {} dimensions is no image", tensor.sizes.len()));
    }
    Ok(tensor.reshaped(sizes).permuted(&TO_CHANNELS))
}
