//! Matrix products in `f32`: `C = A * B + init`, then an epilogue.
//!
//! C is cut into blocks, one task each. A task walks k in steps of `KC`; for each step it packs its columns of B into
//! panels as wide as a tile (so that a tile reads B front to back, from the first-level cache) and runs over its rows
//! in chunks of `MC`, tile by tile. A is read where it lies when its rows are contiguous, else a chunk of it is copied.
//! Where B comes from is behind the trait `Right`, A behind `Left`: convolution supplies its own.
//!
//! ```text
//!            columns of a task (at most NC)
//!            ┌──┬──┬──┐
//!         KC │  │  │  │ panels of B, packed
//!            └──┴──┴──┘
//!       ┌──┐ ┌──┬──┬──┐
//!    MC │A │ │ C      │  panel by panel, tiles from top to bottom
//!       └──┘ └──┴──┴──┘
//! ```
//!
//! With few rows packing does not pay: then B is streamed once. Other kinds of numbers go through
//! [`generic::gemm`], which is simple.
#![allow(unsafe_code, reason = "pointers handed to the micro-kernels")]

mod few_rows;
pub mod generic;
pub(crate) mod lanes;
#[cfg(test)]
mod tests;
mod tile;

use crate::isa::Isa;
use crate::split::{self, Block, Cut, Slots};
use core::ops::Range;
use sconce_parallel::{Parallel, Serial};
use tile::{Addend, Family, Tile};

/// Steps of k between two passes over C.
pub(crate) const KC: usize = 256;
/// Rows of A that pass a packed block of B before the next rows; with `KC` columns they fit the second-level cache.
const MC: usize = 240;
/// Most columns of B packed at a time; a multiple of every tile's width.
const NC: usize = 512;
/// The widest tile of all instruction sets.
const WIDEST: usize = 32;
/// Elements by which a packed buffer may be moved to start on a cache line.
const ALIGN: usize = 16;
/// Multiplications below which threads cost more than they bring.
pub(crate) const WORTH_THREADS: usize = 100_000;

/// A matrix to read: element (i, j) is `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T = f32> {
    /// The elements.
    pub data: &'a [T],
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between columns.
    pub col_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Rows of `columns` elements, one after the other.
    pub fn row_major(data: &'a [T], columns: usize) -> Self {
        Self { data, row_stride: columns, col_stride: 1 }
    }

    /// The transpose of rows of `rows` elements, as the weight of a linear layer is given.
    pub fn transposed(data: &'a [T], rows: usize) -> Self {
        Self { data, row_stride: 1, col_stride: rows }
    }

    fn check(&self, rows: usize, columns: usize, name: &str) {
        if rows > 0 && columns > 0 {
            let last = columns.checked_sub(1).and_then(|column| column.checked_mul(self.col_stride));
            let last = last.and_then(|last| split::extent(rows, self.row_stride, last));
            let fits = last.is_some_and(|last| last < self.data.len());
            assert!(fits, "{name} has {} elements, too few for {rows} x {columns}", self.data.len());
        }
    }
}

/// What is added to the product.
#[derive(Clone, Copy, Debug, Default)]
pub enum Init<'a, T = f32> {
    /// Nothing.
    #[default]
    Zero,
    /// One value per row of C.
    PerRow(&'a [T]),
    /// One value per column of C.
    PerColumn(&'a [T]),
    /// The previous content of C times this factor.
    Scaled(T),
}

/// What is done to each result before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Epilogue {
    /// Nothing.
    #[default]
    None,
    /// Negative values become zero; NaN stays.
    Relu,
    /// Limits to `low..=high`; NaN stays.
    Clamp(f32, f32),
}

impl Epilogue {
    fn bounds(self) -> Option<(f32, f32)> {
        match self {
            Self::None => None,
            Self::Relu => Some((0.0, f32::INFINITY)),
            Self::Clamp(low, high) => Some((low, high)),
        }
    }

    /// The limits that [`clamp`] takes; infinite where there are none.
    pub(crate) fn limits(self) -> (f32, f32) {
        self.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY))
    }
}

/// Limits a value; NaN stays. Selections instead of branches, so that loops vectorise.
#[inline(always)]
pub(crate) fn clamp(value: f32, (low, high): (f32, f32)) -> f32 {
    let value = if value < low { low } else { value };
    if value > high { high } else { value }
}

/// A product to compute: `C[m x n] = A[m x k] * B[k x n] + init`, then `epilogue`.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// The left operand.
    pub a: Matrix<'a>,
    /// The right operand.
    pub b: Matrix<'a>,
    /// What is added.
    pub init: Init<'a>,
    /// What is done at the end.
    pub epilogue: Epilogue,
}

