//! Errors as `sconce.Error`: the sentence, and the number by which the C++ runtime reports such an error.
use pyo3::PyErr;
use std::io::ErrorKind;

mod python {
    pyo3::import_exception!(sconce._error, Error);
    pyo3::import_exception!(sconce._error, FileNotFound);
}

/// An error with a code.
pub(crate) fn coded(sentence: impl ToString, code: u32) -> PyErr {
    python::Error::new_err((sentence.to_string(), code))
}

/// An error of the runtime.
pub(crate) fn runtime(error: sconce::Error) -> PyErr {
    match &error {
        sconce::Error::Io { error: system, .. } if system.kind() == ErrorKind::NotFound => {
            python::FileNotFound::new_err((error.to_string(), error.code()))
        }
        _ => coded(&error, error.code()),
    }
}
