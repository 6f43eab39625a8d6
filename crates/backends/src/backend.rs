//! A format of payloads under the name that programs ask for.
//!
//! At load the payload becomes a graph and the graph models of engines. Weights stay where they are, named data of the program
//! or a part of the payload, until a run first needs them, and leave memory once they are packed.

use crate::{Engines, Part};
use sconce_core::{Backend, Code, CompileSpecs, Delegate, Fault, InitContext, Method, Owned, Part as Piece, Program};
use sconce_format::pte::{BackendDelegate, KernelTypes, Payload as Bytes};
use sconce_graph::payload::{Context, Function, Payload, Unreadable};
use sconce_graph::{Graph, Source};
use std::ops::Range;
use std::sync::Arc;

/// Runs the payloads of one format on engines.
#[derive(Clone)]
pub struct GraphBackend {
    payload: Arc<dyn Payload>,
    engines: Engines,
}

/// A function of a payload, read.
pub type Imported = Result<Function, Unreadable>;

impl GraphBackend {
    /// On these engines.
    pub fn new(payload: impl Payload + 'static, engines: Engines) -> Self {
        Self { payload: Arc::new(payload), engines }
    }

    /// The function that a delegate of a method is; `None` if its payload is not in the program.
    pub fn import(&self, method: Method<'_>, delegate: BackendDelegate<'_>) -> Option<Imported> {
        let program = method.program();
        let (payload, position) = match program.file().delegate_payload(delegate)? {
            Bytes::Inline(bytes) => (bytes, program.position(bytes)),
            Bytes::Segment(range) => {
                let length = range.end.checked_sub(range.start)?;
                (program.loader().load(range.start, length, Piece::Delegate)?, Some(range.start))
            }
        };
        let specs = CompileSpecs::of(delegate);
        Some(self.read(payload, position, method.name(), &specs, program))
    }

    fn read(
        &self,
        payload: &[u8],
        position: Option<u64>,
        method: &str,
        specs: &CompileSpecs<'_>,
        program: Program<'_>,
    ) -> Imported {
        let context = Context { method, spec: &|key| specs.get(key), data: &|key| program.named_data(key) };
        let mut functions = self.payload.read(payload, &context)?;
        let names: Vec<_> = functions.iter().map(|function| function.name.clone()).collect();
        let place = names.iter().position(|name| name == method).or((functions.len() == 1).then_some(0));
        let mut function = functions.swap_remove(place.ok_or_else(|| {
            Unreadable::from(format!("the payload has functions {names:?} and none for the method {method}"))
        })?);
        place_inline_constants(&mut function.graph, payload, position);
        Ok(function)
    }
}

impl Backend for GraphBackend {
    fn name(&self) -> &str {
        self.payload.backend()
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        specs: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let incompatible = |reason: &dyn core::fmt::Display| {
            context.explain(reason);
            Fault::new(Code::DelegateInvalidCompatibility, "its payload cannot be run")
        };
        let (program, method) = (context.program(), context.method());
        let function = self.read(processed, context.position(), method, &specs, program);
        let function = function.map_err(|error| incompatible(&error))?;
        let mut engines = self.engines.clone();
        engines.options.width = context.parallel().width();
        engines.options.varies = program.method(method).is_ok_and(has_varying_sizes);
        let part = Part::new(function, &engines, program, &[]).map_err(|error| incompatible(&error))?;
        Ok(Owned::from_box(Box::new(part)))
    }
}

/// Whether a tensor of a method may have other sizes than those declared.
pub fn has_varying_sizes(method: Method<'_>) -> bool {
    let varies = |value: KernelTypes<'_>| matches!(value, KernelTypes::Tensor(tensor) if tensor.is_dynamic());
    method.plan().values().iter().any(|value| varies(value.val()))
}

/// Says where in the program's file the constants of a payload at this position are; copies them, if it has none: the
/// payload does not outlive the load. (Programs of today keep constants in named data.)
fn place_inline_constants(graph: &mut Graph, payload: &[u8], position: Option<u64>) {
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
