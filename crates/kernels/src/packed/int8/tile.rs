//! The micro-kernel: one const-generic tile over [`Dots`], instantiated per instruction set.
//!
//! Each step takes some bytes of every patch and a row of NV lines of weights (or two, where a step is eight bytes). Sums
//! of sixteen channels each start as the panel's first row and stay in registers over all steps. A set multiplies one
//! patch at a time or two; a tile has MR times as many, and if that is one too many, the last one is taken twice.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use super::dots::{Dots, Portable, each};
use super::layout::{HEAD, Kind, Layout};
use super::requantize::Bytes;
use super::strip::Patches;
use super::{LANES, Line};
use crate::isa::Isa;
use core::ops::Range;

/// The most lines across a panel, over all instruction sets.
pub(super) const WIDEST: usize = 4;

/// Tiles one below the other, each `sums[height x NV lines] = start + rows * panel`.
///
/// # Safety
/// A kernel of this height and NV lines reads, from each of `height * count` rows `stride` apart, the bytes of all steps: those
/// of each of `runs`, `line` bytes apart; and from `panel` all rows of NV lines. It writes `height * count * NV` lines of sums.
/// All of these must be valid.
pub(super) struct Tile {
    pub(super) height: usize,
    /// How many there are; a call is as long as the products of a small one.
    pub(super) count: usize,
    pub(super) rows: *const u8,
    pub(super) stride: usize,
    pub(super) panel: *const Line,
    pub(super) runs: usize,
    pub(super) line: usize,
    /// Steps of a run.
    pub(super) steps: usize,
    /// Steps between changes of scale, if groups have scales.
    pub(super) group_steps: usize,
    pub(super) sums: *mut Line,
}

/// A tile kernel of some height and width.
pub(super) type TileKernel = unsafe fn(&Tile);

/// One that makes bytes of the sums and writes those, to as many rows as the tile has, instead of the sums.
pub(super) type BytesKernel = unsafe fn(&Tile, &Bytes<'_>);

/// All micro-kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// What inputs are combined with (exclusive or) when they are gathered: their offset.
    pub(super) flip: u8,
    /// Lines of weights that a step takes, if weights are bytes.
    pub(super) lines: usize,
    /// [`Patches::fill`] for this set.
    pub(super) fill: unsafe fn(&Patches<'_>, Range<usize>, &Layout, &mut [u8]),
    /// Most patches of a tile.
    most: usize,
    /// `[width in lines - 1][height - 1]`
    tiles: &'static [&'static [TileKernel]],
    bytes: &'static [&'static [BytesKernel]],
}

impl Family {
    /// The full width of a tile, in lines.
    pub(super) fn widest(&self) -> usize {
        self.tiles.len()
    }

    /// The full height of a tile of this width.
    pub(super) fn tallest(&self, width: usize) -> usize {
        self.tiles[width - 1].len().min(self.most)
    }

    /// The tile of `rows` patches by `width` lines.
    pub(super) fn tile(&self, rows: usize, width: usize) -> TileKernel {
        self.tiles[width - 1][rows - 1]
    }

    /// The tile of `rows` patches by `width` lines that makes bytes, if weights are bytes.
    pub(super) fn bytes(&self, rows: usize, width: usize) -> BytesKernel {
        self.bytes[width - 1][rows - 1]
    }

    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    pub(super) fn of(isa: Isa, kind: Kind) -> Self {
        let families = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Vnni(_) => &vnni::FAMILIES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => &avx512::FAMILIES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => &avx2::FAMILIES,
            #[cfg(target_arch = "aarch64")]
            Isa::I8mm(_) => &i8mm::FAMILIES,
            #[cfg(target_arch = "aarch64")]
            Isa::Dotprod(_) => &dotprod::FAMILIES,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => &neon::FAMILIES,
            _ => &portable::FAMILIES,
        };
        match kind {
            Kind::Bytes => families[0],
            Kind::Nibbles => families[1],
            Kind::Groups(_) => families[2],
        }
    }
}

/// The patches that are multiplied together, of a set that takes two at once; else the second is of no use.
type Pair = [*const u8; 2];

/// Patches of a tile.
#[inline(always)]
fn height<S: Dots, const MR: usize>(t: &Tile) -> usize {
    if S::ROWS == 1 { MR } else { t.height }
}

