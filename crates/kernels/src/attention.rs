//! Attention: `softmax(scale * Q Kᵀ + mask) V`, fused and tiled.
//!
//! A task takes a tile of query rows that share a head of keys and walks the keys in blocks. For each block it makes the
//! scores by a matrix product, turns them into exponentials against the largest score so far, and adds their product
//! with the block of values to a running result; when a larger score appears, what was added before is scaled down. So
//! the matrix of all scores never exists, and a row costs the same memory whatever the number of keys.
//!
//! ```text
//!              keys: n at a time
//!             ┌────┬────┬────┐
//!   tile of   │ S  │ →  │ →  │   S = Q Kᵀ;  m' = max(m, S);  P = e^(S - m')
//!   queries   └────┴────┴────┘   result = result * e^(m - m') + P V;  sum likewise
//! ```
//!
//! Several heads of queries may share a head of keys (grouped-query attention); their rows lie in one tile, so that
//! decoding one token reads each key once per group. Products are those of [`gemm`](mod@crate::gemm), in `f32`; other
//! kinds of operands are widened block by block. Every tile packs the keys and values that it meets anew, so tiles are as
//! tall as they can be while there are enough of them for the threads.
use crate::element::{Bool, Float};
use crate::gemm::{Epilogue, Gemm, Init, Matrix, gemm, gemm_scratch};
use crate::isa::Isa;
use crate::math::Math;
use crate::softmax::folded;
use crate::split::{self, Cut, Slots};
use half::{bf16, f16};
use sconce_parallel::{Parallel, Serial};

/// Most query rows of a tile.
const ROWS: usize = 256;
/// Query rows of a tile that are worth packing keys for.
const FEW_ROWS: usize = 32;
/// Keys of a block.
const KEYS: usize = 256;
/// Scores that are taken together: a few vectors.
const LANES: usize = 32;

/// Elements in one of the kinds that attention reads.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Single precision, used where it lies.
    F32(&'a [f32]),
    /// IEEE half.
    F16(&'a [f16]),
    /// bfloat16.
    BF16(&'a [bf16]),
    /// `scale * (value - zero point)`, with a pair of parameters per row of features.
    I8 {
        /// The integers.
        values: &'a [i8],
        /// A scale per row.
        scales: &'a [f32],
        /// A zero point per row.
        zero_points: &'a [i8],
    },
}

/// Queries, keys or values: rows of features, found by batch, head and position.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The elements; features of a row are neighbours.
    pub values: Values<'a>,
    /// Features of a row.
    pub features: usize,
    /// Elements from one batch, head and position to the next.
    pub strides: [usize; 3],
}

/// What keeps queries from keys: element `(batch, head, query, key)` is found by four strides.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// The elements.
    pub values: MaskValues<'a>,
    /// Elements from one batch, head, query and key to the next; 0 where it is the same for all.
    pub strides: [usize; 4],
}

/// The two kinds of masks.
#[derive(Clone, Copy, Debug)]
pub enum MaskValues<'a> {
    /// Added to the scores.
    Added(&'a [f32]),
    /// Whether a query sees a key.
    Seen(&'a [Bool]),
}

/// How results lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[batch, head, position, feature]`
    HeadsFirst,
    /// `[batch, position, head, feature]`
    PositionsFirst,
}

/// An attention to compute.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Independent items.
    pub batch: usize,
    /// Heads of queries and results, a multiple of `key_heads`.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Positions of queries.
    pub queries: usize,
    /// Positions of keys and values.
    pub keys: usize,
    /// The queries.
    pub query: Operand<'a>,
    /// The keys.
    pub key: Operand<'a>,
    /// The values.
    pub value: Operand<'a>,
    /// The factor of the scores.
    pub scale: f32,
    /// With a number: query `i` sees the keys up to this number plus `i`.
    pub causal_from: Option<usize>,
    /// The mask.
    pub mask: Option<Mask<'a>>,
    /// What a row that may see no key becomes: zero, as in PyTorch's attention, or NaN, as in its softmax.
    pub unseen: f32,
    /// How the results lie.
    pub layout: Layout,
}

