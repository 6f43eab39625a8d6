//! Backends: which there are, and those of the application.
use crate::arguments::{Place, count, missing, sized, text};
use crate::call::{ETCall, refusal};
use crate::entry::{self, here};
use crate::status::{ETErrorCode, ETStatus, Failure, c_string};
use sconce::Registry;
use sconce::core::{Backend, Call, Code, CompileSpecs, Delegate, DelegateState, Fault, InitContext, Owned};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The backends that have a number, in that order, as programs name them.
const NAMES: [&CStr; 8] = [
    c"XnnpackBackend",
    c"CoreMLBackend",
    c"MPSBackend",
    c"VulkanBackend",
    c"QnnBackend",
    c"MetalBackend",
    c"GgmlBackend",
    c"MLXBackend",
];

fn name(backend: i32) -> Option<&'static CStr> {
    usize::try_from(backend).ok().and_then(|number| NAMES.get(number)).copied()
}

fn is_available(name: &CStr) -> bool {
    let backend = name.to_str().ok().and_then(sconce::get_backend_class);
    backend.is_some_and(|backend| backend.is_available())
}

/// Whether programs exported for a backend can be run.
#[unsafe(no_mangle)]
pub extern "C" fn et_backend_available(backend: i32) -> i32 {
    entry::value(0, || Some(is_available(name(backend)?).into()))
}

/// Writes the numbers of the available backends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_backend_list(out: *mut i32, max: i32) -> i32 {
    entry::value(0, || {
        let numbers: Vec<i32> = (0..).zip(NAMES).filter(|(_, name)| is_available(name)).map(|(i, _)| i).collect();
        let room = if out.is_null() { 0 } else { usize::try_from(max).unwrap_or(0) };
        for (index, &number) in numbers.iter().take(room).enumerate() {
            // SAFETY: not NULL, and `max` numbers have room there, as the header asks.
            unsafe { out.add(index).write(number) };
        }
        Some(count(numbers.len()))
    })
}

/// The name of a backend in programs.
#[unsafe(no_mangle)]
pub extern "C" fn et_backend_name(backend: i32) -> *const c_char {
    name(backend).map_or(ptr::null(), CStr::as_ptr)
}

/// Calls `see` with the names of all registered backends. Names keep their places for the life of the process.
fn registered<R>(see: impl FnOnce(&[CString]) -> R) -> R {
    static SEEN: Mutex<Vec<CString>> = Mutex::new(Vec::new());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    for name in Registry::with_defaults().backend_names() {
        let name = c_string(name);
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    see(&seen)
}

/// How many backends are registered.
#[unsafe(no_mangle)]
pub extern "C" fn et_backend_registered_count() -> i32 {
    entry::value(0, || Some(registered(|names| count(names.len()))))
}

/// The name of a registered backend.
#[unsafe(no_mangle)]
pub extern "C" fn et_backend_registered_name(index: i32) -> *const c_char {
    let index = usize::try_from(index).ok();
    // The bytes of a name stay where they are while the list around it grows.
    entry::value(ptr::null(), || registered(|names| Some(names.get(index?)?.as_ptr())))
}

/// What a backend learns about its part of a program.
#[repr(C)]
pub struct ETBackendPayload {
    /// The size of this structure.
    pub size: usize,
    /// The method that is loaded.
    pub method: *const c_char,
    /// The payload.
    pub data: *const c_void,
    /// Its size.
    pub data_size: usize,
    /// How many options the exporter recorded.
    pub spec_count: i32,
    /// Their keys.
    pub spec_keys: *const *const c_char,
    /// Their values.
    pub spec_values: *const *const c_void,
    /// The sizes of the values.
    pub spec_sizes: *const usize,
    /// Finds weights by name.
    pub named_data: Option<unsafe extern "C" fn(*const c_void, *const c_char, *mut usize) -> *const c_void>,
    /// For `named_data` and `explain`.
    pub context: *const c_void,
    /// Says why `init` will fail.
    pub explain: Option<unsafe extern "C" fn(*const c_void, *const c_char)>,
}

/// A backend of the application.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ETBackendDefinition {
    /// The size of this structure, as the caller knows it.
    pub size: usize,
    /// The name that programs ask for.
    pub name: *const c_char,
    /// Whether it can run here; NULL: always.
    pub is_available: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    /// Makes a delegate.
    pub init: Option<unsafe extern "C" fn(*const ETBackendPayload, *mut c_void, *mut *mut c_void, *mut i32) -> i32>,
    /// Runs a delegate.
    pub execute: Option<for<'a, 'c> unsafe extern "C" fn(*mut c_void, *mut ETCall<'a, 'c>, *mut c_void) -> i32>,
    /// Ends a delegate; may be NULL.
    pub destroy: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// For all of them.
    pub user_data: *mut c_void,
}

/// A definition with a name of its own.
struct Application {
    name: String,
    definition: ETBackendDefinition,
}