/// The scratch, in elements, that [`gemm`] needs for these sizes on a [`Parallel`] of this width.
pub fn gemm_scratch(m: usize, n: usize, k: usize, width: usize) -> usize {
    slot_len(m, n, k) * Slots::<f32>::count(width)
}

/// Multiplications of a product.
pub(crate) fn work(m: usize, n: usize, k: usize) -> usize {
    m.saturating_mul(n).saturating_mul(k)
}

/// Steps of k of nearly equal length, so that none is short.
pub(crate) fn k_step(k: usize) -> usize {
    k.div_ceil(k.div_ceil(KC).max(1)).next_multiple_of(16).max(16)
}

/// Scratch of one task: a block of B and a chunk of A.
fn slot_len(m: usize, n: usize, k: usize) -> usize {
    let (m, n, k) = (m.min(MC), n.min(NC).next_multiple_of(WIDEST), k.min(KC));
    ALIGN + k * n + (m * k).next_multiple_of(ALIGN)
}

/// Computes `g` into the row-major `c`, whose rows are `ldc` elements apart. `scratch` has [`gemm_scratch`] elements.
pub fn gemm(isa: Isa, par: &dyn Parallel, g: &Gemm<'_>, c: &mut [f32], ldc: usize, scratch: &mut [f32]) {
    g.a.check(g.m, g.k, "A");
    g.b.check(g.k, g.n, "B");
    if !few_rows::gemm(isa, par, g, c, ldc) {
        product(isa, par, (g.m, g.n, g.k, k_step(g.k)), &g.a, &g.b, (g.init, g.epilogue), c, ldc, scratch);
    }
}

/// `batch` products that differ in where their operands and results start.
///
/// Product `i` takes A, B and C from `i * a_step`, `i * b_step` and `i * c_step` on; a step of 0 shares an operand. The
/// results must not overlap. `scratch` has [`gemm_scratch`] elements.
pub fn bmm(
    isa: Isa,
    par: &dyn Parallel,
    batch: usize,
    g: &Gemm<'_>,
    (a_step, b_step): (usize, usize),
    (c, ldc, c_step): (&mut [f32], usize, usize),
    scratch: &mut [f32],
) {
    let item = |i: usize| Gemm {
        a: Matrix { data: &g.a.data[i * a_step..], ..g.a },
        b: Matrix { data: &g.b.data[i * b_step..], ..g.b },
        ..*g
    };
    let each = work(g.m, g.n, g.k);
    let spread = batch >= 2 * par.width() || each < WORTH_THREADS;
    if batch > 1 && par.width() > 1 && spread {
        let together = (WORTH_THREADS / each.max(1)).clamp(1, batch.div_ceil(par.width()));
        let slots = Slots::new(scratch, slot_len(g.m, g.n, g.k), par.width());
        let used = batch * c_step;
        let end = c.len().min(used);
        return split::chunks(par, &mut c[..end], c_step * together, |task, c| {
            slots.with(|scratch| {
                for (i, c) in c.chunks_mut(c_step).enumerate() {
                    gemm(isa, &Serial, &item(task * together + i), c, ldc, scratch);
                }
            });
        });
    }
    for i in 0..batch {
        gemm(isa, par, &item(i), &mut c[i * c_step..], ldc, scratch);
    }
}

/// A left operand: rows to broadcast from.
pub(crate) trait Left: Sync {
    /// The elements and the distance between rows, if rows are contiguous.
    fn in_place(&self) -> Option<(&[f32], usize)>;
    /// Copies a part to `out`, row after row.
    fn pack(&self, rows: Range<usize>, ks: Range<usize>, out: &mut [f32]);
}

/// A right operand: panels of columns.
pub(crate) trait Right: Sync {
    /// Copies a panel to `out`: one row of `width` elements per k, with zeros after the last column.
    fn pack(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]);

    /// Copies all panels of `columns`, one after the other.
    fn pack_panels(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, panels: Panels, out: &mut [f32]) {
        panel_by_panel(self, isa, ks, columns, panels, out);
    }
}

fn panel_by_panel<R: Right + ?Sized>(
    right: &R,
    isa: Isa,
    ks: Range<usize>,
    columns: Range<usize>,
    panels: Panels,
    out: &mut [f32],
) {
    for (at, panel) in panels.of(&columns) {
        let width = panels.width(panel.len());
        right.pack(isa, ks.clone(), panel, width, &mut out[at * ks.len()..][..ks.len() * width]);
    }
}

/// How columns are cut into panels.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    /// Columns of a full panel.
    nr: usize,
    /// The last panel is padded to a multiple of this.
    lanes: usize,
}

