//! A mixture of experts: each token goes through the few feed-forward networks that its router chose.
//!
//! An expert is `w2 (silu(w1 x) * w3 x)`; `w1` and `w3` lie behind each other as one matrix. Expert after expert, the
//! tokens that chose it are gathered, its weights widened into scratch, and the results added with the router's weights.
//!
//! Weights of an expert are bytes in the layout of TorchAO's universal packing: a header of 64 bytes, then for every
//! eight rows and every group of columns the integers, eight scales and eight sums that are not needed here. Integers
//! come in steps of sixteen columns: first columns 0..8 of all eight rows, then columns 8..16. With four bits, 32
//! integers take 16 bytes: the low halves hold the first 16, the high halves the others, each plus eight.
use crate::dense::{buffer_bytes, floats, reorder_scratch, row_major};
use crate::operands::{elements, elements_mut};
use crate::ops;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Tensor};
use sconce_kernels::gemm::{Epilogue, Gemm, Init, Matrix, gemm, gemm_scratch};
use sconce_kernels::{Isa, Parallel, math};

/// The mixture.
pub(crate) static OPS: &[Op] = ops! {
    "llama::quantized_moe_ffn.out" [15] writes [13] scratch scratch, => run;
};

const HEADER: usize = 64;
/// Rows that are packed together.
const ROWS: usize = 8;
/// Columns of a step.
const STEP: usize = 16;

/// Numbers of the program, checked.
#[derive(Clone, Copy)]
struct Plan {
    tokens: usize,
    experts: usize,
    chosen: usize,
    hidden: usize,
    dim: usize,
    group: usize,
    bits: usize,
}

impl Plan {
    fn new(args: &Args<'_>) -> Result<Self, Fault> {
        let natural = |argument: usize| {
            let value = args.int(argument)?;
            let fault = Fault::argument(argument, "a positive number is needed here, not {}").with_signed([value]);
            usize::try_from(value).ok().filter(|&value| value > 0).ok_or(fault)
        };
        let (_, x) = args.tensor_type(0)?;
        let &[tokens, features] = x.sizes() else {
            return Err(Fault::argument(0, "tokens of features are needed here: 2 dimensions"));
        };
        let plan = Self {
            tokens,
            chosen: natural(5)?,
            experts: natural(6)?,
            hidden: natural(7)?,
            dim: natural(8)?,
            group: natural(9)?,
            bits: natural(10)?,
        };
        if features != plan.dim || plan.chosen > plan.experts {
            return Err(Fault::argument(0, "{} features or {} experts do not fit").with([features, plan.chosen]));
        }
        let divides = plan.dim.is_multiple_of(plan.group) && plan.hidden.is_multiple_of(plan.group);
        if !divides || !plan.group.is_multiple_of(STEP) || ![4, 8].contains(&plan.bits) {
            let text = "groups of {} columns with {} bits are not something weights are packed in";
            return Err(Fault::argument(9, text).with([plan.group, plan.bits]));
        }
        // What the numbers promise must be there, before anybody makes room for it.
        let wide = plan.hidden.checked_mul(2);
        let first = wide.and_then(|rows| plan.packed(rows, plan.dim));
        for (argument, needed) in [(3, first), (4, plan.packed(plan.dim, plan.hidden))] {
            let (dtype, shape) = args.tensor_type(argument)?;
            let fits = |needed: &usize| matches!(*shape.sizes(), [n, bytes] if n == plan.experts && bytes >= *needed);
            if needed.filter(fits).is_none() || dtype != ScalarType::Byte {
                let text = "bytes of {} experts, at least {} for each, are needed here";
                return Err(Fault::argument(argument, text).with([plan.experts, needed.unwrap_or(usize::MAX)]));
            }
        }
        Ok(plan)
    }

    /// Lengths of the parts of scratch, in floats.
    fn lengths(&self, width: usize) -> Option<[usize; 7]> {
        let (t, d, h) = (self.tokens, self.dim, self.hidden);
        let wide = h.checked_mul(2)?;
        let product = gemm_scratch(t, self.experts, d, width)
            .max(gemm_scratch(t, wide, d, width))
            .max(gemm_scratch(t, d, h, width));
        let scores = t.checked_mul(self.experts)?;
        let (narrow, widened) = (t.checked_mul(d)?, wide.checked_mul(d)?);
        Some([scores, scores, narrow, t.checked_mul(wide)?, narrow, widened, product])
    }

