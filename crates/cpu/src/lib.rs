//! The CPU engine: a graph becomes a plan, a plan is run.
//!
//! A [`Model`] is made from a graph once: passes bring the graph into the form that the kernels take. For the sizes of
//! the inputs at hand it makes a [`Plan`]: the steps with their kernels and geometry, and where every value lies in one
//! arena. Plans are kept, a few per model, so a model that is called with changing sizes plans each only once. Running is
//! a loop over steps. Weights are packed when a step first needs them and are shared by all sessions and plans.
//!
//! | module | the one thing it knows |
//! |---|---|
//! | `engine` | what this engine is to those who join graphs with engines |
//! | `operations` | what is computed, operation by operation, and in which form |
//! | `passes` | which passes a graph goes through |
//! | `lowered` | for which sizes the form holds that they brought it into |
//! | `cost` | which of several algorithms is the fastest |
//! | `plan` | which step does what a node says, and where values lie |
//! | `steps` | the steps, by family |
//! | `twins` | which nodes have the same weights |
//! | `profile` | what steps take, beside what the machine could do |
//! | `memory` | where blocks of memory come from, and how a step gets at its disjoint parts of them (the only `unsafe` here) |
//! | `weights` | constants as numbers, and packed weights |
#![deny(unsafe_code)]

mod cost;
mod engine;
mod lowered;
mod memory;
mod model;
mod operations;
mod passes;
mod plan;
mod profile;
mod steps;
mod twins;
mod weights;

pub use engine::Cpu;
pub use model::{Model, Options, Session};
pub use plan::{Plan, StepView};
pub use sconce_graph::engine::{Error, Rounding};
