//! The micro-kernel: products of 16-bit numbers for sixteen channels at once, one const-generic tile for all sets.
//!
//! A word is two numbers of a patch, a line the two weights of sixteen channels that they meet: one instruction multiplies and
//! adds up both. Sums are 32-bit integers that may run over; what is asked of them in the end fits.
#![allow(unsafe_code, reason = "loads and stores of the micro-kernels")]

use crate::isa::Isa;
use crate::packed::int8::dots::each;
use crate::packed::int8::{LANES, Line};

/// Most lines of a tile's sums, over all instruction sets. Those of all matrices shall fit the nearest cache.
pub(super) const MOST_LINES: usize = 12;

/// Products of pairs of numbers, for sixteen channels at once.
///
/// # Safety
/// Every function requires the instructions of the implementing set, and a readable or writable word or line.
trait Pairs {
    type Sums: Copy;
    type Inputs: Copy;
    type Weights: Copy;

    unsafe fn zero() -> Self::Sums;
    unsafe fn inputs(word: *const i32) -> Self::Inputs;
    unsafe fn weights(line: *const Line) -> Self::Weights;
    /// `sums + inputs * weights`
    unsafe fn dot(sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums;
    unsafe fn store(to: *mut Line, sums: Self::Sums);
}

/// `sums[MR x NV lines] = rows * panel`, for each of some matrices.
///
/// # Safety
/// For each of `matrices` matrices, a kernel of MR rows and NV lines reads `steps` words of each of MR rows, which are `stride`
/// words apart, and `plane` words from those of one matrix to the next; and as many rows of NV lines of the panel. It writes
/// MR rows of NV lines of sums for each, one matrix after the other. All of these must be valid.
pub(super) struct Tile {
    pub(super) matrices: usize,
    pub(super) rows: *const i32,
    pub(super) stride: usize,
    pub(super) plane: usize,
    pub(super) steps: usize,
    pub(super) panel: *const Line,
    pub(super) sums: *mut Line,
}

/// A tile kernel of some height and width.
pub(super) type TileKernel = unsafe fn(&Tile);

/// All micro-kernels of an instruction set: `[width in lines - 1][height - 1]`
#[derive(Clone, Copy)]
pub(super) struct Family(&'static [&'static [TileKernel]]);

impl Family {
    /// The kernels of an instruction set; holding the token inside `isa` is what makes calling them sound.
    pub(super) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Vnni(_) => vnni::FAMILY,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => avx512::FAMILY,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => avx2::FAMILY,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) | Isa::Dotprod(_) | Isa::I8mm(_) => neon::FAMILY,
            _ => portable::FAMILY,
        }
    }

    /// Lines across a panel for n output channels: panels are of nearly the same width.
    pub(super) fn width(self, channels: usize) -> usize {
        let lines = channels.div_ceil(LANES).max(1);
        lines.div_ceil(lines.div_ceil(self.0.len()))
    }

    /// The full height of a tile of this width.
    pub(super) fn tallest(self, width: usize) -> usize {
        self.0[width - 1].len()
    }

    pub(super) fn tile(self, rows: usize, width: usize) -> TileKernel {
        self.0[width - 1][rows - 1]
    }
}

#[inline(always)]
unsafe fn tile<S: Pairs, const MR: usize, const NV: usize>(t: &Tile) {
    let mut panel = t.panel;
    for matrix in 0..t.matrices {
        // SAFETY: all accesses are those listed at `Tile`, which the caller vouches for.
        unsafe {
            let rows = t.rows.add(matrix * t.plane);
            let mut sums = [[S::zero(); NV]; MR];
            for step in 0..t.steps {
                let weights = each!(NV; |j| S::weights(panel.add(j)));
                panel = panel.add(NV);
                for (i, sums) in sums.iter_mut().enumerate() {
                    let inputs = S::inputs(rows.add(i * t.stride + step));
                    for j in 0..NV {
                        sums[j] = S::dot(sums[j], inputs, weights[j]);
                    }
                }
            }
            for (i, sums) in sums.as_flattened().iter().enumerate() {
                S::store(t.sums.add(matrix * MR * NV + i), *sums);
            }
        }
    }
}

/// Plain loops, for any target.
struct Portable;

