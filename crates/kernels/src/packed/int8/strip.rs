//! Strips: the lines of the image under some neighbouring windows, or the patches under them, one dense row of bytes each.
//!
//! Lines stand one below the other, between their padding. Each patch starts a few bytes after the one before and has a run
//! in every line, and neighbours share what their windows share.
//!
//! Patches are gathered where windows have gaps, are of one line, or where lines of the output are too short to fill a tile.
//! A row holds `taps * channels` bytes in the order of the filter. Taps that are neighbours in the image are copied
//! together, and so are lines of a window that lies inside. Copies write whole vectors, so what follows a run is
//! overwritten by the next one; after the last one a row has room.
#![allow(unsafe_code, reason = "copies by vector instructions")]

use super::super::Conv2d;
use super::dots::Dots;
use super::layout::{Layout, is_dense};
use core::ops::Range;

/// Where patches come from.
pub(super) struct Patches<'a> {
    pub(super) conv: &'a Conv2d,
    /// Height and width of the output.
    pub(super) size: [usize; 2],
    /// The images, from the first channel of the group on.
    pub(super) input: &'a [i8],
    /// Channels of the group.
    pub(super) channels: usize,
    /// The byte that surrounds an image.
    pub(super) padding: &'a (dyn Fn(usize) -> i8 + Sync),
}

