//! Known arguments of calls; what is wrong with one is said in words.

use crate::ir::{Arg, Call, ValueId};
use crate::lower::place;
use crate::size::Size;

/// A call, for those who want its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'c>(pub(super) &'c Call);

impl<'c> Arguments<'c> {
    fn wrong(self, name: &str) -> String {
        format!("its argument {name:?} is {:?}, which is not known or not of the right kind", self.0.arg(name))
    }

    /// A tensor that must be there.
    pub(crate) fn tensor(self, name: &str) -> Result<ValueId, String> {
        self.optional(name).ok_or_else(|| self.wrong(name))
    }

    /// A tensor that may be missing.
    pub(crate) fn optional(self, name: &str) -> Option<ValueId> {
        if let Arg::Value(value) = self.0.arg(name) { Some(*value) } else { None }
    }

    /// Tensors, none of them missing.
    pub(crate) fn tensors(self, name: &str) -> Result<Vec<ValueId>, String> {
        match self.0.arg(name) {
            Arg::Values(values) => values.iter().copied().collect::<Option<_>>().ok_or_else(|| self.wrong(name)),
            _ => Err(self.wrong(name)),
        }
    }

    /// A known integer.
    pub(crate) fn int(self, name: &str, default: i64) -> Result<i64, String> {
        match self.0.arg(name) {
            Arg::None => Ok(default),
            Arg::Int(size) => size.number().ok_or_else(|| self.wrong(name)),
            Arg::Bool(truth) => Ok(i64::from(*truth)),
            _ => Err(self.wrong(name)),
        }
    }

    /// A known integer that is not negative.
    pub(crate) fn natural(self, name: &str, default: u32) -> Result<u32, String> {
        u32::try_from(self.int(name, default.into())?).map_err(|_| self.wrong(name))
    }

    /// A dimension of `rank`, counted from the front.
    pub(crate) fn dim(self, name: &str, default: i64, rank: usize) -> Result<usize, String> {
        place(self.int(name, default)?, rank).ok_or_else(|| self.wrong(name))
    }

    /// Known integers; none if the argument is missing.
    pub(crate) fn ints(self, name: &str) -> Result<Vec<i64>, String> {
        match self.0.arg(name) {
            Arg::None => Ok(Vec::new()),
            Arg::Ints(sizes) => sizes.iter().map(Size::number).collect::<Option<_>>().ok_or_else(|| self.wrong(name)),
            Arg::Int(size) => Ok(vec![size.number().ok_or_else(|| self.wrong(name))?]),
            _ => Err(self.wrong(name)),
        }
    }

    /// A height and a width that are not negative. One number stands for both, or for the width if there is no height.
    pub(crate) fn pair(self, name: &str, default: u32, only_width: bool) -> Result<[u32; 2], String> {
        let numbers = self.ints(name)?.into_iter().map(u32::try_from).collect::<Result<Vec<_>, _>>();
        match numbers.map_err(|_| self.wrong(name))?.as_slice() {
            [] => Ok([default; 2]),
            [one] if only_width => Ok([default, *one]),
            [one] => Ok([*one; 2]),
            [height, width] if !only_width => Ok([*height, *width]),
            _ => Err(self.wrong(name)),
        }
    }

    /// A known number; none if the argument is missing.
    pub(crate) fn number(self, name: &str) -> Result<Option<f64>, String> {
        match self.0.arg(name) {
            Arg::None => Ok(None),
            Arg::Float(number) => Ok(Some(*number)),
            Arg::Int(_) | Arg::Bool(_) => self.int(name, 0).map(|number| Some(number as f64)),
            _ => Err(self.wrong(name)),
        }
    }

    /// A known number with a default.
    pub(crate) fn float(self, name: &str, default: f64) -> Result<f32, String> {
        self.number(name).map(|number| number.unwrap_or(default) as f32)
    }

    /// A truth value.
    pub(crate) fn bool(self, name: &str, default: bool) -> bool {
        if let Arg::Bool(truth) = self.0.arg(name) { *truth } else { default }
    }

    /// A word.
    pub(crate) fn text(self, name: &str) -> &'c str {
        if let Arg::Text(text) = self.0.arg(name) { text } else { "" }
    }
}
