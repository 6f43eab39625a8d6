//! Backends of this library in another runtime.
//!
//! A runtime that is not this one hands over a payload with its weights and gets a delegate, which it runs on its own
//! tensors: no program of this library is around it. Which backends can do that are the rows of [`LENT`]. The other
//! direction, backends of the application in this runtime, is `backend`.
use crate::arguments::{self, Place, bytes, count, list, missing, sized, text};
use crate::backend::ETBackendPayload;
use crate::entry::{self, here};
use crate::options;
use crate::status::{ETErrorCode, ETStatus, Failure, Outcome, c_string};
use crate::tensor::{ETTensor, type_number};
use sconce::ScalarType;
use sconce::core::{Code, Fault, Tensor};
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// How a delegate is made.
#[repr(C)]
pub struct ETDelegateOptions {
    /// The size of this structure, as the caller knows it.
    pub size: usize,
    /// Threads of one run; 0: as many as the machine offers.
    pub threads: i32,
    /// The device to compute on; NULL: the backend chooses.
    pub device: *const c_char,
}

/// Gives the memory of an output of a shape.
pub type ETOutputFunction = unsafe extern "C" fn(
    user_data: *mut c_void,
    index: i32,
    dtype: i32,
    shape: *const i64,
    rank: i32,
    bytes: usize,
) -> *mut c_void;

/// A delegate for another runtime.
pub struct ETDelegate {
    counts: (usize, usize),
    lent: Mutex<Box<dyn Lent>>,
}

/// Gives the memory of an output by its number, element type and sizes.
type Output<'a, 'o> = &'a mut dyn FnMut(usize, ScalarType, &[usize]) -> Result<&'o mut [u8], Fault>;

/// What a backend makes of a payload for another runtime.
trait Lent: Send {
    /// How many inputs and outputs it has.
    fn counts(&self) -> (usize, usize);

    /// Runs on row-major tensors, or says why not.
    fn run(&mut self, inputs: &[Tensor<'_>], output: Output<'_, '_>) -> Outcome;
}

/// What there is to make a delegate of.
#[cfg_attr(not(feature = "ggml"), expect(dead_code, reason = "no backend of this build asks"))]
struct Given<'a> {
    payload: &'a [u8],
    data: &'a dyn Fn(&str) -> Option<&'a [u8]>,
    threads: usize,
    device: Option<&'a str>,
}

/// A backend's name, and how it makes a delegate.
type Row = (&'static str, fn(&Given<'_>) -> Outcome<Box<dyn Lent>>);

/// The backends that other runtimes can have.
const LENT: &[Row] = &[
    #[cfg(feature = "ggml")]
    (sconce::format::ggml::BACKEND, ggml::make),
];

fn row(name: &str) -> Outcome<Row> {
    LENT.iter().find(|(own, _)| *own == name).copied().ok_or_else(|| {
        let names: Vec<&str> = LENT.iter().map(|(name, _)| *name).collect();
        let there = if names.is_empty() { "none; GgmlBackend needs the feature ggml".into() } else { names.join(", ") };
        let sentence = format!("{name} cannot be lent to another runtime by this build; those that can: {there}");
        Failure::new(ETErrorCode::Unsupported, sentence)
    })
}

#[cfg(feature = "ggml")]
mod ggml {
    use super::*;
    use sconce::ggml::{Options, Part, Session};
    use std::cell::RefCell;

    struct Ggml {
        part: Part,
        session: Session,
    }

    pub(super) fn make(given: &Given<'_>) -> Outcome<Box<dyn Lent>> {
        let refused = |reason| Failure::new(ETErrorCode::ModelLoadFailed, reason);
        let options = Options { device: given.device.map(str::to_owned), ..Options::default() };
        let part = Part::new(given.payload, options, given.data).map_err(refused)?;
        let session = part.session(given.threads).map_err(refused)?;
        Ok(Box::new(Ggml { part, session }))
    }

    impl Lent for Ggml {
        fn counts(&self) -> (usize, usize) {
            self.part.counts()
        }