impl Patches<'_> {
    /// The bytes of the image from a pixel on, as kernels take them if they have no sign.
    pub(super) fn pixels_from(&self, pixel: usize) -> &[u8] {
        let bytes = &self.input[pixel * self.conv.in_channels..];
        // SAFETY: any byte is one without a sign, too.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Writes what a strip holds for some pixels. Those of a strip of lines are all of one line.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    pub(super) unsafe fn fill<S: Dots>(&self, pixels: Range<usize>, layout: &Layout, strip: &mut [u8]) {
        if self.channels == 0 {
            return;
        }
        // SAFETY: the instructions exist.
        unsafe {
            match layout.is_in_lines() {
                true => self.lines::<S>(pixels, layout.strip.line, strip),
                false => self.gather::<S>(pixels, layout.strip.step, strip),
            }
        }
    }

    /// Writes the lines under the windows of neighbouring pixels, `stride` bytes apart.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    unsafe fn lines<S: Dots>(&self, pixels: Range<usize>, stride: usize, strip: &mut [u8]) {
        let [height, width] = self.size;
        let (image, y, x) = (pixels.start / (height * width), pixels.start / width % height, pixels.start % width);
        let [vertical, horizontal] = [self.conv.axis(0), self.conv.axis(1)];
        let columns = (pixels.len() - 1) * horizontal.stride + self.conv.kernel[1];
        let across = horizontal.window(x, columns);
        let left = (x * horizontal.stride + across.start).saturating_sub(horizontal.padding);
        for (ky, row) in strip.chunks_exact_mut(stride).take(self.conv.kernel[0]).enumerate() {
            let mut row = Row { patches: self, image, row, filled: 0 };
            match vertical.source(y, ky) {
                Some(y) => {
                    row.pad::<S>(across.start);
                    // SAFETY: the instructions exist.
                    unsafe {
                        row.copy::<S>((image * self.conv.input[0] + y) * self.conv.input[1] + left, across.len())
                    };
                    row.pad::<S>(columns - across.end);
                }
                None => row.pad::<S>(columns),
            }
        }
    }

    /// Writes the patches of some pixels, `stride` bytes apart.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    unsafe fn gather<S: Dots>(&self, pixels: Range<usize>, stride: usize, strip: &mut [u8]) {
        let conv = self.conv;
        if conv.kernel == [1, 1] && conv.stride == [1, 1] && conv.padding == [0; 4] && !conv.transposed {
            for (row, pixel) in strip.chunks_exact_mut(stride).zip(pixels) {
                let run = Runs { count: 1, bytes: self.channels, step: 0 };
                // SAFETY: the instructions exist.
                unsafe { S::copy(&self.input[pixel * conv.in_channels..], run, row) };
            }
            return;
        }
        let [height, width] = self.size;
        let inner = self.inner();
        let (mut image, mut y, mut x) =
            (pixels.start / (height * width), pixels.start / width % height, pixels.start % width);
        let mut rows = strip.chunks_exact_mut(stride).take(pixels.len());
        let mut left = pixels.len();
        while left > 0 {
            let is_inner = inner[0].contains(&y) && inner[1].contains(&x);
            let count = if is_inner { left.min(inner[1].end - x) } else { 1 };
            if is_inner {
                // SAFETY: the instructions exist.
                unsafe { self.span::<S>((image, y, x), rows.by_ref().take(count)) };
            } else if let Some(row) = rows.next() {
                // SAFETY: the instructions exist.
                unsafe { self.patch::<S>((image, y, x), row) };
            }
            (x, left) = (x + count, left - count);
            if x == width {
                (x, y) = (0, y + 1);
            }
            if y == height {
                (y, image) = (0, image + 1);
            }
        }
    }

    /// The lines and columns of the output whose windows lie inside the image and can be copied by whole lines.
    fn inner(&self) -> [Range<usize>; 2] {
        [0, 1].map(|axis| match is_dense(self.conv) {
            true => {
                let (taps, size) = (self.conv.axis(axis), self.size[axis]);
                taps.inside(0, size).start..taps.inside(self.conv.kernel[axis] - 1, size).end
            }
            false => 0..0,
        })
    }

    /// Writes the patches of neighbouring pixels whose windows lie inside.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    unsafe fn span<'s, S: Dots>(&self, (image, y, x): (usize, usize, usize), rows: impl Iterator<Item = &'s mut [u8]>) {
        let Conv2d { input: [height, width], in_channels, kernel, stride, padding, .. } = *self.conv;
        let (y, x) = (y * stride[0] - padding[0], x * stride[1] - padding[1]);
        let runs = Runs { count: kernel[0], bytes: kernel[1] * in_channels, step: width * in_channels };
        let mut at = ((image * height + y) * width + x) * in_channels;
        for row in rows {
            // SAFETY: the instructions exist.
            unsafe { S::copy(&self.input[at..], runs, row) };
            at += stride[1] * in_channels;
        }
    }

    /// Writes the patch of one pixel.
    ///
    /// # Safety
    /// The instructions of the set must exist.
    #[inline(always)]
    unsafe fn patch<S: Dots>(&self, (image, y, x): (usize, usize, usize), row: &mut [u8]) {
        let conv = self.conv;
        let ([vertical, horizontal], [high, wide]) = ([conv.axis(0), conv.axis(1)], conv.kernel);
        let first = |y: usize, x: usize| (image * conv.input[0] + y) * conv.input[1] + x;
        let mut row = Row { patches: self, image, row, filled: 0 };
        if is_dense(self.conv) {
            let (down, across) = (vertical.window(y, high), horizontal.window(x, wide));
            let top = (y * vertical.stride + down.start).saturating_sub(vertical.padding);
            let left = (x * horizontal.stride + across.start).saturating_sub(horizontal.padding);
            row.pad::<S>(down.start * wide);
            for line in 0..down.len() {
                row.pad::<S>(across.start);
                // SAFETY: the instructions exist.
                unsafe { row.copy::<S>(first(top + line, left), across.len()) };
                row.pad::<S>(wide - across.end);
            }
            return row.pad::<S>((high - down.end) * wide);
        }
        for (ky, kx) in (0..high).flat_map(|ky| (0..wide).map(move |kx| (ky, kx))) {
            match (vertical.source(y, ky), horizontal.source(x, kx)) {
                // SAFETY: the instructions exist.
                (Some(y), Some(x)) => unsafe { row.copy::<S>(first(y, x), 1) },
                _ => row.pad::<S>(1),
            }
        }
    }
}

/// Pieces of equal length, a step apart, that are copied one behind the other.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    pub(super) count: usize,
    pub(super) bytes: usize,
    pub(super) step: usize,
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
            let Patches { conv, input, channels, .. } = *self.patches;
            let run = Runs { count: 1, bytes: taps * channels, step: 0 };
            // SAFETY: the instructions exist.
            unsafe { S::copy(&input[pixel * conv.in_channels..], run, &mut self.row[self.filled..]) };
            self.filled += run.bytes;
        }
    }

    /// Appends padding.
    #[inline(always)]
    fn pad<S: Dots>(&mut self, taps: usize) {
        if taps > 0 {
            let bytes = taps * self.patches.channels;
            let byte = (self.patches.padding)(self.image).cast_unsigned() ^ S::FLIP;
            self.row[self.filled..][..bytes].fill(byte);
            self.filled += bytes;
        }
    }
}