    /// Bytes of an expert's `rows` by `columns` matrix.
    fn packed(&self, rows: usize, columns: usize) -> Option<usize> {
        let row = (columns / 8).checked_mul(self.bits)?.checked_add((columns / self.group).checked_mul(8)?)?;
        rows.checked_next_multiple_of(ROWS)?.checked_mul(row)?.checked_add(HEADER)
    }
}

fn scratch(args: &Args<'_>) -> usize {
    let lengths = Plan::new(args).ok().and_then(|plan| plan.lengths(args.parallel().width()));
    let total = lengths.map_or(0, |lengths| lengths.iter().fold(0usize, |sum, &len| sum.saturating_add(len)));
    buffer_bytes(total.saturating_mul(size_of::<f32>())).saturating_add(reorder_scratch(args, &[0, 1, 2]))
}

/// The matrices of all experts, one row of bytes each.
struct Packed<'c> {
    data: &'c [u8],
    stride: usize,
    rows: usize,
    columns: usize,
}

impl<'c> Packed<'c> {
    /// A tensor that [`Plan::new`] has checked.
    fn new(tensor: &Tensor<'c>, rows: usize, columns: usize) -> Self {
        Self { data: tensor.data, stride: tensor.sizes().last().copied().unwrap_or(0), rows, columns }
    }

    /// Widens an expert's matrix, row-major.
    fn widen(&self, plan: &Plan, expert: usize, into: &mut [f32]) {
        let bytes = self.data.get(expert * self.stride + HEADER..).unwrap_or(&[]);
        let step = ROWS * STEP * plan.bits / 8;
        let group = plan.group / STEP * step + ROWS * 8;
        let groups = self.columns / plan.group;
        for (index, packed) in bytes.chunks_exact(group).take(self.rows.div_ceil(ROWS) * groups).enumerate() {
            let (integers, rest) = packed.split_at(group - ROWS * 8);
            let (first, column) = (index / groups * ROWS, index % groups * plan.group);
            for row in first..self.rows.min(first + ROWS) {
                let scale = rest.chunks_exact(4).nth(row - first).map_or(0.0, float);
                let into = &mut into[row * self.columns + column..][..plan.group];
                for (into, integers) in into.chunks_exact_mut(STEP).zip(integers.chunks_exact(step)) {
                    for (i, into) in into.iter_mut().enumerate() {
                        let at = i / 8 * ROWS * 8 + (row - first) * 8 + i % 8;
                        *into = f32::from(integer(integers, plan.bits, at)) * scale;
                    }
                }
            }
        }
    }
}

fn float(bytes: &[u8]) -> f32 {
    bytes.try_into().map_or(0.0, f32::from_le_bytes)
}

/// Integer `at` of a step.
fn integer(step: &[u8], bits: usize, at: usize) -> i8 {
    if bits == 8 {
        return step[at] as i8;
    }
    let byte = step[at / 32 * 16 + at % 16];
    (if at % 32 < 16 { byte & 15 } else { byte >> 4 }) as i8 - 8
}

fn run(call: &mut Call<'_>) -> Result<(), Fault> {
    let plan = Plan::new(call)?;
    let mut inputs = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
    for input in &mut inputs {
        *input = row_major(call, *input)?;
    }
    let [x, router, bias] = inputs;
    if router.sizes() != [plan.experts, plan.dim] || (bias.numel() > 0 && bias.sizes() != [plan.experts]) {
        return Err(Fault::argument(1, "a router for {} experts is needed here").with([plan.experts]));
    }
    let sigmoid = match call.str(11)? {
        "sigmoid" => true,
        "softmax" if bias.numel() == 0 => false,
        _ => return Err(Fault::argument(11, "scores must be `sigmoid`, or `softmax` without a bias")),
    };
    let first = Packed::new(&call.tensor(3)?, 2 * plan.hidden, plan.dim);
    let second = Packed::new(&call.tensor(4)?, plan.dim, plan.hidden);
    let scale = call.double(12)? as f32;
    let out = call.out(13, &[plan.tokens, plan.dim])?;
    if !out.shape.is_contiguous() {
        return Err(Fault::argument(13, "a row-major output is needed here"));
    }
    let (x, router, bias) = (elements::<f32>(0, &x)?, elements::<f32>(1, &router)?, elements::<f32>(2, &bias)?);
    let out = elements_mut::<f32>(13, out)?;
    let lengths = plan.lengths(call.parallel().width()).ok_or(Fault::argument(0, "the tensors are too large"))?;
    let mut rest = floats(call, 13, lengths.iter().fold(0, |sum, &len| sum.saturating_add(len)))?;
    let [scores, weights, gathered, wide, results, matrix, product] = lengths.map(|len| {
        let (part, left) = core::mem::take(&mut rest).split_at_mut(len);
        rest = left;
        part
    });
    let parallel = call.parallel();
    linear(parallel, (plan.tokens, plan.experts, plan.dim), x, router, scores, product);
    for (scores, weights) in scores.chunks_exact_mut(plan.experts).zip(weights.chunks_exact_mut(plan.experts)) {
        choose(scores, weights, bias, plan.chosen, sigmoid, scale);
    }
    out.fill(0.0);
    let mut work = Work { gathered, wide, results, matrix, product };
    for expert in 0..plan.experts {
        let weights = weights.iter().skip(expert).step_by(plan.experts);
        work.add(parallel, &plan, expert, [&first, &second], (x, weights), out);
    }
    Ok(())
}

