//! Who touches which bytes of a program, and runs of its calls as graphs.
//!
//! A program that was not delegated is a list of calls, each with its own pass over memory. Where the graph can express a
//! run of neighbouring calls, they become one, so that such a program gets fusion, layouts and memory planning too. A
//! delegate among them whose payload is a graph joins with all its nodes, so that a program that was cut into many delegates
//! is whole again. [`regions`] finds these runs when a method is loaded.
//!
//! | module | the one thing it knows |
//! |---|---|
//! | `accesses` | which instruction reads and writes which bytes |
//! | `builder` | values of the program as values of the graph |
//! | `decode` | operators as nodes, a row for each |
//!
//! A run ends at a call that no row takes, at control flow, at instructions to which jumps lead, at tensors whose sizes
//! change and at buffers that outlive a run. What is read after it is written to where the program expects it; all else
//! exists only inside the engine.
#![forbid(unsafe_code)]

mod accesses;
mod builder;
mod decode;

pub use accesses::Callee;
use accesses::{Accesses, Target};
use builder::Builder;
use decode::Site;
use sconce_core::Method;
use sconce_graph::{Graph, Source};
use std::ops::Range;

/// Instructions that run as one.
pub struct Region<D> {
    /// Which.
    pub instructions: Range<u32>,
    /// Values of the method that are read, then those that are written.
    pub args: Vec<u32>,
    /// How many calls it stands for.
    pub calls: usize,
    /// Who runs them.
    pub delegate: D,
}

/// What is known of a method that is to be planned.
pub struct Known<'k> {
    /// The operators, by number.
    pub callee: &'k dyn Fn(usize) -> Option<Callee>,
    /// Instructions that need not run, because their results are known.
    pub is_folded: &'k dyn Fn(u32) -> bool,
    /// The bytes of tensors that are the same in every run, by value.
    pub bytes: &'k dyn Fn(u32) -> Option<&'k [u8]>,
    /// The graphs of delegates that this engine would run, by number.
    pub graphs: &'k [Option<&'k Graph>],
}

/// Makes somebody who runs a graph, given the bytes of its constants that are values of the method, by number; or says why
/// not.
pub type Make<'m, D> = dyn Fn(Graph, &[(u32, &[u8])]) -> Result<D, String> + 'm;

/// The calls of a method that engines take.
pub struct Found<D> {
    /// Runs of them, in order.
    pub regions: Vec<Region<D>>,
    /// Why others are not among them: a sentence about one, if there is something to say.
    pub reason: Option<String>,
}

/// Finds the runs of calls of a method that engines take.
pub fn regions<D>(method: Method<'_>, known: &Known<'_>, make: &Make<'_, D>) -> Found<D> {
    let outputs = |delegate: usize| Some(known.graphs.get(delegate)?.as_ref()?.outputs.len());
    let Some(accesses) = Accesses::new(method, known.callee, known.is_folded, &outputs) else {
        return Found { regions: Vec::new(), reason: None };
    };
    let flow = &accesses;
    let mut planner = Planner { flow, known, make, refused: 0, unlike: None, failure: None };
    let (mut regions, mut start) = (Vec::new(), 0);
    while let Some(first) = flow.steps.get(start) {
        // A region starts with an instruction that runs.
        if first.is_folded {
            start += 1;
            continue;
        }
        let (region, end) = planner.longest(start);
        regions.extend(region);
        start = end.max(start + 1);
    }
    Found { regions, reason: planner.failure.or(planner.unlike) }
}

/// Graphs of a method that the engine may refuse while the longest runs that it takes are looked for.
const MOST_REFUSED: usize = 32;

/// A search for regions.
struct Planner<'p, 'k, 'a, D> {
    flow: &'p Accesses<'a>,
    known: &'p Known<'k>,
    make: &'p Make<'p, D>,
    /// How many graphs the engine has refused.
    refused: usize,
    /// The first call that has no place in a graph.
    unlike: Option<String>,
    /// The first thing that the engine said of a graph.
    failure: Option<String>,
}

