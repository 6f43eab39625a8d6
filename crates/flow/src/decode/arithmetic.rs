//! Operators on each element, and along dimensions.

use super::{Site, place};
use sconce_graph::{Combine, Function, Op, Reduction, ValueId};

impl Site<'_, '_, '_, '_> {
    /// Limits, of which either may be left out.
    pub(super) fn limits(&mut self, low: Option<usize>, high: Option<usize>) -> Option<()> {
        let mut limit = |index: Option<usize>, none| match index {
            Some(index) if !self.is_none(index) => self.number(index).map(|x| x as f32),
            _ => Some(none),
        };
        let (low, high) = (limit(low, f32::NEG_INFINITY)?, limit(high, f32::INFINITY)?);
        (low <= high).then_some(())?;
        self.map(Function::Clamp { low, high })
    }

    /// A function of two tensors, or of a tensor and a number; the second may have a factor.
    pub(super) fn combine(&mut self, kind: Combine, factor: Option<usize>) -> Option<()> {
        let factor = self.factor(factor)?;
        if let Some(value) = self.number(1).map(|value| value as f32 * factor) {
            match kind {
                Combine::Add => return self.map(Function::Plus { value }),
                Combine::Subtract => return self.map(Function::Plus { value: -value }),
                Combine::Multiply => return self.map(Function::Times { value }),
                Combine::Divide => return self.map(Function::Over { value }),
                _ => {}
            }
        }
        let (a, b) = (self.floats(0)?, self.floats(1)?);
        let b = self.times(b, factor)?;
        let y = self.node(Op::Combine(kind), vec![a, b])?;
        self.give_last(y)
    }

    /// A number or a tensor, less a tensor that may have a factor.
    pub(super) fn subtract_from(&mut self, factor: usize) -> Option<()> {
        let factor = self.factor(Some(factor))?;
        let x = self.floats(0)?;
        let y = match self.number(1) {
            Some(value) => {
                let negative = self.times(x, -factor)?;
                self.node(Op::Map(Function::Plus { value: value as f32 }), vec![negative])?
            }
            None => {
                let (from, x) = (self.floats(1)?, self.times(x, factor)?);
                self.node(Op::Combine(Combine::Subtract), vec![from, x])?
            }
        };
        self.give_last(y)
    }

    /// The factor that an argument is, where there is such an argument.
    fn factor(&mut self, index: Option<usize>) -> Option<f32> {
        index.map_or(Some(1.0), |index| self.number(index).map(|factor| factor as f32))
    }

    fn times(&mut self, x: ValueId, factor: f32) -> Option<ValueId> {
        match factor {
            1.0 => Some(x),
            -1.0 => self.node(Op::Map(Function::Negate), vec![x]),
            value => self.node(Op::Map(Function::Times { value }), vec![x]),
        }
    }

    /// The powers that PyTorch writes as roots, products and quotients.
    pub(super) fn power(&mut self) -> Option<()> {
        let (x, exponent) = (self.floats(0)?, self.number(1)?);
        let functions: &[Function] = match exponent {
            1.0 => &[],
            2.0 | 3.0 => &[Function::Square],
            0.5 => &[Function::SquareRoot],
            -0.5 => &[Function::ReciprocalSquareRoot],
            -1.0 => &[Function::Reciprocal],
            -2.0 => &[Function::Square, Function::Reciprocal],
            _ => return None,
        };
        let mut y = x;
        for function in functions {
            y = self.node(Op::Map(*function), vec![y])?;
        }
        if exponent == 3.0 {
            y = self.node(Op::Combine(Combine::Multiply), vec![y, x])?;
        }
        self.give_last(y)
    }

    pub(super) fn softmax(&mut self, op: Op) -> Option<()> {
        let x = self.floats(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        let dim = place(self.int(1)?, rank)?;
        if dim + 1 == rank {
            let y = self.node(op, vec![x])?;
            return self.give_last(y);
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(dim, rank - 1);
        let last = self.node(Op::Transpose { order: order.clone() }, vec![x])?;
        let y = self.node(op, vec![last])?;
        let y = self.node(Op::Transpose { order }, vec![y])?;
        self.give_last(y)
    }

    /// What numbers along dimensions become. The type in which they are taken, if there is such an argument, is theirs.
    pub(super) fn reduce(&mut self, of: Reduction, dtype: Option<usize>) -> Option<()> {
        let mut x = self.floats(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        let dims = if self.is_none(1) { Vec::new() } else { self.ints(1)? };
        let mut axes = dims.into_iter().map(|dim| place(dim, rank)).collect::<Option<Vec<_>>>()?;
        if axes.is_empty() {
            axes = (0..rank).collect();
        }
        axes.sort_unstable();
        axes.dedup();
        dtype.is_none_or(|dtype| self.is_none(dtype)).then_some(())?;
        // The engine takes neighbours. (Height and width still are when channels come last.)
        if axes.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
            let kept = (0..rank).filter(|dim| !axes.contains(dim));
            let order = kept.chain(axes.iter().copied()).collect();
            x = self.node(Op::Transpose { order }, vec![x])?;
            axes = (rank - axes.len()..rank).collect();
        }
        let y = self.node(Op::Reduce { of, axes, keep: true }, vec![x])?;
        self.give_last(y)
    }

    pub(super) fn layer_norm(&mut self) -> Option<()> {
        let x = self.floats(0)?;
        let dims = self.ints(1)?.len();
        // A bias without a weight has no word.
        let (weight, bias) = (self.constant(2)?, self.constant(3)?);
        (weight.is_some() || bias.is_none()).then_some(())?;
        let epsilon = self.number(4)? as f32;
        let inputs = [Some(x), weight, bias].into_iter().flatten().collect();
        let y = self.node(Op::LayerNorm { dims, epsilon }, inputs)?;
        self.unread(6)?;
        self.unread(7)?;
        self.give(5, y)
    }

    pub(super) fn group_norm(&mut self) -> Option<()> {
        let x = self.floats(0)?;
        let sizes = self.builder.graph.ty(x).sizes();
        let [images, channels, inner @ ..] = &sizes[..] else { return None };
        for (index, size) in [(3, *images), (4, *channels), (5, inner.iter().product())] {
            (usize::try_from(self.int(index)?) == Ok(size)).then_some(())?;
        }
        // A bias without a weight has no word.
        let (weight, bias) = (self.constant(1)?, self.constant(2)?);
        (weight.is_some() || bias.is_none()).then_some(())?;
        let (groups, epsilon) = (usize::try_from(self.int(6)?).ok()?, self.number(7)? as f32);
        let inputs = [Some(x), weight, bias].into_iter().flatten().collect();
        let y = self.node(Op::GroupNorm { groups, epsilon }, inputs)?;
        self.unread(9)?;
        self.unread(10)?;
        self.give(8, y)
    }
}
