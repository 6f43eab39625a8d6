//! Operators, called one at a time through the runtime, against values of PyTorch.
//!
//! A family has a module; [`support`] makes and runs the programs.
mod copies;
mod fill;
mod functions;
mod indexing;
mod norms;
mod ordering;
mod pad;
mod scatter;
mod support;