impl Operand<'_> {
    fn len(&self) -> usize {
        match self.values {
            Values::F32(values) => values.len(),
            Values::F16(values) => values.len(),
            Values::BF16(values) => values.len(),
            Values::I8 { values, scales, zero_points } => {
                values.len().min(scales.len().min(zero_points.len()).saturating_mul(self.features))
            }
        }
    }

    fn check(&self, counts: [usize; 3], name: &str) {
        if !counts.contains(&0) && self.features > 0 {
            let last = counts.iter().zip(self.strides).map(|(count, stride)| (count - 1) * stride).sum::<usize>();
            assert!(last + self.features <= self.len(), "{name} has too few elements for {counts:?}");
        }
    }

    /// Widens the row that starts at element `at`.
    fn widen(&self, isa: Isa, at: usize, into: &mut [f32]) {
        isa.vectorize(
            #[inline(always)]
            || match self.values {
                Values::F32(values) => into.copy_from_slice(&values[at..at + into.len()]),
                Values::F16(values) => into.iter_mut().zip(&values[at..]).for_each(|(to, from)| *to = from.widen()),
                Values::BF16(values) => into.iter_mut().zip(&values[at..]).for_each(|(to, from)| *to = from.widen()),
                Values::I8 { values, scales, zero_points } => {
                    let row = at / self.features.max(1);
                    let (scale, zero_point) = (scales[row], i32::from(zero_points[row]));
                    for (to, from) in into.iter_mut().zip(&values[at..]) {
                        *to = (i32::from(*from) - zero_point) as f32 * scale;
                    }
                }
            },
        );
    }

    /// `count` rows from element `at` on, where they are or in `buffer`, and the distance between them.
    fn rows<'s>(&'s self, isa: Isa, at: usize, count: usize, buffer: &'s mut [f32]) -> (&'s [f32], usize) {
        if let Values::F32(values) = self.values {
            return (&values[at.min(values.len())..], self.strides[2]);
        }
        for (i, row) in buffer.chunks_exact_mut(self.features.max(1)).take(count).enumerate() {
            self.widen(isa, at + i * self.strides[2], row);
        }
        (buffer, self.features)
    }

    /// Elements of a buffer for a block of `count` rows.
    fn buffer_len(&self, count: usize) -> usize {
        if matches!(self.values, Values::F32(_)) { 0 } else { count * self.features }
    }
}

/// The part of a slot that a tile works in.
struct Workspace<'s> {
    queries: &'s mut [f32],
    scores: &'s mut [f32],
    results: &'s mut [f32],
    /// The largest score of each row so far.
    largest: &'s mut [f32],
    /// The sum of exponentials of each row so far.
    sums: &'s mut [f32],
    keys: &'s mut [f32],
    values: &'s mut [f32],
    product: &'s mut [f32],
}

impl<'a> Attention<'a> {
    fn group(&self) -> usize {
        self.heads / self.key_heads
    }

    /// Query heads in a row of the output's matrix that share a head of keys.
    fn heads_together(&self) -> usize {
        if self.layout == Layout::HeadsFirst { 1 } else { self.group() }
    }

    /// Most query rows and keys that meet at a time, for n threads.
    fn tile_sizes(&self, width: usize) -> (usize, usize) {
        let (rows, heads) = (self.group().saturating_mul(self.queries), self.batch.saturating_mul(self.key_heads));
        let wanted = if width > 1 { (2 * width).div_ceil(heads.max(1)) } else { 1 };
        let even = rows.div_ceil(wanted).clamp(FEW_ROWS, ROWS);
        // Tiles of nearly equal height, so that none is short.
        let even = rows.div_ceil(rows.div_ceil(even).max(1));
        let together = self.heads_together();
        (even.div_ceil(together).saturating_mul(together).min(rows), KEYS.min(self.keys))
    }

    /// Lengths of the fields of a [`Workspace`].
    fn lengths(&self, width: usize) -> [usize; 8] {
        let (rows, keys) = self.tile_sizes(width);
        let (features, width) = (self.query.features, self.value.features);
        let product = gemm_scratch(rows, keys, features, 1).max(gemm_scratch(rows, width, keys, 1));
        let widened = [self.key.buffer_len(keys), self.value.buffer_len(keys)];
        [rows * features, rows * keys, rows * width, rows, rows, widened[0], widened[1], product]
    }

    /// The scratch, in elements, that [`attention`] needs on a [`Parallel`] of this width.
    pub fn scratch(&self, width: usize) -> usize {
        if self.key_heads == 0 || self.group() == 0 {
            return 0;
        }
        self.lengths(width).iter().sum::<usize>().saturating_mul(Slots::<f32>::count(width))
    }

    fn workspace<'s>(&self, lengths: [usize; 8], slot: &'s mut [f32]) -> Workspace<'s> {
        let mut rest = slot;
        let mut take = |len: usize| {
            let (taken, left) = core::mem::take(&mut rest).split_at_mut(len);
            rest = left;
            taken
        };
        let [queries, scores, results, largest, sums, keys, values, product] = lengths.map(&mut take);
        Workspace { queries, scores, results, largest, sums, keys, values, product }
    }

    fn check(&self) {
        assert!(self.key_heads > 0 && self.heads.is_multiple_of(self.key_heads), "heads of {self:?}");
        assert_eq!(self.query.features, self.key.features, "features of queries and keys");
        self.query.check([self.batch, self.heads, self.queries], "the query");
        self.key.check([self.batch, self.key_heads, self.keys], "the key");
        self.value.check([self.batch, self.key_heads, self.keys], "the value");
        if let Some(mask) = self.mask {
            let len = match mask.values {
                MaskValues::Added(values) => values.len(),
                MaskValues::Seen(values) => values.len(),
            };
            let counts = [self.batch, self.heads, self.queries, self.keys];
            let last: usize = counts.iter().zip(mask.strides).map(|(n, stride)| n.saturating_sub(1) * stride).sum();
            assert!(counts.contains(&0) || last < len, "a mask of {len} elements is too short");
        }
    }
}

