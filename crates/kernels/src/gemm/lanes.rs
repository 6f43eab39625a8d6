//! The handful of vector operations a matrix product needs, for each instruction set.
//!
//! [`Lanes`] is one vector of `f32`. The tiles in [`super::tile`] are written once over it. Its functions carry no
//! target feature of their own; they are inlined into tile functions that do, which is where they become single
//! instructions.
#![allow(unsafe_code, reason = "vector instructions of the GEMM micro-kernels")]
#![allow(clippy::missing_safety_doc, reason = "the contract of all functions is that of the trait")]

/// A vector of `f32`.
///
/// # Safety
/// Every function requires the instructions of the implementing set. Those with pointers require `LANES` readable or
/// writable elements there; the `_part` forms require `count < LANES` of them.
pub(crate) trait Lanes {
    type V: Copy;
    const LANES: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `max(bound, x)`, NaN if `x` is.
    unsafe fn at_least(bound: Self::V, x: Self::V) -> Self::V;
    /// `min(bound, x)`, NaN if `x` is.
    unsafe fn at_most(bound: Self::V, x: Self::V) -> Self::V;
    unsafe fn sum(v: Self::V) -> f32;

    /// Asks for the cache line at any address, valid or not, to be brought near; does nothing where that is not known.
    #[inline(always)]
    unsafe fn fetch(_: *const f32) {}

    /// Loads `count` elements and zeros.
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self::V {
        let mut whole = [0.0; 16];
        // SAFETY: `count` elements are readable, and `LANES` is at most 16.
        unsafe {
            core::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), count);
            Self::load(whole.as_ptr())
        }
    }

    /// Stores the first `count` elements.
    #[inline(always)]
    unsafe fn store_part(to: *mut f32, v: Self::V, count: usize) {
        let mut whole = [0.0; 16];
        // SAFETY: `count` elements are writable, and `LANES` is at most 16.
        unsafe {
            Self::store(whole.as_mut_ptr(), v);
            core::ptr::copy_nonoverlapping(whole.as_ptr(), to, count);
        }
    }

    /// Writes the transpose of the `LANES` x `LANES` block at `from` (rows `stride` apart) to `to` (rows `step` apart).
    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, step: usize) {
        for i in 0..Self::LANES {
            for j in 0..Self::LANES {
                // SAFETY: element (i, j) of the one block becomes (j, i) of the other; both are inside.
                unsafe { *to.add(j * step + i) = *from.add(i * stride + j) };
            }
        }
    }
}

/// Four lanes that any compiler target has; most make one vector register of them.
pub(crate) struct Portable;

