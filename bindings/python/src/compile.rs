//! Exported programs to programs.
use crate::error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sconce::Code;
use sconce::compile::{self as compiler, Archive, Error};

/// The backends that `compile` knows.
#[pyfunction]
pub(crate) fn compiler_backends() -> Vec<&'static str> {
    compiler::backends().collect()
}

/// Compiles the bytes of a `.pt2` archive to those of a `.pte` program, without the interpreter's lock.
#[pyfunction]
#[pyo3(signature = (archive, backends=Vec::new(), quantize=None))]
pub(crate) fn compile<'py>(
    py: Python<'py>,
    archive: &[u8],
    backends: Vec<String>,
    quantize: Option<String>,
) -> PyResult<Bound<'py, PyBytes>> {
    let program = py.detach(|| translate(archive, &backends, quantize.as_deref()));
    program.map(|program| PyBytes::new(py, &program)).map_err(|(sentence, code)| error::coded(sentence, code as u32))
}

/// Calls the compiler.
fn translate(archive: &[u8], backends: &[String], quantize: Option<&str>) -> Result<Vec<u8>, (String, Code)> {
    let invalid = |sentence: String| (sentence, Code::InvalidArgument);
    let options = compiler::options(backends.iter().map(String::as_str));
    let mut options = options.map_err(|error| invalid(error.to_string()))?;
    let compiled = Archive::read(archive).map_err(Error::from);
    if let (Some(name), Ok(archive)) = (quantize, &compiled) {
        let unknown =
            || invalid(format!("the compiler has no quantisation {name:?}; it has int8, int8-dynamic and int4"));
        options.quantization = Some(compiler::quantization(compiler::scheme(name).ok_or_else(unknown)?, archive));
    }
    let compiled = compiled.and_then(|archive| compiler::compile(&archive, &options));
    compiled.map(|compiled| compiled.program).map_err(|error| (error.to_string(), code(&error)))
}

/// The number by which the C++ runtime would report such an error.
pub(crate) fn code(error: &Error) -> Code {
    match error {
        Error::File(_) => Code::InvalidProgram,
        Error::Operators { .. } => Code::OperatorMissing,
        Error::At { error, .. } => code(error),
        _ => Code::NotSupported,
    }
}
