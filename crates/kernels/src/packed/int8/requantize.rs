//! From sums to bytes: `limits(round(scale * sum) + zero)`.
//!
//! The micro-kernels do this while the sums are in registers: for few inputs it is as much work as the products.

use super::tile::WIDEST;
use super::{LANES, Quantization};
use crate::bytes::Rounding;

/// How sums become bytes, for the channels of a panel.
pub(super) struct Narrowing<'a> {
    /// A scale per channel, and more up to the last line.
    scale: &'a [f32],
    /// How many channels there are.
    pub(super) channels: usize,
    pub(super) rounding: Rounding,
    /// Whether all scales are less than one.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "conversions there keep what is too large at the ends")
    )]
    pub(super) shrinks: bool,
}

impl<'a> Narrowing<'a> {
    /// `room` is taken if the channels do not fill their lines.
    pub(super) fn new(
        quantization: &Quantization,
        (scale, shrinks): (&'a [f32], bool),
        room: &'a mut [f32; LANES * WIDEST],
    ) -> Self {
        let Quantization { output_zero: zero, limits, .. } = *quantization;
        let channels = scale.len();
        let scale = match channels.is_multiple_of(LANES) {
            true => scale,
            false => {
                room[..channels].copy_from_slice(scale);
                &room[..channels.next_multiple_of(LANES)]
            }
        };
        Self { scale, channels, rounding: Rounding { zero, limits }, shrinks }
    }

    /// The scales of each line.
    #[inline(always)]
    pub(super) fn scales(&self) -> &[[f32; LANES]] {
        self.scale.as_chunks().0
    }

    /// A limit before the zero is added.
    #[inline(always)]
    pub(super) fn before_zero(&self, limit: i8) -> f32 {
        f32::from(limit) - f32::from(self.rounding.zero)
    }
}

/// Where the bytes of a tile go: rows of as many as there are channels, `stride` apart.
pub(super) struct Bytes<'a> {
    pub(super) out: *mut i8,
    pub(super) stride: usize,
    pub(super) narrowing: &'a Narrowing<'a>,
}
