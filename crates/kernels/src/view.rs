//! Bytes seen as elements.
//!
//! Tensors arrive as byte slices. A view is the same memory as a slice of elements, given only when the length is a
//! whole number of elements and the address is aligned for them. Only kinds for which every bit pattern is a valid
//! value are [`Plain`]; that is why truth values are [`Bool`] and not `bool`.
#![allow(unsafe_code, reason = "typed views of bytes")]

use crate::element::{Bool, Complex};
use crate::packed::int8::{Affine, Line};
use half::{bf16, f16};

/// A type without padding for which every bit pattern is a value.
///
/// # Safety
/// Implementors have no padding, no invalid bit pattern, no pointer and no interior mutability.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($t:ty),*) => {$(
        // SAFETY: an integer or IEEE float, or a repr(transparent)/repr(C) composition of ones of one size: no padding, all
        // bit patterns valid.
        unsafe impl Plain for $t {}
    )*};
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, u128, f32, f64, f16, bf16, Bool, Complex<f32>, Complex<f64>, Affine, Line);

/// The bytes as elements, or `None` if the length or the alignment does not fit.
pub fn view<T: Plain>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is a `T`.
    let (head, body, tail) = unsafe { bytes.align_to::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(body)
}

/// The bytes as mutable elements, or `None` if the length or the alignment does not fit.
pub fn view_mut<T: Plain>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: every bit pattern is a `T`, and every `T` is valid bytes.
    let (head, body, tail) = unsafe { bytes.align_to_mut::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(body)
}

/// The elements as bytes.
pub fn bytes_of<T: Plain>(elements: &[T]) -> &[u8] {
    // SAFETY: `Plain` has no padding, so all bytes are initialised; the length is that of the slice in bytes.
    unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The elements as mutable bytes.
pub fn bytes_of_mut<T: Plain>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; whatever bytes are written, they are valid elements.
    unsafe { core::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_check_length_and_alignment() {
        let mut values = [1.0f32, 2.0, 3.0];
        let bytes = bytes_of_mut(&mut values);
        assert_eq!(view::<f32>(bytes), Some(&[1.0f32, 2.0, 3.0][..]));
        assert_eq!(view::<f32>(&bytes[1..9]), None);
        assert_eq!(view::<f32>(&bytes[..7]), None);
        assert_eq!(view::<u8>(&bytes[..7]).map(<[u8]>::len), Some(7));
        view_mut::<f32>(bytes).unwrap()[1] = 5.0;
        assert_eq!(values, [1.0, 5.0, 3.0]);
    }

    #[test]
    fn any_byte_is_a_truth_value() {
        let truths = view::<Bool>(&[0, 1, 255]).unwrap();
        assert_eq!(truths.iter().map(|b| b.get()).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn an_empty_slice_has_a_view() {
        assert_eq!(view::<f64>(&[]), Some(&[][..]));
    }
}
