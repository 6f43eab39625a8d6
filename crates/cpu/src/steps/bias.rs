//! A product with an empty reduction dimension: the bias alone.

use super::convert::narrow;
use super::{After, Context, Following, Kind, Step};
use crate::memory::Buffers;
use sconce_graph::ValueId;
use sconce_kernels::epilogue::finish;

/// The same row everywhere: a bias, or a number for each channel.
pub(crate) struct Bias {
    pub(crate) bias: Option<ValueId>,
    /// What a row holds without a bias.
    pub(crate) value: f32,
    pub(crate) channels: usize,
    pub(crate) to: Kind,
    pub(crate) after: Vec<After>,
}

impl Step for Bias {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let bias = self.bias.map(|bias| context.known.numbers(bias));
        let mut row = vec![self.value; self.channels];
        let rows = buffers.output.chunks_exact_mut((self.channels * self.to.bytes()).max(1));
        for (index, output) in rows.enumerate() {
            match &bias {
                Some(bias) => row.copy_from_slice(bias),
                None => row.fill(self.value),
            }
            finish(context.isa, &then, index * self.channels, &mut row);
            narrow(context.isa, self.to, &row, output);
        }
    }

    fn describe(&self) -> String {
        "the bias alone".to_owned()
    }
}
