//! Attention as one step is attention in many, and what its definition says.
mod support;

use sconce_cpu::{Model, Options};
use sconce_parallel::{Parallel, Pool, Serial};
use support::{NOTHING, floats, graph, to_bytes};

const BATCH: usize = 2;
const HEADS: usize = 3;
const FEATURES: usize = 20;
const WIDTH: usize = 12;
const SCALE: f32 = 0.25;

/// Numbers from -1 to 1 that differ from place to place.
fn numbers(start: u32, count: usize) -> Vec<f32> {
    support::numbers(start, count).into_iter().map(|number| 2.0 * number).collect()
}

/// An attention: which of queries, keys, values and results have positions first, and what is known of the rest.
#[derive(Clone, Debug)]
struct Case {
    positions_first: [bool; 4],
    queries: usize,
    keys: usize,
    /// The sizes of the mask.
    mask: Option<[usize; 4]>,
    safe: bool,
}

impl Case {
    /// Sizes of rows as they lie.
    fn sizes(&self, operand: usize) -> [usize; 4] {
        let (positions, features) = match operand {
            0 => (self.queries, FEATURES),
            1 => (self.keys, FEATURES),
            2 => (self.keys, WIDTH),
            _ => (self.queries, WIDTH),
        };
        match self.positions_first[operand] {
            true => [BATCH, positions, HEADS, features],
            false => [BATCH, HEADS, positions, features],
        }
    }

    /// The place of the first feature of a row.
    fn row(&self, operand: usize, [batch, head, position]: [usize; 3]) -> usize {
        let [_, one, other, features] = self.sizes(operand);
        let (i, j) = if self.positions_first[operand] { (position, head) } else { (head, position) };
        ((batch * one + i) * other + j) * features
    }

    fn text(&self, outputs: &str) -> String {
        let &Case { queries, keys, .. } = self;
        let list = |sizes: [usize; 4]| format!("float32{sizes:?}");
        let rows = |positions, features| list([BATCH, HEADS, positions, features]);
        let turned = |operand: usize| if self.positions_first[operand] { "[0, 2, 1, 3]" } else { "[0, 1, 2, 3]" };
        let key_order = if self.positions_first[1] { "[0, 2, 3, 1]" } else { "[0, 1, 3, 2]" };
        let scores = rows(queries, keys);
        let hidden = format!("bool[{BATCH}, {HEADS}, {queries}, {keys}]");
        let row = format!("bool[{BATCH}, {HEADS}, {queries}, 1]");
        let (mask, masked) = match self.mask {
            Some(sizes) => (format!("%3: {} = input\n", list(sizes)), format!("%9: {scores} = add %8, %3\n")),
            None => (String::new(), format!("%9: {scores} = copy %8\n")),
        };
        let safe = match self.safe {
            true => format!(
                "%11: {hidden} = compare %9 {{how: equal, value: -inf}}\n%12: {hidden} = not %11\n\
                 %13: {row} = any %12\n%14: {row} = not %13\n%15: {scores} = fill %10 {{value: 0}}\n\
                 %16: {scores} = select %14, %15, %10\n"
            ),
            false => format!("%16: {scores} = copy %10\n"),
        };
        format!(
            "%0: {} = input\n%1: {} = input\n%2: {} = input\n{mask}\
             %4: {} = transpose %0 {{order: {}}}\n\
             %5: {} = times %4 {{value: {SCALE}}}\n\
             %6: {} = transpose %1 {{order: {key_order}}}\n\
             %7: {} = transpose %2 {{order: {}}}\n\
             %8: {scores} = matmul %5, %6\n{masked}\
             %10: {scores} = softmax %9\n{safe}\
             %17: {} = matmul %16, %7\n\
             %18: {} = transpose %17 {{order: {}}}\n\
             output {outputs}\n",
            list(self.sizes(0)),
            list(self.sizes(1)),
            list(self.sizes(2)),
            rows(queries, FEATURES),
            turned(0),
            rows(queries, FEATURES),
            rows(FEATURES, keys),
            rows(keys, WIDTH),
            turned(2),
            rows(queries, WIDTH),
            list(self.sizes(3)),
            turned(3),
        )
    }

    /// Queries, keys, values and the mask, which hides every key from the first query and some from others.
    fn inputs(&self) -> Vec<Vec<f32>> {
        let mut inputs: Vec<_> =
            (0..3).map(|operand| numbers(100_000 * operand as u32, self.sizes(operand).iter().product())).collect();
        if let Some(sizes) = self.mask {
            let mut mask = numbers(7, sizes.iter().product());
            mask[..sizes[3]].fill(f32::NEG_INFINITY);
            mask.iter_mut().skip(sizes[3] + 1).step_by(7).for_each(|x| *x = f32::NEG_INFINITY);
            inputs.push(mask);
        }
        inputs
    }

