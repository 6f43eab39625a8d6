//! The micro-kernels: patches of the image to matrices, and matrices to tiles of the output.
//!
//! Both are the same small linear map along the lines of a square and then along its columns, for a vector of channels at
//! a time. The maps are those of the points 0, 1, -1 (and 2, -2 for tiles of four) and infinity.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use super::Output;
use crate::gemm::lanes::{Lanes, Portable};
use crate::isa::Isa;
use core::ops::Range;

/// A patch of the image and where its transform goes.
///
/// # Safety
/// A kernel of side T reads `channels` elements of the pixels at `from + i * line + j * pixel` for all `i` in `rows` and `j`
/// in `columns`, both within `0..T`, and writes `channels`, rounded up to vectors, at `to + (i * T + j) * plane` for all `i`
/// and `j` below T. All of these must be valid; `from` itself need not be.
pub(super) struct Patch {
    pub(super) from: *const f32,
    pub(super) line: usize,
    pub(super) pixel: usize,
    /// What lies in the image; the rest is zero.
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) channels: usize,
    pub(super) to: *mut f32,
    pub(super) plane: usize,
}

/// The products of a tile and where its pixels go.
///
/// # Safety
/// A kernel of side T reads `channels`, rounded up to vectors, at `from + (i * T + j) * plane` for all `i` and `j` below T, and
/// `channels` elements of `bias`; it writes `channels` elements at `to + i * line + j * pixel` for all `i` below `rows` and `j`
/// below `columns`, and reads the residual likewise, with a line and a pixel of its own. All of these must be valid.
pub(super) struct Finished {
    pub(super) from: *const f32,
    pub(super) plane: usize,
    pub(super) channels: usize,
    pub(super) bias: Option<*const f32>,
    pub(super) residual: Option<(*const f32, [usize; 2])>,
    pub(super) limits: Option<(f32, f32)>,
    pub(super) to: *mut f32,
    pub(super) line: usize,
    pub(super) pixel: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// The transforms of an instruction set for one size of tile.
#[derive(Clone, Copy)]
pub(super) struct Transforms {
    pub(super) input: unsafe fn(&Patch),
    pub(super) output: unsafe fn(&Finished),
}

impl Transforms {
    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    pub(super) fn of(isa: Isa, output: Output) -> Self {
        let [two, four] = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Vnni(_) => avx512::SIZES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => avx2::SIZES,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) | Isa::Dotprod(_) | Isa::I8mm(_) => neon::SIZES,
            _ => portable::SIZES,
        };
        match output {
            Output::Two => two,
            Output::Four => four,
        }
    }
}

#[inline(always)]
unsafe fn add<S: Lanes>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller's set.
    unsafe { S::fma(S::splat(1.0), b, a) }
}

#[inline(always)]
unsafe fn subtract<S: Lanes>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the caller's set.
    unsafe { S::fma(S::splat(-1.0), b, a) }
}

/// `a + factor * b`
#[inline(always)]
unsafe fn add_times<S: Lanes>(a: S::V, factor: f32, b: S::V) -> S::V {
    // SAFETY: the caller's set.
    unsafe { S::fma(S::splat(factor), b, a) }
}

/// The transform of a line of a patch: T values to T.
#[inline(always)]
unsafe fn patch_line<S: Lanes, const T: usize>(d: [S::V; T]) -> [S::V; T] {
    let mut v = d;
    // SAFETY: the caller's set.
    unsafe {
        if T == 4 {
            v[0] = subtract::<S>(d[0], d[2]);
            v[1] = add::<S>(d[1], d[2]);
            v[2] = subtract::<S>(d[2], d[1]);
            v[3] = subtract::<S>(d[1], d[3]);
        } else {
            // Rows of opposite points are the sum and the difference of an even and an odd part.
            let (even_one, odd_one) = (add_times::<S>(d[4], -4.0, d[2]), add_times::<S>(d[3], -4.0, d[1]));
            let (even_two, odd_two) = (subtract::<S>(d[4], d[2]), subtract::<S>(d[3], d[1]));
            v[0] = add_times::<S>(add_times::<S>(d[4], -5.0, d[2]), 4.0, d[0]);
            v[1] = add::<S>(even_one, odd_one);
            v[2] = subtract::<S>(even_one, odd_one);
            v[3] = add_times::<S>(even_two, 2.0, odd_two);
            v[4] = add_times::<S>(even_two, -2.0, odd_two);
            v[5] = add_times::<S>(add_times::<S>(d[5], -5.0, d[3]), 4.0, d[1]);
        }
    }
    v
}

/// The transform of a line of products: T values to M.
#[inline(always)]
unsafe fn tile_line<S: Lanes, const T: usize, const M: usize>(p: [S::V; T]) -> [S::V; M] {
    // SAFETY: the caller's set.
    unsafe {
        let mut y = [p[0]; M];
        let (sum_one, difference_one) = (add::<S>(p[1], p[2]), subtract::<S>(p[1], p[2]));
        if T == 4 {
            y[0] = add::<S>(p[0], sum_one);
            y[1] = subtract::<S>(difference_one, p[3]);
        } else {
            let (sum_two, difference_two) = (add::<S>(p[3], p[4]), subtract::<S>(p[3], p[4]));
            y[0] = add::<S>(p[0], add::<S>(sum_one, sum_two));
            y[1] = add_times::<S>(difference_one, 2.0, difference_two);
            y[2] = add_times::<S>(sum_one, 4.0, sum_two);
            y[3] = add::<S>(p[5], add_times::<S>(difference_one, 8.0, difference_two));
        }
        y
    }
}

