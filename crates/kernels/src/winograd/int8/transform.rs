//! Patches of bytes to matrices of 16-bit numbers, and matrices of sums to bytes of the output.
//!
//! The maps are those of [`super::super::transform`], in whole numbers. They are plain loops over some channels side by
//! side, which compilers turn into vectors of any set.

use super::SIDE;
use crate::gemm::clamp;
use crate::math::ROUND;
use crate::packed::int8::{LANES, Line};

/// Channels of a patch that are transformed together.
pub(in crate::winograd) const TOGETHER: usize = 32;
/// Lines of a patch, of as many pixels.
pub(super) const PATCH: usize = SIDE + 2;
/// What gives one with three, and with nine, modulo 2³².
const THIRD: i32 = 0xaaaa_aaab_u32.cast_signed();
const NINTH: i32 = THIRD.wrapping_mul(THIRD);
/// How often a line of results is doubled, beside its factor of three.
const DOUBLED: [u32; SIDE] = [3, 2, 1, 1];

pub(super) type Numbers = [i16; TOGETHER];
type Sums = [i32; LANES];

/// Transforms a line of a patch.
#[inline(always)]
fn patch_line(d: &[Numbers; PATCH]) -> [Numbers; PATCH] {
    let mut v = [[0; TOGETHER]; PATCH];
    for i in 0..TOGETHER {
        let [d0, d1, d2, d3, d4, d5] = [d[0][i], d[1][i], d[2][i], d[3][i], d[4][i], d[5][i]];
        // Rows of opposite points are the sum and the difference of an even and an odd part.
        let (even_one, odd_one) = (d4 - 4 * d2, d3 - 4 * d1);
        let (even_two, odd_two) = (d4 - d2, 2 * (d3 - d1));
        v[0][i] = 4 * d0 - 5 * d2 + d4;
        v[1][i] = even_one + odd_one;
        v[2][i] = even_one - odd_one;
        v[3][i] = even_two + odd_two;
        v[4][i] = even_two - odd_two;
        v[5][i] = 4 * d1 - 5 * d3 + d5;
    }
    v
}

/// A column of lines.
#[inline(always)]
fn column<T: Copy, const M: usize>(lines: &[[T; M]; PATCH], j: usize) -> [T; PATCH] {
    let [a, b, c, d, e, f] = lines;
    [a[j], b[j], c[j], d[j], e[j], f[j]]
}

/// Transforms some channels of the patch whose pixels start at these places; `load` gives those of one. They go to places of
/// `to` that are `plane` apart.
#[inline(always)]
pub(super) fn patch(
    places: &[[usize; PATCH]; PATCH],
    load: impl Fn(usize) -> [i8; TOGETHER],
    to: &mut [i16],
    plane: usize,
) {
    let [a, b, c, d, e, f] = places;
    let lines =
        [loaded(a, &load), loaded(b, &load), loaded(c, &load), loaded(d, &load), loaded(e, &load), loaded(f, &load)];
    for j in 0..PATCH {
        for (i, numbers) in patch_line(&column(&lines, j)).iter().enumerate() {
            to[(i * PATCH + j) * plane..][..TOGETHER].copy_from_slice(numbers);
        }
    }
}

/// The transform of the line of pixels at these places.
#[inline(always)]
fn loaded(places: &[usize; PATCH], load: &impl Fn(usize) -> [i8; TOGETHER]) -> [Numbers; PATCH] {
    let [a, b, c, d, e, f] = *places;
    patch_line(&[widen(load(a)), widen(load(b)), widen(load(c)), widen(load(d)), widen(load(e)), widen(load(f))])
}

#[inline(always)]
fn widen(bytes: [i8; TOGETHER]) -> Numbers {
    let mut numbers = [0; TOGETHER];
    numbers.iter_mut().zip(bytes).for_each(|(number, byte)| *number = byte.into());
    numbers
}

/// Transforms a line of sums: each result is three times as much as it should be, and doubled.
#[inline(always)]
fn tile_line(p: &[Sums; PATCH]) -> [Sums; SIDE] {
    let mut y = [[0i32; LANES]; SIDE];
    for i in 0..LANES {
        let (sum_one, difference_one) = (p[1][i].wrapping_add(p[2][i]), p[1][i].wrapping_sub(p[2][i]));
        let (sum_two, difference_two) = (p[3][i].wrapping_add(p[4][i]), p[3][i].wrapping_sub(p[4][i]));
        y[0][i] = p[0][i].wrapping_mul(6).wrapping_add(sum_one.wrapping_mul(4)).wrapping_add(sum_two);
        y[1][i] = difference_one.wrapping_mul(2).wrapping_add(difference_two);
        y[2][i] = sum_one.wrapping_add(sum_two);
        y[3][i] = p[5][i].wrapping_mul(6).wrapping_add(difference_two.wrapping_mul(2)).wrapping_add(difference_one);
    }
    y
}

/// How sums become bytes, for the channels of a line.
pub(super) struct Narrowing {
    /// What is added to each sum.
    pub(super) start: Sums,
    pub(super) scale: [f32; LANES],
    /// Limits of the scaled sum, before the zero is added.
    pub(super) limits: (f32, f32),
    pub(super) zero: i8,
}

impl Narrowing {
    #[inline(always)]
    fn bytes(&self, sums: &Sums, doubled: u32) -> [i8; LANES] {
        let mut bytes = [0; LANES];
        for i in 0..LANES {
            let sum = (sums[i].wrapping_mul(NINTH) >> doubled).wrapping_add(self.start[i]);
            let step = clamp(sum as f32 * self.scale[i], self.limits) + ROUND;
            bytes[i] = (step.to_bits() as i8).wrapping_add(self.zero);
        }
        bytes
    }
}

/// Transforms the products of a tile for a line of channels, which lie at places of `from` that are `plane` apart, and calls
/// `store` with the line, the column and the bytes of each pixel.
#[inline(always)]
pub(super) fn tile(
    from: &[Line],
    plane: usize,
    narrowing: &Narrowing,
    mut store: impl FnMut(usize, usize, &[i8; LANES]),
) {
    let from = &from[..(PATCH * PATCH - 1) * plane + 1];
    let lines = [
        summed(from, plane, 0),
        summed(from, plane, 1),
        summed(from, plane, 2),
        summed(from, plane, 3),
        summed(from, plane, 4),
        summed(from, plane, 5),
    ];
    for (j, across) in DOUBLED.into_iter().enumerate() {
        for (i, (sums, down)) in tile_line(&column(&lines, j)).iter().zip(DOUBLED).enumerate() {
            store(i, j, &narrowing.bytes(sums, down + across));
        }
    }
}

/// The transform of a line of products.
#[inline(always)]
fn summed(from: &[Line], plane: usize, line: usize) -> [Sums; SIDE] {
    let at = PATCH * line;
    tile_line(&[
        from[at * plane].0,
        from[(at + 1) * plane].0,
        from[(at + 2) * plane].0,
        from[(at + 3) * plane].0,
        from[(at + 4) * plane].0,
        from[(at + 5) * plane].0,
    ])
}
