//! A payload as owned values, to be made, changed and written.
//!
//! What can be told from the rest is not kept: a value's id is its position, the graph's lists of inputs and outputs
//! follow from the values. Nodes are made from the same rows as their views.

use super::schema::{self, node_rows};
use super::{Datatype, EXTERNAL_INPUT, EXTERNAL_OUTPUT, File, NONE};
use crate::builder::{Builder, Fields, Pieces, Slot, pack};
use crate::flatbuf::Scalars;
use crate::{Error, FileKind};
use std::borrow::{Cow, ToOwned};
use std::string::String;
use std::vec::Vec;

/// The root of a payload before it is written.
type Root = Fields<schema::Graph<'static>>;

/// What constants are aligned to, and the FlatBuffers part.
const ALIGNMENT: usize = 16;

/// A whole payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph<'a> {
    /// Always "0" so far.
    pub version: String,
    /// The values; nodes refer to them by position.
    pub values: Vec<Value>,
    /// The nodes in the order in which they run.
    pub nodes: Vec<Node>,
    /// The constants; values refer to them by position.
    pub constants: Vec<Constant<'a>>,
}

/// Something nodes read and write.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Element type.
    pub dtype: Datatype,
    /// Sizes, or upper bounds of them.
    pub dims: Vec<u32>,
    /// Where the elements come from.
    pub storage: Storage,
    /// How the elements stand for numbers; of the kind that goes with the element type.
    pub quantization: Quantization,
}

/// Where the elements of a value come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A node writes them, and nodes read them.
    Internal,
    /// An entry of [`Graph::constants`].
    Constant(u32),
    /// An argument of the call.
    External {
        /// Position among the arguments.
        id: u32,
        /// Whether the graph reads it.
        input: bool,
        /// Whether the graph writes it.
        output: bool,
    },
}

/// How elements stand for numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantization {
    /// They are the numbers.
    None,
    /// One scale and zero point.
    PerTensor {
        /// Scale.
        scale: f32,
        /// Zero point.
        zero_point: i32,
    },
    /// A scale for every channel.
    PerChannel {
        /// The dimension of channels.
        channel_dim: i32,
        /// The scales.
        scales: Scales,
    },
    /// Scale and zero point for every row, found when the program runs.
    PerToken {
        /// How many of the last dimensions make up a row.
        num_nonbatch_dims: i32,
    },
    /// A scale for every group of elements in a channel.
    PerChannelGroup {
        /// The dimension of channels.
        channel_dim: i32,
        /// Elements in a group.
        group_size: i32,
        /// The scales, channel after channel.
        scales: Scales,
    },
}

/// The scales of channels or groups.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// Here.
    Fp32(Vec<f32>),
    /// Here, as the bits of bf16; for groups only.
    Bf16(Vec<u16>),
    /// In an entry of [`Graph::constants`]: fp32 for channels, bf16 for groups.
    Constant {
        /// Which entry.
        index: u32,
        /// How many scales.
        count: u32,
    },
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant<'a> {
    /// Bytes in the payload; written once however many constants share them.
    Bytes(Cow<'a, [u8]>),
    /// An entry of the program's named data.
    Named {
        /// Its key.
        key: String,
        /// Its number of bytes.
        size: u64,
    },
}

/// A step of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does.
    pub operation: Operation,
    /// Where it came from.
    pub debug_handle: u32,
    /// Limits of its output.
    pub output_range: Option<(f32, f32)>,
}

