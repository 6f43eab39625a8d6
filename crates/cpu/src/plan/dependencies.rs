//! Which steps have to wait for which.
//!
//! A step waits for the earlier ones that wrote what it reads, and for those that read or wrote what it writes. What counts are
//! the bytes of the arena and of outputs, scratch among them: ranges are given out again when what lay there is not needed any
//! more. Parts of a concat that share a range wait for each other, though they write other rows of it.

use crate::memory::{Block, Io, Slot};
use std::collections::{BTreeMap, HashMap};

/// Bytes of a block, from where they start: where they end, and who wrote them and read them since.
type Ranges = BTreeMap<usize, Range>;

#[derive(Clone, Default)]
struct Range {
    end: usize,
    writer: Option<usize>,
    readers: Vec<usize>,
}

/// For each step the earlier ones that it has to wait for itself, in rising order. Those that they wait for are left out, unless
/// it waits for them, too.
pub(super) fn dependencies<'a>(steps: impl Iterator<Item = &'a Io>) -> Vec<Vec<usize>> {
    let mut blocks: HashMap<Block, Ranges> = HashMap::new();
    let waits = steps.enumerate().map(|(step, io)| {
        let mut waits = Vec::new();
        for slot in io.reads() {
            let ranges = blocks.entry(slot.block).or_default();
            touch(ranges, slot, |range| {
                waits.extend(range.writer);
                range.readers.push(step);
            });
        }
        for slot in io.writes() {
            let ranges = blocks.entry(slot.block).or_default();
            touch(ranges, slot, |range| waits.extend(range.writer.into_iter().chain(range.readers.iter().copied())));
            while let Some((&start, _)) = ranges.range(slot.range()).next() {
                ranges.remove(&start);
            }
            if slot.bytes > 0 {
                ranges.insert(slot.start, Range { end: slot.range().end, writer: Some(step), readers: Vec::new() });
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits
    });
    waits.collect()
}

/// Shows the ranges that make up the bytes of a slot. Those across its ends are split, and what nobody touched yet becomes one.
fn touch(ranges: &mut Ranges, slot: &Slot, mut see: impl FnMut(&mut Range)) {
    let wanted = slot.range();
    // Nobody writes inputs and constants, so nobody waits for them.
    if wanted.is_empty() || matches!(slot.block, Block::Input(_) | Block::Constant(_)) {
        return;
    }
    for at in [wanted.start, wanted.end] {
        let across = ranges.range_mut(..at).next_back().filter(|(_, range)| range.end > at);
        let rest = across.map(|(_, range)| Range { end: std::mem::replace(&mut range.end, at), ..range.clone() });
        rest.map(|rest| ranges.insert(at, rest));
    }
    let mut at = wanted.start;
    while at < wanted.end {
        let next = ranges.range(at..).next().map_or(wanted.end, |(&start, _)| start.min(wanted.end));
        let range = ranges.entry(at).or_insert_with(|| Range { end: next, ..Range::default() });
        see(range);
        at = range.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(start: usize, bytes: usize) -> Slot {
        Slot { block: Block::Arena, start, bytes }
    }

    fn io(reads: &[Slot], output: Slot) -> Io {
        Io::new(reads.to_vec(), output, Slot::EMPTY, Slot::EMPTY).unwrap()
    }

    #[test]
    fn steps_wait_for_what_they_read_and_for_room() {
        let (input, output) =
            (Slot { block: Block::Input(0), ..arena(0, 8) }, Slot { block: Block::Output(0), ..arena(0, 8) });
        let steps = [
            io(&[input], arena(0, 8)),
            io(&[input], arena(8, 8)),
            // Half of either.
            io(&[arena(4, 8)], arena(16, 8)),
            // Reads the first as well, then the place of both is another's.
            io(&[arena(0, 8)], output),
            io(&[input], arena(0, 16)),
            // The second half of that and nothing before it.
            io(&[arena(8, 8)], arena(32, 8)),
            io(&[], Slot::EMPTY),
        ];
        let expected: [&[usize]; 7] = [&[], &[], &[0, 1], &[0], &[0, 1, 2, 3], &[4], &[]];
        assert_eq!(dependencies(steps.iter()), expected);
    }

    #[test]
    fn scratch_is_room_too() {
        let scratch = |output: usize| Io::new(vec![], arena(output, 8), Slot::EMPTY, arena(100, 50)).unwrap();
        assert_eq!(dependencies([scratch(0), scratch(8), scratch(16)].iter()), [vec![], vec![0], vec![1]]);
    }

    /// Any two steps of which one writes what the other touches are in order, by what they wait for or by steps between them; and
    /// nobody waits for anybody else.
    #[test]
    fn orders_are_those_of_overlaps() {
        let mut state = 0x9e37_79b9_u32;
        let mut dice = |sides: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % sides
        };
        for _ in 0..200 {
            let mut slot = || arena(dice(40), dice(12));
            let steps: Vec<Io> =
                std::iter::repeat_with(|| Io::new(vec![slot(), slot()], slot(), Slot::EMPTY, slot()).ok())
                    .flatten()
                    .take(30)
                    .collect();
            let overlap = |a: &Slot, b: &Slot| a.range().start.max(b.range().start) < a.range().end.min(b.range().end);
            let meet = |a: &[Slot], b: &[Slot]| a.iter().any(|a| b.iter().any(|b| overlap(a, b)));
            let waits = dependencies(steps.iter());
            let mut before: Vec<Vec<bool>> = Vec::new();
            for (step, io) in steps.iter().enumerate() {
                let mut all = vec![false; steps.len()];
                for &other in &waits[step] {
                    all[other] = true;
                    all.iter_mut().zip(&before[other]).for_each(|(all, before)| *all |= before);
                }
                for (other, earlier) in steps[..step].iter().enumerate() {
                    let conflict = meet(io.writes(), earlier.reads())
                        || meet(io.writes(), earlier.writes())
                        || meet(io.reads(), earlier.writes());
                    assert!(all[other] || !conflict, "{step} does not wait for {other}: {io:?} {earlier:?}");
                    assert!(conflict || !waits[step].contains(&other), "{step} waits for {other}: {io:?} {earlier:?}");
                }
                before.push(all);
            }
        }
    }
}
