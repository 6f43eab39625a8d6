//! A run that is like the ones before it takes no memory: every golden program, planned and operator by operator.
use sconce::core::ValueInfo;
use sconce::{Input, Options, Session, Tensor};
use std::path::{Path, PathBuf};

/// Inputs of zeros, with the largest sizes; nothing for what is recorded in the program.
fn zeros(session: &Session) -> Vec<Option<Tensor>> {
    let view = session.view();
    let zeros = (0..view.inputs()).map(|index| match view.input(index) {
        Some(ValueInfo::Tensor { dtype, shape, .. }) => Tensor::zeros(dtype, shape.sizes()).ok(),
        _ => None,
    });
    zeros.collect()
}

/// How many allocations the fourth run of each method makes; nothing for one that lacks a data file, or fails on zeros.
fn warm(file: &Path, plan: bool) -> Vec<(String, u64)> {
    let module = Options::new().threads(1).plan(plan).load(file).unwrap();
    let count = |method: String| {
        let mut session = module.method_session(&method).ok()?;
        let zeros = zeros(&session);
        let inputs: Vec<_> = zeros.iter().map(|zeros| zeros.as_ref().map_or(Input::Recorded, Input::Tensor)).collect();
        (0..3).try_for_each(|_| session.run_with(&inputs, |_| ())).ok()?;
        let counted = allocation_counter::measure(|| session.run_with(&inputs, |_| ()).unwrap());
        Some((method, counted.count_total))
    };
    module.methods().into_iter().filter_map(count).collect()
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "pte")).collect()
}

#[test]
fn a_warm_run_takes_no_memory() {
    let mut counted = 0;
    let mut failed = Vec::new();
    for (folder, plans) in [("", &[true, false][..]), ("xnnpack", &[true, false]), ("int8", &[true])] {
        for (file, &plan) in programs(folder).iter().flat_map(|file| plans.iter().map(move |plan| (file, plan))) {
            for (method, count) in warm(file, plan) {
                counted += 1;
                if count > 0 {
                    failed.push(format!("{} {method}, plan {plan}: {count}", file.display()));
                }
            }
        }
    }
    assert!(counted > 100 && failed.is_empty(), "{counted} runs; with allocations: {failed:#?}");
}
