//! Operators that make and take bools.

use super::{Site, place};
use sconce_format::ScalarType;
use sconce_graph::{Comparison, Op, ValueId};

impl Site<'_, '_, '_, '_> {
    fn bools(&mut self, index: usize) -> Option<ValueId> {
        let value = self.tensor(index)?;
        self.builder.graph.ty(value).is(ScalarType::Bool).then_some(value)
    }

    /// How each number stands to one that is known.
    pub(super) fn compare(&mut self, how: Comparison) -> Option<()> {
        let (x, value) = (self.floats(0)?, self.number(1)? as f32);
        let y = self.builder.node_of(ScalarType::Bool, Op::Compare { how, value }, vec![x])?;
        self.give_last(y)
    }

    pub(super) fn not(&mut self) -> Option<()> {
        let x = self.bools(0)?;
        let y = self.node(Op::Not, vec![x])?;
        self.give_last(y)
    }

    /// Whether any bool along the last dimension is true.
    pub(super) fn any(&mut self) -> Option<()> {
        let x = self.bools(0)?;
        let rank = self.builder.graph.ty(x).dims.len();
        (place(self.int(1)?, rank)? + 1 == rank).then_some(())?;
        let y = self.node(Op::Any, vec![x])?;
        self.give_last(y)
    }

    /// One of two numbers, as bools say.
    pub(super) fn choose(&mut self) -> Option<()> {
        let inputs = vec![self.bools(0)?, self.floats(1)?, self.floats(2)?];
        let y = self.builder.node_of(ScalarType::Float, Op::Select, inputs)?;
        self.give_last(y)
    }

    /// A known number where bools are true.
    pub(super) fn fill_where(&mut self) -> Option<()> {
        let (x, fill) = (self.floats(0)?, self.number(2)? as f32);
        let (bools, fill) = (self.bools(1)?, self.vector(&[fill]));
        let y = self.builder.node_of(ScalarType::Float, Op::Select, vec![bools, fill, x])?;
        self.give_last(y)
    }

    /// A known number in the sizes of a tensor.
    pub(super) fn fill(&mut self) -> Option<()> {
        let (x, value) = (self.floats(0)?, self.number(1)? as f32);
        let y = self.node(Op::Fill { value }, vec![x])?;
        self.give_last(y)
    }
}
