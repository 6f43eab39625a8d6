//! Copies between any two layouts: permutations, slices, concatenations, broadcasts.
//!
//! A copy moves whole elements and does not care what they mean, so it is told their size in bytes, not their kind.
//! The dimensions are sorted by the target's strides and merged where both sides walk alike; then the innermost ones
//! decide how to move:
//!
//! * both sides contiguous: rows, as they are;
//! * the source contiguous along another dimension than the target: a transpose, in square blocks that keep both sides
//!   in the cache;
//! * anything else: element by element along the target's innermost dimension.
//!
//! Threads take slabs of the target's outermost dimension.
//!
//! A concatenation is a copy per part, but where parts are short it is one pass over the target's rows ([`join`]).
use crate::isa::Isa;
use crate::map::{MAX_RANK, worth};
use crate::split;
use sconce_parallel::Parallel;

/// Elements that a block of a transpose takes from each line of the source: whole cache lines, but few, since a row of the
/// target waits for each of them in the cache.
const ALONG: usize = 32;
/// Lines of the source in a block: few, since lines a power of two apart share a place in the cache.
const ACROSS: usize = 8;
/// Slabs that a task has at least.
const LINES: usize = 256;

/// A copy: element `index` of the source goes to element `index` of the target, for every index below `shape`.
///
/// Strides and offsets count elements. A source stride may be 0 (the element is repeated). Target elements must be
/// different for different indices.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// Size of each dimension; at most [`MAX_RANK`] dimensions.
    pub shape: &'a [usize],
    /// Source step along each dimension.
    pub from_strides: &'a [usize],
    /// Target step along each dimension.
    pub to_strides: &'a [usize],
}

/// The strides of a contiguous tensor of this shape, written to the front of an array.
pub fn contiguous_strides(shape: &[usize]) -> [usize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let mut step = 1;
    for (d, size) in shape.iter().enumerate().rev() {
        strides[d] = step;
        step = usize::saturating_mul(step, *size);
    }
    strides
}

/// Copies elements of `size` bytes (1, 2, 4, 8 or 16). The slices start at the first element of each side.
///
/// Panics if the size is another, an index falls outside a slice, or target elements can overlap.
pub fn copy(isa: Isa, par: &dyn Parallel, size: usize, copy: &Copy<'_>, from: &[u8], to: &mut [u8]) {
    let plan = Plan::new(copy);
    match size {
        1 => plan.run::<1>(isa, par, from, to),
        2 => plan.run::<2>(isa, par, from, to),
        4 => plan.run::<4>(isa, par, from, to),
        8 => plan.run::<8>(isa, par, from, to),
        16 => plan.run::<16>(isa, par, from, to),
        _ => panic!("elements of {size} bytes; copies know 1, 2, 4, 8 and 16"),
    }
}

#[derive(Clone, Copy, Debug)]
struct Dim {
    size: usize,
    from: usize,
    to: usize,
}

/// The sorted and merged dimensions, outermost first.
struct Plan {
    dims: [Dim; MAX_RANK],
    rank: usize,
}

impl Plan {
    fn new(copy: &Copy<'_>) -> Self {
        let rank = copy.shape.len();
        assert!(rank <= MAX_RANK, "{rank} dimensions are more than {MAX_RANK}");
        assert!(copy.from_strides.len() == rank && copy.to_strides.len() == rank, "{copy:?} mixes ranks");
        let mut sorted = [Dim { size: 1, from: 0, to: 0 }; MAX_RANK];
        let mut count = 0;
        for d in (0..rank).filter(|&d| copy.shape[d] != 1) {
            sorted[count] = Dim { size: copy.shape[d], from: copy.from_strides[d], to: copy.to_strides[d] };
            count += 1;
        }
        sorted[..count].sort_unstable_by_key(|dim| core::cmp::Reverse(dim.to));
        let mut plan = Self { dims: [Dim { size: 1, from: 0, to: 0 }; MAX_RANK], rank: 0 };
        for dim in &sorted[..count] {
            match plan.dims[..plan.rank].last_mut() {
                Some(outer) if outer.from == dim.from * dim.size && outer.to == dim.to * dim.size => {
                    *outer = Dim { size: outer.size * dim.size, ..*dim };
                }
                _ => {
                    plan.dims[plan.rank] = *dim;
                    plan.rank += 1;
                }
            }
        }
        plan
    }

