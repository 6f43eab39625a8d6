//! Tensors in an archive: bytes of a storage, seen through sizes, strides and an offset.

use super::schema::{SymInt, TensorMeta};
use sconce_format::ScalarType;
use std::borrow::Cow;

/// A known tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// What its elements are.
    pub dtype: ScalarType,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// Its elements row by row, little-endian.
    pub bytes: Cow<'a, [u8]>,
}

fn numbers(list: &[SymInt]) -> Option<Vec<usize>> {
    let number = |item: &SymInt| match item {
        SymInt::Int(number) => usize::try_from(*number).ok(),
        SymInt::Expr(_) => None,
    };
    list.iter().map(number).collect()
}

/// The tensor that `meta` describes in the bytes of a storage; `None` if it does not lie inside.
pub(super) fn read<'a>(storage: &'a [u8], meta: &TensorMeta) -> Option<Tensor<'a>> {
    let (sizes, strides) = (numbers(&meta.sizes)?, numbers(&meta.strides)?);
    let start = *numbers(std::slice::from_ref(&meta.storage_offset))?.first()?;
    let bytes = rows(storage, meta.dtype.0, &sizes, &strides, start)?;
    let sizes = sizes.iter().map(|&size| i64::try_from(size).ok()).collect::<Option<_>>()?;
    Some(Tensor { dtype: meta.dtype.0, sizes, bytes })
}

/// The elements row by row; borrowed if they lie so.
pub(super) fn rows<'a>(
    storage: &'a [u8],
    dtype: ScalarType,
    sizes: &[usize],
    strides: &[usize],
    start: usize,
) -> Option<Cow<'a, [u8]>> {
    let width = dtype.size();
    let count = sizes.iter().try_fold(1usize, |count, &size| count.checked_mul(size))?;
    let bytes = count.checked_mul(width)?;
    if strides.len() != sizes.len() {
        return None;
    }
    let mut dense = 1usize;
    let in_rows = sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == dense;
        dense = dense.saturating_mul(size);
        fits
    });
    let from = start.checked_mul(width)?;
    if count == 0 {
        Some(Cow::Borrowed(&[]))
    } else if in_rows {
        Some(Cow::Borrowed(storage.get(from..from.checked_add(bytes)?)?))
    } else {
        Some(Cow::Owned(gather(storage, sizes, strides, start, width, bytes)?))
    }
}

/// A tensor that repeats its elements may be `MOST_REPEATS` times as large as its storage, or have `ALWAYS_SMALL` bytes.
const MOST_REPEATS: usize = 64;
const ALWAYS_SMALL: usize = 1 << 20;

/// Elements in the order of their indices.
fn gather(
    storage: &[u8],
    sizes: &[usize],
    strides: &[usize],
    start: usize,
    width: usize,
    bytes: usize,
) -> Option<Vec<u8>> {
    let span = sizes
        .iter()
        .zip(strides)
        .try_fold(start, |last, (&size, &stride)| last.checked_add(size.checked_sub(1)?.checked_mul(stride)?))?;
    if span.checked_add(1)?.checked_mul(width)? > storage.len()
        || bytes > storage.len().saturating_mul(MOST_REPEATS).max(ALWAYS_SMALL)
    {
        return None;
    }
    let mut gathered = Vec::with_capacity(bytes);
    let mut index = std::vec![0usize; sizes.len()];
    while gathered.len() < bytes {
        let element: usize = start + index.iter().zip(strides).map(|(place, stride)| place * stride).sum::<usize>();
        gathered.extend_from_slice(storage.get(element * width..(element + 1) * width)?);
        for (place, &size) in index.iter_mut().zip(sizes).rev() {
            *place += 1;
            if *place < size {
                break;
            }
            *place = 0;
        }
    }
    Some(gathered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 6] = [1, 2, 3, 4, 5, 6];

    fn seen(sizes: &[usize], strides: &[usize], start: usize) -> Option<Vec<u8>> {
        rows(&BYTES, ScalarType::Byte, sizes, strides, start).map(Cow::into_owned)
    }

    #[test]
    fn what_lies_in_rows_is_borrowed() {
        assert!(matches!(rows(&BYTES, ScalarType::Byte, &[2, 3], &[3, 1], 0), Some(Cow::Borrowed(_))));
        // The distance of neighbours does not matter where there are none.
        assert!(matches!(rows(&BYTES, ScalarType::Byte, &[1, 3], &[99, 1], 3), Some(Cow::Borrowed([4, 5, 6]))));
        assert_eq!(rows(&BYTES, ScalarType::Short, &[2], &[1], 1).as_deref(), Some(&[3, 4, 5, 6][..]));
    }

    #[test]
    fn other_orders_are_gathered() {
        assert_eq!(seen(&[3, 2], &[1, 3], 0), Some(vec![1, 4, 2, 5, 3, 6]));
        assert_eq!(seen(&[2, 2], &[4, 1], 0), Some(vec![1, 2, 5, 6]));
        assert_eq!(seen(&[2, 2], &[0, 1], 1), Some(vec![2, 3, 2, 3]));
        assert_eq!(seen(&[], &[], 5), Some(vec![6]));
        assert_eq!(seen(&[0, 7], &[9, 9], 100), Some(vec![]));
    }

    #[test]
    fn what_lies_outside_is_refused() {
        for (sizes, strides, start) in [
            (&[7][..], &[1][..], 0),
            (&[6], &[1], 1),
            (&[2, 2], &[5, 1], 0),
            (&[2], &[usize::MAX], 0),
            (&[1], &[1], usize::MAX),
            (&[usize::MAX, 2], &[2, 1], 0),
            (&[2, 3], &[1], 0),
        ] {
            assert_eq!(seen(sizes, strides, start), None, "{sizes:?} {strides:?} {start}");
        }
        // Repeats cost memory that the file does not have.
        assert_eq!(seen(&[1 << 40, 2], &[0, 1], 0), None);
        assert_eq!(seen(&[1 << 10, 2], &[0, 1], 0).map(|bytes| bytes.len()), Some(1 << 11));
    }
}
