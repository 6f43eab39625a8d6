//! What the forms of a layer cost, told from its size.
//!
//! All forms multiply equally fast; they differ in how many multiplications there are, how many bytes of weights pass by,
//! and what transforms cost. In a net the weights of a layer come from memory. The direct form waits for them; here they
//! are fetched while multiplying, so that the longer of the two counts.

use super::{Output, applies, int8};
use crate::isa::Isa;
use crate::packed::Conv2d;
use crate::packed::int8::LANES;

/// Nanoseconds on one core, as measured with `winograd_peak` on an Ice Lake Xeon at 2.8 GHz with AVX-512.
mod nanoseconds {
    /// A multiplication and addition.
    pub(super) const MULTIPLICATION: f64 = 0.0172;
    /// A byte of weights, from memory in large pages; on an EPYC (Zen 4), where it takes longer than there.
    pub(super) const BYTE: f64 = 0.08;
    /// An element of a transformed patch or of a product, for tiles of two and of four pixels.
    pub(super) const TRANSFORM: [f64; 2] = [0.15, 0.23];
    /// An element of a transformed patch of bytes, and of a product of such; with `winograd_peak` on an EPYC (Zen 4).
    pub(super) const TRANSFORM_BYTES: [f64; 2] = [0.095, 0.14];
}

/// What bytes take, likewise.
struct Rates {
    /// Nanoseconds of a multiplication and addition of bytes, and of 16-bit numbers.
    byte: f64,
    number: f64,
    /// How many times fewer numbers than the widest vectors are transformed at once.
    narrower: f64,
}

/// Products of 16-bit numbers are of no use where dot products of bytes are four times as fast.
fn rates(isa: Isa) -> Option<Rates> {
    let (byte, number, narrower) = match isa {
        Isa::Scalar => (0.121, 0.16, 8.0),
        Isa::Vnni(_) => (0.0044, 0.0089, 1.0),
        Isa::Avx512(_) => (0.0139, 0.0125, 1.0),
        Isa::Avx2(_) => (0.0175, 0.0135, 2.0),
        // Not measured, but made of instructions like those of AVX2.
        Isa::Neon(_) => (0.0350, 0.0270, 4.0),
        Isa::Dotprod(_) | Isa::I8mm(_) => return None,
    };
    Some(Rates { byte, number, narrower })
}

/// Nanoseconds that a layer of `float32` takes on one core: with such a tile, or without one as a plain sum of products. `None`
/// where Winograd's method does not apply.
pub fn time(conv: &Conv2d, output: Option<Output>) -> Option<f64> {
    let size = conv.output()?;
    match output {
        None => Some(direct(conv, size)),
        Some(output) => applies(conv).then(|| transformed(conv, size, output)),
    }
}

/// The same of a layer of int8, by Winograd's method or as a plain sum of products. `None` also where instructions have no use
/// for the method.
pub fn time_int8(isa: Isa, conv: &Conv2d, winograd: bool) -> Option<f64> {
    let (size, rates) = conv.output().zip(rates(isa))?;
    let (matrix, [down, across]) = (matrix(conv), size.map(|size| size as f64));
    if !winograd {
        return Some(9.0 * matrix * (conv.batch as f64 * down * across * rates.byte + nanoseconds::BYTE));
    }
    let (matrices, tiles) = (Output::Four.matrices() as f64, tiles(conv, size, Output::Four));
    let multiply = matrices * matrix * tiles * rates.number;
    let fetch = matrices * matrix * size_of::<i16>() as f64 * nanoseconds::BYTE;
    let [patch, product] = nanoseconds::TRANSFORM_BYTES;
    let (inputs, outputs) =
        (conv.in_channels.next_multiple_of(int8::TOGETHER), conv.out_channels.next_multiple_of(LANES));
    let transform = matrices * tiles * (inputs as f64 * patch + outputs as f64 * product) * rates.narrower;
    int8::applies(conv).then(|| multiply.max(fetch) + transform)
}

fn direct(conv: &Conv2d, size: [usize; 2]) -> f64 {
    let (matrix, pixels) = (matrix(conv), conv.batch as f64 * size[0] as f64 * size[1] as f64);
    9.0 * matrix * (pixels * nanoseconds::MULTIPLICATION + size_of::<f32>() as f64 * nanoseconds::BYTE)
}

fn transformed(conv: &Conv2d, size: [usize; 2], output: Output) -> f64 {
    let (matrices, tiles) = (output.matrices() as f64, tiles(conv, size, output));
    let multiply = matrices * tiles * matrix(conv) * nanoseconds::MULTIPLICATION;
    let fetch = matrices * matrix(conv) * size_of::<f32>() as f64 * nanoseconds::BYTE;
    let element = match output {
        Output::Two => nanoseconds::TRANSFORM[0],
        Output::Four => nanoseconds::TRANSFORM[1],
    };
    multiply.max(fetch) + matrices * tiles * (conv.in_channels as f64 + conv.out_channels as f64) * element
}

/// Tiles of all images.
fn tiles(conv: &Conv2d, size: [usize; 2], output: Output) -> f64 {
    let [down, across] = size.map(|size| size.div_ceil(output.side()) as f64);
    conv.batch as f64 * down * across
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

    /// The fastest of all forms.
    fn best(conv: &Conv2d) -> Option<Output> {
        let forms = [None, Some(Output::Two), Some(Output::Four)].into_iter();
        let times = forms.filter_map(|form| Some((form, time(conv, form)?)));
        times.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap().0
    }

    fn pays(isa: Isa, conv: &Conv2d) -> bool {
        let [winograd, direct] = [true, false].map(|winograd| time_int8(isa, conv, winograd));
        winograd.is_some_and(|winograd| winograd < direct.unwrap())
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
    fn predictions_for_bytes_agree_with_measurements() {
        for isa in Isa::available().filter(|isa| rates(*isa).is_some()) {
            for (channels, size) in [(64, 56), (128, 28), (64, 40), (128, 20)] {
                assert!(pays(isa, &layer((channels, channels), size)), "{isa:?} {channels} channels, {size} px");
            }
            assert!(!pays(isa, &layer((3, 16), 224)), "{isa:?}");
            assert!(!pays(isa, &layer((int8::MOST_CHANNELS + 1, 64), 56)), "{isa:?}");
        }
    }

    #[test]
    fn few_channels_and_other_windows_stay_direct() {
        assert_eq!(best(&layer((3, 64), 224)), None);
        assert_eq!(best(&Conv2d { stride: [2, 2], ..layer((64, 64), 56) }), None);
    }
}