impl Panels {
    /// The width of a panel with `n` columns.
    fn width(&self, n: usize) -> usize {
        n.next_multiple_of(self.lanes)
    }

    /// Each panel's place among the columns, and its columns.
    fn of(&self, columns: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (columns, nr) = (columns.clone(), self.nr);
        columns.clone().step_by(nr).map(move |first| (first - columns.start, first..columns.end.min(first + nr)))
    }
}

impl Left for Matrix<'_> {
    fn in_place(&self) -> Option<(&[f32], usize)> {
        (self.col_stride == 1).then_some((self.data, self.row_stride))
    }

    fn pack(&self, rows: Range<usize>, ks: Range<usize>, out: &mut [f32]) {
        let k = ks.len();
        for (i, row) in rows.enumerate() {
            for (p, to) in ks.clone().zip(&mut out[i * k..][..k]) {
                *to = self.data[row * self.row_stride + p * self.col_stride];
            }
        }
    }
}

impl Right for Matrix<'_> {
    fn pack(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, width: usize, out: &mut [f32]) {
        let n = columns.len();
        if n < width {
            out.fill(0.0);
        }
        let from = &self.data[(ks.start * self.row_stride + columns.start * self.col_stride).min(self.data.len())..];
        if self.row_stride == 1 && ks.len() > 1 {
            return transpose(isa, (n, ks.len()), (from, self.col_stride), (out, width));
        }
        for (p, out) in out.chunks_exact_mut(width).take(ks.len()).enumerate() {
            for (j, to) in out[..n].iter_mut().enumerate() {
                *to = from[p * self.row_stride + j * self.col_stride];
            }
        }
    }

    fn pack_panels(&self, isa: Isa, ks: Range<usize>, columns: Range<usize>, panels: Panels, out: &mut [f32]) {
        if self.col_stride != 1 {
            return panel_by_panel(self, isa, ks, columns, panels, out);
        }
        // Contiguous rows are read from end to end, however many panels they feed: memory is slow in any other order.
        isa.vectorize(
            #[inline(always)]
            || {
                for (p, k) in ks.clone().enumerate() {
                    let row = &self.data[k * self.row_stride..][columns.clone()];
                    for (at, panel) in panels.of(&columns) {
                        let (n, width) = (panel.len(), panels.width(panel.len()));
                        let out = &mut out[at * ks.len() + p * width..][..width];
                        copy_row(&row[at..at + n], &mut out[..n]);
                        out[n..].fill(0.0);
                    }
                }
            },
        );
    }
}

/// Copies a row of a panel: short, and of a length the compiler does not know, so done in fixed pieces that may
/// overlap.
#[inline(always)]
pub(crate) fn copy_row(from: &[f32], to: &mut [f32]) {
    match to.len() {
        16.. => copy_pieces::<16>(from, to),
        8.. => copy_pieces::<8>(from, to),
        4.. => copy_pieces::<4>(from, to),
        _ => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
    }
}

#[inline(always)]
fn copy_pieces<const N: usize>(from: &[f32], to: &mut [f32]) {
    let from = &from[..to.len()];
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
        *to = *from;
    }
}

/// Transposes `shape` rows and columns of `from` into `to`; each comes with the distance of its rows.
pub(crate) fn transpose(isa: Isa, shape: (usize, usize), from: (&[f32], usize), to: (&mut [f32], usize)) {
    Family::of(isa).transpose(shape, from, to);
}

