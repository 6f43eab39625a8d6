//! A small fast arena before a large slow one.

use super::{ALIGNMENT, Place, Planner, Wanted, packed};
use crate::Error;

/// Arenas in the order of their speed, each with the bytes it has: every tensor lies in the first one where there is room
/// for it as long as it is wanted. `u64::MAX` is no limit.
///
/// Tensors that are wanted for the shortest time come first, the largest of them before others: each of their bytes is
/// written and read as often as those of others, and takes the room for the least time. What finds room nowhere goes to the
/// last arena, whose limit then tells how much is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    /// The most bytes of the arenas 1, 2, ...
    pub limits: Vec<u64>,
}

impl Planner for Tiers {
    fn place(&self, wanted: &[Wanted], beyond: u64) -> Result<Vec<Place>, Error> {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        let rank = |own: &Wanted| (own.last - own.first, std::cmp::Reverse(own.bytes), own.first);
        order.sort_by_key(|&index| rank(&wanted[index]));
        let mut places = vec![Place { arena: 1, offset: 0 }; wanted.len()];
        let last = self.limits.len().max(1);
        for (index, arena) in (0..last).zip(1..) {
            let limit = self.limits.get(index).copied().filter(|_| index + 1 < last);
            // Where there is no room for what is read beyond the end, there is none for a tensor without elements either.
            let Some(room) = limit.map_or(Some(u64::MAX), |limit| limit.checked_sub(beyond)) else { continue };
            let mut members = Vec::new();
            order.retain(|&own| {
                let fits = match limit {
                    Some(_) => lowest(own, &members, wanted, &places, room),
                    None => Some(0),
                };
                if let Some(offset) = fits {
                    places[own] = Place { arena, offset };
                    members.push(own);
                }
                fits.is_none()
            });
            // The largest first takes less room than the shortest first, but need not: then those stay as they are.
            let again = packed(members.iter().map(|&own| &wanted[own]));
            if members.iter().zip(&again).all(|(&own, offset)| offset.saturating_add(wanted[own].aligned()) <= room) {
                members.iter().zip(again).for_each(|(&own, offset)| places[own].offset = offset);
            }
        }
        Ok(places)
    }

    fn limits(&self) -> &[u64] {
        &self.limits
    }
}

/// The lowest offset where a tensor fits between others of its time and below a limit.
fn lowest(own: usize, members: &[usize], wanted: &[Wanted], places: &[Place], room: u64) -> Option<u64> {
    let bytes = wanted[own].aligned();
    let meeting = members.iter().filter(|&&other| wanted[own].meets(&wanted[other]));
    let mut taken: Vec<(u64, u64)> = meeting.map(|&other| (places[other].offset, wanted[other].aligned())).collect();
    taken.sort_unstable();
    let mut offset: u64 = 0;
    for (start, length) in taken {
        if offset.checked_add(bytes)? <= start {
            break;
        }
        offset = offset.max(start.checked_add(length)?.checked_next_multiple_of(ALIGNMENT)?);
    }
    (offset.checked_add(bytes)? <= room).then_some(offset)
}