    /// The definition, in wider numbers.
    fn expected(&self, inputs: &[Vec<f32>]) -> Vec<f64> {
        let mut results = vec![0.0; self.sizes(3).iter().product()];
        let number = |operand: usize, at: usize| f64::from(inputs[operand][at]);
        for i in 0..BATCH * HEADS * self.queries {
            let [batch, head, query] = [i / self.queries / HEADS, i / self.queries % HEADS, i % self.queries];
            let from = self.row(0, [batch, head, query]);
            let score = |key: usize| {
                let to = self.row(1, [batch, head, key]);
                let product: f64 = (0..FEATURES).map(|d| number(0, from + d) * number(1, to + d)).sum();
                let place = self.mask.map(|sizes| {
                    let within = [batch, head, query, key].into_iter().zip(sizes);
                    within.fold(0, |place, (i, size)| place * size + if size == 1 { 0 } else { i })
                });
                product * f64::from(SCALE) + place.map_or(0.0, |place| number(3, place))
            };
            let scores: Vec<f64> = (0..self.keys).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let at = self.row(3, [batch, head, query]);
            for (d, result) in results[at..at + WIDTH].iter_mut().enumerate() {
                let value = |key: usize| number(2, self.row(2, [batch, head, key]) + d);
                let total: f64 = weights.iter().enumerate().map(|(key, weight)| weight * value(key)).sum();
                *result = if self.safe && most == f64::NEG_INFINITY { 0.0 } else { total / sum };
            }
        }
        results
    }
}

/// The last output, and what made it.
fn run(text: &str, inputs: &[Vec<f32>], par: &dyn Parallel) -> (Vec<f32>, String) {
    let inputs: Vec<_> = inputs.iter().map(|input| to_bytes(input)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let (mut results, steps) = support::run(graph(text), Options::default(), &NOTHING, par, &inputs);
    (floats(&results.pop().unwrap()), steps.join("; "))
}

fn check(case: &Case) {
    let (inputs, threads) = (case.inputs(), Pool::new(2));
    let pool = threads.lease();
    let expected = case.expected(&inputs);
    for par in [&Serial as &dyn Parallel, &pool] {
        // A score that is returned keeps the operations apart.
        for (outputs, together) in [("%18", true), ("%9, %18", false)] {
            let (found, steps) = run(&case.text(outputs), &inputs, par);
            assert_eq!(steps.contains("attention"), together, "{case:?}: {steps}");
            assert!(!together || !steps.contains(';'), "{case:?}: {steps}");
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let alike = (f64::from(*found) - expected).abs() < 1e-5 || found.is_nan() && expected.is_nan();
                assert!(alike, "{case:?} at {i}: {found} and {expected}, {steps}");
            }
        }
    }
}

#[test]
fn attention_lies_in_every_order() {
    for order in 0..16 {
        let positions_first = [1, 2, 4, 8].map(|bit| order & bit != 0);
        let (mask, safe) = (Some([BATCH, 1, 9, 11]), order % 3 == 0);
        check(&Case { positions_first, queries: 9, keys: 11, mask, safe });
    }
}

#[test]
fn sizes_around_the_edges_of_tiles() {
    for (queries, keys) in [(1, 1), (1, 300), (31, 33), (256, 17), (257, 32), (70, 256), (33, 513)] {
        for positions_first in [[true; 4], [false; 4]] {
            check(&Case { positions_first, queries, keys, mask: None, safe: true });
        }
    }
}

#[test]
fn masks_broadcast_and_hide() {
    let (queries, keys) = (65, 70);
    for mask in [[1, 1, queries, keys], [BATCH, 1, 1, keys], [BATCH, HEADS, queries, keys], [1, HEADS, queries, 1]] {
        for safe in [true, false] {
            check(&Case { positions_first: [true; 4], queries, keys, mask: Some(mask), safe });
        }
    }
}

#[test]
fn sizes_may_be_smaller_than_planned() {
    let text = "%0: float32[1, n <= 64, 2, 8] = input
%1: float32[1, 2, n <= 64, 8] = transpose %0 {order: [0, 2, 1, 3]}
%2: float32[1, 2, 8, n <= 64] = transpose %0 {order: [0, 2, 3, 1]}
%3: float32[1, 2, n <= 64, n <= 64] = matmul %1, %2
%4: float32[1, 2, n <= 64, n <= 64] = softmax %3
%5: float32[1, 2, n <= 64, 8] = matmul %4, %1
%6: float32[1, n <= 64, 2, 8] = transpose %5 {order: [0, 2, 1, 3]}
output %6
";
    let model = Model::new(graph(text), Options::default(), &NOTHING).unwrap();
    for n in [64, 7, 1] {
        let plan = model.plan(&[&[1, n, 2, 8]], 1).unwrap();
        assert_eq!(*plan.outputs()[0], [1, n, 2, 8]);
        assert_eq!(plan.steps().len(), 1);
    }
}
