//! The micro-kernel: one const-generic tile over [`Dots`], instantiated per instruction set.
//!
//! Each step takes four bytes of MR patches and a row of NV lines of weights. The MR x NV sums of sixteen channels each
//! start as the panel's first row and stay in registers over all steps.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use super::layout::{HEAD, Kind};
use super::strip::{Patches, Runs};
use super::{LANES, Line};
use crate::isa::Isa;
use core::ops::Range;

/// The most lines across a panel, over all instruction sets.
pub(super) const WIDEST: usize = 4;

/// One tile: `sums[MR x NV lines] = start + rows * panel`.
///
/// # Safety
/// A kernel of MR patches and NV lines reads, from each of MR rows `stride` apart, four bytes per step (eight, if weights
/// have four bits), and from `panel` all rows of NV lines; it writes MR * NV lines of sums. All of these must be valid.
pub(super) struct Tile {
    pub(super) rows: *const u8,
    pub(super) stride: usize,
    pub(super) panel: *const Line,
    pub(super) steps: usize,
    /// Steps between changes of scale, if groups have scales.
    pub(super) group_steps: usize,
    pub(super) sums: *mut Line,
}

/// A tile kernel of some height and width.
pub(super) type TileKernel = unsafe fn(&Tile);

/// All micro-kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// What inputs are combined with (exclusive or) when they are gathered: their offset.
    pub(super) flip: u8,
    /// [`Patches::gather`] for this set.
    pub(super) gather: unsafe fn(&Patches<'_>, Range<usize>, usize, &mut [u8]),
    /// `[width in lines - 1][height - 1]`
    tiles: &'static [&'static [TileKernel]],
}

impl Family {
    /// The full width of a tile, in lines.
    pub(super) fn widest(&self) -> usize {
        self.tiles.len()
    }

    /// The full height of a tile of this width.
    pub(super) fn tallest(&self, width: usize) -> usize {
        self.tiles[width - 1].len()
    }

    /// The tile of `rows` patches by `width` lines.
    pub(super) fn tile(&self, rows: usize, width: usize) -> TileKernel {
        self.tiles[width - 1][rows - 1]
    }

    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    pub(super) fn of(isa: Isa, kind: Kind) -> Self {
        let families = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Vnni(_) => &vnni::FAMILIES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) | Isa::Avx512(_) => &avx2::FAMILIES,
            _ => &portable::FAMILIES,
        };
        match kind {
            Kind::Bytes => families[0],
            Kind::Nibbles => families[1],
            Kind::Groups(_) => families[2],
        }
    }
}

/// The upper half of each byte of a word.
const UPPER: i32 = 0xf0f0_f0f0_u32.cast_signed();

/// Dot products of four bytes, for sixteen channels at once.
///
/// # Safety
/// Every function requires the instructions of the implementing set. `inputs` reads four bytes.
pub(super) trait Dots {
    /// Sixteen sums.
    type Sums: Copy;
    /// Four inputs, ready to meet those of every channel.
    type Inputs: Copy;
    /// Four weights of sixteen channels.
    type Weights: Copy;
    /// What inputs are combined with when they are copied.
    const FLIP: u8;

    unsafe fn start(line: &Line) -> Self::Sums;
    unsafe fn inputs(from: *const u8) -> Self::Inputs;
    unsafe fn weights(line: &Line) -> Self::Weights;
    /// `sums + inputs * weights`
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums;
    unsafe fn store(to: &mut Line, sums: Self::Sums);
    /// Both halves of every byte, low and high, sixteen-fold: they stand in the upper half.
    #[inline(always)]
    unsafe fn nibbles(line: &Line) -> [Self::Weights; 2] {
        // SAFETY: the instructions exist.
        unsafe { [4, 0].map(|shift| Self::weights(&Line(line.0.map(|word| (word << shift) & UPPER)))) }
    }
    /// Adds the sums to numbers, times the scales in the lower or the upper halves of words.
    #[inline(always)]
    unsafe fn add_scaled(to: &mut Line, sums: Self::Sums, scales: &Line, upper: bool) {
        let mut plain = Line::default();
        // SAFETY: the instructions exist.
        unsafe { Self::store(&mut plain, sums) };
        for ((to, sum), scale) in to.0.iter_mut().zip(plain.0).zip(scales.0) {
            let scale = if upper { scale & !0xffff } else { scale << 16 };
            let total = f32::from_bits(to.cast_unsigned()) + sum as f32 * f32::from_bits(scale.cast_unsigned());
            *to = total.to_bits().cast_signed();
        }
    }
    /// Copies inputs; up to 63 bytes after them may be overwritten.
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]);
}

