//! All rules, by family.

mod linear;
mod shape;

use super::Rule;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A table of rules.
type Table = &'static [(&'static str, Rule)];

const TABLES: &[Table] = &[linear::RULES, shape::RULES];

static RULES: LazyLock<HashMap<&'static str, Rule>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter().copied()).collect());

/// The rule for an operator.
pub(crate) fn rule(name: &str) -> Option<Rule> {
    RULES.get(name).copied()
}