impl<'p, 'k, 'a, D> Planner<'p, 'k, 'a, D> {
    /// The longest region from an instruction on, if there is one, and where it ends.
    fn longest(&mut self, start: usize) -> (Option<Region<D>>, usize) {
        let (run, end) = self.run(start..self.flow.steps.len());
        if let Ok(region) = self.region(run, start..end) {
            return (region, end);
        }
        // What the engine refuses, it mostly refuses for one call: the longest part before it is looked for by halves.
        let (mut longest, mut taken, mut refused) = (None, start, end);
        while refused - taken > 1 && self.refused < MOST_REFUSED {
            let middle = taken + (refused - taken) / 2;
            let (run, end) = self.run(start..middle);
            match self.region(run, start..end) {
                Ok(region) => (longest, taken) = (region, middle),
                Err(()) => refused = middle,
            }
        }
        (longest, if self.refused < MOST_REFUSED { taken } else { end })
    }

    /// The longest run of calls from the first of these instructions on, and where it ends.
    fn run(&mut self, steps: Range<usize>) -> (Option<Run<'p, 'k, 'a>>, usize) {
        let flow = self.flow;
        let mut builder = Builder::new(flow, self.known.bytes);
        let (mut calls, mut end) = (0, steps.start);
        while let Some(step) = flow.steps.get(end).filter(|_| end == steps.start || !flow.is_target(end)) {
            if end == steps.end {
                break;
            }
            if !step.is_folded {
                let Some((target, args)) = &step.call else { break };
                let mark = builder.mark();
                if join(&mut builder, self.known, *target, args, end).is_none() {
                    builder.go_back(&mark);
                    self.unlike = self.unlike.take().or_else(|| about(flow, *target, args, end));
                    break;
                }
                calls += 1;
            }
            end += 1;
        }
        ((calls > 0).then_some(Run { builder, calls }), end)
    }

    /// The region of a run, if it is worth one; an error if it cannot be.
    fn region(&mut self, run: Option<Run<'p, 'k, 'a>>, steps: Range<usize>) -> Result<Option<Region<D>>, ()> {
        let Some(Run { builder, calls }) = run.filter(|run| is_worth(&run.builder.graph, run.calls)) else {
            return Ok(None);
        };
        let made = region(self.known, builder, steps, calls, self.make);
        made.map(Some).map_err(|reason| {
            self.refused += 1;
            self.failure = self.failure.take().or(reason);
        })
    }
}

/// Calls as a graph.
struct Run<'f, 'k, 'a> {
    builder: Builder<'f, 'k, 'a>,
    calls: usize,
}

/// Adds one call to a run.
fn join(builder: &mut Builder<'_, '_, '_>, known: &Known<'_>, target: Target, args: &[u32], step: usize) -> Option<()> {
    match target {
        Target::Operator(op) => {
            let name = builder.flow.method.plan().operators().get(op)?.to_string();
            decode::row(&name)?(&mut Site { builder, args, step })
        }
        Target::Delegate(index) => builder.inline(known.graphs.get(index)?.as_ref()?, args),
    }
}

/// A sentence about an operator's call that joins no run.
fn about(flow: &Accesses<'_>, target: Target, args: &[u32], step: usize) -> Option<String> {
    let Target::Operator(op) = target else { return None };
    let name = flow.method.plan().operators().get(op)?.to_string();
    let what = match decode::row(&name) {
        _ if args.iter().any(|&arg| flow.is_resized(arg)) => "has tensors whose sizes change",
        Some(_) => "has arguments that plans have no word for",
        None => "is an operator that plans have no word for",
    };
    Some(format!("{name}, instruction {step}, {what}"))
}

/// Whether the engine can do better than the operators one by one.
fn is_worth(graph: &Graph, calls: usize) -> bool {
    calls > 1 || graph.nodes.iter().any(|node| node.op.is_product())
}

/// The region of a run of calls, or what engines say of its graph.
fn region<D>(
    known: &Known<'_>,
    builder: Builder<'_, '_, '_>,
    steps: Range<usize>,
    calls: usize,
    make: &Make<'_, D>,
) -> Result<Region<D>, Option<String>> {
    let (graph, inputs, outputs) = builder.finish(steps.clone()).ok_or(None)?;
    let values = graph.constants.iter().filter_map(|constant| match constant.source {
        Source::Value(value) => Some((value, (known.bytes)(value)?)),
        _ => None,
    });
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by_key(|(value, _)| *value);
    let delegate = make(graph, &values).map_err(Some)?;
    let at = |step: usize| u32::try_from(step).map_err(|_| None);
    let instructions = at(steps.start)?..at(steps.end)?;
    let args = inputs.into_iter().chain(outputs).collect();
    Ok(Region { instructions, args, calls, delegate })
}