    fn run<const N: usize>(&self, isa: Isa, par: &dyn Parallel, from: &[u8], to: &mut [u8]) {
        let dims = &self.dims[..self.rank];
        if dims.iter().any(|dim| dim.size == 0) {
            return;
        }
        let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        // How many elements of the target lie between the first and the last one written, per dimension inwards.
        let mut reach = [1; MAX_RANK + 1];
        for d in (0..self.rank).rev() {
            assert!(dims[d].to >= reach[d + 1] || dims[d].size == 1, "targets overlap: {dims:?}");
            reach[d] = (dims[d].size - 1) * dims[d].to + reach[d + 1];
        }
        let last: usize = dims.iter().map(|dim| (dim.size - 1) * dim.from).sum();
        assert!(last < from.len(), "the source has {} elements and element {last} is asked for", from.len());
        assert!(reach[0] <= to.len(), "the target has {} elements and {} are written", to.len(), reach[0]);
        let elements: usize = dims.iter().map(|dim| dim.size).product();
        let to = &mut to[..reach[0]];
        let Some((outer, inner)) = dims.split_first() else {
            to[0] = from[0];
            return;
        };
        let per_slab = (elements / outer.size).max(1);
        // A transpose reads whole stretches of the source only if a task has many rows of the target.
        let together = (crate::map::GRAIN / per_slab).max(LINES).clamp(1, outer.size.div_ceil(par.width()));
        split::chunks(worth(par, elements), to, outer.to * together, |i, to| {
            let count = together.min(outer.size - i * together);
            let slab = Dim { size: count, ..*outer };
            let from = &from[i * together * outer.from..];
            isa.vectorize(
                #[inline(always)]
                || slabs(slab, inner, from, to),
            );
        });
    }
}

/// Copies the dimension `outer` around `inner`.
#[inline(always)]
fn slabs<const S: usize>(outer: Dim, inner: &[Dim], from: &[[u8; S]], to: &mut [[u8; S]]) {
    // `outer` becomes part of an odometer over all but the dimensions that the moves below take.
    let mut dims = [outer; MAX_RANK];
    dims[1..=inner.len()].copy_from_slice(inner);
    let rank = inner.len() + 1;
    let last = dims[rank - 1];
    // The dimension along which the source is contiguous, if it is not the target's.
    let across = (0..rank - 1).rev().find(|&d| last.from > 1 && dims[d].from == 1);
    let mut index = [0; MAX_RANK];
    let (mut from_at, mut to_at) = (0, 0);
    loop {
        match across {
            Some(d) => transpose(dims[d], last, &from[from_at..], &mut to[to_at..]),
            None => row(last, &from[from_at..], &mut to[to_at..]),
        }
        let mut d = rank - 1;
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            if across == Some(d) {
                continue;
            }
            index[d] += 1;
            (from_at, to_at) = (from_at + dims[d].from, to_at + dims[d].to);
            if index[d] < dims[d].size {
                break;
            }
            from_at -= dims[d].size * dims[d].from;
            to_at -= dims[d].size * dims[d].to;
            index[d] = 0;
        }
    }
}

#[inline(always)]
fn row<const S: usize>(dim: Dim, from: &[[u8; S]], to: &mut [[u8; S]]) {
    match (dim.from, dim.to) {
        (1, 1) => to[..dim.size].copy_from_slice(&from[..dim.size]),
        (0, 1) => to[..dim.size].fill(from[0]),
        (step, 1) => {
            for (i, to) in to[..dim.size].iter_mut().enumerate() {
                *to = from[i * step];
            }
        }
        (step, stride) => {
            for i in 0..dim.size {
                to[i * stride] = from[i * step];
            }
        }
    }
}

/// The source is contiguous along `slow`, the target (nearly) along `fast`.
#[inline(always)]
fn transpose<const S: usize>(slow: Dim, fast: Dim, from: &[[u8; S]], to: &mut [[u8; S]]) {
    match (fast.size, fast.to, slow.to) {
        (2, 1, 2) => return interleave::<S, 2>(slow.size, fast.from, from, to),
        (3, 1, 3) if S == 1 => {
            return interleave_bytes(slow.size, fast.from, from.as_flattened(), to.as_flattened_mut());
        }
        (3, 1, 3) => return interleave::<S, 3>(slow.size, fast.from, from, to),
        (4, 1, 4) => return interleave::<S, 4>(slow.size, fast.from, from, to),
        _ => {}
    }
    for j in (0..slow.size).step_by(ALONG) {
        let rows = ALONG.min(slow.size - j);
        for i in (0..fast.size).step_by(ACROSS) {
            let columns = ACROSS.min(fast.size - i);
            let (from, to) = (&from[i * fast.from + j..], &mut to[j * slow.to + i * fast.to..]);
            if (rows, columns, fast.to) == (ALONG, ACROSS, 1) {
                block(from, fast.from, to, slow.to);
                continue;
            }
            for r in 0..rows {
                for c in 0..columns {
                    to[r * slow.to + c * fast.to] = from[c * fast.from + r];
                }
            }
        }
    }
}

