//! The micro-kernel: one const-generic tile, instantiated per instruction set.
//!
//! For every tap the addresses of MR pixels are loaded; for every channel one row of the panel is loaded into NV vectors,
//! and each pixel's element is broadcast against them. The MR x NV accumulators start as the bias and stay in registers
//! over all taps and channels.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use crate::gemm::lanes::{Lanes, Portable};
use crate::isa::Isa;

/// The most pixels of a tile, over all instruction sets.
pub(super) const MOST_ROWS: usize = 14;

/// One tile: `C[MR x columns] = bias + sum over taps of rows * panel`, plus residual, limited.
///
/// # Safety
/// A kernel of MR pixels and NV vectors reads `channels` elements from each of `rows[tap * MR + i]`, and `1 + taps *
/// channels` rows of NV * LANES elements from `panel`; it writes, and with a residual reads, `columns <= NV * LANES`
/// elements in MR rows `c_stride` apart. All of these must be valid.
pub(super) struct Tile {
    pub(super) taps: usize,
    pub(super) channels: usize,
    pub(super) rows: *const *const f32,
    pub(super) panel: *const f32,
    pub(super) c: *mut f32,
    pub(super) c_stride: usize,
    pub(super) columns: usize,
    pub(super) residual: Option<*const f32>,
    pub(super) limits: Option<(f32, f32)>,
}

/// A tile kernel of some height and width.
pub(super) type TileKernel = unsafe fn(&Tile);

/// All micro-kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// Elements in a vector.
    pub(super) lanes: usize,
    /// The full height of a tile.
    pub(super) mr: usize,
    /// The full width of a tile in vectors.
    nv: usize,
    /// `[width in vectors - 1][height - 1]`
    tiles: &'static [&'static [TileKernel]],
}

impl Family {
    /// The full width of a tile in elements.
    pub(super) fn nr(&self) -> usize {
        self.nv * self.lanes
    }

    /// The tile of `rows` x `width` elements.
    pub(super) fn tile(&self, rows: usize, width: usize) -> TileKernel {
        self.tiles[width / self.lanes - 1][rows - 1]
    }

    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    pub(super) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Vnni(_) => avx512::FAMILY,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => avx2::FAMILY,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => neon::FAMILY,
            _ => portable::FAMILY,
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Lanes, const MR: usize, const NV: usize>(t: &Tile) {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
    unsafe {
        let bias: [S::V; NV] = core::array::from_fn(|j| S::load(t.panel.add(j * S::LANES)));
        let mut acc = [bias; MR];
        let mut b = t.panel.add(NV * S::LANES);
        for tap in 0..t.taps {
            let a: [*const f32; MR] = core::array::from_fn(|i| *t.rows.add(tap * MR + i));
            for p in 0..t.channels {
                let right: [S::V; NV] = core::array::from_fn(|j| S::load(b.add(j * S::LANES)));
                b = b.add(NV * S::LANES);
                for i in 0..MR {
                    let left = S::splat(*a[i].add(p));
                    for j in 0..NV {
                        acc[i][j] = S::fma(left, right[j], acc[i][j]);
                    }
                }
            }
        }
        finish::<S, MR, NV>(t, &mut acc);
    }
}

/// Adds the residual, limits and stores.
#[inline(always)]
unsafe fn finish<S: Lanes, const MR: usize, const NV: usize>(t: &Tile, acc: &mut [[S::V; NV]; MR]) {
    // SAFETY: as `tile`; vector `j` touches `min(LANES, columns - j * LANES)` elements of a row.
    unsafe {
        let count = |j: usize| t.columns.saturating_sub(j * S::LANES).min(S::LANES);
        if let Some(residual) = t.residual {
            for (i, row) in acc.iter_mut().enumerate() {
                for (j, v) in row.iter_mut().enumerate() {
                    let from = residual.wrapping_add(i * t.c_stride + j * S::LANES);
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
                let to = t.c.wrapping_add(i * t.c_stride + j * S::LANES);
                match count(j) == S::LANES {
                    true => S::store(to, *v),
                    false => S::store_part(to, *v, count(j)),
                }
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic body above, compiled for its features.
macro_rules! family {
    ($(#[$attribute:meta])* $module:ident, $set:ty, [$($feature:meta)?], $($mr:literal)+, nv $($nv:literal)+) => {
        $(#[$attribute])*
        mod $module {
            use super::*;

            $(#[$feature])?
            unsafe fn tile<const MR: usize, const NV: usize>(t: &Tile) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::tile::<$set, MR, NV>(t) }
            }

            const fn heights<const NV: usize>() -> &'static [TileKernel] {
                &[$(tile::<$mr, NV>),+]
            }

            pub(super) const FAMILY: Family = Family {
                lanes: <$set>::LANES,
                mr: [$($mr),+].len(),
                nv: [$($nv),+].len(),
                tiles: &[$(heights::<$nv>()),+],
            };

            const _: () = assert!(FAMILY.mr <= MOST_ROWS);
        }
    };
}

family!(portable, Portable, [], 1 2 3 4, nv 1 2);
family!(
    #[cfg(target_arch = "x86_64")]
    avx2, crate::isa::Avx2, [target_feature(enable = "avx2,fma")], 1 2 3 4 5 6, nv 1 2
);
family!(
    #[cfg(target_arch = "x86_64")]
    avx512, crate::isa::Avx512, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1 2 3 4 5 6 7, nv 1 2 3 4
);
family!(
    #[cfg(target_arch = "aarch64")]
    neon, crate::isa::Neon, [target_feature(enable = "neon")], 1 2 3 4 5 6, nv 1 2 3 4
);
