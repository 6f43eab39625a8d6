//! Exported programs to programs.
use crate::error;
use crate::input::Given;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sconce::compile::quantize::{Calibrator, Quantization};
use sconce::compile::{self as compiler, Archive, Error};
use sconce::{Code, Input, Value};

/// The backends that `compile` knows.
#[pyfunction]
pub(crate) fn compiler_backends() -> Vec<&'static str> {
    compiler::backends().collect()
}

/// Compiles the bytes of a `.pt2` archive to those of a `.pte` program, without the interpreter's lock.
#[pyfunction]
#[pyo3(signature = (archive, backends=Vec::new(), quantize=None, calibrate=None, group_size=None))]
pub(crate) fn compile<'py>(
    py: Python<'py>,
    archive: &[u8],
    backends: Vec<String>,
    quantize: Option<&str>,
    calibrate: Option<Vec<Vec<Bound<'py, PyAny>>>>,
    group_size: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let call = |(number, objects): (usize, &Vec<Bound<'_, PyAny>>)| {
        let place = format!("an input of call {number} of calibrate");
        objects.iter().map(|object| Given::of(None, &place, object)).collect::<PyResult<_>>()
    };
    let calls = calibrate.map(|calls| calls.iter().enumerate().map(call).collect::<PyResult<Vec<_>>>()).transpose()?;
    let quantization = quantize.map(|scheme| Wanted { scheme, calls, group_size });
    let program = py.detach(|| translate(archive, &backends, quantization));
    program.map(|program| PyBytes::new(py, &program)).map_err(|(sentence, code)| error::coded(sentence, code as u32))
}

/// How to quantise.
struct Wanted<'a> {
    scheme: &'a str,
    calls: Option<Vec<Vec<Given>>>,
    group_size: Option<usize>,
}

impl Wanted<'_> {
    fn quantization(self, archive: &Archive<'_>) -> Result<Quantization, String> {
        let unknown =
            || format!("the compiler has no quantisation {:?}; it has int8, int8-dynamic and int4", self.scheme);
        let mut scheme = compiler::scheme(self.scheme).ok_or_else(unknown)?;
        if let Some(group_size) = self.group_size {
            scheme = compiler::in_groups(scheme, group_size)?;
        }
        match self.calls {
            Some(calls) => Ok(Quantization { scheme, calibrator: Some(Box::new(Calls(calls))) }),
            None => Ok(compiler::quantization(scheme, archive)),
        }
    }
}

/// Calls that show what values a program works on.
struct Calls(Vec<Vec<Given>>);

impl Calibrator for Calls {
    fn knows(&self, _: &str) -> bool {
        true
    }

    fn run(&self, _: &str, program: &[u8], each: &mut dyn FnMut(&[Vec<u8>])) -> Result<(), String> {
        let module = sconce::Options::new().plan(false).load(program).map_err(|error| error.to_string())?;
        let mut session = module.session().map_err(|error| error.to_string())?;
        for call in &self.0 {
            let inputs: Vec<Input<'_>> = call.iter().map(Given::input).collect();
            let outputs = session.run(&inputs).map_err(|error| format!("a call of calibrate: {error}"))?;
            let bytes = |output: &Value| match output {
                Value::Tensor(tensor) => Ok(tensor.bytes().to_vec()),
                other => Err(format!("{} is no tensor", other.kind())),
            };
            each(&outputs.iter().map(bytes).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(())
    }
}

/// Calls the compiler.
fn translate(archive: &[u8], backends: &[String], wanted: Option<Wanted<'_>>) -> Result<Vec<u8>, (String, Code)> {
    let invalid = |sentence: String| (sentence, Code::InvalidArgument);
    let options = compiler::options(backends.iter().map(String::as_str));
    let mut options = options.map_err(|error| invalid(error.to_string()))?;
    let compiled = Archive::read(archive).map_err(Error::from);
    if let (Some(wanted), Ok(archive)) = (wanted, &compiled) {
        options.quantization = Some(wanted.quantization(archive).map_err(invalid)?);
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
