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
use sconce::format::xnnpack::NONE;
use sconce::format::xnnpack::model::{FullyConnected, Operation};

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