/// The planes of an image with few channels become pixels.
#[inline(always)]
fn interleave<const S: usize, const N: usize>(pixels: usize, plane: usize, from: &[[u8; S]], to: &mut [[u8; S]]) {
    let planes: [&[[u8; S]]; N] = core::array::from_fn(|n| &from[n * plane..][..pixels]);
    for (i, pixel) in to.as_chunks_mut::<N>().0[..pixels].iter_mut().enumerate() {
        *pixel = core::array::from_fn(|n| planes[n][i]);
    }
}

/// Three planes of bytes become pixels, four at a time: as words, with which vectors can be filled.
#[inline(always)]
fn interleave_bytes(pixels: usize, plane: usize, from: &[u8], to: &mut [u8]) {
    let planes: [&[u8]; 3] = core::array::from_fn(|n| &from[n * plane..][..pixels]);
    let words = planes.map(|plane| plane.as_chunks::<4>().0);
    for (i, four) in to[..pixels * 3].as_chunks_mut::<4>().0.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let [a, b, c] = words.map(|words| u32::from_le_bytes(words[i]));
        let byte = |word: u32, place: u32| word >> (8 * place) & 0xff;
        let word = |w: u32, x: u32, y: u32, z: u32| (w | x << 8 | y << 16 | z << 24).to_le_bytes();
        *four = [
            word(byte(a, 0), byte(b, 0), byte(c, 0), byte(a, 1)),
            word(byte(b, 1), byte(c, 1), byte(a, 2), byte(b, 2)),
            word(byte(c, 2), byte(a, 3), byte(b, 3), byte(c, 3)),
        ];
    }
    for i in pixels / 4 * 4..pixels {
        to[i * 3..][..3].copy_from_slice(&planes.map(|plane| plane[i]));
    }
}

/// A full block: every row of the target takes one element from each line.
#[inline(always)]
fn block<const S: usize>(from: &[[u8; S]], from_step: usize, to: &mut [[u8; S]], to_step: usize) {
    let lines: [&[[u8; S]]; ACROSS] = core::array::from_fn(|c| &from[c * from_step..][..ALONG]);
    for r in 0..ALONG {
        let row: [[u8; S]; ACROSS] = core::array::from_fn(|c| lines[c][r]);
        to[r * to_step..][..ACROSS].copy_from_slice(&row);
    }
}

