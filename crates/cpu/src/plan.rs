//! A plan: what is done in which order, and where every value lies.
//!
//! Values that are the same bytes (a reshape and its input) form a *class*, and so do values that are parts of another (see
//! `inside`). A class has one place: an input of the call, a constant, an output of the call if one of its values is returned,
//! or a range of the arena. Ranges are given out by [`memory::place`] over the steps from the first that makes a part of a
//! class to the last that reads one. A value that is returned but lies elsewhere (an input passed through, a value returned
//! twice) is copied at the end.

mod inside;
mod join;
mod select;
mod tails;
mod unsigned;

use crate::lowered::Lowered;
use crate::memory::{ALIGN, Block, Io, Memory, Slot};
use crate::model::Options;
use crate::steps::{Context, ROW_HEAD, Rearrange, Step, Work};
use crate::weights::element_count;
use inside::write_inside;
use join::join;
use sconce_graph::memory::{self, Buffer};
use sconce_graph::{ConstantId, Element, Graph, Op, Origin, Scheme, Shape, ValueId};
use sconce_kernels::Isa;
use select::{Selected, Uses, select};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
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
        let uses = Uses::of(graph);
        let mut chosen: Vec<(usize, Selected)> = Vec::new();
        for (place, node) in graph.nodes.iter().enumerate() {
            let empty = node.outputs.iter().all(|id| sizes[id.index()].contains(&0));
            if !empty && (!is_view(&node.op) || !node.then.is_empty()) {
                chosen.push((place, select(graph, &uses, &sizes, place, options, width)?));
            }
        }
        // What another step does, too, needs none of its own.
        let done: HashSet<usize> = chosen.iter().flat_map(|(_, selected)| selected.before.iter().copied()).collect();
        chosen.retain(|(place, _)| !done.contains(place));
        let mut chosen = take_tails(graph, chosen);
        drop_signs(graph, options.isa, &mut chosen);
        let chosen = join(graph, &bytes, chosen, options.isa, width);
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
        for (index, (place, selected)) in chosen.into_iter().enumerate() {
            let node = &graph.nodes[place];
            let slot = |value: ValueId| layout.slot(value);
            let second = node.outputs.get(1).map_or(Slot::EMPTY, |&value| slot(value));
            let reads = selected.reads.iter().map(|&value| slot(value)).collect();
            let io = Io::new(reads, slot(node.outputs[0]), second, layout.scratch[index])?;
            let mut nodes = selected.before;
            nodes.push(place);
            let whole = layout.whole[node.outputs[0].index()];
            plan.steps.push(Planned { step: selected.step, io, purpose: Purpose::Nodes(nodes), whole });
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
        let inputs: Vec<_> = inputs.iter().map(|bytes| bytes.len()).collect();
        let outputs: Vec<_> = outputs.iter().map(|bytes| bytes.len()).collect();
        match inputs == self.bytes.0 && outputs == self.bytes.1 {
            true => Ok(()),
            false => Err(format!(
                "the call passes {inputs:?} and {outputs:?} bytes where the plan takes {:?} and gives {:?}",
                self.bytes.0, self.bytes.1
            )),
        }
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

/// Bytes that a value takes in memory.
fn stored(element: &Element, sizes: &[usize]) -> Option<usize> {
    let count = element_count(sizes)?;
    match element {
        Element::Quantized(quantized) => match quantized.scheme {
            Scheme::PerToken { dims } => {
                let rows = element_count(sizes.get(..sizes.len().checked_sub(dims)?)?)?;
                count.checked_add(rows.checked_mul(ROW_HEAD)?)
            }
            _ => element.bytes(count),
        },
        Element::Plain(_) => element.bytes(count),
    }
}

/// Whether an operation only says something else about the same bytes.
fn is_view(op: &Op) -> bool {
    matches!(op, Op::Reshape { .. } | Op::Copy)
}

/// Where values lie.
struct Layout {
    /// From the first byte of a value to its last.
    bytes: Vec<usize>,
    /// For each value the one whose bytes are those of its class.
    class: Vec<ValueId>,
    /// Where in its class a value starts, and the value that it is a part of, if it is one.
    within: Vec<usize>,
    whole: Vec<Option<ValueId>>,
    /// The values of a class besides the one that names it, if there are any.
    others: HashMap<ValueId, Vec<ValueId>>,
    /// By class.
    places: Vec<Option<Block>>,
    offsets: Vec<usize>,
    /// By step.
    scratch: Vec<Slot>,
    arena: usize,
}

impl Layout {
    fn new(graph: &Graph, bytes: &[usize]) -> Self {
        let mut class: Vec<_> = (0..graph.values.len()).map(|index| ValueId(index as u32)).collect();
        let mut others = HashMap::<_, Vec<_>>::new();
        for node in graph.nodes.iter().filter(|node| is_view(&node.op) && node.then.is_empty()) {
            let (view, of) = (node.outputs[0], class[node.inputs[0].index()]);
            class[view.index()] = of;
            others.entry(of).or_default().push(view);
        }
        let mut places = vec![None; class.len()];
        for (index, value) in graph.values.iter().enumerate() {
            if let Origin::Constant(_) = value.origin {
                places[index] = Some(Block::Constant(class[index]));
            }
        }
        for (index, id) in graph.inputs.iter().enumerate() {
            places[id.index()] = Some(Block::Input(index));
        }
        let (within, whole, offsets) = (vec![0; class.len()], vec![None; class.len()], vec![0; class.len()]);
        Self { bytes: bytes.to_vec(), class, within, whole, others, places, offsets, scratch: Vec::new(), arena: 0 }
    }

    /// Where in its class a value lies.
    fn range(&self, value: ValueId) -> Range<usize> {
        let start = self.within[value.index()];
        start..start + self.bytes[value.index()]
    }

    /// Makes the values of a class a part of another value: `bytes` bytes, from this one on.
    fn put_inside(&mut self, class: ValueId, whole: ValueId, start: usize, bytes: usize) {
        let (start, whole) = (self.within[whole.index()] + start, self.class[whole.index()]);
        let mut values = self.others.remove(&class).unwrap_or_default();
        values.push(class);
        for value in values.iter().map(|value| value.index()) {
            (self.class[value], self.whole[value]) = (whole, Some(whole));
            (self.within[value], self.bytes[value]) = (start, bytes);
        }
        self.others.entry(whole).or_default().extend(values);
    }

    /// Gives classes that are returned their place; answers what is left to copy to which output.
    fn copies(&mut self, graph: &Graph) -> Vec<(ValueId, usize)> {
        let mut copies = Vec::new();
        for (index, &output) in graph.outputs.iter().enumerate() {
            let place = &mut self.places[self.class[output.index()].index()];
            match place {
                None => *place = Some(Block::Output(index)),
                Some(_) => copies.push((output, index)),
            }
        }
        copies
    }

    fn slot(&self, value: ValueId) -> Slot {
        let class = self.class[value.index()].index();
        let block = self.places[class].unwrap_or(Block::Arena);
        Slot { block, start: self.offsets[class] + self.within[value.index()], bytes: self.bytes[value.index()] }
    }

    /// Gives all other classes, and the steps' scratch, their ranges of the arena.
    fn place(
        &mut self,
        graph: &Graph,
        chosen: &[(usize, Selected)],
        copies: &[(ValueId, usize)],
        steps: usize,
        limit: usize,
    ) -> Result<(), String> {
        // From the first step that touches a class to the last; the other way round if none does.
        let mut spans = vec![(usize::MAX, 0); self.class.len()];
        let mut touch = |value: ValueId, step: usize| {
            let (first, last) = &mut spans[self.class[value.index()].index()];
            (*first, *last) = ((*first).min(step), (*last).max(step));
        };
        for (step, (place, selected)) in chosen.iter().enumerate() {
            graph.nodes[*place].outputs.iter().chain(&selected.reads).for_each(|&value| touch(value, step));
        }
        for (step, &(value, _)) in copies.iter().enumerate() {
            touch(value, steps - copies.len() + step);
        }
        let wanted = (0..self.class.len()).filter(|&class| self.places[class].is_none());
        let wanted = wanted.map(|class| (class, spans[class]));
        let wanted: Vec<_> = wanted.filter(|(_, (first, last))| first <= last).collect();
        let mut buffers: Vec<_> =
            wanted.iter().map(|&(class, (first, last))| Buffer { bytes: self.bytes[class], first, last }).collect();
        let scratch = chosen.iter().enumerate();
        buffers.extend(scratch.map(|(step, (_, selected))| Buffer {
            bytes: selected.scratch,
            first: step,
            last: step,
        }));
        let sum = buffers.iter().try_fold(0usize, |sum, buffer| sum.checked_add(buffer.bytes.checked_add(ALIGN)?));
        if sum.is_none_or(|sum| sum > isize::MAX.unsigned_abs()) {
            return Err("the values are too large for this machine".to_owned());
        }
        let (offsets, arena) = memory::place(&buffers, ALIGN);
        if arena > limit {
            return Err(format!("an arena of {arena} bytes is more than the limit of {limit}"));
        }
        for (&(class, _), &offset) in wanted.iter().zip(&offsets) {
            self.offsets[class] = offset;
        }
        self.scratch = buffers[wanted.len()..]
            .iter()
            .zip(&offsets[wanted.len()..])
            .map(|(buffer, &start)| Slot { block: Block::Arena, start, bytes: buffer.bytes })
            .collect();
        self.arena = arena;
        Ok(())
    }
}
