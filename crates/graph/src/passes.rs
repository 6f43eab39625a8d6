//! Graph in, better graph out.
//!
//! A pass is a function that changes a graph and says how often; it leaves a graph that [`verify`](crate::verify())
//! accepts. Each lives in a file of its own and is tested on graphs in text form.

mod dead;
mod float;
mod fuse;
mod transpose;

pub use dead::remove_dead;
pub use float::{compute_in_float, drop_narrowing, join_conversions};
pub use fuse::{find_silu, fuse_steps};
pub use transpose::simplify_transposes;
