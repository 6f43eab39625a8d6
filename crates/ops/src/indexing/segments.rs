//! Segments of a dimension, each reduced to one element. Where they are is data: lengths, or where each begins.
use crate::dense::{converted_row_major, wide_bytes, write_converted};
use crate::operands::{shape_fault, signed};
use crate::ops;
use core::ops::Range;
use sconce_core::{Call, Fault, Op, ScalarType};
use sconce_schema::{ShapeError, Sizes, normalize_dim};

/// Reductions of segments.
pub(crate) static OPS: &[Op] = ops! {
    "aten::segment_reduce.out" [10] writes [8] scratch |args| {
        [0, 2, 4, 8].iter().map(|&argument| wide_bytes(args, argument)).fold(0, usize::saturating_add)
    }, => segment_reduce;
};

/// How elements are joined.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    Sum,
    Mean,
    Product,
    Largest,
    Smallest,
}

impl Join {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Join::Sum,
            "mean" => Join::Mean,
            "prod" => Join::Product,
            "max" => Join::Largest,
            "min" => Join::Smallest,
            _ => return None,
        })
    }

    /// Joins elements, beginning with a number where one is given.
    fn of(self, elements: impl Iterator<Item = f64>, initial: Option<f64>) -> f64 {
        let start = match self {
            Join::Sum | Join::Mean => 0.0,
            Join::Product => 1.0,
            Join::Largest => f64::NEG_INFINITY,
            Join::Smallest => f64::INFINITY,
        };
        let mut count = 0usize;
        let joined = elements.fold(initial.unwrap_or(start), |joined, x| {
            count += 1;
            match self {
                Join::Sum | Join::Mean => joined + x,
                Join::Product => joined * x,
                Join::Largest if x > joined || x.is_nan() => x,
                Join::Smallest if x < joined || x.is_nan() => x,
                Join::Largest | Join::Smallest => joined,
            }
        });
        match (self, count, initial) {
            (Join::Mean, 0, None) => f64::NAN,
            (Join::Mean, 1.., _) => joined / count as f64,
            _ => joined,
        }
    }
}

/// Where the segments of one line are: their lengths, or where each begins and the last ends.
#[derive(Clone, Copy)]
enum Segments<'c> {
    Lengths(&'c [i64]),
    Offsets(&'c [i64]),
}

impl Segments<'_> {
    /// The segments of a line, of which each row of numbers has one list.
    fn each(self, line: usize, per_line: usize) -> impl Iterator<Item = (i64, i64)> {
        let (list, count) = match self {
            Segments::Lengths(list) => (list, per_line),
            Segments::Offsets(list) => (list, per_line + 1),
        };
        let list = list.get(line * count..).and_then(|list| list.get(..count)).unwrap_or(&[]);
        let mut end = 0i64;
        (0..per_line).map(move |segment| {
            let start = if let Segments::Offsets(_) = self { list[segment] } else { end };
            end = if let Segments::Offsets(_) = self { list[segment + 1] } else { start.saturating_add(list[segment]) };
            (start, end)
        })
    }
}

/// A segment as a range of positions below `size`.
fn range((start, end): (i64, i64), size: usize) -> Result<Range<usize>, Fault> {
    let text = "a segment from {} to {} is not within a dimension of size {}";
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let range = range.filter(|&(start, end)| start <= end && end <= size);
    range.map(|(start, end)| start..end).ok_or(Fault::argument(0, text).with_signed([start, end, signed(size)]))
}

fn segment_reduce(call: &mut Call<'_>) -> Result<(), Fault> {
    let (x, name) = (call.tensor(0)?, call.str(1)?);
    let join = Join::named(name).ok_or(Fault::argument(1, "sum, mean, prod, max and min are the reductions"))?;
    let initial = call.optional(7, |args, i| args.scalar(i))?.map(|initial| initial.to_f64());
    let (dim, rank) = (call.int(5)?, x.shape.rank());
    let axis = normalize_dim(dim, rank).filter(|_| rank > 0).ok_or(ShapeError::Dim { dim, rank });
    let axis = axis.map_err(|error| shape_fault(error).at(5))?;
    let (argument, list) = match (call.optional_tensor(2)?, call.optional_tensor(4)?) {
        (Some(lengths), _) => (2, lengths),
        (None, Some(offsets)) => (4, offsets),
        (None, None) => return Err(Fault::argument(2, "lengths or offsets of the segments are needed")),
    };
    if !matches!(list.dtype, ScalarType::Long | ScalarType::Int) {
        return Err(crate::typed::unsupported(argument, list.dtype));
    }
    let leading = list.sizes().split_last().filter(|(_, outer)| *outer == &x.sizes()[..axis]);
    let mismatch = Fault::argument(argument, "there must be segments for each line along the dimension");
    let (&count, _) = leading.ok_or(mismatch)?;
    let segments = count.checked_sub(usize::from(argument == 4)).ok_or(mismatch)?;
    let mut sizes = Sizes::new(x.sizes()).unwrap_or(Sizes::SCALAR);
    sizes[axis] = segments;
    let (size, inner) = (x.sizes()[axis], x.sizes()[axis + 1..].iter().product::<usize>());
    let places = converted_row_major::<i64>(call, argument, list)?;
    let places = if argument == 2 { Segments::Lengths(places) } else { Segments::Offsets(places) };
    let data = converted_row_major::<f64>(call, 0, x)?;
    let out = call.out(8, &sizes)?;
    write_converted::<f64>(call, 8, out, |out| {
        for (line, out) in out.chunks_exact_mut((segments * inner).max(1)).enumerate() {
            for (segment, out) in places.each(line, segments).zip(out.chunks_exact_mut(inner.max(1))) {
                let positions = range(segment, size)?;
                for (i, out) in out.iter_mut().enumerate() {
                    let at = |position: usize| data[(line * size + position) * inner + i];
                    *out = join.of(positions.clone().map(at), initial);
                }
            }
        }
        Ok(())
    })
}
