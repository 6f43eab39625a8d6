//! The functions that queue calls, and what callers hold of them.
use crate::arguments::{self, Place, list, sized, thing};
use crate::entry::{self, here};
use crate::load::{given_bytes, load};
use crate::module::ETModule;
use crate::queue::{self, Request, Task};
use crate::session::Results;
use crate::status::{ETErrorCode, ETStatus, Failure, Outcome};
use crate::tensor::ETTensor;
use crate::value::{self, ETValue};
use sconce::{Buffer, Options, Source};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// Hears that a queued call is done, and frees the status.
pub type ETCallback1 = unsafe extern "C" fn(status: *mut c_void);

/// Hears that a queued call is done, with data of its own, and frees the status.
pub type ETTaskCallback = unsafe extern "C" fn(user_data: *mut c_void, status: *mut ETStatus);

/// How a call is queued.
#[derive(Debug)]
#[repr(C)]
pub struct ETTaskOptions {
    /// The size of this structure, as the caller knows it.
    pub size: usize,
    /// Higher goes first.
    pub priority: i32,
    /// How long the call may wait; 0: for ever.
    pub timeout_ms: u32,
}

/// A call that was queued.
pub struct ETTask(Arc<Task>);

/// Who hears that a queued call is done.
#[derive(Clone, Copy)]
enum Listener {
    Plain(ETCallback1),
    WithData(ETTaskCallback, *mut c_void),
}

// SAFETY: whoever queues a call lets its callback be called, with its data, on a thread of the library.
unsafe impl Send for Listener {}

impl Listener {
    fn tell(self, status: *mut ETStatus) {
        // SAFETY: the application gave the function and its data for this.
        unsafe {
            match self {
                Listener::Plain(callback) => callback(status.cast()),
                Listener::WithData(callback, user_data) => callback(user_data, status),
            }
        }
    }
}

/// A call to be queued: where it came from, what it does, and who hears of it.
struct Call {
    place: &'static CStr,
    module: Option<Arc<ETModule>>,
    listener: Listener,
    priority: i32,
    patience: Option<Duration>,
}

impl Call {
    fn new(place: &'static CStr, listener: Listener) -> Self {
        Self { place, module: None, listener, priority: 0, patience: None }
    }

    /// Queues what the call does.
    fn queue(&self, body: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        self.submit(false, body, |_| ())
    }

    fn submit(
        &self,
        message: bool,
        body: impl FnOnce() -> Outcome + Send + 'static,
        introduce: impl FnOnce(&Arc<Task>),
    ) -> Outcome {
        let (place, listener) = (self.place, self.listener);
        let work = move |leave: Outcome| listener.tell(entry::status(place, || leave.and_then(|()| body())));
        let (module, priority, patience) = (self.module.clone(), self.priority, self.patience);
        queue::submit(Request { module, priority, patience, message, work: Box::new(work) }, introduce)
    }

    /// Tells of a call that could not be queued: on a thread of the library if there is any.
    fn refuse(&self, failure: Failure) {
        let Failure { code, sentence } = failure;
        let again = Failure { code, sentence: sentence.clone() };
        if self.submit(true, move || Err(again), |_| ()).is_err() {
            self.listener.tell(Failure { code, sentence }.into_status(self.place));
        }
    }
}

/// Queues a load.
fn load_later(place: &'static CStr, callback: ETCallback1, given: Outcome<(Source<'static>, Place<*mut ETModule>)>) {
    let call = Call::new(place, Listener::Plain(callback));
    let queued = given.and_then(|(source, out)| {
        call.queue(move || {
            out.set(load(source, Options::new())?.give());
            Ok(())
        })
    });
    queued.unwrap_or_else(|failure| call.refuse(failure));
}

/// Loads a program from bytes, elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load_async(
    data: *const u8,
    data_size: usize,
    out_module: *mut *mut ETModule,
    callback: Option<ETCallback1>,
) {
    entry::value((), || {
        let copy = || {
            let out = Place::new(out_module, "out_module")?;
            // SAFETY: pointers are NULL or valid, as the header asks.
            let copied = Buffer::copy_of(unsafe { given_bytes(data, data_size) }?);
            let memory = || Failure::new(ETErrorCode::OutOfMemory, format_args!("{data_size} bytes could not be had"));
            Ok((Source::Buffer(copied.ok_or_else(memory)?), out))
        };
        load_later(here!(et_module_load_async), callback?, copy());
        Some(())
    });
}

/// Loads a program from a file, elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_load_file_async(
    path: *const c_char,
    out_module: *mut *mut ETModule,
    callback: Option<ETCallback1>,
) {
    entry::value((), || {
        let copy = || {
            let out = Place::new(out_module, "out_module")?;
            // SAFETY: pointers are NULL or valid, as the header asks.
            Ok((Source::Path(unsafe { arguments::text(path, "path") }?.into()), out))
        };
        load_later(here!(et_module_load_file_async), callback?, copy());
        Some(())
    });
}

/// Tensors of the caller that a queued call reads.
struct Tensors(Vec<*const ETTensor>);

