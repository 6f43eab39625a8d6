//! Calls that are wrong in every way that a caller can be: each is told with a code, a sentence and a place, and writes
//! nothing.
#![allow(unsafe_code, reason = "calls the library as C does")]
mod support;
use executorch_ffi::*;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

const F32: i32 = 0;

/// The code, message and function of a status, which is freed.
#[track_caller]
fn told(status: *mut ETStatus) -> (i32, String, String) {
    assert!(!status.is_null());
    // SAFETY: a status that was just returned.
    unsafe {
        let text = |pointer: *const c_char| match pointer.is_null() {
            true => String::new(),
            false => CStr::from_ptr(pointer).to_str().unwrap().to_owned(),
        };
        let (code, message, location) = ((*status).code, text((*status).message), text((*status).location));
        et_status_free(status);
        let function = location.rsplit(':').next().unwrap_or("").to_owned();
        if code != 0 {
            let parts: Vec<_> = location.split(':').collect();
            assert!(parts[0].ends_with(".rs") && parts[1].parse::<u32>().is_ok(), "{location}");
        }
        (code, message, function)
    }
}

/// The call fails with this code, from this function, with these words in its sentence.
#[track_caller]
fn fails(status: *mut ETStatus, code: ETErrorCode, function: &str, words: &str) {
    let (have, message, place) = told(status);
    assert_eq!((have, place.as_str()), (code as i32, function), "{message}");
    assert!(message.contains(words), "{message}");
}

#[track_caller]
fn works(status: *mut ETStatus) {
    let (code, message, _) = told(status);
    assert_eq!((code, message.as_str()), (0, ""));
}

