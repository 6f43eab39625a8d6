//! Sizes and dimension order of a tensor, by value.
//!
//! A program stores sizes and a dimension order (outermost to innermost) and never strides: they follow from the two.
//! [`Shape`] is small enough to be copied, so views of tensors need not borrow the state block.

/// The largest rank the runtime accepts.
pub const MAX_RANK: usize = 16;

/// Sizes and dimension order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rank: u8,
    order: [u8; MAX_RANK],
    sizes: [usize; MAX_RANK],
}

impl Shape {
    /// The shape of a single element.
    pub const SCALAR: Self = Self { rank: 0, order: [0; MAX_RANK], sizes: [0; MAX_RANK] };

    /// A row-major shape; `None` when the rank is above [`MAX_RANK`].
    pub fn contiguous(sizes: &[usize]) -> Option<Self> {
        let mut order = [0; MAX_RANK];
        for (slot, dim) in order.iter_mut().zip(0u8..) {
            *slot = dim;
        }
        Self::new(sizes, order.get(..sizes.len())?)
    }

    /// A shape with its own dimension order; `None` when `order` is not a permutation of the dimensions.
    pub fn new(sizes: &[usize], order: &[u8]) -> Option<Self> {
        if sizes.len() > MAX_RANK || order.len() != sizes.len() {
            return None;
        }
        let mut shape = Self { rank: sizes.len() as u8, order: [0; MAX_RANK], sizes: [0; MAX_RANK] };
        let mut seen = 0u32;
        for (i, (&size, &dim)) in sizes.iter().zip(order).enumerate() {
            if usize::from(dim) >= sizes.len() || seen & (1 << dim) != 0 {
                return None;
            }
            seen |= 1 << dim;
            shape.sizes[i] = size;
            shape.order[i] = dim;
        }
        Some(shape)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes[..self.rank()]
    }

    /// Dimensions from the outermost to the innermost in memory.
    pub fn order(&self) -> &[u8] {
        &self.order[..self.rank()]
    }

    /// Number of elements, if it can be counted.
    pub fn numel(&self) -> Option<usize> {
        self.sizes().iter().try_fold(1usize, |n, &size| n.checked_mul(size))
    }

    /// The same dimension order with other sizes; `None` when the rank differs.
    pub fn resized(&self, sizes: &[usize]) -> Option<Self> {
        Self::new(sizes, self.order())
    }

    /// Element strides. A dimension of size 0 does not scale those outside of it, as in the C++ runtime.
    pub fn strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        for &dim in self.order().iter().rev() {
            let dim = usize::from(dim);
            strides[dim] = step;
            step = step.wrapping_mul(self.sizes[dim].max(1));
        }
        strides
    }

    /// Whether memory order equals logical row-major order. Dimensions of size 1 may stand anywhere.
    pub fn is_contiguous(&self) -> bool {
        let mut last = None;
        self.order().iter().filter(|&&dim| self.sizes[usize::from(dim)] != 1).all(|&dim| {
            let ascending = last.is_none_or(|previous| previous < dim);
            last = Some(dim);
            ascending
        })
    }
}

impl core::fmt::Debug for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.sizes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_follow_the_dimension_order() {
        let nhwc = Shape::new(&[2, 3, 4, 5], &[0, 2, 3, 1]).unwrap();
        assert_eq!(nhwc.strides()[..4], [60, 1, 15, 3]);
        assert!(!nhwc.is_contiguous());
        let plain = Shape::contiguous(&[2, 3, 4, 5]).unwrap();
        assert_eq!(plain.strides()[..4], [60, 20, 5, 1]);
        assert!(plain.is_contiguous());
    }

    #[test]
    fn size_one_dimensions_do_not_break_contiguity() {
        assert!(Shape::new(&[1, 3, 1, 1], &[0, 2, 3, 1]).unwrap().is_contiguous());
        assert!(!Shape::new(&[1, 3, 2, 1], &[0, 2, 3, 1]).unwrap().is_contiguous());
    }

    #[test]
    fn rejects_orders_that_are_no_permutation() {
        assert!(Shape::new(&[2, 3], &[0, 0]).is_none());
        assert!(Shape::new(&[2, 3], &[0, 2]).is_none());
        assert!(Shape::new(&[2, 3], &[0]).is_none());
        assert!(Shape::contiguous(&[1; 17]).is_none());
    }

    #[test]
    fn zero_sizes_and_rank_zero() {
        assert_eq!(Shape::contiguous(&[]).unwrap().numel(), Some(1));
        let empty = Shape::contiguous(&[2, 0, 3]).unwrap();
        assert_eq!(empty.numel(), Some(0));
        assert_eq!(empty.strides()[..3], [3, 3, 1]);
        assert_eq!(Shape::contiguous(&[usize::MAX, 2]).unwrap().numel(), None);
    }
}