impl Pairs for Portable {
    type Sums = [i32; LANES];
    type Inputs = [i32; 2];
    type Weights = [i32; LANES];

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn inputs(word: *const i32) -> Self::Inputs {
        // SAFETY: a word is readable.
        halves(unsafe { *word })
    }
    #[inline(always)]
    unsafe fn weights(line: *const Line) -> Self::Weights {
        // SAFETY: a line is readable.
        unsafe { (*line).0 }
    }
    #[inline(always)]
    unsafe fn dot(mut sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
        for (sum, word) in sums.iter_mut().zip(weights) {
            let weights = halves(word);
            *sum = sum.wrapping_add(inputs[0] * weights[0] + inputs[1] * weights[1]);
        }
        sums
    }
    #[inline(always)]
    unsafe fn store(to: *mut Line, sums: Self::Sums) {
        // SAFETY: a line is writable.
        unsafe { (*to).0 = sums };
    }
}

/// The two numbers of a word, in the order of memory.
#[inline(always)]
fn halves(word: i32) -> [i32; 2] {
    let [a, b, c, d] = word.to_ne_bytes();
    [i16::from_ne_bytes([a, b]).into(), i16::from_ne_bytes([c, d]).into()]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Pairs;
    use crate::isa::{Avx2, Avx512, Vnni};
    use crate::packed::int8::Line;
    use core::arch::asm;
    use core::arch::x86_64::*;

    impl Pairs for Avx2 {
        type Sums = [__m256i; 2];
        type Inputs = __m256i;
        type Weights = [__m256i; 2];

        #[inline(always)]
        unsafe fn zero() -> Self::Sums {
            // SAFETY: AVX2 by the trait's contract; so in all functions below.
            unsafe { [_mm256_setzero_si256(); 2] }
        }
        #[inline(always)]
        unsafe fn inputs(word: *const i32) -> Self::Inputs {
            // SAFETY: a word is readable.
            unsafe { _mm256_set1_epi32(*word) }
        }
        #[inline(always)]
        unsafe fn weights(line: *const Line) -> Self::Weights {
            // SAFETY: a line is aligned, and twice eight words.
            unsafe { [_mm256_load_si256(line.cast()), _mm256_load_si256(line.cast::<__m256i>().add(1))] }
        }
        #[inline(always)]
        unsafe fn dot([low, high]: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
            // SAFETY: AVX2.
            unsafe {
                let (first, second) = (_mm256_madd_epi16(inputs, weights[0]), _mm256_madd_epi16(inputs, weights[1]));
                [_mm256_add_epi32(low, first), _mm256_add_epi32(high, second)]
            }
        }
        #[inline(always)]
        unsafe fn store(to: *mut Line, [low, high]: Self::Sums) {
            // SAFETY: a line is aligned, and twice eight words.
            unsafe {
                _mm256_store_si256(to.cast(), low);
                _mm256_store_si256(to.cast::<__m256i>().add(1), high);
            }
        }
    }

    /// The operations of 512-bit vectors; sets differ in how they multiply and add.
    macro_rules! wide {
        ($set:ty, |$sums:ident, $inputs:ident, $weights:ident| $dot:expr) => {
            impl Pairs for $set {
                type Sums = __m512i;
                type Inputs = __m512i;
                type Weights = __m512i;

                #[inline(always)]
                unsafe fn zero() -> Self::Sums {
                    // SAFETY: AVX-512 by the trait's contract; so in all functions below.
                    unsafe { _mm512_setzero_si512() }
                }
                #[inline(always)]
                unsafe fn inputs(word: *const i32) -> Self::Inputs {
                    // SAFETY: a word is readable.
                    unsafe { _mm512_set1_epi32(*word) }
                }
                #[inline(always)]
                unsafe fn weights(line: *const Line) -> Self::Weights {
                    // SAFETY: a line is aligned.
                    unsafe { _mm512_load_si512(line.cast()) }
                }
                #[inline(always)]
                unsafe fn dot($sums: __m512i, $inputs: __m512i, $weights: __m512i) -> __m512i {
                    // SAFETY: the instructions exist.
                    unsafe { $dot }
                }
                #[inline(always)]
                unsafe fn store(to: *mut Line, sums: Self::Sums) {
                    // SAFETY: a line is aligned.
                    unsafe { _mm512_store_si512(to.cast(), sums) }
                }
            }
        };
    }
    wide!(Avx512, |sums, inputs, weights| _mm512_add_epi32(sums, _mm512_madd_epi16(inputs, weights)));
    wide!(Vnni, |sums, inputs, weights| dot(sums, inputs, weights));

    /// One instruction. Of its intrinsic the compiler makes a multiplication and an addition, which take half as long again.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn dot(mut sums: __m512i, inputs: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: the caller's set has the instruction, which reads and writes these registers alone.
        unsafe {
            asm!("vpdpwssd {}, {}, {}", inout(zmm_reg) sums, in(zmm_reg) inputs, in(zmm_reg) weights,
                options(pure, nomem, nostack, preserves_flags));
        }
        sums
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Pairs;
    use crate::isa::Neon;
    use crate::packed::int8::Line;
    use core::arch::aarch64::*;

    /// A register for each four channels. Weights of the first and of the second input are brought apart when loaded.
    impl Pairs for Neon {
        type Sums = [int32x4_t; 4];
        type Inputs = int16x4_t;
        type Weights = [int16x8x2_t; 2];

        #[inline(always)]
        unsafe fn zero() -> Self::Sums {
            // SAFETY: NEON is in the baseline of aarch64.
            unsafe { [vdupq_n_s32(0); 4] }
        }
        #[inline(always)]
        unsafe fn inputs(word: *const i32) -> Self::Inputs {
            // SAFETY: a word is readable.
            unsafe { vreinterpret_s16_s32(vld1_dup_s32(word)) }
        }
        #[inline(always)]
        unsafe fn weights(line: *const Line) -> Self::Weights {
            // SAFETY: a line is twice sixteen numbers.
            unsafe { [vld2q_s16(line.cast()), vld2q_s16(line.cast::<i16>().add(16))] }
        }
        #[inline(always)]
        unsafe fn dot(mut sums: Self::Sums, inputs: Self::Inputs, weights: Self::Weights) -> Self::Sums {
            for (two, int16x8x2_t(first, second)) in sums.chunks_exact_mut(2).zip(weights) {
                // SAFETY: NEON.
                unsafe {
                    two[0] = vmlal_lane_s16::<0>(two[0], vget_low_s16(first), inputs);
                    two[1] = vmlal_high_lane_s16::<0>(two[1], first, inputs);
                    two[0] = vmlal_lane_s16::<1>(two[0], vget_low_s16(second), inputs);
                    two[1] = vmlal_high_lane_s16::<1>(two[1], second, inputs);
                }
            }
            sums
        }
        #[inline(always)]
        unsafe fn store(to: *mut Line, sums: Self::Sums) {
            for (i, sums) in sums.into_iter().enumerate() {
                // SAFETY: a line is four times four words.
                unsafe { vst1q_s32(to.cast::<i32>().add(4 * i), sums) };
            }
        }
    }
}

