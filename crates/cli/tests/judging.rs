//! `sconce check`: how outputs are judged, and what is told of those that pass.
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod support;

use sconce_format::pte::model::{Plan, Value};
use support::{Folder, floats, further, golden, quantised, sconce};

/// Checks a program on 1 and 2, which it should leave as they are, against other numbers.
fn check(folder: &Folder, program: &[u8], want: [f32; 2], arguments: &[&str]) -> (i32, String) {
    let path = folder.write("q.pte", program);
    let arrays = [("in0", &floats(&[1.0, 2.0], "2")), ("out0", &floats(&want, "2"))];
    folder.write_npz("q.npz", &arrays);
    let answer = sconce([&["check", &path], arguments].concat());
    (answer.code, answer.out.replace(&path, "q.pte"))
}

#[test]
fn an_output_may_be_a_step_off() {
    let folder = Folder::new("step");
    let program = quantised(|_, y| y);
    assert_eq!(check(&folder, &program, [1.0, 2.0], &[]), (0, "1 passed, 0 failed\n".to_owned()));
    let near = "ok   q.pte: out0 largest error 0.5, 1.00 of 1 step(s) of 0.5\n1 passed, 0 failed\n";
    assert_eq!(check(&folder, &program, [1.5, 2.0], &[]), (0, near.to_owned()));
    let (code, out) = check(&folder, &program, [1.0, 3.0], &[]);
    assert!(
        code == 1 && out.contains("largest error 1 at [1]: 2 instead of 3") && out.contains("2.00 steps of 0.5"),
        "{out}"
    );
    assert_eq!(check(&folder, &program, [1.0, 3.0], &["--steps", "2"]).0, 0);
    // As if nothing were quantised, and by tolerances alone.
    for arguments in [&["--steps", "0"][..], &["--rtol", "1e-3"], &["--atol", "1e-3"]] {
        assert_eq!(check(&folder, &program, [1.5, 2.0], arguments).0, 1, "{arguments:?}");
    }
    assert_eq!(check(&folder, &program, [1.5, 2.0], &["--rtol", "1e-3", "--steps", "1"]).0, 0);
}

#[test]
fn steps_are_found_behind_what_moves_numbers() {
    let folder = Folder::new("moves");
    let moved = |plan: &mut Plan<'static>, y: u32| {
        let (z, sum) = (further(plan, 48), further(plan, 64));
        let first = plan.value(Value::Int(0));
        let dims = plan.value(Value::IntList(vec![first]));
        plan.call("aten::permute_copy.out", [y, dims, z, z]);
        plan.call("aten::relu.out", [z, sum, sum]);
        sum
    };
    let (code, out) = check(&folder, &quantised(moved), [1.5, 2.0], &[]);
    assert!(code == 0 && out.contains("1.00 of 1 step(s) of 0.5"), "{out}");
}

#[test]
fn what_only_comes_of_quantised_values_is_held_to_wide_tolerances_and_that_is_told() {
    let folder = Folder::new("coarse");
    let doubled = |plan: &mut Plan<'static>, y: u32| {
        let (z, one) = (further(plan, 48), plan.value(Value::Int(1)));
        plan.call("aten::add.out", [y, y, one, z, z]);
        z
    };
    let program = quantised(doubled);
    let (code, out) = check(&folder, &program, [2.125, 4.0], &[]);
    assert!(code == 0 && out.contains("out0 largest error 0.125, held to rtol 0.04 and atol 0.1"), "{out}");
    let (code, out) = check(&folder, &program, [3.0, 4.0], &[]);
    assert!(code == 1 && out.contains("held to rtol 0.04 and atol 0.1"), "{out}");
    assert_eq!(check(&folder, &program, [2.125, 4.0], &["--steps", "0"]).0, 1);
}

#[test]
fn steps_are_found_in_payloads() {
    use sconce_format::{pte, xnnpack};
    let folder = Folder::new("payload");
    let file = std::fs::read(golden("xnnpack/xnnpack_quantized.pte")).unwrap();
    // What the output is converted from, by the program itself.
    let program = pte::model::Program::read(&file).unwrap();
    let payload = &program.plans[0].delegates.last().unwrap().payload;
    let graph = xnnpack::model::Graph::read(payload).unwrap();
    let last = graph.nodes.last().unwrap();
    assert_eq!(last.operation.name(), "Convert");
    let scales = graph.values.iter().filter_map(|value| match value.quantization {
        xnnpack::model::Quantization::PerTensor { scale, .. } => Some(scale),
        _ => None,
    });
    let scales: Vec<f32> = scales.collect();
    let path = folder.write("x.pte", &file);
    let npz = golden("xnnpack/xnnpack_quantized.npz");
    let answer = sconce(["run", &path, "--input", npz.to_str().unwrap(), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    let given = |values: &serde_json::Value| -> Vec<f32> {
        values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect()
    };
    let mut values = given(&report["outputs"][0]["values"]);
    let mut archive = zip::ZipArchive::new(std::fs::File::open(npz).unwrap()).unwrap();
    let mut input = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_name("in0.npy").unwrap(), &mut input).unwrap();
    // One number is a step off, for one of the scales.
    let original = values[0];
    let passes = |value: f32, values: &mut [f32]| {
        values[0] = value;
        folder.write_npz("x.npz", &[("in0", &input), ("out0", &floats(values, "1, 4"))]);
        sconce(["check", &path]).code == 0
    };
    let steps: Vec<f32> = scales.iter().copied().filter(|scale| passes(original + scale, &mut values)).collect();
    let largest = steps.iter().copied().fold(0.0, f32::max);
    assert!(largest > 0.0 && !passes(original + 1.5 * largest, &mut values), "{scales:?} {steps:?}");
    let answer = sconce(["check", &path, "--steps", "2"]);
    assert!(answer.out.contains("1.50 of 2 step(s)"), "{}", answer.out);
}

#[test]
fn nothing_checked_is_no_success() {
    let folder = Folder::new("nothing");
    folder.write("q.pte", &quantised(|_, y| y));
    let answer = sconce(["check", folder.root()]);
    assert_eq!((answer.code, answer.out.as_str()), (1, "0 passed, 0 failed, 1 skipped\n"));
    assert!(answer.err.contains("error: nothing was checked"), "{}", answer.err);
    let answer = sconce(["check", folder.root(), "--verbose"]);
    assert!(answer.out.starts_with("skip ") && answer.out.contains("no golden file"), "{}", answer.out);
    // A call without outputs to compare with is no check either.
    folder.write_npz("q.npz", &[("in0", &floats(&[1.0, 2.0], "2"))]);
    assert_eq!(sconce(["check", folder.root()]).code, 1);
}

#[test]
fn what_passed_is_named_on_request() {
    let folder = Folder::new("verbose");
    let (code, out) = check(&folder, &quantised(|_, y| y), [1.0, 2.0], &["-v"]);
    assert_eq!((code, out.as_str()), (0, "ok   q.pte: out0 largest error 0\n1 passed, 0 failed\n"));
}
