//! Payloads in the making, the programs around them, and what elements stand for.

use half::{bf16, f16};
use sconce::format::pte::model::{
    Delegate, Instruction, Memory, Plan, Program, Storage as Place, Tensor as TensorModel,
};
use sconce::format::xnnpack::Datatype;
use sconce::format::xnnpack::model::{Constant, Graph, Operation, Quantization, Storage};
use sconce::{Module, Options, ScalarType, Tensor};
use std::ops::Range;

/// What the elements of a value are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Fp32,
    Fp16,
    Bf16,
    /// Indices.
    Int32,
    /// The same, in a tensor of the program that is wider.
    Int64,
    /// Signed bytes with scale and zero.
    Int8(f32, i32),
    /// Unsigned bytes with scale and zero.
    UInt8(f32, i32),
}

/// The kinds that most nodes take, with scales for numbers of about four.
pub(crate) const KINDS: [Kind; 5] = [Kind::Fp32, Kind::Fp16, Kind::Bf16, Kind::Int8(0.04, 7), Kind::UInt8(0.04, 131)];

impl Kind {
    fn datatype(self) -> (Datatype, ScalarType) {
        match self {
            Self::Fp32 => (Datatype::Fp32, ScalarType::Float),
            Self::Fp16 => (Datatype::Fp16, ScalarType::Half),
            Self::Bf16 => (Datatype::BF16, ScalarType::BFloat16),
            Self::Int32 => (Datatype::Int32, ScalarType::Int),
            Self::Int64 => (Datatype::Int32, ScalarType::Long),
            Self::Int8(..) => (Datatype::QInt8, ScalarType::Char),
            Self::UInt8(..) => (Datatype::QUInt8, ScalarType::Byte),
        }
    }

    fn quantization(self) -> Quantization {
        match self {
            Self::Int8(scale, zero_point) | Self::UInt8(scale, zero_point) => {
                Quantization::PerTensor { scale, zero_point }
            }
            _ => Quantization::None,
        }
    }

    pub(crate) fn is_quantized(self) -> bool {
        self.quantization() != Quantization::None
    }

    /// The same with other parameters, if it has any.
    pub(crate) fn with(self, scale: f32, add: i32) -> Self {
        match self {
            Self::Int8(_, zero) => Self::Int8(scale, zero + add),
            Self::UInt8(_, zero) => Self::UInt8(scale, zero + add),
            plain => plain,
        }
    }

    /// Where a number lies among the bytes.
    fn position(self, number: f64) -> f64 {
        match self {
            Self::Int8(scale, zero) => (number / f64::from(scale) + f64::from(zero)).clamp(-128.0, 127.0),
            Self::UInt8(scale, zero) => (number / f64::from(scale) + f64::from(zero)).clamp(0.0, 255.0),
            _ => panic!("{self:?} has no bytes"),
        }
    }

    /// The byte that is nearest to a number: quotient rounded to even, plus zero, limited.
    pub(crate) fn byte(self, number: f64) -> i32 {
        let rounded = |scale: f32, zero: i32, low: f32, high: f32| {
            ((number as f32 / scale).round_ties_even() + zero as f32).clamp(low, high) as i32
        };
        match self {
            Self::Int8(scale, zero) => rounded(scale, zero, -128.0, 127.0),
            Self::UInt8(scale, zero) => rounded(scale, zero, 0.0, 255.0),
            _ => panic!("{self:?} has no bytes"),
        }
    }

    pub(crate) fn encode(self, numbers: &[f64]) -> Vec<u8> {
        let each = |number: &f64| match self {
            Self::Fp32 => (*number as f32).to_le_bytes().to_vec(),
            Self::Fp16 => f16::from_f64(*number).to_le_bytes().to_vec(),
            Self::Bf16 => bf16::from_f64(*number).to_le_bytes().to_vec(),
            Self::Int32 => (*number as i32).to_le_bytes().to_vec(),
            Self::Int64 => (*number as i64).to_le_bytes().to_vec(),
            Self::Int8(..) | Self::UInt8(..) => vec![self.byte(*number) as u8],
        };
        numbers.iter().flat_map(each).collect()
    }

    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f64> {
        fn words<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks().0.iter().map(|&word| number(word)).collect()
        }
        match self {
            Self::Fp32 => words(bytes, |word| f32::from_le_bytes(word).into()),
            Self::Fp16 => words(bytes, |word| f16::from_le_bytes(word).into()),
            Self::Bf16 => words(bytes, |word| bf16::from_le_bytes(word).into()),
            Self::Int32 => words(bytes, |word| i32::from_le_bytes(word).into()),
            Self::Int64 => words(bytes, |word| i64::from_le_bytes(word) as f64),
            Self::Int8(scale, zero) => {
                words(bytes, |[byte]| ((i32::from(byte.cast_signed()) - zero) as f32 * scale).into())
            }
            Self::UInt8(scale, zero) => words(bytes, |[byte]| ((i32::from(byte) - zero) as f32 * scale).into()),
        }
    }

    /// How far a computed number may be from the right one, relative to one and to the number.
    fn tolerance(self) -> f64 {
        match self {
            Self::Fp32 => 5e-5,
            Self::Fp16 => 2e-3,
            Self::Bf16 => 1e-2,
            _ => 0.0,
        }
    }
}

