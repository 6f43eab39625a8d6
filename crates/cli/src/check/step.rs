//! How far apart the numbers of an output are.
//!
//! What a program computes with small integers comes out as multiples of a step: the scale of the last quantised value. Two
//! runtimes may round to neighbours, so a difference of a step is none between numbers. An output's step is found where the
//! quantised value becomes floating-point numbers: a kernel call, or a node in a delegate's payload. What only moves numbers
//! about is gone through.
use sconce::core::{Method, Part};
use sconce::format::pte::{
    BackendDelegate, DelegateCall, Instruction, InstructionArguments, KernelCall, KernelTypes, Payload,
};
use sconce::format::xnnpack::{self, File, Quantization};
use std::borrow::Cow;
use std::collections::HashMap;

/// What is known about the numbers of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Precision {
    /// No value on the way is quantised.
    Full,
    /// They are this far apart.
    Step(f64),
    /// They come of quantised values, but are none themselves.
    Coarse,
}

/// Values that are looked at for one output. Files are untrusted: ways through them may be long.
const MOST_VALUES: usize = 4096;

/// Operators that give numbers of their first argument as they are.
const MOVES: &[&str] = &[
    "aten::alias_copy",
    "aten::as_strided_copy",
    "aten::cat",
    "aten::clamp",
    "aten::clone",
    "aten::detach_copy",
    "aten::diagonal_copy",
    "aten::expand_copy",
    "aten::flip",
    "aten::gather",
    "aten::hardtanh",
    "aten::index_select",
    "aten::permute_copy",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::relu",
    "aten::repeat",
    "aten::roll",
    "aten::select_copy",
    "aten::slice_copy",
    "aten::squeeze_copy",
    "aten::stack",
    "aten::t_copy",
    "aten::transpose_copy",
    "aten::unsqueeze_copy",
    "aten::view_copy",
    "dim_order_ops::_clone_dim_order",
    "dim_order_ops::_to_dim_order_copy",
    "executorch_prim::et_view",
];

/// Nodes of XNNPACK that do.
const MOVING_NODES: &[&str] = &[
    "Clamp",
    "Concatenate2",
    "Concatenate3",
    "Concatenate4",
    "Concatenate5",
    "Copy",
    "MaxPooling2d",
    "StaticReshape",
    "StaticSlice",
    "StaticTranspose",
];

/// The operator that makes numbers of quantised values of one scale.
const DEQUANTIZE: &str = "quantized_decomposed::dequantize_per_tensor";

/// The precision of each output of a method.
pub(super) fn precisions(method: Method<'_>) -> Vec<Precision> {
    let trace = Trace::new(method);
    let rest = if trace.is_quantised() { Precision::Coarse } else { Precision::Full };
    let of = |value: i32| {
        let mut left = MOST_VALUES;
        trace.step(value, &mut left).filter(|step| step.is_finite() && *step > 0.0).map_or(rest, Precision::Step)
    };
    method.plan().outputs().iter().map(of).collect()
}

/// Ways back from values to what made them.
struct Trace<'a> {
    method: Method<'a>,
    /// The instruction that writes a value; none for one that several write.
    writers: HashMap<i32, Option<Instruction<'a>>>,
    /// Payloads of XNNPACK by delegate.
    payloads: Vec<Option<Cow<'a, [u8]>>>,
}

impl<'a> Trace<'a> {
    fn new(method: Method<'a>) -> Self {
        let mut writers: HashMap<i32, Option<Instruction<'a>>> = HashMap::new();
        let payloads: Vec<_> = method.plan().delegates().iter().map(|delegate| payload(method, delegate)).collect();
        for instruction in method.plan().chains().iter().flat_map(|chain| chain.instructions().iter()) {
            for value in written(instruction, &payloads) {
                writers.entry(value).and_modify(|writer| *writer = None).or_insert(Some(instruction));
            }
        }
        Self { method, writers, payloads }
    }

    /// Whether some value between input and output is quantised.
    fn is_quantised(&self) -> bool {
        let by_operators =
            self.method.plan().operators().iter().any(|operator| quantises(operator.name().unwrap_or("")));
        let files = self.payloads.iter().flatten().filter_map(|payload| File::parse(payload).ok());
        by_operators
            || files.into_iter().any(|file| {
                let mut values = file.values().iter().filter(|value| value.tensor().constant().is_none());
                values.any(|value| !matches!(value.quantization(), Quantization::None))
            })
    }

    /// The step of a value, if it has one. `left` counts the values that may still be looked at.
    fn step(&self, value: i32, left: &mut usize) -> Option<f64> {
        *left = left.checked_sub(1)?;
        match self.writers.get(&value).copied().flatten()?.instr_args() {
            InstructionArguments::KernelCall(call) => self.step_of_call(call, left),
            InstructionArguments::DelegateCall(call) => self.step_of_delegate(call, value, left),
            _ => None,
        }
    }

