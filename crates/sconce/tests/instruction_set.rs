//! A process settles on an instruction set with its first module. (A file of its own: it is a process of its own.)
use sconce::{Error, Options, instruction_set, instruction_sets};
use std::path::Path;

#[test]
fn the_first_module_decides() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/convnet.pte");
    let unknown = Options::new().instructions("abacus").load(program.as_path()).err();
    assert!(matches!(&unknown, Some(Error::InstructionSet { name, .. }) if name == "abacus"), "{unknown:?}");
    Options::new().instructions("scalar").load(program.as_path()).unwrap();
    assert_eq!(instruction_set().unwrap(), "scalar");
    Options::new().load(program.as_path()).unwrap();
    for name in instruction_sets().into_iter().filter(|name| *name != "scalar") {
        let late = Options::new().instructions(name).load(program.as_path()).err();
        assert!(matches!(late, Some(Error::InstructionsSettled { settled: "scalar", .. })), "{late:?}");
    }
}
