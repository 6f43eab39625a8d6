//! `XnnpackBackend`: payloads of the XNNPACK delegate.
//!
//! Values become values and nodes become nodes, one for one; limits of outputs become a step after the node. What the
//! payload says in other words is said in those of the graph here: pooling over the whole image is a mean, a bias that
//! is left out is not an input.

use sconce_format::ScalarType;
use sconce_format::flatbuf::Scalars;
use sconce_format::xnnpack::{
    BACKEND, Constant, Convolution, Datatype, File, Operation, Pooling, Quantization, TensorValue, XNode, XValue,
};
use sconce_graph::payload::{self, Context, Payload, Unreadable};
use sconce_graph::{
    Combine, ConstantId, Dim, Element, Function, Graph, Node, Op, Origin, Quantized, Reduction, Scheme, Shape, Source,
    Storage, Then, Type, ValueId,
};
use std::collections::{HashMap, HashSet};

/// Weights of a linear layer are `[in, out]`.
const TRANSPOSE_WEIGHTS: u32 = 1;
/// Corner pixels stay where they are.
const ALIGN_CORNERS: u32 = 8;
/// Reduced dimensions stay.
const KEEP_DIMS: u32 = 0x40;
/// Most bytes of scales for a byte of the payload: values may share them there, and each gets its own here.
const MOST_SCALES: usize = 64;

/// The format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Xnnpack;

impl Payload for Xnnpack {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn read(&self, payload: &[u8], _: &Context<'_>) -> Result<Vec<payload::Function>, Unreadable> {
        Ok(vec![payload::Function::of(import(payload)?)])
    }
}

/// A payload as a graph. Inputs and outputs are in the order of the call's arguments.
pub fn import(payload: &[u8]) -> Result<Graph, String> {
    let file = File::parse(payload).map_err(|error| error.to_string())?;
    let room = MOST_SCALES.saturating_mul(payload.len());
    let mut importer = Importer { payload, file, graph: Graph::default(), sources: HashMap::new(), room };
    importer.graph.values.reserve(file.values().len());
    importer.graph.nodes.reserve(file.nodes().len());
    for value in file.values().iter() {
        importer.value(value)?;
    }
    for node in file.nodes().iter() {
        importer.node(node)?;
    }
    importer.bind_arguments()?;
    importer.infer_sizes()?;
    sconce_graph::verify(&importer.graph).map_err(|invalid| invalid.to_string())?;
    Ok(importer.graph)
}

struct Importer<'a> {
    payload: &'a [u8],
    file: File<'a>,
    graph: Graph,
    /// Constants by number: what many values share is there once.
    sources: HashMap<u32, Source>,
    /// Bytes of scales that may follow.
    room: usize,
}

