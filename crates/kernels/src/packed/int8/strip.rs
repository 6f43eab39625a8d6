//! Gathering: the patches under a filter, one dense row of bytes each.
//!
//! A row holds `taps * channels` bytes in the order of the filter. Taps that are neighbours in the image are copied
//! together. Copies write whole vectors, so what follows a run is overwritten by the next one; after the last one a
//! row has room.
#![allow(unsafe_code, reason = "copies by vector instructions")]

use super::super::Conv2d;
use super::tile::Dots;
use crate::taps::Taps;
use core::ops::Range;

/// Where patches come from.
pub(super) struct Patches<'a> {
    pub(super) conv: &'a Conv2d,
    /// Height and width of the output.
    pub(super) size: [usize; 2],
    /// The images, from the first channel of the group on.
    pub(super) input: &'a [i8],
    /// The byte that surrounds an image.
    pub(super) padding: &'a (dyn Fn(usize) -> i8 + Sync),
}

impl Patches<'_> {
    /// Writes the patches of some pixels, `stride` bytes apart.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    pub(super) unsafe fn gather<S: Dots>(&self, pixels: Range<usize>, stride: usize, strip: &mut [u8]) {
        let conv = self.conv;
        let rows = strip.chunks_exact_mut(stride).zip(pixels.clone());
        if conv.kernel == [1, 1] && conv.stride == [1, 1] && conv.padding == [0; 4] && !conv.transposed {
            for (row, pixel) in rows {
                // SAFETY: the instructions exist.
                unsafe { S::copy(&self.input[pixel * conv.in_channels..][..conv.group_in()], row) };
            }
            return;
        }
        let [height, width] = self.size;
        let (mut image, mut y, mut x) =
            (pixels.start / (height * width), pixels.start / width % height, pixels.start % width);
        for (row, _) in rows {
            // SAFETY: the instructions exist.
            unsafe { self.patch::<S>((image, y, x), row) };
            x += 1;
            if x == width {
                (x, y) = (0, y + 1);
            }
            if y == height {
                (y, image) = (0, image + 1);
            }
        }
    }

    /// Writes the patch of one pixel.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    unsafe fn patch<S: Dots>(&self, (image, y, x): (usize, usize, usize), row: &mut [u8]) {
        let conv = self.conv;
        let [vertical, horizontal] = [conv.axis(0), conv.axis(1)];
        let neighbours = conv.groups == 1 && conv.dilation[1] == 1 && !conv.transposed;
        let mut row = Row { patches: self, image, row, filled: 0 };
        for ky in 0..conv.kernel[0] {
            let Some(line) = vertical.source(y, ky).map(|y| (image * conv.input[0] + y) * conv.input[1]) else {
                row.pad::<S>(conv.kernel[1]);
                continue;
            };
            if neighbours {
                let inside = inside(&horizontal, x, conv.kernel[1]);
                row.pad::<S>(inside.start);
                let first = (x * horizontal.stride + inside.start).saturating_sub(horizontal.padding);
                // SAFETY: the instructions exist.
                unsafe { row.copy::<S>(line + first, inside.len()) };
                row.pad::<S>(conv.kernel[1] - inside.end);
                continue;
            }
            for kx in 0..conv.kernel[1] {
                match horizontal.source(x, kx) {
                    // SAFETY: the instructions exist.
                    Some(x) => unsafe { row.copy::<S>(line + x, 1) },
                    None => row.pad::<S>(1),
                }
            }
        }
    }
}

/// A row being written.
struct Row<'a, 'b> {
    patches: &'a Patches<'b>,
    image: usize,
    row: &'a mut [u8],
    filled: usize,
}

impl Row<'_, '_> {
    /// Appends what is under some neighbouring taps, from this pixel of the input on.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    unsafe fn copy<S: Dots>(&mut self, pixel: usize, taps: usize) {
        if taps > 0 {
            let bytes = taps * self.patches.conv.group_in();
            let from = &self.patches.input[pixel * self.patches.conv.in_channels..][..bytes];
            // SAFETY: the instructions exist.
            unsafe { S::copy(from, &mut self.row[self.filled..]) };
            self.filled += bytes;
        }
    }

    /// Appends padding.
    #[inline(always)]
    fn pad<S: Dots>(&mut self, taps: usize) {
        if taps > 0 {
            let bytes = taps * self.patches.conv.group_in();
            let byte = (self.patches.padding)(self.image).cast_unsigned() ^ S::FLIP;
            self.row[self.filled..][..bytes].fill(byte);
            self.filled += bytes;
        }
    }
}

/// The taps of a window of `taps` that fall inside at output position `at`; they are neighbours.
#[inline(always)]
fn inside(axis: &Taps, at: usize, taps: usize) -> Range<usize> {
    let first = at * axis.stride;
    let end = (axis.size + axis.padding).saturating_sub(first).min(taps);
    axis.padding.saturating_sub(first).min(end)..end
}