macro_rules! wrong {
    ($function:ident($($argument:expr),* $(,)?), $words:expr) => {
        #[allow(unused_unsafe, reason = "some take no pointers")]
        // SAFETY: pointers are NULL or valid.
        fails(unsafe { $function($($argument),*) }, ETErrorCode::InvalidArgument, stringify!($function), $words)
    };
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn tensor(elements: &[f32], shape: &[i64]) -> *mut ETTensor {
    let mut tensor = null_mut();
    // SAFETY: pointers are valid.
    works(unsafe {
        let rank = shape.len() as i32;
        et_tensor_create(elements.as_ptr().cast(), size_of_val(elements), shape.as_ptr(), rank, F32, &mut tensor)
    });
    tensor
}

fn load(path: &str) -> *mut ETModule {
    let mut module = null_mut();
    // SAFETY: pointers are valid.
    works(unsafe { et_module_load_file(c(&support::file(path)).as_ptr(), &mut module) });
    module
}

fn value(tensor: *mut ETTensor) -> ETValue {
    ETValue { kind: ETValueKind::Tensor as i32, content: ETValueContent { tensor } }
}

#[test]
fn tensors() {
    let data = [0.0f32; 6];
    let start: *const c_void = data.as_ptr().cast();
    let untouched: *mut ETTensor = null_mut();
    let mut out = untouched;
    let shape = [2i64, 3];
    wrong!(et_tensor_create(start, 24, shape.as_ptr(), 2, F32, null_mut()), "out_tensor");
    wrong!(et_tensor_create(start, 24, null(), 2, F32, &mut out), "shape");
    wrong!(et_tensor_create(null(), 24, shape.as_ptr(), 2, F32, &mut out), "data");
    wrong!(et_tensor_create(start, 24, shape.as_ptr(), -1, F32, &mut out), "-1");
    wrong!(et_tensor_create(start, 24, shape.as_ptr(), i32::MIN, F32, &mut out), "rank");
    wrong!(et_tensor_create(start, 24, [1i64; 17].as_ptr(), 17, F32, &mut out), "17");
    wrong!(et_tensor_create(start, 24, shape.as_ptr(), i32::MAX, F32, &mut out), "rank");
    for dtype in [-1, 13, i32::MAX, i32::MIN] {
        wrong!(et_tensor_create(start, 24, shape.as_ptr(), 2, dtype, &mut out), "ETDType");
    }
    for size in [0, 23, 25, usize::MAX] {
        wrong!(et_tensor_create(start, size, shape.as_ptr(), 2, F32, &mut out), "24");
    }
    wrong!(et_tensor_create(start, 24, [-2i64, -3].as_ptr(), 2, F32, &mut out), "-2");
    for shape in [[i64::MAX, i64::MAX], [i64::MAX, 2], [1 << 62, 1], [1 << 32, 1 << 32]] {
        wrong!(et_tensor_create(start, 24, shape.as_ptr(), 2, F32, &mut out), "more than any memory");
        wrong!(et_tensor_borrow(start.cast_mut(), 24, shape.as_ptr(), 2, F32, &mut out), "more than any memory");
    }
    // SAFETY: inside of the array.
    let odd = unsafe { start.byte_add(1) }.cast_mut();
    wrong!(et_tensor_borrow(odd, 4, [1i64].as_ptr(), 1, F32, &mut out), "aligned");
    wrong!(et_tensor_borrow(null_mut(), 4, [1i64].as_ptr(), 1, F32, &mut out), "data");
    wrong!(et_tensor_borrow(odd, 4, [1i64].as_ptr(), 1, F32, null_mut()), "out_tensor");
    assert_eq!(out, untouched);
    // SAFETY: NULL is what these functions are asked about.
    unsafe {
        assert_eq!((et_tensor_dtype(null()), et_tensor_rank(null()), et_tensor_data_size(null())), (0, 0, 0));
        assert!(et_tensor_shape(null()).is_null() && et_tensor_data(null()).is_null());
        assert!(et_tensor_mutable_data(null_mut()).is_null());
        et_tensor_free(null_mut());
        et_tensor_array_free(null_mut(), 1);
        et_tensor_array_free(null_mut(), -1);
        et_value_array_free(null_mut(), 1);
        et_value_array_free(null_mut(), -1);
    }
}

#[test]
fn tensors_of_rank_zero_and_without_elements() {
    let (mut number, mut empty, mut lent) = (null_mut(), null_mut(), null_mut());
    let seven = 7.5f32;
    // SAFETY: pointers are NULL where that is allowed, and valid elsewhere.
    unsafe {
        works(et_tensor_create((&raw const seven).cast(), 4, null(), 0, F32, &mut number));
        assert_eq!((et_tensor_rank(number), et_tensor_data_size(number)), (0, 4));
        assert_eq!(*et_tensor_data(number).cast::<f32>(), 7.5);
        *et_tensor_mutable_data(number).cast::<f32>() = 8.5;
        assert_eq!(*et_tensor_data(number).cast::<f32>(), 8.5);
        works(et_tensor_create(null(), 0, [3i64, 0].as_ptr(), 2, F32, &mut empty));
        works(et_tensor_borrow(null_mut(), 0, [0i64].as_ptr(), 1, F32, &mut lent));
        assert_eq!((et_tensor_data_size(empty), et_tensor_data_size(lent)), (0, 0));
        assert_eq!((*et_tensor_shape(empty), *et_tensor_shape(lent)), (3, 0));
        [number, empty, lent].into_iter().for_each(|tensor| et_tensor_free(tensor));
    }
}

#[test]
fn loading() {
    let mut module = null_mut();
    let digits = c(&support::file("examples/digits/digits.pte"));
    let bytes = std::fs::read(support::file("examples/digits/digits.pte")).unwrap();
    wrong!(et_module_load(null(), 10, &mut module), "data");
    wrong!(et_module_load(null(), 0, &mut module), "data");
    wrong!(et_module_load(bytes.as_ptr(), bytes.len(), null_mut()), "out_module");
    wrong!(et_module_load_file(null(), &mut module), "path");
    wrong!(et_module_load_file(digits.as_ptr(), null_mut()), "out_module");
    wrong!(et_module_load_file(c"\xff\xfe".as_ptr(), &mut module), "UTF-8");
    use ETErrorCode::{IoError, ModelLoadFailed, OutOfMemory};
    // SAFETY: pointers are valid.
    unsafe {
        fails(et_module_load_file(c"".as_ptr(), &mut module), IoError, "et_module_load_file", "cannot read");
        fails(et_module_load(bytes.as_ptr(), 0, &mut module), ModelLoadFailed, "et_module_load", "");
        for length in [1, 7, 8, 40, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
            fails(et_module_load(bytes.as_ptr(), length, &mut module), ModelLoadFailed, "et_module_load", "");
        }
    }
    let options = |change: fn(&mut ETLoadOptions)| {
        let mut options = std::mem::MaybeUninit::uninit();
        // SAFETY: `et_load_options_init` fills in all of it.
        let mut options: ETLoadOptions = unsafe {
            et_load_options_init(options.as_mut_ptr());
            options.assume_init()
        };
        change(&mut options);
        options
    };
    type Row = (fn(&mut ETLoadOptions), &'static str);
    let rows: [Row; 8] = [
        (|options| options.size = 0, "sizeof"),
        (|options| options.size -= 1, "sizeof"),
        (|options| options.threads = -1, "threads"),
        (|options| options.engine = 7, "ETEngine"),
        (|options| options.rounding = 2, "ETRounding"),
        (|options| options.data_path_count = 1, "data_paths"),
        (|options| options.data_path_count = -1, "data_paths"),
        (|options| (options.data_paths, options.data_path_count) = ((&raw const NOTHING.0).cast(), 1), "data_paths"),
    ];
    for (change, words) in rows {
        let options = options(change);
        wrong!(et_module_load_file_with(digits.as_ptr(), &options, &mut module), words);
        wrong!(et_module_load_with(bytes.as_ptr(), bytes.len(), &options, &mut module), words);
    }
    let small = options(|options| options.memory_limit = 1);
    // SAFETY: pointers are valid.
    fails(
        unsafe { et_module_load_file_with(digits.as_ptr(), &small, &mut module) },
        OutOfMemory,
        "et_module_load_file_with",
        "memory_limit",
    );
    assert!(module.is_null());
    // SAFETY: NULL is allowed.
    unsafe {
        et_load_options_init(null_mut());
        et_task_options_init(null_mut());
        et_module_free(null_mut());
    }
}

/// A list with nothing in it but NULL.
struct Nothing([*const c_char; 1]);
// SAFETY: it is NULL.
unsafe impl Sync for Nothing {}
static NOTHING: Nothing = Nothing([null()]);

#[test]
fn looking_into_a_module() {
    let module = load("tests/golden/methods.pte");
    let (mut a, mut b) = (-5, -5);
    wrong!(et_module_method_counts(null(), c"encode".as_ptr(), &mut a, &mut b), "module");
    wrong!(et_module_method_counts(module, null(), &mut a, &mut b), "method");
    wrong!(et_module_method_counts(module, c"nothing".as_ptr(), &mut a, &mut b), "encode");
    wrong!(et_module_method_counts(module, c"encode".as_ptr(), null_mut(), &mut b), "out_inputs");
    wrong!(et_module_method_counts(module, c"encode".as_ptr(), &mut a, null_mut()), "out_outputs");
    assert_eq!((a, b), (-5, -5));
    // SAFETY: a structure of numbers and pointers may be all zero.
    let mut info: ETValueInfo = unsafe { std::mem::zeroed() };
    wrong!(et_module_input_info(module, c"encode".as_ptr(), 0, &mut info), "sizeof");
    info.size = size_of::<ETValueInfo>();
    wrong!(et_module_input_info(module, c"encode".as_ptr(), 0, null_mut()), "out_info");
    for index in [-1, 1, i32::MAX] {
        wrong!(et_module_input_info(module, c"encode".as_ptr(), index, &mut info), "1 inputs");
        wrong!(et_module_output_info(module, c"encode".as_ptr(), index, &mut info), "1 outputs");
    }
    wrong!(et_module_output_info(null(), c"encode".as_ptr(), 0, &mut info), "module");
    // SAFETY: NULL or valid.
    unsafe {
        assert_eq!((et_module_input_count(null()), et_module_output_count(null())), (0, 0));
        assert_eq!((et_module_input_count(module), et_module_output_count(module)), (1, 1), "there is no forward");
        assert_eq!(et_module_method_count(null()), 0);
        assert!(et_module_method_name(null(), 0).is_null());
        let count = et_module_method_count(module);
        assert!(et_module_method_name(module, -1).is_null() && et_module_method_name(module, count).is_null());
        et_module_free(module);
    }
}

#[test]
fn running() {
    let (digits, methods) = (load("examples/digits/digits.pte"), load("tests/golden/methods.pte"));
    let image = tensor(&[0.0; 64], &[1, 1, 8, 8]);
    let (wide, doubles) = (tensor(&[0.0; 128], &[2, 1, 8, 8]), {
        let (mut out, data) = (null_mut(), [0.0f64; 64]);
        // SAFETY: pointers are valid.
        works(unsafe { et_tensor_create(data.as_ptr().cast(), 512, [1i64, 1, 8, 8].as_ptr(), 4, 1, &mut out) });
        out
    });
    let (mut outputs, mut count) = (null_mut(), -7);
    wrong!(et_module_forward(null_mut(), &image, 1, &mut outputs, &mut count), "module");
    wrong!(et_module_forward(digits, null(), 1, &mut outputs, &mut count), "inputs");
    wrong!(et_module_forward(digits, &image, -1, &mut outputs, &mut count), "negative");
    wrong!(et_module_forward(digits, &image, 0, &mut outputs, &mut count), "takes 1 input(s), 0 were given");
    wrong!(et_module_forward(digits, [image; 2].as_ptr(), 2, &mut outputs, &mut count), "2 were given");
    wrong!(et_module_forward(digits, &image, 1, null_mut(), &mut count), "out_outputs");
    wrong!(et_module_forward(digits, &image, 1, &mut outputs, null_mut()), "out_output_count");
    wrong!(et_module_forward(digits, &null_mut(), 1, &mut outputs, &mut count), "input 0");
    wrong!(et_module_forward(digits, &wide, 1, &mut outputs, &mut count), "[2, 1, 8, 8]");
    wrong!(et_module_forward(digits, &doubles, 1, &mut outputs, &mut count), "float64");
    wrong!(et_module_forward(methods, &image, 1, &mut outputs, &mut count), "no method `forward`; it has");
    assert!(outputs.is_null() && count == -7);

    let (mut values, good) = (null_mut(), value(image));
    let forward = c"forward".as_ptr();
    let mut kinds = vec![value(null_mut())];
    kinds.extend([2, 3, 4, 6, 7, -1].map(|kind| ETValue { kind, content: ETValueContent { integer: 0 } }));
    kinds.push(ETValue { kind: ETValueKind::String as i32, content: ETValueContent { string: null() } });
    kinds.push(ETValue { kind: ETValueKind::None as i32, content: ETValueContent { integer: 0 } });
    for input in &kinds {
        wrong!(et_module_run(digits, forward, input, 1, &mut values, &mut count), "");
    }
    wrong!(et_module_run(digits, null(), &good, 1, &mut values, &mut count), "method");
    wrong!(et_module_run(digits, c"backward".as_ptr(), &good, 1, &mut values, &mut count), "forward");
    wrong!(et_module_run(null_mut(), forward, &good, 1, &mut values, &mut count), "module");
    wrong!(et_module_run(digits, forward, &good, 1, null_mut(), &mut count), "out_outputs");

    let scores = tensor(&[0.0; 10], &[1, 10]);
    let narrow = tensor(&[0.0; 9], &[1, 9]);
    wrong!(et_module_run_into(digits, forward, &good, 1, &scores, 0), "1 output(s), 0");
    wrong!(et_module_run_into(digits, forward, &good, 1, null(), 1), "outputs");
    wrong!(et_module_run_into(digits, forward, &good, 1, &null_mut(), 1), "output 0");
    wrong!(et_module_run_into(digits, forward, &good, 1, &narrow, 1), "40 bytes");
    wrong!(et_module_run_into(digits, forward, &good, 1, &doubles, 1), "float64");
    wrong!(et_module_run_into(digits, forward, &good, 1, &image, 1), "shares memory");

    let mut session = null_mut();
    wrong!(et_session_create(null_mut(), forward, &mut session), "module");
    wrong!(et_session_create(digits, null(), &mut session), "method");
    wrong!(et_session_create(digits, c"nothing".as_ptr(), &mut session), "nothing");
    wrong!(et_session_create(digits, forward, null_mut()), "out_session");
    assert!(session.is_null());
    // SAFETY: pointers are valid.
    works(unsafe { et_session_create(digits, forward, &mut session) });
    wrong!(et_session_run(null_mut(), &good, 1, &mut values, &mut count), "session");
    wrong!(et_session_run(session, &good, 0, &mut values, &mut count), "0 were given");
    wrong!(et_session_run(session, &good, 1, &mut values, null_mut()), "out_output_count");
    wrong!(et_session_run_into(null_mut(), &good, 1, &scores, 1), "session");
    wrong!(et_session_run_into(session, &good, 1, &narrow, 1), "40 bytes");
    wrong!(et_module_set_profiler(null_mut(), None, null_mut()), "module");
    assert!(values.is_null() && count == -7);
    // SAFETY: after all these, what is right still works; then everything is freed once.
    unsafe {
        works(et_session_run_into(session, &good, 1, &scores, 1));
        works(et_module_forward(digits, &image, 1, &mut outputs, &mut count));
        et_tensor_array_free(outputs, count);
        [image, wide, doubles, scores, narrow].into_iter().for_each(|tensor| et_tensor_free(tensor));
        et_session_free(session);
        et_session_free(null_mut());
        et_module_free(digits);
        et_module_free(methods);
    }
}

#[test]
fn outputs_are_written_all_or_none() {
    let module = load("tests/golden/channels_last.pte");
    let input = value(tensor(&[0.0; 180], &[2, 3, 5, 6]));
    let (first, second) = (tensor(&[7.5; 240], &[240]), tensor(&[7.5; 239], &[239]));
    let empty = tensor(&[], &[0]);
    let forward = c"forward".as_ptr();
    wrong!(et_module_run_into(module, forward, &input, 1, [first, second].as_ptr(), 2), "output 1");
    wrong!(et_module_run_into(module, forward, &input, 1, [first, first].as_ptr(), 2), "output 1 is given twice");
    wrong!(et_module_run_into(module, forward, &input, 1, [empty, empty].as_ptr(), 2), "output 1 is given twice");
    // SAFETY: the tensors are there, and are freed once.
    unsafe {
        assert_eq!((et_tensor_rank(first), *et_tensor_shape(first)), (1, 240));
        let elements = std::slice::from_raw_parts(et_tensor_data(first).cast::<f32>(), 240);
        assert!(elements.iter().all(|&element| element == 7.5));
        [first, second, empty, input.content.tensor].into_iter().for_each(|tensor| et_tensor_free(tensor));
        et_module_free(module);
    }
}

#[test]
fn queueing() {
    unsafe extern "C" fn callback(_: *mut c_void, status: *mut ETStatus) {
        // SAFETY: the receiver frees the status.
        unsafe { et_status_free(status) };
        panic!("must not be called");
    }
    let digits = load("examples/digits/digits.pte");
    let image = tensor(&[0.0; 64], &[1, 1, 8, 8]);
    let (mut values, mut count, mut task) = (null_mut(), -7, null_mut());
    let (good, forward, nowhere) = (value(image), c"forward".as_ptr(), null_mut());
    let some: Option<ETTaskCallback> = Some(callback);
    let bad = ETTaskOptions { size: 3, priority: 0, timeout_ms: 0 };
    macro_rules! queued {
        ($module:expr, $method:expr, $inputs:expr, $n:expr, $out:expr, $count:expr, $options:expr, $callback:expr, $words:expr) => {
            wrong!(
                et_module_run_async(
                    $module, $method, $inputs, $n, $out, $count, $options, $callback, nowhere, &mut task
                ),
                $words
            )
        };
    }
    queued!(null_mut(), forward, &good, 1, &mut values, &mut count, null(), some, "module");
    queued!(digits, null(), &good, 1, &mut values, &mut count, null(), some, "method");
    queued!(digits, c"nothing".as_ptr(), &good, 1, &mut values, &mut count, null(), some, "nothing");
    queued!(digits, forward, null(), 1, &mut values, &mut count, null(), some, "inputs");
    queued!(digits, forward, &good, -1, &mut values, &mut count, null(), some, "negative");
    queued!(digits, forward, &good, 1, null_mut(), &mut count, null(), some, "out_outputs");
    queued!(digits, forward, &good, 1, &mut values, null_mut(), null(), some, "out_output_count");
    queued!(digits, forward, &good, 1, &mut values, &mut count, &bad, some, "sizeof");
    queued!(digits, forward, &good, 1, &mut values, &mut count, null(), None, "callback");
    wrong!(et_async_configure(-1, 0), "threads");
    wrong!(et_async_configure(0, -1), "queue_limit");
    assert!(task.is_null() && values.is_null() && count == -7);
    // SAFETY: NULL is allowed; a NULL callback means that nothing is done.
    unsafe {
        assert_eq!((et_task_cancel(null_mut()), et_task_wait(null(), 1)), (0, 0));
        et_task_free(null_mut());
        et_module_forward_async(digits, &image, 1, null_mut(), null_mut(), None);
        et_module_load_async(null(), 3, null_mut(), None);
        et_module_load_file_async(null(), null_mut(), None);
        et_module_free(digits);
        et_tensor_free(image);
    }
}

#[test]
fn registering_and_choosing() {
    unsafe extern "C" fn kernel(_: *mut ETCall<'_, '_>, _: *mut c_void) -> i32 {
        0
    }
    unsafe extern "C" fn init(_: *const ETBackendPayload, _: *mut c_void, _: *mut *mut c_void, _: *mut i32) -> i32 {
        0
    }
    unsafe extern "C" fn execute(_: *mut c_void, _: *mut ETCall<'_, '_>, _: *mut c_void) -> i32 {
        0
    }
    let some: Option<ETKernelFunction> = Some(kernel);
    wrong!(et_kernel_register(null(), 3, 4, some, null_mut()), "name");
    wrong!(et_kernel_register(c"soft_clip".as_ptr(), 3, 4, some, null_mut()), "namespace::name");
    wrong!(et_kernel_register(c"a::b.out".as_ptr(), 3, 4, None, null_mut()), "run");
    wrong!(et_kernel_register(c"a::b.out".as_ptr(), 0, 0, some, null_mut()), "1 to 32");
    wrong!(et_kernel_register(c"a::b.out".as_ptr(), 3, 8, some, null_mut()), "3 arguments");
    let definition = || ETBackendDefinition {
        size: size_of::<ETBackendDefinition>(),
        name: c"NobodysBackend".as_ptr(),
        is_available: None,
        init: Some(init),
        execute: Some(execute),
        destroy: None,
        user_data: null_mut(),
    };
    wrong!(et_backend_register(null()), "definition");
    wrong!(et_backend_register(&ETBackendDefinition { size: 8, ..definition() }), "sizeof");
    wrong!(et_backend_register(&ETBackendDefinition { name: null(), ..definition() }), "name");
    wrong!(et_backend_register(&ETBackendDefinition { name: c"".as_ptr(), ..definition() }), "empty");
    wrong!(et_backend_register(&ETBackendDefinition { init: None, ..definition() }), "init");
    wrong!(et_backend_register(&ETBackendDefinition { execute: None, ..definition() }), "execute");
    assert!(et_backend_registered_name(-1).is_null() && et_backend_registered_name(99).is_null());
    assert_eq!((et_backend_available(-1), et_backend_available(8), et_backend_available(i32::MAX)), (0, 0, 0));

    let (mut module, mut index) = (null_mut(), -7);
    wrong!(et_module_load_best(null(), 1, &mut module, &mut index, null_mut()), "candidates");
    wrong!(et_module_load_best(null(), 0, &mut module, &mut index, null_mut()), "no candidates");
    wrong!(et_module_load_best(null(), -1, &mut module, &mut index, null_mut()), "negative");
    let nameless = ETCandidate { path: null(), options: null() };
    wrong!(et_module_load_best(&nameless, 1, &mut module, &mut index, null_mut()), "path");
    wrong!(et_module_load_best(&nameless, 1, null_mut(), &mut index, null_mut()), "out_module");
    let absent = ETCandidate { path: c"no/such.pte".as_ptr(), options: null() };
    // SAFETY: pointers are valid.
    let status = unsafe { et_module_load_best(&absent, 1, &mut module, &mut index, null_mut()) };
    fails(status, ETErrorCode::IoError, "et_module_load_best", "no/such.pte");
    assert!(module.is_null() && index == -7);

    let digits = c(&support::file("examples/digits/digits.pte"));
    let mut estimate =
        ETMemoryEstimate { size: size_of::<ETMemoryEstimate>(), file_bytes: 0, weight_bytes: 0, session_bytes: 0 };
    wrong!(et_pack_weights(null(), null(), null()), "path");
    // SAFETY: pointers are valid.
    let unwritten = unsafe { et_pack_weights(digits.as_ptr(), null(), c"/nowhere/at/all".as_ptr()) };
    fails(unwritten, ETErrorCode::IoError, "et_pack_weights", "/nowhere/at/all");
    wrong!(et_estimate_memory(null(), null(), &mut estimate), "path");
    wrong!(et_estimate_memory(digits.as_ptr(), null(), null_mut()), "out_estimate");
    wrong!(et_estimate_memory(digits.as_ptr(), c"backward".as_ptr(), &mut estimate), "forward");
    estimate.size = 8;
    wrong!(et_estimate_memory(digits.as_ptr(), null(), &mut estimate), "sizeof");
}

#[test]
fn calls_outside_of_a_call() {
    // SAFETY: NULL is what these functions are asked about.
    unsafe {
        assert_eq!((et_call_argument_count(null()), et_call_argument_kind(null(), 0)), (0, 0));
        assert_eq!((et_call_tensor_dtype(null(), 0), et_call_tensor_rank(null(), 0)), (0, 0));
        assert!(et_call_tensor_shape(null_mut(), 0).is_null());
        assert!(et_call_tensor_data(null_mut(), 0, null_mut()).is_null());
        assert_eq!((et_call_int(null(), 0), et_call_double(null(), 0)), (0, 0.0));
        assert!(et_call_string(null_mut(), 0).is_null());
        assert_eq!((et_call_list_length(null(), 0), et_call_int_in(null(), 0, 0)), (0, 0));
        assert!(et_call_output(null_mut(), 0, null(), 0, null_mut()).is_null());
        et_call_explain(null_mut(), c"why".as_ptr());
        et_call_explain(null_mut(), null());
    }
}

#[test]
fn delegates_for_another_runtime() {
    unsafe extern "C" fn no_memory(_: *mut c_void, _: i32, _: i32, _: *const i64, _: i32, _: usize) -> *mut c_void {
        null_mut()
    }
    let text = b"no payload";
    let payload = ETBackendPayload {
        size: size_of::<ETBackendPayload>(),
        method: c"forward".as_ptr(),
        data: text.as_ptr().cast(),
        data_size: text.len(),
        spec_count: 0,
        spec_keys: null(),
        spec_values: null(),
        spec_sizes: null(),
        named_data: None,
        context: null(),
        explain: None,
    };
    let mut delegate = null_mut();
    wrong!(et_delegate_create(null(), &payload, null(), &mut delegate), "backend is NULL");
    wrong!(et_delegate_create(c"GgmlBackend".as_ptr(), &payload, null(), null_mut()), "out_delegate is NULL");
    // SAFETY: pointers are valid.
    let unknown = unsafe { et_delegate_create(c"XnnpackBackend".as_ptr(), &payload, null(), &mut delegate) };
    fails(unknown, ETErrorCode::Unsupported, "et_delegate_create", "XnnpackBackend cannot be lent to another runtime");
    if cfg!(feature = "ggml") {
        let name = c"GgmlBackend".as_ptr();
        let options = |size, threads| ETDelegateOptions { size, threads, device: null() };
        let whole = size_of::<ETDelegateOptions>();
        wrong!(et_delegate_create(name, null(), null(), &mut delegate), "payload is NULL");
        wrong!(et_delegate_create(name, &payload, &options(whole, -1), &mut delegate), "the number of threads is -1");
        wrong!(et_delegate_create(name, &payload, &options(4, 1), &mut delegate), "its size is 4");
        // SAFETY: pointers are valid.
        let damaged = unsafe { et_delegate_create(name, &payload, &options(whole, 1), &mut delegate) };
        fails(damaged, ETErrorCode::ModelLoadFailed, "et_delegate_create", "");
    }
    assert!(delegate.is_null());
    wrong!(et_delegate_run(delegate, null(), 0, Some(no_memory), null_mut()), "delegate is NULL");
    // SAFETY: NULL is allowed.
    unsafe {
        assert_eq!((et_delegate_input_count(delegate), et_delegate_output_count(delegate)), (0, 0));
        et_delegate_free(delegate);
    }
}