/// The product for any operands; see the module's text. `k` is walked in steps of `k_step`, at most [`KC`].
pub(crate) fn product(
    isa: Isa,
    par: &dyn Parallel,
    (m, n, k, k_step): (usize, usize, usize, usize),
    left: &impl Left,
    right: &impl Right,
    (init, epilogue): (Init<'_>, Epilogue),
    c: &mut [f32],
    ldc: usize,
    scratch: &mut [f32],
) {
    match init {
        Init::PerRow(bias) => assert!(bias.len() >= m, "a bias of {} for {m} rows", bias.len()),
        Init::PerColumn(bias) => assert!(bias.len() >= n, "a bias of {} for {n} columns", bias.len()),
        Init::Zero | Init::Scaled(_) => {}
    }
    if m == 0 || n == 0 {
        return;
    }
    let family = Family::of(isa);
    let par = if work(m, n, k) < WORTH_THREADS { &Serial } else { par };
    let slots = Slots::new(scratch, slot_len(m, n, k), par.width());
    split::blocks(par, c, ldc, (m, n), cuts(&family, (m, n), par.width()), |mut block| {
        slots.with(|scratch| {
            let start = scratch.as_ptr().align_offset(64).min(ALIGN);
            let scratch = &mut scratch[start..];
            for k0 in (0..k.max(1)).step_by(k_step) {
                let ks = k0..k.min(k0 + k_step);
                let init = if k0 == 0 { init } else { Init::Scaled(1.0) };
                let bounds = if ks.end == k { epilogue.bounds() } else { None };
                block_step(isa, &family, left, right, &mut block, ks, (init, bounds), scratch);
            }
        });
    });
}

/// How C is cut into tasks, its rows and its columns, of which a task has at most `NC`. A task reads its rows of A and packs
/// its columns of B, so the longer side of C is cut. Rows are cut into one part per thread, because each packs all of B;
/// columns into several, if there are enough for whole panels, so that a thread that is held up does less.
fn cuts(family: &Family, (m, n): (usize, usize), width: usize) -> (Cut, Cut) {
    let least = n.div_ceil(NC);
    if width == 1 || m > n {
        return (Cut { parts: width, unit: family.mr }, Cut { parts: least, unit: family.nr() });
    }
    let several = 4 * width;
    let whole = n.div_ceil(family.nr()) >= 2 * several;
    let (parts, unit) = if whole { (several, family.nr()) } else { (width, family.lanes) };
    (Cut { parts: 1, unit: family.mr }, Cut { parts: parts.max(least.next_multiple_of(width)), unit })
}

/// One step of k for one block of C: packs B, then tile after tile.
fn block_step(
    isa: Isa,
    family: &Family,
    left: &impl Left,
    right: &impl Right,
    block: &mut Block<'_, f32>,
    ks: Range<usize>,
    (init, clamp): (Init<'_>, Option<(f32, f32)>),
    scratch: &mut [f32],
) {
    let (nr, k) = (family.nr(), ks.len());
    let (rows, columns) = (block.rows.clone(), block.columns.clone());
    let (packed_b, packed_a) = scratch.split_at_mut(k * columns.len().next_multiple_of(nr));
    let panels = Panels { nr, lanes: family.lanes };
    right.pack_panels(isa, ks.clone(), columns.clone(), panels, packed_b);
    for first in rows.clone().step_by(MC) {
        let chunk = first..rows.end.min(first + MC);
        let (a, a_stride) = match left.in_place() {
            Some((data, stride)) => (&data[(chunk.start * stride + ks.start).min(data.len())..], stride),
            None => {
                left.pack(chunk.clone(), ks.clone(), packed_a);
                (&*packed_a, k)
            }
        };
        let fits = split::extent(chunk.len(), a_stride, k).is_some_and(|extent| extent <= a.len());
        assert!(fits || k == 0, "A is too short for rows {chunk:?} at stride {a_stride}");
        for (j, panel) in panels.of(&columns) {
            let b = &packed_b[j * k..][..k * panels.width(panel.len())];
            column_of_tiles(family, (a, a_stride), b, block, (chunk.clone(), j, panel.len()), (k, init, clamp));
        }
    }
}

/// The tiles of one panel, from top to bottom, of nearly equal height.
fn column_of_tiles(
    family: &Family,
    (a, a_stride): (&[f32], usize),
    b: &[f32],
    block: &mut Block<'_, f32>,
    (rows, j, n): (Range<usize>, usize, usize),
    (k, init, clamp): (usize, Init<'_>, Option<(f32, f32)>),
) {
    let width = n.next_multiple_of(family.lanes);
    let count = rows.len().div_ceil(family.mr);
    let (first_row, first_column) = (block.rows.start, block.columns.start + j);
    let (c, c_stride) = block.raw();
    for i in 0..count {
        let (top, bottom) = (rows.len() * i / count, rows.len() * (i + 1) / count);
        let row = rows.start + top;
        let addend = match init {
            Init::Zero => Addend::Zero,
            Init::Scaled(beta) => Addend::Scaled(beta),
            Init::PerRow(bias) => Addend::PerRow(bias[row..].as_ptr()),
            Init::PerColumn(bias) => Addend::PerColumn(bias[first_column..].as_ptr()),
        };
        let tile = Tile {
            k,
            a: a[(top * a_stride).min(a.len())..].as_ptr(),
            a_stride,
            b: b.as_ptr(),
            // SAFETY: row and column lie in the block, whose segments are in bounds.
            c: unsafe { c.add((row - first_row) * c_stride + j) },
            c_stride,
            columns: n,
            addend,
            clamp,
        };
        // SAFETY: `block_step` asserted the rows of A; `b` holds k rows of `width`; the tile lies in the block, which
        // this task holds alone; `product` asserted the bias. The family belongs to a held token.
        unsafe { family.tile(bottom - top, width)(&tile) };
    }
}
