//! Where a tile finds its inputs: an address for every pixel and tap, or row of taps.
//!
//! Inside the image, the taps of a row lie side by side and count as one. At its borders, and where a tile goes on in the next
//! line, they do not, and there is an address for every tap, of the image or of padding. For few channels that takes longer
//! than the products: so there the lines under the windows are copied, padding and all, and the taps lie side by side in the
//! copy.

use super::Conv2d;
use core::mem::MaybeUninit;
use core::ops::Range;

/// Addresses for each pixel that are found at a time; filters with more taps are summed up in parts.
pub(super) const MOST_TAPS: usize = 256;
/// Elements that are copied at most: a fraction of the first-level cache.
const COPIED: usize = 2048;

/// Where the channels under a tap of a pixel lie. There is room for more than most tiles need, so it is not filled first.
pub(super) type Address = MaybeUninit<*const f32>;

/// What the addresses of a tile are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The pixel itself, the only tap.
    Pixels,
    /// Rows of taps in the image, of pixels that are neighbours in a line.
    Line,
    /// Rows of taps in the image, of pixels of several lines.
    Rows,
    /// Rows of taps in a copy.
    Copy,
    /// Single taps.
    Taps,
}

/// How the addresses of a tile are found, and how many there are for a pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) form: Form,
    /// Rows of taps, and addresses in one.
    rows: usize,
    across: usize,
    /// Elements that lie under an address.
    pub(super) channels: usize,
}

impl Reach {
    /// All taps, [`MOST_TAPS`] addresses at a time: whole rows, or pieces of one where a row has more.
    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        let Self { rows, across, .. } = self;
        let (high, wide) = ((MOST_TAPS / across).max(1), across.min(MOST_TAPS));
        (0..rows).step_by(high).flat_map(move |row| {
            (0..across).step_by(wide).map(move |column| Part {
                rows: row..rows.min(row + high),
                columns: column..across.min(column + wide),
                first: row * across + column,
            })
        })
    }
}

/// Some taps that lie one after another.
#[derive(Clone, Debug)]
pub(super) struct Part {
    rows: Range<usize>,
    columns: Range<usize>,
    /// The number of the first one.
    pub(super) first: usize,
}

impl Part {
    /// How many there are.
    pub(super) fn taps(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

/// Where the channels under each tap of each output pixel lie.
pub(super) struct Patches<'a> {
    pub(super) conv: &'a Conv2d,
    /// Height and width of the output.
    pub(super) size: [usize; 2],
    /// The image, from the first channel of the group on.
    pub(super) input: &'a [f32],
    /// Elements from one pixel of the image to the next.
    pub(super) pixel: usize,
    pub(super) padding: *const f32,
}

// SAFETY: addresses of slices that outlive the call, only read.
unsafe impl Sync for Patches<'_> {}

impl Patches<'_> {
    /// How the addresses for some pixels are found.
    pub(super) fn reach(&self, pixels: Range<usize>) -> Reach {
        let (conv, inside) = (self.conv, self.conv.group_in());
        let row = |form| Reach { form, rows: conv.kernel[0], across: 1, channels: conv.kernel[1] * inside };
        if conv.is_pixelwise() {
            return Reach { form: Form::Pixels, rows: 1, across: 1, channels: inside };
        }
        // Most tiles lie in one line; those that do not may touch both of its ends.
        let x = pixels.start % self.size[1];
        let one_line = x + pixels.len() <= self.size[1];
        match self.joins_taps(if one_line { x..x + pixels.len() } else { 0..self.size[1] }) {
            true if one_line => row(Form::Line),
            true => row(Form::Rows),
            false if self.is_dense() && self.needs_little(pixels) => row(Form::Copy),
            false => Reach { form: Form::Taps, rows: conv.kernel[0], across: conv.kernel[1], channels: inside },
        }
    }

    /// Writes the addresses of some pixels for a part of their taps: `addresses[tap * rows + i]` is that of pixel
    /// `first + i`.
    pub(super) fn addresses(
        &self,
        pixels: Range<usize>,
        (form, part): (Form, &Part),
        addresses: &mut [Address],
        copied: &mut Option<Copied>,
    ) {
        match form {
            Form::Pixels => self.spaced(pixels.start * self.pixel, self.pixel, &mut addresses[..pixels.len()]),
            Form::Line => self.line_of_addresses(pixels, part, addresses),
            Form::Copy => {
                let copied = copied.get_or_insert_default();
                self.copy(pixels.clone(), copied);
                self.addresses_of_copy(pixels, part, copied, addresses);
            }
            Form::Rows | Form::Taps => self.each_address(pixels, part, addresses),
        }
    }

    /// The addresses of pixels anywhere, tap by tap.
    fn each_address(&self, pixels: Range<usize>, part: &Part, addresses: &mut [Address]) {
        let (conv, rows, across) = (self.conv, pixels.len(), part.columns.len());
        let [vertical, horizontal] = [conv.axis(0), conv.axis(1)];
        // Divisions are slow: the place of the first pixel is computed, those of the others are counted.
        let [height, width] = self.size;
        let (line, mut x) = (pixels.start / width, pixels.start % width);
        let (mut image, mut y) = (line / height, line % height);
        for i in 0..rows {
            for (ky, slots) in part.rows.clone().zip(addresses.chunks_mut(across * rows)) {
                let line = vertical.source(y, ky).map(|y| (image * conv.input[0] + y) * conv.input[1]);
                for (kx, slot) in part.columns.clone().zip(slots[i..].iter_mut().step_by(rows)) {
                    let at = line.and_then(|line| Some(line + horizontal.source(x, kx)?));
                    slot.write(at.map_or(self.padding, |at| self.input[at * self.pixel..].as_ptr()));
                }
            }
            x += 1;
            if x == width {
                (x, y) = (0, y + 1);
            }
            if y == height {
                (y, image) = (0, image + 1);
            }
        }
    }

