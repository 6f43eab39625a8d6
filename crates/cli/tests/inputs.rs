//! `sconce run`: where inputs come from, and what is told of the calls.
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod support;

use support::{Folder, adder, floats, golden, sconce};

fn digits(name: &str) -> String {
    golden("../../examples/digits").join(name).to_str().unwrap().to_owned()
}

#[test]
fn inputs_are_filled() {
    let folder = Folder::new("fill");
    let program = folder.write("sum.pte", &adder().write());
    let run = |with: &str| sconce(["run", &program, "--fill", with]).out;
    assert!(run("ones").contains("[2, 2, 2, 2]") && run("zeros").contains("[0, 0, 0, 0]"));
    let outputs = |text: String| text.lines().last().unwrap().to_owned();
    assert!(outputs(run("random")) == outputs(run("random")) && !run("random").contains("[0, 0"));
    assert_eq!(sconce(["run", &program, "--fill", "ones", "--input", "x.npy"]).code, 2);
}

#[test]
fn several_files_are_calls_of_their_own() {
    let (program, labels) = (digits("digits.pte"), digits("labels.txt"));
    let images: Vec<String> = (0..10).map(|digit| digits(&format!("samples/digit_{digit}_b.png"))).collect();
    let mut command = vec!["run", &program, "--labels", &labels];
    command.extend(images.iter().map(String::as_str));
    let answer = sconce(&command);
    assert_eq!(answer.code, 0, "{}", answer.err);
    for (digit, image) in images.iter().enumerate() {
        let line = answer.out.lines().find(|line| line.starts_with(image) && line.contains('%')).unwrap();
        assert!(line.ends_with(&format!(" %  {digit}")), "{line}");
    }
    assert!(answer.out.lines().last().unwrap().contains("10 call(s), the first in "), "{}", answer.out);
    // A folder stands for what is in it, two of each digit.
    let all = sconce(["run", &program, &digits("samples"), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&all.out).unwrap();
    assert_eq!(report.as_array().unwrap().len(), 20);
    // One that is no input does not keep the others from running.
    let answer = sconce(["run", &program, &images[0], &labels, &images[1]]);
    assert!(answer.code == 1 && answer.out.contains("FAIL ") && answer.out.contains("2 call(s)"), "{}", answer.out);
    let folder = Folder::new("several");
    let (sum, x) = (folder.write("sum.pte", &adder().write()), folder.write("x.npy", &floats(&[0.0; 4], "2, 2")));
    let answer = sconce(["run", &sum, &x, &x]);
    assert!(answer.code == 1 && answer.out.contains("is one input"), "{}", answer.out);
}

#[test]
fn first_runs_are_told_from_further_ones() {
    let answer = sconce(["run", &digits("digits.pte"), "--fill", "ones", "--repeat", "30"]);
    for words in [": first run in ", "30 more run(s): p50 ", " ms, p90 ", " ms, p99 ", " runs per second"] {
        assert!(answer.out.contains(words), "{words:?} in {}", answer.out);
    }
    let answer = sconce(["run", &digits("digits.pte"), "--fill", "ones", "--repeat", "30", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["repeated"]["runs"], 30);
    assert!(report["repeated"]["median_ms"].as_f64() <= report["repeated"]["p90_ms"].as_f64());
}

#[test]
fn what_was_done_to_images_is_told() {
    let sample = digits("samples/digit_3_a.png");
    let run = |arguments: &[&str]| sconce([&["run", &digits("digits.pte"), &sample], arguments].concat());
    assert!(run(&[]).out.contains(": 8x8, grey in 0..1, not normalised"));
    let out = run(&["--mean", "0.5", "--std", "2", "--crop"]).out;
    assert!(
        out.contains("8x8 resized to 8x8, the middle 8x8, grey in 0..1, less the mean 0.5 and divided by 2\n"),
        "{out}"
    );
    let answer = run(&["--preset", "imagenet"]);
    assert!(answer.code == 1 && answer.err.contains("3 values"), "{}", answer.err);
}

#[test]
fn labels_must_fit() {
    let folder = Folder::new("labels");
    let few = folder.write("few.txt", b"cat\ndog\n");
    let answer = sconce(["run", &digits("digits.pte"), "--fill", "ones", "--labels", &few]);
    assert_eq!(answer.code, 1);
    assert!(
        answer.err.contains("there are 2 labels, and 10 numbers along the last dimension of out0"),
        "{}",
        answer.err
    );
}

#[test]
fn inputs_go_by_the_names_of_the_export() {
    let folder = Folder::new("names");
    let program = folder.path("encoder.pte");
    let program = program.to_str().unwrap();
    let compiled = sconce(["compile", golden("pt2/encoder.pt2").to_str().unwrap(), "-o", program]);
    assert_eq!(compiled.code, 0, "{}", compiled.err);
    let inspected = sconce(["inspect", program]);
    assert!(inspected.out.contains("in0  inputs_0  float32 [2, 3, 8]\n"), "{}", inspected.out);
    let report: serde_json::Value = serde_json::from_str(&sconce(["inspect", program, "--json"]).out).unwrap();
    assert_eq!(report["methods"][0]["inputs"][0]["name"], "inputs_0");
    let x = floats(&(0..48).map(|value| value as f32).collect::<Vec<_>>(), "2, 3, 8");
    let run = |arrays: &[(&str, &Vec<u8>)]| {
        let inputs = folder.write_npz("x.npz", arrays);
        sconce(["run", program, "--input", &inputs])
    };
    let [by_name, by_number] = [run(&[("inputs_0", &x)]), run(&[("in0", &x)])];
    assert_eq!((by_name.code, by_name.out.lines().last()), (0, by_number.out.lines().last()), "{}", by_name.err);
    let both = run(&[("inputs_0", &x), ("in0", &x)]);
    assert!(both.code == 1 && both.err.contains("`inputs_0` and `in0` are the same"), "{}", both.err);
    let other = run(&[("y", &x)]);
    assert!(other.code == 1 && other.err.contains("in0, in1, ... or inputs_0; it has: y"), "{}", other.err);
    assert!(sconce(["run", program]).err.contains("nothing was given for inputs_0 (in0)"));
    // Golden files, too.
    let mut archive = zip::ZipArchive::new(std::fs::File::open(golden("pt2/encoder.npz")).unwrap()).unwrap();
    let mut array = |name: &str| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name(name).unwrap(), &mut bytes).unwrap();
        bytes
    };
    let (input, output) = (array("in0.npy"), array("out0.npy"));
    folder.write_npz("encoder.npz", &[("inputs_0", &input), ("layer_norm_1", &output)]);
    assert_eq!(sconce(["check", program]).out, "1 passed, 0 failed\n");
}

#[test]
fn a_program_has_its_backends() {
    let program = digits("digits.pte");
    for command in ["run", "bench", "pack"] {
        let answer = sconce([command, &program, "--backend", "xnnpack"]);
        assert!(answer.code == 2 && answer.err.contains("--backend has no effect"), "{command}: {}", answer.err);
    }
}

#[test]
fn packed_weights_are_told_of() {
    let folder = Folder::new("packed");
    std::fs::copy(digits("digits.pte"), folder.path("d.pte")).unwrap();
    let program = folder.path("d.pte");
    let run =
        |arguments: &[&str]| sconce([&["run", program.to_str().unwrap(), "--fill", "ones"], arguments].concat()).out;
    assert!(!run(&[]).contains("packed weights"));
    let packed = sconce(["pack", program.to_str().unwrap()]);
    assert!(packed.out.starts_with("wrote ") && packed.out.contains("KiB: weights for "), "{}", packed.out);
    assert!(run(&[]).contains("packed weights: used, "), "{}", run(&[]));
    let ignored = run(&["--exact"]);
    assert!(ignored.contains("packed weights: ignored, because it holds none for "), "{ignored}");
}
