//! Constants as numbers, and packed weights.

use crate::memory::Aligned;
use half::{bf16, f16};
use sconce_format::ScalarType;
use sconce_graph::{ConstantId, Constants, Element, Graph, Quantized, Scheme, Storage, ValueId};
use sconce_kernels::copy::{Copy, contiguous_strides, copy};
use sconce_kernels::packed::int8::Line;
use sconce_kernels::{Isa, Serial, view};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Checks that every constant of a graph is there and long enough for what it stands for.
pub(crate) fn check(graph: &Graph, constants: &dyn Constants) -> Result<(), String> {
    let length = |id: ConstantId| constants.bytes(&graph.constants[id.index()].source).map(<[u8]>::len);
    for (index, value) in graph.values.iter().enumerate() {
        let ty = &value.ty;
        let count = element_count(&ty.sizes()).ok_or_else(|| format!("%{index} of type {ty} is too large"))?;
        let mut wanted = Vec::new();
        if let Some(id) = graph.as_constant(ValueId(index as u32)) {
            wanted.push((id, stored_bytes(&ty.element, &ty.sizes(), count)));
        }
        if let Some(id) = ty.scales() {
            wanted.push((id, scale_bytes(ty)));
        }
        for (id, bytes) in wanted {
            let source = &graph.constants[id.index()].source;
            match length(id) {
                None => return Err(format!("the constant {source} is not in the program or its data files")),
                Some(found) if found < bytes => {
                    return Err(format!("the constant {source} has {found} bytes where {ty} takes {bytes}"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// How many elements a tensor has, unless that is more than a number can say.
pub(crate) fn element_count(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |count, size| count.checked_mul(*size))
}

/// Bytes of a constant. Rows of four-bit numbers start on a byte.
fn stored_bytes(element: &Element, sizes: &[usize], count: usize) -> usize {
    match element {
        Element::Quantized(Quantized { storage: Storage::Int4, .. }) => {
            let row = sizes.last().copied().unwrap_or(1).max(1);
            count / row * row.div_ceil(2)
        }
        element => element.bytes(count).unwrap_or(usize::MAX),
    }
}

fn scale_bytes(ty: &sconce_graph::Type) -> usize {
    let sizes = ty.sizes();
    match ty.quantized().map(|quantized| &quantized.scheme) {
        Some(Scheme::PerChannel { axis, .. }) => sizes.get(*axis).map_or(usize::MAX, |size| size.saturating_mul(4)),
        Some(Scheme::PerGroup { size, .. }) => match sizes[..] {
            [rows, columns] if *size > 0 => columns.div_ceil(*size).saturating_mul(rows).saturating_mul(2),
            _ => usize::MAX,
        },
        _ => 0,
    }
}

/// Whether a value is a constant whose numbers [`Known::numbers`] can tell.
pub(crate) fn is_known(graph: &Graph, value: ValueId) -> bool {
    let numbers = match &graph.ty(value).element {
        Element::Plain(dtype) => matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16),
        Element::Quantized(quantized) => !matches!(quantized.scheme, Scheme::PerToken { .. }),
    };
    numbers && graph.as_constant(value).is_some()
}

/// The constants of a graph during a run, with what [`check`] made sure of.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) constants: &'a dyn Constants,
    pub(crate) packed: &'a Packed,
}

impl<'a> Known<'a> {
    /// The bytes of a constant; none if they are gone.
    pub(crate) fn bytes(&self, id: ConstantId) -> &'a [u8] {
        self.constants.bytes(&self.graph.constants[id.index()].source).unwrap_or_default()
    }

    /// A copy of a constant value that starts on a cache line, for steps that read it as it is.
    pub(crate) fn aligned(&self, value: ValueId) -> &'a [u8] {
        let Some(id) = self.graph.as_constant(value) else { return &[] };
        let copy = self.packed.constants[id.index()].get_or_init(|| {
            let bytes = self.arranged(value, id);
            let mut copy = Aligned::new(bytes.len());
            copy.bytes_mut().copy_from_slice(&bytes);
            copy
        });
        copy.bytes()
    }

    /// The bytes of a constant value, with the dimensions in the order of the value.
    fn arranged(&self, value: ValueId, id: ConstantId) -> Cow<'a, [u8]> {
        let (bytes, order) = (self.bytes(id), &self.graph.constants[id.index()].order);
        let ty = self.graph.ty(value);
        let (Element::Plain(dtype), false) = (&ty.element, order.is_empty()) else { return Cow::Borrowed(bytes) };
        let (shape, size) = (ty.sizes(), dtype.size());
        let mut stored = vec![0; shape.len()];
        order.iter().zip(&shape).for_each(|(&dim, &size)| stored[dim] = size);
        let steps = contiguous_strides(&stored);
        let from_strides: Vec<usize> = order.iter().map(|&dim| steps[dim]).collect();
        let to_strides = contiguous_strides(&shape);
        let layout = Copy { shape: &shape, from_strides: &from_strides, to_strides: &to_strides[..shape.len()] };
        let mut arranged = vec![0; shape.iter().product::<usize>() * size];
        copy(Isa::detect(), &Serial, size, &layout, bytes, &mut arranged);
        Cow::Owned(arranged)
    }

    /// The numbers that a constant value stands for.
    pub(crate) fn numbers(&self, value: ValueId) -> Cow<'a, [f32]> {
        let Some(id) = self.graph.as_constant(value) else { return Cow::Borrowed(&[]) };
        let ty = self.graph.ty(value);
        let (bytes, sizes) = (self.arranged(value, id), ty.sizes());
        let count = element_count(&sizes).unwrap_or(0);
        let own = |bytes: &[u8]| words(bytes, count).map(f32::from_le_bytes).collect::<Vec<_>>();
        match &ty.element {
            Element::Plain(ScalarType::Float) => match bytes {
                Cow::Borrowed(bytes) => {
                    view::view(&bytes[..count * 4]).map_or_else(|| own(bytes).into(), Cow::Borrowed)
                }
                Cow::Owned(bytes) => Cow::Owned(own(&bytes)),
            },
            Element::Plain(ScalarType::Half) => {
                Cow::Owned(words(&bytes, count).map(|half| f16::from_le_bytes(half).to_f32()).collect())
            }
            Element::Plain(ScalarType::BFloat16) => {
                Cow::Owned(words(&bytes, count).map(|half| bf16::from_le_bytes(half).to_f32()).collect())
            }
            Element::Plain(_) => Cow::Owned(Vec::new()),
            Element::Quantized(quantized) => Cow::Owned(self.dequantized(quantized, &bytes, &sizes, count)),
        }
    }

    /// The integers of a quantised constant value, as they are stored.
    pub(crate) fn stored_integers(&self, value: ValueId) -> Vec<i32> {
        let ty = self.graph.ty(value);
        match (self.graph.as_constant(value), ty.quantized()) {
            (Some(id), Some(quantized)) => {
                let sizes = ty.sizes();
                let count = element_count(&sizes).unwrap_or(0);
                Self::integers(quantized.storage, self.bytes(id), &sizes, count)
            }
            _ => Vec::new(),
        }
    }

    /// The scale of each of `channels` output channels of a constant filter.
    pub(crate) fn channel_scales(&self, value: ValueId, channels: usize) -> Vec<f32> {
        match self.graph.ty(value).quantized().map(|quantized| &quantized.scheme) {
            Some(Scheme::PerTensor { scale, .. }) => vec![*scale; channels],
            Some(Scheme::PerChannel { scales, .. }) => {
                words(self.bytes(*scales), channels).map(f32::from_le_bytes).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The scales of the groups of a constant filter, row by row.
    pub(crate) fn group_scales(&self, value: ValueId) -> Vec<f32> {
        let ty = self.graph.ty(value);
        match ty.quantized().map(|quantized| &quantized.scheme) {
            Some(Scheme::PerGroup { scales, .. }) => {
                words(self.bytes(*scales), scale_bytes(ty) / 2).map(|half| bf16::from_le_bytes(half).to_f32()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn integers(storage: Storage, bytes: &[u8], sizes: &[usize], count: usize) -> Vec<i32> {
        match storage {
            Storage::Int8 => bytes[..count].iter().map(|&byte| i32::from(byte.cast_signed())).collect(),
            Storage::UInt8 => bytes[..count].iter().map(|&byte| i32::from(byte)).collect(),
            Storage::Int32 => words(bytes, count).map(i32::from_le_bytes).collect(),
            Storage::Int4 => {
                let row = sizes.last().copied().unwrap_or(1).max(1);
                let rows = bytes.chunks(row.div_ceil(2)).take(count / row);
                rows.flat_map(|bytes| (0..row).map(|i| i32::from(bytes[i / 2] >> (i % 2 * 4) & 15))).collect()
            }
        }
    }

    fn dequantized(&self, quantized: &Quantized, bytes: &[u8], sizes: &[usize], count: usize) -> Vec<f32> {
        let integers = Self::integers(quantized.storage, bytes, sizes, count).into_iter();
        match &quantized.scheme {
            Scheme::PerTensor { scale, zero } => integers.map(|q| (q - zero) as f32 * scale).collect(),
            Scheme::PerChannel { axis, scales, zero } => {
                let scales: Vec<f32> = words(self.bytes(*scales), sizes[*axis]).map(f32::from_le_bytes).collect();
                let inner: usize = sizes[axis + 1..].iter().product();
                integers.enumerate().map(|(i, q)| (q - zero) as f32 * scales[i / inner % scales.len()]).collect()
            }
            Scheme::PerGroup { size, scales, zero } => {
                let columns = sizes.last().copied().unwrap_or(1);
                let groups = columns.div_ceil(*size);
                let scales: Vec<f32> = words(self.bytes(*scales), count / columns.max(1) * groups)
                    .map(|half| bf16::from_le_bytes(half).to_f32())
                    .collect();
                let scale = |i: usize| scales[i / columns * groups + i % columns / size];
                integers.enumerate().map(|(i, q)| (q - zero) as f32 * scale(i)).collect()
            }
            Scheme::PerToken { .. } => Vec::new(),
        }
    }
}

/// The first `count` groups of N bytes.
fn words<const N: usize>(bytes: &[u8], count: usize) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied().take(count)
}

/// The weights of a node as its kernel takes them.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// Floats, in the order of the kernel.
    pub(crate) floats: Aligned,
    /// Bytes or nibbles, in the order of the kernel.
    pub(crate) lines: Vec<Line>,
    /// Words, in the order of the kernel.
    pub(crate) words: Vec<i32>,
    /// A scale per output channel.
    pub(crate) scales: Vec<f32>,
    /// A bias per output channel, where it is not packed with the rest.
    pub(crate) bias: Option<Vec<f32>>,
}

impl Weights {
    /// So many floats, which `pack` fills.
    pub(crate) fn floats(len: usize, pack: impl FnOnce(&mut [f32])) -> Self {
        let mut floats = Aligned::new(len * size_of::<f32>());
        pack(view::view_mut(floats.bytes_mut()).unwrap_or_default());
        Self { floats, ..Self::default() }
    }

    fn bytes(&self) -> usize {
        let lists = size_of_val(&*self.lines) + size_of_val(&*self.words) + size_of_val(&*self.scales);
        self.floats.bytes().len() + lists
    }
}

/// Weights of the nodes of a graph and copies of constants, each made once, by whoever needs it first.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    nodes: Vec<OnceLock<Weights>>,
    constants: Vec<OnceLock<Aligned>>,
}

impl Packed {
    /// For the nodes and constants of a graph.
    pub(crate) fn new(graph: &Graph) -> Self {
        fn empty<T>(count: usize) -> Vec<OnceLock<T>> {
            std::iter::repeat_with(OnceLock::new).take(count).collect()
        }
        Self { nodes: empty(graph.nodes.len()), constants: empty(graph.constants.len()) }
    }

    /// The weights of a node, packed by `pack` if they are not yet.
    pub(crate) fn weights(&self, node: usize, pack: impl FnOnce() -> Weights) -> &Weights {
        self.nodes[node].get_or_init(pack)
    }

    /// Bytes packed so far.
    pub(crate) fn bytes(&self) -> usize {
        let constants = self.constants.iter().filter_map(OnceLock::get).map(|aligned| aligned.bytes().len());
        self.nodes.iter().filter_map(OnceLock::get).map(Weights::bytes).chain(constants).sum()
    }
}
