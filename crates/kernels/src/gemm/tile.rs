//! The micro-kernels: one const-generic tile, one dot-product tile and one transpose, instantiated per instruction set.
//!
//! ```text
//!            B panel, packed: k rows of width NV * LANES
//!            ┌──────────────┐
//!            │ b0  b1       │   one row of B is loaded into NV vectors,
//!            └──────────────┘   each element of A's column is broadcast against them
//! A, in      ┌──────────────┐
//! place  ┌─┐ │ acc[0][0..NV]│   MR x NV accumulators stay in registers for the whole k loop;
//! MR rows│a│ │ ...          │   then C = acc (+ bias | + beta * C), clamped, stored once
//!        └─┘ └──────────────┘
//! ```
//!
//! A [`Family`] is the table of all tiles of an instruction set: every height up to `mr`, every width up to `nv`
//! vectors, so that no edge is padded by more than one vector.
#![allow(unsafe_code, reason = "loads and stores of the GEMM micro-kernels")]

use super::lanes::{Lanes, Portable};
use crate::isa::Isa;
use crate::split::extent;

/// What is added to the product of one tile.
#[derive(Clone, Copy)]
pub(super) enum Addend {
    Zero,
    /// `beta * C`
    Scaled(f32),
    /// One value per row of the tile.
    PerRow(*const f32),
    /// One value per column of the tile.
    PerColumn(*const f32),
}

/// One tile: `C[rows x columns] = A * B + addend`, clamped.
///
/// # Safety
/// A kernel of height MR and width NV vectors reads `a[i * a_stride + p]` and `b[p * NV * LANES + j]`, and reads and
/// writes `c[i * c_stride + j]`, for `i < MR`, `p < k`, `j < columns <= NV * LANES` (B in full width). All of these,
/// and the MR or `columns` values of the addend, must be valid.
pub(super) struct Tile {
    pub(super) k: usize,
    pub(super) a: *const f32,
    pub(super) a_stride: usize,
    pub(super) b: *const f32,
    pub(super) c: *mut f32,
    pub(super) c_stride: usize,
    pub(super) columns: usize,
    pub(super) addend: Addend,
    pub(super) clamp: Option<(f32, f32)>,
}

type TileKernel = unsafe fn(&Tile);
/// `out[i * 4 + j]` = dot product of row `i` of A and row `j` of B: (k, (a, stride), (b, stride), out).
type DotKernel = unsafe fn(usize, (*const f32, usize), (*const f32, usize), &mut [f32; 16]);
type TransposeKernel = unsafe fn(*const f32, usize, *mut f32, usize);

/// All micro-kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// Elements in a vector.
    pub(super) lanes: usize,
    /// The full height of a tile.
    pub(super) mr: usize,
    /// The full width of a tile in vectors.
    pub(super) nv: usize,
    /// `[width in vectors - 1][height - 1]`
    tiles: &'static [&'static [TileKernel]],
    /// `[B rows is 4][height - 1]`
    dots: [[DotKernel; 4]; 2],
    transpose: TransposeKernel,
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

    /// The dot products of `rows` (1 to 4) rows of A with 4 rows of B, or with 1.
    pub(super) fn dot(&self, rows: usize, four: bool) -> DotKernel {
        self.dots[usize::from(four)][rows - 1]
    }

    /// Transposes `rows` x `columns` of `from` (rows `stride` apart) into `to` (rows `step` apart).
    pub(super) fn transpose(
        &self,
        (rows, columns): (usize, usize),
        (from, stride): (&[f32], usize),
        (to, step): (&mut [f32], usize),
    ) {
        if rows == 0 || columns == 0 {
            return;
        }
        let fits = |extent: Option<usize>, len: usize| extent.is_some_and(|extent| extent <= len);
        assert!(fits(extent(rows, stride, columns), from.len()) && fits(extent(columns, step, rows), to.len()));
        let (whole_rows, whole_columns) = (rows - rows % self.lanes, columns - columns % self.lanes);
        for j in (0..whole_columns).step_by(self.lanes) {
            for i in (0..whole_rows).step_by(self.lanes) {
                let (source, target) = (&from[i * stride + j..], &mut to[j * step + i..]);
                // SAFETY: the block lies inside both slices by the assertion; the family is that of a held token.
                unsafe { (self.transpose)(source.as_ptr(), stride, target.as_mut_ptr(), step) };
            }
        }
        for i in 0..rows {
            let first = if i < whole_rows { whole_columns } else { 0 };
            for j in first..columns {
                to[j * step + i] = from[i * stride + j];
            }
        }
    }

    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    pub(super) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Vnni(_) => avx512::FAMILY,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => avx2::FAMILY,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) | Isa::Dotprod(_) | Isa::I8mm(_) => neon::FAMILY,
            _ => portable::FAMILY,
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Lanes, const MR: usize, const NV: usize>(t: &Tile) {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
    unsafe {
        let mut acc = [[S::splat(0.0); NV]; MR];
        for p in 0..t.k {
            let b: [S::V; NV] = core::array::from_fn(|j| S::load(t.b.add((p * NV + j) * S::LANES)));
            for (i, acc) in acc.iter_mut().enumerate() {
                let a = S::splat(*t.a.add(i * t.a_stride + p));
                for (acc, b) in acc.iter_mut().zip(b) {
                    *acc = S::fma(a, b, *acc);
                }
            }
        }
        finish::<S, MR, NV>(t, &mut acc);
    }
}

