//! Operators on images: convolutions, windows, other sizes.
//!
//! The graph has channels last; programs have mostly channels first. So an image is transposed on its way in and on its way
//! out, and the engine's passes let neighbours cancel.

use super::Site;
use sconce_graph::{Op, Reduction, ValueId};

/// Channels last, and back.
const LAST: [usize; 4] = [0, 2, 3, 1];
const FIRST: [usize; 4] = [0, 3, 1, 2];

impl Site<'_, '_, '_, '_> {
    /// Images of `[n, c, h, w]` or rows of `[n, c, w]`, with channels last.
    pub(super) fn image(&mut self, index: usize) -> Option<ValueId> {
        let x = self.floats(index)?;
        let sizes = self.builder.graph.ty(x).sizes();
        let x = match sizes[..] {
            [n, c, w] => self.builder.reshaped(x, &[n, c, 1, w])?,
            [_, _, _, _] => x,
            _ => return None,
        };
        self.node(Op::Transpose { order: LAST.to_vec() }, vec![x])
    }

    /// Gives an image with channels last to output `index`.
    pub(super) fn give_image(&mut self, index: usize, made: ValueId) -> Option<()> {
        let made = self.node(Op::Transpose { order: FIRST.to_vec() }, vec![made])?;
        self.give(index, made)
    }

    pub(super) fn convolution(&mut self) -> Option<()> {
        let filter = self.constant(1)??;
        let sizes = self.builder.graph.ty(filter).sizes();
        let in_channels = *self.sizes(0)?.get(1)?;
        let rows = sizes.len() == 3;
        let filter = match sizes[..] {
            [out, within, w] => self.builder.reshaped(filter, &[out, within, 1, w])?,
            [_, _, _, _] => filter,
            _ => return None,
        };
        let &[first, within, _, _] = self.builder.graph.ty(filter).sizes().as_slice() else { return None };
        let pair = |site: &Self, index: usize, none: usize| match rows {
            true => Some([none, site.pair(index)?[1]]),
            false => site.pair(index),
        };
        let (stride, dilation) = (pair(self, 3, 1)?, pair(self, 5, 1)?);
        let [above, left] = pair(self, 4, 0)?;
        let padding = [above, left, above, left];
        let groups = usize::try_from(self.int(8)?).ok()?;
        let (op, order) = match (self.bool(6)?, groups) {
            (true, 1) => {
                let extra = pair(self, 7, 0)?;
                (Op::ConvTranspose2d { stride, padding, dilation, groups, extra }, [1, 2, 3, 0])
            }
            (true, _) => return None,
            (false, 2..) if groups == in_channels && within == 1 && first == groups => {
                (Op::DepthwiseConv2d { stride, padding, dilation }, [1, 2, 3, 0])
            }
            (false, _) => (Op::Conv2d { stride, padding, dilation, groups }, LAST),
        };
        let filter = self.builder.graph.reordered(filter, &order)?;
        let inputs = [Some(self.image(0)?), Some(filter), self.constant(2)?];
        let y = self.node(op, inputs.into_iter().flatten().collect())?;
        self.give_image(self.last()?, y)
    }

    /// Statistics that are known make an affine function of each channel.
    pub(super) fn batch_norm(&mut self) -> Option<()> {
        let (mean, variance) = (self.constant_floats(3)?, self.constant_floats(4)?);
        let channels = mean.len();
        let or = |site: &Self, index, none| match site.is_none(index) {
            true => Some(vec![none; channels]),
            false => site.constant_floats(index),
        };
        let (weight, bias, epsilon) = (or(self, 1, 1.0)?, or(self, 2, 0.0)?, self.number(6)? as f32);
        let factors: Vec<f32> = weight.iter().zip(&variance).map(|(w, v)| w / (v + epsilon).sqrt()).collect();
        let summands = bias.iter().zip(&mean).zip(&factors).map(|((bias, mean), factor)| bias - mean * factor);
        let summands: Vec<f32> = summands.collect();
        let (factors, summands) = (self.vector(&factors), self.vector(&summands));
        let x = self.image(0)?;
        let y = self.node(Op::Affine, vec![x, factors, summands])?;
        self.unread(8)?;
        self.unread(9)?;
        self.give_image(7, y)
    }

