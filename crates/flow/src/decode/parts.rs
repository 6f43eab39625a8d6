//! Operators that take tensors apart and put them together.

use super::{MOST_REPEATED, Site, place};
use sconce_format::ScalarType;
use sconce_graph::{Combine, Op, ValueId};

impl Site<'_, '_, '_, '_> {
    /// Elements `start..start + size` along a dimension.
    fn part(&mut self, x: ValueId, dim: usize, start: usize, size: usize) -> Option<ValueId> {
        let whole = self.builder.graph.ty(x).sizes();
        (size > 0).then_some(())?;
        let mut starts = vec![0; whole.len()];
        let mut sizes = whole;
        (starts[dim], sizes[dim]) = (start, size);
        self.node(Op::Slice { starts, sizes: sizes.into_vec() }, vec![x])
    }

    pub(super) fn slice(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        let sizes = self.sizes(0)?;
        let dim = place(self.int(1)?, sizes.len())?;
        (self.int(4)? == 1).then_some(())?;
        let length = i64::try_from(sizes[dim]).ok()?;
        let bound = |index, none| if self.is_none(index) { Some(none) } else { self.int(index) };
        let within =
            |at: i64| usize::try_from(if at < 0 { at.saturating_add(length) } else { at }.clamp(0, length)).ok();
        let (start, end) = (within(bound(2, 0)?)?, within(bound(3, length)?)?);
        let y = self.part(x, dim, start, end.checked_sub(start)?)?;
        self.give_last(y)
    }

    pub(super) fn select(&mut self) -> Option<()> {
        let x = self.tensor(0)?;
        let sizes = self.sizes(0)?;
        let dim = place(self.int(1)?, sizes.len())?;
        let y = self.part(x, dim, place(self.int(2)?, sizes[dim])?, 1)?;
        self.give_last(y)
    }

    /// Parts along a dimension, one after the other, for the outputs in a list.
    fn give_parts(&mut self, dim: usize, sizes: &[usize], list: usize) -> Option<()> {
        let (x, outputs) = (self.tensor(0)?, self.builder.flow.members(self.arg(list)?));
        (sizes.len() == outputs.len()).then_some(())?;
        let mut start = 0;
        for (&size, output) in sizes.iter().zip(outputs) {
            let part = self.part(x, dim, start, size)?;
            let part = self.builder.reshaped(part, &self.builder.sizes(output)?)?;
            self.builder.write(output, part)?;
            start += size;
        }
        Some(())
    }

    pub(super) fn split_with_sizes(&mut self) -> Option<()> {
        let dim = place(self.int(2)?, self.sizes(0)?.len())?;
        let sizes = self.ints(1)?.into_iter().map(|size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>()?;
        self.give_parts(dim, &sizes, 3)
    }

    /// Parts of one size; the last may be shorter.
    pub(super) fn split(&mut self) -> Option<()> {
        let whole = self.sizes(0)?;
        let dim = place(self.int(2)?, whole.len())?;
        let size = usize::try_from(self.int(1)?).ok().filter(|&size| size > 0)?;
        let count = whole[dim].div_ceil(size);
        (count <= self.builder.flow.members(self.arg(3)?).len()).then_some(())?;
        let sizes: Vec<usize> = (0..count).map(|part| size.min(whole[dim] - part * size)).collect();
        self.give_parts(dim, &sizes, 3)
    }

    /// Parts of one element along a dimension, which goes.
    pub(super) fn unbind(&mut self) -> Option<()> {
        let whole = self.sizes(0)?;
        let dim = place(self.int(1)?, whole.len())?;
        (whole[dim] <= self.builder.flow.members(self.arg(2)?).len()).then_some(())?;
        self.give_parts(dim, &vec![1; whole[dim]], 2)
    }

    pub(super) fn narrow(&mut self) -> Option<()> {
        let (x, sizes) = (self.tensor(0)?, self.sizes(0)?);
        let dim = place(self.int(1)?, sizes.len())?;
        let (start, size) = (self.int(2)?, usize::try_from(self.int(3)?).ok()?);
        let y = self.part(x, dim, place(start, sizes[dim])?, size)?;
        self.give_last(y)
    }

    fn list(&mut self, index: usize) -> Option<Vec<ValueId>> {
        let inputs = self.builder.flow.members(self.arg(index)?);
        let inputs = inputs.into_iter().map(|value| self.builder.read(value)).collect::<Option<Vec<_>>>()?;
        let first = self.builder.graph.ty(*inputs.first()?).element.clone();
        inputs.iter().all(|&input| self.builder.graph.ty(input).element == first).then_some(inputs)
    }

    pub(super) fn concat(&mut self) -> Option<()> {
        let inputs = self.list(0)?;
        let axis = place(self.int(1)?, self.builder.graph.ty(inputs[0]).dims.len())?;
        let y = self.node(Op::Concat { axis }, inputs)?;
        self.give_last(y)
    }

    /// Tensors side by side along a dimension that they do not have.
    pub(super) fn stack(&mut self) -> Option<()> {
        let inputs = self.list(0)?;
        let mut sizes = self.builder.graph.ty(inputs[0]).sizes();
        inputs.iter().all(|&input| self.builder.graph.ty(input).sizes() == sizes).then_some(())?;
        let axis = place(self.int(1)?, sizes.len() + 1)?;
        sizes.insert(axis, 1);
        let inputs = inputs.into_iter().map(|x| self.builder.reshaped(x, &sizes)).collect::<Option<Vec<_>>>()?;
        let y = self.node(Op::Concat { axis }, inputs)?;
        self.give_last(y)
    }

    /// The same elements, again and again along dimensions of one. What is repeated is multiplied with ones: each number
    /// stays what it is.
    pub(super) fn expand(&mut self) -> Option<()> {
        let (x, sizes) = (self.tensor(0)?, self.sizes(self.last()?)?);
        let own = self.builder.graph.ty(x).sizes();
        if own.iter().product::<usize>() == sizes.iter().product() {
            return self.give_last(x);
        }
        self.builder.graph.ty(x).is(ScalarType::Float).then_some(())?;
        let before = sizes.len().checked_sub(own.len())?;
        let repeats = sizes.iter().enumerate().map(|(dim, &size)| match dim.checked_sub(before).map(|dim| own[dim]) {
            Some(own) if own == size => 1,
            _ => size,
        });
        let repeats: Vec<usize> = repeats.collect();
        let count = repeats.iter().product();
        (count <= MOST_REPEATED).then_some(())?;
        let ones = self.vector(&vec![1.0; count]);
        let ones = self.builder.reshaped(ones, &repeats)?;
        let y = self.node(Op::Combine(Combine::Multiply), vec![x, ones])?;
        self.give_last(y)
    }

    pub(super) fn pad(&mut self) -> Option<()> {
        let x = self.floats(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        let borders = self.ints(1)?;
        for (index, pair) in borders.chunks_exact(2).enumerate() {
            let dim = rank.checked_sub(index + 1)?;
            (before[dim], after[dim]) = (usize::try_from(pair[0]).ok()?, usize::try_from(pair[1]).ok()?);
        }
        let value = self.number(2)? as f32;
        let y = self.node(Op::Pad { before, after, value }, vec![x])?;
        self.give_last(y)
    }
}
