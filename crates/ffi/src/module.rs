//! A loaded program, as C holds it: an `Arc` turned into a pointer.
//!
//! A module runs one call at a time, in a session of its own for each method, behind one lock. Queued calls and calls on
//! other threads keep the module alive by clones of the `Arc`; [`et_module_free`] gives up the one that C held, after it has
//! turned away what is queued and waited for what runs. A function of the application that a run calls may come back to
//! the same module: that is found out, and refused, instead of waiting for itself.
use crate::arguments::{self, list, missing, thing};
use crate::entry::{self, here};
use crate::info::MethodInfo;
use crate::profile::Profiler;
use crate::queue::{self, Pending};
use crate::session::{Results, Runner};
use crate::status::{ETStatus, Failure, Outcome};
use crate::tensor::ETTensor;
use crate::value::{self, ETValue};
use sconce::{Input, Outputs};
use std::cell::RefCell;
use std::ffi::c_char;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A loaded program.
pub struct ETModule {
    module: sconce::Module,
    methods: Vec<MethodInfo>,
    forward: Option<usize>,
    running: Mutex<Running>,
    pending: Arc<Pending>,
}

/// What calls of the module take turns with.
struct Running {
    /// By method; made when a method is first used.
    runners: Vec<Option<Runner>>,
    profiler: Option<Profiler>,
    closed: bool,
}

thread_local! {
    /// The modules that this thread runs.
    static RUNNING: RefCell<Vec<*const ETModule>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread runs a module.
struct Here;

impl Here {
    fn enter(module: &ETModule) -> Self {
        RUNNING.with_borrow_mut(|running| running.push(module));
        Self
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|running| running.pop());
    }
}

impl ETModule {
    /// A module, with everything that `forward` needs.
    pub(crate) fn new(module: sconce::Module) -> Outcome<Arc<Self>> {
        let methods: Vec<_> = module.program().methods().map(MethodInfo::new).collect();
        let forward = methods.iter().position(|method| method.name == "forward");
        let mut runners: Vec<_> = methods.iter().map(|_| None).collect();
        if let Some(slot) = forward.and_then(|index| runners.get_mut(index)) {
            *slot = Some(Runner::new(&module, "forward", None)?);
        }
        let running = Mutex::new(Running { runners, profiler: None, closed: false });
        Ok(Arc::new(Self { module, methods, forward, running, pending: Arc::default() }))
    }

    /// Its methods, in the order of the file.
    pub(crate) fn methods(&self) -> &[MethodInfo] {
        &self.methods
    }

    /// The number of the method `forward`.
    pub(crate) fn forward(&self) -> Option<usize> {
        self.forward
    }

    /// The number of a method.
    pub(crate) fn find(&self, method: &str) -> Outcome<usize> {
        let found = self.methods.iter().position(|candidate| candidate.name == method);
        found.ok_or_else(|| {
            let names = self.methods.iter().map(|method| method.name.as_str()).collect::<Vec<_>>().join(", ");
            Failure::argument(format_args!("the program has no method `{method}`; it has {names}"))
        })
    }

    /// The calls that wait for it.
    pub(crate) fn pending(&self) -> &Arc<Pending> {
        &self.pending
    }