/// A field of a node, as it is read and written.
trait Field {
    /// What the view's accessor gives.
    type Stored<'a>;
    /// What sets it in a table.
    type Written;
    fn read(stored: Self::Stored<'_>) -> Self;
    fn write(&self, b: &mut Builder) -> Self::Written;
}

impl Field for u32 {
    type Stored<'a> = u32;
    type Written = u32;
    fn read(stored: u32) -> u32 {
        stored
    }
    fn write(&self, _: &mut Builder) -> u32 {
        *self
    }
}

impl Field for f32 {
    type Stored<'a> = f32;
    type Written = f32;
    fn read(stored: f32) -> f32 {
        stored
    }
    fn write(&self, _: &mut Builder) -> f32 {
        *self
    }
}

impl Field for Vec<u32> {
    type Stored<'a> = Scalars<'a, u32>;
    type Written = Slot;
    fn read(stored: Scalars<'_, u32>) -> Vec<u32> {
        stored.iter().collect()
    }
    fn write(&self, b: &mut Builder) -> Slot {
        b.scalars(self)
    }
}

/// The owned type of a row's type.
macro_rules! owned_type {
    ([$item:ident]) => { Vec<$item> };
    ($scalar:ident) => { $scalar };
}

macro_rules! owned {
    ($(
        $(#[$meta:meta])* $layout:ident { $($id:literal $field:ident : $kind:tt),* $(,)? }
        $(: $operands:tt $($number:literal $name:ident),+;)+
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $layout {
                $(#[doc = concat!("The field `", stringify!($field), "`, id ", $id, ".")]
                pub $field: owned_type!($kind),)*
            }

            impl $layout {
                fn read(view: schema::$layout<'_>) -> $layout {
                    $layout { $($field: Field::read(view.$field())),* }
                }

                fn write(&self, b: &mut Builder) -> Slot {
                    let fields = schema::$layout::fields();
                    $(let fields = fields.$field(self.$field.write(b));)*
                    fields.write(b)
                }
            }
        )*

        /// What a node does.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Operation {
            $($($(#[doc = concat!("Node ", $number, ".")] $name($layout),)+)+)*
        }

        impl Operation {
            /// The name of the node in the format.
            pub fn name(&self) -> &'static str {
                match self {
                    $($($(Operation::$name(_) => stringify!($name),)+)+)*
                }
            }

            fn read(view: schema::Operation<'_>) -> Option<Operation> {
                match view {
                    schema::Operation::None => None,
                    $($($(schema::Operation::$name(node) => Some(Operation::$name($layout::read(node))),)+)+)*
                }
            }

            /// A step of the graph that is this node.
            fn write(&self, b: &mut Builder) -> Fields<schema::XNode<'static>> {
                let step = schema::XNode::fields();
                match self {
                    $($($(Operation::$name(node) => step.xnode_union(schema::Operation::$name, node.write(b)),)+)+)*
                }
            }
        }
    };
}

node_rows!(owned);

impl Default for Graph<'_> {
    fn default() -> Self {
        Graph { version: "0".to_owned(), values: Vec::new(), nodes: Vec::new(), constants: Vec::new() }
    }
}

impl<'a> Graph<'a> {
    /// Adds a value and gives its id.
    pub fn value(&mut self, dtype: Datatype, dims: &[u32], storage: Storage, quantization: Quantization) -> u32 {
        self.values.push(Value { dtype, dims: dims.to_vec(), storage, quantization });
        self.values.len() as u32 - 1
    }

    /// Adds a constant and gives its position.
    pub fn constant(&mut self, constant: Constant<'a>) -> u32 {
        self.constants.push(constant);
        self.constants.len() as u32 - 1
    }

    /// Adds a node.
    pub fn node(&mut self, operation: Operation, output_range: Option<(f32, f32)>) {
        let debug_handle = self.nodes.len() as u32;
        self.nodes.push(Node { operation, debug_handle, output_range });
    }

    /// Reads and checks a whole payload.
    pub fn read(payload: &'a [u8]) -> Result<Graph<'a>, Error> {
        let file = File::parse(payload)?;
        let constant = |index: u32| match file.constant(index)? {
            super::Constant::Bytes(bytes) => Some(Constant::Bytes(Cow::Borrowed(bytes))),
            super::Constant::Named(key) => {
                let size = file.graph().constant_data().get(usize::try_from(index).ok()?)?.size();
                Some(Constant::Named { key: key.to_owned(), size })
            }
        };
        let node = |node: schema::XNode<'_>| {
            let output_range = node.output_min_max().map(|_| node.output_range());
            let operation = Operation::read(node.xnode_union())?;
            Some(Node { operation, debug_handle: node.debug_handle(), output_range })
        };
        Ok(Graph {
            version: file.graph().version().unwrap_or_default().to_owned(),
            values: file.values().iter().map(read_value).collect(),
            nodes: file.nodes().iter().filter_map(node).collect(),
            constants: (1..).map_while(constant).collect(),
        })
    }

    /// The graph as a payload with a header.
    pub fn write(&self) -> Vec<u8> {
        let inline = self.inline();
        let (data, offsets) = pack(&inline, ALIGNMENT);
        let constants = |b: &mut Builder| {
            let nowhere = b.string("");
            let table = schema::ConstantDataOffset::fields;
            let mut constants = Vec::from([table().named_key(nowhere).write(b)]);
            for (constant, offset) in self.constants.iter().zip(offsets.iter().skip(1)) {
                constants.push(match constant {
                    Constant::Bytes(bytes) => table().offset(*offset).size(bytes.len() as u64).write(b),
                    Constant::Named { key, size } => {
                        let key = b.string(key);
                        table().offset(u64::MAX).size(*size).named_key(key).write(b)
                    }
                });
            }
            let constants = b.vector(&constants);
            schema::Graph::fields().constant_data(constants)
        };
        assemble(&self.flatbuffer(constants, FileKind::Xnnpack.identifier()), &data)
    }

