//! A plan: what is done in which order, and where every value lies.
//!
//! Selection gives a list of steps as data. Passes over the list let products do what follows them, leave out signs, join
//! convolutions to strips and write parts of concats in place; then all values get their places, and only the finished list
//! becomes the steps that run.

mod concats;
mod dependencies;
mod layout;
mod list;
mod select;
mod strips;
mod tails;
mod unsigned;

use crate::lowered::Lowered;
use crate::memory::{Block, Io, Memory, Slot};
use crate::model::Options;
use crate::steps::{Context, Rearrange, Step, Work};
use concats::write_inside;
use dependencies::dependencies;
use layout::{Layout, stored};
use sconce_graph::{ConstantId, Shape, ValueId};
use sconce_kernels::Isa;
use select::select;
use std::fmt;
use std::sync::Arc;
use strips::join_strips;
use tails::take_tails;
use unsigned::drop_signs;

/// The decisions for one graph and inputs of certain sizes.
pub struct Plan {
    form: Arc<Lowered>,
    inputs: Vec<Shape>,
    isa: Isa,
    width: usize,
    outputs: Vec<Shape>,
    /// Bytes of the inputs and outputs.
    bytes: (Vec<usize>, Vec<usize>),
    steps: Vec<Planned>,
    arena: usize,
}

struct Planned {
    step: Box<dyn Step>,
    io: Io,
    purpose: Purpose,
    /// The value that its result is a part of.
    whole: Option<ValueId>,
}

/// What a step is for.
enum Purpose {
    /// These nodes of the graph.
    Nodes(Vec<usize>),
    /// A value that is returned, but lies elsewhere.
    Output(ValueId),
}

/// A step, as people see it.
pub struct StepView {
    /// Its algorithm.
    pub what: String,
    /// The nodes that it stands for.
    pub node: String,
    pub(crate) work: Work,
    /// Bytes that it reads and writes.
    pub(crate) bytes: usize,
}

impl Plan {
    /// The constants that steps read as they are, and how many bytes of each.
    pub(crate) fn constants(&self) -> impl Iterator<Item = (ConstantId, usize)> {
        let graph = self.form.graph();
        let read = self.steps.iter().flat_map(|planned| planned.io.constants());
        read.filter_map(|(value, bytes)| Some((graph.as_constant(value)?, bytes)))
    }

    /// Plans a form of a graph for inputs of these sizes, with which its values have the sizes `sizes`, and so many threads.
    /// What has no elements takes no step.
    pub(crate) fn new(
        form: &Arc<Lowered>,
        sizes: Vec<Shape>,
        options: &Options,
        width: usize,
        inputs: &[&[usize]],
    ) -> Result<Self, String> {
        let graph = form.graph();
        let bytes = sizes.iter().zip(&graph.values).map(|(size, value)| stored(&value.ty.element, size));
        let bytes = bytes.collect::<Option<Vec<_>>>().ok_or("a value is too large")?;
        let mut chosen = take_tails(graph, select(graph, &sizes, options, width)?);
        drop_signs(graph, options.isa, &mut chosen);
        let chosen = join_strips(graph, &bytes, chosen, options.isa, width);
        let mut layout = Layout::new(graph, &bytes);
        let copies = layout.copies(graph);
        let chosen = write_inside(graph, &mut layout, chosen);
        let steps = chosen.len() + copies.len();
        layout.place(graph, &chosen, &copies, steps, options.memory)?;
        let mut plan = Self {
            form: form.clone(),
            inputs: inputs.iter().map(|size| Shape::from_slice(size)).collect(),
            isa: options.isa,
            width,
            outputs: graph.outputs.iter().map(|id| sizes[id.index()].clone()).collect(),
            bytes: (
                graph.inputs.iter().map(|id| bytes[id.index()]).collect(),
                graph.outputs.iter().map(|id| bytes[id.index()]).collect(),
            ),
            steps: Vec::with_capacity(steps),
            arena: layout.arena,
        };
        for (selected, &scratch) in chosen.into_iter().zip(&layout.scratch) {
            let second = graph.nodes[selected.node].outputs.get(1).map_or(Slot::EMPTY, |&value| layout.slot(value));
            let reads = selected.reads.iter().map(|&value| layout.slot(value)).collect();
            let io = Io::new(reads, layout.slot(selected.makes), second, scratch)?;
            let mut nodes = selected.before;
            nodes.push(selected.node);
            let (step, whole) = (selected.choice.into_step(), layout.whole[selected.makes.index()]);
            plan.steps.push(Planned { step, io, purpose: Purpose::Nodes(nodes), whole });
        }
        for (value, output) in copies {
            let (from, bytes) = (layout.slot(value), bytes[value.index()]);
            let to = Slot { block: Block::Output(output), start: 0, bytes };
            let io = Io::new(vec![from], to, Slot::EMPTY, Slot::EMPTY)?;
            let step = Box::new(Rearrange::new(1, vec![bytes], vec![1], 0, "copy"));
            plan.steps.push(Planned { step, io, purpose: Purpose::Output(value), whole: None });
        }
        Ok(plan)
    }

