//! The payload of a part while its tensors are added.

use super::{Blocks, Found, Order, Weights};
use crate::ir::{Call, Constants, Data, Delegate, Function, Origin, Output, TensorType, ValueId};
use crate::partition::Part;
use crate::size::{Atom, Size, Symbol};
use sconce_format::ScalarType;
use sconce_format::ggml::{BACKEND, Combine, Element, Extent, Graph, MAX_RANK, Op, Role, Step, Tensor};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// The least elements of a weight that is worth making blocks of.
const LEAST: usize = 1024;

/// A payload in the making.
pub(super) struct Builder<'p> {
    function: &'p Function,
    constants: &'p Constants<'p>,
    blocks: Option<Blocks>,
    weights: Option<&'p Weights>,
    graph: Graph,
    data: Vec<(String, Data)>,
    /// Tensors of the payload by our values.
    tensors: HashMap<ValueId, u32>,
    /// Constants of the payload by their names and sizes.
    known: HashMap<(String, Vec<usize>), u32>,
    /// The symbols of the payload: sizes of inputs.
    symbols: HashMap<Size, u8>,
    outputs: HashMap<ValueId, u32>,
    /// Values that nothing reads.
    unread: HashSet<ValueId>,
    /// Whether this is a rehearsal: a single call is added to see whether that can be done, without weights.
    rehearsal: bool,
}

impl<'p> Builder<'p> {
    /// A payload that is not kept.
    pub(super) fn rehearsal(function: &'p Function, constants: &'p Constants<'p>) -> Self {
        let mut read: HashSet<ValueId> = function.updates.iter().map(|(_, value)| *value).collect();
        function.body.walk(&mut |call| {
            call.reads(&mut |value| {
                read.insert(value);
            })
        });
        read.extend(function.outputs.iter().filter_map(|output| match output {
            Output::Value(value) => Some(*value),
            Output::Known(_) => None,
        }));
        let unread = (0..function.values.len() as u32).map(ValueId).filter(|value| !read.contains(value)).collect();
        Self {
            function,
            constants,
            blocks: None,
            weights: None,
            graph: Graph::default(),
            data: Vec::new(),
            tensors: HashMap::new(),
            known: HashMap::new(),
            symbols: HashMap::new(),
            outputs: HashMap::new(),
            unread,
            rehearsal: true,
        }
    }

    /// A payload with the inputs, states and outputs of a part.
    pub(super) fn new(part: &Part<'p>, blocks: Option<Blocks>, weights: Option<&'p Weights>) -> Result<Self, String> {
        let mut builder = Self { blocks, weights, rehearsal: false, ..Self::rehearsal(part.function, part.constants) };
        builder.outputs = part.outputs.iter().copied().zip(0..).collect();
        for &input in &part.inputs {
            for size in &builder.ty(input)?.sizes {
                let next = builder.symbols.len();
                if size.number().is_none() && !builder.symbols.contains_key(size) {
                    let next = u8::try_from(next).map_err(|_| "it has more than 256 sizes that are not known")?;
                    builder.symbols.insert(size.clone(), next);
                }
            }
        }
        for (index, &input) in (0..).zip(&part.inputs) {
            builder.leaf(input, Role::Input(index))?;
        }
        for &(state, _) in &part.states {
            let Origin::State(id) = builder.function.get(state).origin else { continue };
            let bytes = builder.constants.bytes(id);
            let zero = bytes.iter().all(|&byte| byte == 0);
            let key = (!zero).then(|| builder.named(Element::F32, Data::Constant(id)));
            builder.leaf(state, Role::State(key))?;
        }
        Ok(builder)
    }

    /// The delegate, after all calls have been added.
    pub(super) fn finish(self) -> Result<Delegate, String> {
        let payload = self.graph.write();
        Graph::read(&payload)?;
        Ok(Delegate { backend: BACKEND.to_owned(), payload, data: self.data, ..Delegate::default() })
    }

