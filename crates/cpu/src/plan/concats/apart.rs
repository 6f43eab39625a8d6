//! Which steps can read and write rows that lie apart, and what changes in them then.

use crate::steps::{Apart, Choice};

/// Bytes of a `float32`.
const NUMBER: usize = size_of::<f32>();

/// An image that a step can have with pixels apart.
struct Image<'a> {
    /// Elements from one pixel to the next.
    step: &'a mut usize,
    channels: usize,
    /// Bytes of an element.
    size: usize,
}

impl Image<'_> {
    /// The distance of pixels, in elements, if a row is a pixel.
    fn apart(&self, apart: Apart) -> Option<usize> {
        let whole = apart.stride.is_multiple_of(self.size) && self.channels.checked_mul(self.size) == Some(apart.width);
        whole.then(|| apart.stride / self.size)
    }

    /// Has pixels apart from now on; whether that can be.
    fn put_apart(self, apart: Apart) -> bool {
        let step = self.apart(apart);
        *self.step = step.unwrap_or(*self.step);
        step.is_some()
    }
}

/// The image that a step reads first, if its pixels may lie apart.
fn read(choice: &mut Choice) -> Option<Image<'_>> {
    let (pixels, channels, size) = match choice {
        // Neighbouring taps count as one only where nothing lies between pixels, so filters of many read a copy.
        Choice::Convolution(step) if step.conv.kernel == [1, 1] => (&mut step.pixels, step.conv.in_channels, NUMBER),
        Choice::Gated(step) => (&mut step.convolution.pixels, step.convolution.conv.in_channels, NUMBER),
        Choice::Winograd(step) => (&mut step.pixels, step.conv.in_channels, NUMBER),
        Choice::DepthwiseConvolution(step) => (&mut step.pixels, step.geometry.channels, NUMBER),
        Choice::WinogradInt8(step) => (&mut step.0.pixels, step.0.conv.in_channels, 1),
        Choice::DepthwiseInt8(step) => (&mut step.pixels, step.geometry.channels, 1),
        Choice::Pool(step) => (&mut step.pixels, step.windows.channels, step.kind.size()),
        _ => return None,
    };
    Some(Image { step: &mut pixels.input, channels, size })
}

/// The image that a step writes, if its pixels may lie apart.
fn written(choice: &mut Choice) -> Option<Image<'_>> {
    let (pixels, channels, size) = match choice {
        Choice::Convolution(step) => (&mut step.pixels, step.conv.out_channels, NUMBER),
        Choice::Gated(step) => (&mut step.convolution.pixels, step.convolution.conv.out_channels, NUMBER),
        Choice::Winograd(step) => (&mut step.pixels, step.conv.out_channels, NUMBER),
        Choice::DepthwiseConvolution(step) => (&mut step.pixels, step.geometry.channels, NUMBER),
        Choice::ConvolutionInt8(step) => (&mut step.pixels, step.conv.out_channels, 1),
        Choice::WinogradInt8(step) => (&mut step.0.pixels, step.0.conv.out_channels, 1),
        Choice::DepthwiseInt8(step) => (&mut step.pixels, step.geometry.channels, 1),
        Choice::Pool(step) if step.after.is_empty() => (&mut step.pixels, step.windows.channels, step.kind.size()),
        Choice::ResizeNearest(step) if step.after.is_empty() => (&mut step.pixels, step.resize.inner, NUMBER),
        _ => return None,
    };
    Some(Image { step: &mut pixels.output, channels, size })
}

/// Has a step write the rows of its result apart; whether it can.
pub(super) fn write_apart(choice: &mut Choice, apart: Apart) -> bool {
    match choice {
        Choice::Concat(step) => step.write_apart(apart),
        Choice::Rearrange(step) => step.write_apart(apart),
        Choice::Strips(strips) => strips.change_last(|stage| write_apart(stage, apart)),
        _ => written(choice).is_some_and(|image| image.put_apart(apart)),
    }
}

/// Whether a step can read this one of its reads with rows that lie apart.
pub(super) fn reads_apart(choice: &mut Choice, at: usize, apart: Apart) -> bool {
    match choice {
        Choice::Concat(step) => step.reads_apart(at, apart),
        Choice::Rearrange(step) => step.reads_apart(apart),
        Choice::Strips(strips) => strips.change_first(|stage| reads_apart(stage, at, apart)),
        _ => at == 0 && read(choice).is_some_and(|image| image.apart(apart).is_some()),
    }
}

/// Has a step read it so, which it can.
pub(super) fn read_apart(choice: &mut Choice, at: usize, apart: Apart) {
    match choice {
        Choice::Concat(step) => step.read_apart(at, apart),
        Choice::Rearrange(step) => step.read_apart(apart),
        Choice::Strips(strips) => {
            strips.change_first(|stage| {
                read_apart(stage, at, apart);
                true
            });
        }
        _ => {
            if let Some(image) = read(choice) {
                image.put_apart(apart);
            }
        }
    }
}
