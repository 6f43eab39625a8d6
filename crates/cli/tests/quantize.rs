//! Quantised programs against the numbers of the network that they were made of.
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod support;

use support::{Folder, sconce};

fn data(name: &str) -> String {
    format!("{}/../compiler/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Compiles the small network and compares it with PyTorch's numbers; gives what was printed.
fn compile(folder: &Folder, arguments: &[&str]) -> String {
    let program = folder.path("small.pte");
    let (model, program) = (data("convolutions.pt2"), program.display().to_string());
    let command = [&["compile", &model, "-o", &program], arguments].concat();
    let compiled = sconce(command);
    assert_eq!(compiled.code, 0, "{}", compiled.err);
    let golden = data("convolutions.npz");
    let checked = sconce(["check", &program, &golden, "--rtol", "4e-2", "--atol", "1e-1"]);
    assert_eq!(checked.out, "1 passed, 0 failed\n", "{arguments:?}");
    compiled.out
}

#[test]
fn quantised_programs_stay_near_the_numbers() {
    let (folder, calibration) = (Folder::new("quantised"), data("calibration.npz"));
    for backend in ["portable", "xnnpack"] {
        let fixed = ["--quantize", "int8", "--calibrate", &calibration, "--backend", backend];
        let out = compile(&folder, &fixed);
        // Convolutions, sum, window, join, padding and so on: all that the network has but one activation.
        assert!(out.contains(" calls on integers") && out.contains("out0: "), "{out}");
        for scheme in ["int8-dynamic", "int4"] {
            let out = compile(&folder, &["--quantize", scheme, "--backend", backend]);
            assert!(out.contains("2 calls on integers"), "{out}");
        }
    }
}

#[test]
fn costs_are_json_on_request() {
    let folder = Folder::new("quantised-json");
    let out = compile(&folder, &["--quantize", "int8", "--calibrate", &data("calibration.npz"), "--json"]);
    let line = out.lines().last().unwrap_or_default();
    let cost: serde_json::Value = serde_json::from_str(line).unwrap();
    assert!(cost["outputs"][0]["decibels"].as_f64().unwrap() > 30.0, "{line}");
    let [before, after] = ["weight_bytes_before", "weight_bytes_after"].map(|name| cost[name].as_u64().unwrap());
    assert!(after * 2 < before, "{line}");
}

#[test]
fn what_cannot_be_calibrated_is_told() {
    let folder = Folder::new("quantised-wrong");
    let program = folder.path("small.pte").display().to_string();
    let model = data("convolutions.pt2");
    let groups = sconce(["compile", &model, "-o", &program, "--quantize", "int4", "--group-size", "7"]);
    assert!(groups.code == 2 && groups.err.contains("groups of 7"), "{}", groups.err);
    let lacking = folder.write_npz("lacking.npz", &[("other", &support::floats(&[1.0], "1"))]);
    let lacking = sconce(["compile", &model, "-o", &program, "--quantize", "int8", "--calibrate", &lacking]);
    assert!(lacking.code == 1 && lacking.err.contains("in0"), "{}", lacking.err);
}