/// Computes `a` into `out`, which has `batch * heads * queries` rows of the values' features. `scratch` has
/// [`Attention::scratch`] elements.
pub fn attention<O: Float<Compute = f32>>(
    isa: Isa,
    par: &dyn Parallel,
    a: &Attention<'_>,
    out: &mut [O],
    scratch: &mut [f32],
) {
    a.check();
    let width = a.value.features;
    assert_eq!(out.len(), a.batch * a.heads * a.queries * width, "results of {a:?}");
    if out.is_empty() {
        return;
    }
    let (together, group) = (a.heads_together(), a.group());
    let columns = if a.layout == Layout::HeadsFirst { width } else { a.heads * width };
    let rows = out.len() / columns;
    // Rows after which keys of another head or batch are met.
    let period = if a.layout == Layout::HeadsFirst { group * a.queries } else { a.queries };
    let (height, lengths) = (a.tile_sizes(par.width()).0 / together, a.lengths(par.width()));
    let cuts = (Cut::every(height.max(1), rows), Cut::every(together * width, columns));
    let slots = Slots::new(scratch, lengths.iter().sum(), par.width());
    split::blocks(par, out, columns, (rows, columns), cuts, |mut block| {
        slots.with(|slot| {
            let mut work = a.workspace(lengths, slot);
            let mut first = block.rows.start;
            while first < block.rows.end {
                let end = block.rows.end.min((first / period + 1) * period);
                let tile = match a.layout {
                    Layout::HeadsFirst => {
                        Tile { batch: first / (a.heads * a.queries), key_head: first / period % a.key_heads, first }
                    }
                    Layout::PositionsFirst => {
                        Tile { batch: first / period, key_head: block.columns.start / (group * width), first }
                    }
                };
                tile.run(isa, a, (end - first) * together, &mut work);
                let finished = work.results.chunks_exact(width).zip(work.sums.iter());
                for (r, (result, &sum)) in finished.take((end - first) * together).enumerate() {
                    let factor = if sum == 0.0 { a.unseen } else { 1.0 / sum };
                    let row = &mut block.row(first + r / together)[r % together * width..][..width];
                    row.iter_mut().zip(result).for_each(|(to, x)| *to = O::narrow(x * factor));
                }
                first = end;
            }
        });
    });
}

/// Query rows that share a head of keys, from row `first` of the output's matrix on.
struct Tile {
    batch: usize,
    key_head: usize,
    first: usize,
}

impl Tile {
    /// Head and position of the tile's row `r`.
    fn place(&self, a: &Attention<'_>, r: usize) -> (usize, usize) {
        match a.layout {
            Layout::HeadsFirst => ((self.first + r) / a.queries % a.heads, (self.first + r) % a.queries),
            Layout::PositionsFirst => {
                (self.key_head * a.group() + r % a.group(), (self.first + r / a.group()) % a.queries)
            }
        }
    }

    /// How many keys row `r` may see.
    fn seen(&self, a: &Attention<'_>, r: usize) -> usize {
        match a.causal_from {
            Some(first) => a.keys.min(first.saturating_add(self.place(a, r).1).saturating_add(1)),
            None => a.keys,
        }
    }

