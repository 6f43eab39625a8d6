//! The micro-kernels of depthwise convolution in `f32`: one vector of channels along output rows.
//!
//! A step computes `XB` neighbouring outputs. For common kernel widths and strides the columns are known when
//! compiling: each is loaded once and multiplied with every weight that meets it. Otherwise each tap loads its own.
//! The rows of the kernel are a loop at run time in both, with the weights of one row in registers, so a step of any
//! height is the same code.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use super::{Axis, BLOCK, Line, Pixels};
use crate::gemm::lanes::{Lanes, Portable};
use crate::isa::Isa;
use core::ops::Range;

/// What one vector of channels has for all rows.
///
/// # Safety
/// Vectors are of `count <= LANES` channels. For each [`Line`] and `ky < rows`, the input vectors at `input +
/// line.input + ky * row_step + x * pixels.input`, `x < axis.input`, are readable; so are `LANES` weights at `bias` and at
/// `weights + ((line.first + ky) * axis.kernel + kx) * BLOCK`, `kx < axis.kernel`. The output vectors at `output +
/// line.output + x * pixels.output`, `x < across`, are writable. The output positions `inside` have all taps in the input.
pub(super) struct Strip {
    pub(super) input: *const f32,
    pub(super) row_step: usize,
    pub(super) bias: *const f32,
    pub(super) weights: *const f32,
    pub(super) output: *mut f32,
    pub(super) pixels: Pixels,
    pub(super) count: usize,
    pub(super) across: usize,
    pub(super) axis: Axis,
    pub(super) inside: Range<usize>,
    pub(super) limits: Option<(f32, f32)>,
}

type StripKernel = unsafe fn(&Strip, &[Line]);

/// Kernels of one width of the convolution kernel: `[stride - 1][long or short steps]`.
type Width = [[StripKernel; 2]; 2];

/// All micro-kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// Elements in a vector.
    pub(super) lanes: usize,
    /// Kernels three, five and seven wide.
    widths: [Width; 3],
    /// Any kernel.
    any: StripKernel,
}

/// Outputs of a long step: the sizes of images tend to be multiples of seven.
const LONG: usize = 7;
/// Outputs of a short step.
const SHORT: usize = 4;

impl Family {
    /// The kernel for output rows of `across` pixels.
    pub(super) fn strip(&self, axis: &Axis, across: usize) -> StripKernel {
        let short = usize::from(Self::outputs(axis, across) == SHORT);
        match (axis.kernel, axis.stride, axis.dilation) {
            (3 | 5 | 7, 1 | 2, 1) => self.widths[axis.kernel / 2 - 1][axis.stride - 1][short],
            _ => self.any,
        }
    }