/// Numbers with sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    pub(crate) sizes: Vec<usize>,
    pub(crate) numbers: Vec<f64>,
}

impl Array {
    pub(crate) fn new(sizes: &[usize], number: impl FnMut(usize) -> f64) -> Self {
        Self { sizes: sizes.to_vec(), numbers: (0..sizes.iter().product()).map(number).collect() }
    }

    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { sizes: self.sizes.clone(), numbers: self.numbers.iter().map(|&number| f(number)).collect() }
    }

    /// Indices of an element along each dimension.
    pub(crate) fn indices(&self, place: usize) -> Vec<usize> {
        let mut rest = place;
        let mut indices: Vec<usize> = self.sizes.iter().rev().map(|&size| (rest % size, rest /= size).0).collect();
        indices.reverse();
        indices
    }

    pub(crate) fn place(&self, indices: &[usize]) -> usize {
        self.sizes.iter().zip(indices).fold(0, |place, (size, index)| place * size + index)
    }

    pub(crate) fn at(&self, indices: &[usize]) -> f64 {
        self.numbers[self.place(indices)]
    }
}

/// Numbers that look random and are the same in every run.
pub(crate) fn numbers(seed: usize, count: usize, range: &Range<f64>) -> Vec<f64> {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    (0..count).map(|_| range.start + next() * (range.end - range.start)).collect()
}

/// A payload, the bytes of its inputs, and what its outputs are.
#[derive(Default)]
pub(crate) struct Payload {
    pub(crate) graph: Graph<'static>,
    inputs: Vec<(Kind, Vec<usize>, Vec<u8>)>,
    outputs: Vec<(Kind, Vec<usize>)>,
}

fn dims(sizes: &[usize]) -> Vec<u32> {
    sizes.iter().map(|&size| size as u32).collect()
}

impl Payload {
    /// An input with numbers of a range, and the numbers that its elements can say.
    pub(crate) fn input(&mut self, kind: Kind, sizes: &[usize], range: Range<f64>) -> (u32, Array) {
        let (id, bytes) = (self.inputs.len() as u32, self.bytes(kind, sizes, &range));
        let storage = Storage::External { id, input: true, output: false };
        let value = self.graph.value(kind.datatype().0, &dims(sizes), storage, kind.quantization());
        self.inputs.push((kind, sizes.to_vec(), bytes.clone()));
        (value, Array { sizes: sizes.to_vec(), numbers: kind.decode(&bytes) })
    }

    fn bytes(&self, kind: Kind, sizes: &[usize], range: &Range<f64>) -> Vec<u8> {
        kind.encode(&numbers(self.graph.values.len(), sizes.iter().product(), range))
    }

    /// An output; all inputs come before.
    pub(crate) fn output(&mut self, kind: Kind, sizes: &[usize]) -> u32 {
        let id = (self.inputs.len() + self.outputs.len()) as u32;
        self.outputs.push((kind, sizes.to_vec()));
        let storage = Storage::External { id, input: false, output: true };
        self.graph.value(kind.datatype().0, &dims(sizes), storage, kind.quantization())
    }

    /// A value between nodes.
    pub(crate) fn between(&mut self, kind: Kind, sizes: &[usize]) -> u32 {
        self.graph.value(kind.datatype().0, &dims(sizes), Storage::Internal, kind.quantization())
    }

    /// What an input becomes when each of its rows of n dimensions finds its own scale.
    pub(crate) fn quantized_rows(&mut self, input: u32, sizes: &[usize], dimensions: i32) -> u32 {
        let quantization = Quantization::PerToken { num_nonbatch_dims: dimensions };
        let rows = self.graph.value(Datatype::QDInt8, &dims(sizes), Storage::Internal, quantization);
        self.unary(Operation::Convert, input, rows);
        rows
    }

    pub(crate) fn constant(&mut self, kind: Kind, sizes: &[usize], range: Range<f64>) -> (u32, Array) {
        let bytes = self.bytes(kind, sizes, &range);
        let array = Array { sizes: sizes.to_vec(), numbers: kind.decode(&bytes) };
        (self.stored(kind.datatype().0, sizes, bytes, kind.quantization()), array)
    }

    /// A constant of these bytes.
    pub(crate) fn stored(
        &mut self,
        dtype: Datatype,
        sizes: &[usize],
        bytes: Vec<u8>,
        quantization: Quantization,
    ) -> u32 {
        let constant = self.graph.constant(Constant::Bytes(bytes.into()));
        self.graph.value(dtype, &dims(sizes), Storage::Constant(constant), quantization)
    }

