//! Products of two tensors that are both computed.

use super::{After, Context, Following, Step, Work, elements, elements_mut, times};
use crate::memory::Buffers;
use sconce_kernels::gemm::{Epilogue, Gemm, Init, Matrix, bmm, gemm, gemm_scratch};

/// Products `[m, k] x [k, n]`, one per pair of places.
pub(crate) struct MatMul {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Whether the right operand is `[n, k]`.
    pub(crate) transposed: bool,
    /// Which matrix of the left and of the right operand each result takes.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// Whether a third input is added to each row of the result.
    pub(crate) bias: bool,
    pub(crate) after: Vec<After>,
}

impl MatMul {
    /// Bytes of scratch for n threads.
    pub(crate) fn scratch(&self, width: usize) -> usize {
        gemm_scratch(self.m, self.n, self.k, width) * size_of::<f32>()
    }

    /// The steps between matrices, if they are even.
    fn even_steps(&self) -> Option<(usize, usize)> {
        let (first, second) = (self.pairs.first()?, self.pairs.get(1).unwrap_or(&(0, 0)));
        let step = (second.0.checked_sub(first.0)?, second.1.checked_sub(first.1)?);
        let even = |(i, pair): (usize, &(usize, usize))| *pair == (i * step.0, i * step.1);
        self.pairs.iter().enumerate().all(even).then_some(step)
    }
}

impl Step for MatMul {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let (a, b): (&[f32], &[f32]) = (elements(buffers.read(0)), elements(buffers.read(1)));
        let init = if self.bias { Init::PerColumn(elements(buffers.read(2))) } else { Init::Zero };
        let output: &mut [f32] = elements_mut(buffers.output);
        let scratch: &mut [f32] = elements_mut(buffers.scratch);
        let &Self { m, n, k, .. } = self;
        let product = |a, b| Gemm {
            m,
            n,
            k,
            a: Matrix::row_major(a, k),
            b: if self.transposed { Matrix::transposed(b, k) } else { Matrix::row_major(b, n) },
            init,
            epilogue: Epilogue::None,
        };
        match self.even_steps() {
            Some((a_step, b_step)) => {
                let steps = (a_step * m * k, b_step * k * n);
                let results = (&mut *output, n, m * n);
                bmm(context.isa, context.par, self.pairs.len(), &product(a, b), steps, results, scratch);
            }
            None => {
                for (&(left, right), output) in self.pairs.iter().zip(output.chunks_exact_mut((m * n).max(1))) {
                    let product = product(&a[left * m * k..], &b[right * k * n..]);
                    gemm(context.isa, context.par, &product, output, n, scratch);
                }
            }
        }
        then.finish(context, output);
    }

    fn describe(&self) -> String {
        let Self { m, n, k, pairs, .. } = self;
        format!("{} products {m}x{k}x{n}", pairs.len())
    }

    fn work(&self) -> Work {
        Work { floats: times(&[self.pairs.len(), self.m, self.n, self.k]), ..Work::default() }
    }
}
