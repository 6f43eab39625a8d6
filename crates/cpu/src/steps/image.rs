//! Windows over images, and images in other sizes.

use super::{After, Context, Following, Pixels, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_kernels::resize::{Filter, Resize, nearest, resample};
use sconce_kernels::windows::{Windows, argmax_pool, avg_pool, max_pool};

/// What is computed of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// The mean.
    Mean,
    /// The largest element.
    Max,
    /// The largest element, of int8.
    MaxInt8,
}

impl PoolKind {
    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Mean | Self::Max => size_of::<f32>(),
            Self::MaxInt8 => 1,
        }
    }
}

/// One number per window.
pub(crate) struct Pool {
    pub(crate) kind: PoolKind,
    pub(crate) windows: Windows,
    pub(crate) after: Vec<After>,
    pub(crate) pixels: Pixels,
}

impl Step for Pool {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let (isa, par, windows) = (context.isa, context.par, &self.windows);
        let (input, output, from, to) = (buffers.read(0), buffers.output, self.pixels.input, self.pixels.output);
        match self.kind {
            PoolKind::Mean => avg_pool(isa, par, windows, (elements(input), from), (elements_mut(output), to)),
            PoolKind::Max => max_pool::<f32>(isa, par, windows, (elements(input), from), (elements_mut(output), to)),
            PoolKind::MaxInt8 => {
                return max_pool::<i8>(isa, par, windows, (elements(input), from), (elements_mut(output), to));
            }
        }
        then.finish(context, elements_mut(output));
    }

    fn describe(&self) -> String {
        format!("{:?} of windows {:?}", self.kind, self.windows.kernel)
    }
}

/// The largest number of each window, and its place.
pub(crate) struct ArgMaxPool {
    pub(crate) windows: Windows,
}

impl Step for ArgMaxPool {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let input = elements(buffers.read(0));
        argmax_pool(context.par, &self.windows, input, elements_mut(buffers.output), elements_mut(buffers.second));
    }

    fn describe(&self) -> String {
        format!("largest and its place of windows {:?}", self.windows.kernel)
    }
}

/// An image in another size, of copies of its pixels.
pub(crate) struct ResizeNearest {
    pub(crate) resize: Resize,
    pub(crate) after: Vec<After>,
    pub(crate) pixels: Pixels,
}

impl Step for ResizeNearest {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let input: &[f32] = elements(buffers.read(0));
        let output: &mut [f32] = elements_mut(buffers.output);
        nearest(context.par, &self.resize, false, input, (output, self.pixels.output));
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        "nearest pixels".to_owned()
    }
}

/// An image in another size, interpolated.
pub(crate) struct ResizeBilinear {
    pub(crate) resize: Resize,
    pub(crate) after: Vec<After>,
}

impl ResizeBilinear {
    pub(crate) const FILTER: Filter = Filter { cubic: false, antialias: false };

    /// Bytes of scratch: a table of places and one of weights.
    pub(crate) fn scratch(&self) -> usize {
        self.resize.table_len(Self::FILTER) * 8
    }
}

impl Step for ResizeBilinear {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let input: &[f32] = elements(buffers.read(0));
        let output: &mut [f32] = elements_mut(buffers.output);
        let (places, weights) = buffers.scratch.split_at_mut(buffers.scratch.len() / 2);
        let table = (elements_mut(places), elements_mut(weights));
        resample(context.isa, context.par, &self.resize, Self::FILTER, input, table, output);
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        "bilinear interpolation".to_owned()
    }
}
