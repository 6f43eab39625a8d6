//! The shapes of results.
use crate::Sizes;

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
    /// More than sixteen dimensions.
    Rank(usize),
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
    fn operands_are_aligned_at_the_end() {
        let two = |a: &[usize], b: &[usize]| broadcast([a, b]).map(|sizes| sizes.to_vec());
        assert_eq!(two(&[2, 1, 4], &[3, 1]), Ok(std::vec![2, 3, 4]));
        assert_eq!(two(&[], &[3, 1]), Ok(std::vec![3, 1]));
        assert_eq!(two(&[0], &[1]), Ok(std::vec![0]));
        assert_eq!(two(&[2, 3], &[2, 4]), Err(ShapeError::Broadcast { dim: 1, left: 3, right: 4 }));
        assert_eq!(two(&[1; 17], &[]), Err(ShapeError::Rank(17)));
    }
}
