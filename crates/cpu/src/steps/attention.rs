//! Attention, without a matrix of all scores.

use super::{After, Context, Following, Step, Work, elements, elements_mut, times};
use crate::memory::Buffers;
use sconce_graph::Layout;
use sconce_kernels::attention::{self, Mask, MaskValues, Operand, Values, attention};

/// `softmax(scale * Q Kᵀ + mask) V` for each batch and head.
pub(crate) struct Attention {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// Features of queries and keys.
    pub(crate) features: usize,
    /// Features of values and results.
    pub(crate) width: usize,
    /// How queries, keys, values and results lie.
    pub(crate) layouts: [Layout; 4],
    pub(crate) scale: f32,
    /// Whether queries that see no key become zeros.
    pub(crate) safe: bool,
    /// If the fourth input is a mask, its elements from one batch, head, query and key to the next.
    pub(crate) mask: Option<[usize; 4]>,
    pub(crate) after: Vec<After>,
}

impl Attention {
    /// Bytes of scratch for n threads.
    pub(crate) fn scratch(&self, threads: usize) -> usize {
        self.asked([&[]; 3], None).scratch(threads).saturating_mul(size_of::<f32>())
    }

    /// As the kernel takes it.
    fn asked<'a>(&self, [query, key, value]: [&'a [f32]; 3], mask: Option<&'a [f32]>) -> attention::Attention<'a> {
        let &Self { batch, heads, queries, keys, features, width, layouts, scale, .. } = self;
        let operand = |values: &'a [f32], positions: usize, features: usize, layout: Layout| {
            let all = heads.saturating_mul(positions);
            let rows = match layout {
                Layout::HeadsFirst => [all, positions, 1],
                Layout::PositionsFirst => [all, 1, heads],
            };
            Operand { values: Values::F32(values), features, strides: rows.map(|rows| rows.saturating_mul(features)) }
        };
        let mask = mask.zip(self.mask);
        attention::Attention {
            batch,
            heads,
            key_heads: heads,
            queries,
            keys,
            query: operand(query, queries, features, layouts[0]),
            key: operand(key, keys, features, layouts[1]),
            value: operand(value, keys, width, layouts[2]),
            scale,
            causal_from: None,
            mask: mask.map(|(values, strides)| Mask { values: MaskValues::Added(values), strides }),
            // A sum of nothing is zero.
            unseen: if self.safe || keys == 0 { 0.0 } else { f32::NAN },
            layout: match layouts[3] {
                Layout::HeadsFirst => attention::Layout::HeadsFirst,
                Layout::PositionsFirst => attention::Layout::PositionsFirst,
            },
        }
    }
}

impl Step for Attention {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let then = Following::new(&self.after, &buffers);
        let operands = [0, 1, 2].map(|read| elements(buffers.read(read)));
        let mask = self.mask.map(|_| elements(buffers.read(3)));
        let (output, scratch) = (elements_mut::<f32>(buffers.output), elements_mut(buffers.scratch));
        if !output.is_empty() {
            attention(context.isa, context.par, &self.asked(operands, mask), output, scratch);
            then.finish(context, output);
        }
    }

    fn describe(&self) -> String {
        let &Self { batch, heads, queries, keys, features, .. } = self;
        let masked = if self.mask.is_some() { ", masked" } else { "" };
        format!("attention of {queries} queries to {keys} keys, {batch}x{heads} heads of {features} features{masked}")
    }

    fn work(&self) -> Work {
        let each = self.features.saturating_add(self.width);
        Work { floats: times(&[self.batch, self.heads, self.queries, self.keys, each]), ..Work::default() }
    }
}
