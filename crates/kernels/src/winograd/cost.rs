//! Which form of a layer is fastest, told from its size.
//!
//! All forms multiply equally fast; they differ in how many multiplications there are, how many bytes of weights pass by,
//! and what transforms cost. In a net the weights of a layer come from memory. The direct form waits for them; here they
//! are fetched while multiplying, so that the longer of the two counts.

use super::{Output, applies};
use crate::packed::Conv2d;

/// Nanoseconds on one core, as measured with `winograd_peak` on an Ice Lake Xeon at 2.8 GHz with AVX-512.
mod nanoseconds {
    /// A multiplication and addition.
    pub(super) const MULTIPLICATION: f64 = 0.0172;
    /// A byte of weights, from memory in large pages; on an EPYC (Zen 4), where it takes longer than there.
    pub(super) const BYTE: f64 = 0.08;
    /// An element of a transformed patch or of a product, for tiles of two and of four pixels.
    pub(super) const TRANSFORM: [f64; 2] = [0.15, 0.23];
}

/// The tile with which Winograd's method is predicted to be fastest; `None` where it does not apply or the direct form is
/// faster.
pub fn best(conv: &Conv2d) -> Option<Output> {
    let size = conv.output().filter(|_| applies(conv))?;
    let mut best = (direct(conv, size), None);
    for output in [Output::Two, Output::Four] {
        let time = transformed(conv, size, output);
        if time < best.0 {
            best = (time, Some(output));
        }
    }
    best.1
}

fn direct(conv: &Conv2d, size: [usize; 2]) -> f64 {
    let (matrix, pixels) = (matrix(conv), conv.batch as f64 * size[0] as f64 * size[1] as f64);
    9.0 * matrix * (pixels * nanoseconds::MULTIPLICATION + size_of::<f32>() as f64 * nanoseconds::BYTE)
}

fn transformed(conv: &Conv2d, size: [usize; 2], output: Output) -> f64 {
    let [down, across] = size.map(|size| size.div_ceil(output.side()) as f64);
    let (matrices, tiles) = (output.matrices() as f64, conv.batch as f64 * down * across);
    let multiply = matrices * tiles * matrix(conv) * nanoseconds::MULTIPLICATION;
    let fetch = matrices * matrix(conv) * size_of::<f32>() as f64 * nanoseconds::BYTE;
    let element = match output {
        Output::Two => nanoseconds::TRANSFORM[0],
        Output::Four => nanoseconds::TRANSFORM[1],
    };
    multiply.max(fetch) + matrices * tiles * (conv.in_channels as f64 + conv.out_channels as f64) * element
}

/// Elements of the matrix between input and output channels.
fn matrix(conv: &Conv2d) -> f64 {
    conv.in_channels as f64 * conv.out_channels as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(channels: (usize, usize), size: usize) -> Conv2d {
        let linear = Conv2d::linear(1, channels.0, channels.1);
        Conv2d { input: [size, size], kernel: [3, 3], padding: [1; 4], ..linear }
    }

    /// The winners that were measured.
    #[test]
    fn predictions_agree_with_measurements() {
        for (channels, size, fastest) in [
            (64, 56, Output::Four),
            (128, 28, Output::Four),
            (256, 14, Output::Four),
            (512, 7, Output::Two),
            (32, 80, Output::Four),
            (64, 40, Output::Four),
            (128, 20, Output::Four),
        ] {
            assert_eq!(best(&layer((channels, channels), size)), Some(fastest), "{channels} channels, {size} px");
        }
    }

    #[test]
    fn few_channels_and_other_windows_stay_direct() {
        assert_eq!(best(&layer((3, 64), 224)), None);
        assert_eq!(best(&Conv2d { stride: [2, 2], ..layer((64, 64), 56) }), None);
    }
}