    /// What all operators ask: tensors row by row, none of them empty, results that can be had.
    pub(super) fn check(&self, call: &Call) -> Result<(), String> {
        let mut values = call.outputs.clone();
        call.reads(&mut |value| values.push(value));
        for value in values {
            let ty = self.ty(value)?;
            if call.operator() != Some("aten::linear") && self.alternating(value).is_some() {
                return Err("only a linear layer can read a weight whose heads alternate in the file".to_owned());
            }
            if !ty.is_contiguous() {
                return Err("a tensor does not lie row by row".to_owned());
            }
            if ty.rank() > MAX_RANK || ty.sizes.iter().any(|size| size.number() == Some(0)) {
                return Err("a tensor is empty or has too many dimensions".to_owned());
            }
            for size in &ty.sizes {
                self.extent(size)?;
            }
        }
        if call.outputs.is_empty() { Err("it has no result".to_owned()) } else { Ok(()) }
    }

    /// The type of a tensor.
    pub(super) fn ty(&self, value: ValueId) -> Result<&'p TensorType, String> {
        self.function.tensor(value).ok_or_else(|| "it works on a number that is no tensor".to_owned())
    }

    /// The sizes of a tensor; the largest ones where they are not known.
    pub(super) fn bounds(&self, value: ValueId) -> Result<Vec<usize>, String> {
        self.largest(&self.ty(value)?.sizes)
    }

    /// The largest values of sizes; the product of any of them is a number.
    pub(super) fn largest(&self, sizes: &[Size]) -> Result<Vec<usize>, String> {
        let symbols = &self.function.symbols;
        let most =
            |size: &Size| match i32::try_from(symbols.most(size)).ok().and_then(|most| usize::try_from(most).ok()) {
                Some(most) => Ok(most),
                None => Err(format!("the size {} has no upper bound", symbols.show(size))),
            };
        let sizes = sizes.iter().map(most).collect::<Result<Vec<usize>, String>>()?;
        match sizes.iter().try_fold(1usize, |count, &size| count.checked_mul(size.max(1))) {
            Some(_) => Ok(sizes),
            None => Err(format!("a tensor of the sizes {sizes:?} is too large")),
        }
    }

    /// Whether nothing reads a value.
    pub(super) fn is_unread(&self, value: ValueId) -> bool {
        self.unread.contains(&value)
    }

    /// Whether a value is a constant.
    pub(super) fn is_known(&self, value: ValueId) -> bool {
        matches!(self.function.get(value).origin, Origin::Constant(_))
    }

    /// The element type of a value that ggml can compute with or move.
    pub(super) fn element(&self, value: ValueId) -> Result<Element, String> {
        match self.ty(value)?.dtype {
            ScalarType::Float => Ok(Element::F32),
            ScalarType::Bool => Ok(Element::Bool),
            ScalarType::Long => Ok(Element::I64),
            ScalarType::Int => Ok(Element::I32),
            other => Err(format!("ggml does not compute with {other}")),
        }
    }

    /// A size for the payload.
    pub(super) fn extent(&self, size: &Size) -> Result<Extent, String> {
        if let Some(number) = size.number() {
            return Ok(number.into());
        }
        if self.rehearsal {
            return self.is_told(size).map(|()| Extent::symbol(0));
        }
        let mut steps = Vec::new();
        self.code(size, &mut steps)?;
        Ok(Extent::Code(steps))
    }

    /// Whether a size follows from those of the method's inputs.
    fn is_told(&self, size: &Size) -> Result<(), String> {
        let mut told = true;
        size.symbols(&mut |symbol| {
            let inputs = self.function.body.inputs.iter().filter_map(|input| self.function.tensor(*input));
            told &= inputs.flat_map(|ty| &ty.sizes).any(|size| size.line(symbol).is_some());
        });
        let shown = || self.function.symbols.show(size).to_string();
        if told { Ok(()) } else { Err(format!("the size {} is known only after other calls", shown())) }
    }

    fn code(&self, size: &Size, steps: &mut Vec<Step>) -> Result<(), String> {
        if let Some(&symbol) = self.symbols.get(size) {
            steps.push(Step::Symbol(symbol));
            return Ok(());
        }
        if size.number() == Some(0) {
            steps.push(Step::Number(0));
        }
        for (place, (atoms, factor)) in size.terms().enumerate() {
            let mut count = 0;
            if factor != 1 || atoms.is_empty() {
                steps.push(Step::Number(factor));
                count += 1;
            }
            for atom in atoms {
                self.atom(atom, steps)?;
                count += 1;
                if count > 1 {
                    steps.push(Step::Combine(Combine::Multiply));
                }
            }
            if place > 0 {
                steps.push(Step::Combine(Combine::Add));
            }
        }
        Ok(())
    }

    fn atom(&self, atom: &Atom, steps: &mut Vec<Step>) -> Result<(), String> {
        let (a, b, combine) = match atom {
            Atom::Symbol(symbol) => return self.symbol(*symbol, steps),
            Atom::FloorDiv(a, b) => (a, b, Combine::FloorDivide),
            Atom::Mod(a, b) => (a, b, Combine::Modulo),
            Atom::Max(a, b) => (a, b, Combine::Max),
            Atom::Min(a, b) => (a, b, Combine::Min),
        };
        self.code(a, steps)?;
        self.code(b, steps)?;
        steps.push(Step::Combine(combine));
        Ok(())
    }

    /// A symbol, from a size that is a straight line of it.
    fn symbol(&self, symbol: Symbol, steps: &mut Vec<Step>) -> Result<(), String> {
        let mut lines: Vec<_> =
            self.symbols.iter().filter_map(|(size, &number)| Some((number, size.line(symbol)?))).collect();
        lines.sort_unstable();
        let size = Size::from(symbol);
        let (number, (by, plus)) = *lines
            .first()
            .ok_or_else(|| format!("the size {} is not told by its inputs", self.function.symbols.show(&size)))?;
        steps.push(Step::Symbol(number));
        for (operand, neutral, combine) in [(plus, 0, Combine::Subtract), (by, 1, Combine::FloorDivide)] {
            if operand != neutral {
                steps.extend([Step::Number(operand), Step::Combine(combine)]);
            }
        }
        Ok(())
    }

    /// Adds a tensor that is not computed.
    fn leaf(&mut self, value: ValueId, role: Role) -> Result<u32, String> {
        let sizes = self.ty(value)?.sizes.iter().map(|size| self.extent(size)).collect::<Result<_, _>>()?;
        let element = self.element(value)?;
        let tensor = self.graph.push(Tensor { element, sizes, op: Op::Leaf, sources: Vec::new(), role });
        self.tensors.insert(value, tensor);
        Ok(tensor)
    }

    /// A value as a tensor of the payload.
    pub(super) fn operand(&mut self, value: ValueId) -> Result<u32, String> {
        if let Some(&tensor) = self.tensors.get(&value) {
            return Ok(tensor);
        }
        if self.rehearsal {
            return self.leaf(value, Role::Input(0));
        }
        let Origin::Constant(id) = self.function.get(value).origin else {
            return Err("it reads a value that is nowhere".to_owned());
        };
        let element = self.element(value)?;
        if let Some(found) = self.found(value) {
            let tensor = self.stored(value, found, &|own| own == element)?;
            self.tensors.insert(value, tensor);
            return Ok(tensor);
        }
        let sizes = self.numbers(value)?;
        let tensor = self.constant(element, &sizes, Data::Constant(id))?;
        self.tensors.insert(value, tensor);
        Ok(tensor)
    }

    /// The known sizes of a value.
    pub(super) fn numbers(&self, value: ValueId) -> Result<Vec<usize>, String> {
        let numbers = self.ty(value)?.numbers().ok_or("a constant has sizes that are not known")?;
        numbers.into_iter().map(|size| usize::try_from(size).map_err(|_| "a size is negative".to_owned())).collect()
    }

    /// A value that ggml computes with.
    pub(super) fn float(&mut self, value: ValueId) -> Result<u32, String> {
        match self.ty(value)?.dtype {
            ScalarType::Float => self.operand(value),
            other => Err(format!("ggml computes with float32, and this is {other}")),
        }
    }

    /// A value that ggml only moves.
    pub(super) fn moved(&mut self, value: ValueId) -> Result<u32, String> {
        match self.ty(value)?.dtype {
            ScalarType::Float | ScalarType::Bool => self.operand(value),
            other => Err(format!("ggml moves float32, and this is {other}")),
        }
    }

    /// Indices.
    pub(super) fn indices(&mut self, value: ValueId) -> Result<u32, String> {
        match self.ty(value)?.dtype {
            _ if self.is_known(value) => Err("its indices are constant".to_owned()),
            ScalarType::Long | ScalarType::Int => self.operand(value),
            other => Err(format!("its indices are {other}")),
        }
    }

    /// Bytes that are known.
    fn constant(&mut self, element: Element, sizes: &[usize], data: Data) -> Result<u32, String> {
        let bytes = self.constants.data(&data).len();
        if element.bytes(sizes) != Some(bytes) {
            return Err(format!("a weight of the sizes {sizes:?} has {bytes} bytes"));
        }
        let key = self.named(element, data);
        Ok(self.kept(element, sizes, key))
    }

    /// The tensor of a constant that has a name.
    fn kept(&mut self, element: Element, sizes: &[usize], key: String) -> u32 {
        if let Some(&tensor) = self.known.get(&(key.clone(), sizes.to_vec())) {
            return tensor;
        }
        let extents = sizes.iter().map(|&size| Extent::Fixed(size as i64)).collect();
        let role = Role::Constant(key.clone());
        let tensor = self.graph.push(Tensor { element, sizes: extents, op: Op::Leaf, sources: Vec::new(), role });
        self.known.insert((key, sizes.to_vec()), tensor);
        tensor
    }

    /// The name of a constant in the module.
    fn module_name(&self, value: ValueId) -> Option<&'p str> {
        let Origin::Constant(id) = self.function.get(value).origin else { return None };
        Some(&self.constants.0.get(id.0 as usize)?.name)
    }

    /// What a constant is in the file of weights, if it is there.
    fn found(&self, value: ValueId) -> Option<Found<'p>> {
        self.weights?.find(self.module_name(value)?)
    }

    /// The heads in which halves alternate in what a constant is in the file of weights.
    pub(super) fn alternating(&self, value: ValueId) -> Option<usize> {
        match self.found(value)?.order {
            Order::Same => None,
            Order::Alternating(heads) => Some(heads),
        }
    }

    /// A constant that stays in the file of weights, whose elements must be `usable`.
    fn stored(&mut self, value: ValueId, found: Found<'_>, usable: &dyn Fn(Element) -> bool) -> Result<u32, String> {
        let (name, Found { name: key, stored, .. }) = (self.module_name(value).unwrap_or_default(), found);
        let sizes = self.numbers(value)?;
        if sizes != stored.sizes {
            return Err(format!("{name} has the sizes {sizes:?}, and {key} in the file of weights {:?}", stored.sizes));
        }
        let Some(element) = stored.element() else {
            return Err(format!(
                "{name} is {key} in the file of weights, of ggml's type {}, which is not supported",
                stored.kind
            ));
        };
        if !usable(element) {
            return Err(format!("{name} is {key} in the file of weights, and it cannot be {} here", element.name()));
        }
        Ok(self.kept(element, &sizes, key.to_owned()))
    }

    /// Numbers that are known.
    pub(super) fn numbers_of(&mut self, sizes: &[usize], numbers: &[f32]) -> Result<u32, String> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(Element::F32, sizes, bytes.into())
    }

    /// The name of bytes, which equal ones share.
    fn named(&mut self, element: Element, data: Data) -> String {
        let digest = Sha256::digest(self.constants.data(&data));
        let mut key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        key.push('_');
        key.push_str(element.name());
        if !self.data.iter().any(|(own, _)| *own == key) {
            self.data.push((key.clone(), data));
        }
        key
    }

    /// The weight of a linear layer, `[out, in]`, or the table of an embedding: in blocks, if it is known and they were
    /// asked for. `transposed` says that it lies `[in, out]`.
    pub(super) fn weight(&mut self, value: ValueId, transposed: bool) -> Result<u32, String> {
        let Origin::Constant(id) = self.function.get(value).origin else {
            let weight = self.float(value)?;
            return if transposed { self.transposed(value, weight) } else { Ok(weight) };
        };
        if self.ty(value)?.dtype != ScalarType::Float {
            return Err(format!("its weight is {}", self.ty(value)?.dtype));
        }
        if let Some(found) = self.found(value) {
            let other = |own: Element| matches!(own, Element::F16 | Element::Bf16) || own.is_quantized();
            let weight = self.stored(value, found, &|own| own == Element::F32 || (!transposed && other(own)))?;
            return if transposed { self.transposed(value, weight) } else { Ok(weight) };
        }
        if self.rehearsal || (!transposed && self.blocks.is_none()) {
            return self.operand(value);
        }
        let [rows, columns] = self.numbers(value)?[..] else { return Err("its weight is no matrix".to_owned()) };
        let bytes = self.constants.bytes(id);
        let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if numbers.len() != rows * columns {
            return Err(format!("a weight of the sizes [{rows}, {columns}] has {} bytes", bytes.len()));
        }
        let (rows, columns, numbers) = if transposed {
            let column = |column| numbers.iter().skip(column).step_by(columns).copied();
            (columns, rows, (0..columns).flat_map(column).collect())
        } else {
            (rows, columns, numbers)
        };
        match self.blocks.and_then(|blocks| Some((blocks.quantizer, fitting(blocks.element, columns, numbers.len())?)))
        {
            Some((quantizer, element)) => {
                let blocks = quantizer(element, columns, &numbers)?;
                self.constant(element, &[rows, columns], blocks.into())
            }
            None => self.numbers_of(&[rows, columns], &numbers),
        }
    }

    /// A matrix with rows and columns exchanged.
    fn transposed(&mut self, value: ValueId, tensor: u32) -> Result<u32, String> {
        let sizes = self.ty(value)?.sizes.iter().rev().map(|size| self.extent(size)).collect::<Result<_, _>>()?;
        let op = Op::Permute { order: vec![1, 0] };
        Ok(self.graph.push(Tensor::new(Element::F32, sizes, op, vec![tensor])))
    }

    /// Adds a tensor that is a call's result.
    pub(super) fn define(&mut self, value: ValueId, op: Op, sources: Vec<u32>) -> Result<(), String> {
        let sizes = self.ty(value)?.sizes.iter().map(|size| self.extent(size)).collect::<Result<_, _>>()?;
        let element = self.element(value)?;
        let role = self.outputs.get(&value).map_or(Role::Inside, |&index| Role::Output(index));
        let tensor = self.graph.push(Tensor { element, sizes, op, sources, role });
        self.tensors.insert(value, tensor);
        Ok(())
    }

    /// Adds a call's result, of rows whose heads have halves that alternate: they become halves again.
    pub(super) fn define_halves(
        &mut self,
        value: ValueId,
        heads: usize,
        op: Op,
        sources: Vec<u32>,
    ) -> Result<(), String> {
        let sizes = self.ty(value)?.sizes.clone();
        let (width, outer) = sizes.split_last().ok_or("its result is a single number")?;
        let width = width.number().ok_or("its result has rows whose size is not known")?;
        let count = i64::try_from(heads).unwrap_or(0);
        if count == 0 || width % count != 0 || width / count % 2 != 0 {
            return Err(format!("the file of weights has {heads} heads (attention.head_count) in {width} rows"));
        }
        let rows = outer.iter().fold(Size::from(count), |rows, size| rows.times(size));
        let (two, half) = (Size::from(2), Size::from(width / count / 2));
        let product = self.between(value, &sizes, op, sources)?;
        let pairs = self.between(value, &[rows.clone(), half.clone(), two.clone()], Op::View, vec![product])?;
        let halves = self.between(value, &[rows, two, half], Op::Permute { order: vec![0, 2, 1] }, vec![pairs])?;
        self.define(value, Op::View, vec![halves])
    }

    /// Adds a tensor on the way to a result, of the same elements as `like`.
    pub(super) fn between(&mut self, like: ValueId, sizes: &[Size], op: Op, sources: Vec<u32>) -> Result<u32, String> {
        let sizes = sizes.iter().map(|size| self.extent(size)).collect::<Result<_, _>>()?;
        let element = self.element(like)?;
        Ok(self.graph.push(Tensor::new(element, sizes, op, sources)))
    }
}

/// The blocks that rows of `row` numbers can be made of.
fn fitting(element: Element, row: usize, count: usize) -> Option<Element> {
    let fits = |element: &Element| row > 0 && row.is_multiple_of(element.block().0) && count >= LEAST;
    [element, Element::Q8_0].into_iter().find(fits)
}
