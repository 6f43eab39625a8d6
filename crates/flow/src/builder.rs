//! A graph that grows call by call.
//!
//! Values of the graph have the sizes that PyTorch counts, outermost first; a tensor that lies in memory in another order
//! is transposed where it is read or written, and the passes of the engine take those transposes out again. A tensor
//! without dimensions counts as one with a single element.

use crate::accesses::{Accesses, Bytes, kind};
use sconce_format::ScalarType;
use sconce_format::pte::KernelTypes;
use sconce_graph::{Element, Graph, Op, Origin, Shape, Source, Type, ValueId, result_shapes};
use std::collections::HashMap;
use std::ops::Range;

/// What a run of calls has written last at some bytes.
struct Written {
    bytes: Bytes,
    /// The value of the program.
    value: u32,
    /// Its elements in the order of memory; nothing, if the graph does not compute them.
    made: Option<ValueId>,
}

/// A run of calls so far.
pub(super) struct Builder<'f, 'k, 'a> {
    pub(super) flow: &'f Accesses<'a>,
    known: &'k dyn Fn(u32) -> Option<&'k [u8]>,
    pub(super) graph: Graph,
    inputs: Vec<(u32, Bytes)>,
    written: Vec<Written>,
    constants: HashMap<u32, ValueId>,
}

/// How far a builder had come.
pub(super) struct Mark {
    values: usize,
    nodes: usize,
    constants: usize,
    inputs: usize,
    written: usize,
}

/// A tensor of the program.
struct Declared {
    dtype: ScalarType,
    /// As PyTorch counts them.
    sizes: Vec<usize>,
    /// Dimensions, from the outermost in memory.
    order: Vec<usize>,
}

impl Declared {
    fn in_memory(&self) -> Vec<usize> {
        self.order.iter().map(|&dim| self.sizes[dim]).collect()
    }

    fn is_ordered(&self) -> bool {
        self.order.is_sorted()
    }
}

impl<'f, 'k, 'a> Builder<'f, 'k, 'a> {
    pub(super) fn new(flow: &'f Accesses<'a>, known: &'k dyn Fn(u32) -> Option<&'k [u8]>) -> Self {
        Self {
            flow,
            known,
            graph: Graph::default(),
            inputs: Vec::new(),
            written: Vec::new(),
            constants: HashMap::new(),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            values: self.graph.values.len(),
            nodes: self.graph.nodes.len(),
            constants: self.graph.constants.len(),
            inputs: self.inputs.len(),
            written: self.written.len(),
        }
    }

    /// Forgets what came after a mark.
    pub(super) fn go_back(&mut self, mark: &Mark) {
        self.graph.values.truncate(mark.values);
        self.graph.nodes.truncate(mark.nodes);
        self.graph.constants.truncate(mark.constants);
        self.graph.inputs.truncate(mark.inputs);
        self.inputs.truncate(mark.inputs);
        self.written.truncate(mark.written);
        self.constants.retain(|_, value| value.index() < mark.values);
    }

    fn declared(&self, value: u32) -> Option<Declared> {
        let KernelTypes::Tensor(tensor) = kind(self.flow.method, value) else { return None };
        let dtype = ScalarType::from_i8(tensor.scalar_type())?;
        let sizes: Vec<usize> = tensor.sizes().iter().map(|size| usize::try_from(size).ok()).collect::<Option<_>>()?;
        let mut order: Vec<usize> = tensor.dim_order().iter().map(usize::from).collect();
        if order.is_empty() {
            order = (0..sizes.len()).collect();
        }
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let countable = sizes.iter().try_fold(dtype.size(), |bytes, size| bytes.checked_mul(*size)).is_some();
        let whole = sorted.into_iter().eq(0..sizes.len()) && countable && !sizes.contains(&0) && !tensor.is_dynamic();
        let declared = match sizes.len() {
            0 => Declared { dtype, sizes: vec![1], order: vec![0] },
            _ => Declared { dtype, sizes, order },
        };
        whole.then_some(declared)
    }

    /// The sizes of a tensor of the program, if they are fixed.
    pub(super) fn sizes(&self, value: u32) -> Option<Vec<usize>> {
        Some(self.declared(value)?.sizes)
    }

