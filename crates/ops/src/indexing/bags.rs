//! Bags of embeddings: rows of a table, picked by index and joined bag by bag; tables with short rows.
use super::Positions;
use super::along::copied;
use crate::norms::norm;
use crate::operands::{elements_mut, misaligned, same_type, signed};
use crate::ops;
use crate::strided::layout;
use crate::typed::{Typed, for_dtype};
use core::ops::Range;
use sconce_core::{Call, Fault, Op};
use sconce_kernels::Number;
use sconce_kernels::view::view;

/// Bags of embeddings. Only the first output of a bag is computed; the others serve a gradient and are zero.
pub(crate) static OPS: &[Op] = ops! {
    "aten::_embedding_bag.out" [14] writes [9, 10, 11, 12] => embedding_bag;
    "aten::_embedding_bag_forward_only.out" [14] writes [9, 10, 11, 12] => embedding_bag;
    "aten::embedding_renorm.out" [6] writes [4] => renormalize;
};

/// How rows are joined.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Sum,
    Mean,
    Largest,
}

/// What is in the bags: positions in the table, and where each bag starts.
struct Bags<'c> {
    positions: Positions<'c>,
    starts: Positions<'c>,
    count: usize,
    /// A position that does not count.
    padding: i64,
    mode: Mode,
}

impl<'c> Bags<'c> {
    fn new(call: &Call<'c>) -> Result<Self, Fault> {
        let (indices, offsets) = (call.tensor(1)?, call.tensor(2)?);
        for (argument, tensor) in [(1, &indices), (2, &offsets)] {
            if tensor.shape.rank() != 1 {
                let text = "positions and offsets must have one dimension, not {}";
                return Err(Fault::argument(argument, text).with([tensor.shape.rank()]));
            }
        }
        let mode = match call.int(4)? {
            0 => Mode::Sum,
            1 => Mode::Mean,
            2 => Mode::Largest,
            mode => return Err(Fault::argument(4, "there is no mode {}").with_signed([mode])),
        };
        let (positions, starts) = (Positions::new(1, &indices)?, Positions::new(2, &offsets)?);
        // The last offset may be the end of the last bag.
        let count = starts.len().checked_sub(usize::from(call.bool(7)?));
        let count = count.ok_or(Fault::argument(2, "there must be an offset for the end of the last bag"))?;
        Ok(Self { positions, starts, count, padding: call.int(8)?, mode })
    }

    /// Where the positions of a bag are.
    fn bag(&self, bag: usize) -> Result<Range<usize>, Fault> {
        let len = self.positions.len();
        let at = |n: usize| if n < self.starts.len() { self.starts.get(n) } else { signed(len) };
        let (start, end) = (at(bag), at(bag + 1));
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let range = range.filter(|&(start, end)| start <= end && end <= len);
        let text = "a bag from {} to {} is not within the {} positions";
        let (start, end) = range.ok_or(Fault::argument(2, text).with_signed([start, end, signed(len)]))?;
        Ok(start..end)
    }

    /// The positions of a bag that count, with their place among all; they have been checked.
    fn rows(&self, bag: usize) -> Result<impl Iterator<Item = (usize, usize)>, Fault> {
        let rows = self.bag(bag)?.map(|i| (i, self.positions.get(i)));
        Ok(rows.filter(|&(_, row)| row != self.padding).map(|(i, row)| (i, row as usize)))
    }
}

fn embedding_bag(call: &mut Call<'_>) -> Result<(), Fault> {
    let (table, weights) = (call.tensor(0)?, call.optional_tensor(6)?);
    let &[rows, columns] = table.sizes() else {
        return Err(Fault::argument(0, "the table must have two dimensions, not {}").with([table.shape.rank()]));
    };
    let bags = Bags::new(call)?;
    bags.positions.check(1, rows)?;
    if let Some(weights) = weights {
        same_type(6, weights.dtype, table.dtype)?;
        if weights.numel() != bags.positions.len() || bags.mode != Mode::Sum {
            return Err(Fault::argument(6, "weights are for sums only, and one for each position"));
        }
    }
    let out = call.out(9, &[bags.count, columns])?;
    let (from, to) = (layout(&table.shape), layout(&out.shape));
    for_dtype!(floats, table.dtype, 0, T => {
        let values = view::<T>(table.data).ok_or(misaligned(0))?;
        let weights = weights.map(|weights| view::<T>(weights.data).ok_or(misaligned(6))).transpose()?;
        let out = elements_mut::<T>(9, out)?;
        for bag in 0..bags.count {
            for column in 0..columns {
                let at = |row: usize| values[row * from.strides()[0] + column * from.strides()[1]];
                out[bag * to.strides()[0] + column * to.strides()[1]] = join(&bags, bag, weights, at)?;
            }
        }
        Ok(())
    })?;
    (10..13).try_for_each(|by_product| {
        call.in_place(by_product)?.data.fill(0);
        Ok(())
    })
}

/// One column of a bag; of an empty bag it is zero.
fn join<T: Typed>(bags: &Bags<'_>, bag: usize, weights: Option<&[T]>, at: impl Fn(usize) -> T) -> Result<T, Fault> {
    let (mut total, mut count) = (0.0, 0usize);
    for (i, row) in bags.rows(bag)? {
        let weight = weights.map_or(1.0, |weights| weights[i].to_f64());
        let value = at(row).to_f64() * weight;
        total = match bags.mode {
            Mode::Largest if count > 0 && (total > value || total.is_nan()) => total,
            Mode::Largest => value,
            _ => total + value,
        };
        count += 1;
    }
    let divisor = if bags.mode == Mode::Mean { count.max(1) } else { 1 };
    Ok(T::from_f64(total / divisor as f64))
}

/// A copy of a table in which the rows that are picked have a norm of at most argument 2.
fn renormalize(call: &mut Call<'_>) -> Result<(), Fault> {
    let (table, indices, limit, order) = (call.tensor(0)?, call.tensor(1)?, call.double(2)?, call.double(3)?);
    let &[rows, columns] = table.sizes() else {
        return Err(Fault::argument(0, "the table must have two dimensions, not {}").with([table.shape.rank()]));
    };
    let positions = Positions::new(1, &indices)?;
    positions.check(1, rows)?;
    let out = copied(call, table, 4)?;
    let (from, to) = (layout(&table.shape), layout(&out.shape));
    for_dtype!(floats, table.dtype, 0, T => {
        let (values, out) = (view::<T>(table.data).ok_or(misaligned(0))?, elements_mut::<T>(4, out)?);
        // A row is scaled from what it was, so that it does not matter how often it is picked.
        for row in (0..positions.len()).map(|i| positions.get(i) as usize) {
            let at = |column: usize| values[row * from.strides()[0] + column * from.strides()[1]].to_f64();
            let length = norm((0..columns).map(at), order);
            if length > limit {
                let scale = limit / (length + 1e-7);
                let place = |column: usize| row * to.strides()[0] + column * to.strides()[1];
                (0..columns).for_each(|column| out[place(column)] = T::from_f64(at(column) * scale));
            }
        }
        Ok(())
    })
}
