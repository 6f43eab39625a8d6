//! Who runs graphs.
//!
//! An [`Engine`] says which nodes it takes, and makes a [`Model`] of a graph and its constants. A model is shared by all who
//! run it; each of them opens a [`Session`]. A session plans for the sizes at hand, starts a run and waits for its end:
//!
//! ```text
//! Engine ─ model(graph, options, constants) ─▶ Model ─ session() ─▶ Session ─ plan · submit · wait
//! ```
//!
//! An engine that computes on the caller's processor does all of a run in `submit`. One with memory of its own copies what
//! lies in host memory, or takes and gives [`Buffer`]s that stay on its device from one part of a program to the next.
//!
//! A graph need not go to one engine: whoever joins graphs with engines asks [`Engine::takes`] for every node, cuts the
//! graph between them, and tells why a node did not go where it was wanted.

mod options;
mod report;
mod reuse;

use crate::graph::{Constants, Graph, Node};
use crate::infer::Shape;
pub use options::{Options, Precision, Rounding};
pub use report::{PlanReport, StepReport};
pub use reuse::reuse;
use sconce_parallel::Parallel;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Something that runs graphs.
pub trait Engine: Send + Sync {
    /// Its name, as people choose it.
    fn name(&self) -> &str;

    /// Whether it runs this node of a graph; else a sentence that says why not.
    fn takes(&self, graph: &Graph, node: &Node) -> Result<(), String>;

    /// Makes a graph ready to be run, which [`verify`](crate::verify) accepts. Its constants must be there; they are read when a
    /// run first needs them.
    fn model(&self, graph: Graph, options: &Options, constants: &dyn Constants) -> Result<Arc<dyn Model>, Error>;

    /// Memory on its device, for values that pass from one of its models to another; `None` if it computes in host memory.
    fn buffer(&self, _bytes: usize) -> Result<Option<Box<dyn Buffer>>, Error> {
        Ok(None)
    }

    /// The weights that it packs under these options, and finds packed; `None` if it packs none.
    fn packs(&self, _options: &Options) -> Option<Packs> {
        None
    }
}

/// How packed weights of one kind are told from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packs {
    /// The name that is among the packed weights of every kind, for what the engine must know of all of them.
    pub mark: &'static str,
    /// What the names of this kind start with.
    pub prefix: String,
    /// What people call the kind.
    pub kind: String,
}

/// A graph that is ready to be run, by any number of sessions at once.
pub trait Model: Send + Sync {
    /// What it computes: the inputs, the outputs, and the constants that runs read.
    fn graph(&self) -> &Graph;

    /// What one caller changes.
    fn session(self: Arc<Self>) -> Box<dyn Session>;

    /// The steps of a run with inputs of these sizes on n threads, with estimates; the nodes, if it does not say.
    fn report(&self, _inputs: &[&[usize]], width: usize) -> Result<PlanReport, Error> {
        Ok(PlanReport::of_nodes(self.graph(), width))
    }

    /// Gives what it has packed of its weights so far, each under the name by which a later model of the same graph and
    /// options finds it ([`Constants::find`]).
    fn packed(&self, _sink: &mut dyn FnMut(&str, &[u8])) {}
}

/// What one caller of a model changes. Runs of different sessions do not wait for each other.
pub trait Session: Any + Send {
    /// Plans the next run, on n threads; tells the sizes of the outputs. The plan stays until another is made.
    fn plan(&mut self, inputs: &[&[usize]], width: usize) -> Result<&[Shape], Error>;

    /// Starts a run as planned. Operands have the sizes of the plan.
    fn submit(&mut self, run: &Run<'_>, inputs: &[Operand<'_>], outputs: &mut [OperandMut<'_>]) -> Result<(), Error>;

    /// Waits until the run has ended, and its outputs, the same as before, are written.
    fn wait(&mut self, _outputs: &mut [OperandMut<'_>]) -> Result<(), Error> {
        Ok(())
    }

    /// Takes the time of every step from now on.
    fn watch(&mut self) {}

    /// The last plan, with the fastest times of its steps since [`Session::watch`].
    fn report(&self) -> Option<PlanReport> {
        None
    }
}

/// What a run uses beside its operands.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Threads of the caller: as many as were planned for.
    pub parallel: &'a dyn Parallel,
    /// Where constants are found.
    pub constants: &'a dyn Constants,
}

/// What a run reads.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// Bytes of the host.
    Host(&'a [u8]),
    /// Memory of the engine's device.
    Device(&'a dyn Buffer),
}

/// What a run writes.
pub enum OperandMut<'a> {
    /// Bytes of the host.
    Host(&'a mut [u8]),
    /// Memory of the engine's device.
    Device(&'a mut dyn Buffer),
}

/// Memory on a device.
pub trait Buffer: Any + Send + Sync {
    /// Copies its first bytes to the host.
    fn read(&self, into: &mut [u8]) -> Result<(), Error>;

    /// Copies bytes of the host to its beginning.
    fn write(&mut self, from: &[u8]) -> Result<(), Error>;
}

impl dyn Buffer {
    /// The buffer as the type that its engine made.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The same, to be written.
    pub fn downcast_mut<T: 'static>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Why an engine cannot do what it was asked for, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It does not run this graph.
    Refused(String),
    /// Inputs of these sizes do not suit the graph.
    Sizes(String),
    /// There is not as much memory, or it may not take as much.
    Memory(String),
    /// The device failed, or was not used as it must be.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(text) | Self::Sizes(text) | Self::Memory(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
