//! `GgmlBackend`: payloads of the ggml delegate on the ggml engine.
//!
//! At load the payload is read and its weights are copied to the device, once for all sessions; the pages of the file that
//! they came from are released. A session's threads and buffers are made when it first runs.

use core::fmt::Display;
use sconce_core::{
    Backend, Call, Code, CompileSpecs, Delegate, DelegateState, Fault, InitContext, OptionValue, Owned, RuntimeOption,
    ScalarType, Tensor,
};
use sconce_format::ggml::{Graph, Role};
use sconce_ggml::{Error, Model};
pub use sconce_ggml::{Options, Session};

/// Runs what was delegated to ggml.
///
/// The runtime options `device` (`cpu`, `gpu`, or a name of ggml's) and `threads` come first, then the environment
/// (`GGML_BACKEND_DEVICE`, `GGML_CPU_THREADS`); else it computes on a device of its own if this build has one, with the
/// threads of the module.
#[derive(Debug, Default)]
pub struct GgmlBackend {
    options: Options,
}

impl GgmlBackend {
    /// The name that programs ask for.
    pub const NAME: &str = sconce_format::ggml::BACKEND;

    /// With options of the engine.
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Backend for GgmlBackend {
    fn name(&self) -> &str {
        Self::NAME
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
        let options = context.options().iter().fold(self.options.clone(), apply);
        let part =
            Part::new(processed, options, &|key| context.named_data(key)).map_err(|error| incompatible(&error))?;
        for tensor in &part.model.graph().tensors {
            if let Role::Constant(key) | Role::State(Some(key)) = &tensor.role {
                context.program().release_named_data(key);
            }
        }
        Ok(Owned::from_box(Box::new(part)))
    }
}

/// The engine's options with one of the load's applied.
fn apply(mut options: Options, option: &RuntimeOption<'_>) -> Options {
    match (option.key, option.value) {
        ("device", OptionValue::Str(name)) => options.device = Some(name.to_owned()),
        ("threads", OptionValue::Int(count)) => options.threads = usize::try_from(count).ok(),
        ("memory_limit", OptionValue::Int(bytes)) => options.memory_limit = usize::try_from(bytes).ok(),
        _ => {}
    }
    options
}

fn from_environment(mut options: Options) -> Options {
    let named = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
    options.device = options.device.or_else(|| named("GGML_BACKEND_DEVICE"));
    options.threads = options.threads.or_else(|| named("GGML_CPU_THREADS")?.parse().ok());
    options
}

/// A payload on the engine: what the delegate of a program runs, and another runtime without one.
pub struct Part {
    model: Model,
}

/// The memory of an output, by its number, element type and sizes.
pub type Output<'a, 'o> = &'a mut dyn FnMut(usize, ScalarType, &[usize]) -> Result<&'o mut [u8], Fault>;

impl Part {
    /// Reads a payload and copies its weights, found by their names, to the device.
    pub fn new<'d>(payload: &[u8], options: Options, data: &dyn Fn(&str) -> Option<&'d [u8]>) -> Result<Self, String> {
        let graph = Graph::read(payload).map_err(|error| error.to_string())?;
        Ok(Self { model: Model::new(graph, from_environment(options), data)? })
    }

    /// How many inputs and outputs it has.
    pub fn counts(&self) -> (usize, usize) {
        (self.model.inputs().len(), self.model.outputs().len())
    }

    /// What one caller's runs change, with so many threads unless an option or the environment says otherwise.
    pub fn session(&self, threads: usize) -> Result<Session, String> {
        self.model.session(threads)
    }

    /// Runs. `explain` hears in a sentence of any length why it cannot; the fault says it in short.
    pub fn run<'o>(
        &self,
        session: &mut Session,
        inputs: &[Tensor<'_>],
        output: Output<'_, 'o>,
        explain: &dyn Fn(&dyn Display),
    ) -> Result<(), Fault> {
        let (places, results) = (self.model.inputs(), self.model.outputs());
        if inputs.len() != places.len() {
            let count = Fault::new(Code::InvalidProgram, "the delegate takes {} inputs, not {}");
            return Err(count.with([places.len(), inputs.len()]));
        }
        for (index, (&place, tensor)) in places.iter().zip(inputs).enumerate() {
            if self.dtype(place) != Some(tensor.dtype) || !tensor.shape.order().is_sorted() {
                let unfit = Fault::new(Code::InvalidType, "the delegate takes another element type or order here");
                return Err(unfit.at(index));
            }
        }
        let sizes: Vec<&[usize]> = inputs.iter().map(Tensor::sizes).collect();
        let made = self.model.output_sizes(session, &sizes).map_err(|reason| {
            explain(&reason);
            Fault::new(Code::InvalidArgument, "the sizes of the inputs do not suit the delegate")
        })?;
        let mut outputs = Vec::with_capacity(results.len());
        for (index, (&place, sizes)) in results.iter().zip(&made).enumerate() {
            let none = Fault::new(Code::InvalidProgram, "output {} has an element type that no program has");
            outputs.push(output(index, self.dtype(place).ok_or(none.with([index]))?, sizes)?);
        }
        let data: Vec<&[u8]> = inputs.iter().map(|tensor| tensor.data).collect();
        self.model.run(session, &sizes, &data, &mut outputs).map_err(|error| {
            explain(&error);
            match error {
                Error::Index { input, below } => {
                    Fault::new(Code::InvalidArgument, "an index is not below {}").with([below]).at(input)
                }
                Error::Other(_) => Fault::new(Code::Internal, "ggml could not compute the delegate"),
            }
        })
    }

    /// The element type of a tensor of the graph, as programs know it.
    fn dtype(&self, place: u32) -> Option<ScalarType> {
        self.model.graph().get(place)?.element.scalar()
    }
}

/// Made when it first runs, because only then it is known on how many threads.
#[derive(Default)]
struct Lazy(Option<Session>);

impl Delegate for Part {
    fn outputs(&self) -> usize {
        self.model.outputs().len()
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        Ok(Owned::from_box(Box::<Lazy>::default()))
    }

    fn execute(&self, state: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        let lost = Fault::new(Code::InvalidState, "the state belongs to another delegate");
        let Lazy(session) = state.downcast().ok_or(lost)?;
        let session = match session {
            Some(session) => session,
            None => {
                let no_memory = Fault::new(Code::MemoryAllocationFailed, "ggml has no memory for a session");
                session.insert(self.session(call.parallel().width()).map_err(|_| no_memory)?)
            }
        };
        let (inputs, outputs) = self.counts();
        if call.len() != inputs + outputs {
            let count = Fault::new(Code::InvalidProgram, "the delegate takes {} arguments, the call passes {}");
            return Err(count.with([inputs + outputs, call.len()]));
        }
        let tensors = (0..inputs).map(|index| call.tensor(index)).collect::<Result<Vec<_>, _>>()?;
        let mut output = |index, dtype, sizes: &[usize]| {
            let output = call.out(inputs + index, sizes)?;
            if output.dtype != dtype || !output.shape.order().is_sorted() {
                let unfit = Fault::new(Code::InvalidType, "the delegate gives another element type or order here");
                return Err(unfit.at(inputs + index));
            }
            Ok(output.data)
        };
        self.run(session, &tensors, &mut output, &|_| {})
    }
}