/// Where a run of the patches of the tile with this first row is.
#[inline(always)]
unsafe fn rows<S: Dots, const MR: usize>(t: &Tile, first: usize, run: usize) -> [Pair; MR] {
    let last = height::<S, MR>(t) - 1;
    // SAFETY: these are rows of the tile.
    let row = |i: usize| unsafe { t.rows.add(run * t.line + (first + i.min(last)) * t.stride) };
    core::array::from_fn(|i| [row(i * S::ROWS), row(i * S::ROWS + 1)])
}

/// Adds some steps to the sums, and returns the line after them.
#[inline(always)]
unsafe fn steps<S: Dots, const MR: usize, const NV: usize, const NIBBLES: bool>(
    rows: &[Pair; MR],
    steps: Range<usize>,
    mut line: *const Line,
    sums: &mut [[S::Sums; NV]; MR],
) -> *const Line {
    for step in steps {
        // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
        unsafe {
            if NIBBLES {
                // All patches with one half first, then with the other: both together would take twice the registers.
                for (high, at) in [(false, 0), (true, 4)].into_iter().take(8 / S::INPUTS) {
                    let weights = each!(NV; |j| S::nibbles(&*line.add(j), high));
                    for i in 0..MR {
                        let inputs = S::inputs(rows[i].map(|row| row.add(step * 8 + at)));
                        for j in 0..NV {
                            sums[i][j] = S::dot(sums[i][j], inputs, weights[j]);
                        }
                    }
                }
                line = line.add(NV);
            } else {
                let weights = each!(NV; |j| S::weights(line.add(j * S::LINES)));
                for i in 0..MR {
                    let inputs = S::inputs(rows[i].map(|row| row.add(step * S::INPUTS)));
                    for j in 0..NV {
                        sums[i][j] = S::dot(sums[i][j], inputs, weights[j]);
                    }
                }
                line = line.add(NV * S::LINES);
            }
        }
    }
    line
}

/// Calls `body` with a line of the sums of the tile with this first row and what belongs there, for all of them.
#[inline(always)]
unsafe fn finish<S: Dots, const MR: usize, const NV: usize>(
    t: &Tile,
    first: usize,
    sums: &[[S::Sums; NV]; MR],
    body: impl Fn(&mut Line, S::Whole, usize),
) {
    for (i, row) in sums.iter().enumerate() {
        for (j, sums) in row.iter().enumerate() {
            // SAFETY: the lines are those listed at `Tile`, which the caller vouches for.
            unsafe {
                let [one, two] = S::whole(*sums);
                body(&mut *t.sums.add((first + i * S::ROWS) * NV + j), one, j);
                if S::ROWS == 2 && 2 * i + 1 < t.height {
                    body(&mut *t.sums.add((first + 2 * i + 1) * NV + j), two, j);
                }
            }
        }
    }
}

/// The sums over all steps of the tile with this first row.
#[inline(always)]
unsafe fn sums<S: Dots, const MR: usize, const NV: usize, const NIBBLES: bool>(
    t: &Tile,
    first: usize,
) -> [[S::Sums; NV]; MR] {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
    unsafe {
        let mut sums = [each!(NV; |j| S::start(&*t.panel.add(j))); MR];
        let mut line = t.panel.add(HEAD * NV);
        for run in 0..t.runs {
            line = steps::<S, MR, NV, NIBBLES>(&rows::<S, MR>(t, first, run), 0..t.steps, line, &mut sums);
        }
        sums
    }
}

/// Sums over all steps.
#[inline(always)]
unsafe fn tile<S: Dots, const MR: usize, const NV: usize, const NIBBLES: bool>(t: &Tile) {
    let height = height::<S, MR>(t);
    for first in (0..t.count).map(|tile| tile * height) {
        // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
        unsafe {
            finish::<S, MR, NV>(
                t,
                first,
                &sums::<S, MR, NV, NIBBLES>(t, first),
                #[inline(always)]
                |to, sums, _| S::store(to, sums),
            );
        }
    }
}

/// Sums over all steps, as bytes.
#[inline(always)]
unsafe fn bytes<S: Dots, const MR: usize, const NV: usize>(t: &Tile, to: &Bytes<'_>) {
    let height = height::<S, MR>(t);
    for first in (0..t.count).map(|tile| tile * height) {
        // SAFETY: all accesses are those listed at `Tile` and `Bytes`, which the caller vouches for.
        unsafe {
            let to = Bytes { out: to.out.add(first * to.stride), ..*to };
            S::narrow(&sums::<S, MR, NV, false>(t, first), height, &to);
        }
    }
}

/// Sums over the steps of each group, scaled and added up as numbers in memory.
#[inline(always)]
unsafe fn grouped<S: Dots, const MR: usize, const NV: usize>(t: &Tile) {
    let height = height::<S, MR>(t);
    for first in (0..t.count).map(|tile| tile * height) {
        // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
        unsafe { grouped_one::<S, MR, NV>(t, first) };
    }
}

