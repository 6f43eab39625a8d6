//! Operators of the application.
use crate::arguments::{missing, text};
use crate::call::ETCall;
use crate::entry::{self, here};
use crate::status::{ETStatus, Failure, Outcome};
use sconce::core::{Call, Code, Fault, Kernel};
use std::ffi::{c_char, c_void};

/// Runs an operator of the application; answers with an error code.
pub type ETKernelFunction = for<'a, 'c> unsafe extern "C" fn(call: *mut ETCall<'a, 'c>, user_data: *mut c_void) -> i32;

/// Most arguments of an operator: what it writes is a mask of as many bits.
const MOST: usize = 32;

/// An operator of the application.
struct Function {
    arity: usize,
    writes: u32,
    run: ETKernelFunction,
    user_data: *mut c_void,
}

// SAFETY: whoever registers an operator lets its function be called, with its data, from any thread.
unsafe impl Send for Function {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Function {}

impl Kernel for Function {
    fn arity(&self) -> usize {
        self.arity
    }

    fn writes(&self) -> u32 {
        self.writes
    }

    fn run(&self, call: &mut Call<'_>) -> Result<(), Fault> {
        let mut call = ETCall::new(call);
        // SAFETY: the application gave the function and its data for this; the call is valid until it returns.
        let code = unsafe { (self.run)(&mut call, self.user_data) };
        call.finish(code, Code::Internal)
    }
}

/// Registers an operator for modules that are loaded from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_kernel_register(
    name: *const c_char,
    arguments: i32,
    writes: u32,
    run: Option<ETKernelFunction>,
    user_data: *mut c_void,
) -> *mut ETStatus {
    entry::status(here!(et_kernel_register), || {
        // SAFETY: NULL or a string, as the header asks.
        let name = unsafe { text(name, "name") }?;
        if !name.contains("::") {
            return Err(Failure::argument(format_args!("`{name}` is no operator: write namespace::name.overload")));
        }
        let arity = check(arguments, writes)?;
        let run = run.ok_or_else(|| missing("run"))?;
        sconce::register_kernel(name, Function { arity, writes, run, user_data });
        Ok(())
    })
}

/// The number of arguments, if what is written is among them.
fn check(arguments: i32, writes: u32) -> Outcome<usize> {
    match usize::try_from(arguments) {
        Ok(arity) if (1..=MOST).contains(&arity) && u64::from(writes) >> arity == 0 => Ok(arity),
        Ok(arity) if (1..=MOST).contains(&arity) => {
            Err(Failure::argument(format_args!("writes is {writes:#x}, but there are only {arity} arguments")))
        }
        _ => Err(Failure::argument(format_args!("the number of arguments is {arguments}, it must be 1 to {MOST}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_an_argument() {
        assert_eq!(check(32, u32::MAX).unwrap(), 32);
        assert_eq!(check(3, 0b100).unwrap(), 3);
        for (arguments, writes) in [(0, 0), (-1, 0), (33, 0), (3, 0b1000)] {
            assert!(check(arguments, writes).is_err(), "{arguments} {writes}");
        }
    }
}
