//! `XnnpackBackend`: payloads of the XNNPACK delegate on the CPU engine.
//!
//! At load the payload becomes a graph and the graph a model. Weights stay where they are, named data of the program or a
//! part of the payload, until a run first needs them, and leave memory once they are packed.

mod import;

use crate::engine::{InProgram, Names, Part};
pub use import::import;
use sconce_core::{Backend, Code, CompileSpecs, Delegate, Fault, InitContext, OptionValue, Owned, RuntimeOption};
use sconce_cpu::{Model, Options, Rounding};
use sconce_format::pte::KernelTypes;
use sconce_graph::{Graph, Source};
use std::ops::Range;

/// Runs what was delegated to XNNPACK. The runtime option `exact` leaves out methods that round more than plain sums of
/// products do; `rounding` is that of `xnnpack` or `pytorch`; `instructions` names the instruction set.
#[derive(Debug, Default)]
pub struct XnnpackBackend {
    /// The engine's defaults, as they are when a program is loaded, unless given.
    options: Option<Options>,
}

impl XnnpackBackend {
    /// The name that programs ask for.
    pub const NAME: &str = sconce_format::xnnpack::BACKEND;

    /// With options of the engine.
    pub fn new(options: Options) -> Self {
        Self { options: Some(options) }
    }
}

impl Backend for XnnpackBackend {
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
        let mut graph = import(processed).map_err(|error| incompatible(&error))?;
        place_inline_constants(&mut graph, processed, context.position());
        let names = Names::of(&graph, context.program());
        let constants = InProgram { program: context.program(), names: &names, values: Vec::new() };
        let (width, varies) = (context.parallel().width(), has_varying_sizes(context));
        let options = Options { width, varies, ..self.options.unwrap_or_default() };
        let options = context
            .options()
            .iter()
            .try_fold(options, apply)
            .ok_or_else(|| incompatible(&"this machine lacks the instruction set that was asked for"))?;
        let model = Model::new(graph, options, &constants).map_err(|error| incompatible(&error))?;
        Ok(Owned::from_box(Box::new(Part::new(model, names))))
    }
}

/// Whether a tensor of the method may have other sizes than those declared.
fn has_varying_sizes(context: &InitContext<'_>) -> bool {
    let varies = |value: KernelTypes<'_>| matches!(value, KernelTypes::Tensor(tensor) if tensor.is_dynamic());
    let method = context.program().method(context.method());
    method.is_ok_and(|method| method.plan().values().iter().any(|value| varies(value.val())))
}

/// The engine's options with one of the load's applied.
fn apply(options: Options, option: &RuntimeOption<'_>) -> Option<Options> {
    match (option.key, option.value) {
        ("exact", OptionValue::Bool(exact)) => Some(Options { exact: options.exact || exact, ..options }),
        ("rounding", OptionValue::Str("pytorch")) => Some(Options { rounding: Rounding::PyTorch, ..options }),
        ("rounding", OptionValue::Str("xnnpack")) => Some(Options { rounding: Rounding::Xnnpack, ..options }),
        ("instructions", OptionValue::Str(name)) => options.with_instructions(name),
        ("memory_limit", OptionValue::Int(bytes)) => {
            let memory = usize::try_from(bytes).map_or(options.memory, |bytes| bytes.min(options.memory));
            Some(Options { memory, ..options })
        }
        _ => Some(options),
    }
}

/// Says where in the program's file the constants of a payload at this position are; copies them, if it has none: the
/// payload does not outlive `init`. (Programs of today keep constants in named data.)
pub(crate) fn place_inline_constants(graph: &mut Graph, payload: &[u8], position: Option<u64>) {
    for constant in &mut graph.constants {
        let Source::Payload(range) = &constant.source else { continue };
        constant.source = match position.and_then(|position| moved(range, position)) {
            Some(range) => Source::Program(range),
            None => Source::Bytes(payload.get(range.clone()).unwrap_or_default().into()),
        };
    }
}

/// A range that counts from a position.
fn moved(range: &Range<usize>, position: u64) -> Option<Range<u64>> {
    let place = |at: usize| position.checked_add(u64::try_from(at).ok()?);
    Some(place(range.start)?..place(range.end)?)
}
