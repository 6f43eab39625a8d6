//! A model of the CPU engine as a delegate.
//!
//! Sizes follow the inputs of each call. Values at the border lie in memory as the program says; the graph counts their
//! dimensions from the outermost to the innermost in memory.

mod constants;

pub(crate) use constants::{InProgram, Names};
use sconce_core::{Call, Code, Delegate, DelegateState, Fault, Owned, ScalarType, Shape, Tensor, TensorMut};
use sconce_cpu::{Error, Model, Session};
use sconce_graph::{Element, Graph, Source, Storage, ValueId};

/// A part of a program that the engine runs.
pub(crate) struct Part {
    model: Model,
    names: Names,
    /// The values of the method that are constants of the graph.
    values: Vec<u32>,
}

/// What a session keeps of a part.
struct Running {
    session: Session,
    /// Why the last run failed.
    reason: String,
}

impl Part {
    pub(crate) fn new(model: Model, names: Names) -> Self {
        let values = model.graph().constants.iter().filter_map(|constant| match constant.source {
            Source::Value(value) => Some(value),
            _ => None,
        });
        let mut values: Vec<u32> = values.collect();
        values.sort_unstable();
        values.dedup();
        Self { model, names, values }
    }
}

impl Delegate for Part {
    fn outputs(&self) -> usize {
        self.model.graph().outputs.len()
    }

    fn print_plan(&self, threads: usize, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let graph = self.model.graph();
        let bounds: Vec<_> = graph.inputs.iter().map(|&id| graph.ty(id).sizes()).collect();
        match self.model.plan(&bounds.iter().map(sconce_graph::Shape::as_slice).collect::<Vec<_>>(), threads) {
            Ok(plan) => self.model.print_plan(&plan, out),
            Err(error) => writeln!(out, "{error}"),
        }
    }

    fn watch(&self, state: &mut dyn DelegateState) {
        state.downcast().into_iter().for_each(|running: &mut Running| running.session.watch());
    }

    fn print_times(&self, state: &mut dyn DelegateState, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        state.downcast().map_or(Ok(()), |running: &mut Running| self.model.print_times(&running.session, out))
    }

    fn packed(&self, sink: &mut dyn FnMut(&str, &[u8])) {
        self.model.packed(sink);
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        Ok(Owned::from_box(Box::new(Running { session: self.model.session(), reason: String::new() })))
    }

    fn print_reason(&self, state: &mut dyn DelegateState, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let reason = state.downcast().map(|running: &mut Running| core::mem::take(&mut running.reason));
        out.write_str(&reason.unwrap_or_default())
    }

    fn execute(&self, state: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        let graph = self.model.graph();
        let lost = Fault::new(Code::InvalidState, "the state belongs to another delegate");
        let Running { session, reason } = state.downcast().ok_or(lost)?;
        let arguments = graph.inputs.len() + graph.outputs.len();
        if call.len() != arguments {
            let count = Fault::new(Code::InvalidProgram, "the delegate takes {} arguments, the call passes {}");
            return Err(count.with([arguments, call.len()]));
        }
        let mut inputs = Vec::with_capacity(graph.inputs.len());
        let mut sizes = Vec::with_capacity(graph.inputs.len());
        for (index, &id) in graph.inputs.iter().enumerate() {
            let tensor = call.tensor(index)?;
            check_input(graph, id, &tensor).map_err(|fault| fault.at(index))?;
            sizes.push(in_memory(&tensor.shape));
            inputs.push(tensor.data);
        }
        let sizes: Vec<&[usize]> = sizes.iter().map(Vec::as_slice).collect();
        let unfit = Fault::new(Code::InvalidArgument, "the sizes of the inputs do not suit the delegate");
        let mut explained = |error: Error, fault: Fault| {
            *reason = error.to_string();
            fault
        };
        let plan = self.model.plan(&sizes, call.parallel().width()).map_err(|error| explained(error, unfit))?;
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for (index, (&id, sizes)) in graph.outputs.iter().zip(plan.outputs()).enumerate() {
            let argument = inputs.len() + index;
            let (_, declared) = call.tensor_type(argument)?;
            let output = call.out(argument, &logical(&declared, sizes))?;
            check_output(graph, id, &output).map_err(|fault| fault.at(argument))?;
            outputs.push(output);
        }
        let values = self.values.iter().filter_map(|&value| Some((value, call.constant_value(value)?)));
        let constants = InProgram { program: call.program(), names: &self.names, values: values.collect() };
        let is_wider = |&id: &ValueId, output: &TensorMut<'_>| border_type(graph, id) != output.dtype;
        let wider: Vec<bool> = graph.outputs.iter().zip(&outputs).map(|(id, output)| is_wider(id, output)).collect();
        let produced = outputs.iter_mut().zip(&wider).map(|(output, wider)| produced(output, *wider));
        let mut bytes: Vec<&mut [u8]> = produced.collect();
        let ran = self.model.run(&plan, session, call.parallel(), &constants, &inputs, &mut bytes);
        let failed = Fault::new(Code::Internal, "the delegate's plan does not fit its arguments");
        ran.map_err(|error| explained(error, failed))?;
        outputs.iter_mut().zip(wider).filter(|(_, wider)| *wider).for_each(|(output, _)| widen(output));
        Ok(())
    }
}