    /// The addresses of neighbouring pixels of a line whose taps are joined: they are evenly spaced.
    fn line_of_addresses(&self, pixels: Range<usize>, part: &Part, addresses: &mut [Address]) {
        let (conv, vertical) = (self.conv, self.conv.axis(0));
        let (line, x) = (pixels.start / self.size[1], pixels.start % self.size[1]);
        let (image, y) = (line / self.size[0], line % self.size[0]);
        let left = x * conv.stride[1] - conv.padding[1];
        let step = conv.stride[1] * conv.in_channels;
        for (ky, slots) in part.rows.clone().zip(addresses.chunks_exact_mut(pixels.len())) {
            match vertical.source(y, ky) {
                None => slots.fill(Address::new(self.padding)),
                Some(y) => {
                    self.spaced(((image * conv.input[0] + y) * conv.input[1] + left) * conv.in_channels, step, slots)
                }
            }
        }
    }

    /// Addresses from one element of the image on, `step` elements apart.
    #[inline(always)]
    fn spaced(&self, start: usize, step: usize, slots: &mut [Address]) {
        let line = &self.input[start..start + (slots.len() - 1) * step + 1];
        for (i, slot) in slots.iter_mut().enumerate() {
            slot.write(line.as_ptr().wrapping_add(i * step));
        }
    }

    /// Whether the taps of a row are neighbours in the image, with nothing between them.
    fn is_dense(&self) -> bool {
        let together = self.pixel == self.conv.in_channels && self.conv.groups == 1;
        self.conv.dilation[1] == 1 && together && !self.conv.transposed
    }

    /// Whether the taps of a row lie side by side in the image for these output columns.
    fn joins_taps(&self, columns: Range<usize>) -> bool {
        let axis = self.conv.axis(1);
        let inside = |column: usize, tap: usize| axis.source(column, tap).is_some();
        self.is_dense() && inside(columns.start, 0) && inside(columns.end - 1, self.conv.kernel[1] - 1)
    }

    /// Whether there is room for a copy of the lines under the windows of some pixels.
    fn needs_little(&self, pixels: Range<usize>) -> bool {
        let columns: usize = self.runs(pixels).map(|(.., columns)| columns).sum();
        self.conv.kernel[0] * columns * self.conv.in_channels <= COPIED
    }

    /// Copies the lines under the windows of some pixels, with their padding.
    fn copy(&self, pixels: Range<usize>, copied: &mut Copied) {
        let (conv, [vertical, horizontal]) = (self.conv, [self.conv.axis(0), self.conv.axis(1)]);
        let mut rest = &mut copied.0[..];
        for (image, y, x, columns) in self.runs(pixels) {
            let across = horizontal.window(x, columns);
            let left = (x * conv.stride[1] + across.start).saturating_sub(conv.padding[1]);
            let [start, end, columns] = [across.start, across.end, columns].map(|column| column * conv.in_channels);
            for ky in 0..conv.kernel[0] {
                let (line, after) = core::mem::take(&mut rest).split_at_mut(columns);
                rest = after;
                // Windows may lie beside the image as a whole.
                match vertical.source(y, ky).filter(|_| start < end) {
                    Some(y) => {
                        let from = ((image * conv.input[0] + y) * conv.input[1] + left) * conv.in_channels;
                        line[..start].fill(0.0);
                        line[start..end].copy_from_slice(&self.input[from..from + end - start]);
                        line[end..].fill(0.0);
                    }
                    None => line.fill(0.0),
                }
            }
        }
    }

    /// The addresses in the copy of the same pixels.
    fn addresses_of_copy(&self, pixels: Range<usize>, part: &Part, copied: &Copied, addresses: &mut [Address]) {
        let (conv, rows) = (self.conv, pixels.len());
        let (mut line, mut first) = (copied.0.as_ptr(), 0);
        for (_, _, _, columns) in self.runs(pixels) {
            let count = (columns - conv.kernel[1]) / conv.stride[1] + 1;
            for (place, ky) in part.rows.clone().enumerate() {
                let line = line.wrapping_add(ky * columns * conv.in_channels);
                for (i, slot) in addresses[place * rows + first..][..count].iter_mut().enumerate() {
                    slot.write(line.wrapping_add(i * conv.stride[1] * conv.in_channels));
                }
            }
            line = line.wrapping_add(conv.kernel[0] * columns * conv.in_channels);
            first += count;
        }
    }

    /// Neighbouring pixels of one line each: the image, its line and column, and how many columns are under their windows.
    fn runs(&self, pixels: Range<usize>) -> impl Iterator<Item = (usize, usize, usize, usize)> + use<> {
        let ([height, width], [_, stride], [_, kernel]) = (self.size, self.conv.stride, self.conv.kernel);
        let mut pixel = pixels.start;
        core::iter::from_fn(move || {
            let (line, x) = (pixel / width, pixel % width);
            let count = (pixels.end - pixel).min(width - x);
            pixel += count;
            (count > 0).then(|| (line / height, line % height, x, (count - 1) * stride + kernel))
        })
    }
}

/// The lines under the windows of a tile. Most tiles need none, so they are made when they are first needed.
pub(super) struct Copied([f32; COPIED]);

impl Default for Copied {
    fn default() -> Self {
        Self([0.0; COPIED])
    }
}
