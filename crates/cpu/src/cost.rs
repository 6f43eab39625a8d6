//! Which of several ways to compute the same is fastest, told from sizes.
//!
//! All choices between algorithms are made here: a layer is computed by the one of [`ALGORITHMS`] that costs the least, and
//! layers in a row are computed strip by strip where that costs less than writing large images to memory. What forms of a layer
//! cost is measured and known where their kernels are ([`winograd::time`], [`winograd::time_int8`]).

use crate::steps::{Filter, Window};
use sconce_kernels::Isa;
use sconce_kernels::packed::Conv2d;
use sconce_kernels::winograd::{self, Output};

/// Bytes of rows between convolutions that a strip aims at: they and the weights fit the second-level cache.
const CACHED: usize = 640 * 1024;

/// Bytes of a value that are worth not writing to memory.
const WORTH_KEEPING: usize = 512 * 1024;

/// Parts of an image per thread.
const PARTS: usize = 2;

/// How a convolution or linear layer is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// As a plain sum of products.
    Direct,
    /// Likewise, after the factors of a gate multiplied the weights and not the image.
    Gated,
    /// By Winograd's method: it rounds more for `float32`, and takes more memory for int8.
    Winograd(Output),
}

/// All of them. Of two that cost the same the first is taken.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Direct, Algorithm::Gated, Algorithm::Winograd(Output::Two), Algorithm::Winograd(Output::Four)];

/// Nanoseconds to multiply an element by a factor: at least what a multiplication of a product takes. Either way there is a
/// number for each channel, so that only which is less matters.
const FACTOR: f64 = 0.0172;

/// What is known of a layer when its algorithm is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    pub(crate) conv: Conv2d,
    /// The same for the largest images that may come. It decides where weights are packed otherwise, which is done once for all
    /// sizes.
    pub(crate) largest: Conv2d,
    pub(crate) layout: Filter,
    /// The instructions, if elements are int8.
    pub(crate) int8: Option<Isa>,
    /// Whether factors for the channels of the image come first, from a gate.
    pub(crate) gated: bool,
    /// Whether Winograd's method is not wanted.
    pub(crate) exact: bool,
}

impl Layer {
    /// The algorithm that costs the least.
    pub(crate) fn cheapest(&self) -> Algorithm {
        let costs = ALGORITHMS.into_iter().filter_map(|algorithm| Some((algorithm, self.cost(algorithm)?)));
        costs.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Algorithm::Direct, |(algorithm, _)| algorithm)
    }

    /// Nanoseconds on one core; `None` where the algorithm does not apply or costs are not known.
    fn cost(&self, algorithm: Algorithm) -> Option<f64> {
        let Self { conv, largest, .. } = self;
        let factors = |numbers: usize| if self.gated { FACTOR * (numbers * conv.in_channels) as f64 } else { 0.0 };
        let transforms = !self.exact && self.layout == Filter::Rows;
        match (algorithm, self.int8) {
            (Algorithm::Direct, None) => Some(winograd::time(largest, None)? + factors(conv.input[0] * conv.input[1])),
            (Algorithm::Gated, None) => {
                let one = self.gated && conv.batch == 1 && conv.groups == 1 && conv.is_pixelwise();
                Some(winograd::time(largest, None).filter(|_| one)? + factors(conv.out_channels))
            }
            (Algorithm::Winograd(output), None) => {
                winograd::time(largest, Some(output)).filter(|_| transforms && winograd::applies(conv))
            }
            (Algorithm::Direct, Some(isa)) => winograd::time_int8(isa, largest, false),
            (Algorithm::Winograd(Output::Four), Some(isa)) => {
                winograd::time_int8(isa, largest, true).filter(|_| transforms && winograd::int8::applies(conv))
            }
            (Algorithm::Gated | Algorithm::Winograd(Output::Two), Some(_)) => None,
        }
    }
}

/// Whether a value is large enough that computing what reads it strip by strip can pay.
pub(crate) fn is_worth_keeping(bytes: usize) -> bool {
    bytes >= WORTH_KEEPING
}

/// Whether convolutions of which each reads what the one before makes are better computed in strips: if the image has rows
/// enough for all threads, and the rows that two neighbours both compute, where their parts meet, are at most a quarter more.
pub(crate) fn strips_pay(windows: &[Window], width: usize) -> bool {
    let height = windows.last().map_or(0, |window| window.rows[1]);
    let part = height.div_ceil(parts(width, height).max(1));
    let between = windows.iter().skip(1).rev();
    let (seen, own) = between.fold((part, part), |(seen, own), window| {
        (seen.saturating_sub(1) * window.stride + window.reach + 1, own * window.stride)
    });
    windows.len() > 1 && height > 1 && part > 1 && (width == 1 || 4 * seen <= 5 * own)
}

/// How many parts the rows of an image are given out in.
pub(crate) fn parts(width: usize, height: usize) -> usize {
    if width > 1 { (PARTS * width).min(height) } else { 1 }
}

