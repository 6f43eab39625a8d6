//! One kind of number into another, over whole slices.
//!
//! Loops over [`convert`] vectorise as they are. Only between half and single precision is there an instruction that no loop
//! becomes; it is used where the token proves it.
#![allow(unsafe_code, reason = "vector instructions")]

use crate::element::{Number, convert};
use crate::isa::Isa;
use crate::map::{GRAIN, worth};
use crate::split;
use crate::view::Plain;
use sconce_parallel::Parallel;

/// Converts every element as PyTorch's `.to()` does; see [`convert`].
pub fn cast<A: Number + Plain, B: Number + Plain>(isa: Isa, par: &dyn Parallel, from: &[A], to: &mut [B]) {
    assert_eq!(from.len(), to.len(), "input and output differ in length");
    split::chunks(worth(par, to.len()), to, GRAIN, |i, to| cast_slice(isa, &from[i * GRAIN..], to));
}

/// [`cast`] on the caller's thread, of as many elements as the shorter slice has.
pub fn cast_slice<A: Number + Plain, B: Number + Plain>(isa: Isa, from: &[A], to: &mut [B]) {
    let len = from.len().min(to.len());
    let (from, to) = (&from[..len], &mut to[..len]);
    #[cfg(target_arch = "x86_64")]
    if x86::cast_halves(isa, from, to) {
        return;
    }
    isa.vectorize(
        #[inline(always)]
        || each(from, to),
    );
}

#[inline(always)]
fn each<A: Number, B: Number>(from: &[A], to: &mut [B]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = convert(*from);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Isa, Plain, each};
    use crate::view::{bytes_of, bytes_of_mut, view, view_mut};
    use core::any::TypeId;
    use core::arch::x86_64::*;
    use half::f16;

    /// Elements of a vector.
    const LANES: usize = 16;

    /// Converts slices of equal length if they are of half and single precision, and says whether they were.
    pub(super) fn cast_halves<A: Plain, B: Plain>(isa: Isa, from: &[A], to: &mut [B]) -> bool {
        let types = (TypeId::of::<A>(), TypeId::of::<B>());
        let (half, single) = (TypeId::of::<f16>(), TypeId::of::<f32>());
        if !matches!(isa, Isa::Avx512(_) | Isa::Vnni(_)) {
            return false;
        }
        if types == (half, single)
            && let (Some(from), Some(to)) = (view(bytes_of(from)), view_mut(bytes_of_mut(to)))
        {
            // SAFETY: the token proves that the instructions exist.
            unsafe { widen(from, to) };
            return true;
        }
        if types == (single, half)
            && let (Some(from), Some(to)) = (view(bytes_of(from)), view_mut(bytes_of_mut(to)))
        {
            // SAFETY: the token proves that the instructions exist.
            unsafe { narrow(from, to) };
            return true;
        }
        false
    }

    #[target_feature(enable = "avx512f")]
    fn widen(from: &[f16], to: &mut [f32]) {
        let ((blocks, rest), (targets, last)) = (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
        for (from, to) in blocks.iter().zip(targets) {
            // SAFETY: a block has as many elements as a vector.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast()))) };
        }
        each(rest, last);
    }

    /// Rounds to the nearest, ties to even.
    #[target_feature(enable = "avx512f")]
    fn narrow(from: &[f32], to: &mut [f16]) {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        let ((blocks, rest), (targets, last)) = (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
        for (from, to) in blocks.iter().zip(targets) {
            // SAFETY: a block has as many elements as a vector.
            unsafe {
                let halves = _mm512_cvtps_ph::<NEAREST>(_mm512_loadu_ps(from.as_ptr()));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
            }
        }
        each(rest, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Bool;
    use half::{bf16, f16};
    use sconce_parallel::Serial;

    fn cast_of<A: Number + Plain, B: Number + Plain>(from: &[A]) -> Vec<B> {
        let mut to = vec![B::ZERO; from.len()];
        cast(Isa::detect(), &Serial, from, &mut to);
        to
    }

    #[test]
    fn floats_to_everything() {
        let x = [0.0f32, -0.0, 1.5, -1.5, 255.0, 65504.0, 1e-7];
        assert_eq!(cast_of::<f32, i32>(&x), [0, 0, 1, -1, 255, 65504, 0]);
        assert_eq!(cast_of::<f32, Bool>(&x).map_truth(), [false, false, true, true, true, true, true]);
        assert_eq!(cast_of::<f32, f16>(&x)[5], f16::MAX);
        assert_eq!(cast_of::<f32, f64>(&x)[2], 1.5);
        assert_eq!(cast_of::<f16, bf16>(&[f16::from_f32(3.140625)])[0].to_f32(), 3.140625);
    }

    #[test]
    fn every_set_converts_halves_alike() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let singles: Vec<f32> =
            (0..=u32::MAX).step_by(5003).map(f32::from_bits).chain([65519.9, 65520.0, 6e-8]).collect();
        for isa in Isa::available() {
            let mut wide = vec![0.0f32; halves.len()];
            cast(isa, &Serial, &halves, &mut wide);
            for (half, wide) in halves.iter().zip(&wide) {
                assert!(wide.to_bits() == half.to_f32_const().to_bits() || wide.is_nan() && half.is_nan(), "{half}");
            }
            let mut narrow = vec![f16::ZERO; singles.len()];
            cast(isa, &Serial, &singles, &mut narrow);
            for (single, narrow) in singles.iter().zip(&narrow) {
                let expected = f16::from_f32_const(*single);
                assert!(narrow.to_bits() == expected.to_bits() || narrow.is_nan() && single.is_nan(), "{single}");
            }
            let mut short = [0.0f32; 3];
            cast_slice(isa, &halves[0x3c00..], &mut short);
            assert_eq!(short, [1.0, 1.0 + 1.0 / 1024.0, 1.0 + 2.0 / 1024.0]);
        }
    }

    #[test]
    fn not_a_number_is_true_and_stays_not_a_number() {
        assert!(cast_of::<f32, Bool>(&[f32::NAN])[0].get());
        assert!(cast_of::<f32, f16>(&[f32::NAN])[0].is_nan());
        assert!(cast_of::<f64, bf16>(&[f64::NAN])[0].is_nan());
    }

    trait Truths {
        fn map_truth(&self) -> Vec<bool>;
    }
    impl Truths for Vec<Bool> {
        fn map_truth(&self) -> Vec<bool> {
            self.iter().map(|b| b.get()).collect()
        }
    }
}
