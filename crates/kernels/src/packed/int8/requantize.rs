//! From sums to bytes: `limits(round(scale * sum) + zero)`.
//!
//! The micro-kernels do this while the sums are in registers: for few inputs it is as much work as the products.

use super::tile::WIDEST;
use super::{LANES, Quantization};

/// How sums become bytes, for the channels of a panel.
pub(super) struct Narrowing {
    /// A scale per channel, and zeros up to the last line.
    pub(super) scale: [f32; LANES * WIDEST],
    /// How many channels there are.
    pub(super) channels: usize,
    pub(super) limits: (i8, i8),
    pub(super) zero: i8,
}

impl Narrowing {
    pub(super) fn new(quantization: &Quantization, scale: &[f32]) -> Self {
        let Quantization { output_zero: zero, limits, .. } = *quantization;
        let mut all = [0.0; LANES * WIDEST];
        all[..scale.len()].copy_from_slice(scale);
        Self { scale: all, channels: scale.len(), limits, zero }
    }

    /// A limit before the zero is added.
    #[inline(always)]
    pub(super) fn before_zero(&self, limit: i8) -> f32 {
        f32::from(limit) - f32::from(self.zero)
    }
}

/// Where the bytes of a tile go: rows of as many as there are channels, `stride` apart.
pub(super) struct Bytes<'a> {
    pub(super) out: *mut i8,
    pub(super) stride: usize,
    pub(super) narrowing: &'a Narrowing,
}
