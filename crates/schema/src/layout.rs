//! Where the elements of a view are, and how views are made from views.
//!
//! A [`Layout`] is sizes, a step in elements along each dimension, and the place of the first element. Permutations,
//! slices, diagonals, windows and broadcasts change only these numbers, so an operator that copies such a view is one
//! function here and one copy. A layout promises nothing about the memory it is used on: [`Layout::reach`] says how many
//! elements that must have.
use crate::{MAX_RANK, ShapeError, Sizes, normalize_dim};

/// Sizes, steps in elements, and the first element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Size of each dimension.
    pub sizes: Sizes,
    /// Distance in elements of neighbours along each dimension; as many count as there are sizes.
    strides: [usize; MAX_RANK],
    /// The first element.
    pub offset: usize,
}

impl Layout {
    /// A layout of these sizes and steps; `None` when their numbers differ or are too many.
    pub fn new(sizes: &[usize], strides: &[usize]) -> Option<Self> {
        let mut layout = Self { sizes: Sizes::new(sizes)?, strides: [0; MAX_RANK], offset: 0 };
        (sizes.len() == strides.len()).then_some(())?;
        layout.strides.get_mut(..strides.len())?.copy_from_slice(strides);
        Some(layout)
    }

    /// A row-major layout.
    pub fn contiguous(sizes: Sizes) -> Self {
        let mut layout = Self { sizes, strides: [0; MAX_RANK], offset: 0 };
        let mut step = 1usize;
        for (dim, &size) in sizes.iter().enumerate().rev() {
            layout.strides[dim] = step;
            step = step.wrapping_mul(size.max(1));
        }
        layout
    }

