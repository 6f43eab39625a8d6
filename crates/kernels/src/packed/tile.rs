//! The micro-kernel: one const-generic tile, instantiated per instruction set.
//!
//! For every tap the addresses of MR pixels are loaded; for every channel one row of the panel is loaded into NV vectors,
//! and each pixel's element is broadcast against them. The MR x NV accumulators start as the bias and stay in registers
//! over all taps and channels. The last panel of a layer may end with half a vector, where a machine that takes wide vectors
//! in two halves has no work with the other one.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use crate::gemm::lanes::{Lanes, Portable};
use crate::isa::Isa;

/// The most pixels of a tile, over all instruction sets.
pub(crate) const MOST_ROWS: usize = 14;

/// Elements of a cache line.
pub(crate) const LINE: usize = 16;

/// One tile: `C[MR x columns] = bias + sum over taps of rows * panel`, plus residual, limited.
///
/// # Safety
/// A kernel of MR pixels and some width reads `channels` elements from each of `rows[tap * MR + i]`, `taps * channels` rows
/// of its width from `panel`, and one such row from `bias` if there is one; it writes `columns` elements, at most its width,
/// in MR rows `c_stride` apart, and reads as many of the residual, whose rows have a distance of their own. All of these must
/// be valid.
pub(crate) struct Tile {
    pub(crate) taps: usize,
    pub(crate) channels: usize,
    pub(crate) rows: *const *const f32,
    pub(crate) bias: Option<*const f32>,
    pub(crate) panel: *const f32,
    pub(crate) c: *mut f32,
    pub(crate) c_stride: usize,
    pub(crate) columns: usize,
    pub(crate) residual: Option<(*const f32, usize)>,
    pub(crate) limits: Option<(f32, f32)>,
    /// What will be needed next, and how many cache lines of it are fetched for each channel.
    pub(crate) ahead: (*const f32, usize),
}

/// A tile kernel of some height and width.
pub(crate) type TileKernel = unsafe fn(&Tile);

/// All micro-kernels of an instruction set, and the shape of tile that suits a layer.
///
/// A panel is up to four vectors wide, and narrower where that divides a layer's channels more evenly; the fewer vectors,
/// the more pixels a tile has, so that there are always enough sums under way. Sums, a row of the panel and one element must
/// fit the registers together: with one sum too many the inner loop takes half as long again.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    /// Elements in a vector.
    pub(crate) lanes: usize,
    /// Pixels of a full tile.
    pub(crate) mr: usize,
    /// Vectors of a full tile.
    nv: usize,
    tiles: Tiles,
}

impl Family {
    /// The tiles for a layer with `n` output channels in each group.
    pub(crate) fn of(isa: Isa, n: usize) -> Self {
        let tiles = Tiles::of(isa);
        let Tiles { lanes, whole, .. } = tiles;
        let vectors = n.div_ceil(lanes).max(1);
        let nv = vectors.div_ceil(vectors.div_ceil(whole.len()));
        Self { lanes, mr: whole[nv - 1].len(), nv, tiles }
    }

    /// The full width of a tile in elements.
    pub(crate) fn nr(&self) -> usize {
        self.nv * self.lanes
    }

    /// Elements in rows of panels for n columns: each panel is whole but the last, which is as wide as its tile.
    pub(crate) fn width(&self, columns: usize) -> usize {
        columns.next_multiple_of(if self.tiles.ended.is_empty() { self.lanes } else { self.lanes / 2 })
    }

    /// The tile of `rows` x `width` elements.
    pub(crate) fn tile(&self, rows: usize, width: usize) -> TileKernel {
        let vectors = width / self.lanes;
        let Tiles { whole, ended, .. } = self.tiles;
        if width.is_multiple_of(self.lanes) { whole[vectors - 1][rows - 1] } else { ended[vectors][rows - 1] }
    }
}

/// The micro-kernels of an instruction set.
#[derive(Clone, Copy)]
struct Tiles {
    lanes: usize,
    /// `[width in vectors - 1][height - 1]`
    whole: &'static [&'static [TileKernel]],
    /// The same with half a vector at the end, `[whole vectors][height - 1]`; none where that would not be faster.
    ended: &'static [&'static [TileKernel]],
}

impl Tiles {
    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Vnni(_) => avx512::TILES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => avx2::TILES,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) | Isa::Dotprod(_) | Isa::I8mm(_) => neon::TILES,
            _ => portable::TILES,
        }
    }
}

