//! What a call has to say: a code, a sentence and a place.
//!
//! Inside the library a call that fails is a [`Failure`]; at the border it becomes an [`ETStatus`]. Success is one status
//! for all calls, so it costs nothing, and freeing it does nothing. Places are constants of the binary and are not freed.
use sconce::Error;
use sconce::core::{Code, Error as CoreError, Fault, Site};
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::ptr;

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ETErrorCode {
    /// It went well.
    Ok = 0,
    /// The call itself is wrong.
    InvalidArgument = 1,
    /// Memory could not be had, or is more than the limits allow.
    OutOfMemory = 2,
    /// The file is not a program, or damaged.
    ModelLoadFailed = 3,
    /// An operator or backend failed during a run.
    InferenceFailed = 4,
    /// Not now.
    InvalidState = 5,
    /// Something that this build lacks.
    Unsupported = 6,
    /// A file cannot be opened or read.
    IoError = 7,
    /// A mistake of the library.
    Internal = 99,
}

/// What a call has to say.
#[derive(Debug)]
#[repr(C)]
pub struct ETStatus {
    /// An [`ETErrorCode`].
    pub code: i32,
    /// A sentence, or NULL on success.
    pub message: *mut c_char,
    /// File, line and function, or NULL on success.
    pub location: *mut c_char,
}

/// The status of every call that went well.
struct Success(ETStatus);

// SAFETY: it is never changed, and its pointers are NULL.
unsafe impl Sync for Success {}

static SUCCESS: Success = Success(ETStatus { code: 0, message: ptr::null_mut(), location: ptr::null_mut() });

/// The status of a call that went well.
pub(crate) fn success() -> *mut ETStatus {
    (&raw const SUCCESS.0).cast_mut()
}

/// Frees a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_status_free(status: *mut ETStatus) {
    if status.is_null() || status == success() {
        return;
    }
    // SAFETY: all statuses but that of success come from `Failure::into_status`, which makes them of a box and a string.
    unsafe {
        let status = Box::from_raw(status);
        drop(CString::from_raw(status.message));
    }
}

/// Frees a string that the library made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: strings that callers are told to free come from `CString::into_raw`.
        drop(unsafe { CString::from_raw(string) });
    }
}

/// Text as C takes it; a zero byte, which would end it, is left out.
pub(crate) fn c_string(text: impl Into<String>) -> CString {
    let mut text = text.into();
    text.retain(|character| character != '\0');
    CString::new(text).unwrap_or_default()
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: ETErrorCode,
    pub(crate) sentence: String,
}

/// What a call gives, or why it fails.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: ETErrorCode, sentence: impl Display) -> Self {
        Self { code, sentence: sentence.to_string() }
    }

    /// The caller passed something wrong.
    pub(crate) fn argument(sentence: impl Display) -> Self {
        Self::new(ETErrorCode::InvalidArgument, sentence)
    }

    /// The call cannot be done now.
    pub(crate) fn state(sentence: impl Display) -> Self {
        Self::new(ETErrorCode::InvalidState, sentence)
    }

    /// As a status of its own, to be freed by the caller.
    pub(crate) fn into_status(self, place: &'static CStr) -> *mut ETStatus {
        crate::log::say(|| format!("{}: {}", place.to_string_lossy(), self.sentence));
        let message = c_string(self.sentence).into_raw();
        Box::into_raw(Box::new(ETStatus { code: self.code as i32, message, location: place.as_ptr().cast_mut() }))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: code(&error), sentence: sentence(&error) }
    }
}

/// The sentence of an error, with the way out that a C program has.
fn sentence(error: &Error) -> String {
    match error {
        Error::MissingOperators { names } => format!(
            "the program uses {} operator(s) that this build lacks: {}; register them with et_kernel_register before \
             loading, or export without them",
            names.len(),
            names.join(", ")
        ),
        Error::MemoryLimit { method, bytes, limit } => format!(
            "`{method}` needs {bytes} bytes, the limit is {limit}; raise memory_limit of ETLoadOptions if you trust the \
             file"
        ),
        error => error.to_string(),
    }
}

