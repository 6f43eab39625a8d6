//! All rules, by family.

mod activation;
mod attention;
mod bag;
mod complex;
mod conv;
mod create;
mod detection;
mod dropout;
mod einsum;
mod elementwise;
mod fft;
mod grouped;
mod index;
mod join;
mod linalg;
mod linear;
mod loss;
mod names;
mod norm;
mod pad;
mod pool;
mod recurrent;
mod reduce;
mod resize;
mod shape;
mod stft;

use super::{Rule, Site};
use crate::Error;
use crate::ir::ValueId;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A table of rules.
type Table = &'static [(&'static str, Rule)];

/// What a rule gives: the values that stand for the call's results.
type Answer = Result<Vec<ValueId>, Error>;

const TABLES: &[Table] = &[
    activation::RULES,
    attention::RULES,
    bag::RULES,
    complex::RULES,
    conv::RULES,
    create::RULES,
    detection::RULES,
    dropout::RULES,
    elementwise::RULES,
    fft::RULES,
    grouped::RULES,
    index::RULES,
    join::RULES,
    linalg::RULES,
    linear::RULES,
    loss::RULES,
    norm::RULES,
    pad::RULES,
    pool::RULES,
    recurrent::RULES,
    reduce::RULES,
    resize::RULES,
    shape::RULES,
    stft::RULES,
];

static RULES: LazyLock<HashMap<&'static str, Rule>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter().copied()).collect());

/// The rule for an operator.
pub(crate) fn rule(name: &str) -> Option<Rule> {
    RULES.get(name).copied().or_else(|| names::rule(name))
}

/// The tensor that a call is about.
fn subject(site: &Site<'_, '_>) -> Result<ValueId, Error> {
    site.optional_tensor("self").map_or_else(|| site.tensor("input"), Ok)
}