/// Adds some steps to the sums, and returns the line after them.
#[inline(always)]
unsafe fn steps<S: Dots, const MR: usize, const NV: usize, const NIBBLES: bool>(
    rows: &[*const u8; MR],
    steps: Range<usize>,
    mut line: *const Line,
    sums: &mut [[S::Sums; NV]; MR],
) -> *const Line {
    for step in steps {
        // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
        unsafe {
            if NIBBLES {
                let weights: [[S::Weights; 2]; NV] = core::array::from_fn(|j| S::nibbles(&*line.add(j)));
                for i in 0..MR {
                    let inputs = [0, 4].map(|half| S::inputs(rows[i].add(step * 8 + half)));
                    for half in 0..2 {
                        for j in 0..NV {
                            sums[i][j] = S::dot(sums[i][j], inputs[half], weights[j][half]);
                        }
                    }
                }
            } else {
                let weights: [S::Weights; NV] = core::array::from_fn(|j| S::weights(&*line.add(j)));
                for i in 0..MR {
                    let inputs = S::inputs(rows[i].add(step * 4));
                    for j in 0..NV {
                        sums[i][j] = S::dot(sums[i][j], inputs, weights[j]);
                    }
                }
            }
            line = line.add(NV);
        }
    }
    line
}

/// Sums over all steps.
#[inline(always)]
unsafe fn tile<S: Dots, const MR: usize, const NV: usize, const NIBBLES: bool>(t: &Tile) {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
    unsafe {
        let start: [S::Sums; NV] = core::array::from_fn(|j| S::start(&*t.panel.add(j)));
        let mut sums = [start; MR];
        let rows: [*const u8; MR] = core::array::from_fn(|i| t.rows.add(i * t.stride));
        steps::<S, MR, NV, NIBBLES>(&rows, 0..t.steps, t.panel.add(HEAD * NV), &mut sums);
        for (i, row) in sums.iter().enumerate() {
            for (j, sums) in row.iter().enumerate() {
                S::store(&mut *t.sums.add(i * NV + j), *sums);
            }
        }
    }
}

