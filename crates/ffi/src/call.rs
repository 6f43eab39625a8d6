//! One call of a function of the application: what it may look at and write.
//!
//! Everything is row-major to the function. Where a tensor lies otherwise in the program's memory, an input is a copy, and
//! an output is written to its place when the function has returned. What the function was shown is kept until then, so
//! asking twice gives the same.
use crate::arguments::{Place, count, text};
use crate::entry;
use crate::status::{ETErrorCode, c_string};
use crate::tensor::{read_shape, type_number};
use crate::value::ETValueKind;
use sconce::Buffer;
use sconce::core::{Call, Code, Fault, Scalar, Shape, TensorMut};
use std::ffi::{CString, c_char, c_void};
use std::ptr;

/// The arguments of one call.
pub struct ETCall<'a, 'c> {
    call: &'a mut Call<'c>,
    shown: Vec<Shown>,
    staged: Vec<(TensorMut<'c>, Buffer)>,
    explanation: Option<String>,
}

/// What a function was shown of an argument.
#[derive(Default)]
struct Shown {
    shape: Option<Box<[i64]>>,
    data: Option<Bytes>,
    string: Option<CString>,
}

/// An input's bytes.
struct Bytes {
    start: *const u8,
    size: usize,
    /// What `start` points to, unless that is the program's memory.
    _copy: Option<Buffer>,
}

impl<'a, 'c> ETCall<'a, 'c> {
    pub(crate) fn new(call: &'a mut Call<'c>) -> Self {
        let shown = (0..call.len()).map(|_| Shown::default()).collect();
        Self { call, shown, staged: Vec::new(), explanation: None }
    }

    /// Ends the call with what the function answered.
    pub(crate) fn finish(self, code: i32, usual: Code) -> Result<(), Fault> {
        if code == ETErrorCode::Ok as i32 {
            for (target, staged) in self.staged {
                let from = Shape::contiguous(target.sizes()).unwrap_or(target.shape);
                sconce::reorder(target.dtype.size(), &from, staged.as_ref(), &target.shape, target.data);
            }
            return Ok(());
        }
        explanation::remember(self.explanation.unwrap_or_default());
        Err(refusal(code, usual))
    }

    fn kind(&self, index: usize) -> ETValueKind {
        if self.call.tensor_type(index).is_ok() {
            return ETValueKind::Tensor;
        }
        match self.call.scalar(index) {
            Ok(Scalar::Int(_)) => ETValueKind::Int,
            Ok(Scalar::Double(_)) => ETValueKind::Double,
            Ok(Scalar::Bool(_)) => ETValueKind::Bool,
            Err(_) if self.call.str(index).is_ok() => ETValueKind::String,
            Err(_) if self.call.list_len(index).is_ok() => ETValueKind::List,
            Err(_) => ETValueKind::None,
        }
    }

    fn shape(&mut self, index: usize) -> Option<*const i64> {
        let (_, shape) = self.call.tensor_type(index).ok()?;
        let sizes = shape.sizes().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX));
        Some(self.shown.get_mut(index)?.shape.get_or_insert_with(|| sizes.collect()).as_ptr())
    }

    fn data(&mut self, index: usize) -> Option<&Bytes> {
        let shown = &mut self.shown.get_mut(index)?.data;
        if shown.is_none() {
            let tensor = noted(self.call.tensor(index), &mut self.explanation)?;
            let copy = if tensor.shape.is_contiguous() {
                None
            } else {
                let mut copy = Buffer::zeroed(tensor.data.len())?;
                let to = Shape::contiguous(tensor.sizes())?;
                sconce::reorder(tensor.dtype.size(), &tensor.shape, tensor.data, &to, copy.as_mut());
                Some(copy)
            };
            let bytes = copy.as_ref().map_or(tensor.data, Buffer::as_ref);
            *shown = Some(Bytes { start: bytes.as_ptr(), size: bytes.len(), _copy: copy });
        }
        shown.as_ref()
    }

    fn string(&mut self, index: usize) -> Option<*const c_char> {
        let string = self.call.str(index).ok()?;
        Some(self.shown.get_mut(index)?.string.get_or_insert_with(|| c_string(string)).as_ptr())
    }

    fn output(&mut self, index: usize, shape: &Shape) -> Option<(*mut u8, usize)> {
        let output = noted(self.call.out(index, shape.sizes()), &mut self.explanation)?;
        self.shown.get_mut(index)?.shape = None;
        let size = output.data.len();
        if output.shape.is_contiguous() {
            return Some((output.data.as_mut_ptr(), size));
        }
        let mut staged = Buffer::zeroed(size)?;
        let start = staged.as_mut().as_mut_ptr();
        self.staged.push((output, staged));
        Some((start, size))
    }
}

/// Keeps the reason of a fault for the case that the function says no more.
fn noted<T>(result: Result<T, Fault>, explanation: &mut Option<String>) -> Option<T> {
    result.map_err(|fault| explanation.get_or_insert_with(|| fault.to_string())).ok()
}

/// The fault for what a function of the application answered.
pub(crate) fn refusal(code: i32, usual: Code) -> Fault {
    let text = "the application's function answered with error {}";
    let number = [i64::from(code)];
    let code = match code {
        2 => Code::MemoryAllocationFailed,
        6 => Code::NotSupported,
        _ => usual,
    };
    Fault::new(code, text).with_signed(number)
}

/// Why the last call of a function of the application failed on this thread. Faults of the runtime are constants of the
/// binary with a few numbers; a sentence of the application takes this way around them.
pub(crate) mod explanation {
    use crate::status::Failure;
    use std::cell::RefCell;

