//! C programs that use the library as an application does.
#![cfg(unix)]
mod support;
use support::{array, compile, file, run, run_c, temporary};

const DIGITS: &str = "examples/digits/digits.pte";

#[test]
fn the_interface_of_executorch_native() {
    let (input, expected) = (array("examples/digits/digits.npz", "in0"), array("examples/digits/digits.npz", "out0"));
    let (_, log) = run_c("forward", &[&file(DIGITS), &input, &expected]);
    assert!(log.lines().any(|line| line.starts_with("[ExecuTorch] ran forward in ")), "{log}");
}

#[test]
fn many_threads() {
    let (input, expected) = (array("examples/digits/digits.npz", "in0"), array("examples/digits/digits.npz", "out0"));
    run_c("threads", &[&file(DIGITS), &input, &expected]);
}

#[test]
fn queued_calls() {
    let (input, expected) = (array("examples/digits/digits.npz", "in0"), array("examples/digits/digits.npz", "out0"));
    run_c("storm", &[&file(DIGITS), &input, &expected, "20"]);
}

#[test]
fn many_loads_and_damaged_programs() {
    let abs = file("tests/golden/samples/abs.float32.0.pte");
    let stress = compile(&format!("{}/tests/c/stress.c", env!("CARGO_MANIFEST_DIR")), "stress", true);
    run(&stress, &["loops", &abs, "50"]);
    run(&stress, &["resident", &abs, "1000", "256"]);
    for program in [&abs, &file(DIGITS), &file("tests/golden/cond.pte"), &file("tests/golden/xnnpack/xnnpack.pte")] {
        run(&stress, &["broken", program, "200"]);
    }
}

#[test]
fn operators_and_backends_of_the_application() {
    let scale = support::temporary("scale.pte");
    std::fs::write(&scale, scaling()).unwrap();
    run_c(
        "custom",
        &[&file("examples/custom-operator/soft_clip.pte"), &scale, &file("tests/golden/channels_last.pte")],
    );
}

/// A program whose one instruction is a delegate of `ScaleBackend`: four numbers times the weights 1, 2, 3 and 4, which the
/// payload names.
fn scaling() -> Vec<u8> {
    use sconce_format::ScalarType;
    use sconce_format::pte::model::*;
    let tensor = |offset, name: &str| Tensor {
        name: Some(name.to_owned()),
        ..Tensor::new(ScalarType::Float, [4], Storage::Planned(Memory { id: 1, offset }))
    };
    let mut plan = Plan::new("forward");
    let (x, y) = (plan.value(tensor(0, "x")), plan.value(tensor(16, "scaled")));
    plan.delegates.push(Delegate {
        backend: "ScaleBackend".into(),
        payload: b"weights".to_vec().into(),
        inline: false,
        specs: vec![CompileSpec { key: "unit".into(), value: b"metre".to_vec() }],
    });
    plan.push(Instruction::Delegate { delegate: 0, args: vec![x, y] });
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![y], vec![0, 32]);
    let weights: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let named_data = vec![NamedData { key: "weights".into(), data: weights.into() }];
    Program { plans: vec![plan], named_data, ..Program::default() }.write()
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

/// Ten images of digits, in order.
fn samples() -> Vec<String> {
    (0..10).map(|digit| file(&format!("examples/digits/samples/digit_{digit}_a.pgm"))).collect()
}

#[test]
fn the_c_example_recognises_digits() {
    let (samples, digits) = (samples(), file(DIGITS));
    let c = compile(&file("examples/c/classify.c"), "classify-c", true);
    for (digit, sample) in samples.iter().enumerate() {
        assert_eq!(run(&c, &[&digits, sample]).0, format!("This is a {digit}.\n"));
    }
}

/// The only test that asks for a C++ compiler; a machine without one leaves it out.
#[test]
fn the_cpp_example_recognises_digits() {
    if std::process::Command::new("c++").arg("--version").output().is_err() {
        return eprintln!("there is no c++ here: the C++ example is not tried");
    }
    let (samples, digits) = (samples(), file(DIGITS));
    let cpp = compile(&file("examples/cpp/classify.cpp"), "classify-cpp", true);
    let mut arguments = vec![digits.as_str()];
    arguments.extend(samples.iter().map(String::as_str));
    let expected: String = (0..10).map(|digit| format!("This is a {digit}.\n")).collect();
    assert_eq!(run(&cpp, &arguments).0, expected);
}

#[test]
fn the_program_in_the_readme_runs() {
    let readme = std::fs::read_to_string(file("README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let source = temporary("readme.c");
    std::fs::write(&source, program).unwrap();
    let mut command = std::process::Command::new(compile(&source, "readme", true));
    // See `run`: cargo's variable leads to another library.
    let output = command.env_remove("LD_LIBRARY_PATH").current_dir(file("examples/digits")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.trim().parse::<f32>().is_ok(), "{printed} {}", String::from_utf8_lossy(&output.stderr));
}
