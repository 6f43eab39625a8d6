//! C programs that use the library as an application does.
mod support;
use support::{array, compile, file, run, run_c};

const DIGITS: &str = "examples/digits/digits.pte";

#[test]
fn the_interface_of_executorch_native() {
    let (input, expected) = (array("examples/digits/digits.npz", "in0"), array("examples/digits/digits.npz", "out0"));
    let (_, log) = run_c("forward", &[&file(DIGITS), &input, &expected]);
    assert!(log.lines().any(|line| line.starts_with("[ExecuTorch] ran forward in ")), "{log}");
}

#[test]
fn methods_sessions_options_and_memory_of_the_caller() {
    let raw = support::temporary("further-raw");
    std::fs::create_dir_all(&raw).unwrap();
    let goldens = [
        ("methods.encode", "encode"),
        ("methods.decode", "decode"),
        ("external_constants", "external"),
        ("dynamic_batch.b3", "batch"),
    ];
    for (golden, name) in goldens {
        for part in ["in0", "out0"] {
            let array = array(&format!("tests/golden/{golden}.npz"), part);
            std::fs::rename(array, format!("{raw}/{name}.{part}")).unwrap();
        }
    }
    run_c("further", &[&file("tests/golden"), &raw, &file(DIGITS)]);
}

#[test]
fn the_examples_recognise_digits() {
    let samples: Vec<_> = (0..10).map(|digit| file(&format!("examples/digits/samples/digit_{digit}_a.pgm"))).collect();
    let digits = file(DIGITS);
    let c = compile(&file("examples/c/classify.c"), "classify-c", true);
    for (digit, sample) in samples.iter().enumerate() {
        assert_eq!(run(&c, &[&digits, sample]).0, format!("This is a {digit}.\n"));
    }
    let cpp = compile(&file("examples/cpp/classify.cpp"), "classify-cpp", true);
    let mut arguments = vec![digits.as_str()];
    arguments.extend(samples.iter().map(String::as_str));
    let expected: String = (0..10).map(|digit| format!("This is a {digit}.\n")).collect();
    assert_eq!(run(&cpp, &arguments).0, expected);
}
