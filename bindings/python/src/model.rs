//! Modules and sessions. Loading, preparing and running go on without the interpreter's lock.
use crate::array::Tensor;
use crate::error;
use crate::input::Given;
use crate::meta;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use sconce::{Input, Options, Registry, Rounding, Source, Value};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A loaded program, shared by its sessions.
#[pyclass(frozen, module = "sconce._sconce")]
pub(crate) struct Module {
    module: sconce::Module,
}

#[pymethods]
impl Module {
    #[new]
    #[pyo3(signature = (
        source, *, threads=None, data=Vec::new(), exact=false, copy=false, lazy=false, plan=true, packed=true,
        memory_limit=None, instruction_limit=None, instructions=None, rounding="xnnpack"
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        threads: Option<usize>,
        data: Vec<PathBuf>,
        exact: bool,
        copy: bool,
        lazy: bool,
        plan: bool,
        packed: bool,
        memory_limit: Option<usize>,
        instruction_limit: Option<u64>,
        instructions: Option<String>,
        rounding: &str,
    ) -> PyResult<Self> {
        let rounding = match rounding {
            "xnnpack" => Rounding::Xnnpack,
            "pytorch" => Rounding::PyTorch,
            other => {
                let sentence = format!("there is no rounding {other:?}; it is \"xnnpack\" or \"pytorch\"");
                return Err(PyValueError::new_err(sentence));
            }
        };
        let mut options =
            Options::new().rounding(rounding).exact(exact).copy(copy).lazy(lazy).plan(plan).packed(packed);
        options = data.iter().fold(options, Options::data);
        options = threads.into_iter().fold(options, Options::threads);
        options = memory_limit.into_iter().fold(options, Options::memory_limit);
        options = instruction_limit.into_iter().fold(options, Options::instruction_limit);
        options = instructions.into_iter().fold(options, Options::instructions);
        let source = match source.cast::<PyBytes>() {
            Ok(bytes) => Source::Bytes(bytes.as_bytes()),
            Err(_) => Source::Path(source.extract()?),
        };
        let module = py.detach(|| options.load(source)).map_err(error::runtime)?;
        Ok(Self { module })
    }

    /// Where it comes from.
    #[getter]
    fn name(&self) -> &str {
        self.module.name()
    }

    /// The names of its methods.
    #[getter]
    fn methods(&self) -> Vec<String> {
        self.module.methods()
    }

    /// What was odd about the load.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.module.warnings().to_vec()
    }

    /// Threads that a run uses.
    #[getter]
    fn threads(&self) -> usize {
        self.module.threads()
    }

    /// What a method takes and gives.
    fn describe<'py>(&self, py: Python<'py>, method: &str) -> PyResult<Bound<'py, PyDict>> {
        let program = self.module.program();
        let found = program.methods().find(|candidate| candidate.name() == method);
        let missing = || sconce::Error::MethodNotFound { name: method.to_owned(), available: self.module.methods() };
        meta::describe(py, found.ok_or_else(missing).map_err(error::runtime)?)
    }

    /// Makes a session of a method.
    #[pyo3(signature = (method, threads=None))]
    fn session(&self, py: Python<'_>, method: &str, threads: Option<usize>) -> PyResult<Session> {
        let make = || {
            let mut session = self.module.method_session(method)?;
            threads.map_or(Ok(()), |threads| session.set_threads(threads))?;
            Ok(session)
        };
        let session = py.detach(make).map_err(error::runtime)?;
        Ok(Session { module: self.module.clone(), method: method.to_owned(), session: Mutex::new(session) })
    }
}

/// A method with the memory for running it; one caller at a time, others wait.
#[pyclass(frozen, module = "sconce._sconce")]
pub(crate) struct Session {
    module: sconce::Module,
    method: String,
    /// Locked only without the interpreter's lock: whoever waits here must not hold up the one who runs.
    session: Mutex<sconce::Session>,
}

#[pymethods]
impl Session {
    /// Runs the method with flat inputs, and gives flat outputs.
    fn run<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let program = self.module.program();
        let method = program.method(&self.method).map_err(|error| error::runtime(sconce::Error::Core(error)))?;
        let read = |(index, object)| Given::read(method, index, &object);
        let given = inputs.iter().enumerate().map(read).collect::<PyResult<Vec<_>>>()?;
        let run = || {
            let inputs: Vec<Input<'_>> = given.iter().map(Given::input).collect();
            self.session.lock().unwrap_or_else(PoisonError::into_inner).run(&inputs)
        };
        let outputs = py.detach(run).map_err(error::runtime)?;
        let outputs: Vec<_> = outputs.into_iter().map(|value| object(py, value)).collect::<PyResult<_>>()?;
        PyList::new(py, outputs)
    }

    /// Bytes that it takes.
    fn bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.session.lock().unwrap_or_else(PoisonError::into_inner).needs().total())
    }
}

fn object(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::None => py.None(),
        Value::Tensor(tensor) => Py::new(py, Tensor::new(tensor))?.into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::Double(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
        Value::Str(value) => value.into_pyobject(py)?.into_any().unbind(),
    })
}

/// The operators that programs may use.
#[pyfunction]
pub(crate) fn operator_names() -> Vec<String> {
    Registry::with_defaults().operator_names()
}

/// The backends that programs may be delegated to.
#[pyfunction]
pub(crate) fn backend_names() -> Vec<String> {
    Registry::with_defaults().backend_names()
}

/// The instruction sets of this machine, best last.
#[pyfunction]
pub(crate) fn instruction_sets() -> Vec<&'static str> {
    sconce::instruction_sets()
}

/// A sentence for whoever asks for more threads than a run gets.
#[pyfunction]
pub(crate) fn too_many_threads(asked: usize) -> Option<String> {
    sconce::too_many_threads(asked)
}