/// Sums over the steps of each group, scaled and added up as numbers in memory.
#[inline(always)]
unsafe fn grouped<S: Dots, const MR: usize, const NV: usize>(t: &Tile) {
    // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for; zero bits are the number zero.
    unsafe {
        let rows: [*const u8; MR] = core::array::from_fn(|i| t.rows.add(i * t.stride));
        t.sums.write_bytes(0, MR * NV);
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
            for (i, row) in sums.iter().enumerate() {
                for (j, sums) in row.iter().enumerate() {
                    S::add_scaled(&mut *t.sums.add(i * NV + j), *sums, &*scales.add(j), upper);
                }
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic body above, compiled for its features.
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
            unsafe fn grouped<const MR: usize, const NV: usize>(t: &Tile) {
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::grouped::<$set, MR, NV>(t) }
            }

            $(#[$feature])?
            unsafe fn gather(patches: &Patches<'_>, pixels: Range<usize>, stride: usize, strip: &mut [u8]) {
                // SAFETY: compiled for the set.
                unsafe { patches.gather::<$set>(pixels, stride, strip) }
            }

            const fn family(tiles: &'static [&'static [TileKernel]]) -> Family {
                Family { flip: <$set>::FLIP, gather, tiles }
            }

            pub(super) static FAMILIES: [Family; 3] = [
                family(&[$(&[$(tile::<$mr, $nv, false>),+]),+]),
                family(&[$(&[$(tile::<$mr, $nv, true>),+]),+]),
                family(&[$(&[$(grouped::<$mr, $nv>),+]),+]),
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
    vnni, crate::isa::Vnni, [target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12;
    2: 1 2 3 4 5 6 7 8 9 10 11 12;
    3: 1 2 3 4 5 6 7 8;
    4: 1 2 3 4 5 6;
);

/// Plain loops, for any target.
pub(super) struct Portable;

impl Dots for Portable {
    type Sums = [i32; LANES];
    type Inputs = [i32; 4];
    type Weights = [i32; LANES];
    const FLIP: u8 = 0;

    #[inline(always)]
    unsafe fn start(line: &Line) -> Self::Sums {
        line.0
    }
    #[inline(always)]
    unsafe fn inputs(from: *const u8) -> Self::Inputs {
        // SAFETY: four bytes are readable; arrays of bytes need no alignment.
        let bytes: [i8; 4] = unsafe { *from.cast() };
        bytes.map(i32::from)
    }
    #[inline(always)]
    unsafe fn weights(line: &Line) -> Self::Weights {
        line.0
    }
    #[inline(always)]
    unsafe fn dot(mut sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        for (sum, four) in sums.iter_mut().zip(weights) {
            for (w, x) in four.to_ne_bytes().into_iter().zip(inputs) {
                *sum = sum.wrapping_add(x * i32::from(w.cast_signed()));
            }
        }
        sums
    }
    #[inline(always)]
    unsafe fn store(to: &mut Line, sums: Self::Sums) {
        to.0 = sums;
    }
    #[inline(always)]
    unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
        for (run, to) in to.chunks_exact_mut(runs.bytes).take(runs.count).enumerate() {
            for (to, from) in to.iter_mut().zip(&from[run * runs.step..][..runs.bytes]) {
                *to = from.cast_unsigned();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Dots, Line, Runs, UPPER};
    use crate::isa::{Avx2, Vnni};
    use core::arch::x86_64::*;

    /// There is no dot product of four bytes that cannot overflow, but one of two 16-bit numbers: bytes are widened, and
    /// a channel has two sums, side by side.
    impl Dots for Avx2 {
        type Sums = [__m256i; 4];
        type Inputs = __m256i;
        type Weights = [__m256i; 4];
        const FLIP: u8 = 0;

        #[inline(always)]
        unsafe fn start(line: &Line) -> Self::Sums {
            // SAFETY: AVX2 by the trait's contract; a line holds four times four sums.
            core::array::from_fn(|i| unsafe {
                _mm256_cvtepu32_epi64(_mm_loadu_si128(line.0.as_ptr().add(4 * i).cast()))
            })
        }
        #[inline(always)]
        unsafe fn inputs(from: *const u8) -> Self::Inputs {
            // SAFETY: AVX2; four bytes are readable.
            unsafe {
                let bytes = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
                _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(bytes))
            }
        }
        #[inline(always)]
        unsafe fn weights(line: &Line) -> Self::Weights {
            // SAFETY: AVX2; a line holds four times sixteen bytes.
            core::array::from_fn(|i| unsafe {
                _mm256_cvtepi8_epi16(_mm_loadu_si128(line.0.as_ptr().add(4 * i).cast()))
            })
        }
        #[inline(always)]
        unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
            // SAFETY: AVX2.
            core::array::from_fn(|i| unsafe { _mm256_add_epi32(sums[i], _mm256_madd_epi16(inputs, weights[i])) })
        }
        #[inline(always)]
        unsafe fn nibbles(line: &Line) -> [Self::Weights; 2] {
            // SAFETY: AVX2; a line holds four times sixteen bytes.
            unsafe {
                let wide = |bytes| _mm256_cvtepi8_epi16(_mm_and_si128(bytes, _mm_set1_epi32(UPPER)));
                let bytes: [__m128i; 4] = core::array::from_fn(|i| _mm_load_si128(line.0.as_ptr().add(4 * i).cast()));
                [bytes.map(|bytes| wide(_mm_slli_epi32::<4>(bytes))), bytes.map(wide)]
            }
        }
        #[inline(always)]
        unsafe fn store(to: &mut Line, sums: Self::Sums) {
            for (i, pair) in [[sums[0], sums[1]], [sums[2], sums[3]]].into_iter().enumerate() {
                // SAFETY: AVX2; a line is twice eight sums.
                unsafe {
                    let whole = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(pair[0], pair[1]));
                    _mm256_storeu_si256(to.0.as_mut_ptr().add(8 * i).cast(), whole);
                }
            }
        }
        #[inline(always)]
        unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
            // SAFETY: the copy of plain bytes is that of any target.
            unsafe { super::Portable::copy(from, runs, to) }
        }
    }

    impl Dots for Vnni {
        type Sums = __m512i;
        type Inputs = __m512i;
        type Weights = __m512i;
        const FLIP: u8 = 0x80;

        #[inline(always)]
        unsafe fn start(line: &Line) -> Self::Sums {
            // SAFETY: AVX-512 by the trait's contract; so in all functions below. A line is aligned.
            unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
        }
        #[inline(always)]
        unsafe fn inputs(from: *const u8) -> Self::Inputs {
            // SAFETY: four bytes are readable.
            unsafe { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
        }
        #[inline(always)]
        unsafe fn weights(line: &Line) -> Self::Weights {
            // SAFETY: a line is aligned.
            unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
        }
        #[inline(always)]
        unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
            // SAFETY: VNNI. Inputs are the unsigned operand.
            unsafe { _mm512_dpbusd_epi32(sums, inputs, weights) }
        }
        #[inline(always)]
        unsafe fn nibbles(line: &Line) -> [Self::Weights; 2] {
            // SAFETY: a line is aligned.
            unsafe {
                let (bytes, upper) = (_mm512_load_si512(line.0.as_ptr().cast()), _mm512_set1_epi32(UPPER));
                [_mm512_and_si512(_mm512_slli_epi32::<4>(bytes), upper), _mm512_and_si512(bytes, upper)]
            }
        }
        #[inline(always)]
        unsafe fn add_scaled(to: &mut Line, sums: Self::Sums, scales: &Line, upper: bool) {
            let to = to.0.as_mut_ptr().cast::<f32>();
            // SAFETY: a line is aligned.
            unsafe {
                let scales = _mm512_load_si512(scales.0.as_ptr().cast());
                let scales = match upper {
                    true => _mm512_and_si512(scales, _mm512_set1_epi32(!0xffff)),
                    false => _mm512_slli_epi32::<16>(scales),
                };
                let sums = _mm512_cvtepi32_ps(sums);
                _mm512_store_ps(to, _mm512_fmadd_ps(sums, _mm512_castsi512_ps(scales), _mm512_load_ps(to)));
            }
        }
        #[inline(always)]
        unsafe fn store(to: &mut Line, sums: Self::Sums) {
            // SAFETY: a line is aligned.
            unsafe { _mm512_store_si512(to.0.as_mut_ptr().cast(), sums) }
        }
        #[inline(always)]
        unsafe fn copy(from: &[i8], runs: Runs, to: &mut [u8]) {
            let Runs { count, bytes, step } = runs;
            let held = (count - 1) * step + bytes <= from.len() && count * bytes + 63 <= to.len();
            assert!(held, "{count} runs of {bytes} bytes, {step} apart, of {} to {}", from.len(), to.len());
            let (whole, rest) = (bytes / 64 * 64, !(u64::MAX << (bytes % 64)));
            let (mut from, mut to) = (from.as_ptr(), to.as_mut_ptr());
            // SAFETY: what is read lies in `from`, by the mask; what is written in `to`, with less than a vector after the
            // last run, as just asserted.
            unsafe {
                let flip = _mm512_set1_epi8(i8::MIN);
                for _ in 0..count {
                    for at in (0..whole).step_by(64) {
                        let bytes = _mm512_loadu_si512(from.add(at).cast());
                        _mm512_storeu_si512(to.add(at).cast(), _mm512_xor_si512(bytes, flip));
                    }
                    if rest != 0 {
                        let bytes = _mm512_maskz_loadu_epi8(rest, from.add(whole));
                        _mm512_storeu_si512(to.add(whole).cast(), _mm512_xor_si512(bytes, flip));
                    }
                    (from, to) = (from.wrapping_add(step), to.add(runs.bytes));
                }
            }
        }
    }
}