    fn step_of_call(&self, call: KernelCall<'a>, left: &mut usize) -> Option<f64> {
        let operator = self.method.plan().operators().get(usize::try_from(call.op_index()).ok()?)?;
        let name = operator.name()?;
        let argument = |index| call.args().get(index).and_then(|value| self.value(value));
        if name == DEQUANTIZE {
            let KernelTypes::Double(scale) = argument(1)? else { return None };
            return Some(scale.double_val());
        }
        if !MOVES.contains(&name) {
            return None;
        }
        match argument(0)? {
            KernelTypes::TensorList(list) => same(list.items().iter().map(|value| self.step(value, left))),
            _ => self.step(call.args().get(0)?, left),
        }
    }

    fn value(&self, index: i32) -> Option<KernelTypes<'a>> {
        Some(self.method.plan().values().get(usize::try_from(index).ok()?)?.val())
    }

    fn step_of_delegate(&self, call: DelegateCall<'a>, value: i32, left: &mut usize) -> Option<f64> {
        let payload = self.payloads.get(usize::try_from(call.delegate_index()).ok()?)?.as_ref()?;
        let file = File::parse(payload).ok()?;
        let position = call.args().iter().position(|own| own == value)?;
        let is_own = |id: Option<u32>| id.and_then(|id| usize::try_from(id).ok()) == Some(position);
        let output =
            file.values().iter().position(|own| own.tensor().is_output() && is_own(own.tensor().external()))?;
        self.step_in_payload(file, call, u32::try_from(output).ok()?, left)
    }

    /// The step of a value of a payload.
    fn step_in_payload(&self, file: File<'_>, call: DelegateCall<'a>, id: u32, left: &mut usize) -> Option<f64> {
        *left = left.checked_sub(1)?;
        let Some(node) = file.nodes().iter().find(|node| node.xnode_union().outputs().any(|output| output == id))
        else {
            let tensor = file.values().get(usize::try_from(id).ok()?)?.tensor();
            let position = usize::try_from(tensor.external().filter(|_| tensor.is_input())?).ok()?;
            return self.step(call.args().get(position)?, left);
        };
        let operation = node.xnode_union();
        if operation.name() == "Convert" {
            let from = file.values().get(usize::try_from(operation.inputs().next()?).ok()?)?;
            let Quantization::PerTensorQuant(quantised) = from.quantization() else { return None };
            return Some(f64::from(quantised.scale()));
        }
        let moves = MOVING_NODES.contains(&operation.name());
        moves.then(|| same(operation.inputs().map(|input| self.step_in_payload(file, call, input, left))))?
    }
}

/// The largest of several steps, if all are known.
fn same(steps: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    steps.into_iter().try_fold(0.0, |most: f64, step| Some(most.max(step?)))
}

/// Whether an operator makes quantised values, or computes with them.
fn quantises(name: &str) -> bool {
    let base = name.split_once("::").map_or(name, |(_, base)| base);
    base.contains("quantize") && !base.starts_with("dequantize") || base.starts_with("choose_qparams")
}

/// The values that an instruction writes: of a kernel's call the last, which is its result, and what stands there again.
fn written<'a>(instruction: Instruction<'a>, payloads: &[Option<Cow<'a, [u8]>>]) -> Vec<i32> {
    match instruction.instr_args() {
        InstructionArguments::KernelCall(call) => {
            let args = call.args();
            args.get(args.len().wrapping_sub(1)).into_iter().collect()
        }
        InstructionArguments::DelegateCall(call) => {
            let payload = usize::try_from(call.delegate_index()).ok().and_then(|index| payloads.get(index)?.as_ref());
            let Some(file) = payload.and_then(|payload| File::parse(payload).ok()) else {
                return call.args().iter().collect();
            };
            let outputs = file.values().iter().map(|value| value.tensor()).filter(|tensor| tensor.is_output());
            let positions = outputs.filter_map(|tensor| usize::try_from(tensor.external()?).ok());
            positions.filter_map(|position| call.args().get(position)).collect()
        }
        InstructionArguments::MoveCall(call) => vec![call.move_to()],
        _ => Vec::new(),
    }
}

/// A delegate's payload, if it is one of XNNPACK.
fn payload<'a>(method: Method<'a>, delegate: BackendDelegate<'a>) -> Option<Cow<'a, [u8]>> {
    (delegate.id()? == xnnpack::BACKEND).then_some(())?;
    let program = method.program();
    match program.file().delegate_payload(delegate)? {
        Payload::Inline(bytes) => Some(bytes.into()),
        Payload::Segment(range) => {
            let length = range.end.checked_sub(range.start)?;
            program.loader().load(range.start, length, Part::Delegate).map(Cow::Borrowed)
        }
    }
}