    /// Leaves results, not yet divided by their sums, in the workspace.
    fn run(&self, isa: Isa, a: &Attention<'_>, rows: usize, work: &mut Workspace<'_>) {
        let (features, width) = (a.query.features, a.value.features);
        let offset = |operand: &Operand<'_>, [i, j, k]: [usize; 3]| {
            i * operand.strides[0] + j * operand.strides[1] + k * operand.strides[2]
        };
        for (r, row) in work.queries.chunks_exact_mut(features.max(1)).take(rows).enumerate() {
            let (head, position) = self.place(a, r);
            a.query.widen(isa, offset(&a.query, [self.batch, head, position]), row);
            if a.scale != 1.0 {
                row.iter_mut().for_each(|x| *x *= a.scale);
            }
        }
        work.largest[..rows].fill(f32::NEG_INFINITY);
        work.sums[..rows].fill(0.0);
        let seen = (0..rows).map(|r| self.seen(a, r)).max().unwrap_or(0);
        if seen == 0 {
            work.results[..rows * width].fill(0.0);
        }
        for start in (0..seen).step_by(KEYS) {
            let n = KEYS.min(seen - start);
            let at = [self.batch, self.key_head, start];
            let (keys, stride) = a.key.rows(isa, offset(&a.key, at), n, work.keys);
            let (left, right) = (Matrix::row_major(&*work.queries, features), Matrix::transposed(keys, stride));
            let product =
                Gemm { m: rows, n, k: features, a: left, b: right, init: Init::Zero, epilogue: Epilogue::None };
            gemm(isa, &Serial, &product, work.scores, n, work.product);
            self.exponentiate(isa, a, rows, start..start + n, work);
            let (values, stride) = a.value.rows(isa, offset(&a.value, at), n, work.values);
            let (left, right) = (Matrix::row_major(&*work.scores, n), Matrix::row_major(values, stride));
            let init = if start == 0 { Init::Zero } else { Init::Scaled(1.0) };
            let product = Gemm { m: rows, n: width, k: n, a: left, b: right, init, epilogue: Epilogue::None };
            gemm(isa, &Serial, &product, work.results, width, work.product);
        }
    }

    /// Turns the scores of a block of keys into exponentials and scales down what was added before.
    fn exponentiate(
        &self,
        isa: Isa,
        a: &Attention<'_>,
        rows: usize,
        keys: core::ops::Range<usize>,
        work: &mut Workspace<'_>,
    ) {
        let width = a.value.features;
        for r in 0..rows {
            let scores = &mut work.scores[r * keys.len()..][..keys.len()];
            let (seen, unseen) = scores.split_at_mut(self.seen(a, r).saturating_sub(keys.start).min(keys.len()));
            unseen.fill(0.0);
            let (head, position) = self.place(a, r);
            let mask = a.mask.map(|mask| {
                let at = [self.batch, head, position, keys.start].iter().zip(mask.strides).map(|(i, by)| i * by).sum();
                (mask.values, at, mask.strides[3])
            });
            let results = &mut work.results[r * width..][..width];
            isa.vectorize(
                #[inline(always)]
                || {
                    if let Some((values, at, step)) = mask {
                        apply(values, at, step, seen);
                    }
                    exponentiate(seen, (&mut work.largest[r], &mut work.sums[r]), results);
                },
            );
        }
    }
}

/// Masks the scores of one query.
#[inline(always)]
fn apply(values: MaskValues<'_>, at: usize, step: usize, scores: &mut [f32]) {
    match (values, step) {
        (MaskValues::Added(values), 1) => scores.iter_mut().zip(&values[at..]).for_each(|(score, x)| *score += x),
        (MaskValues::Added(values), _) => {
            scores.iter_mut().enumerate().for_each(|(i, score)| *score += values[at + i * step]);
        }
        (MaskValues::Seen(values), _) => scores.iter_mut().enumerate().for_each(|(i, score)| {
            *score = if values[at + i * step].get() { *score } else { f32::NEG_INFINITY };
        }),
    }
}

/// Scores of one query become exponentials.
#[inline(always)]
fn exponentiate(scores: &mut [f32], (largest, sum): (&mut f32, &mut f32), results: &mut [f32]) {
    let (whole, rest) = scores.as_chunks_mut::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    let mut strands = last.map(|x| larger(x, *largest));
    for chunk in &*whole {
        for i in 0..LANES {
            strands[i] = larger(chunk[i], strands[i]);
        }
    }
    let most = folded(strands, larger);
    if most == f32::NEG_INFINITY && !whole.iter().chain([&last]).flatten().any(|x| x.is_nan()) {
        return scores.fill(0.0);
    }
    let mut sums = [0.0; LANES];
    for chunk in whole {
        sums = decay(chunk, most, sums);
    }
    if !rest.is_empty() {
        sums = decay(&mut last, most, sums);
        rest.copy_from_slice(&last[..rest.len()]);
    }
    let shrink = if *largest == f32::NEG_INFINITY { 0.0 } else { Math::exp(*largest - most) };
    *sum = *sum * shrink + folded(sums, |a, b| a + b);
    *largest = most;
    if shrink != 1.0 {
        results.iter_mut().for_each(|x| *x *= shrink);
    }
}

/// The larger one; the second, if the first is no number.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// `x = e^(x - most)`, added to `sums`.
#[inline(always)]
fn decay(x: &mut [f32; LANES], most: f32, mut sums: [f32; LANES]) -> [f32; LANES] {
    let mut e = *x;
    for e in &mut e {
        *e = Math::decay(*e - most);
    }
    for i in 0..LANES {
        sums[i] += e[i];
    }
    *x = e;
    sums
}

#[cfg(test)]
mod tests;
