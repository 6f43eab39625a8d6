//! Operators, called one at a time through the runtime, against values of PyTorch.
//!
//! A family has a module; [`support`] makes and runs the programs.
mod complex;
mod copies;
mod fill;
mod functions;
mod indexing;
mod llama;
mod ordering;
mod pad;
mod pooling;
mod products;
mod quantized_weights;
mod resize;
mod scatter;
mod support;
mod training;
