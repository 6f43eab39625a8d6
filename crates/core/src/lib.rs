//! The runtime: it executes the methods of a `.pte` program. `no_std`, no heap.
//!
//! ```text
//! loader ──▶ Program ──▶ Method ──▶ Execution ──KernelCall────▶ Kernel::run(&mut Call)
//!            (views, shared)        (one call)  ──DelegateCall──▶ Delegate::execute(state, &mut Call)
//! ```
//!
//! Two kinds of things live here. *Views* ([`Program`], [`Method`], [`Execution`], [`Call`]) borrow; they are made for one
//! call and cost nothing to make. *Blocks* are what a caller stores between calls, and they are plain memory without
//! lifetimes: the state block (values and tensor records, `u64` words, see [`state`]), the planned arenas (bytes by
//! memory id) and scratch. [`Method`] says beforehand how large each must be. So an application with a heap keeps them in
//! vectors, a microcontroller in `static`s, and the same code serves both.
//!
//! What is immutable (program bytes, resolved kernels, delegates) is shared between sessions; what one run changes is in
//! the blocks, so two sessions need no lock.
//!
//! Memory handed to a kernel or delegate comes from exactly one place, [`Call`], which keeps what is read apart from
//! what is written, whatever the program says (see [`memory`]).
#![no_std]
#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod backend;
mod call;
mod error;
mod execution;
mod kernel;
mod loader;
pub mod memory;
mod method;
mod owned;
mod platform;
mod program;
mod regions;
mod runner;
mod shape;
pub mod state;
mod tensor;

pub use backend::{Backend, CompileSpecs, Delegate, InitContext, OptionValue, RuntimeOption, State as DelegateState};
pub use call::{Args, Call, Ints, Scalar};
pub use error::{Code, Error, Fault, Site};
pub use execution::{Environment, Execution, Folded, Step, Value};
pub use kernel::{Kernel, KernelId, Op, Registry, Tables, writes};
pub use loader::{Bytes, DataLoader, NamedData, NoData, Part};
pub use memory::{Arena, Block, Growth};
pub use method::{Method, ValueInfo};
pub use owned::Owned;
pub use platform::{Event, Level, Platform, Quiet};
pub use program::Program;
pub use regions::{Region, Regions};
#[cfg(feature = "alloc")]
pub use runner::RunnerBackend;
pub use runner::{Argument, Commands, MOST_ARGUMENTS, Needs, Operands, Runner};
pub use sconce_format::ScalarType;
pub use sconce_parallel::{Parallel, Serial};
pub use shape::{MAX_RANK, Shape};
pub use tensor::{Tensor, TensorMut};
