//! Whatever the engines take, the pieces of a graph give what the whole gives.

use crate::cut::{Piece, cut};
use sconce_cpu::Cpu;
use sconce_graph::engine::{Engine, Error, Model, Operand, OperandMut, Options, Run};
use sconce_graph::{Constants, Graph, Node, Source, ValueId, parse};
use sconce_parallel::Serial;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Numbers of a row and of a column: all values are square, so that any node can read any.
const SIDE: usize = 3;

/// The same numbers in every run.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// A graph of up to twelve nodes with two inputs and a constant, any of whose values are outputs, some more than once.
fn graph(random: &mut Random) -> String {
    let ty = format!("float32[{SIDE}, {SIDE}]");
    let mut text = format!("%0: {ty} = input\n%1: {ty} = input\n%2: {ty} = constant \"c\"\n");
    let count = 3 + random.below(13);
    for id in 3..count {
        let mut value = || format!("%{}", random.below(id));
        let (one, other, third) = (value(), value(), value());
        let node = match random.below(4) {
            0 => format!("{} {one}, {other}", random.pick(&["add", "subtract", "maximum", "minimum"])),
            1 => format!("{} {one} then add {third}", random.pick(&["tanh", "sigmoid"])),
            2 => format!("transpose {one} {{order: [1, 0]}}"),
            _ => format!("{} {one}", random.pick(&["abs", "negate", "softmax", "tanh"])),
        };
        writeln!(text, "%{id}: {ty} = {node}").unwrap();
    }
    let outputs: Vec<_> = (0..1 + random.below(4)).map(|_| format!("%{}", random.below(count))).collect();
    writeln!(text, "output {}", outputs.join(", ")).unwrap();
    text
}

/// Takes nodes by the numbers of their results.
struct Fickle(u32);

impl Engine for Fickle {
    fn name(&self) -> &str {
        "fickle"
    }

    fn takes(&self, _: &Graph, node: &Node) -> Result<(), String> {
        let number = node.outputs[0].0;
        if self.0 >> (number % 32) & 1 == 0 { Ok(()) } else { Err(format!("it does not like %{number}")) }
    }

    fn model(&self, graph: Graph, options: &Options, constants: &dyn Constants) -> Result<Arc<dyn Model>, Error> {
        Cpu.model(graph, options, constants)
    }
}

struct OneConstant(Vec<u8>);

impl Constants for OneConstant {
    fn bytes<'a>(&'a self, _: &'a Source) -> Option<&'a [u8]> {
        Some(&self.0)
    }
}

/// What a graph gives.
fn run(graph: Graph, inputs: &[&[u8]], constants: &dyn Constants) -> Vec<Vec<u8>> {
    let count = graph.outputs.len();
    let mut session = Cpu.model(graph, &Options::default(), constants).unwrap().session();
    let made = session.plan(&vec![&[SIDE, SIDE][..]; inputs.len()], 1).unwrap();
    assert_eq!(made.len(), count);
    let mut outputs = vec![vec![0; SIDE * SIDE * 4]; count];
    let reads: Vec<_> = inputs.iter().map(|bytes| Operand::Host(bytes)).collect();
    let mut writes: Vec<_> = outputs.iter_mut().map(|bytes| OperandMut::Host(bytes)).collect();
    session.submit(&Run { parallel: &Serial, constants }, &reads, &mut writes).unwrap();
    session.wait(&mut writes).unwrap();
    outputs
}

fn run_pieces(pieces: Vec<Piece>, known: &mut HashMap<ValueId, Vec<u8>>, constants: &dyn Constants) {
    for piece in pieces {
        let inputs: Vec<&[u8]> = piece.inputs.iter().map(|id| &known[id][..]).collect();
        let outputs = run(piece.graph, &inputs, constants);
        known.extend(piece.outputs.into_iter().zip(outputs));
    }
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn pieces_give_what_the_whole_gives() {
    let (mut random, mut several) = (Random(1), 0);
    for round in 0..300 {
        let text = graph(&mut random);
        let graph = parse(&text).unwrap();
        let mut value =
            || (0..SIDE * SIDE).flat_map(|_| (random.below(64) as f32 / 16.0 - 2.0).to_le_bytes()).collect();
        let (inputs, constants) = ([value(), value()], OneConstant(value()));
        let engines: Vec<Arc<dyn Engine>> = vec![
            Arc::new(Fickle(random.below(1 << 16) as u32)),
            Arc::new(Fickle(random.below(1 << 16) as u32)),
            Arc::new(Cpu),
        ];
        let pieces = cut(&graph, &engines, &[0, 1, 2]).pieces;
        several += usize::from(pieces.len() > 1);
        let mut known: HashMap<ValueId, Vec<u8>> = graph.inputs.iter().copied().zip(inputs.clone()).collect();
        run_pieces(pieces, &mut known, &constants);
        let outputs = graph.outputs.clone();
        let expected = run(graph, &[&inputs[0], &inputs[1]], &constants);
        for (id, expected) in outputs.iter().zip(expected) {
            for (found, expected) in numbers(&known[id]).into_iter().zip(numbers(&expected)) {
                assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "round {round}, {id} of\n{text}");
            }
        }
    }
    assert!(several > 200, "only {several} graphs fell into pieces");
}
