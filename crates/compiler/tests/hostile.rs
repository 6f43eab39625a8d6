//! Broken exports: golden `.pt2` files whose graphs were changed in ways that keep them readable, thousands of times.
//!
//! Every outcome must be a program or an error, with each partitioner and without. `MUTATIONS` sets the number; a failure
//! prints the file and the round that repeats it.
#[path = "../../sconce/tests/hostile/random.rs"]
mod random;

use random::Random;
use sconce_compiler::{Options, ggml::Ggml, partition::Partitioner, xnnpack::Xnnpack};
use sconce_pt2::Archive;
use serde_json::Value;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;

/// Numbers that break careless arithmetic.
const NASTY: [i64; 12] = [0, 1, -1, 2, 3, 7, -7, 255, 1 << 31, i64::MAX, i64::MIN, 1 << 40];

/// Calls `each` for every part of a document.
fn walk(value: &mut Value, each: &mut dyn FnMut(&mut Value)) {
    each(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, each)),
        Value::Object(items) => items.iter_mut().for_each(|(_, item)| walk(item, each)),
        _ => {}
    }
}

/// Changes one part of a document.
fn mutate(document: &mut Value, random: &mut Random) {
    let (mut parts, mut words) = (0, Vec::new());
    walk(document, &mut |part| {
        parts += 1;
        words.extend(part.as_str().map(str::to_owned));
    });
    let (chosen, kind, number) = (random.below(parts), random.below(4), NASTY[random.below(NASTY.len())]);
    let word = words.get(random.below(words.len())).cloned().unwrap_or_default();
    let place = random.next() as usize;
    let mut at = 0;
    walk(document, &mut |part| {
        at += 1;
        if at - 1 != chosen {
            return;
        }
        match part {
            Value::Number(_) => *part = number.into(),
            Value::String(text) => *text = word.clone(),
            Value::Bool(truth) => *truth = !*truth,
            Value::Array(items) if !items.is_empty() => {
                let place = place % items.len();
                match kind {
                    0 => drop(items.remove(place)),
                    1 => items.push(items[place].clone()),
                    2 => items.swap(0, place),
                    _ => items.clear(),
                }
            }
            _ => {}
        }
    });
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt2");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "pt2")).collect();
    files.sort();
    files
}

/// The graph in a file, as a document.
fn document(file: &[u8]) -> Value {
    let start = b"{\"graph_module\"";
    let place = file.windows(start.len()).position(|window| window == start).expect("a graph");
    serde_json::Deserializer::from_slice(&file[place..]).into_iter().next().expect("a graph").expect("a document")
}

/// A golden file: its archive, its graph as a document, and where it is.
type Loaded<'a> = (Archive<'a>, Value, &'a Path);

/// Changes a graph and compiles it: whether it could be read, and compiled.
fn changed_once(loaded: &[Loaded<'_>], round: usize) -> (bool, bool) {
    let (archive, original, path) = &loaded[round % loaded.len()];
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (round as u64 + 1));
    let mut changed = original.clone();
    (0..1 + random.below(3)).for_each(|_| mutate(&mut changed, &mut random));
    let Ok(program) = serde_json::from_value(changed) else { return (false, false) };
    let mut archive = archive.clone();
    archive.models[0].program = program;
    let partitioners: Vec<Box<dyn Partitioner>> = match round / loaded.len() % 3 {
        0 => vec![],
        1 => vec![Box::new(Xnnpack)],
        _ => vec![Box::new(Ggml::default())],
    };
    let options = Options { partitioners, ..Options::default() };
    let outcome = catch_unwind(AssertUnwindSafe(|| sconce_compiler::compile(&archive, &options).is_ok()));
    (true, outcome.unwrap_or_else(|_| panic!("{} in round {round}", path.display())))
}

#[test]
fn changed_graphs_give_programs_or_errors() {
    let number = std::env::var("MUTATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(4000);
    let files: Vec<_> = files().into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect();
    let loaded: Vec<Loaded<'_>> =
        files.iter().map(|(file, path)| (Archive::read(file).unwrap(), document(file), path.as_path())).collect();
    assert!(!loaded.is_empty(), "there are golden exports");
    let lanes = thread::available_parallelism().map_or(1, NonZero::get);
    let lane = |first: usize| (first..number).step_by(lanes).map(|round| changed_once(&loaded, round)).collect();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let start = |first| scope.spawn(move || -> Vec<_> { lane(first) });
        let running: Vec<_> = (0..lanes).map(start).collect();
        running.into_iter().flat_map(|lane| lane.join().expect("no round panics")).collect()
    });
    let read = outcomes.iter().filter(|(read, _)| *read).count();
    let compiled = outcomes.iter().filter(|(_, compiled)| *compiled).count();
    assert!(read > number / 4 && compiled > 0 && compiled < read, "{read} read, {compiled} compiled");
}

#[test]
fn changed_files_are_read_or_refused() {
    for path in files() {
        let file = std::fs::read(&path).unwrap();
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        for _ in 0..60 {
            let mut changed = file.clone();
            match random.below(3) {
                0 => changed.truncate(random.below(file.len())),
                _ => {
                    for _ in 0..1 + random.below(8) {
                        let at = random.below(changed.len());
                        changed[at] ^= 1 << random.below(8);
                    }
                }
            }
            let _ = Archive::read(&changed);
        }
    }
}