    pub(super) fn max_pool(&mut self) -> Option<()> {
        let (kernel, padding) = (self.pair(1)?, self.pair(3)?);
        let stride = self.stride(2, kernel)?;
        let [above, left] = padding;
        let op = Op::MaxPool2d { kernel, stride, padding: [above, left, above, left], dilation: self.pair(4)? };
        let x = self.image(0)?;
        let y = self.node(op, vec![x])?;
        self.unread(7)?;
        self.give_image(6, y)
    }

    /// Steps of a window, which are its size where they are left out.
    pub(super) fn stride(&self, index: usize, kernel: [usize; 2]) -> Option<[usize; 2]> {
        if self.ints(index)?.is_empty() { Some(kernel) } else { self.pair(index) }
    }

    pub(super) fn avg_pool(&mut self) -> Option<()> {
        let (kernel, [above, left]) = (self.pair(1)?, self.pair(3)?);
        let stride = self.stride(2, kernel)?;
        self.is_none(6).then_some(())?;
        let mut x = self.image(0)?;
        let mut padding = [above, left, above, left];
        // Pixels outside of the image do not count, unless they are made part of it.
        if padding != [0; 4] && self.bool(5)? {
            let border = vec![0, above, left, 0];
            x = self.node(Op::Pad { before: border.clone(), after: border, value: 0.0 }, vec![x])?;
            padding = [0; 4];
        }
        let y = self.node(Op::AvgPool2d { kernel, stride, padding }, vec![x])?;
        self.give_image(self.last()?, y)
    }

    /// Means of cells that divide an image evenly.
    pub(super) fn adaptive_avg_pool(&mut self) -> Option<()> {
        let &[_, _, height, width] = self.sizes(0)?.as_slice() else { return None };
        let &[_, _, down, across] = self.sizes(self.last()?)?.as_slice() else { return None };
        if [down, across] == [1, 1] {
            let x = self.floats(0)?;
            let y = self.node(Op::Reduce { of: Reduction::Mean, axes: vec![2, 3], keep: true }, vec![x])?;
            return self.give_last(y);
        }
        (height.is_multiple_of(down) && width.is_multiple_of(across)).then_some(())?;
        let kernel = [height / down, width / across];
        self.resize(Op::AvgPool2d { kernel, stride: kernel, padding: [0; 4] })
    }

    pub(super) fn bilinear(&mut self) -> Option<()> {
        let align_corners = self.bool(2)?;
        let size = self.new_size((!align_corners).then_some(3))?;
        self.resize(Op::ResizeBilinear { size, align_corners })
    }

    pub(super) fn nearest(&mut self) -> Option<()> {
        let size = self.new_size(Some(2))?;
        self.resize(Op::ResizeNearest { size })
    }

    /// The height and width of the result, if positions follow from the sizes. Factors, where they count, are argument
    /// `factors`, and say where positions lie, not the sizes: 10 pixels times 2.05 are 20, but each is 1 / 2.05 apart.
    fn new_size(&mut self, factors: Option<usize>) -> Option<[usize; 2]> {
        let &[_, _, height, width] = self.sizes(0)?.as_slice() else { return None };
        let &[_, _, new_height, new_width] = self.sizes(self.last()?)?.as_slice() else { return None };
        if let Some(index) = factors.filter(|&index| !self.is_none(index)) {
            let factors = self.doubles(index)?;
            let same = |factor: f64, old: usize, new: usize| (1.0 / factor) as f32 == old as f32 / new as f32;
            let as_sizes =
                matches!(factors[..], [down, right] if same(down, height, new_height) && same(right, width, new_width));
            as_sizes.then_some(())?;
        }
        Some([new_height, new_width])
    }

    /// An image that becomes another one.
    fn resize(&mut self, op: Op) -> Option<()> {
        let x = self.image(0)?;
        let y = self.node(op, vec![x])?;
        self.give_image(self.last()?, y)
    }
}
