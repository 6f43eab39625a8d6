//! What became of a program's calls, for those who ask.

use crate::ir::{Call, Source};
use std::fmt;
use std::sync::Arc;

/// A part that a backend runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// The partitioner's name.
    pub backend: String,
    /// The method it was cut from.
    pub method: String,
    /// How many calls it stands for.
    pub calls: usize,
}

/// A call that a partitioner did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The partitioner's name.
    pub backend: String,
    /// The method the call is in.
    pub method: String,
    /// The operator, such as `aten::topk`.
    pub operator: String,
    /// Why, in words.
    pub reason: String,
    /// Where it came from.
    pub source: Option<Arc<Source>>,
}

impl Refused {
    pub(super) fn new(backend: &str, method: &str, call: &Call, reason: &str) -> Self {
        Self {
            backend: backend.to_owned(),
            method: method.to_owned(),
            operator: call.operator().unwrap_or("a branch, a loop or another delegate").to_owned(),
            reason: reason.to_owned(),
            source: call.source.clone(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} stays: {}", self.backend, self.operator, self.reason)?;
        let Some(source) = &self.source else { return Ok(()) };
        if !source.module.is_empty() {
            write!(f, "; module {}", source.module)?;
        }
        match source.place() {
            "" => Ok(()),
            place => write!(f, "; {place}"),
        }
    }
}

/// What became of a program's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The parts, in the order in which they were made.
    pub delegated: Vec<Delegated>,
    /// The calls that partitioners did not take. With several partitioners a call can be here more than once, and another
    /// one may have taken it.
    pub refused: Vec<Refused>,
    /// How many calls operators of the runtime run, in all methods.
    pub left: usize,
}

impl Report {
    /// How many calls there are, whoever runs them.
    pub fn calls(&self) -> usize {
        self.left + self.delegated.iter().map(|part| part.calls).sum::<usize>()
    }

    /// For each backend that took something: its name, how many parts and how many calls.
    pub fn by_backend(&self) -> Vec<(&str, usize, usize)> {
        let mut rows: Vec<(&str, usize, usize)> = Vec::new();
        for part in &self.delegated {
            match rows.iter_mut().find(|(name, ..)| *name == part.backend) {
                Some((_, parts, calls)) => (*parts, *calls) = (*parts + 1, *calls + part.calls),
                None => rows.push((&part.backend, 1, part.calls)),
            }
        }
        rows
    }
}