/// A module with the kernels of one instruction set: the generic body above, compiled for its features. A row for each
/// width in lines lists all heights.
macro_rules! family {
    ($(#[$attribute:meta])* $module:ident, $set:ty, [$($feature:meta)?], $($nv:literal: $($mr:literal)+;)+) => {
        $(#[$attribute])*
        mod $module {
            use super::*;

            $(#[$feature])?
            unsafe fn tile<const MR: usize, const NV: usize>(t: &Tile) {
                const { assert!(MR * NV <= MOST_LINES) };
                // SAFETY: compiled for the set; the rest is the caller's promise.
                unsafe { super::tile::<$set, MR, NV>(t) }
            }

            pub(super) const FAMILY: Family = Family(&[$(&[$(tile::<$mr, $nv>),+]),+]);
        }
    };
}

family!(portable, Portable, [], 1: 1 2 3 4;);
family!(
    #[cfg(target_arch = "x86_64")]
    avx2, crate::isa::Avx2, [target_feature(enable = "avx2,fma")], 1: 1 2 3 4 5 6;
);
family!(
    #[cfg(target_arch = "x86_64")]
    avx512, crate::isa::Avx512, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12;
    2: 1 2 3 4 5 6;
);
family!(
    #[cfg(target_arch = "x86_64")]
    vnni, crate::isa::Vnni, [target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")],
    1: 1 2 3 4 5 6 7 8 9 10 11 12;
    2: 1 2 3 4 5 6;
);
family!(
    #[cfg(target_arch = "aarch64")]
    neon, crate::isa::Neon, [target_feature(enable = "neon")], 1: 1 2 3 4 5;
);