/// NV vectors of `S`, and NH of `H` behind them.
#[inline(always)]
unsafe fn tile<S: Lanes, H: Lanes, const MR: usize, const NV: usize, const NH: usize>(t: &Tile) {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
    unsafe {
        let (mut acc, mut end) = match t.bias {
            Some(bias) => ([row::<S, NV>(bias); MR], [row::<H, NH>(bias.add(NV * S::LANES)); MR]),
            None => ([[S::splat(0.0); NV]; MR], [[H::splat(0.0); NH]; MR]),
        };
        let mut b = t.panel;
        let (mut ahead, lines) = t.ahead;
        for tap in 0..t.taps {
            let a: [*const f32; MR] = core::array::from_fn(|i| *t.rows.add(tap * MR + i));
            for p in 0..t.channels {
                let (right, right_end) = (row::<S, NV>(b), row::<H, NH>(b.add(NV * S::LANES)));
                b = b.add(NV * S::LANES + NH * H::LANES);
                for _ in 0..lines {
                    S::fetch(ahead);
                    ahead = ahead.wrapping_add(LINE);
                }
                for i in 0..MR {
                    let left = *a[i].add(p);
                    for j in 0..NV {
                        acc[i][j] = S::fma(S::splat(left), right[j], acc[i][j]);
                    }
                    for j in 0..NH {
                        end[i][j] = H::fma(H::splat(left), right_end[j], end[i][j]);
                    }
                }
            }
        }
        finish::<S, MR, NV>(t, 0, &mut acc);
        finish::<H, MR, NH>(t, NV * S::LANES, &mut end);
    }
}

/// N vectors in a row.
#[inline(always)]
unsafe fn row<S: Lanes, const N: usize>(from: *const f32) -> [S::V; N] {
    // SAFETY: the caller's promise.
    core::array::from_fn(|j| unsafe { S::load(from.add(j * S::LANES)) })
}

/// Adds the residual, limits and stores what begins at column `first` of the tile.
#[inline(always)]
unsafe fn finish<S: Lanes, const MR: usize, const NV: usize>(t: &Tile, first: usize, acc: &mut [[S::V; NV]; MR]) {
    // SAFETY: as `tile`; vector `j` touches `min(LANES, columns - first - j * LANES)` elements of a row.
    unsafe {
        let count = |j: usize| t.columns.saturating_sub(first + j * S::LANES).min(S::LANES);
        if let Some((residual, stride)) = t.residual {
            for (i, row) in acc.iter_mut().enumerate() {
                for (j, v) in row.iter_mut().enumerate() {
                    let from = residual.wrapping_add(i * stride + first + j * S::LANES);
                    let other = match count(j) == S::LANES {
                        true => S::load(from),
                        false => S::load_part(from, count(j)),
                    };
                    *v = S::fma(S::splat(1.0), other, *v);
                }
            }
        }
        if let Some((low, high)) = t.limits {
            let (low, high) = (S::splat(low), S::splat(high));
            for row in acc.iter_mut() {
                for v in row.iter_mut() {
                    *v = S::at_most(high, S::at_least(low, *v));
                }
            }
        }
        for (i, row) in acc.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                let to = t.c.wrapping_add(i * t.c_stride + first + j * S::LANES);
                match count(j) == S::LANES {
                    true => S::store(to, *v),
                    false => S::store_part(to, *v, count(j)),
                }
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic body above, compiled for its features. A row for each
/// width in vectors lists the heights; rows behind `ended` have half a vector more, of the set named there.
macro_rules! family {
    (
        $(#[$attribute:meta])* $module:ident, $set:ty, [$($feature:meta)?], $($nv:literal: $($mr:literal)+;)+
        $(ended by $half:ty, $($ended:literal: $($height:literal)+;)+)?
    ) => {
        $(#[$attribute])*
        mod $module {
            use super::*;

            $(#[$feature])?
            unsafe fn tile<H: Lanes, const MR: usize, const NV: usize, const NH: usize>(t: &Tile) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::tile::<$set, H, MR, NV, NH>(t) }
            }

            pub(super) const TILES: Tiles = Tiles {
                lanes: <$set>::LANES,
                whole: &[$(&[$(tile::<$set, $mr, $nv, 0>),+]),+],
                ended: &[$($(&[$(tile::<$half, $height, $ended, 1>),+]),+)?],
            };

            const _: () = { $(assert!([$($mr),+].len() <= MOST_ROWS);)+ };
            $(const _: () = assert!(2 * <$half>::LANES == <$set>::LANES);)?
        }
    };
}

family!(
    portable, Portable, [],
    1: 1 2 3 4 5 6;
    2: 1 2 3 4;
);
family!(
    #[cfg(target_arch = "x86_64")]
    avx2, crate::isa::Avx2, [target_feature(enable = "avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12;
    2: 1 2 3 4 5 6;
);
family!(
    #[cfg(target_arch = "x86_64")]
    avx512, crate::isa::Avx512, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
    2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
    3: 1 2 3 4 5 6 7 8 9;
    ended by crate::isa::Avx2,
    0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
    1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
    2: 1 2 3 4 5 6 7 8 9;
);
family!(
    #[cfg(target_arch = "aarch64")]
    neon, crate::isa::Neon, [target_feature(enable = "neon")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
    2: 1 2 3 4 5 6 7 8 9 10 11;
    3: 1 2 3 4 5 6 7 8;
    4: 1 2 3 4 5 6;
);
