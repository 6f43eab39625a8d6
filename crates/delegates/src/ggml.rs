//! `GgmlBackend`: payloads of the ggml delegate on the ggml engine.
//!
//! At load the payload is read and its weights are copied to the device, once for all sessions; the pages of the file that
//! they came from are released. A session's threads and buffers are made when it first runs.

use sconce_core::{
    Backend, Call, Code, CompileSpecs, Delegate, DelegateState, Fault, InitContext, OptionValue, Owned, RuntimeOption,
    TensorMut,
};
use sconce_format::ggml::{Element, Graph, Role};
use sconce_ggml::{Error, Model, Options, Session};

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
    pub const NAME: &str = "GgmlBackend";

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
        let graph = Graph::read(processed).map_err(|error| incompatible(&error))?;
        let options = context.options().iter().fold(self.options.clone(), apply);
        let model = Model::new(graph, from_environment(options), &|key| context.named_data(key));
        let model = model.map_err(|error| incompatible(&error))?;
        for tensor in &model.graph().tensors {
            if let Role::Constant(key) | Role::State(Some(key)) = &tensor.role {
                context.program().release_named_data(key);
            }
        }
        Ok(Owned::from_box(Box::new(Part { model })))
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

/// A part of a program that the engine runs.
struct Part {
    model: Model,
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
                session.insert(self.model.session(call.parallel().width()).map_err(|_| no_memory)?)
            }
        };
        let (places, results) = (self.model.inputs(), self.model.outputs());
        let arguments = places.len() + results.len();
        if call.len() != arguments {
            let count = Fault::new(Code::InvalidProgram, "the delegate takes {} arguments, the call passes {}");
            return Err(count.with([arguments, call.len()]));
        }
        let (mut inputs, mut sizes) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
        for (index, &place) in places.iter().enumerate() {
            let tensor = call.tensor(index)?;
            let dtype = self.element(place).scalar();
            if dtype != Some(tensor.dtype) || !tensor.shape.order().is_sorted() {
                let unfit = Fault::new(Code::InvalidType, "the delegate takes another element type or order here");
                return Err(unfit.at(index));
            }
            sizes.push(tensor.shape.sizes().to_vec());
            inputs.push(tensor.data);
        }
        let sizes: Vec<&[usize]> = sizes.iter().map(Vec::as_slice).collect();
        let unfit = Fault::new(Code::InvalidArgument, "the sizes of the inputs do not suit the delegate");
        let made = self.model.output_sizes(session, &sizes).map_err(|_| unfit)?;
        let mut outputs: Vec<TensorMut<'_>> = Vec::with_capacity(results.len());
        for (index, (&place, sizes)) in results.iter().zip(&made).enumerate() {
            let output = call.out(inputs.len() + index, sizes)?;
            if self.element(place).scalar() != Some(output.dtype) || !output.shape.order().is_sorted() {
                let unfit = Fault::new(Code::InvalidType, "the delegate gives another element type or order here");
                return Err(unfit.at(inputs.len() + index));
            }
            outputs.push(output);
        }
        let mut bytes: Vec<&mut [u8]> = outputs.iter_mut().map(|output| &mut *output.data).collect();
        self.model.run(session, &sizes, &inputs, &mut bytes).map_err(|error| match error {
            Error::Index { input, below } => {
                let none = Fault::new(Code::InvalidArgument, "an index is not below {}");
                none.with([below, 0]).at(input)
            }
            Error::Other(_) => Fault::new(Code::Internal, "ggml could not compute the delegate"),
        })
    }
}

impl Part {
    fn element(&self, place: u32) -> Element {
        self.model.graph().get(place).map_or(Element::F32, |tensor| tensor.element)
    }
}
