//! The door: every function that C calls goes through here, and no panic leaves.
use crate::status::{ETErrorCode, ETStatus, Failure, Outcome, success};
use std::any::Any;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The place of a function, as statuses name it: file, line and name.
macro_rules! here {
    ($function:ident) => {
        const {
            match std::ffi::CStr::from_bytes_with_nul(
                concat!(file!(), ":", line!(), ":", stringify!($function), "\0").as_bytes(),
            ) {
                Ok(place) => place,
                Err(_) => panic!("a path with a zero byte"),
            }
        }
    };
}
pub(crate) use here;

/// Runs the body of a function that answers with a status.
pub(crate) fn status(place: &'static CStr, body: impl FnOnce() -> Outcome) -> *mut ETStatus {
    // What a panic leaves half done is not looked at again: locks are taken whether or not they are poisoned, and what
    // they guard (lists of handles, blocks of numbers) is valid at any moment.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => success(),
        Ok(Err(failure)) => failure.into_status(place),
        Err(panic) => Failure::new(ETErrorCode::Internal, reason(&*panic)).into_status(place),
    }
}

/// Runs the body of a function that answers with a value, or with `otherwise`.
pub(crate) fn value<R>(otherwise: R, body: impl FnOnce() -> Option<R>) -> R {
    catch_unwind(AssertUnwindSafe(body)).ok().flatten().unwrap_or(otherwise)
}

/// What a panic said.
fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a mistake in the library, please report it: {}", text.unwrap_or("no reason was given"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::et_status_free;

    #[test]
    fn panics_become_statuses_with_a_place() {
        let status = status(here!(et_example), || panic!("seven is not {}", 8));
        // SAFETY: a status that was just made.
        unsafe {
            assert_eq!((*status).code, ETErrorCode::Internal as i32);
            let text = |pointer| CStr::from_ptr(pointer).to_str().unwrap();
            assert!(text((*status).message).contains("seven is not 8"));
            let place = text((*status).location);
            assert!(place.contains("entry.rs:") && place.ends_with(":et_example"), "{place}");
            et_status_free(status);
        }
        assert_eq!(value(7, || panic!("no")), 7);
        assert_eq!(value(7, || Some(8)), 8);
    }
}