    /// The same sizes and steps from another first element.
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// The step along each dimension.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank()]
    }

    /// Whether elements follow each other in row-major order. Dimensions of size 1 may have any step.
    pub fn is_contiguous(&self) -> bool {
        let plain = Self::contiguous(self.sizes);
        let steps = self.strides().iter().zip(plain.strides());
        self.sizes.iter().zip(steps).all(|(&size, (have, want))| size == 1 || have == want)
    }

    /// How many elements the memory must have; `None` when they cannot be counted.
    pub fn reach(&self) -> Option<usize> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        let mut steps = self.sizes.iter().zip(self.strides());
        steps.try_fold(self.offset.checked_add(1)?, |reach, (&size, &stride)| {
            reach.checked_add(size.checked_sub(1)?.checked_mul(stride)?)
        })
    }

    /// The dimension, counted from either end.
    fn dim(&self, dim: i64) -> Result<usize, ShapeError> {
        normalize_dim(dim, self.rank()).ok_or(ShapeError::Dim { dim, rank: self.rank() })
    }

    /// Size and step of a dimension. A single element has one dimension of size 1 for this purpose.
    fn axis(&self, dim: usize) -> (usize, usize) {
        (self.sizes.get(dim).copied().unwrap_or(1), self.strides().get(dim).copied().unwrap_or(1))
    }

    /// Only the dimensions for which `keep(dimension, size)` is true.
    pub fn keep(&self, mut keep: impl FnMut(usize, usize) -> bool) -> Self {
        let mut kept = Self { sizes: Sizes::SCALAR, strides: [0; MAX_RANK], offset: self.offset };
        for (dim, (&size, &stride)) in self.sizes.iter().zip(self.strides()).enumerate() {
            if keep(dim, size) {
                kept.strides[kept.sizes.len()] = stride;
                kept.sizes.push(size).unwrap_or(());
            }
        }
        kept
    }

    fn insert(&self, at: usize, size: usize, stride: usize) -> Result<Self, ShapeError> {
        let source = |dim: usize| if dim > at { dim - 1 } else { dim };
        let sizes = Sizes::from_fn(self.rank() + 1, |dim| if dim == at { size } else { self.axis(source(dim)).0 });
        let mut layout = Self { sizes: sizes.ok_or(ShapeError::Rank(self.rank() + 1))?, ..*self };
        for dim in 0..=self.rank() {
            layout.strides[dim] = if dim == at { stride } else { self.axis(source(dim)).1 };
        }
        Ok(layout)
    }

    fn with_axis(mut self, dim: usize, size: usize, stride: usize) -> Self {
        if let Some(slot) = self.sizes.get_mut(dim) {
            *slot = size;
            self.strides[dim] = stride;
        }
        self
    }

    /// Dimension `i` of the result is dimension `dims[i]`.
    pub fn permute(&self, dims: &[i64]) -> Result<Self, ShapeError> {
        let seen = crate::normalize_dims(dims, self.rank());
        if dims.len() != self.rank() || seen.is_none() {
            return Err(ShapeError::Permutation { rank: self.rank() });
        }
        let mut layout = *self;
        for (to, &dim) in dims.iter().enumerate() {
            let (size, stride) = self.axis(self.dim(dim)?);
            layout = layout.with_axis(to, size, stride);
        }
        Ok(layout)
    }

    /// Two dimensions exchanged.
    pub fn transpose(&self, first: i64, second: i64) -> Result<Self, ShapeError> {
        let (first, second) = (self.dim(first)?, self.dim(second)?);
        let (a, b) = (self.axis(first), self.axis(second));
        Ok(self.with_axis(first, b.0, b.1).with_axis(second, a.0, a.1))
    }

    /// Without those of these dimensions that have size 1.
    pub fn squeeze(&self, dims: &[i64]) -> Result<Self, ShapeError> {
        let set = dims.iter().try_fold(0u32, |set, &dim| Ok(set | 1 << self.dim(dim)?))?;
        Ok(self.keep(|dim, size| size != 1 || set & 1 << dim == 0))
    }

    /// With a new dimension of size 1 at `dim` of the result.
    pub fn unsqueeze(&self, dim: i64) -> Result<Self, ShapeError> {
        let rank = self.rank() + 1;
        self.insert(normalize_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank })?, 1, 1)
    }

    /// Broadcast to these sizes, in which -1 keeps the size.
    pub fn expand(&self, wanted: &[i64]) -> Result<Self, ShapeError> {
        let missing = wanted.len().checked_sub(self.rank()).ok_or(ShapeError::Rank(wanted.len()))?;
        let mut sizes = Sizes::from_fn(wanted.len(), |_| 0).ok_or(ShapeError::Rank(wanted.len()))?;
        for (dim, (slot, &wanted)) in sizes.iter_mut().zip(wanted).enumerate() {
            *slot = match (wanted, dim.checked_sub(missing)) {
                (-1, Some(own)) => self.axis(own).0,
                _ => usize::try_from(wanted).map_err(|_| ShapeError::Size(wanted))?,
            };
        }
        self.broadcast_to(&sizes)
    }

    /// Broadcast to these sizes.
    pub fn broadcast_to(&self, sizes: &[usize]) -> Result<Self, ShapeError> {
        let missing = sizes.len().checked_sub(self.rank()).ok_or(ShapeError::Rank(sizes.len()))?;
        let sizes = Sizes::new(sizes).ok_or(ShapeError::Rank(sizes.len()))?;
        let mut layout = Self { sizes, strides: [0; MAX_RANK], offset: self.offset };
        for (own, (&size, &stride)) in self.sizes.iter().zip(self.strides()).enumerate() {
            let dim = own + missing;
            let wanted = layout.sizes.get(dim).copied().unwrap_or(1);
            layout.strides[dim] = match size {
                size if size == wanted => stride,
                1 => 0,
                left => return Err(ShapeError::Broadcast { dim, left, right: wanted }),
            };
        }
        Ok(layout)
    }

    /// Every `step`-th element from `start` to before `end`; negative positions count from the end, and those outside
    /// are moved to it.
    pub fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Self, ShapeError> {
        if self.rank() == 0 {
            return Err(ShapeError::Dim { dim, rank: 0 });
        }
        let dim = self.dim(dim)?;
        let (size, stride) = self.axis(dim);
        let step = usize::try_from(step).ok().filter(|&step| step > 0).ok_or(ShapeError::Size(step))?;
        let start = clamp_position(start.unwrap_or(0), size);
        let end = clamp_position(end.unwrap_or(i64::MAX), size).max(start);
        let mut layout = self.with_axis(dim, (end - start).div_ceil(step), stride.wrapping_mul(step));
        layout.offset = self.offset.wrapping_add(start.wrapping_mul(stride));
        Ok(layout)
    }

    /// `length` elements from `start`, which must exist.
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Self, ShapeError> {
        let (size, _) = self.axis(self.dim(dim)?);
        let wanted = usize::try_from(length).map_err(|_| ShapeError::Size(length))?;
        let from = wrap_position(start, size).ok_or(ShapeError::Index { index: start, size })?;
        if wanted > size - from {
            return Err(ShapeError::Index { index: start.saturating_add(length), size });
        }
        self.slice(dim, i64::try_from(from).ok(), i64::try_from(from + wanted).ok(), 1)
    }

    /// One position of a dimension, which vanishes.
    pub fn select(&self, dim: i64, index: i64) -> Result<Self, ShapeError> {
        if self.rank() == 0 {
            return Err(ShapeError::Dim { dim, rank: 0 });
        }
        let dim = self.dim(dim)?;
        let (size, stride) = self.axis(dim);
        let at = wrap_position(index, size).filter(|&at| at < size).ok_or(ShapeError::Index { index, size })?;
        let mut layout = self.keep(|other, _| other != dim);
        layout.offset = self.offset.wrapping_add(at.wrapping_mul(stride));
        Ok(layout)
    }

    /// A diagonal of two dimensions, as the new last dimension.
    pub fn diagonal(&self, offset: i64, first: i64, second: i64) -> Result<Self, ShapeError> {
        let (first, second) = (self.dim(first)?, self.dim(second)?);
        if first == second || self.rank() < 2 {
            return Err(ShapeError::Permutation { rank: self.rank() });
        }
        let ((rows, down), (columns, right)) = (self.axis(first), self.axis(second));
        let skip = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
        let (length, start) = if offset >= 0 {
            (rows.min(columns.saturating_sub(skip)), skip.wrapping_mul(right))
        } else {
            (columns.min(rows.saturating_sub(skip)), skip.wrapping_mul(down))
        };
        let mut layout = self.keep(|dim, _| dim != first && dim != second);
        layout.offset = if length > 0 { self.offset.wrapping_add(start) } else { self.offset };
        layout.insert(layout.rank(), length, down.wrapping_add(right))
    }

    /// Windows of `size` elements, `step` apart, as the new last dimension.
    pub fn unfold(&self, dim: i64, size: i64, step: i64) -> Result<Self, ShapeError> {
        let dim = self.dim(dim)?;
        let (have, stride) = self.axis(dim);
        let window = usize::try_from(size).ok().filter(|&window| window <= have).ok_or(ShapeError::Size(size))?;
        let jump = usize::try_from(step).ok().filter(|&jump| jump > 0).ok_or(ShapeError::Size(step))?;
        let windows = self.with_axis(dim, (have - window) / jump + 1, stride.wrapping_mul(jump));
        windows.insert(self.rank(), window, stride)
    }

    /// A dimension as two, of which the inner has size `inner`.
    pub fn split(&self, dim: usize, inner: usize) -> Result<Self, ShapeError> {
        let (size, stride) = self.axis(dim);
        if inner == 0 || !size.is_multiple_of(inner) {
            return Err(ShapeError::Multiple { size, of: inner });
        }
        self.with_axis(dim, size / inner, stride.wrapping_mul(inner)).insert(dim + 1, inner, stride)
    }
}