    /// The bytes of a value that is the same in every run: neither the program nor its caller changes it.
    pub(super) fn known(&self, value: u32) -> Option<&'k [u8]> {
        (self.known)(value).filter(|_| !self.flow.is_changed(value) && !self.flow.is_input(value))
    }

    /// The numbers of a value of the graph that is known and has few elements.
    pub(super) fn numbers(&self, value: ValueId) -> Option<Vec<f64>> {
        let constant = &self.graph.constants[self.graph.as_constant(value)?.index()];
        let bytes = match &constant.source {
            Source::Bytes(bytes) => bytes,
            Source::Value(value) => self.known(*value)?,
            _ => return None,
        };
        let (ty, count) = (self.graph.ty(value), self.graph.ty(value).sizes().iter().product::<usize>());
        let Element::Plain(dtype) = ty.element else { return None };
        let words = bytes.chunks_exact(dtype.size()).take(count);
        let number = |word: &[u8]| match dtype {
            ScalarType::Float => Some(f32::from_le_bytes(word.try_into().ok()?).into()),
            ScalarType::Double => Some(f64::from_le_bytes(word.try_into().ok()?)),
            ScalarType::Long => Some(i64::from_le_bytes(word.try_into().ok()?) as f64),
            ScalarType::Int => Some(i32::from_le_bytes(word.try_into().ok()?).into()),
            _ => None,
        };
        (count <= 64 && constant.order.is_empty()).then(|| words.map(number).collect())?
    }

    /// A tensor of the program as a value of the graph.
    pub(super) fn read(&mut self, value: u32) -> Option<ValueId> {
        let declared = self.declared(value)?;
        let order: Vec<usize> = (0..declared.order.len())
            .map(|dim| declared.order.iter().position(|&d| d == dim))
            .collect::<Option<_>>()?;
        if let Some(bytes) = self.known(value) {
            return self.constant(value, bytes, &declared, &order);
        }
        let made = self.read_in_memory(value)?;
        if declared.is_ordered() { Some(made) } else { self.node(Op::Transpose { order }, vec![made]) }
    }

    /// A tensor that is not the same in every run, with its dimensions as they lie in memory.
    fn read_in_memory(&mut self, value: u32) -> Option<ValueId> {
        let declared = self.declared(value)?;
        let bytes = self.flow.bytes(value)?.clone();
        let made = match self.written.iter().rev().find(|written| written.bytes.overlaps(&bytes)) {
            Some(written) if written.bytes == bytes => written.made?,
            Some(_) => return None,
            None => self.input(value, bytes, &declared)?,
        };
        if !self.graph.ty(made).is(declared.dtype) {
            return None;
        }
        self.reshaped(made, &declared.in_memory())
    }

    fn constant(&mut self, value: u32, bytes: &[u8], declared: &Declared, order: &[usize]) -> Option<ValueId> {
        if let Some(&constant) = self.constants.get(&value) {
            return Some(constant);
        }
        let ty = Type::plain(declared.dtype, &declared.in_memory());
        let wanted = ty.element.bytes(ty.sizes().iter().product())?;
        (bytes.len() >= wanted).then_some(())?;
        let stored = self.graph.constant_value(ty, Source::Value(value));
        let constant = if declared.is_ordered() { stored } else { self.graph.reordered(stored, order)? };
        self.constants.insert(value, constant);
        Some(constant)
    }

    fn input(&mut self, value: u32, bytes: Bytes, declared: &Declared) -> Option<ValueId> {
        let known = self.inputs.iter().position(|(_, other)| *other == bytes);
        let id = match known {
            Some(place) => *self.graph.inputs.get(place)?,
            None => {
                let id = self.graph.input(Type::plain(declared.dtype, &declared.in_memory()));
                self.inputs.push((value, bytes));
                id
            }
        };
        Some(id)
    }

    /// Says that the run of calls has made a tensor of the program.
    pub(super) fn write(&mut self, value: u32, made: ValueId) -> Option<()> {
        let declared = self.declared(value)?;
        let fits = self.graph.ty(made).is(declared.dtype) && *self.graph.ty(made).sizes() == *declared.sizes;
        fits.then_some(())?;
        let made = match declared.is_ordered() {
            true => made,
            false => self.node(Op::Transpose { order: declared.order }, vec![made])?,
        };
        self.write_in_memory(value, made)
    }

    /// The same of a value with its dimensions as they lie in memory.
    fn write_in_memory(&mut self, value: u32, made: ValueId) -> Option<()> {
        let declared = self.declared(value)?;
        let bytes = self.flow.bytes(value)?.clone();
        let fits = self.graph.ty(made).is(declared.dtype) && *self.graph.ty(made).sizes() == *declared.in_memory();
        (fits && !self.flow.is_kept(&bytes)).then_some(())?;
        self.written.push(Written { bytes, value, made: Some(made) });
        Some(())
    }

    /// Appends the graph of a delegate that is called with these arguments.
    pub(super) fn inline(&mut self, inner: &Graph, args: &[u32]) -> Option<()> {
        let (inputs, outputs) = args.split_at_checked(inner.inputs.len())?;
        let constants = u32::try_from(self.graph.constants.len()).ok()?;
        let mut map = vec![None; inner.values.len()];
        for (&id, &value) in inner.inputs.iter().zip(inputs) {
            let read = self.read_in_memory(value)?;
            (self.graph.ty(read) == inner.ty(id)).then_some(())?;
            map[id.index()] = Some(read);
        }
        for (value, place) in inner.values.iter().zip(&mut map).filter(|(value, _)| value.origin != Origin::Input) {
            let mut moved = value.clone();
            moved.move_constants(constants);
            *place = Some(self.graph.value(moved.ty, moved.origin));
        }
        self.graph.constants.extend(inner.constants.iter().cloned());
        // An input that is not listed cannot be passed.
        map.iter().all(Option::is_some).then_some(())?;
        let moved = |id: ValueId| map[id.index()].unwrap_or(id);
        for node in &inner.nodes {
            let mut node = node.clone();
            node.map_reads(moved);
            node.outputs.iter_mut().for_each(|id| *id = moved(*id));
            self.graph.nodes.push(node);
        }
        (inner.outputs.len() == outputs.len()).then_some(())?;
        inner.outputs.iter().zip(outputs).try_for_each(|(&id, &value)| self.write_in_memory(value, moved(id)))
    }

    /// Says that a tensor that nobody reads is not computed.
    pub(super) fn leave_out(&mut self, value: u32, step: usize) -> Option<()> {
        let bytes = self.flow.bytes(value)?.clone();
        let unread = self.flow.reads_after(&bytes, step..step + 1).is_empty() && !self.flow.is_kept(&bytes);
        unread.then(|| self.written.push(Written { bytes, value, made: None }))
    }

    /// Appends a node with one result, whose elements are those of its first input.
    pub(super) fn node(&mut self, op: Op, inputs: Vec<ValueId>) -> Option<ValueId> {
        let Element::Plain(dtype) = self.graph.ty(*inputs.first()?).element else { return None };
        self.node_of(dtype, op, inputs)
    }

    /// Appends a node with one result of these elements.
    pub(super) fn node_of(&mut self, dtype: ScalarType, op: Op, inputs: Vec<ValueId>) -> Option<ValueId> {
        let sizes: Vec<_> = inputs.iter().map(|&input| self.graph.ty(input).sizes()).collect();
        let shape = result_shapes(&op, &sizes.iter().map(Shape::as_slice).collect::<Vec<_>>())?.into_iter().next()?;
        Some(self.graph.node(op, inputs, Type::plain(dtype, &shape)))
    }

    /// The same elements with other sizes.
    pub(super) fn reshaped(&mut self, value: ValueId, sizes: &[usize]) -> Option<ValueId> {
        let ty = self.graph.ty(value).clone();
        if *ty.sizes() == *sizes {
            return Some(value);
        }
        let as_stored = |id: sconce_graph::ConstantId| self.graph.constants[id.index()].order.is_empty();
        match self.graph.as_constant(value).filter(|&id| as_stored(id)) {
            Some(constant) if ty.sizes().iter().product::<usize>() == sizes.iter().product::<usize>() => {
                let Element::Plain(dtype) = ty.element else { return None };
                Some(self.graph.value(Type::plain(dtype, sizes), Origin::Constant(constant)))
            }
            _ => self.node(Op::Reshape { sizes: sizes.to_vec() }, vec![value]),
        }
    }

    /// The graph of the instructions `steps` with the values of the program that it takes and gives.
    pub(super) fn finish(mut self, steps: Range<usize>) -> Option<(Graph, Vec<u32>, Vec<u32>)> {
        let mut outputs = Vec::new();
        for (place, written) in self.written.iter().enumerate() {
            let later = &self.written[place + 1..];
            let seen = |read: &Bytes| !later.iter().any(|other| other.bytes.overlaps(read));
            let reads = self.flow.reads_after(&written.bytes, steps.clone());
            let reads: Vec<_> = reads.into_iter().filter(seen).collect();
            // Who reads across the edge of what was written sees more than one value.
            if reads.iter().any(|read| !written.bytes.covers(read)) {
                return None;
            }
            if !reads.is_empty() {
                outputs.push(written);
            }
        }
        let apart = |(place, one): (usize, &&Written)| outputs[..place].iter().all(|o| !o.bytes.overlaps(&one.bytes));
        outputs.iter().enumerate().all(apart).then_some(())?;
        self.graph.outputs = outputs.iter().map(|written| written.made).collect::<Option<_>>()?;
        let inputs = self.inputs.into_iter().map(|(value, _)| value).collect();
        let outputs: Vec<u32> = outputs.iter().map(|written| written.value).collect();
        (!outputs.is_empty()).then_some((self.graph, inputs, outputs))
    }
}
