//! Normalisations.

use super::{After, Context, Following, Step, elements, elements_mut};
use crate::memory::Buffers;
use sconce_kernels::epilogue::finish;
use sconce_kernels::{norm, split};

/// A factor and a summand for each place along the last dimension.
pub(crate) struct Affine {
    pub(crate) after: Vec<After>,
}

impl Step for Affine {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        const PIECE: usize = 4 * 1024;
        let then = Following::new(&self.after, &buffers);
        let input: &[f32] = elements(buffers.read(0));
        let (factors, summands): (&[f32], &[f32]) = (elements(buffers.read(1)), elements(buffers.read(2)));
        let channels = factors.len().max(1);
        let piece = PIECE.div_ceil(channels) * channels;
        split::chunks(context.par, elements_mut(buffers.output), piece, |index, output| {
            let input = &input[index * piece..][..output.len()];
            context.isa.vectorize(
                #[inline(always)]
                || {
                    for (output, input) in output.chunks_exact_mut(channels).zip(input.chunks_exact(channels)) {
                        for (((y, x), factor), summand) in output.iter_mut().zip(input).zip(factors).zip(summands) {
                            *y = x * factor + summand;
                        }
                    }
                },
            );
            finish(context.isa, &then, index * piece, output);
        });
    }

    fn describe(&self) -> String {
        "factor and summand per channel".to_owned()
    }
}

/// Rows less their mean, divided by their deviation.
pub(crate) struct LayerNorm {
    /// Elements of a row.
    pub(crate) n: usize,
    /// How many of row, factors and summands are given.
    pub(crate) inputs: usize,
    pub(crate) epsilon: f32,
    pub(crate) after: Vec<After>,
}

impl Step for LayerNorm {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let given = |index: usize| (index < self.inputs).then(|| elements(buffers.read(index)));
        let affine = norm::Affine { weight: given(1), bias: given(2) };
        let input: &[f32] = elements(buffers.read(0));
        let (epsilon, output) = (f64::from(self.epsilon), elements_mut(buffers.output));
        norm::layer_norm(context.isa, context.par, self.n, input, affine, epsilon, output, None);
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        format!("layer norm of rows of {}", self.n)
    }
}

/// Groups of channels less their mean, divided by their deviation.
pub(crate) struct GroupNorm {
    /// Channels, groups, and elements of a channel.
    pub(crate) shape: (usize, usize, usize),
    /// How many of image, factors and summands are given.
    pub(crate) inputs: usize,
    pub(crate) epsilon: f32,
    pub(crate) after: Vec<After>,
}

impl Step for GroupNorm {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let given = |index: usize| (index < self.inputs).then(|| elements(buffers.read(index)));
        let affine = norm::Affine { weight: given(1), bias: given(2) };
        let input: &[f32] = elements(buffers.read(0));
        let (epsilon, output) = (f64::from(self.epsilon), elements_mut(buffers.output));
        norm::group_norm(context.isa, context.par, self.shape, input, affine, epsilon, output, None);
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        let (channels, groups, _) = self.shape;
        format!("norm of {groups} groups of {channels} channels")
    }
}

/// Rows divided by the root of their mean square.
pub(crate) struct RmsNorm {
    /// Elements of a row.
    pub(crate) n: usize,
    /// Whether factors are given.
    pub(crate) weighted: bool,
    pub(crate) epsilon: f32,
    pub(crate) after: Vec<After>,
}

impl Step for RmsNorm {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let weight = self.weighted.then(|| elements(buffers.read(1)));
        let input: &[f32] = elements(buffers.read(0));
        let (epsilon, output) = (f64::from(self.epsilon), elements_mut(buffers.output));
        norm::rms_norm(context.isa, context.par, self.n, input, weight, epsilon, output);
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        format!("root mean square norm of rows of {}", self.n)
    }
}
