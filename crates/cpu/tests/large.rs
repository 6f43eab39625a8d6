//! Graphs of many nodes are planned in time that grows with their number, whatever they are made of.
//!
//! A graph of very many blocks is held against many small graphs that have as many together. That they take as long is all that is
//! to be seen: work for all pairs of nodes would take 32 times as long, and half of that is left for caches and for what else a
//! machine does.
mod support;

use sconce_cpu::{Model, Options};
use std::fmt::Write;
use std::time::{Duration, Instant};
use support::{Weights, graph};

/// Graphs, and how many blocks each has.
const MANY: (usize, usize) = (32, 250);
const ONE: (usize, usize) = (1, 8000);

/// A graph of so many blocks. `{0}` is the value that a block reads, those that it makes are `{1}` and so on, and the last of
/// them is what the next one reads.
fn repeated(head: &str, first: usize, block: &str, made: usize, blocks: usize) -> String {
    let mut text = head.to_owned();
    for index in 0..blocks {
        let mut lines = block.to_owned();
        for number in 0..=made {
            lines = lines.replace(&format!("{{{number}}}"), &format!("%{}", first + index * made + number));
        }
        text += &lines;
    }
    writeln!(text, "output %{}", first + blocks * made).unwrap();
    text
}

/// The shortest of three times to make models of so many graphs, their plans included, each of so many steps.
fn time(text: &str, graphs: usize, steps: usize) -> Duration {
    let (weights, graph) = (Weights::all(vec![0; 16 * 16 * 4]), graph(text));
    let times = (0..3).map(|_| {
        let start = Instant::now();
        for _ in 0..graphs {
            let model = Model::new(graph.clone(), Options::default(), &weights).unwrap();
            let sizes = model.graph().ty(model.graph().inputs[0]).sizes();
            assert_eq!(model.plan(&[&sizes], 2).unwrap().steps().len(), steps);
        }
        start.elapsed()
    });
    times.min().unwrap()
}

fn grows_slowly(head: &str, first: usize, block: &str, made: usize, steps: impl Fn(usize) -> usize) {
    let [small, large] =
        [MANY, ONE].map(|(graphs, blocks)| time(&repeated(head, first, block, made, blocks), graphs, steps(blocks)));
    assert!(large < 16 * small, "{small:?} for {MANY:?}, {large:?} for {ONE:?}\n{block}");
}

#[test]
fn concats_and_slices() {
    let block = "{1}: float32[4, 8] = exp {0}\n\
                 {2}: float32[4, 8] = sin {0}\n\
                 {3}: float32[4, 16] = concat {1}, {2} {axis: 1}\n\
                 {4}: float32[4, 8] = slice {3} {starts: [0, 4], sizes: [4, 8]}\n";
    grows_slowly("%0: float32[4, 8] = input\n", 0, block, 4, |blocks| 4 * blocks);
}

#[test]
fn concats_of_concats() {
    let block = "{1}: float32[1, 8] = exp {0}\n\
                 {2}: float32[2, 8] = concat {0}, {1} {axis: 0}\n\
                 {3}: float32[1, 8] = slice {2} {starts: [1, 0], sizes: [1, 8]}\n";
    grows_slowly("%0: float32[1, 8] = input\n", 0, block, 3, |blocks| 2 * blocks + 1);
}

#[test]
fn attention() {
    let block = "{1}: float32[1, 2, 8, 4] = transpose {0} {order: [0, 1, 3, 2]}\n\
                 {2}: float32[1, 2, 4, 4] = matmul {0}, {1}\n\
                 {3}: float32[1, 2, 4, 4] = softmax {2}\n\
                 {4}: float32[1, 2, 4, 8] = matmul {3}, {0}\n";
    grows_slowly("%0: float32[1, 2, 4, 8] = input\n", 0, block, 4, |blocks| blocks);
}

#[test]
fn cells() {
    let head = "%0: float32[1, 16] = input\n%1: float32[16, 16] = constant \"w\"\n%2: float32[1, 16] = tanh %0\n";
    let block = "{1}: float32[1, 16] = linear {0}, %1 {transposed: false}\n\
                 {2}: float32[1, 16] = sigmoid {1}\n\
                 {3}: float32[1, 16] = multiply {2}, {0}\n\
                 {4}: float32[1, 16] = add {3}, %0\n";
    grows_slowly(head, 2, block, 4, |blocks| blocks + 1);
}