    /// Whether the plan is for inputs of these sizes and so many threads.
    pub(crate) fn suits(&self, inputs: &[&[usize]], width: usize) -> bool {
        self.width == width && self.inputs.iter().map(Shape::as_slice).eq(inputs.iter().copied())
    }

    /// Whether it is for this form of the graph.
    pub(crate) fn is_of(&self, form: &Arc<Lowered>) -> bool {
        Arc::ptr_eq(&self.form, form)
    }

    /// The form of the graph that it is for.
    pub(crate) fn form(&self) -> &Lowered {
        &self.form
    }

    /// The sizes of the outputs.
    pub fn outputs(&self) -> &[Shape] {
        &self.outputs
    }

    /// Bytes of arena that a run takes.
    pub fn arena_bytes(&self) -> usize {
        self.arena
    }

    /// Bytes of each input and of each output.
    pub fn argument_bytes(&self) -> (&[usize], &[usize]) {
        (&self.bytes.0, &self.bytes.1)
    }

    pub(crate) fn check_arguments(&self, inputs: &[&[u8]], outputs: &[&mut [u8]]) -> Result<(), String> {
        let (read, written) = (inputs.iter().map(|bytes| bytes.len()), outputs.iter().map(|bytes| bytes.len()));
        let (takes, gives) = (&self.bytes.0, &self.bytes.1);
        if read.clone().eq(takes.iter().copied()) && written.clone().eq(gives.iter().copied()) {
            return Ok(());
        }
        let (read, written): (Vec<_>, Vec<_>) = (read.collect(), written.collect());
        Err(format!(
            "the call passes {read:?} and {written:?} bytes where the plan takes {takes:?} and gives {gives:?}"
        ))
    }

    pub(crate) fn run(&self, context: &Context<'_>, memory: &mut Memory<'_>, mut done: impl FnMut(usize)) {
        for (index, planned) in self.steps.iter().enumerate() {
            planned.step.run(context, memory.buffers(&planned.io));
            done(index);
        }
    }

    /// The threads that it is made for.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// For each step the earlier ones that have to be done before it can start: those that make what it reads, and those that
    /// need the memory that it writes. Worked out anew by each call.
    pub fn dependencies(&self) -> Vec<Vec<usize>> {
        dependencies(self.steps.iter().map(|planned| &planned.io))
    }

    /// The steps, as people see them.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = StepView> {
        let text = |place: &usize| self.form.graph().nodes[*place].to_string();
        self.steps.iter().map(move |Planned { step, io, purpose, whole }| {
            let node = match purpose {
                Purpose::Nodes(nodes) => nodes.iter().map(text).collect::<Vec<_>>().join("; "),
                Purpose::Output(value) => format!("output {value}"),
            };
            let into = whole.map_or_else(String::new, |whole| format!(", into {whole}"));
            let cut = step.cut(self.isa, self.width).map_or_else(String::new, |cut| format!(", {cut}"));
            StepView { what: step.describe() + &cut + &into, node, work: step.work(), bytes: io.bytes() }
        })
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} steps, arena of {} bytes, {} threads", self.steps.len(), self.arena, self.width)?;
        for (index, StepView { what, node, .. }) in self.steps().enumerate() {
            writeln!(f, "{index:4}  {what}  <-  {node}")?;
        }
        Ok(())
    }
}
