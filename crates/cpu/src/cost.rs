//! Which of several ways to compute the same is fastest, told from sizes.
//!
//! All choices between algorithms are made here. What Winograd's method costs beside a plain sum of products is measured and
//! known where its kernels are ([`winograd::best`], [`winograd::pays`]).

use crate::steps::{Filter, Window};
use sconce_kernels::Isa;
use sconce_kernels::packed::Conv2d;
use sconce_kernels::winograd::{self, Output};

/// Bytes of the second-level cache that rows between two convolutions may take: half of one MiB, and a little more, so that
/// the weights of both fit beside them.
const CACHED: usize = 640 * 1024;

/// Bytes of a value from which on it is worth not writing it to memory: with its reader's result it does not fit that cache.
const WORTH_KEEPING: usize = 512 * 1024;

/// Parts of an image per thread: with two, the thread that is done first takes another.
const PARTS: usize = 2;

/// How the sum of products of a layer of `float32` is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Direct,
    Winograd(Output),
}

/// The fastest method for a convolution. The choice is made for the largest images that may come: it decides how weights are
/// packed, and that is done once for all sizes.
pub(crate) fn method(conv: &Conv2d, largest: &Conv2d, layout: Filter, exact: bool) -> Method {
    let output = winograd::best(largest).filter(|_| !exact && layout == Filter::Rows && winograd::applies(conv));
    output.map_or(Method::Direct, Method::Winograd)
}

/// Whether Winograd's method is the fastest for int8. It rounds nothing, but takes more memory.
pub(crate) fn winograd_pays(isa: Isa, conv: &Conv2d, largest: &Conv2d, layout: Filter, exact: bool) -> bool {
    !exact && layout == Filter::Rows && winograd::pays(isa, largest) && winograd::int8::applies(conv)
}

/// Whether factors of the channels of an image had better multiply the weights of the pixelwise convolution that reads it:
/// if these are fewer. Both have a row for each channel.
pub(crate) fn gates_weights(conv: &Conv2d) -> bool {
    let [height, width] = conv.input;
    let (weights, pixels) = (conv.out_channels, height * width);
    conv.batch == 1 && conv.groups == 1 && conv.is_pixelwise() && weights < pixels
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

    /// 24 channels in: as many weights per channel as output channels, as many numbers as pixels.
    #[test]
    fn factors_go_where_fewer_numbers_are() {
        let image =
            |[height, width]: [usize; 2], out: usize| Conv2d { input: [height, width], ..Conv2d::linear(1, 24, out) };
        assert!(gates_weights(&image([7, 7], 48)));
        assert!(!gates_weights(&image([7, 7], 49)));
        assert!(!gates_weights(&Conv2d { batch: 2, ..image([7, 7], 8) }), "a factor for each image");
        assert!(!gates_weights(&Conv2d { kernel: [3, 3], ..image([7, 7], 8) }), "several taps");
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
