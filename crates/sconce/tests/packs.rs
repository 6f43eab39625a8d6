//! Weights that were packed before are used, and only those of the same program.
use sconce::{Module, Options, PackedWeights, Tensor, instruction_set, instruction_sets};
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of a golden program in a folder of its own.
struct Copy {
    folder: PathBuf,
    program: PathBuf,
}

impl Copy {
    fn of(name: &str, purpose: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/xnnpack").join(name);
        let folder = std::env::temp_dir().join(format!("sconce-packs-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("model.pte");
        fs::copy(from, &program).unwrap();
        Self { folder, program }
    }

    fn packed(&self) -> PathBuf {
        self.folder.join("model.packed.ptd")
    }

    fn pack(&self) {
        let bytes = Options::new().pack(&self.program, &instruction_sets()).unwrap();
        fs::write(self.packed(), bytes).unwrap();
    }

    /// The program's answer to ones, and what loading it warns of.
    fn run(&self, options: Options) -> (Vec<Vec<u8>>, Vec<String>) {
        let module: Module = options.load(&self.program).unwrap();
        let mut session = module.session().unwrap();
        let inputs: Vec<Tensor> = (0..session.view().inputs())
            .map(|index| match session.view().input(index) {
                Some(sconce::core::ValueInfo::Tensor { shape, .. }) => {
                    Tensor::from_slice(&vec![1.0f32; shape.sizes().iter().product()], shape.sizes()).unwrap()
                }
                other => panic!("{other:?} is no tensor"),
            })
            .collect();
        let inputs: Vec<_> = inputs.iter().map(Into::into).collect();
        let bytes = |value: &sconce::Value| value.tensor().unwrap().bytes().to_vec();
        let runs = [session.run(&inputs).unwrap(), session.run(&inputs).unwrap()];
        let [first, second] = runs.map(|outputs| outputs.iter().map(bytes).collect::<Vec<_>>());
        assert_eq!(first, second);
        (first, module.warnings().to_vec())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[test]
fn packed_weights_give_the_same_results() {
    for name in ["xnnpack_conv.pte", "xnnpack_quantized.pte", "xnnpack.pte"] {
        let copy = Copy::of(name, name);
        let before = copy.run(Options::new());
        copy.pack();
        assert_eq!(copy.run(Options::new()), before, "{name}");
        assert_eq!(copy.run(Options::new().copy(true)), before, "{name}");
        assert!(before.1.is_empty());
    }
}

#[test]
fn a_module_tells_what_became_of_packed_weights() {
    let copy = Copy::of("xnnpack_conv.pte", "told");
    let told = |options: Options| options.load(&copy.program).unwrap().packed_weights().cloned();
    assert_eq!(told(Options::new()), None);
    copy.pack();
    let used = |told| matches!(told, Some(PackedWeights::Used { file, layers: 1.. }) if file == copy.packed());
    assert!(used(told(Options::new())));
    assert_eq!(told(Options::new().packed(false)), None);
    // Those for the order without Winograd's method are others.
    let reason = match told(Options::new().exact(true)) {
        Some(PackedWeights::Unsuitable { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason, format!("it holds none for {} without Winograd's method", instruction_set().unwrap()));
    fs::write(copy.packed(), b"not a data file").unwrap();
    assert!(matches!(told(Options::new()), Some(PackedWeights::Refused { .. })));
}

/// If results follow the file, the file is what they are computed from.
#[test]
fn packed_weights_are_what_layers_use() {
    let copy = Copy::of("xnnpack_conv.pte", "used");
    let before = copy.run(Options::new());
    copy.pack();
    let mut bytes = fs::read(copy.packed()).unwrap();
    let start = bytes.len() / 2;
    bytes[start..].fill(0);
    fs::write(copy.packed(), bytes).unwrap();
    assert_ne!(copy.run(Options::new()).0, before.0);
    assert_eq!(copy.run(Options::new().packed(false)), before);
}

#[test]
fn files_of_other_programs_and_broken_ones_are_passed_over() {
    let copy = Copy::of("xnnpack_conv.pte", "stale");
    let before = copy.run(Options::new());
    copy.pack();
    let (packed, program) = (fs::read(copy.packed()).unwrap(), fs::read(&copy.program).unwrap());
    let warns = |copy: &Copy, word: &str| {
        let (outputs, warnings) = copy.run(Options::new());
        assert!(warnings.len() == 1 && warnings[0].contains(word), "{warnings:?} without `{word}`");
        outputs
    };
    fs::write(copy.packed(), &packed[..packed.len() / 2]).unwrap();
    assert_eq!(warns(&copy, "is not used"), before.0);
    fs::write(copy.packed(), b"not a data file").unwrap();
    assert_eq!(warns(&copy, "is not used"), before.0);
    // The last byte of the program is one of its weights.
    fs::write(copy.packed(), &packed).unwrap();
    let mut changed = program;
    let weight = changed.iter().rposition(|&byte| byte != 0).unwrap();
    changed[weight] ^= 1;
    fs::write(&copy.program, changed).unwrap();
    warns(&copy, "another version");
}

/// Constants of operators have no names that would tell.
#[test]
fn another_byte_of_any_constant_is_another_program() {
    let copy = Copy::of("../mlp.pte", "constants");
    copy.pack();
    let original = fs::read(&copy.program).unwrap();
    let module = Module::load(&copy.program).unwrap();
    assert!(module.warnings().is_empty());
    let file = module.program().file();
    let constants = file.program().constant_segment().unwrap();
    let segment = file.segment(constants.segment_index()).unwrap();
    let mut starts: Vec<u64> = constants.offsets().iter().skip(1).map(|offset| segment.start + offset).collect();
    assert_eq!(starts.len(), 4, "two layers of weights and biases");
    starts.push(segment.end);
    drop(module);
    for ends in starts.windows(2) {
        for at in [ends[0], ends[0].midpoint(ends[1]), ends[1] - 1] {
            let mut changed = original.clone();
            changed[usize::try_from(at).unwrap()] ^= 1;
            fs::write(&copy.program, changed).unwrap();
            let (_, warnings) = copy.run(Options::new());
            assert!(warnings.len() == 1 && warnings[0].contains("another version"), "{warnings:?} at {at}");
        }
    }
}

/// Who installs a program and its packed weights elsewhere gives them other times.
#[test]
fn copies_of_a_program_are_the_same_program() {
    for name in ["../mlp.pte", "xnnpack_conv.pte"] {
        let (copy, elsewhere) = (Copy::of(name, "here"), Copy::of(name, "elsewhere"));
        copy.pack();
        fs::copy(copy.packed(), elsewhere.packed()).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        fs::File::options().write(true).open(&elsewhere.program).unwrap().set_modified(later).unwrap();
        assert_eq!(elsewhere.run(Options::new()), copy.run(Options::new()));
        assert!(elsewhere.run(Options::new()).1.is_empty());
        assert!(elsewhere.run(Options::new().copy(true)).1.is_empty());
    }
}

#[test]
fn sets_that_this_machine_lacks_are_named() {
    let copy = Copy::of("xnnpack_conv.pte", "sets");
    let error = Options::new().pack(&copy.program, &["abacus"]).unwrap_err().to_string();
    assert!(error.contains("abacus") && error.contains("scalar"), "{error}");
}