impl Importer<'_> {
    /// A value keeps its number.
    fn value(&mut self, value: XValue<'_>) -> Result<(), String> {
        let tensor = value.tensor();
        let dims = tensor.dims().iter().map(|size| Dim::Fixed(index(size))).collect();
        let ty = Type { element: self.element(value, tensor.dtype())?, dims };
        let origin = match tensor.constant() {
            Some(index) => Origin::Constant(self.constant(index)?),
            None if tensor.is_input() => Origin::Input,
            None => Origin::Node,
        };
        self.graph.value(ty, origin);
        Ok(())
    }

    fn element(&mut self, value: XValue<'_>, dtype: Datatype) -> Result<Element, String> {
        let storage = match dtype {
            Datatype::Fp32 | Datatype::PFp32 => return Ok(Element::Plain(ScalarType::Float)),
            Datatype::Fp16 => return Ok(Element::Plain(ScalarType::Half)),
            Datatype::BF16 => return Ok(Element::Plain(ScalarType::BFloat16)),
            Datatype::Int32 => return Ok(Element::Plain(ScalarType::Int)),
            Datatype::QInt8 | Datatype::QCInt8 | Datatype::QDInt8 | Datatype::QPInt8 => Storage::Int8,
            Datatype::QUInt8 => Storage::UInt8,
            Datatype::QInt32 | Datatype::QCInt32 => Storage::Int32,
            Datatype::QCInt4 | Datatype::QBInt4 => Storage::Int4,
            Datatype::Invalid => return Err("a value has no element type".to_owned()),
        };
        Ok(Element::Quantized(Quantized { storage, scheme: self.scheme(value, storage)? }))
    }

    fn scheme(&mut self, value: XValue<'_>, storage: Storage) -> Result<Scheme, String> {
        // Four-bit numbers are stored with 8 added.
        let zero = if storage == Storage::Int4 { 8 } else { 0 };
        match value.quantization() {
            Quantization::PerTensorQuant(quant) => {
                Ok(Scheme::PerTensor { scale: quant.scale(), zero: quant.zero_point() })
            }
            Quantization::PerChannelQuant(quant) => {
                let bytes = || quant.scale().iter().flat_map(f32::to_le_bytes).collect();
                let scales = self.scales(quant.scale_buffer_idx(), bytes)?;
                Ok(Scheme::PerChannel { axis: natural(quant.channel_dim())?, scales, zero })
            }
            Quantization::PerChannelGroupQuant(quant) => {
                let bytes = || match quant.scale_bf16() {
                    halves if !halves.is_empty() => halves.iter().flat_map(u16::to_le_bytes).collect(),
                    _ => quant.scale().iter().flat_map(|scale| truncated(scale).to_le_bytes()).collect(),
                };
                let scales = self.scales(quant.scale_buffer_idx(), bytes)?;
                Ok(Scheme::PerGroup { size: natural(quant.group_size())?, scales, zero })
            }
            Quantization::PerTokenDynamicQuant(quant) => {
                Ok(Scheme::PerToken { dims: natural(quant.num_nonbatch_dims())? })
            }
            Quantization::None => Err("a quantised value has no parameters".to_owned()),
        }
    }

    /// Scales in a constant of their own, or in the graph.
    fn scales(&mut self, index: u32, bytes: impl FnOnce() -> Vec<u8>) -> Result<ConstantId, String> {
        if index != 0 {
            return self.constant(index);
        }
        let bytes = bytes();
        let many = || "values share more scales than a payload of this size may have".to_owned();
        self.room = self.room.checked_sub(bytes.len()).ok_or_else(many)?;
        Ok(self.graph.constant(Source::Bytes(bytes.into())))
    }

    fn constant(&mut self, index: u32) -> Result<ConstantId, String> {
        if let Some(known) = self.sources.get(&index) {
            return Ok(self.graph.constant(known.clone()));
        }
        let source = match self.file.constant(index) {
            Some(Constant::Named(key)) => Source::Named(key.into()),
            Some(Constant::Bytes(bytes)) => {
                let start = bytes.as_ptr().addr().saturating_sub(self.payload.as_ptr().addr());
                Source::Payload(start..start + bytes.len())
            }
            None => return Err(format!("constant {index} is not in the payload")),
        };
        self.sources.insert(index, source.clone());
        Ok(self.graph.constant(source))
    }

    /// Arguments of a call are inputs, then outputs, each sorted by external id.
    fn bind_arguments(&mut self) -> Result<(), String> {
        let externs: Vec<_> = self.file.externs().map(|(id, tensor)| (ValueId(id), tensor)).collect();
        let arguments = |wanted: fn(TensorValue<'_>) -> bool| {
            let found = externs.iter().filter(|(_, tensor)| wanted(*tensor));
            found.map(|(id, tensor)| (tensor.external_id(), *id)).collect::<Vec<_>>()
        };
        let (mut inputs, mut outputs) = (arguments(|tensor| tensor.is_input()), arguments(|tensor| tensor.is_output()));
        outputs.extend(self.unmarked_outputs(&externs)?);
        for (arguments, bound) in [(&mut inputs, &mut self.graph.inputs), (&mut outputs, &mut self.graph.outputs)] {
            arguments.sort_unstable();
            *bound = arguments.iter().map(|&(_, value)| value).collect();
        }
        Ok(())
    }

    /// Outputs by external ids that no value has. The exporter of 1.5 forgets to mark the output of a part that ends in a
    /// pad of integers, whose caller wants floats. It can only be a result that nobody reads.
    fn unmarked_outputs(&mut self, externs: &[(ValueId, TensorValue<'_>)]) -> Result<Vec<(u32, ValueId)>, String> {
        let known: HashSet<u32> = externs.iter().map(|(_, tensor)| tensor.external_id()).collect();
        let missing: Vec<u32> = (0..self.file.graph().num_externs()).filter(|id| !known.contains(id)).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let outside: HashSet<ValueId> = externs.iter().map(|(id, _)| *id).collect();
        let read: HashSet<ValueId> = self.graph.nodes.iter().flat_map(|node| node.inputs.iter().copied()).collect();
        let results = self.graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
        let unread: Vec<_> = results.filter(|value| !read.contains(value) && !outside.contains(value)).collect();
        if unread.len() != missing.len() {
            let results = unread.len();
            return Err(format!("no value has the external ids {missing:?}, and {results} results are left for them"));
        }
        Ok(missing.into_iter().zip(unread).map(|(id, value)| (id, self.in_floats(value))).collect())
    }

    /// A value as floats.
    fn in_floats(&mut self, value: ValueId) -> ValueId {
        if self.graph.ty(value).quantized().is_none() {
            return value;
        }
        let dims = self.graph.ty(value).dims.clone();
        let floats = self.graph.value(Type { element: Element::Plain(ScalarType::Float), dims }, Origin::Node);
        self.graph.nodes.push(Node::new(Op::Convert, vec![value], vec![floats]));
        floats
    }

    /// Gives results the sizes that follow from the inputs. What the payload says of them is not always in the order of
    /// dimensions that its nodes work in.
    fn infer_sizes(&mut self) -> Result<(), String> {
        let inputs: Vec<_> = self.graph.inputs.iter().map(|&id| self.graph.ty(id).sizes()).collect();
        let inputs: Vec<_> = inputs.iter().map(Shape::as_slice).collect();
        let sizes = sconce_graph::infer(&self.graph, &inputs)?;
        for (value, sizes) in self.graph.values.iter_mut().zip(sizes) {
            if value.origin == Origin::Node {
                value.ty.dims = sizes.into_iter().map(Dim::Fixed).collect();
            }
        }
        Ok(())
    }

    fn node(&mut self, node: XNode<'_>) -> Result<(), String> {
        let operation = node.xnode_union();
        let inputs = operation.inputs().map(ValueId).collect();
        let outputs = operation.outputs().map(ValueId).collect();
        let op = op(operation, node.output_range())?;
        let limited = !matches!(op, Op::Map(Function::Clamp { .. }) | Op::Combine(Combine::Maximum | Combine::Minimum));
        let (low, high) = node.output_range();
        let mut node = Node::new(op, inputs, outputs);
        if limited && (low > f32::NEG_INFINITY || high < f32::INFINITY) {
            node.then.push(Then::Apply(Function::Clamp { low, high }));
        }
        self.graph.nodes.push(node);
        Ok(())
    }
}

/// The operation of a node with these limits.
fn op(operation: Operation<'_>, (low, high): (f32, f32)) -> Result<Op, String> {
    Ok(match operation {
        Operation::Abs(_) => Op::Map(Function::Abs),
        Operation::Negate(_) => Op::Map(Function::Negate),
        Operation::Ceiling(_) => Op::Map(Function::Ceil),
        Operation::Floor(_) => Op::Map(Function::Floor),
        Operation::Square(_) => Op::Map(Function::Square),
        Operation::SquareRoot(_) => Op::Map(Function::SquareRoot),
        Operation::ReciprocalSquareRoot(_) => Op::Map(Function::ReciprocalSquareRoot),
        Operation::Exp(_) => Op::Map(Function::Exp),
        Operation::Log(_) => Op::Map(Function::Log),
        Operation::Sin(_) => Op::Map(Function::Sin),
        Operation::Cos(_) => Op::Map(Function::Cos),
        Operation::Tanh(_) => Op::Map(Function::Tanh),
        Operation::Sigmoid(_) => Op::Map(Function::Sigmoid),
        Operation::Gelu(_) => Op::Map(Function::Gelu),
        Operation::Hardswish(_) => Op::Map(Function::HardSwish),
        Operation::Clamp(_) => Op::Map(Function::Clamp { low, high }),
        Operation::ELU(table) => Op::Map(Function::Elu { alpha: table.alpha() }),
        Operation::LeakyReLU(table) => Op::Map(Function::LeakyRelu { slope: table.negative_slope() }),
        Operation::Add(_) => Op::Combine(Combine::Add),
        Operation::Subtract(_) => Op::Combine(Combine::Subtract),
        Operation::Multiply(_) => Op::Combine(Combine::Multiply),
        Operation::Div(_) => Op::Combine(Combine::Divide),
        Operation::Maximum(_) => Op::Combine(Combine::Maximum),
        Operation::Minimum(_) => Op::Combine(Combine::Minimum),
        Operation::PReLU(_) => Op::Combine(Combine::PRelu),
        Operation::Convert(_) => Op::Convert,
        Operation::Copy(_) => Op::Copy,
        Operation::Softmax(_) => Op::Softmax,
        Operation::BatchMatrixMultiply(_) => Op::MatMul,
        Operation::FullyConnected(table) => Op::Linear { transposed: table.flags() & TRANSPOSE_WEIGHTS != 0 },
        Operation::Conv2d(table) => Op::Conv2d {
            stride: stride(table),
            padding: padding(table),
            dilation: dilation(table),
            groups: index(table.groups()),
        },
        Operation::DepthwiseConv2d(table) => {
            Op::DepthwiseConv2d { stride: stride(table), padding: padding(table), dilation: dilation(table) }
        }
        Operation::ConvTranspose2d(table) => Op::ConvTranspose2d {
            stride: stride(table),
            padding: padding(table),
            dilation: dilation(table),
            groups: index(table.groups()),
            extra: [index(table.adjustment_height()), index(table.adjustment_width())],
        },
        Operation::AvgPooling2d(table) => {
            let (kernel, stride, padding) = window(table);
            Op::AvgPool2d { kernel, stride, padding }
        }
        Operation::MaxPooling2d(table) => {
            let (kernel, stride, padding) = window(table);
            let dilation = [index(table.dilation_height()), index(table.dilation_width())];
            Op::MaxPool2d { kernel, stride, padding, dilation }
        }
        Operation::ArgMaxPooling2d(table) => Op::ArgMaxPool2d {
            kernel: [index(table.pooling_height()), index(table.pooling_width())],
            padding: [table.padding_top(), table.padding_left(), table.padding_bottom(), table.padding_right()]
                .map(index),
        },
        Operation::GlobalAvgPooling2d(table) => {
            Op::Reduce { of: Reduction::Mean, axes: vec![1, 2], keep: table.flags() & KEEP_DIMS != 0 }
        }
        Operation::StaticResizeBilinear2D(table) => Op::ResizeBilinear {
            size: [index(table.new_height()), index(table.new_width())],
            align_corners: table.flags() & ALIGN_CORNERS != 0,
        },
        Operation::StaticReshape(table) => Op::Reshape { sizes: indices(table.new_shape()) },
        Operation::StaticTranspose(table) => Op::Transpose { order: indices(table.perm()) },
        Operation::StaticSlice(table) => Op::Slice { starts: indices(table.offsets()), sizes: indices(table.sizes()) },
        Operation::StaticConstantPad(table) => Op::Pad {
            before: indices(table.pre_paddings()),
            after: indices(table.post_paddings()),
            value: table.padding_value(),
        },
        Operation::Concatenate2(table)
        | Operation::Concatenate3(table)
        | Operation::Concatenate4(table)
        | Operation::Concatenate5(table) => Op::Concat { axis: index(table.axis()) },
        Operation::ScaledDotProductAttention(_) | Operation::None => {
            return Err(format!("no runtime has the node {:?}", operation.name()));
        }
    })
}

fn stride(table: Convolution<'_>) -> [usize; 2] {
    [index(table.subsampling_height()), index(table.subsampling_width())]
}

fn padding(table: Convolution<'_>) -> [usize; 4] {
    [table.padding_top(), table.padding_left(), table.padding_bottom(), table.padding_right()].map(index)
}

fn dilation(table: Convolution<'_>) -> [usize; 2] {
    [index(table.dilation_height()), index(table.dilation_width())]
}

/// Size, steps and padding of a pooling window.
fn window(table: Pooling<'_>) -> ([usize; 2], [usize; 2], [usize; 4]) {
    let padding = [table.padding_top(), table.padding_left(), table.padding_bottom(), table.padding_right()];
    (
        [index(table.pooling_height()), index(table.pooling_width())],
        [index(table.stride_height()), index(table.stride_width())],
        padding.map(index),
    )
}

/// A number that fits every machine we run on, or one that nothing can have.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn indices(numbers: Scalars<'_, u32>) -> Vec<usize> {
    numbers.iter().map(index).collect()
}

fn natural(number: i32) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("{number} where a number of dimensions or elements belongs"))
}

/// A group's scale as the upper half of a float, as the exporters of that time made the runtime round it.
fn truncated(scale: f32) -> u16 {
    ((scale * 1.003_891).to_bits() >> 16) as u16
}
