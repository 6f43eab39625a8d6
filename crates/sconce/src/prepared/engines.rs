//! What of a method runs on engines: delegates whose payloads are graphs, and runs of calls.

use super::{Planned, alone};
use crate::Error;
use crate::blocks::Blocks;
use crate::folding::Folding;
use crate::module::Shared;
pub(crate) use sconce_backends::Part;
use sconce_backends::{Engines, Imported, has_varying_sizes};
use sconce_core::{Code, DataLoader as _, Delegate, Fault, Method, Owned, Registry as _};
use sconce_flow::{Callee, Known};
use sconce_format::pte::{KernelTypes, Payload};
use sconce_graph::Graph;
use sconce_graph::payload::Function;

/// Bytes of constants up to those of a page come from a file with their neighbours.
const PAGE: usize = 4096;

/// What a delegate is on engines, if it is.
pub(crate) fn part(delegate: &dyn Delegate) -> Option<&Part> {
    delegate.downcast_ref()
}

/// The payloads of a method that are graphs, each read once.
pub(super) struct Imports {
    /// By the number of the delegate.
    read: Vec<Option<Imported>>,
    /// Who runs those that do not join the calls around them.
    engines: Engines,
}

impl Imports {
    pub(super) fn of(shared: &Shared, method: Method<'_>) -> Self {
        let registry = &shared.options.registry;
        let delegates = method.plan().delegates().iter();
        let read = delegates.map(|delegate| registry.graphs(delegate.id()?)?.import(method, delegate)).collect();
        Self { read, engines: shared.options.engines(shared.pool.width(), has_varying_sizes(method)) }
    }

    /// Graphs that can join the calls around them.
    fn graphs(&self) -> Vec<Option<&Graph>> {
        let plain = |function: &&Function| function.is_plain();
        let read = self.read.iter().map(|import| import.as_ref()?.as_ref().ok());
        read.map(|function| function.filter(plain).map(|function| &function.graph)).collect()
    }

    /// Makes a delegate of what was read; `None` for one that is no graph.
    pub(super) fn delegate(&mut self, method: Method<'_>, index: usize) -> Option<Result<Owned<dyn Delegate>, Error>> {
        let import = self.read.get_mut(index)?.take()?;
        let made = import.map_err(|error| error.to_string()).and_then(|function| {
            Part::new(function, &self.engines, method.program(), &[]).map_err(|error| error.to_string())
        });
        release(method, index);
        let name = method.backend_name(index).unwrap_or_default().to_owned();
        Some(match made {
            Ok(part) => Ok(Owned::from_box(Box::new(part) as Box<dyn Delegate>)),
            Err(reason) => {
                let fault = Fault::new(Code::DelegateInvalidCompatibility, "its payload cannot be run");
                Err(Error::Backend { name, fault, reason })
            }
        })
    }
}

/// Runs of calls that engines take.
#[derive(Default)]
pub(super) struct Regions {
    pub(super) planned: Planned,
    /// Who runs them, in the same order.
    pub(super) delegates: Vec<Owned<dyn Delegate>>,
    /// Why others are not among them, if there is something to say.
    pub(super) reason: Option<String>,
}

/// Says that a payload was read.
fn release(method: Method<'_>, index: usize) {
    let program = method.program();
    let payload = method.plan().delegates().get(index).and_then(|delegate| program.file().delegate_payload(delegate));
    if let Some(Payload::Segment(range)) = payload {
        program.loader().release(range.start, range.end.saturating_sub(range.start));
    }
}

/// The runs of calls that engines take, given the results that are known.
pub(super) fn regions(
    shared: &Shared,
    method: usize,
    blocks: &mut Blocks,
    folding: &Folding,
    imports: &Imports,
) -> Result<Regions, Error> {
    let (loaded, view, registry) = (shared.loaded(method)?, shared.method(method), &shared.options.registry);
    let callee = |op: usize| {
        let id = *loaded.kernels.get(op)?;
        Some(Callee { writes: registry.kernel(id)?.writes(), standard: registry.is_standard(id) })
    };
    let is_folded = |instruction: u32| folding.skips(instruction);
    // One delegate alone is planned as well by itself.
    let calls: usize = view.plan().chains().iter().map(|chain| chain.instructions().len()).sum();
    let graphs = if calls > 1 { imports.graphs() } else { Vec::new() };
    // Tensors whose sizes change are in no graph of calls.
    let engines: Engines = shared.options.engines(shared.pool.width(), false);
    let found = blocks.execute(alone(shared, method), &mut [], |execution| {
        let execution = &*execution;
        let bytes = |value: u32| match folding.result(value) {
            Some(bytes) => Some(bytes),
            None => match view.plan().values().get(usize::try_from(value).ok()?)?.val() {
                KernelTypes::Tensor(tensor) if tensor.is_constant() => {
                    execution.tensor(value).ok().map(|tensor| tensor.data)
                }
                _ => None,
            },
        };
        let known = Known { callee: &callee, is_folded: &is_folded, bytes: &bytes, graphs: &graphs };
        let make = |graph: Graph, values: &[(u32, &[u8])]| {
            let part = Part::new(Function::of(graph), &engines, view.program(), values);
            part.map(|part| Owned::from_box(Box::new(part) as Box<dyn Delegate>)).map_err(|error| error.to_string())
        };
        let found = sconce_flow::regions(view, &known, &make);
        // Of constants that go into a region as they are, single pages would wait behind the packed weights, one after the other.
        let given = found.regions.iter().flat_map(|region| &region.args);
        let constants = given.filter_map(|&value| bytes(value));
        constants.filter(|bytes| bytes.len() > PAGE).for_each(|bytes| shared.loader.will_read(bytes));
        found
    })?;
    let mut regions = Regions { reason: found.reason, ..Regions::default() };
    for region in found.regions {
        let delegate = view.delegates() + regions.delegates.len();
        regions.planned.push(region.instructions, &region.args, region.calls, delegate);
        regions.delegates.push(region.delegate);
    }
    Ok(regions)
}