    /// The graph as a payload of the old form: the FlatBuffers part alone, with the constants inside. It knows no names;
    /// a constant that has one is empty there.
    pub fn write_without_header(&self) -> Vec<u8> {
        let constants = |b: &mut Builder| {
            let mut buffers = Vec::from([schema::Buffer::fields().write(b)]);
            for bytes in self.inline() {
                let storage = b.bytes(bytes, ALIGNMENT);
                buffers.push(schema::Buffer::fields().storage(storage).write(b));
            }
            let buffers = b.vector(&buffers);
            schema::Graph::fields().constant_buffer(buffers)
        };
        self.flatbuffer(constants, *b"XN00")
    }

    /// The bytes of constants in the payload, nothing for those that have names.
    fn inline(&self) -> Vec<&[u8]> {
        self.constants
            .iter()
            .map(|constant| if let Constant::Bytes(bytes) = constant { &bytes[..] } else { &[] })
            .collect()
    }

    /// The FlatBuffers part; `constants` begins its root with the constants.
    fn flatbuffer(&self, constants: impl FnOnce(&mut Builder) -> Root, identifier: [u8; 4]) -> Vec<u8> {
        let mut b = Builder::new();
        let nodes = b.tables(&self.nodes, |b, node| {
            let step = node.operation.write(b).debug_handle(node.debug_handle);
            let range = node.output_range.map_or(Slot::Absent, |(low, high)| {
                schema::OutputMinMax::fields().output_min(low).output_max(high).write(b)
            });
            step.output_min_max(range).write(b)
        });
        let numbered: Vec<_> = (0..).zip(&self.values).collect();
        let values = b.tables(&numbered, |b, (id, value)| write_value(b, *id, value));
        let external = |flag| {
            let ids = numbered.iter().filter(|(_, value)| value.storage.external().1 & flag != 0);
            ids.map(|(id, _)| *id).collect::<Vec<u32>>()
        };
        let (inputs, outputs) = (b.scalars(&external(EXTERNAL_INPUT)), b.scalars(&external(EXTERNAL_OUTPUT)));
        let ids = self.values.iter().filter(|value| value.storage.external().1 != 0);
        let externs = ids.map(|value| value.storage.external().0.saturating_add(1)).max().unwrap_or(0);
        let root = constants(&mut b);
        let version = b.string(&self.version);
        let root = root.version(version).xnodes(nodes).xvalues(values).num_externs(externs);
        let root = root.input_ids(inputs).output_ids(outputs).write(&mut b);
        b.finish(root, identifier)
    }
}

impl Storage {
    /// External id and flags.
    fn external(self) -> (u32, u32) {
        match self {
            Storage::External { id, input, output } => {
                let flag = |is: bool, flag| if is { flag } else { 0 };
                (id, flag(input, EXTERNAL_INPUT) | flag(output, EXTERNAL_OUTPUT))
            }
            _ => (NONE, 0),
        }
    }
}

fn read_value(value: schema::XValue<'_>) -> Value {
    let tensor = value.tensor();
    let storage = match (tensor.constant(), tensor.external()) {
        (Some(index), _) => Storage::Constant(index.saturating_sub(1)),
        (_, Some(id)) => Storage::External { id, input: tensor.is_input(), output: tensor.is_output() },
        _ => Storage::Internal,
    };
    let quantization = match value.quantization() {
        schema::Quantization::None => Quantization::None,
        schema::Quantization::PerTensorQuant(q) => {
            Quantization::PerTensor { scale: q.scale(), zero_point: q.zero_point() }
        }
        schema::Quantization::PerChannelQuant(q) => {
            Quantization::PerChannel { channel_dim: q.channel_dim(), scales: read_scales(q.scales()) }
        }
        schema::Quantization::PerTokenDynamicQuant(q) => {
            Quantization::PerToken { num_nonbatch_dims: q.num_nonbatch_dims() }
        }
        schema::Quantization::PerChannelGroupQuant(q) => Quantization::PerChannelGroup {
            channel_dim: q.channel_dim(),
            group_size: q.group_size(),
            scales: read_scales(q.scales()),
        },
    };
    Value { dtype: tensor.dtype(), dims: tensor.dims().iter().collect(), storage, quantization }
}

fn read_scales(scales: schema::Scales<'_>) -> Scales {
    match scales {
        schema::Scales::Fp32(scales) => Scales::Fp32(scales.iter().collect()),
        schema::Scales::Bf16(scales) => Scales::Bf16(scales.iter().collect()),
        schema::Scales::Constant { index, count } => Scales::Constant { index: index.saturating_sub(1), count },
    }
}

fn write_value(b: &mut Builder, id: u32, value: &Value) -> Slot {
    let constant = if let Storage::Constant(index) = value.storage { index + 1 } else { 0 };
    let (external_id, flags) = value.storage.external();
    let dims = b.scalars(&value.dims);
    let tensor = schema::TensorValue::fields()
        .datatype(i16::from(value.dtype.code()))
        .num_dims(value.dims.len() as u32)
        .dims(dims)
        .constant_buffer_idx(constant)
        .external_id(external_id)
        .flags(flags)
        .id_out(id)
        .write(b);
    let whole = schema::XValue::fields();
    match write_quantization(b, &value.quantization) {
        None => whole.xvalue_union(schema::ValueUnion::TensorValue, tensor),
        Some(quantized) => {
            let quantized = quantized.tensor_value(tensor).write(b);
            whole.xvalue_union(schema::ValueUnion::QuantizedTensorValue, quantized)
        }
    }
    .write(b)
}

/// How elements stand for numbers, if they are none.
fn write_quantization(
    b: &mut Builder,
    quantization: &Quantization,
) -> Option<Fields<schema::QuantizedTensorValue<'static>>> {
    use schema::Quantization as Kind;
    let whole = schema::QuantizedTensorValue::fields();
    Some(match quantization {
        Quantization::None => return None,
        Quantization::PerChannel { channel_dim, scales } => {
            let [fp32, _] = write_scales(b, scales);
            let (index, count) = scales.constant();
            let table = schema::PerChannelQuant::fields().scale(fp32).channel_dim(*channel_dim);
            whole.quant_params(Kind::PerChannelQuant, table.scale_buffer_idx(index).num_scales(count).write(b))
        }
        Quantization::PerTensor { scale, zero_point } => {
            let table = schema::PerTensorQuant::fields().scale(*scale).zero_point(*zero_point);
            whole.quant_params(Kind::PerTensorQuant, table.write(b))
        }
        Quantization::PerToken { num_nonbatch_dims } => {
            let table = schema::PerTokenDynamicQuant::fields().num_nonbatch_dims(*num_nonbatch_dims);
            whole.quant_params(Kind::PerTokenDynamicQuant, table.write(b))
        }
        Quantization::PerChannelGroup { channel_dim, group_size, scales } => {
            let [fp32, bf16] = write_scales(b, scales);
            let (index, count) = scales.constant();
            let table = schema::PerChannelGroupQuant::fields().scale(fp32).channel_dim(*channel_dim);
            let table = table.group_size(*group_size).scale_bf16(bf16).scale_buffer_idx(index).num_scales(count);
            whole.quant_params(Kind::PerChannelGroupQuant, table.write(b))
        }
    })
}

