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

mod apart;

use super::layout::Layout;
use super::list::Selected;
use crate::steps::{Apart, Choice, Concat};
use apart::{read_apart, reads_apart, write_apart};
use sconce_graph::{Graph, ValueId};
use std::collections::HashMap;
use std::ops::Range;

/// Most readers of a part: what more steps read is copied.
const MOST_READERS: usize = 64;

/// Lets steps write what they make into the wholes that it is part of.
pub(super) fn write_inside(graph: &Graph, layout: &mut Layout, mut chosen: Vec<Selected>) -> Vec<Selected> {
    let uses = uses(graph, layout, &chosen);
    let mut copied = Vec::new();
    for at in (0..chosen.len()).rev() {
        let Some(parts) = concat(&chosen[at]).map(|concat| concat.parts.len()) else { continue };
        let inside = |read| {
            let part = Part::of(layout, &chosen, at, read)?;
            let used = uses.get(&part.class)?;
            part.move_inside(graph, layout, &mut chosen, used).then_some(())
        };
        copied.push((at, (0..parts).map(inside).map(|inside| inside.is_none()).collect::<Vec<_>>()));
    }
    // At the end, so that reads keep their numbers until then.
    for (at, copied) in copied {
        let (mut of_reads, mut of_parts) = (copied.iter(), copied.iter());
        chosen[at].reads.retain(|_| of_reads.next().is_none_or(|copied| *copied));
        if let Choice::Concat(concat) = &mut chosen[at].choice {
            concat.parts.retain(|_| of_parts.next().is_none_or(|copied| *copied));
        }
    }
    chosen.retain(|selected| concat(selected).is_none_or(|concat| !concat.parts.is_empty()));
    chosen
}

fn concat(selected: &Selected) -> Option<&Concat> {
    match &selected.choice {
        Choice::Concat(concat) => Some(concat),
        _ => None,
    }
}

/// Who makes and reads the values of a class: steps, and which of their reads they are.
#[derive(Default)]
struct Used {
    maker: Option<usize>,
    readers: Vec<(usize, usize)>,
}

