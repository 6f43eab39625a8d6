//! The built command on programs that work, programs that cannot work, and files that are none.
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod support;

use support::{Folder, adder, counter, floats, golden, npy, sconce, shape_only};

#[test]
fn check_runs_a_folder_of_golden_programs() {
    let folder = Folder::new("folder");
    for name in ["no_constants.pte", "no_constants.npz", "passed_through.pte", "passed_through.npz"] {
        std::fs::copy(golden(name), folder.path(name)).unwrap();
    }
    let answer = sconce(["check", folder.root()]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "2 passed, 0 failed\n"));
    folder.write("alone.pte", &adder().write());
    assert_eq!(sconce(["check", folder.root()]).out, "2 passed, 0 failed, 1 skipped\n");
}

#[test]
fn check_tells_what_differs_and_where() {
    let folder = Folder::new("differs");
    let program = folder.write("sum.pte", &adder().write());
    let (x, y) = (floats(&[1., 2., 3., 4.], "2, 2"), floats(&[10., 20., 30., 40.], "2, 2"));
    let right = floats(&[11., 22., 33., 44.], "2, 2");
    folder.write_npz("sum.right.npz", &[("in0", &x), ("in1", &y), ("out0", &right), ("other", &x)]);
    let answer = sconce(["check", &program]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "1 passed, 0 failed\n"));
    let wrong = floats(&[11., 22., 33.5, 44.], "2, 2");
    let wrong = folder.write_npz("sum.wrong.npz", &[("in0", &x), ("in1", &y), ("out0", &wrong)]);
    let answer = sconce(["check", &program, &wrong]);
    assert_eq!(answer.code, 1);
    let line = format!(
        "FAIL {program} [wrong]: out0 largest error 0.5 at [1, 0]: 33 instead of 33.5 (1 of 4 elements differ)"
    );
    assert_eq!(answer.out, format!("{line}\n0 passed, 1 failed\n"));
    assert_eq!(sconce(["check", &program, &wrong, "--rtol", "0.1"]).out, "1 passed, 0 failed\n");
    assert_eq!(sconce(["check", folder.root()]).out.lines().last(), Some("1 passed, 1 failed"));
}

#[test]
fn check_counts_a_program_that_cannot_be_loaded() {
    let folder = Folder::new("broken");
    folder.write("sum.pte", b"ruined");
    let x = floats(&[1.], "1");
    folder.write_npz("sum.a.npz", &[("in0", &x)]);
    folder.write_npz("sum.b.npz", &[("in0", &x)]);
    let answer = sconce(["check", folder.root()]);
    assert_eq!(answer.code, 1);
    assert!(answer.out.starts_with("FAIL ") && answer.out.ends_with("0 passed, 2 failed\n"), "{}", answer.out);
}

#[test]
fn check_runs_steps_in_order_on_one_session_and_other_methods_by_name() {
    let folder = Folder::new("steps");
    folder.write("count.pte", &counter().write());
    // The counter starts at 100 and adds its input: after step n, with inputs 0 to n, it is 100 + n(n + 1) / 2.
    for step in 0u8..12 {
        let value = f32::from(step);
        let total = 100.0 + value * (value + 1.0) / 2.0;
        let arrays = [("in0", &floats(&[value], "1")), ("out0", &floats(&[total], "1"))];
        folder.write_npz(&format!("count.step{step}.npz"), &arrays);
    }
    let arrays = [("in0", &floats(&[3.], "1")), ("out0", &floats(&[9.], "1"))];
    folder.write_npz("count.square.npz", &arrays);
    let answer = sconce(["check", folder.root()]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "13 passed, 0 failed\n"), "{}", answer.err);
}