/// Adds the addend, clamps and stores.
#[inline(always)]
unsafe fn finish<S: Lanes, const MR: usize, const NV: usize>(t: &Tile, acc: &mut [[S::V; NV]; MR]) {
    // SAFETY: as `tile`; vector `j` touches `min(LANES, columns - j * LANES)` elements of a row.
    unsafe {
        let one = S::splat(1.0);
        let count = |j: usize| t.columns.saturating_sub(j * S::LANES).min(S::LANES);
        let load = |from: *const f32, j: usize| match count(j) == S::LANES {
            true => S::load(from.add(j * S::LANES)),
            false => S::load_part(from.wrapping_add(j * S::LANES), count(j)),
        };
        match t.addend {
            Addend::Zero => {}
            Addend::Scaled(beta) => {
                for (i, row) in acc.iter_mut().enumerate() {
                    for (j, v) in row.iter_mut().enumerate() {
                        *v = S::fma(S::splat(beta), load(t.c.add(i * t.c_stride), j), *v);
                    }
                }
            }
            Addend::PerRow(bias) => {
                for (i, row) in acc.iter_mut().enumerate() {
                    for v in row.iter_mut() {
                        *v = S::fma(one, S::splat(*bias.add(i)), *v);
                    }
                }
            }
            Addend::PerColumn(bias) => {
                let bias: [S::V; NV] = core::array::from_fn(|j| load(bias, j));
                for row in acc.iter_mut() {
                    for (v, bias) in row.iter_mut().zip(bias) {
                        *v = S::fma(one, bias, *v);
                    }
                }
            }
        }
        if let Some((low, high)) = t.clamp {
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

#[inline(always)]
unsafe fn dots<S: Lanes, const MR: usize, const NC: usize>(
    k: usize,
    (a, a_stride): (*const f32, usize),
    (b, b_stride): (*const f32, usize),
    out: &mut [f32; 16],
) {
    // SAFETY: the caller vouches for `k` elements in MR rows of A and NC rows of B.
    unsafe {
        let mut acc = [[S::splat(0.0); NC]; MR];
        let whole = k - k % S::LANES;
        for p in (0..whole).step_by(S::LANES) {
            dot_step::<S, MR, NC>(&mut acc, (a.add(p), a_stride), (b.add(p), b_stride), |from| S::load(from));
        }
        if whole < k {
            let part = |from| S::load_part(from, k - whole);
            dot_step::<S, MR, NC>(&mut acc, (a.add(whole), a_stride), (b.add(whole), b_stride), part);
        }
        for i in 0..MR {
            for j in 0..NC {
                out[i * 4 + j] = S::sum(acc[i][j]);
            }
        }
    }
}

/// Adds the products of one vector of each row.
#[inline(always)]
unsafe fn dot_step<S: Lanes, const MR: usize, const NC: usize>(
    acc: &mut [[S::V; NC]; MR],
    (a, a_stride): (*const f32, usize),
    (b, b_stride): (*const f32, usize),
    load: impl Fn(*const f32) -> S::V,
) {
    // SAFETY: `load` reads what is left of each row, as in `dots`.
    unsafe {
        let rows: [S::V; NC] = core::array::from_fn(|j| load(b.add(j * b_stride)));
        for (i, acc) in acc.iter_mut().enumerate() {
            let left = load(a.add(i * a_stride));
            for (acc, right) in acc.iter_mut().zip(rows) {
                *acc = S::fma(left, right, *acc);
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic bodies above, compiled for its features.
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

            $(#[$feature])?
            unsafe fn dots<const MR: usize, const NC: usize>(
                k: usize,
                a: (*const f32, usize),
                b: (*const f32, usize),
                out: &mut [f32; 16],
            ) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::dots::<$set, MR, NC>(k, a, b, out) }
            }

            $(#[$feature])?
            unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, step: usize) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { <$set>::transpose(from, stride, to, step) }
            }

            const fn heights<const NV: usize>() -> &'static [TileKernel] {
                &[$(tile::<$mr, NV>),+]
            }

            pub(super) const FAMILY: Family = Family {
                lanes: <$set>::LANES,
                mr: [$($mr),+].len(),
                nv: [$($nv),+].len(),
                tiles: &[$(heights::<$nv>()),+],
                dots: [
                    [dots::<1, 1>, dots::<2, 1>, dots::<3, 1>, dots::<4, 1>],
                    [dots::<1, 4>, dots::<2, 4>, dots::<3, 4>, dots::<4, 4>],
                ],
                transpose,
            };
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
    1 2 3 4 5 6 7 8 9 10 11 12, nv 1 2
);
family!(
    #[cfg(target_arch = "aarch64")]
    neon, crate::isa::Neon, [target_feature(enable = "neon")], 1 2 3 4 5 6 7 8, nv 1 2
);
