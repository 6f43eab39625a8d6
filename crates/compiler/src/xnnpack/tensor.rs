//! Known tensors, and what is done to weights on their way into a payload.

use crate::ir::{ConstantId, Data};
use half::f16;
use sconce_format::ScalarType;
use std::borrow::Cow;

/// A known tensor, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor<'a> {
    pub(super) dtype: ScalarType,
    pub(super) sizes: Vec<usize>,
    pub(super) bytes: Cow<'a, [u8]>,
    /// The constant whose bytes these are, if they are still as they were.
    pub(super) constant: Option<ConstantId>,
}

impl<'a> Tensor<'a> {
    /// Numbers as float32 or float16.
    pub(super) fn floats(dtype: ScalarType, sizes: &[usize], numbers: &[f32]) -> Tensor<'static> {
        let bytes = match dtype {
            ScalarType::Half => numbers.iter().flat_map(|&number| f16::from_f32(number).to_le_bytes()).collect(),
            _ => numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>(),
        };
        let dtype = if dtype == ScalarType::Half { dtype } else { ScalarType::Float };
        Tensor { dtype, sizes: sizes.to_vec(), bytes: bytes.into(), constant: None }
    }

    /// The bytes as data of a payload.
    pub(super) fn data(self) -> Data {
        self.constant.map_or_else(|| Data::Bytes(self.bytes.into_owned()), Data::Constant)
    }

    /// How many elements there are.
    pub(super) fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The elements as numbers, if they are of a type that weights and their scales have.
    pub(super) fn numbers(&self) -> Option<Vec<f32>> {
        let bytes = &*self.bytes;
        Some(match self.dtype {
            ScalarType::Float => bytes.as_chunks().0.iter().map(|&own| f32::from_le_bytes(own)).collect(),
            ScalarType::Double => bytes.as_chunks().0.iter().map(|&own| f64::from_le_bytes(own) as f32).collect(),
            ScalarType::Half => bytes.as_chunks().0.iter().map(|&own| f16::from_le_bytes(own).to_f32()).collect(),
            ScalarType::Char => bytes.iter().map(|&own| f32::from(own as i8)).collect(),
            ScalarType::Byte => bytes.iter().map(|&own| f32::from(own)).collect(),
            ScalarType::Int => bytes.as_chunks().0.iter().map(|&own| i32::from_le_bytes(own) as f32).collect(),
            ScalarType::Long => bytes.as_chunks().0.iter().map(|&own| i64::from_le_bytes(own) as f32).collect(),
            _ => return None,
        })
    }

    /// The same elements in other sizes.
    pub(super) fn reshaped(self, sizes: Vec<usize>) -> Self {
        Self { sizes, ..self }
    }

    /// Dimension `i` of the result is dimension `order[i]`.
    pub(super) fn permuted(self, order: &[usize]) -> Tensor<'a> {
        if order.is_sorted() {
            return self;
        }
        let mut strides = vec![1; self.sizes.len()];
        for dim in (1..self.sizes.len()).rev() {
            strides[dim - 1] = usize::saturating_mul(strides[dim], self.sizes[dim]);
        }
        let sizes: Vec<usize> = order.iter().map(|&dim| self.sizes[dim]).collect();
        let steps: Vec<usize> = order.iter().map(|&dim| strides[dim]).collect();
        let bytes = match self.dtype.size() {
            1 => collect::<1>(&self.bytes, &sizes, &steps),
            2 => collect::<2>(&self.bytes, &sizes, &steps),
            4 => collect::<4>(&self.bytes, &sizes, &steps),
            8 => collect::<8>(&self.bytes, &sizes, &steps),
            _ => collect::<16>(&self.bytes, &sizes, &steps),
        };
        Tensor { dtype: self.dtype, sizes, bytes: bytes.into(), constant: None }
    }

    /// Four-bit integers, two in a byte, the even one in the low half; rows of an odd length end in a zero. Stored with 8
    /// added.
    pub(super) fn nibbles(&self) -> Vec<u8> {
        let columns = self.sizes.last().copied().unwrap_or(1).max(1);
        let nibble = |&byte: &u8| byte.wrapping_add(8) & 15;
        let pair = |pair: &[u8]| nibble(&pair[0]) | (pair.get(1).map_or(8, nibble) << 4);
        self.bytes.chunks(columns).flat_map(|row| row.chunks(2).map(pair)).collect()
    }
}

/// Elements of `WIDTH` bytes in the order of their indices; one further along a dimension is a step further in memory.
fn collect<const WIDTH: usize>(bytes: &[u8], sizes: &[usize], steps: &[usize]) -> Vec<u8> {
    let (elements, _) = bytes.as_chunks::<WIDTH>();
    let mut collected: Vec<[u8; WIDTH]> = Vec::with_capacity(elements.len());
    let (Some((&inner, sizes)), Some((&step, steps))) = (sizes.split_last(), steps.split_last()) else {
        return bytes.to_vec();
    };
    let mut place = vec![0; sizes.len()];
    while collected.len() < elements.len() {
        let start: usize = place.iter().zip(steps).map(|(place, step)| place * step).sum();
        collected.extend((0..inner).map(|index| elements[start + index * step]));
        for (place, &size) in place.iter_mut().zip(sizes).rev() {
            *place += 1;
            if *place < size {
                break;
            }
            *place = 0;
        }
    }
    collected.into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_follows_the_order() {
        let numbers: Vec<f32> = (0..24).map(|number| number as f32).collect();
        let tensor = Tensor::floats(ScalarType::Float, &[2, 3, 4], &numbers).permuted(&[2, 0, 1]);
        assert_eq!(tensor.sizes, [4, 2, 3]);
        let result = tensor.numbers().unwrap();
        for (i, j, k) in (0..4).flat_map(|i| (0..2).flat_map(move |j| (0..3).map(move |k| (i, j, k)))) {
            assert_eq!(result[(i * 2 + j) * 3 + k], numbers[(j * 3 + k) * 4 + i]);
        }
    }

    #[test]
    fn nibbles_have_the_even_element_low() {
        let bytes = [-8i8, 7, 0, 1, 2, 3].map(|number| number as u8).to_vec();
        let tensor = Tensor { dtype: ScalarType::Char, sizes: vec![2, 3], bytes: bytes.into(), constant: None };
        assert_eq!(tensor.nibbles(), [0xf0, 0x88, 0xa9, 0x8b]);
    }
}
