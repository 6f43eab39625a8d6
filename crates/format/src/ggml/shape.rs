//! Many dimensions as four.
//!
//! ggml's tensors have four dimensions. Elements lie one after the other, so neighbouring dimensions that an operation
//! treats alike can be seen as one; what an operation needs is rarely more than three.

use std::vec::Vec;

/// The most dimensions that ggml computes with.
pub const DIMS: usize = 4;

/// Operands that are broadcast to a result, in as few dimensions as possible: for each operand its sizes there, then those
/// of the result. `None` if they are more than four, or an operand does not broadcast to the result.
pub fn broadcast(operands: &[&[usize]], result: &[usize]) -> Option<(Vec<Vec<usize>>, Vec<usize>)> {
    let mut joined: Vec<Vec<usize>> = operands.iter().map(|_| Vec::new()).collect();
    let (mut sizes, mut last) = (Vec::new(), None);
    for (dim, &size) in result.iter().enumerate() {
        let of = |operand: &&[usize]| match (dim + operand.len()).checked_sub(result.len()) {
            Some(place) => operand.get(place).copied(),
            None => Some(1),
        };
        let own: Vec<usize> = operands.iter().map(of).collect::<Option<_>>()?;
        if own.iter().any(|&own| own != size && own != 1) {
            return None;
        }
        if size == 1 {
            continue;
        }
        let repeated: Vec<bool> = own.iter().map(|&own| own != size).collect();
        if last.as_ref() == Some(&repeated) {
            *sizes.last_mut()? *= size;
            joined.iter_mut().zip(&own).for_each(|(all, own)| all.last_mut().into_iter().for_each(|last| *last *= own));
        } else {
            sizes.push(size);
            joined.iter_mut().zip(&own).for_each(|(all, own)| all.push(*own));
            last = Some(repeated);
        }
    }
    let fits = operands.iter().all(|operand| operand.len() <= result.len()) && sizes.len() <= DIMS;
    fits.then_some((joined, sizes))
}

/// A tensor whose dimensions are put into another order, in as few dimensions as possible: its sizes there, and the order
/// of those. `None` if they are more than four.
pub fn permuted(sizes: &[usize], order: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
    if order.len() != sizes.len() || (0..sizes.len()).any(|dim| !order.contains(&dim)) {
        return None;
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &dim in order.iter().filter(|&&dim| sizes[dim] != 1) {
        let follows = |group: &Vec<usize>| {
            group.last().is_some_and(|&last| last < dim && sizes[last + 1..dim].iter().all(|&size| size == 1))
        };
        match groups.last_mut().filter(|group| follows(group)) {
            Some(group) => group.push(dim),
            None => groups.push(Vec::from([dim])),
        }
    }
    if groups.len() > DIMS {
        return None;
    }
    let mut places: Vec<usize> = (0..groups.len()).collect();
    places.sort_by_key(|&group| groups[group].first().copied());
    let joined = places.iter().map(|&group| groups[group].iter().map(|&dim| sizes[dim]).product()).collect();
    let order =
        (0..groups.len()).map(|group| places.iter().position(|&place| place == group)).collect::<Option<_>>()?;
    Some((joined, order))
}

/// How many elements are outside of a dimension, along it, and inside.
pub fn around(sizes: &[usize], dim: usize) -> Option<[usize; 3]> {
    let product = |sizes: &[usize]| sizes.iter().product();
    Some([product(sizes.get(..dim)?), *sizes.get(dim)?, product(sizes.get(dim + 1..)?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_dimensions_are_joined() {
        let (operands, result) = broadcast(&[&[2, 3, 4, 5, 6], &[4, 5, 6]], &[2, 3, 4, 5, 6]).unwrap();
        assert_eq!((operands, result), (Vec::from([Vec::from([6, 120]), Vec::from([1, 120])]), Vec::from([6, 120])));
        let (operands, _) = broadcast(&[&[2, 1, 4, 1, 6], &[1, 3, 1, 5, 1]], &[2, 3, 4, 5, 6]).unwrap_or_default();
        assert!(operands.is_empty(), "five dimensions that differ cannot be four");
        assert_eq!(broadcast(&[&[2]], &[3]), None);
        assert_eq!(broadcast(&[&[]], &[]), Some((Vec::from([Vec::new()]), Vec::new())));
    }

    #[test]
    fn dimensions_that_stay_together_move_as_one() {
        assert_eq!(permuted(&[2, 3, 4, 5, 6], &[2, 3, 4, 0, 1]), Some((Vec::from([6, 120]), Vec::from([1, 0]))));
        assert_eq!(permuted(&[1, 3, 1, 5], &[2, 1, 0, 3]), Some((Vec::from([15]), Vec::from([0]))));
        assert_eq!(permuted(&[2, 3, 4, 5, 6], &[4, 3, 2, 1, 0]), None);
        assert_eq!(permuted(&[2, 3], &[0, 0]), None);
    }

    #[test]
    fn a_dimension_has_an_outside_and_an_inside() {
        assert_eq!(around(&[2, 3, 4, 5], 2), Some([6, 4, 5]));
        assert_eq!(around(&[2], 1), None);
    }
}
