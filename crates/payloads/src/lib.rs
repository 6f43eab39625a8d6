//! The formats of payloads that are graphs, each read in a module of its own.
//!
//! A format is a row of [`ALL`]: a [`Payload`], whose functions any engine runs. To add one, add a module and a row; the
//! mutation test and the fuzz target go through the rows.
#![forbid(unsafe_code)]

pub mod xnnpack;

use sconce_graph::payload::Payload;
pub use xnnpack::Xnnpack;

/// Every format.
pub const ALL: &[&'static dyn Payload] = &[&Xnnpack];