impl Lanes for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller's promise; arrays of f32 have the alignment of f32.
        unsafe { *from.cast() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller's promise; arrays of f32 have the alignment of f32.
        unsafe { *to.cast() = v }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        core::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn at_least(bound: Self::V, x: Self::V) -> Self::V {
        core::array::from_fn(|i| if x[i] < bound[i] { bound[i] } else { x[i] })
    }
    #[inline(always)]
    unsafe fn at_most(bound: Self::V, x: Self::V) -> Self::V {
        core::array::from_fn(|i| if x[i] > bound[i] { bound[i] } else { x[i] })
    }
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        (v[0] + v[2]) + (v[1] + v[3])
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use crate::isa::{Avx2, Avx512};
    use core::arch::x86_64::*;

    impl Lanes for Avx2 {
        type V = __m256;
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            // SAFETY: AVX2 by the trait's contract; so in all functions below.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            // SAFETY: 8 elements are readable.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m256) {
            // SAFETY: 8 elements are writable.
            unsafe { _mm256_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: FMA comes with the token.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn at_least(bound: __m256, x: __m256) -> __m256 {
            // SAFETY: AVX2. The instruction returns its second operand when one is NaN.
            unsafe { _mm256_max_ps(bound, x) }
        }
        #[inline(always)]
        unsafe fn at_most(bound: __m256, x: __m256) -> __m256 {
            // SAFETY: as `at_least`.
            unsafe { _mm256_min_ps(bound, x) }
        }
        #[inline(always)]
        unsafe fn fetch(at: *const f32) {
            // SAFETY: a hint, into the second-level cache; it never fails.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn sum(v: __m256) -> f32 {
            // SAFETY: AVX2.
            unsafe {
                let half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
                let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
            }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, step: usize) {
            // SAFETY: AVX2; both blocks are 8 x 8 by the contract.
            unsafe {
                let row: [__m256; 8] = core::array::from_fn(|i| _mm256_loadu_ps(from.add(i * stride)));
                // Neighbouring rows interleaved, then pairs of rows: each vector holds a column's quarter twice.
                let pair: [__m256; 8] = core::array::from_fn(|i| match i % 2 {
                    0 => _mm256_unpacklo_ps(row[i], row[i + 1]),
                    _ => _mm256_unpackhi_ps(row[i - 1], row[i]),
                });
                let quad: [__m256; 8] = core::array::from_fn(|i| {
                    let at = i / 4 * 4 + i % 4 / 2;
                    match i % 2 {
                        0 => _mm256_shuffle_ps::<0x44>(pair[at], pair[at + 2]),
                        _ => _mm256_shuffle_ps::<0xee>(pair[at], pair[at + 2]),
                    }
                });
                for i in 0..4 {
                    _mm256_storeu_ps(to.add(i * step), _mm256_permute2f128_ps::<0x20>(quad[i], quad[i + 4]));
                    _mm256_storeu_ps(to.add((i + 4) * step), _mm256_permute2f128_ps::<0x31>(quad[i], quad[i + 4]));
                }
            }
        }
    }

    impl Lanes for Avx512 {
        type V = __m512;
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            // SAFETY: AVX-512 by the trait's contract; so in all functions below.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            // SAFETY: 16 elements are readable.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m512) {
            // SAFETY: 16 elements are writable.
            unsafe { _mm512_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: AVX-512.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn at_least(bound: __m512, x: __m512) -> __m512 {
            // SAFETY: AVX-512. The instruction returns its second operand when one is NaN.
            unsafe { _mm512_max_ps(bound, x) }
        }
        #[inline(always)]
        unsafe fn at_most(bound: __m512, x: __m512) -> __m512 {
            // SAFETY: as `at_least`.
            unsafe { _mm512_min_ps(bound, x) }
        }
        #[inline(always)]
        unsafe fn fetch(at: *const f32) {
            // SAFETY: a hint, into the second-level cache; it never fails.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn sum(v: __m512) -> f32 {
            // SAFETY: AVX-512.
            unsafe { _mm512_reduce_add_ps(v) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> __m512 {
            // SAFETY: the mask selects the `count` readable elements.
            unsafe { _mm512_maskz_loadu_ps((1 << count) - 1, from) }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, v: __m512, count: usize) {
            // SAFETY: the mask selects the `count` writable elements.
            unsafe { _mm512_mask_storeu_ps(to, (1 << count) - 1, v) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, step: usize) {
            // SAFETY: AVX-512; both blocks are 16 x 16 by the contract.
            unsafe {
                let row: [__m512; 16] = core::array::from_fn(|i| _mm512_loadu_ps(from.add(i * stride)));
                // Neighbouring rows interleaved, then pairs of rows: each vector holds a quarter of four columns.
                let pair: [__m512; 16] = core::array::from_fn(|i| match i % 2 {
                    0 => _mm512_unpacklo_ps(row[i], row[i + 1]),
                    _ => _mm512_unpackhi_ps(row[i - 1], row[i]),
                });
                let quad: [__m512; 16] = core::array::from_fn(|i| {
                    let at = i / 4 * 4 + i % 4 / 2;
                    match i % 2 {
                        0 => _mm512_shuffle_ps::<0x44>(pair[at], pair[at + 2]),
                        _ => _mm512_shuffle_ps::<0xee>(pair[at], pair[at + 2]),
                    }
                });
                // Then quarters change places: those of eight rows, then those of all.
                let half: [__m512; 16] = core::array::from_fn(|i| {
                    let at = i / 8 * 8 + i % 4;
                    match i % 8 / 4 {
                        0 => _mm512_shuffle_f32x4::<0x88>(quad[at], quad[at + 4]),
                        _ => _mm512_shuffle_f32x4::<0xdd>(quad[at], quad[at + 4]),
                    }
                });
                for i in 0..8 {
                    _mm512_storeu_ps(to.add(i * step), _mm512_shuffle_f32x4::<0x88>(half[i], half[i + 8]));
                    _mm512_storeu_ps(to.add((i + 8) * step), _mm512_shuffle_f32x4::<0xdd>(half[i], half[i + 8]));
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Lanes;
    use crate::isa::Neon;
    use core::arch::aarch64::*;

    impl Lanes for Neon {
        type V = float32x4_t;
        const LANES: usize = 4;

        #[inline(always)]
        unsafe fn splat(x: f32) -> float32x4_t {
            // SAFETY: NEON is in the baseline of aarch64; so in all functions below.
            unsafe { vdupq_n_f32(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> float32x4_t {
            // SAFETY: 4 elements are readable.
            unsafe { vld1q_f32(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: float32x4_t) {
            // SAFETY: 4 elements are writable.
            unsafe { vst1q_f32(to, v) }
        }
        #[inline(always)]
        unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
            // SAFETY: NEON.
            unsafe { vfmaq_f32(c, a, b) }
        }
        #[inline(always)]
        unsafe fn at_least(bound: float32x4_t, x: float32x4_t) -> float32x4_t {
            // SAFETY: NEON. NaN in either operand gives NaN, and bounds are numbers.
            unsafe { vmaxq_f32(bound, x) }
        }
        #[inline(always)]
        unsafe fn at_most(bound: float32x4_t, x: float32x4_t) -> float32x4_t {
            // SAFETY: as `at_least`.
            unsafe { vminq_f32(bound, x) }
        }
        #[inline(always)]
        unsafe fn sum(v: float32x4_t) -> f32 {
            // SAFETY: NEON.
            unsafe { vaddvq_f32(v) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, step: usize) {
            // SAFETY: NEON; both blocks are 4 x 4 by the contract.
            unsafe {
                let row: [float32x4_t; 4] = core::array::from_fn(|i| vld1q_f32(from.add(i * stride)));
                let (even, odd) = (vtrnq_f32(row[0], row[1]), vtrnq_f32(row[2], row[3]));
                vst1q_f32(to, vcombine_f32(vget_low_f32(even.0), vget_low_f32(odd.0)));
                vst1q_f32(to.add(step), vcombine_f32(vget_low_f32(even.1), vget_low_f32(odd.1)));
                vst1q_f32(to.add(2 * step), vcombine_f32(vget_high_f32(even.0), vget_high_f32(odd.0)));
                vst1q_f32(to.add(3 * step), vcombine_f32(vget_high_f32(even.1), vget_high_f32(odd.1)));
            }
        }
    }
}
