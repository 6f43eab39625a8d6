//! Three by three convolution by Winograd's method, on channels-last data.
//!
//! A tile of `m` x `m` output pixels depends on a patch of `m + 2` x `m + 2` input pixels. Transformed, patch and filter
//! are multiplied element by element, which is (m + 2)² multiplications where the direct form has 9 m²: 2.25 times fewer
//! for `m` = 2 and 4 times fewer for `m` = 4. Over all channels each of the (m + 2)² places is a matrix product:
//!
//! ```text
//!  image ──patches of a block of tiles──▶ (m + 2)² matrices [tiles x in]
//!                                               │ each times its packed filter [in x out], panel by panel
//!                                               ▼
//!  output ◀──bias, residual, limits──── (m + 2)² matrices [tiles x out]
//! ```
//!
//! A block has as many tiles as fit the second-level cache with their transforms (`NEAR` bytes), but not so few that fetching
//! the weights would take longer than using them. The products are those of [`crate::packed`], with its tiles: a matrix of
//! patches stays in the first-level cache while all panels pass by, and the next panel is fetched while one is multiplied.
//! Pixels outside the image count as zero where patches are read, and what lies outside the output is not stored, so nothing
//! is padded or copied. What follows beyond a residual and limits is done block by block.
//!
//! The result differs from the direct form by rounding: relative to the largest output by about 1e-6 for [`Output::Two`] and
//! 1e-5 for [`Output::Four`].
#![allow(unsafe_code, reason = "addresses handed to the micro-kernels, tiles of one output on several threads")]

mod cost;
mod filter;
pub mod int8;
mod shape;
#[cfg(test)]
mod tests;
mod transform;

use crate::epilogue::{Steps, Then, finish};
use crate::isa::Isa;
use crate::packed::Conv2d;
use crate::packed::tile::{Family, LINE, MOST_ROWS, Tile};
use crate::split::{self, Block, Slots, Tiling};
use core::ops::Range;
pub use cost::{time, time_int8};
use sconce_parallel::{Parallel, Serial};
use shape::{ALIGN, Shape, product, share};
use transform::{Finished, Patch, Transforms};

/// Bytes of weights that are still in the second-level cache when the next block begins.
const SECOND_LEVEL: usize = 1200 * 1024;
/// Multiplications of the direct form below which threads cost more than they bring.
const WORTH_THREADS: usize = 200_000;

/// Pixels along a side of an output tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// F(2x2, 3x3): nearly as exact as the direct form.
    Two,
    /// F(4x4, 3x3): fewest multiplications, and four times the weights.
    Four,
}

