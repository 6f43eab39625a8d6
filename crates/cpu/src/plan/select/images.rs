//! Steps of windows over images, and of images in other sizes.

use super::{Selected, Site};
use crate::operations::Form;
use crate::steps::{ArgMaxPool, Pixels, Pool, PoolKind, ResizeBilinear, ResizeNearest};
use sconce_format::ScalarType;
use sconce_graph::Op;
use sconce_kernels::resize::{self, Resize};
use sconce_kernels::windows::Windows;

impl Site<'_> {
    fn windows(
        &self,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 4],
        dilation: [usize; 2],
    ) -> Option<Windows> {
        let &[batch, height, width, channels] = self.input(0) else { return None };
        if self.is_empty(0) {
            return None;
        }
        let &[_, out_height, out_width, _] = self.output() else { return None };
        Some(Windows {
            batch,
            input: [height, width],
            channels,
            output: [out_height, out_width],
            kernel,
            stride,
            padding: [padding[0], padding[1]],
            dilation,
        })
    }

    pub(super) fn argmax_pool(&self, kernel: [usize; 2], padding: [usize; 4]) -> Option<Selected> {
        let windows = self.windows(kernel, kernel, padding, [1, 1])?;
        let index = self.graph.ty(*self.node.outputs.get(1)?).is(ScalarType::Int);
        (index && self.is_float(self.node.inputs[0])).then(|| self.step(ArgMaxPool { windows }, 1, 0))
    }

    pub(super) fn pool(&self, form: Form) -> Option<Selected> {
        let (windows, kind) = match self.node.op {
            Op::AvgPool2d { kernel, stride, padding } => {
                (self.windows(kernel, stride, padding, [1, 1])?, PoolKind::Mean)
            }
            Op::MaxPool2d { kernel, stride, padding, dilation } => {
                let kind = if form == Form::Moves { PoolKind::MaxInt8 } else { PoolKind::Max };
                (self.windows(kernel, stride, padding, dilation)?, kind)
            }
            _ => return None,
        };
        let pixels = Pixels::new(windows.channels, windows.channels);
        let step = Pool { kind, windows, after: self.after(1), pixels };
        match kind {
            PoolKind::MaxInt8 => Some(self.step(step, 1, 0)),
            PoolKind::Mean | PoolKind::Max => self.floats(step),
        }
    }

    fn resize(&self, size: [usize; 2], align_corners: bool) -> Option<Resize> {
        let &[planes, height, width, inner] = self.input(0) else { return None };
        if self.is_empty(0) {
            return None;
        }
        let axis = |input, output| resize::Axis { input, output, align_corners, factor: None };
        Some(Resize { planes, axes: [resize::Axis::NONE, axis(height, size[0]), axis(width, size[1])], inner })
    }

    pub(super) fn nearest(&self, size: [usize; 2]) -> Option<Selected> {
        let resize = self.resize(size, false)?;
        self.floats(ResizeNearest { resize, after: self.after(1), pixels: Pixels::new(resize.inner, resize.inner) })
    }

    pub(super) fn bilinear(&self, size: [usize; 2], align_corners: bool) -> Option<Selected> {
        let step = ResizeBilinear { resize: self.resize(size, align_corners)?, after: self.after(1) };
        let scratch = step.scratch();
        self.floats(step).map(|selected| Selected { scratch, ..selected })
    }
}