#[inline(always)]
fn column<V: Copy, const T: usize, const M: usize>(lines: &[[V; M]; T], j: usize) -> [V; T] {
    core::array::from_fn(|i| lines[i][j])
}

#[inline(always)]
unsafe fn input<S: Lanes, const T: usize>(p: &Patch) {
    let inside = |i: usize, j: usize| p.rows.contains(&i) && p.columns.contains(&j);
    let whole = p.rows.len() == T && p.columns.len() == T;
    for channel in (0..p.channels).step_by(S::LANES) {
        let count = p.channels - channel;
        // SAFETY: the accesses are those listed at `Patch`: pixels outside the image are not read, and vectors in full
        // only where there are `LANES` channels.
        unsafe {
            let zero = S::splat(0.0);
            match (count >= S::LANES, whole) {
                (true, true) => patch::<S, T>(p, channel, |at, _, _| S::load(at)),
                (true, false) => patch::<S, T>(p, channel, |at, i, j| if inside(i, j) { S::load(at) } else { zero }),
                (false, _) => {
                    patch::<S, T>(p, channel, |at, i, j| if inside(i, j) { S::load_part(at, count) } else { zero })
                }
            }
        }
    }
}

/// Transforms a vector of channels. `load` gives that of the pixel in line `i` and column `j`.
#[inline(always)]
unsafe fn patch<S: Lanes, const T: usize>(p: &Patch, channel: usize, load: impl Fn(*const f32, usize, usize) -> S::V) {
    // SAFETY: the writes are those listed at `Patch`.
    unsafe {
        let mut lines = [[S::splat(0.0); T]; T];
        for (i, line) in lines.iter_mut().enumerate() {
            let from = p.from.wrapping_add(i * p.line + channel);
            *line = patch_line::<S, T>(core::array::from_fn(|j| load(from.wrapping_add(j * p.pixel), i, j)));
        }
        for j in 0..T {
            let values = patch_line::<S, T>(column(&lines, j));
            for (i, v) in values.into_iter().enumerate() {
                S::store(p.to.add((i * T + j) * p.plane + channel), v);
            }
        }
    }
}

#[inline(always)]
unsafe fn output<S: Lanes, const T: usize, const M: usize>(f: &Finished) {
    for channel in (0..f.channels).step_by(S::LANES) {
        let count = f.channels - channel;
        // SAFETY: the accesses are those listed at `Finished`; vectors of pixels in full only where there are `LANES`
        // channels.
        unsafe {
            if count >= S::LANES {
                pixels::<S, T, M>(f, channel, |at| S::load(at), |at, v| S::store(at, v));
            } else {
                pixels::<S, T, M>(f, channel, |at| S::load_part(at, count), |at, v| S::store_part(at, v, count));
            }
        }
    }
}

/// Transforms a vector of channels, adds bias and residual, limits and stores.
#[inline(always)]
unsafe fn pixels<S: Lanes, const T: usize, const M: usize>(
    f: &Finished,
    channel: usize,
    load: impl Fn(*const f32) -> S::V,
    store: impl Fn(*mut f32, S::V),
) {
    // SAFETY: the reads of products are those listed at `Finished`.
    unsafe {
        let mut lines = [[S::splat(0.0); M]; T];
        for (i, line) in lines.iter_mut().enumerate() {
            let from = f.from.add(i * T * f.plane + channel);
            *line = tile_line::<S, T, M>(core::array::from_fn(|j| S::load(from.add(j * f.plane))));
        }
        let bias = f.bias.map_or(S::splat(0.0), |bias| load(bias.add(channel)));
        for j in 0..M.min(f.columns) {
            let pixels = tile_line::<S, T, M>(column(&lines, j));
            for (i, v) in pixels.into_iter().take(f.rows).enumerate() {
                let mut v = add::<S>(v, bias);
                if let Some((residual, [line, pixel])) = f.residual {
                    v = add::<S>(v, load(residual.add(i * line + j * pixel + channel)));
                }
                if let Some((low, high)) = f.limits {
                    v = S::at_most(S::splat(high), S::at_least(S::splat(low), v));
                }
                store(f.to.add(i * f.line + j * f.pixel + channel), v);
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic bodies above, compiled for its features.
macro_rules! sizes {
    ($(#[$attribute:meta])* $module:ident, $set:ty, [$($feature:meta)?]) => {
        $(#[$attribute])*
        mod $module {
            use super::*;

            $(#[$feature])?
            unsafe fn input<const T: usize>(p: &Patch) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::input::<$set, T>(p) }
            }

            $(#[$feature])?
            unsafe fn output<const T: usize, const M: usize>(f: &Finished) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::output::<$set, T, M>(f) }
            }

            pub(super) const SIZES: [Transforms; 2] = [
                Transforms { input: input::<4>, output: output::<4, 2> },
                Transforms { input: input::<6>, output: output::<6, 4> },
            ];
        }
    };
}

sizes!(portable, Portable, []);
sizes!(
    #[cfg(target_arch = "x86_64")]
    avx2,
    crate::isa::Avx2,
    [target_feature(enable = "avx2,fma")]
);
sizes!(
    #[cfg(target_arch = "x86_64")]
    avx512,
    crate::isa::Avx512,
    [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
);
sizes!(
    #[cfg(target_arch = "aarch64")]
    neon,
    crate::isa::Neon,
    [target_feature(enable = "neon")]
);
