//! The shapes of results.
use crate::{Sizes, normalize_dim};

/// Why operands have no common result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// Two operands disagree in a dimension (counted in the result).
    Broadcast {
        /// The dimension.
        dim: usize,
        /// Size of the one.
        left: usize,
        /// Size of the other.
        right: usize,
    },
    /// More than sixteen dimensions, or fewer than there must be.
    Rank(usize),
    /// There is no such dimension.
    Dim {
        /// The dimension asked for.
        dim: i64,
        /// How many there are.
        rank: usize,
    },
    /// There is no such position in a dimension.
    Index {
        /// The position asked for.
        index: i64,
        /// The dimension's size.
        size: usize,
    },
    /// Dimensions are named twice or not at all.
    Permutation {
        /// How many there are.
        rank: usize,
    },
    /// A size, step or padding that cannot be.
    Size(i64),
    /// A size that must be divisible by another.
    Multiple {
        /// The size.
        size: usize,
        /// What it must be divisible by.
        of: usize,
    },
    /// Sizes that must be equal.
    Different {
        /// The dimension.
        dim: usize,
        /// Size of the one.
        left: usize,
        /// Size of the other.
        right: usize,
    },
}

/// The shape to which all operands broadcast.
pub fn broadcast<'a>(operands: impl IntoIterator<Item = &'a [usize]>) -> Result<Sizes, ShapeError> {
    let mut result = Sizes::SCALAR;
    for operand in operands {
        if operand.len() > result.len() {
            let missing = operand.len() - result.len();
            let old = result;
            let size = |dim: usize| dim.checked_sub(missing).and_then(|dim| old.get(dim)).copied().unwrap_or(1);
            result = Sizes::from_fn(operand.len(), size).ok_or(ShapeError::Rank(operand.len()))?;
        }
        let missing = result.len() - operand.len();
        for (dim, (have, &size)) in result.iter_mut().skip(missing).zip(operand).enumerate() {
            match (*have, size) {
                (a, b) if a == b => {}
                (_, 1) => {}
                (1, b) => *have = b,
                (left, right) => return Err(ShapeError::Broadcast { dim: dim + missing, left, right }),
            }
        }
    }
    Ok(result)
}

/// The sizes of a view: as wanted, with one -1 standing for whatever is left. `None` when the elements do not fit.
pub fn view(sizes: &[usize], wanted: &[i64]) -> Option<Sizes> {
    let numel = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size))?;
    let known = wanted
        .iter()
        .filter(|&&size| size != -1)
        .try_fold(1usize, |n, &size| n.checked_mul(usize::try_from(size).ok()?))?;
    let open = wanted.iter().filter(|&&size| size == -1).count();
    let rest = match open {
        0 => (known == numel).then_some(0)?,
        1 => numel.checked_div(known).filter(|rest| rest * known == numel)?,
        _ => return None,
    };
    Sizes::from_fn(wanted.len(), |dim| wanted.get(dim).and_then(|&size| usize::try_from(size).ok()).unwrap_or(rest))
}

/// The sizes of tensors joined along a dimension, and that dimension from the front. Tensors of size `[0]` join anything.
pub fn cat(tensors: impl Iterator<Item = Sizes> + Clone, dim: i64) -> Result<(Sizes, usize), ShapeError> {
    let joins = |sizes: &Sizes| **sizes != [0];
    let Some(first) = tensors.clone().find(joins) else {
        return tensors.clone().next().map(|nothing| (nothing, 0)).ok_or(ShapeError::Rank(0));
    };
    let rank = first.len();
    let axis = normalize_dim(dim, rank).filter(|_| rank > 0).ok_or(ShapeError::Dim { dim, rank })?;
    let mut total = 0usize;
    for sizes in tensors.filter(joins) {
        if sizes.len() != rank {
            return Err(ShapeError::Rank(sizes.len()));
        }
        for (dim, (&left, &right)) in first.iter().zip(sizes.iter()).enumerate() {
            if dim != axis && left != right {
                return Err(ShapeError::Different { dim, left, right });
            }
        }
        total = total.saturating_add(sizes.get(axis).copied().unwrap_or(0));
    }
    let mut result = first;
    result.iter_mut().skip(axis).take(1).for_each(|size| *size = total);
    Ok((result, axis))
}

/// The sizes of a tensor repeated along each dimension; dimensions are added in front if need be.
pub fn repeat(sizes: &[usize], repeats: &[i64]) -> Result<Sizes, ShapeError> {
    let missing = repeats.len().checked_sub(sizes.len()).ok_or(ShapeError::Rank(repeats.len()))?;
    let mut result = Sizes::from_fn(repeats.len(), |dim| dim.checked_sub(missing).map_or(1, |dim| sizes[dim]))
        .ok_or(ShapeError::Rank(repeats.len()))?;
    for (size, &repeat) in result.iter_mut().zip(repeats) {
        let repeat = usize::try_from(repeat).map_err(|_| ShapeError::Size(repeat))?;
        *size = size.checked_mul(repeat).ok_or(ShapeError::Size(i64::MAX))?;
    }
    Ok(result)
}