// SAFETY: whoever registers a backend lets its functions be called, with its data, from any thread.
unsafe impl Send for Application {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Application {}

impl Backend for Application {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_available(&self) -> bool {
        // SAFETY: the application gave the function and its data for this.
        self.definition.is_available.is_none_or(|ask| unsafe { ask(self.definition.user_data) } != 0)
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        specs: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let missing = Fault::new(Code::Internal, "the backend has no function for this");
        let (init, execute) = self.definition.init.zip(self.definition.execute).ok_or(missing)?;
        let method = c_string(context.method());
        let keys: Vec<CString> = specs.iter().map(|(key, _)| c_string(key)).collect();
        let key_pointers: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
        let values: Vec<_> = specs.iter().map(|(_, value)| value.as_ptr().cast()).collect();
        let sizes: Vec<_> = specs.iter().map(|(_, value)| value.len()).collect();
        let payload = ETBackendPayload {
            size: size_of::<ETBackendPayload>(),
            method: method.as_ptr(),
            data: processed.as_ptr().cast(),
            data_size: processed.len(),
            spec_count: count(keys.len()),
            spec_keys: key_pointers.as_ptr(),
            spec_values: values.as_ptr(),
            spec_sizes: sizes.as_ptr(),
            named_data: Some(named_data),
            context: ptr::from_ref(context).cast(),
            explain: Some(explain),
        };
        let ETBackendDefinition { destroy, user_data, .. } = self.definition;
        let (mut delegate, mut outputs) = (ptr::null_mut(), -1);
        // SAFETY: the application gave the function and its data for this; the rest is valid until it returns.
        let code = unsafe { init(&payload, user_data, &mut delegate, &mut outputs) };
        if code != ETErrorCode::Ok as i32 {
            return Err(refusal(code, Code::DelegateInvalidCompatibility));
        }
        let made = Made { delegate, execute, destroy, user_data, outputs: usize::try_from(outputs).unwrap_or(0) };
        if outputs < 0 {
            return Err(Fault::new(Code::Internal, "the application's backend did not say how many outputs there are"));
        }
        Ok(Owned::from_box(Box::new(made)))
    }
}

/// Finds weights by name for a backend of the application.
unsafe extern "C" fn named_data(context: *const c_void, key: *const c_char, out_size: *mut usize) -> *const c_void {
    entry::value(ptr::null(), || {
        // SAFETY: the application passes on the context it was given, during `init`; the key is NULL or a string.
        let (context, key) = unsafe { (context.cast::<InitContext<'_>>().as_ref()?, text(key, "key").ok()?) };
        let bytes = context.named_data(key)?;
        Place::optional(out_size).into_iter().for_each(|size| size.set(bytes.len()));
        Some(bytes.as_ptr().cast())
    })
}

/// Takes the sentence that says why `init` of a backend of the application will fail.
unsafe extern "C" fn explain(context: *const c_void, sentence: *const c_char) {
    entry::value((), || {
        // SAFETY: the application passes on the context it was given, during `init`; the sentence is NULL or a string.
        let (context, sentence) =
            unsafe { (context.cast::<InitContext<'_>>().as_ref()?, text(sentence, "sentence").ok()?) };
        context.explain(&sentence);
        Some(())
    });
}

/// A delegate of the application's backend.
struct Made {
    delegate: *mut c_void,
    execute: for<'a, 'c> unsafe extern "C" fn(*mut c_void, *mut ETCall<'a, 'c>, *mut c_void) -> i32,
    destroy: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    user_data: *mut c_void,
    outputs: usize,
}

// SAFETY: the header says that a delegate is used from several threads.
unsafe impl Send for Made {}
// SAFETY: as above, at once for several sessions.
unsafe impl Sync for Made {}

impl Delegate for Made {
    fn outputs(&self) -> usize {
        self.outputs
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        Ok(Owned::from_box(Box::new(())))
    }

    fn execute(&self, _: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        let mut call = ETCall::new(call);
        // SAFETY: the delegate is what `init` made; the call is valid until the function returns.
        let code = unsafe { (self.execute)(self.delegate, &mut call, self.user_data) };
        call.finish(code, Code::Internal)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the delegate is what `init` made, and this is the last that is done with it.
            unsafe { destroy(self.delegate, self.user_data) };
        }
    }
}

/// Registers a backend for modules that are loaded from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_backend_register(definition: *const ETBackendDefinition) -> *mut ETStatus {
    entry::status(here!(et_backend_register), || {
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (definition, name) = unsafe {
            let definition = sized(definition, "definition")?;
            (*definition, text(definition.name, "name")?.to_owned())
        };
        if name.is_empty() {
            return Err(Failure::argument("the backend's name is empty"));
        }
        definition.init.ok_or_else(|| missing("init"))?;
        definition.execute.ok_or_else(|| missing("execute"))?;
        sconce::register_backend(Application { name, definition });
        Ok(())
    })
}