impl Output {
    /// Pixels along a side of an output tile.
    const fn side(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Pixels along a side of an input patch.
    const fn patch(self) -> usize {
        self.side() + 2
    }

    const fn matrices(self) -> usize {
        self.patch() * self.patch()
    }
}

/// Whether the method applies: a dense three by three convolution that goes pixel by pixel.
pub fn applies(conv: &Conv2d) -> bool {
    let window = (conv.kernel, conv.stride, conv.dilation) == ([3, 3], [1, 1], [1, 1]);
    window && conv.groups == 1 && !conv.transposed && conv.in_channels > 0 && conv.output().is_some()
}

/// Elements that [`pack`] writes.
pub fn packed_len(isa: Isa, conv: &Conv2d, output: Output) -> usize {
    let lanes = Family::of(isa, conv.out_channels).lanes;
    product(&[output.matrices(), conv.in_channels, conv.out_channels.next_multiple_of(lanes)])
}

/// Packs a filter `[out, 3, 3, in]` into `packed`, whose length is [`packed_len`].
///
/// ```text
/// panel by panel of nr output channels: (m + 2)² matrices of in rows of nr
/// ```
pub fn pack(isa: Isa, par: &dyn Parallel, conv: &Conv2d, output: Output, filter: &[f32], packed: &mut [f32]) {
    assert!(applies(conv), "{conv:?} is not for Winograd's method");
    assert_eq!(packed.len(), packed_len(isa, conv, output), "the packed weights of {conv:?}");
    assert_eq!(filter.len(), product(&[conv.out_channels, 9, conv.in_channels]), "the filter of {conv:?}");
    let nr = Family::of(isa, conv.out_channels).nr();
    split::chunks(par, packed, output.matrices() * conv.in_channels * nr, |panel, out| {
        let columns = panel * nr..conv.out_channels.min((panel + 1) * nr);
        filter::panel(isa, output, conv.in_channels, filter, columns, out);
    });
}

/// Elements of scratch that [`winograd`] needs on `width` threads.
pub fn scratch_len(isa: Isa, conv: &Conv2d, output: Output, width: usize) -> usize {
    product(&[cut(isa, conv, output).1.slot(), Slots::<f32>::count(width)])
}

/// The kernels of a convolution, and how it is cut for them.
fn cut(isa: Isa, conv: &Conv2d, output: Output) -> (Family, Shape) {
    let family = Family::of(isa, conv.out_channels);
    (family, Shape::new(conv, output, (family.mr, family.nr()), (conv.in_channels, conv.out_channels)))
}

/// How [`winograd`] cuts its matrix products on so many threads.
pub fn tiling(isa: Isa, conv: &Conv2d, output: Output, threads: usize) -> Tiling {
    let (family, shape) = cut(isa, conv, output);
    let (blocks, parts) = shape.tasks(threads);
    Tiling { tile: [family.mr, family.nr()], parts: [blocks, parts] }
}

/// Convolves. `packed` comes from [`pack`] for the same set, geometry and tile; `then` follows. Images come with the distance
/// of their pixels, as in [`crate::packed::conv2d`].
pub fn winograd(
    isa: Isa,
    par: &dyn Parallel,
    conv: &Conv2d,
    output: Output,
    (input, from_pixel): (&[f32], usize),
    packed: &[f32],
    bias: Option<&[f32]>,
    then: &[Then<'_>],
    scratch: &mut [f32],
    (out, pixel): (&mut [f32], usize),
) {
    assert!(applies(conv), "{conv:?} is not for Winograd's method");
    let (family, shape) = cut(isa, conv, output);
    let [height, width] = shape.size;
    let pixels = product(&[conv.batch, height, width]);
    let seen = product(&[conv.batch, conv.input[0], conv.input[1]]);
    split::check_pixels(input.len(), seen, (conv.in_channels, from_pixel), conv);
    split::check_pixels(out.len(), pixels, (conv.out_channels, pixel), conv);
    assert_eq!(packed.len(), packed_len(isa, conv, output), "packed weights of {conv:?}");
    assert!(bias.is_none_or(|bias| bias.len() == conv.out_channels), "bias of {conv:?}");
    assert!(then.iter().all(|then| match then {
        Then::Add(other) | Then::Multiply(other) => other.len() == product(&[pixels, conv.out_channels]),
        Then::Apply(_) => true,
    }));
    if out.is_empty() {
        return;
    }
    let work = pixels.saturating_mul(conv.out_channels).saturating_mul(9 * conv.in_channels);
    let par = if work < WORTH_THREADS { &Serial } else { par };
    let slots = Slots::new(scratch, shape.slot(), par.width());
    let (blocks, parts) = shape.tasks(par.width());
    let transforms = Transforms::of(isa, output);
    let distances = (from_pixel, pixel);
    let job = Job { isa, conv, family, shape, transforms, input, packed, bias, then, out: out.as_mut_ptr(), distances };
    par.run(blocks * parts, &|task| {
        let tiles = share(shape.tiles, task / parts, blocks);
        let panels = share(shape.panels, task % parts, parts);
        slots.with(|scratch| job.block(tiles, panels, scratch));
    });
}

/// What all tasks of a convolution share.
struct Job<'a> {
    isa: Isa,
    conv: &'a Conv2d,
    family: Family,
    shape: Shape,
    transforms: Transforms,
    input: &'a [f32],
    packed: &'a [f32],
    bias: Option<&'a [f32]>,
    then: &'a [Then<'a>],
    out: *mut f32,
    /// Elements from one pixel to the next, of the input and of the output.
    distances: (usize, usize),
}