/// The sizes of a padded tensor. `pads` are pairs (before, after) from the last dimension on; negative ones cut off.
pub fn pad(sizes: &[usize], pads: &[i64]) -> Result<Sizes, ShapeError> {
    let pairs = pads.len() / 2;
    if !pads.len().is_multiple_of(2) || pairs > sizes.len() {
        return Err(ShapeError::Rank(pads.len()));
    }
    let mut result = Sizes::new(sizes).ok_or(ShapeError::Rank(sizes.len()))?;
    for (size, pair) in result.iter_mut().rev().zip(pads.chunks_exact(2)) {
        let padded = pair.iter().try_fold(i64::try_from(*size).ok(), |sum, &pad| Some(sum?.checked_add(pad)));
        let padded = padded.flatten().ok_or(ShapeError::Size(i64::MAX))?;
        *size = usize::try_from(padded).map_err(|_| ShapeError::Size(padded))?;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_keep_the_number_of_elements() {
        let view = |sizes: &[usize], wanted: &[i64]| super::view(sizes, wanted).map(|sizes| sizes.to_vec());
        assert_eq!(view(&[2, 6], &[3, 4]), Some(std::vec![3, 4]));
        assert_eq!(view(&[2, 6], &[-1, 4]), Some(std::vec![3, 4]));
        assert_eq!(view(&[2, 6], &[-1, 5]), None);
        assert_eq!(view(&[2, 6], &[-1, -1]), None);
        assert_eq!(view(&[0, 6], &[-1, 0]), None, "0 / 0 could be anything");
        assert_eq!(view(&[0, 6], &[-1, 3]), Some(std::vec![0, 3]));
        assert_eq!(view(&[], &[1, 1]), Some(std::vec![1, 1]));
        assert_eq!(view(&[4], &[-2, -2]), None);
    }

    #[test]
    fn joined_sizes_add_up() {
        let cat = |tensors: &[&[usize]], dim| {
            super::cat(tensors.iter().filter_map(|sizes| Sizes::new(sizes)), dim).map(|(sizes, _)| sizes.to_vec())
        };
        assert_eq!(cat(&[&[2, 3], &[2, 4]], -1), Ok(std::vec![2, 7]));
        assert_eq!(cat(&[&[0], &[2, 3], &[1, 3]], 0), Ok(std::vec![3, 3]));
        assert_eq!(cat(&[&[0], &[0]], 5), Ok(std::vec![0]), "no dimension to name");
        assert_eq!(cat(&[&[2, 3], &[2, 4]], 0), Err(ShapeError::Different { dim: 1, left: 3, right: 4 }));
        assert!(cat(&[], 0).is_err() && cat(&[&[]], 0).is_err() && cat(&[&[2], &[2, 2]], 0).is_err());
    }

    #[test]
    fn repeated_and_padded_sizes() {
        let repeat = |sizes: &[usize], by: &[i64]| super::repeat(sizes, by).map(|sizes| sizes.to_vec());
        assert_eq!(repeat(&[2, 3], &[4, 1, 2]), Ok(std::vec![4, 2, 6]));
        assert_eq!(repeat(&[2], &[0]), Ok(std::vec![0]));
        assert!(repeat(&[2], &[-1]).is_err() && repeat(&[2, 3], &[2]).is_err() && repeat(&[8], &[i64::MAX]).is_err());
        let pad = |sizes: &[usize], by: &[i64]| super::pad(sizes, by).map(|sizes| sizes.to_vec());
        assert_eq!(pad(&[2, 3], &[1, 2]), Ok(std::vec![2, 6]));
        assert_eq!(pad(&[2, 3], &[-1, 0, 0, 5]), Ok(std::vec![7, 2]));
        assert_eq!(pad(&[2], &[-2, -1]), Err(ShapeError::Size(-1)));
        assert!(pad(&[2], &[1]).is_err() && pad(&[2], &[0; 4]).is_err() && pad(&[2], &[i64::MAX, 1]).is_err());
    }

    #[test]
    fn operands_are_aligned_at_the_end() {
        let two = |a: &[usize], b: &[usize]| broadcast([a, b]).map(|sizes| sizes.to_vec());
        assert_eq!(two(&[2, 1, 4], &[3, 1]), Ok(std::vec![2, 3, 4]));
        assert_eq!(two(&[], &[3, 1]), Ok(std::vec![3, 1]));
        assert_eq!(two(&[0], &[1]), Ok(std::vec![0]));
        assert_eq!(two(&[2, 3], &[2, 4]), Err(ShapeError::Broadcast { dim: 1, left: 3, right: 4 }));
        assert_eq!(two(&[1; 17], &[]), Err(ShapeError::Rank(17)));
    }
}