/// The same for the tile with this first row.
#[inline(always)]
unsafe fn grouped_one<S: Dots, const MR: usize, const NV: usize>(t: &Tile, first: usize) {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for; zero bits are the number zero.
    unsafe {
        let rows = rows::<S, MR>(t, first, 0);
        t.sums.add(first * NV).write_bytes(0, height::<S, MR>(t) * NV);
        let (mut scales, mut line) = (t.panel, t.panel.add(HEAD * NV));
        for group in 0..t.steps / t.group_steps {
            let upper = group % 2 == 1;
            if !upper {
                scales = line;
                line = line.add(NV);
            }
            let mut sums = [[S::start(&Line([0; LANES])); NV]; MR];
            let range = group * t.group_steps..(group + 1) * t.group_steps;
            line = steps::<S, MR, NV, true>(&rows, range, line, &mut sums);
            finish::<S, MR, NV>(
                t,
                first,
                &sums,
                #[inline(always)]
                |to, sums, j| S::add_scaled(to, sums, &*scales.add(j), upper),
            );
        }
    }
}

/// A module with the kernels of one instruction set: the generic body above, compiled for its features. A row for each
/// width in lines lists MR for all heights.
macro_rules! family {
    ($(#[$attribute:meta])* $module:ident, $set:ty, [$($feature:meta)?], $($nv:literal: $($mr:literal)+;)+) => {
        $(#[$attribute])*
        mod $module {
            use super::*;

            $(#[$feature])?
            unsafe fn tile<const MR: usize, const NV: usize, const NIBBLES: bool>(t: &Tile) {
                const { assert!(NV <= WIDEST) };
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::tile::<$set, MR, NV, NIBBLES>(t) }
            }

            $(#[$feature])?
            unsafe fn bytes<const MR: usize, const NV: usize>(t: &Tile, to: &Bytes<'_>) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::bytes::<$set, MR, NV>(t, to) }
            }

            $(#[$feature])?
            unsafe fn grouped<const MR: usize, const NV: usize>(t: &Tile) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::grouped::<$set, MR, NV>(t) }
            }

            $(#[$feature])?
            unsafe fn fill(patches: &Patches<'_>, pixels: Range<usize>, layout: &Layout, strip: &mut [u8]) {
                // SAFETY: compiled for the set.
                unsafe { patches.fill::<$set>(pixels, layout, strip) }
            }

            const fn family(most: usize, tiles: &'static [&'static [TileKernel]]) -> Family {
                let bytes = &[$(&[$(bytes::<$mr, $nv> as BytesKernel),+] as &[BytesKernel]),+];
                Family { flip: <$set>::FLIP, lines: <$set>::LINES, fill, most, tiles, bytes }
            }

            pub(super) static FAMILIES: [Family; 3] = [
                family(usize::MAX, &[$(&[$(tile::<$mr, $nv, false>),+]),+]),
                family(<$set>::MOST_WITH_NIBBLES, &[$(&[$(tile::<$mr, $nv, true>),+]),+]),
                family(<$set>::MOST_WITH_NIBBLES, &[$(&[$(grouped::<$mr, $nv>),+]),+]),
            ];
        }
    };
}

family!(portable, Portable, [], 1: 1 2 3 4;);
family!(
    #[cfg(target_arch = "x86_64")]
    avx2, crate::isa::Avx2, [target_feature(enable = "avx2,fma")], 1: 1 2 3;
);
family!(
    #[cfg(target_arch = "x86_64")]
    avx512, crate::isa::Avx512, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12;
);
family!(
    #[cfg(target_arch = "x86_64")]
    vnni, crate::isa::Vnni, [target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12;
    2: 1 2 3 4 5 6 7 8 9 10 11 12;
    3: 1 2 3 4 5 6 7 8;
    4: 1 2 3 4 5 6;
);
family!(
    #[cfg(target_arch = "aarch64")]
    neon, crate::isa::Neon, [target_feature(enable = "neon")], 1: 1 2;
);
family!(
    #[cfg(target_arch = "aarch64")]
    dotprod, crate::isa::Dotprod, [target_feature(enable = "neon,dotprod")], 1: 1 2 3 4 5 6;
);
family!(
    #[cfg(target_arch = "aarch64")]
    i8mm, crate::isa::I8mm, [target_feature(enable = "neon,dotprod,i8mm")], 1: 1 1 2 2;
);
