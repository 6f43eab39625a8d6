//! Products with few rows, where B is read only once and packing it would double the work.
//!
//! Two layouts matter. B row-major: each of its rows is added, scaled, to the rows of C, which stay in the cache
//! ([`scaled_rows`]). B transposed: each of its rows makes one dot product with each row of A ([`dot_products`]). Both
//! read B front to back, at the speed of memory.
#![allow(unsafe_code, reason = "pointers handed to the micro-kernels")]

use super::tile::Family;
use super::{Gemm, Init, WORTH_THREADS, clamp, work};
use crate::isa::Isa;
use crate::split::{self, Block, Cut};
use sconce_parallel::{Parallel, Serial};

/// Most rows for which scaled rows beat packing.
const ROWS_IN_PLACE: usize = 4;
/// Most rows for which dot products beat packing a transposed B.
const ROWS_BY_DOTS: usize = 16;

/// Computes `g` if it is of this shape, and says whether it did.
pub(super) fn gemm(isa: Isa, par: &dyn Parallel, g: &Gemm<'_>, c: &mut [f32], ldc: usize) -> bool {
    let by_dots = g.m <= ROWS_BY_DOTS && g.b.row_stride == 1 && g.a.col_stride == 1 && g.k > 1;
    let in_place = g.m <= ROWS_IN_PLACE && g.b.col_stride == 1;
    if !by_dots && !in_place {
        return false;
    }
    match g.init {
        Init::PerRow(bias) => assert!(bias.len() >= g.m, "a bias of {} for {} rows", bias.len(), g.m),
        Init::PerColumn(bias) => assert!(bias.len() >= g.n, "a bias of {} for {} columns", bias.len(), g.n),
        Init::Zero | Init::Scaled(_) => {}
    }
    let par = if work(g.m, g.n, g.k) < WORTH_THREADS { &Serial } else { par };
    // Rows of C this long stay in the first-level cache, and B is read in long stretches.
    let longest = 4096 / g.m.max(1) / 64 * 64;
    let tasks = if par.width() == 1 { 1 } else { 4 * par.width() };
    let step = g.n.div_ceil(tasks).next_multiple_of(64).min(longest);
    split::blocks(par, c, ldc, (g.m, g.n), (Cut { parts: 1, unit: 1 }, Cut::every(step, g.n)), |mut block| {
        match in_place {
            true => isa.vectorize(
                #[inline(always)]
                || scaled_rows(g, &mut block),
            ),
            false => dot_products(&Family::of(isa), g, &mut block),
        }
    });
    true
}

#[inline(always)]
fn scaled_rows(g: &Gemm<'_>, block: &mut Block<'_, f32>) {
    let (columns, limits) = (block.columns.clone(), g.epilogue.limits());
    for i in block.rows.clone() {
        let row = block.row(i);
        match g.init {
            Init::Zero => row.fill(0.0),
            Init::PerRow(bias) => row.fill(bias[i]),
            Init::PerColumn(bias) => row.copy_from_slice(&bias[columns.clone()]),
            Init::Scaled(beta) => {
                for c in row.iter_mut() {
                    *c *= beta;
                }
            }
        }
    }
    let a = |i: usize, p: usize| g.a.data[i * g.a.row_stride + p * g.a.col_stride];
    let b = |p: usize| &g.b.data[p * g.b.row_stride..][columns.clone()];
    let whole = g.k - g.k % 4;
    for p in (0..whole).step_by(4) {
        let rows = [b(p), b(p + 1), b(p + 2), b(p + 3)];
        for i in block.rows.clone() {
            let scale = [a(i, p), a(i, p + 1), a(i, p + 2), a(i, p + 3)];
            add_four(block.row(i), rows, scale);
        }
    }
    for p in whole..g.k {
        for i in block.rows.clone() {
            let scale = a(i, p);
            for (c, b) in block.row(i).iter_mut().zip(b(p)) {
                *c += scale * b;
            }
        }
    }
    for i in block.rows.clone() {
        for c in block.row(i).iter_mut() {
            *c = clamp(*c, limits);
        }
    }
}

#[inline(always)]
fn add_four(c: &mut [f32], b: [&[f32]; 4], scale: [f32; 4]) {
    let [b0, b1, b2, b3] = b.map(|b| &b[..c.len()]);
    for j in 0..c.len() {
        c[j] += (scale[0] * b0[j] + scale[1] * b1[j]) + (scale[2] * b2[j] + scale[3] * b3[j]);
    }
}

fn dot_products(family: &Family, g: &Gemm<'_>, block: &mut Block<'_, f32>) {
    let (a, b, limits) = (&g.a, &g.b, g.epilogue.limits());
    let last = block.columns.end;
    let mut j = block.columns.start;
    while j < last {
        let four = j + 4 <= last;
        let width = if four { 4 } else { 1 };
        for i in block.rows.clone().step_by(4) {
            let height = (block.rows.end - i).min(4);
            let mut out = [0.0; 16];
            let left = (a.data[i * a.row_stride..].as_ptr(), a.row_stride);
            let right = (b.data[j * b.col_stride..].as_ptr(), b.col_stride);
            // SAFETY: `gemm` checked that A has m rows and B's transpose n rows of k elements; rows i.. and j.. are
            // among them. The family belongs to a held token.
            unsafe { family.dot(height, four)(g.k, left, right, &mut out) };
            for (r, out) in out.chunks_exact(4).take(height).enumerate() {
                let start = j - block.columns.start;
                for (x, c) in block.row(i + r)[start..start + width].iter_mut().enumerate() {
                    let base = match g.init {
                        Init::Zero => 0.0,
                        Init::PerRow(bias) => bias[i + r],
                        Init::PerColumn(bias) => bias[j + x],
                        Init::Scaled(beta) => beta * *c,
                    };
                    *c = clamp(out[x] + base, limits);
                }
            }
        }
        j += width;
    }
}
