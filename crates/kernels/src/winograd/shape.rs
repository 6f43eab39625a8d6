//! How a convolution is cut: tiles of the output, blocks of tiles, parts of the channels.
//!
//! Numbers and bytes are cut alike. Both have words of four bytes in their scratch: an element each of patches and products,
//! or two elements of a patch of bytes. Products of bytes are not kept there, but transformed as soon as they are made.

use super::Output;
use crate::packed::Conv2d;
use core::ops::Range;

/// Bytes of transformed patches and products that stay in the second-level cache.
const NEAR: usize = 512 * 1024;
/// Tiles that a block has at least, if there are that many: with fewer, fetching the weights takes longer than using them.
const FEWEST: usize = 28;
/// Words of the widest vector; planes of scratch start at multiples of it.
pub(super) const ALIGN: usize = 16;
/// Bytes of a word.
const WORD: usize = 4;

/// The product of some sizes, which must be a number.
pub(super) fn product(sizes: &[usize]) -> usize {
    let product = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    product.unwrap_or_else(|| panic!("a buffer of {sizes:?} elements is more than there can be"))
}

/// What falls to one of several parts.
pub(super) fn share(count: usize, part: usize, parts: usize) -> Range<usize> {
    count * part / parts..count * (part + 1) / parts
}

#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) output: Output,
    /// Height and width of the output.
    pub(super) size: [usize; 2],
    /// Tiles across an output image, and down.
    across: usize,
    down: usize,
    /// All tiles of the batch, and the most of a block.
    pub(super) tiles: usize,
    most: usize,
    /// Rows of a tile of the matrix products.
    rows: usize,
    /// Words of a row of patches and of a row of products that are kept, rounded up to vectors.
    pub(super) channels: usize,
    pub(super) columns: usize,
    pub(super) panels: usize,
}

impl Shape {
    /// For matrix products in tiles of n rows and columns, and rows of patches and products of n words.
    pub(super) fn new(
        conv: &Conv2d,
        output: Output,
        (mr, nr): (usize, usize),
        (patches, products): (usize, usize),
    ) -> Self {
        let size = conv.output().unwrap_or_else(|| panic!("{conv:?} is not a convolution"));
        let (down, across) = (size[0].div_ceil(output.side()), size[1].div_ceil(output.side()));
        let tiles = product(&[conv.batch, down, across]);
        let (channels, columns) = (patches.next_multiple_of(ALIGN), products.next_multiple_of(ALIGN));
        let bytes = product(&[output.matrices(), channels + columns, WORD]);
        let most = (NEAR / bytes.max(1)).max(FEWEST).next_multiple_of(mr).min(tiles);
        let panels = conv.out_channels.div_ceil(nr);
        Self { output, size, across, down, tiles, most, rows: mr, channels, columns, panels }
    }

    /// Words from a transformed patch's place in one matrix to that in the next, and the same for products. A little more
    /// than the matrix has, because places that are a power of two apart compete for the same lines of a cache.
    pub(super) fn planes(&self) -> (usize, usize) {
        (self.most * self.channels + ALIGN, self.most * self.columns + ALIGN)
    }

    /// Words of scratch of a task.
    pub(super) fn slot(&self) -> usize {
        let (patches, products) = self.planes();
        (patches + products) * self.output.matrices() + ALIGN
    }

    /// The patches and the products of some tiles in the scratch of a task.
    pub(super) fn parts<'a, T>(&self, tiles: &Range<usize>, scratch: &'a mut [T]) -> (&'a mut [T], &'a mut [T]) {
        const { assert!(size_of::<T>() == WORD) };
        assert!(tiles.len() <= self.most, "{tiles:?} are more than {} tiles", self.most);
        let skip = scratch.as_ptr().align_offset(ALIGN * WORD).min(ALIGN);
        scratch[skip..].split_at_mut(self.planes().0 * self.output.matrices())
    }

    /// How many blocks of tiles and parts of the panels are tasks. Each block reads all weights and each part transforms all
    /// patches, so there are no more than it takes.
    pub(super) fn tasks(&self, width: usize) -> (usize, usize) {
        let blocks = self.tiles.div_ceil(self.most.max(1));
        match width {
            1 => (blocks, 1),
            _ if self.tiles >= 2 * width * self.rows => (blocks.next_multiple_of(width), 1),
            _ => (blocks, width.div_ceil(blocks).min(self.panels)),
        }
    }

    /// Image, line and column of a tile, the latter in pixels of the output.
    pub(super) fn place(&self, tile: usize) -> (usize, usize, usize) {
        let (line, column) = (tile / self.across, tile % self.across);
        (line / self.down, line % self.down * self.output.side(), column * self.output.side())
    }

    /// The first pixel of the patch under a tile, which may lie outside the image, and the lines and columns of the patch that
    /// do not.
    pub(super) fn patch(&self, conv: &Conv2d, tile: usize) -> (usize, [Range<usize>; 2]) {
        let (image, y, x) = self.place(tile);
        let inside = |at: usize, axis: usize| {
            let end = (conv.input[axis] + conv.padding[axis]).saturating_sub(at).min(self.output.patch());
            conv.padding[axis].saturating_sub(at).min(end)..end
        };
        let line = (image * conv.input[0] + y).wrapping_sub(conv.padding[0]);
        let pixel = line.wrapping_mul(conv.input[1]).wrapping_add(x).wrapping_sub(conv.padding[1]);
        (pixel, [inside(y, 0), inside(x, 1)])
    }

    /// Calls `body` with the pixels of the output that some tiles cover, line by line: tiles side by side make longer ones.
    pub(super) fn each_line(&self, tiles: Range<usize>, mut body: impl FnMut(Range<usize>)) {
        let mut tile = tiles.start;
        while tile < tiles.end {
            let (image, y, x) = self.place(tile);
            let side_by_side = (self.across - tile % self.across).min(tiles.end - tile);
            let pixels = (side_by_side * self.output.side()).min(self.size[1] - x);
            for line in y..self.size[0].min(y + self.output.side()) {
                let first = (image * self.size[0] + line) * self.size[1] + x;
                body(first..first + pixels);
            }
            tile += side_by_side;
        }
    }
}