// SAFETY: the header asks that the input tensors live, and are left alone, until the call is done.
unsafe impl Send for Tensors {}

impl Tensors {
    unsafe fn run_forward(&self, module: &ETModule) -> Outcome<Vec<Box<ETTensor>>> {
        // SAFETY: the caller's promise is handed on.
        unsafe { module.run_forward(&self.0) }
    }
}

/// Runs `forward`, elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_forward_async(
    module: *mut ETModule,
    inputs: *const *mut ETTensor,
    input_count: i32,
    out_outputs: *mut *mut *mut ETTensor,
    out_output_count: *mut i32,
    callback: Option<ETCallback1>,
) {
    entry::value((), || {
        let mut call = Call::new(here!(et_module_forward_async), Listener::Plain(callback?));
        let mut queue = || {
            let out = Results::new(out_outputs, out_output_count)?;
            // SAFETY: pointers are NULL or valid, as the header asks.
            let module = unsafe { ETModule::hold(module) }?;
            call.module = Some(module.clone());
            // SAFETY: as above.
            let inputs = unsafe { list(inputs.cast::<*const ETTensor>(), input_count, "inputs") }?;
            let inputs = Tensors(inputs.to_vec());
            call.queue(move || {
                // SAFETY: as above; the tensors live until the callback was called.
                out.set(unsafe { inputs.run_forward(&module) }?);
                Ok(())
            })
        };
        if let Err(failure) = queue() {
            call.refuse(failure);
        }
        Some(())
    });
}

/// Fills in size and defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_task_options_init(options: *mut ETTaskOptions) {
    if !options.is_null() {
        // SAFETY: valid if not NULL, as the header asks.
        unsafe { options.write(ETTaskOptions { size: size_of::<ETTaskOptions>(), priority: 0, timeout_ms: 0 }) };
    }
}

/// Sets how many threads take calls, and how many calls may wait.
#[unsafe(no_mangle)]
pub extern "C" fn et_async_configure(threads: i32, queue_limit: i32) -> *mut ETStatus {
    entry::status(here!(et_async_configure), || {
        let read = |number: i32, name| match usize::try_from(number) {
            Ok(number) => Ok(Some(number).filter(|&number| number > 0)),
            Err(_) => Err(Failure::argument(format_args!("{name} is {number}, it must not be negative"))),
        };
        queue::configure(read(threads, "threads")?, read(queue_limit, "queue_limit")?);
        Ok(())
    })
}

/// Runs any method, elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_run_async(
    module: *mut ETModule,
    method: *const c_char,
    inputs: *const ETValue,
    input_count: i32,
    out_outputs: *mut *mut ETValue,
    out_output_count: *mut i32,
    options: *const ETTaskOptions,
    callback: Option<ETTaskCallback>,
    user_data: *mut c_void,
    out_task: *mut *mut ETTask,
) -> *mut ETStatus {
    entry::status(here!(et_module_run_async), || {
        let callback = callback.ok_or_else(|| arguments::missing("callback"))?;
        let mut call = Call::new(here!(et_module_run_async), Listener::WithData(callback, user_data));
        let out = Results::new(out_outputs, out_output_count)?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (module, method) = unsafe { (ETModule::hold(module)?, arguments::text(method, "method")?) };
        let method = module.find(method)?;
        call.module = Some(module.clone());
        if !options.is_null() {
            // SAFETY: not NULL, hence valid, as the header asks.
            let options = unsafe { sized(options, "options") }?;
            call.priority = options.priority;
            call.patience = Some(options.timeout_ms).filter(|&ms| ms > 0).map(|ms| Duration::from_millis(ms.into()));
        }
        // SAFETY: as above.
        let values = unsafe { list(inputs, input_count, "inputs") }?.to_vec();
        let body = move || {
            // SAFETY: as above; what the values point to lives until the callback was called.
            let inputs = unsafe { value::inputs(&values) }?;
            out.set(module.run(method, &inputs, value::outputs)?);
            Ok(())
        };
        call.submit(false, body, |task| {
            let out = Place::optional(out_task);
            out.into_iter().for_each(|out| out.set(Box::into_raw(Box::new(ETTask(task.clone())))));
        })
    })
}

/// Drops a call that has not started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_task_cancel(task: *mut ETTask) -> i32 {
    // SAFETY: NULL or a task of this library, as the header asks.
    entry::value(0, || Some(unsafe { thing(task, "task") }.ok()?.0.cancel().into()))
}

/// Waits until a call is done and its callback has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_task_wait(task: *const ETTask, timeout_ms: u32) -> i32 {
    entry::value(0, || {
        // SAFETY: NULL or a task of this library, as the header asks.
        let task = unsafe { thing(task, "task") }.ok()?;
        let at_most = Some(timeout_ms).filter(|&ms| ms > 0).map(|ms| Duration::from_millis(ms.into()));
        Some(task.0.wait(at_most).into())
    })
}

/// Lets go of a call, which goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_task_free(task: *mut ETTask) {
    if !task.is_null() {
        // SAFETY: tasks come from `Box::into_raw`, and are freed once.
        drop(unsafe { Box::from_raw(task) });
    }
}
