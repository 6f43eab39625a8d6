//! A function of a payload, or a run of calls, as a delegate.
//!
//! | module | the one thing it knows |
//! |---|---|
//! | `border` | how tensors of the program are values of the graph |
//! | `places` | where values are while the part runs |
//! | `run` | what a session does in a call |

mod border;
mod places;
mod run;

use crate::Engines;
use crate::constants::{InProgram, Names};
use crate::cut::{Cut, Piece, cut};
use places::{Border, Place, Places, RoomPlan};
use run::Running;
use sconce_core::{Call, Code, Delegate, DelegateState, Fault, Owned, Program};
use sconce_graph::engine::{Error, Model, PlanReport};
use sconce_graph::passes::remove_dead;
use sconce_graph::payload::Function;
use sconce_graph::{Constants, Graph, Shape, Source, Type};
use std::fmt::{self, Write as _};
use std::mem::take;
use std::sync::Arc;

/// A part of a program that engines run.
pub struct Part {
    pieces: Vec<Planned>,
    /// The types of the call's inputs and outputs.
    inputs: Vec<Type>,
    outputs: Vec<Type>,
    /// Those of what outlives a call come first.
    rooms: Vec<RoomPlan>,
    /// Rooms that are copied when all pieces have run, and where to.
    copies: Vec<(usize, Place)>,
    /// Why nodes are not on the first engine.
    refusals: Vec<String>,
    names: Names,
    /// The values of the method that are constants of a graph.
    values: Vec<u32>,
    /// Most bytes of the rooms of a session.
    memory: usize,
}

/// What one engine runs.
struct Planned {
    engine: String,
    model: Arc<dyn Model>,
    /// Where its inputs are, and its outputs.
    inputs: Vec<Place>,
    outputs: Vec<Place>,
}

impl Part {
    /// Makes a function of a program ready on engines. `values` has the bytes of the method's values that are constants of
    /// the graph, in the order of their numbers.
    pub fn new(
        function: Function,
        engines: &Engines,
        program: Program<'_>,
        values: &[(u32, &[u8])],
    ) -> Result<Self, Error> {
        let invalid = |text| Error::Refused(format!("the function {:?}: {text}", function.name));
        function.verify().map_err(invalid)?;
        let names = Names::of(&function.graph, program);
        let border = Border::of(&function);
        let constants = InProgram { program, names: &names, values };
        let (Cut { pieces, refusals }, models) = models(function.graph, engines, &constants)?;
        let Places { inputs, outputs, rooms, copies } = border.places(&pieces, &engines.list)?;
        let own = pieces.iter().zip(models).zip(inputs.into_iter().zip(outputs));
        let own = own.map(|((piece, model), (inputs, outputs))| {
            let engine = engines.list[piece.engine].name().to_owned();
            Planned { engine, model, inputs, outputs }
        });
        let pieces: Vec<_> = own.collect();
        let values = values_of(pieces.iter().map(|piece| piece.model.graph()));
        let (inputs, outputs) = (border.input_types(), border.output_types());
        Ok(Self { pieces, inputs, outputs, rooms, copies, refusals, names, values, memory: engines.options.memory })
    }

    /// What each engine does in a run with the largest inputs on so many threads.
    pub fn plans(&self, width: usize) -> Vec<Result<PlanReport, Error>> {
        let plan = |piece: &Planned| {
            let graph = piece.model.graph();
            let bounds: Vec<_> = graph.inputs.iter().map(|&id| graph.ty(id).sizes()).collect();
            piece.model.report(&bounds.iter().map(Shape::as_slice).collect::<Vec<_>>(), width)
        };
        self.pieces.iter().map(plan).collect()
    }

    /// The same as text.
    pub fn plan_text(&self, width: usize) -> String {
        self.text(self.plans(width).into_iter().map(Some))
    }

    /// Takes the time of every step of a session from now on.
    pub fn watch(&self, state: &mut dyn DelegateState) {
        let running: Option<&mut Running> = state.downcast();
        running.into_iter().flat_map(|running| &mut running.sessions).for_each(|session| session.watch());
    }

    /// What each engine did in the last run of a session, and how long its steps took at best.
    pub fn times(&self, state: &mut dyn DelegateState) -> Vec<Option<PlanReport>> {
        let running: Option<&mut Running> = state.downcast();
        running.into_iter().flat_map(|running| &running.sessions).map(|session| session.report()).collect()
    }

    /// The same as text.
    pub fn times_text(&self, state: &mut dyn DelegateState) -> String {
        self.text(self.times(state).into_iter().map(|times| times.map(Ok)))
    }

