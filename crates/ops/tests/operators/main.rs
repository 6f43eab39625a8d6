//! Operators, called one at a time through the runtime, against values of PyTorch.
//!
//! A family has a module; [`support`] makes and runs the programs.
mod complex;
mod copies;
mod fill;
mod indexing;
mod llama;
mod pad;
mod pooling;
mod resize;
mod products;
mod quantized_weights;
mod support;
mod training;
