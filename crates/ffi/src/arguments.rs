//! Pointers of the caller as references, or the sentence that says which one is missing.
//!
//! Every function here trusts the header's promise: a pointer is NULL, or valid for what it points to.
use crate::status::{Failure, Outcome};
use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

/// A pointer that must not be NULL.
pub(crate) fn missing(name: &str) -> Failure {
    Failure::argument(format_args!("{name} is NULL"))
}

/// A thing that is read.
pub(crate) unsafe fn thing<'a, T>(pointer: *const T, name: &str) -> Outcome<&'a T> {
    // SAFETY: by the header's promise, valid if not NULL.
    unsafe { pointer.as_ref() }.ok_or_else(|| missing(name))
}

/// A structure of the caller, which starts with its size as the caller knows it.
pub(crate) unsafe fn sized<'a, T>(pointer: *const T, name: &str) -> Outcome<&'a T> {
    // SAFETY: as in `thing`; all these structures start with a `size_t`.
    let size = *unsafe { thing(pointer.cast::<usize>(), name) }?;
    if size < size_of::<T>() {
        let sentence = format!("{name}: its size is {size}, but {} is needed; set it to its sizeof", size_of::<T>());
        return Err(Failure::argument(sentence));
    }
    // SAFETY: not NULL, and the caller has said that this many bytes are there.
    Ok(unsafe { &*pointer })
}

/// A list of `count` things; NULL if there are none.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, count: i32, name: &str) -> Outcome<&'a [T]> {
    let Ok(length) = usize::try_from(count) else {
        return Err(Failure::argument(format_args!("the number of {name} is {count}, it must not be negative")));
    };
    match (length, pointer.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(missing(name)),
        // SAFETY: by the header's promise, that many things are there.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, length) }),
    }
}

/// Bytes; the pointer may be NULL if there are none.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, size: usize, name: &str) -> Outcome<&'a [u8]> {
    match (size, pointer.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(missing(name)),
        _ if isize::try_from(size).is_err() => {
            Err(Failure::argument(format_args!("{name}: {size} bytes are more than any machine has")))
        }
        // SAFETY: by the header's promise, that many bytes are there.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, size) }),
    }
}

/// A string.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a str> {
    if pointer.is_null() {
        return Err(missing(name));
    }
    // SAFETY: by the header's promise, strings end with a zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| Failure::argument(format_args!("{name} is not UTF-8: {error}")))
}

/// Where a result goes. Nothing is written before it is there.
pub(crate) struct Place<T>(NonNull<T>);

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

// SAFETY: the header asks that places stay valid until a queued call is done, whichever thread does it.
unsafe impl<T> Send for Place<T> {}

impl<T> Place<T> {
    /// A place that the caller must give.
    pub(crate) fn new(pointer: *mut T, name: &str) -> Outcome<Self> {
        Self::optional(pointer).ok_or_else(|| missing(name))
    }

    /// A place that the caller may leave out.
    pub(crate) fn optional(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Writes the result.
    pub(crate) fn set(self, value: T) {
        // SAFETY: by the header's promise, valid if not NULL.
        unsafe { self.0.write(value) };
    }
}

/// A number of things as C counts them.
pub(crate) fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