    /// Gives what engines have packed of their weights so far, under the names by which they find it.
    pub fn packed(&self, sink: &mut dyn FnMut(&str, &[u8])) {
        self.pieces.iter().for_each(|piece| piece.model.packed(sink));
    }

    /// Reports of all pieces, with their engines if there are several.
    fn text(&self, reports: impl Iterator<Item = Option<Result<PlanReport, Error>>>) -> String {
        let mut text = String::new();
        self.write(reports, &mut text).expect("writing to a string does not fail");
        text
    }

    fn write(
        &self,
        reports: impl Iterator<Item = Option<Result<PlanReport, Error>>>,
        text: &mut String,
    ) -> fmt::Result {
        for (piece, report) in self.pieces.iter().zip(reports) {
            if self.pieces.len() > 1 {
                writeln!(text, "on {}:", piece.engine)?;
            }
            match report {
                None => {}
                Some(Ok(report)) => write!(text, "{report}")?,
                Some(Err(error)) => writeln!(text, "{error}")?,
            }
        }
        self.refusals.iter().try_for_each(|refusal| writeln!(text, "{refusal}"))
    }
}

impl Delegate for Part {
    fn outputs(&self) -> usize {
        self.outputs.len()
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        let running = Running::new(self).map_err(|error| match error {
            Error::Memory(_) => {
                Fault::new(Code::MemoryAllocationFailed, "there is not enough memory for what outlives a call")
            }
            _ => Fault::new(Code::Internal, "an engine cannot make what outlives a call"),
        })?;
        Ok(Owned::from_box(Box::new(running)))
    }

    fn copy_state(&self, state: &dyn DelegateState) -> Result<Owned<dyn DelegateState>, Fault> {
        let lost = Fault::new(Code::InvalidState, "the state belongs to another delegate");
        let running: &Running = state.downcast_ref().ok_or(lost)?;
        let lacking = Fault::new(Code::MemoryAllocationFailed, "there is no memory for a copy of what outlives a call");
        let copy = running.copy(self).map_err(|_| lacking)?;
        Ok(Owned::from_box(Box::new(copy)))
    }

    fn print_reason(&self, state: &mut dyn DelegateState, out: &mut dyn fmt::Write) -> fmt::Result {
        let reason = state.downcast().map(|running: &mut Running| take(&mut running.reason));
        out.write_str(&reason.unwrap_or_default())
    }

    fn execute(&self, state: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        let lost = Fault::new(Code::InvalidState, "the state belongs to another delegate");
        let running: &mut Running = state.downcast().ok_or(lost)?;
        running.run(self, call)
    }
}

/// A graph cut between engines, and a model of each piece. An engine that took nodes one by one, and then not as a piece, is
/// offered none any more.
fn models(mut graph: Graph, engines: &Engines, constants: &dyn Constants) -> Result<(Cut, Vec<Arc<dyn Model>>), Error> {
    let mut offered: Vec<usize> = (0..engines.list.len()).collect();
    let last = offered.last().copied().ok_or_else(|| Error::Refused("there is no engine".to_owned()))?;
    let model = |piece: &mut Piece| {
        let made = engines.list[piece.engine].model(take(&mut piece.graph), &engines.options, constants);
        made.map_err(|error| (piece.engine, error))
    };
    let mut said = Vec::new();
    if offered.len() > 1 {
        remove_dead(&mut graph);
    }
    while offered.len() > 1 {
        let Cut { mut pieces, refusals } = cut(&graph, &engines.list, &offered);
        match pieces.iter_mut().map(model).collect::<Result<Vec<_>, _>>() {
            Ok(models) => {
                said.extend(refusals);
                return Ok((Cut { pieces, refusals: said }, models));
            }
            Err((engine, error)) if engine != last => {
                said.push(format!("{}: {error}", engines.list[engine].name()));
                offered.retain(|own| *own != engine);
            }
            Err((_, error)) => return Err(error),
        }
    }
    let mut whole = Piece::whole(graph, last);
    let model = model(&mut whole).map_err(|(_, error)| error)?;
    Ok((Cut { pieces: vec![whole], refusals: said }, vec![model]))
}

/// The values of the method that are constants of graphs, in order.
fn values_of<'g>(graphs: impl Iterator<Item = &'g Graph>) -> Vec<u32> {
    let values = graphs.flat_map(|graph| &graph.constants).filter_map(|constant| match constant.source {
        Source::Value(value) => Some(value),
        _ => None,
    });
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}
