//! Tensors that nothing bounds: memory grows while a program runs, and stays within the limit.
use sconce::compile::{Archive, compile, options};
use sconce::{Error, Input, Options, Tensor, Value};
use std::path::Path;

/// The golden program that repeats four rows as often as its second input says, compiled.
fn program() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt2/unbounded.pt2");
    let file = std::fs::read(path).unwrap();
    compile(&Archive::read(&file).unwrap(), &options(["xnnpack"]).unwrap()).unwrap().program
}

/// The number of rows in the first result.
fn rows(outputs: &[Value]) -> usize {
    outputs[0].tensor().unwrap().sizes()[0]
}

#[test]
fn memory_grows_once_and_stays() {
    let module = Options::new().threads(1).load(&program()[..]).unwrap();
    let mut session = module.session().unwrap();
    let x = Tensor::from_slice(&[0.5f32; 12], &[4, 3]).unwrap();
    let first = session.needs().total();
    let mut run = |times: [i64; 4]| {
        let times = Tensor::from_slice(&times, &[4]).unwrap();
        let outputs = session.run(&[Input::from(&x), Input::from(&times)]).unwrap();
        (rows(&outputs), session.needs().total())
    };
    let (small, large) = (run([1, 1, 1, 1]), run([100, 1, 1, 200]));
    assert_eq!((small.0, large.0), (8, 306));
    assert!(first < small.1 && small.1 < large.1);
    assert_eq!(run([1, 0, 0, 0]), (5, large.1));
    assert_eq!(run([100, 1, 1, 200]), large);
}

#[test]
fn the_limit_is_named_and_another_run_goes_on() {
    let limit = 1 << 20;
    let module = Options::new().threads(1).memory_limit(limit).load(&program()[..]).unwrap();
    let mut session = module.session().unwrap();
    let x = Tensor::from_slice(&[0.5f32; 12], &[4, 3]).unwrap();
    let mut run = |first: i64| {
        let times = Tensor::from_slice(&[0, first, 0, 0], &[4]).unwrap();
        session.run(&[Input::from(&x), Input::from(&times)])
    };
    let error = run(1_000_000).unwrap_err();
    assert!(matches!(&error, Error::MemoryLimit { bytes, limit: known, .. } if *bytes > limit && *known == limit));
    let text = error.to_string();
    assert!(text.contains("1048576") && text.contains("memory_limit"), "{text}");
    assert_eq!(rows(&run(3).unwrap()), 7);
}
