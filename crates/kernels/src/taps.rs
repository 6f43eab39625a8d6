//! Where the taps of a sliding window lie: what convolution and pooling share.
//!
//! Along one axis, output position `o` sees under tap `t` the input position `o * stride + t * dilation - padding`, if
//! that lies inside; a transposed axis turns this round. [`Taps::inside`] answers the same question for a whole row at
//! once, so that loops over rows have no bounds to test.
use core::ops::Range;

/// How output positions and taps along one axis find input positions.
#[derive(Clone, Copy)]
pub(crate) struct Taps {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    pub(crate) transposed: bool,
}

impl Taps {
    /// The input position under `tap` at output position `at`, unless it is padding.
    #[inline(always)]
    pub(crate) fn source(&self, at: usize, tap: usize) -> Option<usize> {
        let position = if self.transposed {
            let scaled = (at + self.padding).checked_sub(tap * self.dilation)?;
            scaled.is_multiple_of(self.stride).then_some(scaled / self.stride)?
        } else {
            (at * self.stride + tap * self.dilation).checked_sub(self.padding)?
        };
        (position < self.size).then_some(position)
    }

    /// The output positions in `0..end` whose input position under `tap` exists. Only for forward axes, and for
    /// transposed ones of stride 1.
    #[inline(always)]
    pub(crate) fn inside(&self, tap: usize, end: usize) -> Range<usize> {
        let offset = tap * self.dilation;
        let (first, last) = if self.transposed {
            (offset.saturating_sub(self.padding), (self.size + offset).saturating_sub(self.padding))
        } else {
            let last = (self.size + self.padding).saturating_sub(offset).div_ceil(self.stride);
            (self.padding.saturating_sub(offset).div_ceil(self.stride), last)
        };
        let last = last.min(end);
        first.min(last)..last
    }

    /// Which of `count` neighbouring input positions lie inside, if output position `at` sees the first of them under its
    /// first tap. Only for forward axes.
    #[inline(always)]
    pub(crate) fn window(&self, at: usize, count: usize) -> Range<usize> {
        let first = at * self.stride;
        let end = (self.size + self.padding).saturating_sub(first).min(count);
        self.padding.saturating_sub(first).min(end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_agree_with_positions() {
        for (size, stride, padding, dilation) in [(5, 1, 0, 1), (5, 2, 1, 1), (7, 3, 2, 2), (1, 1, 3, 1), (4, 2, 0, 3)]
        {
            for transposed in [false, true] {
                let stride = if transposed { 1 } else { stride };
                let taps = Taps { size, stride, padding, dilation, transposed };
                for (tap, end) in (0..4).flat_map(|tap| (0..9).map(move |end| (tap, end))) {
                    let inside = taps.inside(tap, end);
                    (0..end).for_each(|at| assert_eq!(inside.contains(&at), taps.source(at, tap).is_some()));
                }
            }
        }
    }
}
