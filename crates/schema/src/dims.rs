//! Dimensions counted from either end.

/// A dimension counted from the front; negative ones count from the end. A tensor without dimensions has one for this
/// purpose. `None` when there is no such dimension.
pub fn normalize_dim(dim: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank.max(1)).ok()?;
    let dim = if dim < 0 { dim.checked_add(rank)? } else { dim };
    usize::try_from(dim).ok().filter(|_| dim < rank)
}

/// Dimensions as a set of bits; `None` when one does not exist or is named twice.
pub fn normalize_dims(dims: &[i64], rank: usize) -> Option<u32> {
    dims.iter().try_fold(0u32, |set, &dim| {
        let bit = 1u32.checked_shl(u32::try_from(normalize_dim(dim, rank)?).ok()?)?;
        (set & bit == 0).then_some(set | bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims_count_from_both_ends() {
        assert_eq!(normalize_dim(-1, 3), Some(2));
        assert_eq!(normalize_dim(2, 3), Some(2));
        assert_eq!(normalize_dim(3, 3), None);
        assert_eq!(normalize_dim(-4, 3), None);
        assert_eq!(normalize_dim(-1, 0), Some(0));
        assert_eq!(normalize_dim(i64::MIN, 3), None);
        assert_eq!(normalize_dims(&[0, -1], 3), Some(0b101));
        assert_eq!(normalize_dims(&[2, -1], 3), None);
    }
}