    /// The right to run, when it is this caller's turn.
    fn turn(&self) -> Outcome<MutexGuard<'_, Running>> {
        if RUNNING.with_borrow(|running| running.contains(&ptr::from_ref(self))) {
            return Err(Failure::state("the module is running the function that makes this call"));
        }
        Ok(self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A runner for a caller of its own.
    pub(crate) fn runner(&self, method: &str) -> Outcome<Runner> {
        let method = &self.methods[self.find(method)?].name;
        let profiler = self.turn()?.profiler;
        Runner::new(&self.module, method, profiler)
    }

    /// Gives the module's own runner of a method to `body`, one caller at a time.
    fn with<R>(&self, method: usize, body: impl FnOnce(&mut Runner) -> Outcome<R>) -> Outcome<R> {
        let mut running = self.turn()?;
        if running.closed {
            return Err(Failure::state("the module was freed while the call waited for it"));
        }
        let _here = Here::enter(self);
        let profiler = running.profiler;
        let slot = &mut running.runners[method];
        match slot {
            Some(runner) => body(runner),
            None => body(slot.insert(Runner::new(&self.module, &self.methods[method].name, profiler)?)),
        }
    }

    /// Runs a method in the module's own session.
    pub(crate) fn run<R>(
        &self,
        method: usize,
        inputs: &[Input<'_>],
        see: impl FnOnce(&Outputs<'_, '_>) -> Outcome<R>,
    ) -> Outcome<R> {
        self.with(method, |runner| runner.run(inputs, see))
    }

    /// Runs `forward` on tensors of the caller.
    pub(crate) unsafe fn run_forward(&self, inputs: &[*const ETTensor]) -> Outcome<Vec<Box<ETTensor>>> {
        let method = self.forward.map_or_else(|| self.find("forward"), Ok)?;
        // SAFETY: the caller's promise is handed on.
        self.run(method, &unsafe { value::tensor_inputs(inputs) }?, value::tensor_outputs)
    }

    /// Tells a profiler of all later runs.
    pub(crate) fn listen(&self, profiler: Option<Profiler>) -> Outcome {
        let mut running = self.turn()?;
        running.profiler = profiler;
        running.runners.iter_mut().flatten().for_each(|runner| runner.listen(profiler));
        Ok(())
    }

    /// Gives it to C.
    pub(crate) fn give(self: Arc<Self>) -> *mut ETModule {
        Arc::into_raw(self).cast_mut()
    }

    /// Keeps the module behind a pointer alive while a call uses it.
    pub(crate) unsafe fn hold(module: *const ETModule) -> Outcome<Arc<ETModule>> {
        if module.is_null() {
            return Err(missing("module"));
        }
        // SAFETY: the pointer comes from `give` and was not freed, as the header asks, so the `Arc` has an owner.
        unsafe {
            Arc::increment_strong_count(module);
            Ok(Arc::from_raw(module))
        }
    }
}

/// Runs `forward`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_forward(
    module: *mut ETModule,
    inputs: *const *mut ETTensor,
    input_count: i32,
    out_outputs: *mut *mut *mut ETTensor,
    out_output_count: *mut i32,
) -> *mut ETStatus {
    entry::status(here!(et_module_forward), || {
        let out = Results::new(out_outputs, out_output_count)?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        out.set(unsafe {
            let module = ETModule::hold(module)?;
            module.run_forward(list(inputs.cast::<*const ETTensor>(), input_count, "inputs")?)?
        });
        Ok(())
    })
}

/// Runs any method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_run(
    module: *mut ETModule,
    method: *const c_char,
    inputs: *const ETValue,
    input_count: i32,
    out_outputs: *mut *mut ETValue,
    out_output_count: *mut i32,
) -> *mut ETStatus {
    entry::status(here!(et_module_run), || {
        let out = Results::new(out_outputs, out_output_count)?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (module, method) = unsafe { (ETModule::hold(module)?, arguments::text(method, "method")?) };
        let method = module.find(method)?;
        // SAFETY: as above.
        let inputs = unsafe { value::inputs(list(inputs, input_count, "inputs")?) }?;
        out.set(module.run(method, &inputs, value::outputs)?);
        Ok(())
    })
}

/// Runs a method and writes its outputs into tensors of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_run_into(
    module: *mut ETModule,
    method: *const c_char,
    inputs: *const ETValue,
    input_count: i32,
    outputs: *const *mut ETTensor,
    output_count: i32,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_run_into), || unsafe {
        let (module, method) = (ETModule::hold(module)?, arguments::text(method, "method")?);
        let method = module.find(method)?;
        let inputs = value::inputs(list(inputs, input_count, "inputs")?)?;
        let outputs = list(outputs, output_count, "outputs")?;
        module.with(method, |runner| runner.run_into(&inputs, outputs))
    })
}

/// Turns away what is queued for a module, waits for what runs in it, and frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_free(module: *mut ETModule) {
    if module.is_null() {
        return;
    }
    entry::value((), || {
        // SAFETY: modules come from `give`, and are freed once.
        let module = unsafe { Arc::from_raw(module.cast_const()) };
        module.pending.close();
        queue::turn_away(&module);
        module.pending.wait(&module);
        // Freed by a function that it runs, it goes when that run ends.
        let mut running = module.turn().ok()?;
        running.closed = true;
        running.runners.clear();
        Some(())
    });
}

/// Lets a profiler hear of every instruction of later runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_set_profiler(
    module: *mut ETModule,
    profiler: Option<crate::ETProfiler>,
    user_data: *mut std::ffi::c_void,
) -> *mut ETStatus {
    entry::status(here!(et_module_set_profiler), || {
        // SAFETY: NULL or a module of this library, as the header asks.
        let module = unsafe { thing(module.cast_const(), "module") }?;
        module.listen(profiler.map(|function| Profiler::new(function, user_data)))
    })
}
