//! The gated delta rule: linear attention whose state forgets and corrects itself.
//!
//! For each token, with a state `S` of `features x width` per head:
//!
//! ```text
//! S = decay * S                      per row of S, or one number for all rows
//! S = S + k (beta * (v - kᵀ S))      what the state would answer to k is corrected towards v
//! out = qᵀ S
//! ```
//!
//! Columns of the state are independent of each other, so they are taken in strips that stay in the first-level cache
//! while all tokens pass. Several heads of queries may read one state.
use crate::isa::Isa;
use crate::split;
use sconce_parallel::Parallel;

/// Columns of a state that are worked on at a time.
const STRIP: usize = 32;

/// Sizes and inputs; all tensors are `[batch, head, token, ...]`, row-major.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRule<'a> {
    /// Query heads that share a state.
    pub group: usize,
    /// Number of tokens.
    pub tokens: usize,
    /// Features of queries and keys: rows of a state.
    pub features: usize,
    /// Features of values and results: columns of a state.
    pub width: usize,
    /// `[states, group, tokens, features]`
    pub query: &'a [f32],
    /// `[states, tokens, features]`
    pub key: &'a [f32],
    /// `[states, tokens, width]`
    pub value: &'a [f32],
    /// `[states, tokens, features]`, or `[states, tokens]`
    pub decay: &'a [f32],
    /// `[states, tokens]`
    pub beta: &'a [f32],
}

/// Runs all tokens: `states` go from before the first token to after the last, `out` is `[states, group, tokens,
/// width]`.
pub fn delta_rule(isa: Isa, par: &dyn Parallel, rule: &DeltaRule<'_>, states: &mut [f32], out: &mut [f32]) {
    let DeltaRule { group, tokens, features, width, .. } = *rule;
    if out.is_empty() {
        return;
    }
    if features == 0 {
        return out.fill(0.0);
    }
    let count = states.len() / (features * width);
    assert_eq!(out.len(), count * group * tokens * width, "results of {count} states");
    assert_eq!(rule.query.len(), count * group * tokens * features, "queries of {count} states");
    assert_eq!(rule.key.len(), count * tokens * features, "keys of {count} states");
    assert_eq!(rule.value.len(), count * tokens * width, "values of {count} states");
    assert_eq!(rule.beta.len(), count * tokens, "gates of {count} states");
    assert!([rule.beta.len(), rule.key.len()].contains(&rule.decay.len()), "decays of {count} states");
    split::chunks2(par, (states, features * width), (out, group * tokens * width), |i, state, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                for first in (0..width).step_by(STRIP) {
                    match width - first {
                        STRIP.. => strip(rule, i, first, STRIP, state, out),
                        rest => strip(rule, i, first, rest, state, out),
                    }
                }
            },
        );
    });
}

/// Columns `first..first + n` of state `i`.
#[inline(always)]
fn strip(rule: &DeltaRule<'_>, i: usize, first: usize, n: usize, state: &mut [f32], out: &mut [f32]) {
    let DeltaRule { group, tokens, features, width, .. } = *rule;
    let per_feature = rule.decay.len() == rule.key.len();
    for token in (0..tokens).map(|t| i * tokens + t) {
        let key = &rule.key[token * features..][..features];
        let decay = |row: usize| if per_feature { rule.decay[token * features + row] } else { rule.decay[token] };
        let mut answer = [0.0f32; STRIP];
        for (row, k) in key.iter().enumerate() {
            let (state, decay) = (&mut state[row * width + first..][..n], decay(row));
            for (answer, s) in answer.iter_mut().zip(state) {
                *s *= decay;
                *answer += k * *s;
            }
        }
        let (value, beta) = (&rule.value[token * width + first..][..n], rule.beta[token]);
        answer.iter_mut().zip(value).for_each(|(answer, v)| *answer = (v - *answer) * beta);
        for (row, k) in key.iter().enumerate() {
            let state = &mut state[row * width + first..][..n];
            state.iter_mut().zip(&answer).for_each(|(s, correction)| *s += k * correction);
        }
        for head in 0..group {
            let at = head * tokens + token - i * tokens;
            let query = &rule.query[(i * group * tokens + at) * features..][..features];
            let mut sums = [0.0f32; STRIP];
            for (row, q) in query.iter().enumerate() {
                sums.iter_mut().zip(&state[row * width + first..][..n]).for_each(|(sum, s)| *sum += q * s);
            }
            out[at * width + first..][..n].copy_from_slice(&sums[..n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close, pool};

    /// The definition, in `f64`, for one state.
    fn naive(rule: &DeltaRule<'_>, i: usize, state: &mut [f64]) -> Vec<f32> {
        let DeltaRule { group, tokens, features, width, .. } = *rule;
        let mut out = vec![0.0; group * tokens * width];
        for t in 0..tokens {
            let token = i * tokens + t;
            for row in 0..features {
                let per_feature = rule.decay.len() == rule.key.len();
                let decay = if per_feature { rule.decay[token * features + row] } else { rule.decay[token] };
                state[row * width..][..width].iter_mut().for_each(|s| *s *= f64::from(decay));
            }
            let k = |row: usize| f64::from(rule.key[token * features + row]);
            for column in 0..width {
                let answer: f64 = (0..features).map(|row| k(row) * state[row * width + column]).sum();
                let correction = (f64::from(rule.value[token * width + column]) - answer) * f64::from(rule.beta[token]);
                (0..features).for_each(|row| state[row * width + column] += k(row) * correction);
                for head in 0..group {
                    let query = &rule.query[((i * group + head) * tokens + t) * features..];
                    let sum: f64 = (0..features).map(|row| f64::from(query[row]) * state[row * width + column]).sum();
                    out[(head * tokens + t) * width + column] = sum as f32;
                }
            }
        }
        out
    }

    #[test]
    fn agrees_with_the_definition() {
        let (mut random, pool) = (Random::new(5), pool());
        for (states, group, tokens, features, width) in
            [(1, 1, 1, 1, 1), (3, 2, 5, 4, 7), (2, 1, 9, 8, 33), (2, 3, 4, 5, 64), (2, 2, 0, 3, 3), (1, 2, 3, 0, 4)]
        {
            for per_feature in [true, false] {
                let query = random.floats(states * group * tokens * features);
                let key = random.floats(states * tokens * features);
                let value = random.floats(states * tokens * width);
                let decay = random.floats(states * tokens * if per_feature { features } else { 1 });
                let beta = random.floats(states * tokens);
                let (query, key, value, decay, beta) = (&query[..], &key[..], &value[..], &decay[..], &beta[..]);
                let rule = DeltaRule { group, tokens, features, width, query, key, value, decay, beta };
                let start = random.floats(states * features * width);
                let mut after: Vec<f64> = start.iter().map(|&x| x.into()).collect();
                let expected: Vec<f32> = (0..states)
                    .flat_map(|i| naive(&rule, i, &mut after[i * features * width..][..features * width]))
                    .collect();
                let after: Vec<f32> = after.iter().map(|&x| x as f32).collect();
                for isa in Isa::available() {
                    let (mut state, mut out) = (start.clone(), vec![f32::NAN; expected.len()]);
                    delta_rule(isa, &pool, &rule, &mut state, &mut out);
                    assert_close(&out, &expected, 1e-4, &(states, group, tokens, features, width));
                    assert_close(&state, &after, 1e-4, &(states, group, tokens, features, width));
                }
            }
        }
    }
}