/// The most rows of a strip, of at most `most`, with which the rows in between stay in the cache; `held` says how many bytes
/// these are.
pub(crate) fn rows_of_strip(most: usize, held: impl Fn(usize) -> usize) -> usize {
    (1..=most).rev().find(|&rows| held(rows) <= CACHED).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter of `reach + 1` rows that makes an image of `height` rows.
    fn layer(height: usize, reach: usize, stride: usize) -> Window {
        let (rows, bytes) = ([height * stride, height], [1024; 2]);
        Window { rows, bytes, elements: bytes[1] / 4, stride, reach, above: reach / 2 }
    }

    #[test]
    fn one_thread_computes_no_row_twice() {
        assert!(strips_pay(&[layer(2, 0, 1), layer(2, 2, 1)], 1));
        assert!(!strips_pay(&[layer(2, 2, 1)], 1), "a single step");
        assert!(!strips_pay(&[layer(1, 0, 1), layer(1, 0, 1)], 1), "an image of one row");
    }

    /// Two threads take four parts. The first layer's input is there; the last one's filter makes neighbours compute rows
    /// of the first layer twice, which may be a quarter of them.
    #[test]
    fn few_rows_may_be_computed_twice() {
        let chain = |height: usize, reach: usize| [layer(height, 20, 1), layer(height, reach, 1)];
        for (height, reach, expected) in [
            // Parts of 8 and 7 rows, which need 2 more.
            (32, 2, true),
            (28, 2, false),
            // Parts of 16 and 15 rows, which need 4 more.
            (64, 4, true),
            (60, 4, false),
            // Parts of one row are not strips, whatever they need.
            (5, 0, true),
            (4, 0, false),
        ] {
            assert_eq!(strips_pay(&chain(height, reach), 2), expected, "{height} rows, filter of {}", reach + 1);
        }
        // Parts of 2 rows look at 5 rows where 4 are their own.
        assert!(strips_pay(&[layer(16, 0, 1), layer(8, 2, 2)], 2));
        // What two layers in a row need adds up: 8 rows, then 10, then 12 where 10 would be the most.
        assert!(!strips_pay(&[layer(32, 0, 1), layer(32, 2, 1), layer(32, 2, 1)], 2));
        assert!(strips_pay(&[layer(64, 0, 1), layer(64, 2, 1), layer(64, 2, 1)], 2));
    }

    fn of(conv: Conv2d) -> Layer {
        Layer { conv, largest: conv, layout: Filter::Rows, int8: None, gated: false, exact: false }
    }

    /// 24 channels in: as many weights per channel as output channels, as many numbers as pixels.
    #[test]
    fn factors_go_where_fewer_numbers_are() {
        let image = |pixels: usize, out: usize| Conv2d { input: [pixels, 7], ..Conv2d::linear(1, 24, out) };
        let chosen = |conv| Layer { gated: true, ..of(conv) }.cheapest();
        assert_eq!(chosen(image(7, 48)), Algorithm::Gated);
        assert_eq!(chosen(image(7, 49)), Algorithm::Direct);
        assert_eq!(chosen(image(700, 4899)), Algorithm::Gated);
        assert_eq!(chosen(Conv2d { batch: 2, ..image(7, 8) }), Algorithm::Direct, "a factor for each image");
        assert_eq!(chosen(Conv2d { kernel: [3, 3], ..image(7, 8) }), Algorithm::Direct, "several taps");
        assert_eq!(of(image(7, 48)).cheapest(), Algorithm::Direct, "no gate");
    }

    #[test]
    fn large_filters_are_transformed_where_that_is_wanted() {
        let layer =
            |channels| Conv2d { input: [56, 56], kernel: [3, 3], padding: [1; 4], ..Conv2d::linear(1, channels, 64) };
        let (large, four) = (of(layer(64)), Algorithm::Winograd(Output::Four));
        assert_eq!(large.cheapest(), four);
        assert_eq!(of(layer(3)).cheapest(), Algorithm::Direct, "few channels");
        assert_eq!(Layer { exact: true, ..large }.cheapest(), Algorithm::Direct);
        assert_eq!(Layer { layout: Filter::Columns, ..large }.cheapest(), Algorithm::Direct);
        let small = Conv2d { input: [2, 2], ..layer(64) };
        assert_eq!(Layer { conv: small, ..large }.cheapest(), four, "the largest image decides");
        assert_eq!(Layer { int8: Some(Isa::Scalar), ..large }.cheapest(), four);
    }

    #[test]
    fn strips_fit_the_cache() {
        // So many rows of 64 KiB, and two more.
        let held = |rows: usize| (rows + 2) * 64 * 1024;
        assert_eq!(rows_of_strip(20, held), 8);
        assert_eq!(rows_of_strip(5, held), 5);
        assert_eq!(rows_of_strip(5, |rows| rows * 1024 * 1024), 1);
    }
}