    pub(crate) fn node(&mut self, operation: Operation, limits: Option<(f32, f32)>) {
        self.graph.node(operation, limits);
    }

    pub(crate) fn unary(
        &mut self,
        operation: fn(sconce::format::xnnpack::model::Unary) -> Operation,
        from: u32,
        to: u32,
    ) {
        let table = sconce::format::xnnpack::model::Unary { input_id: from, output_id: to, flags: 0 };
        self.node(operation(table), None);
    }

    /// The bytes of all outputs.
    pub(crate) fn run(&self) -> Vec<Vec<u8>> {
        self.run_bytes(&self.graph.write())
    }

    /// The same of a payload that was written otherwise.
    pub(crate) fn run_bytes(&self, payload: &[u8]) -> Vec<Vec<u8>> {
        self.run_module(&Options::new().load(&chained(&[(self, payload.to_vec())], false)).unwrap())
    }

    /// The bytes that a program makes of these inputs. It runs twice: the first run packs.
    pub(crate) fn run_module(&self, module: &Module) -> Vec<Vec<u8>> {
        let mut session = module.session().unwrap();
        let tensor = |(kind, sizes, bytes): &(Kind, Vec<usize>, Vec<u8>)| {
            Tensor::from_bytes(kind.datatype().1, sizes, bytes).unwrap()
        };
        let tensors: Vec<Tensor> = self.inputs.iter().map(tensor).collect();
        let inputs: Vec<_> = tensors.iter().map(Into::into).collect();
        let mut run = || -> Vec<Vec<u8>> {
            let outputs = session.run(&inputs).unwrap();
            outputs.iter().map(|output| output.tensor().unwrap().bytes().to_vec()).collect()
        };
        let first = run();
        assert_eq!(first, run());
        first
    }

    /// The plan of the delegate as text.
    pub(crate) fn plan(&self) -> String {
        let program = chained(&[(self, self.graph.write())], false);
        Options::new().plan(false).load(&program).unwrap().delegate_plans("forward").unwrap().concat()
    }
}

/// A program of delegates with these payloads, each of which takes what the one before makes.
pub(crate) fn chained(payloads: &[(&Payload, Vec<u8>)], inline: bool) -> Vec<u8> {
    let (mut plan, mut end) = (Plan::new("forward"), 0);
    let mut tensor = |plan: &mut Plan<'_>, kind: Kind, sizes: &[usize]| {
        let (dtype, offset) = (kind.datatype().1, end);
        end += (sizes.iter().product::<usize>() * dtype.size()).next_multiple_of(16) as u64;
        let sizes: Vec<i32> = sizes.iter().map(|&size| size as i32).collect();
        plan.value(TensorModel::new(dtype, sizes, Place::Planned(Memory { id: 1, offset })))
    };
    let inputs = payloads.first().into_iter().flat_map(|(first, _)| &first.inputs);
    plan.inputs = inputs.map(|(kind, sizes, _)| tensor(&mut plan, *kind, sizes)).collect();
    plan.outputs = plan.inputs.clone();
    for (delegate, (payload, bytes)) in (0..).zip(payloads) {
        let outputs = payload.outputs.iter().map(|(kind, sizes)| tensor(&mut plan, *kind, sizes)).collect();
        let inputs = std::mem::replace(&mut plan.outputs, outputs);
        let (backend, payload) = ("XnnpackBackend".into(), bytes.clone().into());
        plan.delegates.push(Delegate { backend, payload, inline, specs: Vec::new() });
        plan.push(Instruction::Delegate { delegate, args: [inputs, plan.outputs.clone()].concat() });
    }
    plan.buffer_sizes = vec![0, end.max(16)];
    Program { plans: vec![plan], ..Program::default() }.write()
}

/// Compares an output with the right numbers: bit by bit, or as near as its elements allow. A byte that is computed is one
/// of the two neighbours where the number lies half way.
pub(crate) fn check(what: &str, kind: Kind, found: &[u8], expected: &Array, exact: bool) {
    let right = kind.encode(&expected.numbers);
    if exact || !kind.is_quantized() && kind.tolerance() == 0.0 {
        assert_eq!(found, right, "{what}, {kind:?}");
        return;
    }
    assert_eq!(found.len(), right.len(), "{what}, {kind:?}");
    for (place, &right) in expected.numbers.iter().enumerate() {
        let (found, near) = match kind {
            Kind::Int8(..) | Kind::UInt8(..) => {
                let byte = match kind {
                    Kind::Int8(..) => f64::from(found[place].cast_signed()),
                    _ => f64::from(found[place]),
                };
                (byte, (byte - kind.position(right)).abs() < 0.5 + 1e-3)
            }
            _ => {
                let size = found.len() / expected.numbers.len();
                let number = kind.decode(&found[place * size..][..size])[0];
                (number, (number - right).abs() <= kind.tolerance() * (1.0 + right.abs()))
            }
        };
        assert!(near, "{what}, {kind:?}: {found} is not {right} at {:?}", expected.indices(place));
    }
}