/// The element type of the tensor that holds a value at the border.
fn border_type(graph: &Graph, id: ValueId) -> ScalarType {
    match &graph.ty(id).element {
        Element::Plain(dtype) => *dtype,
        Element::Quantized(quantized) => match quantized.storage {
            Storage::Int8 => ScalarType::Char,
            Storage::UInt8 | Storage::Int4 => ScalarType::Byte,
            Storage::Int32 => ScalarType::Int,
        },
    }
}

fn check_input(graph: &Graph, id: ValueId, tensor: &Tensor<'_>) -> Result<(), Fault> {
    match (border_type(graph, id) == tensor.dtype, aligned(tensor.data, tensor.dtype)) {
        (true, true) => Ok(()),
        (false, _) => Err(Fault::new(Code::InvalidType, "the delegate takes another element type here")),
        (_, false) => Err(Fault::new(Code::InvalidArgument, "the tensor's address is not a multiple of its element")),
    }
}

fn check_output(graph: &Graph, id: ValueId, tensor: &TensorMut<'_>) -> Result<(), Fault> {
    let made = border_type(graph, id);
    let indices = made == ScalarType::Int && tensor.dtype == ScalarType::Long;
    match (made == tensor.dtype || indices, aligned(tensor.data, tensor.dtype)) {
        (true, true) => Ok(()),
        (false, _) => Err(Fault::new(Code::InvalidType, "the delegate gives another element type here")),
        (_, false) => Err(Fault::new(Code::InvalidArgument, "the tensor's address is not a multiple of its element")),
    }
}

fn aligned(bytes: &[u8], dtype: ScalarType) -> bool {
    bytes.as_ptr().addr().is_multiple_of(dtype.size().min(8))
}

/// Sizes from the outermost to the innermost in memory, as the payload counts them. A single element has one dimension
/// there.
fn in_memory(shape: &Shape) -> Vec<usize> {
    match shape.rank() {
        0 => vec![1],
        _ => shape.order().iter().map(|&dim| shape.sizes()[usize::from(dim)]).collect(),
    }
}

/// The sizes of a tensor of this dimension order whose sizes in memory are `sizes`.
fn logical(shape: &Shape, sizes: &[usize]) -> Vec<usize> {
    let mut logical = vec![1; shape.rank()];
    for (&dim, &size) in shape.order().iter().zip(sizes) {
        logical[usize::from(dim)] = size;
    }
    logical
}

/// The bytes of an output that the engine writes: the first half of indices that are widened afterwards.
fn produced<'a>(output: &'a mut TensorMut<'_>, wider: bool) -> &'a mut [u8] {
    let bytes = if wider { output.data.len() / 2 } else { output.data.len() };
    &mut output.data[..bytes]
}

/// Makes words of the half words in the first half, from the last to the first.
fn widen(output: &mut TensorMut<'_>) {
    for index in (0..output.data.len() / 8).rev() {
        let mut narrow = [0; 4];
        narrow.copy_from_slice(&output.data[index * 4..][..4]);
        let wide = i64::from(i32::from_ne_bytes(narrow));
        output.data[index * 8..][..8].copy_from_slice(&wide.to_ne_bytes());
    }
}