#[test]
fn check_reads_the_cases_of_a_bundle() {
    use sconce_format::bpte::model::{Bundle, Case, Suite, Tensor, Value};
    let tensor = |values: [f32; 4]| {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dtype = sconce_format::ScalarType::Float;
        Value::Tensor(Tensor { dtype, sizes: vec![2, 2], dim_order: vec![0, 1], data: data.into() })
    };
    let inputs = vec![tensor([1., 2., 3., 4.]), tensor([1., 1., 1., 1.])];
    let case = |last| Case { inputs: inputs.clone(), outputs: vec![tensor([2., 3., 4., last])] };
    let suites = vec![Suite { method: "forward".to_owned(), cases: vec![case(5.), case(6.)] }];
    let bundle = Bundle { version: 0, program: adder().write().into(), suites };
    let folder = Folder::new("bundle");
    let path = folder.write("sum.bpte", &bundle.write());
    let answer = sconce(["check", &path]);
    assert_eq!(answer.code, 1);
    assert!(answer.out.contains("[forward case 1]: out0 largest error 1 at [1, 1]"), "{}", answer.out);
    assert_eq!(answer.out.lines().last(), Some("1 passed, 1 failed"));
    let answer = sconce(["inspect", &path]);
    assert!(answer.out.contains("2 test case(s) for `forward`"), "{}", answer.out);
}

