//! What ggml is given of the golden programs for it: everything. And each operator that it has is in one of them.

use sconce_compiler::{ggml, import, partition};
use sconce_pt2::Archive;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_operator_has_a_golden_program_and_all_of_it_is_delegated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ggml");
    let entries = std::fs::read_dir(folder).expect("the golden programs").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|own| own == "pt2")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut seen = BTreeSet::new();
    for path in paths {
        let file = std::fs::read(&path).expect("a golden program");
        let mut program = import(&Archive::read(&file).expect("an archive")).expect("a model");
        let own: Box<dyn partition::Partitioner> = Box::new(ggml::Ggml::default());
        let report = partition::partition(&mut program, &[own], &|_, _| Ok(())).expect("parts");
        assert_eq!(report.refused, [], "{}", path.display());
        let calls = program.delegates.iter().flat_map(|delegate| &delegate.calls);
        seen.extend(calls.filter_map(|call| call.operator().map(str::to_owned)));
    }
    let missing: Vec<&str> = ggml::operators().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "no golden program of tools/golden_ggml.py has {missing:?}");
}
