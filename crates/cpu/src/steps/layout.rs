//! Elements that move and do not change.

use super::{Apart, Context, Step};
use crate::memory::Buffers;
use sconce_kernels::copy::{Copy, contiguous_strides, copy};
use std::fmt;

/// A copy between two layouts: transposes and slices.
pub(crate) struct Rearrange {
    /// Bytes of an element.
    size: usize,
    /// Sizes of the output.
    shape: Vec<usize>,
    /// Steps in the input along each dimension of the output.
    strides: Vec<usize>,
    /// Where the input starts.
    start: usize,
    /// Steps in the output along each dimension.
    to_strides: Vec<usize>,
    what: &'static str,
}

impl Rearrange {
    /// Elements of `size` bytes to an output of this shape, from `start` on and with these steps in the input.
    pub(crate) fn new(size: usize, shape: Vec<usize>, strides: Vec<usize>, start: usize, what: &'static str) -> Self {
        let to_strides = contiguous_strides(&shape)[..shape.len()].to_vec();
        Self { size, shape, strides, start, to_strides, what }
    }

    /// A place, and steps from there along the dimensions of the output, where rows lie apart; if none leads out of a row.
    fn spread(&self, start: usize, strides: &[usize], apart: Apart) -> Option<(usize, Vec<usize>)> {
        let elements = |bytes: usize| bytes.is_multiple_of(self.size).then(|| bytes / self.size);
        let (width, stride) = (elements(apart.width)?.max(1), elements(apart.stride)?);
        let spread = |place: usize| place / width * stride + place % width;
        let dims = || self.shape.iter().zip(strides).filter(|(size, _)| **size > 1);
        let along: usize = dims().filter(|(_, step)| **step < width).map(|(size, step)| (size - 1) * step).sum();
        let whole = dims().all(|(_, step)| *step < width || step.is_multiple_of(width));
        let inside = whole && start % width + along < width;
        inside.then(|| (spread(start), strides.iter().map(|&step| spread(step)).collect()))
    }

    /// Writes rows apart from now on; whether it can.
    pub(crate) fn write_apart(&mut self, apart: Apart) -> bool {
        let spread = self.spread(0, &self.to_strides, apart);
        let can = spread.is_some();
        if let Some((_, strides)) = spread {
            self.to_strides = strides;
        }
        can
    }

    /// Whether it can read rows that lie apart.
    pub(crate) fn reads_apart(&self, apart: Apart) -> bool {
        self.spread(self.start, &self.strides, apart).is_some()
    }

    /// Reads them so from now on.
    pub(crate) fn read_apart(&mut self, apart: Apart) {
        if let Some((start, strides)) = self.spread(self.start, &self.strides, apart) {
            (self.start, self.strides) = (start, strides);
        }
    }
}

/// Its steps in memory.
impl fmt::Display for Rearrange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} in steps of {:?} to steps of {:?}", self.start, self.strides, self.to_strides)
    }
}

impl Step for Rearrange {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let layout = Copy { shape: &self.shape, from_strides: &self.strides, to_strides: &self.to_strides };
        let from = &buffers.read(0)[self.start * self.size..];
        copy(context.isa, context.par, self.size, &layout, from, buffers.output);
    }

    fn describe(&self) -> String {
        format!("{} to {:?}", self.what, self.shape)
    }
}

/// Inputs side by side: rows of bytes, so many of each input in turn.
pub(crate) struct Concat {
    /// How many times the inputs take turns.
    pub(crate) rows: usize,
    /// What is still to be copied.
    pub(crate) parts: Vec<ConcatPart>,
    /// Bytes of all inputs per turn, and from one turn to the next.
    pub(crate) all: Apart,
}

/// An input among others.
pub(crate) struct ConcatPart {
    /// Where its bytes of a turn start.
    pub(crate) start: usize,
    /// How many there are.
    pub(crate) width: usize,
    /// From those of one turn to those of the next, where they come from.
    from: usize,
}

impl Concat {
    /// Inputs of `widths` bytes per turn.
    pub(crate) fn new(rows: usize, widths: &[usize]) -> Self {
        let mut total = 0;
        let parts = widths.iter().map(|&width| {
            total += width;
            ConcatPart { start: total - width, width, from: width }
        });
        let parts = parts.collect();
        Self { rows, parts, all: Apart { width: total, stride: total } }
    }

    /// Writes rows apart from now on; whether it can.
    pub(crate) fn write_apart(&mut self, apart: Apart) -> bool {
        let rows_alike = apart.width == self.all.width;
        if rows_alike {
            self.all = apart;
        }
        rows_alike
    }

    /// Whether it can read this one of its parts with rows that lie apart.
    pub(crate) fn reads_apart(&self, read: usize, apart: Apart) -> bool {
        self.parts.get(read).is_some_and(|part| part.width == apart.width)
    }

    /// Reads it so from now on.
    pub(crate) fn read_apart(&mut self, read: usize, apart: Apart) {
        if let Some(part) = self.parts.get_mut(read) {
            part.from = apart.stride;
        }
    }
}

/// The bytes of each part in a row: where they start, how many there are, and how far they are from the next row's in the part.
impl fmt::Display for Concat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows {} apart", self.all.stride)?;
        self.parts.iter().try_for_each(|ConcatPart { start, width, from }| write!(f, ", {start}+{width}/{from}"))
    }
}

impl Step for Concat {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        for (index, part) in self.parts.iter().enumerate() {
            let shape = [self.rows, part.width];
            let layout = Copy { shape: &shape, from_strides: &[part.from, 1], to_strides: &[self.all.stride, 1] };
            copy(context.isa, context.par, 1, &layout, buffers.read(index), &mut buffers.output[part.start..]);
        }
    }

    fn describe(&self) -> String {
        format!("{} rows of {} inputs side by side", self.rows, self.parts.len())
    }
}

/// What a border holds.
pub(crate) enum Border {
    Number(f32),
    /// An integer with the scale of those inside.
    Byte(u8),
}

/// A border around the input.
pub(crate) struct Pad {
    /// Sizes of the input.
    pub(crate) shape: Vec<usize>,
    /// Sizes of the output.
    pub(crate) padded: Vec<usize>,
    /// Where the input starts in the output, per dimension.
    pub(crate) before: Vec<usize>,
    pub(crate) border: Border,
}

impl Step for Pad {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let (from, to) = (contiguous_strides(&self.shape), contiguous_strides(&self.padded));
        let rank = self.shape.len();
        let size = match self.border {
            Border::Number(number) => {
                super::elements_mut::<f32>(buffers.output).fill(number);
                size_of::<f32>()
            }
            Border::Byte(byte) => {
                buffers.output.fill(byte);
                1
            }
        };
        let layout = Copy { shape: &self.shape, from_strides: &from[..rank], to_strides: &to[..rank] };
        let start: usize = self.before.iter().zip(to).map(|(before, stride)| before * stride).sum();
        if !buffers.read(0).is_empty() {
            copy(context.isa, context.par, size, &layout, buffers.read(0), &mut buffers.output[start * size..]);
        }
    }

    fn describe(&self) -> String {
        match self.border {
            Border::Number(number) => format!("border of {number} around {:?}", self.shape),
            Border::Byte(byte) => format!("border of byte {byte} around {:?}", self.shape),
        }
    }
}
