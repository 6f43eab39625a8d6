//! Operators that are others by another name.

use super::Answer;
use crate::lower::{Rule, Site};

/// Base names and what else they are called; overloads keep theirs.
const NAMES: &[(&str, &str)] = &[
    ("__and__", "bitwise_and"),
    ("__lshift__", "bitwise_left_shift"),
    ("__or__", "bitwise_or"),
    ("__rshift__", "bitwise_right_shift"),
    ("__xor__", "bitwise_xor"),
    ("_unsafe_index", "index"),
    ("_unsafe_index_put", "index_put"),
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("clip", "clamp"),
    ("concat", "cat"),
    ("concatenate", "cat"),
    ("det", "linalg_det"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("ger", "outer"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("inverse", "linalg_inv"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("linalg_matmul", "matmul"),
    ("linalg_vecdot", "vecdot"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("row_stack", "vstack"),
    ("special_digamma", "digamma"),
    ("special_erf", "erf"),
    ("special_erfc", "erfc"),
    ("special_erfinv", "erfinv"),
    ("special_exp2", "exp2"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_gammainc", "igamma"),
    ("special_gammaincc", "igammac"),
    ("special_gammaln", "lgamma"),
    ("special_i0", "i0"),
    ("special_log1p", "log1p"),
    ("special_log_softmax", "log_softmax"),
    ("special_logit", "logit"),
    ("special_logsumexp", "logsumexp"),
    ("special_polygamma", "polygamma"),
    ("special_psi", "digamma"),
    ("special_round", "round"),
    ("special_sinc", "sinc"),
    ("special_softmax", "softmax"),
    ("special_xlogy", "xlogy"),
    ("subtract", "sub"),
    ("swapaxes", "transpose"),
    ("swapdims", "transpose"),
    ("true_divide", "div"),
    ("unsafe_chunk", "chunk"),
    ("unsafe_split", "split"),
    ("unsafe_split_with_sizes", "split_with_sizes"),
];

/// The rule for an operator with another name.
pub(super) fn rule(name: &str) -> Option<Rule> {
    other_name(name).map(|_| rename as Rule)
}

fn other_name(name: &str) -> Option<String> {
    let own = name.strip_prefix("aten::")?;
    let (base, overload) = own.split_at(own.find('.').unwrap_or(own.len()));
    let place = NAMES.binary_search_by_key(&base, |&(base, _)| base).ok()?;
    // Both ways of exchanging two dimensions have no overload; the one that stays is named after its integers.
    let overload = if NAMES[place].1 == "transpose" { ".int" } else { overload };
    Some(format!("aten::{}{overload}", NAMES[place].1))
}

fn rename(site: &mut Site<'_, '_>) -> Answer {
    let name = site.call.operator().and_then(other_name).unwrap_or_default();
    if name == "aten::transpose.int" {
        let value = site.tensor("self")?;
        let rank = site.ty(value).rank();
        let dim = |a: &str, b: &str| {
            if site.int(a, -9).is_ok_and(|dim| dim != -9) { site.dim(a, 0, rank) } else { site.dim(b, 0, rank) }
        };
        let (a, b) = (dim("axis0", "dim0")?, dim("axis1", "dim1")?);
        return Ok(vec![if rank == 0 { value } else { site.transposed(value, a, b) }]);
    }
    Ok(site.renamed(name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(super::NAMES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
