//! Kernels and where to find them.
//!
//! A kernel is what one operator name stands for. [`Op`] is the usual kind: a row of a static table with function
//! pointers, so that a table of only the rows a program needs is all that gets linked. Applications may implement
//! [`Kernel`] themselves. A [`Registry`] is a value passed to the loader, never a global: [`Tables`] is the one without
//! a heap.
use crate::{Args, Backend, Call, Fault};
use sconce_format::pte::Operator;

/// One operator's implementation.
pub trait Kernel: Send + Sync {
    /// How many arguments a call has: those of the schema and the returned value or list.
    fn arity(&self) -> usize;

    /// Bit `i` is set when the kernel writes argument `i` (or the tensors of that list).
    fn writes(&self) -> u32;

    /// Bytes of scratch that a call with these arguments (sizes at their upper bounds) asks for.
    fn scratch(&self, _args: &Args<'_>) -> usize {
        0
    }

    /// Runs the operator. Inputs are taken from the call before outputs.
    fn run(&self, call: &mut Call<'_>) -> Result<(), Fault>;
}

/// A row of an operator table.
#[derive(Clone, Copy)]
pub struct Op {
    /// Full name, `namespace::operator.overload`.
    pub name: &'static str,
    /// See [`Kernel::arity`].
    pub arity: u8,
    /// See [`Kernel::writes`].
    pub writes: u32,
    /// See [`Kernel::scratch`].
    pub scratch: fn(&Args<'_>) -> usize,
    /// See [`Kernel::run`].
    pub run: fn(&mut Call<'_>) -> Result<(), Fault>,
}

/// The mask for writing these arguments.
pub const fn writes(arguments: &[u8]) -> u32 {
    let mut mask = 0;
    let mut i = 0;
    while i < arguments.len() {
        mask |= 1 << arguments[i];
        i += 1;
    }
    mask
}

impl Kernel for Op {
    fn arity(&self) -> usize {
        usize::from(self.arity)
    }

    fn writes(&self) -> u32 {
        self.writes
    }

    fn scratch(&self, args: &Args<'_>) -> usize {
        (self.scratch)(args)
    }

    fn run(&self, call: &mut Call<'_>) -> Result<(), Fault> {
        (self.run)(call)
    }
}

impl core::fmt::Debug for Op {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// A kernel's place in its registry; what a method stores instead of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelId {
    /// The table.
    pub table: u16,
    /// The row in it.
    pub row: u16,
}

impl KernelId {
    /// Names no kernel.
    pub const NONE: Self = Self { table: u16::MAX, row: u16::MAX };
}

/// What a loader can choose from.
pub trait Registry: Send + Sync {
    /// The kernel for an operator.
    fn find_kernel(&self, operator: &Operator<'_>) -> Option<KernelId>;

    /// The kernel with this id.
    fn kernel(&self, id: KernelId) -> Option<&dyn Kernel>;

    /// The backend of this name.
    fn find_backend(&self, name: &str) -> Option<&dyn Backend>;
}

/// A registry of borrowed tables.
#[derive(Clone, Copy, Default)]
pub struct Tables<'a> {
    /// Operator tables; the first that has a name wins.
    pub ops: &'a [&'a [Op]],
    /// Backends.
    pub backends: &'a [&'a dyn Backend],
}

impl Registry for Tables<'_> {
    fn find_kernel(&self, operator: &Operator<'_>) -> Option<KernelId> {
        let name = operator.full_name();
        self.ops.iter().zip(0u16..).find_map(|(ops, table)| {
            ops.iter().zip(0u16..).find(|(op, _)| name == *op.name).map(|(_, row)| KernelId { table, row })
        })
    }

    fn kernel(&self, id: KernelId) -> Option<&dyn Kernel> {
        let op = self.ops.get(usize::from(id.table))?.get(usize::from(id.row))?;
        Some(op)
    }

    fn find_backend(&self, name: &str) -> Option<&dyn Backend> {
        self.backends.iter().find(|backend| backend.name() == name).copied()
    }
}
