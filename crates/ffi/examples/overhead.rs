//! What a call through the C interface costs over the same call in Rust, on a program of one operator.
//!
//! ```text
//! cargo run --release -p sconce-ffi --example overhead [MODEL.pte]
//! ```
//!
//! The model's inputs and outputs are float32 tensors. Each way is timed in turn, many times in small batches, and the fastest and the median
//! batch of each are printed, in nanoseconds per call.
#![allow(unsafe_code, reason = "calls the library as C does")]
use executorch_ffi::*;
use sconce::core::ValueInfo;
use sconce::{Input, Module, Options, Tensor};
use std::ffi::CString;
use std::ptr::null_mut;
use std::time::Instant;

const BATCH: u32 = 500;
const ROUNDS: usize = 400;

/// The model's inputs, filled with zeros.
fn zeros(module: &Module) -> Vec<Tensor> {
    let method = module.program().method("forward").expect("a method named forward");
    let tensor = |index| match method.input(index) {
        Some(ValueInfo::Tensor { dtype, shape, .. }) => Tensor::zeros(dtype, shape.sizes()).expect("memory for inputs"),
        other => panic!("input {index} is no tensor: {other:?}"),
    };
    (0..method.inputs()).map(tensor).collect()
}

/// Ends the program if a call failed.
fn check(status: *mut ETStatus) {
    // SAFETY: a status that was just returned.
    unsafe {
        assert_eq!((*status).code, 0);
        et_status_free(status);
    }
}

/// A float32 tensor of the facade as one of the C interface.
fn copy(tensor: &Tensor) -> *mut ETTensor {
    let shape: Vec<i64> = tensor.sizes().iter().map(|&size| size as i64).collect();
    let (bytes, mut made) = (tensor.bytes(), null_mut());
    // SAFETY: pointers are valid.
    check(unsafe {
        et_tensor_create(bytes.as_ptr().cast(), bytes.len(), shape.as_ptr(), shape.len() as i32, 0, &mut made)
    });
    made
}

/// A way to run the model.
struct Way<'a> {
    name: &'static str,
    call: Box<dyn FnMut() + 'a>,
    times: Vec<f64>,
}

impl<'a> Way<'a> {
    fn new(name: &'static str, call: impl FnMut() + 'a) -> Self {
        Self { name, call: Box::new(call), times: Vec::new() }
    }

    fn time(&mut self) {
        let start = Instant::now();
        (0..BATCH).for_each(|_| (self.call)());
        self.times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
    }

    fn print(&mut self) {
        self.times.sort_by(f64::total_cmp);
        let (fastest, median) = (self.times[0], self.times[self.times.len() / 2]);
        println!("{:20} fastest {fastest:6.0} ns, median {median:6.0} ns", self.name);
    }
}

/// The model through the C interface: a module, and a session of it.
fn open(path: String) -> (*mut ETModule, *mut ETSession) {
    let path = CString::new(path).expect("a path without zero bytes");
    let (mut module, mut session) = (null_mut(), null_mut());
    // SAFETY: pointers are valid.
    unsafe {
        check(et_module_load_file(path.as_ptr(), &mut module));
        check(et_session_create(module, c"forward".as_ptr(), &mut session));
    }
    (module, session)
}

fn main() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/samples/abs.float32.0.pte");
    let path = std::env::args().nth(1).unwrap_or_else(|| default.to_owned());
    let module = Options::new().load(&path).expect("a program");
    let tensors = zeros(&module);
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
    let mut session = module.session().expect("a session");
    let results = session.run(&inputs).expect("a run");

    let (c_module, c_session) = open(path);
    let given: Vec<_> = tensors.iter().map(copy).collect();
    let targets: Vec<_> = results.iter().map(|result| copy(result.tensor().expect("a tensor"))).collect();
    let value = |&tensor: &_| ETValue { kind: ETValueKind::Tensor as i32, content: ETValueContent { tensor } };
    let values: Vec<ETValue> = given.iter().map(value).collect();
    let (count, target_count) = (given.len() as i32, targets.len() as i32);

    let mut ways = [
        Way::new("Module::forward", || drop(module.forward(&inputs).expect("a run"))),
        Way::new("et_module_forward", || {
            let (mut outputs, mut length) = (null_mut(), 0);
            // SAFETY: pointers are valid; the outputs are freed once.
            unsafe {
                check(et_module_forward(c_module, given.as_ptr(), count, &mut outputs, &mut length));
                et_tensor_array_free(outputs, length);
            }
        }),
        Way::new("Session::run_with", || session.run_with(&inputs, |_| ()).expect("a run")),
        // SAFETY: pointers are valid.
        Way::new("et_session_run_into", || unsafe {
            check(et_session_run_into(c_session, values.as_ptr(), count, targets.as_ptr(), target_count));
        }),
    ];
    for _ in 0..ROUNDS {
        ways.iter_mut().for_each(Way::time);
    }
    ways.iter_mut().for_each(Way::print);
}
