//! What a call through the C interface costs over the same call in Rust, on a program of one operator.
//!
//! ```text
//! cargo run --release -p sconce-ffi --example overhead [MODEL.pte]
//! ```
//!
//! The model's inputs are tensors. Each way is timed in turn, many times in small batches, and the fastest and the median
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

/// A tensor of the C interface over the elements of one of the facade, which holds float32.
fn lend(tensor: &Tensor) -> *mut ETTensor {
    let shape: Vec<i64> = tensor.sizes().iter().map(|&size| size as i64).collect();
    let (data, size, mut lent) = (tensor.bytes().as_ptr().cast_mut(), tensor.bytes().len(), null_mut());
    // SAFETY: pointers are valid, and the facade's tensor outlives the lent one, which is not written.
    check(unsafe { et_tensor_borrow(data.cast(), size, shape.as_ptr(), shape.len() as i32, 0, &mut lent) });
    lent
}

fn main() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/samples/abs.float32.0.pte");
    let path = std::env::args().nth(1).unwrap_or_else(|| default.to_owned());
    let module = Options::new().load(&path).expect("a program");
    let tensors = zeros(&module);
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
    let mut session = module.session().expect("a session");

    let (mut c_module, mut c_session) = (null_mut(), null_mut());
    let lent: Vec<_> = tensors.iter().map(lend).collect();
    let content = |&tensor: &*mut ETTensor| ETValueContent { tensor };
    let values: Vec<_> =
        lent.iter().map(|tensor| ETValue { kind: ETValueKind::Tensor as i32, content: content(tensor) }).collect();
    let count = lent.len() as i32;
    let c_path = CString::new(path).expect("a path without zero bytes");
    // SAFETY: pointers are valid.
    check(unsafe { et_module_load_file(c_path.as_ptr(), &mut c_module) });
    // SAFETY: pointers are valid.
    check(unsafe { et_session_create(c_module, c"forward".as_ptr(), &mut c_session) });
    let results = session.run(&inputs).expect("a run");
    let targets: Vec<_> = results.iter().map(|result| lend(result.tensor().expect("a tensor"))).collect();

    let mut ways: [(&str, Box<dyn FnMut()>, Vec<f64>); 4] = [
        ("Module::forward", Box::new(|| drop(module.forward(&inputs).expect("a run"))), Vec::new()),
        (
            "et_module_forward",
            Box::new(|| {
                let (mut outputs, mut length) = (null_mut(), 0);
                // SAFETY: pointers are valid; the outputs are freed once.
                unsafe {
                    check(et_module_forward(c_module, lent.as_ptr(), count, &mut outputs, &mut length));
                    et_tensor_array_free(outputs, length);
                }
            }),
            Vec::new(),
        ),
        ("Session::run_with", Box::new(|| session.run_with(&inputs, |_| ()).expect("a run")), Vec::new()),
        (
            "et_session_run_into",
            Box::new(|| {
                let (into, length) = (targets.as_ptr(), targets.len() as i32);
                // SAFETY: pointers are valid.
                check(unsafe { et_session_run_into(c_session, values.as_ptr(), count, into, length) });
            }),
            Vec::new(),
        ),
    ];
    for _ in 0..ROUNDS {
        for (_, call, times) in &mut ways {
            let start = Instant::now();
            (0..BATCH).for_each(|_| call());
            times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
        }
    }
    for (name, _, times) in &mut ways {
        times.sort_by(f64::total_cmp);
        println!("{name:20} fastest {:6.0} ns, median {:6.0} ns", times[0], times[times.len() / 2]);
    }
}