#[test]
fn run_takes_arrays_and_writes_outputs() {
    let folder = Folder::new("run");
    let program = folder.write("sum.pte", &adder().write());
    let x = folder.write("x.npy", &floats(&[1., 2., 3., 4.], "2, 2"));
    let y = folder.write("y.npy", &floats(&[0.5; 4], "2, 2"));
    let z = folder.path("z.npz");
    let answer = sconce(["run", &program, "--input", &x, "--input", &y, "--output", z.to_str().unwrap()]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(
        answer.out.contains("out0  float32 [2, 2]  [1.5, 2.5, 3.5, 4.5]  min 1.5  max 4.5  mean 3"),
        "{}",
        answer.out
    );
    let mut archive = zip::ZipArchive::new(std::fs::File::open(z).unwrap()).unwrap();
    let mut stored = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_name("out0.npy").unwrap(), &mut stored).unwrap();
    let values: Vec<u8> = [1.5f32, 2.5, 3.5, 4.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(stored.ends_with(&values));
    let answer = sconce(["run", &program, "--input", &x, "--input", &y, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["outputs"][0]["values"], serde_json::json!([1.5, 2.5, 3.5, 4.5]));
    let labels = folder.write("labels.txt", b"cat\ndog\n");
    let answer = sconce(["run", &program, "--input", &x, "--input", &y, "--labels", &labels]);
    // The softmax of 1.5 and 2.5 is 1 / (1 + e) = 0.2689.
    assert!(answer.out.contains("73.11 %  dog\n") && answer.out.contains("26.89 %  cat\n"), "{}", answer.out);
}

#[test]
fn run_says_what_is_wrong_with_inputs() {
    let folder = Folder::new("inputs");
    let program = folder.write("sum.pte", &adder().write());
    let good = folder.write("good.npy", &floats(&[0.; 4], "2, 2"));
    let long = folder.write("long.npy", &floats(&[0.; 6], "2, 3"));
    let double = folder.write("double.npy", &npy("<f8", "2, 2", &[0; 32]));
    let run = |inputs: &[&str]| {
        let inputs = inputs.iter().flat_map(|input| ["--input", *input]);
        let answer = sconce(["run", program.as_str()].into_iter().chain(inputs));
        (answer.code, answer.err)
    };
    let expect = |(code, text): (i32, String), want: i32, words: &[&str]| {
        assert_eq!(code, want, "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
    };
    expect(run(&[]), 1, &["nothing was given for in0", "in1  float32 [2, 2]", "hint: pass `--input"]);
    expect(run(&[&good]), 1, &["nothing was given for in1"]);
    expect(run(&[&good, &good, &good]), 1, &["no input left", "good.npy", "takes 2 input(s)"]);
    expect(run(&[&good, &long]), 1, &["input 1 of `forward` must be float32 [2, 2], but float32 [2, 3] was given"]);
    expect(run(&[&good, &double]), 1, &["but float64 [2, 2] was given", "astype(\"float32\")"]);
    expect(run(&[&good, "none.npy"]), 1, &["cannot read none.npy"]);
    expect(run(&[&good, "x.txt"]), 2, &["x.txt is no input"]);
    let unnamed = folder.write_npz("unnamed.npz", &[("arr_0", &floats(&[0.], "1"))]);
    expect(run(&[&unnamed]), 1, &["has no arrays in0", "arr_0"]);
}

#[test]
fn files_that_are_no_programs() {
    let folder = Folder::new("files");
    let whole = adder().write();
    let cut = folder.write("cut.pte", &whole[..whole.len() / 2]);
    let text = folder.write("text.pte", b"# A model\n\nDownload it from elsewhere.\n");
    let pointer = folder.write("pointer.pte", b"version https://git-lfs.github.com/spec/v1\n");
    let empty = folder.write("empty.pte", b"");
    for (path, words) in [
        ("missing.pte", ["cannot read missing.pte", "error: "]),
        (&text, ["not an ExecuTorch program", "hint: this looks like a text file"]),
        (&pointer, ["not an ExecuTorch program", "git lfs pull"]),
        (&cut, ["cut.pte: the file ", "error: "]),
        (&empty, ["truncated", "hint: the file is empty"]),
    ] {
        for command in ["run", "inspect", "bench"] {
            let answer = sconce([command, path]);
            assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{command} {path}");
            assert!(words.iter().all(|word| answer.err.contains(word)), "{words:?} in: {}", answer.err);
        }
    }
}

#[test]
fn programs_that_ask_for_what_is_not_there() {
    let folder = Folder::new("asks");
    let unknown = folder.write(
        "unknown.pte",
        &shape_only(|plan, x, y| {
            plan.call("mine::first.out", [x, y]);
            plan.call("mine::second", [x, y]);
        }),
    );
    let answer = sconce(["run", &unknown]);
    assert_eq!(answer.code, 1);
    assert!(answer.err.contains("mine::first.out, mine::second"), "{}", answer.err);
    let answer = sconce(["inspect", &unknown, "--plan"]);
    assert_eq!(answer.code, 0);
    for words in ["mine::second     not in this build", "scratch is unknown", "%0 float32[2]"] {
        assert!(answer.out.contains(words), "{words:?} in: {}", answer.out);
    }
    let report: serde_json::Value = serde_json::from_str(&sconce(["inspect", &unknown, "--json"]).out).unwrap();
    let method = &report["methods"][0];
    assert_eq!(
        method["operators"][0],
        serde_json::json!({ "name": "mine::first.out", "calls": 1, "once": 0, "planned": 0, "present": false })
    );
    assert_eq!(
        (&method["memory"]["scratch"], &method["memory"]["arenas"]),
        (&serde_json::Value::Null, &serde_json::json!([0, 24]))
    );

    let delegated = folder.write(
        "delegated.pte",
        &shape_only(|plan, x, y| {
            use sconce_format::pte::model::{Delegate, Instruction};
            let payload = vec![7; 5].into();
            plan.delegates.push(Delegate {
                backend: "MoonBackend".to_owned(),
                payload,
                inline: false,
                specs: Vec::new(),
            });
            plan.push(Instruction::Delegate { delegate: 0, args: vec![x, y] });
        }),
    );
    let answer = sconce(["run", &delegated]);
    assert_eq!(answer.code, 1);
    assert!(answer.err.contains("the backend(s) MoonBackend, which this build lacks; it has "), "{}", answer.err);
    let answer = sconce(["inspect", &delegated]);
    assert!(answer.out.contains("MoonBackend  5 bytes  not in this build"), "{}", answer.out);
}

#[test]
fn external_data_is_asked_for_and_found() {
    use sconce_format::pte::model::{Storage, Tensor};
    use sconce_format::{ScalarType, ptd};
    let folder = Folder::new("external");
    let program = folder.write(
        "lamp.pte",
        &shape_only(|plan, x, y| {
            let mut weight = Tensor::new(ScalarType::Float, [2], Storage::External(None));
            weight.name = Some("lamp.weight".to_owned());
            let weight = plan.value(weight);
            plan.call("aten::mul.out", [x, weight, y, y]);
        }),
    );
    let x = folder.write("x.npy", &floats(&[3., 4.], "2"));
    let answer = sconce(["run", &program, "--input", &x]);
    assert_eq!(answer.code, 1);
    assert!(answer.err.contains("hint: ") && answer.err.contains("--data"), "{}", answer.err);
    assert!(sconce(["inspect", &program]).out.contains("lamp.weight  8 bytes  not given"));

    let bytes: Vec<u8> = [2f32, 0.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let layout = ptd::model::Layout { dtype: ScalarType::Float, sizes: vec![2], dim_order: vec![0] };
    let entry = ptd::model::Entry { key: "lamp.weight".to_owned(), data: bytes.into(), layout: Some(layout) };
    let data = folder.write("lamp.ptd", &ptd::model::Data { version: 0, entries: vec![entry] }.write());
    let answer = sconce(["run", &program, "--input", &x, "--data", &data]);
    assert!(answer.out.contains("[6, 2]"), "{} {}", answer.out, answer.err);
    assert!(sconce(["inspect", &data]).out.contains("lamp.weight  float32 [2]  8 bytes"));
    folder.write_npz("lamp.npz", &[("in0", &floats(&[3., 4.], "2")), ("out0", &floats(&[6., 2.], "2"))]);
    assert_eq!(sconce(["check", &program]).out, "1 passed, 0 failed\n");
}

#[test]
fn inspect_says_how_many_calls_are_planned_and_why_not_all() {
    let folder = Folder::new("unplanned");
    let program = folder.write("sign.pte", &shape_only(|plan, x, y| plan.call("aten::sign.out", [x, y, y])));
    let said = "0 of 1 kernel calls are planned, in 0 run(s); aten::sign.out, instruction 0, is an operator that plans";
    let answer = sconce(["inspect", "--plan", &program]);
    assert!(answer.out.contains(said), "{}", answer.out);
    let report: serde_json::Value = serde_json::from_str(&sconce(["inspect", &program, "--json"]).out).unwrap();
    let planned = &report["methods"][0]["planned"];
    assert_eq!((&planned["calls"], &planned["of"]), (&0.into(), &1.into()));
    assert!(planned["reason"].as_str().is_some_and(|reason| reason.starts_with("aten::sign.out")));
}

#[test]
fn inspect_takes_the_time_of_steps() {
    let program = golden("xnnpack/xnnpack_conv.pte").display().to_string();
    let answer = sconce(["inspect", "--plan", "--profile", &program]);
    let total = answer.out.lines().find(|line| line.contains("million multiplications"));
    assert!(total.is_some_and(|line| line.contains(" ms, ") && line.contains("% of peak")), "{}", answer.out);
    assert!(answer.out.lines().any(|line| line.contains(" ms ") && line.contains("packed product")), "{}", answer.out);
    assert_eq!(sconce(["inspect", "--profile", &program]).code, 2);
    let answer = sconce(["inspect", "--plan", "--threads", "2", &program]);
    let (all, product) = ("steps, about ", "packed product");
    assert!(answer.out.lines().any(|line| line.contains(all) && line.contains(" ms, arena of ")), "{}", answer.out);
    let line = answer.out.lines().find(|line| line.contains(product)).unwrap_or_default();
    assert!(line.contains(" ms  ") && line.contains("tiles of ") && line.contains(" parts  <-  "), "{}", answer.out);
}

#[test]
fn bench_measures() {
    let folder = Folder::new("bench");
    let program = folder.write("sum.pte", &adder().write());
    let answer = sconce(["bench", &program, &program, "--json", "--seconds", "0.01", "--threads", "1", "--profile"]);
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report.as_array().map(Vec::len), Some(2), "{}", answer.err);
    let first = &report[0];
    assert_eq!((&first["file"], &first["threads"]), (&serde_json::json!(program), &serde_json::json!(1)));
    assert!(first["runs"].as_u64().is_some_and(|runs| (5..=500).contains(&runs)));
    let time = |key: &str| first[key].as_f64().unwrap();
    assert!(time("load_ms") > 0.0 && time("first_ms") > 0.0 && 0.0 < time("min_ms"));
    assert!(time("min_ms") <= time("median_ms"));
    assert_eq!(first["peak_rss_mb"].is_number(), cfg!(target_os = "linux"));
    assert_eq!((&first["operators"][0]["name"], &first["operators"][0]["calls"]), (&"aten::add.out".into(), &1.into()));
    assert!(sconce(["bench", &program, "--seconds", "0.01"]).out.starts_with("file "));
}

/// Python itself is left out: a shell stands for it.
#[cfg(unix)]
#[test]
fn bench_compares_with_what_another_program_measures() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("compare");
    let program = folder.write("sum.pte", &adder().write());
    let bench = |python: &str| sconce(["bench", &program, "--seconds", "0.01", &format!("--compare={python}")]);
    let start = r#"{"load_ms": 1.0, "first_ms": 2.0}"#;
    let turn = r#"{"times_ms": [1e9, 1e9]}"#;
    let script = format!("#!/bin/sh\ntest -f \"$4\" && echo '{start}' && while read turn; do echo '{turn}'; done\n");
    let script = folder.write("python", script.as_bytes());
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let answer = bench(&script);
    let official = answer.out.lines().find(|line| line.starts_with("  official"));
    assert!(official.is_some_and(|line| line.contains("1000000000.000 (")), "{} {}", answer.out, answer.err);
    assert!(answer.out.lines().any(|line| line.ends_with("x: ours is faster")), "{}", answer.out);
    let answer = bench("/nowhere/python");
    assert!(answer.code == 1 && answer.err.contains("/nowhere/python"), "{}", answer.err);
    let answer = bench("false");
    assert!(answer.code == 1 && answer.err.contains("--compare=PYTHON"), "{}", answer.err);
}

#[test]
fn usage_errors_and_completions() {
    assert_eq!(sconce(["run"]).code, 2);
    assert_eq!(sconce(["dance"]).code, 2);
    assert_eq!(sconce(["run", "x.pte", "--threads", "-1"]).code, 2);
    assert_eq!(sconce(["run", "x.pte", "--resize", "12"]).code, 2);
    for (arguments, words) in [
        (&["run", "x.pte", "--threads", "-1"][..], "a number of threads is 0"),
        (&["bench", "x.pte", "--seconds", "-1"], "a time is a number of seconds"),
        (&["check", "x.pte", "--rtol", "-1"], "a tolerance is a number"),
        (&["rnu"], "did you mean `sconce run`?"),
        (&["comiple", "x.pt2"], "did you mean `sconce compile`?"),
        (&["dance"], "the commands are run, inspect, check"),
    ] {
        let answer = sconce(arguments);
        assert!(answer.code == 2 && answer.err.contains(words), "{arguments:?}: {}", answer.err);
        assert!(!answer.err.contains("unexpected argument"), "{}", answer.err);
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let answer = sconce(["completions", shell]);
        assert!(answer.code == 0 && answer.out.contains("inspect"), "{shell}");
    }
}

#[test]
fn very_many_threads_are_a_few_with_one_warning() {
    let [one, two] = ["mlp.pte", "no_constants.pte"].map(|name| golden(name).to_str().unwrap().to_owned());
    let answer = sconce(["bench", &one, &two, "--threads", "10000", "--seconds", "0.01"]);
    let most = sconce::most_threads();
    assert_eq!(answer.err.matches("warning: 10000 threads").count(), 1, "{}", answer.err);
    assert!(answer.err.contains(&format!("{most} are used")), "{}", answer.err);
    assert!(
        sconce(["bench", &one, "--threads", "0", "--seconds", "0.01"])
            .err
            .lines()
            .all(|line| !line.contains("threads"))
    );
}

#[test]
fn digits_are_recognised() {
    let answer = sconce::<[&str; 0]>([]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.out.contains("This is a 3 (") && answer.out.contains("██"), "{}", answer.out);
    let digits = golden("../../examples/digits");
    let at = |name: &str| digits.join(name).to_str().unwrap().to_owned();
    for digit in 0..10 {
        let sample = at(&format!("samples/digit_{digit}_b.png"));
        let answer = sconce(["run", &at("digits.pte"), "--input", &sample, "--labels", &at("labels.txt"), "--json"]);
        let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
        assert_eq!(report["top"][0]["class"], serde_json::json!(digit));
        assert_eq!(report["top"].as_array().map(Vec::len), Some(5));
    }
}

#[test]
fn every_golden_program_passes() {
    let folders = [("", 80), ("calls", 250), ("samples", 300), ("xnnpack", 8), ("pt2", 30)];
    for ((folder, least), engine) in folders.into_iter().flat_map(|folder| [(folder, "auto"), (folder, "reference")]) {
        let answer = sconce(["check", "--steps", "0", "--engine", engine, golden(folder).to_str().unwrap()]);
        assert!(answer.code == 0 && answer.out.ends_with(" passed, 0 failed\n"), "{}{}", answer.out, answer.err);
        let passed = answer.out.lines().last().and_then(|line| line.split(' ').next()?.parse().ok());
        assert!(passed.is_some_and(|passed: usize| passed >= least), "{}", answer.out);
    }
    let answer = sconce(["check", golden("mlp.bpte").to_str().unwrap()]);
    assert_eq!(answer.out, "1 passed, 0 failed\n");
}

#[test]
fn exports_compile_for_a_backend() {
    let folder = Folder::new("compile");
    let entries: Vec<_> = std::fs::read_dir(golden("pt2")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut delegated = 0;
    for path in &entries {
        let copy = folder.path(path.file_name().unwrap().to_str().unwrap());
        if path.extension().is_some_and(|kind| kind == "npz") {
            std::fs::copy(path, copy).unwrap();
            continue;
        }
        let program = copy.with_extension("pte");
        let [from, to] = [path, &program].map(|path| path.to_str().unwrap());
        let answer = sconce(["compile", from, "--backend", "xnnpack", "-o", to]);
        assert!(answer.code == 0, "{}{}", answer.out, answer.err);
        delegated += usize::from(answer.out.contains("xnnpack "));
        // The same bytes each time.
        let first = std::fs::read(&program).unwrap();
        sconce(["compile", from, "--backend", "xnnpack", "-o", to]);
        assert!(std::fs::read(&program).unwrap() == first, "{from}");
    }
    assert!(delegated > 20, "{delegated}");
    let answer = sconce(["check", folder.root()]);
    assert!(answer.code == 0 && answer.out.ends_with(" passed, 0 failed\n"), "{}{}", answer.out, answer.err);
    let program = golden("pt2/encoder.pt2");
    let answer = sconce(["compile", program.to_str().unwrap(), "--backend", "tpu"]);
    assert!(answer.code == 2 && answer.err.contains("it has xnnpack"), "{}", answer.err);
}

#[test]
fn the_environment_names_the_instructions() {
    let command = |isa: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sconce"));
        let output = command.args(arguments).env("SCONCE_ISA", isa).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let program = golden("no_constants.pte");
    let program = program.to_str().unwrap();
    for isa in sconce::instruction_sets() {
        let (_, version, _) = command(isa, &["--version"]);
        assert!(version.contains(&format!("instructions: {isa} (of scalar")), "{version}");
        assert_eq!(command(isa, &["check", program]).1, "1 passed, 0 failed\n");
    }
    let (code, _, error) = command("abacus", &["inspect", program]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no instruction set `abacus`; it has scalar"), "{error}");
}