/// The uses of all classes that concats read.
fn uses(graph: &Graph, layout: &Layout, chosen: &[Selected]) -> HashMap<ValueId, Used> {
    let class = |value: ValueId| layout.class[value.index()];
    let mut uses = HashMap::new();
    for selected in chosen.iter().filter(|selected| concat(selected).is_some()) {
        uses.extend(selected.reads.iter().map(|&value| (class(value), Used::default())));
    }
    if uses.is_empty() {
        return uses;
    }
    for (step, selected) in chosen.iter().enumerate() {
        for (read, &value) in selected.reads.iter().enumerate() {
            if let Some(used) = uses.get_mut(&class(value)) {
                used.readers.push((step, read));
            }
        }
        if let [output] = graph.nodes[selected.node].outputs[..]
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
    fn of(layout: &Layout, chosen: &[Selected], at: usize, read: usize) -> Option<Self> {
        let value = *chosen[at].reads.get(read)?;
        let step = concat(&chosen[at])?;
        let (rows, part) = (step.rows, step.parts.get(read)?);
        let apart = Apart { width: part.width, stride: step.all.stride };
        let bytes = rows.saturating_sub(1) * apart.stride + apart.width;
        Some(Self {
            concat: at,
            read,
            whole: chosen[at].makes,
            value,
            class: layout.class[value.index()],
            range: part.start..part.start + bytes,
            apart,
            dense: rows == 1 || apart.width == apart.stride,
        })
    }

    /// Has the part made in place, if everybody who makes or reads it can do with that; whether that is so.
    fn move_inside(&self, graph: &Graph, layout: &mut Layout, chosen: &mut [Selected], used: &Used) -> bool {
        let placed = layout.places[self.class.index()].is_some() || layout.whole[self.value.index()].is_some();
        let free = !placed && !self.range.is_empty() && used.readers.len() <= MOST_READERS;
        let Some(maker) = used.maker.filter(|_| free) else { return false };
        let others = || used.readers.iter().copied().filter(|&at| at != (self.concat, self.read));
        let read = self.dense || others().all(|(step, read)| reads_apart(&mut chosen[step].choice, read, self.apart));
        if !read || !self.is_apart(graph, layout, chosen, maker, others()) {
            return false;
        }
        if !self.dense {
            if !write_apart(&mut chosen[maker].choice, self.apart) {
                return false;
            }
            others().for_each(|(step, read)| read_apart(&mut chosen[step].choice, read, self.apart));
        }
        layout.put_inside(self.class, self.whole, self.range.start, self.range.len());
        true
    }

    /// Whether, with the part in place, what its maker and its readers write still overlaps nothing that they read.
    fn is_apart(
        &self,
        graph: &Graph,
        layout: &Layout,
        chosen: &[Selected],
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
            let mut written = graph.nodes[chosen[step].node].outputs.iter().filter_map(|&value| range(value));
            range(read).is_none_or(|read| written.all(|write| read.end <= write.start || write.end <= read.start))
        };
        readers.all(|(step, read)| apart(step, chosen[step].reads[read]))
            && chosen[maker].reads.iter().all(|&read| apart(maker, read))
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::testing::{bytes, selected, text};
    use super::*;

    /// The list with what is written in place, and where the values of these numbers lie in others.
    fn list(graph: &str, values: &[u32]) -> (Vec<String>, Vec<Option<(ValueId, usize)>>) {
        let (graph, list) = selected(graph);
        let mut layout = Layout::new(&graph, &bytes(&graph));
        layout.copies(&graph);
        let list = write_inside(&graph, &mut layout, list);
        let place = |&value: &u32| Some((layout.whole[value as usize]?, layout.within[value as usize]));
        (text(&list), values.iter().map(place).collect())
    }

    /// Two pixelwise layers, of 3 and of 5 channels, side by side; `rest` reads them.
    fn layers(rest: &str) -> String {
        let pixelwise = "{stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], groups: 1}";
        format!(
            "%0: float32[1, 4, 4, 2] = input\n\
             %1: float32[3, 1, 1, 2] = constant \"v\"\n\
             %2: float32[5, 1, 1, 2] = constant \"w\"\n\
             %3: float32[1, 4, 4, 3] = conv2d %0, %1 {pixelwise}\n\
             %4: float32[1, 4, 4, 5] = conv2d %0, %2 {pixelwise}\n\
             %5: float32[1, 4, 4, 8] = concat %3, %4 {{axis: 3}}\n\
             {rest}"
        )
    }

    #[test]
    fn parts_are_made_where_they_belong() {
        let (list, places) = list(&layers("output %5\n"), &[3, 4]);
        assert_eq!(
            list,
            [
                "%3 = packed product 4x4x2 -> 3, filter 1x1, stride [1, 1], pixels 2 -> 8 of %0",
                "%4 = packed product 4x4x2 -> 5, filter 1x1, stride [1, 1], pixels 2 -> 8 of %0",
            ]
        );
        assert_eq!(places, [Some((ValueId(5), 0)), Some((ValueId(5), 12))]);
    }

    /// A pool reads pixels that lie apart, a function does not, and what is returned is a value of its own.
    #[test]
    fn who_else_reads_a_part_decides() {
        let pool = "%6: float32[1, 2, 2, 3] = max_pool2d %3 \
                    {kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0], dilation: [1, 1]}\noutput %5, %6\n";
        let (pooled, places) = list(&layers(pool), &[3, 4]);
        assert_eq!(pooled[2], "%6 = Max of windows [2, 2], pixels 8 -> 3 of %3");
        assert!(places.iter().all(Option::is_some) && pooled.len() == 3, "{pooled:?}");
        for rest in ["%6: float32[1, 4, 4, 3] = tanh %3\noutput %5, %6\n", "output %5, %3\n"] {
            let (copied, places) = list(&layers(rest), &[3, 4]);
            assert!(copied.contains(&"%5 = 16 rows of 1 inputs side by side, rows 32 apart, 0+12/12 of %3".to_owned()));
            assert_eq!(places, [None, Some((ValueId(5), 12))]);
        }
    }

    /// Rows of a part inside a part are apart by rows of the outermost.
    #[test]
    fn concats_are_parts_of_concats() {
        let rest = "%6: float32[1, 4, 4, 2] = input\n\
                    %7: float32[1, 4, 4, 10] = concat %6, %5 {axis: 3}\n\
                    output %7\n";
        let (list, places) = list(&layers(rest), &[3, 4, 5]);
        assert_eq!(
            list,
            [
                "%3 = packed product 4x4x2 -> 3, filter 1x1, stride [1, 1], pixels 2 -> 10 of %0",
                "%4 = packed product 4x4x2 -> 5, filter 1x1, stride [1, 1], pixels 2 -> 10 of %0",
                "%7 = 16 rows of 1 inputs side by side, rows 40 apart, 0+8/8 of %6",
            ]
        );
        assert_eq!(places, [8, 20, 8].map(|start| Some((ValueId(7), start))));
    }

    /// Along the first dimension that is not one, a part is a range of its own.
    #[test]
    fn whole_ranges_need_no_rows_apart() {
        let text = "%0: float32[1, 6] = input\n\
                    %1: float32[1, 6] = tanh %0\n\
                    %2: float32[1, 6] = exp %1\n\
                    %3: float32[2, 6] = concat %1, %2 {axis: 0}\n\
                    output %3\n";
        let (list, places) = list(text, &[1, 2]);
        assert_eq!(list, ["%1 = Tanh of each element of %0", "%2 = Exp of each element of %1"]);
        assert_eq!(places, [Some((ValueId(3), 0)), Some((ValueId(3), 24))]);
    }
}
