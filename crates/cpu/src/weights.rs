//! Constants as numbers, and packed weights.
//!
//! A layer's weights are packed when it first runs, straight from the program's bytes, which are then given back to the
//! system: at no time are all weights in memory twice. If they were packed before and lie beside the program, under the
//! name of the model and the layer, they are used where they are.

use crate::memory::{ALIGN, Aligned, Store};
use crate::steps::{Filter, elements, elements_mut};
use crate::twins::{constant_filter, twins};
use half::{bf16, f16};
use sconce_format::ScalarType;
use sconce_graph::{ConstantId, Constants, Element, Graph, Quantized, Scheme, Storage, ValueId};
use sconce_kernels::copy::{Copy, contiguous_strides, copy};
use sconce_kernels::{Isa, Parallel, Serial, view};
use std::borrow::Cow;
use std::hash::{Hash as _, Hasher};
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The alignment of constants that are read where they are: that of any element.
const WELL: usize = 16;

/// How many times its constants the packed filters of a graph may be, if they are more than the limit of its memory.
const MOST_SHARED: usize = 2;

/// Checks that every constant of a graph is there and long enough for what it stands for.
pub(crate) fn check(graph: &Graph, constants: &dyn Constants) -> Result<(), String> {
    let length = |id: ConstantId| constants.bytes(&graph.constants[id.index()].source).map(<[u8]>::len);
    for (index, value) in graph.values.iter().enumerate() {
        let ty = &value.ty;
        let count = element_count(&ty.sizes()).ok_or_else(|| format!("%{index} of type {ty} is too large"))?;
        let mut wanted = [None, ty.scales().map(|id| (id, scale_bytes(ty)))];
        if let Some(id) = graph.as_constant(ValueId(index as u32)) {
            if let Some(Quantized { scheme: Scheme::PerToken { .. }, .. }) = ty.quantized() {
                return Err(format!("the constant %{index} is of type {ty}, whose scales are found at run time"));
            }
            wanted[0] = Some((id, stored_bytes(&ty.element, &ty.sizes(), count)));
        }
        for (id, bytes) in wanted.into_iter().flatten() {
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

/// Bytes of all constants of a graph, those that are part of several counted once.
fn stored_once(graph: &Graph, constants: &dyn Constants) -> usize {
    let bytes = graph.constants.iter().filter_map(|constant| constants.bytes(&constant.source));
    let mut parts: Vec<_> = bytes.map(<[u8]>::as_ptr_range).map(|part| (part.start.addr(), part.end.addr())).collect();
    parts.sort_unstable();
    let count = |(sum, seen): (usize, usize), (start, end): (usize, usize)| {
        (sum + end.saturating_sub(start.max(seen)), seen.max(end))
    };
    parts.into_iter().fold((0, 0), count).0
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

    /// A constant value where any element can be read, for steps that take it as it is: a copy unless it lies well.
    pub(crate) fn aligned(&self, value: ValueId) -> &'a [u8] {
        let Some(id) = self.graph.as_constant(value) else { return &[] };
        let bytes = self.bytes(id);
        if bytes.as_ptr().addr().is_multiple_of(WELL) && self.graph.constants[id.index()].order.is_empty() {
            return bytes;
        }
        let copy = self.packed.constants[id.index()].get_or_init(|| {
            let bytes = self.arranged(value, id);
            let mut copy = self.packed.store.take(&Serial, bytes.len());
            copy.bytes_mut().copy_from_slice(&bytes);
            self.constants.release(&self.graph.constants[id.index()].source);
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

    /// The weights of a node, packed by `pack` if neither it nor a twin did yet. What they are packed from is then released.
    pub(crate) fn weights(&self, node: usize, pack: impl FnOnce() -> Weights) -> &'a Weights {
        self.packed.nodes[self.packed.twins[node]].get_or_init(|| {
            let weights = pack();
            if let Place::Own(_) = weights.place {
                let inputs = self.graph.nodes[node].inputs.iter().filter_map(|&input| self.graph.as_constant(input));
                inputs.for_each(|id| self.constants.release(&self.graph.constants[id.index()].source));
            }
            weights
        })
    }

    /// Weights of a node in parts of these lengths, which `pack` fills unless they lie beside the program.
    pub(crate) fn pack<T: view::Plain>(
        &self,
        node: usize,
        par: &dyn Parallel,
        lengths: Lengths,
        pack: impl FnOnce(Parts<'_, T>),
    ) -> Weights {
        let [packed, scales, bias] = lengths.places::<T>();
        let place = self.packed_before(node, bias.end).map_or_else(
            || {
                let mut own = self.packed.store.take(par, bias.end);
                let (first, bias) = own.bytes_mut().split_at_mut(bias.start);
                let (first, scales) = first.split_at_mut(scales.start);
                let packed = elements_mut(&mut first[packed.clone()]);
                pack(Parts { packed, scales: elements_mut(scales), bias: elements_mut(bias) });
                Place::Own(own)
            },
            Place::Beside,
        );
        Weights { place, parts: [packed, scales, bias] }
    }

    /// The packed weights of a node beside the program, if they are there and of that length.
    fn packed_before(&self, node: usize, bytes: usize) -> Option<u32> {
        let entry = self.constants.find(&entry_name(self.packed.name.as_deref()?, self.packed.twins[node]))?;
        let found = self.constants.entry(entry)?;
        (found.len() == bytes && found.as_ptr().addr().is_multiple_of(ALIGN)).then_some(entry)
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

    /// The bytes of a constant value that is quantised to signed bytes.
    pub(crate) fn signed_bytes(&self, value: ValueId) -> &'a [i8] {
        let count = element_count(&self.graph.ty(value).sizes()).unwrap_or(0);
        self.graph.as_constant(value).map_or(&[], |id| elements(&self.bytes(id)[..count]))
    }

    /// A constant filter of four-bit numbers as rows of `k` of them, each of which starts on a byte.
    pub(crate) fn nibbles(&self, value: ValueId, layout: Filter, k: usize) -> Cow<'a, [u8]> {
        let Some(id) = self.graph.as_constant(value) else { return Cow::Borrowed(&[]) };
        let sizes = self.graph.ty(value).sizes();
        let last = sizes.last().copied().unwrap_or(1);
        let out = element_count(&sizes).unwrap_or(0) / k.max(1);
        if layout == Filter::Rows && (last == k || last.is_multiple_of(2)) {
            return Cow::Borrowed(&self.bytes(id)[..out * k.div_ceil(2)]);
        }
        let integers = self.stored_integers(value);
        let weight = |row: usize, i: usize| if i < k { integers[layout.place(row * k + i, k, out)] as u8 } else { 0 };
        let byte = |row: usize, i: usize| weight(row, i) | weight(row, i + 1) << 4;
        (0..out).flat_map(|row| (0..k).step_by(2).map(move |i| byte(row, i))).collect()
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

/// The name of an entry beside a program that says that there are packed weights at all. The number changes with their order,
/// of any kernel, and with how their blocks are made up.
pub(crate) const PACKED: &str = "sconce.packed.6";

/// What packed weights of a model are called: they depend on the graph, the instructions and what may be rounded.
pub(crate) fn model_name(graph: &Graph, isa: Isa, exact: bool) -> String {
    let mut said = Said(Vec::with_capacity(64 * graph.nodes.len()));
    graph.hash(&mut said);
    format!("{}{:032x}", packed_prefix(isa, exact), xxh3_128(&said.0))
}

/// What a graph says of itself when it is hashed, many times a few bytes: a digest of all of it together takes half the time.
struct Said(Vec<u8>);

impl Hasher for Said {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        xxh3_64(&self.0)
    }
}

/// What the names of all packed weights start with that are of use with these options.
pub(crate) fn packed_prefix(isa: Isa, exact: bool) -> String {
    format!("{PACKED}.{}.{}.", isa.name(), if exact { "exact" } else { "fast" })
}

/// In the order of the nodes, so that a file with its entries in order is read from front to back.
fn entry_name(model: &str, node: usize) -> String {
    format!("{model}.{node:06}")
}

/// Where packed weights are.
#[derive(Debug)]
pub(crate) enum Place {
    /// Here.
    Own(Aligned),
    /// In an entry beside the program.
    Beside(u32),
}

/// How long the parts of a node's weights are, in elements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    /// Floats, bytes, nibbles or words, in the order of the kernel.
    pub(crate) packed: usize,
    /// A scale per output channel.
    pub(crate) scales: usize,
    /// A bias per output channel, where it is not packed with the rest.
    pub(crate) bias: usize,
}

impl Lengths {
    /// Where the parts lie in bytes, one behind the other.
    fn places<T>(self) -> [Range<usize>; 3] {
        let packed = self.packed * size_of::<T>();
        let scales = packed.next_multiple_of(ALIGN);
        let bias = scales + self.scales * size_of::<f32>();
        [0..packed, scales..bias, bias..bias + self.bias * size_of::<f32>()]
    }
}

/// The parts of a node's weights, to be filled.
pub(crate) struct Parts<'a, T> {
    pub(crate) packed: &'a mut [T],
    pub(crate) scales: &'a mut [f32],
    pub(crate) bias: &'a mut [f32],
}

/// The weights of a node as its kernel takes them: one block, so that all that a layer needs is found together.
#[derive(Debug)]
pub(crate) struct Weights {
    place: Place,
    parts: [Range<usize>; 3],
}

impl Weights {
    /// What was packed.
    pub(crate) fn packed<'a, T: view::Plain>(&'a self, known: &Known<'a>) -> &'a [T] {
        elements(self.part(known, 0))
    }

    /// The scale of each output channel.
    pub(crate) fn scales<'a>(&'a self, known: &Known<'a>) -> &'a [f32] {
        elements(self.part(known, 1))
    }

    /// The bias of each output channel, where there is one that is not packed with the rest.
    pub(crate) fn bias<'a>(&'a self, known: &Known<'a>) -> Option<&'a [f32]> {
        Some(elements(self.part(known, 2))).filter(|bias| !bias.is_empty())
    }

    fn part<'a>(&'a self, known: &Known<'a>, part: usize) -> &'a [u8] {
        let block = match &self.place {
            Place::Own(own) => own.bytes(),
            Place::Beside(entry) => known.constants.entry(*entry).expect("an entry that was found stays"),
        };
        &block[self.parts[part].clone()]
    }

    /// What was packed here.
    fn own(&self) -> &[u8] {
        match &self.place {
            Place::Own(own) => own.bytes(),
            Place::Beside(_) => &[],
        }
    }
}

/// Weights of the nodes of a graph and copies of constants, each made once, by whoever needs it first.
#[derive(Debug)]
pub(crate) struct Packed {
    nodes: Vec<OnceLock<Weights>>,
    /// For each node the one that has its weights.
    twins: Vec<usize>,
    constants: Vec<OnceLock<Aligned>>,
    store: Store,
    /// The model's name, if there is something beside the program that was packed before.
    name: Option<String>,
}

impl Packed {
    /// For the nodes and constants of a graph.
    pub(crate) fn new(graph: &Graph, isa: Isa, exact: bool, constants: &dyn Constants) -> Self {
        fn empty<T>(count: usize) -> Vec<OnceLock<T>> {
            std::iter::repeat_with(OnceLock::new).take(count).collect()
        }
        let bytes = graph.constants.iter().filter_map(|constant| constants.bytes(&constant.source));
        let store = Store::new(bytes.fold(0, |sum, bytes| sum.saturating_add(bytes.len())));
        let name = constants.find(PACKED).map(|_| model_name(graph, isa, exact));
        Self {
            nodes: empty(graph.nodes.len()),
            twins: twins(graph),
            constants: empty(graph.constants.len()),
            store,
            name,
        }
    }

    /// Holds filters that many layers read against a limit: each layer packs them in an order of its own, unless they are twins.
    pub(crate) fn check(&self, graph: &Graph, constants: &dyn Constants, limit: usize) -> Result<(), String> {
        let own = (0..graph.nodes.len()).filter(|&place| self.twins[place] == place);
        let bytes = own.filter_map(|place| constant_filter(graph, place)).map(|filter| {
            let ty = graph.ty(filter);
            stored_bytes(&ty.element, &ty.sizes(), element_count(&ty.sizes()).unwrap_or(usize::MAX))
        });
        let bytes = bytes.fold(0, usize::saturating_add);
        if bytes <= limit || bytes <= stored_once(graph, constants).saturating_mul(MOST_SHARED) {
            return Ok(());
        }
        Err(format!(
            "filters that layers share come to {bytes} bytes when each has its own, more than the limit of {limit}"
        ))
    }

    /// What was packed here so far, by the names of the entries of a model of this name.
    pub(crate) fn each(&self, model: &str, sink: &mut dyn FnMut(&str, &[u8])) {
        for (node, weights) in self.nodes.iter().enumerate() {
            let packed = weights.get().map_or(&[][..], Weights::own);
            if !packed.is_empty() {
                sink(&entry_name(model, node), packed);
            }
        }
    }

    /// Brings a little of it onto large pages; whether there was something left to do.
    pub(crate) fn settle(&self) -> bool {
        self.store.settle()
    }

    /// Bytes packed so far.
    pub(crate) fn bytes(&self) -> usize {
        let constants = self.constants.iter().filter_map(OnceLock::get).map(|aligned| aligned.bytes().len());
        self.nodes.iter().filter_map(OnceLock::get).map(|weights| weights.own().len()).chain(constants).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, Options, Session};
    use sconce_graph::{Source, parse};
    use std::sync::Mutex;

    /// Constants by name, and the names that were released.
    #[derive(Default)]
    struct Named {
        bytes: Vec<(&'static str, Vec<u8>)>,
        released: Mutex<Vec<String>>,
    }

    impl Constants for Named {
        fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
            match source {
                Source::Named(name) => {
                    self.bytes.iter().find(|(known, _)| *known == &**name).map(|(_, bytes)| &bytes[..])
                }
                Source::Bytes(bytes) => Some(bytes),
                Source::Payload(_) | Source::Program(_) | Source::Value(_) => None,
            }
        }

        fn release(&self, source: &Source) {
            if let Source::Named(name) = source {
                self.released.lock().unwrap().push(name.to_string());
            }
        }
    }

    /// Rows of the last dimension start on a byte in the file; rows of an output channel do for the kernel.
    #[test]
    fn layers_share_filters_within_reason() {
        let text = "%0: float32[1, 64] = input\n\
                    %1: float32[64, 64] = constant \"w\"\n\
                    %2: float32[64] = constant \"b\"\n\
                    %3: float32[1, 64] = linear %0, %1 {transposed: false}\n\
                    %4: float32[1, 64] = linear %3, %1 {transposed: true}\n\
                    %5: float32[1, 64] = linear %4, %1, %2 {transposed: false}\n\
                    %6: float32[1, 64] = linear %5, %1, %2 {transposed: false}\n\
                    output %6\n";
        let constants = Named { bytes: vec![("w", vec![0; 64 * 64 * 4]), ("b", vec![0; 256])], ..Named::default() };
        let model =
            |memory: usize| Model::new(parse(text).unwrap(), Options { memory, ..Options::default() }, &constants);
        assert!(model(3 * 64 * 64 * 4).is_ok());
        let error = model(3 * 64 * 64 * 4 - 1).err().map(|error| error.to_string());
        let expected =
            "filters that layers share come to 49152 bytes when each has its own, more than the limit of 49151";
        assert_eq!(error.as_deref(), Some(expected));
    }

    #[test]
    fn nibbles_are_brought_into_rows() {
        let text = "@0 = [0, 0, 128, 63, 0, 0, 128, 63]\n\
                    %0: q4{axis: 0, scales: @0, zero: 8}[2, 1, 2, 3] = constant [33, 243, 84, 246, 135, 249, 186, 252]\n\
                    %1: q4{axis: 0, scales: @0, zero: 8}[2, 1, 1, 4] = constant [33, 67, 101, 135]\n\
                    %2: q4{axis: 1, scales: @0, zero: 8}[3, 2] = constant [33, 67, 101]\n";
        let graph = parse(text).unwrap();
        let (constants, packed) = (Named::default(), Packed::new(&graph, Isa::Scalar, false, &Named::default()));
        let known = Known { graph: &graph, constants: &constants, packed: &packed };
        // 1 2 3 | 4 5 6 and 7 8 9 | 10 11 12, each half with an arbitrary number after it.
        assert_eq!(*known.nibbles(ValueId(0), Filter::Rows, 6), [0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb]);
        assert_eq!(*known.nibbles(ValueId(1), Filter::Rows, 4), [0x21, 0x43, 0x65, 0x87]);
        assert!(matches!(known.nibbles(ValueId(1), Filter::Rows, 4), Cow::Borrowed(_)));
        // [1 2], [3 4], [5 6] are columns of 1 3 5 and 2 4 6.
        assert_eq!(*known.nibbles(ValueId(2), Filter::Columns, 3), [0x31, 0x05, 0x42, 0x06]);
    }

    #[test]
    fn what_was_packed_is_released_once() {
        let text = "%0: float32[1, 2] = input\n\
                    %1: float32[3, 2] = constant \"filter\"\n\
                    %2: float32[3] = constant \"bias\"\n\
                    %3: float32[1, 3] = linear %0, %1, %2 {transposed: false}\n\
                    output %3\n";
        let bytes = |floats: &[f32]| floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let named = vec![("filter", bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), ("bias", bytes(&[0.5, 0.25, 0.0]))];
        let constants = Named { bytes: named, ..Named::default() };
        let model = Model::new(parse(text).unwrap(), Options::default(), &constants).unwrap();
        assert_eq!((model.packed_bytes(), constants.released.lock().unwrap().len()), (0, 0));
        let plan = model.plan(&[&[1, 2]], 1).unwrap();
        let input = [10.0f32, 100.0];
        for _ in 0..2 {
            let mut output = [0f32; 3];
            let outputs = &mut [view::bytes_of_mut(&mut output)];
            let inputs = [view::bytes_of(&input)];
            model.run(&plan, &mut Session::default(), &Serial, &constants, &inputs, outputs).unwrap();
            assert_eq!(output, [210.5, 430.25, 650.0]);
        }
        assert_eq!(*constants.released.lock().unwrap(), ["filter", "bias"]);
        assert!(model.packed_bytes() > 0);
    }
}
