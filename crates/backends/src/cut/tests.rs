//! Graphs as texts, and what each engine gets of them.

use super::cut;
use crate::testing::Toy;
use sconce_graph::engine::Engine;
use sconce_graph::{parse, verify};
use std::fmt::Write as _;
use std::sync::Arc;

mod whole;

/// The pieces as text: the engine with the values of the whole that it takes and gives, and what it computes; then what was
/// said.
fn pieces(text: &str, engines: &[Arc<dyn Engine>]) -> String {
    let graph = parse(text).unwrap();
    let offered: Vec<usize> = (0..engines.len()).collect();
    let cut = cut(&graph, engines, &offered);
    let mut told = String::new();
    for piece in cut.pieces {
        verify(&piece.graph).unwrap();
        let ids = |ids: &[sconce_graph::ValueId]| ids.iter().map(|id| format!(" %{}", id.0)).collect::<String>();
        let (name, inputs, outputs) = (engines[piece.engine].name(), ids(&piece.inputs), ids(&piece.outputs));
        let ops: Vec<_> = piece.graph.nodes.iter().map(|node| node.op.name()).collect();
        writeln!(told, "{name}:{inputs} -> {} ->{outputs}", ops.join(", ")).unwrap();
    }
    cut.refusals.iter().for_each(|refusal| writeln!(told, "{refusal}").unwrap());
    told
}

fn ab() -> [Arc<dyn Engine>; 3] {
    [
        Toy::taking("a", &["abs", "exp", "add", "convert", "copy"]),
        Toy::taking("b", &["exp", "log", "linear"]),
        Toy::last("c"),
    ]
}

#[test]
fn nodes_go_to_the_first_engine_that_takes_them() {
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = abs %0\n\
                %2: float32[4] = exp %1\n\
                %3: float32[4] = log %2\n\
                %4: float32[4] = sin %3\n\
                %5: float32[4] = cos %4\n\
                %6: float32[4] = sin %5\n\
                output %6\n";
    let expected = "a: %0 -> abs, exp -> %2\n\
                    b: %2 -> log -> %3\n\
                    c: %3 -> sin, cos, sin -> %6\n\
                    a does not run log: it was not told to\n\
                    a does not run sin: it was not told to\n\
                    b does not run sin: it was not told to\n\
                    a does not run cos: it was not told to\n\
                    b does not run cos: it was not told to\n";
    assert_eq!(pieces(text, &ab()), expected);
}

#[test]
fn what_one_engine_takes_is_one_piece() {
    let text = "%0: float32[4] = input\n%1: float32[4] = abs %0\n%2: float32[4] = add %1, %0\noutput %2, %1\n";
    assert_eq!(pieces(text, &ab()), "a: %0 -> abs, add -> %1 %2\n");
    // Nobody copies a graph that the last engine gets whole: what passes through and what is returned twice stays in it.
    let text = "%0: float32[4] = input\n%1: float32[4] = sin %0\noutput %1, %0, %1\n";
    let said = "a does not run sin: it was not told to\nb does not run sin: it was not told to\n";
    assert_eq!(pieces(text, &ab()), format!("c: %0 -> sin -> %1 %0 %1\n{said}"));
    assert_eq!(pieces(text, &ab()[2..]), "c: %0 -> sin -> %1 %0 %1\n");
    assert_eq!(pieces("%0: float32[4] = input\noutput %0\n", &ab()), "c: %0 ->  -> %0\n");
}

#[test]
fn a_node_joins_an_earlier_piece_if_what_it_reads_is_there() {
    // The second `abs` could run with the first; the third reads what is made in between.
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = abs %0\n\
                %2: float32[4] = sin %1\n\
                %3: float32[4] = abs %0\n\
                %4: float32[4] = abs %2\n\
                %5: float32[4] = cos %3\n\
                output %4, %5\n";
    let engines = [Toy::taking("a", &["abs"]), Toy::last("c")];
    let expected = "a: %0 -> abs, abs -> %1 %3\n\
                    c: %1 %3 -> sin, cos -> %2 %5\n\
                    a: %2 -> abs -> %4\n\
                    a does not run sin: it was not told to\n\
                    a does not run cos: it was not told to\n";
    assert_eq!(pieces(text, &engines), expected);
}

#[test]
fn steps_read_as_inputs_do() {
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = sin %0\n\
                %2: float32[4] = abs %0 then add %1\n\
                output %2\n";
    let engines = [Toy::taking("a", &["abs"]), Toy::last("c")];
    let expected = "c: %0 -> sin -> %1\na: %0 %1 -> abs -> %2\na does not run sin: it was not told to\n";
    assert_eq!(pieces(text, &engines), expected);
}

/// Who quantises rows is who reads them: the first engine that takes both, here the last, though the first takes one and the
/// second the other.
#[test]
fn rows_with_scales_of_their_own_stay_on_one_engine() {
    let text = "%0: float32[2, 4] = input\n\
                @0 = \"scales\"\n\
                %1: q8{axis: 0, scales: @0, zero: 0}[4, 4] = constant \"weight\"\n\
                %2: q8{token: 1}[2, 4] = convert %0\n\
                %3: q8{token: 1}[2, 4] = copy %2\n\
                %4: float32[2, 4] = linear %3, %1 {transposed: false}\n\
                %5: float32[2, 4] = exp %4\n\
                output %5\n";
    let expected = "c: %0 -> convert, copy, linear -> %4\n\
                    a: %4 -> exp -> %5\n\
                    a does not run linear: it was not told to\n\
                    b does not run convert: it was not told to\n";
    assert_eq!(pieces(text, &ab()), expected);
}

#[test]
fn values_that_pass_through_are_a_piece_of_the_last_engine() {
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = input\n\
                %2: float32[4] = constant \"c\"\n\
                %3: float32[4] = abs %0\n\
                output %1, %3, %2, %1, %3\n";
    assert_eq!(pieces(text, &ab()), "a: %0 -> abs -> %3\nc: %1 ->  -> %1 %2\n");
}

#[test]
fn what_is_read_by_several_pieces_is_given_once() {
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = abs %0\n\
                %2: float32[4] = sin %1\n\
                %3: float32[4] = log %1\n\
                %4: float32[4] = add %2, %3\n\
                output %4, %1\n";
    let expected = "a: %0 -> abs -> %1\n\
                    c: %1 -> sin -> %2\n\
                    b: %1 -> log -> %3\n\
                    a: %2 %3 -> add -> %4\n\
                    a does not run sin: it was not told to\n\
                    b does not run sin: it was not told to\n\
                    a does not run log: it was not told to\n";
    assert_eq!(pieces(text, &ab()), expected);
}

/// Pieces are as large as what is in them, so a graph that falls into many takes no more than one that does not.
#[test]
fn many_pieces_are_cut_in_time() {
    let mut text = "%0: float32[4] = input\n".to_owned();
    for node in 0..20_000 {
        let op = if node % 2 == 0 { "abs" } else { "sin" };
        writeln!(text, "%{}: float32[4] = {op} %{node}", node + 1).unwrap();
    }
    text += "output %20000\n";
    let graph = parse(&text).unwrap();
    let engines = [Toy::taking("a", &["abs"]), Toy::last("c")];
    let cut = cut(&graph, &engines, &[0, 1]);
    assert_eq!((cut.pieces.len(), cut.refusals.len()), (20_000, 1));
    assert_eq!(cut.pieces.iter().map(|piece| piece.graph.values.len()).sum::<usize>(), 40_000);
}