    thread_local! {
        static LAST: RefCell<String> = const { RefCell::new(String::new()) };
    }

    pub(crate) fn remember(sentence: String) {
        LAST.set(sentence);
    }

    pub(crate) fn forget() {
        LAST.with_borrow_mut(String::clear);
    }

    /// Adds it to the failure of a run, and forgets it.
    pub(crate) fn add(mut failure: Failure) -> Failure {
        let sentence = LAST.take();
        if !sentence.is_empty() {
            failure.sentence = format!("{}: {sentence}", failure.sentence);
        }
        failure
    }
}

/// What `get` says of an argument of a call, or `otherwise`.
unsafe fn look<R>(
    call: *const ETCall<'_, '_>,
    index: i32,
    otherwise: R,
    get: impl FnOnce(&ETCall<'_, '_>, usize) -> Option<R>,
) -> R {
    // SAFETY: NULL or the call that the function was given, as the header asks.
    entry::value(otherwise, || get(unsafe { call.as_ref() }?, usize::try_from(index).ok()?))
}

/// As `look`, for what must be kept.
unsafe fn keep<R>(
    call: *mut ETCall<'_, '_>,
    index: i32,
    otherwise: R,
    get: impl FnOnce(&mut ETCall<'_, '_>, usize) -> Option<R>,
) -> R {
    // SAFETY: NULL or the call that the function was given, which nobody else uses meanwhile, as the header asks.
    entry::value(otherwise, || get(unsafe { call.as_mut() }?, usize::try_from(index).ok()?))
}

/// How many arguments there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_argument_count(call: *const ETCall<'_, '_>) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, 0, 0, |call, _| Some(count(call.call.len()))) }
}

/// What an argument is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_argument_kind(call: *const ETCall<'_, '_>, index: i32) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0, |call, index| Some(call.kind(index) as i32)) }
}

/// The element type of a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_tensor_dtype(call: *const ETCall<'_, '_>, index: i32) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0, |call, index| Some(type_number(call.call.tensor_type(index).ok()?.0))) }
}

/// The number of dimensions of a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_tensor_rank(call: *const ETCall<'_, '_>, index: i32) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0, |call, index| Some(count(call.call.tensor_type(index).ok()?.1.rank()))) }
}

/// The sizes of a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_tensor_shape(call: *mut ETCall<'_, '_>, index: i32) -> *const i64 {
    // SAFETY: the caller's promise is handed on.
    unsafe { keep(call, index, ptr::null(), |call, index| call.shape(index)) }
}

/// The elements of a tensor, to be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_tensor_data(
    call: *mut ETCall<'_, '_>,
    index: i32,
    out_size: *mut usize,
) -> *const c_void {
    let show = |call: &mut ETCall<'_, '_>, index| {
        let bytes = call.data(index)?;
        Place::optional(out_size).into_iter().for_each(|size| size.set(bytes.size));
        Some(bytes.start.cast())
    };
    // SAFETY: the caller's promise is handed on.
    unsafe { keep(call, index, ptr::null(), show) }
}

/// An integer or truth value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_int(call: *const ETCall<'_, '_>, index: i32) -> i64 {
    let integer = |call: &ETCall<'_, '_>, index| match call.call.scalar(index).ok()? {
        Scalar::Int(value) => Some(value),
        Scalar::Bool(value) => Some(value.into()),
        Scalar::Double(_) => None,
    };
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0, integer) }
}

/// A number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_double(call: *const ETCall<'_, '_>, index: i32) -> f64 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0.0, |call, index| Some(call.call.scalar(index).ok()?.to_f64())) }
}

/// A string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_string(call: *mut ETCall<'_, '_>, index: i32) -> *const c_char {
    // SAFETY: the caller's promise is handed on.
    unsafe { keep(call, index, ptr::null(), |call, index| call.string(index)) }
}

/// The length of a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_list_length(call: *const ETCall<'_, '_>, index: i32) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0, |call, index| Some(count(call.call.list_len(index).ok()?))) }
}

/// An element of a list of integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_int_in(call: *const ETCall<'_, '_>, index: i32, position: i32) -> i64 {
    let element = |call: &ETCall<'_, '_>, index| call.call.int_in(index, usize::try_from(position).ok()?).ok();
    // SAFETY: the caller's promise is handed on.
    unsafe { look(call, index, 0, element) }
}

/// The memory of an output, which gets this shape.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_output(
    call: *mut ETCall<'_, '_>,
    index: i32,
    shape: *const i64,
    rank: i32,
    out_size: *mut usize,
) -> *mut c_void {
    let take = |call: &mut ETCall<'_, '_>, index| {
        // SAFETY: NULL or `rank` sizes, as the header asks.
        let shape = unsafe { read_shape(shape, rank) }.ok()?;
        let (start, size) = call.output(index, &shape)?;
        Place::optional(out_size).into_iter().for_each(|out| out.set(size));
        Some(start.cast())
    };
    // SAFETY: the caller's promise is handed on.
    unsafe { keep(call, index, ptr::null_mut(), take) }
}

/// Says why the call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_call_explain(call: *mut ETCall<'_, '_>, sentence: *const c_char) {
    let explain = |call: &mut ETCall<'_, '_>, _| {
        // SAFETY: NULL or a string, as the header asks.
        call.explanation = Some(unsafe { text(sentence, "sentence") }.ok()?.to_owned());
        Some(())
    };
    // SAFETY: the caller's promise is handed on.
    unsafe { keep(call, 0, (), explain) }
}
