//! Where values lie in one block of memory.
//!
//! A [`Buffer`] is wanted from one step to another; two that are wanted at the same time must not overlap. Placing them
//! is packing of rectangles (time by bytes). The rule here: the largest first, each at the lowest offset where it fits
//! between those placed already that share a step with it. For the nets at hand that comes within a few percent of the
//! largest sum of bytes that are wanted at once, which no plan can go below.

/// Bytes that are wanted from the step `first` to the step `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// How many.
    pub bytes: usize,
    /// The step that first writes them.
    pub first: usize,
    /// The step that last reads them.
    pub last: usize,
}

/// Spells of time that are looked through apart, since most buffers are wanted for a short while.
const SPELLS: usize = 64;

/// Gives each buffer an offset, a multiple of `align`, and says how many bytes that takes in all. One without bytes is
/// anywhere.
pub fn place(buffers: &[Buffer], align: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..buffers.len()).filter(|&index| buffers[index].bytes > 0).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(buffers[index].bytes), buffers[index].first));
    let steps = buffers.iter().map(|buffer| buffer.last).max().unwrap_or(0) + 1;
    let spells = |buffer: Buffer| buffer.first / steps.div_ceil(SPELLS)..=buffer.last / steps.div_ceil(SPELLS);
    let (mut short, mut long) = (vec![Vec::<usize>::new(); SPELLS], Vec::new());
    let (mut offsets, mut taken, mut total) = (vec![0; buffers.len()], Vec::new(), 0);
    for index in order {
        let buffer = buffers[index];
        let meets = |other: &Buffer| other.first <= buffer.last && buffer.first <= other.last;
        let placed = short[spells(buffer)].iter().flatten().chain(&long);
        let others = placed.map(|&other| (offsets[other], buffers[other]));
        taken.clear();
        taken.extend(others.filter(|(_, other)| meets(other)).map(|(start, other)| (start, other.bytes)));
        taken.sort_unstable();
        let mut offset: usize = 0;
        for &(start, bytes) in &taken {
            if offset + buffer.bytes <= start {
                break;
            }
            offset = offset.max((start + bytes).next_multiple_of(align));
        }
        offsets[index] = offset;
        total = total.max(offset + buffer.bytes);
        match &mut short[spells(buffer)] {
            [spell] => spell.push(index),
            [spell, next] => {
                spell.push(index);
                next.push(index);
            }
            _ => long.push(index),
        }
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
        a.0 < b.0 + b.1 && b.0 < a.0 + a.1
    }

    #[test]
    fn a_chain_takes_its_two_largest_neighbours() {
        let sizes = [100, 400, 300, 50];
        let buffers: Vec<_> =
            sizes.iter().enumerate().map(|(step, &bytes)| Buffer { bytes, first: step, last: step + 1 }).collect();
        assert_eq!(place(&buffers, 1).1, 700);
    }

    #[test]
    fn buffers_of_one_time_never_overlap() {
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        for round in 0..200 {
            // Buffers of few steps and of many, wanted for a short and for a long while.
            let (steps, spell) = if round % 2 == 0 { (12, 5) } else { (1000, 1 + random(600)) };
            let buffers: Vec<_> = (0..20)
                .map(|_| {
                    let first = random(steps);
                    Buffer { bytes: random(500), first, last: first + random(spell) }
                })
                .collect();
            let (offsets, total) = place(&buffers, 64);
            for (i, a) in buffers.iter().enumerate() {
                assert!(offsets[i] % 64 == 0 && offsets[i] + a.bytes <= total);
                for (j, b) in buffers.iter().enumerate().filter(|(j, b)| *j != i && b.bytes > 0 && a.bytes > 0) {
                    let together = a.first <= b.last && b.first <= a.last;
                    assert!(!together || !overlap((offsets[i], a.bytes), (offsets[j], b.bytes)));
                }
            }
        }
    }
}