/// Writes rows, `stride` bytes apart, that consist of parts: row `i` is row `i` of every part, one after the other. A part
/// is contiguous and says how many bytes a row of it has.
///
/// Panics if a part or the target has fewer than `rows` rows, or if the parts are longer together than a row.
pub fn join(par: &dyn Parallel, rows: usize, stride: usize, parts: &[(&[u8], usize)], to: &mut [u8]) {
    let width: usize = parts.iter().map(|(_, len)| len).sum();
    if rows == 0 || width == 0 {
        return;
    }
    assert!(width <= stride, "parts of {width} bytes in rows of {stride}");
    let reach = (rows - 1) * stride + width;
    assert!(reach <= to.len(), "the target has {} bytes and {reach} are written", to.len());
    let together = (crate::map::GRAIN / stride).max(1);
    split::chunks(worth(par, rows * width), &mut to[..reach], stride * together, |task, to| {
        for (row, to) in (task * together..).zip(to.chunks_mut(stride)) {
            let mut at = 0;
            for (part, len) in parts {
                to[at..at + len].copy_from_slice(&part[row * len..][..*len]);
                at += len;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, pool};
    use crate::view::{bytes_of, bytes_of_mut};
    use sconce_parallel::Serial;

    fn check(shape: &[usize], from_strides: &[usize], to_strides: &[usize], to_len: usize) {
        let offset = |strides: &[usize], mut i: usize| {
            (0..shape.len()).rev().fold(0, |at, d| {
                let here = i % shape[d];
                i /= shape[d];
                at + here * strides[d]
            })
        };
        let elements: usize = shape.iter().product();
        let from_len = (0..elements).map(|i| offset(from_strides, i) + 1).max().unwrap_or(0);
        let from: Vec<u32> = (0..from_len as u32).map(|x| x.wrapping_mul(2654435761)).collect();
        let mut expected = vec![7u32; to_len];
        (0..elements).for_each(|i| expected[offset(to_strides, i)] = from[offset(from_strides, i)]);
        let pool = pool();
        for isa in Isa::available() {
            for par in [&Serial as &dyn Parallel, &pool] {
                let mut to = vec![7u32; to_len];
                let job = Copy { shape, from_strides, to_strides };
                copy(isa, par, 4, &job, bytes_of(&from), bytes_of_mut(&mut to));
                assert_eq!(to, expected, "{job:?}");
            }
        }
    }

    #[test]
    fn permutations_of_every_kind() {
        let mut random = Random::new(11);
        for _ in 0..150 {
            let rank = 1 + random.below(4);
            let source: Vec<_> = (0..rank).map(|_| [1, 2, 5, 15, 16, 17, 33][random.below(7)]).collect();
            let strides = contiguous_strides(&source);
            let mut order: Vec<_> = (0..rank).collect();
            (0..rank).for_each(|i| order.swap(i, random.below(rank)));
            let shape: Vec<_> = order.iter().map(|&d| source[d]).collect();
            let from: Vec<_> = order.iter().map(|&d| if random.below(8) == 0 { 0 } else { strides[d] }).collect();
            let to = contiguous_strides(&shape);
            check(&shape, &from, &to[..rank], shape.iter().product());
        }
    }

    #[test]
    fn gaps_in_the_target_stay() {
        check(&[5, 7], &[7, 1], &[10, 1], 50);
        check(&[4, 6], &[1, 4], &[13, 2], 60);
        check(&[0, 3], &[3, 1], &[3, 1], 4);
        check(&[], &[], &[], 1);
    }

    #[test]
    fn large_transposes_use_threads() {
        check(&[200, 300], &[1, 200], &[300, 1], 60_000);
        check(&[3, 150, 120], &[1, 360, 3], &[18000, 120, 1], 54_000);
    }

    #[test]
    fn planes_become_pixels() {
        for (size, planes, pixels) in [1, 2, 4].into_iter().flat_map(|size| {
            (2..=4).flat_map(move |planes| [1, 3, 4, 5, 67, 1003].map(move |pixels| (size, planes, pixels)))
        }) {
            let from: Vec<u8> = (0..planes * pixels * size).map(|i| (i * 7919 % 251) as u8).collect();
            let element = |plane: usize, pixel: usize| &from[(plane * pixels + pixel) * size..][..size];
            let expected: Vec<u8> =
                (0..pixels * planes).flat_map(|i| element(i % planes, i / planes)).copied().collect();
            for isa in Isa::available() {
                let mut to = vec![255; from.len()];
                let job = Copy { shape: &[pixels, planes], from_strides: &[1, pixels], to_strides: &[planes, 1] };
                copy(isa, &pool(), size, &job, &from, &mut to);
                assert_eq!(to, expected, "{isa:?} {size} {job:?}");
            }
        }
    }

    #[test]
    fn joined_parts_lie_side_by_side() {
        let pool = pool();
        for (rows, lens, stride) in [(5, vec![3, 0, 4], 9), (1, vec![7], 7), (3000, vec![8, 16], 24), (4, vec![], 3)] {
            let parts: Vec<Vec<u8>> =
                lens.iter().enumerate().map(|(n, len)| (0..rows * len).map(|i| (i * 7 + n) as u8).collect()).collect();
            let mut expected = vec![255; rows * stride];
            for row in 0..rows {
                let line: Vec<u8> =
                    parts.iter().zip(&lens).flat_map(|(part, &len)| &part[row * len..][..len]).copied().collect();
                expected[row * stride..][..line.len()].copy_from_slice(&line);
            }
            let parts: Vec<(&[u8], usize)> = parts.iter().map(Vec::as_slice).zip(lens).collect();
            for par in [&Serial as &dyn Parallel, &pool] {
                let mut to = vec![255; rows * stride];
                join(par, rows, stride, &parts, &mut to);
                assert_eq!(to, expected);
            }
        }
    }

    #[test]
    fn every_size() {
        for size in [1, 2, 4, 8, 16] {
            let from: Vec<u8> = (0..6 * size as u8).collect();
            let mut to = vec![0; 6 * size];
            let job = Copy { shape: &[3, 2], from_strides: &[1, 3], to_strides: &[2, 1] };
            copy(Isa::Scalar, &Serial, size, &job, &from, &mut to);
            let expected: Vec<u8> =
                [0, 3, 1, 4, 2, 5].iter().flat_map(|i| &from[i * size..][..size]).copied().collect();
            assert_eq!(to, expected);
        }
    }

    #[test]
    #[should_panic(expected = "targets overlap")]
    fn overlapping_targets_are_refused() {
        let job = Copy { shape: &[2, 4], from_strides: &[4, 1], to_strides: &[2, 1] };
        copy(Isa::Scalar, &Serial, 1, &job, &[0; 8], &mut [0; 8]);
    }
}
