//! Sizes by value.

/// The largest rank.
pub const MAX_RANK: usize = 16;

/// Up to [`MAX_RANK`] sizes.
#[derive(Clone, Copy)]
pub struct Sizes {
    len: usize,
    items: [usize; MAX_RANK],
}

impl Sizes {
    /// No dimensions: the sizes of a single element.
    pub const SCALAR: Self = Self { len: 0, items: [0; MAX_RANK] };

    /// A copy of `sizes`; `None` when there are more than [`MAX_RANK`].
    pub fn new(sizes: &[usize]) -> Option<Self> {
        let mut items = [0; MAX_RANK];
        items.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(Self { len: sizes.len(), items })
    }

    /// `len` sizes, each made by `size`; `None` when there are more than [`MAX_RANK`].
    pub fn from_fn(len: usize, size: impl FnMut(usize) -> usize) -> Option<Self> {
        let mut items = [0; MAX_RANK];
        let slots = items.get_mut(..len)?;
        slots.iter_mut().zip((0..len).map(size)).for_each(|(slot, size)| *slot = size);
        Some(Self { len, items })
    }

    /// Adds a size at the end; `None` when there is no room.
    pub fn push(&mut self, size: usize) -> Option<()> {
        *self.items.get_mut(self.len)? = size;
        self.len += 1;
        Some(())
    }

    /// Number of elements, if it can be counted.
    pub fn numel(&self) -> Option<usize> {
        self.iter().try_fold(1usize, |n, &size| n.checked_mul(size))
    }
}

impl core::ops::Deref for Sizes {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.items[..self.len]
    }
}

impl core::ops::DerefMut for Sizes {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.items[..self.len]
    }
}

impl PartialEq for Sizes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl core::fmt::Debug for Sizes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
