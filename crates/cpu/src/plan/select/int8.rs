//! Steps on int8, and conversions.

use super::{Selected, Site};
use crate::Rounding;
use crate::operations::{gate, limits, per_tensor};
use crate::steps::{
    After, CombineKinds, Convert, GateInt8, Kind, MapInt8, ReduceInt8, Repeat, SumInt8, ToInt8, function, table,
    table_of_int8,
};
use sconce_graph::{Combine as CombineKind, Op, Reduction};
use sconce_kernels::bytes;
use sconce_kernels::reduce::Axis;

impl Site<'_> {
    pub(super) fn convert(&self) -> Option<Selected> {
        let (from, to) = (self.kind(self.node.inputs[0])?, self.kind(self.node.outputs[0])?);
        Some(self.converted(from, to, self.after(1)))
    }

    /// A conversion with what follows, by a table if that can be.
    fn converted(&self, from: Kind, to: Kind, after: Vec<After>) -> Selected {
        let of_bytes = self.node.op != Op::Convert && self.options.rounding == Rounding::Xnnpack;
        let table = if of_bytes { table_of_int8 } else { table };
        match table(self.options.isa, from, to, &after) {
            Some(table) => self.step(MapInt8 { table: Box::new(table), kinds: (from, to) }, 1, 0),
            None => self.step(Convert { from, to, after }, 1, 0),
        }
    }

    /// An element-wise node or a reduction of int8.
    pub(super) fn int8(&self) -> Option<Selected> {
        let (from, to) = (self.kind(self.node.inputs[0])?, self.kind(self.node.outputs[0])?);
        let mut after = self.after(self.node.inputs.len());
        match &self.node.op {
            Op::Map(f) => {
                after.insert(0, After::Apply(function(*f)));
                Some(self.converted(from, to, after))
            }
            Op::Combine(combine) => {
                if let Some(selected) =
                    self.sum_or_gate(*combine).filter(|_| self.options.rounding == Rounding::Xnnpack)
                {
                    return Some(selected);
                }
                let from = [from, self.kind(self.node.inputs[1])?];
                let alike = (0..2).all(|index| self.input(index) == self.output());
                alike.then(|| self.step(CombineKinds { combine: *combine, from, to, after }, 2, 0))
            }
            Op::Reduce { of, axes, .. } => {
                let axis = Axis::of(self.input(0), *axes.first()?..*axes.last()? + 1);
                let from = per_tensor(self.graph, self.node.inputs[0])?;
                let (scale, zero) = per_tensor(self.graph, self.node.outputs[0])?;
                let limits = limits(&self.node.then, scale, i8::try_from(zero).ok()?);
                let (mean, n, inner) = (*of == Reduction::Mean, axis.n, axis.inner);
                let step = ReduceInt8 { mean, n, inner, from, to, after, limits };
                (n > 0).then(|| self.step(step, 1, 0))
            }
            _ => None,
        }
    }

    /// A sum or a gate of int8 that is followed by limits at most.
    fn sum_or_gate(&self, combine: CombineKind) -> Option<Selected> {
        let (scale, zero) = per_tensor(self.graph, self.node.outputs[0])?;
        let zero = i8::try_from(zero).ok()?;
        let from = |index: usize| per_tensor(self.graph, self.node.inputs[index]);
        let to = ToInt8 { scale, rounding: bytes::Rounding { zero, limits: limits(&self.node.then, scale, zero)? } };
        if let Some((image, gate)) = gate(self.node, |id| self.sizes[id.index()].clone()) {
            let scratch = GateInt8::scratch(*self.output().last()?)?;
            return Some(self.step(GateInt8 { from: [from(image)?, from(gate)?], to, gate }, 2, scratch));
        }
        let sign = match combine {
            CombineKind::Add => 1.0,
            CombineKind::Subtract => -1.0,
            _ => return None,
        };
        let (second, second_zero) = from(1)?;
        let whole = self.output();
        let repeat = match [0, 1].into_iter().find(|&index| self.input(index) != whole) {
            Some(index) => {
                Some((index, Repeat::of(self.input(index), whole).filter(|_| self.input(1 - index) == whole)?))
            }
            None => None,
        };
        Some(self.step(SumInt8::new([from(0)?, (sign * second, second_zero)], to, repeat), 2, 0))
    }
}
