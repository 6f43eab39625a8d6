//! Payloads of the XNNPACK delegate, node by node and type by type, against plain computations in `f64`.
//!
//! Every row makes a payload of one node (with conversions where the type asks for them) inside a program, runs it and
//! compares the outputs with what the node means. Results are exact where the arithmetic is: elements that only move,
//! and sums of bytes with known scales.
//!
//! | module | the one thing it knows |
//! |---|---|
//! | `program` | payloads and programs around them, and what elements stand for |
//! | `naive` | products and windows, pixel by pixel |
//! | `elementwise`, `layout`, `images`, `products` | the rows |

mod elementwise;
mod images;
mod layout;
mod naive;
mod products;
mod program;

use program::{Kind, Payload};
use sconce::Options;
use sconce::format::xnnpack::NONE;
use sconce::format::xnnpack::model::{FullyConnected, Graph, Operation};

/// A linear layer of three rows, in each of the four forms that payloads had: with and without a header, and with both
/// identifiers.
#[test]
fn every_form_of_payload_runs() {
    let mut payload = Payload::default();
    let (input, rows) = payload.input(Kind::Fp32, &[2, 4], -1.0..1.0);
    let (filter, weights) = payload.constant(Kind::Fp32, &[3, 4], -1.0..1.0);
    let output = payload.output(Kind::Fp32, &[2, 3]);
    let layer = FullyConnected { input1_id: input, filter_id: filter, bias_id: NONE, output_id: output, flags: 0 };
    payload.node(Operation::FullyConnected(layer), None);
    let expected = naive::linear(&rows, &weights);
    let with_header = payload.graph.write();
    let without = payload.graph.write_without_header();
    for (bytes, identifier_at) in [(with_header, 36), (without, 4)] {
        for identifier in [*b"XN00", *b"XN01"] {
            let mut bytes = bytes.clone();
            bytes[identifier_at..identifier_at + 4].copy_from_slice(&identifier);
            let found = payload.run_bytes(&bytes);
            program::check(&format!("{identifier:?} at {identifier_at}"), Kind::Fp32, &found[0], &expected, false);
        }
    }
}

/// Constants inside payloads are parts of the program's file, so that delegates that have some join as others do.
#[test]
fn payloads_with_constants_inside_join() {
    let mut first = Payload::default();
    let (input, rows) = first.input(Kind::Fp32, &[2, 4], -1.0..1.0);
    let (filter, weights) = first.constant(Kind::Fp32, &[3, 4], -1.0..1.0);
    let output = first.output(Kind::Fp32, &[2, 3]);
    let layer = FullyConnected { input1_id: input, filter_id: filter, bias_id: NONE, output_id: output, flags: 0 };
    first.node(Operation::FullyConnected(layer), None);
    let mut second = Payload::default();
    let (input, _) = second.input(Kind::Fp32, &[2, 3], -1.0..1.0);
    let (filter, further) = second.constant(Kind::Fp32, &[5, 3], -2.0..2.0);
    let output = second.output(Kind::Fp32, &[2, 5]);
    let layer = FullyConnected { input1_id: input, filter_id: filter, bias_id: NONE, output_id: output, flags: 0 };
    second.node(Operation::FullyConnected(layer), None);
    let expected = naive::linear(&naive::linear(&rows, &weights), &further);
    for inline in [false, true] {
        for write in [Graph::write, Graph::write_without_header] {
            let program = program::chained(&[(&first, write(&first.graph)), (&second, write(&second.graph))], inline);
            let module = Options::new().load(&program).unwrap();
            let calls: Vec<usize> = module.planned_calls("forward").unwrap().iter().map(|run| run.calls).collect();
            assert_eq!(calls, [2], "inline: {inline}");
            for plan in [true, false] {
                let module = Options::new().plan(plan).load(&program).unwrap();
                let found = first.run_module(&module);
                program::check("two layers", Kind::Fp32, &found[0], &expected, false);
            }
        }
    }
}