/// A position counted from either end, moved into `0..=size`.
fn clamp_position(position: i64, size: usize) -> usize {
    if position < 0 {
        size.saturating_sub(usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(position).unwrap_or(usize::MAX).min(size)
    }
}

/// A position counted from either end; `None` outside of `0..=size`.
fn wrap_position(position: i64, size: usize) -> Option<usize> {
    let distance = usize::try_from(position.unsigned_abs()).ok()?;
    if position < 0 { size.checked_sub(distance) } else { Some(distance).filter(|&at| at <= size) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn layout(sizes: &[usize]) -> Layout {
        Layout::contiguous(Sizes::new(sizes).unwrap())
    }

    /// Sizes, steps and first element, as `torch.empty(sizes)` and a view of it tell them.
    fn told(view: Result<Layout, ShapeError>) -> (Vec<usize>, Vec<usize>, usize) {
        let view = view.unwrap();
        (view.sizes.to_vec(), view.strides().to_vec(), view.offset)
    }

    #[test]
    fn views_are_those_of_torch() {
        let x = layout(&[2, 3, 4]);
        let v = |list: &[usize]| list.to_vec();
        assert_eq!(told(Ok(x)), (v(&[2, 3, 4]), v(&[12, 4, 1]), 0));
        assert_eq!(told(x.permute(&[2, 0, -2])), (v(&[4, 2, 3]), v(&[1, 12, 4]), 0));
        assert_eq!(told(x.transpose(0, -1)), (v(&[4, 3, 2]), v(&[1, 4, 12]), 0));
        assert_eq!(told(x.slice(1, Some(-2), None, 1)), (v(&[2, 2, 4]), v(&[12, 4, 1]), 4));
        assert_eq!(told(x.slice(-1, Some(1), Some(100), 2)), (v(&[2, 3, 2]), v(&[12, 4, 2]), 1));
        assert_eq!(told(x.slice(0, Some(2), Some(1), 1)).0, v(&[0, 3, 4]));
        assert_eq!(told(x.select(1, -1)), (v(&[2, 4]), v(&[12, 1]), 8));
        assert_eq!(told(x.diagonal(1, 1, 2)), (v(&[2, 3]), v(&[12, 5]), 1));
        assert_eq!(told(x.diagonal(-2, -2, -1)), (v(&[2, 1]), v(&[12, 5]), 8));
        assert_eq!(told(x.diagonal(9, 0, 1)).0, v(&[4, 0]));
        assert_eq!(told(x.unfold(2, 3, 1)), (v(&[2, 3, 2, 3]), v(&[12, 4, 1, 1]), 0));
        assert_eq!(told(x.unsqueeze(-1)).0, v(&[2, 3, 4, 1]));
        assert_eq!(told(layout(&[1, 3, 1]).squeeze(&[0, 1])), (v(&[3, 1]), v(&[1, 1]), 0));
        assert_eq!(told(layout(&[3, 1]).expand(&[2, -1, 4])), (v(&[2, 3, 4]), v(&[0, 1, 0]), 0));
        assert_eq!(told(x.narrow(2, 1, 3)), (v(&[2, 3, 3]), v(&[12, 4, 1]), 1));
        assert_eq!(told(x.split(2, 2)), (v(&[2, 3, 2, 2]), v(&[12, 4, 2, 1]), 0));
    }

    #[test]
    fn single_elements_have_one_dimension_to_name() {
        let x = layout(&[]);
        assert_eq!(told(x.squeeze(&[0])).0, [0; 0]);
        assert_eq!(told(x.transpose(0, -1)).0, [0; 0]);
        assert_eq!(told(x.unsqueeze(0)).0, [1]);
        assert_eq!(told(x.unfold(0, 1, 1)).0, [1]);
        assert!(x.select(0, 0).is_err() && x.slice(0, None, None, 1).is_err() && x.diagonal(0, 0, -1).is_err());
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let x = layout(&[2, 3]);
        assert!(x.permute(&[0, 0]).is_err() && x.permute(&[0]).is_err() && x.permute(&[0, 2]).is_err());
        assert_eq!(x.select(1, 3), Err(ShapeError::Index { index: 3, size: 3 }));
        assert_eq!(x.select(1, i64::MIN), Err(ShapeError::Index { index: i64::MIN, size: 3 }));
        assert_eq!(x.slice(2, None, None, 1), Err(ShapeError::Dim { dim: 2, rank: 2 }));
        assert_eq!(x.slice(0, None, None, 0), Err(ShapeError::Size(0)));
        assert!(x.narrow(1, 2, 2).is_err() && x.narrow(1, 4, 0).is_err() && x.narrow(1, 3, 0).is_ok());
        assert!(x.expand(&[3, 3]).is_err() && x.expand(&[-1, 2, 3]).is_err() && x.expand(&[3]).is_err());
        assert!(x.unfold(1, 4, 1).is_err() && x.unfold(1, 1, 0).is_err());
        assert!(x.split(1, 2).is_err() && x.split(1, 0).is_err());
        assert_eq!(layout(&[1; 16]).unsqueeze(0), Err(ShapeError::Rank(17)));
    }

    #[test]
    fn contiguity_ignores_single_positions() {
        assert!(Layout::new(&[2, 1, 3], &[3, 7, 1]).unwrap().is_contiguous());
        assert!(!layout(&[2, 3]).transpose(0, 1).unwrap().is_contiguous());
    }

    #[test]
    fn reach_counts_the_elements_spanned() {
        assert_eq!(layout(&[2, 3]).reach(), Some(6));
        assert_eq!(layout(&[]).reach(), Some(1));
        assert_eq!(layout(&[2, 0]).reach(), Some(0));
        assert_eq!(layout(&[2, 3]).select(0, 1).unwrap().reach(), Some(6));
        assert_eq!(Layout::new(&[2, 2], &[usize::MAX, usize::MAX]).unwrap().reach(), None);
        assert_eq!(Layout::new(&[2], &[1, 2]), None);
    }
}
