//! `XnnpackBackend`: payloads of the XNNPACK delegate on the CPU engine.
//!
//! At load the payload becomes a graph and the graph a model. Weights stay where they are, named data of the program,
//! until a run first needs them, and leave memory once they are packed. Sizes follow the inputs of each call.

mod import;
mod named;

pub use import::import;
use named::{InProgram, Names};
use sconce_core::{
    Backend, Call, Code, CompileSpecs, Delegate, DelegateState, Fault, InitContext, Owned, ScalarType, Shape, Tensor,
    TensorMut,
};
use sconce_cpu::{Model, Options, Session};
use sconce_graph::{Element, Graph, Source, Storage, ValueId};

/// Runs what was delegated to XNNPACK.
#[derive(Debug, Default)]
pub struct XnnpackBackend {
    options: Options,
}

impl XnnpackBackend {
    /// With options of the engine.
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Backend for XnnpackBackend {
    fn name(&self) -> &str {
        "XnnpackBackend"
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        _specs: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let incompatible = |reason: &dyn core::fmt::Display| {
            context.explain(reason);
            Fault::new(Code::DelegateInvalidCompatibility, "its payload cannot be run")
        };
        let mut graph = import(processed).map_err(|error| incompatible(&error))?;
        keep_inline_constants(&mut graph, processed);
        let names = Names::of(&graph, context.program());
        let constants = InProgram { program: context.program(), names: &names };
        let model = Model::new(graph, self.options, &constants).map_err(|error| incompatible(&error))?;
        Ok(Owned::from_box(Box::new(Xnnpack { model, names })))
    }
}

/// Copies constants out of a payload that will not outlive `init`. (Programs of today keep theirs in named data.)
fn keep_inline_constants(graph: &mut Graph, payload: &[u8]) {
    for constant in &mut graph.constants {
        if let Source::Payload(range) = &constant.source {
            let bytes = payload.get(range.clone()).unwrap_or_default();
            constant.source = Source::Bytes(bytes.into());
        }
    }
}

/// A delegated part of a program.
struct Xnnpack {
    model: Model,
    names: Names,
}

impl Delegate for Xnnpack {
    fn outputs(&self) -> usize {
        self.model.graph().outputs.len()
    }

    fn print_plan(&self, threads: usize, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let graph = self.model.graph();
        let bounds: Vec<_> = graph.inputs.iter().map(|&id| graph.ty(id).sizes()).collect();
        match self.model.plan(&bounds.iter().map(Vec::as_slice).collect::<Vec<_>>(), threads) {
            Ok(plan) => write!(out, "{plan}"),
            Err(error) => writeln!(out, "{error}"),
        }
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        Ok(Owned::from_box(Box::<Session>::default()))
    }

    fn execute(&self, state: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        let graph = self.model.graph();
        let lost = Fault::new(Code::InvalidState, "the state belongs to another delegate");
        let session: &mut Session = state.downcast().ok_or(lost)?;
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
        let plan = self.model.plan(&sizes, call.parallel().width()).map_err(|_| unfit)?;
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for (index, (&id, sizes)) in graph.outputs.iter().zip(plan.outputs()).enumerate() {
            let argument = inputs.len() + index;
            let (_, declared) = call.tensor_type(argument)?;
            let output = call.out(argument, &logical(&declared, sizes))?;
            check_output(graph, id, &output).map_err(|fault| fault.at(argument))?;
            outputs.push(output);
        }
        let constants = InProgram { program: call.program(), names: &self.names };
        let mut bytes: Vec<&mut [u8]> = outputs.iter_mut().map(produced).collect();
        let ran = self.model.run(&plan, session, call.parallel(), &constants, &inputs, &mut bytes);
        ran.map_err(|_| Fault::new(Code::Internal, "the delegate's plan does not fit its arguments"))?;
        outputs.iter_mut().filter(|output| output.dtype == ScalarType::Long).for_each(widen);
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
fn produced<'a>(output: &'a mut TensorMut<'_>) -> &'a mut [u8] {
    let bytes = match output.dtype {
        ScalarType::Long => output.data.len() / 2,
        _ => output.data.len(),
    };
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
