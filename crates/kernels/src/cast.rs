//! One kind of number into another, over whole slices.
use crate::element::{Number, convert};
use crate::isa::Isa;
use crate::map;
use sconce_parallel::Parallel;

/// Converts every element as PyTorch's `.to()` does; see [`convert`].
pub fn cast<A: Number, B: Number>(isa: Isa, par: &dyn Parallel, from: &[A], to: &mut [B]) {
    map::unary(isa, par, from, to, convert::<A, B>);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Bool;
    use half::{bf16, f16};
    use sconce_parallel::Serial;

    fn cast_of<A: Number, B: Number>(from: &[A]) -> Vec<B> {
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
