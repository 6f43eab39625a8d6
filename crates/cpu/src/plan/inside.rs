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
use std::ops::Range;

/// Lets steps write what they make into the wholes that it is part of.
pub(super) fn write_inside(
    graph: &Graph,
    layout: &mut Layout,
    mut chosen: Vec<(usize, Selected)>,
) -> Vec<(usize, Selected)> {
    for at in (0..chosen.len()).rev() {
        let mut index = 0;
        while let Some(part) = Part::of(graph, layout, &mut chosen, at, index) {
            index += usize::from(!part.move_inside(graph, layout, &mut chosen));
        }
    }
    chosen.retain_mut(|(_, selected)| selected.step.concat().is_none_or(|concat| !concat.parts.is_empty()));
    chosen
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
    fn move_inside(&self, graph: &Graph, layout: &mut Layout, chosen: &mut [(usize, Selected)]) -> bool {
        let placed = layout.places[self.class.index()].is_some() || layout.whole[self.value.index()].is_some();
        let free = !placed && !self.range.is_empty();
        let maker = chosen.iter().position(|(place, _)| match graph.nodes[*place].outputs[..] {
            [output] => layout.class[output.index()] == self.class,
            _ => false,
        });
        let readers = self.readers(layout, chosen);
        let read = self.dense || readers.iter().all(|&(step, read)| chosen[step].1.step.reads_apart(read, self.apart));
        let Some(maker) = maker.filter(|_| free && read && self.is_apart(graph, layout, chosen)) else { return false };
        if !self.dense && !chosen[maker].1.step.write_apart(self.apart) {
            return false;
        }
        if !self.dense {
            readers.iter().for_each(|&(step, read)| chosen[step].1.step.read_apart(read, self.apart));
        }
        let concat = &mut chosen[self.concat].1;
        concat.reads.remove(self.read);
        if let Some(step) = concat.step.concat() {
            step.parts.remove(self.read);
        }
        layout.put_inside(self.class, self.whole, self.range.start, self.range.len());
        true
    }

    /// Who else reads the part: steps, and which of their reads it is.
    fn readers(&self, layout: &Layout, chosen: &[(usize, Selected)]) -> Vec<(usize, usize)> {
        let reads = |step: usize| (0..chosen[step].1.reads.len()).map(move |read| (step, read));
        let all = (0..chosen.len()).flat_map(reads).filter(|&at| at != (self.concat, self.read));
        all.filter(|&(step, read)| layout.class[chosen[step].1.reads[read].index()] == self.class).collect()
    }

    /// Whether, with the part in place, what a step writes still overlaps nothing that it reads.
    fn is_apart(&self, graph: &Graph, layout: &Layout, chosen: &[(usize, Selected)]) -> bool {
        let whole = layout.class[self.whole.index()];
        let first = layout.within[self.whole.index()];
        let range = |value: ValueId| match layout.class[value.index()] {
            class if class == self.class => Some(first + self.range.start..first + self.range.end),
            class if class == whole => Some(layout.range(value)),
            _ => None,
        };
        chosen.iter().enumerate().all(|(step, (place, selected))| {
            let written: Vec<_> = graph.nodes[*place].outputs.iter().filter_map(|&value| range(value)).collect();
            let reads = selected.reads.iter().enumerate().filter(|&(read, _)| (step, read) != (self.concat, self.read));
            written.is_empty()
                || reads
                    .filter_map(|(_, &value)| range(value))
                    .all(|read| written.iter().all(|write| read.end <= write.start || write.end <= read.start))
        })
    }
}