// SAFETY: the output outlives the call, and no two tasks have a tile and a panel in common.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Computes some tiles and some panels of channels.
    fn block(&self, tiles: Range<usize>, panels: Range<usize>, scratch: &mut [f32]) {
        let shape = &self.shape;
        let (patches, products) = shape.parts(&tiles, scratch);
        for (i, tile) in tiles.clone().enumerate() {
            self.transform_patch(tile, &mut patches[i * shape.channels..]);
        }
        let near = tiles.start > 0 && size_of_val(self.packed) <= SECOND_LEVEL;
        for matrix in 0..shape.output.matrices() {
            let (patch_plane, product_plane) = shape.planes();
            let patches = &patches[matrix * patch_plane..][..tiles.len() * shape.channels];
            let products = &mut products[matrix * product_plane..][..tiles.len() * shape.columns];
            for panel in panels.clone() {
                // While a panel is multiplied, the one after it is fetched, unless all are near from the block before.
                let next = match panel + 1 < panels.end {
                    _ if near => &[],
                    true => self.weights(matrix, panel + 1),
                    false if matrix + 1 < shape.output.matrices() => self.weights(matrix + 1, panels.start),
                    false => &[],
                };
                self.multiply((matrix, panel), next, patches, products);
            }
        }
        let columns = self.columns(panels);
        for (i, tile) in tiles.clone().enumerate() {
            self.transform_products(tile, columns.clone(), &products[i * shape.columns + columns.start..]);
        }
        self.finish(tiles, columns);
    }

    /// The output channels of some panels.
    fn columns(&self, panels: Range<usize>) -> Range<usize> {
        let nr = self.family.nr();
        panels.start * nr..self.conv.out_channels.min(panels.end * nr)
    }

    /// The packed matrix of a panel.
    fn weights(&self, matrix: usize, panel: usize) -> &[f32] {
        let columns = self.columns(panel..panel + 1);
        let len = columns.len().next_multiple_of(self.family.lanes) * self.conv.in_channels;
        let start = columns.start * self.conv.in_channels * self.shape.output.matrices();
        &self.packed[start + matrix * len..][..len]
    }

    /// Transforms the patch under a tile; `to` is its row of the first matrix.
    fn transform_patch(&self, tile: usize, to: &mut [f32]) {
        let conv = self.conv;
        let (pixel, [rows, columns]) = self.shape.patch(conv, tile);
        let plane = self.shape.planes().0;
        assert!(to.len() >= (self.shape.output.matrices() - 1) * plane + self.shape.channels);
        let patch = Patch {
            from: self.input.as_ptr().wrapping_add(pixel.wrapping_mul(self.distances.0)),
            line: conv.input[1] * self.distances.0,
            pixel: self.distances.0,
            rows,
            columns,
            channels: conv.in_channels,
            to: to.as_mut_ptr(),
            plane,
        };
        // SAFETY: rows and columns were cut to what lies in the image, whose length `winograd` asserted; `to` reaches to the
        // last matrix, as was just asserted. The transforms belong to a held token.
        unsafe { (self.transforms.input)(&patch) };
    }

    /// Multiplies a matrix of patches with that of the filter for a panel of channels.
    fn multiply(&self, at: (usize, usize), next: &[f32], patches: &[f32], products: &mut [f32]) {
        let (shape, k) = (&self.shape, self.conv.in_channels);
        let (panel, family) = (self.weights(at.0, at.1), &self.family);
        let (first, width) = (at.1 * family.nr(), panel.len() / k);
        let tiles = patches.len() / shape.channels;
        let strips = tiles.div_ceil(family.mr);
        // Each strip fetches its share; rounded up, the last ones may have none.
        let share = next.len().div_ceil(LINE * k * strips);
        let mut addresses = [core::ptr::null(); MOST_ROWS];
        for strip in 0..strips {
            let rows = tiles * strip / strips..tiles * (strip + 1) / strips;
            let from = patches[rows.start * shape.channels..rows.end * shape.channels].chunks_exact(shape.channels);
            addresses.iter_mut().zip(from).for_each(|(address, row)| *address = row.as_ptr());
            let to = &mut products[rows.start * shape.columns..rows.end * shape.columns][first..];
            let ahead = next.get(strip * share * k * LINE..).unwrap_or_default();
            let tile = Tile {
                taps: 1,
                channels: k,
                rows: addresses.as_ptr(),
                bias: None,
                panel: panel.as_ptr(),
                c: to.as_mut_ptr(),
                c_stride: shape.columns,
                columns: width,
                residual: None,
                limits: None,
                ahead: (ahead.as_ptr(), if ahead.is_empty() { 0 } else { share }),
            };
            // SAFETY: there is an address for each of the at most `mr` rows, of at least `k` elements; the panel and the
            // rows of products were cut to their lengths, and a panel ends where the columns do, at the latest. The family
            // belongs to a held token.
            unsafe { family.tile(rows.len(), width)(&tile) };
        }
    }

    /// Stores the pixels of a tile; `from` is its row of the first matrix of products.
    fn transform_products(&self, tile: usize, columns: Range<usize>, from: &[f32]) {
        let (shape, channels) = (&self.shape, self.conv.out_channels);
        let (image, y, x) = shape.place(tile);
        let (at, pixel) = ((image * shape.size[0] + y) * shape.size[1] + x, self.distances.1);
        let Steps { residual, limits, .. } = Steps::of(self.then);
        let plane = shape.planes().1;
        assert!(from.len() >= (shape.output.matrices() - 1) * plane + columns.len().next_multiple_of(ALIGN));
        let finished = Finished {
            from: from.as_ptr(),
            plane,
            channels: columns.len(),
            bias: self.bias.map(|bias| bias[columns.clone()].as_ptr()),
            residual: residual
                .map(|other| (other[at * channels + columns.start..].as_ptr(), [shape.size[1] * channels, channels])),
            limits,
            // SAFETY: the tile's first pixel and the panel's first channel lie in the output.
            to: unsafe { self.out.add(at * pixel + columns.start) },
            line: shape.size[1] * pixel,
            pixel,
            rows: (shape.size[0] - y).min(shape.output.side()),
            columns: (shape.size[1] - x).min(shape.output.side()),
        };
        // SAFETY: `from` reaches to the last matrix, as was just asserted; rows and columns were cut to what lies in the
        // output, whose length `winograd` asserted, with that of the residual, and no other task has this tile and panel. The
        // transforms belong to a held token.
        unsafe { (self.transforms.output)(&finished) };
    }

    /// Takes the steps that are left, for tiles whose channels are all done.
    fn finish(&self, tiles: Range<usize>, columns: Range<usize>) {
        let (shape, channels) = (&self.shape, self.conv.out_channels);
        let then = Steps::of(self.then).rest;
        if then.is_empty() {
            return;
        }
        shape.each_line(tiles, |pixels| {
            // SAFETY: these are pixels of this task's tiles in the output and channels of its panels, which no other task has.
            let mut block = unsafe {
                let start = self.out.add(pixels.start * self.distances.1 + columns.start);
                Block::held(start, self.distances.1, pixels.clone(), columns.clone())
            };
            block.each_run(pixels, channels, |at, values| finish(self.isa, then, at, values));
        });
    }
}
