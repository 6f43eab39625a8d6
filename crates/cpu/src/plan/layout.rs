//! Where values lie.
//!
//! Values that are the same bytes (a reshape and its input) form a *class*, and so do values that are parts of another (see
//! `concats`). A class has one place: an input of the call, a constant, an output of the call if one of its values is returned,
//! or a range of the arena. Ranges are given out by [`memory::place`] over the steps from the first that makes a part of a
//! class to the last that reads one. A value that is returned but lies elsewhere (an input passed through, a value returned
//! twice) is copied at the end.

use super::list::Selected;
use crate::memory::{ALIGN, Block, Slot};
use crate::operations::is_view;
use crate::steps::ROW_HEAD;
use crate::weights::element_count;
use sconce_graph::memory::{self, Buffer};
use sconce_graph::{Element, Graph, Origin, Scheme, ValueId};
use std::collections::HashMap;
use std::ops::Range;

/// The places of values.
pub(super) struct Layout {
    /// From the first byte of a value to its last.
    bytes: Vec<usize>,
    /// For each value the one whose bytes are those of its class.
    pub(super) class: Vec<ValueId>,
    /// Where in its class a value starts, and the value that it is a part of, if it is one.
    pub(super) within: Vec<usize>,
    pub(super) whole: Vec<Option<ValueId>>,
    /// The values of a class besides the one that names it, if there are any.
    others: HashMap<ValueId, Vec<ValueId>>,
    /// By class.
    pub(super) places: Vec<Option<Block>>,
    offsets: Vec<usize>,
    /// By step.
    pub(super) scratch: Vec<Slot>,
    pub(super) arena: usize,
}

impl Layout {
    pub(super) fn new(graph: &Graph, bytes: &[usize]) -> Self {
        let mut class: Vec<_> = (0..graph.values.len()).map(|index| ValueId(index as u32)).collect();
        let mut others = HashMap::<_, Vec<_>>::new();
        for node in graph.nodes.iter().filter(|node| is_view(node)) {
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
    pub(super) fn range(&self, value: ValueId) -> Range<usize> {
        let start = self.within[value.index()];
        start..start + self.bytes[value.index()]
    }

    /// Makes the values of a class a part of another value: `bytes` bytes, from this one on.
    pub(super) fn put_inside(&mut self, class: ValueId, whole: ValueId, start: usize, bytes: usize) {
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
    pub(super) fn copies(&mut self, graph: &Graph) -> Vec<(ValueId, usize)> {
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

    pub(super) fn slot(&self, value: ValueId) -> Slot {
        let class = self.class[value.index()].index();
        let block = self.places[class].unwrap_or(Block::Arena);
        Slot { block, start: self.offsets[class] + self.within[value.index()], bytes: self.bytes[value.index()] }
    }

    /// Gives all other classes, and the steps' scratch, their ranges of the arena.
    pub(super) fn place(
        &mut self,
        graph: &Graph,
        chosen: &[Selected],
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
        for (step, selected) in chosen.iter().enumerate() {
            graph.nodes[selected.node].outputs.iter().chain(&selected.reads).for_each(|&value| touch(value, step));
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
        buffers.extend(scratch.map(|(step, selected)| Buffer { bytes: selected.scratch, first: step, last: step }));
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

/// Bytes that a value takes in memory.
pub(super) fn stored(element: &Element, sizes: &[usize]) -> Option<usize> {
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
