//! The C ABI: `libexecutorch_ffi`, whose header is `include/executorch_ffi.h`.
//!
//! ```text
//! C caller ── entry (no panic crosses, errors become a status) ── arguments (pointers become references)
//!                │
//!                ├── tensor, value      what goes in and comes out
//!                ├── load, module, info a program: `Arc<ETModule>` behind the pointer that C holds
//!                ├── session            a runner: a session of the facade, with who listens to it
//!                ├── queue, tasks       calls that wait for a thread of the library
//!                ├── call, kernel, backend   the other direction: functions of the application
//!                └── delegate           backends of this library in another runtime
//! ```
//!
//! A handle is a pointer to a plain Rust structure that a box or an `Arc` owns; the function that frees it takes the owner
//! back. The header says what a caller must keep (pointers are valid or NULL, nothing is used after it was freed); all
//! else is checked here. Unsafe code turns pointers into references and back, under exactly that promise, and nothing more:
//! what happens to the references is the safe Rust of the facade.
#![allow(unsafe_code, reason = "C hands over pointers")]
#![allow(clippy::missing_safety_doc, reason = "the header says what callers must keep, for all functions at once")]
#![allow(clippy::vec_box, reason = "C gets each box by itself")]

mod arguments;
mod backend;
mod call;
mod delegate;
mod entry;
mod info;
mod kernel;
mod load;
mod log;
mod module;
mod options;
mod profile;
mod queue;
mod session;
mod status;
mod tasks;
mod tensor;
mod value;
mod version;

pub use backend::*;
pub use call::*;
pub use delegate::*;
pub use info::*;
pub use kernel::*;
pub use load::*;
pub use log::*;
pub use module::*;
pub use options::*;
pub use profile::*;
pub use session::*;
pub use status::*;
pub use tasks::*;
pub use tensor::*;
pub use value::*;
pub use version::*;