/// Scales that are here, as fp32 and as bf16.
fn write_scales(b: &mut Builder, scales: &Scales) -> [Slot; 2] {
    match scales {
        Scales::Fp32(scales) => [b.scalars(scales), Slot::Absent],
        Scales::Bf16(scales) => [Slot::Absent, b.scalars(scales)],
        Scales::Constant { .. } => [Slot::Absent; 2],
    }
}

impl Scales {
    /// The constant that they are in, as the format counts them, and how many they are; zeros if they are here.
    fn constant(&self) -> (u32, u32) {
        match self {
            Scales::Fp32(_) | Scales::Bf16(_) => (0, 0),
            Scales::Constant { index, count } => (index.saturating_add(1), *count),
        }
    }
}

/// Header, FlatBuffers part and constants.
fn assemble(flatbuffer: &[u8], constants: &Pieces<'_>) -> Vec<u8> {
    let start = usize::from(super::HEADER).next_multiple_of(ALIGNMENT);
    let base = (start + flatbuffer.len()).next_multiple_of(ALIGNMENT);
    let mut payload = Vec::from(*b"\0\0\0\0XH00");
    payload.extend_from_slice(&super::HEADER.to_le_bytes());
    for number in [start, flatbuffer.len(), base] {
        payload.extend_from_slice(&(number as u32).to_le_bytes());
    }
    payload.extend_from_slice(&(constants.len() as u64).to_le_bytes());
    payload.resize(start, 0);
    payload.extend_from_slice(flatbuffer);
    constants.write(&mut payload, base);
    payload
}
