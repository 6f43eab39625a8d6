//! From sums to bytes: `limits(round(scale * sum) + zero)`.
#![allow(unsafe_code, reason = "vector instructions")]

use super::{Piece, Quantization, ROUND};
use crate::gemm::clamp;
use crate::isa::Isa;
use crate::split::Block;

/// Plain loops, for any set.
pub(super) fn plain(
    isa: Isa,
    piece: &Piece<'_>,
    scale: &[f32],
    quantization: &Quantization,
    block: &mut Block<'_, i8>,
) {
    let Quantization { output_zero, limits: (low, high), .. } = *quantization;
    let [low, high] = [low, high].map(|limit| f32::from(limit) - f32::from(output_zero));
    piece.each_row(
        isa,
        block,
        #[inline(always)]
        |_, sums, _, out| {
            for ((to, sum), scale) in out.iter_mut().zip(sums).zip(scale) {
                let limited = clamp(*sum as f32 * scale, (low, high));
                *to = ((limited + ROUND).to_bits() as i8).wrapping_add(output_zero);
            }
        },
    );
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::vnni;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::isa::Vnni;
    use crate::packed::int8::LANES;
    use core::arch::x86_64::*;

    /// The same by instructions that narrow with saturation, up to 64 channels of a row at once.
    pub(in crate::packed::int8) fn vnni(
        _: Vnni,
        piece: &Piece<'_>,
        scale: &[f32],
        quantization: &Quantization,
        block: &mut Block<'_, i8>,
    ) {
        // SAFETY: the token proves that the instructions exist.
        unsafe {
            match piece.totals.len() {
                1 => rows::<1>(piece, scale, quantization, block),
                2 => rows::<2>(piece, scale, quantization, block),
                3 => rows::<3>(piece, scale, quantization, block),
                4 => rows::<4>(piece, scale, quantization, block),
                lines => unreachable!("panels of {lines} lines"),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn rows<const NV: usize>(piece: &Piece<'_>, scale: &[f32], quantization: &Quantization, block: &mut Block<'_, i8>) {
        let Quantization { output_zero, limits: (low, high), .. } = *quantization;
        let (place, columns) = (piece.place(block), scale.len());
        assert!(columns <= NV * LANES && NV <= 4, "{columns} channels in {NV} lines");
        // What is too small becomes the least integer and stays small; what is too large would, too.
        let largest = _mm512_set1_ps(f32::from(high) - f32::from(output_zero));
        let (zero, low) = (_mm512_set1_epi16(output_zero.into()), _mm512_set1_epi8(low));
        // Narrowing works by quarters of vectors; this brings the words of a line together again.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let scales: [__m512; NV] = core::array::from_fn(|j| {
            let count = columns.saturating_sub(j * LANES).min(LANES);
            // SAFETY: the mask selects scales that exist.
            unsafe { _mm512_maskz_loadu_ps(((1u32 << count) - 1) as u16, scale.as_ptr().wrapping_add(j * LANES)) }
        });
        for (row, sums) in piece.rows.clone().zip(piece.sums.as_chunks::<NV>().0) {
            let mut steps = [_mm512_setzero_si512(); 4];
            for j in 0..NV {
                // SAFETY: a line is aligned.
                let sum = unsafe { _mm512_cvtepi32_ps(_mm512_load_si512(sums[j].0.as_ptr().cast())) };
                steps[j] = _mm512_cvtps_epi32(_mm512_min_ps(largest, _mm512_mul_ps(sum, scales[j])));
            }
            let halves = [0, 2].map(|j| _mm512_adds_epi16(_mm512_packs_epi32(steps[j], steps[j + 1]), zero));
            let bytes = _mm512_max_epi8(_mm512_packs_epi16(halves[0], halves[1]), low);
            let out = &mut block.row(row)[place.clone()];
            assert_eq!(out.len(), columns, "channels of a row");
            let mask = u64::MAX >> (64 - columns);
            // SAFETY: the mask selects the elements of `out`.
            unsafe { _mm512_mask_storeu_epi8(out.as_mut_ptr(), mask, _mm512_permutexvar_epi32(order, bytes)) };
        }
    }
}
