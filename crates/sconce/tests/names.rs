//! What inputs and outputs are called, from the export to errors.
#![cfg(feature = "compiler")]
use sconce::compile::{Archive, compile, options};
use sconce::{Module, Tensor};
use sconce_format::pte::model::{Program, Storage, Value};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// A golden export as a program.
fn program(name: &str, backends: &[&str]) -> Vec<u8> {
    let file = std::fs::read(golden(&format!("pt2/{name}.pt2"))).unwrap();
    let options = options(backends.iter().copied()).unwrap();
    compile(&Archive::read(&file).unwrap(), &options).unwrap().program
}

#[test]
fn names_are_those_of_the_export() {
    for backends in [&[][..], &["xnnpack"]] {
        // torch.export calls the first of `*inputs` so, and results after the operators that make them.
        let module = Module::load(&program("encoder", backends)).unwrap();
        let session = module.session().unwrap();
        let method = session.view();
        assert_eq!((method.input_name(0), method.output_name(0)), (Some("inputs_0"), Some("layer_norm_1")));
        assert_eq!((method.input_name(1), method.output_name(1)), (None, None));
        let wrong = Tensor::from_slice(&[0f32; 4], &[4]).unwrap();
        let error = module.forward(&[(&wrong).into()]).unwrap_err().to_string();
        assert!(error.starts_with("input 0 (inputs_0) of `forward` must be float32 [2, 3, 8]"), "{error}");
    }
}

#[test]
fn only_tensors_of_the_caller_get_names() {
    let mut exports: Vec<_> = std::fs::read_dir(golden("pt2")).unwrap().map(|entry| entry.unwrap().path()).collect();
    exports.retain(|path| path.extension().is_some_and(|kind| kind == "pt2"));
    let mut named = 0;
    for path in exports {
        let bytes = program(path.file_stem().unwrap().to_str().unwrap(), &[]);
        for plan in Program::read(&bytes).unwrap().plans {
            let callers: Vec<u32> = plan.inputs.iter().chain(&plan.outputs).copied().collect();
            for (value, index) in plan.values.iter().zip(0u32..) {
                let Value::Tensor(tensor) = value else { continue };
                let plain = matches!(tensor.storage, Storage::Planned(_) | Storage::Unplanned);
                assert!(tensor.name.is_none() || (plain && callers.contains(&index)), "{path:?}: {tensor:?}");
                named += usize::from(tensor.name.is_some());
            }
        }
    }
    assert!(named > 100, "{named}");
}

#[test]
fn other_programs_have_none() {
    let module = Module::load(golden("mlp.pte")).unwrap();
    let session = module.session().unwrap();
    assert_eq!((session.view().input_name(0), session.view().output_name(0)), (None, None));
    // The name of an external tensor is where its data are found, whoever asks.
    let module = sconce::Options::new().data(golden("external_constants.ptd")).load(golden("external_constants.pte"));
    let session = module.unwrap().session().unwrap();
    assert_eq!(session.view().input_name(0), None);
}
