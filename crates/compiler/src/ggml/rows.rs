//! The operators, by family: each in the operations of the payload.

mod maps;
mod products;
mod shape;

use super::builder::Builder;
use crate::ir::{Call, ValueId};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Adds what a call computes, or says why not.
type Nodes = fn(&mut Builder<'_>, &Call) -> Result<(), String>;

/// An operator.
type Row = (&'static str, Nodes);

const TABLES: &[&[Row]] = &[maps::ROWS, products::ROWS, shape::ROWS];

static ROWS: LazyLock<HashMap<&'static str, Nodes>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter().copied()).collect());

/// The operators.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().flat_map(|table| table.iter()).map(|(name, _)| *name)
}

/// How an operator becomes operations.
pub(super) fn find(operator: &str) -> Option<Nodes> {
    ROWS.get(operator).copied()
}

/// The tensor whose slices a call replaces.
pub(super) fn puts(call: &Call) -> Option<ValueId> {
    shape::put(call).ok().map(|put| put.into)
}
