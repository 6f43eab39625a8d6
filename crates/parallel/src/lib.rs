//! Fork-join, seen by kernels as a trait object.
//!
//! A kernel that can split its work asks for `run(tasks, body)`: `body(i)` is called once for every `i` below `tasks`,
//! on any of `width()` threads, and `run` returns when all calls have returned. Which thread takes which index is not
//! specified. On a machine without threads [`Serial`] is the whole story; with the feature `std` there is [`Pool`].
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
mod aside;
#[cfg(feature = "std")]
mod place;
#[cfg(feature = "std")]
mod pool;
#[cfg(feature = "std")]
pub use aside::aside;
#[cfg(feature = "std")]
pub use pool::{Lease, Pool, Whole, most_threads, physical_cores};

/// A way to run independent tasks, on one thread or on several.
pub trait Parallel: Sync {
    /// How many tasks can make progress at the same time; at least 1.
    fn width(&self) -> usize;

    /// Calls `body(0)`, ..., `body(tasks - 1)`, each exactly once, and returns when all have returned.
    fn run(&self, tasks: usize, body: &(dyn Fn(usize) + Sync));
}

/// One task after the other, on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(body);
    }
}
