//! The bytes in ExecuTorch files.
//!
//! | module | file |
//! |---|---|
//! | [`pte`] | `.pte`: a compiled program |
//! | [`ptd`] | `.ptd`: tensors that programs keep outside |
//! | [`bpte`] | `.bpte`: a program bundled with test cases |
//! | [`xnnpack`] | the payload of the XNNPACK delegate |
//! | `ggml` | the payload of the ggml delegate (with the feature `write`: it is read into owned values) |
//! | `gguf` | GGUF: weights of language models (with the feature of that name: its lists are on the heap) |
//! | [`flatbuf`] | the FlatBuffers reader under all of them |
//!
//! Every kind is read the same way. `File::parse` checks the whole file once, structure and meaning, and gives a view;
//! from then on accessors cannot fail. What is kept is plain numbers (`Header`) and the bytes themselves: a view over
//! bytes that were checked before is rebuilt by `File::reopen` at no cost, so nothing needs to borrow itself. If the
//! bytes changed in between, accessors give defaults; they never panic, loop or read outside.
//!
//! The readers need neither a heap nor an operating system. The feature `write` adds owned models of the same files and
//! writers for them.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "write", feature = "gguf"))]
extern crate std;

pub mod bpte;
#[cfg(feature = "write")]
mod builder;
mod element;
mod error;
pub mod flatbuf;
#[cfg(feature = "write")]
pub mod ggml;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(test)]
mod mutation;
pub mod ptd;
pub mod pte;
mod scalar_type;
pub mod xnnpack;

pub use element::Element;
pub use error::{Error, FileKind, Place, Rule};
pub use scalar_type::ScalarType;
