//! Exported programs to programs.
use crate::error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sconce::Code;
use sconce::compile::ggml::Ggml;
use sconce::compile::ir::Data;
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

/// What ggml refuses of a `.pt2` archive: the node's name in the export, and why.
#[pyfunction]
pub(crate) fn refused_by_ggml(py: Python<'_>, archive: &[u8]) -> PyResult<Vec<(String, String)>> {
    let refused = py.detach(|| {
        let options = compiler::options(["ggml"]).map_err(|error| (error.to_string(), Code::NotSupported))?;
        let compiled = Archive::read(archive).map_err(Error::from);
        let compiled = compiled.and_then(|archive| compiler::compile(&archive, &options));
        let report = compiled.map_err(|error| (error.to_string(), code(&error)))?.report;
        let node = |refused: &compiler::partition::Refused| {
            let source = refused.source.as_deref();
            (source.map_or(String::new(), |source| source.node.clone()), refused.reason.clone())
        };
        Ok(report.refused.iter().map(node).collect())
    });
    refused.map_err(|(sentence, code)| error::coded(sentence, code as u32))
}

/// Bytes by name.
type Named<'py> = Vec<(String, Bound<'py, PyBytes>)>;

/// A `.pt2` archive as the payload of one ggml delegate, and the data that it refers to.
#[pyfunction]
#[pyo3(signature = (archive, quantize=None))]
pub(crate) fn lower_for_ggml<'py>(
    py: Python<'py>,
    archive: &[u8],
    quantize: Option<String>,
) -> PyResult<(Bound<'py, PyBytes>, Named<'py>)> {
    let delegate = py.detach(|| {
        let unfit = |sentence: String| (sentence, Code::NotSupported);
        let blocks = match quantize.as_deref() {
            None => None,
            Some(name) => {
                let unknown = || unfit(format!("ggml has no blocks {name:?}; it has q8_0, q4_0, q4_k, q5_k and q6_k"));
                Some(compiler::blocks(name).ok_or_else(unknown)?.map_err(unfit)?)
            }
        };
        let options = compiler::options_with(["ggml"], &Ggml { blocks, ..Ggml::default() }).map_err(|error| unfit(error.to_string()))?;
        let archive = Archive::read(archive).map_err(Error::from);
        let delegate = archive.and_then(|archive| compiler::delegate(&archive, &options));
        delegate.map_err(|error| (error.to_string(), code(&error)))
    });
    let delegate = delegate.map_err(|(sentence, code)| error::coded(sentence, code as u32))?;
    let bytes = |data: &Data| if let Data::Bytes(bytes) = data { PyBytes::new(py, bytes) } else { PyBytes::new(py, &[]) };
    let data = delegate.data.iter().map(|(key, data)| (key.clone(), bytes(data))).collect();
    Ok((PyBytes::new(py, &delegate.payload), data))
}

/// The number by which the C++ runtime would report such an error.
fn code(error: &Error) -> Code {
    match error {
        Error::File(_) => Code::InvalidProgram,
        Error::Operators(_) => Code::OperatorMissing,
        Error::At { error, .. } => code(error),
        _ => Code::NotSupported,
    }
}