/// Where an expert works.
struct Work<'s> {
    gathered: &'s mut [f32],
    wide: &'s mut [f32],
    results: &'s mut [f32],
    matrix: &'s mut [f32],
    product: &'s mut [f32],
}

impl Work<'_> {
    /// Adds what an expert makes of the tokens that chose it, by their weights.
    fn add<'w>(
        &mut self,
        parallel: &dyn Parallel,
        plan: &Plan,
        expert: usize,
        [first, second]: [&Packed<'_>; 2],
        (x, weights): (&[f32], impl Iterator<Item = &'w f32> + Clone),
        out: &mut [f32],
    ) {
        let (dim, hidden) = (plan.dim, plan.hidden);
        let takers = weights.enumerate().filter(|(_, weight)| !is_free(**weight));
        let count = takers.clone().count();
        if count == 0 {
            return;
        }
        for ((token, _), row) in takers.clone().zip(self.gathered.chunks_exact_mut(dim)) {
            row.copy_from_slice(&x[token * dim..][..dim]);
        }
        first.widen(plan, expert, self.matrix);
        linear(parallel, (count, 2 * hidden, dim), self.gathered, self.matrix, self.wide, self.product);
        for (row, i) in (0..count).flat_map(|row| (0..hidden).map(move |i| (row, i))) {
            // Rows become half as long; what is written was read before.
            let at = row * 2 * hidden + i;
            self.wide[row * hidden + i] = math::silu(self.wide[at]) * self.wide[at + hidden];
        }
        second.widen(plan, expert, self.matrix);
        linear(parallel, (count, dim, hidden), self.wide, self.matrix, self.results, self.product);
        for ((token, weight), result) in takers.zip(self.results.chunks_exact(dim)) {
            out[token * dim..][..dim].iter_mut().zip(result).for_each(|(out, y)| *out += weight * y);
        }
    }
}

/// `a @ b.T`
fn linear(
    parallel: &dyn Parallel,
    (m, n, k): (usize, usize, usize),
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let (a, b) = (Matrix::row_major(a, k), Matrix::transposed(b, k));
    let product = Gemm { m, n, k, a, b, init: Init::Zero, epilogue: Epilogue::None };
    gemm(Isa::detect(), parallel, &product, out, n, scratch);
}

/// Marks an expert that a token did not choose; a weight is never minus infinity.
const FREE: f32 = f32::NEG_INFINITY;

fn is_free(weight: f32) -> bool {
    weight == FREE
}

/// The weights of the experts that a token chooses by its scores; the others become [`FREE`]. The bias counts for the
/// choice only.
fn choose(scores: &mut [f32], weights: &mut [f32], bias: &[f32], chosen: usize, sigmoid: bool, scale: f32) {
    if sigmoid {
        scores.iter_mut().for_each(|score| *score = math::sigmoid(*score));
    }
    weights.fill(FREE);
    for _ in 0..chosen {
        let rank = |expert: usize| scores[expert] + bias.get(expert).copied().unwrap_or(0.0);
        let free = (0..scores.len()).filter(|&expert| is_free(weights[expert]));
        let best =
            free.reduce(|best, other| if rank(other) > rank(best) || rank(best).is_nan() { other } else { best });
        if let Some(best) = best {
            weights[best] = if is_free(scores[best]) { f32::MIN } else { scores[best] };
        }
    }
    let largest = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let taken = || weights.iter().copied().filter(|&weight| !is_free(weight));
    let weigh = |score: f32| if sigmoid { score } else { libm::expf(score - largest) };
    let sum: f32 = taken().map(weigh).sum();
    let factor = if sigmoid { scale / sum.max(f32::MIN_POSITIVE) } else { 1.0 / sum };
    weights.iter_mut().filter(|weight| !is_free(**weight)).for_each(|weight| *weight = weigh(*weight) * factor);
}
