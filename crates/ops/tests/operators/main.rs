//! Operators, called one at a time through the runtime, against values of PyTorch.
//!
//! A family has a module; [`support`] makes and runs the programs.
mod complex;
mod copies;
mod detection;
mod distributions;
mod fill;
mod fractional_pooling;
mod functions;
mod indexing;
mod linalg;
mod llama;
mod norms;
mod ordering;
mod pad;
mod polynomials;
mod pooling;
mod products;
mod quantized_weights;
mod resize;
mod scatter;
mod segments;
mod support;
mod training;
mod unique;

#[test]
fn every_name_stands_in_one_row() {
    let mut names: Vec<_> = sconce_ops::TABLES.iter().flat_map(|table| table.iter()).map(|op| op.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "in two rows: {twice:?}");
}
