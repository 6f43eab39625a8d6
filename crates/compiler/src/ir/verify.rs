//! What holds of every program.
//!
//! 1. Every number names a value, a constant, a delegate or a symbol that is there.
//! 2. A value is made once, by what its origin says: the caller, a block's caller or a call. What is read is known, kept
//!    by the method, or made before, in the same block or in one around it.
//! 3. The inputs and outputs of a method that are values are those of its body, in order.
//! 4. All tensors but inputs lie row by row; known sizes are not negative; what a constant holds, and a buffer at first,
//!    has the bytes of its type.
//! 5. A call has each argument once and makes a value at least. Only control flow has blocks, as many as it runs, and
//!    what goes in and out of them has the types of what is passed and made.
//! 6. A view has the elements of what it is of.
//! 7. What is updated is an input or kept by the method, once, with something of its type. What a method keeps it does not
//!    read as a constant.
//! 8. Symbols have a name each, and a range. Where one is found is an integer, or a size from which it follows; that is
//!    made before the sizes that a call asks for are computed.
//! 9. Methods have a name each, and a name of delegates' data stands for the same bytes everywhere.
//!
//! Types of results are not derived from arguments here: they are those of the export, and lowering checks that each rule
//! keeps them ([`lower`](crate::lower)).

mod calls;
mod method;

pub(crate) use calls::view;

use crate::ir::{Constants, Function, Program};
use method::Checker;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Why a program is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Says what is wrong, in words.
fn invalid<T>(what: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid(what.into()))
}

/// Checks a program against the rules above.
pub fn verify(program: &Program<'_>) -> Result<(), Invalid> {
    let mut names = HashSet::new();
    let known = program.known.iter().map(|(name, _)| name);
    for name in program.functions.iter().map(|function| &function.name).chain(known) {
        if !names.insert(name) {
            return invalid(format!("there are two methods {name:?}"));
        }
    }
    let mut data = HashMap::new();
    for (key, own) in program.delegates.iter().flat_map(|delegate| &delegate.data) {
        if let crate::ir::Data::Constant(id) = own
            && id.0 as usize >= program.constants.0.len()
        {
            return invalid(format!("the data {key:?} of a delegate is the constant {id}, which is not there"));
        }
        let bytes = program.constants.data(own);
        if *data.entry(key).or_insert(bytes) != bytes {
            return invalid(format!("the data {key:?} of two delegates differs"));
        }
    }
    for function in &program.functions {
        let error = |Invalid(what)| Invalid(format!("in the method {:?} {what}", function.name));
        Checker::new(function, &program.constants, program.delegates.len()).run().map_err(error)?;
    }
    Ok(())
}

/// Checks a method between passes. Its delegates may be counted elsewhere.
pub fn verify_method(function: &Function, constants: &Constants<'_>) -> Result<(), Invalid> {
    Checker::new(function, constants, usize::MAX).run()
}

/// Makes sure, where the compiler is built with debug assertions, that a pass left what [`verify`] accepts.
#[track_caller]
pub(crate) fn debug_verify(function: &Function, constants: &Constants<'_>, after: &str) {
    if cfg!(debug_assertions)
        && let Err(error) = verify_method(function, constants)
    {
        panic!("after {after} {error} in\n{function}");
    }
}

#[cfg(test)]
mod tests;
