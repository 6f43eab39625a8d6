//! Elements that move and do not change.

use super::{Context, Step};
use crate::memory::Buffers;
use sconce_kernels::copy::{Copy, contiguous_strides, copy};

/// A copy between two layouts: transposes and slices.
pub(crate) struct Rearrange {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Sizes of the output.
    pub(crate) shape: Vec<usize>,
    /// Steps in the input along each dimension of the output.
    pub(crate) strides: Vec<usize>,
    /// Where the input starts.
    pub(crate) start: usize,
    pub(crate) what: &'static str,
}

impl Step for Rearrange {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let to_strides = contiguous_strides(&self.shape);
        let layout =
            Copy { shape: &self.shape, from_strides: &self.strides, to_strides: &to_strides[..self.shape.len()] };
        let from = &buffers.read(0)[self.start * self.size..];
        copy(context.isa, context.par, self.size, &layout, from, buffers.output);
    }

    fn describe(&self) -> String {
        format!("{} to {:?}", self.what, self.shape)
    }
}

/// Inputs side by side: rows of bytes, so many of each input in turn.
pub(crate) struct Concat {
    /// How many times the inputs take turns.
    pub(crate) rows: usize,
    /// Bytes of each input per turn.
    pub(crate) widths: Vec<usize>,
}

impl Step for Concat {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let total: usize = self.widths.iter().sum();
        let mut start = 0;
        for (index, &width) in self.widths.iter().enumerate() {
            let shape = [self.rows, width];
            let layout = Copy { shape: &shape, from_strides: &[width, 1], to_strides: &[total, 1] };
            copy(context.isa, context.par, 1, &layout, buffers.read(index), &mut buffers.output[start..]);
            start += width;
        }
    }

    fn describe(&self) -> String {
        format!("{} rows of {} inputs side by side", self.rows, self.widths.len())
    }
}

/// A border around the input.
pub(crate) struct Pad {
    /// Sizes of the input.
    pub(crate) shape: Vec<usize>,
    /// Sizes of the output.
    pub(crate) padded: Vec<usize>,
    /// Where the input starts in the output, per dimension.
    pub(crate) before: Vec<usize>,
    pub(crate) value: f32,
}

impl Step for Pad {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (from, to) = (contiguous_strides(&self.shape), contiguous_strides(&self.padded));
        let rank = self.shape.len();
        super::elements_mut::<f32>(buffers.output).fill(self.value);
        let layout = Copy { shape: &self.shape, from_strides: &from[..rank], to_strides: &to[..rank] };
        let start: usize = self.before.iter().zip(to).map(|(before, stride)| before * stride).sum();
        if !buffers.read(0).is_empty() {
            copy(context.isa, context.par, 4, &layout, buffers.read(0), &mut buffers.output[start * 4..]);
        }
    }

    fn describe(&self) -> String {
        format!("border of {} around {:?}", self.value, self.shape)
    }
}
