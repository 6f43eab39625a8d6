//! Running: sessions, and the runner that they share with modules.
use crate::arguments::{self, Place, count, list, missing, thing};
use crate::call::explanation;
use crate::entry::{self, here};
use crate::module::ETModule;
use crate::profile::{Profiler, Trace};
use crate::status::{ETStatus, Failure, Outcome};
use crate::tensor::{ETTensor, apart};
use crate::value::{self, ETValue, Output};
use crate::{log, tensor};
use sconce::core::Value;
use sconce::{Input, Outputs, Session};
use std::ffi::c_char;
use std::sync::Mutex;
use std::time::Instant;

/// A session of the facade, with who listens to it.
pub(crate) struct Runner {
    session: Session,
    outputs: usize,
    trace: Option<Trace>,
}

impl Runner {
    pub(crate) fn new(module: &sconce::Module, method: &str, profiler: Option<Profiler>) -> Outcome<Self> {
        let session = module.method_session(method)?;
        let mut runner = Self { outputs: session.view().outputs(), session, trace: None };
        runner.listen(profiler);
        Ok(runner)
    }

    /// Tells the profiler of every instruction from now on.
    pub(crate) fn listen(&mut self, profiler: Option<Profiler>) {
        self.trace = profiler.map(|profiler| Trace::new(profiler, &self.session));
    }

    /// Runs, and lets `see` take what it wants of the outputs.
    pub(crate) fn run<R>(
        &mut self,
        inputs: &[Input<'_>],
        see: impl FnOnce(&Outputs<'_, '_>) -> Outcome<R>,
    ) -> Outcome<R> {
        let start = log::enabled().then(Instant::now);
        explanation::forget();
        let seen = match &self.trace {
            Some(trace) => self.session.run_on(inputs, trace, see),
            None => self.session.run_with(inputs, see),
        };
        if let Some(start) = start {
            log::say(|| format!("ran {} in {:?}", self.session.method(), start.elapsed()));
        }
        seen.unwrap_or_else(|error| Err(explanation::add(error.into())))
    }

    /// Runs and writes the outputs, all tensors, into tensors of the caller.
    pub(crate) unsafe fn run_into(&mut self, inputs: &[Input<'_>], outputs: &[*mut ETTensor]) -> Outcome {
        let want = self.outputs;
        if outputs.len() != want {
            let (method, have) = (self.session.method(), outputs.len());
            return Err(Failure::argument(format_args!("`{method}` gives {want} output(s), {have} were asked for")));
        }
        let mut spans = Vec::with_capacity(want);
        for (index, &output) in outputs.iter().enumerate() {
            if outputs.iter().take(index).any(|&earlier| earlier == output) {
                return Err(Failure::argument(format_args!("the tensor for output {index} is given twice")));
            }
            // SAFETY: NULL or a tensor of this library, as the header asks.
            let output = unsafe { output.as_ref() }.ok_or_else(|| missing(&format!("output {index}")))?;
            spans.push(output.span());
        }
        apart(&value::spans(inputs), &spans)?;
        // SAFETY: not NULL, as found above, and each given once; inputs are held by their elements only. So nothing
        // else refers to the tensors, which are for one thread at a time.
        let mut outputs: Vec<_> = outputs.iter().map(|&output| unsafe { &mut *output }).collect();
        self.run(inputs, |results| {
            // All or nothing.
            let mut found = Vec::with_capacity(want);
            for (index, output) in outputs.iter().enumerate() {
                let Value::Tensor(result) = results.get(index)? else {
                    return Err(Failure::argument(format_args!("output {index} is no tensor: use et_module_run")));
                };
                output.fits(index, &result)?;
                found.push(result);
            }
            outputs.iter_mut().zip(&found).for_each(|(output, result)| output.assign(result));
            Ok(())
        })
    }
}

/// One caller's memory for running a method.
pub struct ETSession {
    /// Two threads at once are a mistake of the caller, and told as such.
    runner: Mutex<Runner>,
}

impl ETSession {
    fn with<R>(&self, body: impl FnOnce(&mut Runner) -> Outcome<R>) -> Outcome<R> {
        use std::sync::TryLockError::{Poisoned, WouldBlock};
        match self.runner.try_lock() {
            Ok(mut runner) => body(&mut runner),
            Err(Poisoned(runner)) => body(&mut runner.into_inner()),
            Err(WouldBlock) => Err(Failure::state("the session is running: give each thread its own")),
        }
    }
}

/// Makes a session of a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_session_create(
    module: *mut ETModule,
    method: *const c_char,
    out_session: *mut *mut ETSession,
) -> *mut ETStatus {
    entry::status(here!(et_session_create), || {
        let out = Place::new(out_session, "out_session")?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (module, method) = unsafe { (thing(module, "module")?, arguments::text(method, "method")?) };
        let runner = Mutex::new(module.runner(method)?);
        out.set(Box::into_raw(Box::new(ETSession { runner })));
        Ok(())
    })
}

/// Runs a session's method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_session_run(
    session: *mut ETSession,
    inputs: *const ETValue,
    input_count: i32,
    out_outputs: *mut *mut ETValue,
    out_output_count: *mut i32,
) -> *mut ETStatus {
    entry::status(here!(et_session_run), || {
        let out = Results::new(out_outputs, out_output_count)?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (session, inputs) =
            unsafe { (thing(session, "session")?, value::inputs(list(inputs, input_count, "inputs")?)?) };
        out.set(session.with(|runner| runner.run(&inputs, value::outputs))?);
        Ok(())
    })
}

/// Runs a session's method and writes its outputs into tensors of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_session_run_into(
    session: *mut ETSession,
    inputs: *const ETValue,
    input_count: i32,
    outputs: *const *mut ETTensor,
    output_count: i32,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_session_run_into), || unsafe {
        let session = thing(session, "session")?;
        let inputs = value::inputs(list(inputs, input_count, "inputs")?)?;
        let outputs = list(outputs, output_count, "outputs")?;
        session.with(|runner| runner.run_into(&inputs, outputs))
    })
}

/// Frees a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_session_free(session: *mut ETSession) {
    if !session.is_null() {
        // SAFETY: sessions come from `Box::into_raw`, and are freed once.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// Where an array of outputs and its length go.
#[derive(Clone, Copy)]
pub(crate) struct Results<T> {
    array: Place<*mut T>,
    length: Place<i32>,
}

impl<T> Results<T> {
    pub(crate) fn new(array: *mut *mut T, length: *mut i32) -> Outcome<Self> {
        Ok(Self { array: Place::new(array, "out_outputs")?, length: Place::new(length, "out_output_count")? })
    }

    fn write(self, array: *mut T, length: usize) {
        self.array.set(array);
        self.length.set(count(length));
    }
}

impl Results<ETValue> {
    pub(crate) fn set(self, outputs: Vec<Output>) {
        let length = outputs.len();
        self.write(value::give(outputs), length);
    }
}

impl Results<*mut ETTensor> {
    pub(crate) fn set(self, outputs: Vec<Box<ETTensor>>) {
        let length = outputs.len();
        self.write(tensor::give(outputs), length);
    }
}