        fn run(&mut self, inputs: &[Tensor<'_>], output: Output<'_, '_>) -> Outcome {
            let reason = RefCell::new(String::new());
            let explain = |sentence: &dyn std::fmt::Display| *reason.borrow_mut() = format!(": {sentence}");
            self.part
                .run(&mut self.session, inputs, output, &explain)
                .map_err(|fault| Failure::new(ETErrorCode::InferenceFailed, format_args!("{fault}{}", reason.borrow())))
        }
    }
}

/// Makes a delegate of a payload.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_delegate_create(
    backend: *const c_char,
    payload: *const ETBackendPayload,
    options: *const ETDelegateOptions,
    out_delegate: *mut *mut ETDelegate,
) -> *mut ETStatus {
    entry::status(here!(et_delegate_create), || {
        let out = Place::new(out_delegate, "out_delegate")?;
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (make, payload, given) = unsafe {
            let (_, make) = row(text(backend, "backend")?)?;
            let options = if options.is_null() { None } else { Some(sized(options, "options")?) };
            (make, sized(payload, "payload")?, options)
        };
        let threads = options::threads(given.map_or(0, |given| given.threads))?;
        let offered = || std::thread::available_parallelism().map_or(1, usize::from);
        let device = given.map(|given| given.device).filter(|device| !device.is_null());
        let data = |key: &str| {
            let (find, key, mut size) = (payload.named_data?, c_string(key), 0);
            // SAFETY: the caller gave the function with its context for this, and what it returns is valid until this
            // call returns.
            unsafe {
                let start = find(payload.context, key.as_ptr(), &mut size);
                if start.is_null() { None } else { bytes(start.cast(), size, "named_data").ok() }
            }
        };
        let lent = make(&Given {
            // SAFETY: as the header asks, that many bytes are there.
            payload: unsafe { bytes(payload.data.cast(), payload.data_size, "data") }?,
            data: &data,
            threads: if threads == 0 { offered() } else { threads.min(sconce::most_threads()) },
            // SAFETY: a string, as the header asks.
            device: device.map(|device| unsafe { text(device, "device") }).transpose()?,
        })?;
        out.set(Box::into_raw(Box::new(ETDelegate { counts: lent.counts(), lent: Mutex::new(lent) })));
        Ok(())
    })
}

/// How many inputs it takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_delegate_input_count(delegate: *const ETDelegate) -> i32 {
    // SAFETY: NULL or a delegate, as the header asks.
    entry::value(0, || Some(count(unsafe { delegate.as_ref() }?.counts.0)))
}

/// How many outputs it gives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_delegate_output_count(delegate: *const ETDelegate) -> i32 {
    // SAFETY: NULL or a delegate, as the header asks.
    entry::value(0, || Some(count(unsafe { delegate.as_ref() }?.counts.1)))
}

/// Runs a delegate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_delegate_run(
    delegate: *mut ETDelegate,
    inputs: *const *const ETTensor,
    input_count: i32,
    output: Option<ETOutputFunction>,
    user_data: *mut c_void,
) -> *mut ETStatus {
    entry::status(here!(et_delegate_run), || {
        // SAFETY: pointers are NULL or valid, as the header asks.
        let (delegate, inputs) = unsafe {
            let tensor = |&tensor: &*const ETTensor| Ok(arguments::thing(tensor, "an input")?.view());
            let inputs = list(inputs, input_count, "inputs")?.iter().map(tensor).collect::<Outcome<Vec<_>>>()?;
            (arguments::thing(delegate, "delegate")?, inputs)
        };
        let output = output.ok_or_else(|| missing("output"))?;
        let mut memory = |index: usize, dtype: ScalarType, sizes: &[usize]| {
            let refused = Fault::new(Code::InvalidArgument, "the runtime has no memory for output {}").with([index]);
            let shape: Vec<i64> = sizes.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
            let elements = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
            let bytes = elements.and_then(|elements| elements.checked_mul(dtype.size())).ok_or(refused)?;
            // SAFETY: the caller gave the function and its data for this; it returns NULL or memory of that many bytes,
            // apart from the inputs and the other outputs, that stays until the run returns, as the header asks.
            unsafe {
                let start =
                    output(user_data, count(index), type_number(dtype), shape.as_ptr(), count(shape.len()), bytes);
                if start.is_null() { Err(refused) } else { Ok(std::slice::from_raw_parts_mut(start.cast(), bytes)) }
            }
        };
        delegate.lent.lock().unwrap_or_else(PoisonError::into_inner).run(&inputs, &mut memory)
    })
}

/// Frees a delegate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_delegate_free(delegate: *mut ETDelegate) {
    entry::value((), || {
        if !delegate.is_null() {
            // SAFETY: delegates come from `et_delegate_create`, which makes them of a box.
            drop(unsafe { Box::from_raw(delegate) });
        }
        Some(())
    });
}
