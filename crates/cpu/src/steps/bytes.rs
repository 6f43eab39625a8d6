//! Sums, gates and functions of bytes, each element in one go.

use super::convert::rounded;
use super::{Context, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_kernels::{split, table};

/// Bytes that a task takes at a time.
const PIECE: usize = 16 * 1024;

/// How numbers become bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToBytes {
    pub(crate) scale: f32,
    pub(crate) zero: i32,
    pub(crate) limits: (i8, i8),
}

impl ToBytes {
    #[inline(always)]
    fn byte(self, steps: f32) -> i8 {
        rounded(steps, self.zero, i32::from(self.limits.0), i32::from(self.limits.1)) as i8
    }
}

/// The sum, or the difference, of two tensors of bytes.
pub(crate) struct SumBytes {
    /// Scale and zero of each; the sign of the second is in its scale.
    pub(crate) from: [(f32, i32); 2],
    pub(crate) to: ToBytes,
}

impl Step for SumBytes {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (a, b): (&[i8], &[i8]) = (elements(buffers.read(0)), elements(buffers.read(1)));
        let [(first, first_zero), (second, second_zero)] = self.from;
        let factors = [first / self.to.scale, second / self.to.scale];
        split::chunks(context.par, elements_mut(buffers.output), PIECE, |piece, output: &mut [i8]| {
            let (a, b) = (&a[piece * PIECE..][..output.len()], &b[piece * PIECE..][..output.len()]);
            context.isa.vectorize(
                #[inline(always)]
                || {
                    for ((y, a), b) in output.iter_mut().zip(a).zip(b) {
                        let a = (i32::from(*a) - first_zero) as f32 * factors[0];
                        let b = (i32::from(*b) - second_zero) as f32 * factors[1];
                        *y = self.to.byte(a + b);
                    }
                },
            );
        });
    }

    fn describe(&self) -> String {
        "bytes: sum".to_owned()
    }
}

/// The product of an image with a factor for each channel, all bytes.
pub(crate) struct GateBytes {
    /// Scale and zero of the image and the gate.
    pub(crate) from: [(f32, i32); 2],
    pub(crate) to: ToBytes,
    /// Which of the inputs is the gate.
    pub(crate) gate: usize,
}

impl GateBytes {
    /// Bytes of scratch: the factors of all channels, repeated until loops are long.
    pub(crate) fn scratch(channels: usize) -> Option<usize> {
        const LONG: usize = 256;
        LONG.div_ceil(channels).checked_mul(channels)?.checked_mul(size_of::<f32>())
    }
}

impl Step for GateBytes {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let image: &[i8] = elements(buffers.read(1 - self.gate));
        let gate: &[i8] = elements(buffers.read(self.gate));
        let [(scale, zero), (gate_scale, gate_zero)] = self.from;
        let factor = scale * gate_scale / self.to.scale;
        let factors: &mut [f32] = elements_mut(buffers.scratch);
        for factors in factors.chunks_exact_mut(gate.len()) {
            factors.iter_mut().zip(gate).for_each(|(f, &gate)| *f = (i32::from(gate) - gate_zero) as f32 * factor);
        }
        let factors = &*factors;
        let rows = PIECE.div_ceil(factors.len()) * factors.len();
        split::chunks(context.par, elements_mut(buffers.output), rows, |piece, output: &mut [i8]| {
            let image = &image[piece * rows..][..output.len()];
            context.isa.vectorize(
                #[inline(always)]
                || {
                    for (output, image) in output.chunks_mut(factors.len()).zip(image.chunks(factors.len())) {
                        for ((y, x), factor) in output.iter_mut().zip(image).zip(factors) {
                            *y = self.to.byte((i32::from(*x) - zero) as f32 * factor);
                        }
                    }
                },
            );
        });
    }

    fn describe(&self) -> String {
        "bytes: gate".to_owned()
    }
}

/// A function of each byte.
pub(crate) struct MapBytes {
    pub(crate) table: Box<[u8; 256]>,
    /// The function in words.
    pub(crate) what: String,
}

impl Step for MapBytes {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        table::look_up(context.isa, context.par, &self.table, buffers.read(0), buffers.output);
    }

    fn describe(&self) -> String {
        format!("bytes: table of {}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_to_even_within_limits() {
        let to = ToBytes { scale: 0.5, zero: -3, limits: (-10, 20) };
        for (steps, expected) in [(0.5, -3), (1.5, -1), (-100.0, -10), (100.0, 20), (4.4, 1)] {
            assert_eq!(to.byte(steps), expected, "{steps}");
        }
    }
}
