//! The thread pool (see the crate's documentation).

/// A small fork-join pool.
#[derive(Debug)]
pub struct Pool;
