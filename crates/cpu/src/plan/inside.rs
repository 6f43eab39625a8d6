//! Which values are written straight into the one that holds them side by side with others.
//!
//! A concat copies its parts, and a part is made only to be copied. So where the step that makes a part can write its rows
//! apart, it writes them where they belong, and the part is a range of bytes inside the whole. A part may have other readers
//! if they can read rows that lie apart. A concat without parts left to copy needs no step.
//!
//! ```text
//! whole    ├ a ┤ b  ┤├ a ┤ b  ┤├ a ┤ b  ┤     three rows
//! a        ├───────────────────────┤          from its first byte to its last
//! ```
//!
//! A range holds bytes of other parts, too, so no step may write one and read another that overlaps it. Rows that are not
//! apart (a concat along the first dimension) make ranges of their own, which every step can write and read. Outer concats
//! come first: by the time that of a part is looked at, it is known where its own parts go.

use super::Layout;
use super::select::Selected;
use crate::steps::Apart;
use sconce_graph::{Graph, ValueId};
use std::collections::HashMap;
use std::ops::Range;

/// Most readers of a part: what more steps read is copied.
const MOST_READERS: usize = 64;

/// Lets steps write what they make into the wholes that it is part of.
pub(super) fn write_inside(
    graph: &Graph,
    layout: &mut Layout,
    mut chosen: Vec<(usize, Selected)>,
) -> Vec<(usize, Selected)> {
    let uses = uses(graph, layout, &mut chosen);
    let mut copied = Vec::new();
    for at in (0..chosen.len()).rev() {
        let Some(parts) = chosen[at].1.step.concat().map(|concat| concat.parts.len()) else { continue };
        let inside = |read| {
            let part = Part::of(graph, layout, &mut chosen, at, read)?;
            let used = uses.get(&part.class)?;
            part.move_inside(graph, layout, &mut chosen, used).then_some(())
        };
        copied.push((at, (0..parts).map(inside).map(|inside| inside.is_none()).collect::<Vec<_>>()));
    }
    // At the end, so that reads keep their numbers until then.
    for (at, copied) in copied {
        let concat = &mut chosen[at].1;
        let (mut of_reads, mut of_parts) = (copied.iter(), copied.iter());
        concat.reads.retain(|_| of_reads.next().is_none_or(|copied| *copied));
        if let Some(step) = concat.step.concat() {
            step.parts.retain(|_| of_parts.next().is_none_or(|copied| *copied));
        }
    }
    chosen.retain_mut(|(_, selected)| selected.step.concat().is_none_or(|concat| !concat.parts.is_empty()));
    chosen
}

/// Who makes and reads the values of a class: steps, and which of their reads they are.
#[derive(Default)]
struct Used {
    maker: Option<usize>,
    readers: Vec<(usize, usize)>,
}

/// The uses of all classes that concats read.
fn uses(graph: &Graph, layout: &Layout, chosen: &mut [(usize, Selected)]) -> HashMap<ValueId, Used> {
    let class = |value: ValueId| layout.class[value.index()];
    let mut uses = HashMap::new();
    for (_, selected) in chosen.iter_mut() {
        if selected.step.concat().is_some() {
            uses.extend(selected.reads.iter().map(|&value| (class(value), Used::default())));
        }
    }
    if uses.is_empty() {
        return uses;
    }
    for (step, (place, selected)) in chosen.iter().enumerate() {
        for (read, &value) in selected.reads.iter().enumerate() {
            if let Some(used) = uses.get_mut(&class(value)) {
                used.readers.push((step, read));
            }
        }
        if let [output] = graph.nodes[*place].outputs[..]
            && let Some(used) = uses.get_mut(&class(output))
        {
            used.maker = Some(step);
        }
    }
    uses
}

/// What a concat reads and could find in place.
struct Part {
    /// The concat, by its place among the steps, and which of its reads this is.
    concat: usize,
    read: usize,
    whole: ValueId,
    value: ValueId,
    class: ValueId,
    /// Its range in the whole.
    range: Range<usize>,
    apart: Apart,
    /// Whether nothing else lies in the range.
    dense: bool,
}

impl Part {
    fn of(
        graph: &Graph,
        layout: &Layout,
        chosen: &mut [(usize, Selected)],
        concat: usize,
        read: usize,
    ) -> Option<Self> {
        let (place, selected) = &mut chosen[concat];
        let value = *selected.reads.get(read)?;
        let step = selected.step.concat()?;
        let (rows, part) = (step.rows, step.parts.get(read)?);
        let apart = Apart { width: part.width, stride: step.all.stride };
        let bytes = rows.saturating_sub(1) * apart.stride + apart.width;
        Some(Self {
            concat,
            read,
            whole: graph.nodes[*place].outputs[0],
            value,
            class: layout.class[value.index()],
            range: part.start..part.start + bytes,
            apart,
            dense: rows == 1 || apart.width == apart.stride,
        })
    }

    /// Has the part made in place, if everybody who makes or reads it can do with that; whether that is so.
    fn move_inside(&self, graph: &Graph, layout: &mut Layout, chosen: &mut [(usize, Selected)], used: &Used) -> bool {
        let placed = layout.places[self.class.index()].is_some() || layout.whole[self.value.index()].is_some();
        let free = !placed && !self.range.is_empty() && used.readers.len() <= MOST_READERS;
        let Some(maker) = used.maker.filter(|_| free) else { return false };
        let others = || used.readers.iter().copied().filter(|&at| at != (self.concat, self.read));
        let read = self.dense || others().all(|(step, read)| chosen[step].1.step.reads_apart(read, self.apart));
        if !read || !self.is_apart(graph, layout, chosen, maker, others()) {
            return false;
        }
        if !self.dense {
            if !chosen[maker].1.step.write_apart(self.apart) {
                return false;
            }
            others().for_each(|(step, read)| chosen[step].1.step.read_apart(read, self.apart));
        }
        layout.put_inside(self.class, self.whole, self.range.start, self.range.len());
        true
    }

    /// Whether, with the part in place, what its maker and its readers write still overlaps nothing that they read.
    fn is_apart(
        &self,
        graph: &Graph,
        layout: &Layout,
        chosen: &[(usize, Selected)],
        maker: usize,
        mut readers: impl Iterator<Item = (usize, usize)>,
    ) -> bool {
        let whole = layout.class[self.whole.index()];
        let first = layout.within[self.whole.index()];
        let range = |value: ValueId| match layout.class[value.index()] {
            class if class == self.class => Some(first + self.range.start..first + self.range.end),
            class if class == whole => Some(layout.range(value)),
            _ => None,
        };
        let apart = |step: usize, read: ValueId| {
            let mut written = graph.nodes[chosen[step].0].outputs.iter().filter_map(|&value| range(value));
            range(read).is_none_or(|read| written.all(|write| read.end <= write.start || write.end <= read.start))
        };
        readers.all(|(step, read)| apart(step, chosen[step].1.reads[read]))
            && chosen[maker].1.reads.iter().all(|&read| apart(maker, read))
    }
}