fn code(error: &Error) -> ETErrorCode {
    use ETErrorCode::*;
    match error {
        Error::Io { error, .. } if error.kind() == std::io::ErrorKind::OutOfMemory => OutOfMemory,
        Error::Io { .. } => IoError,
        Error::Format { .. } => ModelLoadFailed,
        Error::MissingOperators { .. } | Error::MissingBackends { .. } | Error::BackendUnavailable { .. } => {
            Unsupported
        }
        Error::Backend { fault, .. } => faulty(fault, ModelLoadFailed),
        Error::InstructionsSettled { .. } => InvalidState,
        Error::Run { fault, .. } => match faulty(fault, InferenceFailed) {
            OutOfMemory => OutOfMemory,
            _ => InferenceFailed,
        },
        Error::MemoryLimit { .. } | Error::OutOfMemory { .. } => OutOfMemory,
        Error::DuplicateData { .. }
        | Error::InstructionSet { .. }
        | Error::MethodNotFound { .. }
        | Error::InputCount { .. }
        | Error::Input { .. }
        | Error::Rank { .. }
        | Error::DimOrder { .. }
        | Error::TensorSize { .. }
        | Error::DType { .. }
        | Error::Kind { .. } => InvalidArgument,
        Error::Core(error) => core_code(error),
        _ => Internal,
    }
}

fn core_code(error: &CoreError) -> ETErrorCode {
    use ETErrorCode::*;
    match error {
        CoreError::MethodNotFound => InvalidArgument,
        CoreError::MissingOperators { .. }
        | CoreError::BackendNotFound { .. }
        | CoreError::BackendUnavailable { .. } => Unsupported,
        CoreError::At { site: Site::Input(_), .. } => InvalidArgument,
        CoreError::At { site: Site::Output(_), fault } => faulty(fault, InferenceFailed),
        CoreError::At { fault, .. } => faulty(fault, ModelLoadFailed),
        _ => ModelLoadFailed,
    }
}

/// The code of a fault, where it says more than `usual`.
fn faulty(fault: &Fault, usual: ETErrorCode) -> ETErrorCode {
    match fault.code {
        Code::MemoryAllocationFailed | Code::DelegateMemoryAllocationFailed | Code::OutOfResources => {
            ETErrorCode::OutOfMemory
        }
        Code::NotSupported | Code::NotImplemented | Code::OperatorMissing => ETErrorCode::Unsupported,
        Code::InvalidState => ETErrorCode::InvalidState,
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_meaning() {
        use ETErrorCode::*;
        let fault = |code| Fault::new(code, "why");
        let run = |code| Error::Run {
            method: "m".into(),
            instruction: 0,
            callee: "c".into(),
            fault: fault(code),
            reason: "".into(),
        };
        let backend = |code| Error::Backend { name: String::new(), fault: fault(code), reason: String::new() };
        let io = |kind: std::io::ErrorKind| Error::Io { file: String::new(), error: kind.into() };
        let rows = [
            (io(std::io::ErrorKind::NotFound), IoError),
            (io(std::io::ErrorKind::OutOfMemory), OutOfMemory),
            (Error::MissingOperators { names: vec!["a::b".into()] }, Unsupported),
            (run(Code::InvalidArgument), InferenceFailed),
            (run(Code::NotSupported), InferenceFailed),
            (run(Code::MemoryAllocationFailed), OutOfMemory),
            (backend(Code::DelegateInvalidCompatibility), ModelLoadFailed),
            (backend(Code::NotSupported), Unsupported),
            (Error::MemoryLimit { method: "m".into(), bytes: 2, limit: 1 }, OutOfMemory),
            (Error::InputCount { method: "m".into(), want: 1, have: 2 }, InvalidArgument),
            (Error::Core(CoreError::Access { offset: 0, len: 1 }), ModelLoadFailed),
            (Error::Core(CoreError::At { site: Site::Input(0), fault: fault(Code::InvalidType) }), InvalidArgument),
        ];
        for (error, expected) in rows {
            assert_eq!(code(&error), expected, "{error}");
        }
    }

    #[test]
    fn ways_out_are_those_of_c() {
        let missing = sentence(&Error::MissingOperators { names: vec!["a::b".into()] });
        assert!(missing.contains("a::b") && missing.contains("et_kernel_register"), "{missing}");
        let limit = sentence(&Error::MemoryLimit { method: "m".into(), bytes: 2, limit: 1 });
        assert!(limit.contains("memory_limit") && !limit.contains("Options::"), "{limit}");
        assert_eq!(c_string("a\0b").as_bytes(), b"ab");
    }
}
