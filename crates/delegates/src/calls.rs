//! Kernel calls of a program, planned as one.
//!
//! A program that was not delegated is a list of calls, each with its own pass over memory. Where the graph can express a
//! run of neighbouring calls, they become a graph and a model of the CPU engine, so that such a program gets fusion,
//! layouts and memory planning too. A delegate among them whose payload is a graph joins with all its nodes, so that a
//! program that was cut into many delegates is whole again. [`regions`] finds these runs when a method is loaded.
//!
//! | module | the one thing it knows |
//! |---|---|
//! | `flow` | which instruction reads and writes which bytes |
//! | `builder` | values of the program as values of the graph |
//! | `decode` | operators as nodes, a row for each |
//!
//! A run ends at a call that no row takes, at control flow, at instructions to which jumps lead, at tensors whose sizes
//! change and at buffers that outlive a run. What is read after it is written to where the program expects it; all else
//! exists only inside the engine.

mod builder;
mod decode;
mod flow;

use crate::engine::{self, InProgram, Names};
use crate::xnnpack::{self, XnnpackBackend};
use builder::Builder;
use decode::Site;
pub use flow::Callee;
use flow::{Flow, Target};
use sconce_core::{Delegate, Method, Owned, Part};
use sconce_cpu::{Model, Options};
use sconce_format::pte::{BackendDelegate, Payload};
use sconce_graph::{Graph, Op};
use std::ops::Range;

/// Instructions that run as one.
pub struct Region {
    /// Which.
    pub instructions: Range<u32>,
    /// Values of the method that are read, then those that are written.
    pub args: Vec<u32>,
    /// How many calls it stands for.
    pub calls: usize,
    /// Who runs them.
    pub delegate: Owned<dyn Delegate>,
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
    pub graphs: &'k [Option<Graph>],
}

/// The graphs of a method's delegates for which `is_own` is true, by number.
pub fn graphs(method: Method<'_>, is_own: impl Fn(&str) -> bool) -> Vec<Option<Graph>> {
    let (plan, program) = (method.plan(), method.program());
    let graph = |delegate: BackendDelegate<'_>| {
        delegate.id().filter(|&name| name == XnnpackBackend::NAME && is_own(name))?;
        let (payload, position) = match program.file().delegate_payload(delegate)? {
            Payload::Inline(bytes) => (bytes, program.position(bytes)),
            Payload::Segment(range) => {
                let length = range.end.checked_sub(range.start)?;
                (program.loader().load(range.start, length, Part::Delegate)?, Some(range.start))
            }
        };
        let mut graph = xnnpack::import(payload).ok()?;
        xnnpack::place_inline_constants(&mut graph, payload, position);
        Some(graph)
    };
    // One delegate alone is planned as well by itself.
    match plan.chains().iter().map(|chain| chain.instructions().len()).sum() {
        0..=1usize => Vec::new(),
        _ => plan.delegates().iter().map(graph).collect(),
    }
}

/// The runs of calls of a method that the engine takes, in order.
pub fn regions(method: Method<'_>, known: &Known<'_>, options: Options) -> Vec<Region> {
    let outputs = |delegate: usize| Some(known.graphs.get(delegate)?.as_ref()?.outputs.len());
    let Some(flow) = Flow::new(method, known.callee, known.is_folded, &outputs) else { return Vec::new() };
    let mut regions = Vec::new();
    let mut start = 0;
    while let Some(first) = flow.steps.get(start) {
        // A region starts with an instruction that runs.
        if first.is_folded {
            start += 1;
            continue;
        }
        let (found, end) = run(&flow, known, start);
        if let Some((builder, calls)) = found.filter(|(builder, calls)| is_worth(&builder.graph, *calls)) {
            regions.extend(region(method, known, builder, start..end, calls, options));
        }
        start = end.max(start + 1);
    }
    regions
}

/// The longest run of calls from an instruction on, and where it ends.
fn run<'f, 'k, 'a>(
    flow: &'f Flow<'a>,
    known: &Known<'k>,
    start: usize,
) -> (Option<(Builder<'f, 'k, 'a>, usize)>, usize) {
    let mut builder = Builder::new(flow, known.bytes);
    let (mut calls, mut end) = (0, start);
    while let Some(step) = flow.steps.get(end).filter(|_| end == start || !flow.is_target(end)) {
        if !step.is_folded {
            let Some((target, args)) = &step.call else { break };
            let mark = builder.mark();
            if join(&mut builder, known, *target, args, end).is_none() {
                builder.go_back(&mark);
                break;
            }
            calls += 1;
        }
        end += 1;
    }
    ((calls > 0).then_some((builder, calls)), end)
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

/// Whether the engine can do better than the operators one by one.
fn is_worth(graph: &Graph, calls: usize) -> bool {
    let heavy = |op: &Op| {
        matches!(op, Op::Conv2d { .. } | Op::ConvTranspose2d { .. } | Op::DepthwiseConv2d { .. } | Op::Linear { .. })
    };
    calls > 1 || graph.nodes.iter().any(|node| heavy(&node.op))
}

fn region(
    method: Method<'_>,
    known: &Known<'_>,
    builder: Builder<'_, '_, '_>,
    steps: Range<usize>,
    calls: usize,
    options: Options,
) -> Option<Region> {
    let (graph, inputs, outputs) = builder.finish(steps.clone())?;
    let values = graph.constants.iter().filter_map(|constant| match constant.source {
        sconce_graph::Source::Value(value) => Some((value, (known.bytes)(value)?)),
        _ => None,
    });
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by_key(|(value, _)| *value);
    let names = Names::of(&graph, method.program());
    let constants = InProgram { program: method.program(), names: &names, values };
    let model = Model::new(graph, options, &constants).ok()?;
    let instructions = u32::try_from(steps.start).ok()?..u32::try_from(steps.end).ok()?;
    let args = inputs.into_iter().chain(outputs).collect();
    Some(Region { instructions, args, calls, delegate: Owned::from_box(Box::new(engine::Part::new(model, names))) })
}