    /// Outputs of its steps.
    pub(super) fn outputs(axis: &Axis, across: usize) -> usize {
        let computed = |step: usize| across.div_ceil(step) * step;
        let long = matches!((axis.kernel, axis.stride, axis.dilation), (3 | 5 | 7, 1 | 2, 1));
        if long && computed(LONG) <= computed(SHORT) { LONG } else { SHORT }
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

/// Runs along the rows in steps of `XB` outputs. `KW` and `STEP` are the width and the stride of the kernel, 0 if only
/// known at run time.
#[inline(always)]
unsafe fn strip<S: Lanes, const KW: usize, const STEP: usize, const XB: usize>(s: &Strip, lines: &[Line]) {
    for line in lines {
        for first in (0..s.across).step_by(XB) {
            let x = first.min(s.across.saturating_sub(XB));
            let start = x * s.axis.stride;
            // The columns of this step that lie in the image.
            let end = s.axis.input + s.axis.before;
            let (from, to) = (s.axis.before.saturating_sub(start), end.saturating_sub(start));
            let within = |column: usize| from <= column && column < to;
            // Where the first and the last output have a tap inside, only the columns of their other taps need a look.
            let columns = (XB - 1) * STEP + KW;
            let within_ends =
                |column: usize| (column + 1 >= KW || from <= column) && (column + KW <= columns || column < to);
            let ends = KW > 0 && from < KW && to + KW > columns;
            // SAFETY: the accesses are those listed at `Strip`: columns are read without a question only where all taps
            // are inside, and vectors in full only where there are `LANES` channels.
            unsafe {
                let whole = |at, inside| if inside { S::load(at) } else { S::splat(0.0) };
                let part = |at, inside| if inside { S::load_part(at, s.count) } else { S::splat(0.0) };
                match (s.count == S::LANES, s.inside.start <= x && x + XB <= s.inside.end) {
                    (true, true) => step::<S, KW, STEP, XB>(s, line, x, |at, _| S::load(at)),
                    (true, false) if ends => {
                        step::<S, KW, STEP, XB>(s, line, x, |at, column| whole(at, within_ends(column)))
                    }
                    (true, false) => step::<S, KW, STEP, XB>(s, line, x, |at, column| whole(at, within(column))),
                    (false, true) => step::<S, KW, STEP, XB>(s, line, x, |at, _| S::load_part(at, s.count)),
                    (false, false) => step::<S, KW, STEP, XB>(s, line, x, |at, column| part(at, within(column))),
                }
            }
        }
    }
}

/// The outputs from `x` on. `load` gives the vector of a column, counted from the first that the step sees, in a row.
#[inline(always)]
unsafe fn step<S: Lanes, const KW: usize, const STEP: usize, const XB: usize>(
    s: &Strip,
    line: &Line,
    x: usize,
    load: impl Fn(*const f32, usize) -> S::V,
) {
    // SAFETY: weights and outputs are those listed at `Strip`.
    unsafe {
        let mut acc = [S::load(s.bias); XB];
        let left = (x * s.axis.stride).wrapping_sub(s.axis.before).wrapping_mul(s.pixels.input);
        let mut row = s.input.wrapping_add(line.input).wrapping_add(left);
        let mut weights = s.weights.wrapping_add(line.first * s.axis.kernel * BLOCK);
        for _ in 0..line.rows {
            let load = |column: usize| load(row.wrapping_add(column * s.pixels.input), column);
            match KW {
                0 => any_taps::<S, XB>(s, weights, &mut acc, load),
                _ => window::<S, KW, STEP, XB>(weights, &mut acc, load),
            }
            row = row.wrapping_add(s.row_step);
            weights = weights.wrapping_add(s.axis.kernel * BLOCK);
        }
        if let Some((low, high)) = s.limits {
            let (low, high) = (S::splat(low), S::splat(high));
            for acc in &mut acc {
                *acc = S::at_most(high, S::at_least(low, *acc));
            }
        }
        let pixel = s.pixels.output;
        let to = s.output.wrapping_add(line.output + x * pixel);
        match (s.across >= XB, s.count < S::LANES) {
            (true, false) => (0..XB).for_each(|o| S::store(to.add(o * pixel), acc[o])),
            (true, true) => (0..XB).for_each(|o| S::store_part(to.add(o * pixel), acc[o], s.count)),
            (false, false) => (0..s.across).for_each(|o| S::store(to.add(o * pixel), acc[o])),
            (false, true) => (0..s.across).for_each(|o| S::store_part(to.add(o * pixel), acc[o], s.count)),
        }
    }
}

/// One row of the kernel: a window of columns that moves from output to output.
#[inline(always)]
unsafe fn window<S: Lanes, const KW: usize, const STEP: usize, const XB: usize>(
    weights: *const f32,
    acc: &mut [S::V; XB],
    load: impl Fn(usize) -> S::V,
) {
    // SAFETY: the weights of a row, as listed at `Strip`.
    unsafe {
        let weight: [S::V; KW] = core::array::from_fn(|kx| S::load(weights.add(kx * BLOCK)));
        let mut window = [S::splat(0.0); KW];
        for (column, value) in window[STEP..].iter_mut().enumerate() {
            *value = load(column);
        }
        for (o, acc) in acc.iter_mut().enumerate() {
            for kx in 0..KW {
                window[kx] = if kx + STEP < KW { window[kx + STEP] } else { load(o * STEP + kx) };
                *acc = S::fma(window[kx], weight[kx], *acc);
            }
        }
    }
}

/// One row of any kernel: each tap loads its own columns.
#[inline(always)]
unsafe fn any_taps<S: Lanes, const XB: usize>(
    s: &Strip,
    weights: *const f32,
    acc: &mut [S::V; XB],
    load: impl Fn(usize) -> S::V,
) {
    for kx in 0..s.axis.kernel {
        // SAFETY: the weights of a row, as listed at `Strip`.
        unsafe {
            let weight = S::load(weights.add(kx * BLOCK));
            for (o, acc) in acc.iter_mut().enumerate() {
                *acc = S::fma(load(o * s.axis.stride + kx * s.axis.dilation), weight, *acc);
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic bodies above, compiled for its features.
macro_rules! family {
    ($(#[$attribute:meta])* $module:ident, $set:ty, [$($feature:meta)?]) => {
        $(#[$attribute])*
        mod $module {
            use super::*;

            $(#[$feature])?
            unsafe fn strip<const KW: usize, const STEP: usize, const XB: usize>(s: &Strip, lines: &[Line]) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::strip::<$set, KW, STEP, XB>(s, lines) }
            }

            const fn width<const KW: usize>() -> Width {
                [[strip::<KW, 1, LONG>, strip::<KW, 1, SHORT>], [strip::<KW, 2, LONG>, strip::<KW, 2, SHORT>]]
            }

            pub(super) const FAMILY: Family = Family {
                lanes: <$set>::LANES,
                widths: [width::<3>(), width::<5>(), width::<7>()],
                any: strip::<0, 0, SHORT>,
            };
        }
    };
}

family!(portable, Portable, []);
family!(
    #[cfg(target_arch = "x86_64")]
    avx2,
    crate::isa::Avx2,
    [target_feature(enable = "avx2,fma")]
);
family!(
    #[cfg(target_arch = "x86_64")]
    avx512,
    crate::isa::Avx512,
    [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
);
family!(
    #[cfg(target_arch = "aarch64")]
    neon,
    crate::isa::Neon,
    [target_feature(enable = "neon")]
);
